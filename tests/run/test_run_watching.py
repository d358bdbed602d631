#!/usr/bin/env python3
"""test_run_watching.py PROGRAM [unittest arguments] - what `vramwise run` sees of a job, keeps of
it, and what that may cost. See run_case.py.
"""
import lzma
import os
import pickle
import signal
import subprocess
import sys
import time

import run_case
from run_case import CATCHES, FAILS, LIMIT_SECONDS, RECORDINGS, RunCase


class Watching(RunCase):
    def test_a_failure_is_reported_with_the_doctors_verdict_and_the_files_name(self):
        result = self.run_python(FAILS, FAKE_TORCH_SNAPSHOT=str(
            RECORDINGS / "oom_fragmented.native.pickle.xz"))
        self.assertEqual(result.returncode, 1)
        traceback, report = result.stderr.split("\nvramwise: process ", 1)
        self.assertTrue(traceback.rstrip().splitlines()[-1].startswith("torch.OutOfMemoryError:"))
        self.assertIn("Verdict: fragmentation, high confidence, from a recording", report)
        (name,) = self.files("vramwise-oom-train-*.pickle")
        self.assertIn(f"the snapshot is {name}", report)
        self.assertIn(f"vramwise tune {name} --card 8GiB", report)
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
        self.assertIn("vramwise: and 3 more out-of-memory errors after the first\n", result.stderr)
        self.assertIn("vramwise: the program went on after that, and ended well\n", result.stderr)
        self.assertEqual(len(self.files("vramwise-oom-*.pickle")), 1)
        self.assertEqual(len(self.log_lines("snapshot")), 1)

    def test_a_listener_that_is_stopped_holds_a_retry_loop_up_once_only(self):
        process = self.start("--", sys.executable, self.script(
            "import os, signal, torch\ntorch._C.allocate(1)\n"
            "watch = __import__('_vramwise_watch')\nsend, waits = watch._send, []\n"
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
        self.environment["VRAMWISE_RUN_REPORT_SECONDS"] = "1"
        process = self.start("--", sys.executable,
                             self.script(CATCHES + "import time\ntime.sleep(600)\n"))
        self.read_verdict(process)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(LIMIT_SECONDS), 128 + signal.SIGTERM)

    def test_a_report_waits_for_a_snapshot_that_is_long_in_coming(self):
        self.environment["VRAMWISE_RUN_REPORT_SECONDS"] = "0"
        slow = ("import time\nsnapshot = torch.cuda.memory._snapshot\ndef slow_snapshot():\n"
                "    time.sleep(1)\n    return snapshot()\ntorch.cuda.memory._snapshot = slow_snapshot\n")
        process = self.start("--", sys.executable, self.script(
            "import torch\n" + slow + CATCHES + "time.sleep(600)\n"))
        self.assertIn("from a recording", self.read_verdict(process))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(LIMIT_SECONDS), 128 + signal.SIGTERM)

    def test_a_report_does_not_wait_for_a_snapshot_that_cannot_be_made(self):
        self.environment["VRAMWISE_RUN_REPORT_SECONDS"] = "0"
        self.environment["FAKE_TORCH_CRASH"] = "1"
        process = self.start("--", sys.executable,
                             self.script(CATCHES + "import time\ntime.sleep(600)\n"))
        self.assertIn("from a text", self.read_verdict(process))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(LIMIT_SECONDS), 128 + signal.SIGTERM)

    def test_an_error_that_the_allocator_never_saw_goes_to_the_doctor_as_text(self):
        result = self.run_python("import torch\ntorch._C.allocate(1)\nraise RuntimeError("
                                 "'CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling "
                                 "`cublasCreate(handle)`')")
        self.assertEqual(result.returncode, 1)
        self.assertIn("had an uncaught error about memory", result.stderr)
        self.assertIn("Verdict: unknown", result.stderr)
        self.assertEqual(self.files("*"), ["train.py"])

    def test_an_error_with_half_a_character_goes_to_the_doctor_too(self):
        result = self.run_python("import torch\ntorch._C.allocate(1)\n"
                                 "raise MemoryError('out of memory: \\ud800 \\udcff')\n")
        self.assertEqual(result.returncode, 1)
        self.assertNotIn("could not be looked at", result.stderr)
        self.assertIn("had an uncaught error about memory", result.stderr)
        self.assertIn("Verdict:", result.stderr)

    def test_an_error_about_something_else_is_nobodys_business(self):
        result = self.run_python("import torch\ntorch._C.allocate(1)\nraise ValueError('shape')")
        self.assertNotIn("vramwise:", result.stderr)
        self.assertEqual(result.returncode, 1)

    def test_what_the_error_knows_and_the_snapshot_does_not_comes_first(self):
        # The card is 8 GiB, of which somebody else holds six: only the error says so.
        text = FAILS.replace("allocate(7 << 30)", "allocate(1 << 20)").replace(
            "allocate(2 << 30)", "CARD_BYTES; torch._C.OTHERS_BYTES = 6 << 30; "
            "torch._C.allocate(3 << 30)")
        result = self.run_python(text, FAKE_TORCH_SNAPSHOT=str(
            RECORDINGS / "doctor/outside_other_process.pickle.xz"))
        self.assertIn("Verdict: outside", result.stderr)
        self.assertRegex(result.stderr, r"vramwise: the snapshot alone would have it: \S+")

    def test_a_leak_longer_than_the_history_is_seen_in_the_steps(self):
        result = self.run_python(
            "import torch\noptimizer = torch.optim.Optimizer()\n"
            "for step in range(200):\n    torch._C.allocate(64 << 20)\n    optimizer.step()\n",
            FAKE_TORCH_SNAPSHOT=str(RECORDINGS / "doctor/oom_genuine.pickle.xz"))
        self.assertIn("Verdict: leak", result.stderr)
        (name,) = self.files("vramwise-oom-*.steps.jsonl")
        lines = (self.here / name).read_text(encoding="utf-8").splitlines()
        self.assertEqual(len(lines), 128)
        self.assertEqual(lines[0], '{"step": 1, "allocated": 67108864, "reserved": 68157440}')

    def test_the_step_log_stays_small_and_follows_one_optimizer(self):
        result = self.run_python(
            "import sys, torch\ntorch._C.allocate(1)\n"
            "one, other = torch.optim.Optimizer(), torch.optim.Optimizer()\n"
            "for step in range(20000):\n    one.step()\n    other.step()\n"
            "steps = sys.modules['_vramwise_watch']._state.steps.log\n"
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
        self.assertIn("vramwise doctor --all 'my runs/a b.pickle'\n", result.stderr)


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
        self.assertRegex(result.stderr, r"\n\nvramwise: history cost 5 % of a step here, with stacks "
                         r"26 %, and was kept for 2 steps in 64; --history 100000 keeps it for all\n")

    def test_without_any_history_the_error_and_the_steps_tell_the_cause(self):
        result = self.run_python(DEAR + "train(200)\nassert torch._C.history_level == 0\n"
                                 "torch._C.allocate(7 << 30)\ntorch._C.allocate(2 << 30)\n",
                                 FAKE_TORCH_SNAPSHOT="")
        self.assertIn("Verdict: genuine", result.stderr)
        self.assertIn("vramwise: the snapshot alone would have it: Unknown", result.stderr)

    def test_stacks_that_are_dear_are_kept_for_few_steps_and_events_for_all(self):
        result = self.run_python(CHEAP + "levels = train(200)\nprint(levels[-32:].count(2),"
                                 " levels[-32:].count(1))\ntorch._C.allocate(9 << 30)\n")
        self.assertEqual(result.stdout, "1 31\n")
        self.assertIn("vramwise: stacks cost 26 % of a step here, and were kept for one step in 32; "
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
        self.assertRegex(result.stderr, r"Where: \S+\.py:\d+")
        card = result.stderr[result.stderr.index("\nvramwise: process "):]
        self.assertLessEqual(len(card.splitlines()), 24, card)


class Recording(RunCase):
    def test_the_whole_history_is_kept_and_written_at_the_end(self):
        result = self.run_python("import torch\ntorch._C.allocate(1)\n", "--record", "run.pickle")
        self.assertEqual(result.stderr, "vramwise: recorded run.pickle\n")
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

    def test_a_number_over_16777216_is_no_rank(self):
        self.environment.update(RANK="9" * 5000, SLURM_PROCID=str((1 << 24) + 1))
        self.run_python("import torch\ntorch._C.allocate(1)\n", "--record", "run.pickle")
        self.environment["LOCAL_RANK"] = str(1 << 24)
        self.run_python("import torch\ntorch._C.allocate(1)\n", "--record", "run.pickle")
        self.assertEqual(self.files("*.pickle"), ["run.pickle", "run.rank16777216.pickle"])

    def test_a_failure_is_in_the_recording_and_no_other_file_is_made(self):
        result = self.run_python(FAILS, "--record", "run.pickle")
        self.assertIn("the snapshot is run.pickle", result.stderr)
        self.assertIn("Verdict: too-large", result.stderr)
        self.assertEqual(self.files("*.pickle"), ["run.pickle"])
        self.assertEqual(len(self.log_lines("snapshot")), 1)

    def test_a_failure_that_was_caught_does_not_end_the_recording(self):
        result = self.run_python(CATCHES, "--record", "run.pickle")
        self.assertEqual(len(self.log_lines("snapshot")), 2)
        self.assertIn("vramwise: recorded run.pickle\n", result.stderr)

    def test_what_could_not_be_recorded_is_said(self):
        result = self.run_python("import os, torch\ntorch._C.allocate(1)\nos._exit(4)",
                                 "--record", "run.pickle")
        self.assertEqual(result.returncode, 4)
        self.assertIn("ended before Python could", result.stderr)
        (self.here / "gone").mkdir()
        result = self.run_python("import torch\ntorch._C.allocate(1)\n"
                                 "__import__('shutil').rmtree('gone')", "--record",
                                 "gone/run.pickle")
        self.assertRegex(result.stderr, r"^vramwise: the recording \S+ could not be written: "
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
        self.assertEqual(result.stderr, "vramwise run: cannot record to 'nowhere/run.pickle': "
                         "No such file or directory\n")


if __name__ == "__main__":
    run_case.main()
