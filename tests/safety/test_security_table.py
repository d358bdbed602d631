#!/usr/bin/env python3
"""test_security_table.py BUILD - every test that SECURITY.md names is one of this tree.

The table says which test holds each boundary; one that was renamed holds nothing.
"""
import fnmatch
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NAMED = re.compile(r"`([a-z_]+\.[A-Za-z_*]+)`")
PATHS = re.compile(r"`((?:tools|tests)/[A-Za-z_/.]+)`")


def main() -> int:
    text = (ROOT / "SECURITY.md").read_text()
    listed = subprocess.run(["ctest", "--test-dir", sys.argv[1], "-N"], capture_output=True, text=True, check=True).stdout
    tests = set(re.findall(r"Test +#\d+: (\S+)", listed))
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    missing = [name for row in rows for name in NAMED.findall(row.rsplit(" | ", 1)[1]) if not fnmatch.filter(tests, name)]
    missing += [path for path in PATHS.findall(text) if not (ROOT / path).exists()]
    unheld = [row for row in rows if not NAMED.search(row.rsplit(" | ", 1)[1])]
    for what in missing:
        print(f"SECURITY.md names {what}, which is not there")
    for row in unheld:
        print(f"no test holds: {row[:80]}")
    print(f"{len(rows)} boundaries, {len(missing) + len(unheld)} faults")
    return int(len(rows) < 10 or bool(missing) or bool(unheld))


if __name__ == "__main__":
    sys.exit(main())
