"""torch.cuda.memory: a history that remembers how it was asked for, blocks that a test takes, and the
plain door."""
import ctypes
import traceback

history = {"enabled": None, "calls": []}
given = None
trace = [{"action": "segment_alloc", "addr": 0x7f0000000000, "size": 2097152, "stream": 0,
          "time_us": 1, "frames": []},
         {"action": "alloc", "addr": 0x7f0000000000, "size": 1024, "stream": 0, "time_us": 2,
          "frames": [{"filename": "train.py", "line": 3, "name": "main"}]}]


def _record_memory_history(enabled="all", context="all", stacks="all", max_entries=2**63 - 1,
                           device=None, clear_history=False):
    from . import state
    state["initialized"] = True  # it starts CUDA
    history["enabled"] = enabled
    if clear_history:
        trace_of_blocks.clear()
    history["calls"].append({"enabled": enabled, "context": context, "stacks": stacks,
                             "max_entries": max_entries, "clear_history": clear_history})


class Block:
    """Memory in place of a tensor: alive as long as the object. Each has a segment of its own."""
    taken = []  # all that were made, in order

    def __init__(self, size):
        from . import state
        self._state = state
        self.size = size
        self.address = 0x7e0000000000 + (len(self.taken) << 32)
        self.frames = [] if history["enabled"] is None else [
            {"filename": frame.filename, "line": frame.lineno, "name": frame.name}
            for frame in reversed(traceback.extract_stack()[:-1])]
        self.taken.append({"block": {"address": self.address, "size": size, "requested_size": size,
                                     "state": "active_allocated", "frames": self.frames},
                           "is_alive": True})
        self._entry = self.taken[-1]
        state["live"] += size
        state["peak"] = max(state["peak"], state["live"])
        state["allocations"] += 1
        self._note("segment_alloc", "alloc")

    def _note(self, *actions):
        for action in actions if history["enabled"] is not None else ():
            trace_of_blocks.append({"action": action, "addr": self.address, "size": self.size,
                                    "stream": 0, "time_us": len(trace_of_blocks),
                                    "frames": self.frames})

    def __del__(self):
        self._state["live"] -= self.size
        self._entry["is_alive"] = False
        self._note("free_requested", "free_completed", "segment_free")


trace_of_blocks = []


def _snapshot_of_blocks():
    blocks = [entry["block"] for entry in Block.taken if entry["is_alive"]]
    return {"segments": [{"device": 0, "address": block["address"], "total_size": block["size"],
                          "stream": 0, "segment_type": "large", "allocated_size": block["size"],
                          "active_size": block["size"], "requested_size": block["size"],
                          "blocks": [block], "segment_pool_id": (0, 0), "is_expandable": False,
                          "frames": []} for block in blocks],
            "device_traces": [trace_of_blocks]}


def _snapshot():
    if given is not None:
        raise RuntimeError("CUDAPluggableAllocator does not yet support snapshot. If you need it,")
    if Block.taken:
        return _snapshot_of_blocks()
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
