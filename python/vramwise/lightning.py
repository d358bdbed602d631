"""vramwise.lightning - GPU memory in the logs of Lightning.

    from vramwise.lightning import VramwiseCallback

    trainer = Trainer(..., callbacks=[VramwiseCallback()])

Needs lightning or pytorch_lightning; imports it.
"""
from __future__ import annotations

from typing import Any

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback

from .torch._follow import Follower

__all__ = ["VramwiseCallback"]


class VramwiseCallback(Callback):
    """Peak, idle and trend of GPU memory, given to every logger of the trainer at each
    log_every_n_steps; and the doctor's report where memory runs out: the snapshot goes to
    default_root_dir. `report=False` leaves the report out."""

    def __init__(self, *, report: bool = True) -> None:
        super().__init__()
        self.follower = Follower(report=report)
        self._last_step = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begins to follow."""
        self.follower.folder = str(trainer.default_root_dir)
        self._last_step = trainer.global_step
        self.follower.begin()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any,
                           batch_idx: int) -> None:
        """Counts the step, unless gradients were only accumulated."""
        step = trainer.global_step
        if step == self._last_step:
            return
        self._last_step = step
        self.follower.step()
        if step % max(trainer.log_every_n_steps, 1) == 0:
            values = self.follower.values()
            for logger in trainer.loggers if values else ():
                logger.log_metrics(values, step=step)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """The report, where the allocator did not see the failure."""
        self.follower.explain(exception)
        self.follower.end()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Puts PyTorch's history back."""
        self.follower.end()
