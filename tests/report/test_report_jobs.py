#!/usr/bin/env python3
"""test_report_jobs.py PROGRAM [unittest arguments] - `vramwise report` on many jobs.

A method's name is the sentence that is true when it passes. Nothing depends on time: the limit is for
what never ends.
"""
import csv
import ctypes
import io
import json
import os
import pathlib
import resource
import signal
import sqlite3
import struct
import subprocess
import sys
import time
import unittest

import test_report
from test_report import ReportCase, RECORDINGS, TRACEBACK, HEALTHY, snapshot

FLEET = test_report.FLEET
GENUINE = RECORDINGS / "doctor/oom_genuine.pickle.xz"

DAY_US = 86_400_000_000
NOBODY = 65534
IN_OPEN, IN_CLOSE_WRITE = 0x20, 0x08


def inotify_names(folder, work) -> list:
    """The names of files that were opened in `folder` during the work, once for each time."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if watch < 0 or libc.inotify_add_watch(watch, os.fsencode(folder), IN_OPEN | IN_CLOSE_WRITE) < 0:
            raise unittest.SkipTest("no inotify here")
        work()
        try:
            events = os.read(watch, 1 << 20)
        except BlockingIOError:
            events = b""
    finally:
        os.close(watch)
    names, at = [], 0
    while at < len(events):
        mask, _, length = struct.unpack_from("III", events, at + 4)
        if mask & IN_OPEN:
            names.append(os.fsdecode(events[at + 16:at + 16 + length].rstrip(b"\0")))
        at += 16 + length
    return names


class JobsCase(ReportCase):
    def setUp(self) -> None:
        super().setUp()
        self.jobs = self.here / "jobs"
        self.job = self.jobs  # where put() puts files

    def put_jobs(self, jobs: int = 4, ranks: int = 4) -> None:
        """In every second job rank 1 runs out; in the last rank 2 holds more than the others."""
        for job in range(jobs):
            for rank in range(ranks):
                extra = 90 if job == jobs - 1 and rank == 2 else 0
                self.put(f"job{job}/run.rank{rank}.pickle", snapshot([100, 20 + extra]))
            if job % 2 == 0:
                self.put(f"job{job}/slurm-7-1.out", TRACEBACK)

    def json(self, *arguments, status: int = 1) -> str:
        done = self.report(*arguments, "--json")
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout


class ManyJobs(JobsCase):
    def test_the_worst_jobs_come_first_and_failures_are_grouped(self):
        self.put_jobs()
        found = json.loads(self.json("--jobs", "jobs"))
        self.assertEqual([job["job"] for job in found["jobs"]], ["job0", "job2", "job3", "job1"])
        self.assertEqual(found["oom_jobs"], 2)
        self.assertEqual(found["jobs"][0]["worst"]["rank"], 1)
        self.assertEqual(found["jobs"][2]["outliers"][0]["rank"], 2)
        self.assertEqual(len(found["failures"]), 1)
        self.assertEqual(found["failures"][0]["jobs"], 2)
        self.assertEqual(found["failures"][0]["stack"], ["train.py:9 <module>"])
        self.assertEqual(found["files"], {"all": 18, "recordings": 16, "texts": 2, "unreadable": 0, "others": 0})

    def test_real_recordings_give_the_verdicts_of_the_doctor(self):
        self.put("a/run.rank0.pickle.xz", GENUINE)
        self.put("b/run.rank0.pickle.xz", HEALTHY)
        found = json.loads(self.json("--jobs", "jobs"))
        doctor = subprocess.run([test_report.PROGRAM, "doctor", GENUINE, "--json"], capture_output=True, text=True,
                                check=False)
        self.assertEqual(found["jobs"][0]["worst"]["verdict"], json.loads(doctor.stdout)["verdict"])
        self.assertGreater(len(found["failures"][0]["stack"]), 1)
        self.assertRegex(found["jobs"][0]["day"], r"^20\d\d-\d\d-\d\d$")

    def test_the_text_fits_80_columns_and_says_what_is_left_out(self):
        self.put_jobs(jobs=12)
        done = self.report("--jobs", "jobs")
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stdout.startswith("6 of 12 jobs ran out of memory, on 6 of 48 ranks\n"), done.stdout)
        self.assertIn("2 jobs more; --top 0 shows all", done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)
        self.assertNotIn("more;", self.report("--jobs", "jobs", "--top", "0").stdout)

    def test_the_jobs_are_a_table_for_other_programs(self):
        self.put_jobs()
        found = json.loads(self.json("--jobs", "jobs"))
        done = self.report("--jobs", "jobs", "--csv", "-o", "page.html")  # of which nothing is said there
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual([row["job"] for row in rows], [job["job"] for job in found["jobs"]])
        for row, job in zip(rows, found["jobs"]):
            for name in ("day", "unreadable", "failure"):
                self.assertEqual(row[name], "" if job[name] is None else str(job[name]))
        done = self.report("jobs/job0", "--csv", "-o", "job.html")
        self.assertEqual({row["problem"] for row in csv.DictReader(io.StringIO(done.stdout))}, {"true", "false"})

    def test_days_left_out_are_counted(self):
        for day in range(12):
            self.put(f"job{day:02}/run.rank0.pickle", snapshot([10], oom_us=1_700_000_000_000_000 + day * DAY_US))
        self.assertIn("2 days more; --top 0 shows all", self.report("--jobs", "jobs").stdout)

    def test_a_list_on_standard_input_needs_no_option(self):
        self.put_jobs()
        names = "".join(f"{path}\n" for path in sorted(self.jobs.rglob("*.pickle")))
        found = self.report("-", "--json", input=names, stdin=None)
        self.assertEqual(found.returncode, 1, found.stderr)
        self.assertEqual(len(json.loads(found.stdout)["jobs"]), 4)

    def test_a_manifest_names_the_jobs(self):
        self.put_jobs()
        lines = [f"{path},{path.parent.name.replace('job', 'team-')}" for path in sorted(self.jobs.rglob("*.*"))]
        (self.here / "all.csv").write_text("\n".join(["path,job", *lines]) + "\n")
        found = json.loads(self.json("--jobs", "all.csv"))
        self.assertEqual(found["jobs"][0]["job"], "team-0")
        self.assertEqual(found["jobs"][0]["oom_count"], 1)

    def test_days_show_when_jobs_ran_out(self):
        self.put("a/run.rank0.pickle", snapshot([10], oom_us=1_700_000_000_000_000 + DAY_US))
        self.put("b/run.rank0.pickle", snapshot([10]))
        found = json.loads(self.json("--jobs", "jobs"))
        self.assertEqual([(day["day"], day["oom_jobs"]) for day in found["days"]],
                         [("2023-11-14", 0), ("2023-11-15", 1)])

    def test_a_page_shows_the_jobs_and_replaces_only_pages(self):
        self.put_jobs()
        done = self.report("--jobs", "jobs", "-o", "page.html")
        self.assertEqual(done.returncode, 1, done.stderr)
        page = (self.here / "page.html").read_text()
        self.assertIn("2 of 4 jobs ran out of memory", page)
        self.assertLess(page.index("job0"), page.index("job1"))
        self.assertNotIn("<script", page)
        self.assertEqual(self.report("--jobs", "jobs", "-o", "page.html").returncode, 1)
        (self.here / "mine.html").write_text("mine")
        done = self.report("--jobs", "jobs", "-o", "mine.html")
        self.assertEqual(done.returncode, 3)
        self.assertIn("not a page", done.stderr)
        self.assertEqual((self.here / "mine.html").read_text(), "mine")

    @unittest.skipUnless(os.geteuid() == 0, "only root can make a link somebody else's")
    def test_a_folder_that_somebody_else_links_to_is_not_a_job(self):
        self.put("job0/run.rank0.pickle", snapshot([100]))
        secret = self.here / "secret"
        secret.mkdir()
        (secret / "train.log").write_text(TRACEBACK)
        (self.jobs / "job1").symlink_to(secret)
        self.assertEqual(len(json.loads(self.json("--jobs", "jobs"))["jobs"]), 2)
        os.lchown(self.jobs / "job1", 65534, 65534)
        found = json.loads(self.json("--jobs", "jobs", status=0))
        self.assertEqual([job["job"] for job in found["jobs"]], ["job0"])
        self.assertIn("links of other users: 1", str(found["notes"]))
        os.chown(secret, 65534, 65534)
        self.assertEqual(len(json.loads(self.json("--jobs", "jobs"))["jobs"]), 2)

    def test_wrong_usage_is_said(self):
        self.put_jobs()
        for words, arguments in [("expected one folder, not 0", []), ("expected one folder, not 2", ["jobs", "jobs"]),
                                 ("--share: expected K/N", ["jobs", "--share", "5/4", "--state", "s"]),
                                 ("--share: expected K/N", ["jobs", "--share", "x", "--state", "s"]),
                                 ("expected --state", ["jobs", "--share", "1/4"]),
                                 ("a share has no report", ["jobs", "--share", "1/4", "--state", "s", "--json"]),
                                 ("a share has no report", ["jobs", "--share", "1/4", "--state", "s", "--csv"]),
                                 ("--merge reads states", ["--merge", "s", "--state", "t"]),
                                 ("--merge reads states", ["--merge", "s", "--torch", "2.4"]),
                                 ("--merge: expected the states", ["--merge"]),
                                 ("name of the folder is empty", ["--merge", "s", ""]),
                                 ("--csv and the page of -o -", ["--jobs", "jobs", "--csv", "-o", "-"]),
                                 ("--state: the name", ["jobs", "--state", ""])]:
            with self.subTest(words):
                done = self.report(*arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(words, done.stderr)
        done = self.report("--jobs", "jobs/job0/run.rank0.pickle")
        self.assertEqual(done.returncode, 3)
        self.assertIn("expected a list of files, found a recording", done.stderr)
        done = self.report("--jobs", "jobs/job1")
        self.assertEqual(done.returncode, 3)
        self.assertIn("found no folder in it", done.stderr)


class Shares(JobsCase):
    def test_merged_shares_are_the_single_report_byte_for_byte(self):
        self.put_jobs(jobs=6)
        whole = self.json("--jobs", "jobs")
        for share in range(1, 6):
            done = self.report("jobs", "--share", f"{share}/5", "--state", f"part{share}")
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        parts = [f"part{share}" for share in (3, 1, 5, 2, 4)]
        self.assertEqual(self.json("--merge", *parts), whole)
        self.assertEqual(self.json("--merge", *parts, "part2/report.part"), whole)
        lacking = self.report("--merge", *parts[1:])
        self.assertEqual(lacking.returncode, 3)
        self.assertRegex(lacking.stderr, "^vramwise report: .* units have no result")
        self.assertEqual(self.report("--merge", *parts, "nowhere").stderr,
                         "vramwise report: nowhere: No such file or directory\n")

    def test_a_report_that_is_killed_goes_on_where_it_was(self):
        self.put_jobs(jobs=200, ranks=8)
        whole = self.json("--jobs", "jobs")
        part = self.here / "state/report.part"
        for size in (100_000, 400_000):  # kills it when so much is kept
            with subprocess.Popen([test_report.PROGRAM, "report", "jobs", "--state", "state"], cwd=self.here,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
                while running.poll() is None and not (part.exists() and part.stat().st_size > size):
                    time.sleep(0.001)
                running.send_signal(signal.SIGKILL)
        self.assertEqual(self.json("jobs", "--state", "state"), whole)

    def test_a_state_is_not_read_by_the_next_report_as_a_job(self):
        self.put_jobs()
        whole = self.json("--jobs", "jobs")
        self.assertEqual(self.json("jobs", "--state", "jobs/.state"), whole)
        self.assertEqual(self.json("jobs", "--state", "jobs/.state"), whole)

    def test_a_list_that_names_a_file_twice_is_refused(self):
        """Else a few bytes would have a record loaded once more."""
        def piece(body: bytes) -> bytes:
            checksum = 0xcbf29ce484222325
            for byte in body:
                checksum = (checksum ^ byte) * 0x100000001b3 % 2**64
            return struct.pack("<IQ", len(body), checksum) + body

        self.put_jobs(jobs=1)
        self.json("jobs", "--state", "state")
        part = (self.here / "state/report.part").read_bytes()
        size, _ = struct.unpack_from("<IQ", part, 16)
        head, units = part[28:28 + 33], part[28 + 41:28 + size]  # its kind and four numbers; behind its count
        self.assertEqual(part[28], 1)
        again = head + struct.pack("<Q", 2 * 5) + 2 * units
        (self.here / "twice.part").write_bytes(part[:16] + piece(again) + part[28 + size:])
        done = self.report("--merge", "twice.part")
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn("a list of files names the logs of job job0 twice", done.stderr)

    def test_memory_is_bounded_by_the_option(self):
        self.put_jobs()
        found = json.loads(self.json("--jobs", "jobs", "--max-memory", "2KiB"))
        self.assertEqual(found["files"]["unreadable"], 16)


class Tables(JobsCase):
    def test_the_table_has_what_the_json_has(self):
        self.put_jobs()
        done = self.report("--jobs", "jobs", "-o", "all.sqlite", "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        found = json.loads(done.stdout)
        table = sqlite3.connect(self.here / "all.sqlite")
        self.addCleanup(table.close)

        def ask(words):
            return table.execute(words).fetchall()
        self.assertEqual([row[0] for row in ask("SELECT job FROM jobs ORDER BY place")],
                         [job["job"] for job in found["jobs"]])
        self.assertEqual(ask("SELECT count(*), sum(ran_out) FROM ranks"), [(found["ranks"], found["oom_count"])])
        self.assertEqual(ask("SELECT file, line, function FROM stacks"), [("train.py", 9, "<module>")])
        self.assertEqual(ask("SELECT jobs, ranks FROM failures"), [(2, 2)])
        self.assertEqual(ask("SELECT count(*) FROM files WHERE kind = 'recording'"), [(16,)])
        self.assertEqual(ask("SELECT rank, value FROM outliers WHERE measure = 'peak_live_bytes'"),
                         [(2, 210 << 20)])
        self.assertEqual(ask("SELECT sum(jobs) FROM days"), [(4,)])

    def test_the_same_report_is_the_same_file(self):
        self.put_jobs()
        self.report("--jobs", "jobs", "-o", "one.sqlite")
        self.report("jobs", "--share", "1/2", "--state", "a")
        self.report("jobs", "--share", "2/2", "--state", "b")
        self.report("--merge", "b", "a", "-o", "two.sqlite")
        self.assertEqual((self.here / "one.sqlite").read_bytes(), (self.here / "two.sqlite").read_bytes())

    def test_only_a_table_of_ours_is_replaced(self):
        self.put_jobs()
        other = sqlite3.connect(self.here / "other.db")
        other.execute("CREATE TABLE t(x)")
        other.commit()
        other.close()
        before = (self.here / "other.db").read_bytes()
        done = self.report("--jobs", "jobs", "-o", "other.db")
        self.assertEqual(done.returncode, 3)
        self.assertIn("not a table that vramwise wrote", done.stderr)
        self.assertEqual((self.here / "other.db").read_bytes(), before)
        for _ in range(2):
            self.assertEqual(self.report("--jobs", "jobs", "-o", "ours.db").returncode, 1)
        self.assertEqual([name for name in os.listdir(self.here) if name.endswith(".part")], [])

    def test_its_draft_has_a_name_that_nobody_can_take_beforehand(self):
        self.put_jobs()
        done = subprocess.run(["sh", "-c", "mkdir all.sqlite.$$.part; exec \"$@\"", "sh", test_report.PROGRAM,
                               "report", "--jobs", "jobs", "-o", "all.sqlite"], cwd=self.here, capture_output=True,
                              text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)

    def test_its_draft_is_opened_once_so_that_no_link_can_take_its_place(self):
        self.put_jobs()
        opened = inotify_names(self.here, lambda: self.report("--jobs", "jobs", "-o", "all.sqlite"))
        self.assertEqual(len([name for name in opened if name.startswith(".")]), 1, opened)
        self.assertTrue((self.here / "all.sqlite").exists())

    @unittest.skipUnless(os.geteuid() == 0, "root can become a user whom permissions hold")
    def test_neither_a_table_that_is_read_only_nor_the_umask_keeps_it_from_being_written(self):
        self.put_jobs()
        self.here.chmod(0o755)
        place = self.here / "place"
        place.mkdir()
        os.chown(place, NOBODY, NOBODY)
        for umask, mode in (0o333, 0o444), (0o022, 0o444):  # the second one replaces the first
            done = self.report("--jobs", "jobs", "-o", "place/all.sqlite", umask=umask, user=NOBODY, group=NOBODY,
                               extra_groups=[])
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual((place / "all.sqlite").stat().st_mode & 0o777, mode)

    def test_where_files_may_not_grow_there_is_an_error_and_no_draft(self):
        self.put_jobs()
        before = sorted(os.listdir(self.here))
        for arguments in ("-o", "all.sqlite"), ("-o", "all.html"), ("--state", "state"), ("--json",):
            with self.subTest(arguments), (self.here / "said").open("wb") as said:
                done = subprocess.run([test_report.PROGRAM, "report", "--jobs", "jobs", *arguments], cwd=self.here,
                                      stdout=said, stderr=subprocess.PIPE, text=True, timeout=100, check=False,
                                      preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn("File too large", done.stderr)
        self.assertEqual(sorted(set(os.listdir(self.here)) - {"said", "state"}), before)

    def test_a_pipe_in_place_of_a_part_keeps_nobody_waiting(self):
        self.put_jobs()
        (self.here / "state").mkdir()
        os.mkfifo(self.here / "state/report.part")
        for arguments in ("jobs", "--share", "1/1", "--state", "state"), ("--merge", "state"), ("--merge", "state/report.part"):
            with self.subTest(arguments):
                done = self.report(*arguments)
                self.assertEqual(done.returncode, 3)
                self.assertIn("state/report.part: expected a plain file", done.stderr)

    def test_a_pipe_in_place_of_a_table_keeps_nobody_waiting(self):
        self.put_jobs()
        os.mkfifo(self.here / "all.sqlite")
        done = self.report("--jobs", "jobs", "-o", "all.sqlite", timeout=20)
        self.assertEqual(done.returncode, 3)
        self.assertIn("all.sqlite: exists, and is not a table that vramwise wrote", done.stderr)

    def test_a_place_that_cannot_be_written_is_said(self):
        self.put_jobs()
        os.mkfifo(self.here / "pipe.sqlite")
        for name in ("no/such/folder.sqlite", "no/such/folder.html", "pipe.sqlite"):
            done = self.report("--jobs", "jobs", "--state", "state", "-o", name)
            self.assertEqual(done.returncode, 3)
            self.assertIn(name, done.stderr)
        self.assertFalse((self.here / "state").exists())  # before any file is read


class Examples(JobsCase):
    """docs/fleet: the scripts, with stand-ins for Slurm, Dask and Ray."""

    COMMAND, MANY, OPTIONS = "report", "--jobs", ()  # options that the shares need

    def setUp(self) -> None:
        super().setUp()
        self.tools = self.here / "tools"
        self.tools.mkdir()
        (self.tools / "vramwise").symlink_to(test_report.PROGRAM)
        self.environment.update(PATH=f"{self.tools}:{os.environ['PATH']}", PYTHONDONTWRITEBYTECODE="1",
                                PYTHONPATH=str(self.tools))
        self.put_jobs()

    def run_script(self, *command, **variables) -> subprocess.CompletedProcess:
        return subprocess.run([str(word) for word in command], cwd=self.here, env={**self.environment, **variables},
                              capture_output=True, text=True, timeout=test_report.LIMIT_SECONDS, check=False)

    def whole(self, *words) -> str:
        """The JSON of one machine, or of states."""
        words = words or (self.MANY, "jobs", *self.OPTIONS)
        done = self.run_script("vramwise", self.COMMAND, *words, "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stdout

    def test_an_array_examines_all_shares(self):
        script = FLEET / "spread-array.sbatch"
        for number in range(4, 7):
            done = self.run_script("bash", script, self.COMMAND, "jobs", "out", *self.OPTIONS,
                                   SLURM_ARRAY_TASK_ID=str(number), SLURM_ARRAY_TASK_MIN="4", SLURM_ARRAY_TASK_COUNT="3")
            self.assertEqual(done.returncode, 0, done.stderr)
        states = [f"out/{share}-of-3" for share in (1, 2, 3)]
        self.assertEqual(self.whole("--merge", *states), self.whole())
        self.assertEqual(self.run_script("bash", script, self.COMMAND, "jobs").returncode, 2)
        self.assertEqual(self.run_script("bash", script, "doctor", "jobs", "out").returncode, 2)

    def test_ray_examines_all_shares(self):
        script = FLEET / "spread_ray.py"
        (self.tools / "ray.py").write_text(
            "import os\n"
            "def init(runtime_env): os.chdir('/')\n"  # workers are elsewhere
            "class Task:\n"
            "    def __init__(self, work): self.work = work\n"
            "    def remote(self, *words): return [self.work, words]\n"
            "def remote(max_retries): return Task\n"
            "def get(tasks): return [work(*words) for work, words in tasks]\n")
        done = self.run_script(sys.executable, script, self.COMMAND, "jobs", "out", "5", "--json", *self.OPTIONS)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout, self.whole())
        self.assertEqual(self.run_script(sys.executable, script, "jobs", "out", "5").returncode, 2)

    def test_dask_examines_all_shares(self):
        (self.tools / "distributed.py").write_text(
            "import os\n"
            "class Client:\n"
            "    def __init__(self, address, set_as_default): assert address == 'tcp://head:8786'; os.chdir('/')\n"
            "    def __enter__(self): return self\n"
            "    def __exit__(self, *error): pass\n"
            "    def upload_file(self, name): assert os.path.exists(name)\n"
            "    def map(self, work, shares_of, retries, pure, **words): return [(work, s, words) for s in shares_of]\n"
            "    def gather(self, futures): return [work(share, **words) for work, share, words in futures]\n")
        done = self.run_script(sys.executable, FLEET / "spread_dask.py", self.COMMAND, "jobs", "out", "3", *self.OPTIONS,
                               "--json", DASK_SCHEDULER_ADDRESS="tcp://head:8786")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout, self.whole())


if __name__ == "__main__":
    test_report.PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
