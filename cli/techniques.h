/* techniques.h - ways to train with less memory, one after the other on one model.
 *
 * Every technique is a plan (vramwise/plan.h): its step is run tensor by tensor, recorded, and held
 * against the step of the technique it is compared to. Nothing is prepared: what is shown is what
 * came out. */
#ifndef VRAMWISE_CLI_TECHNIQUES_H
#define VRAMWISE_CLI_TECHNIQUES_H

#include <stddef.h>
#include <stdint.h>

#include "vramwise/plan.h"
#include "vramwise/status.h"

#include "terminal.h"

#define TECHNIQUES_MODEL "gpt2"
enum {
    TECHNIQUES_BATCH = 8,
    TECHNIQUES_SEQUENCE = 1024,
    TECHNIQUES_COUNT = 8,
    TECHNIQUES_MOST_POINTS = 160,
    TECHNIQUES_MOST_CHANGES = 64,
};

typedef struct technique {
    const char *name;
    size_t compared_to;                      /* an earlier one; itself: to none */
    const char *words;                       /* what it does, a sentence or two */
    const char *code;                        /* what to write; NULL: technique_advice() has it */
    void (*set)(vw_plan_settings *settings); /* on top of the plain step's */
} technique;

/* What differs at the peaks, in one kind of place: "mlp / act forward" of all layers together. */
typedef struct technique_change {
    const char *place;    /* the file of its frames, without the layer; the recording's */
    const char *function; /* likewise */
    uint64_t before_bytes, after_bytes;
    size_t layer_count; /* 0: not in a layer */
} technique_change;

typedef struct technique_result {
    vw_recording *recording; /* owned */
    vw_plan_changes *advice; /* owned; NULL where the technique has code of its own */
    uint64_t peak_bytes;
    uint64_t points[TECHNIQUES_MOST_POINTS];           /* live bytes over the step */
    technique_change changes[TECHNIQUES_MOST_CHANGES]; /* largest difference first */
    size_t change_count;
} technique_result;

/* Runs all of them; lines have `point_count` points, 1 to TECHNIQUES_MOST_POINTS. On failure what
 * was done may still be freed, as after success. */
VW_MUST_CHECK vw_status techniques_run(technique_result results[TECHNIQUES_COUNT],
                                       size_t point_count);
void techniques_free(technique_result results[TECHNIQUES_COUNT]);

/* ---- the tour, for people and for programs ------------------------------------------------------
 */

/* How many points a line has on this output; for JSON, which has no width, as for 80 columns. */
size_t techniques_report_points(const terminal *output);

/* Either writes to standard output. */
void techniques_report_print(const technique_result results[TECHNIQUES_COUNT], size_t point_count,
                             const terminal *output);
void techniques_report_print_json(const technique_result results[TECHNIQUES_COUNT],
                                  size_t point_count);

#endif /* VRAMWISE_CLI_TECHNIQUES_H */
