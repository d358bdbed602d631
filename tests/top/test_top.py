#!/usr/bin/env python3
"""test_top.py PROGRAM LIVE_JOB VARIABLE=LIBRARY [unittest arguments] - `vramwise top`: once, and as a
screen.

Jobs are live_job (tests/support), which says on its page what a test wants, GPUs those of a made-up NVML
or AMD SMI, which VARIABLE names.
The screen is looked at through tmux, on a server of its own for each test. Nothing depends on time:
a test waits for what must appear, and the limit is for what never does.
"""
import json
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

PROGRAM = LIVE_JOB = VARIABLE = LIBRARY = ""
LIMIT_SECONDS = 100
GIB = 1 << 30
H200 = "device=0:NVIDIA H200"
ECHOES = "stty -a | tr ' ' '\\n' | grep -qx echo && echo echoes"  # what is typed is seen


class TopCase(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="top-")
        self.addCleanup(folder.cleanup)
        self.here = pathlib.Path(folder.name)
        (self.here / "pages").mkdir()
        hidden = ("NO_COLOR", "COLUMNS", "LINES", "LANG", "TERM", "TMUX", "CUDA_VISIBLE_DEVICES")
        self.environment = {name: value for name, value in os.environ.items()
                            if name not in hidden and not name.startswith(("LC_", "FAKE_", "SLURM_"))}
        self.environment.update(VRAMWISE_LIVE_DIR=str(self.here / "pages"), LC_ALL="C.UTF-8",
                                VRAMWISE_NVML="/nowhere/libnvidia-ml.so",
                                VRAMWISE_AMD_SMI="/nowhere/libamd_smi.so")

    def job(self, *words: str) -> subprocess.Popen:
        """A job that has said `words` on its page; it ends with the test."""
        job = subprocess.Popen([LIVE_JOB, *words], env=self.environment, text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.end, job)
        self.assertEqual(job.stdout.readline(), "ready\n")
        return job

    def tell(self, job: subprocess.Popen, *words: str) -> None:
        job.stdin.write("\t".join(words) + "\n")
        job.stdin.flush()
        self.assertEqual(job.stdout.readline(), "ready\n")

    @staticmethod
    def end(job: subprocess.Popen) -> None:
        if not job.stdin.closed:
            job.stdin.close()
        job.wait(LIMIT_SECONDS)
        job.stdout.close()

    def use_gpus(self, *processes, count: int = 2) -> None:
        """Two GPUs with 80 GiB each, or more; (gpu, process, bytes) on them."""
        self.environment.update(
            {VARIABLE: LIBRARY}, FAKE_CUDA_DEVICE_COUNT=str(count), FAKE_NVML_NAME="NVIDIA H200",
            FAKE_NVML_TOTAL=str(80 * GIB),
            FAKE_NVML_LIST=",".join(f"{gpu}:{process}:{size}" for gpu, process, size in processes))

    def need_numbers(self) -> None:
        """The numbers that a job gives to GPUs say which they are, of NVIDIA's only."""
        if VARIABLE != "VRAMWISE_NVML":
            self.skipTest("AMD's numbers mean nothing")

    def top(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([PROGRAM, "top", *arguments], env=self.environment, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_SECONDS,
                              check=False)

    def top_json(self, *arguments: str) -> dict:
        result = self.top("--json", "--interval", "0.05", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout.count("\n"), 1)
        return json.loads(result.stdout)


class Once(TopCase):
    def test_a_machine_with_nothing_says_so(self) -> None:
        result = self.top("--once")
        self.assertEqual(result.returncode, 0)
        self.assertIn("no GPUs: NVML could not be loaded", result.stdout)
        self.assertIn("no jobs: ", result.stdout)

    def test_the_table_has_gpus_jobs_and_other_processes(self) -> None:
        job = self.job("program=train.py", "rank=3", H200, f"live_bytes={6 * GIB}",
                       f"reserved_bytes={8 * GIB}")
        other = self.job("program=sim.py", "live_bytes=1048576")
        self.use_gpus((1, job.pid, 9 * GIB), (0, os.getpid(), GIB))
        result = self.top("--once", "--interval", "0.05")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("GPU 1: NVIDIA H200, busy 3 %, 9.06 GiB of 80.00 GiB used\n", result.stdout)
        self.assertRegex(result.stdout,
                         rf"(?m)^ *{job.pid} +1 +3 +train.py +9.00 GiB +6.00 GiB +8.00 GiB +-$")
        self.assertRegex(result.stdout, rf"(?m)^ *{os.getpid()} +0 +python3.* +1.00 GiB +- +- +-$")
        self.assertRegex(result.stdout, rf"jobs without a GPU\n.*\n *{other.pid} +sim.py")
        self.assertLessEqual(max(map(len, result.stdout.splitlines())), 80)
        self.assertNotIn("\033", result.stdout)

    def test_once_has_every_job_and_every_value_of_its_page(self) -> None:
        """Whatever a job publishes, and /metrics serves, the text has: a name without its unit, and a number."""
        names = [name for name in self.fields() if name != "steps"]
        jobs = [self.job(f"program=part{i}.py", "job=1234", "allocator=vramwise", f"rank={i}", "world_size=3", H200,
                         *(f"{name}={(i + 1) * 1000 + place}" for place, name in enumerate(names)))
                for i in range(3)]
        self.use_gpus(*((0, job.pid, GIB) for job in jobs))
        result = self.top("--once", "--interval", "0.05")
        for i, job in enumerate(jobs):
            _, begin, rest = result.stdout.partition(f"{job.pid} ")
            self.assertTrue(begin)
            text = re.split(r"\n *\d+ +\d+ +\d+ +part", rest)[0]
            for words in ("job 1234", "allocator vramwise", "ranks 3"):
                self.assertIn(words, text)
            for name in names:
                words = re.sub("_(bytes|nanoseconds)$", "", name).replace("_", " ")
                words = {"live": f"part{i}.py", "reserved": f"part{i}.py", "peak live": "peak",
                         "largest free block": "largest free"}.get(words, words)
                self.assertRegex(text, rf"{words}\s+\S*\d", name)
        self.assertLessEqual(max(map(len, result.stdout.splitlines())), 80)

    def test_once_has_what_metrics_add_to_the_page(self) -> None:
        """The version, the age and the room of a job, the steps until it is full, and pages of nobody."""
        job = self.job("program=train.py", "rank=0", H200, f"live_bytes={6 * GIB}", f"reserved_bytes={8 * GIB}",
                       f"device_free_bytes={10 * GIB}", f"steps=100:{5 * GIB}:1048576")
        self.use_gpus((0, job.pid, 9 * GIB))
        page, = (self.here / "pages").iterdir()
        (self.here / "pages" / (page.name + "0")).write_text("no page", encoding="utf-8")
        row, = self.top_json()["rows"]
        text = self.top("--once", "--interval", "0.05").stdout
        left = row["leak"]["full_at_step"] - row["leak"]["last_step"]
        started = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(row["job"]["started_us"] // 1000000))
        for words in ("room 12.00 GiB", f"steps until full {left:,}", f"version {row['job']['vramwise_version']}",
                      f"started {started} UTC", "1 unreadable page"):
            self.assertIn(words, text)
        self.assertRegex(text, r"reported \d+\S* \S+ ago")
        self.assertLessEqual(max(map(len, text.splitlines())), 80)

    def fields(self) -> list:
        """The numbers of a page, by the JSON of a job that has none."""
        job = self.job("program=x.py", H200)
        self.use_gpus((0, job.pid, GIB))
        device = self.top_json()["rows"][0]["device"]
        self.end(job)
        return [name for name in device if name not in ("index", "name", "trend")]

    def test_json_has_every_number_of_the_page_and_null_for_the_rest(self) -> None:
        job = self.job("program=train.py", "world_size=4", "rank=1", H200, f"live_bytes={6 * GIB}",
                       f"reserved_bytes={8 * GIB}", "steps=100:1000:1048576")
        self.use_gpus((0, job.pid, 9 * GIB))
        found = self.top_json()
        self.assertEqual(found["schema"], 1)
        self.assertEqual(found["gpus"][0]["job_idle_bytes"], 2 * GIB)
        row, = found["rows"]
        self.assertEqual((row["process"], row["gpu"], row["place"]), (job.pid, 0, "gpu"))
        self.assertEqual(row["job"]["rank"], 1)
        self.assertEqual(row["device"]["reserved_bytes"], 8 * GIB)
        self.assertIsNone(row["device"]["pinned_bytes"])
        self.assertEqual(row["idle_bytes"], 2 * GIB)
        self.assertEqual(row["unseen_bytes"], GIB)
        self.assertEqual(len(row["device"]["trend"]), 100)
        self.assertAlmostEqual(row["leak"]["bytes_per_step"], 1 << 20)
        self.assertIsNone(row["allocations_per_second"])

    def test_cuda_visible_devices_tells_which_gpu_a_job_is_on(self) -> None:
        self.need_numbers()
        self.use_gpus((0, os.getpid(), GIB))
        for visible, gpu in (("1", 1), ("GPU-0", 0), ("GPU-11", 1), ("7", None)):
            self.environment["CUDA_VISIBLE_DEVICES"] = visible
            job = self.job("program=train.py", H200, "live_bytes=1")
            row, = (row for row in self.top_json()["rows"] if row["process"] == job.pid)
            self.assertEqual(row["gpu"], gpu, visible)
            self.end(job)

    def test_eight_ranks_are_each_on_the_gpu_that_is_visible_to_it(self) -> None:
        self.need_numbers()
        order = (5, 0, 7, 2, 1, 6, 3, 4)  # of the GPUs, by rank
        jobs = []
        for rank, gpu in enumerate(order):
            self.environment["CUDA_VISIBLE_DEVICES"] = str(gpu) if rank % 2 else f"GPU-{gpu}{gpu}"
            jobs.append(self.job("program=train.py", f"rank={rank}", H200,
                                 f"live_bytes={(rank + 1) * GIB}", f"reserved_bytes={10 * GIB}"))
        del self.environment["CUDA_VISIBLE_DEVICES"]
        self.use_gpus((0, os.getpid(), GIB), count=8)  # a list without them, as in a container
        rows = {row["job"]["rank"]: row for row in self.top_json()["rows"] if row["job"]}
        self.assertEqual([rows[rank]["gpu"] for rank in range(8)], list(order))
        self.use_gpus(*((gpu, job.pid, 12 * GIB) for gpu, job in zip(order, jobs)), count=8)
        found = self.top_json()
        self.assertEqual([row["gpu"] for row in found["rows"]], list(range(8)))  # each once, in order
        for gpu, row in zip(found["gpus"], found["rows"]):
            rank = order.index(gpu["index"])
            self.assertEqual((row["job"]["rank"], row["process"]), (rank, jobs[rank].pid))
            self.assertEqual((gpu["job_live_bytes"], row["unseen_bytes"]), ((rank + 1) * GIB, 2 * GIB))
        shown = self.top("--once", "--interval", "0.05").stdout
        self.assertEqual(shown.count("GPU "), 8 + 1)  # and the head of the table
        self.assertIn("GPU 7: NVIDIA H200, busy 3 %, 12.06 GiB of 80.00 GiB used\n", shown)
        for rank, gpu in enumerate(order):
            self.assertRegex(shown, rf"(?m)^ *{jobs[rank].pid} +{gpu} +{rank} +train.py +12.00 GiB")

    def eight_devices(self) -> subprocess.Popen:
        return self.job("program=serve.py", *(word for device in range(8) for word in
                                              (f"device={device}:NVIDIA H200", f"live_bytes={device + 1}",
                                               "reserved_bytes=100")))

    def test_a_job_on_eight_gpus_has_a_row_on_each(self) -> None:
        self.need_numbers()
        for visible, order in ((None, range(8)), ("7,6,5,4,3,2,1,0", range(7, -1, -1))):
            if visible:
                self.environment["CUDA_VISIBLE_DEVICES"] = visible
            job = self.eight_devices()
            self.use_gpus(*((gpu, job.pid, GIB) for gpu in range(8)), count=8)
            found = self.top_json()
            self.assertEqual({row["device"]["index"]: row["gpu"] for row in found["rows"]},
                             dict(enumerate(order)))
            self.assertEqual([row["process_bytes"] for row in found["rows"]], [GIB] * 8)
            self.assertEqual([gpu["job_live_bytes"] for gpu in found["gpus"]],
                             [index + 1 for index in order])
            self.end(job)

    def test_where_the_driver_lists_a_job_elsewhere_its_environment_is_not_believed(self) -> None:
        # The program has set os.environ["CUDA_VISIBLE_DEVICES"] = "4,5" after it was started.
        job = self.job("program=train.py", H200, "live_bytes=1", "device=1:NVIDIA H200", "live_bytes=2")
        self.use_gpus((4, job.pid, GIB), (5, job.pid, GIB), count=8)
        rows = self.top_json()["rows"]
        self.assertEqual([(row["gpu"], row["process_bytes"]) for row in rows if row["gpu"] is not None],
                         [(4, GIB), (5, GIB)])
        self.assertEqual([row["device"]["index"] for row in rows if row["gpu"] is None], [0, 1])

    def test_two_jobs_on_one_gpu_are_both_shown(self) -> None:
        one = self.job("program=train.py", H200, f"live_bytes={6 * GIB}", f"reserved_bytes={8 * GIB}")
        two = self.job("program=serve.py", H200, f"live_bytes={20 * GIB}", f"reserved_bytes={21 * GIB}")
        self.use_gpus((0, one.pid, 9 * GIB), (0, two.pid, 22 * GIB))
        found = self.top_json()
        self.assertEqual({(row["process"], row["gpu"], row["process_bytes"]) for row in found["rows"]},
                         {(one.pid, 0, 9 * GIB), (two.pid, 0, 22 * GIB)})
        gpu = found["gpus"][0]
        self.assertEqual((gpu["job_live_bytes"], gpu["job_idle_bytes"]), (26 * GIB, 3 * GIB))
        self.assertEqual(gpu["other_bytes"], gpu["used_bytes"] - 29 * GIB)
        shown = self.top("--once", "--interval", "0.05").stdout
        self.assertRegex(shown, rf"(?m)^ *{one.pid} +0 +train.py +9.00 GiB +6.00 GiB +8.00 GiB")
        self.assertRegex(shown, rf"(?m)^ *{two.pid} +0 +serve.py +22.00 GiB +20.00 GiB +21.00 GiB")

    def test_the_pace_is_that_between_two_readings(self) -> None:
        job = self.job("allocations=1000")
        told, pace, limit = 1000, 0, time.monotonic() + LIMIT_SECONDS
        while pace == 0:  # where nobody let us tell anything between the two readings
            self.assertLess(time.monotonic(), limit)
            with subprocess.Popen([PROGRAM, "top", "--json"], env=self.environment, text=True,
                                  stdout=subprocess.PIPE) as top:
                while top.poll() is None:  # whenever it reads, the page has changed since
                    told += 1000
                    self.tell(job, f"allocations={told}")
                row, = json.loads(top.stdout.read())["rows"]
            pace = row["allocations_per_second"]
        self.assertGreater(pace, 0)

    def test_one_process_is_told_alone_and_one_that_is_not_there_is_refused(self) -> None:
        one, other = self.job("program=one.py"), self.job("program=two.py")
        row, = self.top_json(str(one.pid))["rows"]
        self.assertEqual(row["command"], "one.py")
        self.end(one)
        result = self.top("--once", str(one.pid))
        self.assertEqual((result.returncode, result.stdout), (3, ""))
        self.assertEqual(result.stderr,
                         f"vramwise top: process {one.pid} does not run with vramwise and is on no "
                         f"GPU; there are: {other.pid} two.py\n")
        self.end(other)
        self.assertEqual(self.top(str(one.pid)).stderr,
                         f"vramwise top: process {one.pid} does not run with vramwise and is on no "
                         "GPU\n")

    def test_one_that_ends_between_the_readings_is_refused(self) -> None:
        job, other = self.job("program=one.py"), self.job("program=two.py")
        with subprocess.Popen([PROGRAM, "top", "--json", "--interval", "1", str(job.pid)],
                              env=self.environment, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as top:
            about = pathlib.Path(f"/proc/{top.pid}/stat")  # it sleeps after the first
            while top.poll() is None and ") S " not in about.read_text():
                time.sleep(0.001)
            self.end(job)
            shown = top.communicate(timeout=LIMIT_SECONDS)
        self.assertEqual((top.returncode, shown[0]), (3, ""))
        self.assertIn(f"process {job.pid} does not run with vramwise", shown[1])
        self.assertIn(f"there are: {other.pid} two.py", shown[1])

    def test_a_folder_that_is_not_there_is_an_error(self) -> None:
        self.environment["VRAMWISE_LIVE_DIR"] = str(self.here / "nowhere")
        result = self.top("--once")
        self.assertEqual((result.returncode, result.stdout), (3, ""))
        self.assertIn("nowhere: No such file or directory", result.stderr)

    def test_wrong_usage_says_what_was_expected(self) -> None:
        for arguments, words in ((("x",), "expected the number of a process, not 'x'"),
                                 (("0",), "expected the number of a process, not '0'"),
                                 (("1", "2"), "expected one process at most, not 2"),
                                 (("--interval", "0"), "from 0.05 to 3600, not '0'"),
                                 (("--interval", "nan"), "from 0.05 to 3600, not 'nan'"),
                                 (("--interval", "1s"), "from 0.05 to 3600, not '1s'")):
            result = self.top("--once", *arguments)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn(words, result.stderr)

    def test_names_cannot_steer_a_terminal(self) -> None:
        self.job("program=a\033[2J\u202eb")
        self.assertIn("a?[2J?b", self.top("--once", "--interval", "0.05").stdout)


class Tmux:
    """A terminal with a shell in it, on a server of its own."""

    def __init__(self, case: TopCase, columns: int, lines: int, kind: str = "tmux-256color"):
        self.case, self.socket = case, str(case.here / "tmux")
        environment = dict(case.environment, TERM=kind)
        start = subprocess.run(
            ["tmux", "-f", "/dev/null", "-S", self.socket, "new-session", "-d", "-x", str(columns),
             "-y", str(lines), "env", "PS1=ready> ", "bash", "--norc", "--noprofile"],
            env=dict(environment, TERM="xterm"), capture_output=True, text=True, check=False)
        case.assertEqual(start.returncode, 0, start.stderr)
        case.addCleanup(self.run, "kill-server")
        self.wait("ready>")
        for name in ("VRAMWISE_LIVE_DIR", "VRAMWISE_NVML", "VRAMWISE_AMD_SMI", "LC_ALL", "NO_COLOR", "FAKE_NVML_LIST",
                     "FAKE_NVML_NAME", "FAKE_NVML_TOTAL"):
            if name in environment:
                self.type(f"export {name}='{environment[name]}'")
        self.type(f"export TERM={kind}; clear; echo now; ", wait="now")

    def run(self, *words: str) -> str:
        return subprocess.run(["tmux", "-S", self.socket, *words], capture_output=True, text=True,
                              check=False).stdout

    def keys(self, *keys: str) -> None:
        self.run("send-keys", *keys)

    def type(self, line: str, wait: str = "") -> None:
        self.run("send-keys", "-l", line)
        self.keys("Enter")
        if wait:
            self.wait(wait)

    def screen(self) -> str:
        return self.run("capture-pane", "-p")

    def wait(self, *texts: str, without: str = "") -> str:
        """The screen, once all of `texts` are on it and `without` is not."""
        end = time.monotonic() + LIMIT_SECONDS
        while time.monotonic() < end:
            screen = self.screen()
            if all(text in screen for text in texts) and not (without and without in screen):
                return screen
            time.sleep(0.02)
        raise AssertionError(f"waited for {texts} without {without!r}, and there was:\n{screen}")


@unittest.skipUnless(shutil.which("tmux"), "needs tmux")
class Screen(TopCase):
    def open(self, columns: int = 80, lines: int = 24, arguments: str = "", wait: str = "q Quit") -> Tmux:
        tmux = Tmux(self, columns, lines)
        tmux.type(f"'{PROGRAM}' top --interval 0.2 {arguments}")
        tmux.wait(wait)
        return tmux

    def leave(self, tmux: Tmux) -> None:
        """Quits; the terminal is as it was: what was there is there, and echoes."""
        tmux.keys("q")
        screen = tmux.wait("ready>", without="q Quit")
        self.assertIn("now", screen)
        tmux.type(ECHOES, wait="\nechoes")
        self.assertEqual(tmux.run("display-message", "-p", "#{alternate_on} #{cursor_flag}"), "0 1\n")

    def some_jobs(self) -> list:
        jobs = [self.job("program=train.py", "rank=0", H200, f"live_bytes={41 * GIB}",
                         f"reserved_bytes={53 * GIB}", f"device_free_bytes={9 * GIB}", "steps=10",
                         "step_nanoseconds=4120000000", "input_wait_nanoseconds=2000000000",
                         "loader_workers=1", "loader_pins=0"),
                self.job("program=leaky.py", H200, f"live_bytes={9 * GIB}",
                         f"reserved_bytes={10 * GIB}", f"device_free_bytes={9 * GIB}",
                         f"steps=300:{6 * GIB}:{10 << 20}"),
                self.job("program=sim.py", f"live_bytes={GIB}", f"reserved_bytes={2 * GIB}")]
        self.use_gpus((0, jobs[0].pid, 54 * GIB), (1, jobs[1].pid, 11 * GIB))
        return jobs

    def test_80_by_24_shows_gpus_jobs_notes_and_keys(self) -> None:
        jobs = self.some_jobs()
        tmux = self.open()
        screen = tmux.wait("train.py", "leaky.py", "sim.py")
        lines = screen.split("\n")
        self.assertEqual(lines[0][:44], "vramwise top  2 GPUs  3 jobs  1 warning     ")
        self.assertRegex(lines[1], r"^0 NVIDIA H200  97% \[█+▒+░*·+\] 54.1G of 80.0G$")
        self.assertRegex(lines[2], r"^  █ live 41.0G  ▒ idle 12.0G  ░ others \S+  free 25.9G$")
        self.assertRegex(lines[5], r"^ +PID GPU▲RANK PROGRAM +MEM  LIVE  RESV  STEP TREND    NOTE")
        self.assertRegex(screen, rf" {jobs[0].pid} +0 +0 train.py +54.0G 41.0G 53.0G 412ms .+ input-bound")
        self.assertRegex(screen, rf" {jobs[1].pid} +1 +leaky.py +11.0G 9.00G 10.0G +▁▂▃▄▅▆▇█ leak: 1,025 left")
        self.assertRegex(screen, r"\nwithout a GPU\n +\d+ +sim.py")
        self.assertLessEqual(max(map(len, lines)), 80)
        self.leave(tmux)

    def test_ranks_stand_below_their_job(self) -> None:
        jobs = [self.job("program=train.py", f"job=1234", f"rank={rank}", "world_size=3", H200, f"live_bytes={GIB}",
                         f"reserved_bytes={2 * GIB}") for rank in (2, 0, 1)]
        other = self.job("program=alone.py", H200, f"live_bytes={GIB}")
        self.use_gpus(*((0, job.pid, 3 * GIB) for job in (*jobs, other)))
        tmux = self.open()
        tree = (rf"\njob 1234: 3 processes, live 3.00G, reserved 6.00G\n *{jobs[1].pid} +0 +0 ├─train.py.*"
                rf"\n *{jobs[2].pid} +0 +1 ├─train.py.*\n *{jobs[0].pid} +0 +2 └─train.py.*\n *{other.pid} +0 +alone.py")
        self.assertRegex(tmux.wait("alone.py", "└─train.py"), tree)
        tmux.keys("t")
        self.assertNotIn("job 1234:", tmux.wait("alone.py", without="└─train.py"))
        tmux.keys("t")
        self.assertRegex(tmux.wait("└─train.py"), tree)
        self.leave(tmux)

    def test_more_often_is_never_less_often(self) -> None:
        self.job("program=train.py", H200, f"live_bytes={GIB}")
        for interval, key, then in ("0.05", "+", "0.05"), ("3600", "-", "3600"), ("0.7", "+", "0.5"), ("0.7", "-", "1"):
            tmux = self.open(arguments=f"--interval {interval}", wait=f"every {interval} s")
            tmux.keys(key, "h")  # once there is help, the key before it has been taken
            tmux.wait("this help")
            tmux.keys("h")
            tmux.wait(f"every {then} s")
            self.leave(tmux)

    def test_a_process_with_several_devices_counts_once(self) -> None:
        job = self.job("program=train.py", "job=1234", H200, f"live_bytes={GIB}", f"reserved_bytes={GIB}",
                       "device=1:NVIDIA H200", f"live_bytes={GIB}", f"reserved_bytes={GIB}")
        self.use_gpus((0, job.pid, 3 * GIB), (1, job.pid, 3 * GIB))
        tmux = self.open()
        self.assertIn("\njob 1234: 1 process, live 2.00G, reserved 2.00G\n", tmux.wait("└─train.py"))
        self.leave(tmux)

    def test_rows_are_chosen_sorted_and_turned(self) -> None:
        jobs = self.some_jobs()
        tmux = self.open()
        tmux.wait(f"{jobs[0].pid}: input-bound: 49 % of a step is waiting")
        tmux.keys("Down")
        tmux.wait(f"{jobs[1].pid}: leak: 10.0 MiB more live each step; full at step 1,325")
        tmux.keys("s")
        tmux.wait("RANK▲")
        tmux.keys("S", "S")
        screen = tmux.wait("PID▲")
        self.assertLess(screen.index("train.py"), screen.index("leaky.py"))
        tmux.keys("r")
        screen = tmux.wait("PID▼")
        self.assertGreater(screen.index(" train.py"), screen.index(" leaky.py"))
        self.leave(tmux)

    def test_a_filter_is_typed_kept_and_taken_away(self) -> None:
        self.some_jobs()
        tmux = self.open()
        tmux.wait("sim.py")
        tmux.keys("/", "L", "E", "A", "K", "Y")
        tmux.wait("filter: LEAKY", "leaky.py", without="train.py")
        tmux.keys("x")
        tmux.wait("nothing has 'LEAKYx' in it")
        tmux.keys("BSpace", "Enter")
        tmux.wait("filter: LEAKY", "q Quit", "leaky.py", without="train.py")
        tmux.keys("Escape")
        tmux.wait("train.py", without="filter:")
        self.leave(tmux)

    def test_details_and_help_open_and_close(self) -> None:
        jobs = self.some_jobs()
        tmux = self.open()
        titles = re.findall(r"[A-Z]{3,}", re.search(r"(?m)^ +PID.*", tmux.wait("sim.py")).group())
        tmux.keys("Enter")
        screen = tmux.wait(f"train.py  process {jobs[0].pid}  rank 0  GPU 0 NVIDIA H200", "Esc Back")
        for fact in ("live           41.0G", "unseen         1.00G", "input wait     49% of a step",
                     "data loader    1 worker, not pinned"):
            self.assertIn(fact, screen)
        tmux.keys("h")
        screen = tmux.wait("keys", "columns", "sort by the next column")
        self.assertEqual(re.findall(r"(?m)^ ([A-Z]{3,}) +\S", screen)[:len(titles)], titles)  # all that are seen
        tmux.keys("Escape")
        tmux.wait(f"process {jobs[0].pid}")
        tmux.keys("Down")
        tmux.wait(f"leaky.py  process {jobs[1].pid}", "from step 1 to 300")
        self.end(jobs[1])
        tmux.wait(f"process {jobs[1].pid} has ended")
        tmux.keys("Escape")
        tmux.wait("vramwise top")
        self.leave(tmux)

    def test_a_process_given_by_number_is_shown_at_once(self) -> None:
        jobs = self.some_jobs()
        tmux = self.open(arguments=str(jobs[2].pid))
        tmux.wait(f"sim.py  process {jobs[2].pid}  device 0 simulated")
        self.leave(tmux)

    def test_what_a_job_tells_appears_unless_paused(self) -> None:
        job = self.job("program=sim.py", f"live_bytes={GIB}")
        tmux = self.open()
        tmux.wait("1.00G")
        self.tell(job, f"live_bytes={3 * GIB}")
        tmux.wait("3.00G")
        tmux.keys("p")
        tmux.wait("paused")
        self.tell(job, f"live_bytes={5 * GIB}")
        tmux.keys("+")  # drawn again, and still as it was
        self.assertIn("3.00G", tmux.wait("every 0.1 s"))
        tmux.keys("p")
        tmux.wait("5.00G")
        new = self.job("program=late.py")
        tmux.wait("late.py", "2 jobs")
        self.end(new)
        tmux.wait("1 job", without="late.py")
        self.leave(tmux)

    def test_another_size_is_drawn_anew_and_narrow_ones_keep_what_matters(self) -> None:
        self.some_jobs()
        tmux = self.open()
        tmux.wait("input-bound")
        tmux.run("resize-window", "-x", "200", "-y", "50")
        screen = tmux.wait("IDLE", "live 41.0G")
        self.assertTrue(any(len(line) > 120 for line in screen.split("\n")))
        tmux.run("resize-window", "-x", "40", "-y", "15")
        screen = tmux.wait("PROGRAM", "q Quit", without="IDLE")
        self.assertIn("41.0G", screen)
        self.assertLessEqual(max(map(len, screen.split("\n"))), 40)
        tmux.run("resize-window", "-x", "10", "-y", "3")
        tmux.wait("vramwise t", without="PROGRAM")
        tmux.run("resize-window", "-x", "80", "-y", "24")
        tmux.wait("input-bound")
        self.leave(tmux)

    def test_64_ranks_scroll(self) -> None:
        jobs = [self.job("program=train.py", f"rank={rank}", "world_size=64",
                         f"live_bytes={(rank + 1) << 20}") for rank in range(64)]
        tmux = self.open()
        tmux.wait("64 jobs")
        tmux.keys("s")
        tmux.wait("RANK▲", " 0 train.py", "1-", " of 64")
        tmux.keys("End")
        screen = tmux.wait("63 train.py", "-64 of 64")
        self.assertNotIn(" 0 train.py", screen)
        tmux.keys("PPage", "PPage", "PPage", "PPage")
        tmux.wait(" 0 train.py", without="63 train.py")
        self.assertEqual(len(jobs), 64)
        self.leave(tmux)

    def test_a_reading_that_fails_is_told_and_the_next_is_shown(self) -> None:
        self.job("program=sim.py")
        tmux = self.open()
        tmux.wait("sim.py")
        (self.here / "pages").rename(self.here / "elsewhere")
        tmux.wait("sim.py", "cannot read the folder")
        (self.here / "elsewhere").rename(self.here / "pages")
        tmux.wait("sim.py", without="cannot read")
        self.leave(tmux)

    def test_names_cannot_steer_the_terminal(self) -> None:
        self.job("program=a\033[2J\u202eb")
        tmux = self.open()
        tmux.wait("a?[2J?b")
        self.leave(tmux)


@unittest.skipUnless(shutil.which("tmux"), "needs tmux")
class Terminals(TopCase):
    def test_without_a_terminal_the_way_out_is_named(self) -> None:
        result = self.top()
        self.assertEqual((result.returncode, result.stdout), (3, ""))
        self.assertIn("standard output is not a terminal\n'vramwise top --once' writes one table", result.stderr)

    def test_a_terminal_that_cannot_be_drawn_on_is_refused(self) -> None:
        tmux = Tmux(self, 200, 24)
        tmux.type("export ASAN_OPTIONS=detect_leaks=0")  # curses keeps what it made for no terminal
        for kind, words in (("dumb", "TERM is 'dumb'"), ("", "TERM is not set"),
                            ("no-such-terminal", "TERM is 'no-such-terminal', of which nothing")):
            tmux.type(f"clear; TERM={kind} '{PROGRAM}' top; echo with {kind or 'none'}: $?",
                      wait=f"with {kind or 'none'}: 3")
            screen = tmux.screen().replace("\n", "")
            self.assertIn(words, screen)
            self.assertIn("--once", screen)

    def test_ascii_is_enough(self) -> None:
        self.environment["LC_ALL"] = "C"
        job = self.job("program=train.py", H200, f"live_bytes={40 * GIB}", f"reserved_bytes={50 * GIB}",
                       "steps=200:1000:1000")
        self.use_gpus((0, job.pid, 51 * GIB))
        tmux = Tmux(self, 80, 24)
        tmux.type(f"'{PROGRAM}' top --interval 0.2")
        screen = tmux.wait("q Quit", "_.-:=+*#")
        self.assertRegex(screen, r"\[#+=+\+*\.+\]")
        self.assertTrue(screen.isascii())
        tmux.keys("q")
        tmux.wait("ready>", without="q Quit")

    def test_no_color_means_none(self) -> None:
        self.job("program=train.py", "out_of_memory=3")
        for value, has_colour in (("1", False), ("", True)):
            self.environment["NO_COLOR"] = value
            tmux = Tmux(self, 80, 24)
            tmux.type(f"'{PROGRAM}' top --interval 0.2")
            tmux.wait("oom 3 times")
            self.assertEqual("\033[31m" in tmux.run("capture-pane", "-p", "-e").replace("\033[1m", ""),
                             has_colour)
            tmux.run("kill-server")
            (self.here / "tmux").unlink(missing_ok=True)

    def test_signals_give_the_terminal_back(self) -> None:
        tmux = Tmux(self, 80, 24)
        tmux.type("export ASAN_OPTIONS=handle_segv=0:handle_sigbus=0")  # it would have its own ways
        for name in ("INT", "TERM", "HUP", "SEGV", "BUS"):
            tmux.type(f"clear; sh -c 'echo $$ > {self.here}/pid; exec {PROGRAM} top'")
            tmux.wait("q Quit")
            process = int((self.here / "pid").read_text())
            os.kill(process, getattr(signal, f"SIG{name}"))
            tmux.wait("ready>", without="q Quit")
            tmux.type("echo status $?", wait=f"status {128 + getattr(signal, f'SIG{name}')}\n")
            self.assertEqual(tmux.run("display-message", "-p", "#{alternate_on} #{cursor_flag}"),
                             "0 1\n")
            tmux.type(ECHOES, wait="\nechoes")


if __name__ == "__main__":
    PROGRAM, LIVE_JOB = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
    VARIABLE, LIBRARY = sys.argv[3].split("=", 1)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
