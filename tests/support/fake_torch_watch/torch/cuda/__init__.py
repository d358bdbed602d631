"""torch.cuda: CUDA starts at the first use, and what was queued for that moment runs then."""
import os
import threading
import traceback

import torch

from . import memory  # noqa: F401

_initialized = False
_queued_calls = []
_initialization_lock = threading.Lock()
_tls = threading.local()


def is_initialized() -> bool:
    return _initialized and not torch._C.is_in_bad_fork


def _lazy_call(call, **kwargs) -> None:
    with _initialization_lock:
        if is_initialized():
            call()
        else:
            _queued_calls.append((call, traceback.format_stack()))


def _lazy_init() -> None:
    global _initialized
    if is_initialized() or hasattr(_tls, "is_initializing"):
        return
    with _initialization_lock:
        if torch._C.is_in_bad_fork:
            raise RuntimeError("Cannot re-initialize CUDA in forked subprocess.")
        if os.environ.get("FAKE_TORCH_NO_GPU"):
            raise RuntimeError("No CUDA GPUs are available")
        torch._tell("cuda started")
        os.register_at_fork(after_in_child=lambda: setattr(torch._C, "is_in_bad_fork", True))
        _tls.is_initializing = True
        try:
            for call, _ in _queued_calls:
                call()
        finally:
            del _tls.is_initializing
        _initialized = True


def current_device() -> int:
    _lazy_init()
    return getattr(torch._C.thread_device, "index", 0)


def device_count() -> int:
    return 4


def mem_get_info(device: int) -> tuple:
    """As PyTorch's: goes to the device, and back to where this thread was."""
    before = current_device()
    torch._C._cuda_setDevice(device)
    torch._C._cuda_setDevice(before)
    used = torch._C.OTHERS_BYTES + torch._C.live_bytes + (1 << 20)
    return torch._C.CARD_BYTES - used, torch._C.CARD_BYTES


_fraction = 1.0


def set_per_process_memory_fraction(fraction: float) -> None:
    global _fraction
    _fraction = fraction


def get_per_process_memory_fraction(device: int) -> float:
    return _fraction


class _Properties:
    name = "made-up card"
    total_memory = torch._C.CARD_BYTES


def get_device_properties(device: int) -> _Properties:
    return _Properties()
