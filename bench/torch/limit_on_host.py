"""limit_on_host.py - runs programs written for CUDA on the host, where there is no GPU.

For a look at whether a workload runs, ends and repeats itself; nothing is measured.
"""
import contextlib
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode


def _on_host(value):
    if isinstance(value, str) and value == "cuda" or isinstance(value, torch.device):
        return torch.device("cpu")
    if isinstance(value, torch.dtype) and value in (torch.bfloat16, torch.float16):
        return torch.float32
    return value


class _HostMode(TorchFunctionMode):
    """Tensors that are to be on the GPU are on the host, and in float32, which is faster there."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in (torch.Tensor.cuda, torch.Tensor.pin_memory):
            return args[0]
        return func(*(_on_host(value) for value in args),
                    **{name: _on_host(value) for name, value in (kwargs or {}).items()})


class _Stream:
    """Everything on it is done at once."""

    def wait_stream(self, other):
        pass


@contextlib.contextmanager
def on_host():
    def nothing(*_):
        pass

    with mock.patch.object(torch, "set_default_dtype", nothing), \
            mock.patch.object(torch.Tensor, "record_stream", nothing), \
            mock.patch.multiple(torch.cuda, synchronize=nothing, empty_cache=nothing,
                                Stream=_Stream, current_stream=_Stream,
                                stream=lambda stream: contextlib.nullcontext()), _HostMode():
        yield
