// test_spill.cpp - live data that leaves the device: with which moments, in which order, and back.
#include "adapter_fixture.h"
#include "adapters/torch/vramwise_torch.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <unistd.h>

// Cards have 128 of it. Every byte is written and moved, so they are small.
constexpr size_t part = 256 * KiB;

static int moments_entered;
static bool is_granted = true;

static Adapter &adapter_that_spills(const char *engine, size_t spill_bytes, int device_count = 1,
                                    bool is_quiet = true)
{
    moments_entered = 0;
    is_granted = true;
    Setup setup;
    setup.engine = engine;
    setup.device_count = device_count;
    setup.capacity_bytes = 128 * part;
    setup.kind = Kind::host;
    setup.safe_point = {[](void *) {
                            moments_entered++;
                            return is_granted;
                        },
                        [](void *) {}, nullptr};
    setup.spill_bytes = spill_bytes;
    setup.is_quiet = is_quiet;
    return new_adapter(setup);
}

static vw_paged_stats stats_of(Adapter &adapter, int device = 0)
{
    vw_paged_stats stats{};
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
    for (const char *engine : {"vramwise", "vramwise:rescue", "vramwise:tight"}) {
        Adapter &adapter = adapter_that_spills(engine, 128 * part);
        std::vector<void *> blocks;
        for (int i = 0; i < 5; i++)
            blocks.push_back(filled(adapter, 40 * part, i + 1));
        assert_true(moments_entered > 0);
        assert_true(stats_of(adapter).spilled_bytes >= 72 * part);
        for (int i = 0; i < 5; i++) {
            assert_true(is_whole(blocks[static_cast<size_t>(i)], 40 * part, i + 1));
            adapter.raw_delete(blocks[static_cast<size_t>(i)]);
        }
    }
}

static void without_a_budget_nothing_leaves(void **)
{
    Adapter &adapter = adapter_that_spills("vramwise", 0);
    void *block = filled(adapter, 100 * part, 1);
    assert_true(contains(text_of<c10::OutOfMemoryError>([&] { adapter.raw_alloc(40 * part); }),
                         "out of memory"));
    assert_true(moments_entered > 0); // to copy, which did not help
    assert_int_equal(stats_of(adapter).spills, 0);
    adapter.raw_delete(block);
}

static void without_a_moment_or_beyond_the_budget_it_is_pytorch_s_error(void **)
{
    Adapter &adapter = adapter_that_spills("vramwise", 32 * part);
    void *block = filled(adapter, 100 * part, 1);
    is_granted = false;
    assert_true(contains(text_of<c10::OutOfMemoryError>([&] { adapter.raw_alloc(40 * part); }),
                         "out of memory"));
    assert_int_equal(stats_of(adapter).refused_spills, 1);
    is_granted = true;
    assert_true(contains(text_of<c10::OutOfMemoryError>([&] { adapter.raw_alloc(100 * part); }),
                         "out of memory"));
    assert_int_equal(stats_of(adapter).spilled_bytes, 0);
    assert_true(is_whole(block, 100 * part, 1));
    adapter.raw_delete(block);
}

static void one_budget_is_for_all_devices(void **)
{
    Adapter &adapter = adapter_that_spills("vramwise", 64 * part, 2);
    void *first = filled(adapter, 60 * part, 1), *second = filled(adapter, 60 * part, 2);
    void *third = filled(adapter, 40 * part, 3);
    assert_true(stats_of(adapter).spilled_bytes != 0);
    stand_in_set_device(1);
    void *other = filled(adapter, 120 * part, 4);
    assert_true(contains(text_of<c10::OutOfMemoryError>([&] { adapter.raw_alloc(40 * part); }),
                         "out of memory"));
    assert_true(is_whole(other, 120 * part, 4));
    for (void *pointer : {first, second, third, other})
        adapter.raw_delete(pointer);
    stand_in_set_device(0);
}

static void cold_data_leaves_first_and_comes_back_after_quiet_steps(void **)
{
    Adapter &adapter = adapter_that_spills("vramwise", 128 * part);
    void *warm = filled(adapter, 40 * part, 1), *cold = filled(adapter, 40 * part, 2);
    const unsigned long long addresses[] = {vramwise_torch::address_of(cold), 12345};
    assert_int_equal(vramwise_torch_advise(addresses, 2, VW_ADVISE_COLD), 40 * part);
    const unsigned long long weights[] = {vramwise_torch::address_of(warm) + 512};
    assert_int_equal(vramwise_torch_advise(weights, 1, VW_ADVISE_HOT), 40 * part);
    assert_int_equal(vramwise_torch_advise(addresses, 1, 77), 0);
    void *crowd = filled(adapter, 60 * part, 3);
    const uint64_t spilled_bytes = stats_of(adapter).spilled_bytes;
    assert_true(spilled_bytes != 0 && spilled_bytes <= 40 * part);
    adapter.raw_delete(crowd);
    char message[200];
    for (int i = 0; i < 10; i++)
        assert_int_equal(vramwise_torch_mark_step(message, sizeof message), 0);
    assert_string_equal(message, "");
    assert_int_equal(stats_of(adapter).spilled_bytes, 0);
    assert_int_equal(stats_of(adapter).returned_bytes, spilled_bytes);
    assert_true(is_whole(warm, 40 * part, 1) && is_whole(cold, 40 * part, 2));
    adapter.raw_delete(warm);
    adapter.raw_delete(cold);
}

static std::string value_of(vramwise_torch::AnnotationEntry entry, const char *key)
{
    return entry.metadata_[key];
}

static void each_move_is_in_the_snapshot_while_history_is_on(void **)
{
    Adapter &adapter = adapter_that_spills("vramwise", 128 * part);
    void *cold = filled(adapter, 60 * part, 1);
    assert_int_not_equal(adapter.advise(cold, VW_ADVISE_COLD), 0);
    void *crowd = filled(adapter, 100 * part, 2); // nobody records yet
    adapter.raw_delete(crowd);
    adapter.recordHistory(true, nullptr, 100, RecordContext::NEVER, false, {});
    for (int i = 0; i < 10; i++)
        adapter.mark_step();
    const uint64_t returned_bytes = stats_of(adapter).returned_bytes;
    crowd = filled(adapter, 100 * part, 3);
    const uint64_t spilled_bytes = stats_of(adapter).spilled_bytes;
    assert_true(returned_bytes != 0 && spilled_bytes != 0);

    auto found = adapter.snapshot().external_annotations;
    assert_int_equal(found.size(), 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(value_of(found[i], "name").c_str(),
                            i < 2 ? "vramwise return" : "vramwise spill");
        assert_string_equal(value_of(found[i], "stage").c_str(), i % 2 == 0 ? "START" : "END");
        assert_int_equal(found[i].device_, 0);
    }
    assert_string_equal(value_of(found[0], "moved_bytes").c_str(),
                        std::to_string(returned_bytes).c_str());
    assert_string_equal(value_of(found[0], "spilled_bytes").c_str(), "0");
    assert_string_equal(value_of(found[2], "moved_bytes").c_str(),
                        std::to_string(spilled_bytes).c_str());
    assert_string_equal(value_of(found[2], "spilled_bytes").c_str(),
                        std::to_string(spilled_bytes).c_str());
    assert_true(std::stoull(value_of(found[2], "moved_handles")) > 0);
    assert_true(std::stoull(value_of(found[2], "wait_us")) <
                stats_of(adapter).spill_wait_ns / 1000 + 1);
    assert_int_equal(adapter.snapshot({0, 0}, false).external_annotations.size(), 0);
    adapter.raw_delete(cold);
    adapter.raw_delete(crowd);
}

static void marks_of_moves_are_no_more_than_history_keeps(void **)
{
    Adapter &adapter = adapter_that_spills("vramwise", 128 * part);
    adapter.recordHistory(true, nullptr, 2, RecordContext::NEVER, false, {});
    std::vector<void *> blocks;
    for (int i = 0; i < 5; i++)
        blocks.push_back(filled(adapter, 40 * part, i + 1));
    assert_true(stats_of(adapter).spills > 1);
    auto found = adapter.snapshot().external_annotations;
    assert_int_equal(found.size(), 2);
    assert_string_equal(value_of(found[0], "spilled_bytes").c_str(),
                        std::to_string(stats_of(adapter).spilled_bytes).c_str());
    for (void *block : blocks)
        adapter.raw_delete(block);
}

static std::string what_stderr_gets(bool is_quiet)
{
    std::FILE *file = std::tmpfile();
    int kept = dup(2);
    assert_true(file != nullptr && kept >= 0);
    Adapter &adapter = adapter_that_spills("vramwise", 128 * part, 1, is_quiet);
    dup2(fileno(file), 2);
    void *first = filled(adapter, 100 * part, 1), *second = filled(adapter, 60 * part, 2);
    void *third = filled(adapter, 20 * part, 3);
    dup2(kept, 2);
    std::string text(4096, '\0');
    ssize_t length = pread(fileno(file), &text[0], text.size(), 0);
    assert_true(length >= 0);
    text.resize(static_cast<size_t>(length));
    for (void *pointer : {first, second, third})
        adapter.raw_delete(pointer);
    close(kept);
    std::fclose(file);
    return text;
}

static void the_first_time_is_said_once_with_its_price_unless_nobody_wants_it(void **)
{
    const std::string text = what_stderr_gets(false);
    assert_true(contains(text, "vramwise: GPU 0 is full: "));
    assert_true(contains(text, " MiB of live data went to host memory, "));
    assert_true(contains(text, "if it is an optimizer's state, a step takes about "));
    assert_true(contains(text, " ms (AdamW fused=True) to "));
    assert_int_equal(std::count(text.begin(), text.end(), '\n'), 1);
    assert_string_equal(what_stderr_gets(true).c_str(), "");
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(live_data_leaves_in_a_safe_moment_in_every_mode),
        cmocka_unit_test(without_a_budget_nothing_leaves),
        cmocka_unit_test(without_a_moment_or_beyond_the_budget_it_is_pytorch_s_error),
        cmocka_unit_test(one_budget_is_for_all_devices),
        cmocka_unit_test(cold_data_leaves_first_and_comes_back_after_quiet_steps),
        cmocka_unit_test(each_move_is_in_the_snapshot_while_history_is_on),
        cmocka_unit_test(marks_of_moves_are_no_more_than_history_keeps),
        cmocka_unit_test(the_first_time_is_said_once_with_its_price_unless_nobody_wants_it),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
