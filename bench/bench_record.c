/* bench_record.c - what listening costs.
 *
 * The patterns of alloc_patterns.h on the simulated device, one thread: without a recorder, and
 * with one in each way of getting stacks, in turns within the same run, so that a machine that
 * slows down slows them all. Prints one line of CSV per case: name, parameter, stacks, operations,
 * median and 99th percentile of the nanoseconds per operation over batches, the same median per
 * event that the recorder costs on top (an operation is three: the block handed out, the free
 * requested, the free completed), and the ratio to no recorder. Then what writing takes: seconds
 * and bytes per million events.
 *
 * "caller" hands in a stack of sixteen frames with each request, found in the table and not new:
 * the cost of vw_recorder_add_stack() is part of it. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "vramwise/vramwise.h"
#include "vramwise/recording.h"

#include "alloc_patterns.h"

enum { OPERATIONS = 5000, EVENTS_PER_OPERATION = 3, FRAMES = 16, STACKS = 64, MODES = 4 };

static const char *const mode_names[MODES] = {"no recorder", "none", "backtrace", "caller"};

static void must(vw_status status)
{
    if (__builtin_expect(status != VW_OK, 0)) {
        fprintf(stderr, "bench_record: %s: %s\n", vw_status_name(status), vw_last_error());
        exit(3);
    }
}

/* One pool, with or without a recorder, and a place in the pattern. */
typedef struct runner {
    vw_device *device;
    vw_pool *pool;
    vw_recorder *recorder; /* NULL: none */
    bool hands_in_stacks;
    const alloc_pattern *pattern;
    uint64_t cursor;
    vw_device_ptr live[PATTERN_MOST_LIVE];
    double batch_ns[PATTERN_BATCHES]; /* per operation */
} runner;

static pattern_draws draws;
static vw_stack_frame stacks[STACKS][FRAMES];

static void make_stacks(void)
{
    static const char *const functions[] = {"forward", "backward", "_call_impl", "step"};
    static const char *const files[] = {"/venv/torch/nn/modules/module.py", "train.py"};
    for (uint32_t i = 0; i < STACKS; i++)
        for (uint32_t k = 0; k < FRAMES; k++)
            stacks[i][k] = (vw_stack_frame){functions[k % 4], files[k % 2], 100 * i + k};
}

static void begin(runner *r, unsigned mode, const alloc_pattern *pattern)
{
    const vw_simulated_options device_options = {
        .struct_size = sizeof device_options,
        .capacity_bytes = UINT64_C(1) << 40,
    };
    const vw_recorder_options options = {
        .struct_size = sizeof options,
        .stacks = mode == 0 ? VW_STACKS_NONE : (vw_stacks)(mode - 1),
    };
    *r = (runner){.pattern = pattern, .hands_in_stacks = options.stacks == VW_STACKS_CALLER};
    must(vw_simulated_device_create(&device_options, &r->device));
    must(vw_pool_create(r->device, NULL, &r->pool));
    if (mode != 0) {
        must(vw_recorder_create(&options, &r->recorder));
        must(vw_recorder_attach(r->recorder, r->pool));
    }
    for (size_t i = 0; i < pattern->live_count; i++)
        must(vw_alloc(r->pool, draws.first_sizes[i], 0, &r->live[i]));
}

static void end(runner *r)
{
    for (size_t i = 0; i < r->pattern->live_count; i++)
        must(vw_free(r->pool, r->live[i]));
    vw_recorder_destroy(r->recorder);
    vw_pool_destroy(r->pool);
    vw_device_destroy(r->device);
}

static inline void ask(runner *r, uint64_t size_bytes, vw_device_ptr *out)
{
    if (!r->hands_in_stacks) {
        must(vw_alloc(r->pool, size_bytes, 0, out));
        return;
    }
    vw_alloc_request request = {.struct_size = sizeof request, .size_bytes = size_bytes};
    must(vw_recorder_add_stack(r->recorder, stacks[r->cursor % STACKS], FRAMES, &request.tag));
    must(vw_alloc_with(r->pool, &request, out));
}

static void run_batch(runner *r)
{
    for (uint64_t i = 0; i < OPERATIONS; i++) {
        uint64_t at = r->cursor++ % PATTERN_DRAWS;
        vw_device_ptr *place = &r->live[draws.places[at]];
        bool is_pair = r->pattern->size_bytes != 0;
        if (!is_pair)
            must(vw_free(r->pool, *place));
        ask(r, is_pair ? r->pattern->size_bytes : draws.sizes[at], place);
        if (is_pair)
            must(vw_free(r->pool, *place));
    }
}

static void measure(const alloc_pattern *pattern)
{
    static runner runners[MODES];
    double medians[MODES];
    pattern_draw(&draws, pattern, 0);
    for (unsigned mode = 0; mode < MODES; mode++) {
        begin(&runners[mode], mode, pattern);
        for (int i = 0; i < 10; i++)
            run_batch(&runners[mode]); /* warm up */
    }
    for (int i = 0; i < PATTERN_BATCHES; i++)
        for (unsigned mode = 0; mode < MODES; mode++) {
            uint64_t begin_ns = pattern_now_ns();
            run_batch(&runners[mode]);
            runners[mode].batch_ns[i] = (double)(pattern_now_ns() - begin_ns) / OPERATIONS;
        }
    char parameter[32];
    if (pattern->size_bytes != 0)
        snprintf(parameter, sizeof parameter, "%" PRIu64, pattern->size_bytes);
    else
        snprintf(parameter, sizeof parameter, "%zu live", pattern->live_count);
    for (unsigned mode = 0; mode < MODES; mode++) {
        double *batch_ns = runners[mode].batch_ns;
        qsort(batch_ns, PATTERN_BATCHES, sizeof *batch_ns, pattern_by_value);
        medians[mode] = batch_ns[PATTERN_BATCHES / 2];
        printf("%s,%s,%s,%d,%.1f,%.1f,%.1f,%.2f\n", pattern->name, parameter, mode_names[mode],
               OPERATIONS * PATTERN_BATCHES, medians[mode], batch_ns[PATTERN_BATCHES * 99 / 100],
               (medians[mode] - medians[0]) / EVENTS_PER_OPERATION, medians[mode] / medians[0]);
    }
    fflush(stdout);
    for (unsigned mode = 0; mode < MODES; mode++)
        end(&runners[mode]);
}

static bool count_bytes(void *context, const void *bytes, size_t size_bytes)
{
    (void)bytes;
    *(uint64_t *)context += size_bytes;
    return true;
}

static void measure_writing(unsigned mode)
{
    static runner r;
    const alloc_pattern *pattern = &alloc_patterns[PATTERN_COUNT - 1];
    pattern_draw(&draws, pattern, 0);
    begin(&r, mode, pattern);
    vw_recorder_counts counts = {.struct_size = sizeof counts};
    do {
        run_batch(&r);
        must(vw_recorder_get_counts(r.recorder, &counts));
    } while (counts.overwritten_count == 0);
    uint64_t written_bytes = 0, begin_ns = pattern_now_ns();
    must(vw_recorder_write_to(r.recorder, r.pool, count_bytes, &written_bytes));
    printf("write,%" PRIu64 " events,%s,1,%.3f s,%" PRIu64 " bytes,%" PRIu64 " bytes held,\n",
           counts.kept_count, mode_names[mode], (double)(pattern_now_ns() - begin_ns) / 1e9,
           written_bytes, counts.held_bytes);
    end(&r);
}

int main(void)
{
    make_stacks();
    printf("name,parameter,stacks,operations,median_ns,p99_ns,ns_per_event,ratio\n");
    for (size_t i = 0; i < PATTERN_COUNT; i++)
        measure(&alloc_patterns[i]);
    for (unsigned mode = 1; mode < MODES; mode++)
        measure_writing(mode);
    return 0;
}
