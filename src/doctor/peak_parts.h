/* peak_parts.h - what the files of the peak share.
 *
 * peak.c finds what was alive and writes the finding, peak_remedies.c what would make it less. */
#ifndef VW_DOCTOR_PEAK_PARTS_H
#define VW_DOCTOR_PEAK_PARTS_H

#include "doctor/doctor.h"
#include "analysis/what_if.h"

/* What was alive at the instant that the finding is about. */
typedef struct vw__doctor_peak_facts {
    uint32_t instant; /* of the failure; without one, of the peak */
    uint64_t live_bytes;
    uint64_t category_bytes[VW__CATEGORY_COUNT];             /* sum: live_bytes; as in stats */
    uint64_t role_bytes[VW__CATEGORY_COUNT][VW__ROLE_COUNT]; /* the same, further by role */
    uint64_t portion_bytes[VW__PORTION_COUNT];               /* sum: live_bytes */
    uint64_t largest_bytes[VW__PORTION_COUNT];               /* of one block */

    uint8_t *roles;    /* owned; by lifetime: vw__role, corrected for the instant */
    uint8_t *portions; /* owned; by lifetime: vw__portion */

    bool has_broken_off; /* the recorded run failed there: what comes after is no work of it; false
                            where it only would have, on another card */

    /* The request that failed; 0 and REST where none did. */
    uint64_t request_bytes;
    vw__portion request_portion;
    uint64_t missing_bytes; /* less of which alive, at most, and it would have been served; 0:
                               nothing failed, or not for that; VW_UNKNOWN: it is not said */
} vw__doctor_peak_facts;

/* Adds to the finding what would make the peak smaller, in the order in which to try it.
 * VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__doctor_peak_remedies(const vw__doctor_input *input,
                                                 vw__doctor_facts *facts, vw__doctor_result *result,
                                                 const vw__doctor_peak_facts *peak,
                                                 vw__diagnosis_finding *finding);

#endif /* VW_DOCTOR_PEAK_PARTS_H */
