"""_fit.py - a training step that splits its batch where memory runs out.

The gradients of a mean over a batch are the weighted sum of those over its parts. So a batch that does
not fit can be taken in micro-batches, each scaled by its share, and what accumulates in .grad is what
the whole batch would have given: up to rounding, and up to what looks at a batch as a whole (batch
norm, losses that compare samples with each other) or draws random numbers (dropout).

Running out of memory in the middle leaves gradients half accumulated, and which half cannot be told.
So each attempt begins from the gradients the call found, which for that purpose are noted: None is
put back as None; others are copied to host memory beforehand and copied back in place. Which
parameters take part is read from the loss's graph before backward() runs.

The error itself holds the memory: its traceback has the frames of the step with all their tensors.
Those frames are cleared before the next attempt, and an error that leaves here is a new one.
"""
from __future__ import annotations

import contextlib
import gc
import logging
import re
import sys
import threading
import traceback
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

from . import _split

_log = logging.getLogger("vramwise.torch")

_OTHER_ERRORS = re.compile(r"CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED"
                           r"|CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"
                           r"|CUDA error: out of memory|CUDA out of memory\. Tried")
_TRIED = re.compile(r"Tried to allocate ([0-9.]+ \w+)")
_HIDING_NODES = ("CheckpointFunctionBackward",)
_MOST_REMEMBERED = 1024
_DEFAULT_MARGIN = 0.05
_table_lock = threading.Lock()  # of every Fitter's table: one of its own could not be copied with it

Backward = Callable[[Any], None]
Split = Callable[[Any, int, int], Any]


@dataclass(frozen=True)
class Fitted:
    """What became of a batch. `loss` is that of the whole batch, detached, on its device."""
    loss: Any
    size: int
    micro_batch: int    # the samples of the largest part
    micro_batches: int  # how many parts
    retries: int        # attempts that ran out of memory


class _OutOfMemory(Exception):
    """An attempt ran out of memory; of the error only its type and text are left."""

    def __init__(self, kind: type, text: str) -> None:
        super().__init__(text)
        self.kind, self.text = kind, text


def is_out_of_memory(torch: Any, error: BaseException) -> bool:
    """Whether an error says that the GPU's memory ran out."""
    kinds = tuple(kind for kind in (getattr(torch, "OutOfMemoryError", None),
                                    getattr(torch.cuda, "OutOfMemoryError", None)) if kind)
    return isinstance(error, kinds) or \
        (isinstance(error, RuntimeError) and _OTHER_ERRORS.search(str(error)) is not None)


def _let_go(error: BaseException, handled: Optional[BaseException]) -> None:
    """Takes from an error, and from those it came from, what keeps tensors alive. What the program was
    handling when it called is its own."""
    seen: Dict[int, BaseException] = {}
    waiting: List[Optional[BaseException]] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or one is handled or id(one) in seen:
            continue
        seen[id(one)] = one
        waiting += [one.__cause__, one.__context__]
        if one.__traceback__ is not None:
            traceback.clear_frames(one.__traceback__)
    for one in seen.values():
        one.__traceback__ = one.__cause__ = one.__context__ = None


def _leaves_of(loss: Any) -> List[Any]:
    """The tensors whose .grad backward() will add to, by the graph."""
    leaves: Dict[int, Any] = {}
    if loss.grad_fn is None:
        return [loss] if loss.requires_grad else []
    seen, waiting = {loss.grad_fn}, [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if type(node).__name__ in _HIDING_NODES:
            raise ValueError("a step with reentrant checkpointing hides its parameters from the "
                             "graph: give parameters=model.parameters(), or use_reentrant=False")
        if type(node).__name__ == "AccumulateGrad":
            leaves[id(node.variable)] = node.variable
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return list(leaves.values())


class _Gradients:
    """The gradients as the call found them."""

    def __init__(self) -> None:
        self._found: Dict[int, Tuple[Any, Any, Any]] = {}  # tensor, its .grad, a copy on the host

    def note(self, tensors: Iterable[Any]) -> None:
        """Before these are touched for the first time."""
        for tensor in tensors:
            if id(tensor) not in self._found:
                gradient = tensor.grad
                copy = None if gradient is None else gradient.detach().to("cpu", copy=True)
                self._found[id(tensor)] = (tensor, gradient, copy)

    def put_back(self, torch: Any) -> None:
        """As they were; asks for no memory on the device."""
        with torch.no_grad():
            for tensor, gradient, copy in self._found.values():
                if gradient is not None:
                    gradient.copy_(copy)
                tensor.grad = gradient

    def devices(self) -> List[Any]:
        """The GPUs they are on."""
        return list(dict.fromkeys(tensor.device for tensor, _, _ in self._found.values()
                                  if tensor.device.type == "cuda"))


def _name_of(step: Callable[..., Any]) -> Any:
    """What stands for a step in the table: a function made anew for every batch is the same one, and
    nothing it holds is kept."""
    function = getattr(step, "__func__", step)
    owner = getattr(step, "__self__", None)
    code = getattr(function, "__code__", None)
    if code is not None:
        return code if owner is None else (code, id(owner))
    return type(step).__qualname__, id(step)


def _empty_caches(torch: Any) -> None:
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


class _Room:
    """How near one attempt came to the end of each GPU it used."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._before: Dict[int, int] = {}
        if torch.cuda.is_initialized():
            with contextlib.suppress(RuntimeError):  # the plain door counts nothing
                for device in range(torch.cuda.device_count()):
                    torch.cuda.reset_peak_memory_stats(device)
                    self._before[device] = torch.cuda.memory_allocated(device)

    def largest_fit(self, devices: List[Any], micro_batch: int, margin: float) -> Optional[int]:
        """How many samples would have left the margin, on the GPU that is nearest its end; None:
        these did, or it cannot be told."""
        fits = micro_batch
        for device in devices:
            index = device.index if device.index is not None else 0
            if index not in self._before:
                continue
            free, total = self._torch.cuda.mem_get_info(index)
            allowed = free + self._torch.cuda.memory_reserved(index)
            fraction = getattr(self._torch.cuda, "get_per_process_memory_fraction", None)
            if fraction is not None:
                allowed = min(allowed, total * fraction(index))
            room = (1 - margin) * allowed
            peak = self._torch.cuda.max_memory_allocated(index)
            if peak <= room:
                continue
            before = self._before[index]
            each = max((peak - before) / micro_batch, 1.0)
            fits = min(fits, max(int((room - before) / each), 1))
        return fits if fits < micro_batch else None


@dataclass
class _Known:
    """What is known of one step and shape."""
    fits: int             # samples at a time
    is_limit: bool        # more did not fit, or left too little
    measured: int = 0     # successes so far, until it is settled

    @property
    def is_settled(self) -> bool:
        """The first steps are not like the rest: an optimizer makes its state in the first."""
        return self.measured >= 3


class Fitter:
    """Remembers, for each step and shape of a sample, how many samples fit. fit_batch() has one for
    each margin. A step is known by its code, so that a lambda in a loop is one step: a program that
    trains several models with the same lines makes a Fitter for each.

    `margin` is the part of the memory this process can have that must stay free of live data: a size
    that works but leaves less is lowered for the next time.
    """

    def __init__(self, *, margin: float = _DEFAULT_MARGIN) -> None:
        if not 0 <= margin < 1:
            raise ValueError(f"margin is a part, from 0 to less than 1, not {margin!r}")
        self.margin = margin
        self._known: "OrderedDict[Tuple[Any, Tuple[Any, ...]], _Known]" = OrderedDict()  # by step and shape

    def forget(self) -> None:
        """Begins anew: the next batches are tried whole."""
        with _table_lock:
            self._known.clear()

    def _first_try(self, step: Any, shape: Tuple[Any, ...], size: int) -> int:
        """What is known; for a shape that is new, no more than fits of a smaller one."""
        known = self._known.get((step, shape))
        if known is not None:
            return min(known.fits, size) if known.is_limit else size
        elements = _split.elements_of(shape)
        with _table_lock:
            of_step = [(other_shape, entry) for (other, other_shape), entry in self._known.items() if other == step]
        return min([size] + [entry.fits for other_shape, entry in of_step
                             if entry.is_limit and _split.elements_of(other_shape) <= elements])

    def _remember(self, step: Any, shape: Tuple[Any, ...], known: _Known) -> None:
        with _table_lock:
            self._known[(step, shape)] = known
            self._known.move_to_end((step, shape))
            while len(self._known) > _MOST_REMEMBERED:
                self._known.popitem(last=False)

    def fit_batch(self, step: Callable[[Any], Any], batch: Any, *,
                  parameters: Optional[Iterable[Any]] = None,
                  backward: Optional[Backward] = None,
                  weight: Optional[Callable[[Any], float]] = None,
                  size: Optional[int] = None, split: Optional[Split] = None) -> Fitted:
        """As vramwise.torch.fit_batch(), with this table and margin."""
        import torch
        if (size is None) != (split is None):
            raise ValueError("size= and split= come together")
        if size is None:
            size = _split.count_samples(batch)
        if size < 1:
            raise ValueError("the batch is empty")
        name = _name_of(step)
        shape = _split.shape_of(batch) if split is None else ()
        micro_batch = self._first_try(name, shape, size)
        known = self._known.get((name, shape))
        is_limit = micro_batch < size or (known is not None and known.is_limit)
        gradients = _Gradients()
        if parameters is not None:
            parameters = list(parameters)
            gradients.note(parameters)
        attempt = _Attempt(torch, step, batch, size, split, gradients, parameters is None,
                           backward or _plain_backward, weight)
        retries = 0
        while True:
            parts = _split.ranges(size, micro_batch)
            micro_batch = max(stop - start for start, stop in parts)
            is_measured = known is None or retries > 0 or micro_batch > known.fits or \
                (micro_batch == known.fits and not known.is_settled)
            room = _Room(torch) if is_measured else None
            failure = None
            try:
                loss = attempt.run(parts)
            except _OutOfMemory as error:
                failure = (error.kind, error.text)
            if failure is None:
                break
            gradients.put_back(torch)
            _empty_caches(torch)
            retries += 1
            if micro_batch == 1:
                del attempt, batch, gradients
                raise _renewed(torch, *failure, size) from None
            tried = _TRIED.search(failure[1])
            _log.warning("out of memory with %d of %d samples at a time%s: trying %d", micro_batch,
                         size, f" (tried to allocate {tried.group(1)})" if tried else "",
                         (micro_batch + 1) // 2)
            micro_batch = (micro_batch + 1) // 2
            is_limit = True
        if room is not None:
            fits = room.largest_fit(gradients.devices(), micro_batch, self.margin)
            is_same = known is not None and retries == 0 and known.fits == micro_batch
            measured = known.measured + 1 if known is not None and is_same else 1
            self._remember(name, shape, self._judged(size, micro_batch, fits, is_limit, measured))
        return Fitted(loss, size, micro_batch, len(parts), retries)

    def _judged(self, size: int, micro_batch: int, fits: Optional[int], is_limit: bool,
                measured: int) -> _Known:
        """What to keep of a size that worked: itself, or less where it left too little."""
        percent = 100 * self.margin
        if fits is None:
            if is_limit and measured == 1:
                _log.info("%d samples at a time fit, and leave %.0f %% free", micro_batch, percent)
            return _Known(micro_batch, is_limit, measured)
        if micro_batch == 1:
            if measured == 1:
                _log.warning("1 sample at a time fits, but leaves less than %.0f %% free", percent)
            return _Known(1, True, measured)
        fits = max(stop - start for start, stop in _split.ranges(size, fits))
        _log.warning("%d samples at a time fit, but leave less than %.0f %% free: from now on %d",
                     micro_batch, percent, fits)
        return _Known(fits, True)


def _plain_backward(loss: Any) -> None:
    loss.backward()


def _renewed(torch: Any, kind: type, text: str, size: int) -> BaseException:
    """The error that leaves: of the same type, with the same text, holding nothing."""
    text += f"\n(vramwise: even one of the batch's {size} samples at a time does not fit)"
    try:
        return kind(text)
    except TypeError:
        return torch.cuda.OutOfMemoryError(text)


class _Attempt:
    """Runs the parts of one batch, one after the other."""

    def __init__(self, torch: Any, step: Callable[[Any], Any], batch: Any, size: int,
                 split: Optional[Split], gradients: _Gradients, is_searching: bool,
                 backward: Backward, weight: Optional[Callable[[Any], float]]) -> None:
        self._torch, self._step, self._batch, self._size = torch, step, batch, size
        self._split, self._gradients, self._is_searching = split, gradients, is_searching
        self._backward, self._weight = backward, weight
        self._whole_weight = float(size) if weight is None else float(weight(batch))
        if not self._whole_weight > 0:
            raise ValueError(f"the batch's weight is {self._whole_weight}, not more than 0")

    def _part(self, start: int, stop: int) -> Any:
        if (start, stop) == (0, self._size):
            return self._batch
        if self._split is not None:
            return self._split(self._batch, start, stop)
        return _split.part_of(self._batch, start, stop, self._size)

    def _run_part(self, start: int, stop: int) -> Any:
        """One micro-batch, forward and backward; its part of the loss."""
        part = self._part(start, stop)
        share = (stop - start if self._weight is None else float(self._weight(part))) \
            / self._whole_weight
        loss = self._step(part)
        if not (_split.is_tensor(loss) and loss.numel() == 1):
            raise TypeError(f"a step returns its loss, a tensor with one number: this one returned "
                            f"{type(loss).__name__}")
        if share != 1.0:
            loss = loss * share
        if self._is_searching:
            self._gradients.note(_leaves_of(loss))
        self._backward(loss)
        return loss.detach()

    def run(self, parts: List[Tuple[int, int]]) -> Any:
        """All of them; the loss of the whole. _OutOfMemory: nothing of the error is left."""
        total, failure, handled = None, None, sys.exc_info()[1]
        for start, stop in parts:
            try:
                loss = self._run_part(start, stop)
            except RuntimeError as error:
                if not is_out_of_memory(self._torch, error):
                    raise
                failure = (type(error), str(error))
                _let_go(error, handled)
            if failure is not None:
                raise _OutOfMemory(*failure)
            total = loss if total is None else total + loss
        return total


_fitters: Dict[float, Fitter] = {}  # by margin


def fit_batch(step: Callable[[Any], Any], batch: Any, *, margin: Optional[float] = None,
              parameters: Optional[Iterable[Any]] = None, backward: Optional[Backward] = None,
              weight: Optional[Callable[[Any], float]] = None, size: Optional[int] = None,
              split: Optional[Split] = None) -> Fitted:
    """Forward and backward of one batch, in as few parts as memory allows.

        optimizer.zero_grad()
        fitted = vramwise.torch.fit_batch(lambda part: loss_of(model, part), batch)
        optimizer.step()

    `step(part)` returns the loss of a part, a mean over its samples, and does not call backward().
    On running out of memory the part is halved and the batch begun again, down to one sample; then
    the error is raised anew, with the gradients as they were and no memory held by it. What worked
    is remembered for this step and shape of a sample.

    `margin`      the part of memory to leave free, 0.05; a size that works but leaves less is lowered
                  for the next time. While sizes are tried, PyTorch's peak statistics are reset.
    `parameters`  whose gradients the step adds to; None: found in the loss's graph, which costs a
                  walk over it for each part, and cannot see through reentrant checkpointing
    `backward`    called with the scaled loss instead of its backward(): for a GradScaler,
                  lambda loss: scaler.scale(loss).backward()
    `weight`      what a part counts, where that is not its number of samples: for a mean over
                  tokens, their number; weight(batch) is the sum of its parts
    `size`, `split`  for batches that are no tuple, list or dict of tensors: the number of samples,
                  and split(batch, start, stop)

    Gradients that are there before the call are added to; so that they can be put back they are
    copied to host memory, which zero_grad() (to None, as is its default) saves. With several
    processes (DDP, FSDP) one that splits alone waits for the others for ever: give all of them the
    same size, by a loader, or keep the step local with no_sync(). What batch norm has counted and
    dropout has drawn in an attempt that failed is not taken back.
    """
    chosen = _DEFAULT_MARGIN if margin is None else margin
    fitter = _fitters.get(chosen)
    if fitter is None:
        fitter = _fitters[chosen] = Fitter(margin=chosen)
    return fitter.fit_batch(step, batch, parameters=parameters, backward=backward, weight=weight,
                            size=size, split=split)
