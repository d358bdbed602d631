"""_state.py - what is in force in this process.

One allocator for the life of a process: PyTorch can be given another only before the first use, and
only once. A forked child has its parent's.
"""
from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Optional, Tuple

from .. import _library


class InstallError(_library.VramwiseError):
    """The allocator was not installed; the text says why."""


InstallError.__module__ = "vramwise.torch"  # where people find it


@dataclass(frozen=True)
class Installed:
    """What serves PyTorch's requests. `door` is "adapter" (everything works), "plain" (PyTorch's
    CUDAPluggableAllocator, with what it can do) or None: PyTorch's own allocator stayed. `reason`
    says why it is this door, or this adapter; `file` is the adapter that was loaded. True if it is
    ours."""
    allocator: str
    door: Optional[str]
    reason: Optional[str] = None
    file: Optional[str] = None

    @property
    def gate(self) -> str:
        """The launch gate as it is now: "off", "waits" until memory gets short, "arming", "armed", or
        "refused: " and why. Behind it live data is copied where memory would run out."""
        return launch_gate()[1] if self else "off"

    def __bool__(self) -> bool:
        return self.door is not None

    def __str__(self) -> str:
        if self.door is None:
            return "pytorch" + (f" ({self.reason})" if self.reason else "")
        gate = self.gate
        return f"{self.allocator} via " + ("adapter" if self.door == "adapter" else "plain door") + (
            "" if gate in ("off", "waits") else f", launch gate {gate}")


class State:
    """Filled by install(), once."""
    installed: Optional[Installed] = None
    adapter: Optional[ctypes.CDLL] = None
    spill_bytes = 0  # that may leave the GPU
    kept: Any = None  # what PyTorch holds only a bare address of


ROOM_MAKER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_ulonglong, ctypes.c_int)  # vramwise_torch.h


def bound_adapter(path: str) -> ctypes.CDLL:
    """Loads the adapter and says what its functions take (vramwise_torch.h)."""
    library = ctypes.CDLL(path)
    library.vramwise_torch_compiled_for.restype = ctypes.c_char_p
    library.vramwise_torch_compiled_for.argtypes = []
    library.vramwise_torch_install.restype = ctypes.c_int
    library.vramwise_torch_install.argtypes = [ctypes.c_char_p, ctypes.c_uint, ctypes.c_ulonglong,
                                               ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    library.vramwise_torch_has_settings_hook.restype = ctypes.c_int
    library.vramwise_torch_has_settings_hook.argtypes = []
    library.vramwise_torch_configure.restype = ctypes.c_int
    library.vramwise_torch_configure.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    library.vramwise_torch_advise.restype = ctypes.c_ulonglong
    library.vramwise_torch_advise.argtypes = [ctypes.POINTER(ctypes.c_ulonglong), ctypes.c_size_t,
                                              ctypes.c_int]
    library.vramwise_torch_mark_step.restype = ctypes.c_int
    library.vramwise_torch_mark_step.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    identity = ctypes.POINTER(ctypes.c_ulonglong)
    library.vramwise_torch_park.restype = ctypes.c_int
    library.vramwise_torch_park.argtypes = [identity, ctypes.c_char_p, ctypes.c_ulonglong, identity,
                                            ctypes.c_char_p, ctypes.c_size_t]
    library.vramwise_torch_wake.restype = ctypes.c_int
    library.vramwise_torch_wake.argtypes = [identity, identity, ctypes.c_char_p, ctypes.c_size_t]
    library.vramwise_torch_park_ahead.restype = ctypes.c_int
    library.vramwise_torch_park_ahead.argtypes = [ctypes.c_ulonglong, ctypes.c_char_p, ctypes.c_size_t]
    library.vramwise_torch_region.restype = ctypes.c_int
    library.vramwise_torch_region.argtypes = [identity, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p,
                                              ctypes.c_size_t]
    library.vramwise_torch_expect_profilers.restype = None
    library.vramwise_torch_expect_profilers.argtypes = [ctypes.c_int]
    library.vramwise_torch_stats.restype = ctypes.c_long
    library.vramwise_torch_stats.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]
    return library


def bound_stream(library: ctypes.CDLL, keeps_lock: bool) -> ctypes.CDLL:
    """The same adapter, with the functions for streamed state and saved tensors bound. `keeps_lock`: calls
    are made with Python's lock held."""
    size, number = ctypes.c_ulonglong, ctypes.c_int
    sizes = ctypes.POINTER(size)
    made = (ctypes.PyDLL if keeps_lock else ctypes.CDLL)(library._name)
    for name, result, arguments in (
            ("stream_start", number, [size, size, ROOM_MAKER, ctypes.c_void_p]), ("stream_stop", None, []),
            ("stream_add", size, [size, size]), ("stream_plan", size, [number, number]),
            ("stream_move", size, [size, size, number]), ("stream_wait", None, [size, size, number]),
            ("stream_move_all", None, [sizes, ctypes.c_size_t, number, size, sizes]),
            ("stream_away", size, [number]), ("stream_stage", None, [sizes, ctypes.c_size_t, size, sizes]),
            ("stream_use_staged", number, [size, size]), ("stream_unstage", number, [size, size]),
            ("stream_release", size, [number, number]),
            ("stream_next_need", number, [ctypes.POINTER(number), ctypes.POINTER(size), ctypes.POINTER(number)]),
            ("stream_answer", None, [number]), ("stream_pump", None, []),
            ("saved_keep", ctypes.c_longlong, [size]), ("saved_note", None, [number, size]),
            ("saved_fetch", ctypes.c_longlong, [number, size, size]), ("saved_fill", number, [number, size, size]),
            ("saved_release", None, [number, size]), ("saved_lacking", size, [number])):
        function = getattr(made, f"vramwise_torch_{name}")
        function.restype, function.argtypes = result, arguments
    return made


def support_library() -> ctypes.CDLL:
    """libvramwise-torch (vramwise_torch_support.h)."""
    library = _library.load("vramwise-torch")
    library.vramwise_plain_choose.restype = ctypes.c_bool
    library.vramwise_plain_choose.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    library.vramwise_launch_gate_remove.restype = ctypes.c_bool
    library.vramwise_launch_gate_remove.argtypes = []
    library.vramwise_launch_gate_come_late.restype = None
    library.vramwise_launch_gate_come_late.argtypes = [ctypes.c_bool]
    library.vramwise_get_launch_gate_state.restype = ctypes.c_int
    library.vramwise_get_launch_gate_state.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    library.vramwise_launch_gate_state_name.restype = ctypes.c_char_p
    library.vramwise_launch_gate_state_name.argtypes = [ctypes.c_int]
    for name in ("vramwise_safe_point_enter", "vramwise_safe_point_leave", "vramwise_end_holds"):
        getattr(library, name).restype = None
        getattr(library, name).argtypes = []
    return library


def launch_gate() -> Tuple[int, str]:
    """vramwise_launch_gate_state, and the same in words."""
    library = support_library()
    text = ctypes.create_string_buffer(512)
    state = library.vramwise_get_launch_gate_state(text, len(text))
    name, reason = (library.vramwise_launch_gate_state_name(state) or b"").decode(), text.value
    return state, name if name != "refused" else f"{name}: {reason.decode('utf-8', 'replace')}"
