#!/usr/bin/env python3
"""record_shapes.py - one small training run, recorded by PyTorch in every way it can record.

    python3 tests/gpu/record_shapes.py OUTPUT_FOLDER          (needs a GPU and PyTorch)

The corpus was recorded one way: from the first allocation, with Python stacks, nothing left out. People
record otherwise: without stacks, with C++ stacks, into a ring that overflows, from the middle of a run,
only the state, leaving actions out. One process a case; writes CASE.pickle.xz, and CASE.json with what
PyTorch itself said at the end.
"""
import gc
import json
import lzma
import os
import pickle
import random
import subprocess
import sys

EXPANDABLE = "expandable_segments:True"

# name -> (option string, arguments of _record_memory_history or None, what else happens)
CASES = {
    "all_contexts": ("", dict(context="all", stacks="python"), "empty_cache streams"),
    "all_contexts_expand": (EXPANDABLE, dict(context="all", stacks="python"), "empty_cache streams"),
    "no_stacks": ("", dict(context=None), "empty_cache streams"),
    "no_stacks_expand": (EXPANDABLE, dict(context=None), "empty_cache"),
    "no_stacks_limit": ("", dict(context=None), "limit"),
    "state_context": ("", dict(context="state"), ""),
    "state_only": ("", dict(enabled="state"), ""),
    "ring": ("", dict(context="alloc", stacks="python", max_entries=1500), ""),
    "ring_expand": (EXPANDABLE, dict(context="alloc", stacks="python", max_entries=1500), ""),
    "late": ("", dict(context="alloc", stacks="python"), "late"),
    "late_expand": (EXPANDABLE, dict(context="alloc", stacks="python"), "late"),
    "snapshots": ("", dict(context="alloc", stacks="python"), "snapshots"),
    "annotations": ("", dict(context="alloc", stacks="python", global_record_annotations=True), "annotations"),
    "skipped": ("", dict(context="alloc", stacks="python", skip_actions=["free_completed"]), ""),
    "bare_list": ("", None, "bare"),
    "graph": ("", dict(context="alloc", stacks="python"), "graph"),
    "pool_expand": (EXPANDABLE, dict(context="all", stacks="python"), "pool empty_cache"),
    "cpp_stacks": ("", dict(context="all", stacks="all"), "short"),  # finding their names takes minutes
}
STEPS = 24
CASE_SECONDS = 60


def train(torch, extras, snapshot):
    random.seed(7)
    torch.manual_seed(7)
    model = torch.nn.Sequential(
        torch.nn.Embedding(8000, 256), torch.nn.Linear(256, 1024), torch.nn.GELU(),
        torch.nn.Linear(1024, 256), torch.nn.Linear(256, 8000)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    side = torch.cuda.Stream() if "streams" in extras else None
    pool = torch.cuda.MemPool() if "pool" in extras else None
    for step in range(1 if "short" in extras else STEPS):
        scope = torch.profiler.record_function(f"step {step}") if "annotations" in extras else None
        if scope:
            scope.__enter__()
        tokens = torch.randint(0, 8000, (8, random.randrange(64, 512)), device="cuda")
        logits = model(tokens)
        if side is not None:
            with torch.cuda.stream(side):
                copy = logits.detach() * 2
            logits.record_stream(side)
            copy.record_stream(torch.cuda.current_stream())
            del copy
        if pool is not None:
            with torch.cuda.use_mem_pool(pool):
                kept = torch.empty(random.randrange(1 << 20, 6 << 20), device="cuda")
            del kept
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        del logits, loss, tokens
        if scope:
            scope.__exit__(None, None, None)
        if "empty_cache" in extras and step % 8 == 7:
            torch.cuda.empty_cache()
        if "late" in extras and step == STEPS // 2:
            snapshot["begin"]()
        if "snapshots" in extras and step % 6 == 5:
            torch.cuda.memory._snapshot(0)
    if "graph" in extras:
        fixed = torch.zeros(8, 128, dtype=torch.long, device="cuda")
        warm = torch.cuda.Stream()
        with torch.cuda.stream(warm):
            model(fixed)
        torch.cuda.current_stream().wait_stream(warm)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = model(fixed)
        graph.replay()
        del out, graph
    if "limit" in extras:
        hoard = []
        while True:
            hoard.append(torch.empty(random.randrange(1 << 20, 60 << 20), device="cuda", dtype=torch.uint8))
            if random.random() < 0.3:
                hoard.pop(random.randrange(len(hoard)))


def run_case(name, out):
    import torch
    conf, arguments, extras = CASES[name]
    said = {"workload": name, "tag": "shapes", "conf": conf, "torch": torch.__version__, "steps": []}

    def begin():
        if arguments is not None:
            torch.cuda.memory._record_memory_history(device=0, **arguments)

    if "late" not in extras:
        begin()
    torch.cuda.init()
    said["total_bytes"] = torch.cuda.mem_get_info()[1]
    if "limit" in extras:
        said["cap_gib"] = 1.5
        torch.cuda.set_per_process_memory_fraction(1.5 * (1 << 30) / said["total_bytes"])
    try:
        train(torch, extras, {"begin": begin})
    except torch.OutOfMemoryError as error:
        said["oom"] = str(error)
    gc.collect()
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    said["stats"] = {key: value for key, value in stats.items()
                     if ".all." in key or key.startswith(("num_", "max_split"))}
    said["summary"] = torch.cuda.memory_summary()
    snapshot = torch.cuda.memory_snapshot() if "bare" in extras else torch.cuda.memory._snapshot(0)
    with lzma.open(f"{out}/{name}.shapes.pickle.xz", "wb", preset=6) as file:
        pickle.dump(snapshot, file)
    with open(f"{out}/{name}.shapes.json", "w") as file:
        json.dump(said, file)
    events = len(snapshot["device_traces"][0]) if isinstance(snapshot, dict) else 0
    print(f"{name}: {events} events, {stats['num_ooms']} out of memory", flush=True)


def main():
    if len(sys.argv) == 3:
        run_case(sys.argv[2], sys.argv[1])
        return
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    for name, (conf, *_) in CASES.items():
        environment = dict(os.environ, PYTORCH_CUDA_ALLOC_CONF=conf)
        try:
            done = subprocess.run([sys.executable, __file__, out, name], env=environment, timeout=CASE_SECONDS)
            if done.returncode != 0:
                print(f"{name}: exit status {done.returncode}", flush=True)
        except subprocess.TimeoutExpired:
            print(f"{name}: not done after {CASE_SECONDS} seconds", flush=True)


main()
