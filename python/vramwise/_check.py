"""_check.py - a recording against a baseline."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Optional, Union

from . import _library
from ._results import Checked

Path = Union[str, "os.PathLike[str]"]


def _measured(recording: Any, like: Optional[ctypes.c_void_p]) -> ctypes.c_void_p:
    options = _library.BaselineOptions(struct_size=ctypes.sizeof(_library.BaselineOptions),
                                       like=like)
    return _library.made_by("vw_baseline_make", recording, ctypes.byref(options))


def _limits(max_growth: Optional[str]) -> _library.CheckLimits:
    analysis = _library.analysis()
    limits = _library.CheckLimits()
    analysis.vw_check_limits_init(ctypes.byref(limits))
    if max_growth is not None:
        try:
            _library.check(analysis.vw_check_limits_parse(_library.encoded(max_growth),
                                                          ctypes.byref(limits)))
        except _library.VramwiseError as error:
            raise ValueError(f"max_growth: {error}") from None
    return limits


def checked(recording: Any, name: Optional[str], baseline: Path,
            max_growth: Optional[str]) -> Checked:
    """The comparison."""
    free = _library.analysis().vw_baseline_free
    limits = _limits(max_growth)
    path = os.fspath(baseline)
    before = _library.made_from_file("vw_baseline_read", path)
    try:
        now = _measured(recording, before)
        try:
            report = _library.made_by("vw_baselines_compare", before, now, ctypes.byref(limits))
            return _library.result_of(Checked, "vw_report_check", "vw_check_report_free", report,
                                      file=name, other_file=path)
        finally:
            free(now)
    finally:
        free(before)


def write_baseline(recording: Any, path: Path) -> None:
    """Measures the recording, and writes its baseline."""
    baseline = _measured(recording, None)
    try:
        _library.check(_library.analysis().vw_baseline_write(baseline, _library.encoded(path)))
    finally:
        _library.analysis().vw_baseline_free(baseline)
