/* machine_read.c - asks NVML, /proc and the pages, and has the answers joined.
 *
 * Whatever goes wrong with a GPU (none here, no permission, one that fell off the bus) takes away
 * what would have been known of it, and nothing else. */
#include "headroom/watch.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "device/nvml_load.h"
#include "watch/machine_join.h"
#include "watch/process_read.h"

enum {
    MOST_GPUS = 64,
    MOST_PROCESSES = 1024, /* on one GPU; the rest is left out */
};

typedef struct reading {
    hr_machine result; /* first: what callers have */
    hr_jobs *jobs;
    hr__arena arena;
    hr_gpu gpus[MOST_GPUS];
    char gpu_trouble[256];
} reading;

/* ---- GPUs ------------------------------------------------------------------------------------ */

static bool read_gpu(unsigned index, hr_gpu *gpu)
{
    hr__nvml_gpu told;
    if (hr__nvml_gpu_read(index, &told) != HR_OK)
        return false;
    *gpu = (hr_gpu){
        .index = (int)index,
        .utilisation_percent = told.utilisation_percent,
        .total_bytes = told.total_bytes,
        .used_bytes = told.used_bytes,
        .free_bytes = told.free_bytes,
    };
    snprintf(gpu->name, sizeof gpu->name, "%.*s", (int)sizeof gpu->name - 1, told.name);
    snprintf(gpu->uuid, sizeof gpu->uuid, "%.*s", (int)sizeof gpu->uuid - 1, told.uuid);
    snprintf(gpu->pci_bus_id, sizeof gpu->pci_bus_id, "%s", told.pci_bus_id);
    return true;
}

static void read_gpus(reading *machine)
{
    unsigned count = 0;
    if (hr__nvml_gpu_count(&count) != HR_OK) {
        snprintf(machine->gpu_trouble, sizeof machine->gpu_trouble, "%s", hr_last_error());
        machine->result.gpu_trouble = machine->gpu_trouble;
    }
    for (unsigned i = 0; i < count && machine->result.gpu_count < MOST_GPUS; i++)
        if (read_gpu(i, &machine->gpus[machine->result.gpu_count]))
            machine->result.gpu_count++;
}

/* ---- processes ------------------------------------------------------------------------------- */

typedef struct process_list {
    hr__gpu_process *items;
    size_t count, capacity;
} process_list;

static bool is_listed(const process_list *list, size_t gpu, long process)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].gpu == gpu && list->items[i].process == process)
            return true;
    return false;
}

/* One that computes and draws is told twice. */
static void add_process(process_list *list, size_t gpu, const hr_process_memory *entry)
{
    if (list->count == list->capacity || is_listed(list, gpu, (long)entry->pid))
        return;
    hr__gpu_process *process = &list->items[list->count++];
    process->gpu = gpu;
    process->process = (long)entry->pid;
    process->used_bytes = entry->used_bytes;
    hr__process_command(process->process, process->command);
}

typedef hr_status (*list_function)(const char *pci_bus_id, hr_process_memory *entries,
                                   size_t capacity, size_t *count);

static hr_status add_processes(process_list *list, size_t gpu, const char *pci_bus_id,
                               list_function ask, hr_process_memory *entries)
{
    size_t count = 0;
    hr_status status = ask(pci_bus_id, entries, MOST_PROCESSES, &count);
    if (status != HR_OK)
        return status == HR_ERR_HOST_MEMORY ? status : HR_OK;
    for (size_t i = 0; i < count && i < MOST_PROCESSES; i++)
        add_process(list, gpu, &entries[i]);
    return HR_OK;
}

static hr_status read_processes(reading *machine, process_list *list)
{
    size_t capacity = machine->result.gpu_count * MOST_PROCESSES;
    *list = (process_list){.capacity = capacity};
    hr_process_memory *entries = hr__arena_alloc_array(
        &machine->arena, MOST_PROCESSES, sizeof *entries, _Alignof(hr_process_memory));
    list->items = hr__arena_alloc_array(&machine->arena, capacity, sizeof *list->items,
                                        _Alignof(hr__gpu_process));
    if (entries == NULL || list->items == NULL)
        return hr__fail_host_memory(capacity * sizeof *list->items, "the processes on GPUs");
    for (size_t i = 0; i < machine->result.gpu_count; i++) {
        const char *id = machine->gpus[i].pci_bus_id;
        HR__TRY(add_processes(list, i, id, hr__nvml_processes, entries));
        HR__TRY(add_processes(list, i, id, hr__nvml_graphics_processes, entries));
    }
    return HR_OK;
}

/* ---- together -------------------------------------------------------------------------------- */

static hr_status read_environments(reading *machine, const hr__job_environment **out)
{
    size_t count = machine->jobs->job_count;
    hr__job_environment *environments = hr__arena_alloc_array(
        &machine->arena, count, sizeof *environments, _Alignof(hr__job_environment));
    if (environments == NULL)
        return hr__fail_host_memory(count * sizeof *environments, "the environments of jobs");
    for (size_t i = 0; i < count; i++)
        hr__process_environment(machine->jobs->jobs[i].process, &environments[i]);
    *out = environments;
    return HR_OK;
}

static hr_status read_all(reading *machine, const char *folder)
{
    HR__TRY(hr_jobs_read(folder, &machine->jobs));
    machine->result.jobs = machine->jobs;
    read_gpus(machine);
    process_list processes;
    HR__TRY(read_processes(machine, &processes));
    hr__machine_parts parts = {
        .gpus = machine->gpus,
        .gpu_count = machine->result.gpu_count,
        .processes = processes.items,
        .process_count = processes.count,
        .jobs = machine->jobs,
    };
    HR__TRY(read_environments(machine, &parts.environments));
    size_t most = hr__machine_most_rows(&parts);
    hr_machine_row *rows =
        hr__arena_alloc_array(&machine->arena, most, sizeof *rows, _Alignof(hr_machine_row));
    if (rows == NULL)
        return hr__fail_host_memory(most * sizeof *rows, "the rows of a machine");
    machine->result.row_count = hr__machine_join(&parts, rows);
    machine->result.rows = rows;
    for (size_t i = 0; i < machine->result.row_count; i++)
        if (rows[i].command[0] == '\0') /* a page that does not say, or cannot be read */
            hr__process_command(rows[i].process, rows[i].command);
    return HR_OK;
}

hr_status hr_machine_read(const char *folder, hr_machine **out)
{
    if (out == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "expected a place for the machine");
    reading *machine = hr__host_alloc(sizeof *machine);
    if (machine == NULL)
        return hr__fail_host_memory(sizeof *machine, "a machine");
    machine->result = (hr_machine){.read_ns = hr__clock_monotonic_ns(), .gpus = machine->gpus};
    machine->jobs = NULL;
    hr__arena_init(&machine->arena, HR__ARENA_NO_LIMIT);
    hr_status status = read_all(machine, folder);
    if (status != HR_OK) {
        hr_machine_free(&machine->result);
        return status;
    }
    *out = &machine->result;
    return HR_OK;
}

void hr_machine_free(hr_machine *result)
{
    if (result == NULL)
        return;
    reading *machine = (reading *)result;
    hr_jobs_free(machine->jobs);
    hr__arena_deinit(&machine->arena);
    hr__host_free(machine);
}
