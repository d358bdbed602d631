"""snapshot_tools.py - snapshots taken under our allocators, read by PyTorch's tools and by ours.

    python3 snapshot_tools.py [--vramwise PATH] [--out FOLDER] [ALLOCATOR...]

A short GPT-2 training is recorded from the first allocation on. PyTorch's _memory_viz.py must
accept the file with every verb; `vramwise verify` must find that of `torch` exact, and read that of
the others. Where the program cannot be run here, the files in FOLDER can be verified elsewhere.
"""
import argparse
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import under

VERBS = (("stats", "total_reserved"), ("trace", "entries"), ("trace_plot", "<html"),
         ("segment_plot", "<html"))


def record(path: str, context: str) -> None:
    torch = under.enter_again()
    torch.cuda.memory._record_memory_history(max_entries=2_000_000, context=context,
                                             stacks="python")
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(n_layer=4, n_embd=256, n_head=4, vocab_size=8192,
                                       n_positions=512, use_cache=False)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    draw = torch.Generator().manual_seed(5)
    for step in range(12):
        length = int(torch.randint(64, 512, (1,), generator=draw))
        tokens = torch.randint(0, 8192, (4, length), generator=draw).cuda()
        optimizer.zero_grad(set_to_none=True)
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        if step == 6:
            torch.cuda.empty_cache()
    stats = torch.cuda.memory_stats()
    torch.cuda.memory._dump_snapshot(path)
    print("@" + json.dumps({"reserved": stats["reserved_bytes.all.current"],
                            "allocated": stats["allocated_bytes.all.current"]}))


def check(what: str, is_right: bool, why: str, results: list) -> None:
    results.append(is_right)
    print(f"{'ok  ' if is_right else 'FAIL'} {what}{'' if is_right else ': ' + why}", flush=True)


def check_tools(name: str, path: Path, folder: str, results: list) -> None:
    import importlib.util

    package = Path(importlib.util.find_spec("torch").origin).parent
    tool = package / "cuda" / "_memory_viz.py"
    for verb, expected in VERBS:
        command = [sys.executable, str(tool), verb, str(path)]
        output = os.path.join(folder, f"{verb}.html")
        if verb.endswith("_plot"):
            command += ["-o", output]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        text = done.stdout
        if verb.endswith("_plot") and os.path.exists(output):
            text = Path(output).read_text(encoding="utf-8", errors="replace")[:4096].lower()
        check(f"{name}: _memory_viz.py {verb}", done.returncode == 0 and expected in text,
              f"status {done.returncode}: {(done.stderr or text)[-300:]!r}", results)


def check_verify(name: str, path: Path, program: str, results: list) -> None:
    try:
        done = subprocess.run([program, "verify", str(path), "--json"], capture_output=True,
                              text=True, timeout=120)
    except OSError as error:
        print(f"skip {name}: vramwise verify: {error}")
        return
    try:
        found = json.loads(done.stdout)
    except ValueError:
        check(f"{name}: vramwise verify", False,
              f"status {done.returncode}: {(done.stderr or done.stdout)[-300:]!r}", results)
        return
    told = (f"exact {found['exact']}, placements {found['placements']}, segment events "
            f"{found['segment_events']}, first difference {found['first_difference']}")
    if under.split(name)[0] in ("torch", "pytorch"):
        check(f"{name}: vramwise verify is exact", found["exact"], told, results)
    print(f"     {name}: {told}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("allocators", nargs="*")
    parser.add_argument("--vramwise", default=str(under.ROOT / "build" / "vramwise"))
    parser.add_argument("--out", default=os.environ.get("OUT"))
    parser.add_argument("--record", help=argparse.SUPPRESS)
    parser.add_argument("--context", default="alloc", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.record:
        record(arguments.record, arguments.context)
        return 0
    results: list = []
    names = arguments.allocators or ["pytorch", "torch", "torch+expandable_segments:True",
                                     "vramwise", "vramwise:rescue"]
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            label = name.replace(":", "_").replace("+", "_")
            path = Path(folder) / f"snapshot_{label}.pickle"
            status, output, seconds = under.run(
                [sys.executable, __file__, "--record", str(path)], name, 120)
            told = [line for line in output.splitlines() if line.startswith("@{")]
            check(f"{name}: recorded in {seconds:.1f} s", status == 0 and bool(told),
                  " / ".join(output.strip().splitlines()[-4:])[:400], results)
            if status != 0 or not told:
                continue
            expected = json.loads(told[-1][1:])
            with open(path, "rb") as file:
                snapshot = pickle.load(file)
            events = snapshot["device_traces"][0]
            reserved = sum(s["total_size"] for s in snapshot["segments"])
            check(f"{name}: {len(events)} events, {len(snapshot['segments'])} segments",
                  len(events) > 5000 and reserved == expected["reserved"],
                  f"reserved {reserved} in the segments, {expected['reserved']} in the statistics",
                  results)
            check(f"{name}: requests have stacks",
                  any(e.get("frames") for e in events if e["action"] == "alloc"), "none has",
                  results)
            check_tools(name, path, folder, results)
            check_verify(name, path, arguments.vramwise, results)
            if arguments.out:
                subprocess.run(["gzip", "-k", "-f", str(path)], check=False)
                shutil.copy(str(path) + ".gz", arguments.out)
    print(f"\n{sum(results)} of {len(results)} checks passed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
