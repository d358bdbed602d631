"""_park.py - GPU memory that leaves until it is woken: all of it, or that of a named region.

All of it: nothing is mapped meanwhile, and work on the GPU waits at the launch gate, whoever starts it.
A region: the rest goes on. Its addresses show host memory with the same bytes, so that a touch is slow and
right. docs/design/012-park.md says why.
"""
from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Dict, Iterator, Optional, Tuple, Union

from .. import _library
from ._state import State, support_library

_WRONG_STATE = 6        # vw_status: no safe moment just now
_FOR_EVER = 2**64 - 1
_PAUSE_SECONDS = 0.01   # between two tries


class ParkError(_library.VramwiseError):
    """Nothing was parked, or not everything could be woken; the text says why, and with which numbers."""


ParkError.__module__ = "vramwise.torch"  # where people find it


@dataclass(frozen=True)
class Parked:
    """What park() or wake() did. Bytes of GPU memory, but for `copied_bytes`."""
    moved_bytes: int    # given back to the driver, or taken again
    copied_bytes: int   # data copied
    dropped_bytes: int  # of regions with keep=False
    stayed_bytes: int   # pinned, or shared with other processes: still on the GPU
    seconds: float


class _Regions:
    """Those of the process. A region's MemPool lives as long as the process: its addresses do."""
    lock = threading.Lock()
    pools: Dict[str, Tuple[Any, bool]] = {}  # the MemPool, and whether its data is kept


def _adapter() -> ctypes.CDLL:
    if State.adapter is None:
        raise ParkError("nothing can be parked here: vramwise.torch.install(\"vramwise\") was not called, or "
                        "not in this process, or another allocator serves")
    return State.adapter


def _region_id(name: Optional[str]) -> Any:
    """(0, 0) is everything."""
    if name is None:
        return (ctypes.c_ulonglong * 2)(0, 0)
    with _Regions.lock:
        if name not in _Regions.pools:
            known = ", ".join(sorted(_Regions.pools)) or "no region has been made"
            raise ParkError(f"no region is called {name!r}: {known}")
        pool, _ = _Regions.pools[name]
    return (ctypes.c_ulonglong * 2)(*pool.id)


def _milliseconds(wait: Union[None, bool, float]) -> int:
    """None, False: not at all; True: for ever."""
    if wait is True:
        return _FOR_EVER
    seconds = float(wait or 0)
    if not seconds >= 0:
        raise ValueError(f"wait is a number of seconds from 0 on, or True, not {wait!r}")
    return int(min(seconds * 1000, _FOR_EVER))


def _call(function: Any, *arguments: Any) -> Tuple[int, Any, str]:
    numbers = (ctypes.c_ulonglong * 5)()
    message = ctypes.create_string_buffer(2048)
    status = function(*arguments, numbers, message, len(message))
    return status, numbers, message.value.decode("utf-8", "replace")


def _done(numbers: Any) -> Parked:
    moved, copied, dropped, stayed, wait_ns = (int(number) for number in numbers)
    return Parked(moved, copied, dropped, stayed, wait_ns / 1e9)


def _tried(timeout: float, function: Any, *arguments: Any) -> Parked:
    """Until there is a safe moment, or `timeout` is over. ParkError."""
    end = time.monotonic() + timeout
    while True:
        status, numbers, text = _call(function, *arguments)
        if status == 0:
            return _done(numbers)
        if status != _WRONG_STATE or time.monotonic() >= end:
            raise ParkError(text or f"status {status}")
        time.sleep(_PAUSE_SECONDS)


def _end_holds_early() -> None:
    """At the end of the process before what was registered by now: others may destroy graphs there, which would
    wait for a wake that does not come."""
    end = support_library().vramwise_end_holds
    atexit.unregister(end)
    atexit.register(end)


def park(name: Optional[str] = None, to: Optional[str] = None, *, wait: Union[None, bool, float] = None,
         timeout: float = 10.0) -> Parked:
    """Lets this process's GPU memory go to host memory, so that others can use the GPU; wake() brings it back,
    under the same addresses: tensors, captured graphs and compiled models stay valid.

    `name`     only what was allocated inside region(name): the program goes on meanwhile, and work that touches
               the region runs on its bytes in host memory, slowly
    `to`       a folder: the data goes to a file there, where host memory is short. It has no name, and is gone with
               the process. Not with `name`
    `wait`     what happens to a request for parked memory: None, it fails; a number, it waits as many seconds for
               wake(); True, it waits for ever
    `timeout`  how long to try to find a moment in which nothing runs on the GPU

    Without `name`, work on the GPU that any thread starts waits until wake(), and the first such says so. ParkError:
    nothing is parked, and why; or, in so many words, only a part could come back."""
    adapter = _adapter()
    _end_holds_early()
    if name is not None and to is not None:
        raise ValueError("a region stays in reach, in host memory: it cannot go to a folder")
    folder = os.fsencode(to) if to is not None else None
    return _tried(timeout, adapter.vramwise_torch_park, _region_id(name), folder, _milliseconds(wait))


def wake(name: Optional[str] = None, *, timeout: float = 10.0) -> Parked:
    """Brings back what park() let go: all of it, or one region. Does nothing where nothing is parked. ParkError: the
    GPU has no room (the text says how much is missing and who has it), or failed; all of it stays parked, nothing is
    lost, and it can be tried again."""
    return _tried(timeout, _adapter().vramwise_torch_wake, _region_id(name))


def park_ahead(size: Union[int, str]) -> None:
    """Has a thread make page-locked host memory for park(), which is most of what the first one takes (0.1 s a GiB).
    `size` is "20GiB" or a number of bytes, for each GPU; 0 gives back what is kept. ParkError."""
    message = ctypes.create_string_buffer(2048)
    size_bytes = 0 if size in (0, "0") else _library.memory_bytes("size", size)
    if _adapter().vramwise_torch_park_ahead(size_bytes, message, len(message)) != 0:
        raise ParkError(message.value.decode("utf-8", "replace"))


def _pool_for(torch: Any, name: str, keep: bool) -> Any:
    with _Regions.lock:
        if name not in _Regions.pools:
            _Regions.pools[name] = (torch.cuda.MemPool(), keep)
        pool, is_kept = _Regions.pools[name]
    if is_kept != keep:
        raise ValueError(f"region {name!r} was made with keep={is_kept}")
    return pool


@contextmanager
def region(name: str, keep: bool = True) -> Iterator[None]:
    """What this thread allocates on the GPU inside the block belongs to region `name`, which can be parked by itself.
    With keep=False its data is dropped rather than copied (a KV cache): undefined until it is written after wake().
    The same name can be used again. Does nothing where our allocator is not in force. ParkError: this PyTorch has no
    torch.cuda.MemPool, or the allocator has no regions."""
    if not name:
        raise ValueError("a region needs a name")
    if State.adapter is None:
        yield
        return
    import torch
    if not hasattr(torch.cuda, "MemPool") or not hasattr(torch.cuda, "use_mem_pool"):
        raise ParkError(f"PyTorch {torch.__version__} has no torch.cuda.MemPool, which regions take")
    pool = _pool_for(torch, name, keep)
    with torch.cuda.use_mem_pool(pool):
        message = ctypes.create_string_buffer(2048)
        identity = (ctypes.c_ulonglong * 2)(*pool.id)
        if State.adapter.vramwise_torch_region(identity, name.encode(), int(keep), message, len(message)) != 0:
            raise ParkError(message.value.decode("utf-8", "replace"))
        yield
