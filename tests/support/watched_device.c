/* watched_device.c - see watched_device.h. */
#include "support/watched_device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The device's functions get its own context, so the watcher is found here. */
static vw_test_watched *watching;

static void out_of_memory(void)
{
    fprintf(stderr, "no memory for the books of a watched device\n");
    abort();
}

static void note(uint64_t name, uint64_t size_bytes, bool is_handle, bool is_on_host)
{
    vw_test_watched *w = watching;
    if (w->held_count == w->held_capacity) {
        w->held_capacity = w->held_capacity != 0 ? 2 * w->held_capacity : 256;
        w->held = realloc(w->held, w->held_capacity * sizeof *w->held);
        if (w->held == NULL)
            out_of_memory();
    }
    w->held[w->held_count++] = (vw_test_held){
        .name = name, .size_bytes = size_bytes, .is_handle = is_handle, .is_on_host = is_on_host};
}

static vw_test_held *find(uint64_t name, bool is_handle)
{
    for (size_t i = 0; i < watching->held_count; i++)
        if (watching->held[i].name == name && watching->held[i].is_handle == is_handle)
            return &watching->held[i];
    return NULL;
}

static void forget(vw_test_held *held)
{
    if (held != NULL)
        *held = watching->held[--watching->held_count];
}

static bool is_mapped(vw_handle handle)
{
    for (size_t i = 0; i < watching->mapping_count; i++)
        if (watching->mappings[i].handle == handle)
            return true;
    return false;
}

static vw_status counted(vw_status status)
{
    watching->refusal_count += status != VW_OK;
    return status;
}

/* ---- the functions --------------------------------------------------------------------------- */

static vw_status take(void *context, uint64_t size_bytes, vw_device_ptr *out)
{
    vw_status status = counted(watching->real->table->take(context, size_bytes, out));
    if (status == VW_OK)
        note(*out, size_bytes, false, false);
    return status;
}

static vw_status give_back(void *context, vw_device_ptr address)
{
    vw_status status = counted(watching->real->table->give_back(context, address));
    vw_test_held *held = find(address, false);
    if (status == VW_OK)
        forget(held);
    else if (held != NULL)
        held->was_refused = true;
    return status;
}

static vw_status create(void *context, uint64_t size_bytes, vw_handle *out)
{
    vw_status status = counted(watching->real->table->create(context, size_bytes, out));
    if (status == VW_OK)
        note(*out, size_bytes, true, false);
    return status;
}

static vw_status create_on_host(void *context, uint64_t size_bytes, vw_handle *out)
{
    vw_status status = counted(watching->real->table->create_on_host(context, size_bytes, out));
    if (status == VW_OK)
        note(*out, size_bytes, true, true);
    return status;
}

static vw_status release(void *context, vw_handle handle)
{
    vw_status status = counted(watching->real->table->release(context, handle));
    vw_test_held *held = find(handle, true);
    if (held == NULL)
        return status;
    held->was_refused = status != VW_OK;
    held->is_released |= status == VW_OK;
    if (held->is_released && !is_mapped(handle))
        forget(held);
    return status;
}

static vw_status map(void *context, vw_device_ptr address, uint64_t size_bytes, vw_handle handle)
{
    vw_test_watched *w = watching;
    vw_status status = counted(w->real->table->map(context, address, size_bytes, handle));
    if (status != VW_OK)
        return status;
    if (w->mapping_count == w->mapping_capacity) {
        w->mapping_capacity = w->mapping_capacity != 0 ? 2 * w->mapping_capacity : 256;
        w->mappings = realloc(w->mappings, w->mapping_capacity * sizeof *w->mappings);
        if (w->mappings == NULL)
            out_of_memory();
    }
    w->mappings[w->mapping_count++] =
        (vw_test_mapping){.address = address, .size_bytes = size_bytes, .handle = handle};
    return status;
}

static vw_status unmap(void *context, vw_device_ptr address, uint64_t size_bytes)
{
    vw_test_watched *w = watching;
    vw_status status = counted(w->real->table->unmap(context, address, size_bytes));
    for (size_t i = w->mapping_count; i-- > 0;) {
        vw_test_mapping *mapping = &w->mappings[i];
        if (mapping->address < address || mapping->address >= address + size_bytes)
            continue;
        mapping->was_refused = status != VW_OK;
        if (status != VW_OK)
            continue;
        vw_handle handle = mapping->handle;
        *mapping = w->mappings[--w->mapping_count];
        vw_test_held *held = find(handle, true);
        if (held != NULL && held->is_released && !is_mapped(handle))
            forget(held);
    }
    return status;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

void vw_test_watched_open(vw_test_watched *watched, vw_device *real)
{
    *watched = (vw_test_watched){.real = real, .device = *real, .table = *real->table};
    watched->table.take = take;
    watched->table.give_back = give_back;
    watched->table.create = create;
    watched->table.release = release;
    watched->table.map = map;
    watched->table.unmap = unmap;
    if (watched->table.create_on_host != NULL)
        watched->table.create_on_host = create_on_host;
    watched->device.table = &watched->table;
    watching = watched;
}

void vw_test_watched_close(vw_test_watched *watched)
{
    vw_device_destroy(watched->real);
    free(watched->held);
    free(watched->mappings);
    watching = NULL;
}

void vw_test_watched_begin_end(vw_test_watched *watched)
{
    for (size_t i = 0; i < watched->held_count; i++)
        watched->held[i].was_refused &= watched->held[i].is_handle;
    for (size_t i = 0; i < watched->mapping_count; i++)
        watched->mappings[i].was_refused = false;
}

/* Did the device refuse to unmap it somewhere, when it was last asked to? */
static bool is_stuck_in_a_mapping(const vw_test_watched *watched, vw_handle handle)
{
    for (size_t i = 0; i < watched->mapping_count; i++)
        if (watched->mappings[i].handle == handle && watched->mappings[i].was_refused)
            return true;
    return false;
}

bool vw_test_watched_has_leak(const vw_test_watched *watched, char *fault, size_t fault_bytes)
{
    for (size_t i = 0; i < watched->held_count; i++) {
        const vw_test_held *held = &watched->held[i];
        if (held->was_refused || (held->is_handle && is_stuck_in_a_mapping(watched, held->name)))
            continue;
        snprintf(fault, fault_bytes,
                 "%s %#" PRIx64 " of %" PRIu64 " bytes%s is held after the pool's end, and the "
                 "device did not refuse it%s",
                 held->is_handle ? "handle" : "plain memory", held->name, held->size_bytes,
                 held->is_on_host ? " on the host" : "",
                 held->is_released ? " (it was released, and is still mapped)" : "");
        return true;
    }
    return false;
}
