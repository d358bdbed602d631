#!/usr/bin/python3
"""test_dask.py PROGRAM [unittest arguments] - docs/fleet/spread_dask.py on a real Dask with four workers, one
of which is killed in the middle of a share.

Needs python3-distributed, and is no part of `make test`: `make test-fleet` runs it.
"""
import json
import os
import pathlib
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/report"))
from test_report import TRACEBACK, snapshot  # noqa: E402

PROGRAM = ""
WORKERS, SHARES, JOBS, RANKS = 4, 12, 20, 6
LIMIT_SECONDS = 120

# In place of vramwise: share 5 waits, and says whose it is, until the file `go` is there.
WRAPPER = """#!/bin/sh
case "$*" in
*"--share 5/"*)
    if [ ! -e "{here}/go" ]; then
        echo $PPID > "{here}/holder.part" && mv "{here}/holder.part" "{here}/holder"
        while [ ! -e "{here}/go" ]; do sleep 0.1; done
    fi;;
esac
exec "{program}" "$@"
"""


class Dask(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="dask-test-")
        self.addCleanup(folder.cleanup)
        self.here = pathlib.Path(folder.name)
        for job in range(JOBS):
            for rank in range(RANKS):
                path = self.here / f"jobs/job{job}/run.rank{rank}.pickle"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(snapshot([100, 20 + job])))
            if job % 3 == 0:
                (self.here / f"jobs/job{job}/slurm-7-1.out").write_text(TRACEBACK)
        tool = self.here / "tools/vramwise"
        tool.parent.mkdir()
        tool.write_text(WRAPPER.format(here=self.here, program=PROGRAM))
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        self.environment = {**os.environ, "PATH": f"{tool.parent}:{os.environ['PATH']}",
                            "DASK_SCHEDULER_ADDRESS": self.address}
        self.start("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", self.address.rsplit(":", 1)[1],
                   "--no-dashboard")
        self.workers = [self.start("distributed.cli.dask_worker", self.address, "--no-nanny", "--nthreads", "1",
                                   "--name", f"w{number}", "--no-dashboard", "--local-directory", str(self.here))
                        for number in range(WORKERS)]

    def start(self, module: str, *arguments) -> subprocess.Popen:
        with open(self.here / f"{module}.log", "a", encoding="utf-8") as log:
            process = subprocess.Popen([sys.executable, "-m", module, *arguments], env=self.environment, cwd=self.here,
                                       stdout=log, stderr=log, start_new_session=True)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process: subprocess.Popen) -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def single(self, *words) -> bytes:
        return subprocess.run([PROGRAM, *words], cwd=self.here, check=False, stdout=subprocess.PIPE).stdout

    def lose_a_worker(self, *words) -> bytes:
        """What the script says when the worker that holds share 5 is killed."""
        with subprocess.Popen([sys.executable, ROOT / "docs/fleet/spread_dask.py", *words], env=self.environment,
                              cwd=self.here, stdout=subprocess.PIPE) as running:
            holder, until = self.here / "holder", time.monotonic() + LIMIT_SECONDS
            while not holder.exists() and running.poll() is None and time.monotonic() < until:
                time.sleep(0.05)
            self.assertTrue(holder.exists(), "no worker took share 5")
            killed = int(holder.read_text())
            self.assertIn(killed, [worker.pid for worker in self.workers])
            os.killpg(killed, signal.SIGKILL)
            (self.here / "go").touch()
            merged = running.communicate(timeout=LIMIT_SECONDS)[0]
        self.assertEqual(running.returncode, 1)
        self.assertEqual(json.loads(merged)["files"]["recordings"], JOBS * RANKS)
        self.assertEqual(sum(worker.poll() is None for worker in self.workers), WORKERS - 1)
        return merged

    def test_a_report_loses_and_doubles_nothing_when_a_worker_is_killed(self):
        merged = self.lose_a_worker("report", "jobs", "out", str(SHARES), "--json", "-o", "dask.sqlite")
        self.assertEqual(merged, self.single("report", "--jobs", "jobs", "--json", "-o", "single.sqlite"))
        self.assertEqual((self.here / "dask.sqlite").read_bytes(), (self.here / "single.sqlite").read_bytes())

    def test_a_tuning_loses_and_doubles_nothing_when_a_worker_is_killed(self):
        merged = self.lose_a_worker("tune", "jobs", "out", str(SHARES), "--card", "130MiB", "--json")
        self.assertEqual(merged, self.single("tune", "--all", "jobs", "--card", "130MiB", "--json"))
        self.assertEqual(json.loads(merged)["best"]["fit"], 11)  # 100 MiB, and 20 to 30 more


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
