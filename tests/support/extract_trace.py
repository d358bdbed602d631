#!/usr/bin/env python3
"""Turns a PyTorch recording into the plain text that trace_file.c reads.

    extract_trace.py RECORDING.pickle.xz RECORDING.json OUT

RECORDING.pickle.xz is what torch.cuda.memory._snapshot() returned, with the history of device 0
from the first allocation on and with stacks (they tell what was given back inside a request).
RECORDING.json holds what PyTorch itself said at the end: "conf", "stats", "summary", and "cap_gib"
and "oom" where there are any. The form of OUT is described in trace_file.h.

A pickle can run code when it is read. This reader refuses every name, so it builds plain data only.
"""
import gc
import json
import lzma
import os
import pickle
import sys

DEVICE_TOTAL_BYTES = 150109880320  # of the H200 on which all recordings were made
SMALL_PAGE_BYTES = 2 << 20
RESERVATION_PAGES = -(-(DEVICE_TOTAL_BYTES + DEVICE_TOTAL_BYTES // 8) // SMALL_PAGE_BYTES)
RESERVATION_BYTES = RESERVATION_PAGES * SMALL_PAGE_BYTES

LETTERS = {
    "alloc": "a", "free_requested": "r", "free_completed": "c", "segment_alloc": "S",
    "segment_free": "s", "segment_map": "M", "segment_unmap": "m", "oom": "o", "snapshot": "n",
}
STATES = {
    "active_allocated": "live", "active_pending_free": "pending", "inactive": "free",
}
DEFAULT_POOL = (0, 0)


class DataOnly(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"refused: the file names {module}.{name}")

    def persistent_load(self, pid):
        raise pickle.UnpicklingError("refused: the file refers to something outside itself")


def mark_trims(trace):
    """For each event: was it a release outside every request, that is by empty_cache()?

    What a request released carries the request's own stack: the same list, not merely an equal one.
    """
    outside = [False] * len(trace)
    request_frames = None
    for index in range(len(trace) - 1, -1, -1):
        action = trace[index]["action"]
        if action in ("alloc", "oom"):
            request_frames = trace[index].get("frames")
        elif action in ("segment_free", "segment_unmap"):
            frames = trace[index].get("frames")
            outside[index] = frames is None or frames is not request_frames
    return outside


class Region:
    """A plain segment, or the reservation of an expandable one, while anything of it is held."""

    def __init__(self, address, size_bytes):
        self.address, self.size_bytes = address, size_bytes
        self.held_bytes = 0
        self.pool = None  # unknown until a final segment says it
        self.end_index = None  # the event that gave the last of it back


def follow_regions(trace, segments):
    """The region of each alloc (by event index), and all regions there ever were."""
    live, ended, region_of = [], [], {}

    def find(address):
        return next((r for r in live if r.address <= address < r.address + r.size_bytes), None)

    for index, event in enumerate(trace):
        action, address = event["action"], event.get("addr")
        if action in ("segment_alloc", "segment_map"):
            region = find(address)
            if region is None:
                size = event["size"] if action == "segment_alloc" else RESERVATION_BYTES
                region = Region(address, size)
                live.append(region)
            region.held_bytes += event["size"]
        elif action in ("segment_free", "segment_unmap"):
            region = find(address)
            region.held_bytes -= event["size"]
            if region.held_bytes == 0:
                region.end_index = index
                live.remove(region)
                ended.append(region)
        elif action == "alloc":
            region_of[index] = find(address)
    for segment in segments:
        find(segment["address"]).pool = tuple(segment["segment_pool_id"])
    return region_of, live + ended


def find_private_pools(trace, segments):
    """The private pool of each alloc (by event index; absent = default), and of each region that
    was given back by an event (by that event's index).

    Releases before 2.12 do not record the pool of a request. It is the pool of the segment that the
    block lies in, which segments that lived to the end tell. One that did not, on a stream that
    graphs were captured on, belongs with the requests around it on that stream: a capture is a run
    of requests on one stream. A run that names no pool gets one of its own.
    """
    if all(tuple(s["segment_pool_id"]) == DEFAULT_POOL for s in segments):
        return {}, {}
    region_of, regions = follow_regions(trace, segments)
    capture_streams = {
        s["stream"] for s in segments if tuple(s["segment_pool_id"]) != DEFAULT_POOL}
    runs, previous_stream = [], None
    for index, event in enumerate(trace):
        if event["action"] == "alloc":
            if event["stream"] != previous_stream:
                runs.append([])
            previous_stream = event["stream"]
            runs[-1].append(index)
    used = {r.pool for r in regions}
    for run in runs:
        if trace[run[0]]["stream"] not in capture_streams:
            continue
        known = {region_of[i].pool for i in run} - {None, DEFAULT_POOL}
        if len(known) > 1:
            raise SystemExit("a run of requests on a capture stream lies in several pools")
        if not known and any(region_of[i].pool is None for i in run):
            number = 1
            while (number, 0) in used:
                number += 1
            known = {(number, 0)}
            used |= known
        for i in run:
            if region_of[i].pool is None:
                region_of[i].pool = next(iter(known))
    pool_of = {i: r.pool for i, r in region_of.items() if r.pool not in (None, DEFAULT_POOL)}
    ends = {r.end_index: r.pool for r in regions
            if r.end_index is not None and r.pool not in (None, DEFAULT_POOL)}
    return pool_of, ends


def place_scopes(trace, outside, pool_of, ends):
    """Lines to put before an event: where the pool of requests changes, where one is released."""
    before, current, operation_start, released = {}, DEFAULT_POOL, 0, set()
    for index, event in enumerate(trace):
        action = event["action"]
        if action == "alloc":
            pool = pool_of.get(index, DEFAULT_POOL)
            if pool != current:
                before.setdefault(operation_start, []).append("scope %x %x" % pool)
                current = pool
        elif outside[index]:
            if current != DEFAULT_POOL:
                before.setdefault(operation_start, []).append("scope 0 0")
                current = DEFAULT_POOL
            pool = ends.get(index)
            if pool is not None and pool not in released:
                before.setdefault(operation_start, []).append("release %x %x" % pool)
                released.add(pool)
        next_is_same_trim = outside[index] and index + 1 < len(trace) and outside[index + 1]
        is_inside = action in ("segment_alloc", "segment_map") or (
            action in ("segment_free", "segment_unmap") and not outside[index])
        is_deferred_completion = action == "free_completed" and not (
            index > 0 and trace[index - 1]["action"] == "free_requested"
            and trace[index - 1]["addr"] == event["addr"])
        if not (next_is_same_trim or is_inside or is_deferred_completion):
            operation_start = index + 1
    return before


def write_events(out, trace, segments):
    outside = mark_trims(trace)
    pool_of, ends = find_private_pools(trace, segments)
    before = place_scopes(trace, outside, pool_of, ends)
    lines, index = [], 0
    while index < len(trace):
        lines += before.get(index, ())
        event = trace[index]
        letter = LETTERS[event["action"]]
        address = event["device_free"] if letter == "o" else event["addr"]
        size, stream = event["size"], event["stream"]
        if letter == "r" and index + 1 < len(trace):
            after = trace[index + 1]
            if (after["action"], after["addr"], after["size"], after["stream"]) == (
                    "free_completed", address, size, stream):
                letter = "f"
                index += 1
        elif outside[index]:
            letter = {"s": "t", "m": "u"}[letter]
        lines.append(f"{letter} {address:x} {size:x} {stream:x}" if stream
                     else f"{letter} {address:x} {size:x}")
        index += 1
    out.write("\n".join(lines))
    out.write("\n")


def write_segments(out, segments):
    for s in segments:
        out.write("segment %x %x %x %s %x %x %d %x %x %x\n" % (
            s["address"], s["total_size"], s["stream"], s["segment_type"], *s["segment_pool_id"],
            s["is_expandable"], s["allocated_size"], s["active_size"], s["requested_size"]))
        for b in s["blocks"]:
            out.write("block %x %x %x %s\n" % (
                b["address"], b["size"], b["requested_size"], STATES[b["state"]]))


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    recording_path, json_path, out_path = sys.argv[1:]
    gc.disable()  # millions of small objects, none of them garbage
    with lzma.open(recording_path) as file:
        snapshot = DataOnly(file).load()
    with open(json_path, encoding="utf-8") as file:
        said = json.load(file)
    segments = [s for s in snapshot["segments"] if s["device"] == 0]
    with open(out_path, "w", encoding="utf-8") as out:
        out.write("headroom-trace 1\n")
        out.write(f"conf {said['conf']}\n")
        out.write(f"total {DEVICE_TOTAL_BYTES:x}\n")
        if "cap_gib" in said:
            out.write(f"fraction {(said['cap_gib'] * 2**30 / DEVICE_TOTAL_BYTES).hex()}\n")
        for pool in said.get("no_split_pools", []):
            out.write("unsplit %x %x\n" % tuple(pool))
        write_events(out, snapshot["device_traces"][0], segments)
        write_segments(out, segments)
        for key, value in said["stats"].items():
            out.write(f"stat {key} {value}\n")
        for line in said["summary"].splitlines():
            out.write(f"summary {line}\n")
        if "oom" in said:
            out.write(f"text {said['oom']}\n")
        out.write("end\n")
    sys.stdout.flush()
    os._exit(0)  # taking millions of objects apart again would take longer than all of the above


if __name__ == "__main__":
    main()
