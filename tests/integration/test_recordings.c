/* test_recordings.c - PyTorch's recordings come out of our engine again, event by event.
 *
 * tests/data/traces is always replayed (trace_replay.h says what is compared). The environment
 * variable HEADROOM_CORPUS may name a folder of whole recordings, NAME.pickle.xz with NAME.json
 * beside it; they are converted on the way, two at a time, by extract_trace.py.
 *
 * A comparison that finds no difference proves something only if it would have found one. So the
 * stored traces are also replayed with one thing changed, and each change must be noticed. */
#include <dirent.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headroom/headroom.h"
#include "support/cmocka_here.h"
#include "support/trace_file.h"
#include "support/trace_replay.h"

#define TRACES HR_TEST_DATA "/traces"
#define EXTRACTOR HR_TEST_DATA "/../support/extract_trace.py"
#define RECORDING_ENDING ".pickle.xz"
#define TRACE_ENDING ".trace"

enum { EXTRACTORS_AT_ONCE = 2, ALTERED_EVENTS_PER_TRACE = 12 };

extern char **environ;

/* ---- files ----------------------------------------------------------------------------------- */

static bool has_ending(const char *name, const char *ending)
{
    size_t length = strlen(name), ending_length = strlen(ending);
    return length > ending_length && strcmp(name + length - ending_length, ending) == 0;
}

static int is_trace(const struct dirent *entry)
{
    return has_ending(entry->d_name, TRACE_ENDING);
}

static int is_recording(const struct dirent *entry)
{
    return has_ending(entry->d_name, RECORDING_ENDING);
}

static void join(char *path, const char *folder, const char *name, int name_length,
                 const char *ending)
{
    int used = snprintf(path, PATH_MAX, "%s/%.*s%s", folder, name_length, name, ending);
    assert_true(used > 0 && used < PATH_MAX);
}

static int list_stored_traces(struct dirent ***out)
{
    int count = scandir(TRACES, out, is_trace, alphasort);
    assert_true(count > 0);
    return count;
}

static void free_list(struct dirent **list, int count)
{
    for (int i = 0; i < count; i++)
        free(list[i]);
    free(list);
}

static void read_stored(const char *name, hr_test_trace *trace)
{
    char path[PATH_MAX], complaint[256];
    join(path, TRACES, name, INT_MAX, "");
    if (!hr_test_trace_read(path, trace, complaint, sizeof complaint))
        fail_msg("%s: %s", name, complaint);
}

/* Calls `visit` for each stored trace, which it may alter. */
static void each_stored_trace(void (*visit)(const char *name, hr_test_trace *trace))
{
    struct dirent **list;
    int count = list_stored_traces(&list);
    for (int i = 0; i < count; i++) {
        hr_test_trace trace;
        read_stored(list[i]->d_name, &trace);
        visit(list[i]->d_name, &trace);
        hr_test_trace_deinit(&trace);
    }
    free_list(list, count);
}

/* ---- stored traces --------------------------------------------------------------------------- */

static void must_come_out_again(const char *name, hr_test_trace *trace)
{
    char complaint[512];
    if (!hr_test_replay(trace, complaint, sizeof complaint))
        fail_msg("%s: %s", name, complaint);
}

static void every_stored_trace_comes_out_of_the_engine_again(void **state)
{
    (void)state;
    each_stored_trace(must_come_out_again);
}

static void must_be_noticed(const char *name, const hr_test_trace *trace, const char *what,
                            size_t where)
{
    char complaint[512];
    if (hr_test_replay(trace, complaint, sizeof complaint))
        fail_msg("%s: %s %zu was altered and nobody noticed", name, what, where);
}

/* The address of an oom is the device's free memory, which is input; so is the place of a mark. */
static void alter_addresses(const char *name, hr_test_trace *trace)
{
    size_t step = trace->event_count / ALTERED_EVENTS_PER_TRACE + 1;
    for (size_t i = step / 2; i < trace->event_count; i += step) {
        hr_test_trace_event *event = &trace->events[i];
        if (event->kind != HR_TEST_EVENT || event->action == HR_ACTION_OOM)
            continue;
        event->address ^= 512;
        must_be_noticed(name, trace, "the address of event", i);
        event->address ^= 512;
    }
}

static void an_altered_address_is_noticed(void **state)
{
    (void)state;
    each_stored_trace(alter_addresses);
}

static void alter_first_segment_events(const char *name, hr_test_trace *trace)
{
    bool has_been_altered[HR_ACTION_OOM + 1] = {false};
    for (size_t i = 0; i < trace->event_count; i++) {
        hr_test_trace_event *event = &trace->events[i];
        bool is_of_segment =
            event->action >= HR_ACTION_SEGMENT_ALLOC && event->action <= HR_ACTION_SEGMENT_UNMAP;
        if (event->kind != HR_TEST_EVENT || !is_of_segment || has_been_altered[event->action])
            continue;
        has_been_altered[event->action] = true;
        event->size_bytes += 512;
        must_be_noticed(name, trace, "the size of event", i);
        event->size_bytes -= 512;
        event->stream += 1;
        must_be_noticed(name, trace, "the stream of event", i);
        event->stream -= 1;
    }
}

static void an_altered_segment_event_is_noticed(void **state)
{
    (void)state;
    each_stored_trace(alter_first_segment_events);
}

static void alter_ending(const char *name, hr_test_trace *trace)
{
    hr_test_trace_stat *stat = &trace->stats[trace->stat_count / 2];
    stat->value++;
    must_be_noticed(name, trace, "statistic", trace->stat_count / 2);
    stat->value--;

    hr_block_info *block = &trace->blocks[trace->block_count / 2];
    block->requested_bytes++;
    must_be_noticed(name, trace, "the requested bytes of block", trace->block_count / 2);
    block->requested_bytes--;

    trace->block_count--;
    must_be_noticed(name, trace, "the number of blocks", trace->block_count + 1);
    trace->block_count++;

    hr_segment_info *segment = &trace->segments[trace->segment_count - 1];
    segment->is_large = !segment->is_large;
    must_be_noticed(name, trace, "the kind of segment", trace->segment_count - 1);
    segment->is_large = !segment->is_large;

    char *last = strrchr(trace->summary, '=');
    *last = '-';
    must_be_noticed(name, trace, "the summary at", (size_t)(last - trace->summary));
    *last = '=';

    if (trace->oom_text != NULL) {
        const char *text = trace->oom_text;
        trace->oom_text = text + 1;
        must_be_noticed(name, trace, "the text of the oom at", 0);
        trace->oom_text = text;
    }
    must_come_out_again(name, trace);
}

static void an_altered_ending_is_noticed(void **state)
{
    (void)state;
    each_stored_trace(alter_ending);
}

static void a_trace_cut_at_any_line_is_refused(void **state)
{
    (void)state;
    static const char whole[] = "headroom-trace 1\nconf \ntotal 1000\na 200 1\nf 200 1\n"
                                "segment 0 200000 0 small 0 0 0 0 0 0\nblock 0 200000 1 free\n"
                                "stat num_ooms 0\nsummary |\nend\n";
    char complaint[256];
    hr_test_trace trace;
    size_t size = sizeof whole - 1;
    assert_true(hr_test_trace_parse(whole, size, &trace, complaint, sizeof complaint));
    assert_int_equal(trace.event_count, 3);
    assert_int_equal(trace.segments[0].block_count, 1);
    hr_test_trace_deinit(&trace);
    for (size_t cut = 0; cut < size - 1; cut++)
        assert_false(hr_test_trace_parse(whole, cut, &trace, complaint, sizeof complaint));
}

/* ---- whole recordings ------------------------------------------------------------------------ */

/* A recording on its way to being a trace. */
typedef struct conversion {
    pid_t pid;
    char trace_path[PATH_MAX];
} conversion;

static void begin_conversion(conversion *job, const char *corpus, const char *name,
                             const char *folder)
{
    char recording_path[PATH_MAX], json_path[PATH_MAX];
    int stem_length = (int)(strlen(name) - strlen(RECORDING_ENDING));
    join(recording_path, corpus, name, INT_MAX, "");
    join(json_path, corpus, name, stem_length, ".json");
    join(job->trace_path, folder, name, stem_length, TRACE_ENDING);
    char *arguments[] = {(char[]){"python3"}, (char[]){EXTRACTOR}, recording_path,
                         json_path,           job->trace_path,     NULL};
    assert_int_equal(posix_spawnp(&job->pid, "python3", NULL, NULL, arguments, environ), 0);
}

static bool end_conversion(const conversion *job)
{
    int status = 0;
    return waitpid(job->pid, &status, 0) == job->pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

static bool recording_comes_out_again(const conversion *job, const char *name)
{
    char complaint[512] = "extract_trace.py could not convert it";
    hr_test_trace trace;
    bool is_same = end_conversion(job) &&
                   hr_test_trace_read(job->trace_path, &trace, complaint, sizeof complaint);
    if (is_same) {
        is_same = hr_test_replay(&trace, complaint, sizeof complaint);
        hr_test_trace_deinit(&trace);
    }
    (void)unlink(job->trace_path);
    if (!is_same)
        print_error("%s: %s\n", name, complaint);
    return is_same;
}

static bool has_python(void)
{
    pid_t pid;
    char *arguments[] = {(char[]){"python3"}, (char[]){"-c"}, (char[]){"import lzma"}, NULL};
    int status = 1;
    return posix_spawnp(&pid, "python3", NULL, NULL, arguments, environ) == 0 &&
           waitpid(pid, &status, 0) == pid && status == 0;
}

static void every_recording_of_the_corpus_comes_out_of_the_engine_again(void **state)
{
    (void)state;
    const char *corpus = getenv("HEADROOM_CORPUS");
    if (corpus == NULL || !has_python()) {
        print_message(corpus == NULL ? "HEADROOM_CORPUS names no folder of recordings\n"
                                     : "no python3 with lzma to read recordings with\n");
        skip();
    }
    struct dirent **list;
    int count = scandir(corpus, &list, is_recording, alphasort), same_count = 0;
    assert_true(count > 0);
    char folder[] = "/tmp/headroom-recordings-XXXXXX";
    assert_non_null(mkdtemp(folder));
    conversion *conversions = calloc((size_t)count, sizeof *conversions);
    assert_non_null(conversions);
    for (int i = 0; i < count && i < EXTRACTORS_AT_ONCE; i++)
        begin_conversion(&conversions[i], corpus, list[i]->d_name, folder);
    for (int i = 0; i < count; i++) {
        same_count += recording_comes_out_again(&conversions[i], list[i]->d_name);
        int next = i + EXTRACTORS_AT_ONCE;
        if (next < count)
            begin_conversion(&conversions[next], corpus, list[next]->d_name, folder);
    }
    (void)rmdir(folder);
    free(conversions);
    free_list(list, count);
    print_message("%d of %d recordings came out again\n", same_count, count);
    assert_int_equal(same_count, count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stored_trace_comes_out_of_the_engine_again),
        cmocka_unit_test(an_altered_address_is_noticed),
        cmocka_unit_test(an_altered_segment_event_is_noticed),
        cmocka_unit_test(an_altered_ending_is_noticed),
        cmocka_unit_test(a_trace_cut_at_any_line_is_refused),
        cmocka_unit_test(every_recording_of_the_corpus_comes_out_of_the_engine_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
