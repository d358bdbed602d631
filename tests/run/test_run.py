#!/usr/bin/env python3
"""test_run.py PROGRAM [unittest arguments] - `headroom run` on programs that use a made-up torch.

Everything is real but torch (tests/support/fake_torch_watch): processes, signals, files, Python's
start-up, and the doctor, who is given recordings of tests/data. A method's name is the sentence that
is true when it passes.
"""
import lzma
import os
import pathlib
import pickle
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RECORDINGS = ROOT / "tests/data/recordings"
FAKE_TORCH = ROOT / "tests/support/fake_torch_watch"
PROGRAM = ""
LIMIT_SECONDS = 100  # for what hangs

HOOK_FILES = ("_watch.py", "_budget.py", "_ending.py", "_history.py", "_input.py", "_library.py",
              "_live.py", "_paths.py", "_program.py", "_steps.py", "_start/sitecustomize.py")

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
            if not name.startswith(("HEADROOM", "PYTHON", "RANK", "LOCAL_RANK", "SLURM", "FAKE_"))}
        self.environment.update({
            "PATH": f"{os.path.dirname(PROGRAM)}:{self.environment.get('PATH', '')}",
            "XDG_RUNTIME_DIR": str(self.runtime),
            "TMPDIR": str(self.folder),
            "LC_ALL": "C",
            "HEADROOM_LIVE": "0",  # test_live.py has that
            "HEADROOM_RUN_REPORT_SECONDS": "600",  # when the job has ended, however slow it is
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

    def read_verdict(self, process: subprocess.Popen) -> None:
        """Until the report has begun; the job is still at work then."""
        seen = ""
        while "Verdict:" not in seen:
            line = process.stderr.readline()
            self.assertNotEqual(line, "", seen)
            seen += line

    def files(self, pattern: str) -> list:
        return sorted(path.name for path in self.here.glob(pattern))

    def log_lines(self, word: str) -> list:
        if not self.log.exists():
            return []
        return [line for line in self.log.read_text(encoding="utf-8").splitlines() if word in line]


class Watching(RunCase):
    def test_a_failure_is_reported_with_the_doctors_verdict_and_the_files_name(self):
        result = self.run_python(FAILS, FAKE_TORCH_SNAPSHOT=str(
            RECORDINGS / "oom_fragmented.native.pickle.xz"))
        self.assertEqual(result.returncode, 1)
        traceback, report = result.stderr.split("\nheadroom: process ", 1)
        self.assertTrue(traceback.rstrip().splitlines()[-1].startswith("torch.OutOfMemoryError:"))
        self.assertIn("Verdict: fragmentation, high confidence, from a recording", report)
        (name,) = self.files("headroom-oom-train-*.pickle")
        self.assertIn(f"the snapshot is {name}", report)
        self.assertIn(f"headroom tune {name} --card 8192MiB", report)
        with open(self.here / name, "rb") as file:
            self.assertIn("device_traces", pickle.load(file))
        self.assertEqual(result.stdout, "")

    def test_a_run_in_which_nothing_happens_says_and_leaves_nothing(self):
        result = self.run_python("import torch\ntorch._C.allocate(1)\nprint('fine')\n")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "fine\n", ""))
        self.assertEqual(self.files("*"), ["train.py"])
        self.assertEqual(len(self.log_lines("history all alloc python 100000")), 1)

    def test_history_can_be_shorter_or_none(self):
        self.run_python("import torch\ntorch._C.allocate(1)", "--history", "77")
        self.assertEqual(len(self.log_lines("history all alloc python 77")), 1)
        self.run_python("import torch\ntorch._C.allocate(1)", "--history=0")
        self.assertEqual(len(self.log_lines("history")), 1)
        self.assertEqual(len(self.log_lines("observer")), 2)

    def test_what_the_program_says_of_history_before_cuda_starts_holds(self):
        self.run_python("import torch\ntorch.cuda.memory._record_memory_history('state')\n")
        self.assertEqual([line.split()[1:3] for line in self.log_lines("history")],
                         [["history", "state"]])

    def test_cuda_is_not_started_for_a_program_that_does_not(self):
        result = self.run_python("import torch\n")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(self.log_lines(""), [])

    def test_an_error_that_is_caught_is_reported_once_and_the_others_are_counted(self):
        result = self.run_python(CATCHES)
        self.assertEqual((result.returncode, result.stdout), (0, "done\n"))
        self.assertEqual(result.stderr.count("Verdict:"), 1)
        self.assertIn("headroom: and 3 more out-of-memory errors after the first\n", result.stderr)
        self.assertIn("headroom: the program went on after that, and ended well\n", result.stderr)
        self.assertEqual(len(self.files("headroom-oom-*.pickle")), 1)
        self.assertEqual(len(self.log_lines("snapshot")), 1)

    def test_a_listener_that_is_stopped_holds_a_retry_loop_up_once_only(self):
        process = self.start("--", sys.executable, self.script(
            "import os, signal, torch\ntorch._C.allocate(1)\n"
            "watch = __import__('_headroom_watch')\nsend, waits = watch._send, []\n"
            "def counted_send(*words, **fields):\n    patience = watch._state.patience_seconds\n"
            "    is_sent = send(*words, **fields)\n    waits.append(not is_sent and patience)\n"
            "    return is_sent\nwatch._send = counted_send\n"
            "watch._state.patience_seconds = 0.5\nos.kill(os.getppid(), signal.SIGSTOP)\n"
            "for attempt in range(40):\n    try:\n        torch._C.allocate(9 << 30)\n"
            "    except torch.OutOfMemoryError:\n        pass\n"
            "os.kill(os.getppid(), signal.SIGCONT)\n"
            "print(waits.count(0.5), {wait for wait in waits if wait not in (False, 0.5)})\n"))
        shown, _ = process.communicate(timeout=LIMIT_SECONDS)
        self.assertEqual((process.returncode, shown), (0, "1 {0.01}\n"))

    def test_a_report_does_not_wait_for_a_job_that_goes_on(self):
        self.environment["HEADROOM_RUN_REPORT_SECONDS"] = "1"
        process = self.start("--", sys.executable,
                             self.script(CATCHES + "import time\ntime.sleep(600)\n"))
        self.read_verdict(process)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(LIMIT_SECONDS), 128 + signal.SIGTERM)

    def test_an_error_that_the_allocator_never_saw_goes_to_the_doctor_as_text(self):
        result = self.run_python("import torch\ntorch._C.allocate(1)\nraise RuntimeError("
                                 "'CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling "
                                 "`cublasCreate(handle)`')")
        self.assertEqual(result.returncode, 1)
        self.assertIn("had an error about memory that nobody caught", result.stderr)
        self.assertIn("Verdict: unknown", result.stderr)
        self.assertEqual(self.files("*"), ["train.py"])

    def test_an_error_about_something_else_is_nobodys_business(self):
        result = self.run_python("import torch\ntorch._C.allocate(1)\nraise ValueError('shape')")
        self.assertNotIn("headroom:", result.stderr)
        self.assertEqual(result.returncode, 1)

    def test_what_the_error_knows_and_the_snapshot_does_not_comes_first(self):
        # The card is 8 GiB, of which somebody else holds six: only the error says so.
        text = FAILS.replace("allocate(7 << 30)", "allocate(1 << 20)").replace(
            "allocate(2 << 30)", "CARD_BYTES; torch._C.OTHERS_BYTES = 6 << 30; "
            "torch._C.allocate(3 << 30)")
        result = self.run_python(text, FAKE_TORCH_SNAPSHOT=str(
            RECORDINGS / "doctor/outside_other_process.pickle.xz"))
        self.assertIn("Verdict: outside", result.stderr)
        self.assertRegex(result.stderr, r"headroom: the snapshot alone would have it: \S+")

    def test_a_leak_longer_than_the_history_is_seen_in_the_steps(self):
        result = self.run_python(
            "import torch\noptimizer = torch.optim.Optimizer()\n"
            "for step in range(200):\n    torch._C.allocate(64 << 20)\n    optimizer.step()\n",
            FAKE_TORCH_SNAPSHOT=str(RECORDINGS / "doctor/oom_genuine.pickle.xz"))
        self.assertIn("Verdict: leak", result.stderr)
        (name,) = self.files("headroom-oom-*.steps.jsonl")
        lines = (self.here / name).read_text(encoding="utf-8").splitlines()
        self.assertEqual(len(lines), 128)
        self.assertEqual(lines[0], '{"step": 1, "allocated": 67108864, "reserved": 68157440}')

    def test_the_step_log_stays_small_and_follows_one_optimizer(self):
        result = self.run_python(
            "import sys, torch\ntorch._C.allocate(1)\n"
            "one, other = torch.optim.Optimizer(), torch.optim.Optimizer()\n"
            "for step in range(20000):\n    one.step()\n    other.step()\n"
            "steps = sys.modules['_headroom_watch']._state.steps.log\n"
            "print(len(steps), steps[0][0], steps[-1][0])\n")
        count, first, last = map(int, result.stdout.split())
        self.assertTrue(1000 < count < 4096 and first == 8 and last == 20000, result.stdout)

    def test_a_failure_in_a_thread_is_reported(self):
        result = self.run_python("import threading, torch\n"
                                 "def work():\n    torch._C.allocate(9 << 30)\n"
                                 "thread = threading.Thread(target=work)\n"
                                 "thread.start()\nthread.join()\n")
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stderr.count("Verdict:"), 1)

    def test_a_file_name_that_a_shell_would_take_apart_is_quoted(self):
        place = self.here / "my runs"
        place.mkdir()
        result = subprocess.run(self.command("--record", "my runs/a b.pickle", "--", sys.executable,
                                             self.script(FAILS)), cwd=self.here, text=True,
                                env=self.environment, capture_output=True, timeout=LIMIT_SECONDS,
                                check=False)
        self.assertIn("headroom stats 'my runs/a b.pickle'\n", result.stderr)


# A job by a clock of its own: a step takes a tenth of a second, and more where history has a price.
STEPS = """
import time, torch
now, prices = [0.0], PRICES
time.perf_counter = lambda: now[0]
torch._C.allocate(1 << 20)
optimizer = torch.optim.Optimizer()

def train(steps, seconds=0.1):
    levels = []
    for step in range(steps):
        levels.append(torch._C.history_level)
        now[0] += seconds * (1.0 + prices[torch._C.history_level])
        for size in (1 << 20, 1 << 21) * 200:
            torch._C.allocate(size)
            torch._C.free(size)
        optimizer.step()
    return levels

"""
DEAR = STEPS.replace("PRICES", "(0.0, 0.05, 0.26)")
CHEAP = STEPS.replace("PRICES", "(0.0, 0.001, 0.26)")
FREE = STEPS.replace("PRICES", "(0.0, 0.0, 0.0)")


class Costs(RunCase):
    def test_history_that_is_dear_is_kept_for_few_steps_and_that_is_said(self):
        result = self.run_python(DEAR + "levels = train(200)\nprint(*levels[:4], levels[-64:].count(2),"
                                 " levels[-64:].count(1))\ntorch._C.allocate(9 << 30)\n")
        self.assertEqual(result.stdout, "2 2 2 2 2 0\n")
        self.assertRegex(result.stderr, r"\n\nheadroom: history cost 5 % of a step here, with stacks "
                         r"26 %, and was kept for 2 steps in 64; --history 100000 keeps it for all\n")

    def test_without_any_history_the_error_and_the_steps_tell_the_cause(self):
        result = self.run_python(DEAR + "train(200)\nassert torch._C.history_level == 0\n"
                                 "torch._C.allocate(7 << 30)\ntorch._C.allocate(2 << 30)\n",
                                 FAKE_TORCH_SNAPSHOT="")
        self.assertIn("Verdict: genuine", result.stderr)
        self.assertIn("headroom: the snapshot alone would have it: Unknown", result.stderr)

    def test_stacks_that_are_dear_are_kept_for_few_steps_and_events_for_all(self):
        result = self.run_python(CHEAP + "levels = train(200)\nprint(levels[-32:].count(2),"
                                 " levels[-32:].count(1))\ntorch._C.allocate(9 << 30)\n")
        self.assertEqual(result.stdout, "1 31\n")
        self.assertIn("headroom: stacks cost 26 % of a step here, and were kept for one step in 32; "
                      "--history 100000 keeps them for all\n", result.stderr)

    def test_what_costs_nothing_is_kept_and_nothing_is_said(self):
        result = self.run_python(FREE + "print(set(train(200)[-100:]))\ntorch._C.allocate(9 << 30)\n")
        self.assertEqual(result.stdout, "{2}\n")
        self.assertNotIn("--history", result.stderr)

    def test_with_a_history_that_was_asked_for_nothing_is_measured(self):
        for options in (("--history", "100000"), ("--record", "run.pickle")):
            result = self.run_python(DEAR + "print(set(train(100)))\n", *options)
            self.assertEqual(result.stdout, "{2}\n")

    def test_events_are_kept_where_memory_is_tight(self):
        result = self.run_python(DEAR.replace("0.05", "0.04") + "torch._C.allocate(7 << 30)\n"
                                 "print(min(train(200)))\n")
        self.assertEqual(result.stdout, "1\n")

    def test_what_the_program_says_of_history_ends_the_measuring(self):
        result = self.run_python(DEAR + "train(20)\n"
                                 "torch.cuda.memory._record_memory_history(max_entries=5)\n"
                                 "print(set(train(200)))\ntorch._C.allocate(9 << 30)\n")
        self.assertEqual(result.stdout, "{2}\n")
        self.assertTrue(self.log_lines("history")[-1].endswith("history all all all 5"))
        self.assertNotIn("--history", result.stderr)

    def test_what_pytorch_does_for_itself_is_not_the_programs_word(self):
        result = self.run_python(
            DEAR + "own = {'__name__': 'torch._inductor.cudagraph_trees', 'torch': torch}\n"
            "exec('def switch(*how): torch.cuda.memory._record_memory_history(*how)', own)\n"
            "train(200)\nassert torch._C.history_level == 0\nown['switch']()\n"
            "own['switch'](None)\nprint(set(train(64)))\n")
        self.assertEqual(result.stdout, "{0, 2}\n")

    def test_a_leak_is_found_in_a_history_with_stacks_for_few_steps(self):
        with lzma.open(RECORDINGS / "doctor/leak_outputs.pickle.xz") as file:
            snapshot = pickle.load(file)
        (trace,) = [trace for trace in snapshot["device_traces"] if trace]
        step, was_in_optimizer, without = 0, False, set()
        for event in trace:
            is_in_optimizer = any("/optim/" in frame["filename"] for frame in event.get("frames", ()))
            step += was_in_optimizer and not is_in_optimizer
            was_in_optimizer = is_in_optimizer
            if step > 3 and step % 8 != 0:  # as PyTorch writes it: no list at all
                event.pop("frames", None)
            if event["action"] == "alloc":
                (without.discard if "frames" in event else without.add)(event["addr"])
        for segment in snapshot["segments"]:
            for block in segment["blocks"]:
                block["frames"] = [] if block["address"] in without else block["frames"]
        self.assertGreater(step, 40)
        path = self.folder / "leak.pickle.xz"
        with lzma.open(path, "wb", preset=0) as file:
            pickle.dump(snapshot, file)
        result = self.run_python(FAILS, FAKE_TORCH_SNAPSHOT=str(path))
        self.assertIn("Verdict: leak, high confidence", result.stderr)
        self.assertRegex(result.stderr, r"where +\S+\.py:\d+")


class Entering(RunCase):
    def test_modules_and_code_on_the_command_line_are_entered_too(self):
        package = self.here / "trainer"
        package.mkdir()
        (package / "__main__.py").write_text(FAILS, encoding="utf-8")
        result = self.run_it("--", sys.executable, "-m", "trainer")
        self.assertEqual(len(self.files("headroom-oom-trainer-*.pickle")), 1, result.stderr)
        self.run_it("--", sys.executable, "-c", FAILS)
        self.assertEqual(len(self.files("headroom-oom-python-*.pickle")), 1)

    def test_a_program_started_by_a_shell_or_by_a_program_is_entered(self):
        script = self.script(FAILS)
        self.run_it("--", "sh", "-c", f"true; {sys.executable} {script}; exit 7")
        outer = self.script(f"import subprocess, sys\n"
                            f"sys.exit(subprocess.call([sys.executable, {script!r}]))", "outer.py")
        result = self.run_it("--", sys.executable, outer)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(len(self.files("headroom-oom-train-*.pickle")), 2)

    def test_the_sitecustomize_that_was_there_runs_as_before(self):
        other = self.folder / "other"
        other.mkdir()
        (other / "sitecustomize.py").write_text("import sys\nsys.was_here = __file__\n",
                                                encoding="utf-8")
        result = self.run_python(
            "import sys, sitecustomize\nprint(sys.was_here == sitecustomize.__file__)\n"
            "print(any('_start' in entry for entry in sys.path))\n" + FAILS,
            PYTHONPATH=f"{FAKE_TORCH}:{other}")
        self.assertEqual(result.stdout, "True\nFalse\n")
        self.assertIn("Verdict:", result.stderr)

    def test_a_sitecustomize_that_fails_fails_as_before(self):
        other = self.folder / "other"
        other.mkdir()
        (other / "sitecustomize.py").write_text("raise KeyError('mine')\n", encoding="utf-8")
        result = self.run_python("print('on')", PYTHONPATH=f"{FAKE_TORCH}:{other}")
        self.assertEqual((result.returncode, result.stdout), (0, "on\n"))
        self.assertIn("Error in sitecustomize", result.stderr)
        self.assertIn("KeyError: 'mine'", result.stderr)

    def test_a_torch_that_a_pth_file_imports_before_us_is_watched(self):
        venv.create(self.folder / "venv", symlinks=True)
        (packages,) = self.folder.glob("venv/lib/python3*/site-packages")
        (packages / "early.pth").write_text("import torch\n", encoding="utf-8")
        result = self.run_it("--", str(self.folder / "venv/bin/python"), self.script(FAILS))
        self.assertEqual(result.stderr.count("Verdict:"), 1, result.stderr)

    def test_a_module_that_is_only_called_torch_is_one_line(self):
        (self.here / "torch.py").write_text("x = 1\n", encoding="utf-8")
        result = self.run_python("import torch\nprint(torch.x)\n", PYTHONPATH="")
        self.assertEqual((result.returncode, result.stdout), (0, "1\n"))
        self.assertRegex(result.stderr, r"^headroom: \S+/torch.py is not PyTorch, [^\n]+\n$")

    def test_a_tool_of_python_2_runs_as_before(self):
        if subprocess.run("python2.7 -c 1 2>&1", shell=True, check=False,
                          capture_output=True).returncode != 0:
            self.skipTest("there is no Python 2.7 here")
        (self.here / "sitecustomize.py").write_text("import sys\nsys.was_here = True\n",
                                                    encoding="utf-8")
        for path, found in (("", False), (str(self.here), True)):
            result = self.run_it("--", "python2.7", "-c", "import json, sys\n"
                                 "print(hasattr(sys, 'was_here'))\n", PYTHONPATH=path)
            self.assertEqual((result.stdout, result.stderr), (f"{found}\n", ""))

    def test_looking_for_torch_before_importing_it_makes_no_difference(self):
        result = self.run_python("from importlib import util\nassert util.find_spec('torch')\n"
                                 "assert util.find_spec('no_such_module') is None\n" + FAILS)
        self.assertIn("Verdict:", result.stderr)

    def test_torch_looks_as_if_nobody_had_been_there(self):
        result = self.run_python(
            "import sys, torch\nprint(type(torch.__loader__).__name__,"
            " type(torch.__spec__.loader).__name__, 'headroom' in sys.modules,"
            " [type(each).__name__ for each in sys.meta_path if 'Wait' in type(each).__name__])\n")
        self.assertEqual(result.stdout, "SourceFileLoader SourceFileLoader False []\n")

    def test_a_program_without_torch_is_left_as_it_was(self):
        result = self.run_python(
            "import sys\nprint('socket' in sys.modules, '_headroom_watch' in sys.modules)\n"
            "class Nowhere:\n"  # this machine may have a real one
            "    def find_spec(self, name, path=None, target=None):\n"
            "        if name == 'torch': raise ModuleNotFoundError(name)\n"
            "sys.meta_path.insert(1, Nowhere())\n"
            "try:\n    import torch\nexcept ImportError:\n    print('none')\n", PYTHONPATH="")
        self.assertEqual((result.stdout, result.stderr), ("False False\nnone\n", ""))

    def test_python_that_cannot_be_entered_is_said_once(self):
        for option in ("-I", "-E", "-S", "-sE"):
            with self.subTest(option):
                result = self.run_it("--", sys.executable, option, "-c", "print(1)")
                self.assertEqual((result.returncode, result.stdout), (0, "1\n"))
                self.assertEqual(result.stderr.count("headroom: the program is not watched"), 1)
                self.assertEqual(len(result.stderr.splitlines()), 1)

    def test_it_is_also_seen_behind_a_scripts_first_line(self):
        python = os.path.realpath(sys.executable)
        for line in (f"#!{python} -I", f"#!/usr/bin/env -S {python} -I"):
            with self.subTest(line):
                script = self.here / "tool"
                script.write_text(f"{line}\nprint(1)\n", encoding="utf-8")
                script.chmod(0o755)
                result = self.run_it("--", str(script))
                self.assertIn("the program is not watched: 'python -I' ignores", result.stderr)
                self.assertEqual(len(result.stderr.splitlines()), 1)
                self.assertEqual(result.stdout, "1\n")

    def test_what_is_not_python_gives_no_false_alarm(self):
        result = self.run_it("--", "sh", "-c", "echo -I; exit 3", "-I")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (3, "-I\n", ""))

    def test_a_python_that_only_tells_its_version_gives_no_false_alarm(self):
        self.assertEqual(self.run_it("--", sys.executable, "--version").stderr, "")

    def test_a_python_whose_environment_was_cleared_is_said(self):
        result = self.run_it("--", sys.executable, "-c", "import os, sys; os.environ.clear(); "
                             "os.execv(sys.executable, [sys.executable, '-c', '1'])")
        self.assertEqual((result.returncode, result.stderr), (0, ""))  # it was entered, at first
        result = self.run_it("--", "env", "-u", "PYTHONPATH", sys.executable, "-c",
                             "import time; time.sleep(0.8)")
        self.assertIn("the program was not watched", result.stderr)

    def test_disabled_there_is_nothing_of_ours(self):
        result = self.run_python("import os\nprint('HEADROOM_RUN' in os.environ)\n" + FAILS,
                                 "--record", "x.pickle", HEADROOM_DISABLE="1")
        self.assertEqual((result.returncode, result.stdout), (1, "False\n"))
        self.assertNotIn("headroom:", result.stderr)
        self.assertEqual(self.files("*"), ["train.py"])
        self.assertEqual(self.log_lines("observer"), [])

    def test_disabled_inside_a_run_the_hook_does_nothing(self):
        self.run_it("--", "env", "HEADROOM_DISABLE=1", sys.executable, self.script(FAILS))
        self.assertEqual(self.log_lines("observer"), [])
        self.assertEqual(self.files("*"), ["train.py"])

    def test_a_run_inside_a_run_reports_once(self):
        result = self.run_it("--record", "outer.pickle", "--", PROGRAM, "run", "--",
                             sys.executable, self.script(FAILS))
        self.assertEqual(result.stderr.count("Verdict:"), 1)
        self.assertEqual(self.files("outer*"), [])


class Processes(RunCase):
    def test_ranks_are_in_the_names_and_one_of_them_is_diagnosed(self):
        script = self.script(FAILS)
        result = self.run_it("--", "sh", "-c", "for rank in 0 1 2; do RANK=$rank "
                             f"{sys.executable} {script} & done; wait")
        self.assertEqual(len(self.files("headroom-oom-train-*-rank?.pickle")), 3)
        self.assertEqual(result.stderr.count("Verdict:"), 1)
        self.assertEqual(result.stderr.count("ran out as well: headroom-oom-train-"), 2)

    def test_a_rank_that_runs_out_after_the_report_is_named_at_the_end(self):
        self.environment["HEADROOM_RUN_REPORT_SECONDS"] = "0"
        python = f"{sys.executable} {self.script(FAILS)}"
        process = self.start("--", "sh", "-c", f"RANK=0 {python}; while [ ! -e go ]; do sleep 0.05; "
                             f"done; RANK=1 {python}")
        self.read_verdict(process)
        (self.here / "go").touch()
        rest = process.stderr.read()
        self.assertEqual(process.wait(LIMIT_SECONDS), 1)
        (late,) = self.files("headroom-oom-train-*-rank1.pickle")
        self.assertEqual(rest.count(f"(rank 1) ran out as well: {late}\n"), 1, rest)
        self.assertRegex(rest, r"the snapshot is headroom-oom-train-\d+-rank0\.pickle\n")
        self.assertNotIn("Verdict:", rest)

    def test_workers_that_are_forked_before_cuda_starts_are_watched(self):
        result = self.run_python("import os, torch\nchild = os.fork()\nif child == 0:\n"
                                 "    torch._C.allocate(9 << 30)\nos.waitpid(child, 0)\n")
        self.assertEqual(result.stderr.count("Verdict:"), 1)

    def test_a_fork_after_cuda_started_is_left_alone(self):
        result = self.run_python(
            "import os, sys, torch\ntorch._C.allocate(1)\nchild = os.fork()\nif child == 0:\n"
            "    try:\n        torch.cuda._lazy_init()\n"
            "    except RuntimeError as error:\n        print(error, flush=True)\n"
            "    sys.exit(0)\nos.waitpid(child, 0)\n", "--record", "run.pickle")
        self.assertEqual(result.stdout, "Cannot re-initialize CUDA in forked subprocess.\n")
        self.assertEqual(self.files("*.pickle"), ["run.pickle"])
        self.assertEqual(len(self.log_lines("snapshot")), 1)
        self.assertEqual(result.stderr, "headroom: recorded run.pickle\n")

    def test_processes_of_multiprocessing_write_their_recordings(self):
        for method in ("spawn", "fork"):
            with self.subTest(method):
                self.run_python(
                    "import multiprocessing\ndef work(number):\n    import torch\n"
                    "    torch._C.allocate(number)\nif __name__ == '__main__':\n"
                    f"    context = multiprocessing.get_context('{method}')\n"
                    "    workers = [context.Process(target=work, args=(n,)) for n in (1, 2)]\n"
                    "    [worker.start() for worker in workers]\n"
                    "    [worker.join() for worker in workers]\n", "--record", f"{method}.pickle")
                self.assertEqual(len(self.files(f"{method}*.pickle")), 2)


class Recording(RunCase):
    def test_the_whole_history_is_kept_and_written_at_the_end(self):
        result = self.run_python("import torch\ntorch._C.allocate(1)\n", "--record", "run.pickle")
        self.assertEqual(result.stderr, "headroom: recorded run.pickle\n")
        self.assertEqual(len(self.log_lines(f"python {sys.maxsize}")), 1)
        with open(self.here / "run.pickle", "rb") as file:
            self.assertIn("segments", pickle.load(file))

    def test_ranks_and_subprocesses_have_files_of_their_own(self):
        script = self.script("import torch\ntorch._C.allocate(1)\n")
        self.run_it("--record", "run.pickle", "--", "sh", "-c",
                    f"RANK=3 {sys.executable} {script}; SLURM_PROCID=4 {sys.executable} {script}; "
                    f"LOCAL_RANK=5 {sys.executable} {script}; RANK=3 {sys.executable} {script}")
        names = self.files("*.pickle")
        self.assertEqual(names[-1], "run.rank5.pickle")
        self.assertRegex(" ".join(names), r"^run\.rank3\.pickle run\.rank3\.pid\d+\.pickle "
                         r"run\.rank4\.pickle run\.rank5\.pickle$|"
                         r"^run\.rank3\.pid\d+\.pickle run\.rank3\.pickle "
                         r"run\.rank4\.pickle run\.rank5\.pickle$")

    def test_a_failure_is_in_the_recording_and_no_other_file_is_made(self):
        result = self.run_python(FAILS, "--record", "run.pickle")
        self.assertIn("the snapshot is run.pickle", result.stderr)
        self.assertIn("Verdict: too-large", result.stderr)
        self.assertEqual(self.files("*.pickle"), ["run.pickle"])
        self.assertEqual(len(self.log_lines("snapshot")), 1)

    def test_a_failure_that_was_caught_does_not_end_the_recording(self):
        result = self.run_python(CATCHES, "--record", "run.pickle")
        self.assertEqual(len(self.log_lines("snapshot")), 2)
        self.assertIn("headroom: recorded run.pickle\n", result.stderr)

    def test_what_could_not_be_recorded_is_said(self):
        result = self.run_python("import os, torch\ntorch._C.allocate(1)\nos._exit(4)",
                                 "--record", "run.pickle")
        self.assertEqual(result.returncode, 4)
        self.assertIn("ended before Python could", result.stderr)
        (self.here / "gone").mkdir()
        result = self.run_python("import torch\ntorch._C.allocate(1)\n"
                                 "__import__('shutil').rmtree('gone')", "--record",
                                 "gone/run.pickle")
        self.assertRegex(result.stderr, r"^headroom: the recording \S+ could not be written: "
                         r"FileNotFoundError: [^\n]+\n$")
        result = self.run_python("print(1)", "--record", "run.pickle")
        self.assertIn("nothing was recorded: no process of the run used a GPU", result.stderr)

    def test_the_steps_are_kept_beside_the_recording(self):
        self.run_python("import torch\ntorch._C.allocate(1)\none = torch.optim.Optimizer()\n"
                        "for step in range(5): one.step()\n", "--record", "run.pickle")
        lines = (self.here / "run.steps.jsonl").read_text(encoding="utf-8").splitlines()
        self.assertEqual(len(lines), 5)

    def test_a_folder_that_is_not_there_is_noticed_before_the_job_starts(self):
        result = self.run_python("print(1)", "--record", "nowhere/run.pickle")
        self.assertEqual((result.returncode, result.stdout), (125, ""))
        self.assertEqual(result.stderr, "headroom run: cannot record to 'nowhere/run.pickle': "
                         "No such file or directory\n")


class GoingWrong(RunCase):
    def test_a_command_that_is_not_there_ends_with_125(self):
        result = self.run_it("--", "no-such-program")
        self.assertEqual(result.returncode, 125)
        self.assertEqual(result.stderr, "headroom run: cannot start 'no-such-program': "
                         "No such file or directory\n")
        result = self.run_it("--", "no-such-program", HEADROOM_DISABLE="1")
        self.assertEqual(result.returncode, 125)

    def test_a_crash_in_the_handler_is_one_line_and_the_job_ends_as_it_would_have(self):
        result = self.run_python(FAILS, FAKE_TORCH_CRASH="1")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr.count("headroom: the out-of-memory error could not be looked "
                                             "at: ZeroDivisionError: made up\n"), 1)
        self.assertIn("torch.OutOfMemoryError: CUDA out of memory.", result.stderr)
        self.assertIn("Verdict: genuine", result.stderr)  # by the error alone
        self.assertEqual(self.files("*"), ["train.py"])

    def test_where_the_folder_cannot_be_written_to_the_file_goes_to_the_temporary_one(self):
        result = self.run_python(
            FAILS.replace("import torch", "import os, torch\n"
                          "os.environ['HEADROOM_RUN_FOLDER'] = '/proc/none'"))
        self.assertRegex(result.stderr, r"the snapshot is \S*headroom-oom-train-\d+\.pickle")
        self.assertEqual(len(list(self.folder.glob("headroom-oom-*.pickle"))), 1)

    def test_in_a_folder_that_was_removed_the_file_goes_to_the_temporary_one(self):
        script, gone = self.script(FAILS), self.folder / "gone"
        gone.mkdir()
        result = self.run_it("--", "sh", "-c", f"unset HEADROOM_RUN_FOLDER; cd {gone}; rmdir {gone}; "
                             f"exec {sys.executable} {script}")
        self.assertRegex(result.stderr, r"the snapshot is \S*headroom-oom-train-\d+\.pickle")
        self.assertEqual(len(list(self.folder.glob("headroom-oom-*.pickle"))), 1)

    def test_a_process_killed_while_it_writes_leaves_no_part_of_a_file(self):
        result = self.run_python(
            "import os, signal, torch\ntorch._C.allocate(1)\n"
            "import pickle\nwatch = __import__('_headroom_watch')\n"
            "def dump(snapshot, file):\n    file.write(b'half')\n    file.flush()\n"
            "    os.kill(os.getpid(), signal.SIGKILL)\n"
            "watch.pickle = type('pickle', (), {'dump': staticmethod(dump)})\n"
            "torch._C.allocate(9 << 30)\n")
        self.assertEqual(result.returncode, 128 + signal.SIGKILL)
        self.assertIn("Verdict: too-large", result.stderr)  # by the numbers it sent before
        self.assertEqual(sorted(path.name for path in self.here.iterdir()), ["train.py"])

    def test_an_allocator_without_history_is_one_line(self):
        result = self.run_python(FAILS, FAKE_TORCH_NO_HISTORY="1")
        self.assertEqual(result.stderr.count("this allocator keeps no history"), 1)
        self.assertIn("Verdict: genuine", result.stderr)  # the error still reaches the doctor

    def test_the_same_trouble_in_many_processes_is_said_once(self):
        script = self.script("import torch\ntorch._C.allocate(1)\n")
        result = self.run_it("--", "sh", "-c", f"for n in 1 2 3; do {sys.executable} {script}; done",
                             FAKE_TORCH_NO_HISTORY="1")
        self.assertEqual(len(result.stderr.splitlines()), 1)

    def test_without_a_gpu_the_job_fails_as_it_would_have(self):
        result = self.run_python(FAILS, FAKE_TORCH_NO_GPU="1")
        self.assertTrue(result.stderr.endswith("RuntimeError: No CUDA GPUs are available\n"))
        self.assertEqual(result.returncode, 1)

    def test_without_the_package_an_allocator_is_refused_and_pytorchs_own_stays(self):
        hook = self.folder / "python/headroom"
        (hook / "_start").mkdir(parents=True)
        for name in HOOK_FILES:
            (hook / name).write_bytes((ROOT / "python/headroom" / name).read_bytes())
        result = self.run_python("import torch\ntorch._C.allocate(1)\nprint('on')\n",
                                 "--allocator", "headroom", HEADROOM_PYTHON=str(hook.parent))
        self.assertEqual((result.returncode, result.stdout), (0, "on\n"))
        self.assertEqual(result.stderr.count("allocator headroom was not installed, and PyTorch's "
                                             "own stays"), 1)
        self.assertEqual(len(self.log_lines("observer")), 1)

    def test_the_allocator_is_installed_after_torch_and_before_cuda(self):
        hook = self.folder / "python/headroom"
        (hook / "_start").mkdir(parents=True)
        for name in HOOK_FILES:
            (hook / name).write_bytes((ROOT / "python/headroom" / name).read_bytes())
        (hook / "__init__.py").write_text("", encoding="utf-8")
        (hook / "torch.py").write_text("import torch\ndef install(name, fallback):\n"
                                       "    torch._tell(f'installed {name}')\n", encoding="utf-8")
        self.run_python("import torch\ntorch._C.allocate(1)\n", "--allocator", "headroom:rescue",
                        HEADROOM_PYTHON=str(hook.parent))
        self.assertEqual([line.split(" ", 1)[1] for line in self.log_lines("")][:2],
                         ["installed headroom:rescue", "cuda started"])

    def test_without_a_listener_the_file_is_named_by_the_process_itself(self):
        script = self.script(FAILS)
        result = subprocess.run([sys.executable, script], cwd=self.here, text=True, check=False,
                                capture_output=True, timeout=LIMIT_SECONDS, env={
                                    **self.environment, "HEADROOM_RUN": "/nowhere",
                                    "PYTHONPATH": f"{ROOT}/python/headroom/_start:{FAKE_TORCH}"})
        (name,) = self.files("headroom-oom-*.pickle")
        self.assertRegex(result.stderr, rf"headroom: process \d+ ran out of GPU memory; 'headroom "
                         rf"doctor \S*{re.escape(name)}' says why\n")

    def test_a_doctor_that_takes_too_long_is_stopped(self):
        result = self.run_python(FAILS, HEADROOM_RUN_DOCTOR_SECONDS="0")
        self.assertIn("headroom: the doctor takes too long, and was stopped\n", result.stderr)
        self.assertIn("the snapshot is headroom-oom-train-", result.stderr)
        self.assertEqual(result.returncode, 1)


    def test_a_reader_of_errors_that_goes_away_does_not_leave_the_job_alone(self):
        result = subprocess.run(
            ["bash", "-c", '"$@" 2> >(exec true); echo $?', "bash", *self.command(
                "--", "sh", "-c", f"sleep 0.2; {sys.executable} {self.script(FAILS)} 2>/dev/null; "
                "exit 5")], cwd=self.here, env=self.environment, text=True, capture_output=True,
            timeout=LIMIT_SECONDS, check=False)
        self.assertEqual(result.stdout, "5\n")


class SignalsAndStatus(RunCase):
    WAITS = """
import signal, sys, time
caught = []
def handler(number, frame):
    caught.append(number)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, handler)
print("ready", flush=True)
deadline = time.monotonic() + 100
while not caught and time.monotonic() < deadline:
    time.sleep(0.01)
time.sleep(0.3)
print(*caught)
sys.exit(9)
"""

    def test_the_exit_status_is_the_commands(self):
        for status in (0, 1, 2, 77, 255):
            self.assertEqual(self.run_it("--", "sh", "-c", f"exit {status}").returncode, status)

    def test_a_command_that_a_signal_killed_ends_with_128_and_its_number(self):
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
            result = self.run_it("--", "sh", "-c", f"ulimit -c 0; kill -{int(number)} $$")
            self.assertEqual(result.returncode, 128 + number)

    def test_a_signal_sent_to_us_alone_is_passed_on_once(self):
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            with self.subTest(number):
                process = self.start("--", sys.executable, self.script(self.WAITS))
                self.assertEqual(process.stdout.readline(), "ready\n")
                process.send_signal(number)
                self.assertEqual(process.stdout.readline(), f"{int(number)}\n")
                self.assertEqual(process.wait(LIMIT_SECONDS), 9)

    def test_a_signal_sent_to_all_of_the_group_reaches_the_command_once(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number):
                process = self.start("--", sys.executable, self.script(self.WAITS),
                                     start_new_session=True)
                self.assertEqual(process.stdout.readline(), "ready\n")
                os.killpg(process.pid, number)
                self.assertEqual(process.stdout.readline(), f"{int(number)}\n")
                self.assertEqual(process.wait(LIMIT_SECONDS), 9)

    def test_ctrl_c_at_a_terminal_reaches_the_command_once(self):
        script = self.script(self.WAITS)
        child, terminal = pty.fork()
        if child == 0:
            try:
                os.chdir(self.here)
                os.execve(PROGRAM, self.command("--", sys.executable, script), self.environment)
            finally:
                os._exit(99)
        seen = b""
        while b"ready" not in seen:
            seen += os.read(terminal, 1000)
        os.write(terminal, b"\x03")
        try:
            while True:
                piece = os.read(terminal, 1000)
                if not piece:
                    break
                seen += piece
        except OSError:
            pass  # the terminal is closed: everybody has gone
        os.close(terminal)
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 9, seen)
        self.assertRegex(seen.decode(), rf"\r\n(\^C)?{int(signal.SIGINT)}\r\n")

    def test_stopping_and_continuing_goes_for_both(self):
        process = self.start("--", sys.executable, self.script(self.WAITS),
                             preexec_fn=os.setpgrp)
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGTSTP)
        deadline = time.monotonic() + LIMIT_SECONDS
        state = ""
        while state != "T" and time.monotonic() < deadline:
            with open(f"/proc/{process.pid}/stat", encoding="utf-8") as file:
                state = file.read().rsplit(")", 1)[1].split()[0]
            time.sleep(0.01)
        self.assertEqual(state, "T")
        process.send_signal(signal.SIGCONT)
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.stdout.readline(), f"{int(signal.SIGTERM)}\n")
        self.assertEqual(process.wait(LIMIT_SECONDS), 9)

    def test_signals_that_were_ignored_stay_so_for_the_command(self):
        result = subprocess.run(["sh", "-c", 'trap "" HUP USR1; exec "$@"', "sh", *self.command(
            "--", sys.executable, "-c", "import signal; print(signal.getsignal(signal.SIGHUP), "
            "signal.getsignal(signal.SIGTERM), signal.pthread_sigmask(signal.SIG_BLOCK, []))")],
            cwd=self.here, env=self.environment, text=True, capture_output=True, check=False,
            timeout=LIMIT_SECONDS)
        self.assertEqual(result.stdout.split()[:2], ["1", "0"] if sys.version_info >= (3, 11) else
                         ["Handlers.SIG_IGN", "Handlers.SIG_DFL"])
        self.assertTrue(result.stdout.endswith("set()\n"))

    def test_standard_input_and_output_are_the_commands(self):
        result = subprocess.run(self.command("--", "cat"), input="through\n", text=True,
                                cwd=self.here, env=self.environment, capture_output=True,
                                timeout=LIMIT_SECONDS, check=False)
        self.assertEqual(result.stdout, "through\n")


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
