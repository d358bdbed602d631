"""_diagnosis.py - the doctor, with its findings as data.

The classes mirror the JSON of `vramwise doctor --json`, field by field; what is not known is None.
str() of a diagnosis is the report people read, on one screen.
"""
from __future__ import annotations

import ctypes
import os
import re
from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple, Union

from . import _library
from ._library import Size


_SCREEN_LINES = 24


@dataclass(frozen=True)
class Remedy:
    """Something to do. Of a range, saves_bytes is the lower end. `enough`: whether it serves the failed
    request by itself; None where that is not known."""
    action: str
    saves_bytes: Optional[int]
    saves_at_most_bytes: Optional[int]
    basis: str
    enough: Optional[bool]
    cost: str
    how: str


@dataclass(frozen=True)
class Part:
    """Bytes with a name."""
    name: str
    bytes: int


@dataclass(frozen=True)
class Finding:
    """One conclusion, with its evidence and what to do about it."""
    kind: str
    title: str
    bytes: Optional[int]
    where: Tuple[str, ...]
    evidence: Tuple[str, ...]
    parts: Tuple[Part, ...]
    remedies: Tuple[Remedy, ...]


@dataclass(frozen=True)
class Numbers:
    """At the failure; of a run that did not fail, at its peak."""
    tried_bytes: Optional[int]
    total_bytes: Optional[int]
    free_bytes: Optional[int]
    allocated_bytes: Optional[int]
    reserved_bytes: Optional[int]
    process_bytes: Optional[int]
    allowed_bytes: Optional[int]
    device: Optional[int]


@dataclass(frozen=True)
class FailedAt:
    """The line of the program that failed. `code` is known from tracebacks only."""
    file: str
    line: Optional[int]
    function: Optional[str]
    code: Optional[str]
    phase: str


@dataclass(frozen=True)
class Diagnosis:
    """What the doctor found. `data` is the whole JSON object, `text` the report for people, and
    `short` the same on one screen of 24 lines, which is also its str()."""
    verdict: str
    confidence: str
    source: str
    sentence: str
    errors: int
    reasoning: Tuple[str, ...]
    numbers: Numbers
    findings: Tuple[Finding, ...]
    failed_at: Optional[FailedAt]
    data: Dict[str, Any]
    text: str
    short: str

    def __str__(self) -> str:
        return self.short


def _only_fields(kind: type, data: Dict[str, Any]) -> Dict[str, Any]:
    """Those entries of `data` that the class has: a newer library may say more."""
    return {name: data.get(name) for name in kind.__dataclass_fields__}  # type: ignore[attr-defined]


def _finding_from(data: Dict[str, Any]) -> Finding:
    fields = _only_fields(Finding, data)
    fields["where"] = tuple(data["where"])
    fields["evidence"] = tuple(data["evidence"])
    fields["parts"] = tuple(Part(**_only_fields(Part, part)) for part in data["parts"])
    fields["remedies"] = tuple(Remedy(**_only_fields(Remedy, remedy))
                               for remedy in data["remedies"])
    return Finding(**fields)


def diagnosis_from(data: Dict[str, Any], text: str, short: str) -> Diagnosis:
    """A diagnosis from the doctor's JSON object and its texts."""
    fields = _only_fields(Diagnosis, data)
    fields["reasoning"] = tuple(data["reasoning"])
    fields["numbers"] = Numbers(**_only_fields(Numbers, data["numbers"]))
    fields["findings"] = tuple(_finding_from(finding) for finding in data["findings"])
    place = data.get("failed_at")
    fields["failed_at"] = FailedAt(**_only_fields(FailedAt, place)) if place else None
    fields["data"] = data
    fields["text"] = text
    fields["short"] = short
    return Diagnosis(**fields)


def options(card: Optional[Size], torch_version: Optional[str]) -> _library.DoctorOptions:
    """vw_doctor_options."""
    return _library.DoctorOptions(struct_size=ctypes.sizeof(_library.DoctorOptions),
                                  card_bytes=_library.card_bytes(card),
                                  torch_version=_library.encoded(torch_version))


def reported(result: ctypes.c_void_p, file: Optional[str]) -> Diagnosis:
    """A diagnosis of the library's, which is freed."""
    try:
        text = _library.report("vw_report_doctor", result, is_json=False, file=file)
        short = _library.report("vw_report_doctor", result, is_json=False, file=file,
                                most_lines=_SCREEN_LINES, rest=".text")
    except BaseException:
        _library.analysis().vw_diagnosis_free(result)
        raise
    return diagnosis_from(
        _library.report_data("vw_report_doctor", "vw_diagnosis_free", result, file=file), text,
        short)


def examined(path: str, chosen: _library.DoctorOptions, shown: Optional[str]) -> Diagnosis:
    """The doctor on a file, which the report calls `shown`."""
    return reported(_library.made_from_file("vw_doctor_file", path, ctypes.byref(chosen),
                                            shown=shown), shown)


_FILE_NAME = re.compile(r"\.(pickle|pkl|json|jsonl|log|txt|out|err|gz|xz|zst)$")
_SAYS_AN_ERROR = re.compile(r"out of memory|Error: ", re.IGNORECASE)


def _is_file_name(text: str) -> bool:
    """Is a string the name of a file, or the error itself? An error has several lines, or at least
    several words; a name that does not exist is a name still, so that a typing error is told."""
    if "\n" in text or "\0" in text or not text.strip():
        return False
    if os.path.exists(text) or " " not in text:
        return True
    return _FILE_NAME.search(text) is not None and _SAYS_AN_ERROR.search(text) is None


def doctor(path_or_text: Union[str, bytes, "os.PathLike[str]"], *, card: Optional[Size] = None,
           torch_version: Optional[str] = None) -> Diagnosis:
    """Why memory ran out, and what gives it back.

    Takes the name of a file (a recording, a step log, any text with an error in it), or the text
    itself; a string of one word, or one that ends like a file's name, is taken for a name, and a
    Path always is. `card`: judge as if it were that one ("24GiB", bytes, or "rtx4090") and no limit.
    """
    chosen = options(card, torch_version)
    if isinstance(path_or_text, (str, os.PathLike)) and \
            (isinstance(path_or_text, os.PathLike) or _is_file_name(path_or_text)):
        name = os.fspath(path_or_text)
        return examined(name, chosen, name)
    text = path_or_text.encode("utf-8", "surrogateescape") if isinstance(path_or_text, str) \
        else bytes(path_or_text)
    result = _library.made_by("vw_doctor_text", text, len(text), ctypes.byref(chosen))
    return reported(result, None)
