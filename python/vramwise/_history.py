"""_history.py - the history that PyTorch keeps for `vramwise run`: on, turned down, or the program's.

Turning it down is a call between two steps (_budget.py says when). What PyTorch makes of it: with
other arguments the events so far stay, and live blocks keep the stacks that they were allocated with;
switched off, the events are gone. So a trace never has a hole in it, only a beginning.

What the program says about history itself holds from then on, also if it was said before CUDA
started. PyTorch's own calls (torch.compile records a little while it captures graphs) are not the
program's word, and leave things as they were.
"""
import functools
import sys
import time
from typing import Any, Optional

TIGHT_PART = 0.85  # of the memory that may be had, reserved: tight


def _is_pytorchs_own(frame: Any) -> bool:
    """Whether a call that comes from `frame` is made by PyTorch for purposes of its own."""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module not in ("contextlib", "torch.cuda.memory"):
            return isinstance(module, str) and module.startswith("torch.")
        frame = frame.f_back
    return False


def allowed_part(torch: Any, device: int) -> Optional[float]:
    """Of the device's memory, what this process may have. None: this PyTorch does not tell."""
    fraction = getattr(torch.cuda, "get_per_process_memory_fraction", None)
    return None if fraction is None else float(fraction(device))


class History:
    """One for the process. torch is there; CUDA may not have started."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._most_entries = 0
        self._budget: Any = None
        self._level = 2
        self._step_began: Optional[float] = None
        self._allocations = 0
        self._allocated_bytes = 0
        self._steps_since_look = 0
        self._allowed_bytes = 0  # 0: not known yet
        self.is_programs = False  # the program has said what it wants
        self._listener: Any = None
        self._listen()

    def _listen(self) -> None:
        memory: Any = getattr(self._torch.cuda, "memory", None)
        original: Any = getattr(memory, "_record_memory_history", None)
        if original is None:  # a PyTorch before 2.0, which cannot be watched
            return

        @functools.wraps(original)
        def _record_memory_history(*args: Any, **kwargs: Any) -> Any:
            was_programs = self.is_programs
            self.is_programs = was_programs or not _is_pytorchs_own(sys._getframe(1))
            try:
                return original(*args, **kwargs)
            except BaseException:
                self.is_programs = was_programs
                raise
        memory._record_memory_history = self._listener = _record_memory_history
        self._original = original

    def end(self) -> None:
        """Stops listening, unless somebody else listens on top of it by now."""
        if self._listener is not None and \
                self._torch.cuda.memory._record_memory_history is self._listener:
            self._torch.cuda.memory._record_memory_history = self._original

    def begin(self, most_entries: int, budget: Any = None) -> None:
        """With stacks. With a `budget`, it is turned down where that says so."""
        memory = self._torch.cuda.memory
        self._most_entries = most_entries
        if self.is_programs:
            return
        if hasattr(memory, "_record_memory_history_impl"):
            self._budget = budget
            self._set_level(2)
        else:  # PyTorch 2.0
            self._original(True, trace_alloc_max_entries=most_entries,
                           trace_alloc_record_context=True)

    def _set_level(self, level: int) -> None:
        self._torch.cuda.memory._record_memory_history_impl(
            enabled="all" if level > 0 else None, context="alloc" if level == 2 else None,
            stacks="python", max_entries=self._most_entries)
        self._level = level

    def _is_ours(self) -> bool:
        """Not where somebody has switched it on or off by a way that we do not know."""
        is_enabled = getattr(self._torch._C, "_cuda_isHistoryEnabled", None)
        return not self.is_programs and (
            is_enabled is None or bool(is_enabled()) == (self._level > 0))

    def after_step(self, now: float, device: int, statistics: Optional[Any]) -> None:
        """A step ended at `now`. `statistics`: what PyTorch says of memory, if that was looked at."""
        if self._budget is None:
            return
        allocations, size, is_tight = None, 0, self._budget.is_tight
        self._steps_since_look += 1
        if statistics is not None:
            allocations, size = self._since_last_look(statistics)
            is_tight = self._is_tight(device, statistics)
        if self._step_began is not None:
            level = self._budget.next_level(now - self._step_began, is_tight, allocations, size)
            if level != self._level:
                self._change_to(level)
        self._step_began = time.perf_counter()

    def _change_to(self, level: int) -> None:
        if not self._is_ours():
            self.is_programs = True
            self._budget = None
            return
        begin = time.perf_counter()
        self._set_level(level)
        self._budget.spent(time.perf_counter() - begin)

    def _since_last_look(self, statistics: Any) -> Any:
        """Of a step: (allocations, their bytes). None and 0 where the statistics were reset, or lack
        it; 0 bytes if there was more than one step, since none of them is known."""
        try:
            allocations = statistics["allocation"]["all"]["allocated"]
            size = statistics["allocated_bytes"]["all"]["allocated"]
        except KeyError:
            return None, 0
        more, more_bytes = allocations - self._allocations, size - self._allocated_bytes
        steps, self._steps_since_look = self._steps_since_look, 0
        self._allocations, self._allocated_bytes = allocations, size
        if more <= 0 or more_bytes <= 0:
            return None, 0
        return more / steps, more_bytes if steps == 1 else 0

    def _is_tight(self, device: int, statistics: Any) -> bool:
        if self._allowed_bytes == 0:
            part = allowed_part(self._torch, device)
            total = self._torch.cuda.get_device_properties(device).total_memory
            self._allowed_bytes = max(int(total * (1.0 if part is None else part)), 1)
        reserved = statistics["reserved_bytes"]["all"]
        most = max(reserved["current"], reserved.get("peak", 0))
        return bool(most >= TIGHT_PART * self._allowed_bytes)

    def words(self) -> Optional[str]:
        """What was not kept of the history, for a report. None: everything was, or it is the
        program's own affair."""
        return None if self._budget is None or self.is_programs else self._budget.words()
