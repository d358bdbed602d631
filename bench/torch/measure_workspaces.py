"""measure_workspaces.py - what cuDNN takes beside its results, on the GPU at hand: a line of JSON each.

    python3 measure_workspaces.py > workspaces.jsonl

Convolutions of one, two and three dimensions, transposed and dilated ones, and recurrent layers. `forward`
and `backward` are the requests that an operator made, in bytes; `kept` are those that are still there after
it. The rules of src/plan/hidden.c were made with these.
"""
import itertools
import json
import sys

import torch
from torch import nn

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def requests(call) -> tuple:
    """All that was asked for, and what of it is left."""
    torch.cuda.memory._record_memory_history(max_entries=10_000, stacks="python", context=None)
    result = call()
    torch.cuda.synchronize()
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    made, kept = [], {}
    for event in trace:
        if event["action"] == "alloc":
            made.append(event["size"])
            kept[event["addr"]] = event["size"]
        elif event["action"] == "free_requested":
            kept.pop(event["addr"], None)
    return result, made, sorted(kept.values(), reverse=True)


def measured(model: nn.Module, shape: tuple, dtype: torch.dtype, is_training: bool = True) -> dict:
    model = model.to("cuda", dtype)
    x = torch.randn(shape, device="cuda", dtype=dtype, requires_grad=is_training)
    found = {}
    with torch.set_grad_enabled(is_training):
        for _ in range(2):  # the first makes handles, and picks
            made, found["forward"], found["kept"] = requests(lambda: model(x))
            made = made[0] if isinstance(made, tuple) else made
            if is_training:
                grad = torch.ones_like(made)
                _, found["backward"], _ = requests(lambda: made.backward(grad))
                del grad
                x.grad = None
                model.zero_grad(set_to_none=True)
            found["out"] = list(made.shape)
            del made
    return found


def convolutions():
    kind = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
    turned = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
    sides = {1: 4000, 2: 56, 3: 32}
    for dims, dtype, (inputs, outputs), (kernel, stride, dilation), odd in itertools.product(
            (1, 2, 3), ("fp32", "bf16"), ((32, 64), (3, 64), (128, 128)),
            ((3, 1, 1), (3, 2, 1), (3, 1, 2), (1, 1, 1), (2, 2, 1)), (0, 1)):
        side = sides[dims] + odd
        settings = dict(dims=dims, kernel=kernel, stride=stride, dilation=dilation, inputs=inputs,
                        outputs=outputs, side=side, batch=4, dtype=dtype, transposed=False)
        yield settings, lambda: kind[dims](inputs, outputs, kernel, stride, dilation * (kernel // 2), dilation), \
            (4, inputs, *[side] * dims)
    for dims, dtype, (inputs, outputs), (kernel, stride, padding) in itertools.product(
            (1, 2, 3), ("fp32", "bf16"), ((64, 32), (128, 3), (128, 128)), ((2, 2, 0), (4, 2, 1), (3, 1, 1))):
        side = sides[dims]
        settings = dict(dims=dims, kernel=kernel, stride=stride, dilation=1, inputs=inputs, outputs=outputs,
                        side=side, batch=4, dtype=dtype, transposed=True)
        yield settings, lambda: turned[dims](inputs, outputs, kernel, stride, padding), (4, inputs, *[side] * dims)


def recurrent():
    for kind, layers, both, (batch, length, width), dtype, dropout, is_training in itertools.product(
            ("LSTM", "GRU", "RNN"), (1, 2, 3), (False, True),
            ((32, 128, 512), (64, 256, 768), (16, 512, 640), (128, 64, 1024)), ("fp32", "fp16"), (0.0, 0.2),
            (True, False)):
        if (dropout and (layers == 1 or not is_training)) or (dtype == "fp16" and (layers == 3 or dropout)):
            continue
        settings = dict(kind=kind, layers=layers, both=both, batch=batch, length=length, width=width, dtype=dtype,
                        dropout=dropout, is_training=is_training)
        yield settings, lambda: getattr(nn, kind)(width, width, layers, dropout=dropout, bidirectional=both), \
            (length, batch, width)


def main() -> int:
    for settings, make, shape in itertools.chain(convolutions(), recurrent()):
        try:
            found = measured(make(), shape, TYPES[settings["dtype"]], settings.get("is_training", True))
        except Exception as error:  # noqa: BLE001: one that fails is one line
            found = dict(error=repr(error)[:200])
        print(json.dumps(dict(settings, **found)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
