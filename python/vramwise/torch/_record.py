"""_record.py - recordings of this process, a look at it now, and safe points.

PyTorch keeps the history; we turn it on, write the file whole or not at all, and turn it off again.
It does not tell with which settings a history that was on before was kept, so that one goes on
afterwards with the settings of `vramwise run`: bounded, with Python's stacks, from then on.
"""
from __future__ import annotations

import contextlib
import inspect
import json
import os
import pickle
import subprocess
import sys
import tempfile
from typing import Any, Dict, Iterator, Optional, Union

from .. import _diagnosis, _files, _library, _paths
from .._diagnosis import Diagnosis
from .._library import VramwiseError, Size
from ._install import Stays, check_gpu
from ._say import say
from ._state import State, support_library

_STACKS: Dict[str, Dict[str, Any]] = {"python": {"context": "all", "stacks": "python"},
           "all": {"context": "all", "stacks": "all"},
           "none": {"context": None, "stacks": "python"}}
_GO_ON_ENTRIES = 100_000
_DOCTOR_SECONDS = 600.0


def _known_arguments(function: Any, wanted: Dict[str, Any]) -> Dict[str, Any]:
    """Those arguments that this version of PyTorch has."""
    known = inspect.signature(function).parameters
    return {name: value for name, value in wanted.items() if name in known}


def is_history_on(torch: Any) -> bool:
    """Whether PyTorch keeps a history now. Before CUDA starts there is no allocator to ask, and
    PyTorch would go down with the question."""
    is_on = getattr(torch._C, "_cuda_isHistoryEnabled", None)
    return is_on is not None and torch.cuda.is_initialized() and bool(is_on())


def begin_history(torch: Any, stacks: str, max_entries: int) -> None:
    """Lets PyTorch keep a history from now on. RuntimeError: its allocator cannot."""
    function = torch.cuda.memory._record_memory_history
    wanted = dict(_STACKS[stacks], max_entries=max_entries, clear_history=True)
    function("all", **_known_arguments(function, wanted))


def write_snapshot(torch: Any, path: Union[str, "os.PathLike[str]"]) -> None:
    """Writes what PyTorch knows of its memory now. The file appears when it is complete."""
    snapshot = torch.cuda.memory._snapshot()
    _files.write_whole(path, lambda file: pickle.dump(snapshot, file, protocol=4))


@contextlib.contextmanager
def record(path: Union[str, "os.PathLike[str]"], *, max_entries: Optional[int] = None,
           stacks: str = "python") -> Iterator[None]:
    """Records every allocation inside the block, and writes the recording when it ends, also by an
    exception.

    `max_entries` bounds the history, of which the last entries are kept; None keeps all, at some
    hundred bytes each. `stacks`: "python", "all" (C++ as well: slow) or "none". Starts CUDA, so
    install() comes before. A history that was on before goes on after the block, emptied and bounded
    to 100,000 entries. Where the recording cannot be written, that is an error, unless an exception
    is on its way already: then it is a line on standard error. Only this user can read the recording
    (mode 0600). A symbolic link at `path` is replaced, not followed; a pipe or a device is refused.
    Without a GPU the block runs unrecorded, and a line says so; with VRAMWISE_DISABLE=1 without the
    line.
    """
    if stacks not in _STACKS:
        raise ValueError(f"stacks is one of {', '.join(_STACKS)}, not {stacks!r}")
    if max_entries is not None and max_entries < 1:
        raise ValueError(f"max_entries is at least 1, not {max_entries}")
    if _library.is_disabled():
        yield
        return
    folder = os.path.dirname(os.path.abspath(os.fspath(path)))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise VramwiseError(f"{os.fspath(path)}: cannot write to the folder {folder}")
    if _files.is_special(path):
        raise VramwiseError(f"{os.fspath(path)}: expected a regular file")
    import torch
    try:
        check_gpu(torch)
    except Stays as reason:
        say(f"nothing is recorded: {reason}")
        yield
        return
    was_on = is_history_on(torch)
    try:
        begin_history(torch, stacks, sys.maxsize if max_entries is None else max_entries)
    except RuntimeError as error:
        raise VramwiseError(f"nothing can be recorded: {str(error).splitlines()[0]}") from None
    try:
        yield
    except BaseException:
        _end_recording(torch, path, was_on, is_failing=True)
        raise
    _end_recording(torch, path, was_on, is_failing=False)


def end_history(torch: Any, was_on: bool) -> None:
    """Puts the history back to what it was before begin_history()."""
    if was_on:
        begin_history(torch, "python", _GO_ON_ENTRIES)
    else:
        torch.cuda.memory._record_memory_history(None)


def _end_recording(torch: Any, path: Union[str, "os.PathLike[str]"], was_on: bool,
                   is_failing: bool) -> None:
    """Writes it and puts the history back; must not hide an exception that is on its way."""
    try:
        try:
            write_snapshot(torch, path)
        finally:
            end_history(torch, was_on)
    except Exception as error:
        text = f"{os.fspath(path)}: the recording was not written: {error}"
        if not is_failing:
            raise VramwiseError(text) from error
        say(text)


def examined_outside(path: str, card: Optional[Size]) -> Diagnosis:
    """The doctor in a process of its own: what it needs of memory and time is not this one's."""
    command = [sys.executable, "-I", "-S", str(_paths.PACKAGE / "_examine.py"), path]
    if card is not None:
        command.append(str(card))
    environment = {**os.environ, "VRAMWISE_DISABLE": "1"}
    environment.pop("LD_PRELOAD", None)
    answer = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=_DOCTOR_SECONDS, env=environment, errors="replace", check=False)
    try:
        data = json.loads(answer.stdout)
        if "error" in data:
            raise VramwiseError(data["error"])
        return Diagnosis(data["report"], data["text"], data["short"])
    except (ValueError, KeyError):
        last = (answer.stderr.strip().splitlines() or ["no output"])[-1]
        raise VramwiseError(f"the doctor ended with status {answer.returncode}: {last}") from None


def doctor(*, card: Optional[Size] = None) -> Diagnosis:
    """What holds this process's GPU memory now, and what would give it back: as vramwise.doctor() of
    a snapshot taken here. The longer the history that PyTorch keeps (record(), `vramwise run`), the
    more it can tell. VramwiseError: CUDA has not been started, or the allocator has no snapshots."""
    import torch
    if not torch.cuda.is_initialized():
        raise VramwiseError("CUDA has not been started in this process: there is nothing to see")
    with tempfile.TemporaryDirectory(prefix="vramwise-") as folder:
        path = os.path.join(folder, "now.pickle")
        try:
            write_snapshot(torch, path)
        except RuntimeError as error:
            raise VramwiseError(f"no snapshot: {str(error).splitlines()[0]}") from None
        try:
            return examined_outside(path, card) if sys.executable else \
                _diagnosis.examined(path, _diagnosis.options(card, None), "this process")
        except (OSError, subprocess.SubprocessError) as error:
            raise VramwiseError(f"the doctor could not be run: {error}") from None


@contextlib.contextmanager
def safe_point() -> Iterator[None]:
    """Inside the block this thread promises that no other thread starts work on the GPU, and that
    none of its own is under way that it did not start through PyTorch: then "vramwise" may copy live
    data to other pages when this thread allocates. Nests. Does nothing where our allocator is not in
    force."""
    if State.installed is None:
        yield
        return
    library = support_library()
    library.vramwise_safe_point_enter()
    try:
        yield
    finally:
        library.vramwise_safe_point_leave()
