"""vramwise - why a GPU ran out of memory, and what makes it fit, from Python.

    vramwise.doctor("error.log")         why memory ran out, with findings as data
    vramwise.plan("gpt2", batch=8)       what a training run will take, and what makes it fit
    vramwise.load("run.pickle")          a recording: stats, verify, replay, tune, diff, doctor
    vramwise.check("run.pickle", "main.json")  has memory grown since that baseline?
    vramwise.jobs()                      what runs on this machine, and the memory it holds
    vramwise.torch                       inside a PyTorch program: install, record, fit_batch, ...

Importing this loads nothing: the libraries come with their first use, and torch only with
vramwise.torch's functions. Needs nothing but Python 3.9 and its standard library.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from . import torch as torch
    from ._diagnosis import Diagnosis as Diagnosis
    from ._diagnosis import FailedAt as FailedAt
    from ._diagnosis import Finding as Finding
    from ._diagnosis import Numbers as Numbers
    from ._diagnosis import Part as Part
    from ._diagnosis import Remedy as Remedy
    from ._diagnosis import doctor as doctor
    from ._jobs import Job as Job
    from ._jobs import Jobs as Jobs
    from ._jobs import jobs as jobs
    from ._library import VramwiseError as VramwiseError
    from ._notebook import CellMemory as CellMemory
    from ._notebook import load_ipython_extension as load_ipython_extension
    from ._plan import plan as plan
    from ._plan import plan_models as plan_models
    from ._recording import Recording as Recording
    from ._recording import check as check
    from ._recording import load as load
    from ._results import Checked as Checked
    from ._results import Diff as Diff
    from ._results import Plan as Plan
    from ._results import Replayed as Replayed
    from ._results import ScaledPlan as ScaledPlan
    from ._results import Stats as Stats
    from ._results import Tuned as Tuned
    from ._results import Verified as Verified

    __version__: str

_MODULES = {
    "_diagnosis": ("Diagnosis", "FailedAt", "Finding", "Numbers", "Part", "Remedy", "doctor"),
    "_jobs": ("Job", "Jobs", "jobs"),
    "_library": ("VramwiseError",),
    "_notebook": ("CellMemory", "load_ipython_extension"),
    "_plan": ("plan", "plan_models"),
    "_recording": ("Recording", "check", "load"),
    "_results": ("Checked", "Diff", "Plan", "Replayed", "ScaledPlan", "Stats", "Tuned", "Verified"),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted(_PLACES) + ["torch", "__version__"]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        value = getattr(importlib.import_module("." + _PLACES[name], __name__), name)
    elif name == "torch":
        value = importlib.import_module(".torch", __name__)
    elif name == "__version__":
        value = importlib.import_module("._paths", __name__).version()
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted(set(globals()) | set(__all__))
