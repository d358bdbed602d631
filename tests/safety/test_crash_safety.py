#!/usr/bin/env python3
"""test_crash_safety.py PROGRAM KILL_AT LIBRARIES CLASS - kill -9 at any moment leaves the old file or the new one.

Each thing that people keep is written over an older one while the writer is killed: a snapshot, a page, a job's report,
a baseline, a planned step, and the cache of compiled adapters. Whatever is under the name afterwards must be the old
content or the whole of the new one, and the next run must write as ever.

Exact: the kill comes before the N-th system call that can change a file, for every N (support/kill_at). Random: it
comes at a random time, VRAMWISE_KILLS times (1000) over all writers: `make crash-safety`.
"""
import hashlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RECORDING = ROOT / "tests/data/recordings/doctor/healthy_resnet.pickle.xz"
OTHER = ROOT / "tests/data/recordings/oom_fragmented.native.pickle.xz"
PROGRAM = KILL_AT = LIBRARIES = ""
LIMIT_SECONDS = 120
MOST_CALLS = 4000  # of a writer, that change files
KILLED = 137

WRITE_FILE = """
import sys
sys.path.insert(0, sys.argv[3])
from vramwise import _files
_files.write_whole(sys.argv[1], lambda file: [file.write(bytes([int(sys.argv[2])]) * 5000) for _ in range(40)])
"""


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


class Writer:
    """A command that writes `target`. `old` and `new` are the two contents, found by letting it end."""

    def __init__(self, case, name, new, old=None):
        self.case, self.name = case, name
        self.here = case.here / name
        self.here.mkdir()
        self.target = self.here / "target"
        self.new_command, self.old_command = new(self.target), (old or new)(self.target)
        self.old = self.written_by(self.old_command)
        shutil.copy(self.target, self.here / "old")
        self.new = self.written_by(self.new_command)

    def written_by(self, command):
        subprocess.run(command, cwd=self.here, env=self.case.environment, stdin=subprocess.DEVNULL, capture_output=True,
                       timeout=LIMIT_SECONDS, check=False)
        self.case.assertTrue(self.target.exists(), f"{self.name}: {command} wrote nothing")
        return digest(self.target)

    def begin(self):
        shutil.copy(self.here / "old", self.target)

    def check(self, when):
        found = digest(self.target)
        self.case.assertIn(found, (self.old, self.new), f"{self.name}: neither the old nor the new file after a kill {when}")
        return found == self.new


class CrashCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="crash-test-")
        self.addCleanup(folder.cleanup)
        self.here = pathlib.Path(folder.name)
        self.environment = {**os.environ, "LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1", "VRAMWISE_LIVE": "0",
                            "PYTHONPATH": str(ROOT / "python"), "VRAMWISE_LIBRARY_DIR": LIBRARIES, "TMPDIR": str(self.here)}

    def writers(self):
        job = self.here / "job"
        job.mkdir()
        shutil.copy(RECORDING, job / "run.rank0.pickle")
        python = [sys.executable, "-c"]
        yield Writer(self, "page", lambda to: [PROGRAM, "view", RECORDING, "-o", to, "--no-what-if"],
                     lambda to: [PROGRAM, "view", OTHER, "-o", to, "--no-what-if"])
        yield Writer(self, "baseline", lambda to: [PROGRAM, "check", RECORDING, "--write-baseline", to],
                     lambda to: [PROGRAM, "check", OTHER, "--write-baseline", to])
        yield Writer(self, "report", lambda to: [PROGRAM, "report", job, "-o", to], lambda to: [PROGRAM, "view", OTHER, "-o", to, "--no-what-if"])
        yield Writer(self, "step", lambda to: [PROGRAM, "plan", "--model", "gpt2", "--write-trace", to],
                     lambda to: [PROGRAM, "plan", "--model", "gpt2", "--batch", "2", "--write-trace", to])
        yield Writer(self, "package", lambda to: [*python, WRITE_FILE, to, "1", ROOT / "python"],
                     lambda to: [*python, WRITE_FILE, to, "2", ROOT / "python"])


class Exact(CrashCase):
    def test_a_kill_before_any_call_leaves_the_old_file_or_the_new_one(self):
        for writer in self.writers():
            with self.subTest(writer.name):
                self.sweep(writer)

    def test_a_file_that_is_written_in_place_is_noticed(self):
        writer = Writer(self, "in-place", lambda to: ["sh", "-c", f"echo new words > '{to}'"], lambda to: ["sh", "-c", f"echo old > '{to}'"])
        with self.assertRaisesRegex(AssertionError, "neither the old nor the new file"):
            self.sweep(writer)

    def sweep(self, writer):
        command, saw_old, saw_new = writer.new_command, False, False
        for nth in range(1, MOST_CALLS):
            writer.begin()
            result = subprocess.run([KILL_AT, str(nth), *command], cwd=writer.here, env=self.environment, stdin=subprocess.DEVNULL,
                                    capture_output=True, timeout=LIMIT_SECONDS, check=False)
            if result.returncode == 125:
                self.skipTest("programs cannot be traced here")
            is_new = writer.check(f"before call {nth}")
            if result.returncode != KILLED:
                break
            self.assertFalse(saw_new and not is_new, f"{writer.name}: the new file went away at call {nth}")
            saw_old, saw_new = saw_old or not is_new, saw_new or is_new
        self.assertTrue(saw_old, writer.name)
        self.assertEqual(digest(writer.target), writer.new, f"{writer.name}: a whole run after {nth - 1} kills")


class Random(CrashCase):
    """Minutes: `make crash-safety`."""

    def test_a_kill_at_any_time_leaves_the_old_file_or_the_new_one(self):
        chance = random.Random(30)
        kills = int(os.environ.get("VRAMWISE_KILLS", "1000"))
        writers = list(self.writers())
        found = {True: 0, False: 0}
        ended = 0
        spans = {}
        for writer in writers:
            began = time.monotonic()
            writer.written_by(writer.new_command)
            spans[writer.name] = time.monotonic() - began
        while found[True] + found[False] < kills:
            writer = writers[(found[True] + found[False] + ended) % len(writers)]
            writer.begin()
            process = subprocess.Popen(writer.new_command, cwd=writer.here, env=self.environment, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(chance.random() * spans[writer.name])
            process.kill()
            is_killed = process.wait() == -signal.SIGKILL
            is_new = writer.check("at a random time")
            if is_killed:
                found[is_new] += 1
            else:
                ended += 1
        print(f"{kills} kills: {found[False]} left the old file, {found[True]} the new one, none half of one; {ended} runs ended before")


if __name__ == "__main__":
    PROGRAM, KILL_AT, LIBRARIES = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:4])
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
