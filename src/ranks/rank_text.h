/* rank_text.h - what the ranks of a job printed, each rank's as one story.
 *
 * A rank's words are spread over files: its standard output with the steps, its standard error with
 * the failure, the step log of `vramwise run`. The doctor weighs an error and the steps before it
 * together, so all texts of a rank go through one scan, in the order of their names.
 *
 * One file may hold several ranks. Then its lines say whose they are: "[rank3]: ..." of PyTorch and
 * of torchrun's --tee, "3: ..." of `srun --label`. The second may as well be the rest of something
 * else, and is believed only where most lines have it (vw__ranks_has_bare_labels).
 *
 * The time of a failure stands in front of the error's line; for an error that is printed with a
 * traceback, in front of that. Only a date with a time counts: hours alone do not tell which of two
 * came first. A time without its zone cannot be compared with other clocks, but two of them from
 * one job can be compared with each other. */
#ifndef VW_RANKS_RANK_TEXT_H
#define VW_RANKS_RANK_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "doctor/doctor.h"

typedef struct vw__ranks_log_time {
    int64_t time_us; /* since 1970; INT64_MIN: none */
    bool has_zone;   /* else as the clock on the wall showed it */
} vw__ranks_log_time;

#define VW__RANKS_NO_LOG_TIME ((vw__ranks_log_time){INT64_MIN, false})

/* Looks at the first bytes of a line: "2026-03-01 12:00:00,123", "2026/03/01T12:00:00.5+01:00". */
vw__ranks_log_time vw__ranks_log_time_of(const char *line, size_t size_bytes);

enum {
    VW__RANKS_STORY_MOST_TIMES = 64, /* of lines that may be the error's: the first ones */
    VW__RANKS_MOST_STORIES = 256     /* ranks in one file */
};

typedef struct vw__ranks_story_time {
    uint64_t line; /* of the story, from 1 */
    vw__ranks_log_time time;
} vw__ranks_story_time;

typedef struct vw__ranks_story {
    uint64_t rank;                      /* VW_UNKNOWN: of a file that says none */
    vw__doctor_text_scan *scan;         /* owned */
    uint64_t held_bytes;                /* as they are counted in the list */
    const char *first_path, *last_path; /* borrowed */
    size_t file_count;
    uint64_t line_count;
    vw__ranks_log_time time; /* of the line at hand: its own, or that of the traceback it is in */
    vw__ranks_story_time times[VW__RANKS_STORY_MOST_TIMES];
    size_t time_count;
} vw__ranks_story;

typedef struct vw__ranks_stories {
    vw__ranks_story **stories; /* owned */
    size_t count, capacity;
    uint64_t held_bytes;  /* by all of them: most of a megabyte each, and more with the steps */
    uint64_t limit_bytes; /* 0: none */
} vw__ranks_stories;

void vw__ranks_stories_deinit(vw__ranks_stories *stories);

/* Takes it out of the list; NULL: there is none. vw__ranks_story_destroy() frees it. */
vw__ranks_story *vw__ranks_stories_take(vw__ranks_stories *stories, uint64_t rank);
void vw__ranks_story_destroy(vw__ranks_story *story); /* NULL does nothing */

/* Destroys the stories that began with that file: it counts as unreadable. */
void vw__ranks_stories_forget(vw__ranks_stories *stories, const char *path);

/* Where the lines of one file go. */
typedef struct vw__ranks_story_file {
    const char *path;     /* as shown: borrowed for as long as the stories are there */
    uint64_t rank;        /* of lines without a label; VW_UNKNOWN has a story, too */
    bool has_labels;      /* "[rank3]: " counts */
    bool has_bare_labels; /* "3: " does too */
    uint64_t rank_count;  /* out: how many ranks' lines were found */
    uint64_t last_rank;   /* out: one of them */
    uint64_t lost_count;  /* out: lines of ranks that there was no room for */
} vw__ranks_story_file;

/* Reads the source to its end. VW_ERR_UNSUPPORTED: the stories hold more than their limit, or the
 * source's. */
VW_MUST_CHECK vw_status vw__ranks_stories_read(vw__ranks_stories *stories, vw__byte_source *source,
                                               vw__ranks_story_file *file);

/* By the first bytes of a file: do most lines begin with "3: "? */
bool vw__ranks_has_bare_labels(const char *bytes, size_t size_bytes);

/* When the first failure of the story was reported. */
vw__ranks_log_time vw__ranks_story_time_of(const vw__ranks_story *story,
                                           const vw__error_text_report *report);

#endif /* VW_RANKS_RANK_TEXT_H */
