"""_plan.py - what a training run will take, before it runs.

plan() is `vramwise plan`: its arguments have the names of the options, and the result's fields are
documented in vramwise-plan(1). With a recording in place of a model it is Recording.plan(), which is
`vramwise plan --from`.
"""
from __future__ import annotations

import ctypes
import inspect
import os
from typing import Any, Dict, Iterable, List, Optional, Tuple, Union, overload

from . import _library
from ._library import Size
from ._names import renamed
from ._results import Model, Plan, ScaledPlan

_MODES = ("train", "inference", "keep-graph")
_PRECISIONS = ("fp32", "tf32", "amp-bf16", "amp-fp16", "bf16", "fp16", "auto")
_OPTIMIZERS = ("sgd", "sgd-m", "adamw", "adamw-fused", "adamw-loop", "adafactor", "adam8bit",
               "paged-adam8bit", "lion", "muon", "galore", "apollo")
_CHECKPOINTINGS = ("none", "full", "every", "selective")
_ATTENTIONS = ("sdpa", "eager", "flash")
_OFFLOADS = ("none", "optimizer", "weights", "spill")
_SHARDINGS = ("none", "zero1", "zero2", "zero3", "fsdp")
_KV_DTYPES = ("auto", "bf16", "fp16", "fp8", "int8", "int4")
_HEADS = ("auto", "causal-lm", "masked-lm", "seq2seq-lm", "sequence-classification",
          "token-classification", "question-answering", "image-classification", "encoder", "none")


def _place(name: str, word: str, words: Tuple[str, ...]) -> int:
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


def _targets(given: Union[None, str, Iterable[str]]) -> Optional[bytes]:
    """Modules that LoRA adapts, as C takes them: with commas between."""
    if given is None:
        return None
    targets = _library.encoded(given if isinstance(given, str) else ",".join(given))
    if not targets:
        raise ValueError("lora_targets is 'all-linear', or names of modules")
    return targets


def scaling(batch_now: Optional[int], batch: Optional[int], seq_now: Optional[int],
            seq: Optional[int], step: Optional[int], card: Optional[Size],
            device: int) -> _library.PlanScaling:
    """From what a recorded step had to what is asked for."""
    if batch_now is None:
        raise ValueError("a recording needs batch_now: the batch that was recorded")
    if seq is not None and seq_now is None:
        raise ValueError("seq needs seq_now: the length that was recorded")
    return _scaling(batch_now, batch, seq_now, seq, step, card, device)


def _scaling(batch_now: Optional[int], batch: Optional[int], seq_now: Optional[int],
             seq: Optional[int], step: Optional[int], card: Optional[Size],
             device: int) -> _library.PlanScaling:
    if step is not None and (isinstance(step, bool) or not isinstance(step, int) or
                             not 0 <= step < 2**64 - 1):
        raise ValueError(f"step is a whole number from 0 on, not {step!r}")
    made = _library.PlanScaling()
    _library.analysis().vw_plan_scaling_init(ctypes.byref(made))
    made.batch_now = _count("batch_now", batch_now)
    made.batch = _count("batch", batch) or made.batch_now
    made.sequence_now = _count("seq_now", seq_now)
    made.sequence = _count("seq", seq)
    if step is not None:
        made.step = step
    made.card_bytes = _library.card_bytes(card)
    made.device = _library.device_index(device)
    return made


def plan_traced(path: str, *, batch: Optional[int] = None, seq: Optional[int] = None,
                card: Optional[Size] = None) -> ScaledPlan:
    """`vramwise plan --traced FILE --json`: the step of a trace, at its own size or another."""
    _, name = _library.card_read(card)
    traced = _library.made_from_file("vw_plan_traced_open", path, name)
    try:
        wanted = _scaling(None, batch, None, seq, None, card, _library.BUSIEST_DEVICE)
        result = _library.made_by("vw_plan_from_traced", traced, ctypes.byref(wanted))
        return _library.result_of(ScaledPlan, "vw_report_plan_scaled", "vw_plan_scaled_free",
                                  result, file=path)
    finally:
        _library.analysis().vw_plan_traced_close(traced)


def write_traced(trace: str, path: Union[str, "os.PathLike[str]"]) -> None:
    """A trace as a recording."""
    traced = _library.made_from_file("vw_plan_traced_open", trace, None)
    try:
        _library.check(_library.analysis().vw_plan_traced_write(traced, _library.encoded(path)))
    finally:
        _library.analysis().vw_plan_traced_close(traced)


# Arguments for a recording; all others are for models.
_OF_RECORDINGS = ("from_recording", "batch_now", "batch", "seq_now", "seq", "step", "card")


def _refuse_settings_of_models(given: Dict[str, Any]) -> None:
    """A recording changes its batch and its length only: what else was said would do nothing."""
    for name, parameter in inspect.signature(plan).parameters.items():
        if name not in _OF_RECORDINGS and given[name] != parameter.default:
            raise ValueError(f"{name} is for models: a recording changes only its batch and its "
                             "length")


def _plan_recording(recording: Any, batch_now: Optional[int], **changes: Any) -> ScaledPlan:
    from . import _recording  # it needs this module itself
    if isinstance(recording, _recording.Recording):
        return recording.plan(batch_now, **changes)
    with _recording.load(recording) as loaded:
        return loaded.plan(batch_now, **changes)


def _earlier_mode(mode: str) -> Dict[str, Any]:
    _place("mode", mode, _MODES)
    return {} if mode == "train" else {mode.replace("-", "_"): True}


def _earlier_sharding(sharding: str) -> Dict[str, Any]:
    _place("sharding", sharding, _SHARDINGS)
    if sharding.startswith("zero"):
        return {"zero": int(sharding[-1])}
    return {} if sharding == "none" else {"fsdp": True}


def _mode(inference: bool, keep_graph: bool, generate: Optional[int]) -> int:
    if inference and keep_graph:
        raise ValueError("inference keeps no graph: expected inference or keep_graph, not both")
    return _place("mode", "keep-graph" if keep_graph else
                  "inference" if inference or generate is not None else "train", _MODES)


def _sharding(zero: Optional[int], fsdp: bool) -> int:
    if zero is not None and fsdp:
        raise ValueError("zero and fsdp are two ways to share: expected one")
    if zero is None:
        return _SHARDINGS.index("fsdp" if fsdp else "none")
    if f"zero{zero}" not in _SHARDINGS:
        raise ValueError(f"zero is one of 1, 2, 3, not {zero!r}")
    return _SHARDINGS.index(f"zero{zero}")


@overload
def plan(model: Union[str, "os.PathLike[str]"], *, batch: Optional[int] = None,
         seq: Optional[int] = None, image: Optional[int] = None, card: Optional[Size] = None,
         precision: str = "auto", master_weights: bool = False, optimizer: str = "adamw",
         offload: str = "none", checkpointing: Union[bool, int, str] = False,
         accumulation: int = 1, attention: str = "sdpa", loss_chunks: Optional[int] = None,
         fused_loss: bool = False, padding: Union[bool, int] = False, lora: Optional[int] = None,
         qlora: Optional[int] = None, lora_targets: Union[None, str, Iterable[str]] = None,
         inference: bool = False, keep_graph: bool = False, without_loss: bool = False,
         generate: Optional[int] = None, kv_dtype: str = "auto", static_cache: bool = False,
         gpus: int = 1, zero: Optional[int] = None, fsdp: bool = False, head: str = "auto",
         choices: bool = True) -> Plan: ...


@overload
def plan(*, from_recording: Any, batch_now: int, batch: Optional[int] = None,
         seq_now: Optional[int] = None, seq: Optional[int] = None, step: Optional[int] = None,
         card: Optional[Size] = None) -> ScaledPlan: ...


@renamed(sequence="seq", sequence_now="seq_now", mode=_earlier_mode, sharding=_earlier_sharding)
def plan(model: Union[None, str, "os.PathLike[str]"] = None, *, batch: Optional[int] = None,
         seq: Optional[int] = None, image: Optional[int] = None, card: Optional[Size] = None,
         precision: str = "auto", master_weights: bool = False, optimizer: str = "adamw",
         offload: str = "none", checkpointing: Union[bool, int, str] = False,
         accumulation: int = 1, attention: str = "sdpa", loss_chunks: Optional[int] = None,
         fused_loss: bool = False, padding: Union[bool, int] = False, lora: Optional[int] = None,
         qlora: Optional[int] = None, lora_targets: Union[None, str, Iterable[str]] = None,
         inference: bool = False, keep_graph: bool = False, without_loss: bool = False,
         generate: Optional[int] = None, kv_dtype: str = "auto", static_cache: bool = False,
         gpus: int = 1, zero: Optional[int] = None, fsdp: bool = False, head: str = "auto",
         choices: bool = True, from_recording: Any = None, batch_now: Optional[int] = None,
         seq_now: Optional[int] = None, step: Optional[int] = None) -> Union[Plan, ScaledPlan]:
    """What a run will take, and what makes it fit; no GPU is needed.

    `model` is a built-in name (plan_models()), a config.json, a folder that holds one, or a name of
    huggingface.co (a snapshot in its cache, else the built-in model of that name). The arguments have
    the names of the options of `vramwise plan`. `card` is a size ("24GiB", or bytes) or a name
    ("rtx4090"). `checkpointing` is True, "selective", or k for every k-th block. Inference is with
    labels, as in an evaluation, unless `without_loss`. `precision` is "fp32" where none is given; in
    inference that of the file, and autocast with `qlora`. `lora_targets` is "all-linear" or names of
    modules; `padding` is True, or the multiple that samples are padded to. `head` is that of the
    file's class. With choices=False the search for what makes it fit is left out.

    With `from_recording` (a file, its bytes, or what load() returned) in place of a model it is one
    recorded step, `batch_now` samples of `seq_now` tokens, at another `batch` and `seq`: `--from`,
    which is no name in Python.
    """
    if from_recording is not None:
        _refuse_settings_of_models(locals())
        return _plan_recording(from_recording, batch_now, batch=batch, seq_now=seq_now, seq=seq,
                               step=step, card=card)
    for name, number in (("batch_now", batch_now), ("seq_now", seq_now), ("step", step)):
        if number is not None:
            raise ValueError(f"{name} is for a recording: it needs from_recording")
    if model is None:
        raise ValueError("expected a model, or from_recording")
    if lora is not None and qlora is not None:
        raise ValueError("qlora is lora with the frozen weights in 4 bits: expected one of them")
    library = _library.analysis()
    settings = _library.PlanSettings()
    library.vw_plan_settings_init(ctypes.byref(settings))
    settings.mode = _mode(inference, keep_graph, generate)
    settings.without_loss = without_loss
    settings.batch = _count("batch", 1 if batch is None else batch)
    settings.sequence = _count("seq", seq)
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
    settings.lora_targets = _targets(lora_targets)
    settings.has_fused_loss = fused_loss
    settings.padding = int(padding) if isinstance(padding, bool) else _count("padding", padding)
    settings.gpus = _count("gpus", gpus)
    settings.sharding = _sharding(zero, fsdp)
    settings.head = _place("head", head, _HEADS)
    settings.kv_dtype = _place("kv_dtype", kv_dtype, _KV_DTYPES)
    settings.has_static_cache = static_cache
    settings.card_bytes, settings.card_name = _library.card_read(card)
    return _planned(os.fspath(model), settings, choices)


def _planned(model: str, settings: _library.PlanSettings, has_choices: bool) -> Plan:
    options = _library.PlanOptions(struct_size=ctypes.sizeof(_library.PlanOptions),
                                   without_choices=not has_choices)
    opened = _library.made_from_file("vw_plan_model_open", model)
    try:
        made = _library.made_by("vw_plan_make", opened, ctypes.byref(settings),
                                ctypes.byref(options))
    finally:
        _library.analysis().vw_plan_model_close(opened)
    return _library.result_of(Plan, "vw_report_plan", "vw_plan_free", made)


def plan_models() -> List[Model]:
    """The built-in models: name, family, parameters."""
    return [Model(model) for model in _library.listed("vw_report_plan_known")["models"]]
