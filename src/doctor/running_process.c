/* running_process.c - what can be said of a process from outside.
 *
 * The process publishes nothing: NVML says what it and others hold on a GPU, /proc the rest, and
 * what of its GPU memory is in use only the process knows. So the verdict is about what lies
 * outside of it, and else unknown, with what would tell. The first that holds:
 *
 *   genuine   on the card of the options there is no room for what is held now
 *   outside   the card is nearly full, and others hold much of it
 *   host      the machine's own memory is nearly used up
 *   unknown   else
 *
 * A finding of kind "process" has the facts, as evidence. */
#include "vramwise/process.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vramwise/units.h"

#include "base/error.h"
#include "doctor/doctor.h"
#include "doctor/running_job.h"

enum {
    MOST_NAMED = 8,        /* other processes on the card */
    LONGEST_COMMAND = 48,  /* in a sentence */
    LONGEST_TYPED = 60,    /* as part of a line to be typed */
    LEAST_HOST_SHARE = 20, /* of the machine's memory, left */
    FIRST_WITH_EXEC = 14,  /* Python 3.14 has sys.remote_exec() */
};

typedef struct process_case {
    const vw_process *process;
    const vw_machine *machine;
    const vw_doctor_options *options;
    vw__diagnosis_draft *draft;
    const vw_machine_row *row; /* the GPU on which it holds most; NULL: none is known */
    vw_memory_numbers numbers; /* as they are, or on the card of the options */
    uint64_t others_bytes;     /* on that card, held by others; VW_UNKNOWN */
    const char *who;           /* "process 4711 (python3 train.py)" */
} process_case;

/* ---- what NVML says -------------------------------------------------------------------------- */

static uint64_t known_or_nothing(uint64_t bytes)
{
    return vw__doctor_knows(bytes) ? bytes : 0;
}

static void find_row(process_case *seen)
{
    for (size_t i = 0; i < seen->machine->row_count; i++) {
        const vw_machine_row *row = &seen->machine->rows[i];
        if (row->process != seen->process->process || row->gpu == NULL)
            continue;
        if (seen->row == NULL ||
            known_or_nothing(row->process_bytes) > known_or_nothing(seen->row->process_bytes))
            seen->row = row;
    }
}

static void note_numbers(process_case *seen)
{
    vw_memory_numbers *numbers = &seen->numbers;
    *numbers = (vw_memory_numbers){VW_UNKNOWN, VW_UNKNOWN, VW_UNKNOWN, VW_UNKNOWN,
                                   VW_UNKNOWN, VW_UNKNOWN, VW_UNKNOWN, -1};
    seen->others_bytes = VW_UNKNOWN;
    if (seen->row == NULL)
        return;
    const vw_gpu *gpu = seen->row->gpu;
    numbers->device = gpu->index;
    numbers->total_bytes = gpu->total_bytes;
    numbers->free_bytes = gpu->free_bytes;
    numbers->process_bytes = seen->row->process_bytes;
    if (VW__DOCTOR_KNOWS_ALL(gpu->used_bytes, numbers->process_bytes))
        seen->others_bytes = vw__doctor_less(gpu->used_bytes, numbers->process_bytes);
    if (seen->options->card_bytes == 0)
        return;
    numbers->total_bytes = seen->options->card_bytes;
    if (vw__doctor_knows(gpu->used_bytes))
        numbers->free_bytes = vw__doctor_less(numbers->total_bytes, gpu->used_bytes);
}

/* What is held now, beyond the card of the options. */
static uint64_t missing_on_card(const process_case *seen)
{
    if (seen->options->card_bytes == 0 || seen->row == NULL ||
        !vw__doctor_knows(seen->row->gpu->used_bytes))
        return 0;
    return vw__doctor_less(seen->row->gpu->used_bytes, seen->options->card_bytes);
}

static bool is_card_tight(const process_case *seen)
{
    const vw_memory_numbers *numbers = &seen->numbers;
    return VW__DOCTOR_KNOWS_ALL(numbers->total_bytes, numbers->free_bytes) &&
           numbers->free_bytes < numbers->total_bytes / VW__DOCTOR_TIGHT_SHARE;
}

static bool is_crowded(const process_case *seen)
{
    return is_card_tight(seen) && vw__doctor_knows(seen->others_bytes) &&
           seen->others_bytes >= seen->numbers.total_bytes / VW__DOCTOR_MUCH_OUTSIDE;
}

static bool is_host_tight(const process_case *seen)
{
    const vw_process *process = seen->process;
    return VW__DOCTOR_KNOWS_ALL(process->machine_total_bytes, process->machine_available_bytes) &&
           process->machine_available_bytes < process->machine_total_bytes / LEAST_HOST_SHARE;
}

/* ---- what would tell more -------------------------------------------------------------------- */

static bool has_framework(const vw_process *process, const char *framework)
{
    for (size_t i = 0; i < process->framework_count; i++)
        if (strcmp(process->frameworks[i], framework) == 0)
            return true;
    return false;
}

/* Neither the driver nor its libraries show it on a GPU: a launcher, a shell, a loader's worker. */
static bool has_no_gpu_library(const process_case *seen)
{
    return seen->row == NULL && seen->process->are_libraries_known &&
           seen->process->framework_count == 0;
}

static bool can_be_entered(const vw_process *process)
{
    return process->python_major == 3 && process->python_minor >= FIRST_WITH_EXEC &&
           !process->is_debugging_off && !process->is_elsewhere &&
           (has_framework(process, "PyTorch") || !process->are_libraries_known);
}

static void add_ways_to_know(const process_case *seen, vw__diagnosis_finding *finding)
{
    const vw_process *process = seen->process;
    if (can_be_entered(process))
        vw__diagnosis_advice(finding, "enter the process: it writes a snapshot of its GPU memory",
                             "a pause of its Python code, for the snapshot",
                             vw__diagnosis_text(seen->draft, "vramwise doctor --pid %ld --attach",
                                                process->process));
    if (has_framework(process, "PyTorch"))
        vw__diagnosis_advice(finding, "let the program publish its memory, step by step",
                             "two lines, and a restart",
                             "import vramwise.torch\nvramwise.torch.publish()");
    if (has_no_gpu_library(seen))
        vw__diagnosis_advice(finding, "see which processes hold GPU memory", "none",
                             "vramwise top --once");
    vw__diagnosis_advice(
        finding, "start it under vramwise run the next time", "a restart",
        !process->is_typable || strlen(process->command) > LONGEST_TYPED
            ? "vramwise run COMMAND"
            : vw__diagnosis_text(seen->draft, "vramwise run %s", process->command));
}

static void add_unknown(const process_case *seen)
{
    vw__diagnosis_finding *finding =
        vw__diagnosis_add(seen->draft, "unknown", VW_UNKNOWN,
                          "What of its GPU memory is in use, only the process knows; these would "
                          "tell.");
    add_ways_to_know(seen, finding);
}

/* ---- the facts ------------------------------------------------------------------------------- */

static void say_age(const process_case *seen, vw__diagnosis_finding *finding)
{
    const vw_process *process = seen->process;
    char text[VW_DURATION_TEXT_BYTES];
    const char *age = vw__doctor_knows(process->age_seconds)
                          ? vw_format_duration(process->age_seconds, text)
                          : "an unknown time";
    vw__diagnosis_evidence(finding, "Runs for %s%s%s: %s", age,
                           process->python_major != 0
                               ? vw__diagnosis_text(seen->draft, ", Python %u.%u",
                                                    process->python_major, process->python_minor)
                               : "",
                           process->is_elsewhere ? ", in a container" : "",
                           process->command[0] != '\0' ? process->command : "no command is shown");
}

static void say_frameworks(const process_case *seen, vw__diagnosis_finding *finding)
{
    const vw_process *process = seen->process;
    const char *list = "";
    for (size_t i = 0; i < process->framework_count; i++)
        list = vw__diagnosis_text(seen->draft, "%s%s%s", list, i > 0 ? ", " : "",
                                  process->frameworks[i]);
    if (!process->are_libraries_known)
        vw__diagnosis_evidence(finding, "Its libraries are closed to this user.");
    else
        vw__diagnosis_evidence(
            finding, "Loaded: %s.",
            process->framework_count > 0 ? list : "no framework or GPU library that is known here");
}

static void say_variables(const process_case *seen, vw__diagnosis_finding *finding)
{
    const vw_process *process = seen->process;
    if (!process->is_environment_known)
        vw__diagnosis_evidence(finding, "Its environment is closed to this user.");
    for (size_t i = 0; i < process->variable_count; i++)
        vw__diagnosis_evidence(finding, "%s=%s", process->variables[i].name,
                               process->variables[i].value);
}

static void say_host(const process_case *seen, vw__diagnosis_finding *finding)
{
    const vw_process *process = seen->process;
    if (!vw__doctor_knows(process->resident_bytes))
        return;
    const char *left =
        VW__DOCTOR_KNOWS_ALL(process->machine_total_bytes, process->machine_available_bytes)
            ? vw__diagnosis_text(seen->draft, "; the machine has %s of %s left",
                                 VW__DOCTOR_SIZE(process->machine_available_bytes),
                                 VW__DOCTOR_SIZE(process->machine_total_bytes))
            : "";
    vw__diagnosis_evidence(finding, "Host memory: %s%s%s.",
                           VW__DOCTOR_SIZE(process->resident_bytes),
                           known_or_nothing(process->swapped_bytes) > 0
                               ? vw__diagnosis_text(seen->draft, ", and %s swapped out",
                                                    VW__DOCTOR_SIZE(process->swapped_bytes))
                               : "",
                           left);
}

static void say_threads(const process_case *seen, vw__diagnosis_finding *finding)
{
    const vw_process *process = seen->process;
    if (!vw__doctor_knows(process->thread_count))
        return;
    const char *children =
        known_or_nothing(process->child_count) > 0
            ? vw__diagnosis_text(seen->draft, "; %" PRIu64 " child process%s", process->child_count,
                                 process->child_count == 1 ? "" : "es")
            : "";
    vw__diagnosis_evidence(
        finding, "%s (%" PRIu64 " at work, %" PRIu64 " waiting for a disk)%s%s%s.",
        vw__diagnosis_count(seen->draft, process->thread_count, "thread"), process->running_count,
        process->disk_wait_count, process->waits_in[0] != '\0' ? ", the first in " : "",
        process->waits_in, children);
}

static void add_facts(const process_case *seen)
{
    vw__diagnosis_finding *finding = vw__diagnosis_add(seen->draft, "process", VW_UNKNOWN,
                                                       "What the system shows of %s.", seen->who);
    say_age(seen, finding);
    say_frameworks(seen, finding);
    say_variables(seen, finding);
    say_host(seen, finding);
    say_threads(seen, finding);
}

/* ---- others on the card ---------------------------------------------------------------------- */

static int compare_rows(const void *left, const void *right)
{
    const uint64_t a = known_or_nothing((*(const vw_machine_row *const *)left)->process_bytes);
    const uint64_t b = known_or_nothing((*(const vw_machine_row *const *)right)->process_bytes);
    return (a < b) - (a > b);
}

/* The largest of them, as many as are named. */
static size_t find_others(const process_case *seen, const vw_machine_row *out[MOST_NAMED])
{
    size_t count = 0;
    for (size_t i = 0; i < seen->machine->row_count; i++) {
        const vw_machine_row *row = &seen->machine->rows[i];
        if (row->gpu != seen->row->gpu || row->process == seen->process->process)
            continue;
        if (count < MOST_NAMED) {
            out[count++] = row;
        } else {
            qsort(out, count, sizeof *out, compare_rows);
            if (known_or_nothing(row->process_bytes) >
                known_or_nothing(out[count - 1]->process_bytes))
                out[count - 1] = row;
        }
    }
    qsort(out, count, sizeof *out, compare_rows);
    return count;
}

/* Another GPU with more free memory than this one has, the most; NULL: none. */
static const vw_gpu *freer_gpu(const process_case *seen)
{
    const vw_gpu *best = NULL;
    uint64_t most_bytes = known_or_nothing(seen->row->gpu->free_bytes);
    for (size_t i = 0; i < seen->machine->gpu_count; i++) {
        const vw_gpu *gpu = &seen->machine->gpus[i];
        if (gpu != seen->row->gpu && known_or_nothing(gpu->free_bytes) > most_bytes) {
            most_bytes = gpu->free_bytes;
            best = gpu;
        }
    }
    return best;
}

static void add_outside(const process_case *seen)
{
    const vw_machine_row *others[MOST_NAMED];
    const size_t count = find_others(seen, others);
    vw__diagnosis_finding *finding =
        vw__diagnosis_add(seen->draft, "outside", seen->others_bytes,
                          "Others hold $others on GPU %d.", seen->numbers.device);
    for (size_t i = 0; i < count; i++)
        vw__diagnosis_evidence(finding, "Process %ld (%.*s): %s.", others[i]->process,
                               LONGEST_COMMAND, others[i]->command,
                               VW__DOCTOR_SIZE(others[i]->process_bytes));
    const vw_gpu *freer = freer_gpu(seen);
    if (freer != NULL)
        vw__diagnosis_remedy(
            finding,
            vw__diagnosis_text(seen->draft, "use GPU %d, which has more free", freer->index),
            vw__diagnosis_saves(freer->free_bytes), VW_BASIS_MEASURED, "a restart",
            vw__diagnosis_text(seen->draft, "export CUDA_VISIBLE_DEVICES=%d", freer->index));
    vw__diagnosis_advice(finding, "see who holds the card, and end what is left over", "none",
                         "vramwise top --once");
}

/* ---- the verdict ----------------------------------------------------------------------------- */

static void add_host(const process_case *seen)
{
    vw__diagnosis_finding *finding =
        vw__diagnosis_add(seen->draft, "host", seen->process->resident_bytes,
                          "The machine has $available of its $machine left.");
    vw__diagnosis_advice(finding, "fewer loader processes: each has its own copy of the dataset",
                         "loading is slower", "loader = DataLoader(dataset, num_workers=2)");
}

static void conclude_unknown(const process_case *seen)
{
    vw__diagnosis_draft *draft = seen->draft;
    if (has_no_gpu_library(seen))
        vw__diagnosis_conclude(draft, VW_VERDICT_UNKNOWN, VW_CONFIDENCE_LOW,
                               "No GPU memory shows: %s has loaded no GPU library that is known "
                               "here%s.",
                               seen->who,
                               vw__doctor_knows(seen->process->child_count) &&
                                       seen->process->child_count > 0
                                   ? ", and its child processes are not part of it"
                                   : "");
    else if (seen->row == NULL && seen->machine->gpu_trouble != NULL)
        vw__diagnosis_conclude(draft, VW_VERDICT_UNKNOWN, VW_CONFIDENCE_LOW,
                               "What %s holds on a GPU is unknown: no GPU driver answers here.",
                               seen->who);
    else if (seen->row == NULL)
        vw__diagnosis_conclude(draft, VW_VERDICT_UNKNOWN, VW_CONFIDENCE_LOW,
                               "No GPU of this machine shows memory of %s%s.", seen->who,
                               seen->process->is_elsewhere ? ", which runs in a container" : "");
    else if (!VW__DOCTOR_KNOWS_ALL(seen->numbers.total_bytes, seen->numbers.free_bytes))
        vw__diagnosis_conclude(draft, VW_VERDICT_UNKNOWN, VW_CONFIDENCE_LOW,
                               "GPU %d, which %s uses, does not say how full it is.",
                               seen->numbers.device, seen->who);
    else
        vw__diagnosis_conclude(draft, VW_VERDICT_UNKNOWN, VW_CONFIDENCE_LOW,
                               "%s: GPU %d has $free of $total free, and $held are held by %s.",
                               is_card_tight(seen) ? "Nearly full"
                                                   : "Nothing wrong shows from outside",
                               seen->numbers.device, seen->who);
}

static void conclude(const process_case *seen)
{
    vw__diagnosis_draft *draft = seen->draft;
    if (is_crowded(seen))
        add_outside(seen);
    if (is_host_tight(seen))
        add_host(seen);
    if (missing_on_card(seen) > 0) {
        vw__diagnosis_add(draft, "genuine", missing_on_card(seen),
                          "$missing would be missing on a card of $total.");
        vw__diagnosis_conclude(
            draft, VW_VERDICT_GENUINE, VW_CONFIDENCE_MEDIUM,
            "Too much for a card of $total: $held are held by %s, and $others by others.",
            seen->who);
    } else if (is_crowded(seen)) {
        vw__diagnosis_conclude(
            draft, VW_VERDICT_OUTSIDE, VW_CONFIDENCE_MEDIUM,
            "Others hold $others of GPU %d's $total, of which $free are free; $held are held by "
            "%s.",
            seen->numbers.device, seen->who);
    } else if (is_host_tight(seen)) {
        vw__diagnosis_conclude(draft, VW_VERDICT_HOST, VW_CONFIDENCE_MEDIUM,
                               "The machine's own memory runs out: $available of $machine are "
                               "left, and $resident are held by %s.",
                               seen->who);
    } else {
        conclude_unknown(seen);
    }
    add_unknown(seen);
    add_facts(seen);
}

static void explain(const process_case *seen)
{
    vw__diagnosis_draft *draft = seen->draft;
    vw__diagnosis_reason(draft,
                         "Nothing is published by %s: NVML and /proc were read, the process was "
                         "not touched.",
                         seen->who);
    if (seen->machine->gpu_trouble != NULL)
        vw__diagnosis_reason(draft, "No GPU is known: %s.", seen->machine->gpu_trouble);
    for (size_t i = 0; i < seen->machine->row_count; i++) {
        const vw_machine_row *row = &seen->machine->rows[i];
        if (row->process == seen->process->process && row->gpu != NULL)
            vw__diagnosis_reason(
                draft, "GPU %d (%s): it holds %s; %s of %s are free.", row->gpu->index,
                row->gpu->name, VW__DOCTOR_SIZE(row->process_bytes),
                VW__DOCTOR_SIZE(row->gpu->free_bytes), VW__DOCTOR_SIZE(row->gpu->total_bytes));
    }
}

static void name_words(process_case *seen)
{
    vw__diagnosis_draft *draft = seen->draft;
    const vw_process *process = seen->process;
    seen->who = process->command[0] != '\0'
                    ? vw__diagnosis_text(draft, "process %ld (%.*s%s)", process->process,
                                         LONGEST_COMMAND, process->command,
                                         strlen(process->command) > LONGEST_COMMAND ? "..." : "")
                    : vw__diagnosis_text(draft, "process %ld", process->process);
    vw__diagnosis_name_numbers(draft, &seen->numbers);
    vw__diagnosis_name(draft, "others", seen->others_bytes);
    vw__diagnosis_name(draft, "held", seen->numbers.process_bytes);
    vw__diagnosis_name(draft, "missing", missing_on_card(seen));
    vw__diagnosis_name(draft, "resident", process->resident_bytes);
    vw__diagnosis_name(draft, "available", process->machine_available_bytes);
    vw__diagnosis_name(draft, "machine", process->machine_total_bytes);
}

vw_status vw_doctor_process(const vw_process *process, const vw_machine *machine,
                            const vw_doctor_options *options, vw_diagnosis **out)
{
    vw_doctor_options used;
    vw__diagnosis_draft draft;
    if (process == NULL || machine == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected a process, its machine and a place for the diagnosis");
    VW__TRY(vw__doctor_read_options(options, &used));
    vw__diagnosis_init(&draft, VW_SOURCE_PROCESS);
    draft.is_running = true;
    process_case seen = {.process = process, .machine = machine, .options = &used, .draft = &draft};
    find_row(&seen);
    note_numbers(&seen);
    name_words(&seen);
    explain(&seen);
    conclude(&seen);
    draft.numbers = seen.numbers;
    return vw__doctor_settle(VW_OK, &draft, out);
}
