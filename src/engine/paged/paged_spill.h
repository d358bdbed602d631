/* paged_spill.h - live memory that leaves the device when a request would run out of memory. */
#ifndef VW_ENGINE_PAGED_PAGED_SPILL_H
#define VW_ENGINE_PAGED_PAGED_SPILL_H

#include "engine/paged/paged_engine.h"

/* Whether the device and the machine allow what the options say of spilling. */
vw_status vw__paged_check_spill(const vw_device *device, const vw_pool_options *options);

/* The engine can let memory leave from now on. */
vw_status vw__paged_begin_spill(vw__paged_engine *engine, const vw_pool_options *options);
/* After vw__paged_abandon(). */
void vw__paged_end_spill(vw__paged_engine *engine);

/* As vw__paged_make_room(): live memory leaves, until a request of `size_bytes` would find the
 * memory it misses. */
vw_status vw__paged_spill_for(vw__paged_engine *engine, vw_stream stream, uint64_t size_bytes,
                              bool *is_worth_while);

/* Wishes for handles of the sizes that would leave next, if memory is short. */
void vw__paged_prepare_spill(vw__paged_engine *engine);

void vw__paged_advise(vw__engine *engine, vw__block *block, vw_advice advice);

static inline vw__lender_numbers vw__paged_host_numbers(const vw__paged_engine *engine)
{
    vw__lender_numbers numbers;
    engine->spill->host.look(engine->spill->host.context, &numbers);
    return numbers;
}

#endif /* VW_ENGINE_PAGED_PAGED_SPILL_H */
