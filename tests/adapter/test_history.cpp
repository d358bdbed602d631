// test_history.cpp - traces, contexts and snapshots, as PyTorch makes them.
#include <cstdlib>
#include <map>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "adapter_fixture.h"

static std::vector<TraceEntry> trace_of(Adapter &adapter, size_t device = 0)
{
    return adapter.snapshot().device_traces[device];
}

static std::string actions_of(const std::vector<TraceEntry> &trace)
{
    static const char *const names[] = {"alloc", "free_requested", "free_completed", "SEG+", "SEG-",
                                        "map",   "unmap",          "snapshot",       "oom"};
    std::string text;
    for (const TraceEntry &entry : trace)
        text += std::string(text.empty() ? "" : " ") + names[entry.action_];
    return text;
}

static void one_request_has_one_context_and_its_free_shows_it(void **)
{
    Adapter &adapter = new_adapter();
    adapter.recordHistory(true, gather_numbered, 1000, RecordContext::ALLOC, false, {});
    assert_true(adapter.isHistoryEnabled());
    stand_in_set_stream(0x7000);
    void *block = adapter.raw_alloc(1000);
    int number = last_gathered();
    adapter.raw_delete(block);
    assert_int_equal(last_gathered(), number); // none for the free
    auto trace = trace_of(adapter);
    assert_string_equal(actions_of(trace).c_str(), "SEG+ alloc free_requested free_completed");
    for (const TraceEntry &entry : trace) {
        assert_int_equal(number_of(entry.context_), number);
        assert_ptr_equal(entry.context_.get(), trace[0].context_.get());
        assert_int_equal(entry.device_, 0);
        assert_string_equal(entry.compile_context_.c_str(), "N/A");
        assert_string_equal(entry.user_metadata_.c_str(), "");
    }
    assert_int_equal(trace[0].size_, 2 * MiB);
    assert_int_equal(trace[1].size_, 1000);
    assert_int_equal(trace[1].addr_, reinterpret_cast<uintptr_t>(block));
    assert_ptr_equal(trace[1].stream_, reinterpret_cast<void *>(0x7000));
    // The event of the first snapshot is in the second.
    trace = trace_of(adapter);
    assert_int_equal(trace.size(), 5);
    assert_int_equal(trace[4].action_, TraceEntry::SNAPSHOT);
    assert_int_equal(number_of(trace[4].context_), -1);
}

static void with_all_a_free_and_a_release_show_who_asked_for_them(void **)
{
    Adapter &adapter = new_adapter();
    adapter.recordHistory(true, gather_numbered, 1000, RecordContext::ALL, false, {});
    void *block = adapter.raw_alloc(1000);
    int asked = last_gathered();
    adapter.raw_delete(block);
    int freed = last_gathered();
    adapter.emptyCache();
    int emptied = last_gathered();
    auto trace = trace_of(adapter);
    assert_string_equal(actions_of(trace).c_str(), "SEG+ alloc free_requested free_completed SEG-");
    assert_int_equal(number_of(trace[1].context_), asked);
    assert_int_equal(number_of(trace[2].context_), freed);
    assert_int_equal(number_of(trace[3].context_), freed);
    assert_int_equal(number_of(trace[4].context_), emptied);
    assert_true(asked < freed && freed < emptied);
}

static void a_release_inside_a_request_shows_the_request_and_outside_the_segments_maker(void **)
{
    Adapter &adapter = new_adapter({"torch", "", 1, 64 * MiB});
    adapter.recordHistory(true, gather_numbered, 1000, RecordContext::ALLOC, false, {});
    adapter.raw_delete(adapter.raw_alloc(40 * MiB));
    void *block = adapter.raw_alloc(60 * MiB); // gives the first segment back
    int number = last_gathered();
    adapter.raw_delete(block);
    adapter.emptyCache();
    auto trace = trace_of(adapter);
    assert_string_equal(actions_of(trace).c_str(),
                        "SEG+ alloc free_requested free_completed SEG- SEG+ alloc "
                        "free_requested free_completed SEG-");
    for (size_t i = 4; i < trace.size(); i++)
        assert_int_equal(number_of(trace[i].context_), number);
}

static void a_free_that_completes_in_a_request_shows_the_request(void **)
{
    Adapter &adapter = new_adapter();
    adapter.recordHistory(true, gather_numbered, 1000, RecordContext::ALLOC, false, {});
    void *late_address;
    {
        c10::DataPtr late = adapter.allocate(512);
        late_address = late.get();
        assert_int_equal(vw_device_hold_streams(opened_device(0), true), VW_OK);
        adapter.recordStream(late, CUDAStream(0, 0x5000));
    }
    int first = last_gathered();
    assert_int_equal(vw_device_hold_streams(opened_device(0), false), VW_OK);
    void *block = adapter.raw_alloc(512);
    assert_ptr_equal(block, late_address);
    auto trace = trace_of(adapter);
    assert_string_equal(actions_of(trace).c_str(),
                        "SEG+ alloc free_requested free_completed alloc");
    assert_int_equal(number_of(trace[2].context_), first);
    assert_int_equal(number_of(trace[3].context_), last_gathered());
    adapter.raw_delete(block);
}

static void with_state_only_live_blocks_have_contexts_and_the_trace_none(void **)
{
    Adapter &adapter = new_adapter();
    adapter.recordHistory(true, gather_numbered, 1000, RecordContext::STATE, false, {});
    void *block = adapter.raw_alloc(1000);
    int number = last_gathered();
    auto snapshot = adapter.snapshot();
    for (const TraceEntry &entry : snapshot.device_traces[0])
        assert_int_equal(number_of(entry.context_), -1);
    assert_int_equal(snapshot.segments.size(), 1);
    const auto &blocks = snapshot.segments[0].blocks;
    assert_int_equal(blocks.size(), 2);
    assert_int_equal(number_of(blocks[0].context_when_allocated), number);
    assert_true(blocks[0].allocated && blocks[0].active);
    assert_int_equal(blocks[0].size, 1024);
    assert_int_equal(blocks[0].requested_size, 1000);
    assert_int_equal(number_of(blocks[1].context_when_allocated), -1);
    assert_false(blocks[1].allocated || blocks[1].active);
    assert_int_equal(blocks[0].size + blocks[1].size, snapshot.segments[0].total_size);
    adapter.raw_delete(block);
    assert_int_equal(number_of(adapter.snapshot().segments[0].blocks[0].context_when_allocated),
                     -1);
}

static void a_snapshot_has_segments_by_address_with_their_pools_and_settings(void **)
{
    Adapter &adapter = new_adapter({"torch", "max_split_size_mb:200", 2});
    stand_in().max_split_bytes = 200 * MiB;
    void *small = adapter.raw_alloc(512);
    void *large = adapter.raw_alloc(30 * MiB);
    adapter.createOrIncrefPool(0, {0, 9});
    adapter.beginAllocateToPool(0, {0, 9}, [](cudaStream_t) { return true; });
    void *mine = adapter.raw_alloc(512);
    adapter.endAllocateToPool(0, {0, 9});
    stand_in_set_device(1);
    void *far = adapter.raw_alloc(512);
    auto snapshot = adapter.snapshot();
    assert_int_equal(snapshot.segments.size(), 4);
    for (size_t i = 1; i < 3; i++)
        assert_true(snapshot.segments[i - 1].address < snapshot.segments[i].address);
    assert_int_equal(snapshot.segments[3].device, 1);
    assert_int_equal(snapshot.config_metadata.max_split_size, 200 * MiB);
    assert_string_equal(snapshot.config_metadata.last_allocator_settings.c_str(),
                        "max_split_size_mb:200");
    auto one = adapter.snapshot({0, 9}, false);
    assert_int_equal(one.device_traces.size(), 0);
    assert_int_equal(one.segments.size(), 1);
    assert_true(one.segments[0].owner_private_pool_id == MempoolId_t(0, 9));
    assert_int_equal(one.segments[0].address, reinterpret_cast<uintptr_t>(mine));
    assert_false(one.segments[0].is_large);
    for (void *block : {small, large, mine, far})
        adapter.raw_delete(block);
}

static void the_ring_keeps_the_newest_and_is_cleared_when_asked(void **)
{
    Adapter &adapter = new_adapter();
    adapter.recordHistory(true, nullptr, 3, RecordContext::NEVER, false, {"segment_alloc"});
    for (size_t size = 1; size <= 4; size++)
        adapter.raw_delete(adapter.raw_alloc(size));
    auto trace = trace_of(adapter);
    assert_string_equal(actions_of(trace).c_str(), "alloc free_requested free_completed");
    assert_int_equal(trace[0].size_, 4);
    // New arguments keep the old entries, unless they are told not to.
    adapter.recordHistory(true, nullptr, 5, RecordContext::NEVER, false, {"snapshot"});
    assert_int_equal(trace_of(adapter).size(), 3);
    adapter.recordHistory(true, nullptr, 5, RecordContext::NEVER, true, {"snapshot"});
    assert_int_equal(trace_of(adapter).size(), 0);
    adapter.raw_delete(adapter.raw_alloc(1));
    adapter.recordHistory(false, nullptr, 1, RecordContext::NEVER, false, {});
    assert_false(adapter.isHistoryEnabled());
    assert_int_equal(trace_of(adapter).size(), 0);
    assert_true(contains(text_of<c10::Error>([&] {
                             adapter.recordHistory(true, nullptr, 1, RecordContext::NEVER, false,
                                                   {"sneeze"});
                         }),
                         "Unknown TraceEntry action: sneeze"));
    assert_false(adapter.isHistoryEnabled());
    text_of<c10::Error>(
        [&] { adapter.recordHistory(true, nullptr, 1, RecordContext::ALL, false, {}); });
    assert_false(adapter.isHistoryEnabled());
}

static void running_out_is_in_the_trace_with_the_rounded_size_and_the_free_bytes(void **)
{
    Adapter &adapter = new_adapter({"torch", "", 1, 64 * MiB});
    adapter.recordHistory(true, gather_numbered, 100, RecordContext::ALLOC, false, {});
    text_of<c10::OutOfMemoryError>([&] { adapter.raw_alloc(70 * MiB + 1); });
    auto trace = trace_of(adapter);
    assert_string_equal(actions_of(trace).c_str(), "oom");
    assert_int_equal(trace[0].size_, 70 * MiB + 512);
    assert_int_equal(trace[0].addr_, 64 * MiB);
    assert_int_equal(number_of(trace[0].context_), last_gathered());
}

static void
annotations_and_compile_contexts_count_while_recording_and_metadata_from_before_too(void **)
{
    Adapter &adapter = new_adapter();
    std::string compiling = "graph 1";
    adapter.setUserMetadata("before");
    adapter.recordAnnotation({{"name", "before"}});
    adapter.pushCompileContext(compiling);
    adapter.recordHistory(true, nullptr, 2, RecordContext::NEVER, false, {"segment_alloc"});
    assert_string_equal(adapter.getUserMetadata().c_str(), "before");
    adapter.setUserMetadata("step 3");
    adapter.pushCompileContext(compiling);
    void *block = adapter.raw_alloc(1);
    adapter.popCompileContext();
    adapter.popCompileContext(); // one too many
    adapter.setUserMetadata("");
    adapter.raw_delete(block);
    for (const char *name : {"one", "two", "three"})
        adapter.recordAnnotation({{"name", name}, {"stage", "START"}});
    auto snapshot = adapter.snapshot();
    assert_int_equal(snapshot.external_annotations.size(), 2);
    assert_string_equal(snapshot.external_annotations[0].metadata_["name"].c_str(), "two");
    assert_string_equal(snapshot.external_annotations[1].metadata_["stage"].c_str(), "START");
    adapter.recordHistory(true, nullptr, 10, RecordContext::NEVER, true, {"segment_alloc"});
    adapter.setUserMetadata("step 4");
    adapter.pushCompileContext(compiling);
    block = adapter.raw_alloc(1);
    auto trace = trace_of(adapter);
    assert_string_equal(trace[0].user_metadata_.c_str(), "step 4");
    assert_string_equal(trace[0].compile_context_.c_str(), "graph 1");
    adapter.popCompileContext();
    adapter.setUserMetadata("");
    adapter.raw_delete(block);
}

static void trackers_hear_everything_with_history_off_as_well(void **)
{
    Adapter &adapter = new_adapter();
    void *before = adapter.raw_alloc(1);
    std::vector<TraceEntry> heard;
    adapter.attachAllocatorTraceTracker([&](const TraceEntry &entry) { heard.push_back(entry); });
    adapter.attachAllocatorTraceTracker([](const TraceEntry &) { throw c10::Error("a bad one"); });
    void *block = adapter.raw_alloc(30 * MiB);
    adapter.raw_delete(block);
    adapter.raw_delete(before);
    adapter.emptyCache();
    assert_string_equal(actions_of(heard).c_str(),
                        "SEG+ alloc free_requested free_completed free_requested free_completed "
                        "SEG- SEG-");
    assert_int_equal(trace_of(adapter).size(), 0);
}

static void contexts_that_nobody_refers_to_are_let_go(void **)
{
    Adapter &adapter = new_adapter();
    int before = living_contexts();
    adapter.recordHistory(true, gather_numbered, 1, RecordContext::STATE, false, {});
    void *kept = adapter.raw_alloc(1000);
    int number = last_gathered();
    for (int i = 0; i < 20000; i++)
        adapter.raw_delete(adapter.raw_alloc(1000));
    assert_true(living_contexts() - before < 5000);
    bool is_found = false;
    for (const auto &segment : adapter.snapshot().segments)
        for (const auto &block : segment.blocks)
            is_found |= number_of(block.context_when_allocated) == number;
    assert_true(is_found);
    adapter.raw_delete(kept);
}

// Whoever follows segments has registered them with something that reaches the memory without a
// launch (a network card, other processes), or calls the driver under the pool's lock.
static void live_data_stays_where_it_is_while_a_tracker_listens(void **)
{
    static int asked;
    for (bool is_tracked : {false, true}) {
        asked = 0;
        Setup setup{"vramwise:rescue", "", 1, 64 * MiB, Kind::simulated, {}};
        setup.safe_point.enter = [](void *) { return ++asked > 0; };
        setup.safe_point.leave = [](void *) {};
        Adapter &adapter = new_adapter(setup);
        if (is_tracked)
            adapter.attachAllocatorTraceTracker([](const TraceEntry &) {});
        std::vector<void *> blocks;
        for (int i = 0; i < 60; i++)
            blocks.push_back(adapter.raw_alloc(1 * MiB));
        for (size_t i = 0; i < blocks.size(); i += 2)
            adapter.raw_delete(blocks[i]);
        // There is no room without copying, and this device has no bytes to copy.
        assert_true(contains(text_of<c10::OutOfMemoryError>([&] { adapter.raw_alloc(20 * MiB); }),
                             "CUDA out of memory"));
        assert_int_equal(asked > 0, !is_tracked);
        for (size_t i = 1; i < blocks.size(); i += 2)
            adapter.raw_delete(blocks[i]);
    }
}

static std::shared_ptr<c10::GatheredContext> fail_to_gather()
{
    throw c10::Error("nobody can say");
}

static void a_recorder_that_throws_keeps_no_block_from_being_freed(void **)
{
    Adapter &adapter = new_adapter();
    {
        c10::DataPtr block = adapter.allocate(1 * MiB);
        adapter.recordHistory(true, fail_to_gather, 100, RecordContext::ALL, false, {});
        assert_string_equal(text_of<c10::Error>([&] { adapter.allocate(1); }).c_str(),
                            "nobody can say");
    }
    assert_string_equal(actions_of(trace_of(adapter)).c_str(), "free_requested free_completed");
    assert_int_equal(adapter.getDeviceStats(0).allocated_bytes[0].current, 0);
}

// A tensor in a static variable, or in one of a thread that was there before ours: it is freed
// after the thread's own words are gone.
struct FreesLate {
    Adapter *adapter = nullptr;
    void *block = nullptr;
    ~FreesLate()
    {
        if (adapter == nullptr)
            return;
        adapter->raw_delete(block);
        const TraceEntry last = adapter->snapshot().device_traces[0].back();
        bool is_as_expected = last.action_ == TraceEntry::FREE_COMPLETED &&
                              last.compile_context_ == "N/A" && last.user_metadata_.empty();
        _exit(is_as_expected ? 0 : 1);
    }
};

static void use_to_the_very_end(FreesLate &late)
{
    late.adapter = &new_adapter({"torch", "", 1, 1 * GiB, Kind::host});
    late.adapter->recordHistory(true, gather_numbered, 100, RecordContext::ALL, false, {});
    std::string text = "a compilation whose name is too long for a string to hold it itself";
    late.adapter->pushCompileContext(text);
    late.adapter->setUserMetadata("an epoch whose name is too long for a string to hold it itself");
    late.block = late.adapter->raw_alloc(1);
}

static void blocks_are_freed_after_their_threads_words_are_gone(void **)
{
    for (bool is_of_a_thread : {false, true}) {
        pid_t child = fork();
        if (child == 0) {
            static FreesLate at_exit;
            auto use_in_thread = [] {
                static thread_local FreesLate at_thread_end;
                use_to_the_very_end(at_thread_end);
            };
            if (is_of_a_thread)
                std::thread(use_in_thread).join();
            else
                use_to_the_very_end(at_exit);
            std::exit(2);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_request_has_one_context_and_its_free_shows_it),
        cmocka_unit_test(with_all_a_free_and_a_release_show_who_asked_for_them),
        cmocka_unit_test(
            a_release_inside_a_request_shows_the_request_and_outside_the_segments_maker),
        cmocka_unit_test(a_free_that_completes_in_a_request_shows_the_request),
        cmocka_unit_test(with_state_only_live_blocks_have_contexts_and_the_trace_none),
        cmocka_unit_test(a_snapshot_has_segments_by_address_with_their_pools_and_settings),
        cmocka_unit_test(the_ring_keeps_the_newest_and_is_cleared_when_asked),
        cmocka_unit_test(running_out_is_in_the_trace_with_the_rounded_size_and_the_free_bytes),
        cmocka_unit_test(
            annotations_and_compile_contexts_count_while_recording_and_metadata_from_before_too),
        cmocka_unit_test(trackers_hear_everything_with_history_off_as_well),
        cmocka_unit_test(contexts_that_nobody_refers_to_are_let_go),
        cmocka_unit_test(live_data_stays_where_it_is_while_a_tracker_listens),
        cmocka_unit_test(a_recorder_that_throws_keeps_no_block_from_being_freed),
        cmocka_unit_test(blocks_are_freed_after_their_threads_words_are_gone),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
