// test_state_stream.cpp - state that leaves the device beside the computation, on a device with
// real bytes. Python's part, which chooses and asks, is played by the test.
#include "adapter_fixture.h"
#include "adapters/torch/vramwise_torch.h"

#include <cstring>
#include <thread>
#include <utility>

// The device has 32 of it. Every byte is written and moved, so it is small.
constexpr size_t part = 1 * MiB;

// A tensor with its storage, and the object of Python's that holds it.
struct State {
    explicit State(c10::DataPtr data, size_t size_bytes = 8 * part)
        : storage(new c10::StorageImpl(size_bytes, std::move(data))), impl(storage)
    {
    }
    ~State()
    {
        end();
    }
    State(const State &) = delete;
    State &operator=(const State &) = delete;
    unsigned long long tensor()
    {
        return vramwise_torch::address_of(&impl);
    }
    unsigned long long object()
    {
        return vramwise_torch::address_of(&references);
    }
    unsigned char *bytes()
    {
        return static_cast<unsigned char *>(storage->data_ptr().get());
    }
    void fill(int value)
    {
        std::memset(bytes(), value, storage->nbytes());
    }
    bool is_filled_with(int value)
    {
        const unsigned char *first = bytes();
        return *first == value && std::memcmp(first, first + 1, storage->nbytes() - 1) == 0;
    }
    // As the last reference does.
    void end()
    {
        if (storage == nullptr)
            return;
        storage->uses = 0;
        {
            c10::DataPtr last = storage->set_data_ptr({nullptr, nullptr, [](void *) {}, place()});
        }
        c10::raw::weak_intrusive_ptr::decref(storage);
        storage = nullptr;
    }
    static c10::Device place()
    {
        return {c10::DeviceType::CUDA, 0};
    }
    c10::StorageImpl *storage;
    c10::TensorImpl impl;
    unsigned long long references = 2;
};

static unsigned long long move(State &state, int what)
{
    return vramwise_torch_stream_move(state.tensor(), state.object(), what);
}

// What Python's make_room() moves, and how often it was asked.
static std::vector<State *> movable;
static int asked, asked_ahead;

static int move_out(int device, unsigned long long size_bytes, int is_ahead)
{
    unsigned long long moved_bytes = 0;
    asked++;
    asked_ahead += is_ahead;
    for (bool is_new : {false, true}) { // copies under way first, then new ones
        if (is_new && is_ahead != 0)
            break;
        for (State *state : movable) {
            if (moved_bytes >= size_bytes)
                break;
            if (is_new)
                move(*state, VRAMWISE_TORCH_COPY_AT_ONCE);
            vramwise_torch_stream_wait(state->tensor(), state->object(), is_ahead);
            moved_bytes += move(*state, VRAMWISE_TORCH_BIND_OUT);
        }
    }
    return vramwise_torch_stream_release(device, is_ahead) != 0;
}

static bool has_python_lock;
static int has_lock()
{
    return has_python_lock ? 1 : 0;
}

// The time that steps are taken to need: by default so much that every copy is hidden.
static uint64_t clock_ns, step_ns;
static uint64_t passing_time()
{
    return clock_ns += step_ns;
}

static Adapter &streaming_adapter(uint64_t spill_bytes = 64 * part)
{
    movable.clear();
    asked = asked_ahead = 0;
    has_python_lock = true;
    Setup setup;
    setup.engine = "vramwise";
    setup.capacity_bytes = 32 * part;
    setup.kind = Kind::host;
    setup.safe_point = {[](void *) { return true; }, [](void *) {}, nullptr};
    setup.park_guard = {[](void *) { return true; }, [](void *) {}, nullptr, nullptr};
    setup.spill_bytes = spill_bytes;
    Adapter &adapter = new_adapter(setup);
    clock_ns = 0;
    step_ns = UINT64_C(3600) * 1000 * 1000 * 1000;
    adapter.stream()->set_clock(passing_time);
    State alone(adapter.allocate(part), part);
    assert_int_equal(
        vramwise_torch_stream_start(alone.tensor(), alone.object(), move_out, has_lock), 1);
    assert_int_equal(move(alone, VRAMWISE_TORCH_IS_ALONE), 1);
    return adapter;
}

// A copy that is due begins behind the next request, or when somebody waits for it.
static void finish_copy(Adapter &adapter, State &state)
{
    adapter.raw_delete(adapter.raw_alloc(part));
    vramwise_torch_stream_wait(state.tensor(), state.object(), 0);
}

// Python's part around the end of a step: all of it is state of the optimizer that stepped.
static void end_step(const std::vector<State *> &states)
{
    for (State *state : states)
        vramwise_torch_stream_add(state->tensor(), state->object());
    for (State *state : states)
        move(*state, VRAMWISE_TORCH_NOTE_STEP);
    unsigned long long wanted_bytes = vramwise_torch_stream_plan(0, 1);
    for (State *state : states) {
        if (wanted_bytes == 0)
            break;
        unsigned long long begun = move(*state, VRAMWISE_TORCH_COPY_OUT);
        wanted_bytes -= std::min(wanted_bytes, begun);
    }
    movable = states;
}

// True: it is on the device.
static bool begin_step(State &state)
{
    if (move(state, VRAMWISE_TORCH_FETCH) != 0)
        move(state, VRAMWISE_TORCH_BIND_IN);
    return vramwise_torch::installed_adapter()->advise(state.bytes(), VW_ADVISE_NORMAL) != 0;
}

// Forward and backward: blocks are asked for, and given back in the opposite order, with a small
// request after each.
static void pass(Adapter &adapter, size_t block_count)
{
    std::vector<void *> blocks;
    for (size_t i = 0; i < block_count; i++)
        blocks.push_back(std::memset(adapter.raw_alloc(4 * part), 77, 4 * part));
    while (!blocks.empty()) {
        adapter.raw_delete(blocks.back());
        blocks.pop_back();
        adapter.raw_delete(adapter.raw_alloc(part));
    }
}

static vw_paged_stats stats_of(Adapter &adapter)
{
    vw_paged_stats stats{};
    stats.struct_size = sizeof stats;
    assert_true(adapter.get_paged_stats(0, &stats));
    return stats;
}

static bool is_on_device(Adapter &adapter, const State &state)
{
    return adapter.advise(state.storage->data_ptr().get(), VW_ADVISE_NORMAL) != 0; // its block
}

static void where_everything_fits_nothing_moves(void **)
{
    Adapter &adapter = streaming_adapter();
    State state(adapter.allocate(8 * part));
    state.fill(1);
    const void *address = state.bytes();
    for (int step = 0; step < 3; step++) {
        pass(adapter, 5);
        assert_true(begin_step(state));
        end_step({&state});
    }
    assert_ptr_equal(state.bytes(), address);
    assert_int_equal(asked, 0);
}

static void a_step_that_does_not_fit_has_state_leave_and_return_with_its_bytes(void **)
{
    Adapter &adapter = streaming_adapter();
    State first(adapter.allocate(8 * part)), second(adapter.allocate(8 * part));
    first.fill(1);
    second.fill(2);
    end_step({&first, &second});
    for (int step = 0; step < 4; step++) {
        pass(adapter, 6); // 24 and 16 on a device of 32
        assert_true(asked > step);
        assert_true(begin_step(first) && begin_step(second));
        assert_true(is_on_device(adapter, first) && is_on_device(adapter, second));
        assert_true(first.is_filled_with(1 + step) && second.is_filled_with(2 + step));
        first.fill(2 + step); // as the optimizer's kernels do, which count no version
        second.fill(3 + step);
        end_step({&first, &second});
    }
    assert_int_equal(stats_of(adapter).spills, 0); // nothing had to go the old way
}

static void whoever_looks_meanwhile_finds_the_bytes(void **)
{
    Adapter &adapter = streaming_adapter();
    State state(adapter.allocate(8 * part));
    state.fill(1);
    end_step({&state});
    void *crowd = adapter.raw_alloc(28 * part);
    assert_false(is_on_device(adapter, state));
    assert_true(state.is_filled_with(1));
    state.fill(9); // who writes is counted
    state.impl.version.bump();
    adapter.raw_delete(crowd);
    assert_true(begin_step(state));
    assert_true(is_on_device(adapter, state) && state.is_filled_with(9));
}

// The schedule is known after one such step: from the next on copies are made beside it.
static void copies_go_ahead_of_need_and_nobody_has_to_want_them(void **)
{
    Adapter &adapter = streaming_adapter();
    State state(adapter.allocate(8 * part));
    state.fill(1);
    end_step({&state});
    pass(adapter, 7);
    assert_true(begin_step(state));
    const void *address = state.bytes();
    vw_device *device = opened_device(0);
    assert_int_equal(vw_device_hold_streams(device, true), VW_OK); // the copy is under way
    end_step({&state});
    assert_int_equal(move(state, VRAMWISE_TORCH_BIND_OUT), 0);
    assert_ptr_equal(state.bytes(), address);
    assert_int_equal(vw_device_hold_streams(device, false), VW_OK);
    pass(adapter, 2); // a small batch
    assert_true(begin_step(state));
    assert_ptr_equal(state.bytes(), address); // it never left
    assert_true(state.is_filled_with(1));
}

// Chunk by chunk, in a thread, once a request has come.
static void what_is_due_is_copied_beside_the_program(void **)
{
    Adapter &adapter = streaming_adapter(128 * part);
    State state(adapter.allocate(20 * part), 20 * part); // more than a chunk
    state.fill(3);
    end_step({&state});
    std::thread pump(vramwise_torch_stream_pump);
    assert_int_equal(move(state, VRAMWISE_TORCH_COPY_OUT), 20 * part);
    adapter.raw_delete(adapter.raw_alloc(part));
    while (move(state, VRAMWISE_TORCH_BIND_OUT) == 0)
        std::this_thread::yield();
    vramwise_torch_stream_release(0, 0);
    vramwise_torch_stream_stop();
    pump.join();
    assert_false(is_on_device(adapter, state));
    assert_true(state.is_filled_with(3));
}

// A step's forward pass is queued long before the GPU comes to it.
static void a_copy_waits_for_its_step_and_for_nothing_later(void **)
{
    Adapter &adapter = streaming_adapter();
    State state(adapter.allocate(8 * part));
    state.fill(1);
    end_step({&state});
    pass(adapter, 7); // what the schedule is made of
    assert_true(begin_step(state));
    vw_device *device = opened_device(0);
    assert_int_equal(vw_device_hold_streams(device, true), VW_OK);
    const vw_device_event step = work_on(device, 0), beside = work_on(device, 9);
    end_step({&state});
    const vw_device_event later = work_on(device, 0);
    finish_copy(adapter, state);
    assert_true(is_over(device, step) && is_over(device, beside));
    assert_false(is_over(device, later));
    assert_int_equal(move(state, VRAMWISE_TORCH_BIND_OUT), 8 * part);
    assert_int_equal(vw_device_hold_streams(device, false), VW_OK);
    vramwise_torch_stream_release(0, 0);
    assert_true(state.is_filled_with(1));
}

static void a_copy_of_what_was_written_since_the_step_waits_for_the_write(void **)
{
    Adapter &adapter = streaming_adapter();
    State state(adapter.allocate(8 * part));
    state.fill(1);
    end_step({&state});
    pass(adapter, 7);
    assert_true(begin_step(state));
    vw_device *device = opened_device(0);
    assert_int_equal(vw_device_hold_streams(device, true), VW_OK);
    end_step({&state});
    const vw_device_event write = work_on(device, 9); // on a stream of its own
    state.impl.version.bump();
    finish_copy(adapter, state);
    assert_true(is_over(device, write));
    assert_int_equal(move(state, VRAMWISE_TORCH_BIND_OUT), 8 * part);
    assert_int_equal(vw_device_hold_streams(device, false), VW_OK);
    vramwise_torch_stream_release(0, 0);
}

// Whoever reads the state may have queued it on any stream.
static void its_memory_is_used_again_behind_all_that_is_queued_and_nobody_waits(void **)
{
    Adapter &adapter = streaming_adapter();
    State state(adapter.allocate(8 * part));
    end_step({&state});
    assert_int_equal(move(state, VRAMWISE_TORCH_COPY_OUT), 8 * part);
    finish_copy(adapter, state);
    vw_device *device = opened_device(0);
    assert_int_equal(vw_device_hold_streams(device, true), VW_OK);
    const vw_device_event reader = work_on(device, 9);
    assert_int_equal(move(state, VRAMWISE_TORCH_BIND_OUT), 8 * part);
    vw_device_calls before{}, after{};
    assert_int_equal(vw_device_get_calls(device, &before), VW_OK);
    assert_int_equal(vramwise_torch_stream_release(0, 0), 8 * part);
    assert_int_equal(adapter.getDeviceStats(0).active_bytes[0].current, 0); // it does not wait
    assert_int_equal(vw_device_get_calls(device, &after), VW_OK);
    assert_int_equal(after.count[VW_DEVICE_CALL_SYNCHRONIZE],
                     before.count[VW_DEVICE_CALL_SYNCHRONIZE]);
    const vw_device_event user = work_on(device, 0);
    assert_int_equal(vw_device_complete(device, 0), VW_OK);
    assert_false(is_over(device, user));
    assert_int_equal(vw_device_complete(device, 9), VW_OK);
    assert_true(is_over(device, reader) && is_over(device, user));
    assert_int_equal(vw_device_hold_streams(device, false), VW_OK);
}

// Two of them, and a step that lacks room for one is known. The copies out are complete.
static void know_a_step(Adapter &adapter, State &first, State &second)
{
    first.fill(1);
    second.fill(2);
    end_step({&first, &second});
    pass(adapter, 6); // 24 and 16 on a device of 32
    assert_true(begin_step(first) && begin_step(second));
    end_step({&first, &second});
    for (State *state : {&first, &second})
        vramwise_torch_stream_wait(state->tensor(), state->object(), 0);
    asked = asked_ahead = 0;
}

// The same, and the first has left ahead of need, while work is queued everywhere. A block that is
// live.
static void *have_the_first_leave(Adapter &adapter, State &first, State &second)
{
    know_a_step(adapter, first, second);
    adapter.raw_delete(adapter.raw_alloc(part));
    assert_int_equal(vw_device_hold_streams(opened_device(0), true), VW_OK);
    void *block = adapter.raw_alloc(4 * part);
    assert_true(!is_on_device(adapter, first) && is_on_device(adapter, second));
    return block;
}

static int64_t live_bytes(Adapter &adapter)
{
    return adapter.getDeviceStats(0).allocated_bytes[0].current;
}

// Given up in pieces, at the last moment, memory would have to be put together for what needs it.
static void state_leaves_part_by_part_before_anything_lacks(void **)
{
    Adapter &adapter = streaming_adapter();
    State first(adapter.allocate(8 * part)), second(adapter.allocate(8 * part));
    know_a_step(adapter, first, second);
    adapter.raw_delete(adapter.raw_alloc(part));
    assert_int_equal(asked, 0);                // the step has just begun
    void *block = adapter.raw_alloc(4 * part); // 4 and 16 on a device of 32
    assert_int_equal(asked_ahead, 1);
    assert_true(!is_on_device(adapter, first) && is_on_device(adapter, second));
    adapter.raw_delete(adapter.raw_alloc(part)); // nobody uses its memory any more: it is free
    assert_int_equal(live_bytes(adapter), 12 * part);
    adapter.raw_delete(block);
    pass(adapter, 5);
    assert_int_equal(asked, asked_ahead); // nothing lacked
    assert_true(begin_step(first) && begin_step(second));
    assert_true(first.is_filled_with(1) && second.is_filled_with(2));
}

// Others may still read it, and what waits for them is what needs the memory, not the program.
static void what_left_ahead_is_free_when_all_is_over_that_was_queued_or_somebody_needs_it(void **)
{
    for (bool is_needed : {false, true}) {
        Adapter &adapter = streaming_adapter();
        State first(adapter.allocate(8 * part)), second(adapter.allocate(8 * part));
        know_a_step(adapter, first, second);
        vw_device *device = opened_device(0);
        adapter.raw_delete(adapter.raw_alloc(part));
        assert_int_equal(vw_device_hold_streams(device, true), VW_OK);
        const vw_device_event reader = work_on(device, 9);
        void *block = adapter.raw_alloc(4 * part);
        assert_int_equal(asked_ahead, 1);
        assert_false(is_on_device(adapter, first));
        const vw_device_event user = work_on(device, 0);
        assert_int_equal(vw_device_complete(device, 0), VW_OK);
        assert_true(is_over(device, user)); // it does not wait for the reader
        adapter.raw_delete(adapter.raw_alloc(part));
        assert_int_equal(live_bytes(adapter), 20 * part);
        if (is_needed) {
            void *crowd = adapter.raw_alloc(18 * part);
            assert_int_equal(live_bytes(adapter), 30 * part);
            const vw_device_event later = work_on(device, 0);
            assert_int_equal(vw_device_complete(device, 0), VW_OK);
            assert_false(is_over(device, later) || is_over(device, reader));
            adapter.raw_delete(crowd);
        } else {
            assert_int_equal(vw_device_complete(device, 9), VW_OK);
            adapter.raw_delete(adapter.raw_alloc(part));
            assert_int_equal(live_bytes(adapter), 12 * part);
        }
        assert_int_equal(vw_device_hold_streams(device, false), VW_OK);
        adapter.raw_delete(block);
        assert_true(first.is_filled_with(1) && second.is_filled_with(2));
    }
}

// What was queued in between may still read it.
static void what_is_bound_out_later_is_not_freed_with_what_left_before(void **)
{
    Adapter &adapter = streaming_adapter();
    State first(adapter.allocate(8 * part)), second(adapter.allocate(8 * part));
    void *block = have_the_first_leave(adapter, first, second);
    vw_device *device = opened_device(0);
    for (vw_stream stream : {vw_stream{0}, vw_stream{9}})
        assert_int_equal(vw_device_complete(device, stream), VW_OK);
    const vw_device_event reader = work_on(device, 9);
    assert_int_equal(move(second, VRAMWISE_TORCH_BIND_OUT), 8 * part);
    adapter.raw_delete(adapter.raw_alloc(part));
    assert_int_equal(live_bytes(adapter), 12 * part); // the first is free
    vramwise_torch_stream_release(0, 1);
    adapter.raw_delete(adapter.raw_alloc(part));
    assert_int_equal(live_bytes(adapter), 12 * part);
    assert_false(is_over(device, reader));
    assert_int_equal(vw_device_hold_streams(device, false), VW_OK);
    adapter.raw_delete(adapter.raw_alloc(part));
    assert_int_equal(live_bytes(adapter), 4 * part);
    adapter.raw_delete(block);
}

// Its block is live until it is freed, and it is away: the next schedule counts it once.
static void what_left_ahead_is_counted_once(void **)
{
    Adapter &adapter = streaming_adapter();
    State first(adapter.allocate(8 * part)), second(adapter.allocate(8 * part));
    void *block = have_the_first_leave(adapter, first, second);
    vw_device *device = opened_device(0);
    adapter.raw_delete(
        adapter.raw_alloc(8 * part)); // 28 at most, on a device of 32 less its margin
    adapter.raw_delete(block);
    assert_int_equal(vw_device_hold_streams(device, false), VW_OK);
    assert_true(begin_step(first) && begin_step(second));
    move(first, VRAMWISE_TORCH_NOTE_STEP);
    move(second, VRAMWISE_TORCH_NOTE_STEP);
    assert_int_equal(vramwise_torch_stream_plan(0, 1), 0);
}

static void at_the_end_nothing_is_kept_that_left_ahead(void **)
{
    Adapter &adapter = streaming_adapter();
    State first(adapter.allocate(8 * part)), second(adapter.allocate(8 * part));
    know_a_step(adapter, first, second);
    vw_device *device = opened_device(0);
    adapter.raw_delete(adapter.raw_alloc(part));
    assert_int_equal(vw_device_hold_streams(device, true), VW_OK);
    adapter.raw_delete(adapter.raw_alloc(4 * part));
    assert_int_equal(live_bytes(adapter), 16 * part);
    vramwise_torch_stream_stop();
    assert_int_equal(live_bytes(adapter), 8 * part);
    assert_int_equal(vw_device_hold_streams(device, false), VW_OK);
}

static void ahead_of_need_nobody_waits_for_a_gpu_that_has_nothing_to_do(void **)
{
    Adapter &adapter = streaming_adapter();
    State state(adapter.allocate(8 * part));
    state.fill(4);
    end_step({&state});
    vw_device *device = opened_device(0);
    assert_int_equal(vw_device_hold_streams(device, true), VW_OK); // the copy is under way
    assert_int_equal(move(state, VRAMWISE_TORCH_COPY_AT_ONCE), 8 * part);
    vw_device_calls before{}, after{};
    assert_int_equal(vw_device_get_calls(device, &before), VW_OK);
    vramwise_torch_stream_wait(state.tensor(), state.object(), 1);
    assert_int_equal(vw_device_get_calls(device, &after), VW_OK);
    assert_true(after.count[VW_DEVICE_CALL_EVENT_QUERY] <=
                before.count[VW_DEVICE_CALL_EVENT_QUERY] + 2);
    assert_int_equal(move(state, VRAMWISE_TORCH_BIND_OUT), 0);
    assert_int_equal(vw_device_hold_streams(device, false), VW_OK);
    assert_int_equal(move(state, VRAMWISE_TORCH_BIND_OUT), 8 * part);
    vramwise_torch_stream_release(0, 1);
    assert_true(state.is_filled_with(4));
}

static void ahead_of_need_nobody_minds_that_python_is_busy(void **)
{
    Adapter &adapter = streaming_adapter();
    State first(adapter.allocate(8 * part)), second(adapter.allocate(8 * part));
    know_a_step(adapter, first, second);
    has_python_lock = false; // and nobody answers
    adapter.raw_delete(adapter.raw_alloc(part));
    adapter.raw_delete(adapter.raw_alloc(4 * part));
    assert_true(is_on_device(adapter, first) && is_on_device(adapter, second));
    has_python_lock = true;
    adapter.raw_delete(adapter.raw_alloc(4 * part));
    assert_int_equal(asked_ahead, 1);
    assert_false(is_on_device(adapter, first)); // all goes on
}

static void a_write_while_it_leaves_keeps_it_on_the_device(void **)
{
    Adapter &adapter = streaming_adapter();
    State state(adapter.allocate(8 * part));
    state.fill(1);
    end_step({&state});
    assert_int_equal(move(state, VRAMWISE_TORCH_COPY_OUT), 8 * part);
    finish_copy(adapter, state);
    state.fill(2);
    state.impl.version.bump();
    assert_int_equal(move(state, VRAMWISE_TORCH_BIND_OUT), 0);
    assert_true(is_on_device(adapter, state) && state.is_filled_with(2));
    void *crowd = adapter.raw_alloc(28 * part); // with a new copy
    assert_false(is_on_device(adapter, state));
    assert_true(state.is_filled_with(2));
    adapter.raw_delete(crowd);
}

static void what_others_hold_stays_where_it_is(void **)
{
    Adapter &adapter = streaming_adapter();
    State state(adapter.allocate(8 * part));
    state.fill(1);
    end_step({&state});
    auto is_bound = [&](bool is_out) {
        if (is_out)
            return move(state, VRAMWISE_TORCH_BIND_OUT) != 0;
        return begin_step(state);
    };
    assert_int_equal(move(state, VRAMWISE_TORCH_COPY_OUT), 8 * part);
    assert_int_equal(move(state, VRAMWISE_TORCH_BIND_OUT), 0); // not yet
    finish_copy(adapter, state);
    for (bool is_out : {true, false}) {
        state.references++; // a variable
        assert_false(is_bound(is_out));
        state.references--;
        state.impl.uses++; // a graph of autograd's
        assert_false(is_bound(is_out));
        state.impl.uses--;
        state.storage->uses++; // a view
        assert_false(is_bound(is_out));
        state.storage->uses--;
        assert_true(is_bound(is_out));
        vramwise_torch_stream_release(0, 0);
        assert_true(state.is_filled_with(1));
    }
    assert_true(is_on_device(adapter, state));
}

// A step that is left out (GradScaler), and the next forward pass wants the room.
static void a_return_gives_way_to_whoever_wants_the_room(void **)
{
    Adapter &adapter = streaming_adapter();
    State state(adapter.allocate(8 * part));
    state.fill(1);
    end_step({&state});
    pass(adapter, 7);
    assert_true(begin_step(state));
    end_step({&state});
    pass(adapter, 7); // it left, and has come back behind the backward pass
    assert_false(is_on_device(adapter, state));
    const int64_t live_bytes = adapter.getDeviceStats(0).allocated_bytes[0].current;
    assert_true(live_bytes >= static_cast<int64_t>(8 * part));
    pass(adapter, 7); // no step in between
    assert_int_equal(stats_of(adapter).spills, 0);
    assert_true(state.is_filled_with(1));
    assert_true(begin_step(state));
    assert_true(is_on_device(adapter, state) && state.is_filled_with(1));
}

// A write between the return and the step: what came back is copied again.
static void a_write_while_it_returns_is_not_lost(void **)
{
    Adapter &adapter = streaming_adapter();
    State state(adapter.allocate(8 * part));
    state.fill(1);
    end_step({&state});
    pass(adapter, 7);
    assert_true(begin_step(state));
    end_step({&state});
    pass(adapter, 7);
    assert_false(is_on_device(adapter, state));
    state.fill(5);
    state.impl.version.bump();
    assert_true(begin_step(state));
    assert_true(is_on_device(adapter, state) && state.is_filled_with(5));
}

static void without_room_a_step_finds_it_on_the_host_and_its_writes_stay(void **)
{
    Adapter &adapter = streaming_adapter();
    State state(adapter.allocate(8 * part));
    state.fill(1);
    end_step({&state});
    void *crowd = adapter.raw_alloc(28 * part);
    assert_false(begin_step(state));
    assert_false(is_on_device(adapter, state));
    state.fill(2);
    end_step({&state});
    assert_true(state.is_filled_with(2));
    adapter.raw_delete(crowd);
    assert_true(begin_step(state));
    assert_true(is_on_device(adapter, state) && state.is_filled_with(2));
}

// To copy a part, where a GiB is taken to need 22 ms.
static constexpr uint64_t part_ns = 22 * 1000 * 1000 / 1024;

// How many of the states each of so many steps finds on the host. All of them have the bytes of the
// step before, and get new ones.
static std::vector<int> found_on_host(Adapter &adapter, const std::vector<State *> &states,
                                      int step_count)
{
    std::vector<int> found;
    for (int i = 0; i < step_count; i++) {
        pass(adapter, 6); // 24 and 16 on a device of 32
        found.push_back(0);
        for (State *state : states)
            found.back() += begin_step(*state) ? 0 : 1;
        for (State *state : states) {
            assert_true(state->is_filled_with(i));
            state->fill(i + 1);
        }
        end_step(states);
    }
    return found;
}

// Two of four states leave. In three steps both stay: the first brings them there, and the others
// take so long. From then on as much takes turns as the computation hides.
static void what_the_passes_do_not_hide_stays_on_the_host(void **)
{
    const std::vector<int> none(12, 0), both{0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2};
    const std::vector<int> one{0, 0, 0, 2, 2, 2, 1, 1, 1, 1, 1, 1};
    // A step of these passes and of state on the host: ten parts, by the schedule.
    const auto step_with = [](uint64_t hidden_parts) {
        return (2 * hidden_parts + 1) * part_ns + part_ns * 10 * 115 / 100;
    };
    const std::pair<uint64_t, const std::vector<int> &> cases[] = {
        {step_with(0), both}, {step_with(6), one}, {step_with(30), none}};
    for (const auto &[step, expected] : cases) {
        Adapter &adapter = streaming_adapter();
        State a(adapter.allocate(4 * part), 4 * part), b(adapter.allocate(4 * part), 4 * part);
        State c(adapter.allocate(4 * part), 4 * part), d(adapter.allocate(4 * part), 4 * part);
        const std::vector<State *> states{&a, &b, &c, &d};
        for (State *state : states)
            state->fill(0);
        end_step(states);
        step_ns = step;
        assert_true(found_on_host(adapter, states, 12) == expected);
    }
}

// What stays was out when the step began, and hides nobody else's turn: the others leave in equal
// parts from then on, long before anything lacks.
static void parts_leave_evenly_beside_what_stays(void **)
{
    Adapter &adapter = streaming_adapter();
    State a(adapter.allocate(4 * part), 4 * part), b(adapter.allocate(4 * part), 4 * part);
    State c(adapter.allocate(4 * part), 4 * part), d(adapter.allocate(4 * part), 4 * part);
    const std::vector<State *> states{&a, &b, &c, &d};
    for (State *state : states)
        state->fill(0);
    end_step(states);
    step_ns = 13 * part_ns + part_ns * 10 * 115 / 100; // hides six parts, as above
    size_t first = 0; // request before which some of the rest leaves
    int on_host = 0;
    for (int step = 0; step < 9; step++) {
        const int asked_before = asked_ahead;
        std::vector<void *> blocks;
        first = 0;
        while (blocks.size() < 24) { // of which 16 fit
            blocks.push_back(adapter.raw_alloc(part));
            if (first == 0 && asked_ahead != asked_before)
                first = blocks.size();
        }
        while (!blocks.empty()) {
            adapter.raw_delete(blocks.back());
            blocks.pop_back();
            adapter.raw_delete(adapter.raw_alloc(part));
        }
        on_host = 0;
        for (State *state : states)
            on_host += begin_step(*state) ? 0 : 1;
        end_step(states);
    }
    assert_int_equal(on_host, 1);
    assert_in_range(first, 1, 16 / 3);
}

// A tensor without memory of its own.
struct Shell {
    c10::StorageImpl storage{0, c10::DataPtr(nullptr, State::place())};
    c10::TensorImpl impl{&storage};
    unsigned long long tensor()
    {
        return vramwise_torch::address_of(&impl);
    }
    void *block()
    {
        return storage.data_ptr().get();
    }
    ~Shell()
    {
        storage.set_data_ptr(c10::DataPtr(nullptr, State::place()));
    }
};

static unsigned long long stage(State &state, unsigned long long kept_bytes = 0)
{
    const unsigned long long tensor = state.tensor();
    unsigned long long answer = 77;
    vramwise_torch_stream_stage(&tensor, 1, kept_bytes, &answer);
    return answer;
}

// A step finds the state on the host, since its memory is taken; then there is room for a block.
static void begin_step_on_host(Adapter &adapter, State &state)
{
    state.fill(1);
    end_step({&state});
    void *crowd = adapter.raw_alloc(28 * part);
    assert_false(begin_step(state));
    adapter.raw_delete(crowd);
    assert_int_equal(vramwise_torch_stream_away(0), 8 * part);
}

static void a_step_can_use_what_is_on_the_host_in_blocks_of_the_device(void **)
{
    Adapter &adapter = streaming_adapter();
    State state(adapter.allocate(8 * part));
    begin_step_on_host(adapter, state);
    const void *on_host = state.bytes();
    const int64_t before = live_bytes(adapter);
    for (int value = 1; value < 4; value++) {
        Shell shell;
        assert_int_equal(stage(state), 8 * part);
        assert_int_equal(stage(state), 0); // it is
        assert_int_equal(vramwise_torch_stream_use_staged(state.tensor(), shell.tensor()), 1);
        assert_true(adapter.advise(shell.block(), VW_ADVISE_NORMAL) != 0);
        assert_int_equal(live_bytes(adapter), before + static_cast<int64_t>(8 * part));
        const auto *bytes = static_cast<const unsigned char *>(shell.block());
        assert_true(bytes[0] == value && std::memcmp(bytes, bytes + 1, 8 * part - 1) == 0);
        std::memset(shell.block(), value + 1, 8 * part); // as the optimizer's kernels do
        assert_int_equal(vramwise_torch_stream_unstage(state.tensor(), shell.tensor()), 1);
        assert_null(shell.block());
        assert_int_equal(live_bytes(adapter), before);
        assert_ptr_equal(state.bytes(), on_host);
        vw_device *device = opened_device(0);
        assert_int_equal(device->table->synchronize(device->context), VW_OK);
        assert_true(state.is_filled_with(value + 1));
    }
    end_step({&state});
    assert_true(begin_step(state)); // and the next finds it on the device
    assert_true(is_on_device(adapter, state) && state.is_filled_with(4));
}

// A parameter may be in an optimizer's list twice: its state is in two parts, and the second one is
// staged before the first one has ended.
static void what_is_lent_is_lent_once(void **)
{
    Adapter &adapter = streaming_adapter();
    State state(adapter.allocate(8 * part));
    begin_step_on_host(adapter, state);
    Shell first, second;
    assert_int_equal(stage(state), 8 * part);
    assert_int_equal(vramwise_torch_stream_use_staged(state.tensor(), first.tensor()), 1);
    assert_int_equal(stage(state), 0);
    assert_int_equal(move(state, VRAMWISE_TORCH_FETCH), 0); // a step within the step
    assert_int_equal(move(state, VRAMWISE_TORCH_BIND_IN), 0);
    assert_int_equal(vramwise_torch_stream_use_staged(state.tensor(), second.tensor()), 0);
    assert_int_equal(vramwise_torch_stream_unstage(state.tensor(), second.tensor()), 0);
    assert_int_equal(vramwise_torch_stream_away(0), 8 * part);
    std::memset(first.block(), 2, 8 * part);
    assert_int_equal(vramwise_torch_stream_unstage(state.tensor(), first.tensor()), 1);
    vw_device *device = opened_device(0);
    assert_int_equal(device->table->synchronize(device->context), VW_OK);
    assert_true(state.is_filled_with(2)); // which the second part works on
    assert_int_equal(stage(state), 8 * part);
}

// Nobody ended the loan of a step that failed: whoever does so later has nothing to copy back.
static void a_loan_ends_with_the_next_step_that_succeeds(void **)
{
    Adapter &adapter = streaming_adapter();
    State state(adapter.allocate(8 * part));
    begin_step_on_host(adapter, state);
    Shell lost, next;
    assert_int_equal(stage(state), 8 * part);
    assert_int_equal(vramwise_torch_stream_use_staged(state.tensor(), lost.tensor()), 1);
    assert_false(begin_step(state)); // the step again, on the host
    assert_int_equal(stage(state), 0);
    state.fill(2);
    end_step({&state});
    assert_int_equal(vramwise_torch_stream_unstage(state.tensor(), lost.tensor()), 0);
    void *crowd = adapter.raw_alloc(20 * part);
    assert_false(begin_step(state));
    adapter.raw_delete(crowd);
    assert_int_equal(stage(state), 8 * part);
    assert_int_equal(vramwise_torch_stream_use_staged(state.tensor(), next.tensor()), 1);
    assert_int_equal(vramwise_torch_stream_unstage(state.tensor(), lost.tensor()), 0);
    std::memset(next.block(), 3, 8 * part);
    assert_int_equal(vramwise_torch_stream_unstage(state.tensor(), next.tensor()), 1);
    vw_device *device = opened_device(0);
    assert_int_equal(device->table->synchronize(device->context), VW_OK);
    assert_true(state.is_filled_with(3));
}

// The stream of the step waits for the copy, and the copy for what is queued there: the block may
// be in use.
static void a_block_is_filled_behind_its_stream_and_used_behind_the_copy(void **)
{
    Adapter &adapter = streaming_adapter();
    State state(adapter.allocate(8 * part));
    begin_step_on_host(adapter, state);
    vw_device *device = opened_device(0);
    Shell shell;
    assert_int_equal(vw_device_hold_streams(device, true), VW_OK);
    const vw_device_event before = work_on(device, 0);
    assert_int_equal(stage(state), 8 * part);
    assert_int_equal(vramwise_torch_stream_use_staged(state.tensor(), shell.tensor()), 1);
    const vw_device_event behind = work_on(device, 0);
    assert_int_equal(vw_device_complete(device, 0), VW_OK);
    assert_true(is_over(device, before) && !is_over(device, behind));
    const vw_device_event other = work_on(device, 0);
    vramwise_torch_stream_wait(state.tensor(), state.object(), 0); // for the copy
    assert_int_equal(vw_device_complete(device, 0), VW_OK);
    assert_true(is_over(device, behind) && is_over(device, other));
    assert_int_equal(vw_device_hold_streams(device, false), VW_OK);
}

static void a_copy_into_a_block_waits_for_the_work_that_is_queued_there(void **)
{
    Adapter &adapter = streaming_adapter();
    State state(adapter.allocate(8 * part));
    begin_step_on_host(adapter, state);
    vw_device *device = opened_device(0);
    assert_int_equal(vw_device_hold_streams(device, true), VW_OK);
    const vw_device_event before = work_on(device, 0);
    assert_int_equal(stage(state), 8 * part);
    assert_false(is_over(device, before));
    vramwise_torch_stream_wait(state.tensor(), state.object(), 0); // for the copy
    assert_true(is_over(device, before));
    assert_int_equal(vw_device_hold_streams(device, false), VW_OK);
}

// Whoever reads it on the stream of the step reads what the step made.
static void what_a_step_made_is_on_the_host_for_all_that_follows_on_its_stream(void **)
{
    for (bool looks_at_stream : {false, true}) {
        Adapter &adapter = streaming_adapter();
        State state(adapter.allocate(8 * part));
        begin_step_on_host(adapter, state);
        vw_device *device = opened_device(0);
        Shell shell;
        assert_int_equal(stage(state), 8 * part);
        assert_int_equal(vramwise_torch_stream_use_staged(state.tensor(), shell.tensor()), 1);
        assert_int_equal(vw_device_hold_streams(device, true), VW_OK);
        const vw_device_event kernel = work_on(device, 0);
        assert_int_equal(vramwise_torch_stream_unstage(state.tensor(), shell.tensor()), 1);
        const vw_device_event reader = work_on(device, 0);
        if (looks_at_stream) {
            assert_int_equal(vw_device_complete(device, 0), VW_OK);
            assert_true(is_over(device, kernel) && !is_over(device, reader));
        } else {
            vramwise_torch_stream_wait(state.tensor(), state.object(), 0); // for the copy
            assert_true(is_over(device, kernel));
        }
        assert_int_equal(vw_device_hold_streams(device, false), VW_OK);
        assert_true(is_over(device, reader) && state.is_filled_with(1));
    }
}

// Else the time of a step would say little: the host runs ahead.
static void while_steps_are_timed_each_ends_with_the_gpu(void **)
{
    Adapter &adapter = streaming_adapter();
    State a(adapter.allocate(8 * part)), b(adapter.allocate(8 * part));
    a.fill(0);
    b.fill(0);
    end_step({&a, &b});
    step_ns = part_ns;
    assert_true(found_on_host(adapter, {&a, &b}, 3) == std::vector<int>({0, 0, 0}));
    vw_device *device = opened_device(0);
    for (bool is_timed : {true, true, true, false}) {
        pass(adapter, 6);
        begin_step(a);
        begin_step(b);
        assert_int_equal(vw_device_hold_streams(device, true), VW_OK);
        const vw_device_event work = work_on(device, 0);
        end_step({&a, &b});
        assert_int_equal(is_over(device, work), is_timed);
        assert_int_equal(vw_device_hold_streams(device, false), VW_OK);
    }
}

// An optimizer on a stream of its own has stepped before the one that ends steps: what is copied of
// its state has to wait for its stream, whether steps are timed or not.
static void a_timed_step_ends_with_no_stream_but_its_own(void **)
{
    Adapter &adapter = streaming_adapter();
    State a(adapter.allocate(4 * part), 4 * part), c(adapter.allocate(4 * part), 4 * part);
    stand_in_set_stream(9);
    State b(adapter.allocate(4 * part), 4 * part), d(adapter.allocate(4 * part), 4 * part);
    stand_in_set_stream(0);
    step_ns = 10 * part_ns;
    vw_device *device = opened_device(0);
    end_step({&a, &c});
    for (int step = 0; step < 4; step++) {
        const bool is_timed = step == 3;
        pass(adapter, is_timed ? 1 : 6); // the next needs no more
        for (State *state : {&a, &c, &b, &d})
            begin_step(*state);
        assert_int_equal(vw_device_hold_streams(device, is_timed), VW_OK);
        stand_in_set_stream(9);
        const vw_device_event write = work_on(device, 9);
        for (State *state : {&b, &d}) {
            vramwise_torch_stream_add(state->tensor(), state->object());
            move(*state, VRAMWISE_TORCH_NOTE_STEP);
        }
        const unsigned long long wanted_bytes = vramwise_torch_stream_plan(0, 0);
        if (wanted_bytes != 0)
            move(b, VRAMWISE_TORCH_COPY_OUT);
        stand_in_set_stream(0);
        end_step({&a, &c});
        if (is_timed) {
            assert_true(wanted_bytes != 0 && !is_over(device, write));
            finish_copy(adapter, b);
            assert_true(is_over(device, write));
            assert_int_equal(vw_device_hold_streams(device, false), VW_OK);
        }
        movable = {&a, &c, &b, &d};
    }
}

static void nothing_is_lent_out_of_turn(void **)
{
    Adapter &adapter = streaming_adapter();
    State state(adapter.allocate(8 * part)), small(adapter.allocate(part), part);
    Shell shell;
    assert_int_equal(vramwise_torch_stream_use_staged(state.tensor(), shell.tensor()), 0);
    assert_int_equal(vramwise_torch_stream_unstage(state.tensor(), shell.tensor()), 0);
    assert_int_equal(stage(state), 0); // not known
    end_step({&state});
    assert_int_equal(stage(state), 0); // on the device
    void *crowd = adapter.raw_alloc(28 * part);
    assert_false(is_on_device(adapter, state));
    adapter.raw_delete(crowd);
    assert_int_equal(stage(state), 0); // no step has begun
    crowd = adapter.raw_alloc(28 * part);
    assert_false(begin_step(state));
    assert_int_equal(stage(state), 0); // no room
    adapter.raw_delete(crowd);
    assert_int_equal(stage(state, 24 * part), 0); // not with so much to keep
    assert_int_equal(stage(small), 0);
    assert_int_equal(stage(state, 8 * part), 8 * part);
    end_step({&state}); // it was not used: the block is free again
    assert_int_equal(live_bytes(adapter), static_cast<int64_t>(part));
    assert_true(begin_step(state));
}

// Such as that of a graph, which is being captured.
static void nothing_returns_while_requests_go_to_a_private_pool(void **)
{
    Adapter &adapter = streaming_adapter();
    State state(adapter.allocate(8 * part));
    state.fill(1);
    end_step({&state});
    adapter.raw_delete(adapter.raw_alloc(28 * part));
    assert_false(is_on_device(adapter, state));
    adapter.beginAllocateToPool(0, {0, 1}, [](cudaStream_t) { return true; });
    assert_false(begin_step(state));
    adapter.endAllocateToPool(0, {0, 1});
    assert_true(begin_step(state) && state.is_filled_with(1));
}

static void while_the_process_is_parked_nothing_is_copied(void **)
{
    Adapter &adapter = streaming_adapter();
    State away(adapter.allocate(8 * part)), home(adapter.allocate(8 * part));
    away.fill(1);
    home.fill(2);
    end_step({&away, &home});
    movable = {&away};
    adapter.raw_delete(adapter.raw_alloc(20 * part));
    assert_false(is_on_device(adapter, away));
    const unsigned long long all[2] = {0, 0};
    unsigned long long numbers[5];
    char message[200];
    assert_int_equal(vramwise_torch_park(all, nullptr, 0, numbers, message, sizeof message), 0);
    assert_int_equal(move(away, VRAMWISE_TORCH_FETCH), 0);
    assert_int_equal(move(home, VRAMWISE_TORCH_COPY_OUT), 8 * part); // is due
    vramwise_torch_stream_wait(home.tensor(), home.object(), 0);
    assert_int_equal(move(home, VRAMWISE_TORCH_BIND_OUT), 0);
    assert_int_equal(move(home, VRAMWISE_TORCH_COPY_AT_ONCE), 0);
    assert_int_equal(vramwise_torch_wake(all, numbers, message, sizeof message), 0);
    finish_copy(adapter, home);
    assert_int_equal(move(home, VRAMWISE_TORCH_BIND_OUT), 8 * part);
    vramwise_torch_stream_release(0, 0);
    assert_true(begin_step(away) && away.is_filled_with(1) && home.is_filled_with(2));
}

// Its kernels write without a version. One that failed may have written anything.
static void nothing_leaves_during_a_step_or_after_one_that_failed(void **)
{
    Adapter &adapter = streaming_adapter();
    State state(adapter.allocate(8 * part));
    state.fill(1);
    end_step({&state});
    assert_int_equal(move(state, VRAMWISE_TORCH_COPY_OUT), 8 * part);
    finish_copy(adapter, state);
    assert_true(begin_step(state)); // the copy is worth nothing now
    assert_int_equal(move(state, VRAMWISE_TORCH_BIND_OUT), 0);
    assert_int_equal(move(state, VRAMWISE_TORCH_COPY_OUT), 0);
    assert_int_equal(move(state, VRAMWISE_TORCH_COPY_AT_ONCE), 0);
    state.fill(2);
    void *crowd = adapter.raw_alloc(28 * part); // a closure, or the pass after a failed step
    assert_true(is_on_device(adapter, state) && state.is_filled_with(2));
    assert_true(stats_of(adapter).spills > 0);
    adapter.raw_delete(crowd);
    assert_true(begin_step(state));
    end_step({&state});
    finish_copy(adapter, state);
    assert_int_equal(move(state, VRAMWISE_TORCH_BIND_OUT), 8 * part);
    vramwise_torch_stream_release(0, 0);
    assert_true(state.is_filled_with(2));
}

static void a_storage_that_ends_gives_its_memory_back_wherever_it_is(void **)
{
    Adapter &adapter = streaming_adapter(16 * part); // host memory for two
    for (int round = 0; round < 6; round++) {
        auto state = std::make_unique<State>(adapter.allocate(8 * part));
        state->fill(round);
        end_step({state.get()});
        if (round % 3 == 1) { // on its way
            assert_int_equal(move(*state, VRAMWISE_TORCH_COPY_OUT), 8 * part);
            if (round > 2)
                finish_copy(adapter, *state);
        } else if (round % 3 == 2) { // away
            void *crowd = adapter.raw_alloc(28 * part);
            assert_false(is_on_device(adapter, *state));
            adapter.raw_delete(crowd);
        }
        movable.clear();
        state.reset();
        assert_true(adapter.getDeviceStats(0).allocated_bytes[0].current < 1 * int64_t{part});
    }
    assert_int_equal(stats_of(adapter).spills, 0);
}

static void a_storage_that_was_given_other_memory_is_left_alone(void **)
{
    Adapter &adapter = streaming_adapter();
    static unsigned char other[8];
    for (bool is_away : {false, true}) {
        State state(adapter.allocate(8 * part));
        end_step({&state});
        if (is_away)
            adapter.raw_delete(adapter.raw_alloc(28 * part));
        assert_int_equal(is_on_device(adapter, state), !is_away);
        state.storage->set_data_ptr({other, other, [](void *) {}, State::place()});
        for (int what : {VRAMWISE_TORCH_COPY_OUT, VRAMWISE_TORCH_COPY_AT_ONCE, VRAMWISE_TORCH_FETCH,
                         VRAMWISE_TORCH_BIND_OUT, VRAMWISE_TORCH_BIND_IN})
            assert_int_equal(move(state, what), 0);
        assert_ptr_equal(state.bytes(), other);
        movable.clear();
    }
}

static void whichever_call_fails_the_bytes_are_there(void **)
{
    constexpr uint64_t most_calls = 40; // more than are made
    for (uint64_t nth = 1; nth <= most_calls; nth++) {
        Adapter &adapter = streaming_adapter();
        State state(adapter.allocate(8 * part));
        state.fill(1);
        end_step({&state});
        vw_device *device = opened_device(0);
        assert_int_equal(vw_device_fail_call(device, nth, VW_ERR_DEVICE), VW_OK);
        move(state, VRAMWISE_TORCH_COPY_OUT);
        vramwise_torch_stream_wait(state.tensor(), state.object(), 0);
        const bool has_left = move(state, VRAMWISE_TORCH_BIND_OUT) != 0;
        vramwise_torch_stream_release(0, 0);
        assert_int_equal(is_on_device(adapter, state), !has_left);
        assert_true(state.is_filled_with(1));
        const bool is_back = begin_step(state);
        assert_int_equal(is_on_device(adapter, state), is_back);
        assert_true(state.is_filled_with(1));
        assert_int_equal(vw_device_fail_call(device, 0, VW_OK),
                         VW_OK); // cancels what is left of it
        assert_true(begin_step(state));
        assert_true(is_on_device(adapter, state) && state.is_filled_with(1));
    }
}

static void what_cannot_move_is_not_taken_in(void **)
{
    Adapter &adapter = streaming_adapter();
    auto taken = [](State &state) {
        return vramwise_torch_stream_add(state.tensor(), state.object());
    };
    State small(adapter.allocate(part / 2), part / 2);
    assert_int_equal(taken(small), 0);
    State foreign({&small, &small, [](void *) {}, State::place()});
    assert_int_equal(taken(foreign), 0);
    State without_version(adapter.allocate(8 * part));
    without_version.impl.is_without_version = true;
    assert_int_equal(taken(without_version), 0);
    adapter.beginAllocateToPool(0, {0, 1}, [](cudaStream_t) { return true; });
    State of_a_graph(adapter.allocate(8 * part));
    adapter.endAllocateToPool(0, {0, 1});
    assert_int_equal(taken(of_a_graph), 0);
    State good(adapter.allocate(8 * part));
    assert_int_equal(taken(good), 8 * part);
    assert_int_equal(taken(good), 8 * part);
}

static void beyond_the_host_s_budget_it_goes_the_old_way(void **)
{
    Adapter &adapter = streaming_adapter(12 * part);
    State first(adapter.allocate(8 * part)), second(adapter.allocate(8 * part));
    first.fill(1);
    second.fill(2);
    end_step({&first, &second});
    void *crowd = std::memset(adapter.raw_alloc(18 * part), 3, 18 * part);
    assert_true(is_on_device(adapter, first) != is_on_device(adapter, second));
    assert_true(first.is_filled_with(1) && second.is_filled_with(2));
    assert_true(contains(text_of<c10::OutOfMemoryError>([&] { adapter.raw_alloc(16 * part); }),
                         "out of memory"));
    adapter.raw_delete(crowd);
}

static void a_thread_without_python_s_lock_is_helped_by_one_that_takes_it(void **)
{
    Adapter &adapter = streaming_adapter();
    State state(adapter.allocate(8 * part));
    state.fill(1);
    end_step({&state});
    has_python_lock = false;
    std::thread helper([] {
        int device = -1, is_ahead = 0;
        unsigned long long size_bytes = 0;
        while (vramwise_torch_stream_next_need(&device, &size_bytes, &is_ahead))
            vramwise_torch_stream_answer(move_out(device, size_bytes, is_ahead));
    });
    void *crowd = adapter.raw_alloc(28 * part);
    assert_false(is_on_device(adapter, state));
    assert_true(state.is_filled_with(1));
    assert_int_equal(asked, 1);
    vramwise_torch_stream_stop();
    helper.join();
    adapter.raw_delete(crowd);
    assert_true(begin_step(state)); // it comes back all the same
    assert_true(is_on_device(adapter, state) && state.is_filled_with(1));
    crowd = adapter.raw_alloc(28 * part); // and leaves as if there were no stream
    assert_int_equal(asked, 1);
    assert_true(stats_of(adapter).spills > 0);
    assert_true(state.is_filled_with(1));
    adapter.raw_delete(crowd);
}

// The one who should help gives up instead: the request goes the old way.
static void nobody_waits_for_a_helper_that_has_stopped(void **)
{
    Adapter &adapter = streaming_adapter();
    State state(adapter.allocate(8 * part));
    state.fill(1);
    end_step({&state});
    has_python_lock = false;
    std::thread helper([] {
        int device = -1, is_ahead = 0;
        unsigned long long size_bytes = 0;
        if (vramwise_torch_stream_next_need(&device, &size_bytes, &is_ahead))
            vramwise_torch_stream_stop();
    });
    void *crowd = adapter.raw_alloc(28 * part);
    helper.join();
    assert_true(stats_of(adapter).spills > 0);
    assert_true(state.is_filled_with(1));
    adapter.raw_delete(crowd);
}

static void where_nothing_may_be_spilled_there_is_no_stream(void **)
{
    new_adapter({});
    State state({nullptr, nullptr, [](void *) {}, State::place()});
    assert_int_equal(
        vramwise_torch_stream_start(state.tensor(), state.object(), move_out, has_lock), 0);
    assert_int_equal(vramwise_torch_stream_add(state.tensor(), state.object()), 0);
    assert_int_equal(vramwise_torch_stream_plan(0, 1), 0);
    assert_int_equal(vramwise_torch_stream_release(7, 0), 0);
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_everything_fits_nothing_moves),
        cmocka_unit_test(a_step_that_does_not_fit_has_state_leave_and_return_with_its_bytes),
        cmocka_unit_test(whoever_looks_meanwhile_finds_the_bytes),
        cmocka_unit_test(copies_go_ahead_of_need_and_nobody_has_to_want_them),
        cmocka_unit_test(what_is_due_is_copied_beside_the_program),
        cmocka_unit_test(a_copy_waits_for_its_step_and_for_nothing_later),
        cmocka_unit_test(a_copy_of_what_was_written_since_the_step_waits_for_the_write),
        cmocka_unit_test(its_memory_is_used_again_behind_all_that_is_queued_and_nobody_waits),
        cmocka_unit_test(state_leaves_part_by_part_before_anything_lacks),
        cmocka_unit_test(
            what_left_ahead_is_free_when_all_is_over_that_was_queued_or_somebody_needs_it),
        cmocka_unit_test(what_is_bound_out_later_is_not_freed_with_what_left_before),
        cmocka_unit_test(what_left_ahead_is_counted_once),
        cmocka_unit_test(at_the_end_nothing_is_kept_that_left_ahead),
        cmocka_unit_test(ahead_of_need_nobody_waits_for_a_gpu_that_has_nothing_to_do),
        cmocka_unit_test(ahead_of_need_nobody_minds_that_python_is_busy),
        cmocka_unit_test(a_write_while_it_leaves_keeps_it_on_the_device),
        cmocka_unit_test(what_others_hold_stays_where_it_is),
        cmocka_unit_test(a_return_gives_way_to_whoever_wants_the_room),
        cmocka_unit_test(a_write_while_it_returns_is_not_lost),
        cmocka_unit_test(without_room_a_step_finds_it_on_the_host_and_its_writes_stay),
        cmocka_unit_test(what_the_passes_do_not_hide_stays_on_the_host),
        cmocka_unit_test(parts_leave_evenly_beside_what_stays),
        cmocka_unit_test(a_step_can_use_what_is_on_the_host_in_blocks_of_the_device),
        cmocka_unit_test(what_is_lent_is_lent_once),
        cmocka_unit_test(a_loan_ends_with_the_next_step_that_succeeds),
        cmocka_unit_test(a_block_is_filled_behind_its_stream_and_used_behind_the_copy),
        cmocka_unit_test(a_copy_into_a_block_waits_for_the_work_that_is_queued_there),
        cmocka_unit_test(what_a_step_made_is_on_the_host_for_all_that_follows_on_its_stream),
        cmocka_unit_test(while_steps_are_timed_each_ends_with_the_gpu),
        cmocka_unit_test(a_timed_step_ends_with_no_stream_but_its_own),
        cmocka_unit_test(nothing_is_lent_out_of_turn),
        cmocka_unit_test(nothing_returns_while_requests_go_to_a_private_pool),
        cmocka_unit_test(while_the_process_is_parked_nothing_is_copied),
        cmocka_unit_test(nothing_leaves_during_a_step_or_after_one_that_failed),
        cmocka_unit_test(a_storage_that_ends_gives_its_memory_back_wherever_it_is),
        cmocka_unit_test(a_storage_that_was_given_other_memory_is_left_alone),
        cmocka_unit_test(whichever_call_fails_the_bytes_are_there),
        cmocka_unit_test(what_cannot_move_is_not_taken_in),
        cmocka_unit_test(beyond_the_host_s_budget_it_goes_the_old_way),
        cmocka_unit_test(a_thread_without_python_s_lock_is_helped_by_one_that_takes_it),
        cmocka_unit_test(nobody_waits_for_a_helper_that_has_stopped),
        cmocka_unit_test(where_nothing_may_be_spilled_there_is_no_stream),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
