/* machine_join.c - which GPU is "device 1" of a job?
 *
 * A job counts devices its own way: CUDA_VISIBLE_DEVICES takes some away and changes the order, and
 * without CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA puts the fastest first, where NVML goes by the bus. The
 * evidence, best first:
 *
 *   1. the driver lists the process on one GPU only, and the job has one device: that is it
 *   2. the environment: the entry of CUDA_VISIBLE_DEVICES, a number or the beginning of a UUID.
 *      Numbers count only where both orders must be the same: by the bus, or all GPUs alike; and
 *      of NVIDIA's only, as nobody says that HIP and AMD SMI count alike. In a job whose
 *      environment nobody may read, there are no entries. A program may change its variables after
 * it was started (os.environ), which nobody else sees: a GPU on which the driver does not list the
 * process, while it does on others, is not it
 *   3. only one GPU has the device's name
 *
 * A GPU with another name than the device's is never it. What is left is unknown, and said to be.
 */
#include "watch/machine_join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one device ------------------------------------------------------------------------------ */

/* The stand-ins of device.h, by the names they give themselves. */
static bool is_stand_in(const vw_job_device *device)
{
    return strcmp(device->name, "simulated") == 0 || strcmp(device->name, "host") == 0;
}

/* A part of a GPU (MIG) is called "NVIDIA A100 MIG 1g.5gb" by CUDA. */
static bool name_agrees(const vw_gpu *gpu, const vw_job_device *device)
{
    size_t length = strlen(gpu->name);
    if (length == 0 || device->name[0] == '\0')
        return true;
    const char *rest = device->name + length;
    return strncmp(gpu->name, device->name, length) == 0 &&
           (*rest == '\0' || strncmp(rest, " MIG ", 5) == 0);
}

static const vw_gpu *gpu_with_process(const vw__watch_machine_parts *parts, long process)
{
    const vw_gpu *found = NULL;
    for (size_t i = 0; i < parts->process_count; i++) {
        const vw_gpu *gpu = &parts->gpus[parts->processes[i].gpu];
        if (parts->processes[i].process != process || gpu == found)
            continue;
        if (found != NULL)
            return NULL;
        found = gpu;
    }
    return found;
}

/* Does the driver list the process, and not on this GPU? */
static bool is_elsewhere(const vw__watch_machine_parts *parts, long process, const vw_gpu *gpu)
{
    bool is_listed = false;
    for (size_t i = 0; i < parts->process_count; i++) {
        if (parts->processes[i].process != process)
            continue;
        if (&parts->gpus[parts->processes[i].gpu] == gpu)
            return false;
        is_listed = true;
    }
    return is_listed;
}

static bool all_are_alike(const vw__watch_machine_parts *parts)
{
    for (size_t i = 1; i < parts->gpu_count; i++)
        if (strcmp(parts->gpus[i].name, parts->gpus[0].name) != 0)
            return false;
    return true;
}

static const vw_gpu *gpu_with_uuid(const vw__watch_machine_parts *parts, const char *start,
                                   size_t length)
{
    const vw_gpu *found = NULL;
    for (size_t i = 0; i < parts->gpu_count; i++) {
        if (strncmp(parts->gpus[i].uuid, start, length) != 0)
            continue;
        if (found != NULL)
            return NULL;
        found = &parts->gpus[i];
    }
    return found;
}

static const vw_gpu *gpu_with_index(const vw__watch_machine_parts *parts,
                                    const vw__watch_job_environment *environment, long index)
{
    if (!environment->is_by_bus && !all_are_alike(parts))
        return NULL;
    for (size_t i = 0; i < parts->numbered_count; i++)
        if (parts->gpus[i].index == index)
            return &parts->gpus[i];
    return NULL;
}

/* What an entry of CUDA_VISIBLE_DEVICES names. */
static const vw_gpu *gpu_named(const vw__watch_machine_parts *parts,
                               const vw__watch_job_environment *environment, const char *entry)
{
    size_t length = strcspn(entry, ",");
    if (strncmp(entry, "GPU-", 4) == 0)
        return gpu_with_uuid(parts, entry, length);
    char *end = NULL;
    long index = strtol(entry, &end, 10);
    bool is_number = end != entry && (*end == ',' || *end == '\0');
    return is_number ? gpu_with_index(parts, environment, index) : NULL;
}

static const vw_gpu *gpu_by_environment(const vw__watch_machine_parts *parts,
                                        const vw__watch_job_environment *environment, int index)
{
    if (!environment->is_known || index < 0)
        return NULL;
    if (!environment->has_visible)
        return gpu_with_index(parts, environment, index);
    const char *entry = environment->visible;
    for (int i = 0; i < index && entry != NULL; i++) {
        entry = strchr(entry, ',');
        entry = entry == NULL ? NULL : entry + 1;
    }
    return entry == NULL ? NULL : gpu_named(parts, environment, entry);
}

static const vw_gpu *gpu_by_name(const vw__watch_machine_parts *parts, const vw_job_device *device)
{
    const vw_gpu *found = NULL;
    for (size_t i = 0; i < parts->gpu_count; i++) {
        if (!name_agrees(&parts->gpus[i], device))
            continue;
        if (found != NULL)
            return NULL;
        found = &parts->gpus[i];
    }
    return found;
}

static const vw_gpu *gpu_of(const vw__watch_machine_parts *parts, size_t job,
                            const vw_job_device *device)
{
    const vw_job *owner = &parts->jobs->jobs[job];
    const vw_gpu *gpu = owner->device_count == 1 ? gpu_with_process(parts, owner->process) : NULL;
    if (gpu == NULL)
        gpu = gpu_by_environment(parts, &parts->environments[job], device->index);
    if (gpu != NULL && is_elsewhere(parts, owner->process, gpu))
        gpu = NULL;
    if (gpu != NULL && name_agrees(gpu, device))
        return gpu;
    return gpu == NULL ? gpu_by_name(parts, device) : NULL;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void put_on(vw_machine_row *row, const vw_gpu *gpu)
{
    row->gpu = gpu;
    row->place = gpu != NULL ? VW_ROW_ON_GPU : VW_ROW_ON_UNKNOWN_GPU;
}

static vw_machine_row row_of_job(const vw_job *job)
{
    vw_machine_row row = {
        .process = job->process,
        .place = VW_ROW_ON_NO_GPU,
        .job = job,
        .process_bytes = VW_LIVE_UNKNOWN,
    };
    memcpy(row.command, job->program, sizeof row.command);
    return row;
}

static size_t add_jobs(const vw__watch_machine_parts *parts, vw_machine_row *rows)
{
    size_t count = 0;
    for (size_t i = 0; i < parts->jobs->job_count; i++) {
        const vw_job *job = &parts->jobs->jobs[i];
        for (size_t j = 0; j < job->device_count; j++) {
            vw_machine_row *row = &rows[count++];
            *row = row_of_job(job);
            row->device = &job->devices[j];
            if (!is_stand_in(row->device))
                put_on(row, gpu_of(parts, i, row->device));
        }
        if (job->device_count == 0)
            rows[count++] = row_of_job(job);
    }
    return count;
}

/* The row that a process on a GPU belongs to: that of its device there, or of a job that has told
 * no device yet. NULL: none. */
static vw_machine_row *find_row(vw_machine_row *rows, size_t count, long process, const vw_gpu *gpu)
{
    for (size_t i = 0; i < count; i++) {
        vw_machine_row *row = &rows[i];
        if (row->process == process &&
            (row->gpu == gpu || (row->gpu == NULL && row->job != NULL && row->device == NULL)))
            return row;
    }
    return NULL;
}

static size_t add_processes(const vw__watch_machine_parts *parts, vw_machine_row *rows,
                            size_t count)
{
    for (size_t i = 0; i < parts->process_count; i++) {
        const vw__watch_gpu_process *process = &parts->processes[i];
        const vw_gpu *gpu = &parts->gpus[process->gpu];
        vw_machine_row *row = find_row(rows, count, process->process, gpu);
        if (row == NULL) {
            row = &rows[count++];
            *row = (vw_machine_row){.process = process->process, .job = NULL};
            row->job = vw_jobs_find(parts->jobs, process->process);
        }
        put_on(row, gpu);
        row->process_bytes = process->used_bytes;
        if (row->command[0] == '\0')
            memcpy(row->command, process->command, sizeof row->command);
    }
    return count;
}

static int by_place(const void *left, const void *right)
{
    const vw_machine_row *one = left, *other = right;
    if (one->place != other->place)
        return one->place < other->place ? -1 : 1;
    if (one->gpu != other->gpu)
        return one->gpu < other->gpu ? -1 : 1; /* both are of one list, or NULL */
    if (one->process != other->process)
        return one->process < other->process ? -1 : 1;
    int index = one->device != NULL ? one->device->index : -1;
    int other_index = other->device != NULL ? other->device->index : -1;
    return (index > other_index) - (index < other_index);
}

/* ---- whose a GPU's memory is ----------------------------------------------------------------- */

static void split_memory(vw_gpu *gpu, const vw_machine_row *rows, size_t count)
{
    uint64_t live = 0, reserved = 0;
    for (size_t i = 0; i < count; i++) {
        if (rows[i].gpu != gpu || rows[i].device == NULL)
            continue;
        const uint64_t *values = rows[i].device->values;
        if (values[VW_LIVE_LIVE_BYTES] == VW_LIVE_UNKNOWN ||
            values[VW_LIVE_RESERVED_BYTES] == VW_LIVE_UNKNOWN)
            continue;
        live += values[VW_LIVE_LIVE_BYTES];
        reserved += values[VW_LIVE_RESERVED_BYTES];
    }
    gpu->job_live_bytes = live;
    gpu->job_idle_bytes = reserved > live ? reserved - live : 0;
    gpu->other_bytes = VW_LIVE_UNKNOWN;
    if (gpu->used_bytes != VW_LIVE_UNKNOWN) {
        uint64_t ours = gpu->job_live_bytes + gpu->job_idle_bytes;
        gpu->other_bytes = gpu->used_bytes > ours ? gpu->used_bytes - ours : 0;
    }
}

size_t vw__watch_machine_most_rows(const vw__watch_machine_parts *parts)
{
    size_t count = parts->process_count;
    for (size_t i = 0; i < parts->jobs->job_count; i++) {
        size_t devices = parts->jobs->jobs[i].device_count;
        count += devices > 0 ? devices : 1;
    }
    return count;
}

size_t vw__watch_machine_join(const vw__watch_machine_parts *parts, vw_machine_row *rows)
{
    size_t count = add_processes(parts, rows, add_jobs(parts, rows));
    if (count > 1)
        qsort(rows, count, sizeof *rows, by_place);
    for (size_t i = 0; i < parts->gpu_count; i++)
        split_memory(&parts->gpus[i], rows, count);
    return count;
}
