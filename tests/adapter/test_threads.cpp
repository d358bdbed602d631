// test_threads.cpp - many threads, while history, settings, sharing and snapshots come and go.
#include <atomic>
#include <random>
#include <thread>

#include "adapter_fixture.h"

static void use(Adapter &adapter, c10::DeviceIndex device, unsigned seed, int rounds)
{
    std::mt19937 random(seed);
    stand_in_set_device(device);
    stand_in_set_stream(seed % 3 == 0 ? 0 : 0x1000 * (1 + seed % 3));
    std::vector<c10::DataPtr> live;
    for (int i = 0; i < rounds; i++) {
        size_t size = 1 + random() % (random() % 4 == 0 ? 3 * MiB : 8 * KiB);
        live.push_back(adapter.allocate(size));
        if (random() % 8 == 0)
            adapter.recordStream(live.back(), CUDAStream(device, 0x9000));
        if (live.size() > 20)
            live.erase(live.begin() + static_cast<std::ptrdiff_t>(random() % live.size()));
    }
}

static void everything_at_once_stays_in_order(void **)
{
    constexpr int rounds = 400;
    for (const char *engine : {"torch", "vramwise"}) {
        Adapter &adapter =
            new_adapter({engine, "expandable_segments:True", 2, 2 * GiB, Kind::host});
        std::atomic<size_t> heard{0};
        std::vector<std::thread> threads;
        for (unsigned seed = 0; seed < 4; seed++)
            threads.emplace_back([&adapter, seed] {
                use(adapter, static_cast<c10::DeviceIndex>(seed % 2), seed, rounds);
            });
        threads.emplace_back([&] {
            for (int i = 0; i < 20; i++) {
                adapter.recordHistory(i % 2 == 0, gather_numbered, 50, RecordContext::ALL,
                                      i % 4 == 0, {});
                adapter.recordAnnotation({{"name", "round"}});
                (void)adapter.snapshot();
                (void)adapter.getDeviceStats(0);
                if (i == 10)
                    adapter.attachAllocatorTraceTracker([&](const TraceEntry &) { heard++; });
                adapter.configure(i % 2 == 0 ? "expandable_segments:True" : "max_split_size_mb:64");
                adapter.emptyCache();
            }
        });
        threads.emplace_back([&] {
            stand_in_set_device(1);
            for (int i = 0; i < 20; i++) {
                auto pool = MempoolId_t(0, static_cast<unsigned long long>(1 + i));
                auto me = std::this_thread::get_id();
                adapter.beginAllocateToPool(
                    1, pool, [me](cudaStream_t) { return std::this_thread::get_id() == me; });
                void *block = adapter.raw_alloc(3 * MiB);
                (void)adapter.shareIpcHandle(block);
                adapter.endAllocateToPool(1, pool);
                adapter.raw_delete(block);
                adapter.releasePool(1, pool);
            }
        });
        for (std::thread &thread : threads)
            thread.join();
        adapter.recordHistory(false, nullptr, 1, RecordContext::NEVER, false, {});
        adapter.emptyCache();
        assert_true(heard > 0);
        for (c10::DeviceIndex device = 0; device < 2; device++) {
            auto stats = adapter.getDeviceStats(device);
            assert_int_equal(stats.allocated_bytes[0].current, 0);
            assert_int_equal(stats.active_bytes[0].current, 0);
        }
    }
}

// While one thread makes pools, others let go of what is unused: never of one that is being made.
static void a_source_stays_while_its_pool_is_made(void **)
{
    for (const char *engine : {"torch", "vramwise"}) {
        Adapter &nobody_asks_it = new_adapter();
        Adapter &adapter = new_adapter({engine, "", 1, 1 * GiB, Kind::host});
        adapter.raw_delete(adapter.raw_alloc(1));
        std::atomic<bool> is_over{false};
        std::thread other([&] {
            while (!is_over)
                adapter.emptyCache();
        });
        int lost = 0;
        for (unsigned long long i = 1; i <= 2000; i++) {
            std::shared_ptr<Adapter> source(&nobody_asks_it, [](Adapter *) {});
            adapter.createOrIncrefPool(0, {0, i}, source);
            lost += source.use_count() != 2;
            adapter.releasePool(0, {0, i});
        }
        is_over = true;
        other.join();
        assert_int_equal(lost, 0);
    }
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_at_once_stays_in_order),
        cmocka_unit_test(a_source_stays_while_its_pool_is_made),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
