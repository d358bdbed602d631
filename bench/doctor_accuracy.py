#!/usr/bin/env python3
"""doctor_accuracy.py - how often the doctor is right, as a confusion table.

    python3 bench/doctor_accuracy.py PROGRAM [--corpus FOLDER] > bench/results/doctor.md

PROGRAM is the vramwise program. Recordings come from tests/data/recordings/doctor, which has a label
for each; with a corpus folder also from there: its recordings, whose verdicts are in its README and
in the table below, and its texts (oom_texts.jsonl), each with the verdict that its numbers give.
Every recording is judged whole, and again with its trace cut at 90 % of its events. A cut that has
lost the failure is another run; it is counted apart.

Standard library only.
"""
import argparse
import collections
import json
import lzma
import os
import pickle
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LABELLED = os.path.join(ROOT, "tests", "data", "recordings", "doctor")

# The first that a name begins with is taken: verdict, and the line that must be named.
CORPUS_VERDICTS = (
    ("leak_loss", "leak", "train.py:152"), ("leak_hook", "leak", "train.py:158"),
    ("eval_with_grad", "kept-graph", "train.py:166"), ("streams", "stranded", None),
    ("oom_fragmented", "fragmentation", None), ("oom_kvcache.native", "fragmentation", None),
    ("oom_", "capped", None), ("", "healthy", None),
)
Case = collections.namedtuple("Case", "name path expected accepted lines")


def diagnose(program, path):
    done = subprocess.run([program, "doctor", "--json", path], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    if done.returncode > 1:
        raise SystemExit(f"{path}: exit status {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def names_line(diagnosis, lines):
    """Is one of the lines named by the finding of the verdict?"""
    for finding in diagnosis["findings"]:
        if finding["kind"] == diagnosis["verdict"]:
            return any(place.startswith(line + " ") for place in finding["where"] for line in lines)
    return False


class Table:
    def __init__(self, title):
        self.title = title
        self.counts = collections.Counter()
        self.missed = []
        self.lines = self.lines_named = 0

    def add(self, case, diagnosis):
        found = diagnosis["verdict"]
        self.counts[case.expected, found] += 1
        if found != case.expected:
            note = " (accepted)" if found in case.accepted else ""
            self.missed.append(f"{case.name}: {found} instead of {case.expected}{note}")
        elif case.lines and found in ("leak", "kept-graph"):
            self.lines += 1
            if names_line(diagnosis, case.lines):
                self.lines_named += 1
            else:
                self.missed.append(f"{case.name}: {found}, but none of its lines is named")

    def print(self):
        total = sum(self.counts.values())
        if total == 0:
            return
        right = sum(count for (expected, found), count in self.counts.items() if expected == found)
        columns = sorted({found for _, found in self.counts})
        print(f"## {self.title}\n")
        print(f"{right} of {total} as labelled"
              + (f"; the line named in {self.lines_named} of {self.lines}" if self.lines else "")
              + ". Rows: the label; columns: the doctor.\n")
        print("| | " + " | ".join(columns) + " |")
        print("|---" * (len(columns) + 1) + "|")
        for expected in sorted({expected for expected, _ in self.counts}):
            row = [str(self.counts[expected, found] or "") for found in columns]
            print(f"| **{expected}** | " + " | ".join(row) + " |")
        print()
        for missed in self.missed:
            print(f"- {missed}")
        if self.missed:
            print()


# ---- recordings ----------------------------------------------------------------------------------


def labelled_cases():
    with open(os.path.join(LABELLED, "labels.json"), encoding="utf-8") as file:
        for label in json.load(file):
            yield Case(label["name"], os.path.join(LABELLED, label["name"] + ".pickle.xz"),
                       label["verdict"], label["accepted"], label["lines"])


def corpus_cases(folder):
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".pickle.xz"):
            continue
        _, verdict, line = next(row for row in CORPUS_VERDICTS if name.startswith(row[0]))
        yield Case(name[:-len(".pickle.xz")], os.path.join(folder, name), verdict, (),
                   [line] if line else [])


def write_cut(path, out):
    """Returns whether the cut has lost a failure."""
    with lzma.open(path) as file:
        snapshot = pickle.load(file)  # our own recordings; nobody else's
    traces = snapshot["device_traces"]
    lost = False
    for i, trace in enumerate(traces):
        kept = trace[:len(trace) * 9 // 10]
        fails = [event for event in trace if event["action"] == "oom"]
        lost = lost or bool(fails) and all(event["action"] != "oom" for event in kept)
        traces[i] = kept
    with open(out, "wb") as file:
        pickle.dump(snapshot, file)
    return lost


def judge_recordings(program, title, cases):
    whole, cut, lost = Table(title), Table(title + ", cut at 90 %"), collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "cut.pickle")
        for case in cases:
            whole.add(case, diagnose(program, case.path))
            if write_cut(case.path, path):
                lost[diagnose(program, path)["verdict"]] += 1
            else:
                cut.add(case, diagnose(program, path))
    whole.print()
    cut.print()
    if lost:
        said = ", ".join(f"{count} {verdict}" for verdict, count in sorted(lost.items()))
        print(f"Cuts that have lost the failure, and are another run: {said}.\n")


# ---- texts ---------------------------------------------------------------------------------------

NUMBERS = ("tried_bytes", "total_bytes", "free_bytes", "allocated_bytes", "reserved_bytes",
           "process_bytes", "allowed_bytes", "device")


def judge_texts(program, path):
    table = Table("Texts of the corpus")
    better, wrong_numbers = collections.Counter(), []
    with tempfile.TemporaryDirectory() as folder, open(path, encoding="utf-8") as file:
        text_path = os.path.join(folder, "text")
        for line in file:
            label = json.loads(line)
            with open(text_path, "w", encoding="utf-8") as text:
                text.write(label["text"])
            diagnosis = diagnose(program, text_path)
            if label["verdict"] is None:
                better[diagnosis["verdict"]] += 1
            else:
                table.add(Case(label["id"], None, label["verdict"], (), ()), diagnosis)
            wrong_numbers += [f"{label['id']}: {key} {diagnosis['numbers'][key]} instead of "
                              f"{label[key]}" for key in NUMBERS
                              if key in label and diagnosis["numbers"][key] != label[key]]
    table.print()
    said = ", ".join(f"{count} {verdict}" for verdict, count in better.most_common())
    print(f"Texts without a label (numbers missing, or contradicting each other): {said}.\n")
    print(f"Numbers that differ from the labels: {len(wrong_numbers)}.\n")
    for wrong in wrong_numbers:
        print(f"- {wrong}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--corpus")
    options = parser.parse_args()
    version = subprocess.run([options.program, "--version"], stdout=subprocess.PIPE, text=True)
    print("# How often the doctor is right\n")
    print(f"Made by `make doctor-accuracy` ({version.stdout.strip()}). The recordings are described in "
          "tests/gpu/record_doctor.py; most were made after the doctor's rules were written, and "
          "what they changed in the rules is told in docs/design/005.\n")
    judge_recordings(options.program, "Recordings of tests/data", list(labelled_cases()))
    if options.corpus:
        judge_recordings(options.program, "Recordings of the corpus",
                         list(corpus_cases(options.corpus)))
        judge_texts(options.program, os.path.join(options.corpus, "oom_texts.jsonl"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
