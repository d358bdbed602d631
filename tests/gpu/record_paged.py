#!/usr/bin/env python3
"""record_paged.py - programs that the paged engine's rules have never seen, recorded.

    python3 tests/gpu/record_paged.py OUTPUT_FOLDER [--only NAME,...]   (needs a GPU and PyTorch)
    python3 tests/gpu/record_paged.py --list                            (needs neither)

    --seconds N      how long each works (6)
    --at-a-time N    processes beside each other (1: they take the card's time from each other, and
                     the times are part of a recording)

The paged engine was built while looking at one set of recordings. These are kept out of that: they
say how its rules do on programs they were not made for, and nothing is tuned on them. Whoever does
tune on one takes it out of here, and writes another.

The workloads are in paged_training.py, paged_irregular.py and paged_serving.py. One process each,
the allocator's settings the default ones. Writes NAME.pickle.xz, the snapshot, without stacks; the
last lines are a table. A workload that fails is in it with its error, has no file, and stops none
of the others; the exit status is then 1.
"""
import argparse
import concurrent.futures
import importlib
import json
import lzma
import os
import pickle
import random
import subprocess
import sys
import time
import traceback

WORKLOADS = {  # name -> module; the function there has the same name
    "masked_buckets": "paged_training",
    "image_resolutions": "paged_training",
    "speech_lengths": "paged_training",
    "guided_diffusion": "paged_training",
    "adapters_packed": "paged_training",
    "averaged_weights": "paged_training",
    "growing_lengths": "paged_training",
    "three_tasks": "paged_training",
    "graph_neighbours": "paged_irregular",
    "detection_boxes": "paged_irregular",
    "volume_patches": "paged_irregular",
    "prefetch_streams": "paged_irregular",
    "recommender_tables": "paged_irregular",
    "continuous_batching": "paged_serving",
    "beam_search": "paged_serving",
    "policy_rounds": "paged_serving",
}
WORKLOAD_SECONDS = 90       # after which a process is ended, whatever it does
EVENTS_PER_ALLOCATION = 3   # alloc, free_requested, free_completed
FEWEST_EVENTS, MOST_EVENTS = 10_000, 150_000
MOST_ENTRIES = 4_000_000    # the recorder's ring: never full, so no recording lacks its beginning
ALLOCATOR_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
                       "PYTORCH_NO_CUDA_MEMORY_CACHING")
MIB = 1 << 20
RESULT = "result: "         # begins the line with which a process says how it went


# ---- one workload, in a process of its own -------------------------------------------------------


class Job:
    """What a workload is given: it says when to stop."""

    def __init__(self, torch, seconds):
        self.torch, self.seconds = torch, seconds
        self.steps = self.allocations = self.largest_step = 0
        torch.cuda.memory._record_memory_history(device=0, context=None, max_entries=MOST_ENTRIES)
        torch.cuda.init()
        self.began = time.perf_counter()

    def is_going(self):
        """Before each step. False when the time is up, or another step would be too many events."""
        statistics = self.torch.cuda.memory_stats(0)
        allocations = statistics.get("allocation.all.allocated", 0)
        if self.steps > 0:  # before the first step it is the model
            self.largest_step = max(self.largest_step, allocations - self.allocations)
        else:
            self.torch.cuda.synchronize()
            self.began = time.perf_counter()  # making the model may take longer than the work
        self.allocations = allocations
        self.steps += 1
        events = EVENTS_PER_ALLOCATION * (allocations + self.largest_step)
        return time.perf_counter() - self.began < self.seconds and events < MOST_EVENTS


def run_workload(name, out, seconds):
    import torch
    function = getattr(importlib.import_module(WORKLOADS[name]), name)
    random.seed(name)
    torch.manual_seed(1)
    job = Job(torch, seconds)
    try:
        function(job)
        torch.cuda.synchronize()
    except Exception:
        print(RESULT + json.dumps(dict(error=traceback.format_exc())), flush=True)
        return 1
    worked_seconds = time.perf_counter() - job.began
    statistics = torch.cuda.memory_stats(0)
    snapshot = torch.cuda.memory._snapshot(0)
    with lzma.open(f"{out}/{name}.pickle.xz", "wb", preset=6) as file:
        pickle.dump(snapshot, file)
    print(RESULT + json.dumps(dict(
        events=len(snapshot["device_traces"][0]),
        steps=job.steps - 1,
        peak_allocated_bytes=statistics["allocated_bytes.all.peak"],
        peak_reserved_bytes=statistics["reserved_bytes.all.peak"],
        seconds=worked_seconds)), flush=True)
    return 0


# ---- all of them ---------------------------------------------------------------------------------


def run_in_process(name, out, seconds):
    """Returns what the process said of itself; `error` is in it if it failed."""
    path = f"{out}/{name}.pickle.xz"
    if os.path.exists(path):
        os.remove(path)
    environment = dict(os.environ)
    for variable in ALLOCATOR_VARIABLES:
        environment.pop(variable, None)
    command = [sys.executable, os.path.abspath(__file__), out, "--one", name,
               "--seconds", str(seconds)]
    try:
        done = subprocess.run(command, env=environment, timeout=WORKLOAD_SECONDS + seconds,
                              text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        said = find_result(done.stdout)
        if said is None:
            said = dict(error=f"exit status {done.returncode}: {done.stdout[-2000:]}")
    except subprocess.TimeoutExpired:
        said = dict(error=f"not done after {WORKLOAD_SECONDS + seconds:g} seconds")
    if "error" in said and os.path.exists(path):
        os.remove(path)  # half a file
    return said


def find_result(output):
    for line in reversed(output.splitlines()):
        if line.startswith(RESULT):
            return json.loads(line[len(RESULT):])
    return None


def remark_on(said):
    if said["events"] < FEWEST_EVENTS:
        return "few events"
    if said["events"] > MOST_EVENTS:
        return "many events"
    return ""


def print_table(results, out):
    """Returns how many failed."""
    failed = 0
    print(f"{'workload':20} {'steps':>6} {'events':>7} {'allocated MiB':>13} {'reserved MiB':>12} "
          f"{'ratio':>6} {'seconds':>7} {'file KiB':>8}")
    for name, said in results.items():
        if "error" in said:
            failed += 1
            lines = said["error"].strip().splitlines() or ["no error was printed"]
            print(f"{name:20} failed: {lines[-1][:200]}")
            continue
        allocated, reserved = said["peak_allocated_bytes"], said["peak_reserved_bytes"]
        file_bytes = os.path.getsize(f"{out}/{name}.pickle.xz")
        print(f"{name:20} {said['steps']:6} {said['events']:7} {allocated / MIB:13.1f} "
              f"{reserved / MIB:12.1f} {reserved / allocated:6.3f} {said['seconds']:7.2f} "
              f"{file_bytes / 1024:8.0f} {remark_on(said)}".rstrip())
    for name, said in results.items():
        if "error" in said:
            print(f"\n{name}:\n{said['error']}")
    return failed


def record(out, names, seconds, at_a_time):
    os.makedirs(out, exist_ok=True)
    began = time.perf_counter()

    def run(name):
        said = run_in_process(name, out, seconds)
        print(f"{time.perf_counter() - began:6.1f} s  {name}{' failed' if 'error' in said else ''}",
              flush=True)
        return said

    with concurrent.futures.ThreadPoolExecutor(at_a_time) as executor:
        results = dict(zip(names, executor.map(run, names)))
    failed = print_table(results, out)
    print(f"{len(names)} workloads, {failed} failed, {time.perf_counter() - began:.0f} seconds")
    return 1 if failed else 0


def choose(only):
    """The workloads named in `only`, with commas between, or all."""
    names = [name for name in only.split(",") if name] if only is not None else list(WORKLOADS)
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown:
        raise SystemExit(f"no such workload: {' '.join(unknown)}")
    return list(dict.fromkeys(names))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("out", nargs="?")
    parser.add_argument("--only")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--at-a-time", type=int, default=1)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--one")  # the workload named, in this process
    given = parser.parse_args()
    if given.list:
        print("\n".join(WORKLOADS))
        return 0
    if given.out is None:
        parser.error("where to?")
    if not given.seconds > 0 or given.at_a_time < 1:
        parser.error("--seconds and --at-a-time are more than nothing")
    if given.one is not None:
        return run_workload(given.one, given.out, given.seconds)
    return record(given.out, choose(given.only), given.seconds, given.at_a_time)


if __name__ == "__main__":
    sys.exit(main())
