"""_profiler.py - to know of PyTorch's profiler before it starts.

Two of our parts stand in its way, or want to. CUPTI has room for one subscriber, and the launch gate
may have it; the profiler subscribes at its first use, never tries again, and without it sees nothing
of what the GPU does. A profile that a user asks for is worth more than the gate, so the gate is taken
down before. And the profiler wants to hear of every block; to ask PyTorch each time whether it does
costs a third of an allocation, so the adapter asks from the first profiler on, and not before.
"""
from __future__ import annotations

import functools
import sys
from typing import Any, Callable

# Where PyTorch starts profilers, and the names by which its modules know the functions.
_SOURCE = "torch._C._autograd"
_USERS = ("torch.autograd.profiler", "torch.autograd.profiler_legacy")
_STARTS = ("_prepare_profiler", "_enable_profiler", "_enable_profiler_legacy")


def announce(before: Callable[[], None]) -> bool:
    """From now on `before` is called once, before the first profiler starts. False: it cannot be
    known here when one does, or one runs already; `before` may be called all the same."""
    source = sys.modules.get(_SOURCE)
    starts = {name: getattr(source, name, None) for name in _STARTS}
    if not callable(starts["_enable_profiler"]):
        return False
    has_begun = False

    def wrapped(start: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(start)
        def announced(*arguments: Any, **options: Any) -> Any:
            nonlocal has_begun
            if not has_begun:
                has_begun = True
                before()
            return start(*arguments, **options)
        return announced

    for name, start in starts.items():
        if callable(start):
            ours = wrapped(start)
            for module in (source, *map(sys.modules.get, _USERS)):
                if getattr(module, name, None) is start:
                    setattr(module, name, ours)
    is_running = getattr(sys.modules.get(_USERS[0]), "_is_profiler_enabled", False)
    return not is_running
