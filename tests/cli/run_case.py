#!/usr/bin/env python3
"""run_case.py PROGRAM CASE_FILE - one session at the command line, and what must come of it.

A case file begins with comment lines saying what it shows, then the command line for bash, then
what must come out:

    # An unknown command names the nearest one.
    $ vramwise dmeo
    exit 2
    stderr is
    vramwise: there is no command 'dmeo'; did you mean 'demo'?

`is` compares exactly; `matches` takes each line as a regular expression for one whole line of the
output, where a line with only `...` stands for any number of lines. A stream that is not mentioned
must be empty. Several `$` lines make one script. The program is found as `vramwise`, the
folder tests/data as $DATA; the locale is C, and no variable that changes how output looks is set,
unless the case sets it.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SECTION = re.compile(r"^(stdout|stderr) (is|matches)$")
TIME_LIMIT_SECONDS = 100  # for what hangs
DATA = pathlib.Path(__file__).resolve().parent.parent / "data"


class CaseError(Exception):
    """The case file itself makes no sense."""


def read_case(path):
    """Returns the script, the exit status, and per stream (how to compare, the lines)."""
    script, status, streams, section = [], None, {}, None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = SECTION.match(line)
        if match:
            section = match.group(1)
            if section in streams:
                raise CaseError(f"line {number}: {section} is there twice")
            streams[section] = (match.group(2), [])
        elif section is not None:
            streams[section][1].append(line)
        elif line.startswith("$ "):
            script.append(line[2:])
        elif re.fullmatch(r"exit \d+", line):
            status = int(line.split()[1])
        elif line.strip() and not line.startswith("#"):
            raise CaseError(f"line {number}: neither a command nor an expectation: {line}")
    if not script or status is None:
        raise CaseError("needs a '$ ' line and an 'exit' line")
    return "\n".join(script), status, streams


def lines_match(patterns, lines):
    """Do the lines, all of them and in order, match the patterns?"""
    if not patterns:
        return not lines
    if patterns[0] == "...":
        return any(lines_match(patterns[1:], lines[skip:]) for skip in range(len(lines) + 1))
    return (bool(lines) and re.fullmatch(patterns[0], lines[0]) is not None
            and lines_match(patterns[1:], lines[1:]))


def stream_fault(name, expectation, output):
    """What is wrong with one stream, or None."""
    how, wanted = expectation
    lines = output.split("\n")
    ends_well = lines.pop() == "" or not output
    if how == "is":
        is_right = lines == wanted and ends_well
    else:
        is_right = lines_match(wanted, lines) and ends_well
    if is_right:
        return None
    def shown(text):
        return "".join(f"    |{line}\n" for line in text) or "    (nothing)\n"
    return f"  {name} should {'be' if how == 'is' else 'match'}\n{shown(wanted)}" \
           f"  and was\n{shown(output.splitlines())}"


def run(program, script):
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("NO_COLOR", "COLUMNS", "LANG") and not name.startswith("LC_")}
    environment["PATH"] = f"{program.parent}{os.pathsep}{environment.get('PATH', '')}"
    environment["LC_ALL"] = "C"
    environment["DATA"] = str(DATA)
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(["bash", "-c", script], cwd=folder, env=environment, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False,
                              timeout=TIME_LIMIT_SECONDS)


def main():
    program, case = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    if program.name != "vramwise" or not os.access(program, os.X_OK):
        print(f"{program}: no program called vramwise")
        return 1
    try:
        script, status, streams = read_case(case)
    except CaseError as error:
        print(f"{case}: {error}")
        return 1
    result = run(program, script)
    faults = []
    if result.returncode != status:
        faults.append(f"  exit status should be {status} and was {result.returncode}\n")
    for name in ("stdout", "stderr"):
        faults.append(stream_fault(name, streams.get(name, ("is", [])), getattr(result, name)))
    faults = [fault for fault in faults if fault]
    if faults:
        print(f"{case}\n  $ {script}\n{''.join(faults)}", end="")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
