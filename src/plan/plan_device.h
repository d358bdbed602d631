/* plan_device.h - from what PyTorch allocates to what a process takes of a card. */
#ifndef VW_PLAN_PLAN_DEVICE_H
#define VW_PLAN_PLAN_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "vramwise/plan.h"
#include "plan/error_bands.h"
#include "plan/plan_events.h"

/* ---- by rules of thumb ----------------------------------------------------------------------- */

/* CUDA's context and kernels, and NCCL's buffers where there are several GPUs. */
uint64_t vw__plan_context_bytes(const vw_plan_settings *settings);

/* What a process with that peak takes, where it was not replayed. */
uint64_t vw__plan_device_bytes(uint64_t peak_allocated_bytes, const vw_plan_settings *settings);

/* How much of the memory that may move to the host stays on a card, beside `used_bytes`. */
uint64_t vw__plan_resident_bytes(uint64_t pageable_bytes, uint64_t used_bytes,
                                 const vw_plan_settings *settings);

/* As vw__plan_device_bytes(), if the prediction is as wrong as in the worst measured case. */
uint64_t vw__plan_device_bytes_at_worst(uint64_t peak_allocated_bytes,
                                        const vw_plan_settings *settings, vw__plan_error_band band);

/* ---- by replay ------------------------------------------------------------------------------- */

/* More than any card has: nobody asks what an allocator would make of it. */
#define VW__PLAN_MOST_REPLAYED_BYTES (UINT64_C(1) << 40)

/* native, expandable, vramwise: the rows of settings/setting_table.h that are for the planner. */
enum { VW__PLAN_POLICIES = 3 };

typedef struct vw__plan_replayed {
    uint64_t reserved_bytes[VW__PLAN_POLICIES]; /* peak; VW_UNKNOWN: more than any card has */

    /* In the last step, with PyTorch's defaults, as max_memory_allocated() counts: a block that is
     * not worth splitting counts whole. VW_UNKNOWN as above. */
    uint64_t peak_allocated_bytes;
} vw__plan_replayed;

/* Replays the requests under each policy, with no memory limit. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__plan_replay_events(const vw__plan_events *events,
                                               vw__plan_replayed *out);

/* Whether each policy completes the requests on a card that has so much for the allocator. It gives
 * unused memory back and asks again, as it would there. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__plan_replay_on_card(const vw__plan_events *events,
                                                uint64_t capacity_bytes,
                                                bool completes[VW__PLAN_POLICIES]);

/* ---- by running a step ----------------------------------------------------------------------- */

/* All UINT64_MAX: no address space has so much. */
typedef struct vw__plan_trial {
    uint64_t peak_allocated_bytes;
    uint64_t device_bytes;
    uint64_t worst_bytes; /* with the error counted in: fits if the card has so much */
} vw__plan_trial;

VW_MUST_CHECK vw_status vw__plan_try(const vw_plan_model *model, const vw_plan_settings *settings,
                                     vw__plan_trial *out);

/* The largest batch, `most` at most, whose need is `card_bytes` or less; 0: none. Needs must not
 * fall as the batch grows. Tries `first`, then few others. */
typedef vw_status (*vw__plan_need)(void *context, uint64_t batch, uint64_t *need_bytes);
VW_MUST_CHECK vw_status vw__plan_largest_that_fits(vw__plan_need need, void *context,
                                                   uint64_t first, uint64_t most,
                                                   uint64_t card_bytes, uint64_t *out);

/* The largest batch with which `settings` fit their card, everything else unchanged; 0: none. */
VW_MUST_CHECK vw_status vw__plan_largest_batch(const vw_plan_model *model,
                                               const vw_plan_settings *settings, uint64_t *out);

#endif /* VW_PLAN_PLAN_DEVICE_H */
