/* device_contract.c - what every device promises: memory, mappings, streams, bytes, threads.
 *
 * These checks hold on a GPU that others use at the same time, so they never expect exact numbers
 * of free bytes there; devices that tests can script have no other users, and are held to the byte.
 */
#include "contract/device_contract.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/device_table.h"

#define MIB (UINT64_C(1) << 20)
#define UNTOUCHED UINT64_C(0x5a5a5a5a5a5a5a5a) /* what out-parameters hold before a call */

/* ---- vocabulary ------------------------------------------------------------------------------ */

static const vw_test_device_factory *factory_in_use;

void vw_test_use_factory(const vw_test_device_factory *factory)
{
    factory_in_use = factory;
}

void vw_test_check_status(vw_status expected, vw_status found, const char *expression,
                          const char *file, int line)
{
    if (found == expected)
        return;
    print_error("%s\n  answered %s, expected %s; last error: %s\n", expression,
                vw_status_name(found), vw_status_name(expected), vw_last_error());
    _fail(file, line);
}

void vw_test_check_last_error(const char *part, const char *file, int line)
{
    if (strstr(vw_last_error(), part) != NULL)
        return;
    print_error("expected \"%s\" in the last error: %s\n", part, vw_last_error());
    _fail(file, line);
}

bool vw_test_is_scripted(const vw_device *device)
{
    vw_device_calls calls;
    return vw_device_get_calls(device, &calls) == VW_OK;
}

int vw_test_make_device(void **state)
{
    vw_device *device = NULL;
    assert_ok(factory_in_use->make(factory_in_use->context, &device));
    assert_non_null(device);
    *state = device;
    return 0;
}

int vw_test_end_device(void **state)
{
    vw_device_destroy(*state);
    return 0;
}

static uint64_t free_bytes_of(const vw_device *device)
{
    uint64_t free_bytes = 0, total_bytes = 0;
    assert_ok(device->table->memory_info(device->context, &free_bytes, &total_bytes));
    return free_bytes;
}

/* Some bytes that look like nothing else. */
static void make_pattern(uint8_t *bytes, size_t count, uint8_t seed)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(seed + 7 * i + i / 251);
}

static void assert_pattern_at(const vw_device *device, vw_device_ptr address, size_t count,
                              uint8_t seed)
{
    uint8_t *expected = malloc(count), *found = malloc(count);
    assert_non_null(expected);
    assert_non_null(found);
    make_pattern(expected, count, seed);
    assert_ok(device->table->read(device->context, found, address, count));
    assert_memory_equal(expected, found, count);
    free(expected);
    free(found);
}

static void write_pattern_at(const vw_device *device, vw_device_ptr address, size_t count,
                             uint8_t seed)
{
    uint8_t *bytes = malloc(count);
    assert_non_null(bytes);
    make_pattern(bytes, count, seed);
    assert_ok(device->table->write(device->context, address, bytes, count));
    free(bytes);
}

/* ---- what a device says of itself ------------------------------------------------------------ */

static void properties_agree_with_memory_info_and_with_each_other(void **state)
{
    const vw_device *device = *state;
    const vw_device_properties *properties = &device->properties;
    uint64_t free_bytes = 0, total_bytes = 0;
    assert_ok(device->table->memory_info(device->context, &free_bytes, &total_bytes));
    assert_true(device->table->struct_size >= sizeof(vw_device_table));
    assert_true(properties->name[0] != '\0');
    assert_true(memchr(properties->name, '\0', sizeof properties->name) != NULL);
    assert_true(properties->total_bytes > 0);
    if (vw_test_is_scripted(device)) /* a driver may keep a little for itself */
        assert_int_equal(total_bytes, properties->total_bytes);
    assert_true(free_bytes >= 64 * MIB && free_bytes <= total_bytes);
    if (properties->has_virtual_memory)
        assert_true(properties->granularity_bytes >= 512);
    else
        assert_true(properties->granularity_bytes == 0 && !properties->has_shareable_handles &&
                    !properties->has_rdma_handles && !properties->has_host_handles);
}

static void processes_are_counted_and_stored_only_where_there_is_room(void **state)
{
    const vw_device *device = *state;
    size_t count = SIZE_MAX;
    need(device->table->processes != NULL, "the device cannot know its processes");
    vw_status status = device->table->processes(device->context, NULL, 0, &count);
    need(status != VW_ERR_UNSUPPORTED, "the device cannot know its processes");
    assert_ok(status);
    assert_true(count != SIZE_MAX);

    vw_process_memory entries[2] = {{.pid = 77}, {.pid = 77}};
    size_t again = 0;
    assert_ok(device->table->processes(device->context, entries, 1, &again));
    assert_int_equal(entries[1].pid, 77);
    if (again > 0) {
        assert_int_not_equal(entries[0].pid, 77);
        assert_int_equal(entries[0].is_this_process, entries[0].pid == (uint32_t)getpid());
    }
}

/* ---- plain memory ---------------------------------------------------------------------------- */

static void plain_memory_is_aligned_and_ranges_do_not_overlap(void **state)
{
    const vw_device *device = *state;
    const uint64_t sizes[] = {1, 512, 513, 4096, MIB, 2 * MIB + 1, 3 * MIB};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    vw_device_ptr addresses[COUNT];
    for (int i = 0; i < COUNT; i++) {
        addresses[i] = VW_NULL;
        assert_ok(device->table->take(device->context, sizes[i], &addresses[i]));
        assert_true(addresses[i] != VW_NULL);
        assert_int_equal(addresses[i] % 512, 0);
        for (int j = 0; j < i; j++)
            assert_true(addresses[i] + sizes[i] <= addresses[j] ||
                        addresses[j] + sizes[j] <= addresses[i]);
    }
    for (int i = 0; i < COUNT; i++)
        assert_ok(device->table->give_back(device->context, addresses[i]));
}

static void a_request_larger_than_the_device_is_refused_and_changes_nothing(void **state)
{
    const vw_device *device = *state;
    uint64_t size_bytes = 2 * device->properties.total_bytes;
    uint64_t free_bytes = free_bytes_of(device);
    vw_device_ptr address = UNTOUCHED;
    assert_status(VW_ERR_OUT_OF_MEMORY, device->table->take(device->context, size_bytes, &address));
    assert_true(address == UNTOUCHED);
    assert_true(vw_last_error()[0] != '\0');
    if (device->properties.has_virtual_memory) {
        vw_handle handle = UNTOUCHED;
        size_bytes -= size_bytes % device->properties.granularity_bytes;
        assert_status(VW_ERR_OUT_OF_MEMORY,
                      device->table->create(device->context, size_bytes, &handle));
        assert_true(handle == UNTOUCHED);
    }
    if (vw_test_is_scripted(device))
        assert_int_equal(free_bytes_of(device), free_bytes);
    assert_ok(device->table->take(device->context, MIB, &address));
    assert_ok(device->table->give_back(device->context, address));
}

/* `size_bytes` were taken between the two looks. */
static void assert_fell_by(const vw_device *device, uint64_t before, uint64_t size_bytes)
{
    uint64_t after = free_bytes_of(device);
    if (vw_test_is_scripted(device))
        assert_int_equal(before - after, size_bytes);
    else
        assert_true(after < before);
}

static void assert_returned(const vw_device *device, uint64_t before, uint64_t size_bytes)
{
    uint64_t after = free_bytes_of(device);
    if (vw_test_is_scripted(device))
        assert_int_equal(after, before);
    else
        assert_true(after + size_bytes / 2 > before);
}

static void free_bytes_go_down_by_what_is_taken_and_come_back(void **state)
{
    const vw_device *device = *state;
    uint64_t before = free_bytes_of(device);
    vw_device_ptr address;
    assert_ok(device->table->take(device->context, 32 * MIB, &address));
    assert_fell_by(device, before, 32 * MIB);
    assert_ok(device->table->give_back(device->context, address));
    assert_returned(device, before, 32 * MIB);
}

/* ---- virtual memory -------------------------------------------------------------------------- */

static void need_virtual_memory(const vw_device *device)
{
    need(device->properties.has_virtual_memory, "the device has no virtual memory");
}

/* A reservation of `granules`, and a handle of `handle_granules` mapped at its start with access.
 */
typedef struct mapped {
    vw_device_ptr address;
    uint64_t reserved_bytes;
    uint64_t handle_bytes;
    vw_handle handle;
} mapped;

static mapped map_one(const vw_device *device, uint64_t granules, uint64_t handle_granules)
{
    uint64_t granularity_bytes = device->properties.granularity_bytes;
    mapped made = {.reserved_bytes = granules * granularity_bytes,
                   .handle_bytes = handle_granules * granularity_bytes};
    assert_ok(device->table->reserve(device->context, made.reserved_bytes, &made.address));
    assert_ok(device->table->create(device->context, made.handle_bytes, &made.handle));
    assert_ok(device->table->map(device->context, made.address, made.handle_bytes, made.handle));
    assert_ok(device->table->set_access(device->context, made.address, made.handle_bytes));
    return made;
}

static void unmap_one(const vw_device *device, const mapped *made)
{
    assert_ok(device->table->unmap(device->context, made->address, made->handle_bytes));
    assert_ok(device->table->release(device->context, made->handle));
    assert_ok(device->table->unreserve(device->context, made->address, made->reserved_bytes));
}

static void a_handle_lives_from_create_to_release_and_its_memory_comes_back(void **state)
{
    const vw_device *device = *state;
    need_virtual_memory(device);
    uint64_t before = free_bytes_of(device);
    uint64_t granules = 32 * MIB / device->properties.granularity_bytes;
    mapped made = map_one(device, granules, granules);
    assert_fell_by(device, before, made.handle_bytes);
    unmap_one(device, &made);
    assert_returned(device, before, made.handle_bytes);
}

static void reservations_start_on_a_granule_take_no_memory_and_do_not_overlap(void **state)
{
    const vw_device *device = *state;
    need_virtual_memory(device);
    enum { COUNT = 5 };
    uint64_t granularity_bytes = device->properties.granularity_bytes;
    uint64_t before = free_bytes_of(device);
    vw_device_ptr addresses[COUNT];
    uint64_t sizes[COUNT];
    for (uint64_t i = 0; i < COUNT; i++) {
        sizes[i] = (1 + 3 * i) * granularity_bytes;
        assert_ok(device->table->reserve(device->context, sizes[i], &addresses[i]));
        assert_int_equal(addresses[i] % granularity_bytes, 0);
        for (uint64_t j = 0; j < i; j++)
            assert_true(addresses[i] + sizes[i] <= addresses[j] ||
                        addresses[j] + sizes[j] <= addresses[i]);
    }
    if (vw_test_is_scripted(device))
        assert_int_equal(free_bytes_of(device), before);
    for (int i = 0; i < COUNT; i++)
        assert_ok(device->table->unreserve(device->context, addresses[i], sizes[i]));
}

static void a_reservation_may_be_larger_than_the_device(void **state)
{
    const vw_device *device = *state;
    need_virtual_memory(device);
    uint64_t size_bytes = device->properties.total_bytes / 8 * 9;
    size_bytes -= size_bytes % device->properties.granularity_bytes;
    vw_device_ptr address;
    assert_ok(device->table->reserve(device->context, size_bytes, &address));
    assert_ok(device->table->unreserve(device->context, address, size_bytes));
}

static void one_unmapping_and_one_set_access_may_cover_several_mappings(void **state)
{
    const vw_device *device = *state;
    need_virtual_memory(device);
    enum { COUNT = 4 };
    uint64_t granularity_bytes = device->properties.granularity_bytes;
    vw_device_ptr address;
    vw_handle handles[COUNT];
    assert_ok(device->table->reserve(device->context, COUNT * granularity_bytes, &address));
    for (uint64_t i = 0; i < COUNT; i++) {
        assert_ok(device->table->create(device->context, granularity_bytes, &handles[i]));
        assert_ok(device->table->map(device->context, address + i * granularity_bytes,
                                     granularity_bytes, handles[i]));
    }
    assert_ok(device->table->set_access(device->context, address, COUNT * granularity_bytes));
    if (device->properties.has_bytes) { /* across the seams */
        write_pattern_at(device, address, COUNT * granularity_bytes, 3);
        assert_pattern_at(device, address, COUNT * granularity_bytes, 3);
    }
    assert_ok(device->table->unmap(device->context, address, COUNT * granularity_bytes));
    for (int i = 0; i < COUNT; i++)
        assert_ok(device->table->release(device->context, handles[i]));
    assert_ok(device->table->unreserve(device->context, address, COUNT * granularity_bytes));
}

static void need_virtual_bytes(const vw_device *device)
{
    need_virtual_memory(device);
    need(device->properties.has_bytes, "the device has no bytes");
}

static void two_mappings_of_one_handle_are_the_same_memory(void **state)
{
    const vw_device *device = *state;
    need_virtual_bytes(device);
    mapped made = map_one(device, 2, 1);
    vw_device_ptr second = made.address + made.handle_bytes;
    assert_ok(device->table->map(device->context, second, made.handle_bytes, made.handle));
    assert_ok(device->table->set_access(device->context, second, made.handle_bytes));
    write_pattern_at(device, made.address, made.handle_bytes, 11);
    assert_pattern_at(device, second, made.handle_bytes, 11);
    write_pattern_at(device, second, made.handle_bytes, 12);
    assert_pattern_at(device, made.address, made.handle_bytes, 12);
    assert_ok(device->table->unmap(device->context, second, made.handle_bytes));
    assert_pattern_at(device, made.address, made.handle_bytes, 12); /* the other is still there */
    unmap_one(device, &made);
}

static void data_survives_remapping_at_another_address(void **state)
{
    const vw_device *device = *state;
    need_virtual_bytes(device);
    mapped made = map_one(device, 3, 1);
    vw_device_ptr target = made.address + 2 * made.handle_bytes;
    write_pattern_at(device, made.address, made.handle_bytes, 21);
    assert_ok(device->table->unmap(device->context, made.address, made.handle_bytes));
    assert_ok(device->table->map(device->context, target, made.handle_bytes, made.handle));
    assert_ok(device->table->set_access(device->context, target, made.handle_bytes));
    assert_pattern_at(device, target, made.handle_bytes, 21);
    assert_ok(device->table->unmap(device->context, target, made.handle_bytes));
    assert_ok(device->table->release(device->context, made.handle));
    assert_ok(device->table->unreserve(device->context, made.address, made.reserved_bytes));
}

static void a_handle_released_while_mapped_keeps_its_memory_until_unmapped(void **state)
{
    const vw_device *device = *state;
    need_virtual_memory(device);
    uint64_t before = free_bytes_of(device);
    uint64_t granules = 32 * MIB / device->properties.granularity_bytes;
    mapped made = map_one(device, granules, granules);
    assert_ok(device->table->release(device->context, made.handle));
    assert_fell_by(device, before, made.handle_bytes);
    if (device->properties.has_bytes) {
        write_pattern_at(device, made.address, MIB, 31);
        assert_pattern_at(device, made.address, MIB, 31);
    }
    assert_ok(device->table->unmap(device->context, made.address, made.handle_bytes));
    assert_returned(device, before, made.handle_bytes);
    assert_ok(device->table->unreserve(device->context, made.address, made.reserved_bytes));
}

static void a_device_without_virtual_memory_says_so(void **state)
{
    const vw_device *device = *state;
    need(!device->properties.has_virtual_memory, "the device has virtual memory");
    vw_device_ptr address = UNTOUCHED;
    vw_handle handle = UNTOUCHED;
    assert_status(VW_ERR_UNSUPPORTED, device->table->reserve(device->context, 2 * MIB, &address));
    assert_status(VW_ERR_UNSUPPORTED, device->table->create(device->context, 2 * MIB, &handle));
    assert_status(VW_ERR_UNSUPPORTED, device->table->map(device->context, 2 * MIB, 2 * MIB, 1));
    assert_status(VW_ERR_UNSUPPORTED, device->table->set_access(device->context, 2 * MIB, 2 * MIB));
    assert_status(VW_ERR_UNSUPPORTED, device->table->unmap(device->context, 2 * MIB, 2 * MIB));
    assert_status(VW_ERR_UNSUPPORTED, device->table->release(device->context, 1));
    assert_status(VW_ERR_UNSUPPORTED, device->table->unreserve(device->context, 2 * MIB, 2 * MIB));
    assert_true(address == UNTOUCHED && handle == UNTOUCHED);
}

/* ---- streams and events ---------------------------------------------------------------------- */

static void an_event_that_was_never_recorded_is_complete(void **state)
{
    const vw_device *device = *state;
    vw_device_event event = 0;
    assert_ok(device->table->event_create(device->context, &event));
    assert_true(event != 0);
    assert_ok(device->table->event_query(device->context, event));
    assert_ok(device->table->event_synchronize(device->context, event));
    assert_ok(device->table->event_destroy(device->context, event));
}

static void an_event_is_complete_after_each_kind_of_synchronize(void **state)
{
    const vw_device *device = *state;
    const vw_device_table *table = device->table;
    vw_stream stream = 0;
    vw_device_event event;
    assert_ok(table->stream_create(device->context, &stream));
    assert_true(stream != 0);
    assert_ok(table->event_create(device->context, &event));
    vw_stream both[] = {stream, 0};
    for (int i = 0; i < 2; i++) {
        assert_ok(table->event_record(device->context, event, both[i]));
        assert_ok(table->stream_synchronize(device->context, both[i]));
        assert_ok(table->event_query(device->context, event));
        assert_ok(table->event_record(device->context, event, both[i]));
        assert_ok(table->event_synchronize(device->context, event));
        assert_ok(table->event_query(device->context, event));
        assert_ok(table->event_record(device->context, event, both[i]));
        assert_ok(table->synchronize(device->context));
        assert_ok(table->event_query(device->context, event));
        vw_status of_all = VW_ERR_UNSUPPORTED;
        if (VW__DEVICE_TABLE_HAS(table, event_record_all))
            of_all = table->event_record_all(device->context, event);
        if (of_all != VW_ERR_UNSUPPORTED)
            assert_ok(of_all);
        assert_ok(table->stream_wait_event(device->context, both[i], event));
        assert_ok(table->stream_synchronize(device->context, both[i]));
        assert_ok(table->event_query(device->context, event));
    }
    assert_ok(table->event_destroy(device->context, event));
    assert_ok(table->stream_destroy(device->context, stream));
}

static void a_stream_can_wait_for_an_event_of_another_and_is_not_capturing(void **state)
{
    const vw_device *device = *state;
    const vw_device_table *table = device->table;
    vw_stream first, second;
    vw_device_event event;
    assert_ok(table->stream_create(device->context, &first));
    assert_ok(table->stream_create(device->context, &second));
    assert_true(first != second);
    assert_ok(table->event_create(device->context, &event));
    assert_ok(table->event_record(device->context, event, first));
    assert_ok(table->stream_wait_event(device->context, second, event));
    assert_ok(table->stream_synchronize(device->context, second));
    bool is_capturing = true;
    assert_ok(table->stream_is_capturing(device->context, first, &is_capturing));
    assert_false(is_capturing);
    uint64_t capture = 77;
    size_t node_count = 77;
    vw_status told = VW_ERR_UNSUPPORTED;
    if (VW__DEVICE_TABLE_HAS(table, stream_capture_nodes))
        told = table->stream_capture_nodes(device->context, first, &capture, NULL, 0, &node_count);
    if (told != VW_ERR_UNSUPPORTED) {
        assert_ok(told);
        assert_true(capture == 0 && node_count == 0);
    }
    assert_ok(table->event_destroy(device->context, event));
    assert_ok(table->stream_destroy(device->context, first));
    assert_ok(table->stream_destroy(device->context, second));
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void bytes_written_to_plain_memory_are_read_back(void **state)
{
    const vw_device *device = *state;
    need(device->properties.has_bytes, "the device has no bytes");
    vw_device_ptr address;
    assert_ok(device->table->take(device->context, MIB, &address));
    write_pattern_at(device, address, MIB, 41);
    assert_pattern_at(device, address, MIB, 41);
    write_pattern_at(device, address + 1000, 77, 42); /* and in the middle, at odd sizes */
    assert_pattern_at(device, address + 1000, 77, 42);
    assert_ok(device->table->give_back(device->context, address));
}

static void filling_and_copying_happen_in_the_order_of_their_stream(void **state)
{
    const vw_device *device = *state;
    const vw_device_table *table = device->table;
    need(device->properties.has_bytes, "the device has no bytes");
    vw_device_ptr from, to;
    vw_stream stream;
    assert_ok(table->take(device->context, MIB, &from));
    assert_ok(table->take(device->context, MIB, &to));
    assert_ok(table->stream_create(device->context, &stream));
    assert_ok(table->fill(device->context, from, 0xa5, MIB, stream));
    assert_ok(table->fill(device->context, from, 0x5a, MIB / 2, stream));
    assert_ok(table->copy(device->context, to, from, MIB, stream));
    assert_ok(table->fill(device->context, from, 0, MIB, stream));
    assert_ok(table->stream_synchronize(device->context, stream));
    uint8_t *found = malloc(MIB);
    assert_non_null(found);
    assert_ok(table->read(device->context, found, to, MIB));
    for (size_t i = 0; i < MIB; i++)
        if (found[i] != (i < MIB / 2 ? 0x5a : 0xa5))
            fail_msg("byte %zu is %#x", i, found[i]);
    free(found);
    assert_ok(table->stream_destroy(device->context, stream));
    assert_ok(table->give_back(device->context, from));
    assert_ok(table->give_back(device->context, to));
}

static void a_device_without_bytes_has_none_to_read_but_fills_and_copies(void **state)
{
    const vw_device *device = *state;
    need(!device->properties.has_bytes, "the device has bytes");
    vw_device_ptr address;
    uint8_t byte = 7;
    assert_ok(device->table->take(device->context, MIB, &address));
    assert_status(VW_ERR_UNSUPPORTED, device->table->write(device->context, address, &byte, 1));
    assert_status(VW_ERR_UNSUPPORTED, device->table->read(device->context, &byte, address, 1));
    assert_ok(device->table->fill(device->context, address, 0, MIB, 0));
    assert_ok(device->table->copy(device->context, address, address + 512, 512, 0));
    assert_int_equal(byte, 7);
    assert_ok(device->table->give_back(device->context, address));
}

/* ---- page-locked host memory ----------------------------------------------------------------- */

static void pinned_memory_can_be_written_by_the_cpu(void **state)
{
    const vw_device *device = *state;
    need(device->properties.has_pinned_memory, "the device has no pinned memory");
    void *memory[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        assert_ok(device->table->host_take(device->context, MIB, &memory[i]));
        assert_non_null(memory[i]);
        assert_int_equal((uintptr_t)memory[i] % 512, 0);
        memset(memory[i], 0x60 + i, MIB);
    }
    assert_int_equal(((uint8_t *)memory[0])[MIB - 1], 0x60);
    assert_int_equal(((uint8_t *)memory[1])[0], 0x61);
    for (int i = 0; i < 2; i++)
        assert_ok(device->table->host_give_back(device->context, memory[i]));
}

static void memory_the_caller_has_already_can_be_registered(void **state)
{
    const vw_device *device = *state;
    need(device->properties.has_pinned_memory, "the device has no pinned memory");
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, 4096, MIB), 0);
    memset(memory, 0x77, MIB);
    assert_ok(device->table->host_register(device->context, memory, MIB));
    assert_int_equal(((uint8_t *)memory)[MIB / 2], 0x77);
    assert_ok(device->table->host_unregister(device->context, memory));
    free(memory);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 40 };

/* One round of everything; the status of the first call that failed. */
static vw_status work_one_round(const vw_device *device)
{
    const vw_device_table *table = device->table;
    uint64_t size_bytes = device->properties.granularity_bytes;
    vw_device_ptr plain, address;
    vw_handle handle;
    vw_device_event event;
    vw_status status;
#define DO(call)                                                                                   \
    if ((status = (call)) != VW_OK)                                                                \
    return status
    DO(table->take(device->context, MIB, &plain));
    DO(table->event_create(device->context, &event));
    DO(table->event_record(device->context, event, 0));
    if (device->properties.has_virtual_memory) {
        DO(table->reserve(device->context, size_bytes, &address));
        DO(table->create(device->context, size_bytes, &handle));
        DO(table->map(device->context, address, size_bytes, handle));
        DO(table->set_access(device->context, address, size_bytes));
        if (device->properties.has_bytes)
            DO(table->fill(device->context, address, 1, size_bytes, 0));
        DO(table->stream_synchronize(device->context, 0));
        DO(table->unmap(device->context, address, size_bytes));
        DO(table->release(device->context, handle));
        DO(table->unreserve(device->context, address, size_bytes));
    }
    DO(table->event_synchronize(device->context, event));
    DO(table->event_query(device->context, event));
    DO(table->event_destroy(device->context, event));
    DO(table->give_back(device->context, plain));
#undef DO
    return VW_OK;
}

typedef struct worker {
    const vw_device *device;
    vw_status status;
    char detail[200];
} worker;

static void *work(void *argument)
{
    worker *self = argument;
    for (int i = 0; i < ROUNDS && self->status == VW_OK; i++)
        self->status = work_one_round(self->device);
    snprintf(self->detail, sizeof self->detail, "%s", vw_last_error());
    return NULL;
}

static void several_threads_at_once_do_not_disturb_each_other(void **state)
{
    const vw_device *device = *state;
    pthread_t threads[THREADS];
    worker workers[THREADS];
    uint64_t before = free_bytes_of(device);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.device = device, .status = VW_OK};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        if (workers[i].status != VW_OK)
            fail_msg("thread %d: %s: %s", i, vw_status_name(workers[i].status), workers[i].detail);
    assert_returned(device, before, 2 * MIB);
}

/* ---- contents -------------------------------------------------------------------------------- */

#define check(name) cmocka_unit_test_setup_teardown(name, vw_test_make_device, vw_test_end_device)

int vw_test_device_contract(const vw_test_device_factory *factory)
{
    const struct CMUnitTest tests[] = {
        check(properties_agree_with_memory_info_and_with_each_other),
        check(processes_are_counted_and_stored_only_where_there_is_room),
        check(plain_memory_is_aligned_and_ranges_do_not_overlap),
        check(a_request_larger_than_the_device_is_refused_and_changes_nothing),
        check(free_bytes_go_down_by_what_is_taken_and_come_back),
        check(a_handle_lives_from_create_to_release_and_its_memory_comes_back),
        check(reservations_start_on_a_granule_take_no_memory_and_do_not_overlap),
        check(a_reservation_may_be_larger_than_the_device),
        check(one_unmapping_and_one_set_access_may_cover_several_mappings),
        check(two_mappings_of_one_handle_are_the_same_memory),
        check(data_survives_remapping_at_another_address),
        check(a_handle_released_while_mapped_keeps_its_memory_until_unmapped),
        check(a_device_without_virtual_memory_says_so),
        check(an_event_that_was_never_recorded_is_complete),
        check(an_event_is_complete_after_each_kind_of_synchronize),
        check(a_stream_can_wait_for_an_event_of_another_and_is_not_capturing),
        check(bytes_written_to_plain_memory_are_read_back),
        check(filling_and_copying_happen_in_the_order_of_their_stream),
        check(a_device_without_bytes_has_none_to_read_but_fills_and_copies),
        check(pinned_memory_can_be_written_by_the_cpu),
        check(memory_the_caller_has_already_can_be_registered),
        check(several_threads_at_once_do_not_disturb_each_other),
    };
    vw_test_use_factory(factory);
    int failed = cmocka_run_group_tests_name(factory->name, tests, NULL, NULL);
    failed += vw_test_sharing_contract(factory);
    failed += vw_test_host_handles_contract(factory);
    return failed + vw_test_stand_in_contract(factory);
}
