"""check_allocator.py - what PyTorch promises about CUDA memory, checked under each allocator.

    python3 check_allocator.py [-k WORD] [--limit SECONDS] ALLOCATOR...

The checks are in checks_*.py, in the manner of PyTorch's test_cuda.py. Each file is a process of
its own, and the files of one allocator run side by side. A check that crashes or hangs is one
failure: its process is started again with what is left. Name `pytorch` first, and a check that
fails there too is told apart. Exit status 0: nothing failed that passes under `pytorch`.
"""
import argparse
import os
import queue
import subprocess
import sys
import threading
import time
import traceback
import unittest
from pathlib import Path
from typing import Optional

import under

FOLDER = Path(__file__).resolve().parent
MODULES = sorted(path.stem for path in FOLDER.glob("checks_*.py"))


def cases_of(module: str):
    """The checks of a file by name, in order."""
    found = {}

    def collect(suite) -> None:
        for item in suite:
            if isinstance(item, unittest.TestSuite):
                collect(item)
            else:
                found[item.id().split(".", 1)[-1]] = item

    collect(unittest.defaultTestLoader.loadTestsFromName(module))
    return found


def one_line(error: str) -> str:
    lines = [line.strip() for line in error.strip().splitlines() if line.strip()]
    return " ".join(lines)[:600]


class Lines(unittest.TestResult):
    """One line for the beginning of a check, one for its end."""

    def __init__(self) -> None:
        super().__init__()
        self.bad, self.is_running = "", False

    def startTest(self, test) -> None:
        super().startTest(test)
        self.is_running = True
        self.bad, self.skipped_because, self.begin = "", None, time.perf_counter()
        print(f"@begin {test.id().split('.', 1)[-1]}", flush=True)

    def note(self, error) -> None:
        frames = traceback.extract_tb(error[2])
        where = [f for f in frames if Path(f.filename).parent == FOLDER]
        line = f"{Path(where[-1].filename).name}:{where[-1].lineno} " if where else ""
        self.bad = f"{line}{error[0].__name__}: {one_line(str(error[1]))}"

    def addError(self, test, error) -> None:
        self.note(error)
        if not self.is_running:  # what a class needs before its first test
            print(f"@begin {test.id()}\n@end FAIL 0 {self.bad}", flush=True)

    def addFailure(self, test, error) -> None:
        self.note(error)

    def addSubTest(self, test, subtest, error) -> None:
        if error is not None:
            self.note(error)

    def addSkip(self, test, reason) -> None:
        self.skipped_because = reason

    def stopTest(self, test) -> None:
        seconds = time.perf_counter() - self.begin
        what = "FAIL" if self.bad else "skip" if self.skipped_because else "ok"
        print(f"@end {what} {seconds:.2f} {self.bad or self.skipped_because or ''}", flush=True)
        self.is_running = False
        super().stopTest(test)


def child(module: str, word: str, done: list) -> None:
    """In a process of its own: every check of a file but those in `done`."""
    result = Lines()
    for name, test in cases_of(module).items():
        is_wanted = word.lower() in name.lower() or "_FailedTest" in name
        if name not in done and is_wanted:
            test.run(result)
    print("@finished", flush=True)
    os._exit(0)  # what exit would find wrong is the business of same_results.py


class Group(threading.Thread):
    """Checks that share a process, under one allocator. `command` starts such a process; it is
    given --done with the names of those that have run, and says what Lines says."""

    def __init__(self, label: str, command: list, allocator: str, limit_s: float) -> None:
        super().__init__()
        self.label, self.command = label, command
        self.allocator, self.limit_s = allocator, limit_s
        self.results = {}

    def run(self) -> None:
        for _ in range(20):
            if self.run_once():
                return

    def run_once(self) -> bool:
        command = [sys.executable] + self.command + ["--done", ",".join(self.results)]
        variables = under.environment(self.allocator)
        variables["PYTHONUNBUFFERED"] = "1"
        process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace",
                                   start_new_session=True, cwd=str(FOLDER))
        lines: queue.Queue = queue.Queue()

        def read() -> None:
            for line in process.stdout:
                lines.put(line.rstrip("\n"))
            lines.put(None)

        threading.Thread(target=read, daemon=True).start()
        current, is_finished, is_to_restart, latest = None, False, False, []
        while True:
            try:
                line = lines.get(timeout=self.limit_s)
            except queue.Empty:
                os.killpg(process.pid, 9)
                self.close(current, "FAIL", self.limit_s, f"no end after {self.limit_s:.0f} s")
                return current is None
            if line is None:
                break
            if line.startswith("@begin "):
                current = line[7:]
            elif line.startswith("@end "):
                what, seconds, why = (line[5:] + "  ").split(" ", 2)
                self.close(current, what, float(seconds), why.strip())
                current = None
            elif line == "@finished":
                is_finished = True
                break
            elif line == "@restart":
                is_to_restart = True
            else:
                latest = (latest + [line])[-15:]
        status = process.wait()
        if is_to_restart:
            return False
        if not is_finished:
            name = current or f"{self.label} as a whole"
            self.close(name, "FAIL", 0.0, f"the process ended with status {status}: "
                                          f"{one_line(' / '.join(latest[-8:]))}")
        return is_finished or current is None

    def close(self, name, what: str, seconds: float, why: str) -> None:
        name = name or f"{self.label} as a whole"
        self.results[name] = (what, why)
        if what != "skip":
            print(f"{what:4} {self.allocator:16} {name} ({seconds:.2f} s)"
                  f"{': ' + why if why else ''}", flush=True)


def run_groups(groups: list, begin: float, results: dict, rows: list,
               is_one_by_one: bool = False) -> None:
    """Runs the groups of one allocator, as a rule side by side, and adds what came of it."""
    for group in groups:
        group.start()
        if is_one_by_one:
            group.join()
    for group in groups:
        group.join()
    found = {name: what for group in groups for name, what in group.results.items()}
    results[groups[0].allocator] = found
    rows.append([groups[0].allocator] + [str(sum(w == what for w, _ in found.values()))
                                         for what in ("ok", "FAIL", "skip")]
                + [f"{time.perf_counter() - begin:.0f}"])


def summary(results: dict, rows: list, explained: Optional[dict] = None) -> int:
    """The table, then what failed; 1: something did that passes under `pytorch`. `explained`: for
    an allocator, why a test of that name asks for what the allocator means to do otherwise."""
    print("\n" + under.table(["allocator", "passed", "failed", "skipped", "seconds"], rows))
    control = results.get("pytorch", {})
    is_bad = False
    for allocator, found in results.items():
        for name, (what, why) in sorted(found.items()):
            if what == "FAIL":
                is_shared = allocator != "pytorch" and control.get(name, ("",))[0] == "FAIL"
                reason = (explained or {}).get(allocator, {}).get(name.rpartition(".")[2])
                is_bad = is_bad or not (allocator == "pytorch" or is_shared or reason)
                label = "as pytorch" if is_shared else "explained" if reason else "FAILED"
                print(f"{label:10} {allocator:16} {name}: {(reason or why)[:300]}")
    return 1 if is_bad else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("allocators", nargs="*")
    parser.add_argument("-k", dest="word", default="")
    parser.add_argument("--limit", type=float, default=75.0)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--done", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, arguments.word, arguments.done.split(","))
    results, rows = {}, []
    for allocator in arguments.allocators or ["pytorch", "torch", "vramwise", "vramwise:rescue"]:
        begin = time.perf_counter()
        groups = [Group(m, [__file__, "--child", m, "-k", arguments.word], allocator,
                        arguments.limit) for m in MODULES]
        run_groups(groups, begin, results, rows)
    return summary(results, rows)


if __name__ == "__main__":
    sys.exit(main())
