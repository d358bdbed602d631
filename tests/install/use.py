#!/usr/bin/env python3
"""use.py WHEEL|installed RECORDING [--emulator WORDS --python PATH] - vramwise, as its user meets it.

Installs WHEEL with pip into a fresh environment, without a package index, or takes what is installed
on this machine, and uses every kind of command: RECORDING is a snapshot to look at. Needs nothing
beyond this Python (for a wheel with ensurepip): it runs in a bare root file system (test_wheel.sh,
test_deb.sh) as well as here.

With --emulator the wheel is another machine's: it is unpacked rather than installed, WORDS start its
program, and PATH is a Python of that machine.
"""
import argparse
import fcntl
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import sysconfig
import tempfile
import termios
import urllib.request
import venv
import zipfile
from pathlib import Path

ERROR = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total "
         "capacity of 23.69 GiB of which 1.10 GiB is free. Process 4711 has 22.50 GiB memory in use. "
         "Of the allocated memory 12.00 GiB is allocated by PyTorch, and 10.00 GiB is reserved by "
         "PyTorch but unallocated.\n")


class Fault(Exception):
    """Something is not as it should be."""


class Tour:
    """The commands of an installed vramwise, one after the other."""

    def __init__(self, program, python, folder):
        self.program = program  # words
        self.python = python    # words
        self.folder = Path(folder)
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("PYTHON", "VRAMWISE"))}
        self.environment.update(HOME=str(folder), TERM="dumb", VRAMWISE_LIVE_DIR=str(folder))  # no other jobs

    def call(self, words, wanted=0, **options):
        """What a command wrote; it must end with the status that is wanted."""
        done = subprocess.run([str(word) for word in words], cwd=self.folder, env=self.environment,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False, **({"stdin": subprocess.DEVNULL} if "input" not in options
                                              else {}), **options)
        if done.returncode != wanted:
            raise Fault(f"{' '.join(map(str, words))}: exit {done.returncode}, expected {wanted}\n"
                        f"{done.stdout}")
        return done.stdout

    def expect(self, pattern, words, wanted=0, **options):
        """The same, and the pattern is in it."""
        shown = self.call(words, wanted, **options)
        if not re.search(pattern, shown):
            raise Fault(f"{' '.join(map(str, words))}: {pattern!r} is not in\n{shown}")
        if words[:len(self.program)] == self.program:
            print(f"  {words[len(self.program)]}: ok")

    def use(self, recording, version):
        """Each command once."""
        run = self.program
        self.expect(version, [*run, "--version"])
        self.expect("Fragmentation: 3.00 GiB", [*run, "doctor", "-"], 1, input=ERROR)
        self.expect("peak", [*run, "stats", recording])
        self.expect("expandable", [*run, "replay", recording])
        self.expect("wrote a baseline", [*run, "check", recording, "--write-baseline", "main.json"])
        self.expect("within limits", [*run, "check", recording, "--baseline", "main.json"])
        self.expect("", [*run, "view", recording, "-o", "page.html"])
        if "<!doctype html>" not in (self.folder / "page.html").read_text(encoding="utf-8")[:200]:
            raise Fault("view wrote no page")
        self.expect("no jobs|No running|PID|GPU", [*run, "top", "--once"])
        self.expect("weights", [*run, "plan", "--model", "gpt2", "--batch", "8", "--card", "24GiB"])
        self.expect("out of memory", [*run, "demo"])
        self.expect("", [*run, "run", "--", *self.python, "-c", "pass"])
        self.use_screen()
        self.use_exporter()
        self.use_module(recording, version)

    def use_screen(self):
        """`top` on a terminal: what it draws needs a terminfo of this machine."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        with subprocess.Popen([*self.program, "top"], cwd=self.folder, stdin=theirs, stdout=theirs,
                              env={**self.environment, "TERM": "xterm"}) as top:
            os.close(theirs)
            drawn = b""
            try:
                while b"vramwise top" not in drawn:
                    drawn += os.read(ours, 4096)
                os.write(ours, b"q")
                while os.read(ours, 4096):
                    continue
            except OSError:  # it has closed the terminal
                pass
            os.close(ours)
            if top.wait() != 0 or b"vramwise top" not in drawn:
                raise Fault(f"top on a terminal ended with {top.returncode} and drew {drawn!r}")
        print("  top, on a terminal: ok")

    def use_exporter(self):
        """On a free port, until it is told to end."""
        with subprocess.Popen([*self.program, "exporter", "--listen", "0"], cwd=self.folder, text=True,
                              env=self.environment, stdout=subprocess.PIPE) as exporter:
            try:
                url = exporter.stdout.readline().strip()
                with urllib.request.urlopen(url, timeout=60) as answer:
                    if b"vramwise_jobs" not in answer.read():
                        raise Fault("the exporter's metrics have no vramwise_jobs")
            finally:
                exporter.send_signal(signal.SIGTERM)
            if exporter.wait(60) != 0:
                raise Fault(f"the exporter ended with {exporter.returncode}")
        print("  exporter: ok")

    def use_module(self, recording, version):
        """The Python package, with its libraries."""
        code = (f"import vramwise, vramwise.torch; r = vramwise.load({str(recording)!r}); "
                f"print(vramwise.__version__, r.events > 0, vramwise.doctor({ERROR!r}).verdict, "
                "vramwise.jobs() == [])")
        self.expect(f"{version} True fragmentation True", [*self.python, "-c", code])
        print("  import vramwise: ok")


def in_environment(wheel, folder):
    """The program and Python of a fresh environment that has the wheel."""
    place = folder / "environment"
    venv.create(place, with_pip=True, symlinks=True)
    python = place / "bin/python"
    subprocess.run([str(python), "-m", "pip", "install", "-q", "--no-index",
                    "--disable-pip-version-check", str(wheel)], check=True)
    return [str(place / "bin/vramwise")], [str(python)]


def unpacked(wheel, folder, emulator, python):
    """The same of another machine's wheel."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "wheel")
    (program,) = (folder / "wheel").glob("*.data/scripts/vramwise")
    program.chmod(0o755)
    # Where pip would put it: beside it the package, for `vramwise run` to find.
    site = folder / "site"
    (site / "bin").mkdir(parents=True)
    program.rename(site / "bin/vramwise")
    library = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    (site / library).mkdir(parents=True)
    (folder / "wheel/vramwise").rename(site / library / "vramwise")
    start = ["env", f"PYTHONPATH={site / library}", *emulator, python]
    return [*emulator, str(site / "bin/vramwise")], start


def main():
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel")
    parser.add_argument("recording", type=Path)
    parser.add_argument("--emulator", type=shlex.split, default=[])
    parser.add_argument("--python")
    order = parser.parse_args()
    wheel = Path(order.wheel).resolve()
    with tempfile.TemporaryDirectory(prefix="vramwise-use-") as name:
        folder = Path(name)
        if order.wheel == "installed":
            program, python = ["vramwise"], [sys.executable]
            version = r"\d+\.\d+\.\d+"
        else:
            program, python = (unpacked(wheel, folder, order.emulator, order.python)
                               if order.emulator else in_environment(wheel, folder))
            version = re.escape(wheel.name.split("-")[1])
        try:
            Tour(program, python, folder).use(order.recording.resolve(), version)
        except Fault as fault:
            print(f"use: {fault}", file=sys.stderr)
            return 1
    print(f"{wheel.name}: every command works here ({sysconfig.get_platform()}, Python "
          f"{'.'.join(map(str, sys.version_info[:3]))})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
