/* stand_in_contract.c - what devices that tests can script promise beyond the common contract.
 *
 * Every precondition of device.h is checked by these devices, so every one is broken here. And
 * each call can be made to fail, by a script or for lack of host memory, and must then have
 * changed nothing: both are swept over one list of steps that goes through the whole table. Streams
 * that complete when told are in held_streams_contract.c. */
#include "contract/device_contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/host_memory_sweep.h"

#define MIB (UINT64_C(1) << 20)
#define UNTOUCHED UINT64_C(0x5a5a5a5a5a5a5a5a) /* what out-parameters hold before a call */

static void need_script(const vw_device *device)
{
    need(vw_test_is_scripted(device), "nobody can script this device");
}

static vw_device_calls calls_of(const vw_device *device)
{
    vw_device_calls calls;
    assert_ok(vw_device_get_calls(device, &calls));
    return calls;
}

/* ---- the steps ------------------------------------------------------------------------------- */

/* What the steps have in hand. Nothing yet: UNTOUCHED, or `nothing`. */
typedef struct hands {
    vw_device_ptr plain, reserved;
    vw_handle handle;
    vw_stream stream;
    vw_device_event event;
    void *pinned;
    uint64_t free_bytes, total_bytes;
    bool is_capturing;
    uint64_t capture;
    size_t node_count;
} hands;

static char nothing;           /* its address stands for no pinned memory yet */
static char registered[65536]; /* memory the caller has already */

static const hands empty_hands = {
    .plain = UNTOUCHED,
    .reserved = UNTOUCHED,
    .handle = UNTOUCHED,
    .stream = UNTOUCHED,
    .event = UNTOUCHED,
    .pinned = &nothing,
    .free_bytes = UNTOUCHED,
    .total_bytes = UNTOUCHED,
    .is_capturing = true,
    .capture = UNTOUCHED,
    .node_count = UNTOUCHED,
};

static bool are_same_hands(const hands *a, const hands *b)
{
    return a->plain == b->plain && a->reserved == b->reserved && a->handle == b->handle &&
           a->stream == b->stream && a->event == b->event && a->pinned == b->pinned &&
           a->free_bytes == b->free_bytes && a->total_bytes == b->total_bytes &&
           a->is_capturing == b->is_capturing && a->capture == b->capture &&
           a->node_count == b->node_count;
}

/* Every counted call, in an order in which each is right. The expression is one line of a function
 * of its own, where `d` is the device, `h` the hands and `g` the granularity. */
#define STEP_LIST(X)                                                                               \
    X(TAKE, take, d->table->take(d->context, MIB, &h->plain))                                      \
    X(COPY, copy, d->table->copy(d->context, h->plain + MIB / 2, h->plain, MIB / 2, 0))            \
    X(GIVE_BACK, give_back, d->table->give_back(d->context, h->plain))                             \
    X(RESERVE, reserve, d->table->reserve(d->context, 4 * g, &h->reserved))                        \
    X(CREATE_ON_HOST, create_on_host, d->table->create_on_host(d->context, g, &h->handle))         \
    X(MAP, map_on_host, d->table->map(d->context, h->reserved, g, h->handle))                      \
    X(ACCESS_ON_HOST, access_on_host, d->table->set_access(d->context, h->reserved, g))            \
    X(COPY_ON_HOST, copy_on_host,                                                                  \
      d->table->copy(d->context, h->reserved + g / 2, h->reserved, g / 2, 0))                      \
    X(UNMAP, unmap_on_host, d->table->unmap(d->context, h->reserved, g))                           \
    X(RELEASE, release_on_host, d->table->release(d->context, h->handle))                          \
    X(CREATE, create, d->table->create(d->context, g, &h->handle))                                 \
    X(MAP, map, d->table->map(d->context, h->reserved, g, h->handle))                              \
    X(SET_ACCESS, set_access, d->table->set_access(d->context, h->reserved, g))                    \
    X(UNMAP, unmap, d->table->unmap(d->context, h->reserved, g))                                   \
    X(RELEASE, release, d->table->release(d->context, h->handle))                                  \
    X(UNRESERVE, unreserve, d->table->unreserve(d->context, h->reserved, 4 * g))                   \
    X(STREAM, stream_create, d->table->stream_create(d->context, &h->stream))                      \
    X(EVENT_CREATE, event_create, d->table->event_create(d->context, &h->event))                   \
    X(EVENT_RECORD, event_record, d->table->event_record(d->context, h->event, h->stream))         \
    X(STREAM, stream_wait, d->table->stream_wait_event(d->context, 0, h->event))                   \
    X(SYNCHRONIZE, event_synchronize, d->table->event_synchronize(d->context, h->event))           \
    X(EVENT_QUERY, event_query, d->table->event_query(d->context, h->event))                       \
    X(SYNCHRONIZE, stream_synchronize, d->table->stream_synchronize(d->context, h->stream))        \
    X(SYNCHRONIZE, synchronize, d->table->synchronize(d->context))                                 \
    X(STREAM, capturing, d->table->stream_is_capturing(d->context, h->stream, &h->is_capturing))   \
    X(STREAM, capture_nodes,                                                                       \
      d->table->stream_capture_nodes(d->context, h->stream, &h->capture, NULL, 0, &h->node_count)) \
    X(STREAM, node_parents, d->table->graph_node_parents(d->context, 1, NULL, 0, &h->node_count))  \
    X(STREAM, stream_destroy, d->table->stream_destroy(d->context, h->stream))                     \
    X(HOST_TAKE, host_take, d->table->host_take(d->context, MIB, &h->pinned))                      \
    X(HOST_GIVE_BACK, host_give_back, d->table->host_give_back(d->context, h->pinned))             \
    X(HOST_TAKE, host_register,                                                                    \
      d->table->host_register(d->context, registered, sizeof registered))                          \
    X(HOST_GIVE_BACK, host_unregister, d->table->host_unregister(d->context, registered))          \
    X(MEMORY_INFO, memory_info, d->table->memory_info(d->context, &h->free_bytes, &h->total_bytes))

#define STEP_FUNCTION(kind, name, expression)                                                      \
    static vw_status step_##name(const vw_device *d, hands *h)                                     \
    {                                                                                              \
        uint64_t g = d->properties.granularity_bytes;                                              \
        (void)g;                                                                                   \
        (void)h;                                                                                   \
        return expression;                                                                         \
    }
STEP_LIST(STEP_FUNCTION)
#undef STEP_FUNCTION

typedef struct step {
    vw_device_call kind;
    vw_status (*run)(const vw_device *device, hands *in_hand);
    const char *name;
} step;

static const step steps[] = {
#define STEP_ROW(kind, name, expression) {VW_DEVICE_CALL_##kind, step_##name, #name},
    STEP_LIST(STEP_ROW)
#undef STEP_ROW
};
enum { STEP_COUNT = sizeof steps / sizeof steps[0] };

static const char *const kind_names[VW_DEVICE_CALL_KINDS] = {
#define KIND_NAME(upper, lower) #lower,
    VW_DEVICE_CALL_LIST(KIND_NAME)
#undef KIND_NAME
};

static bool is_step_possible(const vw_device *device, const step *one)
{
    bool is_virtual =
        (one->kind >= VW_DEVICE_CALL_RESERVE && one->kind <= VW_DEVICE_CALL_SET_ACCESS) ||
        one->kind >= VW_DEVICE_CALL_CREATE_ON_HOST;
    return device->properties.has_virtual_memory || !is_virtual;
}

/* ---- scripts --------------------------------------------------------------------------------- */

static void each_call_can_be_scripted_to_fail_and_then_changes_nothing(void **state)
{
    vw_device *device = *state;
    need_script(device);
    hands in_hand = empty_hands;
    for (int i = 0; i < STEP_COUNT; i++) {
        if (!is_step_possible(device, &steps[i]))
            continue;
        hands before = in_hand;
        vw_device_calls calls = calls_of(device);
        char expected[64];
        snprintf(expected, sizeof expected, "call 1 (%s) failed as scripted",
                 kind_names[steps[i].kind]);
        assert_ok(vw_device_fail_call(device, 1, VW_ERR_DEVICE));
        vw_test_check_status(VW_ERR_DEVICE, steps[i].run(device, &in_hand), steps[i].name, __FILE__,
                             __LINE__);
        assert_string_equal(vw_last_error(), expected);
        assert_true(are_same_hands(&before, &in_hand));
        assert_int_equal(calls_of(device).in_use_bytes, calls.in_use_bytes);
        assert_int_equal(calls_of(device).count[steps[i].kind], calls.count[steps[i].kind] + 1);
        vw_test_check_status(VW_OK, steps[i].run(device, &in_hand), steps[i].name, __FILE__,
                             __LINE__);
    }
    assert_int_equal(calls_of(device).in_use_bytes, 0);
}

static void the_nth_call_from_now_fails_with_the_status_that_was_ordered(void **state)
{
    vw_device *device = *state;
    need_script(device);
    hands in_hand = empty_hands;
    for (uint64_t nth = 1; nth <= 3; nth++) {
        assert_ok(vw_device_fail_call(device, nth, VW_ERR_OUT_OF_MEMORY));
        for (uint64_t call = 1; call <= 4; call++)
            assert_status(call == nth ? VW_ERR_OUT_OF_MEMORY : VW_OK,
                          step_memory_info(device, &in_hand));
    }
    assert_ok(vw_device_fail_call(device, 2, VW_ERR_DEVICE));
    assert_ok(vw_device_fail_call(device, 0, VW_OK)); /* taken back */
    for (int call = 1; call <= 4; call++)
        assert_ok(step_memory_info(device, &in_hand));
    assert_status(VW_ERR_INVALID_ARGUMENT, vw_device_fail_call(device, 1, VW_OK));
}

static void a_lost_device_fails_every_call(void **state)
{
    vw_device *device = *state;
    need_script(device);
    hands in_hand = empty_hands;
    assert_ok(step_take(device, &in_hand)); /* something that can no longer be given back */
    assert_ok(step_host_take(device, &in_hand));
    assert_ok(step_event_create(device, &in_hand));
    if (device->properties.has_virtual_memory) {
        assert_ok(step_reserve(device, &in_hand));
        assert_ok(step_create(device, &in_hand));
        assert_ok(step_map(device, &in_hand));
    }
    assert_ok(vw_device_lose(device));
    for (int i = 0; i < STEP_COUNT; i++) {
        hands before = in_hand;
        vw_test_check_status(VW_ERR_DEVICE, steps[i].run(device, &in_hand), steps[i].name, __FILE__,
                             __LINE__);
        assert_last_error_has("lost");
        assert_true(are_same_hands(&before, &in_hand));
    }
    uint8_t byte = 7;
    size_t count = 77;
    const vw_device_table *table = device->table;
    assert_status(VW_ERR_DEVICE, table->event_destroy(device->context, in_hand.event));
    assert_status(VW_ERR_DEVICE, table->write(device->context, in_hand.plain, &byte, 1));
    assert_status(VW_ERR_DEVICE, table->read(device->context, &byte, in_hand.plain, 1));
    assert_status(VW_ERR_DEVICE, table->fill(device->context, in_hand.plain, 0, 1, 0));
    int file = 77;
    assert_status(VW_ERR_DEVICE, table->export_handle(device->context, in_hand.handle, &file));
    assert_int_equal(file, 77);
    assert_status(VW_ERR_DEVICE, table->processes(device->context, NULL, 0, &count));
    assert_int_equal(count, 77);
    assert_true(calls_of(device).in_use_bytes >= MIB); /* and the books still answer */
}

static vw_status make_again_if_short_of_memory(const vw_test_device_factory *factory,
                                               vw_device **out)
{
    vw_device *device = (vw_device *)&nothing;
    vw_status status = factory->make(factory->context, &device);
    if (status == VW_ERR_HOST_MEMORY) {
        assert_ptr_equal(device, &nothing);
        status = factory->make(factory->context, &device);
    }
    if (status == VW_OK)
        *out = device;
    return status;
}

/* A call that found no host memory changed nothing, and works when it is made again. */
static bool go_through_every_step(void *context)
{
    vw_device *device = NULL;
    assert_ok(make_again_if_short_of_memory(context, &device));
    assert_ok(vw_device_hold_streams(device, true)); /* so that recording needs memory, too */
    hands in_hand = empty_hands;
    for (int i = 0; i < STEP_COUNT; i++) {
        if (!is_step_possible(device, &steps[i]))
            continue;
        hands before = in_hand;
        uint64_t in_use_bytes = calls_of(device).in_use_bytes;
        vw_status status = steps[i].run(device, &in_hand);
        if (status == VW_ERR_HOST_MEMORY) {
            assert_true(are_same_hands(&before, &in_hand));
            assert_int_equal(calls_of(device).in_use_bytes, in_use_bytes);
            assert_last_error_has("host memory");
            status = steps[i].run(device, &in_hand);
        }
        vw_test_check_status(VW_OK, status, steps[i].name, __FILE__, __LINE__);
    }
    if (vw_device_set_capturing(device, 5, true) != VW_OK)
        assert_ok(vw_device_set_capturing(device, 5, true));
    assert_int_equal(calls_of(device).in_use_bytes, 0);
    vw_device_destroy(device);
    return true;
}

static const vw_test_device_factory *swept_factory;

static void every_call_survives_the_lack_of_host_memory(void **state)
{
    need_script(*state);
    vw_test_sweep_host_memory(go_through_every_step, (void *)(uintptr_t)swept_factory);
}

/* ---- counting and capacity ------------------------------------------------------------------- */

static void calls_are_counted_by_kind_and_the_peak_is_kept(void **state)
{
    vw_device *device = *state;
    need_script(device);
    hands in_hand = empty_hands;
    uint64_t expected[VW_DEVICE_CALL_KINDS] = {0};
    for (int i = 0; i < STEP_COUNT; i++) {
        if (!is_step_possible(device, &steps[i]))
            continue;
        vw_test_check_status(VW_OK, steps[i].run(device, &in_hand), steps[i].name, __FILE__,
                             __LINE__);
        expected[steps[i].kind]++;
    }
    vw_device_calls calls = calls_of(device);
    assert_memory_equal(calls.count, expected, sizeof expected);
    assert_int_equal(calls.in_use_bytes, 0);
    assert_true(calls.peak_use_bytes >= MIB);
    assert_status(VW_ERR_INVALID_ARGUMENT, device->table->take(device->context, 0, &in_hand.plain));
    assert_int_equal(calls_of(device).count[VW_DEVICE_CALL_TAKE], expected[0] + 1);
}

static void all_of_the_capacity_can_be_held_and_not_a_byte_more(void **state)
{
    vw_device *device = *state;
    need_script(device);
    vw_device_ptr first, second = UNTOUCHED;
    assert_ok(vw_device_set_capacity(device, 8 * MIB));
    assert_ok(device->table->take(device->context, 5 * MIB, &first));
    assert_status(VW_ERR_OUT_OF_MEMORY, device->table->take(device->context, 3 * MIB + 1, &second));
    assert_last_error_has("3145728 of 8388608 bytes are free");
    assert_true(second == UNTOUCHED);
    assert_ok(device->table->take(device->context, 3 * MIB, &second));
    assert_int_equal(calls_of(device).in_use_bytes, 8 * MIB);
    assert_ok(device->table->give_back(device->context, second));
    if (device->properties.has_virtual_memory) { /* handles and plain memory share it */
        vw_handle handle = UNTOUCHED, another = UNTOUCHED;
        assert_ok(device->table->create(device->context, 2 * MIB, &handle));
        assert_status(VW_ERR_OUT_OF_MEMORY,
                      device->table->create(device->context, 2 * MIB, &another));
        assert_true(another == UNTOUCHED);
        assert_ok(device->table->release(device->context, handle));
    }
    assert_ok(vw_device_set_capacity(device, MIB)); /* what is held stays */
    assert_status(VW_ERR_OUT_OF_MEMORY, device->table->take(device->context, 1, &second));
    uint64_t free_bytes, total_bytes;
    assert_ok(device->table->memory_info(device->context, &free_bytes, &total_bytes));
    assert_int_equal(free_bytes, 0);
    assert_ok(device->table->give_back(device->context, first));
}

static void this_process_is_the_only_one_and_uses_what_is_held(void **state)
{
    vw_device *device = *state;
    need_script(device);
    vw_device_ptr address;
    vw_process_memory entry;
    size_t count;
    assert_ok(device->table->take(device->context, 3 * MIB, &address));
    assert_ok(device->table->processes(device->context, &entry, 1, &count));
    assert_int_equal(count, 1);
    assert_true(entry.is_this_process);
    assert_int_equal(entry.used_bytes, 3 * MIB);
    assert_ok(device->table->give_back(device->context, address));
}

/* ---- mistakes -------------------------------------------------------------------------------- */

static void mistakes_with_plain_and_pinned_memory_are_refused(void **state)
{
    vw_device *device = *state;
    need_script(device);
    const vw_device_table *table = device->table;
    void *context = device->context;
    vw_device_ptr address, out = UNTOUCHED;
    char expected[32];
    assert_ok(table->take(context, MIB, &address));
    snprintf(expected, sizeof expected, "%#llx", (unsigned long long)address);
    assert_status(VW_ERR_INVALID_ARGUMENT, table->take(context, 0, &out));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->give_back(context, VW_NULL));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->give_back(context, address + 512));
    assert_int_equal(calls_of(device).in_use_bytes, MIB);
    assert_ok(table->give_back(context, address));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->give_back(context, address));
    assert_last_error_has(expected);
    assert_true(out == UNTOUCHED);

    void *pinned, *none = &nothing;
    assert_status(VW_ERR_INVALID_ARGUMENT, table->host_take(context, 0, &none));
    assert_ptr_equal(none, &nothing);
    assert_ok(table->host_take(context, MIB, &pinned));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->host_give_back(context, (char *)pinned + 4096));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->host_register(context, pinned, 4096));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->host_register(context, NULL, 4096));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->host_register(context, registered, 0));
    assert_ok(table->host_register(context, registered, sizeof registered));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->host_register(context, registered + 9, 1));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->host_unregister(context, registered + 9));
    assert_ok(table->host_unregister(context, registered));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->host_unregister(context, registered));
    assert_ok(table->host_give_back(context, pinned));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->host_give_back(context, pinned));
}

static void mistakes_with_reservations_and_handles_are_refused(void **state)
{
    vw_device *device = *state;
    need_script(device);
    need(device->properties.has_virtual_memory, "the device has no virtual memory");
    const vw_device_table *table = device->table;
    void *context = device->context;
    uint64_t g = device->properties.granularity_bytes;
    vw_device_ptr address, out = UNTOUCHED;
    vw_handle handle, reused, none = UNTOUCHED;
    assert_status(VW_ERR_INVALID_ARGUMENT, table->reserve(context, 0, &out));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->reserve(context, g + 512, &out));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->create(context, 0, &none));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->create(context, g / 2, &none));
    assert_true(out == UNTOUCHED && none == UNTOUCHED);

    assert_ok(table->reserve(context, 4 * g, &address));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->unreserve(context, address, 3 * g));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->unreserve(context, address + g, 3 * g));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->unreserve(context, address + 4 * g, g));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->give_back(context, address));

    assert_status(VW_ERR_INVALID_ARGUMENT, table->release(context, 0));
    assert_ok(table->create(context, g, &handle));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->release(context, handle + 1));
    assert_ok(table->release(context, handle));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->release(context, handle));
    assert_ok(table->create(context, g, &reused)); /* an old number is not taken for a new one */
    assert_status(VW_ERR_INVALID_ARGUMENT, table->release(context, handle));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->map(context, address, g, handle));
    assert_ok(table->map(context, address, g, reused));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->unreserve(context, address, 4 * g));
    assert_last_error_has("still mapped");
    assert_ok(
        table->release(context, reused)); /* mapped: may be neither released nor mapped again */
    assert_status(VW_ERR_INVALID_ARGUMENT, table->release(context, reused));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->map(context, address + g, g, reused));
    assert_int_equal(calls_of(device).in_use_bytes, g);
    assert_ok(table->unmap(context, address, g));
    assert_int_equal(calls_of(device).in_use_bytes, 0);
    assert_ok(table->unreserve(context, address, 4 * g));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->unreserve(context, address, 4 * g));
}

static void mistakes_with_mappings_are_refused(void **state)
{
    vw_device *device = *state;
    need_script(device);
    need(device->properties.has_virtual_memory, "the device has no virtual memory");
    const vw_device_table *table = device->table;
    void *context = device->context;
    uint64_t g = device->properties.granularity_bytes;
    vw_device_ptr base, plain;
    vw_handle one, two;
    char expected[32];
    assert_ok(table->reserve(context, 4 * g, &base));
    assert_ok(table->create(context, g, &one));
    assert_ok(table->create(context, 2 * g, &two));
    assert_ok(table->take(context, 4 * g, &plain));

    assert_status(VW_ERR_INVALID_ARGUMENT, table->map(context, base, 2 * g, one));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->map(context, base, g, two));
    assert_last_error_has("whole handle");
    assert_status(VW_ERR_INVALID_ARGUMENT, table->map(context, base + 512, g, one));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->map(context, base, 0, one));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->map(context, base + 4 * g, g, one));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->map(context, base + 3 * g, 2 * g, two));
    assert_last_error_has("reservation ends");
    assert_status(VW_ERR_INVALID_ARGUMENT,
                  table->map(context, plain - plain % g, g, one)); /* not a reservation */
    assert_status(VW_ERR_INVALID_ARGUMENT, table->unmap(context, base, g));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->set_access(context, base, g));

    /* one at 0, two at 1 and 2, nothing at 3 */
    assert_ok(table->map(context, base, g, one));
    assert_ok(table->map(context, base + g, 2 * g, two));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->map(context, base + 2 * g, 2 * g, two));
    snprintf(expected, sizeof expected, "%#llx", (unsigned long long)(base + 2 * g));
    assert_last_error_has(expected);
    vw_status (*const over_a_range[])(void *, vw_device_ptr, uint64_t) = {table->unmap,
                                                                          table->set_access};
    for (int i = 0; i < 2; i++) {
        assert_status(VW_ERR_INVALID_ARGUMENT, over_a_range[i](context, base + g, g));
        assert_last_error_has("whole mappings");
        assert_status(VW_ERR_INVALID_ARGUMENT, over_a_range[i](context, base + 2 * g, g));
        assert_status(VW_ERR_INVALID_ARGUMENT, over_a_range[i](context, base, 2 * g));
        assert_status(VW_ERR_INVALID_ARGUMENT, over_a_range[i](context, base, 4 * g));
        assert_last_error_has("nothing is mapped");
        assert_status(VW_ERR_INVALID_ARGUMENT, over_a_range[i](context, base, 5 * g));
        assert_status(VW_ERR_INVALID_ARGUMENT, over_a_range[i](context, base, g / 2));
        assert_status(VW_ERR_INVALID_ARGUMENT, over_a_range[i](context, base, 0));
    }
    assert_ok(table->set_access(context, base, 3 * g)); /* none of it changed a thing */
    assert_ok(table->unmap(context, base, 3 * g));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->unmap(context, base, 3 * g));
    assert_ok(table->map(context, base + 2 * g, 2 * g, two)); /* up to the very end */
    assert_ok(table->unmap(context, base + 2 * g, 2 * g));
    assert_ok(table->release(context, one));
    assert_ok(table->release(context, two));
    assert_ok(table->unreserve(context, base, 4 * g));
    assert_ok(table->give_back(context, plain));
}

/* Also where there are no bytes to fill and to copy: whoever replays there must hear of it. */
static void filling_and_copying_where_nothing_may_be_touched_is_refused(void **state)
{
    vw_device *device = *state;
    need_script(device);
    const vw_device_table *table = device->table;
    void *context = device->context;
    vw_device_ptr plain, below;
    assert_ok(table->take(context, 1000, &plain));
    assert_ok(table->take(context, 1000, &below));
    assert_ok(table->fill(context, plain + 999, 9, 1, 0));
    assert_ok(table->copy(context, plain, below + 500, 500, 0));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->fill(context, plain, 9, 0, 0));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->fill(context, plain, 9, 1001, 0));
    assert_last_error_has("the memory ends at");
    assert_status(VW_ERR_INVALID_ARGUMENT, table->fill(context, plain, 9, UINT64_MAX, 0));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->copy(context, plain, below + 501, 500, 0));
    assert_last_error_has("copy from");
    assert_status(VW_ERR_INVALID_ARGUMENT, table->copy(context, below + 501, plain, 500, 0));
    assert_last_error_has("copy to");
    assert_status(VW_ERR_INVALID_ARGUMENT, table->copy(context, plain, VW_NULL, 1, 0));
    assert_ok(table->give_back(context, below));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->copy(context, plain, below, 1, 0));
    if (device->properties.has_virtual_memory) {
        uint64_t g = device->properties.granularity_bytes;
        vw_device_ptr base;
        vw_handle one, two;
        assert_ok(table->reserve(context, 4 * g, &base));
        assert_ok(table->create(context, g, &one));
        assert_ok(table->create(context, g, &two));
        assert_status(VW_ERR_INVALID_ARGUMENT, table->copy(context, base, plain, 1, 0));
        assert_last_error_has("nothing is mapped");
        assert_ok(table->map(context, base, g, one));
        assert_ok(table->map(context, base + g, g, two));
        assert_status(VW_ERR_INVALID_ARGUMENT, table->copy(context, base, plain, 1, 0));
        assert_last_error_has("no access");
        assert_ok(table->set_access(context, base, 2 * g));
        assert_ok(table->copy(context, base + g / 2, plain, 1000, 0));
        assert_ok(table->copy(context, base, base + g / 2, g / 2, 0));
        assert_ok(table->fill(context, base, 1, 2 * g, 0)); /* over two mappings */
        assert_status(VW_ERR_INVALID_ARGUMENT, table->fill(context, base + g, 1, g + 1, 0));
        assert_status(VW_ERR_INVALID_ARGUMENT, table->fill(context, base + 3 * g, 1, 2 * g, 0));
        assert_ok(table->unmap(context, base + g, g));
        assert_status(VW_ERR_INVALID_ARGUMENT, table->copy(context, base, base + g, 1, 0));
        assert_ok(table->unmap(context, base, g));
        assert_ok(table->release(context, one));
        assert_ok(table->release(context, two));
        assert_ok(table->unreserve(context, base, 4 * g));
    }
    assert_ok(table->give_back(context, plain));
    assert_int_equal(calls_of(device).in_use_bytes, 0);
}

static void mistakes_with_events_and_streams_are_refused(void **state)
{
    vw_device *device = *state;
    need_script(device);
    const vw_device_table *table = device->table;
    void *context = device->context;
    vw_device_event event, reused;
    vw_stream stream;
    assert_ok(table->event_create(context, &event));
    assert_ok(table->event_destroy(context, event));
    assert_ok(table->event_create(context, &reused)); /* an old number is not taken for a new one */
    vw_device_event wrong[] = {0, event, reused + 1};
    for (int i = 0; i < 3; i++) {
        assert_status(VW_ERR_INVALID_ARGUMENT, table->event_record(context, wrong[i], 0));
        assert_status(VW_ERR_INVALID_ARGUMENT, table->event_query(context, wrong[i]));
        assert_status(VW_ERR_INVALID_ARGUMENT, table->event_synchronize(context, wrong[i]));
        assert_status(VW_ERR_INVALID_ARGUMENT, table->stream_wait_event(context, 0, wrong[i]));
        assert_status(VW_ERR_INVALID_ARGUMENT, table->event_destroy(context, wrong[i]));
    }
    assert_ok(table->event_destroy(context, reused));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->stream_destroy(context, 0));
    assert_ok(table->stream_create(context, &stream));
    assert_ok(table->stream_destroy(context, stream));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->stream_destroy(context, stream));
}

/* ---- contents -------------------------------------------------------------------------------- */

#define check(name) cmocka_unit_test_setup_teardown(name, vw_test_make_device, vw_test_end_device)

int vw_test_stand_in_contract(const vw_test_device_factory *factory)
{
    const struct CMUnitTest tests[] = {
        check(each_call_can_be_scripted_to_fail_and_then_changes_nothing),
        check(the_nth_call_from_now_fails_with_the_status_that_was_ordered),
        check(a_lost_device_fails_every_call),
        check(every_call_survives_the_lack_of_host_memory),
        check(calls_are_counted_by_kind_and_the_peak_is_kept),
        check(all_of_the_capacity_can_be_held_and_not_a_byte_more),
        check(this_process_is_the_only_one_and_uses_what_is_held),
        check(mistakes_with_plain_and_pinned_memory_are_refused),
        check(mistakes_with_reservations_and_handles_are_refused),
        check(mistakes_with_mappings_are_refused),
        check(filling_and_copying_where_nothing_may_be_touched_is_refused),
        check(mistakes_with_events_and_streams_are_refused),
    };
    vw_test_use_factory(factory);
    swept_factory = factory;
    int failed = cmocka_run_group_tests_name(factory->name, tests, NULL, NULL);
    return failed + vw_test_held_streams_contract(factory);
}
