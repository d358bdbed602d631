// test_saved_stream.cpp - tensors that a forward pass saves and a backward pass uses, on a device
// with real bytes. The hooks, which are Python's, are played by the test.
#include "adapter_fixture.h"
#include "adapters/torch/vramwise_torch.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

static int news_left; // that many requests from now one finds no host memory; 0: none

void *operator new(size_t size_bytes, const std::nothrow_t &) noexcept
{
    return news_left > 0 && --news_left == 0 ? nullptr : std::malloc(size_bytes);
}

void *operator new(size_t size_bytes)
{
    void *taken = operator new(size_bytes, std::nothrow);
    if (taken == nullptr)
        throw std::bad_alloc();
    return taken;
}

void operator delete(void *address) noexcept
{
    std::free(address);
}

void operator delete(void *address, size_t) noexcept
{
    std::free(address);
}

// The device has 32 of it. Every byte is written and moved, so it is small.
constexpr size_t part = 1 * MiB;

// A tensor that holds its storage.
struct Tensor {
    explicit Tensor(c10::DataPtr data, size_t size_bytes)
        : storage(new c10::StorageImpl(size_bytes, std::move(data))), impl(storage)
    {
    }
    ~Tensor()
    {
        c10::raw::intrusive_ptr::decref(storage);
    }
    Tensor(const Tensor &) = delete;
    Tensor &operator=(const Tensor &) = delete;
    unsigned long long address()
    {
        return vramwise_torch::address_of(&impl);
    }
    unsigned char *bytes() const
    {
        return static_cast<unsigned char *>(storage->data_ptr().get());
    }
    bool is_filled_with(int value) const
    {
        const unsigned char *first = bytes();
        return *first == value && std::memcmp(first, first + 1, storage->nbytes() - 1) == 0;
    }
    c10::StorageImpl *storage;
    c10::TensorImpl impl;
};

static std::unique_ptr<Tensor> made(Adapter &adapter, size_t size_bytes, int value)
{
    auto tensor = std::make_unique<Tensor>(adapter.allocate(size_bytes), size_bytes);
    std::memset(tensor->bytes(), value, size_bytes);
    return tensor;
}

static std::unique_ptr<Tensor> empty()
{
    return std::make_unique<Tensor>(c10::DataPtr(nullptr, {c10::DeviceType::CUDA, 0}), 0);
}

static int no_state(int, unsigned long long, int)
{
    return 0;
}

static int has_lock()
{
    return 1;
}

// The hooks: in force up to the last tensor that leaves in a step, unless they cannot be popped.
static bool are_hooks_on, is_popped_early;
static int hook_calls; // in the step

static Adapter &streaming_adapter(uint64_t spill_bytes = 128 * part)
{
    Setup setup;
    setup.engine = "vramwise";
    setup.capacity_bytes = 32 * part;
    setup.kind = Kind::host;
    setup.safe_point = {[](void *) { return true; }, [](void *) {}, nullptr};
    setup.park_guard = {[](void *) { return true; }, [](void *) {}, nullptr, nullptr};
    setup.spill_bytes = spill_bytes;
    Adapter &adapter = new_adapter(setup);
    are_hooks_on = is_popped_early = true;
    hook_calls = 0;
    auto alone = made(adapter, part, 1);
    unsigned long long references = 1;
    assert_int_equal(vramwise_torch_stream_start(alone->address(),
                                                 vramwise_torch::address_of(&references), no_state,
                                                 has_lock),
                     1);
    vramwise_torch_stream_plan(0, 1); // a step has ended
    return adapter;
}

// What PyTorch keeps of a saved tensor.
struct Kept {
    std::unique_ptr<Tensor> tensor; // it stays
    long long number = 0;           // vramwise_torch_saved_keep()
};

static Kept save(std::unique_ptr<Tensor> tensor)
{
    Kept kept;
    if (are_hooks_on) {
        kept.number = vramwise_torch_saved_keep(tensor->address());
        hook_calls++;
    }
    if (kept.number >= VRAMWISE_TORCH_SAVED_LAST) {
        kept.number -= VRAMWISE_TORCH_SAVED_LAST;
        are_hooks_on = !is_popped_early;
    }
    if (kept.number <= 0)
        kept.tensor = std::move(tensor);
    return kept;
}

static std::unique_ptr<Tensor> restored(Adapter &adapter, Kept &kept)
{
    if (kept.number <= 0) {
        if (kept.number < 0)
            vramwise_torch_saved_note(0, static_cast<unsigned long long>(-kept.number - 1));
        return std::move(kept.tensor);
    }
    const auto id = static_cast<unsigned long long>(kept.number);
    auto shell = empty();
    const long long wanted = vramwise_torch_saved_fetch(0, id, shell->address());
    assert_true(wanted >= 0);
    if (wanted > 0) {
        shell = made(adapter, static_cast<size_t>(wanted), 0);
        assert_int_equal(vramwise_torch_saved_fill(0, id, shell->address()), 1);
    }
    return shell;
}

static vw_paged_stats stats_of(Adapter &adapter)
{
    vw_paged_stats stats{};
    stats.struct_size = sizeof stats;
    assert_true(adapter.get_paged_stats(0, &stats));
    return stats;
}

static vramwise_torch::SavedCounts counts_of(Adapter &adapter)
{
    return adapter.stream()->counts(*adapter.opened_pools(0)).saved;
}

// Layers that save 4 parts each, then use them in the opposite order, with a request after each.
static void train(Adapter &adapter, int layers, size_t size_bytes = 4 * part)
{
    std::vector<Kept> kept;
    for (int i = 0; i < layers; i++)
        kept.push_back(save(made(adapter, size_bytes, i + 1)));
    for (int i = layers; i-- > 0;) {
        auto tensor = restored(adapter, kept[static_cast<size_t>(i)]);
        assert_true(tensor->is_filled_with(i + 1));
        if (kept.back().number > 0)
            vramwise_torch_saved_release(0, static_cast<unsigned long long>(kept.back().number));
        kept.pop_back();
        tensor.reset();
        adapter.raw_delete(adapter.raw_alloc(part));
    }
}

static void end_step()
{
    vramwise_torch_stream_plan(0, 1);
    are_hooks_on = true;
    hook_calls = 0;
}

static void where_everything_fits_nothing_leaves(void **)
{
    Adapter &adapter = streaming_adapter();
    for (int step = 0; step < 3; step++) {
        train(adapter, 7);
        end_step();
        assert_int_equal(vramwise_torch_saved_lacking(0), 0);
    }
    assert_int_equal(counts_of(adapter).all_left_bytes, 0);
}

// Hooks cost a program that is bound by the host: those behind the last that leaves say nothing
// new.
static void nobody_has_to_ask_behind_the_last_that_leaves(void **)
{
    for (bool is_popped : {true, false}) { // or others are on top of them
        Adapter &adapter = streaming_adapter();
        is_popped_early = is_popped;
        train(adapter, 12);
        end_step();
        train(adapter, 12);
        end_step();
        uint64_t left_bytes = 0;
        for (int step = 0; step < 4; step++) {
            const uint64_t before_bytes = counts_of(adapter).all_left_bytes;
            train(adapter, 12);
            const uint64_t now_bytes = counts_of(adapter).all_left_bytes - before_bytes;
            assert_true(now_bytes >= 16 * part && (step == 0 || now_bytes == left_bytes));
            assert_int_equal(hook_calls, is_popped ? static_cast<int>(now_bytes / (4 * part)) : 12);
            left_bytes = now_bytes;
            end_step();
        }
    }
}

static void a_step_that_goes_on_otherwise_is_seen_to_its_end_the_next_time(void **)
{
    Adapter &adapter = streaming_adapter();
    for (int step = 0; step < 3; step++) {
        train(adapter, 10);
        end_step();
    }
    train(adapter, 10);
    const int first_calls = hook_calls;
    assert_true(first_calls < 10);
    end_step();
    train(adapter, 14); // the same up to there
    assert_int_equal(hook_calls, first_calls);
    end_step();
    train(adapter, 14);
    assert_int_equal(hook_calls, 14);
    end_step();
    const uint64_t before_bytes = counts_of(adapter).all_left_bytes;
    train(adapter, 14);
    assert_true(hook_calls < 14 && hook_calls > first_calls);
    assert_true(counts_of(adapter).all_left_bytes - before_bytes >= 24 * part);
    end_step();
    train(adapter, 14, 2 * part); // other sizes: not the step that was planned
    assert_int_equal(hook_calls, 14);
}

static void what_does_not_fit_leaves_and_returns_with_its_bytes(void **)
{
    Adapter &adapter = streaming_adapter();
    train(adapter, 12); // 48 on a device of 32
    end_step();
    assert_true(vramwise_torch_saved_lacking(0) >= 16 * part);
    train(adapter, 12); // the first that leave
    end_step();
    const uint64_t spills = stats_of(adapter).spills;
    const vramwise_torch::SavedCounts before = counts_of(adapter);
    for (int step = 0; step < 3; step++) {
        train(adapter, 12);
        end_step();
    }
    const vramwise_torch::SavedCounts after = counts_of(adapter);
    assert_int_equal(stats_of(adapter).spills, spills); // the old way is not needed any more
    assert_int_equal(after.away_bytes, 0);
    const uint64_t left_bytes = (after.all_left_bytes - before.all_left_bytes) / 3;
    assert_in_range(left_bytes, 16 * part, 24 * part); // no more than is lacking
    assert_int_equal(after.all_returned_bytes - before.all_returned_bytes, 3 * left_bytes);
    assert_true(after.returned_ahead_bytes - before.returned_ahead_bytes >= 2 * left_bytes);
    assert_int_equal(adapter.getDeviceStats(0).allocated_bytes[0].current, 0);
}

// The stream that gets the memory waits for the copy, not the host.
static void a_request_gets_memory_whose_copy_is_under_way(void **)
{
    Adapter &adapter = streaming_adapter();
    train(adapter, 12);
    end_step();
    vw_device *device = opened_device(0);
    assert_int_equal(vw_device_hold_streams(device, true), VW_OK);
    std::vector<Kept> kept;
    for (int i = 0; i < 3; i++)
        kept.push_back(save(made(adapter, 4 * part, i + 1)));
    assert_true(kept[0].number > 0);
    vw_device_calls before{}, after{};
    assert_int_equal(vw_device_get_calls(device, &before), VW_OK);
    void *crowd = adapter.raw_alloc(28 * part);
    assert_int_equal(vw_device_get_calls(device, &after), VW_OK);
    assert_int_equal(after.count[VW_DEVICE_CALL_SYNCHRONIZE],
                     before.count[VW_DEVICE_CALL_SYNCHRONIZE]);
    vw_device_event user = 0;
    const vw_device_table &table = *device->table;
    assert_int_equal(table.event_create(device->context, &user), VW_OK);
    assert_int_equal(table.event_record(device->context, user, 0), VW_OK);
    assert_int_equal(vw_device_complete(device, 0), VW_OK);
    assert_int_equal(table.event_query(device->context, user), VW_ERR_NOT_READY);
    assert_int_equal(vw_device_hold_streams(device, false), VW_OK);
    adapter.raw_delete(crowd);
    for (int i = 3; i-- > 0;)
        assert_true(restored(adapter, kept[static_cast<size_t>(i)])->is_filled_with(i + 1));
}

static void without_host_memory_a_tensor_stays_and_may_be_saved_again(void **)
{
    constexpr int most_requests = 24; // more than are made
    for (int nth = 1; nth <= most_requests; nth++) {
        Adapter &adapter = streaming_adapter();
        train(adapter, 12);
        end_step();
        auto tensor = made(adapter, 4 * part, 5);
        news_left = nth;
        const long long first = vramwise_torch_saved_keep(tensor->address());
        news_left = 0;
        const long long second = vramwise_torch_saved_keep(tensor->address());
        assert_true(first <= 0 || first == second);
        assert_true(tensor->is_filled_with(5));
        if (second > 0)
            vramwise_torch_saved_release(0, static_cast<unsigned long long>(second));
        tensor.reset();
        train(adapter, 12);
    }
}

// Several tensors share a storage: it leaves once.
static void tensors_with_one_storage_are_one_item(void **)
{
    Adapter &adapter = streaming_adapter();
    train(adapter, 12);
    end_step();
    auto tensor = made(adapter, 4 * part, 5);
    const long long first = vramwise_torch_saved_keep(tensor->address());
    const long long second = vramwise_torch_saved_keep(tensor->address());
    assert_true(first > 0);
    assert_int_equal(first, second);
    tensor->impl.version.bump(); // written to: another value
    assert_int_equal(vramwise_torch_saved_keep(tensor->address()), 0);
    vramwise_torch_saved_release(0, static_cast<unsigned long long>(first));
    tensor.reset();
    end_step();
}

// Its id ends as soon as the copy is complete: nobody may get it any more.
static void what_was_released_while_it_leaves_is_not_taken_again(void **)
{
    Adapter &adapter = streaming_adapter();
    train(adapter, 12);
    end_step();
    vw_device *device = opened_device(0);
    assert_int_equal(vw_device_hold_streams(device, true), VW_OK); // the copy is under way
    auto tensor = made(adapter, 4 * part, 5);
    const long long number = vramwise_torch_saved_keep(tensor->address());
    assert_true(number > 0);
    vramwise_torch_saved_release(0, static_cast<unsigned long long>(number));
    assert_int_equal(vramwise_torch_saved_keep(tensor->address()), 0);
    assert_int_equal(vw_device_hold_streams(device, false), VW_OK);
    assert_true(vramwise_torch_saved_keep(tensor->address()) > number); // it is over
}

static void a_tensor_that_is_wanted_before_it_has_left_keeps_its_memory(void **)
{
    Adapter &adapter = streaming_adapter();
    train(adapter, 12);
    end_step();
    vw_device *device = opened_device(0);
    assert_int_equal(vw_device_hold_streams(device, true), VW_OK); // the copy is under way
    auto tensor = made(adapter, 4 * part, 5);
    const void *address = tensor->bytes();
    Kept kept = save(std::move(tensor));
    assert_true(kept.number > 0);
    auto back = restored(adapter, kept);
    assert_ptr_equal(back->bytes(), address);
    assert_true(back->is_filled_with(5));
    back.reset();
    auto next = made(adapter, 4 * part, 6); // elsewhere: the copy still reads that memory
    assert_ptr_not_equal(next->bytes(), address);
    next.reset();
    assert_int_equal(vw_device_hold_streams(device, false), VW_OK);
    vramwise_torch_saved_release(0, static_cast<unsigned long long>(kept.number));
    train(adapter, 12);
}

// To copy it frees nothing: the next step leaves it where it is.
static void what_others_hold_is_copied_once_and_then_stays(void **)
{
    Adapter &adapter = streaming_adapter();
    train(adapter, 12);
    end_step();
    auto buffer = made(adapter, 4 * part, 9);
    for (int step = 0; step < 3; step++) {
        const long long number = vramwise_torch_saved_keep(buffer->address());
        assert_int_equal(number > 0, step == 0);
        Kept kept;
        kept.number = number;
        train(adapter, 11);
        if (number > 0) {
            auto copy = restored(adapter, kept);
            assert_true(copy->is_filled_with(9));
            assert_ptr_not_equal(copy->bytes(), buffer->bytes());
            vramwise_torch_saved_release(0, static_cast<unsigned long long>(number));
        }
        end_step();
    }
    assert_true(buffer->is_filled_with(9));
}

// Python asks for memory between fetch() and fill(), and that request may begin to bring the very
// tensor back.
static void what_begins_to_return_while_it_is_fetched_is_given_back(void **)
{
    Adapter &adapter = streaming_adapter();
    for (int step = 0; step < 2; step++) {
        train(adapter, 12);
        end_step();
    }
    std::vector<Kept> kept;
    for (int i = 0; i < 12; i++)
        kept.push_back(save(made(adapter, 4 * part, i + 1)));
    std::vector<std::unique_ptr<Tensor>> used; // as long as they are held, nothing can return
    while (kept.back().number <= 0) {
        used.push_back(restored(adapter, kept.back()));
        kept.pop_back();
        adapter.raw_delete(adapter.raw_alloc(part));
    }
    const auto id = static_cast<unsigned long long>(kept.back().number);
    auto shell = empty();
    const long long wanted = vramwise_torch_saved_fetch(0, id, shell->address());
    assert_int_equal(wanted, 4 * part);
    used.clear(); // and so there is room
    shell = made(adapter, 4 * part, 0);
    assert_int_equal(vramwise_torch_saved_fill(0, id, shell->address()), 1);
    assert_true(shell->is_filled_with(static_cast<int>(kept.size())));
    shell.reset();
    for (const Kept &each : kept)
        if (each.number > 0)
            vramwise_torch_saved_release(0, static_cast<unsigned long long>(each.number));
    kept.clear();
    end_step();
    train(adapter, 2);
    assert_int_equal(adapter.getDeviceStats(0).allocated_bytes[0].current, 0);
}

static void a_tensor_that_was_written_to_is_refused(void **)
{
    Adapter &adapter = streaming_adapter();
    train(adapter, 12);
    end_step();
    auto tensor = made(adapter, 4 * part, 5);
    const long long number = vramwise_torch_saved_keep(tensor->address());
    assert_true(number > 0);
    tensor->impl.version.bump();
    auto shell = empty();
    const auto id = static_cast<unsigned long long>(number);
    assert_int_equal(vramwise_torch_saved_fetch(0, id, shell->address()), -1);
    vramwise_torch_saved_release(0, id);
    assert_int_equal(vramwise_torch_saved_fetch(0, id, shell->address()), -2);
    assert_int_equal(vramwise_torch_saved_fetch(0, 12345, shell->address()), -2);
}

// A graph that is dropped without a backward pass, while its copies are under way or done.
static void what_nobody_wants_any_more_gives_everything_back(void **)
{
    Adapter &adapter = streaming_adapter();
    train(adapter, 12);
    end_step();
    for (bool is_held : {true, false}) {
        vw_device *device = opened_device(0);
        assert_int_equal(vw_device_hold_streams(device, is_held), VW_OK);
        for (int i = 0; i < 2; i++) {
            Kept kept = save(made(adapter, 4 * part, 5));
            assert_true(kept.number > 0);
            vramwise_torch_saved_release(0, static_cast<unsigned long long>(kept.number));
        }
        assert_int_equal(vw_device_hold_streams(device, false), VW_OK);
    }
    end_step();
    train(adapter, 12);
    assert_int_equal(counts_of(adapter).away_bytes, 0);
    assert_int_equal(adapter.getDeviceStats(0).allocated_bytes[0].current, 0);
}

// Where host memory ends, tensors stay, and the old way serves. train() looks at every byte.
static void with_little_host_memory_steps_are_served_all_the_same(void **)
{
    Adapter &adapter = streaming_adapter(20 * part);
    for (int step = 0; step < 3; step++) {
        train(adapter, 12);
        end_step();
    }
    assert_true(vramwise_torch_saved_lacking(0) > 0);
    assert_true(counts_of(adapter).all_left_bytes < 3 * vramwise_torch_saved_lacking(0));
    assert_int_equal(adapter.getDeviceStats(0).allocated_bytes[0].current, 0);
}

// The items have other sizes, and there are more or fewer of them, than in the step before.
static void steps_that_change_are_served(void **)
{
    Adapter &adapter = streaming_adapter();
    const struct {
        int layers;
        size_t size_bytes;
    } steps[] = {{12, 4 * part}, {6, 8 * part}, {20, 2 * part}, {3, 2 * part}, {12, 4 * part}};
    for (const auto &step : steps) {
        train(adapter, step.layers, step.size_bytes);
        train(adapter, step.layers, step.size_bytes); // accumulated
        end_step();
    }
    assert_int_equal(adapter.getDeviceStats(0).allocated_bytes[0].current, 0);
    assert_int_equal(counts_of(adapter).away_bytes, 0);
}

static void small_and_foreign_tensors_are_left_alone(void **)
{
    Adapter &adapter = streaming_adapter();
    train(adapter, 12);
    end_step();
    auto small = made(adapter, part / 2, 5);
    assert_int_equal(vramwise_torch_saved_keep(small->address()), 0);
    std::vector<unsigned char> bytes(4 * part);
    Tensor foreign({bytes.data(), nullptr, [](void *) {}, {c10::DeviceType::CUDA, 0}}, 4 * part);
    assert_int_equal(vramwise_torch_saved_keep(foreign.address()), 0);
    adapter.beginAllocateToPool(0, {0, 1}, [](cudaStream_t) { return true; });
    auto captured = made(adapter, 4 * part, 5);
    assert_int_equal(vramwise_torch_saved_keep(captured->address()), 0); // a graph's
    adapter.endAllocateToPool(0, {0, 1});
    assert_int_equal(vramwise_torch_saved_keep(captured->address()), 0);
}

// What is launched or waited for would be lost with the capture, and the capture with it.
static void during_a_capture_nothing_is_copied_or_waited_for(void **)
{
    Adapter &adapter = streaming_adapter();
    train(adapter, 12);
    end_step();
    vw_device *device = opened_device(0);
    assert_int_equal(vw_device_hold_streams(device, true), VW_OK);
    Kept kept = save(made(adapter, 4 * part, 5)); // its copy is under way
    assert_true(kept.number > 0);
    vramwise_torch::DevicePools &pools = *adapter.opened_pools(0);
    const uint64_t asked = adapter.stream()->counts(pools).asked;
    adapter.beginAllocateToPool(0, {0, 1}, [](cudaStream_t) { return true; });
    adapter.stream()->note_request(pools, 64 * part); // would have room made
    assert_int_equal(adapter.stream()->counts(pools).asked, asked);
    adapter.endAllocateToPool(0, {0, 1});
    assert_int_equal(vw_device_hold_streams(device, false), VW_OK);
    auto tensor = restored(adapter, kept);
    assert_true(tensor->is_filled_with(5));
    vramwise_torch_saved_release(0, static_cast<unsigned long long>(kept.number));
}

// Of the calls that saving makes, each fails once: what could not leave stays.
static void when_a_device_call_fails_while_tensors_leave_no_byte_is_lost(void **)
{
    for (uint64_t nth = 1; nth <= 24; nth++) {
        Adapter &adapter = streaming_adapter();
        train(adapter, 12);
        end_step();
        std::vector<std::unique_ptr<Tensor>> tensors;
        for (int i = 0; i < 4; i++)
            tensors.push_back(made(adapter, 4 * part, i + 1));
        assert_int_equal(vw_device_fail_call(opened_device(0), nth, VW_ERR_DEVICE), VW_OK);
        std::vector<Kept> kept;
        for (auto &tensor : tensors)
            kept.push_back(save(std::move(tensor)));
        assert_int_equal(vw_device_fail_call(opened_device(0), 0, VW_OK), VW_OK);
        for (int i = 4; i-- > 0;) {
            Kept &one = kept[static_cast<size_t>(i)];
            assert_true(restored(adapter, one)->is_filled_with(i + 1));
            if (one.number > 0)
                vramwise_torch_saved_release(0, static_cast<unsigned long long>(one.number));
        }
        end_step();
        train(adapter, 12);
    }
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_everything_fits_nothing_leaves),
        cmocka_unit_test(what_does_not_fit_leaves_and_returns_with_its_bytes),
        cmocka_unit_test(nobody_has_to_ask_behind_the_last_that_leaves),
        cmocka_unit_test(a_step_that_goes_on_otherwise_is_seen_to_its_end_the_next_time),
        cmocka_unit_test(a_request_gets_memory_whose_copy_is_under_way),
        cmocka_unit_test(without_host_memory_a_tensor_stays_and_may_be_saved_again),
        cmocka_unit_test(tensors_with_one_storage_are_one_item),
        cmocka_unit_test(what_was_released_while_it_leaves_is_not_taken_again),
        cmocka_unit_test(a_tensor_that_is_wanted_before_it_has_left_keeps_its_memory),
        cmocka_unit_test(what_others_hold_is_copied_once_and_then_stays),
        cmocka_unit_test(what_begins_to_return_while_it_is_fetched_is_given_back),
        cmocka_unit_test(a_tensor_that_was_written_to_is_refused),
        cmocka_unit_test(what_nobody_wants_any_more_gives_everything_back),
        cmocka_unit_test(with_little_host_memory_steps_are_served_all_the_same),
        cmocka_unit_test(steps_that_change_are_served),
        cmocka_unit_test(small_and_foreign_tensors_are_left_alone),
        cmocka_unit_test(during_a_capture_nothing_is_copied_or_waited_for),
        cmocka_unit_test(when_a_device_call_fails_while_tensors_leave_no_byte_is_lost),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
