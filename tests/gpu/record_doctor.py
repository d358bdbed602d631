#!/usr/bin/env python3
"""record_doctor.py - labelled workloads, recorded so that the doctor can be held against them.

    python3 tests/gpu/record_doctor.py OUTPUT_FOLDER [NAME...]        (needs a GPU and PyTorch)
    python3 tests/gpu/record_doctor.py --list                         (needs PyTorch, no GPU)

    --at-a-time N    processes beside each other (4)
    --seconds N      start none after so long; what was not started is said

The workloads are in doctor_leaks.py, doctor_healthy.py, doctor_kept.py and doctor_limits.py, each
with the verdict that a diagnosis of its recording must give (doctor_catalogue.py). One process a
workload, several at a time; those that fill the card run alone, at the end. Writes NAME.pickle.xz,
the snapshot, and NAME.json: the labels, the text of the out-of-memory error, allocated and reserved
bytes after each step, and what PyTorch said at the end, as `vramwise verify --expect` reads it.

File names in the stacks are shortened; nothing else is changed. Exit status 1 if a workload did not
go as it should; the table at the end says which.
"""
import argparse
import concurrent.futures
import json
import lzma
import os
import pickle
import random
import subprocess
import sys
import time
import traceback

from doctor_catalogue import FOLDER, HISTORIES, LATE_STEP, WORKLOADS, find_marks, labels_of

WORKLOAD_SECONDS = 120
MIB, GIB = 1 << 20, 1 << 30


def load_workloads():
    import doctor_leaks, doctor_healthy, doctor_kept, doctor_limits  # noqa: F401, E401


# ---- one workload, in a process of its own -------------------------------------------------------


class Job:
    """What a workload is given: a place to note its steps, and what is known about the card."""

    def __init__(self, torch, entry, marks):
        self.torch, self.entry = torch, entry
        self.said = labels_of(entry, marks)
        self.script = os.path.abspath(__file__)
        self.is_recording = False
        self.total_bytes = 0

    def begin(self):
        if self.entry.history != "late":
            self.record()
        self.torch.cuda.init()
        self.total_bytes = self.torch.cuda.mem_get_info()[1]
        self.said.update(torch=self.torch.__version__, total_bytes=self.total_bytes)
        if self.entry.cap_gib is not None:
            fraction = self.entry.cap_gib * GIB / self.total_bytes
            self.torch.cuda.set_per_process_memory_fraction(fraction)

    def record(self):
        arguments = HISTORIES[self.entry.history]
        self.torch.cuda.memory._record_memory_history(device=0, **arguments)
        self.is_recording = True

    def mark(self, step):
        """After each step, by the workload."""
        cuda = self.torch.cuda
        cuda.synchronize()
        self.said["steps"].append(dict(step=step, allocated=cuda.memory_allocated(),
                                       reserved=cuda.memory_reserved()))
        if not self.is_recording and len(self.said["steps"]) == LATE_STEP:
            self.record()

    def ran_out(self, error):
        if self.said["oom"] is None:
            self.said["oom"] = str(error)


def run_workload(name, out):
    import torch
    load_workloads()
    random.seed(name)
    torch.manual_seed(1)
    entry = WORKLOADS[name]
    job = Job(torch, entry, find_marks())
    began = time.perf_counter()
    job.begin()
    kept = error = None
    try:
        kept = entry.function(job)
    except torch.OutOfMemoryError as out_of_memory:
        job.ran_out(out_of_memory)
    except ImportError as missing:
        error = f"skipped: {missing}"
    except Exception:
        error = traceback.format_exc()
    if error is None and entry.runs_out != (job.said["oom"] is not None):
        error = "did not run out of memory" if entry.runs_out else f"ran out: {job.said['oom']}"
    finish(job, name, out, time.perf_counter() - began, error)
    del kept  # until here: it is part of some snapshots
    return 0 if error is None or error.startswith("skipped") else 1


def finish(job, name, out, seconds, error):
    cuda = job.torch.cuda
    cuda.synchronize()
    stats = cuda.memory_stats()
    snapshot = cuda.memory._snapshot(0)
    shorten_file_names(snapshot)
    job.said.update(
        events=len(snapshot["device_traces"][0]),
        peak_allocated_bytes=stats["allocated_bytes.all.peak"],
        peak_reserved_bytes=stats["reserved_bytes.all.peak"],
        seconds=round(seconds, 2),
        error=error,
        stats={key: value for key, value in stats.items()
               if ".all." in key or key.startswith(("num_", "max_split"))},
        summary=cuda.memory_summary())
    with lzma.open(f"{out}/{name}.pickle.xz", "wb", preset=4) as file:
        pickle.dump(snapshot, file)
    with open(f"{out}/{name}.json", "w", encoding="utf-8") as file:
        json.dump(job.said, file)


def shorten_file_names(snapshot):
    """The folder of these scripts and that of the packages are nobody's business."""
    short = {}  # equal names stay one object, as they were: the pickle is smaller

    def shorten(path):
        if path not in short:
            text = path
            for packages in ("site-packages/", "dist-packages/"):
                if packages in text:
                    text = "/venv/" + packages + text.split(packages, 1)[1]
            if text.startswith(FOLDER + os.sep):
                text = os.path.basename(text)
            short[path] = text
        return short[path]

    holders = [event for trace in snapshot["device_traces"] for event in trace]
    for segment in snapshot["segments"]:
        holders.append(segment)
        holders.extend(segment["blocks"])
    seen = set()
    for holder in holders:
        frames = holder.get("frames") or ()
        if id(frames) in seen:
            continue
        seen.add(id(frames))
        for frame in frames:
            frame["filename"] = shorten(frame["filename"])


# ---- all of them ---------------------------------------------------------------------------------


def run_in_process(name, out):
    """Returns what went wrong, or None; what went right is in the workload's own file."""
    environment = dict(os.environ, PYTORCH_CUDA_ALLOC_CONF=WORKLOADS[name].conf,
                       TORCH_SYMBOLIZE_MODE="dladdr")  # other ways of naming C++ take minutes
    for suffix in (".json", ".pickle.xz"):
        if os.path.exists(f"{out}/{name}{suffix}"):
            os.remove(f"{out}/{name}{suffix}")
    try:
        done = subprocess.run([sys.executable, os.path.abspath(__file__), "--one", out, name],
                              env=environment, timeout=WORKLOAD_SECONDS, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        return f"not done after {WORKLOAD_SECONDS} seconds"
    if done.returncode == 0 or os.path.exists(f"{out}/{name}.json"):
        return None
    return f"exit status {done.returncode}: {done.stdout[-2000:]}"


def read_result(name, out):
    try:
        with open(f"{out}/{name}.json", encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as unreadable:
        return {"error": f"no result: {unreadable}"}


def print_table(names, failures, out):
    """Returns how many did not go as they should."""
    faults = 0
    print(f"{'workload':36} {'verdict':14} {'events':>7} {'allocated':>9} {'reserved':>9} {'s':>6}")
    for name in names:
        said = read_result(name, out)
        error = failures[name] or said.get("error")
        allocated = said.get("peak_allocated_bytes", 0) // MIB
        reserved = said.get("peak_reserved_bytes", 0) // MIB
        print(f"{name:36} {WORKLOADS[name].verdict:14} {said.get('events', 0):7} {allocated:9} "
              f"{reserved:9} {said.get('seconds', 0):6} "
              f"{error.strip().splitlines()[-1][:200] if error else ''}")
        if error and not error.startswith("skipped"):
            faults += 1
            print(error, file=sys.stderr)
    return faults


def record(out, names, at_a_time, most_seconds):
    os.makedirs(out, exist_ok=True)
    began = time.perf_counter()
    failures = {}

    def run(name):
        if time.perf_counter() - began >= most_seconds:
            failures[name] = "not started: the time was up"
            return
        failures[name] = run_in_process(name, out)
        print(f"{time.perf_counter() - began:6.1f} s  {name}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(at_a_time) as executor:
        list(executor.map(run, [name for name in names if not WORKLOADS[name].is_alone]))
    for name in names:
        if WORKLOADS[name].is_alone:
            run(name)
    faults = print_table(names, failures, out)
    print(f"{len(names)} workloads, {faults} not as they should be, "
          f"{time.perf_counter() - began:.0f} seconds")
    return 1 if faults else 0


def list_workloads():
    marks = find_marks()
    for entry in WORKLOADS.values():
        labels = labels_of(entry, marks)
        print(f"{entry.name:36} {entry.verdict:14} {labels['line'] or '-':24} {entry.note}")


def choose(names):
    """Those that were asked for, or all: each workload as it is before any variant of one."""
    load_workloads()
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown:
        raise SystemExit(f"no such workload: {' '.join(unknown)}")
    chosen = names or sorted(WORKLOADS, key=lambda name: WORKLOADS[name].is_variant)
    marks = find_marks()
    for name in chosen:
        labels_of(WORKLOADS[name], marks)  # a mark that is missing is found now, not on the GPU
    return chosen


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("out", nargs="?")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--at-a-time", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--one", action="store_true")  # the workload named, in this process
    parser.add_argument("--hold", type=int)  # another process's part: all but so many bytes
    given = parser.parse_args()
    if given.hold is not None:
        import doctor_driver
        doctor_driver.hold_all_but(given.hold)
        return 0
    if given.list:
        load_workloads()
        list_workloads()
        return 0
    if given.out is None:
        parser.error("where to?")
    if given.one:
        return run_workload(given.names[0], given.out)
    return record(given.out, choose(given.names), given.at_a_time, given.seconds)


if __name__ == "__main__":
    sys.exit(main())
