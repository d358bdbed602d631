"""trace_accuracy.py - traced plans against measured peaks; needs no PyTorch.

    python3 trace_accuracy.py PROGRAM TRACES --cases FILE [--programs FILE] [--table FILE.md]

TRACES is a folder that trace_plan.py filled. The measured cases are those of tests/data/plan; with
`--programs FILE`, those that measure_programs.py measured, and TRACES is what it traced. A line a case: the peak that was measured, the traced one, and how far it is off; then the median, nine in ten, and
the worst, of training and of the rest.
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "tests" / "data" / "plan"
MIB = 1 << 20
PLAIN = str.maketrans("", "", "<>|")  # what would end a cell, or begin HTML


def key_of(case: dict) -> tuple:
    return (case["kind"], case["B"], case["T"], case["prec"], case["opt"], bool(case.get("ckpt")),
            case.get("attn", "sdpa"), case["mode"], case.get("accum", 1), case.get("offload", "none"),
            bool(case.get("master")), case.get("generate", 0), case.get("lora", 0))


def measured() -> dict:
    found = {}
    for path in sorted(glob.glob(str(DATA / "*.jsonl"))):
        with open(path, encoding="utf-8") as file:
            for line in file:
                case = json.loads(line)
                if case.get("sharding", "none") == "none" and "qlora" not in case:
                    found[key_of(case)] = case["peak"] - case.get("left_over", 0)
    return found


def measured_programs(path: str) -> dict:
    with open(path, encoding="utf-8") as file:
        cases = [json.loads(line) for line in file if line.startswith('{"case"')]
    return {case["case"]: case["peak"] for case in cases if "peak" in case}


def traced_peak(program: str, path: str) -> int:
    done = subprocess.run([program, "plan", "--traced", path, "--card", "h200", "--json"],
                          capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)["peak_allocated_bytes"]


def summary(name: str, errors: list) -> str:
    if not errors:
        return f"{name}: no case"
    sizes = sorted(abs(e) for e in errors)
    within = sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))]
    return (f"{name}: {len(sizes)} cases; median {statistics.median(sizes):.2%}, nine in ten within "
            f"{within:.2%}, worst {sizes[-1]:.2%}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("traces")
    parser.add_argument("--cases", required=True, help="the lines that trace_plan.py printed")
    parser.add_argument("--programs", help="the lines that measure_programs.py measured")
    parser.add_argument("--table")
    arguments = parser.parse_args()
    key, truth = key_of, measured()
    if arguments.programs:
        key, truth = (lambda case: case["case"]), measured_programs(arguments.programs)
    rows, training, others, missing = [], [], [], 0
    with open(arguments.cases, encoding="utf-8") as file:
        cases = [json.loads(line) for line in file if line.startswith('{"case"')]
    for case in cases:
        if "error" in case:
            rows.append((case["case"], None, None, case["error"][:60].translate(PLAIN)))
            continue
        peak = truth.get(key(case))
        if peak is None:
            missing += 1
            continue
        path = os.path.join(arguments.traces, case["case"].replace(" ", "_") + ".trace.json")
        plan = traced_peak(arguments.program, path)
        (training if case.get("mode", "train") == "train" else others).append(plan / peak - 1)
        rows.append((case["case"], peak, plan, ""))
    lines = ["| case | measured, MiB | traced, MiB | off |", "|---|---|---|---|"]
    for name, peak, plan, why in rows:
        lines.append(f"| {name} | {peak / MIB:.0f} | {plan / MIB:.0f} | {plan / peak - 1:+.2%} |"
                     if peak else f"| {name} | | | not traced: {why} |")
    lines += ["", summary("training", training), summary("other", others),
              f"{missing} traced cases were not measured"]
    text = "\n".join(lines)
    print(text)
    if arguments.table:
        Path(arguments.table).write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
