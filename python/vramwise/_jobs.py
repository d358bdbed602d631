"""_jobs.py - the jobs that run on this machine, from their pages in shared memory (watch.h)."""
from __future__ import annotations

import ctypes
import functools
import os
from typing import Any, Dict, List, Optional, Tuple, Union

from . import _library, _pictures
from ._fields import Fields

_UNKNOWN = 2**64 - 1  # VW_LIVE_UNKNOWN
_TEXT = ctypes.c_char * 64  # VW_JOB_TEXT_BYTES
_STATES = ("running", "other-version", "busy")  # vw_job_state
_CONFIDENCES = ("low", "medium", "high")  # vw_confidence


class _Step(ctypes.Structure):
    """vw_job_step"""
    _fields_ = [("step", ctypes.c_uint64), ("at_ns", ctypes.c_uint64),
                ("live_bytes", ctypes.c_uint64), ("reserved_bytes", ctypes.c_uint64)]


class _Outlook(ctypes.Structure):
    """vw_job_outlook"""
    _fields_ = [("is_leak", ctypes.c_bool), ("confidence", ctypes.c_int),
                ("bytes_per_step", ctypes.c_double), ("last_step", ctypes.c_uint64),
                ("room_bytes", ctypes.c_uint64), ("full_at_step", ctypes.c_uint64)]


class LoggedStep(Fields):
    """A step, with what was held at its end."""
    step: int
    live_bytes: int
    reserved_bytes: int


class Outlook(Fields):
    """Where memory is heading, by the doctor's rule of growth; bytes_per_step is 0 without a leak."""
    is_leak: bool
    confidence: Optional[str]
    bytes_per_step: float
    last_step: Optional[int]
    room_bytes: Optional[int]
    full_at_step: Optional[int]


class JobDevice(Fields):
    """A GPU of a job: the fields of vramwise/live.h, and what follows from them."""
    index: int
    name: Optional[str]
    age_seconds: Optional[float]
    live_bytes: Optional[int]
    reserved_bytes: Optional[int]
    peak_live_bytes: Optional[int]
    peak_reserved_bytes: Optional[int]
    largest_free_block_bytes: Optional[int]
    limit_bytes: Optional[int]
    device_total_bytes: Optional[int]
    device_free_bytes: Optional[int]
    allocations: Optional[int]
    retries: Optional[int]
    out_of_memory: Optional[int]
    driver_calls: Optional[int]
    driver_nanoseconds: Optional[int]
    pinned_bytes: Optional[int]
    steps: Optional[int]
    step_nanoseconds: Optional[int]
    input_wait_nanoseconds: Optional[int]
    loader_workers: Optional[int]
    loader_pins: Optional[int]
    copied_bytes: Optional[int]
    spilled_bytes: Optional[int]
    spills: Optional[int]
    launch_gate: Optional[int]
    parked_bytes: Optional[int]
    step_log: Tuple[LoggedStep, ...]
    outlook: Outlook


class Job(Fields):
    """A running process, as it was at one instant."""
    state: str
    process: int
    user: int
    started: float
    rank: Optional[int]
    local_rank: Optional[int]
    world_size: Optional[int]
    program: Optional[str]
    allocator: Optional[str]
    job: Optional[str]
    run: Optional[str]
    vramwise_version: Optional[str]
    page: str
    devices: Tuple[JobDevice, ...]


class Jobs(List[Job]):
    """A list of jobs that shows itself: str() is a table, a notebook shows a picture."""

    def __str__(self) -> str:
        rows = [_HEADS, *(_row(job, device) for job in self for device in job.devices or (None,))]
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = ["  ".join(cell.rjust(width) if place in _NUMBERS else cell.ljust(width)
                           for place, (cell, width) in enumerate(zip(row, widths))).rstrip()
                 for row in rows]
        return "\n".join(lines) if self else "no jobs"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """IPython on a terminal shows the table, too."""
        printer.text(repr(self) if cycle else str(self))

    def _repr_html_(self) -> str:
        return _pictures.of_jobs(self)


_HEADS = ("process", "rank", "program", "GPU", "live", "reserved", "steps", "memory")
_NUMBERS = (0, 1, 3, 4, 5, 6)  # columns that are set to the right


def _row(job: Job, device: Optional[JobDevice]) -> Tuple[str, ...]:
    """Of the table; "-" is what is not known."""
    def shown(value: Optional[object]) -> str:
        return "-" if value is None else "".join(each if each.isprintable() else "?" for each in str(value))

    begin = (str(job.process), shown(job.rank), shown(job.program))
    if device is None:
        return (*begin, "-", "-", "-", "-", job.state if job.state != "running" else "")
    sizes = ("-" if count is None else _pictures.size(count)
             for count in (device.live_bytes, device.reserved_bytes))
    return (*begin, str(device.index), *sizes, shown(device.steps), trend_words(device))


def trend_words(device: JobDevice) -> str:
    """Where its memory is heading; "" where it does not grow."""
    outlook = device.outlook
    if not outlook.is_leak:
        return ""
    full = "" if outlook.full_at_step is None else f", full at step {outlook.full_at_step:,}"
    return f"grows by {_pictures.size(outlook.bytes_per_step)} a step{full}"


class _Reader:
    """The library's functions, and its structs, which are as long as its list of fields."""

    def __init__(self) -> None:
        core, self.library = _library.load("vramwise"), _library.analysis()
        core.vw_live_field_count.restype = ctypes.c_size_t
        core.vw_live_field_name.restype = ctypes.c_char_p
        core.vw_live_field_name.argtypes = [ctypes.c_size_t]
        count = core.vw_live_field_count()
        self.fields = [core.vw_live_field_name(place).decode() for place in range(count)]

        class Device(ctypes.Structure):
            """vw_job_device"""
            _fields_ = [("index", ctypes.c_int), ("name", _TEXT), ("updated_ns", ctypes.c_uint64),
                        ("values", ctypes.c_uint64 * count), ("steps", ctypes.POINTER(_Step)),
                        ("step_count", ctypes.c_size_t)]

        class Job(ctypes.Structure):
            """vw_job"""
            _fields_ = [("state", ctypes.c_int), ("process", ctypes.c_long),
                        ("user", ctypes.c_ulong), ("started_us", ctypes.c_uint64),
                        ("rank", ctypes.c_int), ("local_rank", ctypes.c_int),
                        ("world_size", ctypes.c_int), ("program", _TEXT), ("allocator", _TEXT),
                        ("job", _TEXT), ("run", _TEXT), ("vramwise_version", _TEXT),
                        ("page_version", ctypes.c_uint64), ("path", ctypes.c_char_p),
                        ("devices", ctypes.POINTER(Device)), ("device_count", ctypes.c_size_t),
                        ("container", ctypes.c_void_p)]

        class Jobs(ctypes.Structure):
            """vw_jobs"""
            _fields_ = [("read_ns", ctypes.c_uint64), ("jobs", ctypes.POINTER(Job)),
                        ("job_count", ctypes.c_size_t), ("stale_count", ctypes.c_size_t),
                        ("refused_count", ctypes.c_size_t)]

        pointer = ctypes.POINTER(Jobs)
        self.library.vw_jobs_read.argtypes = [ctypes.c_char_p, ctypes.POINTER(pointer)]
        self.library.vw_jobs_free.restype = None
        self.library.vw_jobs_free.argtypes = [pointer]
        self.library.vw_job_outlook_find.argtypes = [ctypes.POINTER(Device),
                                                     ctypes.POINTER(_Outlook)]
        self.pointer = pointer
        self.device_type = Device

    def outlook(self, device: Any) -> Dict[str, Any]:
        """Where a device's memory is heading."""
        found = _Outlook()
        _library.check(self.library.vw_job_outlook_find(ctypes.byref(device), ctypes.byref(found)))
        return {"is_leak": found.is_leak,
                "confidence": _CONFIDENCES[found.confidence] if found.is_leak else None,
                "bytes_per_step": found.bytes_per_step, "last_step": found.last_step or None,
                "room_bytes": _known(found.room_bytes),
                "full_at_step": _known(found.full_at_step)}

    def device(self, device: Any, read_ns: int) -> Dict[str, Any]:
        """One of a job."""
        values = {name: _known(value) for name, value in zip(self.fields, device.values)}
        steps = [{"step": step.step, "live_bytes": step.live_bytes,
                  "reserved_bytes": step.reserved_bytes}
                 for step in device.steps[:device.step_count]]
        return {"index": device.index, "name": _text(device.name),
                "age_seconds": max(read_ns - device.updated_ns, 0) / 1e9
                if device.updated_ns else None,
                **values, "step_log": steps, "outlook": self.outlook(device)}

    def job(self, job: Any, read_ns: int) -> Job:
        """One, as data."""
        return Job({"state": _STATES[job.state], "process": job.process, "user": job.user,
                "started": job.started_us / 1e6,
                "rank": None if job.rank < 0 else job.rank,
                "local_rank": None if job.local_rank < 0 else job.local_rank,
                "world_size": job.world_size or None,
                **{name: _text(getattr(job, name))
                   for name in ("program", "allocator", "job", "run", "vramwise_version")},
                "page": os.fsdecode(job.path),
                "devices": [self.device(device, read_ns)
                            for device in job.devices[:job.device_count]]})


def _known(value: int) -> Optional[int]:
    return None if value == _UNKNOWN else value


def _text(value: bytes) -> Optional[str]:
    return value.decode("utf-8", "replace") or None


@functools.lru_cache(maxsize=1)
def _reader() -> _Reader:
    return _Reader()


def outlook_of(log: List[Tuple[int, int, int]], **values: int) -> Outlook:
    """Where memory is heading, by a log of (step, live bytes, reserved bytes); `values` are fields of
    live.h by their names."""
    reader = _reader()
    steps = (_Step * len(log))(*[_Step(step, 0, live, reserved) for step, live, reserved in log])
    device = reader.device_type(steps=steps, step_count=len(log))
    for place, name in enumerate(reader.fields):
        device.values[place] = values.get(name, _UNKNOWN)
    return Outlook(reader.outlook(device))


def jobs(folder: Union[None, str, "os.PathLike[str]"] = None) -> Jobs:
    """The running jobs of this user on this machine, by process number; each as it was at one
    instant. None is what is not known. The list shows itself as a table, in a notebook as a picture.

    A job has `process`, `program`, `allocator`, `rank`, `run` and so on, and `devices`: each with
    the fields of live.h by their names (`live_bytes`, `steps`, `input_wait_nanoseconds`), `step_log`
    and `outlook`, where its memory is heading. `folder`: where the pages are, if not in
    VRAMWISE_LIVE_DIR, or /run/vramwise and /dev/shm. Reading takes nothing from a job. VramwiseError: there is no such
    folder.
    """
    reader = _reader()
    found = reader.pointer()
    _library.check(reader.library.vw_jobs_read(_library.encoded(folder), ctypes.byref(found)))
    try:
        read = found.contents
        return Jobs(reader.job(job, read.read_ns) for job in read.jobs[:read.job_count])
    finally:
        reader.library.vw_jobs_free(found)
