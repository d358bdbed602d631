/* limit_evidence.h - what a trace proves about the memory limit it ran under, and about the card.
 */
#ifndef VW_ANALYSIS_LIMIT_EVIDENCE_H
#define VW_ANALYSIS_LIMIT_EVIDENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/script.h"

/* A request that the driver refused at first: while operation `op` is played, the device holds at
 * most `capacity_bytes`. */
typedef struct vw__limit_refusal {
    size_t op;
    uint64_t capacity_bytes;
} vw__limit_refusal;

/* The proofs that a trace gives about the limit it ran under. */
typedef struct vw__limit_evidence {
    uint64_t at_least_bytes;     /* the most that was ever granted */
    uint64_t most_held_bytes;    /* the same with whole pages: expandable segments may hold more
                                    than the limit was compared with */
    uint64_t below_bytes;        /* the least that was ever refused; UINT64_MAX: nothing was
                                    refused */
    bool has_conf_fraction;      /* the settings themselves set a limit */
    bool is_simple;              /* no garbage collection, and every block may be split */
    bool needs_search;           /* garbage collection: below_bytes is a bound, no proof */
    vw__limit_refusal *refusals; /* owned; by the driver: granted amounts contradict a limit */
    size_t refusal_count;

    /* The first request that failed. */
    bool has_oom;
    bool is_oom_by_driver;    /* the device had less free than was asked for; else it was a limit */
    uint64_t oom_held_bytes;  /* then */
    uint64_t oom_tried_bytes; /* of the device */
    uint64_t oom_device_bytes; /* free on the device */
} vw__limit_evidence;

/* The fraction that limits a card of `total_bytes` to just `limit_bytes`, whether PyTorch cuts or
 * rounds the product. */
double vw__limit_fraction(uint64_t limit_bytes, uint64_t total_bytes);

/* `total_bytes`: of the card; no limit exceeds it. */
VW_MUST_CHECK vw_status vw__limit_evidence_find(const vw__script *script, const char *torch_version,
                                                const char *conf, uint64_t total_bytes,
                                                vw__limit_evidence *out);
void vw__limit_evidence_deinit(vw__limit_evidence *evidence);

/* A total memory under which the reservations of a trace have room, beside each other. */
VW_MUST_CHECK vw_status vw__limit_guess_total(const vw__script *script, uint64_t *out);

#endif /* VW_ANALYSIS_LIMIT_EVIDENCE_H */
