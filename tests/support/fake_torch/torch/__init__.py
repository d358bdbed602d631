"""A stand-in for PyTorch, with what our Python asks of it and nothing else.

FAKE_TORCH_VERSION, FAKE_TORCH_CUDA (empty: built without), FAKE_TORCH_HIP (then it is for ROCm) and
FAKE_TORCH_DEVICES say what it is. Its headers and libraries are put beside it by the tests that compile.
"""
import os

from . import version

__version__ = os.environ.get("FAKE_TORCH_VERSION", "2.11.0+cu130")


class OutOfMemoryError(RuntimeError):
    """As PyTorch's: a RuntimeError."""


class _C:
    """The parts of torch._C that are looked at."""
    if version.cuda is not None or version.hip is not None:
        @staticmethod
        def _cuda_getDeviceCount():
            raise AssertionError("this forbids forked children to use CUDA: nobody may call it")

    @staticmethod
    def _cuda_isHistoryEnabled():
        if not cuda.is_initialized():
            os.abort()  # as PyTorch 2.11 goes down with the question
        return cuda.memory.history["enabled"] is not None


def compiled_with_cxx11_abi():
    """Since 2.7 always."""
    return True


from . import cuda  # noqa: E402
from .tiny import Tensor, no_grad, parameter, squared_error  # noqa: E402,F401
