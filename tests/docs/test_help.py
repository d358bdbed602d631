#!/usr/bin/env python3
"""test_help.py PROGRAM - every command has examples, in its help and in its manual page, and they are the same.

An example uses only options that the help of its command names; one that ends in a pipe or a file is still a
command line of ours at its beginning.
"""
import pathlib
import re
import subprocess
import sys

MANUAL = pathlib.Path(__file__).resolve().parent.parent.parent / "docs/man"
COMMAND = re.compile(r"^  ([a-z]+) ", re.MULTILINE)
OURS = re.compile(r"vramwise (\w+)((?: (?![|;&>])\S+)*)")


def help_of(program, *words):
    return subprocess.run([program, "help", *words], check=True, capture_output=True, text=True).stdout


def faults_of(program, command, text):
    """What is wrong with one command's examples."""
    usage, mark, rest = text.partition("\nExamples:\n")
    examples = [line.strip() for line in rest.splitlines()]
    if not mark or not examples:
        yield f"help {command} has no examples"
    page = MANUAL / ("vramwise.1.scd" if command == "help" else f"vramwise-{command}.1.scd")
    _, heading, shown = page.read_text(encoding="utf-8").partition("\n# EXAMPLES\n")
    if not heading:
        yield f"{page.name} has no EXAMPLES"
    for example in examples:
        if example not in shown:
            yield f"{page.name} lacks the example of the help: {example}"
        for name, words in OURS.findall(example):
            named = usage if name == command else help_of(program, name)
            before = words.split(" -- ")[0] if name != "run" else ""
            for option in re.findall(r" (--?[a-z][a-z-]*)", before):
                if not re.search(re.escape(option) + r"\b", named):
                    yield f"{example}: the help of {name} does not name {option}"


def main():
    program = sys.argv[1]
    commands = COMMAND.findall(help_of(program))
    faults = [fault for command in commands for fault in faults_of(program, command, help_of(program, command))]
    for page in MANUAL.glob("*.scd"):
        if "\n# EXAMPLES\n" not in page.read_text(encoding="utf-8"):
            faults.append(f"{page.name} has no EXAMPLES")
    print("\n".join(faults) or f"{len(commands)} commands")
    return 1 if faults or not commands else 0


if __name__ == "__main__":
    sys.exit(main())
