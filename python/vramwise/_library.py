"""_library.py - the C libraries, as Python sees them.

Loaded at the first use and not at import: a process that only imports the package pays nothing. What
the libraries find comes back as the JSON that report.h writes, so that no struct of results has to be
described here a second time; only options are structs.
"""
from __future__ import annotations

import ctypes
import json
import os
import threading
from typing import Any, Dict, List, Optional, Tuple, Type, TypeVar, Union

from . import _paths
from ._fields import Result

_Result = TypeVar("_Result", bound=Result)

Size = Union[int, str]


class VramwiseError(RuntimeError):
    """Something could not be done; the text says what was expected and what was found. `status` is
    the name of the library's status ("VW_ERR_CORRUPT_FILE"), or None where it was not the library
    that failed."""

    def __init__(self, message: str, status: Optional[str] = None) -> None:
        super().__init__(message)
        self.status = status


VramwiseError.__module__ = "vramwise"  # where people find it


def is_disabled() -> bool:
    """VRAMWISE_DISABLE switches everything off, unless it is empty or 0. The library has the same
    rule; one that is not wanted is not loaded to ask it."""
    return os.environ.get("VRAMWISE_DISABLE", "") not in ("", "0")


_WRITE = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class _Output(ctypes.Structure):
    _fields_ = [("context", ctypes.c_void_p), ("write", _WRITE)]


class _ReportForm(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("is_json", ctypes.c_bool),
                ("has_colour", ctypes.c_bool), ("has_utf8", ctypes.c_bool),
                ("width_columns", ctypes.c_uint), ("most_rows", ctypes.c_size_t),
                ("has_stacks", ctypes.c_bool), ("file", ctypes.c_char_p),
                ("other_file", ctypes.c_char_p), ("most_lines", ctypes.c_size_t),
                ("rest", ctypes.c_char_p)]


class DoctorOptions(ctypes.Structure):
    """vw_doctor_options"""
    _fields_ = [("struct_size", ctypes.c_size_t), ("card_bytes", ctypes.c_uint64),
                ("torch_version", ctypes.c_char_p), ("progress", ctypes.c_void_p),
                ("progress_context", ctypes.c_void_p)]


class StatsOptions(ctypes.Structure):
    """vw_stats_options"""
    _fields_ = [("struct_size", ctypes.c_size_t), ("torch_version", ctypes.c_char_p),
                ("most_usages", ctypes.c_size_t), ("without_summary", ctypes.c_bool)]


class VerifyOptions(ctypes.Structure):
    """vw_verify_options"""
    _fields_ = [("struct_size", ctypes.c_size_t), ("torch_version", ctypes.c_char_p),
                ("expect_path", ctypes.c_char_p), ("progress", ctypes.c_void_p),
                ("progress_context", ctypes.c_void_p)]


class ReplayRun(ctypes.Structure):
    """vw_replay_run"""
    _fields_ = [("policy", ctypes.c_char_p), ("conf", ctypes.c_char_p)]


class ReplayOptions(ctypes.Structure):
    """vw_replay_options"""
    _fields_ = [("struct_size", ctypes.c_size_t), ("runs", ctypes.POINTER(ReplayRun)),
                ("run_count", ctypes.c_size_t), ("torch_version", ctypes.c_char_p),
                ("device", ctypes.c_int), ("card_bytes", ctypes.c_uint64),
                ("find_smallest_card", ctypes.c_bool), ("empty_cache", ctypes.c_int),
                ("empty_cache_every", ctypes.c_uint64), ("progress", ctypes.c_void_p),
                ("progress_context", ctypes.c_void_p), ("spill_bytes", ctypes.c_uint64),
                ("stream", ctypes.c_bool)]


class TuneOptions(ctypes.Structure):
    """vw_tune_options"""
    _fields_ = [("struct_size", ctypes.c_size_t), ("card_bytes", ctypes.c_uint64),
                ("torch_version", ctypes.c_char_p), ("device", ctypes.c_int),
                ("progress", ctypes.c_void_p), ("progress_context", ctypes.c_void_p),
                ("context_bytes", ctypes.c_uint64), ("is_whole_card", ctypes.c_bool)]


class BaselineOptions(ctypes.Structure):
    """vw_baseline_options"""
    _fields_ = [("struct_size", ctypes.c_size_t), ("like", ctypes.c_void_p),
                ("progress", ctypes.c_void_p), ("progress_context", ctypes.c_void_p)]


class CheckLimits(ctypes.Structure):
    """vw_check_limits"""
    _fields_ = [("struct_size", ctypes.c_size_t), ("max_growth", ctypes.c_double * 5)]


class PlanSettings(ctypes.Structure):
    """vw_plan_settings"""
    _fields_ = [("struct_size", ctypes.c_size_t), ("mode", ctypes.c_int),
                ("batch", ctypes.c_uint64), ("sequence", ctypes.c_uint64),
                ("image", ctypes.c_uint64), ("accumulation", ctypes.c_uint64),
                ("generate", ctypes.c_uint64), ("without_loss", ctypes.c_bool),
                ("precision", ctypes.c_int),
                ("has_master_weights", ctypes.c_bool), ("optimizer", ctypes.c_int),
                ("offload", ctypes.c_int), ("checkpointing", ctypes.c_int),
                ("checkpoint_every", ctypes.c_uint64), ("attention", ctypes.c_int),
                ("loss_chunks", ctypes.c_uint64), ("lora_rank", ctypes.c_uint64),
                ("is_quantized", ctypes.c_bool), ("gpus", ctypes.c_uint64),
                ("sharding", ctypes.c_int), ("card_bytes", ctypes.c_uint64),
                ("card_name", ctypes.c_char_p), ("head", ctypes.c_int),
                ("kv_dtype", ctypes.c_int), ("has_static_cache", ctypes.c_bool),
                ("lora_targets", ctypes.c_char_p), ("has_fused_loss", ctypes.c_bool),
                ("padding", ctypes.c_uint64)]


class PlanOptions(ctypes.Structure):
    """vw_plan_options"""
    _fields_ = [("struct_size", ctypes.c_size_t), ("without_replay", ctypes.c_bool),
                ("without_choices", ctypes.c_bool)]


class PlanScaling(ctypes.Structure):
    """vw_plan_scaling"""
    _fields_ = [("struct_size", ctypes.c_size_t), ("batch_now", ctypes.c_uint64),
                ("batch", ctypes.c_uint64), ("sequence_now", ctypes.c_uint64),
                ("sequence", ctypes.c_uint64), ("step", ctypes.c_uint64),
                ("card_bytes", ctypes.c_uint64), ("device", ctypes.c_int)]


class PlanCard(ctypes.Structure):
    """vw_plan_card_info"""
    _fields_ = [("name", ctypes.c_char_p), ("total_bytes", ctypes.c_uint64),
                ("has_large_workspace", ctypes.c_bool), ("compute_capability", ctypes.c_uint)]


BUSIEST_DEVICE = -2

_P = ctypes.c_void_p
_OUT = ctypes.POINTER(ctypes.c_void_p)
_REPORT = [_P, ctypes.POINTER(_ReportForm), ctypes.POINTER(_Output)]
_SIGNATURES: Dict[str, Tuple[Any, ...]] = {
    "vw_recording_open": (ctypes.c_int, [ctypes.c_char_p, _P, _OUT]),
    "vw_recording_open_memory": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_size_t, _P, _OUT]),
    "vw_recording_close": (None, [_P]),
    "vw_recording_stats_make": (ctypes.c_int, [_P, ctypes.POINTER(StatsOptions), _OUT]),
    "vw_recording_stats_free": (None, [_P]),
    "vw_recording_verify": (ctypes.c_int, [_P, ctypes.POINTER(VerifyOptions), _OUT]),
    "vw_verify_result_free": (None, [_P]),
    "vw_recording_replay": (ctypes.c_int, [_P, ctypes.POINTER(ReplayOptions), _OUT]),
    "vw_replay_report_free": (None, [_P]),
    "vw_recording_tune": (ctypes.c_int, [_P, ctypes.POINTER(TuneOptions), _OUT]),
    "vw_tune_report_free": (None, [_P]),
    "vw_recordings_diff": (ctypes.c_int, [_P, _P, _OUT]),
    "vw_diff_report_free": (None, [_P]),
    "vw_baseline_make": (ctypes.c_int, [_P, ctypes.POINTER(BaselineOptions), _OUT]),
    "vw_baseline_read": (ctypes.c_int, [ctypes.c_char_p, _OUT]),
    "vw_baseline_write": (ctypes.c_int, [_P, ctypes.c_char_p]),
    "vw_baseline_free": (None, [_P]),
    "vw_check_limits_init": (None, [ctypes.POINTER(CheckLimits)]),
    "vw_check_limits_parse": (ctypes.c_int, [ctypes.c_char_p, ctypes.POINTER(CheckLimits)]),
    "vw_baselines_compare": (ctypes.c_int, [_P, _P, ctypes.POINTER(CheckLimits), _OUT]),
    "vw_check_report_free": (None, [_P]),
    "vw_report_check": (ctypes.c_int, _REPORT),
    "vw_doctor_file": (ctypes.c_int, [ctypes.c_char_p, ctypes.POINTER(DoctorOptions), _OUT]),
    "vw_doctor_text": (ctypes.c_int,
                       [ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(DoctorOptions), _OUT]),
    "vw_doctor_recording": (ctypes.c_int, [_P, ctypes.POINTER(DoctorOptions), _OUT]),
    "vw_diagnosis_free": (None, [_P]),
    "vw_plan_settings_init": (None, [ctypes.POINTER(PlanSettings)]),
    "vw_plan_card_context_bytes": (ctypes.c_uint64, []),
    "vw_plan_card_read": (ctypes.c_int, [ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64),
                                         ctypes.POINTER(ctypes.POINTER(PlanCard))]),
    "vw_plan_model_open": (ctypes.c_int, [ctypes.c_char_p, _OUT]),
    "vw_plan_model_close": (None, [_P]),
    "vw_plan_make": (ctypes.c_int, [_P, ctypes.POINTER(PlanSettings),
                                    ctypes.POINTER(PlanOptions), _OUT]),
    "vw_plan_free": (None, [_P]),
    "vw_plan_scaling_init": (None, [ctypes.POINTER(PlanScaling)]),
    "vw_plan_from_recording": (ctypes.c_int, [_P, ctypes.POINTER(PlanScaling), _OUT]),
    "vw_plan_traced_open": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_char_p, _OUT]),
    "vw_plan_traced_close": (None, [_P]),
    "vw_plan_traced_write": (ctypes.c_int, [_P, ctypes.c_char_p]),
    "vw_plan_from_traced": (ctypes.c_int, [_P, ctypes.POINTER(PlanScaling), _OUT]),
    "vw_plan_scaled_free": (None, [_P]),
    "vw_report_plan_scaled": (ctypes.c_int, _REPORT),
    "vw_report_plan": (ctypes.c_int, _REPORT),
    "vw_report_plan_known": (ctypes.c_int, _REPORT[1:]),
    "vw_report_stats": (ctypes.c_int, _REPORT),
    "vw_report_verify": (ctypes.c_int, _REPORT),
    "vw_report_replay": (ctypes.c_int, _REPORT),
    "vw_report_tune": (ctypes.c_int, _REPORT),
    "vw_report_diff": (ctypes.c_int, _REPORT),
    "vw_report_doctor": (ctypes.c_int, _REPORT),
}
_CORE_SIGNATURES: Dict[str, Tuple[Any, ...]] = {
    "vw_last_error": (ctypes.c_char_p, []),
    "vw_status_name": (ctypes.c_char_p, [ctypes.c_int]),
    "vw_status_message": (ctypes.c_char_p, [ctypes.c_int]),
    "vw_format_size": (ctypes.c_char_p, [ctypes.c_uint64, ctypes.c_char_p]),
    "vw_parse_size": (ctypes.c_int, [ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64)]),
    "vw_parse_memory_size": (ctypes.c_int, [ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64)]),
    "vw_parse_size_or_share": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_uint64,
                                              ctypes.POINTER(ctypes.c_uint64)]),
}

_lock = threading.Lock()
_loaded: Dict[str, ctypes.CDLL] = {}


def load(name: str) -> ctypes.CDLL:
    """lib<name>.so, which stays loaded. libvramwise comes first: the others need it, and find it by
    its soname once it is there, wherever they lie."""
    if name != "vramwise":
        load("vramwise")
    with _lock:
        if name not in _loaded:
            path = _paths.library_file(name)
            if path is None:
                folders = ", ".join(str(folder) for folder in _paths.library_folders())
                hint = "; run make there first" if _paths.is_checkout() else ""
                raise VramwiseError(f"lib{name}.so of version {_paths.version()} is not in "
                                    f"{folders}{hint}")
            try:
                library = ctypes.CDLL(str(path))
            except OSError as error:
                raise VramwiseError(f"{path} cannot be loaded: {error}") from None
            signatures = {"vramwise": _CORE_SIGNATURES, "vramwise-analysis": _SIGNATURES}
            for function, (result, arguments) in signatures.get(name, {}).items():
                getattr(library, function).restype = result
                getattr(library, function).argtypes = arguments
            _loaded[name] = library
        return _loaded[name]


def analysis() -> ctypes.CDLL:
    """libvramwise-analysis."""
    return load("vramwise-analysis")


def _last_error() -> str:
    return load("vramwise").vw_last_error().decode("utf-8", "replace")


def check(status: int) -> None:
    """Raises what the library says about a status that is not VW_OK."""
    if status == 0:
        return
    core = load("vramwise")
    raise VramwiseError(_last_error() or core.vw_status_message(status).decode(),
                        core.vw_status_name(status).decode())


def made_by(function: str, *arguments: Any) -> ctypes.c_void_p:
    """What a function of the analysis library makes: its last argument is where it stores it."""
    out = ctypes.c_void_p()
    check(getattr(analysis(), function)(*arguments, ctypes.byref(out)))
    return out


def made_from_file(function: str, path: str, *arguments: Any, shown: Optional[str] = None
                   ) -> ctypes.c_void_p:
    """As made_by(), of a function that reads a file: what fails names it, as `shown`."""
    try:
        return made_by(function, encoded(path), *arguments)
    except VramwiseError as error:
        if str(error).startswith(f"{path}: "):
            raise
        raise VramwiseError(f"{shown or path}: {error}", error.status) from None


def size_bytes(size: Optional[Size]) -> int:
    """A size as people give it, 24 * 2**30 or "24GiB"; None is 0."""
    if size is None:
        return 0
    if isinstance(size, int) and not isinstance(size, bool) and 0 < size < 2**64:
        return size
    value = ctypes.c_uint64()
    if not isinstance(size, str) or \
            load("vramwise").vw_parse_size(size.encode(), ctypes.byref(value)) != 0 or \
            value.value == 0:
        raise ValueError(f"a size is a number of bytes or a text like '24GiB', not {size!r}")
    return value.value


def memory_bytes(name: str, size: Optional[Size]) -> int:
    """An amount of memory, refused where its unit seems forgotten, as the program does: "24" for
    "24GiB". None is 0."""
    if size is None:
        return 0
    value = ctypes.c_uint64()
    if isinstance(size, bool) or not isinstance(size, (int, str)):
        raise ValueError(f"{name}: expected a number of bytes or a text like '24GiB', not {size!r}")
    if load("vramwise").vw_parse_memory_size(encoded(str(size)), ctypes.byref(value)) != 0:
        raise ValueError(f"{name}: {_last_error()}")
    return value.value


def device_index(device: int) -> int:
    """A device's number, checked: C would take another one for a number that it has no room for."""
    if isinstance(device, bool) or not isinstance(device, int) or not -2**31 <= device < 2**31:
        raise ValueError(f"device is the number of a device, not {device!r}")
    return device


def size_or_share(size: Size) -> str:
    """A size, or a share such as "5%", checked and as the libraries read it; "" for none of it."""
    text = str(size) if isinstance(size, int) and not isinstance(size, bool) else size
    value = ctypes.c_uint64()
    if not isinstance(text, str) or load("vramwise").vw_parse_size_or_share(
            text.encode(), 2**64 - 1, ctypes.byref(value)) != 0:
        raise ValueError(f"a number of bytes, or a text like '2GiB' or '5%', was expected, not {size!r}")
    return text if value.value != 0 else ""


def card_read(card: Optional[Size]) -> Tuple[int, Optional[bytes]]:
    """A card by its size or its name ("rtx4090"): the bytes it has, and the name where it has one."""
    if not isinstance(card, str):
        return memory_bytes("card", card), None
    size, known = ctypes.c_uint64(), ctypes.POINTER(PlanCard)()
    if analysis().vw_plan_card_read(encoded(card), ctypes.byref(size), ctypes.byref(known)) != 0:
        raise ValueError(f"card: {_last_error()}")
    return size.value, known.contents.name if known else None


def card_bytes(card: Optional[Size]) -> int:
    """The bytes that a card has, by its size or its name; None is 0."""
    return card_read(card)[0]


def size_text(size: int) -> str:
    """A number of bytes for people: "13.40 GiB"."""
    room = ctypes.create_string_buffer(64)
    return load("vramwise").vw_format_size(size, room).decode()


def encoded(text: Union[None, str, "os.PathLike[str]"]) -> Optional[bytes]:
    """A text or a path as C takes it; None stays."""
    if text is None:
        return None
    given = os.fsencode(text)
    if b"\0" in given:
        raise ValueError(f"a zero byte in {text!r}")
    return given


def report(function: str, *subject: ctypes.c_void_p, is_json: bool, file: Optional[str] = None,
           other_file: Optional[str] = None, width_columns: int = 0, most_lines: int = 0,
           rest: Optional[str] = None) -> str:
    """The report on a result (or on none), as JSON or as text for people. `rest` names what shows
    the lines beyond `most_lines`, 0 being all."""
    pieces: List[bytes] = []

    def write(_context: Any, address: Any, length: int) -> bool:
        pieces.append(ctypes.string_at(address, length))
        return True

    output = _Output(None, _WRITE(write))
    form = _ReportForm(struct_size=ctypes.sizeof(_ReportForm), is_json=is_json, has_utf8=False,
                       width_columns=width_columns, file=encoded(file),
                       other_file=encoded(other_file), most_lines=most_lines,
                       rest=encoded(rest))
    check(getattr(analysis(), function)(*subject, ctypes.byref(form), ctypes.byref(output)))
    return b"".join(pieces).decode("utf-8", "replace")


def _data_in(text: str) -> Dict[str, Any]:
    data: Dict[str, Any] = json.loads(text)
    return data


def data_and_text(function: str, free: str, result: ctypes.c_void_p, *, short: Optional[int] = None,
                  **form: Any) -> Tuple[Dict[str, Any], str, str]:
    """The reports on a result, which is freed: as data, for people, and for people in `short`
    lines."""
    try:
        data = _data_in(report(function, result, is_json=True, **form))
        text = report(function, result, is_json=False, **form)
        few = text if short is None else report(function, result, is_json=False, most_lines=short,
                                                rest=".text", **form)
        return data, text, few
    finally:
        getattr(analysis(), free)(result)


def result_of(kind: Type[_Result], function: str, free: str, result: ctypes.c_void_p,
              **form: Any) -> _Result:
    """A result of the library's, which is freed, as an object."""
    data, text, _ = data_and_text(function, free, result, **form)
    return kind(data, text)


def listed(function: str) -> Dict[str, Any]:
    """The JSON report of a function that reports on nothing but the library itself."""
    return _data_in(report(function, is_json=True))
