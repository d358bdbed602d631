#!/usr/bin/env python3
"""soak.py BUILD SECONDS - threads that allocate, spill, park and wake under failing calls, for so long.

Runs the stress tests of BUILD in turn, each time with a new seed and many rounds, and ends with a table. Exit status 1:
a test failed; its output, with the seed that repeats it, is shown.
"""
import os
import pathlib
import re
import subprocess
import sys
import time

TESTS = ("spill_threads", "park_threads", "paged_threads", "pool_threads", "pinned_threads", "restore_threads")
ROUNDS = "6000"  # ten times what `make test` runs
COUNTS = re.compile(r"(\d+) (served|refused|spills|returns)|parked (\d+) times")


def main() -> int:
    build, seconds = pathlib.Path(sys.argv[1]), float(sys.argv[2])
    end, runs, sums = time.monotonic() + seconds, dict.fromkeys(TESTS, 0), {}
    used_before = os.times()
    while time.monotonic() < end:
        test = min(TESTS, key=lambda each: runs[each])
        result = subprocess.run([build / "tests" / f"stress_{test}"], env={**os.environ, "VW_TEST_ROUNDS": ROUNDS},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        runs[test] += 1
        if result.returncode != 0:
            print(result.stdout[-6000:], file=sys.stderr)
            print(f"soak: {test} failed with status {result.returncode} in run {runs[test]}", file=sys.stderr)
            return 1
        for count, what, parked in COUNTS.findall(result.stdout):
            what, count = (what, count) if what else ("parked", parked)
            sums[what] = sums.get(what, 0) + int(count)
    used = os.times()
    processor = used.children_user + used.children_system - used_before.children_user - used_before.children_system
    print(f"soak: {seconds:.0f} s, {processor:.0f} s of the processor, no failure")
    for test, count in runs.items():
        print(f"  {test}: {count} runs of {ROUNDS} rounds a thread")
    print("  " + ", ".join(f"{count} {what}" for what, count in sums.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
