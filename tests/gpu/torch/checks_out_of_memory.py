"""checks_out_of_memory.py - running out of memory: the error, what it counts, and life after it."""
import gc
import re
import unittest

from case import (DEVICE, MIB, Case, only_pytorch_placement, take, torch)

SIZE = r"[0-9.]+ (?:GiB|MiB|KiB|bytes)"
TEXT = re.compile(
    rf"CUDA out of memory\. Tried to allocate {SIZE}\. GPU 0 has a total capacity of {SIZE} of "
    rf"which {SIZE} is free\. (?P<processes>(?:Process \d+ has {SIZE} memory in use\. |"
    rf"Including non-PyTorch memory, this process has {SIZE} memory in use\. )*)"
    rf"(?P<allowed>{SIZE} allowed; )?Of the allocated memory {SIZE} is allocated by PyTorch, "
    rf"(?:with {SIZE} allocated in private pools \(e\.g\., CUDA Graphs\), )?"
    rf"and {SIZE} is reserved by PyTorch but unallocated\. "
    r"If reserved but unallocated memory is large try setting "
    r"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation\.  "
    r"See documentation for Memory Management  \(https://docs\.pytorch\.org/docs/stable/notes/"
    r"cuda\.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf\)")


class OutOfMemory(Case):
    def failing(self, size_bytes: int) -> str:
        with self.assertRaises(torch.OutOfMemoryError) as caught:
            take(size_bytes)
        return str(caught.exception)

    def test_the_error_is_pytorchs_own(self):
        self.assertIs(torch.cuda.OutOfMemoryError, torch.OutOfMemoryError)
        self.assertTrue(issubclass(torch.OutOfMemoryError, RuntimeError))
        tensor = torch.zeros(1024, device=DEVICE)
        text = self.failing(1024 * 1024 * 1024 * 800_000_000)
        self.assertIn("Tried to allocate 800000000.00 GiB. GPU 0 has a total capacity of", text)
        text = self.failing(1024 * 1024 * 1024 * 8_000_000_000)
        self.assertIn("Tried to allocate more than 1EB memory", text)
        tensor.fill_(1)
        self.assertTrue(bool((tensor == 1).all()))

    def test_the_text_is_pytorchs_word_for_word(self):
        text = self.failing(1 << 50)
        match = TEXT.fullmatch(text.split("\n")[0])
        self.assertIsNotNone(match, f"another text: {text}")
        self.assertIsNone(match["allowed"])
        with self.allowed(100 * MIB) as limit_bytes:
            text = self.failing(200 * MIB)
            match = TEXT.fullmatch(text.split("\n")[0])
            self.assertIsNotNone(match, f"another text: {text}")
            self.assertEqual(match["allowed"].split()[0], f"{limit_bytes / MIB:.2f}")

    def test_an_error_is_counted(self):
        with self.allowed(100 * MIB), self.counted({"num_ooms": 1, "num_alloc_retries": 1}):
            self.failing(200 * MIB)

    def test_memory_serves_again_after_an_error(self):
        with self.allowed(100 * MIB):
            first = take(60 * MIB)
            self.failing(60 * MIB)
            del first
            second = torch.full((60 * MIB,), 9, dtype=torch.uint8, device=DEVICE)
            self.assertTrue(bool((second[::4096].cpu() == 9).all()))

    def test_cached_memory_is_given_up_before_the_error(self):
        with self.allowed(120 * MIB):
            before = torch.cuda.memory_stats()
            kept = [take(30 * MIB) for _ in range(4)]
            del kept
            self.assertEqual(take(110 * MIB).numel(), 110 * MIB)
            after = torch.cuda.memory_stats()
            self.assertEqual(after["num_ooms"], before["num_ooms"])

    @only_pytorch_placement
    def test_a_retry_is_counted(self):
        with self.allowed(64 * MIB):
            kept = [take(12 * MIB) for _ in range(5)]
            del kept
            with self.counted({"num_alloc_retries": 1, "num_ooms": 0,
                               "num_device_free": 5, "num_device_alloc": 1}):
                take(30 * MIB)

    def test_the_exception_holds_no_memory(self):
        base = torch.cuda.memory_allocated()
        with self.allowed(100 * MIB):
            def work():
                held = take(60 * MIB)
                return held, take(60 * MIB)
            try:
                work()
                self.fail("200 MiB fit into 100 MiB")
            except torch.OutOfMemoryError:
                pass
            gc.collect()
            self.assertEqual(torch.cuda.memory_allocated(), base)

    def test_the_observer_is_told(self):
        calls = []
        torch._C._cuda_attach_out_of_memory_observer(lambda *arguments: calls.append(arguments))
        with self.allowed(100 * MIB):
            self.failing(200 * MIB)
        self.assertEqual(len(calls), 1)
        device, size_bytes, total_bytes, free_bytes = calls[0]
        self.assertEqual((device, size_bytes), (0, 200 * MIB))
        self.assertGreater(total_bytes, 0)
        self.assertGreaterEqual(free_bytes, 0)

    def test_an_observer_may_take_a_snapshot(self):
        torch.cuda.memory._record_memory_history("all", stacks="python")
        seen = []
        torch._C._cuda_attach_out_of_memory_observer(
            lambda *arguments: seen.append(torch.cuda.memory._snapshot()))
        with self.allowed(100 * MIB):
            self.failing(200 * MIB)
        events = seen[0]["device_traces"][0]
        self.assertEqual(events[-1]["action"], "oom")
        self.assertEqual(events[-1]["size"], 200 * MIB)
        self.assertIn("device_free", events[-1])
        self.assertNotIn("addr", events[-1])

    def test_a_block_in_use_elsewhere_is_waited_for(self):
        stream = torch.cuda.Stream()
        with self.allowed(100 * MIB):
            tensor = take(80 * MIB)
            with torch.cuda.stream(stream):
                torch.cuda._sleep(20_000_000)
            tensor.record_stream(stream)
            del tensor
            # Only by waiting for the other stream can this be served.
            self.assertEqual(take(90 * MIB).numel(), 90 * MIB)


class Fractions(Case):
    def test_a_fraction_is_kept_and_told(self):
        self.assertEqual(torch.cuda.get_per_process_memory_fraction(), 1.0)
        torch.cuda.set_per_process_memory_fraction(0.5)
        self.assertEqual(torch.cuda.get_per_process_memory_fraction(0), 0.5)
        torch.cuda.set_per_process_memory_fraction(1.0, 0)
        self.assertEqual(torch.cuda.get_per_process_memory_fraction(), 1.0)

    def test_what_is_no_fraction_is_refused(self):
        with self.assertRaisesRegex(TypeError, "Invalid type"):
            torch.cuda.set_per_process_memory_fraction(1)
        for fraction in (-0.1, 2.0):
            with self.assertRaisesRegex(ValueError, "Invalid fraction value"):
                torch.cuda.set_per_process_memory_fraction(fraction)

    def test_a_limit_holds_and_is_lifted(self):
        with self.allowed(50 * MIB):
            self.assertEqual(take(40 * MIB).numel(), 40 * MIB)
            with self.assertRaises(torch.OutOfMemoryError):
                take(60 * MIB)
        self.assertEqual(take(60 * MIB).numel(), 60 * MIB)

    def test_what_is_held_already_stays(self):
        tensor = torch.full((100 * MIB,), 3, dtype=torch.uint8, device=DEVICE)
        torch.cuda.set_per_process_memory_fraction(0.0)
        with self.assertRaises(torch.OutOfMemoryError):
            take(100 * MIB)
        torch.cuda.set_per_process_memory_fraction(1.0)
        self.assertEqual(tensor.sum().item(), 3 * 100 * MIB)

    def test_reserved_stays_below_the_limit(self):
        with self.allowed(200 * MIB) as limit_bytes:
            torch.cuda.reset_peak_memory_stats()
            for size in (30, 70, 110, 150, 190):
                tensor = take(size * MIB)
                self.assertLessEqual(torch.cuda.memory_reserved(), limit_bytes)
                del tensor
            self.assertLessEqual(torch.cuda.max_memory_reserved(), limit_bytes)


if __name__ == "__main__":
    unittest.main()
