/* stored_recordings.h - the recordings of tests/data/recordings, whole and in parts.
 *
 * Every function fails the test that calls it if a file cannot be read or verified at all. */
#ifndef VW_TESTS_STORED_RECORDINGS_H
#define VW_TESTS_STORED_RECORDINGS_H

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>

#include "vramwise/analysis.h"
#include "analysis/recording.h"

#define STORED_RECORDINGS VW_TEST_DATA "/recordings"
#define STORED_ENDING ".pickle.xz"

typedef struct stored_recording {
    const char *name;
    char json_path[PATH_MAX]; /* what PyTorch said at the end; "" for parts */
    vw_recording *recording;
} stored_recording;

/* To be closed with vw_recording_close(). */
void open_recording_in(const char *folder, const char *name, stored_recording *out);
void open_stored(const char *name, stored_recording *out);

/* Calls `visit` for each recording of tests/data/recordings, which it may alter. */
void each_stored_recording(void (*visit)(const stored_recording *one));

/* For scandir(): names that end as recordings do. */
int is_recording_name(const struct dirent *entry);

/* To be freed with vw_verify_result_free(). `json_path` and `version` may be NULL. */
vw_verify_result *verify_recording(const stored_recording *one, const char *json_path,
                                   const char *version);

/* Returns whether everything was compared and matched. */
bool is_complete_match(const vw_verify_result *result);
bool comes_out_again(const stored_recording *one, const char *json_path);
void print_first_difference(const char *name, const vw_verify_result *result);

/* A recording made of parts of another: events [first, end) of its first trace. Only the top-level
 * structs are copied, so nothing needs to be freed. */
typedef struct partial_recording {
    vw__model model;
    vw__model_trace trace;
    vw_recording recording;
    stored_recording stored;
} partial_recording;

void make_partial(const stored_recording *whole, size_t first, size_t end, partial_recording *out);

#endif /* VW_TESTS_STORED_RECORDINGS_H */
