/* peak_parts.h - what the files of the peak share.
 *
 * peak.c writes the finding, peak_portions.c says what was alive and what it was for,
 * peak_remedies.c what would make it less. */
#ifndef HR_DOCTOR_PEAK_PARTS_H
#define HR_DOCTOR_PEAK_PARTS_H

#include "doctor/doctor.h"
#include "analysis/what_if.h"

/* What was alive at the instant that the finding is about. */
typedef struct hr__peak {
    uint32_t instant; /* of the failure; without one, of the peak */
    uint64_t live_bytes;
    uint64_t role_bytes[HR__ROLE_COUNT];       /* sum: live_bytes */
    uint64_t portion_bytes[HR__PORTION_COUNT]; /* sum: live_bytes */
    uint64_t largest_bytes[HR__PORTION_COUNT]; /* of one block */

    uint8_t *roles;    /* owned; by lifetime: hr__role, as it is to be read at the instant */
    uint8_t *portions; /* owned; by lifetime: hr__portion */

    bool has_broken_off; /* the recorded run failed there: what comes after is no work of it; false
                            where it only would have, on another card */

    /* The request that failed; 0 and REST where none did. */
    uint64_t request_bytes;
    hr__portion request_portion;
    uint64_t missing_bytes; /* less of which alive, at most, and it would have been served; 0:
                               nothing failed, or not for that; HR_UNKNOWN: it is not said */
} hr__peak;

/* HR_ERR_HOST_MEMORY. */
HR_MUST_CHECK hr_status hr__peak_find(const hr__case *given, hr__peak *out);
void hr__peak_deinit(hr__peak *peak);

/* Adds to the finding what would make the peak smaller, in the order in which to try it.
 * HR_ERR_HOST_MEMORY. */
HR_MUST_CHECK hr_status hr__peak_remedies(hr__case *given, const hr__peak *peak,
                                          hr__finding_draft *finding);

#endif /* HR_DOCTOR_PEAK_PARTS_H */
