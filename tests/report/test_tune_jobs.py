#!/usr/bin/env python3
"""test_tune_jobs.py PROGRAM [unittest arguments] - `vramwise tune --all`: one setting for many jobs.

A method's name is the sentence that is true when it passes. Nothing depends on time: the limit is for
what never ends.
"""
import csv
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import test_report
import test_report_jobs
from test_report import RECORDINGS, snapshot

VARLEN = [RECORDINGS / f"oom_varlen.{name}.pickle.xz" for name in ("gc6", "split128")]
EVALUATION = RECORDINGS / "eval_with_grad.native.pickle.xz"
FRAGMENTED = [RECORDINGS / f"oom_fragmented.{name}.pickle.xz" for name in ("expand", "gc6", "native")]


class TuneCase(test_report_jobs.JobsCase):
    def tune(self, *arguments, **more) -> subprocess.CompletedProcess:
        settings = {"cwd": self.here, "env": self.environment, "stdin": subprocess.DEVNULL, "capture_output": True,
                    "text": True, "timeout": test_report.LIMIT_SECONDS, "check": False, **more}
        return subprocess.run([test_report.PROGRAM, "tune", *map(str, arguments)], **settings)

    def json(self, *arguments, status: int = 1) -> str:
        done = self.tune(*arguments, "--json")
        self.assertEqual((done.returncode, done.stderr), (status, ""))
        return done.stdout

    def put_recordings(self) -> None:
        """At 12 GiB the first two fit only with expandable segments, the third not at all."""
        for number, recording in enumerate([*VARLEN, EVALUATION]):
            self.put(f"job{number}/run.pickle.xz", recording)


class Settings(TuneCase):
    def test_the_answer_comes_first_and_says_what_it_gains(self):
        self.put_recordings()
        done = self.tune("--all", "jobs", "--card", "12GiB")
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        answer = " ".join(done.stdout.split("\nPYTORCH", 1)[0].split())
        self.assertEqual(answer, "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True for all 3 jobs: 2 fit in "
                                 "12.00 GiB (0 with the recorded settings); 1 needs more memory whatever the setting")
        self.assertIn("\nPYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n", done.stdout)
        self.assertRegex(done.stdout, r"too large +job2\n")
        self.assertRegex(done.stdout, r"fits now +job0\n")
        self.assertRegex(done.stdout, r" native\n(.*\n)* .* recorded\n")
        self.assertTrue(all(len(line) <= 80 for line in done.stdout.splitlines()), done.stdout)

    def test_its_figures_are_those_of_tune_on_each_recording(self):
        for recording in (VARLEN[0], FRAGMENTED[2]):
            self.put("one/run.pickle.xz", recording)
            single = json.loads(self.tune(recording, "--card", "12GiB", "--json").stdout)
            found = json.loads(self.json("--all", "jobs", "--card", "12GiB", status=0))
            tried = {(run["policy"], run["conf"]): run for run in single["tried"]}
            compared = 0
            for setting in found["settings"]:
                run = tried.get((setting["policy"], setting["conf"]))
                if run is None:  # the same as another, or left out where it can have no effect
                    continue
                compared += 1
                self.assertEqual(setting["fit"], int(run["completed"]), setting)
                if run["completed"]:
                    self.assertEqual(setting["peak_reserved_bytes"], run["peak_reserved_bytes"])
                    self.assertEqual(setting["retries"], run["retries"])
                    self.assertEqual(setting["driver_us"], run["device_us"])
                    self.assertEqual(setting["driver_calls"], sum(run["device_calls"].values()))
            self.assertGreaterEqual(compared, 12)
            self.assertEqual(found["recorded"]["fit"], int(single["recorded"]["completed"]))

    def test_jobs_that_need_another_setting_are_a_kind_of_their_own(self):
        for number, recording in enumerate([*FRAGMENTED, VARLEN[0]]):
            self.put(f"job{number}/run.pickle.xz", recording)
        found = json.loads(self.json("--all", "jobs", "--card", "8GiB"))
        self.assertGreater(found["kinds_fit"], found["best"]["fit"])
        self.assertEqual(sum(kind["best"]["fit"] for kind in found["kinds"]), found["kinds_fit"])
        for job in found["jobs"]:
            self.assertEqual(job["fits"], job["kind"] is not None)
        self.assertIn("with a setting for each kind of job, 3 fit", self.tune("--all", "jobs", "--card", "8GiB").stdout)

    def test_a_manifest_names_the_kinds(self):
        self.put_recordings()
        table = "".join(f"jobs/job{number}/run.pickle.xz\tj{number}\t{kind}\n"
                        for number, kind in enumerate(("text", "text", "vision")))
        (self.here / "jobs.tsv").write_text(f"path\tjob\tkind\n{table}")
        found = json.loads(self.json("--all", "jobs.tsv", "--card", "12GiB"))
        self.assertEqual([(kind["kind"], kind["best"]["fit"]) for kind in found["kinds"]], [("text", 2), ("vision", 0)])
        self.assertIsNone(found["kinds"][1]["best"]["policy"])

    def test_a_list_may_come_from_standard_input(self):
        self.put_recordings()
        names = "".join(f"{path}\n" for path in sorted(self.jobs.rglob("*.xz")))
        done = self.tune("--all", "-", "--card", "12GiB", "--json", stdin=None, input=names)
        self.assertEqual(len(json.loads(done.stdout)["jobs"]), 3, done.stderr)

    def test_the_settings_are_a_table_for_other_programs(self):
        self.put_recordings()
        done = self.tune("--all", "jobs", "--card", "12GiB", "--csv")
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        found = json.loads(self.json("--all", "jobs", "--card", "12GiB"))
        self.assertEqual([row["conf"] for row in rows], [setting["conf"] for setting in found["settings"]])
        self.assertEqual(rows[0]["fit"], "2")

    def test_everything_that_fits_exits_with_0(self):
        self.put_jobs()
        found = json.loads(self.json("--all", "jobs", "--card", "1GiB", status=0))
        self.assertEqual(found["best"]["fit"], 4)
        self.assertTrue(found["recorded_is_best"])
        self.assertIn("Keep the recorded settings for all 4 jobs", self.tune("--all", "jobs", "--card", "1GiB").stdout)

    def test_what_cannot_be_replayed_is_named(self):
        self.put_jobs()
        self.put("job1/broken.json", "{\"segments\": [, ")
        self.put("job2/\x1b[2J.json", "{\"segments\": [")
        done = self.tune("--all", "jobs", "--card", "1GiB")
        self.assertEqual(done.returncode, 1)
        self.assertIn("2 recordings cannot be replayed\n- broken.json of job job1: JSON, line 1", done.stdout)
        self.assertNotIn("\x1b", done.stdout)

    @unittest.skipUnless(os.geteuid() == 0, "only root can make a link somebody else's")
    def test_a_link_that_somebody_else_planted_is_not_followed(self):
        self.put_jobs(jobs=2)
        secret = self.here / "secret.pickle"
        secret.write_bytes((self.jobs / "job0/run.rank0.pickle").read_bytes())
        (self.jobs / "job0/run.rank9.pickle").symlink_to(secret)
        self.assertEqual(self.tune("--all", "jobs", "--card", "1GiB").returncode, 0)
        os.lchown(self.jobs / "job0/run.rank9.pickle", 65534, 65534)
        done = self.tune("--all", "jobs", "--card", "1GiB")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("run.rank9.pickle of job job0: a link of user 65534", " ".join(done.stdout.split()))

    def test_memory_is_bounded_by_the_option(self):
        self.put_jobs()
        done = self.tune("--all", "jobs", "--card", "1GiB", "--max-memory", "2KiB")
        self.assertEqual(done.returncode, 3)
        self.assertIn("more memory than it may take", done.stderr)

    def test_wrong_usage_is_said(self):
        self.put_jobs()
        for words, message in (
                (("--all", "jobs"), "--card is needed"),
                (("--all", "--card", "1GiB"), "expected one folder, not 0"),
                (("--all", "jobs", "jobs", "--card", "1GiB"), "expected one folder, not 2"),
                (("--all", "", "--card", "1GiB"), "the name of the folder is empty"),
                (("--all", "jobs", "--card", "1GiB", "--device", "0"), "--device: "),
                (("--all", "jobs", "--card", "1GiB", "--top", "x"), "--top: expected a number"),
                (("--all", "jobs", "--card", "1GiB", "--torch", "0.1"), "0.1"),
                (("--all", "jobs", "--card", "1GiB", "--share", "1/2"), "expected --state"),
                (("--all", "jobs", "--card", "1GiB", "--share", "3/2", "--state", "s"), "expected K/N"),
                (("--all", "jobs", "--card", "1GiB", "--share", "1/2", "--state", "s", "--csv"), "has no report"),
                (("--merge", "s", "--card", "1GiB"), "--merge reads states"),
                (("jobs/job0/run.rank0.pickle", "--card", "1GiB", "--state", "s"), "go with --all")):
            done = self.tune(*words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertIn(message, done.stderr)
        for words in (("--all", "nowhere", "--card", "1GiB"), ("--merge", "nowhere"), ("--all", "jobs/job0", "--card", "1GiB")):
            self.assertEqual(self.tune(*words).returncode, 3, words)


class Shares(TuneCase):
    def test_merged_shares_are_the_single_answer_byte_for_byte(self):
        self.put_recordings()
        self.put_jobs(jobs=6)
        self.put("job1/broken.json", "{\"segments\": [, ")
        for share in range(1, 6):
            done = self.tune("--all", "jobs", "--card", "12GiB", "--share", f"{share}/5", "--state", f"part{share}")
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        parts = [f"part{share}" for share in (3, 1, 5, 2, 4)]
        for form in (("--json",), ("--csv",), (), ("--top", "0")):
            self.assertEqual(self.tune("--merge", *parts, *form).stdout,
                             self.tune("--all", "jobs", "--card", "12GiB", *form).stdout)
        lacking = self.tune("--merge", *parts[1:])
        self.assertEqual(lacking.returncode, 3)
        self.assertIn("have no result", lacking.stderr)

    def test_a_tuning_that_is_killed_goes_on_where_it_was(self):
        self.put_jobs(jobs=100, ranks=4)
        words = ("--all", "jobs", "--card", "1GiB")
        whole = self.json(*words, status=0)
        part = self.here / "state/tune.part"
        for size in (50_000, 200_000):  # kills it when so much is kept
            with subprocess.Popen([test_report.PROGRAM, "tune", *words, "--state", "state"], cwd=self.here,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
                while running.poll() is None and not (part.exists() and part.stat().st_size > size):
                    time.sleep(0.001)
                running.send_signal(signal.SIGKILL)
        self.assertEqual(self.json(*words, "--state", "state", status=0), whole)

    def test_a_recording_that_has_changed_is_tried_again(self):
        self.put_jobs()
        words = ("--all", "jobs", "--card", "150MiB", "--state", "state")
        self.json(*words)
        self.put("job3/run.rank2.pickle", snapshot([100, 20]))  # smaller than it was
        self.assertEqual(json.loads(self.json(*words, status=0))["best"]["fit"], 4)


class Examples(TuneCase, test_report_jobs.Examples):
    """docs/fleet: the scripts spread a tuning as they do a report."""

    COMMAND, MANY, OPTIONS = "tune", "--all", ("--card", "150MiB")


if __name__ == "__main__":
    test_report.PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
