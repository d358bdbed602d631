#!/usr/bin/env python3
"""check_live.py [unittest arguments] - the page of a process with a real PyTorch, on a GPU.

What the made-up torch of tests/run cannot show: that the names in PyTorch are those that _live.py
asks for, that a capture of a CUDA graph survives a thread which looks every millisecond, that
torch.compile has nothing to trip over, and that workers can be forked meanwhile. Needs
libvramwise-analysis, for vramwise.jobs().
"""
import os
import sys
import tempfile
import time
import unittest
from pathlib import Path

PAGES = tempfile.TemporaryDirectory(prefix="vramwise-live-")
os.environ.update(VRAMWISE_LIVE_DIR=PAGES.name, VRAMWISE_LIVE_MS="1")
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python"))

import torch  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

import vramwise  # noqa: E402
import vramwise.torch  # noqa: E402

LIMIT_SECONDS = 60
MIB = 1 << 20


class Slow(Dataset):
    """Each sample takes a while."""

    def __len__(self):
        return 24

    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.full((8,), float(index))


def device() -> dict:
    """What this process's page says."""
    (job,) = [job for job in vramwise.jobs() if job["process"] == os.getpid()]
    return job["devices"][0] if job["devices"] else {}


def until(is_so) -> dict:
    """The device, once `is_so` of it."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline:
        found = device()
        if found and is_so(found):
            return found
        time.sleep(0.002)
    raise AssertionError(f"it did not come to that: {device()}")


class Live(unittest.TestCase):
    """In one process, in the order of their names."""

    @classmethod
    def setUpClass(cls):
        assert not torch.cuda.is_initialized()
        vramwise.torch.publish()
        assert not torch.cuda.is_initialized()
        cls.model = torch.nn.Linear(8, 8).cuda()
        cls.optimizer = torch.optim.AdamW(cls.model.parameters())

    def train(self, loader) -> int:
        """The number of steps."""
        count = 0
        for batch in loader:
            self.optimizer.zero_grad()
            self.model(batch.cuda(non_blocking=True)).sum().backward()
            self.optimizer.step()
            count += 1
        return count

    def test_1_the_page_says_what_pytorch_says(self):
        kept = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
        pinned = torch.empty(8 * MIB, dtype=torch.uint8, pin_memory=True)
        found = until(lambda page: page["live_bytes"] == torch.cuda.memory_allocated())
        self.assertEqual(found["reserved_bytes"], torch.cuda.memory_reserved())
        self.assertGreaterEqual(found["peak_live_bytes"], kept.numel())
        self.assertEqual(found["device_total_bytes"], torch.cuda.mem_get_info(0)[1])
        self.assertLess(found["device_free_bytes"], found["device_total_bytes"])
        self.assertGreater(found["allocations"], 0)
        self.assertGreater(found["driver_calls"], 0)
        self.assertEqual((found["retries"], found["out_of_memory"]), (0, 0))
        if found["pinned_bytes"] is not None:
            self.assertGreaterEqual(found["pinned_bytes"], pinned.numel())
        self.assertEqual(found["name"], torch.cuda.get_device_name(0)[:63])
        torch.cuda.set_per_process_memory_fraction(0.5)
        until(lambda page: page["limit_bytes"] == page["device_total_bytes"] // 2)
        torch.cuda.set_per_process_memory_fraction(1.0)

    def test_2_steps_and_waiting_for_input_are_counted(self):
        steps = self.train(DataLoader(Slow(), batch_size=4))
        found = until(lambda page: page["steps"] == steps)
        self.assertEqual(len(found["step_log"]), steps)
        self.assertGreaterEqual(found["input_wait_nanoseconds"], (steps - 1) * 4 * 10_000_000)
        self.assertLessEqual(found["input_wait_nanoseconds"], found["step_nanoseconds"])
        self.assertEqual((found["loader_workers"], found["loader_pins"]), (0, 0))

    def test_3_workers_are_forked_while_the_thread_looks(self):
        for _ in range(5):
            self.train(DataLoader(Slow(), batch_size=4, num_workers=4, pin_memory=True))
        until(lambda page: (page["loader_workers"], page["loader_pins"]) == (4, 1))
        self.assertEqual(len(os.listdir(PAGES.name)), 1)

    def test_4_a_capture_is_not_disturbed(self):
        source = torch.ones(MIB, device="cuda")
        for _ in range(3):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                result = source * 2.0
                time.sleep(0.1)  # the thread looks some tens of times
            graph.replay()
            torch.cuda.synchronize()
            self.assertEqual(result.sum().item(), 2.0 * MIB)

    def test_5_what_is_compiled_is_not_broken_by_us(self):
        counters = torch._dynamo.utils.counters
        counters.clear()
        step = torch.compile(self.optimizer.step, backend="eager")
        self.model(torch.ones(4, 8, device="cuda")).sum().backward()
        step()
        reasons = str(dict(counters["graph_break"]))  # PyTorch may have its own
        for name in ("vramwise", "perf_counter", "get_ident", "memoryStats"):
            self.assertNotIn(name, reasons)
        self.train(DataLoader(Slow(), batch_size=12))  # and outside all goes on


if __name__ == "__main__":
    unittest.main(verbosity=2)
