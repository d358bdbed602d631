/* torch_engine.h - PyTorch's caching allocator: what its files share.
 *
 *   torch_engine.c          a request from rounding to hand-out, and its way back
 *   torch_lifecycle.c       making and ending the engine, its settings, its table
 *   torch_expandable.c      segments that grow and shrink page by page
 *   torch_reclaim.c         giving memory back: trim, retry, garbage collection
 *   torch_inspect.c         checking what is PyTorch's own; the rest is engine/inspect.h's
 *   torch_conf, torch_settings, torch_versions    the options, the settings string, the releases
 *   torch_rounding          the numbers
 *
 * The parts that engines share are one folder up: blocks, segments, private pools.
 *
 * The rules are PyTorch's, to the byte: "as PyTorch" in a comment is the whole reason. Where
 * releases differ, torch_versions.h has a named switch. */
#ifndef VW_ENGINE_TORCH_TORCH_ENGINE_H
#define VW_ENGINE_TORCH_TORCH_ENGINE_H

#include "engine/engine_base.h"
#include "engine/engine_list.h" /* vw__engine_kind */
#include "engine/private_pools.h"
#include "engine/torch/torch_conf.h"

typedef struct vw__torch_engine {
    vw__engine base;
    vw__torch_conf conf;
    bool is_expandable; /* the setting, where version and device have it */
    bool counts_ages;   /* garbage collection is on: a threshold and a limit are set */
    bool is_shareable;  /* pages can be handed to other processes */
    size_t expandable_segments;
    uint32_t tie_breaks; /* given out so far */
} vw__torch_engine;

/* What the engine keeps with an expandable segment: vw__segment.detail. Both arrays are part of the
 * same allocation. */
typedef struct vw__torch_pages {
    uint64_t page_bytes; /* the size of each handle */
    size_t count;
    vw_handle *handles; /* 0 where there is none */
    bool *is_mapped;
} vw__torch_pages;

static inline vw__torch_pages *vw__torch_pages_of(const vw__segment *segment)
{
    return segment->detail;
}

/* One request on its way. */
typedef struct vw__torch_search {
    vw__shelf *shelf;
    vw__lane *lane; /* NULL: the stream has none on this shelf yet */
    vw_stream stream;
    uint64_t size_bytes;    /* rounded */
    uint64_t segment_bytes; /* what the device would be asked for; set on a miss */
    bool is_expandable;
} vw__torch_search;

/* VW_ERR_UNSUPPORTED: is_shareable, and the device cannot share. */
extern const vw__engine_kind vw__torch_kind;

/* ---- torch_engine.c -------------------------------------------------------------------------- */
vw_status vw__torch_allocate(vw__engine *engine, const vw__engine_request *request, vw__block **out,
                             vw__engine_refusal *refusal);
vw_status vw__torch_allocate_at(vw__engine *engine, const vw__engine_request *request,
                                vw_device_ptr address, vw__block **prefix, vw__block **out);
vw__block *vw__torch_hand_out_at(vw__engine *engine, vw__block *block, vw_device_ptr address,
                                 uint64_t size_bytes, uint64_t tag);
void vw__torch_free(vw__engine *engine, vw__block *block);

/* The number a new record gets under the version's tie-break rule. */
uint32_t vw__torch_block_tie_break(vw__torch_engine *engine, const vw__segment *segment);

/* As vw__engine_add_segment() and its counterpart, with the tie-break that the version gives, and
 * the pages of an expandable segment freed. */
vw__segment *vw__torch_add_expandable(vw__torch_engine *engine, vw__lane *lane, uint64_t address,
                                      uint64_t size_bytes);
void vw__torch_drop_segment(vw__torch_engine *engine, vw__segment *segment);

/* ---- torch_expandable.c ---------------------------------------------------------------------- */

/* VW_OK: `*out` is free and has at least the search's size. VW_ERR_OUT_OF_MEMORY: pages
 * mapped on the way stay, free. */
vw_status vw__torch_grow_expandable(vw__torch_engine *engine, const vw__torch_search *search,
                                    vw__block **out);

/* Gives the whole pages inside a free block back. The block may be gone afterwards. */
vw_status vw__torch_shrink_expandable(vw__torch_engine *engine, vw__block *block);

/* The engine table's. */
vw_status vw__torch_walk_pieces(vw__engine *engine, const vw__block *under,
                                vw__engine_piece_visitor visit, void *context);

/* Gives a whole segment back, whatever is in it; for the end of the engine. */
void vw__torch_abandon_segment(vw__torch_engine *engine, vw__segment *segment);

/* ---- torch_reclaim.c ------------------------------------------------------------------------- */
vw_status vw__torch_trim(vw__torch_engine *engine, const vw_private_id *only);
vw_status vw__torch_collect_garbage(vw__torch_engine *engine);

/* `*is_enough`: it is worth asking the device again. */
vw_status vw__torch_release_available(vw__torch_engine *engine, const vw__torch_search *search,
                                      bool *is_enough);

/* ---- torch_inspect.c ------------------------------------------------------------------------- */
vw_status vw__torch_check(vw__engine *engine);

static inline vw__torch_engine *vw__torch_of(vw__engine *engine)
{
    return (vw__torch_engine *)(void *)engine; /* `base` is the first field */
}

static inline const vw__torch_engine *vw__torch_of_const(const vw__engine *engine)
{
    return (const vw__torch_engine *)(const void *)engine;
}

#endif /* VW_ENGINE_TORCH_TORCH_ENGINE_H */
