/* torch_engine.h - PyTorch's caching allocator: what its files share.
 *
 *   torch_engine.c          a request from rounding to hand-out, and its way back
 *   torch_lifecycle.c       making and ending the engine, its settings, its table
 *   torch_expandable.c      segments that grow and shrink page by page
 *   torch_reclaim.c         giving memory back: trim, retry, garbage collection
 *   torch_inspect.c         checking what is PyTorch's own; the rest is engine/inspect.h's
 *   torch_rounding, torch_settings, torch_versions    the numbers, the option string, the releases
 *
 * What another engine would do the same way is one folder up: segments, private pools, walking.
 *
 * The rules are PyTorch's, to the byte: where a comment says "as PyTorch" there is no better
 * reason, and none is needed. Where releases differ, torch_versions.h has a named switch. */
#ifndef HR_ENGINE_TORCH_TORCH_ENGINE_H
#define HR_ENGINE_TORCH_TORCH_ENGINE_H

#include "engine/engine.h"
#include "engine/private_pools.h"
#include "engine/segments.h"
#include "engine/shelf.h"
#include "engine/torch/torch_settings.h"
#include "engine/torch/torch_versions.h"

typedef struct hr__torch_engine {
    hr__engine base;
    hr__torch_rules rules;
    hr__torch_settings settings;
    bool is_expandable; /* the setting, where version and device have it */
    bool counts_ages;   /* garbage collection is on: a threshold and a limit are set */
    bool is_strict;     /* how option strings are read */
    bool is_shareable;  /* pages can be handed to other processes */
    size_t expandable_segments;
    uint32_t tie_breaks; /* given out so far */
} hr__torch_engine;

/* One request on its way. */
typedef struct hr__search {
    hr__shelf *shelf;
    hr__lane *lane; /* NULL: the stream has none on this shelf yet */
    hr_stream stream;
    uint64_t size_bytes;    /* rounded */
    uint64_t segment_bytes; /* what the device would be asked for; set on a miss */
    bool is_expandable;
} hr__search;

/* Makes an engine that drives owner->device. HR_ERR_UNSUPPORTED: is_shareable, and it cannot. */
hr_status hr__torch_engine_create(const hr__engine_owner *owner, const hr_pool_options *options,
                                  int version, hr__engine **out);

/* ---- torch_engine.c -------------------------------------------------------------------------- */
hr_status hr__torch_allocate(hr__engine *engine, const hr__request *request, hr__block **out,
                             hr__refusal *refusal);
hr_status hr__torch_allocate_at(hr__engine *engine, const hr__request *request,
                                hr_device_ptr address, hr__block **prefix, hr__block **out);
hr__block *hr__torch_hand_out_at(hr__engine *engine, hr__block *block, hr_device_ptr address,
                                 uint64_t size_bytes, uint64_t tag);
void hr__torch_free(hr__engine *engine, hr__block *block);

/* The number a new record gets under the version's tie-break rule. */
uint32_t hr__torch_block_tie_break(hr__torch_engine *engine, const hr__segment *segment);

/* `block`, which is in no index, becomes FREE or UNMAPPED: joined with neighbours of that state,
 * and indexed. */
void hr__torch_settle_free(hr__torch_engine *engine, hr__lane *lane, hr__block *block);
void hr__torch_settle_unmapped(hr__torch_engine *engine, hr__lane *lane, hr__block *block);

/* As hr__engine_add_segment() and its counterpart, with the tie-break that the version gives, and
 * the pages of an expandable segment freed. */
hr__segment *hr__torch_add_segment(hr__torch_engine *engine, hr__lane *lane, uint64_t address,
                                   uint64_t size_bytes, bool is_expandable);
void hr__torch_drop_segment(hr__torch_engine *engine, hr__segment *segment);

/* ---- torch_expandable.c ---------------------------------------------------------------------- */

/* HR_OK: `*out` is free and has at least the search's size. HR_ERR_OUT_OF_MEMORY: pages
 * mapped on the way stay, free. */
hr_status hr__torch_grow_expandable(hr__torch_engine *engine, const hr__search *search,
                                    hr__block **out);

/* Gives the whole pages inside a free block back. The block may be gone afterwards. */
hr_status hr__torch_shrink_expandable(hr__torch_engine *engine, hr__block *block);

/* The engine table's. */
hr_status hr__torch_walk_pieces(hr__engine *engine, const hr__block *under, hr__piece_visitor visit,
                                void *context);

/* Gives a whole segment back, whatever is in it; for the end of the engine. */
void hr__torch_abandon_segment(hr__torch_engine *engine, hr__segment *segment);

/* ---- torch_reclaim.c ------------------------------------------------------------------------- */
hr_status hr__torch_trim(hr__torch_engine *engine, const hr_private_id *only);
hr_status hr__torch_collect_garbage(hr__torch_engine *engine);

/* `*is_enough`: it is worth asking the device again. */
hr_status hr__torch_release_available(hr__torch_engine *engine, const hr__search *search,
                                      bool *is_enough);

/* ---- torch_inspect.c ------------------------------------------------------------------------- */
hr_status hr__torch_check(hr__engine *engine);

static inline hr__torch_engine *hr__torch_of(hr__engine *engine)
{
    return (hr__torch_engine *)(void *)engine; /* `base` is the first field */
}

static inline const hr__torch_engine *hr__torch_of_const(const hr__engine *engine)
{
    return (const hr__torch_engine *)(const void *)engine;
}

#endif /* HR_ENGINE_TORCH_TORCH_ENGINE_H */
