"""_jobs.py - the jobs that run on this machine, from their pages in shared memory (watch.h)."""
from __future__ import annotations

import ctypes
import functools
import os
from typing import Any, Dict, List, Optional, Union

from . import _library

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
                        ("devices", ctypes.POINTER(Device)), ("device_count", ctypes.c_size_t)]

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

    def job(self, job: Any, read_ns: int) -> Dict[str, Any]:
        """One, as data."""
        return {"state": _STATES[job.state], "process": job.process, "user": job.user,
                "started": job.started_us / 1e6,
                "rank": None if job.rank < 0 else job.rank,
                "local_rank": None if job.local_rank < 0 else job.local_rank,
                "world_size": job.world_size or None,
                **{name: _text(getattr(job, name))
                   for name in ("program", "allocator", "job", "run", "vramwise_version")},
                "page": os.fsdecode(job.path),
                "devices": [self.device(device, read_ns)
                            for device in job.devices[:job.device_count]]}


def _known(value: int) -> Optional[int]:
    return None if value == _UNKNOWN else value


def _text(value: bytes) -> Optional[str]:
    return value.decode("utf-8", "replace") or None


@functools.lru_cache(maxsize=1)
def _reader() -> _Reader:
    return _Reader()


def jobs(folder: Union[None, str, "os.PathLike[str]"] = None) -> List[Dict[str, Any]]:
    """The running jobs of this user on this machine, by process number; each as it was at one
    instant, as a dict of plain data. None is what is not known.

    A job has "process", "program", "allocator", "rank", "run" and so on, and "devices": each with
    the fields of live.h by their names ("live_bytes", "steps", "input_wait_nanoseconds"), "step_log"
    and "outlook", where its memory is heading. `folder`: where the pages are, if not in
    VRAMWISE_LIVE_DIR or /dev/shm. Reading takes nothing from a job. VramwiseError: there is no such
    folder.
    """
    reader = _reader()
    found = reader.pointer()
    _library.check(reader.library.vw_jobs_read(_library.encoded(folder), ctypes.byref(found)))
    try:
        read = found.contents
        return [reader.job(job, read.read_ns) for job in read.jobs[:read.job_count]]
    finally:
        reader.library.vw_jobs_free(found)
