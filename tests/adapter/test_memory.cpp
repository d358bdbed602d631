// test_memory.cpp - asking, freeing, statistics, and what PyTorch would have said.
#include <unordered_set>

#include <sys/wait.h>
#include <unistd.h>

#include "adapter_fixture.h"

static int64_t now(const c10::CachingAllocator::StatArray &stats)
{
    return stats[0].current;
}

static void blocks_come_and_go_and_are_counted_as_pytorch_counts(void **)
{
    Adapter &adapter = new_adapter();
    assert_int_equal(now(adapter.getDeviceStats(0).allocated_bytes), 0);
    assert_false(adapter.is_open(0)); // not for a look at it
    {
        c10::DataPtr a = adapter.allocate(1);
        c10::DataPtr b = adapter.allocate(3 * MiB);
        assert_non_null(a.get());
        assert_true(a.get_deleter() == adapter.raw_deleter());
        assert_int_equal(a.device().index(), 0);
        auto stats = adapter.getDeviceStats(0);
        assert_int_equal(now(stats.allocated_bytes), 512 + 3 * MiB);
        assert_int_equal(now(stats.requested_bytes), 1 + 3 * MiB);
        assert_int_equal(now(stats.reserved_bytes), 22 * MiB);
        assert_int_equal(now(stats.segment), 2);
        assert_int_equal(stats.allocated_bytes[1].current, 512);
        assert_int_equal(stats.allocated_bytes[2].current, 3 * MiB);
        assert_int_equal(stats.max_split_size, -1);
        assert_int_equal(stats.num_device_alloc, 2);
    }
    auto stats = adapter.getDeviceStats(0);
    assert_int_equal(now(stats.allocated_bytes), 0);
    assert_int_equal(stats.allocated_bytes[0].peak, 512 + 3 * MiB);
    adapter.resetPeakStats(0);
    adapter.resetAccumulatedStats(0);
    stats = adapter.getDeviceStats(0);
    assert_int_equal(stats.allocated_bytes[0].peak, 0);
    assert_int_equal(stats.allocated_bytes[0].freed, 0);
    assert_int_equal(stats.num_device_alloc, 0);
    adapter.emptyCache();
    assert_int_equal(now(adapter.getDeviceStats(0).reserved_bytes), 0);
}

static void zero_bytes_are_a_null_pointer_and_an_exbibyte_is_too_much(void **)
{
    Adapter &adapter = new_adapter();
    assert_null(adapter.allocate(0).get());
    assert_null(adapter.raw_alloc(0));
    assert_null(adapter.raw_alloc_with_stream(0, nullptr));
    adapter.raw_delete(nullptr);
    const std::string text = "CUDA out of memory. Tried to allocate more than 1EB memory.";
    assert_string_equal(
        text_of<c10::OutOfMemoryError>([&] { adapter.allocate(size_t{1} << 60); }).c_str(),
        text.c_str());
    assert_string_equal(
        text_of<c10::OutOfMemoryError>([&] { adapter.raw_alloc(size_t{1} << 60); }).c_str(),
        text.c_str());
}

static void running_out_throws_pytorchs_text_and_tells_the_observers_first(void **)
{
    Adapter &adapter = new_adapter({"torch", "", 1, 64 * MiB});
    struct {
        int64_t device;
        size_t asked, allowed, free;
        int count = 0;
    } seen{};
    adapter.attachOutOfMemoryObserver(
        [&](int64_t device, size_t asked, size_t allowed, size_t free) {
            seen = {device, asked, allowed, free, seen.count + 1};
            adapter.raw_delete(adapter.raw_alloc(512)); // no lock is held
        });
    void *held = adapter.raw_alloc(40 * MiB);
    stand_in().is_profiling = true;
    std::string text = text_of<c10::OutOfMemoryError>([&] { adapter.raw_alloc(30 * MiB + 1); });
    stand_in().is_profiling = false;
    assert_true(contains(text, "CUDA out of memory. Tried to allocate 32.00 MiB. GPU 0 has a total "
                               "capacity of 64.00 MiB of which 24.00 MiB is free."));
    assert_true(contains(text, "40.00 MiB is allocated by PyTorch"));
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.device, 0);
    assert_int_equal(seen.asked, 32 * MiB);
    assert_int_equal(seen.allowed, 64 * MiB);
    assert_int_equal(seen.free, 24 * MiB);
    assert_int_equal(stand_in().out_of_memory_reports.size(), 1);
    assert_int_equal(stand_in().out_of_memory_reports[0].change_bytes, 30 * MiB + 512);
    assert_int_equal(adapter.getDeviceStats(0).num_ooms, 1);
    adapter.setMemoryFraction(0.75, 0);
    text = text_of<c10::OutOfMemoryError>([&] { adapter.raw_alloc(20 * MiB); });
    assert_true(contains(text, "48.00 MiB allowed; "));
    assert_int_equal(seen.allowed, 48 * MiB);
    adapter.raw_delete(held);
}

static void a_free_memory_callback_is_asked_before_the_device(void **)
{
    Adapter &adapter = new_adapter({"torch", "", 1, 64 * MiB});
    void *limbo = adapter.raw_alloc(40 * MiB);
    stand_in().free_memory = [&] {
        adapter.raw_delete(limbo);
        stand_in().free_memory = nullptr;
        return true;
    };
    void *again = adapter.raw_alloc(40 * MiB);
    assert_ptr_equal(again, limbo);
    stand_in().free_memory = []() -> bool { throw c10::Error("a callback that fails"); };
    void *other = adapter.raw_alloc(20 * MiB);
    assert_non_null(other);
    stand_in().free_memory = nullptr;
    adapter.raw_delete(other);
    adapter.raw_delete(again);
}

static void pointers_that_are_nobodys_are_refused_in_pytorchs_words(void **)
{
    Adapter &adapter = new_adapter();
    void *block = adapter.raw_alloc(4096);
    void *inside = static_cast<char *>(block) + 512;
    std::string text = text_of<c10::Error>([&] { adapter.raw_delete(inside); });
    assert_true(contains(text, "invalid device pointer: 0x"));
    adapter.raw_delete(block);
    assert_true(contains(text_of<c10::Error>([&] { adapter.raw_delete(block); }),
                         "invalid device pointer: "));
    assert_true(contains(text_of<c10::Error>([&] { adapter.getBaseAllocation(block, nullptr); }),
                         "invalid device pointer: "));
    assert_true(contains(text_of<c10::Error>([&] { adapter.shareIpcHandle(block); }),
                         "invalid device pointer: "));
}

static void devices_that_are_none_are_refused_in_pytorchs_words(void **)
{
    Adapter &adapter = new_adapter();
    auto refuses = [](auto call) {
        return contains(text_of<c10::Error>(call), "Invalid device argument 7: did you call init?");
    };
    assert_true(refuses([&] { adapter.getDeviceStats(7); }));
    assert_true(refuses([&] { adapter.resetPeakStats(7); }));
    assert_true(refuses([&] { adapter.resetAccumulatedStats(7); }));
    assert_true(refuses([&] { adapter.getMemoryFraction(7); }));
    assert_true(refuses([&] { adapter.releasePool(7, {0, 1}); }));
    const std::string not_ready = "Allocator not initialized for device 7: did you call init?";
    assert_true(
        contains(text_of<c10::Error>([&] { adapter.setMemoryFraction(0.5, 7); }), not_ready));
    Adapter &uninitialized = new_adapter({"torch", "", 0});
    assert_false(uninitialized.initialized());
    assert_true(contains(text_of<c10::Error>([&] { uninitialized.raw_alloc(1); }),
                         "Allocator not initialized for device 0: did you call init?"));
    uninitialized.init(2);
    assert_true(uninitialized.initialized());
}

static void the_fraction_is_kept_for_a_device_that_is_opened_later(void **)
{
    Adapter &adapter = new_adapter({"torch", "", 1, 100 * MiB});
    assert_true(adapter.getMemoryFraction(0) == 1.0);
    adapter.setMemoryFraction(0.5, 0);
    assert_true(adapter.getMemoryFraction(0) == 0.5);
    assert_false(adapter.is_open(0));
    void *fits = adapter.raw_alloc(40 * MiB);
    text_of<c10::OutOfMemoryError>([&] { adapter.raw_alloc(20 * MiB); });
    assert_int_equal(adapter.getDeviceStats(0).num_ooms, 1);
    std::string text = text_of<c10::ValueError>([&] { adapter.setMemoryFraction(1.5, 0); });
    assert_string_equal(text.c_str(), "invalid fraction:1.5. Please set within [0, 1].");
    adapter.raw_delete(fits);
    Adapter &other = new_adapter({"torch", "per_process_memory_fraction:0.25", 1, 100 * MiB});
    other.raw_delete(other.raw_alloc(1));
    assert_true(other.getMemoryFraction(0) == 0.25);
}

static void a_block_freed_on_another_device_finds_its_own(void **)
{
    // On the host, where addresses are as different as on several GPUs.
    Adapter &adapter = new_adapter({"torch", "", 3, 1 * GiB, Kind::host});
    stand_in_set_device(2);
    c10::DataPtr far = adapter.allocate(1 * MiB);
    assert_int_equal(far.device().index(), 2);
    stand_in_set_device(0);
    void *near = adapter.raw_alloc(1 * MiB);
    assert_false(adapter.is_open(1));
    {
        c10::DataPtr gone = std::move(far);
    }
    assert_int_equal(now(adapter.getDeviceStats(2).allocated_bytes), 0);
    assert_int_equal(now(adapter.getDeviceStats(0).allocated_bytes), 1 * MiB);
    stand_in_set_device(1); // which has no pool at all
    adapter.raw_delete(near);
    assert_int_equal(now(adapter.getDeviceStats(0).allocated_bytes), 0);
    assert_int_equal(adapter.snapshot().device_traces.size(), 3);
}

static void requests_are_for_the_current_stream_and_recorded_streams_hold_a_block(void **)
{
    Adapter &adapter = new_adapter();
    c10::DataPtr first = adapter.allocate(1 * MiB);
    stand_in_set_stream(0x5000);
    c10::DataPtr second = adapter.allocate(1 * MiB);
    stand_in_set_stream(0);
    bool is_seen = false;
    for (const auto &segment : adapter.snapshot().segments)
        is_seen |= segment.stream == reinterpret_cast<void *>(0x5000);
    assert_true(is_seen);
    assert_int_equal(vw_device_hold_streams(opened_device(0), true), VW_OK);
    adapter.recordStream(first, CUDAStream(0, 0x5000));
    void *address = first.get();
    {
        c10::DataPtr gone = std::move(first);
    }
    assert_int_equal(now(adapter.getDeviceStats(0).active_bytes), 2 * MiB);
    void *other = adapter.raw_alloc(1 * MiB);
    assert_ptr_not_equal(other, address);
    assert_int_equal(vw_device_hold_streams(opened_device(0), false), VW_OK);
    void *again = adapter.raw_alloc(1 * MiB);
    assert_ptr_equal(again, address);
    adapter.raw_delete(other);
    adapter.raw_delete(again);
    int somebody_elses = 0;
    c10::DataPtr foreign(&somebody_elses, &somebody_elses, [](void *) {}, {c10::kCUDA, 0});
    adapter.recordStream(foreign, CUDAStream(0, 0x5000)); // not ours: passed over
    c10::DataPtr wrong(&somebody_elses, &somebody_elses, adapter.raw_deleter(), {c10::kCUDA, 0});
    assert_string_equal(
        text_of<c10::Error>([&] { adapter.recordStream(wrong, CUDAStream(0, 1)); }).c_str(),
        "No allocated block can be found");
    wrong.release_context();
}

static void a_stream_of_another_device_is_waited_for_when_the_block_is_freed(void **)
{
    Adapter &adapter = new_adapter({"torch", "", 2});
    for (c10::StreamId number : {0, 0x5000}) { // the default streams of both have the number 0
        {
            c10::DataPtr block = adapter.allocate(1 * MiB);
            adapter.recordStream(block, CUDAStream(1, number));
            adapter.recordStream(block, CUDAStream(1, number));
            adapter.allocate(1 * MiB); // freed at once
            assert_int_equal(stand_in().awaited.size(), 0);
        }
        assert_int_equal(stand_in().awaited.size(), 1);
        assert_int_equal(stand_in().awaited[0].first, 1);
        assert_ptr_equal(stand_in().awaited[0].second, reinterpret_cast<void *>(number));
        assert_int_equal(now(adapter.getDeviceStats(0).active_bytes), 0);
        adapter.allocate(1 * MiB); // at the same address, and nobody uses it
        assert_int_equal(stand_in().awaited.size(), 1);
        stand_in().awaited.clear();
    }
}

static void a_profiler_nobody_expects_is_not_asked_for(void **)
{
    Adapter &adapter = new_adapter();
    adapter.raw_delete(adapter.raw_alloc(512));
    stand_in().is_profiling = true;
    vramwise_torch::expect_profilers(false);
    adapter.raw_delete(adapter.raw_alloc(512));
    assert_int_equal(stand_in().reports.size(), 0);
    vramwise_torch::expect_profilers(true);
    adapter.raw_delete(adapter.raw_alloc(512));
    assert_int_equal(stand_in().reports.size(), 2);
    stand_in().is_profiling = false;
}

static void profiler_and_tracer_hear_of_every_block(void **)
{
    Adapter &adapter = new_adapter();
    void *before = adapter.raw_alloc(512);
    stand_in().is_profiling = true;
    stand_in().is_tracing = true;
    void *block = adapter.raw_alloc(1000);
    adapter.raw_delete(block);
    stand_in().is_profiling = false;
    stand_in().is_tracing = false;
    assert_int_equal(stand_in().reports.size(), 2);
    assert_int_equal(stand_in().reports[0].change_bytes, 1024);
    assert_int_equal(stand_in().reports[0].allocated_bytes, 1536);
    assert_int_equal(stand_in().reports[1].change_bytes, -1024);
    assert_int_equal(stand_in().reports[1].allocated_bytes, 512);
    assert_int_equal(stand_in().reports[1].reserved_bytes, 2 * MiB);
    assert_int_equal(stand_in().traced_allocations.size(), 1);
    assert_int_equal(stand_in().traced_allocations[0], reinterpret_cast<uintptr_t>(block));
    assert_int_equal(stand_in().traced_deallocations.size(), 1);
    adapter.raw_delete(before);
    assert_int_equal(stand_in().reports.size(), 2);
}

static void switched_off_every_block_is_the_runtimes_own(void **)
{
    Adapter &adapter = new_adapter();
    void *cached = adapter.raw_alloc(512);
    adapter.enable(false);
    assert_false(adapter.isEnabled());
    {
        c10::DataPtr plain = adapter.allocate(100);
        void *raw = adapter.raw_alloc(100);
        assert_int_equal(stand_in().uncached_blocks, 2);
        adapter.raw_delete(raw);
    }
    assert_int_equal(stand_in().uncached_blocks, 0);
    adapter.raw_delete(cached); // one of before
    adapter.enable(true);
    assert_int_equal(now(adapter.getDeviceStats(0).allocated_bytes), 0);
    adapter.raw_delete(adapter.raw_alloc(512));
    assert_int_equal(adapter.getDeviceStats(0).allocation[0].allocated, 2);
}

static void cache_info_is_the_largest_that_could_be_served(void **)
{
    Adapter &adapter = new_adapter({"torch", "", 1, 100 * MiB});
    size_t largest = 0;
    adapter.cacheInfo(0, &largest);
    assert_int_equal(largest, 100 * MiB);
    adapter.raw_delete(adapter.raw_alloc(60 * MiB));
    largest = 0;
    adapter.cacheInfo(0, &largest);
    assert_int_equal(largest, 60 * MiB);
    largest = 70 * MiB; // somebody knows of more
    adapter.cacheInfo(0, &largest);
    assert_int_equal(largest, 70 * MiB);
}

static void the_base_of_a_block_is_its_segment_unless_that_is_expandable(void **)
{
    Adapter &adapter = new_adapter();
    void *first = adapter.raw_alloc(1 * MiB + 1);
    void *second = adapter.raw_alloc(1 * MiB + 1);
    size_t size_bytes = 0;
    assert_ptr_equal(adapter.getBaseAllocation(second, &size_bytes), first);
    assert_int_equal(size_bytes, 20 * MiB);
    Adapter &expandable = new_adapter({"torch", "expandable_segments:True"});
    void *block = expandable.raw_alloc(1 * MiB);
    assert_true(contains(text_of<c10::Error>([&] { expandable.getBaseAllocation(block, nullptr); }),
                         "cannot be shared between processes"));
    auto sizes = expandable.getExpandableSegmentSizes(0);
    assert_int_equal(sizes.size(), 1);
#if STAND_IN_TORCH >= 210
    assert_true(sizes[0].is_small_pool);
    assert_int_equal(sizes[0].total_size, 2 * MiB);
#endif
    assert_int_equal(adapter.getExpandableSegmentSizes(0).size(), 0);
}

static void new_settings_reach_open_devices_and_those_opened_later(void **)
{
    Adapter &adapter = new_adapter({"torch", "", 2});
    adapter.raw_delete(adapter.raw_alloc(1));
    stand_in().conf = "expandable_segments:True";
    adapter.configure("expandable_segments:True");
    adapter.configure("max_split_size_mb:100"); // which does not end the first
    for (c10::DeviceIndex device = 0; device < 2; device++) {
        stand_in_set_device(device);
        void *block = adapter.raw_alloc(30 * MiB);
        assert_int_equal(adapter.getExpandableSegmentSizes(device).size(), 1);
        adapter.raw_delete(block);
    }
    assert_true(contains(
        text_of<c10::ValueError>([&] { adapter.configure("garbage_collection_threshold:3"); }),
        "garbage_collect_threshold is invalid"));
}

static void peers_are_told_to_the_runtime_and_to_the_pool_that_is_reached(void **)
{
    Adapter &adapter = new_adapter({"torch", "", 2});
    adapter.enablePeerAccess(0, 1);
    adapter.enablePeerAccess(0, 1); // already
    assert_int_equal(stand_in().peers.size(), 1);
    assert_true(stand_in().peers[0] == std::make_pair(0, 1));
    stand_in_set_device(1);
    adapter.raw_delete(adapter.raw_alloc(1)); // opened later: no peers there, which is no failure
    adapter.enablePeerAccess(1, 0);
    assert_int_equal(stand_in().peers.size(), 2);
    assert_int_equal(adapter.memcpyAsync(nullptr, 0, nullptr, 1, 1, nullptr, false), cudaSuccess);
    assert_int_equal(stand_in().peer_copies, 1);
    assert_int_equal(adapter.memcpyAsync(nullptr, 0, nullptr, 1, 1, nullptr, true), cudaSuccess);
    assert_int_equal(adapter.memcpyAsync(nullptr, 1, nullptr, 1, 1, nullptr, false), cudaSuccess);
    assert_int_equal(stand_in().plain_copies, 2);
    assert_string_equal(adapter.name().c_str(), "native");
}

static void in_a_forked_child_frees_do_nothing_and_requests_say_why(void **)
{
    Adapter &adapter = new_adapter({"vramwise", "", 1, 1 * GiB, Kind::host});
    void *block = adapter.raw_alloc(4 * MiB);
    c10::DataPtr tensor = adapter.allocate(4 * MiB);
    for (bool is_observed : {false, true}) {
        if (is_observed)
            adapter.recordHistory(true, gather_numbered, 100, RecordContext::ALL, false, {});
        pid_t child = fork();
        if (child == 0) {
            adapter.raw_delete(block);
            std::string text = text_of<c10::Error>([&] { adapter.raw_alloc(1); });
            adapter.recordStream(tensor, CUDAStream(0, 0x5000));
            adapter.recordHistory(!is_observed, gather_numbered, 100, RecordContext::ALL, false,
                                  {});
            bool is_left_alone = adapter.isHistoryEnabled() == is_observed;
            std::string refusal = text_of<c10::Error>([&] { adapter.snapshot(); });
            _exit(is_left_alone && !refusal.empty() &&
                          contains(text, "Cannot re-initialize CUDA in forked subprocess")
                      ? 0
                      : 1);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    assert_int_equal(now(adapter.getDeviceStats(0).allocated_bytes), 8 * MiB);
    adapter.raw_delete(block);
}

// PyTorch allows it, and so do programs that make their workers by fork(): only a parent that has
// started CUDA keeps its children from it.
static void a_child_forked_before_cuda_was_started_has_memory_of_its_own(void **)
{
    Adapter &adapter = new_adapter({"vramwise", "", 0, 1 * GiB, Kind::host});
    assert_false(adapter.initialized());
    pid_t child = fork();
    if (child == 0) {
        int result = 1;
        try {
            expect_devices(1);
            adapter.init(1);
            adapter.recordHistory(true, gather_numbered, 100, RecordContext::ALL, false, {});
            adapter.raw_delete(adapter.raw_alloc(4 * MiB));
            adapter.allocate(1 * MiB);
            auto stats = adapter.getDeviceStats(0);
            bool is_all_free = now(stats.allocated_bytes) == 0;
            result = is_all_free && stats.allocation[0].freed == 2 ? 0 : 2;
        } catch (...) {
            result = 3;
        }
        _exit(result);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void a_device_that_fails_raises_its_own_words(void **)
{
    Adapter &adapter = new_adapter();
    adapter.raw_delete(adapter.raw_alloc(1));
    assert_int_equal(vw_device_lose(opened_device(0)), VW_OK);
    assert_true(contains(text_of<c10::Error>([&] { adapter.raw_alloc(100 * MiB); }),
                         "CUDA driver error: "));
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_come_and_go_and_are_counted_as_pytorch_counts),
        cmocka_unit_test(zero_bytes_are_a_null_pointer_and_an_exbibyte_is_too_much),
        cmocka_unit_test(running_out_throws_pytorchs_text_and_tells_the_observers_first),
        cmocka_unit_test(a_free_memory_callback_is_asked_before_the_device),
        cmocka_unit_test(pointers_that_are_nobodys_are_refused_in_pytorchs_words),
        cmocka_unit_test(devices_that_are_none_are_refused_in_pytorchs_words),
        cmocka_unit_test(the_fraction_is_kept_for_a_device_that_is_opened_later),
        cmocka_unit_test(a_block_freed_on_another_device_finds_its_own),
        cmocka_unit_test(requests_are_for_the_current_stream_and_recorded_streams_hold_a_block),
        cmocka_unit_test(a_stream_of_another_device_is_waited_for_when_the_block_is_freed),
        cmocka_unit_test(a_profiler_nobody_expects_is_not_asked_for),
        cmocka_unit_test(profiler_and_tracer_hear_of_every_block),
        cmocka_unit_test(switched_off_every_block_is_the_runtimes_own),
        cmocka_unit_test(cache_info_is_the_largest_that_could_be_served),
        cmocka_unit_test(the_base_of_a_block_is_its_segment_unless_that_is_expandable),
        cmocka_unit_test(new_settings_reach_open_devices_and_those_opened_later),
        cmocka_unit_test(peers_are_told_to_the_runtime_and_to_the_pool_that_is_reached),
        cmocka_unit_test(in_a_forked_child_frees_do_nothing_and_requests_say_why),
        cmocka_unit_test(a_child_forked_before_cuda_was_started_has_memory_of_its_own),
        cmocka_unit_test(a_device_that_fails_raises_its_own_words),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
