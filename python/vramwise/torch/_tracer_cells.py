"""_tracer_cells.py - nn.LSTM, nn.GRU and nn.RNN as cuDNN computes them, for programs that are traced.

Without a GPU PyTorch takes a recurrent layer apart, step by step. cuDNN computes all steps at once: it
makes the result, the last states, and a reserve, in which it keeps what the derivative needs. The reserve
is by these rules, which were read off recordings; what else cuDNN takes is hidden (src/plan/hidden.h).
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple

_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
_KEPT = {"lstm": 5, "gru": 6, "rnn_tanh": 1, "rnn_relu": 1}  # states of a layer and step, in the reserve
_RESERVE_HEAD = 256
_BITS = 8  # of a byte: dropout keeps one for each number
_STATE_OF_THREAD = 24  # bytes of dropout's state


@dataclass(frozen=True)
class _Shape:
    kind: str
    rows: int  # of all steps
    batch: int
    inputs: int
    width: int
    out: int  # width, unless it is projected
    layers: int
    directions: int
    dropout: float
    is_training: bool

    def reserve_bytes(self, element: int) -> int:
        states = self.layers * _KEPT[self.kind] + self.layers - 1
        numbers = self.rows * self.width * self.directions
        masks = numbers // _BITS * (self.layers - 1) if self.dropout > 0 else 0
        return states * numbers * element + masks + _RESERVE_HEAD

    def hidden(self, element: int) -> Tuple[int, ...]:
        """As src/plan/hidden.h takes them."""
        return (_GATES[self.kind], int(self.is_training), int(self.dropout > 0), element, self.rows, self.batch, self.inputs,
                self.width, self.layers, self.directions)


def _function(tracer: Any) -> Any:
    torch: Any = tracer.torch

    def temporary(shape: _Shape, element: int) -> None:
        tracer.hide("recurrent", shape.hidden(element))

    class Cells(torch.autograd.Function):  # type: ignore[name-defined,misc]
        """input, as steps of rows; hx and cx; all weights."""

        @staticmethod
        def forward(ctx: Any, shape: _Shape, is_batch_first: bool, steps: Any, hx: Any, cx: Any,
                    *weights: Any) -> Tuple[Any, ...]:
            packed = steps.transpose(0, 1).contiguous() if is_batch_first else steps.contiguous()
            made = packed.new_empty((*packed.shape[:-1], shape.out * shape.directions))
            hy, cy = torch.empty_like(hx), torch.empty_like(cx) if cx is not None else None
            reserve = None
            if shape.is_training:
                reserve = torch.empty(shape.reserve_bytes(packed.element_size()), dtype=torch.uint8,
                                      device=packed.device)
            temporary(shape, packed.element_size())
            ctx.shape, ctx.is_batch_first, ctx.has_cells = shape, is_batch_first, cx is not None
            if shape.is_training:
                ctx.save_for_backward(steps, hx, cx, made, reserve, *weights)
            if is_batch_first:
                made = made.transpose(0, 1)
            return (made, hy, cy) if cx is not None else (made, hy)

        @staticmethod
        def backward(ctx: Any, grad: Any, *states: Any) -> Tuple[Any, ...]:
            steps, hx, cx, _, _, *weights = ctx.saved_tensors
            shape, element = ctx.shape, steps.element_size()

            def in_order(tensor: Any) -> Any:
                return tensor.transpose(0, 1).contiguous() if ctx.is_batch_first else tensor.contiguous()

            grad = in_order(grad)
            packed = in_order(steps)
            found = torch.empty_like(packed)
            grad_hx = torch.empty_like(hx)
            grad_cx = torch.empty_like(cx) if ctx.has_cells else None
            temporary(shape, element)
            del grad, packed
            packed = in_order(steps)
            flat = packed.new_empty(sum(w.numel() for w in weights))
            temporary(shape, element)
            parts = flat.split([w.numel() for w in weights])
            grads = [part.view(w.shape) for part, w in zip(parts, weights)]
            del parts, flat, packed
            if ctx.is_batch_first:
                found = found.transpose(0, 1)
            return (None, None, found, grad_hx, grad_cx, *grads)

    return Cells


class _Rnn:
    """The functions of one tracer."""

    def __init__(self, tracer: Any) -> None:
        self.tracer, self.torch = tracer, tracer.torch
        self.cells = _function(tracer)
        self.dropout_state: Optional[Any] = None

    def is_for_cudnn(self, steps: Any) -> bool:
        torch = self.torch
        kinds = (torch.float16, torch.float32, torch.float64)
        return isinstance(steps, self.tracer.FakeTensor) and steps.device.type == "cuda" and \
            steps.dtype in kinds and steps.numel() > 0 and torch.backends.cudnn.enabled

    def lowered(self, tensors: List[Any]) -> List[Any]:
        """As autocast has it: always 16 bits of the kind cuDNN computes with."""
        if not self.torch.is_autocast_enabled("cuda"):
            return tensors
        return [t.to(self.torch.float16) if t is not None else None for t in tensors]

    def keep_state(self, dropout: float, is_training: bool, like: Any) -> None:
        """Dropout's generators: made once for a process."""
        if dropout > 0 and is_training and self.dropout_state is None:
            threads = self.tracer.card.processors * 2048
            with self.torch.no_grad():
                self.dropout_state = self.torch.empty(threads * _STATE_OF_THREAD,
                                                      dtype=self.torch.uint8, device=like.device)

    def run(self, kind: str, steps: Any, batch_sizes: Optional[Any], states: Any, weights: Any,
            has_biases: bool, layers: int, dropout: float, is_training: bool, bidirectional: bool,
            is_batch_first: bool = False) -> Tuple[Any, ...]:
        has_cells = kind == "lstm"
        hx, cx = states if has_cells else (states, None)
        self.keep_state(dropout, is_training, steps)
        steps, hx, cx, *weights = self.lowered([steps, hx, cx, *weights])
        batch = hx.shape[1]
        shape = _Shape(kind, steps.numel() // steps.shape[-1], batch, steps.shape[-1],
                       weights[0].shape[0] // _GATES[kind], hx.shape[2] if has_cells else hx.shape[-1],
                       layers, 2 if bidirectional else 1, dropout if is_training else 0.0, is_training)
        with self.torch.autocast("cuda", enabled=False):
            return self.cells.apply(shape, is_batch_first, steps, hx, cx, *weights)

    def function(self, kind: str) -> Callable[..., Any]:
        def call(func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
            if kwargs or not self.is_for_cudnn(args[0]):
                return func(*args, **kwargs)
            if len(args) == 9 and isinstance(args[3], bool):  # steps one after the other
                steps, states, weights, *rest = args
                return self.run(kind, steps, None, states, weights, *rest)
            steps, batch_sizes, states, weights, *rest = args  # packed: no padding
            return self.run(kind, steps, batch_sizes, states, weights, *rest)
        return call


def functions(tracer: Any) -> Dict[str, Callable[..., Any]]:
    """By their name in torch: what stands in for them."""
    rnn = _Rnn(tracer)
    return {kind: rnn.function(kind) for kind in _GATES}
