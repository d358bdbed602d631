"""_measure.py - how memory is measured here.

how() is the one place that decides. A Method is what the answer can do: Gpu asks PyTorch for its
statistics, Traced runs the test on tensors without data where there is no GPU.
"""
from __future__ import annotations

import contextlib
import gc
import os
import tempfile
from collections import Counter
from typing import TYPE_CHECKING, Any, List, Optional, Tuple, Union

if TYPE_CHECKING:
    from . import _recording

HISTORY_ENTRIES = 200_000  # kept while a test runs: the last ones, some hundred bytes each


class Unmeasurable(Exception):
    """Memory cannot be measured here; the text says why."""


class Method:
    """A way to measure. Numbers are bytes of one device, and count from begin() on."""

    name = ""  # for people: "GPU 0"

    def begin(self) -> None:
        """Forgets earlier peaks and counts."""
        raise NotImplementedError

    def current_bytes(self) -> int:
        """What is alive now."""
        raise NotImplementedError

    def peak_bytes(self) -> int:
        """The most that was alive at once since begin(), what was alive before included."""
        raise NotImplementedError

    def allocations(self) -> int:
        """Requests since begin()."""
        raise NotImplementedError

    def total_bytes(self) -> Optional[int]:
        """What the device has; None: that is not known."""
        return None

    def keep_history(self) -> None:
        """Remembers every request from now on, with the line that made it."""

    def drop_history(self) -> None:
        """Ends that."""

    def write_recording(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the history as a recording. RuntimeError or OSError: there is none."""
        raise RuntimeError("this way to measure has no history")


class Gpu(Method):
    """PyTorch's own statistics of the current device."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._device = torch.cuda.current_device()
        self._first = 0
        self._was_on = False
        self._is_kept = False
        self.name = f"GPU {self._device}"

    def _requests(self) -> int:
        return int(self._torch.cuda.memory_stats(self._device).get("allocation.all.allocated", 0))

    def begin(self) -> None:
        gc.collect()  # what is garbage already is not this test's
        self._torch.cuda.reset_peak_memory_stats(self._device)
        self._first = self._requests()

    def current_bytes(self) -> int:
        return int(self._torch.cuda.memory_allocated(self._device))

    def peak_bytes(self) -> int:
        return int(self._torch.cuda.max_memory_allocated(self._device))

    def allocations(self) -> int:
        return self._requests() - self._first

    def total_bytes(self) -> Optional[int]:
        return int(self._torch.cuda.get_device_properties(self._device).total_memory)

    def keep_history(self) -> None:
        from .torch import _record
        self._was_on = _record.is_history_on(self._torch)
        try:
            _record.begin_history(self._torch, "python", HISTORY_ENTRIES)
            self._is_kept = True
        except RuntimeError:  # an allocator without one: numbers are still right
            self._is_kept = False

    def drop_history(self) -> None:
        from .torch import _record
        if self._is_kept:
            _record.end_history(self._torch, self._was_on)
            self._is_kept = False

    def write_recording(self, path: Union[str, "os.PathLike[str]"]) -> None:
        from .torch import _record
        if not self._is_kept:
            raise RuntimeError("this allocator keeps no history")
        _record.write_snapshot(self._torch, path)


class Traced(Method):
    """What a test asks for, on tensors without data, and what kernels would take beside. Counts what
    is asked for between keep_history() and drop_history()."""

    name = "a planned GPU"

    def __init__(self, torch: Any) -> None:
        from .torch import _tracer, _tracer_rules
        self._torch = torch
        self._tracer = _tracer.Tracer(_tracer_rules.Card(), _tracer_rules.Policy())
        self._tracing = contextlib.ExitStack()
        self._first = 0

    def _requests(self) -> int:
        return self._tracer.requests.slots

    def begin(self) -> None:
        gc.collect()
        self._first = self._requests()

    def current_bytes(self) -> int:
        return self._tracer.requests.live_bytes

    def peak_bytes(self) -> int:
        from . import _recording
        if self._tracer.requests.peak_bytes == 0:
            return 0
        with tempfile.TemporaryDirectory(prefix="vramwise-") as folder:
            path = os.path.join(folder, "trace.pickle")
            self.write_recording(path)
            with _recording.load(path) as recording:
                return recording.peak_live_bytes or 0

    def allocations(self) -> int:
        return self._requests() - self._first

    def keep_history(self) -> None:
        self._tracing.enter_context(self._tracer.tracing())

    def drop_history(self) -> None:
        self._tracing.close()

    def write_recording(self, path: Union[str, "os.PathLike[str]"]) -> None:
        from . import _plan
        with tempfile.TemporaryDirectory(prefix="vramwise-") as folder:
            trace = os.path.join(folder, "trace.json")
            self._tracer.requests.write(trace, torch=self._torch.__version__)
            _plan.write_traced(trace, path)


def bytes_by_line(recording: "_recording.Recording") -> Tuple["Counter[str]", "Counter[str]"]:
    """The bytes of each line of the program, at the peak and at the end, as far as the line is known,
    on the device with the most events."""
    device = max(recording.stats(summary=False).devices, key=lambda each: each.events, default=None)
    users: List["Counter[str]"] = []
    for moment in (None, None) if device is None else (device.peak, device.end):
        users.append(Counter())
        for usage in moment.usages if moment is not None else ():
            if usage.has_stack:
                users[-1][usage.where or "(no line of the program)"] += usage.bytes
    return users[0], users[1]


def _traced(torch: Any) -> Optional[Method]:
    """None: this torch has no fake tensors."""
    try:
        return Traced(torch)
    except (ImportError, AttributeError):
        return None


def how(can_trace: bool = False) -> Method:
    """The way to measure in this process. `can_trace`: what is to be measured runs as a whole between
    keep_history() and drop_history(). Unmeasurable: there is none."""
    from . import _library
    if _library.is_disabled():
        raise Unmeasurable("VRAMWISE_DISABLE is set")
    try:
        import torch
    except ImportError:
        raise Unmeasurable("PyTorch is not installed") from None
    from .torch._install import Stays, check_gpu
    try:
        check_gpu(torch)
    except Stays as reason:
        traced = _traced(torch) if can_trace else None
        if traced is None:
            raise Unmeasurable(str(reason)) from None
        return traced
    return Gpu(torch)
