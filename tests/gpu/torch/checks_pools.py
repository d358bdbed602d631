"""checks_pools.py - MemPool: routing, custom sources of memory, checkpoints, and going away."""
import ctypes
import gc
import os
import subprocess
import tempfile
import threading
import unittest

from case import (DEVICE, MIB, Case, blocks_of, only_pytorch_placement, segments_of,
                  take, torch)

# Segments from the driver, found with dlopen: nothing of CUDA is needed to compile it.
SOURCE = r"""
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
typedef unsigned long long address;
static void *entry(const char *name)
{
    return dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), name);
}
extern "C" {
__attribute__((visibility("default"))) long taken = 0, given_back = 0, refuse = 0, last_size = 0;
__attribute__((visibility("default"))) long last_device = -1;
__attribute__((visibility("default"))) void *source_take(size_t size, int device, void *stream)
{
    address result = 0;
    (void)stream;
    if (refuse != 0)
        return nullptr;
    if (((int (*)(address *, size_t))entry("cuMemAlloc_v2"))(&result, size) != 0)
        return nullptr;
    taken++;
    last_size = (long)size;
    last_device = device;
    return (void *)(uintptr_t)result;
}
__attribute__((visibility("default"))) void source_give(void *at, size_t size, int device, void *s)
{
    (void)size, (void)device, (void)s;
    given_back++;
    ((int (*)(address))entry("cuMemFree_v2"))((address)(uintptr_t)at);
}
}
"""


class Source:
    """A library of the functions above, compiled once, with its counters."""

    folder = None

    def __init__(self) -> None:
        if Source.folder is None:
            Source.folder = tempfile.TemporaryDirectory()
        number = len(os.listdir(Source.folder.name))
        text = os.path.join(Source.folder.name, f"source{number}.cpp")
        library = os.path.join(Source.folder.name, f"source{number}.so")
        with open(text, "w", encoding="ascii") as file:
            file.write(SOURCE)
        subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-o", library, text, "-ldl"], check=True)
        self.allocator = torch.cuda.memory.CUDAPluggableAllocator(library, "source_take",
                                                                  "source_give")
        self.library = ctypes.CDLL(library)

    def count(self, name: str) -> int:
        return ctypes.c_long.in_dll(self.library, name).value

    def refuse(self, is_refused: bool) -> None:
        ctypes.c_long.in_dll(self.library, "refuse").value = int(is_refused)


def live_addresses(pool) -> set:
    return {b["address"] for b in blocks_of(pool.snapshot()) if b["state"] == "active_allocated"}


class Pools(Case):
    def test_a_pool_has_an_id_of_its_own(self):
        first, second = torch.cuda.MemPool(), torch.cuda.MemPool()
        handle = torch.cuda.graph_pool_handle()
        self.assertEqual(first.id[0], 0)
        self.assertEqual(len({first.id, second.id, handle}), 3)

    def test_allocations_are_routed_to_the_pool(self):
        pool = torch.cuda.MemPool()
        outside = take(5 * MIB)
        with torch.cuda.use_mem_pool(pool):
            inside = torch.full((5 * MIB,), 4, dtype=torch.uint8, device=DEVICE)
        after = take(5 * MIB)
        mine = live_addresses(pool)
        self.assertEqual(mine, {inside.data_ptr()})
        self.assertEqual({s["segment_pool_id"] for s in pool.snapshot()}, {pool.id})
        for tensor in (outside, after):
            self.assertNotIn(tensor.data_ptr(), mine)
        self.assertTrue(bool((inside == 4).all()))

    def test_a_pools_memory_serves_nobody_else(self):
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            tensor = take(40 * MIB)
        addresses = range(tensor.data_ptr(), tensor.data_ptr() + 40 * MIB)
        del tensor
        self.assertNotIn(take(40 * MIB).data_ptr(), addresses)
        with torch.cuda.use_mem_pool(pool):
            self.assertIn(take(40 * MIB).data_ptr(), addresses)

    def test_uses_are_counted(self):
        pool = torch.cuda.MemPool()
        self.assertEqual(pool.use_count(), 1)
        with torch.cuda.use_mem_pool(pool):
            tensor = take(MIB)
            self.assertEqual(pool.use_count(), 2)
        self.assertEqual(pool.use_count(), 1)
        del tensor

    def test_the_innermost_pool_serves(self):
        pools = [torch.cuda.MemPool() for _ in range(3)]
        kept = []
        with torch.cuda.use_mem_pool(pools[0]):
            kept.append(take(20 * MIB))
            with torch.cuda.use_mem_pool(pools[1]):
                kept.append(take(20 * MIB))
                with torch.cuda.use_mem_pool(pools[2]):
                    kept.append(take(20 * MIB))
                kept.append(take(20 * MIB))
            kept.append(take(20 * MIB))
        counts = [sum(b["state"] == "active_allocated" for b in blocks_of(p.snapshot()))
                  for p in pools]
        self.assertEqual(counts, [2, 2, 1])
        del kept

    def test_a_pool_cannot_be_entered_twice(self):
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            with self.assertRaises(RuntimeError):
                torch._C._cuda_beginAllocateCurrentThreadToPool(0, pool.id)
        with self.assertRaises(RuntimeError):
            torch._C._cuda_endAllocateToPool(0, pool.id)
        self.assertEqual(take(MIB).numel(), MIB)

    def test_other_threads_are_not_routed(self):
        pool = torch.cuda.MemPool()
        found = []
        with torch.cuda.use_mem_pool(pool):
            inside = take(3 * MIB)
            thread = threading.Thread(target=lambda: found.append(take(3 * MIB)))
            thread.start()
            thread.join()
        mine = live_addresses(pool)
        self.assertEqual(mine, {inside.data_ptr()})
        self.assertEqual(len(found), 1)

    def test_pools_of_several_threads(self):
        pools = [torch.cuda.MemPool() for _ in range(4)]

        def work(pool):
            with torch.cuda.use_mem_pool(pool):
                for i in range(50):
                    torch.randn(1000 * (i + 1), device=DEVICE)
                torch.cuda.empty_cache()

        threads = [threading.Thread(target=work, args=(pool,)) for pool in pools]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for pool in pools:
            self.assertGreaterEqual(len(pool.snapshot()), 1, "what a pool holds stays with it")

    def test_a_pool_that_goes_gives_its_memory_back(self):
        base = torch.cuda.memory_reserved()
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            tensor = take(60 * MIB)
        self.assertGreaterEqual(torch.cuda.memory_reserved() - base, 60 * MIB)
        identity = pool.id
        del tensor
        torch.cuda.empty_cache()
        self.assertGreaterEqual(torch.cuda.memory_reserved() - base, 60 * MIB, "not while it lives")
        del pool
        gc.collect()
        self.assertEqual(torch.cuda.memory_reserved(), base)
        self.assertEqual(segments_of(identity), [])

    def test_a_tensor_outlives_its_pool(self):
        base = torch.cuda.memory_reserved()
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            tensor = torch.full((30 * MIB,), 6, dtype=torch.uint8, device=DEVICE)
        del pool
        gc.collect()
        other = [take(n * MIB) for n in (1, 10, 30)]
        self.assertTrue(bool((tensor == 6).all()))
        del tensor, other
        torch.cuda.empty_cache()
        self.assertEqual(torch.cuda.memory_reserved(), base)

    @only_pytorch_placement
    def test_a_pool_without_splits(self):
        whole, split = torch.cuda.MemPool(no_split=True), torch.cuda.MemPool()
        kept = []
        for pool in (whole, split):
            with torch.cuda.use_mem_pool(pool):
                kept += [take(4 * MIB), take(4 * MIB)]
        self.assertEqual((len(whole.snapshot()), len(split.snapshot())), (2, 1))
        self.assertEqual(len(blocks_of(whole.snapshot())), 2)
        self.assertEqual(len(blocks_of(split.snapshot())), 3)
        del kept

    def test_a_pool_for_emergencies(self):
        shut, ready = torch.cuda.MemPool(), torch.cuda.MemPool(use_on_oom=True)
        with self.allowed(80 * MIB):
            with torch.cuda.use_mem_pool(shut):
                first = take(40 * MIB)
            with torch.cuda.use_mem_pool(ready):
                second = take(40 * MIB)
            address = second.data_ptr()
            with self.assertRaises(torch.OutOfMemoryError):
                take(40 * MIB)
            del first, second
            third = take(30 * MIB)
            self.assertEqual(third.data_ptr(), address)
            with self.assertRaises(torch.OutOfMemoryError):
                take(30 * MIB)
            del third
            with torch.cuda.use_mem_pool(ready):
                fourth = take(20 * MIB)
            self.assertIn(fourth.data_ptr(), range(address, address + 40 * MIB))
            del fourth


class Sources(Case):
    """Pools whose segments come from a CUDAPluggableAllocator."""

    def test_a_source_is_asked_for_segments(self):
        source = Source()
        pool = torch.cuda.MemPool(source.allocator.allocator())
        with torch.cuda.use_mem_pool(pool):
            kept = [torch.full((MIB,), i, dtype=torch.uint8, device=DEVICE) for i in range(2)]
            self.assertEqual((source.count("taken"), source.count("last_device")), (1, 0))
            self.assertEqual(source.count("last_size") % (2 * MIB), 0)
            self.assertEqual(len(pool.snapshot()), 1)
            kept.append(torch.full((MIB,), 2, dtype=torch.uint8, device=DEVICE))
            self.assertEqual((source.count("taken"), len(pool.snapshot())), (2, 2))
        for i, tensor in enumerate(kept):
            self.assertTrue(bool((tensor == i).all()))
        self.assertFalse(any(s["is_expandable"] for s in pool.snapshot()))
        del kept, tensor
        self.assertEqual(source.count("given_back"), 0)
        del pool
        gc.collect()
        self.assertEqual(source.count("given_back"), 2)

    def test_a_source_that_refuses_is_out_of_memory(self):
        source = Source()
        pool = torch.cuda.MemPool(source.allocator.allocator())
        source.refuse(True)
        with torch.cuda.use_mem_pool(pool):
            with self.assertRaises(torch.OutOfMemoryError):
                take(10 * MIB)
            source.refuse(False)
            self.assertEqual(take(10 * MIB).numel(), 10 * MIB)
        del pool

    def test_a_tensor_outlives_pool_and_source(self):
        source = Source()
        pool = torch.cuda.MemPool(source.allocator.allocator())
        with torch.cuda.use_mem_pool(pool):
            tensor = torch.full((4,), 5.0, device=DEVICE)
        del pool
        source.allocator = None
        gc.collect()
        self.assertEqual(source.count("given_back"), 0)
        self.assertEqual(tensor.sum().item(), 20.0)
        del tensor
        torch.cuda.empty_cache()
        self.assertEqual(source.count("given_back"), 1)

    def test_the_current_allocator_can_be_asked_for(self):
        self.assertIsNotNone(torch.cuda.memory._get_current_allocator().allocator())

    def test_it_cannot_be_changed_once_in_use(self):
        source = Source()
        with self.assertRaisesRegex(RuntimeError, "already initialized"):
            torch.cuda.memory.change_current_allocator(source.allocator)


class Checkpoints(Case):
    """What graph trees do with a private pool."""

    def captured(self, function, pool=None):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            function()
        stream.synchronize()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream, pool=pool):
            outputs = function()
        return graph, outputs

    @staticmethod
    def live_count(pool_id) -> int:
        return sum(b["state"] == "active_allocated" for b in blocks_of(segments_of(pool_id)))

    def test_a_state_is_restored(self):
        def work():
            first = torch.ones(8 * MIB, dtype=torch.uint8, device=DEVICE)
            second = [torch.ones(512, dtype=torch.uint8, device=DEVICE) for _ in range(11)]
            return first + first, second[5], second[8]

        graph, outputs = self.captured(work)
        identity = graph.pool()
        before = segments_of(identity)
        state = torch._C._cuda_getCheckpointState(0, identity)
        torch._C._cuda_setCheckpointPoolState(0, state, [], [])
        after = {s["address"]: s for s in segments_of(identity)}
        for segment in before:
            other = after[segment["address"]]
            for key in ("total_size", "allocated_size", "active_size", "segment_type"):
                self.assertEqual(other[key], segment[key], key)
            self.assertEqual([(b["address"], b["size"], b["state"]) for b in other["blocks"]],
                             [(b["address"], b["size"], b["state"]) for b in segment["blocks"]])
        del outputs

    def test_what_came_later_is_freed_by_a_restore(self):
        graph, outputs = self.captured(lambda: [torch.ones(512, dtype=torch.uint8, device=DEVICE)])
        identity = graph.pool()
        state = torch._C._cuda_getCheckpointState(0, identity)
        other, later = self.captured(
            lambda: [torch.ones(512, dtype=torch.uint8, device=DEVICE)], pool=identity)
        self.assertEqual(self.live_count(identity), 2)
        stale = [t.untyped_storage()._cdata for t in later]
        torch._C._cuda_setCheckpointPoolState(0, state, stale, [])
        self.assertEqual(self.live_count(identity), 1)
        del later
        self.assertEqual(self.live_count(identity), 1)
        del outputs, other, graph

    def test_what_died_since_is_live_after_a_restore(self):
        graph, outputs = self.captured(
            lambda: [torch.ones(512, dtype=torch.uint8, device=DEVICE) for _ in range(2)])
        identity = graph.pool()
        state = torch._C._cuda_getCheckpointState(0, identity)
        addresses = [t.data_ptr() for t in outputs]
        del outputs
        self.assertEqual(self.live_count(identity), 0)
        torch._C._cuda_setCheckpointPoolState(0, state, [], [])
        self.assertEqual(self.live_count(identity), 2)
        for left, address in zip((1, 0), addresses):
            torch._C._cuda_cudaCachingAllocator_raw_delete(address)
            self.assertEqual(self.live_count(identity), left)
        del graph

    def test_live_allocations_are_compared(self):
        pool = torch.cuda.graph_pool_handle()
        graph, outputs = self.captured(lambda: [torch.ones(4, device=DEVICE)], pool=pool)

        def check(addresses):
            return torch._C._cuda_checkPoolLiveAllocations(0, pool, addresses)

        address = outputs[0].data_ptr()
        self.assertTrue(check({address}))
        self.assertFalse(check({address, 0}))
        self.assertFalse(check(set()))
        del outputs
        self.assertTrue(check(set()))
        del graph


if __name__ == "__main__":
    unittest.main()
