"""_plan.py - what a training step will take, from the program's own code, before it runs.

The step runs on tensors without data (_tracer.py), at one size twice and at others once: the first step
makes the optimizer's state, the second finds it, and the others show what grows with the batch and with
the length. What comes out is planned by the library as any recording is.
"""
from __future__ import annotations

import contextlib
import functools
import inspect
import os
import tempfile
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from .. import _plan as _scaled
from .._library import Size
from .._names import renamed
from .._results import ScaledPlan
from . import _tracer
from . import _tracer_rules as rules
from ._install import check_gpu

DEVICE = "cuda"
_CASTS = {"amp-bf16": "bfloat16", "amp-fp16": "float16", "bf16": "bfloat16", "fp16": "float16"}
_PRECISIONS = ("fp32", *_CASTS)

Sizes = List[Tuple[int, int]]  # samples, and their length; 0: they have none


# ---- the usual step --------------------------------------------------------------------------------

def _parameters_of(function: Callable[..., Any]) -> int:
    """How many sizes a factory takes: none, the batch, or the batch and the length."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
               for p in found)


def _moved(torch: Any, data: Any) -> Any:
    return torch.utils._pytree.tree_map(
        lambda item: item.to(DEVICE) if isinstance(item, torch.Tensor) else item, data)


def _called(model: Any, data: Any) -> Any:
    if isinstance(data, dict) or hasattr(data, "keys"):
        return model(**data)
    return model(*data) if isinstance(data, (tuple, list)) else model(data)


def _loss_of(torch: Any, loss: Optional[Callable[..., Any]], result: Any, data: Any) -> Any:
    if loss is not None:
        return loss(result, data)
    found = getattr(result, "loss", None)
    if found is None and isinstance(result, dict):
        found = result.get("loss")
    if found is None and isinstance(result, torch.Tensor) and result.numel() == 1:
        found = result
    if found is None:
        raise ValueError("the model gives back no loss: pass loss=, a function of its result and "
                         "the batch")
    return found


class _Usual:
    """model, batch and optimizer as factories; called with a size, it does a step of that size."""

    def __init__(self, torch: Any, model: Callable[..., Any], batch: Callable[..., Any],
                 optimizer: Optional[Callable[..., Any]], loss: Optional[Callable[..., Any]], precision: str) -> None:
        self.torch, self.batch, self.loss = torch, batch, loss
        self.cast = getattr(torch, _CASTS[precision]) if precision in _CASTS else None
        self.is_autocast = precision.startswith("amp")
        made = model()
        self.model = made.to(DEVICE, self.cast) if self.cast and not self.is_autocast \
            else made.to(DEVICE)
        self.optimizer = None
        if optimizer is not None:
            self.model.train()
            self.optimizer = optimizer([p for p in self.model.parameters() if p.requires_grad])

    def __call__(self, *size: int) -> None:
        torch = self.torch
        data = _moved(torch, self.batch(*size))
        with torch.autocast(DEVICE, dtype=self.cast, enabled=self.is_autocast):
            if self.optimizer is None:
                with torch.inference_mode():
                    _called(self.model, data)
                return
            loss = _loss_of(torch, self.loss, _called(self.model, data), data)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


# ---- a step of the user's own ----------------------------------------------------------------------

def _referred(step: Callable[..., Any]) -> Iterator[Any]:
    """What a function refers to: arguments bound to it, itself, closures, globals."""
    while isinstance(step, functools.partial):
        yield from (*step.args, *step.keywords.values())
        step = step.func
    if hasattr(step, "__self__"):
        yield step.__self__
        yield from getattr(step.__self__, "__dict__", {}).values()
        step = getattr(step, "__func__", step)
    code = getattr(step, "__code__", None)
    if code is None:
        yield from getattr(step, "__dict__", {}).values()
        return
    for cell in step.__closure__ or ():
        with contextlib.suppress(ValueError):  # not filled yet
            yield cell.cell_contents
    for name in code.co_names:
        if name in step.__globals__:
            yield step.__globals__[name]


def _flat(items: Any, depth: int = 2) -> Iterator[Any]:
    for item in items:
        yield item
        if depth > 0 and isinstance(item, (list, tuple)):
            yield from _flat(item, depth - 1)
        elif depth > 0 and isinstance(item, dict):
            yield from _flat(item.values(), depth - 1)


@contextlib.contextmanager
def _on_the_card(torch: Any, step: Callable[..., Any]) -> Iterator[None]:
    """The models and optimizers that a step refers to, with fake parameters on the GPU; put back
    afterwards as they were."""
    found = list(_flat(_referred(step)))
    models = [item for item in found if isinstance(item, torch.nn.Module)]
    optimizers = [item for item in found if isinstance(item, torch.optim.Optimizer)]
    if not models:
        raise ValueError("the step refers to no torch.nn.Module that could be found: have it in a "
                         "variable that the function uses, or pass model=, batch= and optimizer=")
    fakes: Dict[int, Any] = {}
    undo: List[Callable[[], None]] = []

    def fake(tensor: Any) -> Any:
        if id(tensor) not in fakes:
            made = tensor.detach().to(DEVICE)
            fakes[id(tensor)] = torch.nn.Parameter(made, tensor.requires_grad) \
                if isinstance(tensor, torch.nn.Parameter) else made
        return fakes[id(tensor)]

    def replace(table: Dict[Any, Any], key: Any, value: Any) -> None:
        undo.append(functools.partial(table.__setitem__, key, table[key]))
        table[key] = value

    for module in {id(m): m for model in models for m in model.modules()}.values():
        for table in (module._parameters, module._buffers):
            for name, tensor in list(table.items()):
                if tensor is not None:
                    replace(table, name, fake(tensor))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            replace(group, "params", [fake(p) for p in group["params"]])
        state = optimizer.state
        undo.append(functools.partial(setattr, optimizer, "state", state))
        optimizer.state = type(state)(state.default_factory) if hasattr(state, "default_factory") \
            else {}
        for parameter, values in state.items():
            optimizer.state[fake(parameter)] = {
                key: fake(value) if isinstance(value, torch.Tensor) and value.dim() > 0 else value
                for key, value in values.items()}
    try:
        yield
    finally:
        for put_back in reversed(undo):
            put_back()


# ---- tracing and planning --------------------------------------------------------------------------

def _sizes(batch_size: int, seq: Optional[int], takes: int) -> Sizes:
    """The size that is asked for twice, then others that show what grows."""
    length = seq or 0
    sizes = [(batch_size, length)] * 2
    if takes >= 1:
        sizes.append((2 * batch_size, length))
    if takes >= 2 and length >= 2:
        sizes += [(batch_size, length // 2), (2 * batch_size, length // 2)]
    return sizes


def _run(requests: _tracer.Requests, step: Callable[..., Any], sizes: Sizes, takes: int) -> None:
    for size in sizes:
        requests.begin_step()
        step(*size[:takes])
        requests.end_step()


def _measured(torch: Any, usual: Callable[[], _Usual], size: Sequence[int]) -> int:
    """The peak of the second of two real steps."""
    check_gpu(torch)
    step = usual()
    for _ in range(2):
        torch.cuda.reset_peak_memory_stats()
        step(*size)
        torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


@renamed(sequence="seq")
def plan(step: Optional[Callable[..., Any]] = None, *, model: Optional[Callable[..., Any]] = None,
         batch: Optional[Callable[..., Any]] = None, optimizer: Optional[Callable[..., Any]] = None,
         loss: Optional[Callable[..., Any]] = None, precision: str = "fp32", batch_size: int = 1,
         seq: Optional[int] = None, card: Optional[Size] = None, share: float = 1.0,
         trace: Optional[str] = None, measure: bool = False) -> ScaledPlan:
    """Plans a step by running it on tensors without data: no GPU, no weights, any size.

    Either `step`, a function that does one step with models and optimizers it refers to; or factories:
    `model()`, `batch()`, `batch(batch_size)` or `batch(batch_size, seq)`, and `optimizer(parameters)`,
    without which nothing is trained. `loss(result, batch)` where the model's result has no `.loss`.
    `precision`: fp32, amp-bf16, amp-fp16, bf16, fp16. `share` is the part of a mask that is taken to be
    set where an operator depends on data (1 is the worst case). `trace` keeps the list of requests in
    that file, for `vramwise plan --traced`. `measure=True` runs two real steps as well, on this
    machine's GPU, and tells the plan's error.

    Gives back what `vramwise plan --traced` finds. Raises Untraceable where an operator cannot
    run without data; its text names the operator.
    """
    import torch
    if (step is None) == (model is None or batch is None):
        raise ValueError("plan() takes step=, or model= and batch=")
    if measure and step is not None:
        raise ValueError("measure=True needs model= and batch=: a step of your own can be run by you")
    if precision not in _PRECISIONS:
        raise ValueError(f"precision is one of {', '.join(_PRECISIONS)}, not {precision!r}")
    tracer = _tracer.Tracer(rules.card_of(card), rules.Policy(share))
    sized = batch if step is None else step
    takes = 0 if sized is None else _parameters_of(sized)
    sizes = _sizes(batch_size, seq, takes)
    usual = functools.partial(_Usual, torch, model, batch, optimizer, loss, precision)
    with tracer.tracing():
        if step is not None:
            with _on_the_card(torch, step):
                _run(tracer.requests, step, sizes, takes)
        else:
            _run(tracer.requests, usual(), sizes, takes)
    facts: Dict[str, Any] = {"torch": torch.__version__}
    if takes > 0:
        facts["sizes"] = [list(size) for size in sizes]
    with contextlib.ExitStack() as stack:
        path = trace
        if path is None:
            path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "trace.json")
        tracer.requests.write(path, **facts)
        result = _scaled.plan_traced(path, card=card)
    if measure:
        peak = _measured(torch, usual, sizes[0][:takes])
        result["measured"] = {"peak_bytes": peak,
                              "error": result["peak_allocated_bytes"] / peak - 1 if peak else None}
    return result
