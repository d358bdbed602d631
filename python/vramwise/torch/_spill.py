"""_spill.py - what the allocator is told about a program's tensors, where live data may go to host
memory.

Which blocks leave the GPU decides whether a step takes two percent longer or ten times as long. Two
kinds are known without asking anybody: an optimizer's state is touched once a step, and the weights
it works on all the time. So the state is advised as cold after the step that made it, and the
weights as hot as soon as an optimizer gets them: the first step may be the first that does not fit,
and then nothing else is known yet.

It is done for new tensors only, as far as their number tells, and once in a while for all of them: a
state that was loaded has other tensors. And after each step of the optimizer that counts the
allocator is told so, which is when memory may come back.
"""
from __future__ import annotations

import ctypes
import functools
import weakref
from typing import Any, Callable, Iterable, Iterator, List

from .. import _steps
from .._library import VramwiseError
from ._say import say
from ._state import State

_COLD, _HOT = 1, 2  # vw_advice
STEPS_BETWEEN_LOOKS = 64  # at tensors that may have been replaced


def _addresses(values: Iterable[Any]) -> Iterator[int]:
    """Of the memory of those that are tensors on a GPU; a sharded one's own part."""
    for value in values:
        tensor = getattr(value, "_local_tensor", value)
        if getattr(getattr(tensor, "device", None), "type", None) != "cuda":
            continue
        try:
            address = tensor.untyped_storage().data_ptr()
        except (RuntimeError, NotImplementedError):
            continue  # a tensor without memory of its own
        if address:
            yield address


def _advise(values: Iterable[Any], advice: int) -> int:
    """The bytes of the blocks that were found."""
    addresses: List[int] = list(_addresses(values))
    if State.adapter is None or not addresses:
        return 0
    array = (ctypes.c_ulonglong * len(addresses))(*addresses)
    return int(State.adapter.vramwise_torch_advise(array, len(addresses), advice))


def _tensors_in(state: Any) -> Iterator[Any]:
    """Of an optimizer's state for one weight: a dictionary, as a rule of tensors, or of lists of them."""
    if isinstance(state, dict):
        for value in state.values():
            yield from _tensors_in(value)
    elif isinstance(state, (list, tuple)):
        for value in state:
            yield from _tensors_in(value)
    else:
        yield state


def _weights(optimizer: Any) -> Iterator[Any]:
    for group in optimizer.param_groups:
        yield from group["params"]


def _advise_state(optimizer: Any) -> int:
    return _advise((tensor for state in list(optimizer.state.values())
                    for tensor in _tensors_in(state)), _COLD)


def spill(optimizer: Any) -> int:
    """Says that an optimizer's state is what shall leave the GPU first, where there is not enough
    room and install(spill=...) lets live data leave. It is done by itself after a step of any
    optimizer of torch.optim; this is for others, which have a `state` like theirs, and for states
    that were loaded. Returns the bytes that were found. VramwiseError: it is not our allocator that
    serves, or nothing may be spilled."""
    if State.adapter is None or State.spill_bytes == 0:
        raise VramwiseError("nothing is spilled here: vramwise.torch.install(\"vramwise\", spill=...) "
                            "was not called, or not in this process")
    return _advise_state(optimizer)


class Advisor:
    """One for the process."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._is_at_work = True
        self._first = _steps.FirstToStep()
        # Of each optimizer: how many weights had a state, and the steps since they were looked at.
        self._looks: "weakref.WeakKeyDictionary[Any, List[int]]" = weakref.WeakKeyDictionary()

    def begin(self, torch: Any) -> None:
        """From here on."""
        if not _steps.call_after_steps(torch, lambda optimizer: self._safely(self._after, optimizer)):
            self._end(f"PyTorch {torch.__version__} does not tell of steps")
            return
        kind = torch.optim.Optimizer
        add = kind.add_param_group

        @functools.wraps(add)
        def add_param_group(optimizer: Any, group: Any) -> Any:
            result = add(optimizer, group)
            self._safely(lambda it: _advise(it.param_groups[-1]["params"], _HOT), optimizer)
            return result
        kind.add_param_group = add_param_group

    def _end(self, reason: str) -> None:
        self._is_at_work = False
        say(f"what was spilled may stay in host memory until it is freed: {reason}", quiet=self._quiet)

    def _safely(self, work: Callable[[Any], Any], optimizer: Any) -> None:
        """The program must not fail of it."""
        if not self._is_at_work:
            return
        try:
            work(optimizer)
        except Exception as error:
            self._end(f"{type(error).__name__}: {error}")

    def _after(self, optimizer: Any) -> None:
        look = self._looks.setdefault(optimizer, [0, 0])
        look[1] += 1
        count = len(optimizer.state)
        if count != look[0] or look[1] >= STEPS_BETWEEN_LOOKS:
            look[:] = [count, 0]
            _advise(_weights(optimizer), _HOT)
            _advise_state(optimizer)
        if self._first.is_it(optimizer):
            self._mark_step()

    def _mark_step(self) -> None:
        message = ctypes.create_string_buffer(512)
        assert State.adapter is not None
        if State.adapter.vramwise_torch_mark_step(message, len(message)) != 0:
            raise VramwiseError(message.value.decode("utf-8", "replace"))
