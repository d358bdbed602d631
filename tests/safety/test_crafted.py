#!/usr/bin/env python3
"""test_crafted.py PROGRAM CLASS - every command, on every file of crafted.py.

Whatever is in a file, a command ends in time, with one of its exit statuses and words for people; nothing of the file
runs or is written beside the output. Under the sanitizers, which are in this program if the build has them, a read
out of bounds, an overflow or an undefined step ends the program with another status.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import crafted

PROGRAM = ""
LIMIT_SECONDS = 120  # for what hangs
SANITIZER = re.compile(rb"runtime error:|ERROR: (Address|Leak|Undefined)|AddressSanitizer|Assertion", re.IGNORECASE)
COMMANDS = (("stats", "FILE", "--stacks"), ("stats", "FILE", "--json"), ("verify", "FILE"), ("doctor", "FILE", "--all"),
            ("replay", "FILE", "--card", "1GiB"), ("replay", "FILE", "--card", "1GiB", "--spill", "1GiB", "--stream"), ("tune", "FILE", "--card", "1GiB"), ("diff", "FILE", "FILE"),
            ("view", "FILE", "-o", "page.html"), ("check", "FILE", "--write-baseline", "baseline.json"), ("plan", "--model", "FILE"),
            ("plan", "--traced", "FILE"), ("plan", "--from", "FILE", "--batch-now", "1"), ("verify", "FILE", "--expect", "FILE"))


class CraftedCase(unittest.TestCase):
    def run_one(self, folder, name, words):
        """One run, in a folder of its own; what is wrong with it, or None."""
        with tempfile.TemporaryDirectory(dir=folder) as here:
            file = os.path.join(folder, name)
            result = subprocess.run([PROGRAM, *(word.replace("FILE", file) for word in words)], cwd=here, stdin=subprocess.DEVNULL,
                                    capture_output=True, timeout=LIMIT_SECONDS, check=False)
            left = set(os.listdir(here)) - {"page.html", "baseline.json"}
        command = " ".join(words).replace("FILE", name)
        if result.returncode not in (0, 1, 3) or SANITIZER.search(result.stderr):
            return f"{command}: {result.returncode}\n{result.stderr[:2000].decode(errors='replace')}"
        if left:
            return f"{command}: left {left}"
        if result.returncode == 3 and not result.stderr.startswith(b"vramwise "):
            return f"{command}: without words"
        return None

    def run_all(self, commands):
        with tempfile.TemporaryDirectory(prefix="crafted-") as folder, \
                concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            names = []
            for name, content in crafted.crafted():
                self.assertLess(len(content), 1 << 20, name)
                self.assertNotIn(name, names)
                names.append(name)
                pathlib.Path(folder, name).write_bytes(content)
            runs = [pool.submit(self.run_one, folder, name, words) for number, name in enumerate(names)
                    for words in commands(number)]
            faults = [run.result() for run in runs]
        self.assertEqual([fault for fault in faults if fault is not None], [])
        return len(names), len(runs)


class Sampled(CraftedCase):
    def test_every_file_with_two_commands(self):
        names, runs = self.run_all(lambda number: (COMMANDS[number % len(COMMANDS)], COMMANDS[(number // 13 + 7) % len(COMMANDS)]))
        self.assertGreater(names, 250)
        self.assertEqual(runs, 2 * names)


class Everything(CraftedCase):
    """Minutes: `make crafted`."""

    def test_every_file_with_every_command(self):
        names, runs = self.run_all(lambda number: COMMANDS)
        print(f"{names} files, {runs} runs")


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
