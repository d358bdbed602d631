"""_diagnosis.py - the doctor, with its findings as data.

The classes list the fields of `vramwise doctor --json`; _fields.py says how they behave. str() of a
diagnosis is the report people read, on one screen.
"""
from __future__ import annotations

import ctypes
import os
import re
import sys
import traceback
from typing import Any, Dict, List, Optional, Tuple, Union

from . import _library, _pictures
from ._fields import Fields, Result
from ._library import Size
from ._names import renamed

_SCREEN_LINES = 24


class Remedy(Fields):
    """Something to do. Of a range, saves_bytes is the lower end. `enough`: whether it serves the failed
    request by itself; None where that is not known."""
    action: str
    saves_bytes: Optional[int]
    saves_at_most_bytes: Optional[int]
    basis: str
    enough: Optional[bool]
    cost: str
    how: str


class Part(Fields):
    """Bytes with a name."""
    name: str
    bytes: int


class Finding(Fields):
    """One conclusion, with its evidence and what to do about it."""
    kind: str
    title: str
    bytes: Optional[int]
    where: Tuple[str, ...]
    evidence: Tuple[str, ...]
    parts: Tuple[Part, ...]
    remedies: Tuple[Remedy, ...]


class Numbers(Fields):
    """At the failure; of a run that did not fail, at its peak."""
    tried_bytes: Optional[int]
    total_bytes: Optional[int]
    free_bytes: Optional[int]
    allocated_bytes: Optional[int]
    reserved_bytes: Optional[int]
    process_bytes: Optional[int]
    allowed_bytes: Optional[int]
    device: Optional[int]


class FailedAt(Fields):
    """The line of the program that failed. `code` is known from tracebacks only."""
    file: str
    line: Optional[int]
    function: Optional[str]
    code: Optional[str]
    phase: str


class Diagnosis(Result):
    """What the doctor found. `text` is the whole report for people, and `short` the same on one screen
    of 24 lines, which is also its str()."""
    schema: int
    file: Optional[str]
    verdict: str
    confidence: str
    source: str
    sentence: str
    errors: int
    reasoning: Tuple[str, ...]
    numbers: Numbers
    findings: Tuple[Finding, ...]
    failed_at: Optional[FailedAt]

    def __init__(self, data: Dict[str, Any], text: str, short: str) -> None:
        super().__init__(data, short)
        self._whole = text

    @property
    def text(self) -> str:
        """The whole report: `vramwise doctor --all`."""
        return self._whole

    @property
    def short(self) -> str:
        """The report on one screen."""
        return str(self)

    @property
    def data(self) -> Dict[str, Any]:
        """An earlier name of to_dict()."""
        return self.to_dict()

    def _picture(self) -> str:
        return _pictures.of_diagnosis(self)


def options(card: Optional[Size], torch: Optional[str]) -> _library.DoctorOptions:
    """vw_doctor_options."""
    return _library.DoctorOptions(struct_size=ctypes.sizeof(_library.DoctorOptions),
                                  card_bytes=_library.card_bytes(card),
                                  torch_version=_library.encoded(torch))


def reported(result: ctypes.c_void_p, file: Optional[str]) -> Diagnosis:
    """A diagnosis of the library's, which is freed."""
    return Diagnosis(*_library.data_and_text("vw_report_doctor", "vw_diagnosis_free", result,
                                             short=_SCREEN_LINES, file=file))


def examined(path: str, chosen: _library.DoctorOptions, shown: Optional[str]) -> Diagnosis:
    """The doctor on a file, which the report calls `shown`."""
    return reported(_library.made_from_file("vw_doctor_file", path, ctypes.byref(chosen),
                                            shown=shown), shown)


_FILE_NAME = re.compile(r"\.(pickle|pkl|json|jsonl|log|txt|out|err|gz|xz|zst)$")
_SAYS_AN_ERROR = re.compile(r"out of memory|Error: ", re.IGNORECASE)


def _is_file_name(text: str) -> bool:
    """Is a string the name of a file, or the error itself? An error has several lines, or at least
    several words. A name that does not exist is still a name, so that a typing error is reported."""
    if "\n" in text or "\0" in text or not text.strip():
        return False
    if os.path.exists(text) or " " not in text:
        return True
    return _FILE_NAME.search(text) is not None and _SAYS_AN_ERROR.search(text) is None


def _words_of(error: BaseException) -> str:
    """As Python prints it, without lines of the program that quote an error themselves."""
    told = traceback.TracebackException.from_exception(error)
    waiting: List[Optional[traceback.TracebackException]] = [told]
    while waiting:
        one = waiting.pop()
        if one is not None:
            one.stack = traceback.StackSummary.from_list(
                [(place.filename, place.lineno or 0, place.name,
                  "" if _SAYS_AN_ERROR.search(place.line or "") else place.line) for place in one.stack])
            waiting += [one.__cause__, one.__context__]
    return "".join(told.format())


def _last_error() -> BaseException:
    """The error that the last line of an interactive session, or cell of a notebook, ended with."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if not isinstance(error, BaseException):
        raise ValueError("expected a file, a text or an exception: no error has been shown in this "
                         "session")
    return error


@renamed(path_or_text="error", torch_version="torch")
def doctor(error: Union[None, str, bytes, "os.PathLike[str]", BaseException] = None, *,
           card: Optional[Size] = None, torch: Optional[str] = None) -> Diagnosis:
    """Why memory ran out, and what gives it back.

    Takes the name of a file (a recording, a step log, any text with an error in it), the text itself,
    or an exception; a string of one word, or one that ends like a file's name, is taken for a name, and
    a Path always is. Without it, in an interactive session: the last error that was shown. `card`:
    judge as if it were that one ("24GiB", bytes, or "rtx4090") and no limit.
    """
    chosen = options(card, torch)
    if error is None:
        error = _last_error()
    if isinstance(error, os.PathLike) or (isinstance(error, str) and _is_file_name(error)):
        name = os.fspath(error)
        return examined(name, chosen, name)
    if isinstance(error, BaseException):
        error = _words_of(error)
    if not isinstance(error, (str, bytes, bytearray)):
        raise TypeError("expected a file, a text or an exception, not " + type(error).__name__)
    text = error.encode("utf-8", "surrogatepass") if isinstance(error, str) else bytes(error)
    result = _library.made_by("vw_doctor_text", text, len(text), ctypes.byref(chosen))
    return reported(result, None)
