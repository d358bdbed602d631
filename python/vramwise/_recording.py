"""_recording.py - a recording, and what can be learned from it.

Each method is one of the program's commands and returns what that prints with --json, as data; the
fields are documented in the command's manual page. The recording is read once, when it is loaded;
close() gives its memory back before the object goes.
"""
from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, Iterable, List, Optional, Tuple, Union

from . import _check, _diagnosis, _library, _plan
from ._diagnosis import Diagnosis
from ._library import VramwiseError, Size

_EMPTY_CACHE = {"recorded": 0, "never": 1, "step": 2, "phase": 3}


class Recording:
    """A recording that was loaded. `summary` holds what stats() says of the file, without the
    lists: encoding, versions, settings, devices with their peaks."""

    def __init__(self, handle: ctypes.c_void_p, name: Optional[str]) -> None:
        self._handle: Optional[ctypes.c_void_p] = handle
        self.name = name
        self.summary: Dict[str, Any] = self.stats(summary=False, most_usages=1)

    def _open_handle(self) -> ctypes.c_void_p:
        if self._handle is None:
            raise VramwiseError(f"the recording {self.name or 'in memory'} was closed")
        return self._handle

    @property
    def events(self) -> int:
        """The number of events, of all devices."""
        return sum(device["events"] for device in self.summary["devices"])

    @property
    def devices(self) -> Tuple[int, ...]:
        """The devices it describes; -1 is pinned host memory."""
        return tuple(device["device"] for device in self.summary["devices"])

    @property
    def conf(self) -> Optional[str]:
        """PYTORCH_CUDA_ALLOC_CONF; None: not recorded."""
        return self.summary["conf"]

    @property
    def warnings(self) -> Tuple[str, ...]:
        """What a reader should know: a cut ring, no stacks."""
        return tuple(self.summary["warnings"])

    def _busiest(self) -> Dict[str, Any]:
        return max(self.summary["devices"], key=lambda device: device["events"], default={})

    @property
    def peak_live_bytes(self) -> Optional[int]:
        """Of the device with the most events."""
        return (self._busiest().get("peak") or {}).get("live_bytes")

    @property
    def peak_reserved_bytes(self) -> Optional[int]:
        """Of the device with the most events; None without a trace."""
        return self._busiest().get("peak_reserved_bytes")

    def stats(self, *, torch_version: Optional[str] = None, summary: bool = True,
              most_usages: int = 0) -> Dict[str, Any]:
        """What is in it: `vramwise stats --json`. Without `summary` nothing is replayed;
        `most_usages` bounds the lists of users, 0 is all."""
        options = _library.StatsOptions(struct_size=ctypes.sizeof(_library.StatsOptions),
                                        torch_version=_library.encoded(torch_version),
                                        most_usages=most_usages, without_summary=not summary)
        result = _library.made_by("vw_recording_stats_make", self._open_handle(),
                                  ctypes.byref(options))
        return _library.report_data("vw_report_stats", "vw_recording_stats_free", result,
                                    file=self.name)

    def verify(self, *, torch_version: Optional[str] = None,
               expect: Union[None, str, "os.PathLike[str]"] = None) -> Dict[str, Any]:
        """Whether replay reproduces it event by event: `vramwise verify --json`."""
        options = _library.VerifyOptions(struct_size=ctypes.sizeof(_library.VerifyOptions),
                                         torch_version=_library.encoded(torch_version),
                                         expect_path=_library.encoded(expect))
        result = _library.made_by("vw_recording_verify", self._open_handle(), ctypes.byref(options))
        return _library.report_data("vw_report_verify", "vw_verify_result_free", result,
                                    file=self.name)

    def replay(self, policies: Union[None, str, Iterable[str]] = None, *,
               conf: Union[None, str, Iterable[str]] = None, card: Optional[Size] = None,
               smallest_card: bool = False, torch_version: Optional[str] = None,
               device: int = _library.BUSIEST_DEVICE, empty_cache: str = "recorded",
               empty_cache_every: int = 1, spill: Optional[Size] = None) -> Dict[str, Any]:
        """The same requests under other settings: `vramwise replay --json`.

        `policies`: "recorded", "native", "expandable", "vramwise", "vramwise:rescue",
        "vramwise:tight", one or several; `conf`: option strings, each one run more. Neither: the
        first four. `empty_cache`: "recorded", "never", "step" (every so many) or "phase". `spill`:
        so much host memory may live memory go to; only "vramwise..." can, which is then the default.
        """
        if empty_cache not in _EMPTY_CACHE:
            raise ValueError(f"empty_cache is one of {', '.join(_EMPTY_CACHE)}, "
                             f"not {empty_cache!r}")
        runs = [_library.ReplayRun(policy.encode(), None) for policy in _as_list(policies)]
        runs += [_library.ReplayRun(b"conf", string.encode()) for string in _as_list(conf)]
        table = (_library.ReplayRun * len(runs))(*runs) if runs else None
        options = _library.ReplayOptions(
            struct_size=ctypes.sizeof(_library.ReplayOptions), runs=table, run_count=len(runs),
            torch_version=_library.encoded(torch_version), device=device,
            card_bytes=_library.card_bytes(card), find_smallest_card=smallest_card,
            empty_cache=_EMPTY_CACHE[empty_cache], empty_cache_every=empty_cache_every,
            spill_bytes=_library.size_bytes(spill))
        result = _library.made_by("vw_recording_replay", self._open_handle(), ctypes.byref(options))
        return _library.report_data("vw_report_replay", "vw_replay_report_free", result,
                                    file=self.name)

    def tune(self, card: Size, *, torch_version: Optional[str] = None,
             device: int = _library.BUSIEST_DEVICE) -> Dict[str, Any]:
        """The setting that makes it fit, proved by replay: `vramwise tune --json`."""
        options = _library.TuneOptions(struct_size=ctypes.sizeof(_library.TuneOptions),
                                       card_bytes=_library.card_bytes(card),
                                       torch_version=_library.encoded(torch_version),
                                       device=device)
        result = _library.made_by("vw_recording_tune", self._open_handle(), ctypes.byref(options))
        return _library.report_data("vw_report_tune", "vw_tune_report_free", result,
                                    file=self.name)

    def diff(self, other: "Recording") -> Dict[str, Any]:
        """What grew from this one to the other, by line and kind: `vramwise diff --json`."""
        result = _library.made_by("vw_recordings_diff", self._open_handle(), other._open_handle())
        return _library.report_data("vw_report_diff", "vw_diff_report_free", result,
                                    file=self.name, other_file=other.name)

    def check(self, baseline: Union[str, "os.PathLike[str]"], *,
              max_growth: Optional[str] = None) -> Dict[str, Any]:
        """Whether memory has grown since the baseline: `vramwise check --json`. `max_growth` is as
        there: "2%", or "peak=0,allocations=1%"."""
        return _check.checked(self._open_handle(), self.name, baseline, max_growth)

    def write_baseline(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes what later recordings are compared with: `vramwise check --write-baseline`."""
        _check.write_baseline(self._open_handle(), path)

    def doctor(self, *, card: Optional[Size] = None,
               torch_version: Optional[str] = None) -> Diagnosis:
        """As vramwise.doctor() of the file."""
        options = _diagnosis.options(card, torch_version)
        result = _library.made_by("vw_doctor_recording", self._open_handle(), ctypes.byref(options))
        return _diagnosis.reported(result, self.name)

    def plan(self, batch_now: int, *, batch: Optional[int] = None,
             sequence_now: Optional[int] = None, sequence: Optional[int] = None,
             step: Optional[int] = None, card: Optional[Size] = None,
             device: int = _library.BUSIEST_DEVICE) -> Dict[str, Any]:
        """One recorded step at another batch and length: `vramwise plan --from FILE --json`.

        `batch_now` and `sequence_now` are those that were recorded; of images, pixels. `step` is
        the recorded step to go by, from 0; without it, the one with most alive."""
        scaling = _plan.scaling(batch_now, batch, sequence_now, sequence, step, card, device)
        result = _library.made_by("vw_plan_from_recording", self._open_handle(),
                                  ctypes.byref(scaling))
        return _library.report_data("vw_report_plan_scaled", "vw_plan_scaled_free", result,
                                    file=self.name)

    def close(self) -> None:
        """Gives its memory back; the summary stays. No other thread may be in a method."""
        if self._handle is not None:
            _library.analysis().vw_recording_close(self._handle)
            self._handle = None

    def __enter__(self) -> "Recording":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def __repr__(self) -> str:
        return f"<vramwise.Recording {self.name or 'in memory'}: {self.events} events>"


def _as_list(texts: Union[None, str, Iterable[str]]) -> List[str]:
    if texts is None:
        return []
    return [texts] if isinstance(texts, str) else list(texts)


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
          max_growth: Optional[str] = None) -> Dict[str, Any]:
    """Whether memory has grown since a baseline: `vramwise check --json`. `recording` is as for
    load(); ["worse"] is the answer."""
    with load(recording) as loaded:
        return loaded.check(baseline, max_growth=max_growth)
