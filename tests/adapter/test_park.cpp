// test_park.cpp - memory that leaves every GPU of the process, and comes back.
#include "adapter_fixture.h"
#include "adapters/torch/vramwise_torch.h"

#include <cstring>

constexpr size_t part = 256 * KiB;
constexpr unsigned long long everything[2] = {0, 0};

static int held;

static Adapter &adapter_that_parks(int device_count, const char *engine = "vramwise:rescue")
{
    held = 0;
    Setup setup;
    setup.engine = engine;
    setup.device_count = device_count;
    setup.capacity_bytes = 128 * part;
    setup.kind = Kind::host;
    setup.safe_point = {[](void *) { return true; }, [](void *) {}, nullptr};
    setup.park_guard = {[](void *) {
                            held++;
                            return true;
                        },
                        [](void *) { held--; }, nullptr, nullptr};
    Adapter &adapter = new_adapter(setup);
    vramwise_torch::set_installed_adapter(&adapter);
    return adapter;
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
    return bytes[0] == value && memcmp(bytes, bytes + 1, size_bytes - 1) == 0;
}

static uint64_t in_use_bytes(int device)
{
    vw_device_calls calls{};
    assert_int_equal(vw_device_get_calls(opened_device(device), &calls), VW_OK);
    return calls.in_use_bytes;
}

static void all_devices_park_and_wake_together(void **)
{
    Adapter &adapter = adapter_that_parks(2);
    void *first = filled(adapter, 20 * part, 1);
    stand_in_set_device(1);
    void *second = filled(adapter, 30 * part, 2);
    unsigned long long numbers[5] = {};
    char message[256] = "";
    assert_int_equal(vramwise_torch_park(everything, nullptr, 0, numbers, message, sizeof message),
                     0);
    assert_true(numbers[0] >= 50 * part && numbers[1] >= 50 * part);
    assert_int_equal(in_use_bytes(0) + in_use_bytes(1), 0);
    assert_int_equal(held, 2);
    assert_true(contains(text_of<c10::Error>([&] { adapter.raw_alloc(part); }), "parked"));
    assert_int_equal(vramwise_torch_wake(everything, numbers, message, sizeof message), 0);
    assert_int_equal(held, 0);
    assert_true(is_whole(first, 20 * part, 1) && is_whole(second, 30 * part, 2));
    adapter.raw_delete(second);
    stand_in_set_device(0);
    adapter.raw_delete(first);
}

static void where_one_cannot_the_others_are_woken_again(void **)
{
    Adapter &adapter = adapter_that_parks(2);
    void *first = filled(adapter, 20 * part, 1);
    stand_in_set_device(1);
    void *second = filled(adapter, 30 * part, 2);
    unsigned long long numbers[5] = {};
    char message[256] = "";
    assert_int_equal(vw_device_lose(opened_device(1)), VW_OK);
    assert_int_not_equal(
        vramwise_torch_park(everything, nullptr, 0, numbers, message, sizeof message), 0);
    assert_string_not_equal(message, "");
    assert_int_equal(held, 0);
    assert_true(is_whole(first, 20 * part, 1) && is_whole(second, 30 * part, 2));
    stand_in_set_device(0);
    adapter.raw_delete(first);
}

static void a_full_device_keeps_what_is_parked(void **)
{
    Adapter &adapter = adapter_that_parks(1);
    void *block = filled(adapter, 40 * part, 7);
    unsigned long long numbers[5] = {};
    char message[512] = "";
    assert_int_equal(
        vramwise_torch_park(everything, "/dev/shm", 0, numbers, message, sizeof message), 0);
    assert_int_equal(vw_device_set_capacity(opened_device(0), part), VW_OK);
    assert_int_equal(vramwise_torch_wake(everything, numbers, message, sizeof message),
                     VW_ERR_OUT_OF_MEMORY);
    assert_true(contains(message, "to wake takes 10.0 MiB"));
    assert_int_equal(vw_device_set_capacity(opened_device(0), 128 * part), VW_OK);
    assert_int_equal(vramwise_torch_wake(everything, numbers, message, sizeof message), 0);
    assert_true(is_whole(block, 40 * part, 7));
    adapter.raw_delete(block);
}

static void a_mempool_becomes_a_region(void **)
{
    Adapter &adapter = adapter_that_parks(1);
    const MempoolId_t id{0, 9};
    const unsigned long long region[2] = {0, 9};
    unsigned long long numbers[5] = {};
    char message[256] = "";
    void *outside = filled(adapter, 10 * part, 1);
    adapter.createOrIncrefPool(0, id); // as the constructor of torch.cuda.MemPool does
    adapter.beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
    assert_int_equal(vramwise_torch_region(region, "weights", 1, message, sizeof message), 0);
    void *inside = filled(adapter, 40 * part, 2);
    adapter.endAllocateToPool(0, id);
    assert_int_equal(vramwise_torch_park(region, nullptr, 0, numbers, message, sizeof message), 0);
    assert_true(numbers[0] >= 40 * part);
    assert_int_equal(numbers[3], 0); // nothing stayed
    assert_int_equal(held, 0);
    assert_true(is_whole(inside, 40 * part, 2)); // in host memory
    void *more = filled(adapter, 100 * part, 3);
    adapter.beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
    assert_true(contains(text_of<c10::Error>([&] { adapter.raw_alloc(part); }), "\"weights\""));
    adapter.endAllocateToPool(0, id);
    adapter.raw_delete(more);
    assert_int_equal(vramwise_torch_wake(region, numbers, message, sizeof message), 0);
    assert_true(is_whole(inside, 40 * part, 2) && is_whole(outside, 10 * part, 1));
    adapter.raw_delete(inside);
    adapter.raw_delete(outside);
}

static void what_cannot_park_says_so(void **)
{
    unsigned long long numbers[5] = {};
    char message[256] = "";
    Adapter &adapter = adapter_that_parks(1, "torch");
    void *block = filled(adapter, part, 1);
    assert_int_equal(vramwise_torch_park(everything, nullptr, 0, numbers, message, sizeof message),
                     VW_ERR_UNSUPPORTED);
    assert_true(contains(message, "\"torch\""));
    assert_int_equal(vramwise_torch_park_ahead(1, message, sizeof message), VW_ERR_UNSUPPORTED);
    adapter.raw_delete(block);
    vramwise_torch::set_installed_adapter(nullptr);
    assert_int_equal(vramwise_torch_park(everything, nullptr, 0, numbers, message, sizeof message),
                     VW_ERR_UNSUPPORTED);
    assert_true(contains(message, "installed"));
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_devices_park_and_wake_together),
        cmocka_unit_test(where_one_cannot_the_others_are_woken_again),
        cmocka_unit_test(a_full_device_keeps_what_is_parked),
        cmocka_unit_test(a_mempool_becomes_a_region),
        cmocka_unit_test(what_cannot_park_says_so),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
