/* fleet_work.c - see fleet_work.h. */
#include "fleet/fleet_work.h"

#include <inttypes.h>
#include <sched.h> /* sched_getaffinity */
#include <string.h>
#include <sys/stat.h>

#include "vramwise/version.h"
#include "analysis/reading_limit.h"
#include "analysis/recording.h" /* vw__recording_version */
#include "base/byte_buffer.h"
#include "base/checked_math.h" /* vw__max_u64 */
#include "base/error.h"
#include "base/host_memory.h"
#include "base/struct_size.h"

void vw__fleet_work_init(vw__fleet_work *work, const vw_fleet_options *options,
                         const vw__fleet_task *task)
{
    *work = (vw__fleet_work){.options = *options};
    vw__fleet_list_init(&work->list);
    vw__fleet_parts_init(&work->parts, task->form);
}

void vw__fleet_work_deinit(vw__fleet_work *work)
{
    vw__host_free(work->wanted);
    vw__fleet_parts_deinit(&work->parts);
    vw__fleet_list_deinit(&work->list);
}

/* ---- options --------------------------------------------------------------------------------- */

static vw_status check_options(const vw_fleet_options *options)
{
    const char *version;
    if (options->torch_version != NULL)
        VW__TRY(vw__recording_version(NULL, options->torch_version, &version));
    if (options->shares > VW_FLEET_MOST_SHARES ||
        (options->shares > 1 && (options->share == 0 || options->share > options->shares)))
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected a share from 1 to the number of shares, found %u of %u",
                        options->share, options->shares);
    if (options->shares > 1 && options->state_folder == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "a share needs a folder for its state");
    return VW_OK;
}

vw_status vw__fleet_work_options(const vw_fleet_options *asked, vw_fleet_options *options)
{
    *options = (vw_fleet_options){.struct_size = sizeof *options};
    VW__TRY(VW__STRUCT_IN(vw_fleet_options, asked, options));
    return check_options(options);
}

/* Cores that the process may use: a batch system may give it fewer than the machine has. */
static unsigned core_count(void)
{
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) != 0)
        return 1;
    int count = CPU_COUNT(&cores);
    return count > 0 ? (unsigned)count : 1;
}

/* ---- what is to be done ---------------------------------------------------------------------- */

static uint64_t hash_text(uint64_t hash, const char *text)
{
    return vw__fleet_part_hash(hash, text, strlen(text) + 1);
}

uint64_t vw__fleet_work_settings(const vw_fleet_options *options)
{
    const char *version = options->torch_version;
    return hash_text(hash_text(VW__FLEET_PART_HASH, vw_version_string()),
                     version != NULL ? version : "");
}

static uint64_t hash_number(uint64_t hash, uint64_t number)
{
    return vw__fleet_part_hash(hash, &number, sizeof number);
}

/* The name, size and time of one file. */
static vw_status hash_file(const vw__ranks_job_list *list, size_t place, vw__byte_buffer *path,
                           vw__fleet_run_unit *unit)
{
    struct stat found;
    VW__TRY(vw__ranks_job_list_path(list, place, path));
    unit->fingerprint = hash_text(unit->fingerprint, list->files.paths[place].path);
    if (stat(vw__byte_buffer_text(path), &found) != 0)
        return VW_OK; /* the record says so; a file that appears has another fingerprint */
    unit->size_bytes = vw__max_u64(unit->size_bytes, (uint64_t)found.st_size);
    unit->fingerprint = hash_number(unit->fingerprint, (uint64_t)found.st_size);
    unit->fingerprint = hash_number(unit->fingerprint, (uint64_t)found.st_mtim.tv_sec);
    unit->fingerprint = hash_number(unit->fingerprint, (uint64_t)found.st_mtim.tv_nsec);
    return VW_OK;
}

/* The texts of a job depend on the names of all its files, too: those say what is left out, and
 * whose a text is. */
static vw_status hash_unit(vw__fleet_work *at, const vw__fleet_task *task, vw__byte_buffer *path,
                           vw__fleet_run_unit *unit)
{
    const vw__ranks_job_list *list = &at->list.jobs[unit->unit.job].list;
    const uint64_t facts[] = {task->settings, list->is_local_known, list->array_tasks};
    unit->fingerprint = vw__fleet_part_hash(VW__FLEET_PART_HASH, facts, sizeof facts);
    if (unit->unit.place != VW__RANKS_UNIT_TEXTS)
        return hash_file(list, unit->unit.place, path, unit);
    const uint64_t left_out[] = {list->files.link_count,     list->files.other_count,
                                 list->files.has_more_files, list->files.has_more_names,
                                 list->files.has_deeper,     list->files.count};
    unit->fingerprint = vw__fleet_part_hash(unit->fingerprint, left_out, sizeof left_out);
    for (size_t i = 0; i < list->files.count; i++)
        if (vw__ranks_is_log_name(list->files.paths[i].path))
            VW__TRY(hash_file(list, i, path, unit));
    return VW_OK;
}

static bool is_mine(const vw__fleet_work *at, size_t number)
{
    return at->options.shares <= 1 || number % at->options.shares == at->options.share - 1;
}

/* Adds a unit to the work if it has no record, or its files have changed since. */
static vw_status want_unit(vw__fleet_work *at, const vw__fleet_task *task, size_t number,
                           vw__byte_buffer *path)
{
    vw__fleet_run_unit unit = {.unit = at->list.units[number]};
    uint32_t place;
    VW__TRY(hash_unit(at, task, path, &unit));
    VW__TRY(vw__fleet_parts_find(&at->parts, at->list.jobs[unit.unit.job].name,
                                 vw__fleet_list_path(&at->list, &unit.unit), &place));
    const vw__fleet_part_entry *entry = &at->parts.entries[place];
    at->share_count++;
    if (entry->descriptor < 0 || entry->fingerprint != unit.fingerprint)
        at->wanted[at->wanted_count++] = unit;
    return VW_OK;
}

static vw_status want_units(vw__fleet_work *at, const vw__fleet_task *task)
{
    vw__byte_buffer path;
    vw_status status = VW_OK;
    at->wanted = vw__host_alloc_zeroed(at->list.unit_count, sizeof *at->wanted);
    if (at->wanted == NULL)
        return vw__fail_host_memory(at->list.unit_count * sizeof *at->wanted, "a list of files");
    vw__byte_buffer_init(&path);
    for (size_t i = 0; status == VW_OK && i < at->list.unit_count; i++)
        if (is_mine(at, i))
            status = want_unit(at, task, i, &path);
    vw__byte_buffer_deinit(&path);
    return status;
}

/* Writes the list down unless it is the one written last. */
static vw_status keep_list(vw__fleet_work *at, const vw__fleet_task *task)
{
    vw__fleet_part_list list = {.settings = task->settings,
                                .beside_count = at->list.beside_count,
                                .closed_count = at->list.closed_count,
                                .unit_count = at->list.unit_count};
    vw__byte_buffer units;
    vw__byte_buffer_init(&units);
    for (size_t i = 0; i < at->list.unit_count; i++) {
        const vw__fleet_list_job *job = &at->list.jobs[at->list.units[i].job];
        vw__fleet_parts_put_listed(
            &units, &(vw__fleet_part_listed){job->name, job->kind,
                                             vw__fleet_list_path(&at->list, &at->list.units[i])});
    }
    list.names = vw__fleet_part_hash(VW__FLEET_PART_HASH, vw__byte_buffer_text(&units),
                                     vw__byte_buffer_size(&units));
    list.names = hash_number(hash_number(list.names, list.beside_count), list.closed_count);
    vw_status status = vw__byte_buffer_has_failed(&units)
                           ? vw__fail_host_memory(at->list.unit_count, "a list of files")
                           : VW_OK;
    bool is_known = at->parts.has_list && at->parts.list.names == list.names &&
                    at->parts.list.settings == list.settings;
    if (status == VW_OK && !is_known)
        status = vw__fleet_parts_write_list(&at->parts, &list, &units);
    at->parts.list = list;
    at->parts.has_list = true;
    vw__byte_buffer_deinit(&at->parts.list_units);
    at->parts.list_units = units;
    return status;
}

static vw_status examine_units(vw__fleet_work *at, const vw__fleet_task *task)
{
    const vw_fleet_options *options = &at->options;
    const vw__fleet_run_plan plan = {
        .list = &at->list,
        .parts = &at->parts,
        .units = at->wanted,
        .unit_count = at->wanted_count,
        .known_count = at->share_count - at->wanted_count,
        .thread_count = options->thread_count != 0 ? options->thread_count : core_count(),
        .budget_bytes = vw__reading_limit_or(options->memory_bytes, VW_FLEET_DEFAULT_MEMORY_BYTES),
        .examiner = task->examiner,
        .progress = options->progress,
        .progress_context = options->progress_context,
    };
    return vw__fleet_run(&plan);
}

vw_status vw__fleet_work_do(vw__fleet_work *work, const vw__fleet_task *task, const char *source)
{
    VW__TRY(vw__fleet_list_read(&work->list, source, task->has_texts));
    VW__TRY(work->options.state_folder != NULL
                ? vw__fleet_parts_open_state(&work->parts, work->options.state_folder)
                : vw__fleet_parts_open_temporary(&work->parts));
    VW__TRY(want_units(work, task));
    VW__TRY(keep_list(work, task));
    return examine_units(work, task);
}

/* ---- shares ---------------------------------------------------------------------------------- */

vw_status vw__fleet_work_merge(vw__fleet_parts *parts, const char *const *states,
                               size_t state_count)
{
    vw__fleet_part_list first = {.names = 0};
    for (size_t i = 0; i < state_count; i++) {
        VW__TRY(vw__fleet_parts_read(parts, states[i]));
        if (!parts->has_list)
            return vw__fail(VW_ERR_WRONG_STATE,
                            "%s: has no list of files: its work has only just begun", states[i]);
        if (i == 0)
            first = parts->list;
        if (parts->list.names != first.names)
            return vw__fail(VW_ERR_WRONG_STATE,
                            "%s: was made from another list of files (%" PRIu64
                            ") than %s (%" PRIu64 ")",
                            states[i], parts->list.unit_count, states[0], first.unit_count);
        if (parts->list.settings != first.settings)
            return vw__fail(VW_ERR_WRONG_STATE,
                            "%s: was made by another version of vramwise, or with another %s, than "
                            "%s",
                            states[i], parts->form->options, states[0]);
    }
    return VW_OK;
}
