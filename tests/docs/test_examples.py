#!/usr/bin/env python3
"""test_examples.py PROGRAM - the output that README.md and docs/ show is what the program prints.

A block marked `console` holds commands, `$ vramwise ...`, each with its output below. A line with
only `...` stands for any number of lines. The commands run in a folder with the files that the
pages speak of. The locale is UTF-8, and nothing is a terminal.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RECORDINGS = ROOT / "tests/data/recordings"
FILES = {
    "train.log": ROOT / "tests/docs/train.log",
    "main.json": ROOT / "tests/docs/main.json",
    "run.pickle": RECORDINGS / "train_eval_phases.native.pickle.xz",
}
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LIMIT_SECONDS = 100


def commands_of(block):
    """(command line, the lines below it) for each command of a block."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def difference(shown, printed):
    """None, or the first shown line that was not printed where it should be."""
    at, may_skip = 0, False
    for line in shown:
        if line == "...":
            may_skip = True
            continue
        while may_skip and at < len(printed) and printed[at] != line:
            at += 1
        if at == len(printed) or printed[at] != line:
            return line
        at, may_skip = at + 1, False
    return None if may_skip or at == len(printed) else f"(the end, before {printed[at]!r})"


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    hidden = ("NO_COLOR", "COLUMNS", "LANG", "TERM")
    environment = {name: value for name, value in os.environ.items()
                   if name not in hidden and not name.startswith(("LC_", "VRAMWISE_"))}
    environment.update(LC_ALL="C.UTF-8", PATH=f"{program.parent}:{environment['PATH']}")
    count = fault_count = 0
    with tempfile.TemporaryDirectory(prefix="examples-") as folder:
        for name, source in FILES.items():
            shutil.copy(source, pathlib.Path(folder, name))
        for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
            for block in BLOCK.findall(page.read_text(encoding="utf-8")):
                for command, shown in commands_of(block):
                    printed = subprocess.run(command, shell=True, cwd=folder, env=environment, check=False,
                                             encoding="utf-8", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                             stderr=subprocess.STDOUT, timeout=LIMIT_SECONDS).stdout
                    missing = difference(shown, printed.splitlines())
                    count += 1
                    if missing is not None:
                        fault_count += 1
                        print(f"{page.relative_to(ROOT)}: $ {command}\n  shows: {missing}\n  prints:\n{printed}")
    print(f"examples: {count} commands, {fault_count} faults")
    return 1 if fault_count or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
