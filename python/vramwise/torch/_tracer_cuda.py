"""_tracer_cuda.py - torch.cuda, as it is on a machine that has the card, for programs that are traced.

Without a GPU the names of torch.cuda answer for the card that is planned, and PyTorch's engine finds a
device on which nothing runs (adapters/torch/support/still_guard.c). With a GPU they stay as they are.
"""
from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import os
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Tuple

from . import _tracer_cells, _tracer_group
from . import _tracer_rules as rules


class _Stream:
    """A stream or an event: nothing runs, so nothing is waited for."""
    stream_id = cuda_stream = priority = 0
    device_index = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __enter__(self) -> "_Stream":
        return self

    def __exit__(self, *args: Any) -> None:
        pass

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: Any) -> float:
        return 1.0

    def record_event(self, event: Any = None) -> Any:
        return event or _Stream()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


@dataclass(frozen=True)
class _Properties:
    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int = 32
    gcnArchName: str = ""
    regs_per_multiprocessor: int = 65536
    max_threads_per_multi_processor: int = 2048
    shared_memory_per_block_optin: int = 232448
    L2_cache_size: int = 50 << 20


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def _answering(value: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: value


def _cuda_names(tracer: Any) -> Dict[str, Any]:
    torch, card, requests = tracer.torch, tracer.card, tracer.requests
    major, minor = card.capability
    properties = _Properties(card.name, major, minor, card.total_bytes, card.processors)

    def stats(*args: Any, **kwargs: Any) -> Dict[str, int]:
        return {"allocated_bytes.all.current": requests.live_bytes,
                "allocated_bytes.all.peak": requests.peak_bytes}

    live, peak = (lambda *a, **k: requests.live_bytes), (lambda *a, **k: requests.peak_bytes)
    names: Dict[str, Any] = {name: _nothing for name in (
        "_lazy_init", "init", "set_device", "synchronize", "empty_cache", "manual_seed",
        "manual_seed_all", "seed", "seed_all", "set_rng_state", "set_rng_state_all", "set_stream",
        "ipc_collect", "reset_peak_memory_stats", "reset_max_memory_allocated", "set_sync_debug_mode",
        "set_per_process_memory_fraction", "_lazy_call")}
    names.update({name: _Stream for name in ("Stream", "Event", "stream", "device", "device_of",
                                             "StreamContext", "_DeviceGuard")})
    names.update(
        is_available=_answering(True), is_initialized=_answering(True), device_count=_answering(1),
        current_device=_answering(0), get_device_name=_answering(card.name),
        get_device_capability=_answering(card.capability),
        get_device_properties=_answering(properties), is_bf16_supported=_answering(card.has_flash),
        current_stream=_answering(_Stream()), default_stream=_answering(_Stream()),
        is_current_stream_capturing=_answering(False), get_arch_list=_answering([]),
        memory_allocated=live, max_memory_allocated=peak, memory_reserved=live,
        max_memory_reserved=peak, memory_stats=stats,
        mem_get_info=lambda *a, **k: (card.total_bytes - requests.live_bytes, card.total_bytes),
        get_rng_state=lambda *a, **k: torch.zeros(16, dtype=torch.uint8),
        get_rng_state_all=lambda *a, **k: [torch.zeros(16, dtype=torch.uint8)],
        can_device_access_peer=_answering(False), initial_seed=_answering(0))
    return names


def _loaded(name: str) -> Any:
    """A library of PyTorch's that this process has loaded."""
    with open("/proc/self/maps", encoding="utf-8") as file:
        for line in file:
            path = line.rstrip("\n").rpartition(" ")[2]
            if os.path.basename(path).startswith(name + ".so"):
                return ctypes.CDLL(path)
    raise OSError(f"{name} is not loaded")


_CUDA = 1  # c10::DeviceType
_is_still = False


def _derives(tracer: Any) -> bool:
    """Whether a derivative gets through PyTorch's engine."""
    torch = tracer.torch
    with tracer.fake, torch.enable_grad():
        x = torch.ones(2, 2, device="cuda", requires_grad=True)
        try:
            (x @ x + x).sum().backward()
        except RuntimeError:
            return False
    return True


def _still(tracer: Any) -> None:
    """PyTorch asks a device's guard for streams, also where nothing runs on them. A build without
    CUDA, or one that finds no GPU, has none that answers: ours does, from now on. Must be called with
    torch.cuda pretended."""
    global _is_still
    if _is_still:
        return
    from ._state import support_library
    support = support_library()
    support.vramwise_still_guard.restype = ctypes.c_void_p
    registry = (ctypes.c_void_p * (_CUDA + 1)).in_dll(
        _loaded("libc10"), "_ZN3c104impl26device_guard_impl_registryE")
    registry[_CUDA] = support.vramwise_still_guard()
    if not _derives(tracer):
        hooks = _loaded("libtorch_cpu")._ZN2at6detail12getCUDAHooksEv
        hooks.restype = ctypes.c_void_p
        support.vramwise_still_hooks(ctypes.c_void_p(hooks()))
        if not _derives(tracer):
            raise RuntimeError(f"PyTorch {tracer.torch.__version__} cannot trace a backward pass "
                               "where there is no GPU")
    _is_still = True


@contextlib.contextmanager
def _with_kernels(torch: Any) -> Iterator[None]:
    """A build without CUDA lacks its kernels, and autograd takes composite forms apart before any mode
    sees the operator. Tensors without data never come to the kernel that says it is there."""
    library = torch.library.Library("aten", "IMPL")
    for name in sorted(rules.WITH_KERNEL):
        if not torch._C._dispatch_has_kernel_for_dispatch_key(name, "CUDA"):
            library.impl(name.partition("::")[2], _nothing, "CUDA")
    try:
        yield
    finally:
        del library  # takes them back


@contextlib.contextmanager
def _replaced(targets: List[Tuple[Any, str, Any]]) -> Iterator[None]:
    before = [(place, name, place.__dict__.get(name, _nothing)) for place, name, _ in targets]
    for place, name, value in targets:
        setattr(place, name, value)
    try:
        yield
    finally:
        for place, name, value in reversed(before):
            if value is _nothing:
                delattr(place, name)
            else:
                setattr(place, name, value)


def _by_name(call: Callable[..., Any], func: Any, *args: Any, **kwargs: Any) -> Any:
    return call(func, args, kwargs)


@contextlib.contextmanager
def pretended(tracer: Any) -> Iterator[None]:
    """torch.cuda with the card, parameters without data, and optimizers that take fake tensors for
    what they are."""
    torch = tracer.torch
    targets: List[Tuple[Any, str, Any]] = []
    has_gpu = torch.cuda.is_available()
    if not has_gpu:
        targets += [(torch.cuda, name, value) for name, value in _cuda_names(tracer).items()]
        common = getattr(torch.cuda.amp, "common", None)
        if common is not None:
            targets.append((common, "amp_definitely_not_available", _answering(False)))
        import torch._subclasses.fake_tensor as fake_tensors
        targets += [(fake_tensors, name, _nothing) for name in ("init_gpu_context", "init_cuda_context")
                    if hasattr(fake_tensors, name)]
        targets.append((torch.Tensor, "pin_memory", lambda self, *a, **k: self))
        if hasattr(torch._C, "_get_accelerator"):
            targets.append((torch._C, "_get_accelerator", lambda *a: torch.device("cuda")))
    new = torch.nn.Parameter.__new__

    def new_parameter(cls: type, data: Any = None, requires_grad: bool = True) -> Any:
        if data is None:
            data = torch.empty(0)
        return new(cls, tracer.faked(data), requires_grad)

    def not_compiled(*args: Any, **kwargs: Any) -> Any:
        """torch.compile(), as a function and as a decorator."""
        tracer.requests.note("torch.compile is not planned: this is the step without it")
        return args[0] if args and args[0] is not None else lambda function: function

    targets.append((torch, "compile", not_compiled))
    targets.append((torch.nn.Module, "compile", lambda self, *args, **kwargs: not_compiled(self) and None))
    swap = torch.utils.swap_tensors

    def take(tensor: Any, other: Any) -> None:
        """Module.to() exchanges fake parameters, which those with weak references refuse."""
        if not isinstance(tensor, tracer.FakeTensor) or not isinstance(other, tracer.FakeTensor):
            return swap(tensor, other)
        tensor.data = other
        return rules.take_device(tracer, tensor, other)

    # By their names as well: inside of backward(), where checkpoints run them again, no function mode is on.
    for name, call in (("scaled_dot_product_attention", rules.attention_function(tracer)),
                       ("linear", rules.linear_function(tracer))):
        func = getattr(torch._C._nn, name)
        targets += [(place, name, functools.partial(_by_name, call, func))
                    for place in (torch.nn.functional, torch._C._nn)]
    targets.append((torch, "ctc_loss", functools.partial(_by_name, rules.ctc_function(tracer), torch.ctc_loss)))
    for name, call in _tracer_cells.functions(tracer).items():
        targets.append((torch._VF, name, functools.partial(_by_name, call, getattr(torch, name))))
    resize = torch.UntypedStorage.resize_

    def resize_storage(storage: Any, size: int) -> Any:
        made = resize(storage, size)
        tracer.resized(storage)
        return made

    targets.append((torch.UntypedStorage, "resize_", resize_storage))
    targets += _tracer_group.names(tracer)
    # Libraries that ask whether a tensor is fake mean to be compiled, and take another way.
    targets.append((torch._subclasses, "FakeTensor", type("FakeTensor", (), {})))
    targets.append((torch.nn.Parameter, "__new__", staticmethod(new_parameter)))
    targets.append((torch.utils, "swap_tensors", take))
    optimizers = importlib.import_module("torch.optim.optimizer")
    known = getattr(optimizers, "_foreach_supported_types", [])
    known.append(tracer.FakeTensor)
    lift = getattr(torch._C, "_only_lift_cpu_tensors", None)
    was_lifting = lift() if lift is not None else False
    if lift is not None:
        torch._C._set_only_lift_cpu_tensors(True)
    try:
        with _replaced(targets), _with_kernels(torch), torch.autograd.set_multithreading_enabled(False):
            if not has_gpu:
                _still(tracer)
            yield
    finally:
        known.remove(tracer.FakeTensor)
        if lift is not None:
            torch._C._set_only_lift_cpu_tensors(was_lifting)
