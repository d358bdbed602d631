/* rank_text.h - what the ranks of a job printed, each rank's as one story.
 *
 * A rank's words are spread over files: its standard output with the steps, its standard error with
 * the failure, the step log of `headroom run`. The doctor weighs an error and the steps before it
 * together, so all texts of a rank go through one scan, in the order of their names.
 *
 * One file may hold several ranks. Then its lines say whose they are: "[rank3]: ..." of PyTorch and
 * of torchrun's --tee, "3: ..." of `srun --label`. The second may as well be the rest of something
 * else, and is believed only where most lines have it (hr__has_bare_labels).
 *
 * When it happened is told by the time in front of the error's line; an error that is printed
 * with a traceback has it in front of that. */
#ifndef HR_RANKS_RANK_TEXT_H
#define HR_RANKS_RANK_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/status.h"
#include "doctor/doctor.h"
#include "ranks/rank_time.h"

enum {
    HR__STORY_MOST_TIMES = 64,     /* of lines that may be the error's: the first ones */
    HR__STORIES_MOST_AT_ONCE = 256 /* ranks in one file; each takes most of a megabyte */
};

typedef struct hr__story_time {
    uint64_t line; /* of the story, from 1 */
    hr__log_time time;
} hr__story_time;

typedef struct hr__story {
    uint64_t rank;                      /* HR_UNKNOWN: of a file that says none */
    hr__text_scan *scan;                /* owned */
    const char *first_path, *last_path; /* borrowed */
    size_t file_count;
    uint64_t line_count;
    hr__log_time time; /* of the line at hand: its own, or that of the traceback it is in */
    hr__story_time times[HR__STORY_MOST_TIMES];
    size_t time_count;
} hr__story;

typedef struct hr__stories {
    hr__story **stories; /* owned */
    size_t count, capacity;
} hr__stories;

void hr__stories_deinit(hr__stories *stories);

/* Takes it out of the list; NULL: there is none. hr__story_destroy() frees it. */
hr__story *hr__stories_take(hr__stories *stories, uint64_t rank);
void hr__story_destroy(hr__story *story); /* NULL does nothing */

/* Where the lines of one file go. */
typedef struct hr__story_file {
    const char *path;     /* as shown: borrowed for as long as the stories are there */
    uint64_t rank;        /* of lines without a label; HR_UNKNOWN has a story, too */
    bool has_labels;      /* "[rank3]: " counts */
    bool has_bare_labels; /* "3: " does too */
    uint64_t rank_count;  /* out: how many ranks' lines were found */
    uint64_t last_rank;   /* out: one of them */
    uint64_t lost_count;  /* out: lines of ranks that there was no room for */
} hr__story_file;

/* Reads the source to its end. */
HR_MUST_CHECK hr_status hr__stories_read(hr__stories *stories, hr__byte_source *source,
                                         hr__story_file *file);

/* By the first bytes of a file: do most lines begin with "3: "? */
bool hr__has_bare_labels(const char *bytes, size_t size_bytes);

/* When the first failure of the story was reported. */
hr__log_time hr__story_time_of(const hr__story *story, const hr__error_report *report);

#endif /* HR_RANKS_RANK_TEXT_H */
