/* stored_recordings.c - see stored_recordings.h. */
#include "support/stored_recordings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"

enum { FEWEST_STATISTICS = 30 }; /* that an expectation worth the name has */

int is_recording_name(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name), ending = strlen(STORED_ENDING);
    return length > ending && strcmp(entry->d_name + length - ending, STORED_ENDING) == 0;
}

void open_recording_in(const char *folder, const char *name, stored_recording *out)
{
    char path[PATH_MAX];
    int stem = (int)(strlen(name) - strlen(STORED_ENDING));
    out->name = name;
    assert_true(snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_MAX);
    assert_true(snprintf(out->json_path, sizeof out->json_path, "%s/%.*s.json", folder, stem,
                         name) < PATH_MAX);
    if (vw_recording_open(path, NULL, &out->recording) != VW_OK)
        fail_msg("%s: %s", name, vw_last_error());
}

void open_stored(const char *name, stored_recording *out)
{
    open_recording_in(STORED_RECORDINGS, name, out);
}

void each_stored_recording(void (*visit)(const stored_recording *one))
{
    struct dirent **list;
    int count = scandir(STORED_RECORDINGS, &list, is_recording_name, alphasort);
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        stored_recording one;
        open_stored(list[i]->d_name, &one);
        visit(&one);
        vw_recording_close(one.recording);
        free(list[i]);
    }
    free(list);
}

vw_verify_result *verify_recording(const stored_recording *one, const char *json_path,
                                   const char *version)
{
    const vw_verify_options options = {
        .struct_size = sizeof options, .torch_version = version, .expect_path = json_path};
    vw_verify_result *result = NULL;
    if (vw_recording_verify(one->recording, &options, &result) != VW_OK)
        fail_msg("%s: %s", one->name, vw_last_error());
    return result;
}

void print_first_difference(const char *name, const vw_verify_result *result)
{
    const vw_difference *found = result->first_difference;
    if (found != NULL)
        print_error("%s: event %" PRId64 ": expected %s; got %s. %s\n", name, (int64_t)found->event,
                    found->expected, found->got, found->explanation);
}

bool is_complete_match(const vw_verify_result *result)
{
    return result->is_exact && result->first_difference == NULL &&
           result->placements_recorded > 0 &&
           result->placements_matched == result->placements_recorded &&
           result->segment_events_recorded > 0 &&
           result->segment_events_matched == result->segment_events_recorded &&
           result->end_segments_matched == result->end_segments_recorded &&
           result->statistics_matched == result->statistics_recorded;
}

bool comes_out_again(const stored_recording *one, const char *json_path)
{
    vw_verify_result *result = verify_recording(one, json_path, NULL);
    bool is_whole = is_complete_match(result) &&
                    (json_path == NULL || result->statistics_recorded > FEWEST_STATISTICS);
    if (!is_whole)
        print_first_difference(one->name, result);
    vw_verify_result_free(result);
    return is_whole;
}

void make_partial(const stored_recording *whole, size_t first, size_t end, partial_recording *out)
{
    out->model = *whole->recording->model;
    out->trace = whole->recording->model->traces[0];
    out->trace.events += first;
    out->trace.event_count = end - first;
    out->model.traces = &out->trace;
    out->model.trace_count = 1;
    out->recording = *whole->recording;
    out->recording.model = &out->model;
    out->stored = (stored_recording){.name = whole->name, .recording = &out->recording};
}
