"""pytest_plugin.py - limits on the GPU memory of a test.

    @pytest.mark.vramwise(peak="2GiB", growth=0)
    def test_step():
        ...

    def test_cache(vram):
        with vram.measure() as used:
            fill()
        assert used.peak_bytes < 10 * used.growth_bytes

pytest finds it in the installed package (entry point pytest11); elsewhere
`-p vramwise.pytest_plugin` loads it. _measure.how() says how memory is measured: without a GPU a
marked test runs on tensors without data. Where nothing is measured these tests are skipped, and the
reason says why. The history of a marked test is kept from its
beginning, so that a limit that is exceeded names the lines that hold the bytes.
"""
from __future__ import annotations

import contextlib
import gc
import inspect
import os
import re
import tempfile
import weakref
from collections import Counter
from dataclasses import dataclass
from typing import Any, Callable, Iterator, List, Optional

import pytest

from . import _library, _measure, _recording

MARK = "vramwise"
FOLDER = "--vramwise-recordings"
USUAL_REPETITIONS = 3
MOST_LINES = 5
_KNOWN = ("peak", "growth", "repetitions")


@dataclass(frozen=True)
class Limits:
    """What a mark allows. None: no limit."""
    peak: Optional[int]
    growth: Optional[int]
    repetitions: int


@dataclass
class Usage:
    """What a piece of code took. Filled when the block of measure() ends."""
    peak_bytes: int = 0    # the most alive at once, what was alive before included
    growth_bytes: int = 0  # alive after it, less what was alive before
    allocations: int = 0   # requests


class Vram:
    """The fixture `vram`: memory since the test began, in bytes."""

    def __init__(self, method: _measure.Method) -> None:
        self.method = method
        self.restart()

    def restart(self) -> None:
        """The test begins here."""
        self._peak = self._allocations = 0  # before the last measure()
        self.method.begin()

    @property
    def current(self) -> int:
        """What is alive now."""
        return self.method.current_bytes()

    @property
    def peak(self) -> int:
        """The most that was alive at once, what was alive before the test included."""
        return max(self._peak, self.method.peak_bytes())

    @property
    def allocations(self) -> int:
        """Requests of the test."""
        return self._allocations + self.method.allocations()

    @contextlib.contextmanager
    def measure(self) -> Iterator[Usage]:
        """Measures the block: what it yields is filled when the block ends. Blocks do not nest."""
        used = Usage()
        self._peak, self._allocations = self.peak, self.allocations
        self.method.begin()
        before = self.method.current_bytes()
        try:
            yield used
        finally:
            used.peak_bytes = self.method.peak_bytes()
            used.allocations = self.method.allocations()
            gc.collect()
            used.growth_bytes = self.method.current_bytes() - before


# ---- marks ------------------------------------------------------------------------------------------


def _size(mark: str, value: Any) -> Optional[int]:
    """A limit; 0 is one, unlike elsewhere."""
    if value is None or (value == 0 and isinstance(value, int) and not isinstance(value, bool)):
        return value
    try:
        return _library.size_bytes(value)
    except ValueError as error:
        raise pytest.UsageError(f"@pytest.mark.{MARK}({mark}=...): {error}") from None


def _limits_of(item: Any) -> Optional[Limits]:
    mark = item.get_closest_marker(MARK)
    if mark is None:
        return None
    unknown = [name for name in mark.kwargs if name not in _KNOWN]
    if mark.args or unknown:
        raise pytest.UsageError(f"@pytest.mark.{MARK} takes {', '.join(_KNOWN)} by name, not "
                                f"{', '.join(map(str, [*mark.args, *unknown]))}")
    growth = _size("growth", mark.kwargs.get("growth"))
    repetitions = mark.kwargs.get("repetitions", 1 if growth is None else USUAL_REPETITIONS)
    least = 1 if growth is None else 2  # the first warms up: workspaces, caches
    if not isinstance(repetitions, int) or isinstance(repetitions, bool) or repetitions < least:
        raise pytest.UsageError(f"@pytest.mark.{MARK}(repetitions=...): expected a number of at "
                                f"least {least}, not {repetitions!r}")
    return Limits(_size("peak", mark.kwargs.get("peak")), growth, repetitions)


def _method_or_skip(can_trace: bool = False) -> _measure.Method:
    try:
        return _measure.how(can_trace)
    except _measure.Unmeasurable as reason:
        pytest.skip(f"vramwise: memory is not measured: {reason}")
        raise  # for those who do not know that skip() raises


# The fixture and the mark of one test share what they know: both reset PyTorch's peak.
_of_items: "weakref.WeakKeyDictionary[Any, Vram]" = weakref.WeakKeyDictionary()


def _vram_of(item: Any) -> Vram:
    if item not in _of_items:
        _of_items[item] = Vram(_method_or_skip(can_trace=_limits_of(item) is not None))
    return _of_items[item]


# ---- what a test took -------------------------------------------------------------------------------


class _Watched:
    """A marked test as it runs."""

    def __init__(self, item: Any, limits: Limits) -> None:
        self._item = item
        self._limits = limits
        self._vram = _vram_of(item)
        self._method = self._vram.method
        self._peak = self._growth = 0

    def _call(self) -> None:
        """Runs the test once."""
        arguments = {name: self._item.funcargs[name] for name in self._item._fixtureinfo.argnames}
        self._vram.restart()
        try:
            self._item.obj(**arguments)
        finally:
            self._peak = max(self._peak, self._vram.peak)
            gc.collect()

    def _call_all(self) -> None:
        self._call()
        before = self._vram.current
        for _ in range(self._limits.repetitions - 1):
            self._call()
        self._growth = (self._vram.current - before) // max(self._limits.repetitions - 1, 1)

    def run(self) -> List[str]:
        """Runs the test as often as its mark says. What is above a limit, in lines for people."""
        self._method.keep_history()
        try:
            self._call_all()
            return self._faults()
        except BaseException as error:
            if _is_out_of_memory(error):
                self._explain()
            raise
        finally:
            self._method.drop_history()

    def _faults(self) -> List[str]:
        lines: List[str] = []
        if self._limits.peak is not None and self._peak > self._limits.peak:
            lines.append(f"peak: {_library.size_text(self._peak)} alive at once on "
                         f"{self._method.name}, {_library.size_text(self._limits.peak)} allowed")
            lines += self._lines(lambda: self._users(is_at_peak=True))
        if self._limits.growth is not None and self._growth > self._limits.growth:
            lines.append(f"growth: {_library.size_text(self._growth)} more alive after each "
                         f"repetition, {_library.size_text(self._limits.growth)} allowed")
            lines += self._lines(self._growing_users)
        return lines

    def _lines(self, find: Callable[[], "Counter[str]"]) -> List[str]:
        """The lines of the program that hold most, or why they are not known."""
        try:
            users = find()
        except (RuntimeError, OSError) as error:
            return [f"  which lines hold it is not known: {error}"]
        lines = [f"  {_library.size_text(size):>10}  {where}"
                 for where, size in users.most_common(MOST_LINES) if size > 0]
        return lines or ["  which lines hold it is not known: it was asked for before the test"]

    def _users(self, is_at_peak: bool) -> "Counter[str]":
        """The bytes of each line of the program, at the peak or at the end, as far as the line is
        known. RuntimeError or OSError: there is no recording."""
        folder = f"{self._item.config.rootpath}{os.sep}"
        with self._recording() as recording:
            at_peak, at_end = _measure.bytes_by_line(recording)
        users: "Counter[str]" = Counter()
        for where, size in (at_peak if is_at_peak else at_end).items():
            users[where[len(folder):] if where.startswith(folder) else where] += size
        return users

    def _growing_users(self) -> "Counter[str]":
        """The same for what one more repetition leaves behind."""
        before = self._users(is_at_peak=False)
        self._call()
        after = self._users(is_at_peak=False)
        after.subtract(before)
        return after

    def _explain(self) -> None:
        """Adds the doctor's report to that of a test that ran out of memory."""
        try:
            with self._recording() as recording:
                text = recording.doctor().text  # a log cannot be asked for more
        except (RuntimeError, OSError) as error:
            text = f"no diagnosis: {error}"
        self._item.add_report_section("call", "vramwise", text)

    @contextlib.contextmanager
    def _recording(self) -> Iterator[_recording.Recording]:
        """The history so far. RuntimeError or OSError: there is none."""
        with tempfile.TemporaryDirectory(prefix="vramwise-") as scratch:
            name = re.sub(r"[^\w.-]+", "_", self._item.nodeid)[-150:] + ".pickle"
            path = os.path.join(self._folder() or scratch, name)
            self._method.write_recording(path)
            with _recording.load(path) as recording:
                yield recording

    def _folder(self) -> Optional[str]:
        folder = self._item.config.getoption(FOLDER)
        if folder is not None:
            os.makedirs(folder, exist_ok=True)
        return folder


def _is_out_of_memory(error: BaseException) -> bool:
    return type(error).__name__ == "OutOfMemoryError"


# ---- pytest's hooks ---------------------------------------------------------------------------------


def pytest_addoption(parser: Any) -> None:
    """The folder for the recordings of tests that exceed a limit."""
    parser.getgroup("vramwise").addoption(
        FOLDER, metavar="DIR", default=None,
        help="keep a recording of each test that exceeds a limit of @pytest.mark.vramwise here")


def pytest_configure(config: Any) -> None:
    """--strict-markers and --markers know the mark."""
    config.addinivalue_line(
        "markers", f"{MARK}(peak=None, growth=None, repetitions=3): limits of the GPU memory of a "
        "test: the most alive at once, and the bytes that stay alive with each repetition")


def pytest_collection_modifyitems(items: List[Any]) -> None:
    """Refuses marks that make no sense before any test runs."""
    for item in items:
        if _limits_of(item) is not None and (not isinstance(item, pytest.Function) or
                                             type(item).__name__ == "TestCaseFunction"):
            raise pytest.UsageError(f"@pytest.mark.{MARK} is for test functions; {item.nodeid} is "
                                    "none (a method of unittest.TestCase?)")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: Any) -> None:
    """Skips a marked test before its fixtures are made, where nothing is measured."""
    if _limits_of(item) is not None:
        _vram_of(item)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: Any) -> Optional[bool]:
    """Runs and measures a marked test."""
    limits = _limits_of(pyfuncitem)
    if limits is None or inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    faults = _Watched(pyfuncitem, limits).run()
    if faults:
        pytest.fail("\n".join(["this test exceeds its GPU memory:", *faults]), pytrace=False)
    return True


@pytest.fixture
def vram(request: Any) -> Vram:
    """GPU memory of this test: current, peak, allocations, measure(). Skips where it is not
    measured."""
    return _vram_of(request.node)
