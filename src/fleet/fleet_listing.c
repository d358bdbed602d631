/* fleet_listing.c - takes a list apart, and finds the records of its units. */
#include "fleet/fleet_listing.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"

/* Units without a record. */
typedef struct missing {
    size_t count;
    vw__fleet_part_listed first;
} missing;

void vw__fleet_listing_deinit(vw__fleet_listing *listing)
{
    vw__host_free(listing->units);
    vw__host_free(listing->jobs);
    *listing = (vw__fleet_listing){.units = NULL};
}

static vw_status list_unit(vw__fleet_listing *at, vw__fleet_parts *parts,
                           const vw__fleet_part_listed *unit, missing *lost)
{
    uint32_t place;
    VW__TRY(vw__fleet_parts_find(parts, unit->job, unit->path, &place));
    if (parts->entries[place].is_listed) /* a record would be loaded once for each */
        return vw__fail(VW_ERR_CORRUPT_FILE, "a list of files names %s of job %s twice",
                        unit->path[0] != '\0' ? unit->path : "the logs", unit->job);
    parts->entries[place].is_listed = true;
    if (parts->entries[place].descriptor < 0 && lost->count++ == 0)
        lost->first = *unit;
    if (at->job_count == 0 || strcmp(at->jobs[at->job_count - 1].name, unit->job) != 0)
        at->jobs[at->job_count++] =
            (vw__fleet_listed_job){.name = unit->job, .kind = unit->kind, .first = at->unit_count};
    at->jobs[at->job_count - 1].count++;
    at->units[at->unit_count++] = (vw__fleet_listed_unit){unit->path, place};
    return VW_OK;
}

static vw_status check_missing(const missing *lost, uint64_t count)
{
    if (lost->count == 0)
        return VW_OK;
    return vw__fail(VW_ERR_WRONG_STATE,
                    "%zu of %" PRIu64 " units have no result; the first is %s of job %s. A "
                    "share is missing, or not finished",
                    lost->count, count, lost->first.path[0] != '\0' ? lost->first.path : "the logs",
                    lost->first.job);
}

vw_status vw__fleet_listing_make(vw__fleet_listing *listing, vw__fleet_parts *parts)
{
    size_t size_bytes = vw__byte_buffer_size(&parts->list_units);
    uint64_t count = parts->list.unit_count;
    missing lost = {.count = 0};
    if (count > size_bytes / VW__FLEET_PART_LISTED_BYTES)
        return vw__fail(VW_ERR_CORRUPT_FILE, "a list of files is damaged");
    listing->units = vw__host_alloc_zeroed((size_t)count, sizeof *listing->units);
    listing->jobs = vw__host_alloc_zeroed((size_t)count, sizeof *listing->jobs);
    if (listing->units == NULL || listing->jobs == NULL)
        return vw__fail_host_memory(count * sizeof *listing->jobs, "a list of files");
    vw__byte_cursor cursor =
        vw__byte_cursor_of(vw__byte_buffer_text(&parts->list_units), size_bytes);
    for (uint64_t i = 0; i < count; i++) {
        vw__fleet_part_listed unit;
        if (!vw__fleet_parts_take_listed(&cursor, &unit))
            return vw__fail(VW_ERR_CORRUPT_FILE, "a list of files is damaged");
        VW__TRY(list_unit(listing, parts, &unit, &lost));
    }
    return check_missing(&lost, count);
}

vw_status vw__fleet_listing_load(const vw__fleet_listing *listing, const vw__fleet_parts *parts,
                                 const vw__fleet_listed_job *job, vw__byte_buffer *bytes,
                                 vw__ranks_record *records)
{
    const vw__fleet_listed_unit *units = &listing->units[job->first];
    uint64_t size_bytes = 0;
    for (size_t i = 0; i < job->count; i++)
        size_bytes += parts->entries[units[i].place].size_bytes;
    vw_status status = vw__fleet_parts_expect_room(size_bytes);
    if (status != VW_OK)
        return vw__fail(status, "job %s: %s", job->name, vw_last_error());
    for (size_t i = 0; i < job->count; i++) /* the buffer may move until all are in it */
        VW__TRY(vw__fleet_parts_load(&parts->entries[units[i].place], bytes));
    const char *next = vw__byte_buffer_text(bytes);
    for (size_t i = 0; i < job->count; i++) {
        records[i].bytes = next;
        records[i].size_bytes = parts->entries[units[i].place].size_bytes;
        next += records[i].size_bytes;
    }
    return VW_OK;
}

void vw__fleet_listing_note(const vw__fleet_part_list *list, vw__notes *notes)
{
    if (list->beside_count > 0)
        vw__notes_add(notes,
                      "Files that lie beside the folders of the jobs are left out: %" PRIu64 ".",
                      list->beside_count);
    if (list->closed_count > 0)
        vw__notes_add(
            notes,
            "Folders of jobs that cannot be opened, or that are links of other users: %" PRIu64 ".",
            list->closed_count);
}
