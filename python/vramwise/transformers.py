"""vramwise.transformers - GPU memory in the logs of Hugging Face's Trainer, and batches that fit.

    from vramwise.transformers import FitBatch, VramwiseCallback

    trainer = Trainer(..., callbacks=[VramwiseCallback()])

or, so that every reporter (Weights & Biases, TensorBoard, ...) logs the values as its own:

    VramwiseCallback.add_to(trainer)

Needs transformers; imports it.
"""
from __future__ import annotations

import sys
from typing import Any, Dict, Optional

from transformers import TrainerCallback

from .torch._fit import Fitter
from .torch._follow import Follower

__all__ = ["FitBatch", "VramwiseCallback"]


class VramwiseCallback(TrainerCallback):
    """Peak, idle and trend of GPU memory in the Trainer's logs, and the doctor's report where memory
    runs out: the snapshot goes to output_dir. `report=False` leaves the report out."""

    def __init__(self, *, report: bool = True) -> None:
        self.follower = Follower(report=report)
        self._is_first = False

    @classmethod
    def add_to(cls, trainer: Any, **options: Any) -> "VramwiseCallback":
        """Puts one before all other callbacks of the trainer, so that what they log has the values."""
        callback = cls(**options)
        callback._is_first = True
        trainer.callback_handler.callbacks.insert(0, callback)
        return callback

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begins to follow."""
        self.follower.folder = str(args.output_dir) if args.output_dir else None
        self.follower.begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Counts the step."""
        self.follower.step()

    def on_log(self, args: Any, state: Any, control: Any, logs: Optional[Dict[str, Any]] = None,
               **kwargs: Any) -> None:
        """Adds the values to what is logged, and to the history of logs, which has it by now."""
        values = self.follower.values()
        if logs is None or not values:
            return
        logs.update(values)
        if state.log_history and state.log_history[-1].get("step") == state.global_step:
            state.log_history[-1].update(values)
        run = getattr(sys.modules.get("wandb"), "run", None)
        if run is not None and not self._is_first:  # its callback has logged before this one
            run.log(values, commit=False)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Puts PyTorch's history back."""
        self.follower.end()


class FitBatch:
    """For a Trainer whose batch may be too large: takes it in parts where memory runs out, as
    vramwise.torch.fit_batch() does; the gradients are those of the whole batch.

        class MyTrainer(FitBatch, Trainer): ...

    One process and one GPU: with more, or with DeepSpeed, a step is the Trainer's own. It takes the place
    of gradient_accumulation_steps, which should be 1: gradients that are there already are copied to host
    memory before each batch.
    """

    _fitter: Optional[Fitter] = None

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        """The Trainer's own, of the batch or of its parts."""
        trainer: Any = super()
        if not self._can_fit():
            return trainer.training_step(model, inputs, num_items_in_batch)
        if self._fitter is None:
            self._fitter = Fitter()
        accelerator = self.accelerator  # type: ignore[attr-defined]
        backward = accelerator.backward
        held: Dict[str, Any] = {}

        def step(part: Any) -> Any:
            accelerator.backward = lambda loss, **options: held.update(loss=loss, options=options)
            try:
                trainer.training_step(model, part, num_items_in_batch)
            finally:
                del accelerator.backward
            return held.pop("loss")

        fitted = self._fitter.fit_batch(
            step, inputs, weight=self._weight_of(num_items_in_batch),
            backward=lambda loss: backward(loss, **held.pop("options")))
        return fitted.loss

    def _can_fit(self) -> bool:
        trainer: Any = self
        is_alone = trainer.args.world_size == 1 and trainer.args.n_gpu <= 1
        return is_alone and not getattr(trainer, "is_deepspeed_enabled", False)

    def _weight_of(self, num_items_in_batch: Any) -> Any:
        """What a part counts. A loss that was divided by the items of the whole batch is a part of it
        already; another is a mean over the labels that are not ignored, or over samples."""
        trainer: Any = self
        is_sum = num_items_in_batch is not None and (
            trainer.model_accepts_loss_kwargs or trainer.compute_loss_func is not None)
        if is_sum:
            return lambda part: 1.0

        def labels(part: Any) -> float:
            return max(float((part["labels"] != -100).sum()), 1e-9)

        return lambda part: labels(part) if "labels" in part else float(len(next(iter(part.values()))))
