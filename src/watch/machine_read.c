/* machine_read.c - asks the vendors' libraries, /proc and the pages, and has the answers joined.
 *
 * Whatever goes wrong with a GPU (none here, no permission, one that fell off the bus) takes away
 * what would have been known of it, and nothing else. */
#include "vramwise/watch.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "device/gpu_monitor.h"
#include "watch/machine_join.h"

enum {
    MOST_GPUS = 64,
    MOST_PROCESSES = 1024, /* on one GPU; the rest is left out */
};

typedef struct reading {
    vw_machine result; /* first: what callers have */
    vw_jobs *jobs;
    vw__arena arena;
    vw_gpu gpus[MOST_GPUS];
    const vw__monitor *monitors[MOST_GPUS]; /* of each */
    char gpu_trouble[320];
} reading;

/* ---- GPUs ------------------------------------------------------------------------------------ */

static bool read_gpu(const vw__monitor *monitor, unsigned number, unsigned index, vw_gpu *gpu)
{
    vw__monitor_gpu told;
    if (monitor->gpu_read(number, &told) != VW_OK)
        return false;
    *gpu = (vw_gpu){
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

static const vw__monitor *const monitors[] = {&vw__nvml_monitor, &vw__amd_smi_monitor};
enum { MONITOR_COUNT = sizeof monitors / sizeof monitors[0] };

/* NVIDIA's GPUs come first, and AMD's are counted on. Where none is known, the trouble is that of a
 * library which is here and does not work; if there is none at all, the first one's. */
static void read_gpus(reading *machine)
{
    bool has_answer = false, has_failed = false;
    unsigned before = 0;
    for (size_t i = 0; i < MONITOR_COUNT; i++) {
        unsigned count = 0;
        if (monitors[i]->gpu_count(&count) == VW_OK) {
            has_answer = true;
        } else if (i == 0 || (!has_failed && monitors[i]->is_here())) {
            snprintf(machine->gpu_trouble, sizeof machine->gpu_trouble, "%s", vw_last_error());
            has_failed = monitors[i]->is_here();
        }
        for (unsigned j = 0; j < count && machine->result.gpu_count < MOST_GPUS; j++) {
            if (read_gpu(monitors[i], j, before + j, &machine->gpus[machine->result.gpu_count]))
                machine->monitors[machine->result.gpu_count++] = monitors[i];
        }
        before += count;
    }
    if (machine->result.gpu_count == 0 && (has_failed || !has_answer))
        machine->result.gpu_trouble = machine->gpu_trouble;
    if (!has_failed && !has_answer) {
        size_t length = strlen(machine->gpu_trouble);
        snprintf(machine->gpu_trouble + length, sizeof machine->gpu_trouble - length,
                 "; AMD SMI is not here either");
    }
}

static size_t count_of(const reading *machine, const vw__monitor *monitor)
{
    size_t count = 0;
    for (size_t i = 0; i < machine->result.gpu_count; i++)
        count += machine->monitors[i] == monitor;
    return count;
}

/* ---- processes ------------------------------------------------------------------------------- */

typedef struct process_list {
    vw__watch_gpu_process *items;
    size_t count, capacity;
} process_list;

static bool is_listed(const process_list *list, size_t gpu, long process)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].gpu == gpu && list->items[i].process == process)
            return true;
    return false;
}

/* One that computes and draws is in both of NVML's lists. */
static void add_process(process_list *list, size_t gpu, const vw_process_memory *entry)
{
    if (list->count == list->capacity || is_listed(list, gpu, (long)entry->pid))
        return;
    vw__watch_gpu_process *process = &list->items[list->count++];
    process->gpu = gpu;
    process->process = (long)entry->pid;
    process->used_bytes = entry->used_bytes;
    vw__watch_process_command(process->process, process->command);
}

static vw_status add_processes(process_list *list, size_t gpu, const char *pci_bus_id,
                               vw__monitor_list_function ask, vw_process_memory *entries)
{
    size_t count = 0;
    if (ask == NULL)
        return VW_OK;
    vw_status status = ask(pci_bus_id, entries, MOST_PROCESSES, &count);
    if (status != VW_OK)
        return status == VW_ERR_HOST_MEMORY ? status : VW_OK;
    for (size_t i = 0; i < count && i < MOST_PROCESSES; i++)
        add_process(list, gpu, &entries[i]);
    return VW_OK;
}

static vw_status read_processes(reading *machine, process_list *list)
{
    size_t capacity = machine->result.gpu_count * MOST_PROCESSES;
    *list = (process_list){.capacity = capacity};
    vw_process_memory *entries = vw__arena_alloc_array(
        &machine->arena, MOST_PROCESSES, sizeof *entries, _Alignof(vw_process_memory));
    list->items = vw__arena_alloc_array(&machine->arena, capacity, sizeof *list->items,
                                        _Alignof(vw__watch_gpu_process));
    if (entries == NULL || list->items == NULL)
        return vw__fail_host_memory(capacity * sizeof *list->items, "the processes on GPUs");
    for (size_t i = 0; i < machine->result.gpu_count; i++) {
        const char *id = machine->gpus[i].pci_bus_id;
        const vw__monitor *monitor = machine->monitors[i];
        VW__TRY(add_processes(list, i, id, monitor->processes, entries));
        VW__TRY(add_processes(list, i, id, monitor->graphics_processes, entries));
    }
    return VW_OK;
}

/* ---- together -------------------------------------------------------------------------------- */

static vw_status read_environments(reading *machine, const vw__watch_job_environment **out)
{
    size_t count = machine->jobs->job_count;
    vw__watch_job_environment *environments = vw__arena_alloc_array(
        &machine->arena, count, sizeof *environments, _Alignof(vw__watch_job_environment));
    if (environments == NULL)
        return vw__fail_host_memory(count * sizeof *environments, "the environments of jobs");
    for (size_t i = 0; i < count; i++)
        vw__watch_process_environment(machine->jobs->jobs[i].process, &environments[i]);
    *out = environments;
    return VW_OK;
}

static vw_status read_all(reading *machine, const char *folder)
{
    VW__TRY(vw_jobs_read(folder, &machine->jobs));
    machine->result.jobs = machine->jobs;
    read_gpus(machine);
    process_list processes;
    VW__TRY(read_processes(machine, &processes));
    vw__watch_machine_parts parts = {
        .gpus = machine->gpus,
        .gpu_count = machine->result.gpu_count,
        .numbered_count = count_of(machine, &vw__nvml_monitor),
        .processes = processes.items,
        .process_count = processes.count,
        .jobs = machine->jobs,
    };
    VW__TRY(read_environments(machine, &parts.environments));
    size_t most = vw__watch_machine_most_rows(&parts);
    vw_machine_row *rows =
        vw__arena_alloc_array(&machine->arena, most, sizeof *rows, _Alignof(vw_machine_row));
    if (rows == NULL)
        return vw__fail_host_memory(most * sizeof *rows, "the rows of a machine");
    machine->result.row_count = vw__watch_machine_join(&parts, rows);
    machine->result.rows = rows;
    for (size_t i = 0; i < machine->result.row_count; i++)
        if (rows[i].command[0] == '\0') /* a page that does not say, or cannot be read */
            vw__watch_process_command(rows[i].process, rows[i].command);
    return VW_OK;
}

vw_status vw_machine_read(const char *folder, vw_machine **out)
{
    if (out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a place for the machine");
    reading *machine = vw__host_alloc(sizeof *machine);
    if (machine == NULL)
        return vw__fail_host_memory(sizeof *machine, "a machine");
    machine->result = (vw_machine){.read_ns = vw__clock_monotonic_ns(), .gpus = machine->gpus};
    machine->jobs = NULL;
    vw__arena_init(&machine->arena, VW__ARENA_NO_LIMIT);
    vw_status status = read_all(machine, folder);
    if (status != VW_OK) {
        vw_machine_free(&machine->result);
        return status;
    }
    *out = &machine->result;
    return VW_OK;
}

void vw_machine_free(vw_machine *result)
{
    if (result == NULL)
        return;
    reading *machine = (reading *)result;
    vw_jobs_free(machine->jobs);
    vw__arena_deinit(&machine->arena);
    vw__host_free(machine);
}
