#!/usr/bin/env python3
"""record_rules.py - PyTorch's own recordings of the rules that training runs rarely reach.

    python3 tests/gpu/record_rules.py OUTPUT_FOLDER          (needs a GPU and PyTorch)

Random allocations and frees under unusual settings, one process a case: roundup tables, slack for
oversize blocks, other segment sizes, garbage collection, limits that are no whole number of bytes, streams
under a limit, unsplit private pools. Writes CASE.pickle.xz and CASE.json (what PyTorch said at the
end) for each: `vramwise verify CASE.pickle.xz --expect CASE.json`.
"""
import json
import lzma
import math
import os
import pickle
import random
import subprocess
import sys

MIB, GIB = 1 << 20, 1 << 30

# name -> (option string, limit in GiB or None, largest request in MiB, what else happens)
CASES = {
    "roundup_list": ("roundup_power2_divisions:[1:2,2:4,16:8,64:4,>:2]", None, 300, ""),
    "roundup_gap": ("roundup_power2_divisions:[4:8,32:4]", None, 200, ""),
    "slack": ("max_split_size_mb:64,max_non_split_rounding_mb:200", None, 400, "empty_cache"),
    "release_available": ("max_split_size_mb:32", 1.7, 90, ""),
    "large_segment": ("large_segment_size_mb:48", None, 40, "empty_cache"),
    "large_segment_expand": ("large_segment_size_mb:48,expandable_segments:True", 1.9, 90, "empty_cache"),
    "garbage": ("garbage_collection_threshold:0.7", 2.3456789, 120, ""),
    "garbage_split": ("garbage_collection_threshold:0.55,max_split_size_mb:40", 2.1234567, 100, "streams"),
    "streams_limit": ("", 1.61803398, 64, "streams empty_cache"),
    "streams_limit_expand": ("expandable_segments:True", 1.41421356, 64, "streams empty_cache"),
    "conf_fraction": ("per_process_memory_fraction:0.0123456789", None, 100, ""),
    "no_split_pool": ("", None, 30, "no_split"),
    "mem_pool_expand": ("expandable_segments:True", None, 30, "mem_pool"),
}
STEPS = 4000


def run_case(name, out):
    import torch
    conf, cap_gib, most_mib, extras = CASES[name]
    random.seed(name)
    said = {"workload": name, "tag": "rules", "conf": conf, "torch": torch.__version__, "steps": []}
    torch.cuda.memory._record_memory_history(max_entries=2_000_000, context="alloc", stacks="python", device=0)
    torch.cuda.init()
    total = torch.cuda.mem_get_info()[1]
    room = 1.2 * GIB
    if cap_gib is not None:
        torch.cuda.set_per_process_memory_fraction(cap_gib * GIB / total)
        said["cap_gib"] = cap_gib
        room = 0.93 * cap_gib * GIB
    if "fraction" in conf:
        room = 0.9 * 0.0123456789 * total
    streams = [torch.cuda.default_stream()]
    if "streams" in extras:
        streams += [torch.cuda.Stream(), torch.cuda.Stream()]
    pool = None
    if "no_split" in extras:
        pool = torch.cuda.MemPool(no_split=True)
        said["no_split_pools"] = [pool.id]
    elif "mem_pool" in extras:
        pool = torch.cuda.MemPool()

    live, live_bytes = [], 0

    def take(size):
        with torch.cuda.stream(random.choice(streams)):
            return torch.empty(size, dtype=torch.uint8, device="cuda")

    def give_back():
        nonlocal live_bytes
        block = live.pop(random.randrange(len(live)))
        live_bytes -= block.numel()
        if len(streams) > 1 and random.random() < 0.3:
            block.record_stream(random.choice(streams))
        del block

    try:
        for step in range(STEPS):
            size = int(math.exp2(random.uniform(0, math.log2(most_mib * MIB))))
            if random.random() < 0.2:
                size = random.choice((MIB, MIB + 1, 2 * MIB, 10 * MIB - 1, 10 * MIB, 20 * MIB, 512, 513))
            while live and live_bytes + size > room * random.uniform(0.6, 1.0):
                give_back()
            if pool is not None and random.random() < 0.4:
                with torch.cuda.use_mem_pool(pool):
                    live.append(take(size))
            else:
                live.append(take(size))
            live_bytes += size
            if live and random.random() < 0.35:
                give_back()
            if "empty_cache" in extras and step % 500 == 499:
                torch.cuda.empty_cache()
        if cap_gib is not None or "fraction" in conf:
            live.append(take(int(room)))  # more than is left: runs out of memory, or nearly
    except torch.OutOfMemoryError as error:
        said["oom"] = str(error)

    stats = torch.cuda.memory_stats()
    said["stats"] = {
        key: value for key, value in stats.items()
        if ".all." in key or key.startswith("num_") or key.startswith("max_split")
    }
    said["summary"] = torch.cuda.memory_summary()
    snapshot = torch.cuda.memory._snapshot(0)
    with lzma.open(f"{out}/{name}.rules.pickle.xz", "wb", preset=2) as file:
        pickle.dump(snapshot, file)
    with open(f"{out}/{name}.rules.json", "w") as file:
        json.dump(said, file)
    print(f"{name}: {len(snapshot['device_traces'][0])} events, {stats['num_alloc_retries']} retries, "
          f"{stats['num_ooms']} out of memory, {stats['segment.all.allocated']} segments", flush=True)


def main():
    if len(sys.argv) == 3:
        run_case(sys.argv[2], sys.argv[1])
        return
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    for name, (conf, *_) in CASES.items():
        environment = dict(os.environ, PYTORCH_CUDA_ALLOC_CONF=conf)
        done = subprocess.run([sys.executable, __file__, out, name], env=environment)
        if done.returncode != 0:
            print(f"{name}: exit status {done.returncode}", flush=True)


main()
