/* late_program.h - a random program whose work runs long after the calls around it, as on a GPU.
 *
 * It takes blocks for streams, queues work that writes and reads them, on their own stream and on
 * others, and frees them with the work still in the queue. Streams run a little now and then, none
 * of them in step (support/late_device.h). The device is hardly larger than what is live, so memory
 * goes from stream to stream, is copied, leaves for the host and comes back, is parked as a whole
 * or by regions, while its last work has not begun. The oracle: work finds the bytes that were
 * written for it, whatever moved meanwhile; the engine's own check finds nothing; every status is
 * one that the call may return; nothing is held at the end. */
#ifndef VW_TESTS_LATE_PROGRAM_H
#define VW_TESTS_LATE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/vramwise.h"

typedef struct vw_test_late_setup {
    const char *name;
    const char *engine, *conf;
    uint64_t spill_bytes;
    bool has_safe_point;
    bool has_make_room; /* the program frees blocks when it is asked to */
    bool gives_back;    /* slices of idle memory, at any time */
    bool fails;         /* device calls and host memory, now and then */
} vw_test_late_setup;

extern const vw_test_late_setup vw_test_late_setups[];
extern const size_t vw_test_late_setup_count;

/* What one program, or several together, did. */
typedef struct vw_test_late_outcome {
    char fault[400]; /* "": none */
    uint64_t served, refused;
    uint64_t late_frees;  /* with work in the queues */
    uint64_t failures;    /* steps that failed */
    uint64_t parks;       /* of the pool or a region */
    uint64_t rooms;       /* blocks that were freed because the pool asked */
    vw_paged_stats paged; /* sums */
} vw_test_late_outcome;

/* Runs the program of a seed, and adds what it did to `*outcome`, unless that has a fault. */
void vw_test_late_program_run(const vw_test_late_setup *setup, uint64_t seed,
                              vw_test_late_outcome *outcome);

#endif /* VW_TESTS_LATE_PROGRAM_H */
