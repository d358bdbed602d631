"""_steps.py - the steps of a program's optimizer: counted, and logged with what was allocated then.

Of all optimizers the first that steps is the one that counts; others (a discriminator's) step beside
it. The log stays small: of a long run it has every second step, every fourth, and so on, and only at
those PyTorch is asked for its statistics.

A process forked after counting began leaves it be.
"""
import os
import sys
import time
import weakref
from typing import Any, Callable, List, Optional, Tuple

MOST_STEPS = 4096  # in the log; of more, every second one is kept, and so on


def memory_in(statistics: Any) -> Tuple[int, int]:
    """(allocated, reserved) bytes, now."""
    return (statistics["allocated_bytes"]["all"]["current"],
            statistics["reserved_bytes"]["all"]["current"])


def is_compiling_of(torch: Any) -> Optional[Callable[[], bool]]:
    """torch.compiler's: a constant in what is being compiled. None before PyTorch 2.1."""
    return getattr(getattr(torch, "compiler", None), "is_compiling", None)


def call_after_steps(torch: Any, call: Callable[[Any], None]) -> bool:
    """`call(optimizer)` after each step of any optimizer from here on, in this process. False, and it
    never is: before PyTorch 2.1."""
    return _call_around_steps(torch, "register_optimizer_step_post_hook", call)


def call_before_steps(torch: Any, call: Callable[[Any], None]) -> bool:
    """The same before each step."""
    return _call_around_steps(torch, "register_optimizer_step_pre_hook", call)


def _call_around_steps(torch: Any, name: str, call: Callable[[Any], None]) -> bool:
    is_compiling = is_compiling_of(torch)
    register = getattr(sys.modules.get("torch.optim.optimizer"), name, None)
    if register is None or is_compiling is None:
        return False

    def hook(optimizer: Any, args: Any, kwargs: Any) -> None:
        # A step that is being compiled is traced, and this with it.
        if not is_compiling():  # type: ignore[misc]
            call(optimizer)
    register(hook)
    return True


class FirstToStep:
    """The optimizer that counts: the first that stepped of those that are still there."""

    def __init__(self) -> None:
        self._found: Optional["weakref.ref[Any]"] = None

    def is_it(self, optimizer: Any) -> bool:
        """Is it the one? `optimizer` has just stepped."""
        found = self._found() if self._found is not None else None
        if found is None:
            self._found = weakref.ref(optimizer)
        return found is None or found is optimizer


class Steps:
    """One for the process. `after_step(now, device, step, statistics)` is called after each step that
    counts, with None where the statistics were not looked at; `trouble(text, error)`, once, where
    counting has to end."""

    def __init__(self, torch: Any, after_step: Callable[[float, int, int, Any], None],
                 trouble: Callable[[str, BaseException], None]) -> None:
        self._torch = torch
        self._after_step = after_step
        self._trouble = trouble
        self._is_counting = False
        self._first = FirstToStep()  # whose steps are counted
        self._count = 0
        self._between = 1
        self.log: List[Tuple[int, int, int]] = []  # step, allocated bytes, reserved bytes

    def begin(self) -> None:
        """From here on. Does nothing before PyTorch 2.1."""
        if call_after_steps(self._torch, self._note_safely):
            self._is_counting = True
            os.register_at_fork(after_in_child=self._end)

    def _end(self) -> None:
        self._is_counting = False

    def _note_safely(self, optimizer: Any) -> None:
        try:
            self._note(optimizer)
        except Exception as error:
            self._end()
            self._trouble("steps are no longer counted", error)

    def _note(self, optimizer: Any) -> None:
        if self._is_counting and self._first.is_it(optimizer):
            self.count()

    def count(self) -> None:
        """A step has ended: for those who know without an optimizer."""
        now = time.perf_counter()
        self._count += 1
        device, statistics = self._torch.cuda.current_device(), None
        if self._count % self._between == 0:
            statistics = self._torch._C._cuda_memoryStats(device)
            self._add_to_log(*memory_in(statistics))
        self._after_step(now, device, self._count, statistics)

    def _add_to_log(self, allocated: int, reserved: int) -> None:
        self.log.append((self._count, allocated, reserved))
        if len(self.log) >= MOST_STEPS:
            self._between *= 2
            self.log = [point for point in self.log if point[0] % self._between == 0]
