"""live_jobs.py - jobs that say what a test wants (tests/support/live_job), and who serves their metrics.

Pages are in a private folder. Nothing depends on time: tests wait for what must happen, and the limit
is for what never does. main() reads PROGRAM LIVE_JOB [unittest arguments].
"""
import http.client
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIMIT_SECONDS = 100  # for what hangs
GIB = 1 << 30

_SAMPLE = re.compile(r'([a-z_]+)(?:\{(.*)\})? (\S+)')
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


class Programs:
    vramwise = ""
    live_job = ""


def samples(text: str) -> list:
    """(name, labels, value) of each line, the values as they stand there; labels still escaped."""
    found = []
    for line in text.split("\n"):
        if line and not line.startswith("#"):
            name, labels, value = _SAMPLE.fullmatch(line).groups()
            found.append((name, dict(_LABEL.findall(labels or "")), value))
    return found


class Job:
    """A process of live_job.c, of its own or below `vramwise run`."""

    def __init__(self, case, command=None, **variables):
        self.process = subprocess.Popen(
            command or [Programs.live_job], env={**case.environment, **variables},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        case.addCleanup(self.close)
        self.case = case

    def tell(self, *words) -> "Job":
        line = b"\t".join(word if isinstance(word, bytes) else word.encode() for word in words)
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()
        self.case.assertEqual(self.process.stdout.readline(), b"ready\n", words)
        return self

    def leak(self, step_count: int = 40, per_step: int = 1 << 20) -> "Job":
        return self.tell(f"steps={step_count}:{GIB + per_step}:{per_step}:{2 * GIB}")

    def end(self) -> int:
        self.process.stdin.close()
        return self.process.wait(LIMIT_SECONDS)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in self.process.stdin, self.process.stdout, self.process.stderr:
            stream.close()


class Server:
    """Somebody who serves at an address of ours."""

    def __init__(self, url: str):
        self.host, self.port = re.fullmatch(r"http://(.+):(\d+)/metrics", url).groups()
        self.port = int(self.port)

    def ask(self, path: str = "/metrics", method: str = "GET", host: str = "", body=None, token: str = ""):
        connection = http.client.HTTPConnection(self.host.strip("[]"), self.port,
                                                timeout=LIMIT_SECONDS)
        try:
            headers = {**({"Host": host} if host else {}),
                       **({"Authorization": f"Bearer {token}"} if token else {})}
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def scrape(self) -> str:
        status, _, body = self.ask()
        assert status == 200, body
        return body.decode("utf-8")


class FleetCase(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="fleet-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.pages = self.folder / "pages"
        self.pages.mkdir()
        self.environment = {
            name: value for name, value in os.environ.items()
            if not name.startswith(("VRAMWISE", "RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM", "TORCH"))}
        self.environment.update({"VRAMWISE_LIVE_DIR": str(self.pages), "LC_ALL": "C",
                                 "TMPDIR": str(self.folder), "XDG_RUNTIME_DIR": str(self.folder)})

    def job(self, **variables) -> Job:
        return Job(self, **variables)

    def exporter(self, listen: str = "0", *options, before=(), **more) -> Server:
        """`before` is a command that becomes it, such as setpriv."""
        process = subprocess.Popen([*before, Programs.vramwise, "exporter", "--listen", listen, *options],
                                   env=self.environment, text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

        def end(which: int = signal.SIGTERM) -> tuple:
            process.send_signal(which)
            _, said = process.communicate(timeout=LIMIT_SECONDS)
            return process.returncode, said

        self.addCleanup(lambda: process.poll() is None and end())
        server = Server(process.stdout.readline().strip())
        server.process, server.end = process, end
        return server

    def run_job(self, *options, **variables) -> Job:
        """A job below `vramwise run --metrics`, with `server`."""
        command = [Programs.vramwise, "run", "--metrics", "127.0.0.1:0", *options, "--",
                   Programs.live_job]
        job = Job(self, command, **variables)
        said = job.process.stderr.readline().decode()
        job.server = Server(re.fullmatch(r"vramwise: metrics are at (\S+)\n", said).group(1))
        return job

    def vramwise(self, *arguments, before=(), **more) -> subprocess.CompletedProcess:
        return subprocess.run([*before, Programs.vramwise, *arguments], env=self.environment, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False,
                              timeout=LIMIT_SECONDS, **more)

    def wait_until(self, is_so, what: str):
        """What `is_so` answers, once that is not false."""
        limit = time.monotonic() + LIMIT_SECONDS
        while time.monotonic() < limit:
            answer = is_so()
            if answer:
                return answer
            time.sleep(0.05)
        self.fail(f"{what}: not within {LIMIT_SECONDS} s")
        return None

    def tool(self, name: str) -> str:
        """The path of a program of Prometheus's; where setup.sh has run, it is there."""
        path = shutil.which(name)
        self.assertIsNotNone(path, f"{name} is missing: tools/setup.sh test installs it")
        return path

    def promtool(self, *arguments, limit: int = LIMIT_SECONDS, **more) -> None:
        result = subprocess.run([self.tool("promtool"), *map(str, arguments)], text=True,
                                capture_output=True, check=False, timeout=limit, **more)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)


def main() -> None:
    Programs.vramwise, Programs.live_job = map(os.path.abspath, sys.argv[1:3])
    unittest.main(module="__main__", argv=[sys.argv[0], *sys.argv[3:]])
