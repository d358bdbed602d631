"""torch.cuda.memory: a history that remembers how it was asked for, and the plain door."""
import ctypes

history = {"enabled": None, "calls": []}
given = None
trace = [{"action": "segment_alloc", "addr": 0x7f0000000000, "size": 2097152, "stream": 0,
          "time_us": 1, "frames": []},
         {"action": "alloc", "addr": 0x7f0000000000, "size": 1024, "stream": 0, "time_us": 2,
          "frames": [{"filename": "train.py", "line": 3, "name": "main"}]}]


def _record_memory_history(enabled="all", context="all", stacks="all", max_entries=2**63 - 1,
                           device=None, clear_history=False):
    history["enabled"] = enabled
    history["calls"].append({"enabled": enabled, "context": context, "stacks": stacks,
                             "max_entries": max_entries, "clear_history": clear_history})


def _snapshot():
    if given is not None:
        raise RuntimeError("CUDAPluggableAllocator does not yet support snapshot. If you need it,")
    blocks = [{"address": 0x7f0000000000, "size": 1024, "requested_size": 1024,
               "state": "active_allocated", "frames": trace[1]["frames"]},
              {"address": 0x7f0000000400, "size": 2096128, "requested_size": 0,
               "state": "inactive", "frames": []}]
    return {"segments": [{"device": 0, "address": 0x7f0000000000, "total_size": 2097152,
                          "stream": 0, "segment_type": "small", "allocated_size": 1024,
                          "active_size": 1024, "requested_size": 1024, "blocks": blocks,
                          "segment_pool_id": (0, 0), "is_expandable": False, "frames": []}],
            "device_traces": [trace]}


class _Inside:
    def __init__(self):
        self.functions = {}

    def __getattr__(self, name):
        if not name.startswith("set_"):
            raise AttributeError(name)
        return lambda address: self.functions.__setitem__(name, address)


class CUDAPluggableAllocator:
    def __init__(self, path, alloc_name, free_name):
        self.library = ctypes.CDLL(path)
        self.functions = [getattr(self.library, alloc_name), getattr(self.library, free_name)]
        self.inside = _Inside()

    def allocator(self):
        return self.inside


def change_current_allocator(allocator):
    global given
    if given is not None:
        raise RuntimeError("Can't swap an already initialized allocator")
    given = allocator
