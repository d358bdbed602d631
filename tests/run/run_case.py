"""run_case.py - `vramwise run` on programs that use a made-up torch: what its tests share.

Everything is real but torch (tests/support/fake_torch_watch): processes, signals, files, Python's
start-up, and the doctor, who is given recordings of tests/data. A method's name is the sentence that
is true when it passes. Each file is called with the program, and what unittest takes.
"""
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RECORDINGS = ROOT / "tests/data/recordings"
FAKE_TORCH = ROOT / "tests/support/fake_torch_watch"
PROGRAM = ""
LIMIT_SECONDS = 100  # for what hangs

HOOK_FILES = ("_watch.py", "_budget.py", "_ending.py", "_fields.py", "_files.py", "_history.py", "_input.py",
              "_library.py", "_live.py", "_paths.py", "_program.py", "_steps.py",
              "_start/sitecustomize.py")

FAILS = "import torch\ntorch._C.allocate(7 << 30)\ntorch._C.allocate(2 << 30)\n"
CATCHES = """
import torch
torch._C.allocate(7 << 30)
for attempt in range(4):
    try:
        torch._C.allocate(2 << 30)
    except torch.OutOfMemoryError:
        pass
print("done")
"""


class RunCase(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="run-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.runtime = self.folder / "runtime"
        self.runtime.mkdir()
        self.here = self.folder / "here"
        self.here.mkdir()
        self.log = self.folder / "torch.log"
        self.environment = {
            name: value for name, value in os.environ.items()
            if not name.startswith(("VRAMWISE", "PYTHON", "RANK", "LOCAL_RANK", "SLURM", "FAKE_"))}
        self.environment.update({
            "PATH": f"{os.path.dirname(PROGRAM)}:{self.environment.get('PATH', '')}",
            "XDG_RUNTIME_DIR": str(self.runtime),
            "TMPDIR": str(self.folder),
            "LC_ALL": "C",
            "VRAMWISE_LIVE": "0",  # test_live.py has that
            "VRAMWISE_RUN_REPORT_SECONDS": "600",  # when the job has ended, however slow it is
            "PYTHONPATH": str(FAKE_TORCH),
            "PYTHONDONTWRITEBYTECODE": "1",
            "FAKE_TORCH_LOG": str(self.log),
            "FAKE_TORCH_SNAPSHOT": str(RECORDINGS / "doctor/oom_too_large.pickle.xz"),  # a small one
        })

    def script(self, text: str, name: str = "train.py") -> str:
        path = self.here / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def command(self, *arguments: str) -> list:
        return [PROGRAM, "run", *arguments]

    def run_it(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
        result = subprocess.run(self.command(*arguments), cwd=self.here, text=True, check=False,
                                env={**self.environment, **variables}, stdin=subprocess.DEVNULL,
                                capture_output=True, timeout=LIMIT_SECONDS)
        self.assertEqual(list(self.runtime.iterdir()), [], "the run's folder is left behind")
        return result

    def run_python(self, text: str, *options: str, **variables: str) -> subprocess.CompletedProcess:
        return self.run_it(*options, "--", sys.executable, self.script(text), **variables)

    def start(self, *arguments: str, **more) -> subprocess.Popen:
        process = subprocess.Popen(self.command(*arguments), cwd=self.here, env=self.environment,
                                   text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   stdin=subprocess.DEVNULL, **more)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        return process

    def read_verdict(self, process: subprocess.Popen) -> str:
        """What is said until the report has begun; the job is still at work then."""
        seen = ""
        while "Verdict:" not in seen:
            line = process.stderr.readline()
            self.assertNotEqual(line, "", seen)
            seen += line
        return seen

    def files(self, pattern: str) -> list:
        return sorted(path.name for path in self.here.glob(pattern))

    def log_lines(self, word: str) -> list:
        if not self.log.exists():
            return []
        return [line for line in self.log.read_text(encoding="utf-8").splitlines() if word in line]


def main() -> None:
    global PROGRAM
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
