// test_device_threads.cpp - eight GPUs of one process, on the fake driver, with threads that change
// devices between a request and its free. The fake driver, of CUDA or HIP, refuses calls in the
// wrong context. CTest names it in an environment variable, and says that it has eight devices.
#include <array>
#include <atomic>
#include <mutex>
#include <random>
#include <thread>

#include "adapter_fixture.h"

extern "C" {
#include "support/fake_cuda_state.h"
}

constexpr int devices = FAKE_CUDA_MOST_DEVICES;
constexpr size_t unit = 1 * MiB;
#ifdef USE_ROCM
constexpr int own_depth = 1; // a thread always has a device
#else
constexpr int own_depth = 0;
#endif

static const std::array<std::pair<const char *, const char *>, 3> kinds = {
    {{"torch", ""}, {"torch", "expandable_segments:True"}, {"vramwise", ""}}};

static Adapter &adapter_on_eight(const std::pair<const char *, const char *> &kind)
{
    return new_adapter({kind.first, kind.second, devices, 0, Kind::gpu});
}

static int64_t allocated(Adapter &adapter, int device)
{
    return adapter.getDeviceStats(static_cast<c10::DeviceIndex>(device)).allocated_bytes[0].current;
}

static void set_device(int device)
{
    stand_in_set_device(static_cast<c10::DeviceIndex>(device));
}

// So many units on each device as its number says, and one.
static std::vector<void *> take_on_each(Adapter &adapter)
{
    std::vector<void *> blocks;
    for (int device = 0; device < devices; device++) {
        set_device(device);
        blocks.push_back(adapter.raw_alloc(unit * static_cast<size_t>(device + 1)));
    }
    return blocks;
}

static void statistics_snapshots_and_frees_go_to_the_device_of_the_block(void **)
{
    for (const auto &kind : kinds) {
        Adapter &adapter = adapter_on_eight(kind);
        adapter.recordHistory(true, gather_numbered, 100, RecordContext::ALL, true, {});
        std::vector<void *> blocks = take_on_each(adapter);
        fake_cuda_state taken = vw_test_fake_cuda_state();
        for (int device = 0; device < devices; device++) {
            const size_t size = unit * static_cast<size_t>(device + 1);
            assert_int_equal(allocated(adapter, device), size);
            assert_true(taken.device_used_bytes[device] >= size);
        }
        for (int device = 0; device < devices; device++) { // while the next one is current
            set_device((device + 1) % devices);
            adapter.raw_delete(blocks[static_cast<size_t>(device)]);
            for (int other = 0; other < devices; other++)
                assert_int_equal(allocated(adapter, other),
                                 other <= device ? 0 : unit * static_cast<size_t>(other + 1));
        }
        adapter.resetPeakStats(3);
        for (int device = 0; device < devices; device++) {
            auto stats = adapter.getDeviceStats(static_cast<c10::DeviceIndex>(device));
            assert_int_equal(stats.allocated_bytes[0].peak,
                             device == 3 ? 0 : unit * static_cast<size_t>(device + 1));
        }
        auto snapshot = adapter.snapshot();
        assert_int_equal(snapshot.device_traces.size(), devices);
        for (int device = 0; device < devices; device++) {
            int allocs = 0, frees = 0;
            for (const TraceEntry &entry : snapshot.device_traces[static_cast<size_t>(device)]) {
                assert_int_equal(entry.device_, device);
                allocs += entry.action_ == TraceEntry::ALLOC;
                frees += entry.action_ == TraceEntry::FREE_COMPLETED;
            }
            assert_int_equal(allocs, 1);
            assert_int_equal(frees, 1);
        }
        std::array<size_t, devices> segment_bytes{};
        for (const auto &segment : snapshot.segments)
            segment_bytes[static_cast<size_t>(segment.device)] += segment.total_size;
        for (int device = 0; device < devices; device++) {
            auto stats = adapter.getDeviceStats(static_cast<c10::DeviceIndex>(device));
            assert_int_equal(segment_bytes[static_cast<size_t>(device)],
                             stats.reserved_bytes[0].current);
        }
        adapter.recordHistory(false, nullptr, 1, RecordContext::NEVER, true, {});
        adapter.emptyCache(); // of all, whichever is current
        assert_int_equal(vw_test_fake_cuda_state().used_bytes, 0);
        assert_int_equal(vw_test_fake_cuda_state().context_depth, own_depth);
    }
}

static void a_limit_of_one_device_is_not_that_of_another(void **)
{
    for (const auto &kind : kinds) {
        Adapter &adapter = adapter_on_eight(kind);
        adapter.setMemoryFraction(0.01, 6); // some 41 MiB
        for (int device = 0; device < devices; device++) {
            set_device(device);
            std::string refusal = text_of<c10::OutOfMemoryError>(
                [&] { adapter.raw_delete(adapter.raw_alloc(100 * MiB)); });
            assert_int_equal(!refusal.empty(), device == 6);
            if (device == 6)
                assert_true(contains(refusal, "GPU 6"));
        }
        adapter.emptyCache();
    }
}

static void peers_reach_the_memory_in_both_directions_and_no_others(void **)
{
    for (const auto &kind : kinds) {
        Adapter &adapter = adapter_on_eight(kind);
        std::vector<void *> blocks = take_on_each(adapter);
        fake_cuda_state before = vw_test_fake_cuda_state();
        adapter.enablePeerAccess(2, 5); // 2 reaches what 5 has
        fake_cuda_state after = vw_test_fake_cuda_state();
        for (int device = 0; device < devices; device++) {
            int more = after.open_mappings[device] - before.open_mappings[device];
            assert_int_equal(more > 0, device == 2 && before.mapping_count > 0);
        }
        adapter.enablePeerAccess(5, 2);
        fake_cuda_state both = vw_test_fake_cuda_state();
        assert_int_equal(both.open_mappings[5] > after.open_mappings[5], both.mapping_count > 0);
        set_device(5);
        void *later = adapter.raw_alloc(64 * MiB);
        assert_int_equal(vw_test_fake_cuda_state().open_mappings[2] > both.open_mappings[2],
                         both.mapping_count > 0);
        set_device(0);
        adapter.raw_delete(later);
        for (void *block : blocks)
            adapter.raw_delete(block);
        adapter.emptyCache();
        assert_int_equal(vw_test_fake_cuda_state().used_bytes, 0);
    }
}

// ---- threads ------------------------------------------------------------------------------------

namespace
{
struct Slot {
    std::mutex lock;
    unsigned char *block = nullptr;
    size_t size_bytes = 0;
    unsigned char mark = 0;
};

struct Scene {
    Adapter &adapter;
    std::array<Slot, 48> slots;
    std::atomic<int> spoilt{0};
};
} // namespace

static void delete_marked(Scene &scene, unsigned char *block, size_t size_bytes, unsigned char mark)
{
    if (block == nullptr)
        return;
    scene.spoilt += block[0] != mark || block[size_bytes - 1] != mark;
    scene.adapter.raw_delete(block);
}

static void use(Scene &scene, unsigned seed, int rounds)
{
    std::mt19937 random(seed);
    for (int i = 0; i < rounds; i++) {
        set_device(static_cast<int>(random() % devices));
        size_t size = 1 + random() % (random() % 4 == 0 ? 3 * MiB : 8 * KiB);
        auto *block = static_cast<unsigned char *>(scene.adapter.raw_alloc(size));
        auto mark = static_cast<unsigned char>(random());
        block[0] = block[size - 1] = mark;
        Slot &slot = scene.slots[random() % scene.slots.size()];
        set_device(static_cast<int>(random() % devices)); // before the free
        std::unique_lock<std::mutex> hold(slot.lock);
        std::swap(slot.block, block);
        std::swap(slot.size_bytes, size);
        std::swap(slot.mark, mark);
        hold.unlock();
        delete_marked(scene, block, size, mark);
    }
}

static void blocks_are_freed_by_threads_on_other_devices(void **)
{
    for (const auto &kind : kinds) {
        Scene scene{adapter_on_eight(kind), {}, {}};
        std::vector<std::thread> threads;
        for (unsigned seed = 0; seed < 4; seed++)
            threads.emplace_back([&scene, seed] { use(scene, seed, 1000); });
        threads.emplace_back([&scene] {
            for (int i = 0; i < 20; i++) {
                scene.adapter.recordHistory(i % 2 == 0, gather_numbered, 50, RecordContext::ALL,
                                            false, {});
                scene.spoilt += scene.adapter.snapshot().device_traces.size() != devices;
                if (i % 5 == 0)
                    scene.adapter.emptyCache();
            }
        });
        for (std::thread &thread : threads)
            thread.join();
        for (Slot &slot : scene.slots)
            delete_marked(scene, slot.block, slot.size_bytes, slot.mark);
        assert_int_equal(scene.spoilt, 0);
        scene.adapter.recordHistory(false, nullptr, 1, RecordContext::NEVER, true, {});
        for (int device = 0; device < devices; device++)
            assert_int_equal(allocated(scene.adapter, device), 0);
        scene.adapter.emptyCache();
        assert_int_equal(vw_test_fake_cuda_state().used_bytes, 0);
    }
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_snapshots_and_frees_go_to_the_device_of_the_block),
        cmocka_unit_test(a_limit_of_one_device_is_not_that_of_another),
        cmocka_unit_test(peers_reach_the_memory_in_both_directions_and_no_others),
        cmocka_unit_test(blocks_are_freed_by_threads_on_other_devices),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
