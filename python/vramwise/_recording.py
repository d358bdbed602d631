"""_recording.py - a recording, and what can be learned from it.

Each method is one of the program's commands, and returns what that finds as an object: its fields are
those of --json, documented in the command's manual page, and its str() is the report. The
recording is read once, when it is loaded; close() gives its memory back before the object goes.
"""
from __future__ import annotations

import ctypes
import os
from typing import Any, Iterable, List, Optional, Tuple, Union

from . import _check, _diagnosis, _library, _plan
from ._diagnosis import Diagnosis
from ._library import Size, VramwiseError
from ._names import renamed
from ._results import Checked, DeviceStats, Diff, Replayed, ScaledPlan, Stats, Tuned, Verified

_EMPTY_CACHE = {"recorded": 0, "never": 1, "step": 2, "phase": 3}


class _Handle:
    """The library's recording. A method holds it in a variable until it returns, as results point into it: close() in
    another thread frees it when all have returned."""
    __slots__ = ("_as_parameter_", "_close")

    def __init__(self, handle: ctypes.c_void_p) -> None:
        self._as_parameter_, self._close = handle, _library.analysis().vw_recording_close

    def __del__(self) -> None:
        self._close(self._as_parameter_)


class Recording:
    """A recording that was loaded. `summary` is what stats() says of the file, with the ten largest
    users and without memory_summary(): encoding, versions, settings, devices with their peaks."""

    def __init__(self, handle: ctypes.c_void_p, name: Optional[str]) -> None:
        self._handle: Optional[_Handle] = _Handle(handle)
        self.name = name
        self.summary: Stats = self.stats(summary=False, most_usages=10)

    def _open_handle(self) -> Any:
        handle = self._handle
        if handle is None:
            raise VramwiseError(f"the recording {self.name or 'in memory'} was closed")
        return handle

    @property
    def events(self) -> int:
        """The number of events, of all devices."""
        return sum(device.events for device in self.summary.devices)

    @property
    def devices(self) -> Tuple[int, ...]:
        """The devices it describes; -1 is pinned host memory."""
        return tuple(device.device for device in self.summary.devices)

    @property
    def conf(self) -> Optional[str]:
        """PYTORCH_CUDA_ALLOC_CONF; None: not recorded."""
        return self.summary.conf

    @property
    def warnings(self) -> Tuple[str, ...]:
        """What a reader should know: a cut ring, no stacks."""
        return self.summary.warnings

    def _busiest(self) -> Optional[DeviceStats]:
        devices = self.summary.devices
        return max(devices, key=lambda device: device.events) if devices else None

    @property
    def peak_live_bytes(self) -> Optional[int]:
        """Of the device with the most events."""
        device = self._busiest()
        return None if device is None or device.peak is None else device.peak.live_bytes

    @property
    def peak_reserved_bytes(self) -> Optional[int]:
        """Of the device with the most events; None without a trace."""
        device = self._busiest()
        return None if device is None else device.peak_reserved_bytes

    @renamed(torch_version="torch")
    def stats(self, *, torch: Optional[str] = None, summary: bool = True,
              most_usages: int = 0) -> Stats:
        """What is in it: `vramwise stats --json`. Without `summary` nothing is replayed;
        `most_usages` bounds the lists of users, 0 is all."""
        handle = self._open_handle()
        options = _library.StatsOptions(struct_size=ctypes.sizeof(_library.StatsOptions),
                                        torch_version=_library.encoded(torch),
                                        most_usages=most_usages, without_summary=not summary)
        result = _library.made_by("vw_recording_stats_make", handle, ctypes.byref(options))
        return _library.result_of(Stats, "vw_report_stats", "vw_recording_stats_free", result,
                                  file=self.name)

    @renamed(torch_version="torch")
    def verify(self, *, torch: Optional[str] = None,
               expect: Union[None, str, "os.PathLike[str]"] = None) -> Verified:
        """Whether replay reproduces it event by event: `vramwise verify --json`."""
        handle = self._open_handle()
        options = _library.VerifyOptions(struct_size=ctypes.sizeof(_library.VerifyOptions),
                                         torch_version=_library.encoded(torch),
                                         expect_path=_library.encoded(expect))
        result = _library.made_by("vw_recording_verify", handle, ctypes.byref(options))
        return _library.result_of(Verified, "vw_report_verify", "vw_verify_result_free", result,
                                  file=self.name)

    @renamed(policies="policy", torch_version="torch")
    def replay(self, policy: Union[None, str, Iterable[str]] = None, *,
               conf: Union[None, str, Iterable[str]] = None, card: Optional[Size] = None,
               smallest_card: bool = False, torch: Optional[str] = None,
               device: int = _library.BUSIEST_DEVICE, empty_cache: Union[str, int] = "recorded",
               spill: Optional[Size] = None, stream: bool = False) -> Replayed:
        """The same requests under other settings: `vramwise replay --json`.

        `policy`: "recorded", "native", "expandable", "vramwise", "vramwise:rescue",
        "vramwise:tight", one or several; `conf`: option strings, each one run more. Neither: the
        first four. `empty_cache`: as "recorded", "never", at every "step" or "phase", or a number: at
        every so-many-th step. `spill`: so much host memory may live memory go to; only "vramwise..."
        can, which is then the default. `stream`: with `spill`, data leaves and returns beside the
        computation.
        """
        if stream and spill is None:
            raise ValueError("stream=True needs spill=SIZE: the host memory that data may go to")
        handle = self._open_handle()
        when, every = _empty_cache_of(empty_cache)
        runs = [_library.ReplayRun(_library.encoded(name), None) for name in _as_list(policy)]
        runs += [_library.ReplayRun(b"conf", _library.encoded(string)) for string in _as_list(conf)]
        table = (_library.ReplayRun * len(runs))(*runs) if runs else None
        options = _library.ReplayOptions(
            struct_size=ctypes.sizeof(_library.ReplayOptions), runs=table, run_count=len(runs),
            torch_version=_library.encoded(torch), device=_library.device_index(device),
            card_bytes=_library.card_bytes(card), find_smallest_card=smallest_card,
            empty_cache=when, empty_cache_every=every,
            spill_bytes=_library.memory_bytes("spill", spill), stream=stream)
        result = _library.made_by("vw_recording_replay", handle, ctypes.byref(options))
        return _library.result_of(Replayed, "vw_report_replay", "vw_replay_report_free", result,
                                  file=self.name)

    @renamed(torch_version="torch")
    def tune(self, card: Size, *, torch: Optional[str] = None,
             device: int = _library.BUSIEST_DEVICE) -> Tuned:
        """The setting that makes it fit, proved by replay: `vramwise tune --json`."""
        handle = self._open_handle()
        card_bytes, card_name = _library.card_read(card)
        options = _library.TuneOptions(struct_size=ctypes.sizeof(_library.TuneOptions),
                                       card_bytes=card_bytes, torch_version=_library.encoded(torch),
                                       device=_library.device_index(device), is_whole_card=card_name is not None,
                                       context_bytes=_library.analysis().vw_plan_card_context_bytes())
        result = _library.made_by("vw_recording_tune", handle, ctypes.byref(options))
        return _library.result_of(Tuned, "vw_report_tune", "vw_tune_report_free", result,
                                  file=self.name)

    def diff(self, other: Union["Recording", str, "os.PathLike[str]"]) -> Diff:
        """What grew from this one to the other, by line and kind: `vramwise diff --json`. `other` is
        a recording, or the path of one."""
        if not isinstance(other, Recording):
            with load(other) as loaded:
                return self.diff(loaded)
        handle, its_handle = self._open_handle(), other._open_handle()
        result = _library.made_by("vw_recordings_diff", handle, its_handle)
        return _library.result_of(Diff, "vw_report_diff", "vw_diff_report_free", result,
                                  file=self.name, other_file=other.name)

    def check(self, baseline: Union[str, "os.PathLike[str]"], *,
              max_growth: Optional[str] = None) -> Checked:
        """Whether memory has grown since the baseline: `vramwise check --json`. `max_growth` is as
        there: "2%", or "peak=0,allocations=1%"."""
        return _check.checked(self._open_handle(), self.name, baseline, max_growth)

    def write_baseline(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes what later recordings are compared with: `vramwise check --write-baseline`."""
        _check.write_baseline(self._open_handle(), path)

    @renamed(torch_version="torch")
    def doctor(self, *, card: Optional[Size] = None, torch: Optional[str] = None) -> Diagnosis:
        """As vramwise.doctor() of the file."""
        handle = self._open_handle()
        options = _diagnosis.options(card, torch)
        result = _library.made_by("vw_doctor_recording", handle, ctypes.byref(options))
        return _diagnosis.reported(result, self.name)

    @renamed(sequence_now="seq_now", sequence="seq")
    def plan(self, batch_now: Optional[int], *, batch: Optional[int] = None,
             seq_now: Optional[int] = None, seq: Optional[int] = None,
             step: Optional[int] = None, card: Optional[Size] = None,
             device: int = _library.BUSIEST_DEVICE) -> ScaledPlan:
        """One recorded step at another batch and length: `vramwise plan --from FILE --json`.

        `batch_now` and `seq_now` are those that were recorded; of images, pixels. `step` is
        the recorded step to go by, from 0; without it, the one with most alive."""
        handle = self._open_handle()
        scaling = _plan.scaling(batch_now, batch, seq_now, seq, step, card, device)
        result = _library.made_by("vw_plan_from_recording", handle, ctypes.byref(scaling))
        return _library.result_of(ScaledPlan, "vw_report_plan_scaled", "vw_plan_scaled_free",
                                  result, file=self.name)

    def close(self) -> None:
        """Gives its memory back; the summary stays. What other threads are doing with it ends first."""
        self._handle = None

    def __enter__(self) -> "Recording":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __str__(self) -> str:
        return str(self.summary)

    def _repr_html_(self) -> str:
        return self.summary._repr_html_()

    def __repr__(self) -> str:
        return f"<vramwise.Recording {self.name or 'in memory'}: {self.events} events>"


def _as_list(texts: Union[None, str, Iterable[str]]) -> List[str]:
    if texts is None:
        return []
    return [texts] if isinstance(texts, str) else list(texts)


def _empty_cache_of(given: Union[str, int]) -> Tuple[int, int]:
    """vw_empty_cache, and every how many steps."""
    if isinstance(given, int) and not isinstance(given, bool) and 0 < given < 2**63:
        return _EMPTY_CACHE["step"], given
    if given not in _EMPTY_CACHE:
        raise ValueError(f"empty_cache is one of {', '.join(_EMPTY_CACHE)}, or a number of steps, "
                         f"not {given!r}")
    return _EMPTY_CACHE[str(given)], 1


def load(path: Union[str, bytes, "os.PathLike[str]"]) -> Recording:
    """Reads a recording: PyTorch's memory snapshot of any version, pickled or JSON, plain or
    compressed. Bytes are the recording itself. It is never executed."""
    if isinstance(path, (bytes, bytearray)):
        handle = _library.made_by("vw_recording_open_memory", bytes(path), len(path), None)
        return Recording(handle, None)
    name = os.fspath(path)
    return Recording(_library.made_from_file("vw_recording_open", name, None), name)


def check(recording: Union[str, bytes, "os.PathLike[str]"],
          baseline: Union[str, "os.PathLike[str]"], *,
          max_growth: Optional[str] = None) -> Checked:
    """Whether memory has grown since a baseline: `vramwise check --json`. `recording` is as for
    load(); `worse` is the answer."""
    with load(recording) as loaded:
        return loaded.check(baseline, max_growth=max_growth)
