#!/usr/bin/env python3
"""test_run_leak.py PROGRAM LIVE_JOB [unittest arguments] - the leak guard of `vramwise run`.

The job is live_job (tests/support), which has a page whose steps grow and answers as Python would when it
is asked for a snapshot. A guard looks once a second: so all runs are started at once, and each test looks at
one of them. A method's name is the sentence that is true when it passes.
"""
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RECORDINGS = ROOT / "tests/data/recordings/doctor"
PROGRAM = LIVE_JOB = ""
LIMIT_SECONDS = 100  # for what hangs

GIB = 1 << 30
GROWTH = 10 << 20
LEAK = (f"program=train.py reserved_bytes={6 * GIB} device_total_bytes={24 * GIB} "
        f"device_free_bytes={17 * GIB} steps=400:{4 * GIB}:{GROWTH}:{6 * GIB} "
        f"live_bytes={4 * GIB + 399 * GROWTH} until=end ")
WARNING = (r"vramwise: a leak: process (\d+)(.*): GPU 0's memory grows by 10\.0 MiB per step; "
           r"memory runs out at about step 1947, in about \d+ \w+")
LINE = "vramwise: what grows is allocated at doctor_leaks.py:254 score_of"
ASKED = "vramwise: the job is asked to end, because of --on-leak=stop"
KILLED = "vramwise: the job has not ended, and is killed"
ANSWER = f"answer={RECORDINGS / 'leak_traceback.pickle.xz'} "


class Run:
    """One `vramwise run` in a folder of its own."""

    def __init__(self, folder: pathlib.Path, option: str, script: str, **variables: str) -> None:
        self.folder, self.here = folder, folder / "here"
        for name in ("here", "runtime", "pages"):
            (folder / name).mkdir(parents=True)
        self.environment = {
            name: value for name, value in os.environ.items()
            if not name.startswith(("VRAMWISE", "PYTHON", "RANK", "LOCAL_RANK", "SLURM"))}
        self.environment.update({
            "XDG_RUNTIME_DIR": str(folder / "runtime"), "TMPDIR": str(folder), "LC_ALL": "C",
            "VRAMWISE_LIVE_DIR": str(folder / "pages"), "job": LIVE_JOB, **variables})
        self.process = subprocess.Popen(
            [PROGRAM, "run", *shlex.split(option), "--", "sh", "-c", script], cwd=self.here,
            env=self.environment, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL)
        self.lines = []

    def read_until(self, words: str) -> None:
        while not any(words in line for line in self.lines):
            line = self.process.stderr.readline()
            if line == "":
                raise AssertionError(f"'{words}' was not said: {self.lines}")
            self.lines.append(line.rstrip("\n"))

    def end(self) -> int:
        """Lets the job end. The exit status; all that was said is in `lines`."""
        (self.here / "end").touch()
        self.lines += self.process.stderr.read().splitlines()
        return self.process.wait(LIMIT_SECONDS)

    def files(self) -> list:
        return sorted(path.name for path in self.here.glob("vramwise-*"))


# what is tried: the option, the script of the job, variables
RUNS = {
    "off": ("--on-leak=stop", f"VRAMWISE_LIVE=1 exec $job {LEAK}{ANSWER}", ("VRAMWISE_LIVE", "0")),
    "warn": ("", f"exec $job {LEAK}{ANSWER}"),
    "snapshot": ("--on-leak=snapshot",
                 "touch vramwise-leak-train-$$-rank3.pickle; "
                 "ln -s nowhere vramwise-leak-train-$$-rank3-2.pickle; "
                 f"exec $job {LEAK}{ANSWER} rank=3"),
    "stop": ("--on-leak stop", f"exec $job {LEAK}{ANSWER}"),
    "deaf": ("--on-leak=stop", f"trap '' TERM; $job {LEAK}{ANSWER} deaf=1 & wait",
             ("VRAMWISE_RUN_STOP_SECONDS", "0")),
    "dies": ("--on-leak=snapshot", f"exec $job {LEAK} dies=1"),
    "silent": ("--on-leak=snapshot", f"exec $job {LEAK}", ("VRAMWISE_RUN_LEAK_SECONDS", "0")),
    "slow": ("--on-leak=snapshot", f"exec $job {LEAK}{ANSWER}",
             ("VRAMWISE_RUN_DOCTOR_SECONDS", "0")),
    "stackless": ("", f"exec $job {LEAK}answer={RECORDINGS / 'leak_requests_no_stacks.pickle.xz'}"),
    "damaged": ("", f"head -c 300 {RECORDINGS / 'leak_requests.pickle.xz'} > cut; "
                    f"exec $job {LEAK}answer=cut"),
    "ranks": ("", f"for rank in 0 1 2; do $job {LEAK}answer=all rank=$rank ready=r$rank & done; "
                  "until [ -e r0 ] && [ -e r1 ] && [ -e r2 ]; do sleep 0.01; done; "
                  f"cp {RECORDINGS / 'leak_traceback.pickle.xz'} part; mv part all; wait"),
    "stranger": ("", f"env -u VRAMWISE_RUN $job {LEAK}ready=there & "
                     f"until [ -e there ]; do sleep 0.01; done; exec $job {LEAK}{ANSWER}"),
}


class Leaks(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="leak-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.runs = {name: Run(pathlib.Path(folder.name) / name, option, script, **dict(variables))
                    for name, (option, script, *variables) in RUNS.items()}
        for run in cls.runs.values():
            cls.addClassCleanup(run.process.stderr.close)
            cls.addClassCleanup(run.process.wait, LIMIT_SECONDS)
            cls.addClassCleanup((run.here / "end").touch)

    def told(self, name: str, last: str) -> Run:
        """The run, after its job was let go on until `last` was said, and has ended well."""
        run = self.runs[name]
        run.read_until(last)
        self.assertEqual(run.end(), 0, run.lines)
        self.assertRegex(run.lines[0], f"^{WARNING}$")
        self.assertEqual(sum("a leak:" in line for line in run.lines), 1)
        self.assertEqual(list((run.folder / "runtime").iterdir()), [], "the run's folder is left")
        return run

    def test_a_warning_names_pace_line_and_end_and_leaves_nothing_behind(self):
        run = self.told("warn", "allocated at")
        self.assertEqual(run.lines[1:], [LINE])
        self.assertEqual(run.files(), [])

    def test_without_pages_nobody_looks(self):
        self.runs["warn"].read_until("a leak:")  # which was started later
        run = self.runs["off"]
        self.assertIsNone(run.process.poll())
        self.assertEqual((run.end(), run.lines), (0, []))

    def test_a_snapshot_is_kept_under_a_name_that_no_file_has(self):
        run = self.told("snapshot", "vramwise doctor ")
        number, rank = re.match(WARNING, run.lines[0]).groups()
        self.assertEqual(rank, " (rank 3)")
        link, name = (f"vramwise-leak-train-{number}-rank3-{attempt}.pickle" for attempt in (2, 3))
        self.assertEqual(run.lines[1:], [LINE, f"vramwise: the snapshot is {name}", "  Next:",
                                         f"    vramwise doctor {name}"])
        self.assertEqual(run.files(), [link, name, f"vramwise-leak-train-{number}-rank3.pickle"])
        self.assertTrue((run.here / link).is_symlink())
        self.assertEqual((run.here / name).read_bytes(),
                         (RECORDINGS / "leak_traceback.pickle.xz").read_bytes())
        self.assertEqual((run.here / run.files()[2]).read_bytes(), b"")

    def test_stop_ends_the_job_and_the_status_is_the_jobs(self):
        run = self.runs["stop"]
        run.read_until(ASKED)
        run.process.wait(LIMIT_SECONDS)  # before anybody lets it end
        self.assertEqual(run.end(), 128 + signal.SIGTERM)
        self.assertEqual(len(run.files()), 1)

    def test_a_job_that_does_not_end_is_killed_with_its_ranks(self):
        run = self.runs["deaf"]
        run.read_until(KILLED)
        run.process.wait(LIMIT_SECONDS)
        self.assertIn(ASKED, run.lines)
        number = int(re.match(WARNING, run.lines[0]).group(1))
        deadline = time.monotonic() + LIMIT_SECONDS
        while os.path.exists(f"/proc/{number}/cmdline") and \
                pathlib.Path(f"/proc/{number}/cmdline").read_bytes():
            self.assertLess(time.monotonic(), deadline, "the rank is still there")
            time.sleep(0.01)
        self.assertEqual(run.end(), 128 + signal.SIGKILL)

    def test_a_process_that_dies_while_it_is_asked_is_told_of_without_a_line(self):
        run = self.runs["dies"]
        self.assertEqual(run.process.wait(LIMIT_SECONDS), 128 + signal.SIGKILL)
        run.end()
        self.assertEqual(len(run.lines), 1)
        self.assertRegex(run.lines[0], f"^{WARNING}$")
        self.assertEqual(run.files(), [])

    def test_without_an_answer_the_warning_has_no_line(self):
        run = self.told("silent", "a leak:")
        self.assertEqual(len(run.lines), 1)

    def test_a_doctor_that_takes_too_long_is_not_waited_for_and_the_snapshot_is_kept(self):
        run = self.told("slow", "vramwise doctor ")
        self.assertIn("the snapshot is", run.lines[1])
        self.assertEqual(len(run.files()), 1)

    def test_a_snapshot_without_stacks_or_none_at_all_gives_no_line(self):
        run = self.told("stackless", "a leak:")
        self.assertEqual(len(run.lines), 1)
        run = self.runs["damaged"]
        run.read_until("a leak:")
        self.assertEqual(run.end(), 0)
        self.assertIn("the doctor cannot read the snapshot", run.lines[0])
        self.assertEqual(len(run.lines), 2)

    def test_ranks_that_leak_alike_are_one_warning(self):
        run = self.told("ranks", "allocated at")
        self.assertRegex(run.lines[0], r"\(rank \d\), and 2 other ranks: ")

    def test_a_leak_of_somebody_else_is_not_the_runs(self):
        run = self.told("stranger", "allocated at")
        self.assertEqual(re.match(WARNING, run.lines[0]).group(2), "")


if __name__ == "__main__":
    PROGRAM, LIVE_JOB = (str(pathlib.Path(argument).resolve()) for argument in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
