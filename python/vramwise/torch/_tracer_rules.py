"""_tracer_rules.py - what a tracer has to know of PyTorch: kernels, and answers.

    hidden_by()            operators whose kernels take memory that no dispatch mode sees
    Policy                 what a program gets that asks a tensor without data for its data
    replaced_functions()   functions that choose by device, which is chosen here by the card
"""
from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

Args = Tuple[Any, ...]  # of an operator
Keywords = Dict[str, Any]


@dataclass(frozen=True)
class Card:
    """The GPU that is planned for."""
    name: str = "NVIDIA H200"
    capability: Tuple[int, int] = (9, 0)
    total_bytes: int = 140 << 30
    processors: int = 132

    @property
    def has_flash(self) -> bool:
        return self.capability >= (8, 0)


def card_of(card: Any) -> Card:
    """The planner's card of that name; a size, or nothing: the one that most was measured on."""
    from .. import _library
    size, name = _library.card_read(card)
    if name is None:
        return Card(total_bytes=size) if size else Card()
    known = _library.analysis().vw_plan_card(name).contents
    return Card(name.decode(), divmod(known.compute_capability, 10), size)


def stated_card(text: Optional[str]) -> Card:
    """As the command line states it; "-" and 0 are not known."""
    usual = Card()
    if not text:
        return usual
    name, capability, total = text.split()
    return Card(usual.name if name == "-" else name,
                divmod(int(capability), 10) if int(capability) else usual.capability,
                int(total) or usual.total_bytes)


# ---- what kernels take beside their results --------------------------------------------------------

_PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "_addmm_activation", "addbmm", "_scaled_mm", "_grouped_mm",
             "linear", "linear_backward", "matmul"}


_REDUCTIONS = {"sum", "mean", "amax", "amin"}  # by one kernel


def _itemsize(tensor: Any) -> int:
    return tensor.element_size()


def _sum_of_rows(args: Args) -> Optional[Args]:
    """A sum over neighbouring dimensions that are not the last, as the gradients of biases are: (tables,
    rows of each, columns)"""
    x = args[0]
    dims = args[1] if len(args) > 1 else None
    if not dims or x.dim() == 0:
        return None
    dims = sorted(d % x.dim() for d in dims)
    first, end = dims[0], dims[-1] + 1
    if dims != list(range(first, end)) or end == x.dim():
        return None
    return ("sum", math.prod(x.shape[:first]), math.prod(x.shape[first:end]), math.prod(x.shape[end:]))


def _side(sizes: List[int]) -> int:
    """Of a window that is no square: the side of one with as many places."""
    if len(set(sizes)) == 1:
        return sizes[0]
    return max(1, round(math.prod(sizes) ** (1 / len(sizes))))


def _convolution(name: str, args: Args) -> Optional[Args]:
    """(element bytes, batch, channels, depth, height, width, filters, dimensions, kernel, stride, padding,
    dilation, output padding, is it transposed, groups, are channels last, and which gradients are
    wanted: image 1, weight 2)"""
    if name == "convolution":
        x, weight, _, stride, padding, dilation, transposed, extra, groups = args[:9]
        wanted = 0
    else:
        _, x, weight, _, stride, padding, dilation, transposed, extra, groups, mask = args[:11]
        wanted = int(mask[0]) + 2 * int(mask[1])
    dims = x.dim() - 2
    if dims not in (2, 3):
        return None  # of signals, nothing worth counting was seen
    depth, height, width = [0, *x.shape[2:]] if dims == 2 else x.shape[2:]
    filters = weight.shape[1] * groups if transposed else weight.shape[0]
    is_last = dims == 2 and x.stride(1) == 1 and x.shape[1] > 1
    return ("convolution", _itemsize(x), *x.shape[:2], depth, height, width, filters, dims,
            _side(list(weight.shape[2:])), _side(list(stride)), _side(list(padding)) if any(padding) else 0,
            _side(list(dilation)), max(extra), int(transposed), groups, int(is_last), wanted)


def _attention(name: str, args: Args) -> Optional[Args]:
    """(is it flash, element bytes, batch, heads, key heads, length, key length, width)"""
    query, key = args[1], args[2]
    return ("attention", int("flash" in name or "cudnn" in name), _itemsize(query), query.shape[0],
            query.shape[1], key.shape[1], query.shape[2], key.shape[2], query.shape[3])


def hidden_by(func: Any, args: Args, kwargs: Keywords, made: Any) -> Optional[Args]:
    """The kind and its sizes, as src/plan/hidden.h takes them; None: nothing is known."""
    name = func._overloadpacket.__name__
    first = next((a for a in args if hasattr(a, "device")), None)
    if first is None or first.device.type != "cuda":
        return None
    if name in _PRODUCTS:
        return ("matmul",)
    if name in _REDUCTIONS:
        return _sum_of_rows(args)
    if name == "embedding_dense_backward":
        return ("embedding", args[1].numel())
    if name in ("convolution", "convolution_backward"):
        return _convolution(name, args)
    if name in ("_scaled_dot_product_flash_attention_backward",
                "_scaled_dot_product_cudnn_attention_backward",
                "_scaled_dot_product_efficient_attention_backward"):
        return _attention(name, args)
    return None


# ---- data that is not there ------------------------------------------------------------------------

_FALSE = {"any", "isnan", "isinf", "logical_not"}
_COMPARED = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
             "gt": operator.gt, "ge": operator.ge}
_SAME = {"view", "detach", "_to_copy", "clone", "alias", "squeeze", "reshape"}


# Their composite forms are for devices without a kernel. CUDA has one, which makes the result only.
WITH_KERNEL = {"aten::mish_backward", "aten::silu_backward"}


def is_composite(torch: Any, func: Any) -> bool:
    return func.namespace != "prim" and func.name() not in WITH_KERNEL and \
        torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")


class Policy:
    """`share`: how many elements of a mask are taken to be set, from 0 to 1 (the worst case)."""

    def __init__(self, share: float = 1.0) -> None:
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"the share of a mask that is set is from 0 to 1, not {share}")
        self.share = share

    def answer(self, tracer: Any, func: Any, args: Args, kwargs: Keywords) -> Optional[Args]:
        """(what the operator gives back,); None: it needs no data."""
        rule = _ANSWERS.get(func._overloadpacket.__name__)
        if rule is None or not any(isinstance(a, tracer.FakeTensor) for a in _flat(args)):
            return None
        return rule(self, tracer, func, args, kwargs)

    def remember(self, func: Any, args: Args, made: Any) -> None:
        """What a single number is, where the operator that made it says so."""
        name = func._overloadpacket.__name__
        if not hasattr(made, "numel") or made.numel() != 1:
            return
        if name in ("full", "zeros", "full_like", "zeros_like", "ones", "ones_like"):
            value = 0 if name.startswith("zeros") else 1 if name.startswith("ones") else args[1]
            made._vramwise_value = value
        elif name in _FALSE:
            made._vramwise_value = False
        elif name in _COMPARED and isinstance(args[1], (bool, int, float)):
            made._vramwise_value = _COMPARED[name](getattr(args[0], "_vramwise_value", 1), args[1])
        elif name in _SAME:
            value = getattr(args[0], "_vramwise_value", None)
            if value is not None:
                made._vramwise_value = value

    def count(self, elements: int) -> int:
        return math.ceil(elements * self.share)


def _flat(args: Args) -> Iterator[Any]:
    for a in args:
        if isinstance(a, (list, tuple)):
            yield from _flat(tuple(a))
        else:
            yield a


def _number(policy: Policy, tracer: Any, func: Any, args: Args, kwargs: Keywords) -> Args:
    tensor = args[0]
    if getattr(tensor, "constant", None) is not None:
        return (tensor.constant.item(),)
    value = getattr(tensor, "_vramwise_value", None)
    if value is None:
        tracer.requests.note("a number was read from the GPU; it is taken to be 1")
        value = 1
    return (tracer.torch.tensor(value, dtype=tensor.dtype, device="cpu").item(),)


def _equal(policy: Policy, tracer: Any, func: Any, args: Args, kwargs: Keywords) -> Args:
    tracer.requests.note("two tensors of the GPU were compared; they are taken to be equal")
    return (True,)


def _empty(tracer: Any, like: Any, shape: Args, dtype: Any = None) -> Any:
    with tracer.fake:
        return tracer.torch.empty(shape, dtype=dtype or like.dtype, device=like.device)


def _note_mask(policy: Policy, tracer: Any, func: Any) -> None:
    tracer.requests.note(f"{func._overloadpacket.__name__}() depends on data; "
                         f"{policy.share:.0%} of its elements are taken to be set")


def _nonzero(policy: Policy, tracer: Any, func: Any, args: Args, kwargs: Keywords) -> Args:
    _note_mask(policy, tracer, func)
    shape = (policy.count(args[0].numel()), args[0].dim())
    return (_empty(tracer, args[0], shape, tracer.torch.int64),)


def _masked_select(policy: Policy, tracer: Any, func: Any, args: Args, kwargs: Keywords) -> Args:
    _note_mask(policy, tracer, func)
    return (_empty(tracer, args[0], (policy.count(args[1].numel()),)),)


def _is_mask(tracer: Any, index: Any) -> bool:
    return index is not None and index.dtype in (tracer.torch.bool, tracer.torch.uint8)


def _positions(policy: Policy, tracer: Any, func: Any, indices: List[Any]) -> List[Any]:
    """Masks as PyTorch's kernel takes them: lists of positions, which take memory."""
    found: List[Any] = []
    for index in indices:
        if not _is_mask(tracer, index):
            found.append(index)
            continue
        _note_mask(policy, tracer, func)
        shape = (policy.count(index.numel()),)
        rows = _empty(tracer, index, (*shape, index.dim()), tracer.torch.int64)
        tracer.see(rows)
        found += rows.unbind(1)
    return found


def _index(policy: Policy, tracer: Any, func: Any, args: Args, kwargs: Keywords) -> Optional[Args]:
    if not any(_is_mask(tracer, i) for i in args[1]):
        return None
    return (func(args[0], _positions(policy, tracer, func, list(args[1]))),)


def _index_put(policy: Policy, tracer: Any, func: Any, args: Args, kwargs: Keywords) -> Optional[Args]:
    if not any(_is_mask(tracer, i) for i in args[1]):
        return None
    _positions(policy, tracer, func, list(args[1]))
    if func._overloadpacket.__name__.endswith("_"):
        return (args[0],)
    return (_empty(tracer, args[0], tuple(args[0].shape)),)


def _unique(policy: Policy, tracer: Any, func: Any, args: Args, kwargs: Keywords) -> Args:
    _note_mask(policy, tracer, func)
    return _distinct(tracer, args[0], policy.count(args[0].numel()))


def _consecutive(policy: Policy, tracer: Any, func: Any, args: Args, kwargs: Keywords) -> Args:
    """Of a few numbers, programs ask whether they are alike."""
    if args[0].numel() > 4096:
        return _unique(policy, tracer, func, args, kwargs)
    tracer.requests.note("unique_consecutive() depends on data; a few numbers are taken to be alike")
    return _distinct(tracer, args[0], 1)


def _distinct(tracer: Any, x: Any, count: int) -> Args:
    long = tracer.torch.int64
    return ((_empty(tracer, x, (count,)), _empty(tracer, x, tuple(x.shape), long),
             _empty(tracer, x, (count,), long)),)


def _bincount(policy: Policy, tracer: Any, func: Any, args: Args, kwargs: Keywords) -> Args:
    least = kwargs.get("minlength", args[2] if len(args) > 2 else 0)
    tracer.requests.note("bincount() depends on data; it is taken to be as short as it may be")
    return (_empty(tracer, args[0], (max(least, 1),), tracer.torch.int64),)


def _grouped_product(policy: Policy, tracer: Any, func: Any, args: Args, kwargs: Keywords) -> Args:
    """PyTorch's own fake takes fewer types than the operator does."""
    left, right = args[0], args[1]
    groups = kwargs.get("offs", args[2] if len(args) > 2 else None)
    shape: Tuple[int, ...] = (left.shape[-2], right.shape[-1])
    if left.dim() == right.dim():
        shape = ((groups.shape[0] if left.dim() == 2 else left.shape[0]), *shape)
    return (_empty(tracer, left, shape, kwargs.get("out_dtype")),)


def _ctc(policy: Policy, tracer: Any, func: Any, args: Args, kwargs: Keywords) -> Args:
    """PyTorch's own kernel: the loss, and what its derivative needs."""
    probabilities, _, _, lengths = args[:4]
    longest = max(lengths.tolist() if hasattr(lengths, "tolist") else lengths)
    steps, batch = probabilities.shape[:2]
    return ((_empty(tracer, probabilities, (batch,)),
             _empty(tracer, probabilities, (batch, steps, 2 * longest + 1))),)


def _ctc_backward(policy: Policy, tracer: Any, func: Any, args: Args, kwargs: Keywords) -> Args:
    tracer.see(_empty(tracer, args[6], tuple(args[6].shape)))  # the same sums, from the other end
    return (_empty(tracer, args[1], tuple(args[1].shape)),)


def _packed(policy: Policy, tracer: Any, func: Any, args: Args, kwargs: Keywords) -> Args:
    """The steps of all sequences, one after the other, and how many sequences each step has."""
    steps, lengths, is_batch_first = args
    found = lengths.tolist()
    sizes = [sum(length > step for length in found) for step in range(max(found))]
    return ((_empty(tracer, steps, (sum(found), *steps.shape[2:])),
             tracer.torch.tensor(sizes, dtype=tracer.torch.int64, device="cpu")),)


def _no(policy: Policy, tracer: Any, func: Any, args: Args, kwargs: Keywords) -> Args:
    return (False,)


_ANSWERS: Dict[str, Callable[..., Any]] = {
    "_ctc_loss": _ctc, "_ctc_loss_backward": _ctc_backward, "_use_cudnn_ctc_loss": _no,
    "_use_miopen_ctc_loss": _no, "_pack_padded_sequence": _packed,
    "_grouped_mm": _grouped_product,
    "_local_scalar_dense": _number, "equal": _equal, "nonzero": _nonzero,
    "masked_select": _masked_select, "index": _index, "index_put": _index_put,
    "index_put_": _index_put, "_index_put_impl_": _index_put, "_unique2": _unique,
    "unique_consecutive": _consecutive, "bincount": _bincount}


def refusal(tracer: Any, func: Any, error: Exception) -> Optional[str]:
    """Why an operator cannot run without data, and what helps; None: the error is the program's."""
    kind = type(error).__name__
    if kind not in ("DataDependentOutputException", "DynamicOutputShapeException",
                    "UnsupportedOperatorException", "UnsupportedFakeTensorException"):
        if not (isinstance(error, NotImplementedError) and "meta" in str(error).lower()):
            return None
    return (f"{func}: it has no fake (its result depends on data, or nobody has said its shape). "
            "torch.library.register_fake() says what it gives back.")


# ---- functions that choose by device ---------------------------------------------------------------

def _lowered(torch: Any, tensors: Args) -> Args:
    """As autocast casts the arguments of attention."""
    if not torch.is_autocast_enabled("cuda"):
        return tensors
    dtype = torch.get_autocast_dtype("cuda")
    return tuple(t.to(dtype) if t is not None and t.dtype.is_floating_point else t for t in tensors)


def attention_function(tracer: Any) -> Callable[..., Any]:
    torch = tracer.torch
    aten = torch.ops.aten

    def arguments(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
                  is_causal: bool = False, scale: Any = None, enable_gqa: bool = False) -> Args:
        return query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa

    def choose(query: Any, key: Any, mask: Any, enable_gqa: bool) -> str:
        cuda = torch.backends.cuda
        if mask is not None and mask.dim() > 0 and mask.stride(-1) != 1:
            return "math"
        if query.dim() != 4 or 0 in query.shape:
            return "math"
        if query.dtype in (torch.float16, torch.bfloat16) and mask is None and \
                query.shape[-1] <= 256 and tracer.card.has_flash and cuda.flash_sdp_enabled():
            return "flash"
        has_all = query.shape[1] == key.shape[1]
        return "efficient" if has_all and cuda.mem_efficient_sdp_enabled() else "math"

    def flash(query: Any, key: Any, value: Any, dropout_p: float, is_causal: bool,
              scale: Any) -> Any:
        width = query.shape[-1]
        scale = scale if scale is not None else 1.0 / math.sqrt(width)
        if width % 8:
            query, key, value = (torch.nn.functional.pad(t, (0, 8 - width % 8))
                                 for t in (query, key, value))
        made = aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal,
                                                        False, scale=scale)[0]
        return made[..., :width] if width % 8 else made

    def to_add(mask: Any, query: Any, key: Any) -> Any:
        if mask is None:
            return None
        if mask.dtype == torch.bool:
            opposite = mask.logical_not()
            mask = torch.zeros_like(mask, dtype=query.dtype)
            mask.masked_fill_(opposite, -math.inf)
        length = mask.shape[-1]
        if length % 8:  # a recorded Swin has 56 columns for 49
            mask = torch.nn.functional.pad(mask, (0, 8 - length % 8))[..., :length]
        return mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])

    def attend(func: Any, args: Args, kwargs: Keywords) -> Any:
        query, key, value, mask, dropout_p, is_causal, scale, gqa = arguments(*args, **kwargs)
        if not isinstance(query, tracer.FakeTensor) or query.device.type != "cuda":
            return func(*args, **kwargs)
        query, key, value = _lowered(torch, (query, key, value))
        if mask is not None and mask.dtype != torch.bool:
            mask, = _lowered(torch, (mask,))
        kind = choose(query, key, mask, gqa)
        with torch.autocast("cuda", enabled=False):
            if kind == "flash":
                return flash(query, key, value, dropout_p, is_causal, scale)
            if kind == "efficient":
                wants = torch.is_grad_enabled() and any(
                    t.requires_grad for t in (query, key, value))
                return aten._scaled_dot_product_efficient_attention(
                    query, key, value, to_add(mask, query, key), wants, dropout_p, is_causal,
                    scale=scale)[0]
            from torch.nn.attention import SDPBackend, sdpa_kernel
            with sdpa_kernel(SDPBackend.MATH):
                return func(query, key, value, mask, dropout_p, is_causal, scale=scale,
                            enable_gqa=gqa)

    return attend


def linear_function(tracer: Any) -> Callable[..., Any]:
    """Of what does not lie in one piece, PyTorch adds the bias in place; but to a copy, where the tensor
    is of a class of its own, as fake ones are."""
    torch = tracer.torch

    def linear(func: Any, args: Args, kwargs: Keywords) -> Any:
        named = [kwargs.get(name) for name in ("input", "weight", "bias")[len(args):]]
        given: List[Any] = [*args, *named]
        x, weight, bias = given
        if bias is None or not isinstance(x, tracer.FakeTensor) or x.dim() < 3 or x.is_contiguous():
            return func(*args, **kwargs)
        return torch.matmul(x, weight.t()).add_(bias)

    return linear


def ctc_function(tracer: Any) -> Callable[..., Any]:
    """Its lengths become numbers; those of the GPU are taken to be the longest."""
    def numbers(lengths: Any, longest: int) -> Any:
        if not isinstance(lengths, tracer.torch.Tensor):
            return lengths
        if isinstance(lengths, tracer.FakeTensor):
            return [longest] * lengths.numel()
        return lengths.tolist()

    def ctc_loss(func: Any, args: Args, kwargs: Keywords) -> Any:
        probabilities, targets, inputs, lengths, blank, reduction, *rest = args
        if kwargs or not isinstance(probabilities, tracer.FakeTensor):
            return func(*args, **kwargs)
        lengths = numbers(lengths, targets.shape[-1])
        losses = func(probabilities, targets, numbers(inputs, probabilities.shape[0]), lengths, blank, 0, *rest)
        if reduction == 0:
            return losses
        return losses.sum() if reduction == 2 else losses.div(float(max(lengths))).mean()

    return ctc_loss


def take_device(tracer: Any, tensor: Any, data: Any) -> None:
    """`tensor.data = data` leaves a fake tensor on the device it was made for."""
    if isinstance(tensor, tracer.FakeTensor) and isinstance(data, tracer.FakeTensor):
        tensor.fake_device = data.fake_device


def replaced_functions(tracer: Any) -> Dict[Any, Callable[..., Any]]:
    torch = tracer.torch

    def set_data(func: Any, args: Args, kwargs: Keywords) -> None:
        func(*args)
        take_device(tracer, *args)

    def itself(func: Any, args: Args, kwargs: Keywords) -> Any:
        return args[0]

    def is_not(func: Any, args: Args, kwargs: Keywords) -> bool:
        return False

    return {torch.nn.functional.scaled_dot_product_attention: attention_function(tracer),
            torch.nn.functional.linear: linear_function(tracer),
            torch.Tensor.data.__set__: set_data, torch.Tensor.pin_memory: itself,
            torch.Tensor.is_pinned: is_not}
