"""What torch._C has of memory."""
import torch

CARD_BYTES = 8 << 30
OTHERS_BYTES = 0  # what other processes hold of it
live_bytes = 0
allocated_count = allocated_bytes = 0  # ever
history_level = 0  # 1: events, 2: with stacks
observers = []
is_in_bad_fork = False


def _cuda_attach_out_of_memory_observer(observer) -> None:
    torch._tell("observer attached")
    observers.append(observer)


def _cuda_memoryStats(device: int) -> dict:
    return {"allocation": {"all": {"allocated": allocated_count}},
            "allocated_bytes": {"all": {"current": live_bytes, "allocated": allocated_bytes}},
            "reserved_bytes": {"all": {"current": live_bytes + (1 << 20)}}}


def _cuda_isHistoryEnabled() -> bool:
    return history_level > 0


def allocate(size_bytes: int) -> None:
    """As a tensor would: starts CUDA, and fails as PyTorch does."""
    global live_bytes, allocated_count, allocated_bytes
    torch.cuda._lazy_init()
    free = CARD_BYTES - OTHERS_BYTES - live_bytes
    if size_bytes > free:
        for observer in observers:
            observer(0, size_bytes, CARD_BYTES, free)
        raise torch.OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {size_bytes / (1 << 30):.2f} GiB. GPU 0 has a "
            f"total capacity of 8.00 GiB of which {free / (1 << 30):.2f} GiB is free. Of the "
            f"allocated memory {live_bytes / (1 << 30):.2f} GiB is allocated by PyTorch, and 1.00 "
            "MiB is reserved by PyTorch but unallocated.")
    live_bytes += size_bytes
    allocated_count += 1
    allocated_bytes += size_bytes


def free(size_bytes: int) -> None:
    global live_bytes
    live_bytes -= size_bytes
