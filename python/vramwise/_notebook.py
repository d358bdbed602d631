"""_notebook.py - `%load_ext vramwise` and `%%vram`, for IPython and Jupyter.

    %%vram [NAME] [--trace]
    loss = model(batch).sum()
    loss.backward()

runs the cell and shows the most that was alive at once on the GPU, what is alive afterwards, and the
lines that hold it. NAME is a variable that gets the same as an object. --trace: where there is no GPU,
the cell runs on tensors without data, and the numbers are those of a planned one.
"""
from __future__ import annotations

import argparse
import contextlib
import linecache
import os
import re
import shlex
import sys
import tempfile
from typing import Any, Dict, Iterator, List, Optional, Tuple

from . import _measure, _pictures, _recording
from ._fields import Fields, Result

_MOST_LINES = 12
_CELL_NAME = re.compile(r"<ipython-input-(\d+)-|[/\\]ipykernel_\d+[/\\]\d+\.py$")
_PLACE = re.compile(r"(?P<file>.+):(?P<line>\d+) (?P<function>.*)", re.DOTALL)


class CellLine(Fields):
    """Bytes that one line of the program asked for: alive at the peak, and after the cell."""
    where: str
    code: Optional[str]
    peak_bytes: int
    after_bytes: int


class CellMemory(Result):
    """What a cell took. `peak_bytes` includes what was alive before; `lines` are those of the cell,
    largest first, as far as they are known."""
    device: str
    total_bytes: Optional[int]
    before_bytes: int
    peak_bytes: int
    after_bytes: int
    allocations: int
    lines: Tuple[CellLine, ...]
    notes: Tuple[str, ...]

    def _picture(self) -> str:
        return _pictures.of_cell(self)


# ---- lines ------------------------------------------------------------------------------------------


class _Cells:
    """The names that IPython gives to the code of cells."""

    def __init__(self, shell: Any) -> None:
        compiler = getattr(shell, "compile", None)
        self._numbers: Dict[str, Any] = getattr(compiler, "_filename_map", None) or {}

    def words(self, file: str) -> Optional[str]:
        """"cell 3"; None for a file that is no cell."""
        found = _CELL_NAME.search(file)
        if found is None and file not in self._numbers:
            return None
        number = self._numbers.get(file) or (found.group(1) if found else None)
        return "this cell" if number is None else f"cell {number}"


def _line_of(cells: _Cells, where: str) -> Tuple[str, Optional[str]]:
    """"cell 3, line 2", and the code that stands there."""
    place = _PLACE.fullmatch(where)
    if place is None:
        return where, None
    file, line, function = place.group("file"), int(place.group("line")), place.group("function")
    code = linecache.getline(file, line).strip() or None
    cell = cells.words(file)
    if cell is None:
        return f"{os.path.basename(file)}:{line} {function}", code
    inside = "" if function.startswith("<") else f" in {function}"
    return f"{cell}, line {line}{inside}", code


def _lines(cells: _Cells, recording: _recording.Recording) -> List[Dict[str, Any]]:
    at_peak, at_end = _measure.bytes_by_line(recording)
    lines = []
    for where in sorted({*at_peak, *at_end}, key=lambda each: (-at_peak[each], -at_end[each], each)):
        name, code = _line_of(cells, where)
        lines.append({"where": name, "code": code, "peak_bytes": at_peak[where],
                      "after_bytes": at_end[where]})
    return lines


# ---- the cell ---------------------------------------------------------------------------------------


def _text(data: Dict[str, Any]) -> str:
    size = _pictures.size
    grown = data["after_bytes"] - data["before_bytes"]
    rows = [f"peak {size(data['peak_bytes'])} on {data['device']}; {size(data['after_bytes'])} alive "
            f"afterwards ({'+' if grown >= 0 else ''}{size(grown)}), {data['allocations']:,} "
            f"allocation{'' if data['allocations'] == 1 else 's'}"]
    shown = data["lines"][:_MOST_LINES]
    if shown:
        rows.append(f"{'at the peak':>12} {'afterwards':>12}  line")
    rows += [f"{size(line['peak_bytes']):>12} "
             f"{size(line['after_bytes']) if line['after_bytes'] else '':>12}  {line['where']}"
             + (f": {line['code']}" if line["code"] else "") for line in shown]
    if len(data["lines"]) > len(shown):
        rows.append(f"and {len(data['lines']) - len(shown)} more")
    return "\n".join([*rows, *data["notes"]])


@contextlib.contextmanager
def _quietly(shell: Any) -> Iterator[None]:
    """An error is shown once: by the cell around the magic, which raises it again."""
    shown_by = {name: getattr(shell, name) for name in ("showtraceback", "showsyntaxerror")}
    for name in shown_by:
        setattr(shell, name, lambda *_arguments, **_options: None)
    try:
        yield
    finally:
        for name, method in shown_by.items():
            setattr(shell, name, method)


def _run(shell: Any, cell: str, method: _measure.Method) -> Tuple[CellMemory, Any]:
    """Runs a cell; what it took, and IPython's outcome."""
    method.begin()
    before = method.current_bytes()
    notes: List[str] = []
    lines: List[Dict[str, Any]] = []
    method.keep_history()
    try:
        with _quietly(shell):
            outcome = shell.run_cell(cell)
        peak, after, count = method.peak_bytes(), method.current_bytes(), method.allocations()
        try:
            with tempfile.TemporaryDirectory(prefix="vramwise-") as folder:
                path = os.path.join(folder, "cell.pickle")
                method.write_recording(path)
                with _recording.load(path) as recording:
                    lines = _lines(_Cells(shell), recording)
        except (RuntimeError, OSError) as error:
            if count > 0:
                notes.append(f"which lines hold it is not known: {error}")
    finally:
        method.drop_history()
    if outcome.error_in_exec is not None:
        notes.append("the cell ended with an error, which keeps its tensors alive; "
                     "vramwise.doctor() explains the last error")
    data = {"device": method.name, "total_bytes": method.total_bytes(), "before_bytes": before,
            "peak_bytes": peak, "after_bytes": after, "allocations": count, "lines": lines,
            "notes": notes}
    return CellMemory(data, _text(data)), outcome


class _Arguments(argparse.ArgumentParser):
    """Wrong words are an error of the cell, not the end of the program."""

    def error(self, message: str) -> Any:
        raise ValueError(f"%%vram: {message}; usage: %%vram [NAME] [--trace]")


def _parsed(line: str) -> argparse.Namespace:
    parser = _Arguments(prog="%%vram", add_help=False)
    parser.add_argument("name", nargs="?")
    parser.add_argument("--trace", action="store_true")
    given = parser.parse_args(shlex.split(line))
    if given.name is not None and not given.name.isidentifier():
        parser.error(f"{given.name!r} is no name of a variable")
    return given


class _Magic:
    """%%vram of one shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def vram(self, line: str, cell: str) -> None:
        """%%vram [NAME] [--trace]: runs the cell, and shows the GPU memory that it took."""
        given = _parsed(line)
        try:
            method = _measure.how(can_trace=given.trace)
        except _measure.Unmeasurable as reason:
            hint = "" if given.trace or "torch" not in sys.modules else \
                "; %%vram --trace runs it on tensors without data"
            print(f"vramwise: memory is not measured: {reason}{hint}", file=sys.stderr)
            with _quietly(self._shell):
                outcome = self._shell.run_cell(cell)
        else:
            found, outcome = _run(self._shell, cell, method)
            if outcome.error_before_exec is None:  # else nothing has run
                if given.name is not None:
                    self._shell.user_ns[given.name] = found
                from IPython.display import display
                display(found)
        outcome.raise_error()


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext vramwise`."""
    shell.register_magic_function(_Magic(shell).vram, "cell", "vram")
