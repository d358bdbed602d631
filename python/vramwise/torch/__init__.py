"""vramwise.torch - inside a PyTorch program.

    install("vramwise")          our allocator in place of PyTorch's, before CUDA starts
    record("run.pickle")         a recording of what happens inside a with block
    doctor()                     what holds this process's GPU memory, now
    fit_batch(step, batch)       a training step that splits its batch where memory runs out
    Follower()                   peak, idle and trend of a training loop, for its logs
    plan(step)                   what a step will take, by running it on tensors without data
    publish()                    this process, for `vramwise top` and vramwise.jobs()
    park(), wake()               GPU memory that leaves until it is woken; region() names a part of it
    safe_point()                 a moment in which live data may move
    spill(optimizer)             its state leaves the GPU first, where it is full
    stats()                      what our allocator did

Importing this does not import torch; the functions do.
"""
from __future__ import annotations

from ._fit import Fitted, Fitter, fit_batch
from ._follow import Follower
from ._install import ALLOCATORS, in_force, install, stats
from ._park import Parked, ParkError, park, park_ahead, region, wake
from ._plan import plan
from ._publish import publish
from ._record import doctor, record, safe_point
from ._spill import spill
from ._state import Installed, InstallError
from ._tracer import Untraceable

__all__ = ["ALLOCATORS", "Fitted", "Fitter", "Follower", "InstallError", "Installed", "ParkError", "Parked", "Untraceable",
           "doctor", "fit_batch", "in_force", "install", "park", "park_ahead", "plan", "publish", "record", "region",
           "safe_point", "spill", "stats", "wake"]
