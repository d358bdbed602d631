"""checks_history.py - history and snapshots: _record_memory_history with every argument."""
import json
import os
import pickle
import tempfile
import threading
import time
import unittest

from case import (ALLOCATOR, DEVICE, MIB, Case, blocks_of, only_pytorch_placement, take, torch)

record = torch.cuda.memory._record_memory_history
SIZE = 311 * 411 * 4  # a size nothing else asks for


def funky_allocation(size_bytes: int = SIZE):
    return take(size_bytes)


def funky_release(holder: list) -> None:
    holder.clear()


def events(size_bytes=None, action=None):
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    return [e for e in trace if (size_bytes is None or e["size"] == size_bytes)
            and (action is None or e["action"] == action)]


def names(frames) -> list:
    return [frame["name"] for frame in frames]


class Contexts(Case):
    def test_a_live_block_has_the_stack_of_its_request(self):
        record("state", stacks="python")
        tensor = funky_allocation()
        snapshot = torch.cuda.memory._snapshot()
        blocks = [b for b in blocks_of(snapshot["segments"]) if b["requested_size"] == SIZE]
        self.assertEqual([b["address"] for b in blocks], [tensor.data_ptr()])
        frames = blocks[0]["frames"]
        self.assertIn("funky_allocation", names(frames))
        self.assertEqual(names(frames)[0], "take")
        self.assertTrue(frames[0]["filename"].endswith("case.py"))
        self.assertGreater(frames[0]["line"], 0)
        self.assertEqual(set(frames[0]), {"name", "filename", "line"})
        self.assertLessEqual(len(snapshot["device_traces"][0]), 1, "state keeps no history")
        del tensor

    def test_context_none_records_no_stack(self):
        record("all", context=None)
        tensor = funky_allocation()
        snapshot = torch.cuda.memory._snapshot()
        self.assertNotIn("funky_allocation", json.dumps(snapshot))
        self.assertTrue(events(SIZE, "alloc"))
        block = [b for b in blocks_of(snapshot["segments"]) if b["address"] == tensor.data_ptr()][0]
        self.assertEqual(block["frames"], [])
        self.assertNotIn("frames", events(SIZE, "alloc")[0])

    def test_context_state_keeps_stacks_out_of_the_trace(self):
        record("all", context="state", stacks="python")
        tensor = funky_allocation()
        self.assertNotIn("frames", events(SIZE, "alloc")[0])
        blocks = blocks_of(torch.cuda.memory_snapshot())
        block = [b for b in blocks if b["address"] == tensor.data_ptr()][0]
        self.assertIn("funky_allocation", names(block["frames"]))

    def test_context_alloc_gives_a_free_the_stack_of_its_request(self):
        record("all", context="alloc", stacks="python")
        holder = [funky_allocation()]
        funky_release(holder)
        trace = events(SIZE)
        self.assertEqual([e["action"] for e in trace],
                         ["alloc", "free_requested", "free_completed"])
        self.assertIs(trace[1]["frames"], trace[0]["frames"])
        self.assertIs(trace[2]["frames"], trace[0]["frames"])
        self.assertNotIn("funky_release", json.dumps(trace))

    def test_context_all_gives_a_free_its_own_stack(self):
        record("all", context="all", stacks="python")
        holder = [funky_allocation()]
        funky_release(holder)
        trace = events(SIZE)
        self.assertIn("funky_release", names(trace[1]["frames"]))
        self.assertNotIn("funky_release", names(trace[0]["frames"]))
        self.assertEqual(names(trace[1]["frames"])[0], "funky_release")

    def test_one_capture_is_one_list(self):
        record("all", context="alloc", stacks="python")
        first, second = [funky_allocation() for _ in range(2)]
        snapshot = torch.cuda.memory._snapshot()
        trace = [e for e in snapshot["device_traces"][0] if e["action"] == "alloc"
                 and e["size"] == SIZE]
        self.assertEqual(trace[0]["frames"], trace[1]["frames"])
        self.assertIsNot(trace[0]["frames"], trace[1]["frames"])
        block = [b for b in blocks_of(snapshot["segments"]) if b["address"] == first.data_ptr()][0]
        self.assertIs(block["frames"], trace[0]["frames"])
        del second

    def test_a_segment_event_shares_the_stack_of_its_request(self):
        record("all", context="all", stacks="python")
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            tensor = funky_allocation(40 * MIB)
        trace = torch.cuda.memory._snapshot()["device_traces"][0]
        grown = [e for e in trace if e["action"] in ("segment_alloc", "segment_map")]
        request = [e for e in trace if e["action"] == "alloc" and e["size"] == 40 * MIB]
        self.assertTrue(grown)
        self.assertIs(grown[-1]["frames"], request[0]["frames"])
        del tensor

    def test_stacks_all_has_frames_of_cpp(self):
        record("all", stacks="all")
        tensor = funky_allocation()
        text = str(names(events(SIZE, "alloc")[0]["frames"]))
        self.assertIn("::", text)
        self.assertIn("funky_allocation", text)
        del tensor

    def test_the_stack_changes_with_the_arguments(self):
        record(context="all", stacks="python")
        kept = [funky_allocation(SIZE)]
        record(context=None)
        kept.append(funky_allocation(SIZE + 4096))
        record(context="all", stacks="python")
        kept.append(funky_allocation(SIZE + 8192))
        self.assertIn("frames", events(SIZE, "alloc")[0])
        self.assertNotIn("frames", events(SIZE + 4096, "alloc")[0])
        self.assertIn("frames", events(SIZE + 8192, "alloc")[0])

    def test_a_backward_pass_has_the_forward_stack(self):
        record("all", stacks="python")
        tensor = torch.randn(10, 10, device=DEVICE, requires_grad=True)
        with torch.autograd.detect_anomaly(check_nan=False):
            (tensor * 2).sum().backward()
        forward = [e["forward_frames"] for e in events() if e.get("forward_frames")]
        self.assertTrue(forward)
        self.assertIsInstance(forward[0][0], str)

    def test_the_allocator_says_whether_it_records(self):
        self.assertFalse(torch._C._cuda_isHistoryEnabled())
        record("all", stacks="python")
        self.assertTrue(torch._C._cuda_isHistoryEnabled())
        record(None)
        self.assertFalse(torch._C._cuda_isHistoryEnabled())


class Trace(Case):
    def test_the_events_of_one_life_are_in_order(self):
        record("all", stacks="python")
        tensor = funky_allocation(40 * MIB)
        address = tensor.data_ptr()
        del tensor
        torch.cuda.empty_cache()
        trace = [e for e in events() if e["action"] != "snapshot"]
        actions = [e["action"] for e in trace]
        self.assertIn(actions[0], ("segment_alloc", "segment_map"))
        self.assertIn(actions[-1], ("segment_free", "segment_unmap"))
        middle = [a for a in actions if not a.startswith("segment")]
        self.assertEqual(middle, ["alloc", "free_requested", "free_completed"])
        for event in trace:
            if event["action"] in ("alloc", "free_requested", "free_completed"):
                self.assertEqual((event["addr"], event["size"]), (address, 40 * MIB))
            self.assertEqual(event["stream"], 0)
            self.assertEqual(event["compile_context"], "N/A")
            self.assertEqual(event["user_metadata"], "")
        if ALLOCATOR in ("pytorch", "torch"):
            self.assertEqual(len(trace), 5)

    def test_times_are_microseconds_of_the_clock(self):
        record("all", stacks="python")
        before = time.time() * 1e6
        kept = [take(1000) for _ in range(100)]
        after = time.time() * 1e6
        times = [e["time_us"] for e in events(1000, "alloc")]
        self.assertEqual(len(times), 100)
        self.assertEqual(times, sorted(times))
        self.assertGreater(times[0], before - 1e6)
        self.assertLess(times[-1], after + 1e6)
        del kept

    def test_a_ring_keeps_the_newest(self):
        record("all", max_entries=10, stacks="python")
        for i in range(50):
            take(512 * (i + 1))
        trace = events()
        self.assertEqual(len(trace), 10)
        self.assertEqual(trace[-1]["size"], 512 * 50)
        self.assertEqual(trace[-1]["action"], "free_completed")

    def test_history_is_kept_or_cleared_as_asked(self):
        record("all", stacks="python")
        first = take(SIZE)
        record("all", stacks="python")
        self.assertEqual(len(events(SIZE, "alloc")), 1, "enabled again: what is there stays")
        record("all", stacks="python", clear_history=True)
        self.assertEqual(events(), [])
        second = take(SIZE)
        self.assertEqual(len(events(SIZE, "alloc")), 1)
        record(None)
        self.assertEqual(events(), [])
        del first, second

    def test_actions_can_be_left_out(self):
        for skipped in (["free_requested"], ["free_requested", "free_completed"], ["alloc"],
                        ["segment_alloc", "segment_free", "segment_map", "segment_unmap"]):
            with self.subTest(skipped=skipped):
                self.settle()
                record("all", stacks="python", skip_actions=skipped, clear_history=True)
                take(30 * MIB)
                torch.cuda.empty_cache()
                found = {e["action"] for e in events()}
                self.assertEqual(found & set(skipped), set())
                self.assertTrue(found)
        with self.assertRaisesRegex(RuntimeError, "Unknown TraceEntry action"):
            record("all", skip_actions=["no such action"])

    def test_wrong_arguments_are_refused(self):
        for arguments in ({"context": "some"}, {"stacks": "none"}, {"enabled": "yes"}):
            with self.assertRaises(RuntimeError, msg=str(arguments)):
                record(**arguments)

    def test_the_old_form_still_works(self):
        record(True, trace_alloc_max_entries=100, trace_alloc_record_context=True)
        tensor = funky_allocation()
        self.assertIn("funky_allocation", json.dumps(events(SIZE, "alloc")))
        record(False)
        del tensor

    def test_a_snapshot_is_an_event_of_the_next_one(self):
        record("all", stacks="python")
        tensor = take(SIZE)
        torch.cuda.memory._snapshot()
        self.assertEqual(events()[-1]["action"], "snapshot")
        self.assertEqual(events()[-1]["addr"], 0)
        del tensor

    def test_running_out_is_an_event(self):
        record("all", stacks="python")
        with self.allowed(100 * MIB):
            with self.assertRaises(torch.OutOfMemoryError):
                funky_allocation(200 * MIB + 1)
        event = events(action="oom")[-1]
        self.assertEqual(event["size"], 200 * MIB + 512, "the size asked for, in whole blocks")
        self.assertIn("funky_allocation", names(event["frames"]))
        self.assertGreater(event["device_free"], 0)

    def test_metadata_stays_with_what_is_allocated_under_it(self):
        record("all", stacks="python")
        torch.cuda.memory._set_memory_metadata("batch 7")
        self.assertEqual(torch.cuda.memory._get_memory_metadata(), "batch 7")
        first = take(SIZE)
        torch.cuda.memory._set_memory_metadata("")
        second = take(SIZE + 512)
        self.assertEqual([e["user_metadata"] for e in events(SIZE, "alloc")], ["batch 7"])
        self.assertEqual([e["user_metadata"] for e in events(SIZE + 512, "alloc")], [""])
        del first, second

    def test_record_function_ranges_are_annotations(self):
        for everywhere in (False, True):
            with self.subTest(global_record_annotations=everywhere):
                record("all", stacks="python", global_record_annotations=everywhere,
                       clear_history=True)
                with torch.autograd.profiler.record_function("vw region"):
                    take(SIZE)
                if everywhere:
                    def elsewhere():
                        with torch.autograd.profiler.record_function("vw elsewhere"):
                            take(SIZE)
                    thread = threading.Thread(target=elsewhere)
                    thread.start()
                    thread.join()
                found = torch.cuda.memory._snapshot()["external_annotations"]
                wanted = ["vw region"] + ["vw elsewhere"] * everywhere
                for name in wanted:
                    stages = [a["stage"] for a in found if a["name"] == name]
                    self.assertEqual(stages, ["START", "END"], name)
                self.assertTrue(all(set(a) == {"name", "stage", "device", "time_us"}
                                    for a in found if a["name"].startswith("vw ")))
                record(None)

    def test_streams_are_told_apart(self):
        record("all", stacks="python")
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            tensor = take(SIZE)
        self.assertEqual([e["stream"] for e in events(SIZE, "alloc")], [stream.cuda_stream])
        del tensor


class Snapshots(Case):
    def test_a_snapshot_has_every_part(self):
        record("all", stacks="python")
        tensor = take(SIZE)
        snapshot = torch.cuda.memory._snapshot()
        self.assertEqual(set(snapshot), {"segments", "device_traces", "allocator_settings",
                                         "external_annotations"})
        segment = snapshot["segments"][0]
        self.assertEqual(
            set(segment) - {"forward_frames"},
            {"device", "address", "total_size", "allocated_size", "active_size", "requested_size",
             "stream", "segment_type", "segment_pool_id", "is_expandable", "frames", "blocks"})
        self.assertEqual(set(segment["blocks"][0]) - {"forward_frames"},
                         {"address", "size", "requested_size", "state", "frames"})
        self.assertEqual(
            {key for key in snapshot["allocator_settings"] if not key.startswith("vramwise_")},
            {"PYTORCH_CUDA_ALLOC_CONF", "max_split_size", "garbage_collection_threshold",
             "expandable_segments", "pinned_num_register_threads", "release_lock_on_cudamalloc",
             "pinned_use_cuda_host_register", "graph_capture_record_stream_reuse",
             "roundup_power2_divisions"})
        self.assertEqual(len(snapshot["device_traces"]), torch.cuda.device_count())
        del tensor

    def test_segments_are_in_the_order_of_their_addresses(self):
        kept = [take(n * MIB) for n in (30, 1, 50, 2, 12)]
        addresses = [s["address"] for s in torch.cuda.memory_snapshot()]
        self.assertEqual(addresses, sorted(addresses))
        self.assertEqual({s["segment_type"] for s in torch.cuda.memory_snapshot()},
                         {"small", "large"})
        del kept

    def test_a_block_that_waits_for_a_stream_is_pending(self):
        stream = torch.cuda.Stream()
        tensor = take(SIZE)
        address = tensor.data_ptr()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(200_000_000)
        tensor.record_stream(stream)
        del tensor
        states = [b["state"] for b in blocks_of(torch.cuda.memory_snapshot())
                  if b["address"] == address]
        self.assertEqual(states, ["active_pending_free"])
        torch.cuda.synchronize()

    def test_a_dump_is_plain_data(self):
        record("all", stacks="python")
        tensor = funky_allocation()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "snapshot.pickle")
            torch.cuda.memory._dump_snapshot(path)
            with open(path, "rb") as file:
                data = file.read()
        self.assertNotIn(b"torch", pickle.loads(data).__class__.__module__.encode())
        self.assertIn("funky_allocation", json.dumps(pickle.loads(data)))
        del tensor

    def test_traces_can_be_left_out(self):
        record("all", stacks="python")
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            kept = [take(1000) for _ in range(100)]
        self.assertEqual(len(pool.snapshot(include_traces=False)), len(pool.snapshot()))
        without = torch._C._cuda_memorySnapshot((0, 0, False))
        self.assertEqual(sum(len(t) for t in without["device_traces"]), 0)
        self.assertEqual(len(without["segments"]), len(torch.cuda.memory_snapshot()))
        del kept

    @only_pytorch_placement
    def test_free_blocks_keep_the_size_last_asked_for(self):
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            kept = [take(1000), take(700), take(1000)]
            address = kept[1].data_ptr()
            del kept[1]
        block = [b for b in blocks_of(pool.snapshot()) if b["address"] == address][0]
        self.assertEqual((block["state"], block["requested_size"]), ("inactive", 700))
        del kept

    def test_the_viewers_of_pytorch_accept_it(self):
        from torch.cuda._memory_viz import segment_plot, segsum, trace, trace_plot
        record("all", stacks="python")
        kept = [funky_allocation(n * MIB) for n in (1, 5, 30)]
        del kept[1]
        snapshot = torch.cuda.memory._snapshot()
        self.assertIn("html", trace_plot(snapshot).lower())
        self.assertIn("html", segment_plot(snapshot).lower())
        self.assertIn("allocated", segsum(snapshot))
        self.assertTrue(trace(snapshot))
        del kept


if __name__ == "__main__":
    unittest.main()
