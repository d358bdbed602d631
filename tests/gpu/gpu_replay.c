/* gpu_replay.c - recordings replayed on a real GPU, under our engines, PyTorch's rules and the
 * driver's own allocators: what each takes in time and memory, and whether every byte survives.
 *
 * Run by hand where there is a GPU; CTest runs it on the host device and on the fake driver, where
 * its times mean nothing and its checks all. Writes a Markdown table, a row for each recording and
 * policy:
 *
 *   live       the most bytes requested and not yet freed at once, in what was played
 *   reserved   the most that the allocator says it held; and that over live
 *   driver     the most that the driver was seen to have handed out for it
 *   wall       until the device's last kernel was done
 *   calls      host time in the allocator; of a call at the mean, at most, and at most after the
 *              first quarter of the operations. Trims (empty_cache) are not calls
 *   wrong      words of blocks that were not as they had been written: must be 0
 *
 * See usage() for the options. Exit status: 0 all is well (running out of memory is a result), 1
 * wrong words, memory that was not given back, or a run that failed, 2 wrong usage, 3 a recording
 * that cannot be played, 77 no GPU here. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vramwise/analysis.h"
#include "vramwise/units.h"
#include "analysis/recording.h" /* vw__recording_trace */
#include "device/nvml_load.h"   /* vw__nvml_driver_version */
#include "gpu/gpu_replay_run.h"

enum { EXIT_WRONG = 1, EXIT_USAGE = 2, EXIT_UNABLE = 3, EXIT_SKIPPED = 77 };
enum { MOST_POLICIES = 32, MOST_STREAM_TURNS = 64 };

#define HOST_DEVICE_BYTES                                                                          \
    (UINT64_C(256) << 30)                       /* addresses: memory is taken where it is touched  \
                                                 */
#define KEPT_ALLOWED_BYTES (UINT64_C(64) << 20) /* the driver keeps small change of its own */
#define GIB(bytes) ((double)(bytes)*0x1p-30)

typedef struct options {
    const replay_policy *policies[MOST_POLICIES];
    size_t policy_count;
    size_t most_operations;
    size_t stream_turns;
    double most_seconds;
    uint64_t card_bytes;
    double card_ratio; /* of the peak of live bytes; 0: card_bytes says */
    int device_index;
    bool is_host;
    bool is_sampled;
    bool has_no_kernels;
} options;

/* What all runs share. */
typedef struct machine {
    vw_device *device;
    replay_driver driver;
    bool has_driver;
    replay_bytes bytes;
    bool has_bytes;
} machine;

/* ---- the command line ------------------------------------------------------------------------ */

static int usage(void)
{
    fputs("usage: gpu_replay [options] RECORDING...\n"
          "  --policy LIST     names with commas between; without it, all there are:\n             "
          "     ",
          stderr);
    for (const replay_policy *policy = replay_policies; policy->name != NULL; policy++)
        fprintf(stderr, " %s", policy->name);
    fputs("\n"
          "  --operations N    of each recording, at most (all)\n"
          "  --streams N       each stream of a recording becomes N, in turn (1)\n"
          "  --seconds S       of each run, at most (8)\n"
          "  --card SIZE       what a pool may reserve: 20GiB, or 1.05x the peak of live bytes;\n"
          "                    the driver's own allocators have no limit\n"
          "  --sample          of blocks over 1 MiB only pieces are written and checked\n"
          "  --no-kernels      the allocator's calls alone\n"
          "  --device INDEX    the GPU (0)\n"
          "  --host            no GPU: the host device, patterns by the processor\n",
          stderr);
    return EXIT_USAGE;
}

static bool add_policies(options *o, char *list)
{
    for (char *name; (name = strsep(&list, ",")) != NULL;) {
        const replay_policy *policy = replay_policy_find(name);
        if (policy == NULL || o->policy_count == MOST_POLICIES) {
            fprintf(stderr, "gpu_replay: --policy: %s '%s'\n",
                    policy == NULL ? "there is no" : "too many at", name);
            return false;
        }
        o->policies[o->policy_count++] = policy;
    }
    return true;
}

static void add_all_policies(options *o)
{
    for (const replay_policy *policy = replay_policies; policy->name != NULL; policy++)
        if (!o->is_host || !policy->is_async)
            o->policies[o->policy_count++] = policy;
}

static bool parse_card(options *o, const char *text)
{
    char *end;
    double ratio = strtod(text, &end);
    if (end != text && strcmp(end, "x") == 0 && ratio > 0.0) {
        o->card_ratio = ratio;
        return true;
    }
    o->card_ratio = 0.0;
    return vw_parse_size(text, &o->card_bytes) == VW_OK && o->card_bytes != 0;
}

static bool parse_count(const char *text, size_t *out)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    *out = (size_t)value;
    return end != text && *end == '\0' && text[0] != '-' && value != 0;
}

static bool parse_seconds(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && *out > 0.0 && *out < 1e6;
}

static bool parse_index(const char *text, int *out)
{
    char *end;
    long value = strtol(text, &end, 10);
    *out = (int)value;
    return end != text && *end == '\0' && value >= 0 && value < 1024;
}

static bool parse_option(options *o, int letter, char *value)
{
    switch (letter) {
    case 'p':
        return add_policies(o, value);
    case 'o':
        return parse_count(value, &o->most_operations);
    case 't':
        return parse_count(value, &o->stream_turns) && o->stream_turns <= MOST_STREAM_TURNS;
    case 's':
        return parse_seconds(value, &o->most_seconds);
    case 'c':
        return parse_card(o, value);
    case 'd':
        return parse_index(value, &o->device_index);
    case 'S':
        return o->is_sampled = true;
    case 'n':
        return o->has_no_kernels = true;
    case 'h':
        return o->is_host = true;
    default:
        return false;
    }
}

static bool parse_command_line(options *o, int argument_count, char **arguments)
{
    static const struct option known[] = {
        {"policy", required_argument, NULL, 'p'},  {"operations", required_argument, NULL, 'o'},
        {"streams", required_argument, NULL, 't'}, {"seconds", required_argument, NULL, 's'},
        {"card", required_argument, NULL, 'c'},    {"device", required_argument, NULL, 'd'},
        {"sample", no_argument, NULL, 'S'},        {"no-kernels", no_argument, NULL, 'n'},
        {"host", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
    };
    *o = (options){.most_operations = SIZE_MAX, .stream_turns = 1, .most_seconds = 8.0};
    for (int letter; (letter = getopt_long(argument_count, arguments, "", known, NULL)) != -1;)
        if (!parse_option(o, letter, optarg))
            return false;
    if (o->policy_count == 0)
        add_all_policies(o);
    return optind < argument_count;
}

/* ---- the machine ----------------------------------------------------------------------------- */

static vw_status open_machine(machine *m, const options *o)
{
    *m = (machine){.device = NULL};
    if (o->is_host) {
        vw_status status = vw_host_device_create(HOST_DEVICE_BYTES, &m->device);
        if (status != VW_OK)
            return status;
    } else {
        vw_status status = vw_cuda_device_open(o->device_index, &m->device);
        if (status == VW_OK)
            status = replay_driver_open(o->device_index, &m->driver);
        if (status != VW_OK)
            return status;
        m->has_driver = true;
    }
    m->has_bytes = !o->has_no_kernels;
    return o->has_no_kernels ? VW_OK
                             : replay_bytes_init(&m->bytes, m->device,
                                                 m->has_driver ? &m->driver : NULL, o->is_sampled);
}

static void close_machine(machine *m)
{
    if (m->has_bytes)
        replay_bytes_deinit(&m->bytes);
    if (m->has_driver)
        replay_driver_close(&m->driver);
    vw_device_destroy(m->device);
}

static void print_machine(const machine *m, const options *o)
{
    printf("%s, %.2f GiB", m->device->properties.name, GIB(m->device->properties.total_bytes));
    if (m->has_driver) {
        char version[96];
        int cuda_version = 0;
        if (vw__nvml_driver_version(version, sizeof version) != VW_OK)
            snprintf(version, sizeof version, "unknown");
        (void)m->driver.base->cuDriverGetVersion(&cuda_version);
        printf(", driver %s, CUDA %d.%d", version, cuda_version / 1000, cuda_version % 1000 / 10);
    }
    printf(". %s.", o->has_no_kernels ? "Allocator calls alone, no kernels"
                    : o->is_sampled   ? "Patterns in every block, of large ones in pieces"
                                      : "Patterns in every byte of every block");
    if (o->stream_turns > 1)
        printf(" %zu streams in turn for each of the recording's.", o->stream_turns);
    if (o->card_ratio > 0.0)
        printf(" Pools may reserve %g times the peak of live bytes.", o->card_ratio);
    else if (o->card_bytes != 0)
        printf(" Pools may reserve %.3f GiB.", GIB(o->card_bytes));
    printf("\n\n| recording | policy | operations | live GiB | reserved GiB | ratio | driver GiB "
           "| wall s | calls ms | mean us | longest ms | later ms | wrong | notes |\n"
           "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void print_memory(const replay_result *result)
{
    uint64_t reserved_bytes = result->use.peak_reserved_bytes;
    printf(" %.3f |", GIB(result->peak_live_bytes));
    if (reserved_bytes == UINT64_MAX || result->peak_live_bytes == 0)
        printf(" | |");
    else
        printf(" %.3f | %.3f |", GIB(reserved_bytes),
               (double)reserved_bytes / (double)result->peak_live_bytes);
    printf(" %.3f |", GIB(result->peak_driver_bytes));
}

static void print_times(const replay_result *result)
{
    double calls = result->calls != 0 ? (double)result->calls : 1.0;
    printf(" %.3f | %.2f | %.2f | %.3f | %.3f |", (double)result->wall_ns / 1e9,
           (double)result->calls_ns / 1e6, (double)result->calls_ns / calls / 1e3,
           (double)result->longest_ns / 1e6, (double)result->longest_later_ns / 1e6);
}

static void print_paged(const replay_use *use)
{
    const vw_paged_stats *paged = &use->paged;
    printf(" %" PRIu64 " misses, %" PRIu64 " handles moved (%.2f GiB, %" PRIu64
           " to another stream);",
           paged->misses, paged->moved_handles, GIB(paged->moved_bytes), paged->crossed_handles);
    if (paged->copies != 0 || paged->refused_copies != 0 || use->safe_points != 0)
        printf(" %.2f GiB copied in %" PRIu64 " copies, %" PRIu64 " refused, %" PRIu64
               " safe points;",
               GIB(paged->copied_bytes), paged->copies, paged->refused_copies, use->safe_points);
    if (paged->is_fallback)
        printf(" no virtual memory: plain segments;");
    if (paged->is_failed)
        printf(" THE POOL FAILED;");
}

/* Cells end at a bar and at a line's end, which a driver's words may have. */
static void print_words(const char *words)
{
    for (; *words != '\0'; words++)
        putchar(*words == '|' || *words == '\n' ? ' ' : *words);
}

static void print_notes(const replay_result *result, bool is_beyond_limit)
{
    if (result->end == REPLAY_OUT_OF_MEMORY)
        printf(" **out of memory** at operation %zu, for %.3f GiB;", result->operations,
               GIB(result->refused_bytes));
    if (result->end == REPLAY_OUT_OF_TIME)
        printf(" stopped: out of time;");
    if (result->end == REPLAY_FAILED) {
        printf(" **failed**: ");
        print_words(result->text);
        printf(";");
    }
    if (result->errors.count != 0)
        printf(" **wrong bytes**: first in the block of operation %zu%s, word %" PRIu64
               " is %#" PRIx64 ", not %#" PRIx64 ";",
               replay_seed_operation(result->errors.seed),
               result->errors.seed == 0 ? " (unknown)" : "", result->errors.word,
               result->errors.found, result->errors.wanted);
    if (result->kept_bytes > KEPT_ALLOWED_BYTES)
        printf(" **%.3f GiB not given back**;", GIB(result->kept_bytes));
    if (is_beyond_limit)
        printf(" no limit on it;");
    if (result->use.has_paged_stats)
        print_paged(&result->use);
    if (result->trims_ns != 0)
        printf(" trims %.2f ms;", (double)result->trims_ns / 1e6);
    printf(" longest at operation %zu", result->longest_operation);
}

static bool print_row(const char *recording, const replay_policy *policy,
                      const replay_result *result, bool is_beyond_limit)
{
    printf("| %s | %s | %zu |", recording, policy->name, result->operations);
    print_memory(result);
    print_times(result);
    printf(" %" PRIu64 " |", result->errors.count);
    print_notes(result, is_beyond_limit);
    printf(" |\n");
    (void)fflush(stdout);
    return result->errors.count == 0 && result->end != REPLAY_FAILED &&
           result->kept_bytes <= KEPT_ALLOWED_BYTES && !result->use.paged.is_failed;
}

static void print_refusal(const char *recording, const replay_policy *policy)
{
    printf("| %s | %s | | | | | | | | | | | | **could not begin**: ", recording, policy->name);
    print_words(vw_last_error());
    printf(" |\n");
    (void)fflush(stdout);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Is all well? */
static bool run_policy(machine *m, const options *o, const char *name, const vw__script *script,
                       const replay_policy *policy, uint64_t card_bytes, size_t operation_count)
{
    static uint64_t run_number;
    replay_allocator allocator;
    replay_result result;
    const replay_run_options run_options = {
        .device = m->device,
        .bytes = m->has_bytes ? &m->bytes : NULL,
        .operation_count = operation_count,
        .stream_turns = o->stream_turns,
        .most_ns = (uint64_t)(o->most_seconds * 1e9),
        .run_number = ++run_number,
    };
    if (replay_allocator_make(policy, m->device, m->has_driver ? &m->driver : NULL, card_bytes,
                              &allocator) != VW_OK ||
        replay_run(script, allocator, &run_options, &result) != VW_OK) {
        print_refusal(name, policy);
        return false;
    }
    return print_row(name, policy, &result, card_bytes != 0 && !allocator.has_limit);
}

static int run_script(machine *m, const options *o, const char *name, const vw__script *script)
{
    size_t operation_count =
        script->op_count < o->most_operations ? script->op_count : o->most_operations;
    uint64_t card_bytes = o->card_bytes, peak_bytes = 0;
    bool is_well = true;
    if (replay_peak_live(script, operation_count, &peak_bytes) != VW_OK)
        return EXIT_UNABLE;
    if (o->card_ratio > 0.0)
        card_bytes = (uint64_t)((double)peak_bytes * o->card_ratio);
    for (size_t i = 0; i < o->policy_count; i++)
        is_well &= run_policy(m, o, name, script, o->policies[i], card_bytes, operation_count);
    return is_well ? 0 : EXIT_WRONG;
}

static int run_recording(machine *m, const options *o, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    const vw__model_trace *trace = NULL;
    vw_recording *recording = NULL;
    vw__script script = {.ops = NULL};
    int exit_status = EXIT_UNABLE;
    if (vw_recording_open(path, NULL, &recording) != VW_OK ||
        vw__recording_trace(recording->model, VW_BUSIEST_DEVICE, &trace) != VW_OK ||
        vw__script_make(recording->model, trace, &script) != VW_OK) {
        fprintf(stderr, "gpu_replay: %s: %s\n", path, vw_last_error());
    } else {
        exit_status = run_script(m, o, name, &script);
        vw__script_deinit(&script);
    }
    vw_recording_close(recording);
    return exit_status;
}

int main(int argument_count, char **arguments)
{
    options o;
    machine m;
    int exit_status = 0;
    if (!parse_command_line(&o, argument_count, arguments))
        return usage();
    vw_status status = open_machine(&m, &o);
    if (status != VW_OK) {
        printf("%s: %s\n", status == VW_ERR_NO_DEVICE ? "skipped" : vw_status_name(status),
               vw_last_error());
        return status == VW_ERR_NO_DEVICE ? EXIT_SKIPPED : EXIT_WRONG;
    }
    print_machine(&m, &o);
    for (int i = optind; i < argument_count; i++) {
        int one_status = run_recording(&m, &o, arguments[i]);
        exit_status = one_status > exit_status ? one_status : exit_status;
    }
    close_machine(&m);
    return exit_status;
}
