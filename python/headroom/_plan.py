"""_plan.py - what a training run will take, before it runs.

plan() is `headroom plan --json`: its fields are documented in headroom-plan(1).
"""
from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, List, Optional, Union

from . import _library
from ._library import Size

_MODES = ("train", "inference", "keep-graph")
_PRECISIONS = ("fp32", "tf32", "amp-bf16", "amp-fp16", "bf16", "fp16")
_OPTIMIZERS = ("sgd", "sgd-m", "adamw", "adamw-fused", "adamw-loop", "adafactor", "adam8bit",
               "paged-adam8bit")
_CHECKPOINTINGS = ("none", "full", "every", "selective")
_ATTENTIONS = ("sdpa", "eager", "flash")
_OFFLOADS = ("none", "optimizer", "weights")
_SHARDINGS = ("none", "zero1", "zero2", "zero3", "fsdp")


def _place(name: str, word: str, words: tuple) -> int:
    if word not in words:
        raise ValueError(f"{name} is one of {', '.join(words)}, not {word!r}")
    return words.index(word)


def _count(name: str, number: Optional[int]) -> int:
    """A whole number that C can take; None is 0: not said."""
    if number is None:
        return 0
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 2**64:
        raise ValueError(f"{name} is a whole number from 1 on, not {number!r}")
    return number


def _set_checkpointing(settings: _library.PlanSettings, given: Union[bool, int, str]) -> None:
    if isinstance(given, bool):
        given = "full" if given else "none"
    if isinstance(given, int):
        settings.checkpointing = _CHECKPOINTINGS.index("every")
        settings.checkpoint_every = _count("checkpointing", given)
        return
    if given == "every":
        raise ValueError("checkpointing every k-th block is given as k")
    settings.checkpointing = _place("checkpointing", given, _CHECKPOINTINGS)


def _set_card(settings: _library.PlanSettings, card: Optional[Size]) -> None:
    """A size, or a name: the library knows which names there are."""
    if isinstance(card, str) and _library.analysis().hr_plan_card(_library.encoded(card)):
        settings.card_name = _library.encoded(card)
    else:
        settings.card_bytes = _library.size_bytes(card)


def plan(model: Union[str, "os.PathLike[str]"], *, batch: int = 1, sequence: Optional[int] = None,
         image: Optional[int] = None, card: Optional[Size] = None, precision: str = "fp32",
         master_weights: bool = False, optimizer: str = "adamw", offload: str = "none",
         checkpointing: Union[bool, int, str] = False, accumulation: int = 1,
         attention: str = "sdpa", loss_chunks: int = 1, lora: Optional[int] = None,
         qlora: Optional[int] = None, mode: str = "train", generate: Optional[int] = None,
         gpus: int = 1, sharding: str = "none", choices: bool = True) -> Dict[str, Any]:
    """What a run will take, and what makes it fit; no GPU is needed.

    `model` is a built-in name (plan_models()), a config.json or a folder that holds one. `card` is a
    size ("24GiB", or bytes) or a name ("rtx4090"). `checkpointing` is True, "selective", or k for
    every k-th block. With choices=False the search for what makes it fit is left out.
    """
    if lora is not None and qlora is not None:
        raise ValueError("qlora is lora with the frozen weights in 4 bits: expected one of them")
    library = _library.analysis()
    settings = _library.PlanSettings()
    library.hr_plan_settings_init(ctypes.byref(settings))
    settings.mode = _place("mode", "inference" if generate is not None and mode == "train" else mode,
                           _MODES)
    settings.batch = _count("batch", batch)
    settings.sequence = _count("sequence", sequence)
    settings.image = _count("image", image)
    settings.accumulation = _count("accumulation", accumulation)
    settings.generate = _count("generate", generate)
    settings.precision = _place("precision", precision, _PRECISIONS)
    settings.has_master_weights = master_weights
    settings.optimizer = _place("optimizer", optimizer, _OPTIMIZERS)
    settings.offload = _place("offload", offload, _OFFLOADS)
    _set_checkpointing(settings, checkpointing)
    settings.attention = _place("attention", attention, _ATTENTIONS)
    settings.loss_chunks = _count("loss_chunks", loss_chunks)
    settings.lora_rank = _count("lora", lora) or _count("qlora", qlora)
    settings.is_quantized = qlora is not None
    settings.gpus = _count("gpus", gpus)
    settings.sharding = _place("sharding", sharding, _SHARDINGS)
    _set_card(settings, card)
    return _planned(os.fspath(model), settings, choices)


def _planned(model: str, settings: _library.PlanSettings, has_choices: bool) -> Dict[str, Any]:
    options = _library.PlanOptions(struct_size=ctypes.sizeof(_library.PlanOptions),
                                   without_choices=not has_choices)
    opened = _library.made_from_file("hr_plan_model_open", model)
    try:
        made = _library.made_by("hr_plan_make", opened, ctypes.byref(settings),
                                ctypes.byref(options))
    finally:
        _library.analysis().hr_plan_model_close(opened)
    return _library.report_data("hr_report_plan", "hr_plan_free", made)


def plan_models() -> List[Dict[str, Any]]:
    """The built-in models: name, family, parameters."""
    return _library.listed("hr_report_plan_known")["models"]
