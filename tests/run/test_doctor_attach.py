#!/usr/bin/env python3
"""test_doctor_attach.py PROGRAM PYTHON NVML - `vramwise doctor --pid` of a process that is not ours.

PYTHON is a stand-in for Python 3.14 (tests/support/fake_python), torch is fake_torch_watch, and NVML the
one of fake_cuda. A method's name is the sentence that is true when it passes.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SNAPSHOT = ROOT / "tests/data/recordings/leak_loss.expand.pickle.xz"
PROGRAM = PYTHON = NVML = ""
LIMIT_SECONDS = 100  # for what hangs
GIB = 1 << 30
HAS_TORCH = "import torch; torch.cuda._lazy_init()"
NOT_ENTERED = r"vramwise doctor: process \d+ was not entered: (.*)\nWithout --attach, .*\n"


class Base(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="attach-test-")
        self.addCleanup(folder.cleanup)
        self.here = pathlib.Path(folder.name)
        (self.here / "pages").mkdir()
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("VRAMWISE", "PYTHON", "FAKE_"))}
        self.environment.update({
            "LC_ALL": "C", "VRAMWISE_LIVE_DIR": str(self.here / "pages"),
            "FAKE_PYTHON": str(self.here), "FAKE_PYTHON_REAL": sys.executable,
            "PYTHONPATH": str(ROOT / "tests/support/fake_torch_watch"),
            "PYTHONDONTWRITEBYTECODE": "1", "FAKE_TORCH_SNAPSHOT": str(SNAPSHOT),
            "FAKE_PYTHON_PROGRAM": HAS_TORCH, "ASAN_OPTIONS": "detect_leaks=0"})

    def start(self, *command, **variables):
        """A process that runs until the test ends."""
        process = subprocess.Popen(command or [PYTHON, "train.py"], cwd=self.here,
                                   env={**self.environment, **variables},
                                   stdin=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        while not command and not (self.here / "ready").exists():
            time.sleep(0.005)
        return process

    def doctor(self, process, *words, **variables):
        return subprocess.run([PROGRAM, "doctor", "--pid", str(process.pid), *words], text=True,
                              env={**self.environment, **variables}, capture_output=True,
                              timeout=LIMIT_SECONDS, check=False)


class Looking(Base):
    """Without --attach: only files are read."""

    def test_what_the_system_shows_is_told(self):
        process = self.start("sleep", "1000", PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:64")
        result = self.doctor(
            process, VRAMWISE_NVML=NVML, FAKE_CUDA_DEVICE_COUNT="2", FAKE_NVML_NAME="NVIDIA A10",
            FAKE_NVML_TOTAL=str(24 * GIB),
            FAKE_NVML_LIST=f"0:{process.pid}:{4 * GIB},0:{os.getpid()}:{GIB}")
        self.assertEqual((result.returncode, result.stderr), (1, ""))
        for words in (f"are held by process {process.pid} (sleep 1000)", "from a look from outside",
                      "process 4.00 GiB", "total 24.00 GiB", "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64",
                      "- Host memory: ", "- 1 thread (", "vramwise run sleep 1000"):
            self.assertIn(words, " ".join(result.stdout.split()))
        self.assertLessEqual(len(result.stdout.splitlines()), 24)

    def test_json_has_the_facts_and_the_source(self):
        process = self.start("sleep", "1000")
        found = json.loads(self.doctor(process, "--json").stdout)
        self.assertEqual((found["schema"], found["verdict"], found["source"]), (1, "unknown", "process"))
        self.assertEqual(found["file"], f"process {process.pid}")
        kinds = [finding["kind"] for finding in found["findings"]]
        self.assertEqual(kinds, ["unknown", "process"])

    def test_nothing_is_asked_of_the_process(self):
        process = self.start()
        self.assertEqual(self.doctor(process).returncode, 1)
        self.assertFalse((self.here / "question").exists())
        self.assertIsNone(process.poll())

    def test_a_process_that_is_not_there_is_said_to_be_missing(self):
        process = subprocess.Popen(["true"])
        process.wait()
        result = self.doctor(process)
        self.assertEqual((result.returncode, result.stderr),
                         (3, f"vramwise doctor: there is no process {process.pid}; no job publishes its "
                             "memory here\n"))


class Entering(Base):
    """With --attach."""

    def refused(self, result):
        self.assertEqual((result.returncode, result.stdout), (3, ""))
        match = re.fullmatch(NOT_ENTERED, result.stderr)
        self.assertIsNotNone(match, result.stderr)
        return match.group(1)

    def asked(self):
        """The file that the process was last asked to run."""
        return (self.here / "answered").read_text()

    def test_the_process_writes_a_snapshot_and_goes_on(self):
        process = self.start()
        result = self.doctor(process, "--attach")
        self.assertEqual((result.returncode, result.stderr), (1, ""))
        self.assertIn(f"Verdict: leak, high confidence, from a recording: process {process.pid}, entered\n",
                      result.stdout)
        self.assertIsNone(process.poll())
        self.assertFalse(pathlib.Path(self.asked()).parent.exists())  # nothing is left behind
        again = json.loads(self.doctor(process, "--attach", "--json").stdout)
        self.assertEqual((again["verdict"], again["source"]), ("leak", "recording"))

    def test_a_process_without_torch_or_without_cuda_says_so(self):
        process = self.start(FAKE_PYTHON_PROGRAM="pass")
        self.assertEqual(self.refused(self.doctor(process, "--attach")), "it has not imported torch")

    def test_a_process_that_has_not_started_cuda_says_so(self):
        process = self.start(FAKE_PYTHON_PROGRAM="import torch")
        self.assertEqual(self.refused(self.doctor(process, "--attach")),
                         "it has not used a GPU through PyTorch")

    def test_a_snapshot_that_fails_is_an_answer(self):
        process = self.start(FAKE_TORCH_CRASH="1")
        self.assertEqual(self.refused(self.doctor(process, "--attach")), "ZeroDivisionError: made up")
        self.assertFalse(pathlib.Path(self.asked()).parent.exists())

    def test_what_the_interpreter_says_is_passed_on(self):
        process = self.start()
        said = "RuntimeError: Remote debugging is not enabled in the remote process."
        self.assertEqual(self.refused(self.doctor(process, "--attach", FAKE_PYTHON_REFUSES=said)),
                         f"{PYTHON} says: {said}")

    def test_a_python_that_lets_nobody_in_is_not_asked(self):
        process = self.start(PYTHON_DISABLE_REMOTE_DEBUG="1")
        self.assertIn("told to let nobody in", self.refused(self.doctor(process, "--attach")))
        self.assertFalse((self.here / "question").exists())

    def test_a_program_that_is_no_python_or_an_older_one_is_refused_with_the_reason(self):
        process = self.start("sleep", "1000")
        self.assertIn("expected a Python program, found /", self.refused(self.doctor(process, "--attach")))
        if sys.version_info < (3, 14):
            process = self.start(sys.executable, "-c", "import time; time.sleep(1000)")
            while b"time" not in pathlib.Path(f"/proc/{process.pid}/cmdline").read_bytes():
                time.sleep(0.005)
            self.assertRegex(self.refused(self.doctor(process, "--attach")),
                             r"it runs Python 3\.\d+; expected 3\.14 or newer")

    def test_a_process_that_does_not_come_back_is_given_up_and_finds_nothing_missing_later(self):
        (self.here / "busy").touch()
        process = self.start()
        reason = self.refused(self.doctor(process, "--attach", VRAMWISE_ATTACH_SECONDS="0"))
        self.assertIn("it has not come back to its Python code for 0 s", reason)
        question = pathlib.Path((self.here / "question").read_text())
        self.assertTrue(question.exists())
        (self.here / "busy").unlink()
        while question.parent.exists():
            time.sleep(0.005)

    def test_attach_needs_a_process(self):
        result = subprocess.run([PROGRAM, "doctor", "--attach", "x"], text=True, capture_output=True,
                                env=self.environment, check=False)
        self.assertEqual((result.returncode, result.stderr.splitlines()[0]),
                         (2, "vramwise doctor: --attach needs --pid"))


if __name__ == "__main__":
    PROGRAM, PYTHON, NVML = (str(pathlib.Path(argument).resolve()) for argument in sys.argv[1:4])
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
