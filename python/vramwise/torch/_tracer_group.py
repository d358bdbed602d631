"""_tracer_group.py - process groups of programs that are traced: the other ranks are not there.

A traced program is one rank. How many there are, the program says, or WORLD_SIZE. A collective operation
ends at once; what it is given to fill stays as it is, or is filled with this rank's own, where it has data.
"""
from __future__ import annotations

import os
from typing import Any, Callable, List, Tuple

_BACKEND = "vramwise"
_IN_PLACE = ("allreduce", "allreduce_coalesced", "broadcast", "reduce", "send", "recv", "recv_anysource")
_INTO = ("allgather", "_allgather_base", "allgather_coalesced", "allgather_into_tensor_coalesced", "gather",
         "scatter", "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced", "alltoall",
         "alltoall_base")


def _group_class(torch: Any) -> type:
    from torch._C._distributed_c10d import _create_work_from_future

    def ended(result: Any) -> Any:
        future: Any = torch.futures.Future()
        future.set_result(result)
        return _create_work_from_future(future)

    def in_place(self: Any, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        return ended(tensors)

    def into(self: Any, outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        leaves = torch.utils._pytree.tree_leaves
        for output, given in zip(leaves(outputs), leaves(inputs) or [None]):
            if given is not None and output.shape == given.shape:
                output.copy_(given)
        return ended(outputs)

    class Group(torch.distributed.ProcessGroup):
        def __init__(self, rank: int, ranks: int) -> None:
            super().__init__(rank, ranks)
            self._rank, self._ranks = rank, ranks

        def size(self) -> int:
            return self._ranks

        def rank(self) -> int:
            return self._rank

        def getBackendName(self) -> str:
            return _BACKEND

        @property
        def pg_name(self) -> str:
            from torch.distributed import distributed_c10d
            return distributed_c10d._world.pg_names[self]

        @property
        def group_name(self) -> str:
            return self.pg_name

        def barrier(self, *args: Any, **kwargs: Any) -> Any:
            return ended(None)

    for name in _IN_PLACE:
        setattr(Group, name, in_place)
    for name in _INTO:
        setattr(Group, name, into)
    return Group


def _given(value: Any, variable: str, usual: int) -> int:
    if isinstance(value, int) and value >= 0:
        return value
    return int(os.environ.get(variable, usual))


def _objects(distributed: Any) -> List[Tuple[str, Callable[..., Any]]]:
    """Operations on Python objects, which tensors without data cannot carry."""
    def all_gather_object(object_list: List[Any], obj: Any, group: Any = None) -> None:
        object_list[:] = [obj] * len(object_list)

    def gather_object(obj: Any, object_gather_list: Any = None, *args: Any, **kwargs: Any) -> None:
        if object_gather_list is not None:
            object_gather_list[:] = [obj] * len(object_gather_list)

    def broadcast_object_list(*args: Any, **kwargs: Any) -> None:
        return None

    return [("all_gather_object", all_gather_object), ("gather_object", gather_object),
            ("broadcast_object_list", broadcast_object_list)]


def names(tracer: Any) -> List[Tuple[Any, str, Any]]:
    """(place, name, what it is while tracing)"""
    torch = tracer.torch
    distributed = torch.distributed
    if not distributed.is_available():
        return []
    import torch.distributed.device_mesh as device_mesh
    import torch.distributed.distributed_c10d as c10d
    group = _group_class(torch)
    begin, new = c10d.init_process_group, c10d.new_group
    if _BACKEND not in distributed.Backend.backend_list:
        distributed.Backend.register_backend(
            _BACKEND, lambda store, rank, size, timeout: group(rank, size), devices=["cpu", "cuda"])

    def init_process_group(backend: Any = None, init_method: Any = None, timeout: Any = None,
                           world_size: int = -1, rank: int = -1, *args: Any, **kwargs: Any) -> None:
        ranks, own = _given(world_size, "WORLD_SIZE", 1), _given(rank, "RANK", 0)
        if ranks > 1:
            tracer.requests.note(f"rank {own} of {ranks} is traced")
        begin(_BACKEND, store=distributed.HashStore(), world_size=ranks, rank=own)

    def new_group(ranks: Any = None, timeout: Any = None, backend: Any = None, *args: Any,
                  **kwargs: Any) -> Any:
        kwargs.pop("device_id", None)
        return new(ranks, backend=_BACKEND, **kwargs)

    replaced = [("init_process_group", init_process_group), ("new_group", new_group),
                ("is_nccl_available", lambda: True), *_objects(distributed)]
    found = [(place, name, value) for place in (distributed, c10d, device_mesh)
             for name, value in replaced if hasattr(place, name)]
    # The first compares with what other ranks answer, the second counts steps, to time some.
    return found + [(distributed, "_verify_params_across_processes", lambda *args: None),
                    (distributed.Reducer, "prepare_for_forward", lambda self: None)]
