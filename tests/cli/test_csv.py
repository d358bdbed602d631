#!/usr/bin/env python3
"""test_csv.py PROGRAM DATA - what a command says with --csv is the table of what it says with --json.

DATA is tests/data. Names are keys, those of an object below with a dot; null is empty; a list of texts has
"; " between them; other lists are left out.
"""
import csv
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile

PROGRAM, DATA = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
RECORDINGS = DATA / "recordings"
FRAGMENTED = str(RECORDINGS / "oom_fragmented.native.pickle.xz")
OTHER = str(RECORDINGS / "leak_loss.expand.pickle.xz")


def usages(said):
    return [{"device": device["device"], **usage} for device in said["devices"] for usage in device["peak"]["usages"]]


def remedies(said):
    return [{"kind": finding["kind"], **remedy} for finding in said["findings"] for remedy in finding["remedies"]]


CASES = (
    (["stats", FRAGMENTED, "--no-summary"], usages),
    (["stats", OTHER, "--no-summary", "--top", "0"], usages),
    (["replay", FRAGMENTED, "--smallest-card"], lambda said: said["results"]),
    (["tune", FRAGMENTED, "--card", "rtx4090"], lambda said: said["tried"]),
    (["diff", FRAGMENTED, OTHER, "--top", "3"], lambda said: said["changes"]),
    (["doctor", FRAGMENTED], remedies),
    (["plan", "--model", "gpt2", "--batch", "16", "--card", "12GiB"], lambda said: said["options"]),
    (["top"], lambda said: said["rows"]),
)


def run(words, form):
    with tempfile.TemporaryDirectory(prefix="csv-test-") as folder:  # jobs of the machine come and go
        return subprocess.run([PROGRAM, *words, form], stdout=subprocess.PIPE, check=False, text=True,
                              env={**os.environ, "VRAMWISE_LIVE_DIR": folder}).stdout


def cells(row, above=""):
    """(name, text) of what one object of JSON is in CSV; a list of anything but texts is None."""
    for key, value in row.items():
        if isinstance(value, dict):
            yield from cells(value, f"{above}{key}.")
        elif isinstance(value, list):
            yield above + key, "; ".join(value).replace("\n", " ") if all(isinstance(v, str) for v in value) else None
        elif isinstance(value, str):
            yield above + key, value.replace("\n", " ")
        elif value is None:
            yield above + key, ""
        else:
            yield above + key, json.dumps(value)


def faults_of(words, table):
    wanted = table(json.loads(run(words, "--json")))
    names, *lines = list(csv.reader(io.StringIO(run(words, "--csv"))))
    if len(set(names)) != len(names):
        yield "a name is there twice"
    if len(lines) != len(wanted):
        yield f"{len(lines)} lines for {len(wanted)} rows"
    for line, row in zip(lines, wanted):
        if len(line) != len(names):
            yield f"{len(line)} cells under {len(names)} names"
        got, row_cells = dict(zip(names, line)), dict(cells(row))
        for name, text in row_cells.items():
            if name in got and got[name] != text:
                yield f"{name}: {got[name]!r}, and in JSON {text!r}"
            if name not in got and text and not isinstance(row.get(name), (list, type(None))):
                yield f"{name} is missing"
        for name, text in got.items():
            if name not in row_cells and text:
                yield f"{name} is not in JSON, or null there: {text!r}"


def main():
    faults = [f"{' '.join(words)}: {fault}" for words, table in CASES for fault in faults_of(words, table)]
    print("\n".join(faults[:20]) or f"{len(CASES)} tables")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
