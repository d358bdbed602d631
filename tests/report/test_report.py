#!/usr/bin/env python3
"""test_report.py PROGRAM [unittest arguments] - `vramwise report` on folders as jobs leave them.

The recordings are those of tests/data under other names, and small ones made here. A method's name is
the sentence that is true when it passes. Nothing depends on time: the limit is for what never ends.
"""
import json
import os
import pathlib
import pickle
import py_compile
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RECORDINGS = ROOT / "tests/data/recordings"
FLEET = ROOT / "docs/fleet"
HEALTHY = RECORDINGS / "doctor/healthy_resnet.pickle.xz"
FRAGMENTED = RECORDINGS / "oom_fragmented.native.pickle.xz"
GENUINE = RECORDINGS / "oom_genuine.native.pickle.xz"
PROGRAM = ""
LIMIT_SECONDS = 100
MIB = 1 << 20

OOM = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
       "79.15 GiB of which 1.00 GiB is free. Of the allocated memory 70.00 GiB is allocated by PyTorch, and "
       "2.00 GiB is reserved by PyTorch but unallocated.")
TRACEBACK = f'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    main()\n{OOM}\n'


def snapshot(sizes_mib, conf="", oom_us=None):
    """Blocks of these sizes, one for each line of train.py, live at once and freed again."""
    events = []

    def put(action, place, size, line, time_us=None):
        events.append({"action": action, "addr": 0x7F0000000000 + place * (1 << 36), "size": size, "stream": 0,
                       "time_us": time_us or 1_700_000_000_000_000 + len(events),
                       "frames": [{"name": "step", "filename": "train.py", "line": line}]})
    for i, size in enumerate(sizes_mib):
        put("segment_alloc", i, size * MIB, i + 1)
        put("alloc", i, size * MIB, i + 1)
    if oom_us is not None:
        events.append({"action": "oom", "addr": 4096, "size": 4 * MIB, "stream": 0, "time_us": oom_us, "frames": []})
    for i, size in enumerate(sizes_mib):
        for action in ("free_requested", "free_completed", "segment_free"):
            put(action, i, size * MIB, i + 1)
    return {"segments": [], "device_traces": [events], "external_annotations": [],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": conf}}


class ReportCase(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="report-test-")
        self.addCleanup(folder.cleanup)
        self.here = pathlib.Path(folder.name)
        self.job = self.here / "job"
        self.job.mkdir()
        self.environment = {**os.environ, "LC_ALL": "C"}

    def put(self, name: str, content) -> pathlib.Path:
        """A text, a snapshot (dict), or a copy of a recording (path)."""
        path = self.job / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, pathlib.Path):
            shutil.copy(content, path)
        else:
            path.write_text(json.dumps(content) if isinstance(content, dict) else content)
        return path

    def report(self, *arguments, **more) -> subprocess.CompletedProcess:
        settings = {"cwd": self.here, "env": self.environment, "stdin": subprocess.DEVNULL,
                    "capture_output": True, "text": True, "timeout": LIMIT_SECONDS, "check": False, **more}
        return subprocess.run([PROGRAM, "report", *map(str, arguments)], **settings)

    def examine(self, status: int = 1) -> dict:
        result = self.report("job", "--json")
        self.assertEqual((result.returncode, result.stderr), (status, ""))
        return json.loads(result.stdout)

    def assert_could_not(self, result: subprocess.CompletedProcess, words: str) -> None:
        self.assertEqual((result.returncode, result.stdout), (3, ""))
        self.assertRegex(result.stderr, rf"\Avramwise report: .*{words}.*\n\Z")


def small_file_of_many_gigabytes() -> bytes:
    """A pickle of 41 kB whose host trace names one list of 60 entries 20,000 times."""
    entries = [{"action": "alloc", "addr": 4096 * i, "size": 512, "stream": 0} for i in range(60)]
    return pickle.dumps({"segments": [], "device_traces": [], "host_traces": [entries] * 20_000}, protocol=4)


class Jobs(ReportCase):
    def test_recordings_of_vramwise_run_are_compared_rank_by_rank(self):
        for rank in (0, 1, 3):
            self.put(f"run.rank{rank}.pickle", HEALTHY)
        self.put("vramwise-oom-train-812-rank2.pickle", FRAGMENTED)
        report = self.examine()
        self.assertEqual([rank["rank"] for rank in report["ranks"]], [0, 1, 2, 3])
        self.assertEqual(report["first_oom"], {"rank": 2, "lead_us": None, "reason": None})
        self.assertEqual(report["ranks"][2]["verdict"], "fragmentation")
        self.assertIsInstance(report["ranks"][2]["oom"]["time_us"], int)
        self.assertEqual({outlier["rank"] for outlier in report["outliers"]}, {2})
        self.assertIn("train.py:172 oom_fragmented", {site["where"] for site in report["sites"]})

    def test_its_figures_are_those_of_stats_and_doctor(self):
        self.put("run.rank0.pickle", GENUINE)
        report, path = self.examine(), str(self.job / "run.rank0.pickle")
        asked = {command: json.loads(subprocess.run([PROGRAM, command, path, "--json"], capture_output=True, check=False,
                                                    timeout=LIMIT_SECONDS).stdout) for command in ("stats", "doctor")}
        device, rank = asked["stats"]["devices"][0], report["ranks"][0]
        self.assertEqual(rank["peak_live_bytes"], device["peak"]["live_bytes"])
        self.assertEqual(rank["peak_reserved_bytes"], device["peak_reserved_bytes"])
        self.assertEqual(rank["events"], device["events"])
        self.assertEqual(rank["oom"]["tried_bytes"], device["oom"]["tried_bytes"])
        self.assertEqual(rank["verdict"], asked["doctor"]["verdict"])
        self.assertEqual(rank["sentence"], asked["doctor"]["sentence"])

    def test_torchrun_s_folders_are_read(self):
        for rank in range(4):
            self.put(f"logs/none_q1w2/attempt_0/{rank}/stdout.log",
                     "".join(f"step {step}: mem {2.0 + (step * 0.1 if rank == 3 else 0):.2f}GB\n" for step in range(60)))
            self.put(f"logs/none_q1w2/attempt_0/{rank}/stderr.log", f"[rank{rank}]: {OOM}\n" if rank == 3 else "")
        report = self.examine()
        self.assertEqual([rank["verdict"] for rank in report["ranks"]][3], "leak")
        self.assertEqual(report["first_oom"]["rank"], 3)
        self.assertGreater(report["ranks"][3]["growth_bytes_per_step"], 90 * MIB)
        self.assertEqual(report["ranks"][0]["growth_bytes_per_step"], 0)
        self.assertEqual(report["unassigned"], [])

    def test_a_log_of_srun_with_labels_is_taken_apart(self):
        lines = [f"{rank}: 2026-03-01 12:00:0{step} step {step}" for step in range(3) for rank in range(4)]
        lines += [f"2: 2026-03-01 12:00:05,500 ERROR {OOM}", f"0: 2026-03-01 12:00:07 ERROR {OOM}",
                  "srun: error: node1: task 2: Exited with exit code 1"]
        self.put("slurm-4711.out", "\n".join(lines) + "\n")
        report = self.examine()
        self.assertEqual([rank["oom"] is not None for rank in report["ranks"]], [True, False, True, False])
        self.assertEqual((report["first_oom"]["rank"], report["first_oom"]["lead_us"]), (2, 1_500_000))
        self.assertEqual(report["files"][0]["ranks"], 4)

    def test_outputs_of_slurm_tasks_are_read(self):
        self.put("slurm-4711-0.out", "fine\n")
        self.put("slurm-4711-1.out", TRACEBACK)
        self.put("other/slurm-4711_8-2.out", "fine\n")
        report = self.examine()
        self.assertEqual([rank["rank"] for rank in report["ranks"]], [0, 1, 2])
        self.assertEqual(report["first_oom"]["rank"], 1)

    def test_a_task_of_a_slurm_array_is_no_rank(self):
        self.put("slurm-4711_5.out", TRACEBACK)
        report = self.examine()
        self.assertEqual((report["ranks"], report["missing"], report["notes"]), ([], [], []))
        self.assertEqual([task["text"] for task in report["unassigned"]], ["slurm-4711_5.out"])
        self.assertRegex(report["files"][0]["reason"], "of a Slurm array task, which is a job, not a rank")

    def test_labels_in_the_output_of_an_array_s_task_are_ranks(self):
        self.put("slurm-4711_5.out", f"[rank0]: fine\n[rank3]: {OOM}\n")
        self.assertEqual([rank["rank"] for rank in self.examine()["ranks"]], [0, 3])

    def test_tasks_of_an_array_are_jobs_that_are_not_mixed(self):
        self.put("slurm-4711_5.out", f"[rank0]: {OOM}\n")
        self.put("slurm-4711_6.out", f"[rank0]: {OOM}\n")
        self.put("slurm-4711_6-1.out", f"{OOM}\n")
        report = self.examine()
        self.assertEqual(report["ranks"], [])
        self.assertEqual([task["text"] for task in report["unassigned"]],
                         ["slurm-4711_5.out", "slurm-4711_6-1.out", "slurm-4711_6.out"])
        self.assertRegex(report["notes"][0], "^There are files of 2 Slurm array tasks, each of which is a job")

    def test_sixty_four_ranks_are_compared(self):
        for rank in range(64):
            self.put(f"run.rank{rank}.json", snapshot([64, 200 if rank == 41 else 32],
                                                      oom_us=5_000_000 - rank if rank % 2 else None))
        report = self.examine()
        self.assertEqual(len(report["ranks"]), 64)
        self.assertEqual((report["oom_count"], report["first_oom"]["rank"]), (32, 63))
        self.assertEqual({outlier["rank"] for outlier in report["outliers"]}, {41})
        self.assertEqual([(site["rank"], site["where"]) for site in report["sites"]], [(41, "train.py:2 step")])

    def test_each_of_eight_ranks_has_its_own_gpu_in_its_snapshot(self):
        for rank in range(8):  # torch.cuda.set_device(rank), with all GPUs visible
            content = snapshot([64, 200 if rank == 5 else 32], oom_us=4_000_000 if rank == 5 else None)
            content["device_traces"] = [content["device_traces"][0] if device == rank else [] for device in range(8)]
            self.put(f"run.rank{rank}.json", content)
        report = self.examine()
        self.assertEqual([rank["device"] for rank in report["ranks"]], list(range(8)))
        self.assertEqual(report["first_oom"]["rank"], 5)
        self.assertEqual({outlier["rank"] for outlier in report["outliers"]}, {5})

    def test_of_eight_gpus_of_one_process_the_one_that_ran_out_is_shown(self):
        for rank in range(2):
            content = snapshot([])
            content["device_traces"] = [snapshot([16] * 8 if device == 2 else [64 + device],
                                                 oom_us=4_000_000 if (rank, device) == (1, 6) else None)["device_traces"][0]
                                        for device in range(8)]
            self.put(f"run.rank{rank}.json", content)
        ranks = self.examine()["ranks"]
        self.assertEqual([rank["device"] for rank in ranks], [2, 6])  # the busiest; the one that failed
        self.assertEqual([rank["oom"] is not None for rank in ranks], [False, True])
        self.assertEqual(ranks[1]["peak_live_bytes"], 70 * MIB)

    def test_ranks_alike_are_nothing_to_see(self):
        for rank in range(3):
            self.put(f"snap_r{rank}.json", snapshot([64, 32]))
        report = self.examine(0)
        self.assertFalse(report["something_to_see"])
        self.assertEqual(report["oom_count"], 0)

    def test_a_setting_that_differs_is_named(self):
        for rank in range(4):
            self.put(f"snap_r{rank}.json", snapshot([64, 32], conf="max_split_size_mb:128" if rank == 1 else ""))
        self.assertEqual(self.examine()["settings"], [{"key": "PYTORCH_CUDA_ALLOC_CONF", "rank": 1,
                                                       "value": "max_split_size_mb:128", "usual": ""}])


class GoingWrong(ReportCase):
    def test_what_cannot_be_read_is_named_and_the_rest_goes_on(self):
        self.put("run.rank0.pickle", snapshot([64, 32]))
        self.put("run.rank1.pickle", HEALTHY).write_bytes(HEALTHY.read_bytes()[:2000])
        self.put("train.py", "import torch\n")
        result = self.report("job")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(result.stdout, r"\nfiles +3: 1 recording, 0 texts, 1 unreadable, 1 other\n")
        self.assertRegex(result.stdout, r"\nunreadable +run\.rank1\.pickle: .*ends too early")
        self.assertRegex(result.stdout, r"\nothers +train\.py: ")
        self.assertRegex(result.stdout, r"\nnot read +1 \(their files are below, with the reason\)\n")
        self.assertNotIn("no files of", result.stdout)

    def test_a_small_file_of_many_gigabytes_is_named_and_the_rest_goes_on(self):
        self.put("run.rank0.pickle", snapshot([64, 32]))
        self.put("run.rank1.pickle", "").write_bytes(small_file_of_many_gigabytes())
        result = self.report("job")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(result.stdout, r"\nunreadable +run\.rank1\.pickle: host_traces: item 1: expected [^$]*another trace")

    def test_a_file_beyond_the_memory_allowed_is_named_and_the_rest_goes_on(self):
        self.put("run.rank0.pickle", snapshot([64, 32]))
        self.put("run.rank1.pickle", GENUINE)
        result = self.report("job", "--max-memory", "1MiB")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(result.stdout, r"\nunreadable +run\.rank1\.pickle: [^$]*--max-memory\s+allows\s+more")

    @unittest.skipIf(os.geteuid() == 0, "root reads everything")
    def test_a_file_that_may_not_be_read_is_named(self):
        self.put("run.rank0.pickle", snapshot([64, 32]))
        self.put("run.rank1.pickle", HEALTHY).chmod(0)
        files = {file["path"]: file for file in self.examine(0)["files"]}
        self.assertEqual(files["run.rank1.pickle"]["kind"], "unreadable")

    def test_an_empty_folder_is_said(self):
        self.assert_could_not(self.report("job"), "job: .*found no file")

    def test_a_folder_that_is_not_there_is_said(self):
        self.assert_could_not(self.report("nowhere"), "nowhere: No such file or directory")

    def test_a_file_is_no_folder(self):
        self.put("run.rank0.pickle", snapshot([64, 32]))
        self.assert_could_not(self.report("job/run.rank0.pickle"), "expected a folder, found a file")

    def test_nothing_readable_is_said_with_a_reason(self):
        self.put("run.rank1.pickle", "").write_bytes(b"\x80\x04 no pickle")
        self.put("b.py", "")
        self.assert_could_not(self.report("job"), r"found 2 files, none of which can be read; run\.rank1\.pickle: ")

    def test_a_pipe_does_not_keep_it_waiting(self):
        self.put("run.rank0.pickle", snapshot([64, 32]))
        os.mkfifo(self.job / "rank1.log")
        os.mkfifo(self.job / "run.rank2.pickle")
        self.assertEqual(len(self.examine(0)["ranks"]), 1)

    @unittest.skipUnless(os.geteuid() == 0, "only root can make a link somebody else's")
    def test_a_link_that_somebody_else_planted_is_not_followed(self):
        self.put("run.rank0.pickle", snapshot([64, 32]))
        secret = self.job.parent / "secret.log"
        secret.write_text(TRACEBACK)
        (self.job / "rank1.log").symlink_to(secret)
        self.assertEqual(len(self.examine()["ranks"]), 2)
        os.lchown(self.job / "rank1.log", 65534, 65534)
        report = self.examine(0)
        self.assertEqual(len(report["ranks"]), 1)
        self.assertIn("rank1.log", str(report["notes"]) + str(report["files"]))

    def test_links_in_a_circle_end(self):
        self.put("deep/run.rank0.pickle", snapshot([64, 32]))
        (self.job / "deep/up").symlink_to("..")
        (self.job / "self").symlink_to("self")
        report = self.examine(0)
        self.assertEqual([file["path"] for file in report["files"]], ["deep/run.rank0.pickle"])
        self.assertEqual(len(report["notes"]), 2)

    def test_names_cannot_steer_a_terminal(self):
        self.put("\x1b[31mrank0\x07.log", TRACEBACK)
        self.put("\x1b]0;owned\x07.bin", "x")
        result = self.report("job")
        self.assertEqual(result.returncode, 1)
        self.assertNotRegex(result.stdout, r"[\x00-\x09\x0b-\x1f]")

    def test_wrong_usage_is_said(self):
        self.put("run.rank0.pickle", snapshot([64, 32]))
        for arguments, words in (((), "expected one folder, not 0"), (("a", "b"), "expected one folder, not 2"),
                                 (("",), "the name of the folder is empty"), (("job", "--top", "x"), "--top"),
                                 (("job", "-o", ""), "the name of the page is empty"),
                                 (("job", "--json", "-o", "-"), "standard output"),
                                 (("job", "--torch", "0.1"), "0.1")):
            result = self.report(*arguments)
            self.assertEqual((result.returncode, result.stdout), (2, ""), arguments)
            self.assertIn(words, result.stderr)


class Pages(ReportCase):
    def setUp(self) -> None:
        super().setUp()
        for rank in range(3):
            self.put(f"snap_r{rank}.json", snapshot([64, 32]))

    def test_a_page_is_written_beside_the_text(self):
        result = self.report("job", "-o", "page.html")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(result.stdout, r"\Apage\.html  [\d.]+ [KM]iB\n\n3 ranks\b")
        self.assertIn('<meta name="generator" content="vramwise', (self.here / "page.html").read_text()[:32768])
        self.assertEqual(self.report("job", "-o", "page.html").returncode, 0)

    def test_with_json_only_that_is_printed(self):
        result = self.report("job", "--json", "--output", "page.html")
        self.assertEqual(json.loads(result.stdout)["oom_count"], 0)
        self.assertTrue((self.here / "page.html").exists())

    def test_the_page_may_go_to_standard_output(self):
        result = self.report("job", "-o", "-")
        self.assertEqual(result.returncode, 0)
        self.assertTrue(result.stdout.lower().startswith("<!doctype html>"))

    def test_no_other_file_is_overwritten(self):
        before = (self.job / "snap_r0.json").read_bytes()
        self.assert_could_not(self.report("job", "-o", "job/snap_r0.json"), "is not a page that vramwise wrote")
        self.assertEqual((self.job / "snap_r0.json").read_bytes(), before)
        self.assert_could_not(self.report("job", "-o", "job"), "found a folder")
        self.assert_could_not(self.report("job", "-o", "no/where.html"), "No such file")


class Examples(ReportCase):
    """docs/fleet: the scripts are run as Slurm and Ray would, with stand-ins for both."""

    def setUp(self) -> None:
        super().setUp()
        self.tools = self.here / "tools"
        self.tools.mkdir()
        (self.tools / "vramwise").symlink_to(PROGRAM)
        self.environment["PATH"] = f"{self.tools}:{os.environ['PATH']}"
        self.environment["PYTHONDONTWRITEBYTECODE"] = "1"
        self.list = self.here / "recordings.txt"
        names = [HEALTHY, self.here / "no such file", GENUINE, RECORDINGS / "graphs.native.pickle.xz"]
        self.list.write_text("".join(f"{name}\n" for name in names))

    def tool(self, name: str, text: str) -> None:
        path = self.tools / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run_script(self, *command, **variables) -> subprocess.CompletedProcess:
        return subprocess.run([str(word) for word in command], cwd=self.here, env={**self.environment, **variables},
                              capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)

    def assert_replayed(self, out: pathlib.Path) -> None:
        self.assertEqual(sorted(path.name for path in out.iterdir()), ["0.json", "1.failed", "2.json", "3.json"])
        for name in ("0.json", "2.json", "3.json"):
            self.assertEqual([result["policy"] for result in json.loads((out / name).read_text())["results"]], ["native"])
        self.assertIn("no such file", (out / "1.failed").read_text())

    def test_every_script_is_valid(self):
        for path in FLEET.glob("*.sbatch"):
            self.assertEqual(self.run_script("bash", "-n", path).stderr, "")
            self.assertTrue(path.stat().st_mode & stat.S_IXUSR, path)
            if shutil.which("shellcheck"):
                self.assertEqual(self.run_script("shellcheck", path).stdout, "")
        for path in FLEET.glob("*.py"):
            py_compile.compile(str(path), cfile=str(self.here / "compiled"), doraise=True)

    def test_links_of_the_pages_lead_somewhere(self):
        for page in FLEET.glob("*.md"):
            for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
                self.assertTrue((FLEET / link).exists(), f"{page.name}: {link}")

    def test_an_array_replays_the_whole_list(self):
        for number, status in ((4, 0), (5, 1), (6, 0)):
            result = self.run_script("bash", FLEET / "replay-array.sbatch", self.list, "out", "--policy", "native",
                                     SLURM_ARRAY_TASK_ID=str(number), SLURM_ARRAY_TASK_MIN="4",
                                     SLURM_ARRAY_TASK_COUNT="3")
            self.assertEqual(result.returncode, status, result.stderr)
        self.assert_replayed(self.here / "out")

    def test_ray_replays_the_whole_list(self):
        (self.tools / "ray.py").write_text(
            "import os\n"
            "def init(): os.chdir('/')\n"  # workers are elsewhere
            "def cluster_resources(): return {'CPU': 1}\n"
            "class Task:\n"
            "    def __init__(self, work): self.work = work\n"
            "    def remote(self, *words): return [self.work, words]\n"
            "remote = Task\n"
            "def get(tasks): return [work(*words) for work, words in tasks]\n"
            "def wait(tasks): return tasks[:1], tasks[1:]\n")
        self.list.write_text("".join(f"{os.path.relpath(name, self.here)}\n"
                                     for name in self.list.read_text().splitlines()))
        command = (sys.executable, FLEET / "replay_ray.py", self.list, "out", "--policy", "native")
        result = self.run_script(*command, PYTHONPATH=str(self.tools))
        self.assertEqual((result.returncode, result.stdout), (1, "1 recordings could not be replayed\n"), result.stderr)
        self.assert_replayed(self.here / "out")

    def test_a_training_ends_with_the_report(self):
        # Three tasks, one after the other; the last leaves a snapshot and fails.
        self.tool("srun", '#!/bin/bash\nwhile [[ $1 == --* ]]; do [[ $1 == --output ]] && out=$2; shift 2; done\n'
                          'for task in 0 1 2; do\n'
                          '    file=${out//%j/$SLURM_JOB_ID}\n'
                          '    SLURM_PROCID=$task "$@" > "${file//%t/$task}" 2>&1 || status=$?\n'
                          'done\nexit "${status:-0}"\n')
        failing = f'if [ "$SLURM_PROCID" = 2 ]; then echo "{OOM}"; exit 7; fi'
        result = self.run_script("bash", FLEET / "train.sbatch", "bash", "-c", failing, SLURM_JOB_ID="4711",
                                 SLURM_SUBMIT_DIR=str(self.here))
        self.assertEqual(result.returncode, 7, result.stderr)
        self.assertRegex(result.stdout, r"(?m)^rank 2 .*\b3\b")
        folder = self.here / "vramwise-4711"
        self.assertTrue((self.here / "vramwise-4711-report.html").exists())
        report = (self.here / "vramwise-4711-report.txt").read_text()
        self.assertIn("alone of 3 ranks", report)
        self.assertIn("3 texts, 0 unreadable, 0 others", report)
        again = self.run_script("vramwise", "report", folder).stdout  # nothing of the first is in it
        self.assertTrue(report.endswith(again), again)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
