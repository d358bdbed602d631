"""_install.py - our allocator in place of PyTorch's, for the rest of the process.

Two doors lead into PyTorch. The adapter is a whole allocator of PyTorch's own kind, compiled against
the torch at hand: statistics, snapshots, graphs, pools and OutOfMemoryError work. The plain door is
PyTorch's CUDAPluggableAllocator, which needs no compiler, and behind which none of those work, and
running out of memory ends the process. So the plain door is only taken where it is asked for.

Nothing here may start CUDA, or ask PyTorch anything that does: torch.cuda.is_available() forbids
children that are forked later to use the GPU. device_count() asks NVML and does not.
"""
from __future__ import annotations

import ctypes
import os
import re
import threading
from dataclasses import dataclass
from typing import Any, Optional, Tuple, Union

from .. import _library, _paths
from . import _compile, _profiler, _spill
from ._say import say
from ._state import Installed, InstallError, State, bound_adapter, support_library

ALLOCATORS = ("pytorch", "torch", "vramwise", "vramwise:rescue", "vramwise:tight")
COPYING_ALLOCATORS = ("vramwise:rescue", "vramwise:tight")  # that move live data
SPILLING_ALLOCATORS = ("vramwise", *COPYING_ALLOCATORS)     # that can let it leave the GPU
FALLBACKS = ("pytorch", "plain", "error")
ADAPTER_VERSIONS = ((2, 11),)  # of PyTorch, whose allocator the adapter is written for
PLAIN_VERSIONS_FROM = (2, 3)   # whose CUDAPluggableAllocator has today's functions

_WITHOUT_GATE, _QUIET = 1, 2  # vramwise_torch.h
_lock = threading.Lock()


class Stays(Exception):
    """PyTorch's own allocator stays, and why."""


def _version_of(torch: Any) -> Tuple[int, ...]:
    match = re.match(r"(\d+)\.(\d+)", str(torch.__version__))
    return tuple(int(number) for number in match.groups()) if match else (0, 0)


def check_gpu(torch: Any) -> None:
    """Stays: there is nothing an allocator could do."""
    if getattr(torch.version, "cuda", None) is None or not hasattr(torch._C, "_cuda_getDeviceCount"):
        raise Stays(f"PyTorch {torch.__version__} was built without CUDA")
    if getattr(torch.cuda, "_is_in_bad_fork", lambda: False)():
        raise Stays("this process was forked from one that had started CUDA, and cannot use it")
    if torch.cuda.device_count() < 1:
        raise Stays("there is no GPU here")


def _check_not_too_late(torch: Any) -> None:
    if torch.cuda.is_initialized():
        raise InstallError("too late: CUDA was started before vramwise.torch.install(), which must "
                           "come before the first CUDA tensor (right after import torch)")
    backend = torch.cuda.get_allocator_backend()
    if backend == "pluggable":
        raise InstallError("another allocator was already given to PyTorch in this process")


@dataclass(frozen=True)
class _Wishes:
    """What install() was asked for."""
    allocator: str
    fallback: str
    gate: bool
    spill_bytes: int
    quiet: bool

    @property
    def moves_live_data(self) -> bool:
        return self.allocator in COPYING_ALLOCATORS or self.spill_bytes != 0

    @property
    def flags(self) -> int:
        return (0 if self.gate else _WITHOUT_GATE) | (_QUIET if self.quiet else 0)


def _spill_bytes(spill: Union[None, int, str], allocator: str) -> int:
    """None: as `vramwise run` was told, if it was. ValueError: not a size, or nothing that spills."""
    is_ours = allocator in SPILLING_ALLOCATORS
    if spill is None:
        spill = os.environ.get("VRAMWISE_SPILL", "") if is_ours else 0
    if spill in (0, "", "0"):
        return 0
    if not is_ours:
        raise ValueError(f"spill is for {', '.join(SPILLING_ALLOCATORS)}, not for {allocator!r}")
    return _library.size_bytes(spill)


def _install_adapter(torch: Any, wishes: _Wishes) -> Installed:
    """BuildError: there is no adapter; the rest of the process does not know of the attempt."""
    if _version_of(torch) not in ADAPTER_VERSIONS:
        known = ", ".join(".".join(map(str, version)) for version in ADAPTER_VERSIONS)
        raise _compile.BuildError(f"the adapter is for PyTorch {known}, and this is "
                                  f"{torch.__version__}")
    try:
        _library.load("vramwise")
        _library.load("vramwise-torch")
    except _library.VramwiseError as error:
        raise _compile.BuildError(str(error)) from None
    facts = _compile.Torch.of(torch)
    quiet = wishes.quiet
    path = _compile.adapter(facts, quiet=quiet)
    try:
        library = bound_adapter(str(path))
    except (OSError, AttributeError) as first:
        say(f"{path} cannot be loaded and is compiled again: {first}", quiet=quiet)
        path = _compile.adapter(facts, quiet=quiet, anew=True)
        try:
            library = bound_adapter(str(path))
        except (OSError, AttributeError) as error:
            raise _compile.BuildError(f"the adapter cannot be loaded: {error}") from None
    compiled_for = (library.vramwise_torch_compiled_for() or b"").decode("utf-8", "replace")
    release = _compile.release_of(facts.version)
    if _compile.release_of(compiled_for) != release:
        raise _compile.BuildError(f"{path} was compiled for PyTorch {compiled_for}, and this is "
                                  f"{release}")
    message = ctypes.create_string_buffer(1024)
    if library.vramwise_torch_install(wishes.allocator.encode(), wishes.flags, wishes.spill_bytes,
                                      message, len(message)) != 0:
        text = message.value.decode("utf-8", "replace").strip() or "no reason given"
        raise InstallError(f"the adapter refused: {text}")
    State.adapter = library
    State.spill_bytes = wishes.spill_bytes
    _follow_profilers(library, wishes.gate and wishes.moves_live_data, quiet)
    if wishes.spill_bytes != 0:
        _spill.Advisor(quiet).begin(torch)
    return Installed(wishes.allocator, "adapter")


def _follow_profilers(adapter: ctypes.CDLL, has_gate: bool, quiet: bool) -> None:
    def before_the_first() -> None:
        adapter.vramwise_torch_expect_profilers(1)
        if has_gate:
            say("the launch gate gives way to the profiler: live data now moves at safe points only"
                if support_library().vramwise_launch_gate_remove()
                else "the launch gate is in use: the profiler may see nothing of the GPU", quiet=quiet)

    if _profiler.announce(before_the_first):
        adapter.vramwise_torch_expect_profilers(0)


def _address(library: ctypes.CDLL, name: str) -> int:
    value = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert value is not None
    return value


def _install_plain(torch: Any, allocator: str, reason: str) -> Installed:
    if _version_of(torch) < PLAIN_VERSIONS_FROM:
        least = ".".join(map(str, PLAIN_VERSIONS_FROM))
        raise Stays(f"{reason}; and the plain door needs PyTorch {least}")
    try:
        library = support_library()
    except (_library.VramwiseError, AttributeError) as error:
        raise Stays(f"{reason}; and the plain door: {error}") from None
    conf = os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF")
    if not library.vramwise_plain_choose(allocator.encode(), conf.encode() if conf else None):
        raise Stays(f"{reason}; and the plain door refuses {allocator!r} with "
                     f"PYTORCH_CUDA_ALLOC_CONF={conf or ''}")
    path = str(_paths.library_file("vramwise-torch"))
    door = torch.cuda.memory.CUDAPluggableAllocator(path, "vramwise_plain_alloc",
                                                    "vramwise_plain_free")
    inside = door.allocator()
    for setter, function in (("set_reset_fn", "vramwise_plain_empty_cache"),
                             ("set_memory_fraction_fn", "vramwise_plain_set_fraction"),
                             ("set_base_alloc_fn", "vramwise_plain_base"),
                             ("set_record_stream_fn", "vramwise_plain_record_stream")):
        getattr(inside, setter)(_address(library, function))
    try:
        torch.cuda.memory.change_current_allocator(door)
    except RuntimeError as error:
        raise InstallError(f"too late: PyTorch says: {str(error).splitlines()[0]}") from None
    State.kept = (door, library)
    return Installed(allocator, "plain", reason)


def _install(wishes: _Wishes) -> Installed:
    try:
        import torch
    except ImportError as error:
        raise InstallError(f"PyTorch cannot be imported: {error}") from None
    check_gpu(torch)
    _check_not_too_late(torch)
    try:
        return _install_adapter(torch, wishes)
    except _compile.BuildError as error:
        if wishes.fallback != "plain":
            raise Stays(str(error)) from None
        if wishes.spill_bytes != 0:
            raise Stays(f"{error}; and the plain door spills nothing") from None
        return _install_plain(torch, wishes.allocator, str(error))


def install(allocator: str = "vramwise", *, fallback: str = "pytorch", gate: bool = True,
            spill: Union[None, int, str] = None, quiet: bool = False) -> Installed:
    """Makes one of our allocators PyTorch's own, for the rest of the process.

    To be called before anything starts CUDA: right after `import torch` is a good place. The first
    time with a version of PyTorch, the adapter is compiled, which takes about half a minute; it is
    kept for later.

    `allocator`  "vramwise", "vramwise:rescue", "vramwise:tight", "torch", or "pytorch", which does
                 nothing
    `fallback`   where the adapter cannot be had, or PyTorch is of a version it is not written for:
                 "pytorch": PyTorch's own allocator stays, and a line says why; "plain": PyTorch's
                 own door for other allocators is used, which has no statistics, snapshots, graphs
                 or pools, and running out of memory ends the process; "error": an InstallError
    `gate`       False: live data is only copied at safe points, never behind the launch gate
    `spill`      so much host memory, "16GiB" or a number of bytes, live data may go to where a GPU is
                 full: the program goes on, slower, with the same addresses. Of all its GPUs together;
                 0: none, None: what `vramwise run --spill` said. More than the machine has is an
                 InstallError
    `quiet`      no lines on standard error

    Returns what is in force; `str()` of it is "vramwise via adapter", for example. With
    VRAMWISE_DISABLE=1, without a GPU, or where PyTorch has no CUDA, PyTorch's own allocator stays
    (with fallback "error" the last two are errors). A second call with the same name changes nothing
    and returns what is in force; with another name, or after CUDA was started: InstallError. What
    `vramwise run --allocator` chose stands, with a line.
    """
    if allocator not in ALLOCATORS:
        raise ValueError(f"allocator is one of {', '.join(ALLOCATORS)}, not {allocator!r}")
    if fallback not in FALLBACKS:
        raise ValueError(f"fallback is one of {', '.join(FALLBACKS)}, not {fallback!r}")
    if _library.is_disabled():
        return Installed("pytorch", None, "VRAMWISE_DISABLE is set")
    spill_bytes = _spill_bytes(spill, allocator)
    with _lock:
        if State.installed is not None:
            if State.installed.allocator == allocator:
                return State.installed
            if os.environ.get("VRAMWISE_RUN_ALLOCATOR") == State.installed.allocator:
                say(f"vramwise run chose {State.installed}; install({allocator!r}) changes nothing",
                    quiet=quiet)
                return State.installed
            raise InstallError(f"already installed: {State.installed}; a process can have one "
                               f"allocator only, so {allocator!r} was not")
        if allocator == "pytorch":
            return Installed("pytorch", None)
        try:
            State.installed = _install(_Wishes(allocator, fallback, gate, spill_bytes, quiet))
        except Stays as reason:
            if fallback == "error":
                raise InstallError(str(reason)) from None
            say(f"{reason}: PyTorch's own allocator stays", quiet=quiet)
            return Installed("pytorch", None, str(reason))
        if State.installed.door == "plain":
            say(f"{State.installed.reason}: {allocator} serves through the plain door, without "
                "statistics, snapshots, graphs and OutOfMemoryError", quiet=quiet)
        return State.installed


def in_force() -> Installed:
    """What install() came to in this process; PyTorch's own where it was not called."""
    return State.installed or Installed("pytorch", None)


def stats(device: Optional[int] = None) -> dict:
    """What our allocator did on one device, by the names of vw_paged_stats, those about what was
    spilled in "spill", and "safe_moments". `device`: the current one if None. {}: nothing was asked
    of it there yet. VramwiseError: it is not ours that serves, or the plain door, which counts
    nothing."""
    import json
    if State.adapter is None:
        raise _library.VramwiseError(f"no statistics: {in_force()} serves this process")
    if device is None:
        import torch
        device = torch.cuda.current_device() if torch.cuda.is_initialized() else 0
    index = getattr(device, "index", device)
    capacity = State.adapter.vramwise_torch_stats(index, None, 0)
    while capacity > 0:
        text = ctypes.create_string_buffer(capacity)
        needed = State.adapter.vramwise_torch_stats(index, text, capacity)
        if needed <= capacity:
            return json.loads(text.value) if needed > 0 else {}
        capacity = needed
    return {}
