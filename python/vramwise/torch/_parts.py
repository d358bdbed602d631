"""_parts.py - an optimizer's step that is made part by part.

PyTorch's default (foreach) optimizers work on all weights at once, and so do their temporaries: those of AdamW
are as large as the weights. Where memory is short these bytes decide how much of the state has to be
elsewhere during the step. All of these optimizers, and the fused ones, ask one function for lists of tensors that go
together. Ours answers with shorter lists: the same operations on the same tensors, fewer at a time.

Foreach optimizers pass over their state several times, each time over the bus if it is in host memory. So a part's
state is lent blocks of the GPU: the next part is copied in while a part is worked on and copied out
(_Staged). What a part works on are tensors of the same shape and bytes, and what it leaves in them is the state's. A
fused optimizer passes over it once, in both directions at the same time, so it uses the host's.

Results are the same to the bit only if all tensors take PyTorch's quick way with long lists and with short
ones. So lists are left as they are unless every tensor is contiguous and of one type.
"""
from __future__ import annotations

import ctypes
import functools
from typing import Any, Dict, Iterator, List, Set, Tuple

_PART_BYTES = 256 << 20  # of weights; a larger one is a part of its own
_STAGED_PART_BYTES = 64 << 20  # the same, where state is copied in and out beside it
_LEAST_BYTES = 1 << 20  # of a tensor that can be away; StateStream::least_bytes
_TEMPORARIES = 4  # times the weights of a part, that its work may need besides


class _Loan:
    """A tensor of a part that works in a block of the GPU."""
    __slots__ = ("list_number", "index", "tensor", "shell")

    def __init__(self, list_number: int, index: int, tensor: Any) -> None:
        self.list_number, self.index, self.tensor = list_number, index, tensor
        self.shell: Any = None


class Staging:
    """The adapter's part of it (state_stream.h)."""

    def __init__(self, torch: Any, adapter: ctypes.CDLL) -> None:
        self._torch, self._adapter = torch, adapter

    def is_wanted(self, weight: Any) -> bool:
        return bool(weight.is_cuda and self._adapter.vramwise_torch_stream_away(weight.device.index))

    @staticmethod
    def _lendable(lists: List[List[Any]]) -> Iterator[_Loan]:
        """What may be away: state, which follows the weights and the gradients."""
        for number, tensors in enumerate(lists[2:], 2):
            for index, tensor in enumerate(tensors):
                if tensor is not None and tensor.is_cuda and tensor.numel() * tensor.element_size() >= _LEAST_BYTES:
                    yield _Loan(number, index, tensor)

    def has_twice(self, lists: List[List[Any]]) -> bool:
        """A parameter is in the optimizer's group twice: its state must not be copied in for the second time before the
        work of the first is there."""
        tensors = [id(loan.tensor) for loan in self._lendable(lists)]
        return len(set(tensors)) < len(tensors)

    def begin(self, lists: List[List[Any]], before: List[List[Any]]) -> List[_Loan]:
        """Has copied in what of a part is away, as far as there is room, also for the work of the part before."""
        weights = max(sum(weight.numel() * weight.element_size() for weight in part[0]) for part in (lists, before))
        loans = list(self._lendable(lists))
        numbers = ctypes.c_ulonglong * len(loans)
        asked, answers = numbers(*[loan.tensor._cdata for loan in loans]), numbers()
        self._adapter.vramwise_torch_stream_stage(asked, len(loans), weights * _TEMPORARIES, answers)
        return [loan for loan, size in zip(loans, answers) if size > 0]

    def use(self, lists: List[List[Any]], loans: List[_Loan]) -> List[List[Any]]:
        """The lists with those blocks in the place of what is away."""
        lists = [list(tensors) for tensors in lists]
        for loan in loans:
            tensor = loan.tensor
            shell = self._torch.empty(0, dtype=self._torch.uint8, device=tensor.device)
            if self._adapter.vramwise_torch_stream_use_staged(tensor._cdata, shell._cdata):
                loan.shell = shell
                made = self._torch.empty(0, dtype=tensor.dtype, device=tensor.device)
                made.set_(shell.untyped_storage(), 0, tensor.shape, tensor.stride())
                lists[loan.list_number][loan.index] = made
        return lists

    def end(self, loans: List[_Loan]) -> None:
        used = [loan for loan in loans if loan.shell is not None]
        if not all([self._adapter.vramwise_torch_stream_unstage(loan.tensor._cdata, loan.shell._cdata) for loan in used]):
            raise RuntimeError("vramwise: a part of an optimizer's state could not be copied back to host memory")


class _Staged(Dict[Any, Any]):
    """Parts, those of `staged` each with its state on the GPU while its turn lasts. Optimizers go through them once."""

    def __init__(self, parts: Dict[Any, Any], staged: Set[Any], staging: Staging) -> None:
        super().__init__(parts)
        self._staged, self._staging = staged, staging

    def _begin(self, part: Any, before: List[List[Any]]) -> List[_Loan]:
        key, (lists, _) = part
        return self._staging.begin(lists, before) if key in self._staged else []

    def items(self) -> Any:
        parts = list(super().items())
        coming = self._begin(parts[0], parts[0][1][0])
        for number, (key, (lists, indices)) in enumerate(parts):
            loans = coming
            used = self._staging.use(lists, loans)
            coming = self._begin(parts[number + 1], lists) if number + 1 < len(parts) else []
            try:
                yield key, (used, indices)
            finally:  # also if the part's work fails
                self._staging.end(loans)

    def values(self) -> Any:
        for _, value in self.items():
            yield value


class StepInParts:
    """One for the process."""

    def __init__(self, torch: Any, staging: Staging) -> None:
        self._torch, self._staging = torch, staging
        self.is_wanted = False
        self.may_stage = False  # the optimizer that steps now goes through its parts once, one after the other

    def begin(self) -> None:
        """From here on, while it is wanted."""
        kind: Any = getattr(getattr(self._torch, "optim", None), "Optimizer", None)
        group: Any = getattr(kind, "_group_tensors_by_device_and_dtype", None)
        if group is None:
            return

        @functools.wraps(group)
        def in_parts(*arguments: Any, **options: Any) -> Any:
            groups = group(*arguments, **options)
            return self._split(groups) if self.is_wanted else groups
        kind._group_tensors_by_device_and_dtype = staticmethod(in_parts)

    def _split(self, groups: Dict[Any, Any]) -> Dict[Any, Any]:
        """Keys begin with the device, which optimizers look at; the rest has to be different only."""
        parts: Dict[Any, Any] = {}
        staged: Set[Any] = set()
        for key, (lists, indices) in groups.items():
            is_plain = all(self._is_plain(tensor, lists[0][0]) for tensors in lists for tensor in tensors)
            is_away = (is_plain and self.may_stage and self._staging.is_wanted(lists[0][0])
                       and not self._staging.has_twice(lists))
            ranges = self._ranges(lists[0], _STAGED_PART_BYTES if is_away else _PART_BYTES) if is_plain else [(0, len(lists[0]))]
            for number, (first, last) in enumerate(ranges):
                name = key if number == 0 else (key[0], (key[1], number))
                parts[name] = ([tensors[first:last] for tensors in lists], indices[first:last])
                if is_away:
                    staged.add(name)
        return _Staged(parts, staged, self._staging) if staged else parts

    @staticmethod
    def _ranges(weights: List[Any], part_bytes: int) -> Iterator[Tuple[int, int]]:
        first, size = 0, 0
        for number, weight in enumerate(weights):
            weight_size = weight.numel() * weight.element_size()
            if size > 0 and size + weight_size > part_bytes:
                yield first, number
                first, size = number, 0
            size += weight_size
        yield first, len(weights)

    def _is_plain(self, tensor: Any, weight: Any) -> bool:
        """Or a number of steps."""
        if type(tensor) not in (self._torch.Tensor, self._torch.nn.Parameter) or not tensor.is_contiguous():
            return False
        return tensor.numel() == 1 or (tensor.is_cuda and tensor.dtype == weight.dtype and tensor.device == weight.device)
