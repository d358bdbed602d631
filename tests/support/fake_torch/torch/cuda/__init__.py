"""torch.cuda: one GPU of 1000 bytes, whose statistics the tests set."""
import os

from .. import OutOfMemoryError  # noqa: F401

state = {"initialized": False, "bad_fork": False, "emptied": 0, "live": 0, "peak": 0,
         "resets": 0, "allocations": 0}


def is_initialized():
    return state["initialized"]


def is_available():
    raise AssertionError("this forbids forked children to use CUDA: nobody may call it")


def _is_in_bad_fork():
    return state["bad_fork"]


def device_count():
    return int(os.environ.get("FAKE_TORCH_DEVICES", "1"))


def current_device():
    return 0


def get_allocator_backend():
    return "pluggable" if memory.given is not None else "native"


def empty_cache():
    state["emptied"] += 1


def reset_peak_memory_stats(device):
    state["peak"] = state["live"]
    state["resets"] += 1


def memory_allocated(device):
    return state["live"]


def max_memory_allocated(device):
    return state["peak"]


def memory_reserved(device):
    return 200


def memory_stats(device):
    return {"allocation.all.allocated": state["allocations"]}


def mem_get_info(device):
    return 800, 1000


from . import memory  # noqa: E402
