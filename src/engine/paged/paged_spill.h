/* paged_spill.h - live memory that leaves the device, for the files of the paged engine.
 *
 * Words: a handle is *on the host* while its memory is the host's. It *leaves* or *comes back*: its
 * pages are exchanged, under the same address, in a safe moment. It is *left* when the last block
 * in it was freed: mapped still, and nobody's. docs/design/010-spill.md tells the whole. */
#ifndef VW_ENGINE_PAGED_PAGED_SPILL_H
#define VW_ENGINE_PAGED_PAGED_SPILL_H

#include "engine/paged/paged_engine.h"
#include "engine/paged/spill_choice.h"

struct vw__paged_spill {
    vw__host_lender host;
    uint64_t ahead_bytes; /* set at creation, then read-only, like the next */
    vw_spill_listener listener;
    vw__spill_clock clock;  /* its `now` is set before it is used */
    vw__paged_handle *left; /* in no other list */
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
    const vw__engine_table *usual_table;
    vw__engine_table due_table; /* the engine's while memory can come back within the step */

    /* What was held, and how often memory had left, when handles were last wished for. */
    uint64_t wished_held_bytes;
    uint64_t wished_spills;
};

/* Handles that could leave, or come back. */
typedef struct vw__spill_list {
    vw__spill_candidate *items; /* the caller's to free; `what` is the handle */
    size_t count;
    size_t capacity;
} vw__spill_list;

/* What moves in one safe moment. */
typedef struct vw__spill_move {
    vw_spill_report report;
    uint64_t gained_bytes; /* of the device's memory */
    uint64_t start_ns;
} vw__spill_move;

static inline void vw__paged_give_back_to_host(vw__paged_engine *engine, vw__host_handle *handle)
{
    engine->spill->host.give_back(engine->spill->host.context, handle);
}

static inline vw__host_numbers vw__paged_host_numbers(const vw__paged_engine *engine)
{
    vw__host_numbers numbers;
    engine->spill->host.look(engine->spill->host.context, &numbers);
    return numbers;
}

static inline uint64_t vw__paged_on_device_bytes(const vw__paged_engine *engine)
{
    return engine->base.held_bytes - engine->stats.spilled_bytes;
}

/* ---- paged_spill.c --------------------------------------------------------------------------- */

/* The engine can let memory leave from now on. */
vw_status vw__paged_begin_spill(vw__paged_engine *engine, const vw_pool_options *options);
/* After vw__paged_abandon(). */
void vw__paged_end_spill(vw__paged_engine *engine);

/* As vw__paged_make_room(): live memory leaves, until a request of `size_bytes` would find the
 * memory it misses. */
vw_status vw__paged_spill_for(vw__paged_engine *engine, vw_stream stream, uint64_t size_bytes,
                              uint64_t limit_bytes, bool *is_worth_while);

/* Wishes for handles of the sizes that would leave next, if memory is short. */
void vw__paged_prepare_spill(vw__paged_engine *engine);

void vw__paged_advise(vw__engine *engine, vw__block *block, vw_advice advice);

/* A handle with blocks in use joins the list; `first` is a block near its beginning. */
vw_status vw__paged_list(vw__paged_engine *engine, vw__paged_handle *handle, vw__block *first,
                         vw__spill_list *found);
void vw__spill_sort(vw__spill_list *found); /* the first to leave first */

/* The moment is over, or was not to be had: counted and told. The status, or the pool's failure. */
vw_status vw__paged_finish_move(vw__paged_engine *engine, vw__spill_move *move, bool was_safe,
                                vw_status status);

/* ---- paged_return.c -------------------------------------------------------------------------- */

void vw__paged_begin_returns(vw__paged_engine *engine);
/* Memory has left. */
void vw__paged_note_leaving(vw__paged_engine *engine);

/* A handle that left should come back within the step; or no more, since it did, or is free. */
void vw__paged_want_early(vw__paged_engine *engine, vw__paged_handle *handle);
void vw__paged_want_no_more(vw__paged_engine *engine, vw__paged_handle *handle);
/* Something came free: if that is enough, the next request brings them back. */
void vw__paged_look_for_room(vw__paged_engine *engine);

vw_status vw__paged_mark_step(vw__engine *engine);

/* ---- spill_limits.c -------------------------------------------------------------------------- */

/* Whether the device and the machine allow what the options say of spilling. */
vw_status vw__paged_check_spill(const vw_device *device, const vw_pool_options *options);

/* ---- paged_swap.c ---------------------------------------------------------------------------- */

/* In a safe moment, with the device idle. A failure leaves everything as it was, except where the
 * device would not take an old handle back: it was exchanged then.
 *
 * VW_ERR_OUT_OF_MEMORY   limit or budget are spent; to come back: the device has no room
 * VW_ERR_HOST_MEMORY     no handle could be made on the host, or no record */
vw_status vw__paged_swap_out(vw__paged_engine *engine, vw__paged_handle *handle, vw__block *first,
                             vw_stream stream);
vw_status vw__paged_swap_in(vw__paged_engine *engine, vw__paged_handle *handle, vw_stream stream);

/* ---- paged_on_host.c ------------------------------------------------------------------------- */

/* The handle's pages were exchanged for the host's, or for the device's own again: the books
 * follow. `first` is a block near its beginning. To enter, the records that
 * vw__paged_records_on_host() counts must be spare. Neither can fail. */
size_t vw__paged_records_on_host(const vw__paged_handle *handle, vw__block *first);
void vw__paged_enter_host(vw__paged_engine *engine, vw__paged_handle *handle, vw__block *first,
                          vw__host_handle *on_host);
void vw__paged_leave_host(vw__paged_engine *engine, vw__paged_handle *handle, vw__block *first,
                          vw_handle device_handle);

/* A block comes free: what is to be noted of it first; and whether it was in handles on the host,
 * and all of it was seen to. */
void vw__paged_note_free(vw__paged_engine *engine, vw__block *block);
bool vw__paged_free_on_host(vw__paged_engine *engine, vw__block *block);

/* Handles that are left are unmapped, and go back to the stock, as far as their streams have come
 * to their end, or may be waited for. Records events: not while capturing. */
vw_status vw__paged_settle_left(vw__paged_engine *engine, bool can_wait);

#endif /* VW_ENGINE_PAGED_PAGED_SPILL_H */
