/* paged_spill.h - live memory that leaves the device, for the files of the paged engine.
 *
 * Words: a handle is *on the host* while its memory is the host's. It *leaves* or *comes back*: its
 * pages are exchanged, under the same address, in a safe moment. It is *left* when the last block
 * in it was freed: mapped still, and nobody's. docs/design/010-spill.md tells the whole. */
#ifndef HR_ENGINE_PAGED_PAGED_SPILL_H
#define HR_ENGINE_PAGED_PAGED_SPILL_H

#include "engine/paged/host_stock.h"
#include "engine/paged/paged_engine.h"
#include "engine/paged/spill_choice.h"

struct hr__paged_spill {
    hr__host_stock *stock; /* owned */
    uint64_t ahead_bytes;  /* set at creation, then read-only, like the next */
    hr_spill_listener listener;
    hr__spill_clock clock;  /* its `now` is set before it is used */
    hr__paged_handle *left; /* in no other list */
    uint64_t handle_count;  /* on the host, and not left */

    /* When to come back by steps: paged_return.c. */
    uint64_t peak_bytes;         /* of live memory, since quiet_steps began */
    unsigned quiet_steps;        /* since memory left or came back */
    unsigned patience;           /* how many it takes */
    unsigned steps_since_return; /* or as many as it takes to be forgotten */

    /* When to come back within a step. Times are the engine's clock: requests. */
    uint64_t early_bytes;   /* of handles that should */
    uint64_t full_bytes;    /* the most that was on the device since memory left */
    int64_t left_at;        /* when it did, or was last wanted back in vain */
    int64_t returned_at;    /* when some last came back, or should have */
    int64_t early_patience; /* how long after `left_at` */
    unsigned steps_since_longer;
    const hr__engine_table *usual_table;
    hr__engine_table due_table; /* the engine's while memory can come back within the step */

    /* What was held, and how often memory had left, when handles were last wished for. */
    uint64_t wished_held_bytes;
    uint64_t wished_spills;
};

/* Handles that could leave, or come back. */
typedef struct hr__spill_list {
    hr__spill_candidate *items; /* the caller's to free; `what` is the handle */
    size_t count;
    size_t capacity;
} hr__spill_list;

/* What moves in one safe moment. */
typedef struct hr__spill_move {
    hr_spill_report report;
    uint64_t gained_bytes; /* of the device's memory */
    uint64_t start_ns;
} hr__spill_move;

static inline uint64_t hr__paged_on_device_bytes(const hr__paged_engine *engine)
{
    return engine->base.held_bytes - engine->stats.spilled_bytes;
}

/* ---- paged_spill.c --------------------------------------------------------------------------- */

/* The engine can let memory leave from now on. */
hr_status hr__paged_begin_spill(hr__paged_engine *engine, const hr_pool_options *options);
/* After hr__paged_abandon(). */
void hr__paged_end_spill(hr__paged_engine *engine);

/* As hr__paged_make_room(): live memory leaves, until a request of `size_bytes` would find the
 * memory it misses. */
hr_status hr__paged_spill_for(hr__paged_engine *engine, hr_stream stream, uint64_t size_bytes,
                              uint64_t limit_bytes, bool *is_worth_while);

/* Wishes for handles of the sizes that would leave next, if memory is short. */
void hr__paged_prepare_spill(hr__paged_engine *engine);

void hr__paged_advise(hr__engine *engine, hr__block *block, hr_advice advice);

/* A handle with blocks in use joins the list; `first` is a block near its beginning. */
hr_status hr__paged_list(hr__paged_engine *engine, hr__paged_handle *handle, hr__block *first,
                         hr__spill_list *found);
void hr__spill_sort(hr__spill_list *found); /* the first to leave first */

/* The moment is over, or was not to be had: counted and told. The status, or the pool's failure. */
hr_status hr__paged_finish_move(hr__paged_engine *engine, hr__spill_move *move, bool was_safe,
                                hr_status status);

/* ---- paged_return.c -------------------------------------------------------------------------- */

void hr__paged_begin_returns(hr__paged_engine *engine);
/* Memory has left. */
void hr__paged_note_leaving(hr__paged_engine *engine);

/* A handle that left should come back within the step; or no more, since it did, or is free. */
void hr__paged_want_early(hr__paged_engine *engine, hr__paged_handle *handle);
void hr__paged_want_no_more(hr__paged_engine *engine, hr__paged_handle *handle);
/* Something came free: if that is enough, the next request brings them back. */
void hr__paged_look_for_room(hr__paged_engine *engine);

hr_status hr__paged_mark_step(hr__engine *engine);

/* ---- spill_limits.c -------------------------------------------------------------------------- */

/* Whether the device and the machine allow what the options say of spilling. */
hr_status hr__paged_check_spill(const hr_device *device, const hr_pool_options *options);

/* ---- paged_swap.c ---------------------------------------------------------------------------- */

/* In a safe moment, with the device idle. A failure leaves everything as it was, except where the
 * device would not take an old handle back: it was exchanged then.
 *
 * HR_ERR_OUT_OF_MEMORY   limit or budget are spent; to come back: the device has no room
 * HR_ERR_HOST_MEMORY     no handle could be made on the host, or no record */
hr_status hr__paged_swap_out(hr__paged_engine *engine, hr__paged_handle *handle, hr__block *first,
                             hr_stream stream);
hr_status hr__paged_swap_in(hr__paged_engine *engine, hr__paged_handle *handle, hr_stream stream);

/* ---- paged_on_host.c ------------------------------------------------------------------------- */

/* The handle's pages were exchanged for the host's, or for the device's own again: the books
 * follow. `first` is a block near its beginning. To enter, the records that
 * hr__paged_records_on_host() counts must be spare. Neither can fail. */
size_t hr__paged_records_on_host(const hr__paged_handle *handle, hr__block *first);
void hr__paged_enter_host(hr__paged_engine *engine, hr__paged_handle *handle, hr__block *first,
                          hr__host_handle *on_host);
void hr__paged_leave_host(hr__paged_engine *engine, hr__paged_handle *handle, hr__block *first,
                          hr_handle device_handle);

/* A block comes free: what is to be noted of it first; and whether it was in handles on the host,
 * and all of it was seen to. */
void hr__paged_note_free(hr__paged_engine *engine, hr__block *block);
bool hr__paged_free_on_host(hr__paged_engine *engine, hr__block *block);

/* Handles that are left are unmapped, and go back to the stock, as far as their streams have come
 * to their end, or may be waited for. Records events: not while capturing. */
hr_status hr__paged_settle_left(hr__paged_engine *engine, bool can_wait);

#endif /* HR_ENGINE_PAGED_PAGED_SPILL_H */
