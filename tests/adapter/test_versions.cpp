// test_versions.cpp - what differs between versions of PyTorch, called as PyTorch calls it: through
// its base class, by the shape that the version has.
#include "adapter_fixture.h"

using vramwise_torch::CUDAAllocator;

static const MempoolId_t one_pool{0, 9};

// ---- the shapes of each version, under one name ------------------------------------------------

static void record(CUDAAllocator &allocator, size_t most_entries)
{
#if STAND_IN_TORCH < 208
    allocator.recordHistory(true, gather_numbered, most_entries, RecordContext::ALL);
#elif STAND_IN_TORCH < 211
    allocator.recordHistory(true, gather_numbered, most_entries, RecordContext::ALL, false);
#else
    allocator.recordHistory(true, gather_numbered, most_entries, RecordContext::ALL, false, {});
#endif
}

static void make_pool(CUDAAllocator &allocator)
{
#if STAND_IN_TORCH < 206
    (void)allocator; // the first scope makes it
#elif STAND_IN_TORCH < 208
    allocator.ensureExistsAndIncrefPool(0, one_pool);
#else
    allocator.createOrIncrefPool(0, one_pool);
#endif
}

// Of its maker, and of the scope that used it.
static void release_pool(CUDAAllocator &allocator)
{
    allocator.releasePool(0, one_pool);
    if (STAND_IN_TORCH >= 206)
        allocator.releasePool(0, one_pool);
}

static vramwise_torch::SnapshotInfo snapshot_of_pool(CUDAAllocator &allocator)
{
#if STAND_IN_TORCH < 208
    c10::cuda::MemPool pool{one_pool, nullptr};
    stand_in().active_pool = &pool;
    auto snapshot = allocator.snapshot();
    stand_in().active_pool = nullptr;
    return snapshot;
#else
    return allocator.snapshot(one_pool);
#endif
}

// ---- what every version has --------------------------------------------------------------------

static void history_and_snapshots_work_by_the_shape_of_the_version(void **)
{
    Adapter &adapter = new_adapter();
    CUDAAllocator &allocator = adapter;
    record(allocator, 100);
    assert_true(allocator.isHistoryEnabled());
    void *block = allocator.raw_alloc(1 * MiB);
    auto snapshot = allocator.snapshot();
    assert_int_equal(snapshot.segments.size(), 1);
    assert_int_equal(snapshot.device_traces[0].size(), 2); // segment_alloc, alloc
    assert_int_equal(snapshot.device_traces[0][1].action_, TraceEntry::ALLOC);
    assert_int_equal(number_of(snapshot.device_traces[0][1].context_), last_gathered());
    allocator.raw_delete(block);
    allocator.emptyCache();
    assert_int_equal(allocator.snapshot().segments.size(), 0);
}

static void a_snapshot_may_be_about_one_pool(void **)
{
    Adapter &adapter = new_adapter();
    CUDAAllocator &allocator = adapter;
    void *other = allocator.raw_alloc(512);
    make_pool(allocator);
    allocator.beginAllocateToPool(0, one_pool, [](cudaStream_t) { return true; });
    void *block = allocator.raw_alloc(512);
    allocator.endAllocateToPool(0, one_pool);
    assert_int_equal(allocator.snapshot().segments.size(), 2);
    auto snapshot = snapshot_of_pool(allocator);
    assert_int_equal(snapshot.segments.size(), 1);
    assert_true(snapshot.segments[0].owner_private_pool_id == one_pool);
    allocator.raw_delete(block);
    allocator.raw_delete(other);
    release_pool(allocator);
}

static void pools_follow_the_version_of_the_process(void **)
{
    Adapter &adapter = new_adapter({"torch", "", 1, 64 * MiB});
    std::string text = text_of<c10::OutOfMemoryError>([&] { (void)adapter.raw_alloc(1 * GiB); });
    assert_true(contains(text, "CUDA out of memory"));
    assert_int_equal(contains(text, "PYTORCH_ALLOC_CONF"), STAND_IN_TORCH == 210);
}

// ---- what came later ---------------------------------------------------------------------------

#if STAND_IN_TORCH < 208
static void the_source_of_the_threads_pool_serves_its_scope(void **)
{
    Adapter &source = new_adapter();
    Adapter &adapter = new_adapter();
    CUDAAllocator &allocator = adapter;
    make_pool(allocator); // before its source is known
    const int maker_count = STAND_IN_TORCH >= 206 ? 1 : 0;
    c10::cuda::MemPool pool{one_pool, &source};
    for (int scope = 1; scope <= 2; scope++) {
        stand_in().active_pool = &pool;
        allocator.beginAllocateToPool(0, one_pool, [](cudaStream_t) { return true; });
        stand_in().active_pool = nullptr;
        assert_int_equal(adapter.getPoolUseCount(0, one_pool), maker_count + scope);
        void *block = allocator.raw_alloc(512);
        assert_int_equal(source.snapshot().segments.size(), 1); // it was asked for the segment
        allocator.endAllocateToPool(0, one_pool);
        allocator.raw_delete(block);
    }
    for (int i = 0; i < maker_count + 2; i++)
        allocator.releasePool(0, one_pool);
    assert_int_equal(adapter.getPoolUseCount(0, one_pool), 0);
    allocator.emptyCache();
    assert_int_equal(allocator.snapshot().segments.size(), 0); // given back to the source
}
#endif

#if STAND_IN_TORCH >= 211
// Whoever registers a pool's segments elsewhere does it in this order.
static void segments_are_numbered_in_order_of_creation(void **)
{
    for (const char *engine : {"torch", "vramwise"}) {
        Adapter &adapter = new_adapter({engine, "", 1, 1 * GiB, Kind::host});
        CUDAAllocator &allocator = adapter;
        make_pool(allocator);
        allocator.beginAllocateToPool(0, one_pool, [](cudaStream_t) { return true; });
        void *first = allocator.raw_alloc(2 * MiB);
        void *second = allocator.raw_alloc(512); // small: a segment of its own
        allocator.endAllocateToPool(0, one_pool);
        void *third = allocator.raw_alloc(512);
        auto number_of_segment_with = [&](void *block) {
            auto address = reinterpret_cast<size_t>(block);
            for (const auto &segment : allocator.snapshot().segments)
                if (segment.address <= address && address < segment.address + segment.total_size)
                    return segment.registration_counter;
            return -1;
        };
        assert_int_equal(number_of_segment_with(first), 0);
        assert_int_equal(number_of_segment_with(second), 1);
        assert_int_equal(number_of_segment_with(third), 2);
        for (void *block : {first, second, third})
            allocator.raw_delete(block);
        release_pool(allocator);
    }
}
#endif

#if STAND_IN_TORCH >= 212
static void a_rejected_request_is_counted_and_reported(void **)
{
    Adapter &adapter = new_adapter(
        {"torch", "per_process_memory_fraction:0.5,throw_on_cudamalloc_oom:True", 1, 64 * MiB});
    CUDAAllocator &allocator = adapter;
    static std::vector<size_t> heard;
    heard.clear();
    allocator.attachOomRejectionObserver(
        [](int64_t device, size_t asked_bytes, size_t allocated_bytes, size_t total_bytes) {
            heard = {static_cast<size_t>(device), asked_bytes, allocated_bytes, total_bytes};
        });
    void *block = allocator.raw_alloc(20 * MiB);
    allocator.setMemoryFraction(1, 0); // else that limit comes first, and is no rejection
    std::string text = text_of<c10::OutOfMemoryError>([&] { (void)allocator.raw_alloc(30 * MiB); });
    assert_true(!text.empty());
    assert_int_equal(heard.size(), 4);
    assert_int_equal(heard[0], 0);
    assert_int_equal(heard[1], 30 * MiB);
    assert_int_equal(heard[2], 20 * MiB);
    assert_int_equal(heard[3], 64 * MiB);
    assert_int_equal(allocator.getDeviceStats(0).num_oom_rejections, 1);
    allocator.raw_delete(block);
}

static void who_asked_for_a_live_block_can_be_learned(void **)
{
    Adapter &adapter = new_adapter();
    CUDAAllocator &allocator = adapter;
    record(allocator, 100);
    void *block = allocator.raw_alloc(1 * MiB);
    assert_int_equal(number_of(allocator.getContextForPointer(block)), last_gathered());
    assert_null(allocator.getContextForPointer(static_cast<char *>(block) + 512).get());
    allocator.raw_delete(block);
    assert_null(allocator.getContextForPointer(block).get());
}
#endif

#if STAND_IN_TORCH >= 213
static void a_block_can_be_asked_for_where_it_was(void **)
{
    for (const char *engine : {"torch", "vramwise"}) {
        Adapter &adapter = new_adapter({engine, "", 1, 1 * GiB, Kind::host});
        CUDAAllocator &allocator = adapter;
        void *whole = allocator.raw_alloc(8 * MiB);
        allocator.raw_delete(whole);
        void *there = static_cast<char *>(whole) + 2 * MiB;
        {
            c10::DataPtr block = allocator.allocateWithAddress(1 * MiB + 1, there);
            assert_ptr_equal(block.get(), there);
            std::string text = text_of<c10::OutOfMemoryError>(
                [&] { (void)allocator.allocateWithAddress(1 * MiB + 1, there); });
            assert_true(!text.empty()); // taken
        }
        assert_null(allocator.allocateWithAddress(0, there).get());
    }
}

static void private_pools_have_statistics_of_their_own(void **)
{
    Adapter &adapter = new_adapter();
    CUDAAllocator &allocator = adapter;
    make_pool(allocator);
    allocator.beginAllocateToPool(0, one_pool, [](cudaStream_t) { return true; });
    void *block = allocator.raw_alloc(512);
    allocator.endAllocateToPool(0, one_pool);
    auto by_pool = allocator.getDeviceStats(0).reserved_bytes_by_private_pools;
    assert_int_equal(by_pool.size(), 1);
    const auto &reserved = by_pool.at(one_pool);
    assert_int_equal(reserved[0].current, 2 * MiB); // all
    assert_int_equal(reserved[1].current, 2 * MiB); // the small pool
    assert_int_equal(reserved[1].peak, 2 * MiB);
    assert_int_equal(reserved[1].allocated, 2 * MiB);
    assert_int_equal(reserved[2].current, 0);
    allocator.raw_delete(block);
    release_pool(allocator);
    allocator.emptyCache();
    by_pool = allocator.getDeviceStats(0).reserved_bytes_by_private_pools;
    assert_int_equal(by_pool.at(one_pool)[0].current, 0);
    assert_int_equal(by_pool.at(one_pool)[0].freed, 2 * MiB);
}

static void snapshots_name_the_settings_of_pinned_memory(void **)
{
    Adapter &adapter = new_adapter();
    auto settings = adapter.snapshot().config_metadata;
    assert_int_equal(settings.max_round_threshold, 77);
    assert_int_equal(settings.max_cached_size, 78);
}
#endif

#if STAND_IN_TORCH >= 214
static void a_live_block_can_be_annotated(void **)
{
    Adapter &adapter = new_adapter();
    CUDAAllocator &allocator = adapter;
    assert_true(allocator.supportsUserMetadata());
    void *block = allocator.raw_alloc(1 * MiB - 7);
    allocator.annotateMemory(block, "nobody listens");
    record(allocator, 100);
    allocator.annotateMemory(block, "saved for backward");
    auto trace = allocator.snapshot().device_traces[0];
    assert_int_equal(trace.size(), 1);
    assert_int_equal(trace[0].action_, TraceEntry::ANNOTATE);
    assert_int_equal(trace[0].addr_, reinterpret_cast<size_t>(block));
    assert_int_equal(trace[0].size_, 1 * MiB - 7);
    assert_string_equal(trace[0].user_metadata_.c_str(), "saved for backward");
    assert_int_equal(number_of(trace[0].context_), last_gathered());
    allocator.raw_delete(block);
    std::string text = text_of<c10::Error>([&] { allocator.annotateMemory(block, "too late"); });
    assert_true(contains(text, "invalid device pointer"));
}

static void an_annotation_names_the_pool_of_its_block(void **)
{
    Adapter &adapter = new_adapter();
    CUDAAllocator &allocator = adapter;
    make_pool(allocator);
    allocator.beginAllocateToPool(0, one_pool, [](cudaStream_t) { return true; });
    void *block = allocator.raw_alloc(512);
    allocator.endAllocateToPool(0, one_pool);
    record(allocator, 100);
    allocator.annotateMemory(block, "of a graph");
    auto trace = allocator.snapshot().device_traces[0];
    assert_int_equal(trace.size(), 1);
    assert_true(trace[0].mempool_ == one_pool);
    allocator.raw_delete(block);
    release_pool(allocator);
}
#endif

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(history_and_snapshots_work_by_the_shape_of_the_version),
        cmocka_unit_test(a_snapshot_may_be_about_one_pool),
        cmocka_unit_test(pools_follow_the_version_of_the_process),
#if STAND_IN_TORCH < 208
        cmocka_unit_test(the_source_of_the_threads_pool_serves_its_scope),
#endif
#if STAND_IN_TORCH >= 211
        cmocka_unit_test(segments_are_numbered_in_order_of_creation),
#endif
#if STAND_IN_TORCH >= 212
        cmocka_unit_test(a_rejected_request_is_counted_and_reported),
        cmocka_unit_test(who_asked_for_a_live_block_can_be_learned),
#endif
#if STAND_IN_TORCH >= 213
        cmocka_unit_test(a_block_can_be_asked_for_where_it_was),
        cmocka_unit_test(private_pools_have_statistics_of_their_own),
        cmocka_unit_test(snapshots_name_the_settings_of_pinned_memory),
#endif
#if STAND_IN_TORCH >= 214
        cmocka_unit_test(a_live_block_can_be_annotated),
        cmocka_unit_test(an_annotation_names_the_pool_of_its_block),
#endif
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
