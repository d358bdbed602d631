/* test_view_recordings.c - views of real recordings, held against the timeline, the moments and the
 * statistics that they are made from.
 *
 * The recordings of tests/data/recordings; and, where VRAMWISE_CORPUS names a folder, a few of it
 * that are large. Each as it is, and without its first third, as a ring would have left it. */
#include "vramwise/view.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/attribution.h"
#include "analysis/moment.h"
#include "analysis/steps.h"
#include "analysis/timeline.h"
#include "base/host_memory.h"
#include "support/cmocka_here.h"
#include "support/read_view.h"
#include "support/stored_recordings.h"

enum { SAMPLES = 24 };

typedef struct seen_view {
    const char *name;
    vw_view *view;
    read_view read;
    read_blocks blocks;
    read_pieces pieces;
    uint64_t *reserved_instants, *reserved_bytes;
    size_t reserved_count;
} seen_view;

static void see(const char *name, const vw_recording *recording, bool has_what_if, seen_view *out)
{
    const vw_view_options options = {
        .struct_size = sizeof options, .file = name, .without_what_if = !has_what_if};
    size_t size_bytes, count;
    *out = (seen_view){.name = name};
    vw_status status = vw_view_make(recording, NULL, &options, &out->view);
    if (status != VW_OK)
        print_error("%s: %s\n", name, vw_last_error());
    assert_int_equal(status, VW_OK);
    const void *bytes = vw_view_data(out->view, &size_bytes);
    read_view_open(&out->read, bytes, size_bytes);
    read_blocks_of(&out->read, 0, 0, &out->blocks);
    read_pieces_of(&out->read, 0, 0, &out->pieces);
    out->reserved_instants =
        read_view_column(&out->read, "r0.d0.reserved.instant", &out->reserved_count);
    out->reserved_bytes = read_view_column(&out->read, "r0.d0.reserved.bytes", &count);
    assert_int_equal(count, out->reserved_count);
}

static void forget(seen_view *seen)
{
    free(seen->reserved_instants);
    free(seen->reserved_bytes);
    read_pieces_free(&seen->pieces);
    read_blocks_free(&seen->blocks);
    read_view_close(&seen->read);
    vw_view_free(seen->view);
}

/* ---- instants -------------------------------------------------------------------------------- */

static void assert_bytes(const seen_view *seen, const char *what, uint32_t instant, uint64_t found,
                         uint64_t expected)
{
    if (found != expected)
        fail_msg("%s, instant %u: %s is %llu, expected %llu", seen->name, instant, what,
                 (unsigned long long)found, (unsigned long long)expected);
}

static void compare_instant(const seen_view *seen, const vw__timeline *timeline,
                            const int64_t *live_line, uint32_t instant)
{
    assert_bytes(seen, "live", instant, read_blocks_at(&seen->blocks, instant),
                 (uint64_t)live_line[instant]);
    if (!timeline->is_reserved_known) {
        assert_int_equal(seen->reserved_count, 0);
        return;
    }
    uint64_t reserved_bytes =
        read_step(seen->reserved_instants, seen->reserved_bytes, seen->reserved_count, instant);
    assert_bytes(seen, "reserved", instant, reserved_bytes,
                 vw__timeline_reserved_at(timeline, instant));
    assert_bytes(seen, "pieces", instant, read_pieces_at(&seen->pieces, instant), reserved_bytes);
}

static void compare_instants(const seen_view *seen, const vw__timeline *timeline)
{
    uint32_t last = (uint32_t)timeline->trace->event_count;
    int64_t *live_line = vw__timeline_live_line(timeline);
    assert_non_null(live_line);
    for (uint64_t i = 0; i <= SAMPLES; i++)
        compare_instant(seen, timeline, live_line, (uint32_t)(last * i / SAMPLES));
    compare_instant(seen, timeline, live_line, timeline->peak_instant);
    vw__host_free(live_line);
}

/* ---- the peak, by stack ---------------------------------------------------------------------- */

/* Usages of a moment are by stack: as many different stacks as blocks at the peak have, and the
 * largest holds what the blocks of one stack add up to. */
static void compare_peak(const seen_view *seen, const vw__timeline *timeline,
                         const vw__attribution *attribution)
{
    vw__arena arena;
    vw_moment peak;
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    assert_int_equal(
        vw__moment_of_instant(timeline, timeline->peak_instant, attribution, 0, &arena, &peak),
        VW_OK);
    size_t stack_count = read_view_number(read_view_run(&seen->read, 0), "stack_count");
    uint64_t *sums = calloc(stack_count + 1, sizeof *sums), most = 0, used = 0;
    for (size_t i = 0; i < seen->blocks.count; i++) {
        if (seen->blocks.begin[i] > timeline->peak_instant ||
            seen->blocks.end[i] <= timeline->peak_instant)
            continue;
        uint64_t stack = seen->blocks.stack[i];
        assert_true(stack == VIEW_NONE || stack < stack_count);
        sums[stack != VIEW_NONE ? stack : stack_count] += seen->blocks.size[i];
    }
    for (size_t i = 0; i <= stack_count; i++) {
        most = sums[i] > most ? sums[i] : most;
        used += sums[i] != 0;
    }
    assert_int_equal(used, peak.usage_count);
    assert_true(peak.usage_count == 0 || most == peak.usages[0].bytes);
    const json_t *device = read_view_device(&seen->read, 0, 0);
    assert_int_equal(read_view_number(device, "peak_live_bytes"), peak.live_bytes);
    assert_int_equal(read_view_number(device, "peak_instant"), timeline->peak_instant);
    free(sums);
    vw__arena_deinit(&arena);
}

/* ---- order, levels, steps -------------------------------------------------------------------- */

static void check_order(const seen_view *seen, uint32_t last_instant)
{
    const read_blocks *blocks = &seen->blocks;
    for (size_t i = 0; i < blocks->count; i++) {
        assert_true(blocks->begin[i] < blocks->end[i] && blocks->freed[i] <= blocks->end[i]);
        if (i > 0)
            assert_true(blocks->begin[i - 1] < blocks->begin[i] ||
                        (blocks->begin[i] == 0 && blocks->begin[i - 1] == 0 &&
                         blocks->address[i - 1] <= blocks->address[i]));
        uint64_t last = blocks->end[i] != VIEW_NONE ? blocks->end[i] - 1 : last_instant;
        uint64_t step = UINT64_C(1) << blocks->level[i]; /* on this grid, and on no coarser */
        assert_true(last / step * step >= blocks->begin[i]);
        assert_true(blocks->level[i] == 31 || last / (2 * step) * (2 * step) < blocks->begin[i]);
    }
}

static void compare_steps(const seen_view *seen, const vw__timeline *timeline,
                          const vw__attribution *attribution)
{
    vw__steps steps;
    size_t count;
    assert_int_equal(vw__steps_find_in(timeline, attribution, &steps), VW_OK);
    uint64_t *ends = read_view_column(&seen->read, "r0.d0.step.end", &count);
    assert_int_equal(count, steps.end_count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(ends[i], steps.ends[i]);
    free(ends);
    vw__steps_deinit(&steps);
}

/* ---- a recording ----------------------------------------------------------------------------- */

static void compare(const char *name, const vw_recording *recording, bool has_what_if)
{
    const vw__model *model = recording->model;
    const vw__model_trace *trace = &model->traces[0];
    seen_view seen;
    vw__timeline timeline;
    vw__attribution attribution;
    assert_int_equal(vw__timeline_make(model, trace, &timeline), VW_OK);
    assert_int_equal(vw__attribution_init(&attribution, model), VW_OK);
    see(name, recording, has_what_if, &seen);
    assert_int_equal(seen.blocks.count, timeline.lifetime_count);
    compare_instants(&seen, &timeline);
    compare_peak(&seen, &timeline, &attribution);
    compare_steps(&seen, &timeline, &attribution);
    check_order(&seen, (uint32_t)trace->event_count);
    const json_t *device = read_view_device(&seen.read, 0, 0);
    assert_int_equal(json_array_size(json_object_get(device, "what_if")), has_what_if ? 3 : 0);
    forget(&seen);
    vw__attribution_deinit(&attribution);
    vw__timeline_deinit(&timeline);
}

static void compare_whole_and_cut(const stored_recording *one)
{
    size_t event_count = one->recording->model->traces[0].event_count;
    partial_recording part;
    compare(one->name, one->recording, true);
    make_partial(one, event_count / 3, event_count, &part);
    compare(one->name, &part.recording, false);
}

static void every_stored_recording_is_shown_as_it_is(void **state)
{
    (void)state;
    each_stored_recording(compare_whole_and_cut);
}

static void a_few_of_the_corpus_too(void **state)
{
    (void)state;
    static const char *const names[] = {"generate_kv.native.pickle.xz",
                                        "gpt2_varlen.expand.pickle.xz", "streams.expand.pickle.xz"};
    const char *corpus = getenv("VRAMWISE_CORPUS");
    size_t seen_count = 0;
    for (size_t i = 0; corpus != NULL && i < sizeof names / sizeof names[0]; i++) {
        char path[PATH_MAX];
        stored_recording one;
        snprintf(path, sizeof path, "%s/%s", corpus, names[i]);
        if (access(path, R_OK) != 0)
            continue;
        open_recording_in(corpus, names[i], &one);
        compare_whole_and_cut(&one);
        vw_recording_close(one.recording);
        seen_count++;
    }
    if (seen_count == 0)
        print_message("VRAMWISE_CORPUS names no folder with them\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stored_recording_is_shown_as_it_is),
        cmocka_unit_test(a_few_of_the_corpus_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
