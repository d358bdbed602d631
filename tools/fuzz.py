#!/usr/bin/env python3
"""fuzz.py BUILD SECONDS [TARGET...] - runs each fuzz target for so long, keeps the corpus small, and logs the time.

What a target finds goes to BUILD/found/TARGET, and fuzz.py exits with 1. The inputs that reach something new stay in
BUILD/corpus/TARGET, which is minimised before each run together with tests/fuzz/corpus/TARGET; only people add files
to that folder. The processor time of every run is added to bench/results/fuzz.csv, a line for each target and commit,
so that the hours behind a target add up over many short runs.
"""
import csv
import datetime
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOG = ROOT / "bench/results/fuzz.csv"
FIELDS = ("target", "commit", "date", "runs", "processor_seconds", "inputs", "corpus_files", "findings")
INPUTS = re.compile(rb"stat::number_of_executed_units:\s*(\d+)")
FINDINGS = ("crash-", "oom-", "timeout-", "leak-")
KEY = ("target", "commit")


def commit() -> str:
    """The commit, with a plus if the sources differ from it."""
    def git(*words):
        return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False).stdout.strip()
    return (git("rev-parse", "--short=10", "HEAD") or "unknown") + ("+" if git("status", "--porcelain", "--", "src", "tests/fuzz") else "")


def read_log() -> list:
    if not LOG.exists():
        return []
    with LOG.open(newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def write_log(rows: list) -> None:
    part = LOG.with_suffix(".part")
    with part.open("w", newline="") as file:
        file.write("# Fuzzing by `make fuzz`: libFuzzer with ASan, UBSan and invariant checks. Times are of the processor, added up\n"
                   "# over the runs of a target at a commit; + is a tree with changes. Earlier runs are in fuzz.txt.\n")
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows, key=lambda row: (row["target"], row["date"])))
    os.replace(part, LOG)


def add_to_log(entry: dict) -> None:
    rows = read_log()
    same = next((row for row in rows if all(row[key] == entry[key] for key in KEY)), None)
    if same is None:
        rows.append(entry)
    else:
        for field in ("runs", "inputs", "findings"):
            same[field] = int(same[field]) + int(entry[field])
        same["processor_seconds"] = f"{float(same['processor_seconds']) + float(entry['processor_seconds']):.0f}"
        same.update(date=entry["date"], corpus_files=entry["corpus_files"])
    write_log(rows)


def minimise(target: pathlib.Path, kept: pathlib.Path, given: pathlib.Path) -> None:
    """Leaves the smallest set of inputs that reach as much: new ones that the given do not cover."""
    merged = kept.with_name(kept.name + ".merged")
    shutil.rmtree(merged, ignore_errors=True)
    merged.mkdir(parents=True)
    subprocess.run([target, "-merge=1", "-verbosity=0", merged, given, kept], capture_output=True, check=True)
    shutil.rmtree(kept)
    merged.rename(kept)


def children_seconds() -> float:
    used = os.times()
    return used.children_user + used.children_system


def run(target: pathlib.Path, seconds: int, build: pathlib.Path) -> int:
    """The number of findings."""
    name = target.name.removeprefix("fuzz_")
    kept, given, found = build / "corpus" / name, ROOT / "tests/fuzz/corpus" / name, build / "found" / name
    for folder in kept, found:
        folder.mkdir(parents=True, exist_ok=True)
    minimise(target, kept, given)
    before, tree = {path.name for path in found.iterdir()}, commit()
    print(f"== fuzz {name}, {seconds} s", flush=True)
    began, used = time.monotonic(), children_seconds()
    result = subprocess.run([target, f"-max_total_time={seconds}", "-print_final_stats=1", "-verbosity=0", f"-artifact_prefix={found}/",
                             kept, given], stderr=subprocess.PIPE, check=False)
    used, inputs = children_seconds() - used, INPUTS.search(result.stderr)
    new = sorted({path.name for path in found.iterdir()} - before)
    count = max(len([one for one in new if one.startswith(FINDINGS)]), int(result.returncode != 0))
    add_to_log({"target": name, "commit": tree, "date": datetime.date.today().isoformat(), "runs": 1, "processor_seconds": f"{used:.0f}",
                "inputs": int(inputs.group(1)) if inputs else 0, "corpus_files": len(list(kept.iterdir())), "findings": count})
    print(f"   {int(inputs.group(1)) if inputs else 0} inputs in {used:.0f} s of the processor, {time.monotonic() - began:.0f} s", flush=True)
    if count:
        sys.stdout.buffer.write(result.stderr[-6000:])
        print(f"   found: {', '.join(str(found / one) for one in new) or result.returncode}", flush=True)
    return count


def main() -> int:
    build, seconds, wanted = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2]), sys.argv[3:]
    targets = [path for path in sorted((build / "fuzz").glob("fuzz_*")) if not wanted or path.name.removeprefix("fuzz_") in wanted]
    if not targets or len(targets) < len(wanted):
        print(f"fuzz: expected targets of {build / 'fuzz'}, not {' '.join(wanted)}", file=sys.stderr)
        return 2
    return int(sum(run(target, seconds, build) for target in targets) != 0)


if __name__ == "__main__":
    sys.exit(main())
