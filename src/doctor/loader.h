/* loader.h - what to change about a DataLoader: the one place that advises on it.
 *
 * Workers, batches made ahead and pinned memory take the host's memory, and give the GPU its input
 * in time. A job that waits for input wants more of them; a host that is out of memory, fewer. */
#ifndef VW_DOCTOR_LOADER_H
#define VW_DOCTOR_LOADER_H

#include <stdint.h>

#include "doctor/diagnosis.h"

/* Adds a finding of kind "input-bound" if `share` of the time of steps, spent waiting for input, is
 * worth one (VW_JOB_INPUT_BOUND_SHARE). `workers` and `pins`: of the loader, VW_UNKNOWN where
 * nobody knows. */
void vw__loader_add_waiting(vw__diagnosis_draft *draft, double share, uint64_t workers,
                            uint64_t pins);

/* Where the host's memory is short: what is held, what is handed over in /dev/shm, what is pinned;
 * and what grows from step to step. */
void vw__loader_advise_host(vw__diagnosis_finding *finding);
void vw__loader_advise_shared(vw__diagnosis_finding *finding);
void vw__loader_advise_pinned(vw__diagnosis_finding *finding);
void vw__loader_advise_growth(vw__diagnosis_finding *finding);

#endif /* VW_DOCTOR_LOADER_H */
