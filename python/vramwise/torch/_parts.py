"""_parts.py - an optimizer's step that is made part by part.

PyTorch's default (foreach) optimizers work on all weights at once, and so do their temporaries: those of AdamW
are as large as the weights. Where memory is short these bytes decide how much of the state has to be
elsewhere during the step. All of these optimizers ask one function for lists of tensors that go together. Ours
answers with shorter lists: the same operations on the same tensors, fewer at a time.

Results are the same to the bit only if all tensors take PyTorch's quick way with long lists and with short
ones. So lists are left as they are unless every tensor is contiguous and of one type.
"""
from __future__ import annotations

import functools
from typing import Any, Dict, Iterator, List, Tuple

_PART_BYTES = 256 << 20  # of weights; a larger one is a part of its own


class StepInParts:
    """One for the process."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.is_wanted = False

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
        for key, (lists, indices) in groups.items():
            for number, (first, last) in enumerate(self._ranges(lists)):
                name = key if number == 0 else (key[0], (key[1], number))
                parts[name] = ([tensors[first:last] for tensors in lists], indices[first:last])
        return parts

    def _ranges(self, lists: List[List[Any]]) -> Iterator[Tuple[int, int]]:
        weights = lists[0]
        first, size = 0, 0
        if all(self._is_plain(tensor, weights[0]) for tensors in lists for tensor in tensors):
            for number, weight in enumerate(weights):
                weight_size = weight.numel() * weight.element_size()
                if size > 0 and size + weight_size > _PART_BYTES:
                    yield first, number
                    first, size = number, 0
                size += weight_size
        yield first, len(weights)

    def _is_plain(self, tensor: Any, weight: Any) -> bool:
        """Or a number of steps."""
        if type(tensor) not in (self._torch.Tensor, self._torch.nn.Parameter) or not tensor.is_contiguous():
            return False
        return tensor.numel() == 1 or (tensor.is_cuda and tensor.dtype == weight.dtype and tensor.device == weight.device)
