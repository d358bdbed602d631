/* test_device_simulated.c - what only the simulated device has: addresses, costs, options. */
#include "device/device_common.h"

#include <stdio.h>
#include <string.h>

#include "contract/device_contract.h" /* assert_ok and its like */

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)
#define UNTOUCHED UINT64_C(0x5a5a5a5a5a5a5a5a)

static vw_device *make(const vw_simulated_options *options)
{
    vw_device *device = NULL;
    assert_ok(vw_simulated_device_create(options, &device));
    return device;
}

/* One large enough that addresses run out before memory does. */
static vw_device *make_large(void)
{
    vw_simulated_options options = {.struct_size = sizeof options, .capacity_bytes = 1024 * TIB};
    return make(&options);
}

static vw_device_ptr take(const vw_device *device, uint64_t size_bytes)
{
    vw_device_ptr address = VW_NULL;
    assert_ok(device->table->take(device->context, size_bytes, &address));
    return address;
}

static vw_device_ptr reserve(const vw_device *device, uint64_t size_bytes)
{
    vw_device_ptr address = VW_NULL;
    assert_ok(device->table->reserve(device->context, size_bytes, &address));
    return address;
}

static void give_back(const vw_device *device, vw_device_ptr address)
{
    assert_ok(device->table->give_back(device->context, address));
}

static vw_device_calls calls_of(const vw_device *device)
{
    vw_device_calls calls;
    assert_ok(vw_device_get_calls(device, &calls));
    return calls;
}

/* ---- options --------------------------------------------------------------------------------- */

static void without_options_it_is_80_gib_in_pages_of_2_mib(void **state)
{
    (void)state;
    vw_device *device = make(NULL);
    uint64_t free_bytes, total_bytes;
    assert_ok(device->table->memory_info(device->context, &free_bytes, &total_bytes));
    assert_int_equal(free_bytes, 80 * GIB);
    assert_int_equal(total_bytes, 80 * GIB);
    assert_int_equal(device->properties.total_bytes, 80 * GIB);
    assert_int_equal(device->properties.granularity_bytes, 2 * MIB);
    assert_string_equal(device->properties.name, "simulated");
    assert_int_equal(device->properties.index, 0);
    assert_true(device->properties.has_virtual_memory);
    assert_true(device->properties.has_pinned_memory);
    assert_false(device->properties.has_bytes);
    assert_false(device->properties.has_shareable_handles);
    vw_device_destroy(device);
}

static void total_bytes_may_differ_from_what_can_be_taken(void **state)
{
    (void)state;
    vw_simulated_options options = {.struct_size = sizeof options,
                                    .capacity_bytes = 4 * MIB,
                                    .total_bytes = 10 * MIB,
                                    .index = 3};
    vw_device *device = make(&options);
    uint64_t free_bytes, total_bytes;
    vw_device_ptr address = take(device, MIB);
    assert_ok(device->table->memory_info(device->context, &free_bytes, &total_bytes));
    assert_int_equal(free_bytes, 3 * MIB);
    assert_int_equal(total_bytes, 10 * MIB);
    assert_int_equal(device->properties.index, 3);
    give_back(device, address);
    vw_device_destroy(device);
}

static void an_older_and_shorter_options_struct_leaves_the_rest_at_its_default(void **state)
{
    (void)state;
    vw_simulated_options options = {.struct_size = offsetof(vw_simulated_options, total_bytes),
                                    .capacity_bytes = GIB,
                                    .total_bytes = 77,
                                    .granularity_bytes = 77};
    vw_device *device = make(&options);
    assert_int_equal(device->properties.total_bytes, GIB);
    assert_int_equal(device->properties.granularity_bytes, 2 * MIB);
    vw_device_destroy(device);
}

static void options_that_make_no_sense_are_refused_and_the_result_untouched(void **state)
{
    (void)state;
    vw_device *const untouched = (vw_device *)&state;
    vw_device *device = untouched;
    vw_simulated_options no_size = {.struct_size = 0};
    assert_status(VW_ERR_INVALID_ARGUMENT, vw_simulated_device_create(&no_size, &device));
    const uint64_t wrong[] = {1, 256, 3 * MIB, UINT64_C(1) << 63};
    for (int i = 0; i < 4; i++) {
        vw_simulated_options options = {.struct_size = sizeof options,
                                        .granularity_bytes = wrong[i]};
        assert_status(VW_ERR_INVALID_ARGUMENT, vw_simulated_device_create(&options, &device));
    }
    assert_ptr_equal(device, untouched);
    assert_status(VW_ERR_INVALID_ARGUMENT, vw_simulated_device_create(NULL, NULL));
    vw_device_destroy(NULL); /* does nothing */
}

static void with_manual_streams_events_wait_from_the_start(void **state)
{
    (void)state;
    vw_simulated_options options = {.struct_size = sizeof options, .manual_streams = true};
    vw_device *device = make(&options);
    vw_device_event event;
    assert_ok(device->table->event_create(device->context, &event));
    assert_ok(device->table->event_record(device->context, event, 5));
    assert_status(VW_ERR_NOT_READY, device->table->event_query(device->context, event));
    assert_ok(vw_device_complete(device, 5));
    assert_ok(device->table->event_query(device->context, event));
    vw_device_destroy(device);
}

/* ---- made-up addresses ----------------------------------------------------------------------- */

static void plain_memory_descends_in_steps_of_2_mib_and_does_not_look_back(void **state)
{
    (void)state;
    vw_device *device = make(NULL);
    vw_device_ptr first = take(device, 1);
    vw_device_ptr second = take(device, 20 * MIB);
    vw_device_ptr third = take(device, 2 * MIB + 1);
    assert_int_equal(first, VW__SIMULATED_PLAIN_TOP - 2 * MIB);
    assert_int_equal(second, first - 20 * MIB);
    assert_int_equal(third, second - 4 * MIB);
    give_back(device, second);
    assert_int_equal(take(device, 20 * MIB), third - 20 * MIB);
    vw_device_destroy(device);
}

static void reservations_ascend_back_to_back_in_steps_of_32_mib(void **state)
{
    (void)state;
    vw_device *device = make(NULL);
    vw_device_ptr first = reserve(device, 90 * GIB);
    vw_device_ptr second = reserve(device, 2 * MIB);
    vw_device_ptr third = reserve(device, 34 * MIB);
    assert_int_equal(first, VW__SIMULATED_RESERVED_BOTTOM);
    assert_int_equal(second, first + 90 * GIB);
    assert_int_equal(third, second + 32 * MIB);
    assert_int_equal(reserve(device, 2 * MIB), third + 64 * MIB);
    vw_device_destroy(device);
}

static void plain_addresses_start_again_from_the_top_when_they_are_used_up(void **state)
{
    (void)state;
    vw_device *device = make_large();
    uint64_t area_bytes = VW__SIMULATED_PLAIN_TOP - VW__SIMULATED_PLAIN_BOTTOM;
    vw_device_ptr out = UNTOUCHED;
    vw_device_ptr first = take(device, 8 * TIB);
    vw_device_ptr second = take(device, 8 * TIB);
    vw_device_ptr rest = take(device, area_bytes - 16 * TIB);
    assert_int_equal(rest, VW__SIMULATED_PLAIN_BOTTOM);
    assert_status(VW_ERR_OUT_OF_MEMORY, device->table->take(device->context, 1, &out));
    assert_last_error_has("no address range is free");
    assert_true(out == UNTOUCHED);
    give_back(device, first);
    vw_device_ptr again = take(device, 3 * TIB);
    assert_int_equal(again, VW__SIMULATED_PLAIN_TOP - 3 * TIB);
    assert_int_equal(take(device, 3 * TIB), VW__SIMULATED_PLAIN_TOP - 6 * TIB);
    assert_status(VW_ERR_OUT_OF_MEMORY, device->table->take(device->context, 3 * TIB, &out));
    give_back(device, again);
    give_back(device, second); /* past what is live, further down, comes before the top */
    assert_int_equal(take(device, 5 * TIB), VW__SIMULATED_PLAIN_TOP - 11 * TIB);
    vw_device_destroy(device);
}

static void reservations_start_again_from_the_bottom_when_addresses_are_used_up(void **state)
{
    (void)state;
    vw_device *device = make_large();
    uint64_t area_bytes = VW__SIMULATED_PLAIN_BOTTOM - VW__SIMULATED_RESERVED_BOTTOM;
    vw_device_ptr out = UNTOUCHED;
    vw_device_ptr first = reserve(device, 16 * TIB);
    reserve(device, area_bytes - 16 * TIB);
    assert_status(VW_ERR_OUT_OF_MEMORY, device->table->reserve(device->context, 2 * MIB, &out));
    assert_status(VW_ERR_OUT_OF_MEMORY,
                  device->table->reserve(device->context, UINT64_MAX - 2 * MIB + 1, &out));
    assert_true(out == UNTOUCHED);
    assert_ok(device->table->unreserve(device->context, first, 16 * TIB));
    assert_int_equal(reserve(device, 2 * MIB), VW__SIMULATED_RESERVED_BOTTOM);
    assert_int_equal(reserve(device, 2 * MIB), VW__SIMULATED_RESERVED_BOTTOM + 32 * MIB);
    vw_device_destroy(device);
}

/* ---- dictated addresses ---------------------------------------------------------------------- */

static void dictated_addresses_are_used_in_order_by_takes_and_reservations(void **state)
{
    (void)state;
    vw_device *device = make(NULL);
    vw_device_ptr before = take(device, MIB);
    assert_ok(vw_simulated_dictate_address(device, UINT64_C(0x7e0000000200)));
    assert_ok(vw_simulated_dictate_address(device, UINT64_C(0x300000000000)));
    assert_ok(vw_simulated_dictate_address(device, UINT64_C(0x7e0000100200)));
    assert_int_equal(take(device, MIB), UINT64_C(0x7e0000000200));
    assert_int_equal(reserve(device, 4 * MIB), UINT64_C(0x300000000000));
    assert_int_equal(take(device, MIB), UINT64_C(0x7e0000100200));
    assert_int_equal(take(device, MIB), before - 2 * MIB); /* back to made-up ones */
    vw_device_destroy(device);
}

static void thousands_of_addresses_can_wait(void **state)
{
    (void)state;
    vw_device *device = make(NULL);
    uint64_t dictated = 0, taken = 0;
    for (int round = 0; round < 200; round++) { /* the queue is longer at the end of each round */
        for (int i = 0; i < 50; i++)
            assert_ok(vw_simulated_dictate_address(device, TIB + 4096 * dictated++));
        for (int i = 0; i < 30; i++)
            assert_int_equal(take(device, 4096), TIB + 4096 * taken++);
    }
    while (taken < dictated)
        assert_int_equal(take(device, 4096), TIB + 4096 * taken++);
    for (uint64_t i = 0; i < taken; i++)
        give_back(device, TIB + 4096 * i);
    assert_int_equal(calls_of(device).in_use_bytes, 0);
    vw_device_destroy(device);
}

static void a_call_that_fails_leaves_its_dictated_address_for_the_retry(void **state)
{
    (void)state;
    vw_simulated_options options = {.struct_size = sizeof options, .capacity_bytes = 4 * MIB};
    vw_device *device = make(&options);
    vw_device_ptr first = take(device, 3 * MIB), out = UNTOUCHED;
    assert_ok(vw_simulated_dictate_address(device, TIB));
    assert_status(VW_ERR_OUT_OF_MEMORY, device->table->take(device->context, 2 * MIB, &out));
    assert_ok(vw_device_fail_call(device, 1, VW_ERR_DEVICE));
    assert_status(VW_ERR_DEVICE, device->table->take(device->context, MIB, &out));
    assert_true(out == UNTOUCHED);
    give_back(device, first);
    assert_int_equal(take(device, 2 * MIB), TIB);
    vw_device_destroy(device);
}

static void a_dictated_address_that_overlaps_what_is_live_is_refused(void **state)
{
    (void)state;
    vw_device *device = make(NULL);
    vw_device_ptr plain = take(device, 10 * MIB);
    vw_device_ptr reservation = reserve(device, 64 * MIB);
    const vw_device_ptr overlapping[] = {plain,       plain + 512,       plain - 4 * MIB + 512,
                                         reservation, reservation + MIB, reservation - 3 * MIB};
    char expected[32];
    for (int i = 0; i < 6; i++) {
        vw_device_ptr out = UNTOUCHED;
        assert_ok(vw_simulated_dictate_address(device, overlapping[i]));
        assert_status(VW_ERR_INVALID_ARGUMENT, device->table->take(device->context, 4 * MIB, &out));
        snprintf(expected, sizeof expected, "%#llx", (unsigned long long)overlapping[i]);
        assert_last_error_has(expected);
        assert_last_error_has("in use");
        assert_true(out == UNTOUCHED);
        vw_device_destroy(device);
        device = make(NULL);
        assert_int_equal(take(device, 10 * MIB), plain);
        assert_int_equal(reserve(device, 64 * MIB), reservation);
    }
    assert_ok(vw_simulated_dictate_address(device, plain - 4 * MIB)); /* right below it */
    assert_int_equal(take(device, 4 * MIB), plain - 4 * MIB);
    assert_ok(vw_simulated_dictate_address(device, reservation + 64 * MIB)); /* right above it */
    assert_int_equal(reserve(device, 4 * MIB), reservation + 64 * MIB);
    vw_device_destroy(device);
}

static void made_up_addresses_step_around_dictated_ones(void **state)
{
    (void)state;
    vw_device *device = make(NULL);
    vw_device_ptr top = VW__SIMULATED_PLAIN_TOP, bottom = VW__SIMULATED_RESERVED_BOTTOM;
    assert_ok(vw_simulated_dictate_address(device, top - 30 * MIB));
    take(device, 10 * MIB);
    assert_ok(vw_simulated_dictate_address(device, bottom + 2 * MIB));
    reserve(device, 40 * MIB);
    assert_int_equal(take(device, 20 * MIB), top - 20 * MIB);
    assert_int_equal(take(device, 2 * MIB), top - 32 * MIB);
    assert_int_equal(reserve(device, 4 * MIB), bottom + 64 * MIB);
    vw_device_destroy(device);
}

static void a_dictated_range_across_the_end_of_an_area_does_not_lead_out_of_it(void **state)
{
    (void)state;
    vw_device *device = make_large();
    vw_device_ptr out = UNTOUCHED;
    assert_ok(vw_simulated_dictate_address(device, VW__SIMULATED_PLAIN_BOTTOM - TIB));
    take(device, 2 * TIB);
    take(device, VW__SIMULATED_PLAIN_TOP - VW__SIMULATED_PLAIN_BOTTOM - 2 * TIB);
    assert_int_equal(take(device, TIB), VW__SIMULATED_PLAIN_BOTTOM + TIB);
    assert_status(VW_ERR_OUT_OF_MEMORY, device->table->take(device->context, 1, &out));
    assert_int_equal(
        reserve(device, VW__SIMULATED_PLAIN_BOTTOM - TIB - VW__SIMULATED_RESERVED_BOTTOM),
        VW__SIMULATED_RESERVED_BOTTOM);
    assert_status(VW_ERR_OUT_OF_MEMORY, device->table->reserve(device->context, 2 * MIB, &out));
    assert_true(out == UNTOUCHED);
    vw_device_destroy(device);
}

static void addresses_that_cannot_be_dictated_are_refused(void **state)
{
    (void)state;
    vw_device *device = make(NULL), *host = NULL;
    vw_device_ptr out = UNTOUCHED;
    assert_status(VW_ERR_INVALID_ARGUMENT, vw_simulated_dictate_address(device, VW_NULL));
    assert_status(VW_ERR_INVALID_ARGUMENT, vw_simulated_dictate_address(device, 100));
    assert_status(VW_ERR_INVALID_ARGUMENT, vw_simulated_dictate_address(NULL, TIB));
    assert_ok(vw_host_device_create(MIB, &host));
    assert_status(VW_ERR_INVALID_ARGUMENT, vw_simulated_dictate_address(host, TIB));
    vw_device_destroy(host);
    assert_ok(vw_simulated_dictate_address(device, TIB + 512)); /* good for plain memory only */
    assert_status(VW_ERR_INVALID_ARGUMENT, device->table->reserve(device->context, 2 * MIB, &out));
    assert_int_equal(take(device, 2 * MIB), TIB + 512);
    assert_ok(vw_simulated_dictate_address(device, UINT64_MAX - 511));
    assert_status(VW_ERR_INVALID_ARGUMENT, device->table->take(device->context, MIB, &out));
    assert_true(out == UNTOUCHED);
    vw_device_destroy(device);
}

/* ---- costs ----------------------------------------------------------------------------------- */

/* Measured on an H200 and read to about a fifth, as are the medians themselves; the 256 MiB
 * cudaMalloc lies under the straight line by more. */
static void default_costs_are_within_a_third_of_what_was_measured(void **state)
{
    (void)state;
    static const struct {
        vw_device_call call;
        uint64_t size_bytes;
        uint64_t measured_ns;
    } table[] = {
        {VW_DEVICE_CALL_TAKE, 2 * MIB, 47000},
        {VW_DEVICE_CALL_TAKE, 20 * MIB, 46000},
        {VW_DEVICE_CALL_TAKE, 256 * MIB, 62000},
        {VW_DEVICE_CALL_TAKE, GIB, 195000},
        {VW_DEVICE_CALL_TAKE, 4 * GIB, 604000},
        {VW_DEVICE_CALL_GIVE_BACK, 2 * MIB, 38000},
        {VW_DEVICE_CALL_GIVE_BACK, 20 * MIB, 53000},
        {VW_DEVICE_CALL_GIVE_BACK, 256 * MIB, 164000},
        {VW_DEVICE_CALL_GIVE_BACK, GIB, 556000},
        {VW_DEVICE_CALL_GIVE_BACK, 4 * GIB, 2329000},
        {VW_DEVICE_CALL_CREATE, 2 * MIB, 13300},
        {VW_DEVICE_CALL_CREATE, 256 * MIB, 19000},
        {VW_DEVICE_CALL_MAP, 20 * MIB, 1000},
        {VW_DEVICE_CALL_SET_ACCESS, 2 * MIB, 32600},
        {VW_DEVICE_CALL_SET_ACCESS, 256 * MIB, 49700},
        {VW_DEVICE_CALL_UNMAP, 20 * MIB, 19200},
        {VW_DEVICE_CALL_UNMAP, 256 * MIB, 26000},
        {VW_DEVICE_CALL_RELEASE, 2 * MIB, 13200},
        {VW_DEVICE_CALL_RELEASE, 20 * MIB, 21900},
        {VW_DEVICE_CALL_RELEASE, 256 * MIB, 134800},
        {VW_DEVICE_CALL_COPY, 2 * MIB, 5400},
        {VW_DEVICE_CALL_COPY, 256 * MIB, 131000},
        {VW_DEVICE_CALL_CREATE_ON_HOST, 32 * MIB, 14000000},
        {VW_DEVICE_CALL_CREATE_ON_HOST, 256 * MIB, 89000000},
        {VW_DEVICE_CALL_CREATE_ON_HOST, GIB, 373000000},
        {VW_DEVICE_CALL_ACCESS_ON_HOST, 2 * MIB, 120000},
        {VW_DEVICE_CALL_ACCESS_ON_HOST, 256 * MIB, 2900000},
        {VW_DEVICE_CALL_ACCESS_ON_HOST, GIB, 11000000},
        {VW_DEVICE_CALL_COPY_ON_HOST, 2 * MIB, 80000},
        {VW_DEVICE_CALL_COPY_ON_HOST, 32 * MIB, 750000},
        {VW_DEVICE_CALL_COPY_ON_HOST, 256 * MIB, 4900000},
        {VW_DEVICE_CALL_COPY_ON_HOST, GIB, 20000000},
        {VW_DEVICE_CALL_HOST_TAKE, 256 * MIB, 148000000},
        {VW_DEVICE_CALL_HOST_GIVE_BACK, 256 * MIB, 23000000},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const vw_call_cost *cost = &vw__simulated_costs[table[i].call];
        uint64_t line_ns = cost->base_ns + cost->ns_per_gib * (table[i].size_bytes / MIB) / 1024;
        if (line_ns * 3 < table[i].measured_ns * 2 || line_ns * 3 > table[i].measured_ns * 4)
            fail_msg("row %zu: %llu ns, measured %llu", i, (unsigned long long)line_ns,
                     (unsigned long long)table[i].measured_ns);
    }
}

static void each_call_is_charged_its_base_and_its_size_and_the_dearest_is_kept(void **state)
{
    (void)state;
    vw_simulated_options options = {.struct_size = sizeof options, .has_costs = true};
    options.costs[VW_DEVICE_CALL_TAKE] = (vw_call_cost){100, 4096};
    options.costs[VW_DEVICE_CALL_GIVE_BACK] = (vw_call_cost){7, 1024};
    vw_device *device = make(&options);
    vw_device_ptr address = take(device, 3 * GIB + GIB / 2);
    assert_int_equal(calls_of(device).elapsed_ns, 100 + 3 * 4096 + 2048);
    vw_device_ptr out;
    assert_status(VW_ERR_OUT_OF_MEMORY,
                  device->table->take(device->context, UINT64_MAX, &out)); /* its base only */
    assert_int_equal(calls_of(device).elapsed_ns, 100 + 3 * 4096 + 2048 + 100);
    give_back(device, address);
    assert_int_equal(calls_of(device).elapsed_ns, 100 + 3 * 4096 + 2048 + 100 + 7 + 3 * 1024 + 512);
    assert_int_equal(calls_of(device).longest_ns, 100 + 3 * 4096 + 2048);
    assert_int_equal(*vw_device_elapsed_counter(device), calls_of(device).elapsed_ns);
    assert_null(vw_device_elapsed_counter(NULL));
    vw_device_destroy(device);
}

static void calls_over_a_range_are_charged_for_each_handle_in_it(void **state)
{
    (void)state;
    vw_simulated_options options = {.struct_size = sizeof options, .has_costs = true};
    options.costs[VW_DEVICE_CALL_SET_ACCESS] = (vw_call_cost){1000, 512};
    options.costs[VW_DEVICE_CALL_UNMAP] = (vw_call_cost){10, 1024};
    vw_device *device = make(&options);
    const uint64_t sizes[] = {2 * MIB, 6 * MIB, 8 * MIB};
    vw_device_ptr base = reserve(device, 16 * MIB), next = base;
    for (int i = 0; i < 3; i++) {
        vw_handle handle;
        assert_ok(device->table->create(device->context, sizes[i], &handle));
        assert_ok(device->table->map(device->context, next, sizes[i], handle));
        assert_ok(device->table->release(device->context, handle));
        next += sizes[i];
    }
    assert_int_equal(calls_of(device).elapsed_ns, 0);
    assert_ok(device->table->set_access(device->context, base, 16 * MIB));
    assert_int_equal(calls_of(device).elapsed_ns, 3 * 1000 + 8);
    assert_ok(device->table->unmap(device->context, base, 16 * MIB));
    assert_int_equal(calls_of(device).elapsed_ns, 3 * 1000 + 8 + 3 * 10 + 16);
    assert_int_equal(calls_of(device).in_use_bytes, 0);
    vw_device_destroy(device);
}

static void copies_are_charged_and_fills_are_not(void **state)
{
    (void)state;
    vw_simulated_options options = {.struct_size = sizeof options, .has_costs = true};
    options.costs[VW_DEVICE_CALL_COPY] = (vw_call_cost){100, 4096};
    vw_device *device = make(&options);
    vw_device_ptr from = take(device, GIB), to = take(device, GIB);
    assert_ok(device->table->fill(device->context, from, 0, GIB, 0));
    assert_int_equal(calls_of(device).elapsed_ns, 0);
    assert_ok(device->table->copy(device->context, to, from, GIB / 2, 0));
    assert_int_equal(calls_of(device).elapsed_ns, 100 + 2048);
    assert_status(VW_ERR_INVALID_ARGUMENT,
                  device->table->copy(device->context, to, from, GIB + 1, 0)); /* its base only */
    assert_int_equal(calls_of(device).elapsed_ns, 100 + 2048 + 100);
    assert_int_equal(calls_of(device).count[VW_DEVICE_CALL_COPY], 2);
    vw_device_destroy(device);
}

/* ---- size ------------------------------------------------------------------------------------ */

/* The largest there is in practice: an eighth more than an H200, in pages of 2 MiB, all mapped. */
static void a_whole_h200_can_be_mapped_page_by_page(void **state)
{
    (void)state;
    vw_simulated_options options = {.struct_size = sizeof options, .capacity_bytes = 140 * GIB};
    vw_device *device = make(&options);
    uint64_t page_count = 140 * GIB / (2 * MIB);
    uint64_t reserved_bytes = 140 * GIB / 8 * 9;
    vw_device_ptr base = reserve(device, reserved_bytes);
    for (uint64_t i = 0; i < page_count; i++) {
        vw_handle handle;
        assert_ok(device->table->create(device->context, 2 * MIB, &handle));
        assert_ok(device->table->map(device->context, base + i * 2 * MIB, 2 * MIB, handle));
        assert_ok(device->table->release(device->context, handle));
    }
    vw_handle one_more;
    assert_status(VW_ERR_OUT_OF_MEMORY, device->table->create(device->context, 2 * MIB, &one_more));
    assert_ok(device->table->set_access(device->context, base, 140 * GIB));
    assert_ok(device->table->unmap(device->context, base, 140 * GIB));
    assert_int_equal(calls_of(device).in_use_bytes, 0);
    assert_int_equal(calls_of(device).peak_use_bytes, 140 * GIB);
    assert_ok(device->table->unreserve(device->context, base, reserved_bytes));
    vw_device_destroy(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_options_it_is_80_gib_in_pages_of_2_mib),
        cmocka_unit_test(total_bytes_may_differ_from_what_can_be_taken),
        cmocka_unit_test(an_older_and_shorter_options_struct_leaves_the_rest_at_its_default),
        cmocka_unit_test(options_that_make_no_sense_are_refused_and_the_result_untouched),
        cmocka_unit_test(with_manual_streams_events_wait_from_the_start),
        cmocka_unit_test(plain_memory_descends_in_steps_of_2_mib_and_does_not_look_back),
        cmocka_unit_test(reservations_ascend_back_to_back_in_steps_of_32_mib),
        cmocka_unit_test(plain_addresses_start_again_from_the_top_when_they_are_used_up),
        cmocka_unit_test(reservations_start_again_from_the_bottom_when_addresses_are_used_up),
        cmocka_unit_test(dictated_addresses_are_used_in_order_by_takes_and_reservations),
        cmocka_unit_test(thousands_of_addresses_can_wait),
        cmocka_unit_test(a_call_that_fails_leaves_its_dictated_address_for_the_retry),
        cmocka_unit_test(a_dictated_address_that_overlaps_what_is_live_is_refused),
        cmocka_unit_test(made_up_addresses_step_around_dictated_ones),
        cmocka_unit_test(a_dictated_range_across_the_end_of_an_area_does_not_lead_out_of_it),
        cmocka_unit_test(addresses_that_cannot_be_dictated_are_refused),
        cmocka_unit_test(default_costs_are_within_a_third_of_what_was_measured),
        cmocka_unit_test(each_call_is_charged_its_base_and_its_size_and_the_dearest_is_kept),
        cmocka_unit_test(calls_over_a_range_are_charged_for_each_handle_in_it),
        cmocka_unit_test(copies_are_charged_and_fills_are_not),
        cmocka_unit_test(a_whole_h200_can_be_mapped_page_by_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
