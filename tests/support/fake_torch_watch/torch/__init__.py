"""A stand-in for torch: the names that `vramwise run` uses, as PyTorch 2.11 has them.

There is no GPU behind it. A "card" of 8 GiB counts what is allocated, and running out goes as it goes
in PyTorch: observers first, then the error. The snapshot is a recording of PyTorch's own, from
FAKE_TORCH_SNAPSHOT. What was done to it is told by FAKE_TORCH_LOG, a file: a line for each.
"""
import os

__version__ = "2.11.0+fake"


def _tell(line: str) -> None:
    path = os.environ.get("FAKE_TORCH_LOG")
    if path:
        with open(path, "a", encoding="utf-8") as log:
            log.write(f"{os.getpid()} {line}\n")


class OutOfMemoryError(RuntimeError):
    pass


OutOfMemoryError.__module__ = "torch"

from . import _C, compiler, cuda, optim  # noqa: E402  (as in torch, at the end)
