"""checks_life.py - memory that streams, threads, processes and other libraries share."""
import json
import os
import queue
import random
import tempfile
import threading
import unittest

from case import (DEVICE, MIB, Case, take, torch)


class Streams(Case):
    def test_record_stream_keeps_a_block_until_the_stream_is_done(self):
        side = torch.cuda.Stream()
        result = torch.zeros(MIB, device=DEVICE)
        torch.cuda.synchronize()
        tensor = torch.full((MIB,), 7.0, device=DEVICE)
        address = tensor.data_ptr()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(100_000_000)
            result.copy_(tensor)
        tensor.record_stream(side)
        del tensor
        others = [torch.full((MIB,), -1.0, device=DEVICE) for _ in range(4)]
        self.assertNotIn(address, [t.data_ptr() for t in others])
        torch.cuda.synchronize()
        self.assertTrue(bool((result == 7).all()))
        del others
        # What waited is served again once its event is past.
        again = [torch.empty(MIB, device=DEVICE) for _ in range(8)]
        self.assertTrue(any(t.data_ptr() <= address < t.data_ptr() + 4 * MIB for t in again))

    def test_record_stream_on_a_part_of_a_tensor(self):
        side = torch.cuda.Stream()
        base = torch.full((MIB,), 3.0, device=DEVICE)
        address = base.data_ptr()
        part = base[1000:]
        with torch.cuda.stream(side):
            torch.cuda._sleep(50_000_000)
        part.record_stream(side)
        del base, part
        self.assertNotEqual(torch.empty(MIB, device=DEVICE).data_ptr(), address)
        torch.cuda.synchronize()

    def test_a_block_of_one_stream_is_not_given_to_another(self):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            tensor = take(3 * MIB)
        address = tensor.data_ptr()
        del tensor
        self.assertNotEqual(take(3 * MIB).data_ptr(), address)
        with torch.cuda.stream(side):
            self.assertEqual(take(3 * MIB).data_ptr(), address)

    def test_many_streams_with_values(self):
        streams = [torch.cuda.Stream() for _ in range(4)]
        draw = random.Random(5)
        results = []
        for i in range(200):
            source, sink = draw.sample(streams, 2)
            with torch.cuda.stream(source):
                tensor = torch.full((draw.randint(1000, 2 * MIB),), float(i), device=DEVICE)
            sink.wait_stream(source)
            with torch.cuda.stream(sink):
                results.append((tensor.sum() / tensor.numel(), i))
                tensor.record_stream(sink)
            del tensor
        torch.cuda.synchronize()
        for value, i in results:
            self.assertAlmostEqual(value.item(), i, places=2)

    def test_a_thread_ends_and_its_memory_stays_right(self):
        errors = queue.Queue()

        def work(number: int) -> None:
            try:
                draw = random.Random(number)
                stream = torch.cuda.Stream()
                with torch.cuda.stream(stream):
                    kept = []
                    for i in range(150):
                        value = (number * 31 + i) % 251
                        size = int(2 ** draw.uniform(9, 23))
                        kept.append((torch.full((size,), value, dtype=torch.uint8, device=DEVICE),
                                     value))
                        if len(kept) > 10:
                            tensor, wanted = kept.pop(draw.randrange(len(kept)))
                            if not bool((tensor == wanted).all()):
                                errors.put(f"thread {number}: another's value in my block")
                    stream.synchronize()
            except Exception as error:  # noqa: BLE001: told to the main thread
                errors.put(repr(error))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(list(errors.queue), [])

    def test_threads_and_statistics_agree_in_the_end(self):
        base = torch.cuda.memory_allocated()
        threads = [threading.Thread(target=lambda: [take(1000 * (i + 1)) for i in range(500)])
                   for _ in range(8)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            torch.cuda.memory_stats()
            torch.cuda.memory_snapshot()
        for thread in threads:
            thread.join()
        self.assertEqual(torch.cuda.memory_allocated(), base)


class Libraries(Case):
    def test_cudnn_may_benchmark(self):
        torch.backends.cudnn.benchmark = True
        try:
            layer = torch.nn.Conv2d(16, 32, 3, padding=1).to(DEVICE)
            for size in (32, 48):
                given = torch.randn(8, 16, size, size, device=DEVICE, requires_grad=True)
                result = layer(given)
                result.sum().backward()
                expected = torch.nn.functional.conv2d(
                    given.detach().double().cpu(), layer.weight.detach().double().cpu(),
                    layer.bias.detach().double().cpu(), padding=1)
                torch.testing.assert_close(result.detach().double().cpu(), expected, rtol=1e-2,
                                           atol=1e-2)
        finally:
            torch.backends.cudnn.benchmark = False

    def test_dlpack_shares_the_block(self):
        base = torch.cuda.memory_allocated()
        tensor = torch.arange(1000, device=DEVICE)
        other = torch.from_dlpack(tensor)
        self.assertEqual(other.data_ptr(), tensor.data_ptr())
        del tensor
        self.assertEqual(other.sum().item(), 499500)
        self.assertGreater(torch.cuda.memory_allocated(), base)
        del other
        self.assertEqual(torch.cuda.memory_allocated(), base)

    def test_the_profiler_sees_memory(self):
        from torch.profiler import ProfilerActivity, profile
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
                     profile_memory=True) as profiler:
            tensor = take(7 * MIB)
            del tensor
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            profiler.export_chrome_trace(path)
            with open(path, encoding="utf-8") as file:
                events = json.load(file)["traceEvents"]
        found = [e["args"] for e in events if e.get("name") == "[memory]"
                 and e["args"].get("Device Type") == 1]
        self.assertIn(7 * MIB, [a["Bytes"] for a in found])
        self.assertIn(-7 * MIB, [a["Bytes"] for a in found])
        self.assertTrue(all(a["Total Reserved"] >= a["Total Allocated"] for a in found), found)
        self.assertGreater(max(a["Total Allocated"] for a in found), 7 * MIB - 1)

    def test_pinned_memory_copies_both_ways(self):
        given = torch.arange(MIB, dtype=torch.float32).pin_memory()
        self.assertTrue(given.is_pinned())
        tensor = given.to(DEVICE, non_blocking=True)
        back = torch.empty(MIB, pin_memory=True)
        back.copy_(tensor * 2, non_blocking=True)
        torch.cuda.synchronize()
        self.assertTrue(torch.equal(back, given * 2))
        stats = torch.cuda.host_memory_stats()
        self.assertGreater(stats["allocated_bytes.current"], 0)
        del given, back
        torch._C._host_emptyCache()

    def test_a_data_loader_pins_and_feeds(self):
        from torch.utils.data import DataLoader, TensorDataset
        data = TensorDataset(torch.arange(640, dtype=torch.float32).reshape(64, 10))
        loader = DataLoader(data, batch_size=8, num_workers=2, pin_memory=True)
        total = sum(batch.to(DEVICE, non_blocking=True).sum() for (batch,) in loader)
        self.assertEqual(total.item(), 640 * 639 / 2)


class Processes(Case):
    def test_a_fork_after_cuda_started_fails_as_pytorchs_own(self):
        tensor = torch.ones(1000, device=DEVICE)
        child = os.fork()
        if child == 0:
            status = 3
            try:
                torch.ones(1000, device=DEVICE)
            except RuntimeError as error:
                status = 0 if "forked subprocess" in str(error) else 4
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)
        self.assertEqual((tensor + 1).sum().item(), 2000.0)

    def test_a_forked_child_may_drop_tensors(self):
        tensor = take(MIB)
        child = os.fork()
        if child == 0:
            try:
                del tensor  # frees in the allocator's books, in a process without a device
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)
        self.assertEqual(tensor.fill_(3)[0].item(), 3)

    def spawned(self, target, *arguments):
        context = torch.multiprocessing.get_context("spawn")
        inbox, outbox, done = context.Queue(), context.Queue(), context.Event()
        process = context.Process(target=target, args=(inbox, outbox, done) + arguments)
        process.start()
        self.addCleanup(process.kill)
        return process, inbox, outbox, done

    def received(self, process, box, seconds: float = 60):
        try:
            found = box.get(timeout=seconds)
        except queue.Empty:
            self.fail(f"nothing came from the other process (its status: {process.exitcode})")
        if isinstance(found, str):
            self.fail(f"the other process: {found}")
        return found

    def test_tensors_go_to_another_process_and_back(self):
        process, inbox, outbox, done = self.spawned(other_process)
        base = torch.arange(4096, dtype=torch.float32, device=DEVICE)
        small = [torch.full((100,), float(i), device=DEVICE) for i in (3, 5)]
        large = torch.full((64 * MIB,), 9, dtype=torch.uint8, device=DEVICE)
        expected = base.sum().item()
        torch.cuda.synchronize()
        # Two views of one storage, two tensors of one segment, and a large one.
        inbox.put([base[10:20], base, small[0], small[1], large])
        sums = self.received(process, outbox)
        self.assertEqual(sums, [145.0, expected, 300.0, 500.0, 9.0 * 64 * MIB])
        made = self.received(process, outbox)
        self.assertEqual([t.sum().item() for t in made], [1000.0, 2000.0])
        # What the other process wrote in place is here.
        self.assertEqual(base.sum().item(), 2 * expected)
        copies = [t.clone() for t in made]
        torch.cuda.synchronize()
        del made
        done.set()
        process.join(30)
        self.assertEqual(process.exitcode, 0)
        self.assertEqual([t.sum().item() for t in copies], [1000.0, 2000.0])
        del base, small, large
        torch.cuda.ipc_collect()
        self.settle()

    def test_a_shared_block_is_not_reused_while_the_other_holds_it(self):
        process, inbox, outbox, done = self.spawned(holding_process)
        tensor = torch.full((2 * MIB,), 8.0, device=DEVICE)
        torch.cuda.synchronize()
        inbox.put(tensor)
        self.assertEqual(self.received(process, outbox), 1)
        del tensor
        others = [torch.full((2 * MIB,), -1.0, device=DEVICE) for _ in range(4)]
        torch.cuda.synchronize()
        inbox.put("look")
        self.assertEqual(self.received(process, outbox), 8.0 * 2 * MIB)
        done.set()
        process.join(30)
        self.assertEqual(process.exitcode, 0)
        del others
        torch.cuda.ipc_collect()

    def test_many_small_tensors_go_through(self):
        process, inbox, outbox, done = self.spawned(counting_process, 200)
        kept = []
        for i in range(200):
            kept.append(torch.full((i + 1,), 1.0, device=DEVICE))
            inbox.put(kept[-1])
        self.assertEqual(self.received(process, outbox), 200 * 201 / 2)
        done.set()
        process.join(30)
        self.assertEqual(process.exitcode, 0)


def other_process(inbox, outbox, done) -> None:
    try:
        given = inbox.get(timeout=60)
        outbox.put([t.sum(dtype=torch.float64).item() for t in given])
        given[1].mul_(2)
        made = [torch.full((1000,), float(i), device=DEVICE) for i in (1, 2)]
        torch.cuda.synchronize()
        outbox.put(made)
        done.wait(60)
    except Exception as error:  # noqa: BLE001: told to the other process
        outbox.put(repr(error))


def holding_process(inbox, outbox, done) -> None:
    try:
        tensor = inbox.get(timeout=60)
        outbox.put(1)
        inbox.get(timeout=60)
        outbox.put(tensor.sum().item())
        done.wait(60)
        del tensor
    except Exception as error:  # noqa: BLE001
        outbox.put(repr(error))


def counting_process(inbox, outbox, done, count: int) -> None:
    try:
        outbox.put(sum(inbox.get(timeout=60).sum().item() for _ in range(count)))
        done.wait(60)
    except Exception as error:  # noqa: BLE001
        outbox.put(repr(error))


if __name__ == "__main__":
    unittest.main()
