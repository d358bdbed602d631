"""notebook_cell.py - %%vram on cells whose memory is known beforehand, for real.

In IPython's shell where IPython is installed; otherwise in a plain one that runs a cell and names it as
IPython would. Without a GPU the cells run on tensors without data, as %%vram --trace does. Exits with 1
if a check fails.
"""
import contextlib
import io
import linecache
import sys
import traceback
import types
from importlib.util import find_spec

import torch

from vramwise import _notebook

MIB = 1 << 20
HAS_GPU = torch.cuda.is_available()
WORDS = "found" if HAS_GPU else "found --trace"


class PlainShell:
    """As much of IPython's shell as %%vram asks for."""

    def __init__(self):
        self.user_ns, self.magics = {}, {}
        self.compile = types.SimpleNamespace(_filename_map={})

    def register_magic_function(self, function, kind, name):
        self.magics[kind, name] = function

    def run_cell_magic(self, name, line, cell):
        self.magics["cell", name](line, cell)

    def showtraceback(self):
        traceback.print_exc()

    def showsyntaxerror(self):
        traceback.print_exc()

    def run_cell(self, cell):
        outcome = types.SimpleNamespace(error_in_exec=None, error_before_exec=None)
        number = len(self.compile._filename_map) + 1
        name = f"<ipython-input-{number}-plain>"
        self.compile._filename_map[name] = number
        linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
        try:
            exec(compile(cell, name, "exec"), self.user_ns)
        except Exception as error:
            outcome.error_in_exec = error
            self.showtraceback()

        def raise_error():
            if outcome.error_in_exec is not None:
                raise outcome.error_in_exec

        outcome.raise_error = raise_error
        return outcome


def new_shell():
    """A shell, and what `display` is given while it runs."""
    shown = []
    if find_spec("IPython") is not None:
        from IPython.core.interactiveshell import InteractiveShell
        shell = InteractiveShell.instance()
        shell.display_pub = types.SimpleNamespace(
            publish=lambda data=None, **_: shown.append(data), is_publishing=False)
        print("in IPython")
    else:
        shell = PlainShell()
        stand_in = types.ModuleType("IPython.display")
        stand_in.display = lambda what: shown.append({"text/plain": str(what),
                                                      "text/html": what._repr_html_()})
        sys.modules["IPython"] = types.ModuleType("IPython")
        sys.modules["IPython.display"] = stand_in
        print("in a plain shell: IPython is not installed")
    _notebook.load_ipython_extension(shell)
    return shell, shown


def check_peak_and_what_stays(shell, shown):
    """A tensor that is gone afterwards, and one that stays, each with its line."""
    shell.run_cell_magic("vram", WORDS, (
        "import torch\n"
        f"passing = torch.empty({512 * MIB}, dtype=torch.uint8, device='cuda')\n"
        "del passing\n"
        f"kept = torch.empty({64 * MIB}, dtype=torch.uint8, device='cuda')\n"))
    found = shell.user_ns["found"]
    assert found.peak_bytes - found.before_bytes == 512 * MIB, found
    assert found.after_bytes - found.before_bytes == 64 * MIB, found
    assert found.allocations == 2, found
    by_code = {line.code.split(" ")[0]: line for line in found.lines}
    assert by_code["passing"].peak_bytes == 512 * MIB and by_code["passing"].after_bytes == 0, found
    assert by_code["kept"].peak_bytes == 0 and by_code["kept"].after_bytes == 64 * MIB, found
    assert "line 2" in by_code["passing"].where and "cell" in by_code["passing"].where, found
    assert "peak " in shown[-1]["text/html"] and "<table" in shown[-1]["text/html"], shown[-1]


def check_a_model(shell, shown):
    """A step of a real layer: what it keeps are its weights and gradients."""
    shell.run_cell_magic("vram", WORDS, (
        "layer = torch.nn.Linear(4096, 4096, bias=False, device='cuda')\n"
        "layer(torch.ones(16, 4096, device='cuda')).sum().backward()\n"))
    found = shell.user_ns["found"]
    grown = found.after_bytes - found.before_bytes
    assert grown >= 128 * MIB, found  # and, on a GPU, the workspace of its matrix products
    assert sum(line.after_bytes for line in found.lines) >= 128 * MIB, found


def check_an_error(shell, shown):
    """The cell's own error comes through, once, and its numbers are shown."""
    count = len(shown)
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            shell.run_cell_magic("vram", WORDS, "torch.empty(1 << 42, dtype=torch.uint8, device='cuda')\n")
            assert not HAS_GPU, "4 TiB were given"
        except torch.OutOfMemoryError:
            assert "ended with an error" in " ".join(shell.user_ns["found"].notes)
    assert said.getvalue() == "" and len(shown) == count + 1, (said.getvalue(), shown)


def main():
    """All checks."""
    failed = 0
    shell, shown = new_shell()
    for check in (check_peak_and_what_stays, check_a_model, check_an_error):
        try:
            check(shell, shown)
            print("ok  ", check.__name__, flush=True)
        except Exception:
            failed += 1
            print("FAIL", check.__name__, flush=True)
            traceback.print_exc()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
