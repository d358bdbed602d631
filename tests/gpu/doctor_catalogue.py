"""doctor_catalogue.py - the labelled workloads: what each is called, and what is to be said of it.

A workload is a function of one argument, the job (record_doctor.py), with the verdict a diagnosis
of its recording must give. Its docstring says what it is. A variant is the same function under
other settings, or recorded otherwise.

Lines are named by marks, comments like "# <- NAME NAME" at the end of a line, and looked up
when they are needed: no number of a line is written anywhere.
"""
import dataclasses
import glob
import os
import re

FOLDER = os.path.dirname(os.path.abspath(__file__))
EXPANDABLE = "expandable_segments:True"

# How a workload is recorded: the arguments of _record_memory_history().
HISTORIES = {
    "python": dict(max_entries=1_000_000, context="alloc", stacks="python"),
    "late": dict(max_entries=1_000_000, context="alloc", stacks="python"),  # begun by Job.mark()
    "ring": dict(max_entries=6_000, context="alloc", stacks="python"),
    "all": dict(max_entries=1_000_000, context="all", stacks="python"),
    "cpp": dict(max_entries=1_000_000, context="all", stacks="all"),
    "none": dict(max_entries=1_000_000, context=None),
}
LATE_STEP = 12  # after which a late recording begins


@dataclasses.dataclass(frozen=True)
class Workload:
    name: str
    function: object
    verdict: str
    line: str = None         # mark of the line that made most of what the verdict is about: what
                             # leaks, is kept, pins idle memory, or does not fit
    more_lines: tuple = ()   # marks of others that made part of it
    call: str = None         # mark of the line in the workload that led there, or that failed
    finding: str = None      # kind of a finding that must be there, whatever the verdict
    accepted: tuple = ()     # other verdicts that can be argued for
    conf: str = ""           # PYTORCH_CUDA_ALLOC_CONF
    cap_gib: float = None    # limit set before the work begins
    history: str = "python"  # of HISTORIES
    runs_out: bool = False   # an out-of-memory error is part of it
    is_alone: bool = False   # wants the card for itself
    is_variant: bool = False
    note: str = ""


WORKLOADS = {}


def add(entry):
    if entry.name in WORKLOADS:
        raise ValueError(f"two workloads are called {entry.name}")
    WORKLOADS[entry.name] = entry


def workload(verdict, **labels):
    def register(function):
        labels.setdefault("note", " ".join(function.__doc__.split()))
        add(Workload(function.__name__, function, verdict, **labels))
        return function
    return register


def variant(name, suffix, **changes):
    base = WORKLOADS[name]
    if "note" in changes:
        changes["note"] = f"{base.note} Here: {changes['note']}."
    if changes.get("line", "") is None:
        changes["more_lines"] = ()
    add(dataclasses.replace(base, name=f"{name}_{suffix}", is_variant=True, **changes))


def find_marks():
    """Every mark of the files beside this one: name -> "file.py:line"."""
    marks = {}
    for path in sorted(glob.glob(os.path.join(FOLDER, "doctor_*.py"))):
        with open(path, encoding="utf-8") as file:
            for number, text in enumerate(file, 1):
                found = re.search(r"\S.*# <- ([a-z0-9_ ]+)$", text.rstrip("\n"))
                for name in found.group(1).split() if found else ():
                    if name in marks:
                        raise ValueError(f"{marks[name]} and line {number} are both marked {name}")
                    marks[name] = f"{os.path.basename(path)}:{number}"
    return marks


def labels_of(entry, marks):
    """What a reader of the recording is to be told; raises KeyError for a mark that is nowhere."""
    names = ((entry.line,) if entry.line else ()) + entry.more_lines
    return {
        "workload": entry.name,
        "tag": "doctor",
        "conf": entry.conf,
        "history": entry.history,
        "verdict": entry.verdict,
        "accepted": list(entry.accepted),
        "finding": entry.finding,
        "line": marks[entry.line] if entry.line else None,
        "lines": [marks[name] for name in names],
        "call_line": marks[entry.call] if entry.call else None,
        "cap_gib": entry.cap_gib,
        "oom": None,
        "steps": [],
        "note": entry.note,
    }
