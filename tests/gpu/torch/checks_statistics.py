"""checks_statistics.py - the numbers PyTorch keeps about its memory, under any allocator."""
import unittest
import warnings

from case import (ALLOCATOR, DEVICE, GIB, MIB, SETTINGS, Case, blocks_of,
                  only_pytorch_placement, settings, take, torch)

METRICS = ("allocation", "segment", "active", "inactive_split", "allocated_bytes",
           "reserved_bytes", "active_bytes", "inactive_split_bytes", "requested_bytes")
KINDS = ("all", "small_pool", "large_pool")
MEASURES = ("current", "peak", "allocated", "freed")
COUNTERS = ("num_alloc_retries", "num_ooms", "max_split_size", "num_sync_all_streams",
            "num_device_alloc", "num_device_free")


class Statistics(Case):
    def test_memory_allocated_follows_the_tensors(self):
        base = torch.cuda.memory_allocated()
        first = take(MIB)
        self.assertEqual(torch.cuda.memory_allocated() - base, MIB)
        second = take(1)
        self.assertEqual(torch.cuda.memory_allocated() - base, MIB + 512)
        self.assertGreaterEqual(torch.cuda.memory_reserved(), torch.cuda.memory_allocated())
        del first
        self.assertEqual(torch.cuda.memory_allocated() - base, 512)
        del second
        self.assertEqual(torch.cuda.memory_allocated(), base)

    def test_peaks_stay_and_are_reset(self):
        torch.cuda.reset_peak_memory_stats()
        base = torch.cuda.memory_allocated()
        self.assertEqual(torch.cuda.max_memory_allocated(), base)
        tensor = take(64 * MIB)
        del tensor
        self.assertEqual(torch.cuda.max_memory_allocated() - base, 64 * MIB)
        self.assertGreaterEqual(torch.cuda.max_memory_reserved(), base + 64 * MIB)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        self.assertEqual(torch.cuda.max_memory_allocated(), base)
        self.assertEqual(torch.cuda.max_memory_reserved(), torch.cuda.memory_reserved())

    def test_totals_are_reset(self):
        tensor = take(MIB)
        torch.cuda.reset_accumulated_memory_stats()
        stats = torch.cuda.memory_stats()
        for metric in METRICS:
            self.assertEqual(stats[f"{metric}.all.allocated"], 0, metric)
            self.assertEqual(stats[f"{metric}.all.freed"], 0, metric)
        for counter in ("num_alloc_retries", "num_ooms", "num_device_alloc", "num_device_free"):
            self.assertEqual(stats[counter], 0, counter)
        del tensor
        self.assertEqual(torch.cuda.memory_stats()["active_bytes.all.freed"], MIB)

    def test_the_old_names_still_answer(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.cuda.reset_max_memory_allocated()
            torch.cuda.reset_max_memory_cached()
            self.assertEqual(torch.cuda.memory_cached(), torch.cuda.memory_reserved())
            self.assertEqual(torch.cuda.max_memory_cached(), torch.cuda.max_memory_reserved())

    def test_every_key_is_there_and_no_other(self):
        expected = {f"{m}.{k}.{v}" for m in METRICS for k in KINDS for v in MEASURES}
        expected |= {f"oversize_{what}.{v}" for what in ("allocations", "segments")
                     for v in MEASURES}
        expected |= set(COUNTERS)
        found = set(torch.cuda.memory_stats())
        self.assertEqual(found - expected, set(), "keys PyTorch 2.11 does not have")
        self.assertEqual(expected - found, set(), "keys that are missing")
        self.assertEqual(list(torch.cuda.memory_stats()), sorted(found))
        self.assertIsInstance(torch.cuda.memory_stats_as_nested_dict()["active"]["all"], dict)

    def test_small_and_large_make_all(self):
        before = torch.cuda.memory_stats()
        kept = [take(n) for n in (1, 600, 40_000, MIB, MIB + 1, 3 * MIB, 30 * MIB)]
        del kept[::2]
        after = torch.cuda.memory_stats()
        for metric in METRICS:
            for stats in (before, after):
                self.assertEqual(
                    stats[f"{metric}.all.current"],
                    stats[f"{metric}.small_pool.current"] + stats[f"{metric}.large_pool.current"],
                    metric)
            change = {v: after[f"{metric}.all.{v}"] - before[f"{metric}.all.{v}"]
                      for v in MEASURES}
            self.assertEqual(change["current"], change["allocated"] - change["freed"], metric)
            self.assertGreaterEqual(after[f"{metric}.all.peak"], after[f"{metric}.all.current"])

    @only_pytorch_placement
    def test_the_numbers_of_a_worked_example(self):
        pool = torch.cuda.MemPool()
        before = torch.cuda.memory_stats()
        with torch.cuda.use_mem_pool(pool):
            kept = [take(n) for n in (1, 1048576, 1048577, 10485760, 10485761)]
        after = torch.cuda.memory_stats()
        change = {k: after[k] - before[k] for k in after}
        self.assertEqual(change["allocated_bytes.all.current"], 23070208)
        self.assertEqual(change["requested_bytes.all.current"], 23068675)
        self.assertEqual(change["reserved_bytes.all.current"], 35651584)
        self.assertEqual(change["segment.all.current"], 3)
        self.assertEqual(change["inactive_split.all.current"], 3)
        self.assertEqual(change["inactive_split_bytes.all.current"], 12581376)
        self.assertEqual(change["inactive_split_bytes.all.allocated"], 24115712)
        self.assertEqual(change["inactive_split_bytes.all.freed"], 11534336)
        self.assertEqual(change["num_device_alloc"], 3)
        del kept

    def test_the_summary_has_pytorchs_shape(self):
        take(MIB)
        for is_short, line_count in ((False, 47), (True, 29)):
            lines = torch.cuda.memory_summary(abbreviated=is_short).rstrip("\n").split("\n")
            self.assertEqual(len(lines), line_count)
            self.assertEqual({len(line) for line in lines}, {77})
        self.assertIn("PyTorch CUDA memory summary, device ID 0", lines[1])

    def test_the_generic_door_says_the_same(self):
        tensor = take(3 * MIB)
        for name in ("memory_allocated", "memory_reserved", "max_memory_allocated",
                     "max_memory_reserved"):
            self.assertEqual(getattr(torch.accelerator, name)(), getattr(torch.cuda, name)(), name)
        generic, own = torch.accelerator.memory_stats(), torch.cuda.memory_stats()
        self.assertIn("allocated_bytes.all.current", generic)
        self.assertEqual({k: v for k, v in generic.items() if own.get(k) != v}, {})
        free_bytes, total_bytes = torch.accelerator.get_memory_info()
        self.assertEqual(total_bytes, torch.cuda.mem_get_info()[1])
        self.assertGreater(free_bytes, 0)
        del tensor
        torch.accelerator.reset_peak_memory_stats()
        self.assertEqual(torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated())
        torch.accelerator.reset_accumulated_memory_stats()
        self.assertEqual(torch.cuda.memory_stats()["allocation.all.allocated"], 0)
        torch.accelerator.empty_cache()
        self.assertEqual(torch.cuda.memory_reserved(), torch.accelerator.memory_reserved())

    def test_empty_cache_returns_memory_to_the_driver(self):
        size_bytes = 16 * GIB
        slack_bytes = 4 * GIB  # the other checks run beside this one
        before = torch.cuda.mem_get_info()[0]
        tensor = take(size_bytes)
        held = torch.cuda.mem_get_info()[0]
        self.assertLess(held, before - size_bytes + slack_bytes)
        del tensor
        torch.cuda.synchronize()
        self.assertLess(torch.cuda.mem_get_info()[0], before - size_bytes + slack_bytes)
        reserved = torch.cuda.memory_reserved()
        torch.cuda.empty_cache()
        self.assertLessEqual(torch.cuda.memory_reserved(), reserved - size_bytes)
        self.assertGreater(torch.cuda.mem_get_info()[0], before - slack_bytes)

    def test_the_segments_add_up_to_the_statistics(self):
        kept = [take(n) for n in (1, 513, MIB, 5 * MIB, 33 * MIB)]
        del kept[1]
        segments = torch.cuda.memory_snapshot()
        stats = torch.cuda.memory_stats()
        self.assertEqual(sum(s["total_size"] for s in segments),
                         stats["reserved_bytes.all.current"])
        self.assertEqual(sum(s["allocated_size"] for s in segments),
                         stats["allocated_bytes.all.current"])
        self.assertEqual(sum(s["active_size"] for s in segments), stats["active_bytes.all.current"])
        for segment in segments:
            at = segment["address"]
            for block in segment["blocks"]:
                self.assertEqual(block["address"], at, "blocks tile their segment")
                at += block["size"]
            self.assertEqual(at - segment["address"], segment["total_size"])
        live = {b["address"]: b for b in blocks_of(segments) if b["state"] == "active_allocated"}
        for tensor in kept:
            self.assertEqual(live[tensor.data_ptr()]["requested_size"], tensor.numel())
        del kept


class Doors(Case):
    """Ways to memory that are no tensor."""

    def test_the_backend_has_a_name(self):
        name = torch.cuda.get_allocator_backend()
        self.assertIsInstance(name, str)
        if ALLOCATOR == "pytorch":
            self.assertEqual(name, "cudaMallocAsync" if "Async" in SETTINGS else "native")
        else:
            self.assertNotIn(name, ("", "pluggable", "cudaMallocAsync"))

    def test_raw_memory_is_counted_and_freed(self):
        base = torch.cuda.memory_allocated()
        address = torch.cuda.caching_allocator_alloc(100_000)
        self.assertNotEqual(address, 0)
        self.assertEqual(torch.cuda.memory_allocated() - base, 100_352)
        torch.cuda.caching_allocator_delete(address)
        self.assertEqual(torch.cuda.memory_allocated(), base)
        stream = torch.cuda.Stream()
        address = torch.cuda.caching_allocator_alloc(100_000, stream=stream)
        self.assertEqual([s["stream"] for s in torch.cuda.memory_snapshot()
                          for b in s["blocks"] if b["address"] == address], [stream.cuda_stream])
        torch.cuda.caching_allocator_delete(address)

    def test_freeing_what_is_not_ours_is_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "invalid device pointer"):
            torch.cuda.caching_allocator_delete(0x7F0000000200)

    def test_caching_can_be_switched_off_and_on(self):
        key = "requested_bytes.all.allocated"
        try:
            torch.cuda.caching_allocator_enable(False)
            before = torch.cuda.memory_stats()[key]
            address = torch.cuda.caching_allocator_alloc(MIB)
            tensor = torch.full((1000,), 7.0, device=DEVICE)
            self.assertEqual(torch.cuda.memory_stats()[key], before)
            self.assertEqual(tensor.sum().item(), 7000.0)
            torch.cuda.caching_allocator_delete(address)
        finally:
            torch.cuda.caching_allocator_enable(True)
        del tensor  # made without the cache: its memory must find its way back all the same
        before = torch.cuda.memory_stats()[key]
        tensor = take(MIB)
        self.assertEqual(torch.cuda.memory_stats()[key] - before, MIB)

    def test_an_empty_tensor_needs_nothing(self):
        base = torch.cuda.memory_stats()["allocation.all.current"]
        tensor = torch.empty(0, device=DEVICE)
        self.assertEqual(tensor.data_ptr(), 0)
        self.assertEqual(torch.cuda.memory_stats()["allocation.all.current"], base)

    def test_the_mutex_can_be_held(self):
        with torch.cuda.memory._free_mutex():
            pass

    def test_a_tensor_is_resized_in_place(self):
        tensor = torch.arange(1000, device=DEVICE)
        tensor.resize_(2_000_000)
        self.assertEqual(tensor[:1000].sum().item(), 499500)


class Settings(Case):
    """PyTorch's settings, changed while it runs."""

    def tearDown(self) -> None:
        settings(SETTINGS if "expandable" in SETTINGS else "expandable_segments:False")
        super().tearDown()

    def test_roundup_by_power_of_two(self):
        settings("roundup_power2_divisions:4")
        before = torch.cuda.memory_stats()["active_bytes.all.allocated"]
        tensor = take(100 * MIB)
        grown = torch.cuda.memory_stats()["active_bytes.all.allocated"] - before
        if ALLOCATOR in ("pytorch", "torch"):
            self.assertEqual(grown, 112 * MIB)
        else:
            self.assertIn(grown, (100 * MIB, 112 * MIB))
        del tensor
        settings("")
        before = torch.cuda.memory_stats()["active_bytes.all.allocated"]
        tensor = take(84 * MIB)
        self.assertEqual(torch.cuda.memory_stats()["active_bytes.all.allocated"] - before, 84 * MIB)

    def test_expandable_segments_on_and_off(self):
        pattern = [torch.full((MIB,), i, dtype=torch.uint8, device=DEVICE) for i in range(3)]
        settings("expandable_segments:True")
        pattern += [torch.full((30 * MIB,), i, dtype=torch.uint8, device=DEVICE)
                    for i in range(3, 6)]
        if ALLOCATOR in ("pytorch", "torch"):
            self.assertTrue(any(s["is_expandable"] for s in torch.cuda.memory_snapshot()))
        settings("expandable_segments:False")
        pattern += [torch.full((50 * MIB,), i, dtype=torch.uint8, device=DEVICE)
                    for i in range(6, 9)]
        for i, tensor in enumerate(pattern):
            self.assertTrue(bool((tensor == i).all()))
        del pattern, tensor
        self.settle()

    @only_pytorch_placement
    def test_max_split_size_keeps_large_blocks_whole(self):
        settings("max_split_size_mb:200")
        first = take(210 * MIB)
        address = first.data_ptr()
        del first
        second = take(100 * MIB)
        self.assertNotEqual(second.data_ptr(), address)
        third = take(200 * MIB)
        self.assertEqual(third.data_ptr(), address)

    def test_what_is_no_setting_is_refused(self):
        for text in ("foo:1,bar:2", "garbage_collection_threshold:1.2", "max_split_size_mb:2",
                     "release_lock_on_cudamalloc:none", "pinned_num_register_threads:1024"):
            with self.assertRaises((ValueError, RuntimeError), msg=text):
                settings(text)

    def test_garbage_is_collected_under_a_limit(self):
        with self.allowed(120 * MIB):
            settings("garbage_collection_threshold:0.5")
            first, second = take(40 * MIB), take(40 * MIB)
            del first, second
            self.assertEqual(take(80 * MIB).numel(), 80 * MIB)
        settings("")


if __name__ == "__main__":
    unittest.main()
