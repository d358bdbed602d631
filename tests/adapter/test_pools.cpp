// test_pools.cpp - private pools: routing, sources of their own, graph trees.
#include <cstdlib>
#include <set>
#include <thread>

#include "adapter_fixture.h"

static const MempoolId_t graph{1, 0};
static const MempoolId_t user_pool{0, 7};

static bool everything(cudaStream_t)
{
    return true;
}

static MempoolId_t pool_of(Adapter &adapter, void *pointer)
{
    auto address = reinterpret_cast<uintptr_t>(pointer);
    for (const auto &segment : adapter.snapshot().segments)
        if (segment.address <= address && address < segment.address + segment.total_size)
            return segment.owner_private_pool_id;
    return {99, 99};
}

#ifdef __clang__
#pragma clang diagnostic ignored "-Winconsistent-missing-override" // shapes of several versions
#endif
// A memory source that counts.
class Source final : public vramwise_torch::CUDAAllocator
{
  public:
    std::set<void *> held;
    bool is_empty = false;
    bool is_broken = false;

    void *raw_alloc(size_t size_bytes) override
    {
        if (is_broken)
            throw c10::Error("a source that fails");
        if (is_empty)
            return nullptr;
        void *memory = std::aligned_alloc(2 * MiB, size_bytes);
        held.insert(memory);
        return memory;
    }
    void raw_delete(void *pointer) override
    {
        held.erase(pointer);
        std::free(pointer);
    }

    // What nobody asks a source for. Without `override`: what not every version has.
    c10::DataPtr allocate(size_t) override
    {
        std::abort();
    }
    void copy_data(void *, const void *, std::size_t) const override
    {
    }
    bool initialized() override
    {
        return true;
    }
    void emptyCache(MempoolId_t)
    {
    }
    vramwise_torch::DeviceStats getDeviceStats(c10::DeviceIndex) override
    {
        return {};
    }
    void resetAccumulatedStats(c10::DeviceIndex) override
    {
    }
    void resetPeakStats(c10::DeviceIndex) override
    {
    }
    void *raw_alloc_with_stream(size_t size_bytes, cudaStream_t) override
    {
        return raw_alloc(size_bytes);
    }
    void init(int) override
    {
    }
    double getMemoryFraction(c10::DeviceIndex)
    {
        return 1;
    }
    void setMemoryFraction(double, c10::DeviceIndex) override
    {
    }
    std::vector<vramwise_torch::StreamSegmentSize> getExpandableSegmentSizes(c10::DeviceIndex)
    {
        return {};
    }
    void enable(bool)
    {
    }
    bool isEnabled() const
    {
        return true;
    }
    void cacheInfo(c10::DeviceIndex, size_t *) override
    {
    }
    void *getBaseAllocation(void *, size_t *) override
    {
        return nullptr;
    }
    void recordStream(const c10::DataPtr &, CUDAStream) override
    {
    }
    vramwise_torch::SnapshotInfo snapshot(MempoolId_t, bool)
    {
        return {};
    }
    void beginAllocateToPool(c10::DeviceIndex, MempoolId_t,
                             std::function<bool(cudaStream_t)>) override
    {
    }
    void endAllocateToPool(c10::DeviceIndex, MempoolId_t) override
    {
    }
    void releasePool(c10::DeviceIndex, MempoolId_t) override
    {
    }
    int getPoolUseCount(c10::DeviceIndex, MempoolId_t)
    {
        return 0;
    }
    void createOrIncrefPool(c10::DeviceIndex, MempoolId_t, std::shared_ptr<CUDAAllocator>)
    {
    }
    void setUseOnOOM(c10::DeviceIndex, MempoolId_t, bool)
    {
    }
    void setNoSplit(c10::DeviceIndex, MempoolId_t)
    {
    }
    bool checkPoolLiveAllocations(c10::DeviceIndex, MempoolId_t,
                                  const std::unordered_set<void *> &) override
    {
        return false;
    }
    vramwise_torch::ShareableHandle shareIpcHandle(void *) override
    {
        return {};
    }
    std::shared_ptr<void> getIpcDevPtr(std::string) override
    {
        return nullptr;
    }
    bool isHistoryEnabled() override
    {
        return false;
    }
    void recordHistory(bool, CreateContextFn, size_t, RecordContext, bool,
                       const std::vector<std::string> &)
    {
    }
    void recordAnnotation(const std::vector<std::pair<std::string, std::string>> &) override
    {
    }
    void pushCompileContext(std::string &)
    {
    }
    void popCompileContext()
    {
    }
    void setUserMetadata(const std::string &)
    {
    }
    std::string getUserMetadata()
    {
        return "";
    }
    void attachOutOfMemoryObserver(vramwise_torch::OutOfMemoryObserver) override
    {
    }
    void attachAllocatorTraceTracker(vramwise_torch::AllocatorTraceTracker) override
    {
    }
    void enablePeerAccess(c10::DeviceIndex, c10::DeviceIndex) override
    {
    }
    cudaError_t memcpyAsync(void *, int, const void *, int, size_t, cudaStream_t, bool) override
    {
        return cudaSuccess;
    }
    std::shared_ptr<vramwise_torch::AllocatorState> getCheckpointState(c10::DeviceIndex,
                                                                       MempoolId_t) override
    {
        return nullptr;
    }
    vramwise_torch::CheckpointDelta
    setCheckpointPoolState(c10::DeviceIndex,
                           std::shared_ptr<vramwise_torch::AllocatorState>) override
    {
        return {};
    }
    void emptyCache()
    {
    }
    vramwise_torch::SnapshotInfo snapshot(MempoolId_t)
    {
        return {};
    }
    vramwise_torch::SnapshotInfo snapshot()
    {
        return {};
    }
    void createOrIncrefPool(c10::DeviceIndex, MempoolId_t, CUDAAllocator *)
    {
    }
    void ensureExistsAndIncrefPool(c10::DeviceIndex, MempoolId_t)
    {
    }
    void setUseOnOOM(c10::DeviceIndex, MempoolId_t)
    {
    }
    void recordHistory(bool, CreateContextFn, size_t, RecordContext, bool)
    {
    }
    void recordHistory(bool, CreateContextFn, size_t, RecordContext)
    {
    }
    Context getContextForPointer(const void *)
    {
        return nullptr;
    }
    void attachOomRejectionObserver(vramwise_torch::OomRejectionObserver)
    {
    }
    c10::DataPtr allocateWithAddress(size_t, void *)
    {
        std::abort();
    }
    bool supportsUserMetadata()
    {
        return false;
    }
    void annotateMemory(const void *, const std::string &)
    {
    }
    std::string name() override
    {
        return "a source";
    }
};

static void requests_go_where_the_newest_filter_that_accepts_them_says(void **)
{
    for (const char *engine : {"torch", "vramwise"}) {
        Adapter &adapter = new_adapter({engine, "", 1, 1 * GiB, Kind::host});
        auto thread = std::this_thread::get_id();
        adapter.beginAllocateToPool(
            0, graph, [thread](cudaStream_t) { return std::this_thread::get_id() == thread; });
        assert_int_equal(adapter.getPoolUseCount(0, graph), 1);
        void *mine = adapter.raw_alloc(512);
        void *others = nullptr;
        std::thread([&] { others = adapter.raw_alloc(512); }).join();
        adapter.beginAllocateToPool(0, user_pool, [](cudaStream_t stream) {
            return stream == reinterpret_cast<cudaStream_t>(0x5000);
        });
        void *newest = adapter.raw_alloc_with_stream(512, reinterpret_cast<cudaStream_t>(0x5000));
        assert_true(pool_of(adapter, mine) == graph);
        assert_true(pool_of(adapter, others) == MempoolId_t(0, 0));
        assert_true(pool_of(adapter, newest) == user_pool);
        assert_string_equal(
            text_of<c10::Error>([&] { adapter.beginAllocateToPool(0, graph, everything); }).c_str(),
            "beginAllocateToPool: already recording to mempool_id");
        adapter.endAllocateToPool(0, graph);
        adapter.endAllocateToPool(0, user_pool);
        assert_string_equal(
            text_of<c10::Error>([&] { adapter.endAllocateToPool(0, graph); }).c_str(),
            "endAllocatePool: not currently recording to mempool_id");
        void *after = adapter.raw_alloc(512);
        assert_true(pool_of(adapter, after) == MempoolId_t(0, 0));
        for (void *block : {mine, others, newest, after})
            adapter.raw_delete(block);
        adapter.emptyCache();
        assert_int_equal(adapter.snapshot(graph, false).segments.size(), 1); // in use: kept
        adapter.releasePool(0, graph);
        adapter.releasePool(0, user_pool);
        adapter.emptyCache(graph);
        assert_int_equal(adapter.snapshot(graph, false).segments.size(), 0);
        adapter.emptyCache();
        assert_int_equal(adapter.getPoolUseCount(0, graph), 0);
        text_of<c10::Error>([&] { adapter.releasePool(0, graph); });
    }
}

static void a_filter_that_throws_claims_nothing(void **)
{
    Adapter &adapter = new_adapter();
    adapter.beginAllocateToPool(0, graph,
                                [](cudaStream_t) -> bool { throw c10::Error("cannot say"); });
    void *block = adapter.raw_alloc(512);
    assert_true(pool_of(adapter, block) == MempoolId_t(0, 0));
    adapter.raw_delete(block);
    adapter.endAllocateToPool(0, graph);
    adapter.releasePool(0, graph);
}

static void uses_are_counted_and_a_pool_in_use_can_help_out(void **)
{
    Adapter &adapter = new_adapter({"torch", "", 1, 64 * MiB});
    adapter.createOrIncrefPool(0, user_pool);
    adapter.createOrIncrefPool(0, user_pool);
    assert_int_equal(adapter.getPoolUseCount(0, user_pool), 2);
    adapter.setUseOnOOM(0, user_pool, true);
    adapter.setNoSplit(0, user_pool);
    adapter.beginAllocateToPool(0, user_pool, everything);
    adapter.raw_delete(adapter.raw_alloc(60 * MiB));
    adapter.endAllocateToPool(0, user_pool);
    void *helped = adapter.raw_alloc(50 * MiB); // its free block, whole
    assert_true(pool_of(adapter, helped) == user_pool);
    assert_int_equal(adapter.getDeviceStats(0).allocated_bytes[0].current, 60 * MiB);
    adapter.raw_delete(helped);
    for (int i = 0; i < 3; i++)
        adapter.releasePool(0, user_pool);
    adapter.setUseOnOOM(0, user_pool, false);
    adapter.emptyCache(user_pool);
    assert_int_equal(adapter.getDeviceStats(0).reserved_bytes[0].current, 0);
    adapter.setUseOnOOM(0, {0, 1234}, false); // of one that never was
}

static void a_source_of_its_own_serves_a_pool_under_every_engine(void **)
{
    for (const char *engine : {"torch", "vramwise"}) {
        Adapter &adapter = new_adapter({engine, "", 1, 1 * GiB, Kind::host});
        auto source = std::make_shared<Source>();
        void *ours = adapter.raw_alloc(4 * MiB);
        adapter.createOrIncrefPool(0, user_pool, source);
        assert_int_equal(adapter.getPoolUseCount(0, user_pool), 1);
        adapter.beginAllocateToPool(0, user_pool, everything);
        assert_int_equal(adapter.getPoolUseCount(0, user_pool), 2);
        void *theirs = adapter.raw_alloc(512);
        adapter.beginAllocateToPool(0, graph, everything); // newer: goes before
        void *graphs = adapter.raw_alloc(512);
        adapter.endAllocateToPool(0, graph);
        adapter.endAllocateToPool(0, user_pool);
        void *later = adapter.raw_alloc(512);
        assert_int_equal(source->held.size(), 1);
        assert_int_equal(source->held.count(theirs), 1);
        assert_true(pool_of(adapter, theirs) == user_pool);
        assert_true(pool_of(adapter, graphs) == graph);
        assert_true(pool_of(adapter, later) == MempoolId_t(0, 0));
        auto stats = adapter.getDeviceStats(0); // both
        assert_int_equal(stats.allocated_bytes[0].current, 4 * MiB + 3 * 512);
        assert_int_equal(stats.allocation[0].current, 4);
        auto snapshot = adapter.snapshot();
        for (size_t i = 1; i < snapshot.segments.size(); i++)
            assert_true(snapshot.segments[i - 1].address < snapshot.segments[i].address);
        assert_true(adapter.checkPoolLiveAllocations(0, user_pool, {theirs}));
        for (void *block : {ours, theirs, graphs, later})
            adapter.raw_delete(block);
        assert_int_equal(adapter.getDeviceStats(0).allocated_bytes[0].current, 0);
        source->is_empty = true;
        adapter.beginAllocateToPool(0, user_pool, everything);
        assert_true(contains(text_of<c10::OutOfMemoryError>([&] { adapter.raw_alloc(300 * MiB); }),
                             "out of memory"));
        source->is_broken = true;
        text_of<c10::OutOfMemoryError>([&] { adapter.raw_alloc(300 * MiB); });
        adapter.endAllocateToPool(0, user_pool);
        assert_int_equal(source.use_count(), 2);
        for (int i = 0; i < 3; i++)
            adapter.releasePool(0, user_pool);
        adapter.releasePool(0, graph);
        adapter.emptyCache(user_pool);
        assert_int_equal(source->held.size(), 0);
        assert_int_equal(source.use_count(), 1); // let go with the pool
    }
}

static void one_limit_is_for_all_and_a_pool_with_a_source_can_help_out(void **)
{
    const MempoolId_t helper{0, 8};
    for (const char *engine : {"torch", "vramwise"}) {
        Adapter &adapter = new_adapter({engine, "", 1, 160 * MiB, Kind::host});
        auto source = std::make_shared<Source>();
        adapter.createOrIncrefPool(0, user_pool, source);
        adapter.createOrIncrefPool(0, helper, source);
        adapter.setUseOnOOM(0, helper, true);
        adapter.setMemoryFraction(0.5, 0); // 80 MiB
        adapter.beginAllocateToPool(0, user_pool, everything);
        void *unhelpful = adapter.raw_alloc(40 * MiB);
        adapter.endAllocateToPool(0, user_pool);
        adapter.beginAllocateToPool(0, helper, everything);
        void *helpful = adapter.raw_alloc(40 * MiB);
        adapter.endAllocateToPool(0, helper);
        assert_false(text_of<c10::OutOfMemoryError>([&] { adapter.raw_alloc(40 * MiB); }).empty());
        adapter.raw_delete(unhelpful);
        adapter.raw_delete(helpful);
        void *helped = adapter.raw_alloc(30 * MiB);
        assert_ptr_equal(helped, helpful);
        assert_false(text_of<c10::OutOfMemoryError>([&] { adapter.raw_alloc(30 * MiB); }).empty());
        adapter.raw_delete(helped);
        assert_true(adapter.getMemoryFraction(0) == 0.5);
        adapter.setMemoryFraction(1.0, 0);
        void *elsewhere = adapter.raw_alloc(100 * MiB); // a device that has room
        adapter.raw_delete(elsewhere);
    }
}

static void a_checkpoint_brings_the_live_blocks_back(void **)
{
    for (const char *engine : {"torch", "vramwise"}) {
        Adapter &adapter = new_adapter({engine, "", 1, 1 * GiB, Kind::host});
        adapter.recordHistory(true, gather_numbered, 100, RecordContext::ALLOC, false, {});
        adapter.beginAllocateToPool(0, graph, everything);
        void *a = adapter.raw_alloc(4096);
        void *b = adapter.raw_alloc(8192);
        auto state = adapter.getCheckpointState(0, graph);
        assert_true(adapter.checkPoolLiveAllocations(0, graph, {a, b}));
        adapter.raw_delete(a);
        void *c = adapter.raw_alloc(16 * KiB); // not where `a` was
        assert_false(adapter.checkPoolLiveAllocations(0, graph, {a, b}));
        assert_false(adapter.checkPoolLiveAllocations(0, graph, {b, c, a}));
        assert_true(adapter.checkPoolLiveAllocations(0, graph, {b, c}));
        auto delta = adapter.setCheckpointPoolState(0, state);
        assert_true(std::set<void *>(delta.ptrs_freed.begin(), delta.ptrs_freed.end()) ==
                    std::set<void *>({b, c}));
        std::set<void *> back;
        for (const auto &pointer : delta.dataptrs_allocd) {
            back.insert(pointer.get());
            assert_true(pointer.get_deleter() == adapter.raw_deleter());
        }
        assert_true(back == std::set<void *>({a, b}));
        assert_true(adapter.checkPoolLiveAllocations(0, graph, {a, b}));
        int restorer = last_gathered();
        const auto snapshot = adapter.snapshot(graph, false);
        for (const auto &block : snapshot.segments[0].blocks)
            if (block.allocated)
                assert_int_equal(number_of(block.context_when_allocated), restorer);
        delta.dataptrs_allocd.clear(); // frees them
        assert_true(adapter.checkPoolLiveAllocations(0, graph, {}));
        adapter.endAllocateToPool(0, graph);
        adapter.releasePool(0, graph);
        adapter.emptyCache();
        assert_string_equal(text_of<c10::Error>([&] {
                                adapter.getCheckpointState(0, {0, 55});
                            }).c_str(),
                            "Could not find pool of id");
        assert_string_equal(text_of<c10::Error>([&] {
                                adapter.checkPoolLiveAllocations(0, {0, 55}, {});
                            }).c_str(),
                            "Could not find pool of id");
        struct Other : vramwise_torch::AllocatorState {
        };
        assert_string_equal(text_of<c10::Error>([&] {
                                adapter.setCheckpointPoolState(0, std::make_shared<Other>());
                            }).c_str(),
                            "Expected PrivatePoolState");
        assert_true(
            !text_of<c10::Error>([&] { adapter.setCheckpointPoolState(0, state); }).empty());
    }
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_go_where_the_newest_filter_that_accepts_them_says),
        cmocka_unit_test(a_filter_that_throws_claims_nothing),
        cmocka_unit_test(uses_are_counted_and_a_pool_in_use_can_help_out),
        cmocka_unit_test(a_source_of_its_own_serves_a_pool_under_every_engine),
        cmocka_unit_test(one_limit_is_for_all_and_a_pool_with_a_source_can_help_out),
        cmocka_unit_test(a_checkpoint_brings_the_live_blocks_back),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
