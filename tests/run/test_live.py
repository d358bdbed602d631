#!/usr/bin/env python3
"""test_live.py PROGRAM [unittest arguments] - the page of a process that `vramwise run` watches.

Programs with a made-up torch, as in run_case.py; what is on their pages is read with vramwise.jobs()
while they run. A program says `ready` and waits for a line.
"""
import os
import pathlib
import pickle
import signal
import socket
import subprocess
import sys
import time

import run_case
from run_case import FAKE_TORCH, HOOK_FILES, LIMIT_SECONDS, ROOT, RunCase

sys.path.insert(0, str(ROOT / "python"))
import vramwise  # noqa: E402

BEGIN = "import os, sys, threading, time, torch\n"
WAIT = "\nprint('ready', flush=True)\ninput()\n"

# A program by clocks of its own, so that its times can be foretold.
CLOCK = """
import time
now = [0.0]
time.perf_counter = lambda: now[0]
time.perf_counter_ns = lambda: int(now[0] * 1e9)
""" + BEGIN + """
import torch.utils.data
from torch.utils.data import DataLoader
torch._C.allocate(1 << 20)
optimizer = torch.optim.Optimizer()

def batches(count, seconds):
    for number in range(count):
        now[0] += seconds
        yield number

def train(loader, seconds=1.0):
    for batch in loader:
        now[0] += seconds
        optimizer.step()

"""


class LiveCase(RunCase):
    def setUp(self) -> None:
        super().setUp()
        self.pages = self.folder / "pages"
        self.pages.mkdir()
        del self.environment["VRAMWISE_LIVE"]
        self.environment.update({"VRAMWISE_LIVE_DIR": str(self.pages), "VRAMWISE_LIVE_MS": "2",
                                 "VRAMWISE_LIBRARY_DIR": os.path.dirname(run_case.PROGRAM)})
        os.environ["VRAMWISE_LIBRARY_DIR"] = os.path.dirname(run_case.PROGRAM)

    def begin(self, command: list, **variables: str) -> subprocess.Popen:
        process = subprocess.Popen(command, cwd=self.here, env={**self.environment, **variables},
                                   text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def begin_python(self, text: str, **variables: str) -> subprocess.Popen:
        """Until it is ready."""
        process = self.begin(self.command("--", sys.executable, self.script(text + WAIT)),
                             **variables)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def finish(self, process: subprocess.Popen) -> None:
        """It ends well, says nothing, and its page is gone."""
        shown = process.communicate("\n", timeout=LIMIT_SECONDS)
        self.assertEqual((process.returncode, *shown), (0, "", ""))
        self.assertEqual(list(self.pages.iterdir()), [])

    def until(self, is_so, what=None):
        """What `is_so` returns, once that is true."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while time.monotonic() < deadline:
            found = is_so()
            if found:
                return found
            time.sleep(0.005)
        return self.fail(f"it did not come to that: {what() if what else is_so()}")

    def jobs(self) -> list:
        return vramwise.jobs(self.pages)

    def device(self) -> dict:
        """Of the one job, the one device."""
        (job,) = self.jobs()
        return job["devices"][0] if job["devices"] else {}

    def until_device(self, **values) -> dict:
        """The one device, once it has these values."""
        return self.until(lambda: all(self.device().get(name, "") == value for name, value
                                      in values.items()) and self.device(), self.device)


class Page(LiveCase):
    def test_it_tells_what_pytorch_says_and_goes_with_the_program(self):
        process = self.begin_python(
            BEGIN + "torch._C.allocate(3 << 20)\ntorch._C.allocate(5 << 20)\n"
            "torch._C.free(3 << 20)\ntorch._C.pinned_bytes = 77\n"
            "torch.cuda.set_per_process_memory_fraction(0.5)\n"
            "try: torch._C.allocate(9 << 30)\nexcept torch.OutOfMemoryError: pass\n",
            VRAMWISE_RUN_REPORT_SECONDS="600")
        device = self.until_device(out_of_memory=1, pinned_bytes=77)
        (job,) = self.jobs()
        self.assertEqual((job["program"], job["allocator"], job["state"], job["rank"]),
                         ("train", "pytorch", "running", None))
        self.assertTrue(f"{self.runtime}/vramwise-run.".endswith(job["run"][:-len("XXXXXX")]),
                        job["run"])  # a page has room for 63 bytes of it
        expected = {"index": 0, "name": "made-up card", "live_bytes": 5 << 20,
                    "reserved_bytes": 6 << 20, "peak_live_bytes": 8 << 20,
                    "peak_reserved_bytes": 9 << 20, "limit_bytes": 4 << 30,
                    "device_total_bytes": 8 << 30, "device_free_bytes": (8 << 30) - (6 << 20),
                    "allocations": 2, "retries": 1, "driver_calls": 3, "steps": None,
                    "input_wait_nanoseconds": None, "loader_workers": None, "step_log": [],
                    "largest_free_block_bytes": None}
        self.assertEqual({name: device[name] for name in expected}, expected)
        process.communicate("\n", timeout=LIMIT_SECONDS)
        self.assertEqual((process.returncode, list(self.pages.iterdir())), (0, []))

    def test_peaks_and_counters_only_rise_whatever_the_program_resets(self):
        process = self.begin_python(
            BEGIN + "torch._C.allocate(8 << 20)\ntorch._C.free(7 << 20)" + WAIT +
            "torch._C._cuda_resetPeakMemoryStats(0)\ntorch._C._cuda_resetAccumulatedMemoryStats(0)\n"
            "torch._C.free(1 << 19)\n" + WAIT +
            "torch._C.allocate(1)\ntorch._C.allocate(1)\n")
        self.until_device(allocations=1, live_bytes=1 << 20, peak_live_bytes=8 << 20)
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.until_device(live_bytes=1 << 19, peak_live_bytes=8 << 20, allocations=1)
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.until_device(allocations=3)
        self.finish(process)

    def test_of_a_killed_program_nothing_is_left(self):
        process = self.begin_python(BEGIN + "torch._C.allocate(1)\n")
        (job,) = self.jobs()
        os.kill(job["process"], signal.SIGKILL)
        process.communicate(timeout=LIMIT_SECONDS)
        self.assertEqual(process.returncode, 128 + signal.SIGKILL)
        self.assertEqual(list(self.pages.iterdir()), [])

    def test_a_device_that_the_program_does_not_use_stays_untouched(self):
        process = self.begin_python(
            BEGIN + "torch.cuda._lazy_init()\ntorch._C._cuda_setDevice(2)\ntorch._C.allocate(1)\n"
            + WAIT + "print(torch._C.contexts)\n")
        self.assertEqual(self.until_device(live_bytes=1)["index"], 2)
        (job,) = self.jobs()
        self.assertEqual(len(job["devices"]), 1)
        shown, errors = process.communicate("\n\n", timeout=LIMIT_SECONDS)
        self.assertEqual((shown, errors), ("{2}\nready\n", ""))

    def test_what_is_the_process_s_is_told_once_where_it_steps(self):
        process = self.begin_python(
            BEGIN + "torch._C.pinned_bytes = 7\ntorch._C.allocate(1)\n" + WAIT +
            "torch._C._cuda_setDevice(2)\ntorch.optim.Optimizer().step()\n")
        self.until_device(index=0, pinned_bytes=7)
        process.stdin.write("\n")
        process.stdin.flush()
        self.until(lambda: [(device["index"], device["pinned_bytes"], device["steps"])
                            for device in self.jobs()[0]["devices"]] == [(0, None, None), (2, 7, 1)])
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.finish(process)

    def test_what_a_pytorch_does_not_have_is_unknown_and_the_rest_is_there(self):
        process = self.begin_python(
            BEGIN + "del torch._C._cuda_hostMemoryStats, torch._C._cuda_hasPrimaryContext\n"
            "del torch.cuda.mem_get_info, torch.cuda.get_per_process_memory_fraction\n"
            "torch._C.allocate(1 << 20)\ntorch.optim.Optimizer().step()\n")
        device = self.until_device(live_bytes=1 << 20, steps=1)
        self.assertEqual([device[name] for name in ("pinned_bytes", "limit_bytes",
                                                    "device_total_bytes", "device_free_bytes")],
                         [None] * 4)
        self.finish(process)

    def test_where_our_allocator_serves_the_pools_tell_and_this_adds_the_rest(self):
        process = self.begin_python(
            BEGIN + "import types\n"
            "sys.modules['vramwise.torch._state'] = types.SimpleNamespace("
            "launch_gate=lambda: (3, 'armed'), State="
            "types.SimpleNamespace(installed=types.SimpleNamespace(allocator='vramwise:rescue')))\n"
            "torch._C._cuda_hostMemoryStats = lambda: {'reserved_bytes': {'current': 5}, "
            "'allocated_bytes': {'current': 3}}\n"  # as older ones have it
            "torch._C.allocate(1 << 20)\ntorch.optim.Optimizer().step()\n")
        device = self.until_device(steps=1, pinned_bytes=5, launch_gate=3)
        self.assertEqual(self.jobs()[0]["allocator"], "vramwise:rescue")
        self.assertEqual([device[name] for name in ("live_bytes", "allocations", "name",
                                                    "device_free_bytes")], [None] * 4)
        self.assertEqual(device["step_log"], [{"step": 1, "live_bytes": 1 << 20,
                                               "reserved_bytes": 2 << 20}])
        self.finish(process)

    def test_switched_off_there_is_none_and_no_thread(self):
        for name, value in (("VRAMWISE_LIVE", "0"), ("VRAMWISE_DISABLE", "1")):
            result = self.run_python(BEGIN + "torch._C.allocate(1)\nprint(threading.active_count(), "
                                     f"os.listdir({str(self.pages)!r}))\n", **{name: value})
            self.assertEqual((result.stdout, result.stderr), ("1 []\n", ""))

    def test_where_there_can_be_none_that_is_said_once_and_the_rest_works(self):
        script = self.script("import torch\ntorch._C.allocate(1)\nprint('on')\n")
        result = self.run_it("--", "sh", "-c", f"for n in 1 2; do {sys.executable} {script}; done",
                             VRAMWISE_LIVE_DIR=str(self.folder / "nowhere"))
        self.assertEqual((result.returncode, result.stdout), (0, "on\non\n"))
        self.assertRegex(result.stderr, r"^vramwise: vramwise top and its like do not see this "
                         r"program: VramwiseError: [^\n]*nowhere[^\n]*\n$")
        result = self.run_python(run_case.FAILS, VRAMWISE_LIVE_DIR="/nowhere")
        self.assertIn("Verdict: too-large", result.stderr)

    def test_without_the_library_that_is_said_and_the_rest_works(self):
        hook = self.folder / "python/vramwise"
        (hook / "_start").mkdir(parents=True)
        (hook / "_include/vramwise").mkdir(parents=True)
        for name in HOOK_FILES:
            (hook / name).write_bytes((ROOT / "python/vramwise" / name).read_bytes())
        (hook / "_include/vramwise/version.h").write_bytes(
            (ROOT / "include/vramwise/version.h").read_bytes())
        result = self.run_python("import torch\ntorch._C.allocate(1)\nprint('on')\n",
                                 VRAMWISE_PYTHON=str(hook.parent), VRAMWISE_LIBRARY_DIR="/nowhere")
        self.assertEqual(result.stdout, "on\n")
        self.assertRegex(result.stderr, r"^vramwise: vramwise top and its like do not see this "
                         r"program: VramwiseError: libvramwise\.so of version \S+ is not in [^\n]+\n$")
        self.assertEqual(len(self.log_lines("observer")), 1)

    def test_the_thread_has_ended_when_the_interpreter_does(self):
        result = self.run_python(
            "import atexit\n" + BEGIN + "atexit.register(lambda: print("
            "[thread.name for thread in threading.enumerate()]))\ntorch._C.allocate(1)\n"
            "looks, look = threading.Event(), torch.cuda.mem_get_info\n"
            "def slow_look(device):\n    looks.set()\n    time.sleep(0.1)\n    return look(device)\n"
            "torch.cuda.mem_get_info = slow_look\nlooks.wait()\n")
        self.assertEqual((result.stdout, result.stderr), ("['MainThread']\n", ""))

    def test_a_pace_that_is_none_is_the_usual_one(self):
        process = self.begin_python(BEGIN + "torch._C.allocate(1)\n", VRAMWISE_LIVE_MS="9" * 30)
        self.until_device(live_bytes=1)
        self.finish(process)

    def test_a_program_that_ends_while_its_page_is_written_ends_well(self):
        for ending in ("", "sys.exit(0)", "threading.Thread(target=time.sleep, args=(0.02,)).start()"):
            result = self.run_python(BEGIN + "torch._C.allocate(1)\n"
                                     f"while not os.listdir({str(self.pages)!r}): pass\n{ending}\n",
                                     VRAMWISE_LIVE_MS="1")
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
            self.assertEqual(list(self.pages.iterdir()), [])


# Two processes of multiprocessing, which end when they are told to.
CHILDREN = """
import multiprocessing, sys

def work(here, there):
    import torch
    torch._C.allocate(1)
    here.put(1)
    there.get()

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    here, there = context.Queue(), context.Queue()
    workers = [context.Process(target=work, args=(here, there)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        here.get()
    print("ready", flush=True)
    input()
    for worker in workers:
        there.put(1)
    for worker in workers:
        worker.join()
    print("over", flush=True)
    input()
"""


class Processes(LiveCase):
    def held_by_ranks(self) -> list:
        return sorted((job["rank"], device["live_bytes"]) for job in self.jobs()
                      for device in job["devices"])

    def test_two_ranks_have_two_pages(self):
        script = self.script(BEGIN + "torch._C.allocate(int(os.environ['RANK']) + 1)\n" + WAIT)
        process = self.begin(self.command("--", "sh", "-c", "exec 3<&0; for rank in 0 1; do "
                                          f"RANK=$rank {sys.executable} {script} <&3 & done; wait"))
        self.assertEqual([process.stdout.readline() for _ in range(2)], ["ready\n"] * 2)
        self.until(lambda: self.held_by_ranks() == [(0, 1), (1, 2)], self.held_by_ranks)
        process.communicate("\n\n", timeout=LIMIT_SECONDS)
        self.assertEqual(list(self.pages.iterdir()), [])

    def test_a_worker_forked_after_cuda_started_has_none_and_counts_nothing(self):
        process = self.begin_python(CLOCK + """
train(DataLoader(batches(2, 4.0), num_workers=1))
child = os.fork()
if child == 0:
    now[0] += 100.0
    train(DataLoader(batches(5, 50.0), num_workers=9))
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
""")
        device = self.until_device(steps=2)
        self.assertEqual((device["step_nanoseconds"], device["input_wait_nanoseconds"],
                          device["loader_workers"], len(device["step_log"])),
                         (5 * 10**9, 4 * 10**9, 1, 2))
        self.assertEqual(len(list(self.pages.iterdir())), 1)
        self.finish(process)

    def test_processes_of_multiprocessing_have_pages_of_their_own(self):
        for method in ("spawn", "fork"):
            with self.subTest(method):
                process = self.begin(self.command("--", sys.executable, self.script(CHILDREN),
                                                  method))
                self.assertEqual(process.stdout.readline(), "ready\n")
                self.assertEqual(len(self.jobs()), 2)
                process.stdin.write("\n")
                process.stdin.flush()
                self.assertEqual(process.stdout.readline(), "over\n")
                self.assertEqual(list(self.pages.iterdir()), [])
                self.finish(process)


class StepsAndInput(LiveCase):
    def test_steps_are_logged_with_what_was_held_and_how_long_they_took(self):
        process = self.begin_python(CLOCK + "for size in (1 << 20, 1 << 21):\n"
                                    "    torch._C.allocate(size)\n    train([0], 2.5)\n")
        device = self.until_device(steps=2)
        self.assertEqual(device["step_nanoseconds"], 2_500_000_000)
        self.assertEqual(device["step_log"], [
            {"step": 1, "live_bytes": 2 << 20, "reserved_bytes": 3 << 20},
            {"step": 2, "live_bytes": 4 << 20, "reserved_bytes": 5 << 20}])
        self.assertIsNone(device["input_wait_nanoseconds"])  # nothing was seen of the loader
        self.finish(process)

    def test_a_leak_is_seen_from_outside(self):
        process = self.begin_python(CLOCK + "for step in range(600):\n"
                                    "    torch._C.allocate(1 << 20)\n    train([0])\n")
        outlook = self.until_device(steps=600)["outlook"]
        self.assertEqual((outlook["is_leak"], outlook["bytes_per_step"]), (True, 1 << 20))
        self.assertTrue(600 < outlook["full_at_step"] <= 8192, outlook)
        self.finish(process)

    def test_waiting_for_the_loader_is_counted_from_the_first_step_on(self):
        process = self.begin_python(
            CLOCK + "train(DataLoader(batches(4, 3.0), num_workers=2, pin_memory=True))\n")
        device = self.until_device(steps=4)
        self.assertEqual((device["step_nanoseconds"], device["input_wait_nanoseconds"],
                          device["loader_workers"], device["loader_pins"]),
                         (12 * 10**9, 9 * 10**9, 2, 1))
        self.finish(process)

    def test_a_loader_over_a_loader_counts_once(self):
        process = self.begin_python(
            CLOCK + "train(DataLoader(DataLoader(batches(4, 3.0)), num_workers=5))\n")
        device = self.until_device(steps=4)
        self.assertEqual((device["input_wait_nanoseconds"], device["loader_workers"],
                          device["loader_pins"]), (9 * 10**9, 5, 0))
        self.finish(process)

    def test_a_thread_that_reads_ahead_may_wait(self):
        process = self.begin_python(
            CLOCK + "train(DataLoader(batches(1, 1.0)))\n"
            "thread = threading.Thread(target=lambda: list(DataLoader(batches(4, 3.0))))\n"
            "thread.start()\nthread.join()\ntrain(DataLoader(batches(1, 2.0)))\n")
        device = self.until_device(steps=2)
        self.assertEqual((device["step_nanoseconds"], device["input_wait_nanoseconds"]),
                         (15 * 10**9, 2 * 10**9))
        self.finish(process)

    def test_a_loader_that_is_imported_later_is_followed(self):
        late = CLOCK.replace("import torch.utils.data\nfrom torch.utils.data import DataLoader\n", "")
        process = self.begin_python(
            late + "from torch.utils.data import DataLoader, dataloader\n"
            "while not hasattr(dataloader._BaseDataLoaderIter.__next__, '__wrapped__'):\n"
            "    time.sleep(0.001)\ntrain(DataLoader(batches(4, 3.0)))\n")
        self.until_device(steps=4, input_wait_nanoseconds=9 * 10**9)
        self.finish(process)

    def test_the_loader_behaves_as_it_did(self):
        result = self.run_python(CLOCK + """
import inspect
from torch.utils.data.dataloader import _BaseDataLoaderIter

def failing():
    yield 1
    raise KeyError("mine")

iterator = iter(DataLoader(failing()))
print(next(iterator), next(iter(DataLoader([])), "none"))
try:
    next(iterator)
except KeyError as error:
    print(error, error.__cause__, error.__context__)
print(_BaseDataLoaderIter.__next__.__name__, inspect.signature(_BaseDataLoaderIter.__next__),
      _BaseDataLoaderIter.__next__.__doc__)
""")
        self.assertEqual((result.stdout, result.stderr), (
            "1 none\n'mine' None None\n__next__ (self) The next batch.\n", ""))

    def test_what_is_being_compiled_is_left_alone(self):
        process = self.begin_python(CLOCK.replace(
            "torch._C.allocate", "is_compiling = []\n"
            "torch.compiler.is_compiling = lambda: bool(is_compiling)\ntorch._C.allocate") +
            "train(DataLoader(batches(2, 1.0)))\nis_compiling.append(1)\n"
            "train(DataLoader(batches(4, 3.0)))\nis_compiling.clear()\n"
            "train(DataLoader(batches(1, 1.0)))\n")
        device = self.until_device(steps=3)
        self.assertEqual((device["step_nanoseconds"], device["input_wait_nanoseconds"]),
                         (20 * 10**9, 2 * 10**9))
        self.finish(process)


class Requests(LiveCase):
    """The test is what listens, in place of `vramwise run`."""

    def setUp(self) -> None:
        super().setUp()
        self.run_folder = self.folder / "run"
        self.run_folder.mkdir()
        self.door = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.door.close)
        self.door.bind(str(self.run_folder / "socket"))
        self.door.settimeout(LIMIT_SECONDS)
        self.environment.update({
            "VRAMWISE_RUN": str(self.run_folder),
            "PYTHONPATH": f"{ROOT}/python/vramwise/_start:{FAKE_TORCH}"})

    def command(self, *arguments: str) -> list:
        return list(arguments[1:])

    def ask(self, path: str) -> None:
        (job,) = self.jobs()
        (self.run_folder / "asking").write_text(path, encoding="utf-8")
        (self.run_folder / "asking").rename(self.run_folder / f"ask-{job['process']}")

    def heard(self, *kinds: str) -> dict:
        """The next datagram of one of these kinds."""
        while True:
            kind, *fields = self.door.recv(65536).decode().split("\0")
            if kind in kinds:
                return {"kind": kind, **dict(field.split("=", 1) for field in fields)}

    def test_a_snapshot_that_is_asked_for_is_written_while_the_program_goes_on(self):
        process = self.begin_python(BEGIN + "torch._C.allocate(1)\n"
                                    "optimizer = torch.optim.Optimizer()\n"
                                    "for step in range(5): optimizer.step()\n")
        for name in ("one.pickle", "two.pickle"):
            self.ask(str(self.here / name))
            answer = self.heard("snapshot", "trouble")
            self.assertEqual((answer["kind"], answer["path"], int(answer["pid"])),
                             ("snapshot", str(self.here / name), self.jobs()[0]["process"]))
            with open(answer["path"], "rb") as file:
                self.assertIn("device_traces", pickle.load(file))
            steps = pathlib.Path(answer["steps"]).read_text(encoding="utf-8")
            self.assertEqual((answer["steps"], len(steps.splitlines())), (
                str(self.here / name).replace(".pickle", ".steps.jsonl"), 5))
        self.assertEqual([path.name for path in self.run_folder.glob("ask*")], [])
        self.finish(process)

    def test_one_that_cannot_be_written_is_trouble_each_time(self):
        process = self.begin_python(BEGIN + "torch._C.allocate(1)\n")
        for path, words in ((str(self.folder / "nowhere/x.pickle"), "FileNotFoundError"),
                            ("x.pickle", "expected an absolute path, and found 'x.pickle'")):
            self.ask(path)
            answer = self.heard("snapshot", "trouble")
            self.assertEqual(answer["kind"], "trouble")
            self.assertIn("the snapshot that was asked for could not be written", answer["text"])
            self.assertIn(words, answer["text"])
        self.finish(process)
        self.assertEqual(self.files("*.p*"), ["train.py"])

    def test_a_failure_and_a_request_do_not_write_at_once(self):
        process = self.begin_python(BEGIN + """
torch._C.allocate(1)
snapshot, inside, together, asked = torch.cuda.memory._snapshot, [], [], threading.Event()

def slow_snapshot():
    together.append(len(inside))
    inside.append(1)
    asked.set()
    time.sleep(0.05)
    inside.pop()
    return snapshot()

torch.cuda.memory._snapshot = slow_snapshot
print("ready", flush=True)
asked.wait()
try:
    torch._C.allocate(9 << 30)
except torch.OutOfMemoryError:
    print(together)
""")
        self.ask(str(self.here / "asked.pickle"))
        self.assertEqual(process.stdout.readline(), "[0, 0]\n")
        self.assertEqual({self.heard("snapshot", "file")["kind"] for _ in range(2)},
                         {"snapshot", "file"})


if __name__ == "__main__":
    run_case.main()
