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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import torch
    from ._diagnosis import Diagnosis, FailedAt, Finding, Numbers, Part, Remedy, doctor
    from ._jobs import jobs
    from ._library import VramwiseError
    from ._plan import plan, plan_models
    from ._recording import Recording, check, load

    __version__: str

_PLACES = {
    "Diagnosis": "_diagnosis", "FailedAt": "_diagnosis", "Finding": "_diagnosis", "Numbers": "_diagnosis",
    "Part": "_diagnosis", "Remedy": "_diagnosis", "doctor": "_diagnosis",
    "VramwiseError": "_library", "Recording": "_recording", "check": "_recording",
    "load": "_recording",
    "plan": "_plan", "plan_models": "_plan", "jobs": "_jobs",
}
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


def __dir__() -> list:
    return sorted(set(globals()) | set(__all__))
