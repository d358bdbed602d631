"""torch.cuda.memory: history and snapshots."""
import os
import pickle

import torch


def _record_memory_history_impl(enabled="all", context="all", stacks="all", max_entries=None,
                                clear_history=False) -> None:
    torch.cuda._lazy_init()
    if os.environ.get("FAKE_TORCH_NO_HISTORY"):
        raise RuntimeError("cudaMallocAsync does not yet support recordHistory.")
    torch._C.history_level = 0 if enabled is None else 1 if context is None else 2
    torch._tell(f"history {enabled} {context} {stacks} {max_entries}")


def _record_memory_history(enabled="all", *args, **kwargs) -> None:
    _record_memory_history_impl(enabled, *args, **kwargs)


def _snapshot(device=None):
    if os.environ.get("FAKE_TORCH_CRASH"):
        raise ZeroDivisionError("made up")
    torch._tell("snapshot")
    import lzma

    path = os.environ.get("FAKE_TORCH_SNAPSHOT")
    if not path:
        return {"segments": [], "device_traces": [[]]}
    with lzma.open(path) as file:
        return pickle.load(file)
