"""_nccl.py - what NCCL may register of our memory.

NCCL registers ranges of addresses, and wants one piece of memory under each. The segments of a
torch.cuda.MemPool are: register_mem_pool() works. The default pool of the engines that move pages is not,
so that PyTorch must not register everything there is. It does without where its own segments can expand;
but it asks its own settings, which know nothing of us.
"""
from __future__ import annotations

import os

from ._say import say

# PyTorch's names for one switch, and what counts as on.
SWITCHES = ("TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK")
_ON = ("1", "t", "true", "y", "yes")


def keep_to_pools(*, quiet: bool) -> None:
    """Switches off, before a process group looks, that all memory is registered."""
    switched_on = [name for name in SWITCHES if os.environ.get(name, "").lower() in _ON]
    for name in switched_on:
        os.environ[name] = "0"
    if switched_on:
        say(f"{switched_on[0]} is switched off: NCCL can register the memory of a torch.cuda.MemPool "
            "(register_mem_pool), not all of it", quiet=quiet)
