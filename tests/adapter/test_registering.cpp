// test_registering.cpp - memory that a communicator registers, as PyTorch's ProcessGroupNCCL does
// it: the segments of a pool that is there, and from then on those that a tracker hears of.
#include <cstdlib>
#include <map>
#include <stdexcept>

#include "adapter_fixture.h"

static const MempoolId_t user_pool{0, 7};

// A communicator of NCCL's. Whatever it has registered must be one piece of memory, and be there
// until it is deregistered.
struct Communicator {
    Adapter *adapter = nullptr;
    MempoolId_t pool{0, 0}; // registered; (0, 0): none
    std::map<size_t, size_t> segments;
    bool is_in_order = true;

    void take(size_t address, size_t size_bytes)
    {
        segments.emplace(address, size_bytes);
    }
    void drop(size_t address)
    {
        is_in_order &= segments.erase(address) == 1;
        // Readable still, or the test ends here.
        is_in_order &= *reinterpret_cast<volatile char *>(address) != 1;
    }
    void register_pool(MempoolId_t id)
    {
        pool = id;
        for (const auto &segment : adapter->snapshot(id).segments)
            take(segment.address, segment.total_size);
    }
    void deregister_pool()
    {
        for (const auto &segment : adapter->snapshot(pool).segments)
            drop(segment.address);
        pool = {0, 0};
    }
};

static Communicator &attach(Adapter &adapter)
{
    auto *made = new Communicator; // trackers are never detached
    made->adapter = &adapter;
    adapter.attachAllocatorTraceTracker([made](const TraceEntry &entry) {
        if (entry.mempool_ != made->pool || made->pool == MempoolId_t{0, 0})
            return;
        if (entry.action_ == TraceEntry::SEGMENT_ALLOC)
            made->take(static_cast<size_t>(entry.addr_), entry.size_);
        else if (entry.action_ == TraceEntry::SEGMENT_FREE)
            made->drop(static_cast<size_t>(entry.addr_));
    });
    return *made;
}

static void *alloc_in_pool(Adapter &adapter, size_t size_bytes)
{
    adapter.beginAllocateToPool(0, user_pool, [](cudaStream_t) { return true; });
    void *block = adapter.raw_alloc(size_bytes);
    adapter.endAllocateToPool(0, user_pool);
    adapter.releasePool(0, user_pool); // the scope's use
    return block;
}

static bool is_registered(const Communicator &communicator, const void *block, size_t size_bytes)
{
    auto address = reinterpret_cast<size_t>(block);
    auto after = communicator.segments.upper_bound(address);
    if (after == communicator.segments.begin())
        return false;
    auto segment = std::prev(after);
    return address + size_bytes <= segment->first + segment->second;
}

static void every_block_of_a_registered_pool_lies_in_one_registration(void **)
{
    for (const char *engine : {"torch", "vramwise", "vramwise:tight"}) {
        Setup setup{engine, "", 1, 1 * GiB, Kind::host};
        Adapter &adapter = new_adapter(setup);
        Communicator &communicator = attach(adapter);
        adapter.createOrIncrefPool(0, user_pool);
        void *before = alloc_in_pool(adapter, 200 * MiB);
        communicator.register_pool(user_pool);
        void *small = alloc_in_pool(adapter, 700);
        void *after = alloc_in_pool(adapter, 33 * MiB);
        void *other = adapter.raw_alloc(60 * MiB); // the default pool's is not registered
        assert_true(is_registered(communicator, before, 200 * MiB));
        assert_true(is_registered(communicator, small, 700));
        assert_true(is_registered(communicator, after, 33 * MiB));
        assert_false(is_registered(communicator, other, 1));
        assert_int_equal(communicator.segments.size(), 3);
        adapter.raw_delete(before);
        adapter.raw_delete(small);
        adapter.raw_delete(after);
        adapter.raw_delete(other);
        adapter.emptyCache(); // a pool in use keeps what it has
        assert_int_equal(communicator.segments.size(), 3);
        communicator.deregister_pool();
        assert_true(communicator.segments.empty());
        assert_true(communicator.is_in_order);
        adapter.releasePool(0, user_pool);
        adapter.emptyCache(user_pool);
        assert_int_equal(adapter.getDeviceStats(0).reserved_bytes[0].current, 0);
    }
}

static void memory_of_a_pool_that_ends_is_deregistered_before_it_goes(void **)
{
    Adapter &adapter = new_adapter({"vramwise", "", 1, 1 * GiB, Kind::host});
    Communicator &communicator = attach(adapter);
    adapter.createOrIncrefPool(0, user_pool);
    communicator.register_pool(user_pool);
    void *block = alloc_in_pool(adapter, 200 * MiB);
    assert_int_equal(communicator.segments.size(), 1);
    adapter.raw_delete(block);
    adapter.releasePool(0, user_pool);
    adapter.emptyCache(user_pool);
    assert_true(communicator.segments.empty());
    assert_true(communicator.is_in_order);
}

// PyTorch's own figures: a segment of a pool is one that cudaMalloc could have given.
static void snapshots_show_plain_segments(void **)
{
    Adapter &adapter = new_adapter({"vramwise", "", 1, 1 * GiB, Kind::host});
    adapter.createOrIncrefPool(0, user_pool);
    void *block = alloc_in_pool(adapter, 200 * MiB);
    auto segments = adapter.snapshot(user_pool).segments;
    assert_int_equal(segments.size(), 1);
    assert_int_equal(segments[0].address, reinterpret_cast<size_t>(block));
    assert_int_equal(segments[0].total_size, 200 * MiB);
    assert_false(segments[0].is_expandable);
    assert_int_equal(adapter.getDeviceStats(0).segment[0].current, 1);
    adapter.raw_delete(block);
    adapter.releasePool(0, user_pool);
}

// CUDA graphs have pools, too, and nobody registers those: they stay as they are.
static void pools_of_graphs_are_paged(void **)
{
    const MempoolId_t graph{1, 0};
    Adapter &adapter = new_adapter({"vramwise", "", 1, 1 * GiB, Kind::host});
    adapter.beginAllocateToPool(0, graph, [](cudaStream_t) { return true; });
    void *block = adapter.raw_alloc(200 * MiB);
    adapter.endAllocateToPool(0, graph);
    assert_true(adapter.snapshot(graph).segments[0].is_expandable);
    adapter.raw_delete(block);
    adapter.releasePool(0, graph);
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_block_of_a_registered_pool_lies_in_one_registration),
        cmocka_unit_test(memory_of_a_pool_that_ends_is_deregistered_before_it_goes),
        cmocka_unit_test(snapshots_show_plain_segments),
        cmocka_unit_test(pools_of_graphs_are_paged),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
