"""_publish.py - this process's page, in a program that was not started by `vramwise run`."""
from __future__ import annotations

import sys
import threading
from typing import Any, Optional

from .. import _live, _steps
from .._library import VramwiseError
from .._program import program_name
from ._say import say

_lock = threading.Lock()
_is_queued = False


def _say_trouble(text: str, error: BaseException) -> None:
    say(f"{text}: {type(error).__name__}: {error}")


def _start(torch: Any) -> None:
    """CUDA has started: here, or in a child that was forked before."""
    try:
        live = _live.Live(torch, program_name())
        live.begin()
        _steps.Steps(torch, live.after_step, _say_trouble).begin()
    except Exception as error:  # the program goes on without
        _say_trouble("this process is not published", error)


def publish() -> Optional[str]:
    """Lets others see this process's GPU memory while it runs: `vramwise top`, `vramwise exporter`,
    vramwise.jobs().

    From when CUDA starts, a thread puts PyTorch's statistics on a page in shared memory, once a
    second, with the optimizer's steps and the time that was spent waiting for the DataLoader. Does
    not start CUDA. Under `vramwise run` that is done already, and this does nothing. A second call
    does nothing either.

    Returns the page's path. None: VRAMWISE_LIVE=0 or VRAMWISE_DISABLE=1 switched it off.
    VramwiseError: the library is missing, or there is no room in shared memory.
    """
    global _is_queued
    if _live.is_switched_off():
        return None
    import torch
    if not hasattr(torch.cuda, "_lazy_call"):
        raise VramwiseError(f"PyTorch {torch.__version__} does not tell when CUDA starts")
    with _lock:
        page = _live.Page()
        page.identify(program_name(), _live.allocator_in_force()[0])
        watch = sys.modules.get("_vramwise_watch")
        if not _is_queued and (watch is None or not watch.is_watching()):
            torch.cuda._lazy_call(lambda: _start(torch))
            _is_queued = True
        return page.path
