"""What torch._C has of memory."""
import threading

import torch

CARD_BYTES = 8 << 30
OTHERS_BYTES = 0  # what other processes hold of it
live_bytes = peak_bytes = 0
out_of_memory_count = 0
contexts = set()  # devices that have been used
thread_device = threading.local()
pinned_bytes = 0
allocated_count = allocated_bytes = 0  # ever
history_level = 0  # 1: events, 2: with stacks
observers = []
is_in_bad_fork = False


def _cuda_attach_out_of_memory_observer(observer) -> None:
    torch._tell("observer attached")
    observers.append(observer)


def _cuda_memoryStats(device: int) -> dict:
    assert device in contexts, f"nobody has used device {device}"
    return {"allocation": {"all": {"allocated": allocated_count}},
            "allocated_bytes": {"all": {"current": live_bytes, "peak": peak_bytes,
                                        "allocated": allocated_bytes}},
            "reserved_bytes": {"all": {"current": live_bytes + (1 << 20),
                                       "peak": peak_bytes + (1 << 20)}},
            "num_alloc_retries": out_of_memory_count, "num_ooms": out_of_memory_count,
            "num_device_alloc": allocated_count, "num_device_free": 1}


def _cuda_resetPeakMemoryStats(device: int) -> None:
    global peak_bytes
    peak_bytes = live_bytes


def _cuda_resetAccumulatedMemoryStats(device: int) -> None:
    global allocated_count, allocated_bytes
    allocated_count = allocated_bytes = 0


def _cuda_hostMemoryStats() -> dict:
    return {"allocated_bytes": {"current": pinned_bytes}, "active_bytes": {"current": 0}}


def _cuda_hasPrimaryContext(device: int) -> bool:
    return device in contexts


def _cuda_setDevice(device: int) -> None:
    contexts.add(device)
    thread_device.index = device


def _cuda_isHistoryEnabled() -> bool:
    return history_level > 0


def allocate(size_bytes: int) -> None:
    """As a tensor would, on the current device: starts CUDA, and fails as PyTorch does."""
    global live_bytes, peak_bytes, allocated_count, allocated_bytes, out_of_memory_count
    torch.cuda._lazy_init()
    contexts.add(torch.cuda.current_device())
    free = CARD_BYTES - OTHERS_BYTES - live_bytes
    if size_bytes > free:
        out_of_memory_count += 1
        for observer in observers:
            observer(0, size_bytes, CARD_BYTES, free)
        raise torch.OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {size_bytes / (1 << 30):.2f} GiB. GPU 0 has a "
            f"total capacity of 8.00 GiB of which {free / (1 << 30):.2f} GiB is free. Of the "
            f"allocated memory {live_bytes / (1 << 30):.2f} GiB is allocated by PyTorch, and 1.00 "
            "MiB is reserved by PyTorch but unallocated.")
    live_bytes += size_bytes
    peak_bytes = max(peak_bytes, live_bytes)
    allocated_count += 1
    allocated_bytes += size_bytes


def free(size_bytes: int) -> None:
    global live_bytes
    live_bytes -= size_bytes
