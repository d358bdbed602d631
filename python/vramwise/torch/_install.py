"""_install.py - our allocator in place of PyTorch's, for the rest of the process.

Two doors lead into PyTorch. The adapter is a whole allocator of PyTorch's own kind, for the torch at
hand: statistics, snapshots, graphs, pools and OutOfMemoryError work. It comes with the wheel, or is
compiled. The plain door is PyTorch's CUDAPluggableAllocator, which needs neither, but has none of
those, and running out of memory ends the process. So it is only taken where it is asked for.

Nothing here may start CUDA, or ask PyTorch anything that does: torch.cuda.is_available() forbids
children that are forked later to use the GPU. device_count() asks NVML and does not.
"""
from __future__ import annotations

import atexit
import ctypes
import functools
import os
import threading
from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple, Union

from .. import _library, _paths
from . import _compile, _nccl, _prebuilt, _profiler, _spill, _stream
from ._say import say
from ._state import (Installed, InstallError, State, bound_adapter, launch_gate,
                     support_library)

ALLOCATORS = ("pytorch", "torch", "vramwise", "vramwise:rescue", "vramwise:tight")
OWN_ALLOCATORS = ("vramwise", "vramwise:rescue", "vramwise:tight")  # that move live data
FALLBACKS = ("pytorch", "plain", "error")
ADAPTER_VERSIONS_FROM = (2, 5)  # of PyTorch, whose allocator the adapter is written for
NEWEST_VERSION = (2, 15)        # whose headers it was compiled against; a later one is tried
PLAIN_VERSIONS_FROM = (2, 3)    # whose CUDAPluggableAllocator has today's functions

_WITHOUT_GATE, _QUIET = 1, 2  # vramwise_torch.h
_lock = threading.Lock()


class Stays(Exception):
    """PyTorch's own allocator stays, and why."""


def check_gpu(torch: Any) -> None:
    """Stays: there is nothing an allocator could do."""
    has_gpu = getattr(torch.version, "cuda", None) is not None or _compile.hip_version_of(torch) is not None
    if not has_gpu or not hasattr(torch._C, "_cuda_getDeviceCount"):
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
    keep_free: str
    stream: bool
    quiet: bool

    @property
    def has_gate(self) -> bool:
        """From the beginning, or when it is needed."""
        return self.gate and self.allocator in OWN_ALLOCATORS

    @property
    def flags(self) -> int:
        return (0 if self.gate else _WITHOUT_GATE) | (_QUIET if self.quiet else 0)


def _spill_bytes(spill: Union[None, int, str], allocator: str) -> int:
    """None: as `vramwise run` was told, if it was. ValueError: not a size, or nothing that spills."""
    is_ours = allocator in OWN_ALLOCATORS
    if spill is None:
        spill = os.environ.get("VRAMWISE_SPILL", "") if is_ours else 0
    if spill in (0, "", "0"):
        return 0
    if not is_ours:
        raise ValueError(f"spill is for {', '.join(OWN_ALLOCATORS)}, not for {allocator!r}")
    return _library.memory_bytes("spill", spill)


def _stream_wanted(stream: Optional[bool], spill_bytes: int) -> bool:
    """None: by the environment, where anything may be spilled. ValueError: nothing may."""
    if stream is None:
        return spill_bytes != 0 and os.environ.get("VRAMWISE_STREAM", "") == "1"
    if stream and spill_bytes == 0:
        raise ValueError("stream=True needs spill=SIZE: the host memory that state may go to")
    return stream


def _keep_free(keep_free: Union[None, int, str], allocator: str) -> str:
    """As _spill_bytes(), for memory that is left to others."""
    is_ours = allocator in OWN_ALLOCATORS
    if keep_free is None:
        keep_free = os.environ.get("VRAMWISE_KEEP_FREE", "") if is_ours else ""
    text = _library.size_or_share(keep_free) if keep_free != "" else ""
    if text and not is_ours:
        raise ValueError(f"keep_free is for {', '.join(OWN_ALLOCATORS)}, not for {allocator!r}")
    return text


def _loaded(path: str) -> ctypes.CDLL:
    """BuildError: it cannot be loaded."""
    try:
        return bound_adapter(path)
    except (OSError, AttributeError) as error:
        raise _compile.BuildError(f"{path} cannot be loaded: {error}") from None


def _compiled(facts: _compile.Torch, quiet: bool) -> Tuple[ctypes.CDLL, str]:
    """Loads the adapter that was compiled here, now or earlier. BuildError."""
    path = str(_compile.adapter(facts, quiet=quiet))
    try:
        return _loaded(path), path
    except _compile.BuildError as first:
        say(f"{first}: it is compiled again", quiet=quiet)
        path = str(_compile.adapter(facts, quiet=quiet, anew=True))
        return _loaded(path), path


def _find_adapter(facts: _compile.Torch, quiet: bool) -> Tuple[ctypes.CDLL, str, str]:
    """The adapter for this torch, its file, and why it is this one. BuildError."""
    try:
        file, reason = _prebuilt.choose(facts)
        return _loaded(str(file)), str(file), reason
    except (_prebuilt.NoneFits, _compile.BuildError) as error:
        why_not = str(error)
    try:
        library, path = _compiled(facts, quiet)
    except _compile.BuildError as error:
        raise _compile.BuildError(f"{error} ({why_not})" if why_not else str(error)) from None
    compiled_for = (library.vramwise_torch_compiled_for() or b"").decode("utf-8", "replace")
    release = _compile.release_of(facts.version)
    if _compile.release_of(compiled_for) != release:
        raise _compile.BuildError(f"{path} was compiled for PyTorch {compiled_for}, and this is "
                                  f"{release}")
    return library, path, "compiled on this machine" + (f": {why_not}" if why_not else "")


def _install_adapter(torch: Any, wishes: _Wishes) -> Installed:
    """BuildError: there is no adapter; the rest of the process does not know of the attempt."""
    facts = _compile.Torch.of(torch)
    version = _compile.minor_of(facts.version)
    if version < ADAPTER_VERSIONS_FROM:
        least = ".".join(map(str, ADAPTER_VERSIONS_FROM))
        raise _compile.BuildError(f"the adapter needs PyTorch {least} or newer, and this is "
                                  f"{facts.version}")
    try:
        _library.load("vramwise")
        _library.load("vramwise-torch")
    except _library.VramwiseError as error:
        raise _compile.BuildError(str(error)) from None
    library, path, reason = _find_adapter(facts, wishes.quiet)
    if version > NEWEST_VERSION:
        say(f"PyTorch {facts.version} is newer than any that vramwise was tried with", quiet=wishes.quiet)
    if facts.hip_version is not None:
        say("PyTorch for ROCm: vramwise was never run on an AMD GPU", quiet=wishes.quiet)
    message = ctypes.create_string_buffer(1024)
    if library.vramwise_torch_install(wishes.allocator.encode(), wishes.flags, wishes.spill_bytes,
                                      wishes.keep_free.encode(), message, len(message)) != 0:
        text = message.value.decode("utf-8", "replace").strip() or "no reason given"
        raise InstallError(f"the adapter refused: {text}")
    State.adapter = library
    State.spill_bytes = wishes.spill_bytes
    if wishes.allocator in OWN_ALLOCATORS:
        _nccl.keep_to_pools(quiet=wishes.quiet)
    atexit.register(support_library().vramwise_end_holds)  # a parked process can end
    _follow_settings(torch, library)
    _follow_profilers(library, wishes.has_gate, wishes.quiet)
    if wishes.spill_bytes != 0:
        _spill.Advisor(wishes.quiet).begin(torch)
    if wishes.stream:
        _stream.Streamer(torch, library, wishes.quiet).begin()
    installed = Installed(wishes.allocator, "adapter", reason, path)
    _mark_snapshots(torch, installed)
    return installed


def _follow_settings(torch: Any, adapter: ctypes.CDLL) -> None:
    """Up to PyTorch 2.9 nobody tells an allocator of new settings, so the function that takes them
    does."""
    if adapter.vramwise_torch_has_settings_hook():
        return
    name = "_cuda_cudaCachingAllocator_set_allocator_settings"
    original: Any = getattr(torch._C, name, None)
    if original is None:
        return

    def set_allocator_settings(conf: str) -> None:
        original(conf)
        message = ctypes.create_string_buffer(1024)
        if adapter.vramwise_torch_configure(conf.encode(), message, len(message)) != 0:
            raise ValueError(message.value.decode("utf-8", "replace"))

    setattr(torch._C, name, set_allocator_settings)


def _mark_snapshots(torch: Any, installed: Installed) -> None:
    """Snapshots say which allocator they are of, beside PyTorch's settings: for whoever reads them."""
    original: Any = getattr(torch.cuda.memory, "_snapshot", None)
    if original is None:
        return

    @functools.wraps(original)
    def _snapshot(*arguments: Any, **options: Any) -> Any:
        snapshot = original(*arguments, **options)
        settings = snapshot.get("allocator_settings") if isinstance(snapshot, dict) else None
        if isinstance(settings, dict):
            settings["vramwise_engine"] = installed.allocator
            settings["vramwise_launch_gate"] = installed.gate
        return snapshot

    torch.cuda.memory._snapshot = _snapshot


def _follow_profilers(adapter: ctypes.CDLL, has_gate: bool, quiet: bool) -> None:
    def before_the_first() -> None:
        adapter.vramwise_torch_expect_profilers(1)
        if not has_gate:
            return
        stands = launch_gate()[1] in ("arming", "armed")
        if not support_library().vramwise_launch_gate_remove():
            say("the launch gate is in use: the profiler may see nothing of the GPU", quiet=quiet)
        elif stands:
            say("the launch gate gives way to the profiler: live data now moves at safe points only",
                quiet=quiet)

    if _profiler.announce(before_the_first):
        adapter.vramwise_torch_expect_profilers(0)


def settings_variable(version: Tuple[int, int]) -> Tuple[str, str]:
    """The variable that this PyTorch takes its settings from, and what it says: the old name first,
    and the new one only from 2.10 on."""
    names = ("PYTORCH_CUDA_ALLOC_CONF",) + (("PYTORCH_ALLOC_CONF",) if version >= (2, 10) else ())
    for name in names:
        if os.environ.get(name):
            return name, os.environ[name]
    return names[0], ""


def _address(library: ctypes.CDLL, name: str) -> int:
    value = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert value is not None
    return value


def _install_plain(torch: Any, wishes: _Wishes, reason: str) -> Installed:
    allocator = wishes.allocator
    if _compile.hip_version_of(torch) is not None:
        raise Stays(f"{reason}; and the plain door is for CUDA")
    version = _compile.minor_of(str(torch.__version__))
    if version < PLAIN_VERSIONS_FROM:
        least = ".".join(map(str, PLAIN_VERSIONS_FROM))
        raise Stays(f"{reason}; and the plain door needs PyTorch {least}")
    try:
        library = support_library()
    except (_library.VramwiseError, AttributeError) as error:
        raise Stays(f"{reason}; and the plain door: {error}") from None
    variable, conf = settings_variable(version)
    if not library.vramwise_plain_choose(allocator.encode(), conf.encode() if conf else None):
        raise Stays(f"{reason}; and the plain door refuses {allocator!r} with {variable}={conf}")
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
    if wishes.has_gate:
        library.vramwise_launch_gate_come_late(wishes.quiet)
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
        if wishes.keep_free:
            raise Stays(f"{error}; and the plain door keeps nothing free") from None
        return _install_plain(torch, wishes, str(error))


def install(allocator: str = "vramwise", *, fallback: str = "pytorch", gate: bool = True,
            spill: Union[None, int, str] = None, stream: Optional[bool] = None,
            keep_free: Union[None, int, str] = None, quiet: bool = False) -> Installed:
    """Makes one of our allocators PyTorch's own, for the rest of the process.

    To be called before anything starts CUDA: right after `import torch` is a good place. Where no
    adapter that came with the wheel fits this PyTorch, one is compiled, which takes about half a
    minute the first time; it is kept for later.

    `allocator`  "vramwise"; "torch": PyTorch's rules, faster; "pytorch", which does nothing; or
                 "vramwise:rescue", "vramwise:tight": see docs/explanation/how-the-allocator-works.md
    `fallback`   where the adapter cannot be had, or PyTorch is of a version it is not written for:
                 "pytorch": PyTorch's own allocator stays, and a line says why; "plain": PyTorch's
                 own door for other allocators is used, which has no statistics, snapshots, graphs
                 or pools, and running out of memory ends the process; "error": an InstallError
    `gate`       False: live data is only copied at safe points, never behind the launch gate, and
                 CUPTI stays free for profilers
    `spill`      so much host memory, "16GiB" or a number of bytes, live data may go to where a GPU is
                 full: the program goes on, slower, with the same addresses. Of all its GPUs together;
                 0: none, None: what `vramwise run --spill` said. More than the machine has is an
                 InstallError
    `stream`     True: where memory is short, an optimizer's state and then tensors that the forward pass
                 saves leave the GPU behind the forward pass and return behind the backward pass. Needs
                 `spill`, whose host memory it uses. Off unless asked for. None: what VRAMWISE_STREAM=1 says.
                 See docs/guides/too-large.md for what it asks of a program
    `keep_free`  so much of each GPU, "2GiB", "5%" or a number of bytes, is left to other libraries
                 and processes: idle memory goes back to the driver, in the background, as soon as
                 less is free. 0: nothing, None: what `vramwise run --keep-free` said
    `quiet`      no lines on standard error

    Returns what is in force; `str()` of it is "vramwise via adapter", for example; `file` is the
    adapter, `reason` why it is that one, `gate` the state of the launch gate at the time it is read.
    With VRAMWISE_DISABLE=1, without a GPU, or where PyTorch has no CUDA, PyTorch's own allocator stays
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
    is_streamed = _stream_wanted(stream, spill_bytes)
    left_free = _keep_free(keep_free, allocator)
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
            State.installed = _install(_Wishes(allocator, fallback, gate, spill_bytes, left_free,
                                                is_streamed, quiet))
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


def stats(device: Optional[int] = None) -> Dict[str, Any]:
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
