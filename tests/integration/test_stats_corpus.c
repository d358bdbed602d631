/* test_stats_corpus.c - statistics of real recordings, held against what PyTorch itself said.
 *
 * A folder has recordings NAME.pickle.xz, each with a NAME.json beside it: PyTorch's own statistics
 * and summary at the end, and the log of steps. tests/data/recordings is one; VRAMWISE_CORPUS may
 * name another. */
#include "vramwise/analysis.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/recording.h"
#include "analysis/script.h"
#include "analysis/steps.h"
#include "analysis/timeline.h"
#include "support/cmocka_here.h"

enum { MOST_PATH_BYTES = 4096, MOST_NAME_BYTES = 256 };

static const char ending[] = ".pickle.xz";

typedef struct truth {
    json_t *root;
    const char *name;
} truth;

static int64_t statistic(const truth *known, const char *key)
{
    json_t *value = json_object_get(json_object_get(known->root, "stats"), key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

/* Does the workload have an optimizer? */
static bool is_training(const char *name)
{
    static const char *const others[] = {"generate_kv",    "streams",     "graphs",
                                         "eval_with_grad", "oom_kvcache", "oom_fragmented"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strncmp(name, others[i], strlen(others[i])) == 0)
            return false;
    return strstr(name, ".rules") == NULL; /* random requests */
}

/* Steps of the log in which something was trained. */
static size_t logged_steps(const truth *known)
{
    size_t index, count = 0;
    json_t *step;
    json_array_foreach(json_object_get(known->root, "steps"), index, step)
    {
        const char *phase = json_string_value(json_object_get(step, "phase"));
        count += phase == NULL || strcmp(phase, "train") == 0;
    }
    return count;
}

/* Garbage collection under a limit that nobody recorded, a pool whose blocks are handed out whole:
 * only verify looks for these. */
static bool may_lack_summary(const char *name)
{
    return strcmp(name, "oom_varlen.gc6") == 0 || strcmp(name, "no_split_pool.rules") == 0;
}

static void check_stats(const vw_recording *recording, const truth *known, size_t *summary_count)
{
    vw_recording_stats *stats = NULL;
    assert_int_equal(vw_recording_stats_make(recording, NULL, &stats), VW_OK);
    assert_string_equal(stats->encoding, "pickle");
    assert_string_equal(stats->compression, "xz");
    assert_string_equal(stats->oldest_version, "2.10");
    assert_string_equal(stats->newest_version, "2.11");
    assert_int_equal(stats->warning_count, 0);
    assert_int_equal(stats->device_count, 1);
    const vw_device_stats *device = &stats->devices[0];
    assert_false(device->is_truncated);
    assert_int_equal(device->peak_reserved_bytes, statistic(known, "reserved_bytes.all.peak"));
    assert_int_equal(device->reserved_bytes, statistic(known, "reserved_bytes.all.current"));
    assert_int_equal(device->allocated_bytes, statistic(known, "allocated_bytes.all.current"));
    assert_int_equal(device->requested_bytes, statistic(known, "requested_bytes.all.current"));
    assert_int_equal(device->action_counts[VW_ACTION_ALLOC],
                     statistic(known, "allocation.all.allocated"));
    assert_int_equal(device->action_counts[VW_ACTION_OOM], statistic(known, "num_ooms"));
    assert_true(device->peak.live_bytes <= device->peak_reserved_bytes);
    assert_int_equal(device->step_count, is_training(known->name) ? logged_steps(known) : 0);
    if (device->summary != NULL) {
        assert_string_equal(device->summary,
                            json_string_value(json_object_get(known->root, "summary")));
        assert_null(device->summary_reason);
        ++*summary_count;
    } else {
        assert_non_null(device->summary_reason);
        if (!may_lack_summary(known->name))
            fail_msg("%s: no summary: %s", known->name, device->summary_reason);
    }
    vw_recording_stats_free(stats);
}

/* Two paths to one conclusion: lifetimes here, operations for replay there. */
static void check_against_script(const vw__model *model, const vw__model_trace *trace)
{
    vw__script script;
    vw__timeline timeline;
    assert_int_equal(vw__script_make(model, trace, &script), VW_OK);
    assert_int_equal(vw__timeline_make(model, trace, &timeline), VW_OK);
    assert_int_equal(timeline.is_truncated, script.is_truncated);
    assert_int_equal(timeline.initial_count, script.initial_count);
    assert_int_equal(timeline.initial_live_bytes, script.initial_live_bytes);
    assert_int_equal(timeline.peak_live_bytes, script.peak_live_bytes);
    assert_int_equal(timeline.contradiction_count, 0);
    vw__timeline_deinit(&timeline);
    vw__script_deinit(&script);
}

/* Reserved bytes of a trace that lost its beginning are those of the whole one. */
static void check_reserved_of_cut(const vw__model *model, const vw__model_trace *whole,
                                  const vw__model_trace *cut)
{
    vw__timeline timeline, cut_timeline;
    uint32_t dropped = (uint32_t)(whole->event_count - cut->event_count);
    assert_int_equal(vw__timeline_make(model, whole, &timeline), VW_OK);
    assert_int_equal(vw__timeline_make(model, cut, &cut_timeline), VW_OK);
    assert_true(cut_timeline.is_reserved_known);
    for (uint32_t k = 0; k <= 4; k++) {
        uint32_t instant = (uint32_t)(cut->event_count * k / 4);
        assert_int_equal(vw__timeline_reserved_at(&cut_timeline, instant),
                         vw__timeline_reserved_at(&timeline, instant + dropped));
    }
    vw__timeline_deinit(&timeline);
    vw__timeline_deinit(&cut_timeline);
}

static void check_phases(const vw__model *model, const vw__model_trace *trace, const char *name)
{
    vw__steps steps;
    bool has_phases = strncmp(name, "train_eval_phases", strlen("train_eval_phases")) == 0;
    assert_int_equal(vw__steps_find(model, trace, &steps), VW_OK);
    /* Three times training and evaluation; the last ends with the trace. */
    assert_int_equal(steps.phase_end_count, has_phases ? 5 : 0);
    vw__steps_deinit(&steps);
}

static void check_recording(const char *folder, const char *name, size_t *summary_count)
{
    char path[MOST_PATH_BYTES];
    truth known = {.name = name};
    vw_recording *recording = NULL;
    snprintf(path, sizeof path, "%s/%s.json", folder, name);
    known.root = json_load_file(path, 0, NULL);
    assert_non_null(known.root);
    snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    assert_int_equal(vw_recording_open(path, NULL, &recording), VW_OK);

    check_stats(recording, &known, summary_count);
    const vw__model_trace *trace = &recording->model->traces[0];
    check_against_script(recording->model, trace);
    check_phases(recording->model, trace, name);
    size_t dropped = trace->event_count * 3 / 10;
    vw__model_trace cut = {trace->events + dropped, trace->event_count - dropped, trace->device};
    check_reserved_of_cut(recording->model, trace, &cut);
    check_against_script(recording->model, &cut);
    vw_recording_close(recording);
    json_decref(known.root);
}

static void check_folder(const char *folder)
{
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    size_t count = 0, summary_count = 0;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        char name[MOST_NAME_BYTES];
        size_t length = strlen(entry->d_name);
        if (length <= strlen(ending) || length >= sizeof name ||
            strcmp(entry->d_name + length - strlen(ending), ending) != 0)
            continue;
        memcpy(name, entry->d_name, length - strlen(ending));
        name[length - strlen(ending)] = '\0';
        print_message("%s\n", name);
        check_recording(folder, name, &summary_count);
        count++;
    }
    closedir(entries);
    print_message("%zu recordings, %zu with a summary\n", count, summary_count);
    assert_true(count != 0);
}

static void every_recording_of_ours_gives_the_numbers_that_pytorch_gave(void **state)
{
    (void)state;
    check_folder(VW_TEST_DATA "/recordings");
}

static void so_does_every_recording_of_the_corpus(void **state)
{
    (void)state;
    const char *folder = getenv("VRAMWISE_CORPUS");
    if (folder == NULL) {
        print_message("VRAMWISE_CORPUS is not set\n");
        skip();
        return;
    }
    check_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_recording_of_ours_gives_the_numbers_that_pytorch_gave),
        cmocka_unit_test(so_does_every_recording_of_the_corpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
