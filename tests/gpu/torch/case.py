"""case.py - what the checks of an allocator share: torch with that allocator, and a clean start."""
import contextlib
import gc
import os
import unittest
import warnings

import under

torch = under.enter_again()

ALLOCATOR, SETTINGS = under.split(os.environ.get(under.KEPT_IN, "pytorch"))
# Where a block lies, and when memory is taken, is then PyTorch's rule to the byte.
IS_PYTORCH_PLACEMENT = ALLOCATOR in ("pytorch", "torch") and SETTINGS == ""
MIB = under.MIB
GIB = under.GIB
DEVICE = "cuda"
TOTAL_BYTES = torch.cuda.get_device_properties(0).total_memory
only_pytorch_placement = unittest.skipUnless(
    IS_PYTORCH_PLACEMENT, "the numbers are those of PyTorch's own placement")


def settings(text: str) -> None:
    """PyTorch's settings, at run time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.cuda.memory._set_allocator_settings(text)


def take(size_bytes: int):
    """One request of that many bytes."""
    return torch.empty(size_bytes, dtype=torch.uint8, device=DEVICE)


def blocks_of(segments):
    return [block for segment in segments for block in segment["blocks"]]


def segments_of(pool_id):
    return [s for s in torch.cuda.memory_snapshot() if s["segment_pool_id"] == pool_id]


class Case(unittest.TestCase):
    def setUp(self) -> None:
        self.settle()

    def tearDown(self) -> None:
        torch.cuda.memory._record_memory_history(None)
        torch.cuda.memory._set_memory_metadata("")
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.caching_allocator_enable(True)
        self.settle()

    @staticmethod
    def settle() -> None:
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()

    @contextlib.contextmanager
    def allowed(self, size_bytes: int):
        """Within: no more than what is reserved now, and `size_bytes`."""
        self.settle()
        limit_bytes = torch.cuda.memory_reserved() + size_bytes
        # Half a byte more: the limit is cut to a whole number.
        torch.cuda.set_per_process_memory_fraction((limit_bytes + 0.5) / TOTAL_BYTES)
        try:
            yield limit_bytes
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)

    @contextlib.contextmanager
    def counted(self, expected):
        """Within: each statistic of `expected` grows by that much."""
        before = torch.cuda.memory_stats()
        yield
        after = torch.cuda.memory_stats()
        for key, change in expected.items():
            self.assertEqual(after[key] - before[key], change, f"{key} changed by another amount")
