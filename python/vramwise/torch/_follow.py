"""_follow.py - the GPU memory of a training loop, for its logs; and a report where it runs out.

What the callbacks of frameworks share (vramwise.transformers, vramwise.lightning), and of use to a loop
of one's own. Steps and their log are _steps.py's, whether memory grows is the library's rule, and how
much history can be afforded is _budget.py's. Under `vramwise run` the history and the report are its
business, and only the numbers come from here.
"""
from __future__ import annotations

import os
import sys
import threading
from typing import Any, Dict, Iterator, Optional

from .. import _budget, _diagnosis, _files, _history, _jobs, _library, _steps
from .._program import program_name
from . import _record
from ._fit import is_out_of_memory
from ._install import Stays, check_gpu
from ._say import say

_HISTORY_ENTRIES = 100_000
_GIB, _MIB = float(1 << 30), float(1 << 20)

_lock = threading.Lock()
_following: Optional["Follower"] = None  # whose report it is: PyTorch's observers cannot be taken back
_is_observing = False


def _observe(device: int, tried: int, limit: int, free: int) -> None:
    """PyTorch's observer: called in the thread that failed, before the error is raised."""
    follower = _following
    if follower is not None:
        follower.report_failure()


def _is_watched() -> bool:
    watch = sys.modules.get("_vramwise_watch")
    return watch is not None and bool(watch.is_watching())


class Follower:
    """Follows the GPU memory of this process from step to step.

        follower = vramwise.torch.Follower()
        follower.begin()
        for batch in loader:
            train_one_step(batch)
            follower.step()
            if step % 50 == 0:
                follower.log_to(writer, step)     # a SummaryWriter, a run of Weights & Biases
        follower.end()

    `report`: the first time memory runs out, a snapshot goes to `folder` (the current one), and what the
    doctor finds in it to standard error; for that PyTorch keeps a history, as much as costs little.
    Without a GPU, and with VRAMWISE_DISABLE=1, it does nothing.
    """

    def __init__(self, *, report: bool = True, folder: Optional[str] = None) -> None:
        self.folder = folder
        self.snapshot: Optional[str] = None  # where the first failure went
        self._is_reporting = report
        self._has_reported = False
        self._torch: Any = None
        self._steps: Any = None
        self._history: Any = None

    def begin(self) -> None:
        """From here on; a second call begins anew. Starts CUDA where there is a GPU."""
        if _library.is_disabled():
            return
        import torch
        try:
            check_gpu(torch)
        except Stays:
            return
        self.end()
        torch.cuda.init()
        self._torch = torch
        self._steps = _steps.Steps(torch, self._after_step, lambda text, error: None)
        if self._is_reporting and not _is_watched():
            self._begin_reporting(torch)

    def _begin_reporting(self, torch: Any) -> None:
        global _following, _is_observing
        attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
        if attach is None:
            return
        try:
            if not _record.is_history_on(torch):  # one that is on is somebody's
                self._history = _history.History(torch)
                self._history.begin(_HISTORY_ENTRIES, _budget.Budget())
            with _lock:
                if not _is_observing:
                    attach(_observe)
                    _is_observing = True
                _following = self
        except RuntimeError as error:  # an allocator without a history
            if self._history is not None:
                self._history.end()
            self._history = None
            say(f"no report if memory runs out: {str(error).splitlines()[0]}")

    def _after_step(self, now: float, device: int, step: int, statistics: Any) -> None:
        if self._history is not None:
            self._history.after_step(now, device, statistics)

    def step(self) -> None:
        """A step of the optimizer has ended."""
        if self._steps is not None:
            self._steps.count()

    def values(self) -> Dict[str, float]:
        """For a log: vram_peak_gib, the most that was alive; vram_idle_gib, reserved and not in use;
        vram_growth_mib_per_step, 0 unless memory grows by the doctor's rule. Empty without a GPU."""
        if self._torch is None:
            return {}
        cuda = self._torch.cuda
        device = cuda.current_device()
        live, reserved = cuda.memory_allocated(device), cuda.memory_reserved(device)
        values = {"vram_peak_gib": cuda.max_memory_allocated(device) / _GIB,
                  "vram_idle_gib": (reserved - live) / _GIB}
        try:
            free, total = cuda.mem_get_info(device)
            trend = _jobs.outlook_of(self._steps.log, live_bytes=live, reserved_bytes=reserved,
                                     device_free_bytes=free, device_total_bytes=total)
            values["vram_growth_mib_per_step"] = trend.bytes_per_step / _MIB
        except (RuntimeError, OSError):  # the plain door knows nothing of the device; no library
            pass
        return values

    def log_to(self, target: Any, step: Optional[int] = None) -> Dict[str, float]:
        """Gives the values to a logger by its own call: add_scalar() of TensorBoard's SummaryWriter, or
        log() of a run of Weights & Biases, or of the module wandb. Returns them."""
        values = self.values()
        if hasattr(target, "add_scalar"):
            for name, value in values.items():
                target.add_scalar(name, value, step)
        elif values:
            target.log(values, **({} if step is None else {"step": step}))
        return values

    def report_failure(self) -> None:
        """Memory has just run out: the first time, the snapshot and what the doctor finds in it. Never
        raises: the error itself is on its way."""
        with _lock:
            is_first, self._has_reported = not self._has_reported, True
        if not is_first:
            return
        try:
            import pickle
            snapshot = self._torch.cuda.memory._snapshot()
            self.snapshot = _files.write_new(self.folder or os.getcwd(), _failure_names(),
                                             lambda file: pickle.dump(snapshot, file, protocol=4))
            found = _record.examined_outside(self.snapshot, None)
            say(f"out of GPU memory; 'vramwise doctor {self.snapshot}' shows all of it\n{found}")
        except Exception as error:
            say(f"out of GPU memory, and no report: {type(error).__name__}: {error}")

    def explain(self, error: BaseException) -> Optional[_diagnosis.Diagnosis]:
        """The doctor on an error that ends the training, printed unless report_failure() has. None if it
        is not about memory, or the doctor cannot say. Never raises: the error itself is on its way."""
        if self._torch is None or not is_out_of_memory(self._torch, error):
            return None
        try:
            found = _diagnosis.doctor(error)
        except Exception as reason:
            say(f"out of GPU memory, and no report: {type(reason).__name__}: {reason}")
            return None
        if self._is_reporting and not self._has_reported and not _is_watched():
            self._has_reported = True
            say(f"out of memory\n{found}")
        return found

    def end(self) -> None:
        """Training is over: the history goes back to what it was."""
        global _following
        with _lock:
            if _following is self:
                _following = None
        if self._history is not None:
            self._history.end()
            if not self._history.is_programs:
                _record.end_history(self._torch, False)
        self._history = None


def _failure_names() -> Iterator[str]:
    stem = f"vramwise-oom-{program_name()}-{os.getpid()}"
    yield f"{stem}.pickle"
    for attempt in range(2, 1000):
        yield f"{stem}-{attempt}.pickle"
