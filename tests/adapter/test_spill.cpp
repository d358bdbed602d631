// test_spill.cpp - live data that leaves the device: with which moments, in which order, and back.
#include "adapter_fixture.h"
#include "adapters/torch/headroom_torch.h"

#include <cstring>

static int moments_entered;
static bool is_granted = true;

static Adapter &adapter_that_spills(const char *engine, size_t spill_bytes, int device_count = 1)
{
    moments_entered = 0;
    is_granted = true;
    Setup setup;
    setup.engine = engine;
    setup.device_count = device_count;
    setup.capacity_bytes = 128 * MiB;
    setup.kind = Kind::host;
    setup.safe_point = {[](void *) {
                            moments_entered++;
                            return is_granted;
                        },
                        [](void *) {}, nullptr};
    setup.spill_bytes = spill_bytes;
    return new_adapter(setup);
}

static hr_paged_stats stats_of(Adapter &adapter, int device = 0)
{
    hr_paged_stats stats{};
    stats.struct_size = sizeof stats;
    assert_true(adapter.get_paged_stats(device, &stats));
    return stats;
}

static void *filled(Adapter &adapter, size_t size_bytes, int value)
{
    void *pointer = adapter.raw_alloc(size_bytes);
    memset(pointer, value, size_bytes);
    return pointer;
}

static bool is_whole(const void *pointer, size_t size_bytes, int value)
{
    const auto *bytes = static_cast<const unsigned char *>(pointer);
    for (size_t i = 0; i < size_bytes; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

static void live_data_leaves_in_a_safe_moment_in_every_mode(void **)
{
    for (const char *engine : {"headroom", "headroom:rescue", "headroom:tight"}) {
        Adapter &adapter = adapter_that_spills(engine, 128 * MiB);
        std::vector<void *> blocks;
        for (int i = 0; i < 5; i++)
            blocks.push_back(filled(adapter, 40 * MiB, i + 1));
        assert_true(moments_entered > 0);
        assert_true(stats_of(adapter).spilled_bytes >= 72 * MiB);
        for (int i = 0; i < 5; i++) {
            assert_true(is_whole(blocks[static_cast<size_t>(i)], 40 * MiB, i + 1));
            adapter.raw_delete(blocks[static_cast<size_t>(i)]);
        }
    }
}

static void without_a_budget_nothing_leaves_and_no_moment_is_wanted(void **)
{
    Adapter &adapter = adapter_that_spills("headroom", 0);
    void *block = filled(adapter, 100 * MiB, 1);
    assert_true(contains(text_of<c10::OutOfMemoryError>([&] { adapter.raw_alloc(40 * MiB); }),
                         "out of memory"));
    assert_int_equal(moments_entered, 0);
    adapter.raw_delete(block);
}

static void without_a_moment_or_beyond_the_budget_it_is_pytorch_s_error(void **)
{
    Adapter &adapter = adapter_that_spills("headroom", 32 * MiB);
    void *block = filled(adapter, 100 * MiB, 1);
    is_granted = false;
    assert_true(contains(text_of<c10::OutOfMemoryError>([&] { adapter.raw_alloc(40 * MiB); }),
                         "out of memory"));
    assert_int_equal(stats_of(adapter).refused_spills, 1);
    is_granted = true;
    assert_true(contains(text_of<c10::OutOfMemoryError>([&] { adapter.raw_alloc(100 * MiB); }),
                         "out of memory"));
    assert_int_equal(stats_of(adapter).spilled_bytes, 0);
    assert_true(is_whole(block, 100 * MiB, 1));
    adapter.raw_delete(block);
}

static void one_budget_is_for_all_devices(void **)
{
    Adapter &adapter = adapter_that_spills("headroom", 64 * MiB, 2);
    void *first = filled(adapter, 60 * MiB, 1), *second = filled(adapter, 60 * MiB, 2);
    void *third = filled(adapter, 40 * MiB, 3);
    assert_true(stats_of(adapter).spilled_bytes != 0);
    stand_in_set_device(1);
    void *other = filled(adapter, 120 * MiB, 4);
    assert_true(contains(text_of<c10::OutOfMemoryError>([&] { adapter.raw_alloc(40 * MiB); }),
                         "out of memory"));
    assert_true(is_whole(other, 120 * MiB, 4));
    for (void *pointer : {first, second, third, other})
        adapter.raw_delete(pointer);
    stand_in_set_device(0);
}

static void cold_data_leaves_first_and_comes_back_after_quiet_steps(void **)
{
    Adapter &adapter = adapter_that_spills("headroom", 128 * MiB);
    void *warm = filled(adapter, 40 * MiB, 1), *cold = filled(adapter, 40 * MiB, 2);
    const unsigned long long addresses[] = {headroom_torch::address_of(cold), 12345};
    assert_int_equal(headroom_torch_advise(addresses, 2, HR_ADVISE_COLD), 40 * MiB);
    const unsigned long long weights[] = {headroom_torch::address_of(warm) + 512};
    assert_int_equal(headroom_torch_advise(weights, 1, HR_ADVISE_HOT), 40 * MiB);
    assert_int_equal(headroom_torch_advise(addresses, 1, 77), 0);
    void *crowd = filled(adapter, 60 * MiB, 3);
    const uint64_t spilled_bytes = stats_of(adapter).spilled_bytes;
    assert_true(spilled_bytes != 0 && spilled_bytes <= 40 * MiB);
    adapter.raw_delete(crowd);
    char message[200];
    for (int i = 0; i < 10; i++)
        assert_int_equal(headroom_torch_mark_step(message, sizeof message), 0);
    assert_string_equal(message, "");
    assert_int_equal(stats_of(adapter).spilled_bytes, 0);
    assert_int_equal(stats_of(adapter).returned_bytes, spilled_bytes);
    assert_true(is_whole(warm, 40 * MiB, 1) && is_whole(cold, 40 * MiB, 2));
    adapter.raw_delete(warm);
    adapter.raw_delete(cold);
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(live_data_leaves_in_a_safe_moment_in_every_mode),
        cmocka_unit_test(without_a_budget_nothing_leaves_and_no_moment_is_wanted),
        cmocka_unit_test(without_a_moment_or_beyond_the_budget_it_is_pytorch_s_error),
        cmocka_unit_test(one_budget_is_for_all_devices),
        cmocka_unit_test(cold_data_leaves_first_and_comes_back_after_quiet_steps),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
