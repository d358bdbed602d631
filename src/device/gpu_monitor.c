/* gpu_monitor.c - what the management libraries of all vendors have in common. */
#include "device/gpu_monitor.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h> /* getpid */

#include "base/error.h" /* vw__fail */
#include "base/host_memory.h"

/* ---- the library ----------------------------------------------------------------------------- */

static void load(vw__monitor_library *library)
{
    char reasons[600];
    void *loaded =
        vw__library_open(library->variable, library->library_names, reasons, sizeof reasons);
    if (loaded == NULL) {
        snprintf(library->failure, sizeof library->failure, "%s could not be loaded; tried %s",
                 library->name, reasons);
        return;
    }
    library->is_found = true;
    const char *missing =
        vw__library_find_symbols(loaded, library->symbols, library->symbol_count, library->table);
    if (missing != NULL)
        snprintf(library->failure, sizeof library->failure, "the %s found here has no function %s",
                 library->name, missing);
    else
        library->is_started = library->start(library->failure, sizeof library->failure);
}

static void try_once(vw__monitor_library *library)
{
    vw__mutex_lock(&library->lock);
    if (!library->is_tried)
        load(library);
    library->is_tried = true;
    vw__mutex_unlock(&library->lock);
}

vw_status vw__monitor_require(vw__monitor_library *library)
{
    try_once(library);
    return library->is_started ? VW_OK : vw__fail(VW_ERR_UNSUPPORTED, "%s", library->failure);
}

bool vw__monitor_is_found(vw__monitor_library *library)
{
    try_once(library);
    return library->is_found;
}

/* ---- lists of processes ---------------------------------------------------------------------- */

enum {
    FIRST_CAPACITY = 64,
    MOST_TRIES = 4, /* processes may start between asking how many and asking which */
    PAINT = 0xA5,
};

/* That of the `count` entries that were written into the patterned `room`. The last byte of an
 * entry belongs to a number that is small, zero or all ones, so it never looks like the pattern. */
static const vw__monitor_layout *layout_of(const vw__monitor_question *question,
                                           const unsigned char *room, size_t room_bytes,
                                           size_t count)
{
    size_t written_bytes = room_bytes;
    while (written_bytes > 0 && room[written_bytes - 1] == PAINT)
        written_bytes--;
    for (size_t i = 0; i < question->layout_count; i++)
        if (written_bytes == count * question->layouts[i].entry_bytes)
            return &question->layouts[i];
    return &question->layouts[0];
}

static void store_entries(const vw__monitor_question *question, const unsigned char *room,
                          size_t room_bytes, size_t found, vw_process_memory *entries,
                          size_t capacity)
{
    const vw__monitor_layout *layout = layout_of(question, room, room_bytes, found);
    uint32_t own_pid = (uint32_t)getpid();
    for (size_t i = 0; i < found && i < capacity; i++) {
        const unsigned char *entry = room + i * layout->entry_bytes;
        uint32_t pid;
        uint64_t used_bytes;
        memcpy(&pid, entry + layout->pid_at, sizeof pid);
        memcpy(&used_bytes, entry + layout->used_at, sizeof used_bytes);
        entries[i] = (vw_process_memory){
            .used_bytes = used_bytes, .pid = pid, .is_this_process = pid == own_pid};
    }
}

vw_status vw__monitor_ask(const vw__monitor_question *question, int *result,
                          vw_process_memory *entries, size_t capacity, size_t *count)
{
    size_t largest_bytes = 0;
    for (size_t i = 0; i < question->layout_count; i++)
        if (question->layouts[i].entry_bytes > largest_bytes)
            largest_bytes = question->layouts[i].entry_bytes;
    unsigned wanted = FIRST_CAPACITY;
    *result = question->too_small;
    for (int i = 0; i < MOST_TRIES && *result == question->too_small; i++) {
        size_t room_bytes = (size_t)wanted * largest_bytes;
        unsigned char *room = vw__host_alloc(room_bytes);
        if (room == NULL)
            return vw__fail_host_memory(room_bytes, "the list of processes on a GPU");
        memset(room, PAINT, room_bytes);

        unsigned found = wanted;
        *result = question->ask(question->device, &found, room);
        if (*result == question->success && found <= wanted) {
            store_entries(question, room, room_bytes, found, entries, capacity);
            *count = found;
        }
        vw__host_free(room);
        wanted = found + FIRST_CAPACITY;
    }
    return VW_OK;
}
