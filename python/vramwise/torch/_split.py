"""_split.py - a batch in parts, and how its samples look.

A batch is a tensor, or a tuple, list, dict or other mapping of batches, in any depth. Tensors are cut
along their first dimension, which all must share; a part is a view and takes no memory. Numbers,
strings, None and tensors without a dimension go to every part as they are. A list of numbers or
strings is cut too if it has one for each sample. Anything else is refused rather than guessed at.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Iterator, List, Tuple

_WHOLE = (int, float, complex, bool, str, bytes, type(None))


def is_tensor(value: Any) -> bool:
    """Something with dimensions that can be sliced, whichever library's."""
    return hasattr(value, "shape") and hasattr(value, "dtype") and hasattr(value, "__getitem__")


def _is_plain_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) > 0 and \
        all(isinstance(item, _WHOLE) for item in value)


def _tensors(batch: Any) -> Iterator[Any]:
    """All tensors with at least one dimension."""
    if is_tensor(batch):
        if len(batch.shape) > 0:
            yield batch
    elif isinstance(batch, Mapping):
        for value in batch.values():
            yield from _tensors(value)
    elif isinstance(batch, (list, tuple)):
        for value in batch:
            yield from _tensors(value)


def count_samples(batch: Any) -> int:
    """The first dimension, which all tensors must share."""
    counts = sorted({int(tensor.shape[0]) for tensor in _tensors(batch)})
    if not counts:
        raise TypeError(f"a batch is a tensor, or a tuple, list or dict of tensors, not "
                        f"{type(batch).__name__}; for others give size= and split=")
    if len(counts) > 1:
        raise ValueError(f"the tensors of a batch share their first dimension; these have {counts}; "
                         "give size= and split=")
    return counts[0]


def shape_of(batch: Any) -> Tuple[Any, ...]:
    """What one sample looks like: batches with the same answer need the same memory for each."""
    return tuple((tuple(int(length) for length in tensor.shape[1:]), str(tensor.dtype))
                 for tensor in _tensors(batch))


def elements_of(shape: Tuple[Any, ...]) -> int:
    """The numbers in one sample: a measure of its size."""
    total = 0
    for lengths, _ in shape:
        elements = 1
        for length in lengths:
            elements *= length
        total += elements
    return total


def part_of(batch: Any, start: int, stop: int, size: int) -> Any:
    """Samples start to stop of the `size` that the batch has."""
    if is_tensor(batch):
        return batch[start:stop] if len(batch.shape) > 0 else batch
    if isinstance(batch, _WHOLE):
        return batch
    if isinstance(batch, Mapping):
        parts = {key: part_of(value, start, stop, size) for key, value in batch.items()}
        return parts if type(batch) is dict else type(batch)(parts)  # type: ignore[call-arg]
    if _is_plain_list(batch):
        if len(batch) != size:
            raise ValueError(f"a list of {len(batch)} numbers or strings in a batch of {size} "
                             "samples: give size= and split=")
        return batch[start:stop]
    if isinstance(batch, (list, tuple)):
        parts_list = [part_of(value, start, stop, size) for value in batch]
        if hasattr(batch, "_fields"):  # a named tuple
            return type(batch)(*parts_list)
        return type(batch)(parts_list)
    raise TypeError(f"a batch with {type(batch).__name__} in it cannot be split: give size= and "
                    "split=")


def ranges(size: int, most: int) -> List[Tuple[int, int]]:
    """As few parts as can be, none with more than `most` samples, and as equal as can be."""
    count = -(-size // most)
    bounds = [size * index // count for index in range(count + 1)]
    return list(zip(bounds, bounds[1:]))
