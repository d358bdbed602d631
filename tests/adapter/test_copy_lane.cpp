// test_copy_lane.cpp - the streams of copies, and the lock of the thread that makes them.
#include "adapter_fixture.h"

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

constexpr size_t part = 1 * MiB;

static std::vector<vw_stream> streams_of_copies;
static const vw_device_table *real_table;

// A copy engine stays with a stream that has copies ready: the program's own would starve.
static void copies_of_a_track_take_turns_on_two_streams_and_keep_their_order(void **)
{
    Setup setup;
    setup.engine = "vramwise";
    setup.capacity_bytes = 32 * part;
    setup.kind = Kind::host;
    Adapter &adapter = new_adapter(setup);
    adapter.raw_delete(adapter.raw_alloc(part));
    vw_device device = *opened_device(0);
    vw_device_table table = *device.table;
    real_table = device.table;
    streams_of_copies.clear();
    table.copy = [](void *context, vw_device_ptr to, vw_device_ptr from, uint64_t size_bytes,
                    vw_stream stream) {
        streams_of_copies.push_back(stream);
        return real_table->copy(context, to, from, size_bytes, stream);
    };
    device.table = &table;
    auto *from = static_cast<unsigned char *>(std::memset(adapter.raw_alloc(part), 5, part));
    auto *to = static_cast<unsigned char *>(adapter.raw_alloc(part));
    vramwise_torch::CopyTrack track;
    assert_true(track.open(device));
    assert_int_equal(vw_device_hold_streams(opened_device(0), true), VW_OK);
    const vw_device_event before = work_on(&device, 9), end = work_on(&device, 9);
    assert_true(track.wait(device, before));
    for (int i = 0; i < 6; i++)
        assert_true(track.copy(device, vramwise_torch::address_of(to),
                               vramwise_torch::address_of(from), part));
    assert_true(track.mark(device, end));
    assert_int_equal(streams_of_copies.size(), 6);
    for (size_t i = 0; i < streams_of_copies.size(); i++)
        assert_int_equal(streams_of_copies[i], track.streams()[i % 2]);
    for (vw_stream stream : track.streams())
        assert_int_equal(vw_device_complete(opened_device(0), stream), VW_OK);
    assert_false(is_over(&device, end)); // the first one waits, and the others for it
    assert_int_equal(vw_device_complete(opened_device(0), 9), VW_OK);
    for (int i = 0; i < 6; i++)
        for (vw_stream stream : track.streams())
            assert_int_equal(vw_device_complete(opened_device(0), stream), VW_OK);
    assert_true(is_over(&device, end));
    assert_memory_equal(to, from, part);
    assert_int_equal(vw_device_hold_streams(opened_device(0), false), VW_OK);
    adapter.raw_delete(from);
    adapter.raw_delete(to);
}

// However late it wakes up.
static void a_thread_that_waits_has_the_lock_before_the_one_that_copies(void **)
{
    vramwise_torch::YieldingMutex lock;
    for (bool is_timed : {false, true}) {
        bool has_had_it = false;
        lock.lock();
        std::thread waiting([&] {
            std::unique_lock<vramwise_torch::YieldingMutex> hold(lock, std::defer_lock);
            if (is_timed)
                while (!hold.try_lock_for(std::chrono::hours(1))) {
                }
            else
                hold.lock();
            has_had_it = true;
        });
        while (lock.waiting() == 0)
            std::this_thread::yield();
        lock.unlock();
        lock.lock_last();
        assert_true(has_had_it);
        lock.unlock();
        waiting.join();
    }
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_of_a_track_take_turns_on_two_streams_and_keep_their_order),
        cmocka_unit_test(a_thread_that_waits_has_the_lock_before_the_one_that_copies),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
