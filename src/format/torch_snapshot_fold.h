/* torch_snapshot_fold.h - the dicts of a snapshot become records, one by one, as they are read.
 *
 * A dict is known by the keys it has, wherever it stands: one with `action` is a trace entry, one
 * with `total_size` a segment, and so on. It goes into the model (or, where the model must wait for
 * the whole, into a list here) and the document keeps a number for it. Lists of frames become
 * contexts in the same way: one for each list object, as their identity is information.
 *
 * What stays are the outermost dict, the settings, and lists of numbers; torch_snapshot_root.h
 * makes the model's traces and segments of those. */
#ifndef VW_FORMAT_TORCH_SNAPSHOT_FOLD_H
#define VW_FORMAT_TORCH_SNAPSHOT_FOLD_H

#include "format/document.h"
#include "format/torch_snapshot_fields.h"
#include "model/model_build.h"

/* What a folded value stands for. */
typedef enum vw__folded_kind {
    VW__FOLDED_ENTRY = 1,     /* the builder's events */
    VW__FOLDED_FRAME,         /* the builder's frames */
    VW__FOLDED_CONTEXT,       /* a list of frames: the builder's contexts */
    VW__FOLDED_FORWARD_STACK, /* a list of strings: the builder's stacks */
    VW__FOLDED_SEGMENT,       /* `segments` below */
    VW__FOLDED_BLOCK,         /* the builder's blocks */
    VW__FOLDED_USED_BLOCKS,   /* a list of blocks that has its segment */
    VW__FOLDED_PAST,          /* an entry of a block's `history`: `pasts` below */
    VW__FOLDED_ANNOTATION,    /* `annotations` below */
    VW__FOLDED_POOL,          /* two integers: the builder's pools */
} vw__folded_kind;

const char *vw__folded_kind_name(unsigned kind); /* "a trace entry", for messages */

typedef struct vw__folded_list {
    void *items; /* the document's memory, owned */
    size_t count;
    size_t capacity;
    size_t item_bytes;
} vw__folded_list;

typedef struct vw__past {
    uint64_t real_bytes;
    uint32_t context;
} vw__past;

/* What trace entries usually look like: the keys of the last one, and where its values are. An
 * entry with the same keys in the same order is read without sorting its fields; one whose values
 * are not the usual kinds goes the long way. */
enum { VW__USUAL_PAIRS = 16 };

typedef struct vw__usual_entry {
    size_t pair_count; /* 0: none yet */
    vw__value keys[VW__USUAL_PAIRS];
    uint64_t present;              /* as in vw__snapshot_fields */
    uint8_t places[VW__KEY_COUNT]; /* of values among the pairs, where present */
} vw__usual_entry;

typedef struct vw__snapshot_fold {
    vw__model_builder *builder; /* borrowed */
    vw__document *document;     /* borrowed; set by the first dict */
    vw__snapshot_fields fields; /* of the dict at hand */
    vw__usual_entry usual;

    vw__folded_list segments;    /* vw__model_segment */
    vw__folded_list annotations; /* vw__model_annotation */
    vw__folded_list pasts;       /* vw__past */
    vw__folded_list frame_ids;   /* of the list at hand */

    size_t frame_count;
    size_t block_count;
    size_t first_free_block; /* those before it have their segment */
    uint64_t entry_keys;     /* that any trace entry had */
    uint64_t block_keys;
    bool has_contexts;

    /* The last stream: nearly always the next one's, too. */
    uint64_t last_stream;
    uint16_t last_stream_id;
} vw__snapshot_fold;

void vw__snapshot_fold_init(vw__snapshot_fold *fold, vw__model_builder *builder);

/* Before the document is destroyed. */
void vw__snapshot_fold_deinit(vw__snapshot_fold *fold);

/* vw__fold's `dict`, with the fold as its context. */
vw_status vw__snapshot_fold_dict(void *context, vw__document *document, const vw__value *pairs,
                                 size_t pair_count, vw__value *folded);

/* vw__fold's `list`: a list of frames is a context, wherever it stands. */
vw_status vw__snapshot_fold_list(void *context, vw__document *document, const vw__value *items,
                                 size_t item_count, vw__value *folded);

/* "found a list", "found a trace entry": what `value` is, in words. */
const char *vw__snapshot_value_name(vw__value value);

/* Counts the keys of a dict that we do not know. */
void vw__snapshot_ignore_unknown(vw__snapshot_fold *fold, const vw__value *pairs,
                                 size_t pair_count);

/* Adds a copy of an item to a list and stores its place. */
VW_MUST_CHECK vw_status vw__folded_list_add(vw__snapshot_fold *fold, vw__folded_list *list,
                                            const void *item, uint32_t *place);

/* ---- one kind of dict each; the fields are in `fold->fields` ----------------------------------*/

vw_status vw__fold_entry(vw__snapshot_fold *fold, vw__value *folded);

/* From the pairs themselves. `*folded` is left alone where the entry is not a usual one. */
VW_MUST_CHECK vw_status vw__fold_usual_entry(vw__snapshot_fold *fold, const vw__value *pairs,
                                             size_t pair_count, vw__value *folded);

/* Remembers an entry that went the long way, for the next ones. */
void vw__learn_usual_entry(vw__snapshot_fold *fold, const vw__value *pairs, size_t pair_count);

vw_status vw__fold_segment(vw__snapshot_fold *fold, vw__value *folded);
vw_status vw__fold_block(vw__snapshot_fold *fold, vw__value *folded);
vw_status vw__fold_past(vw__snapshot_fold *fold, vw__value *folded);

/* ---- fields that several kinds have -----------------------------------------------------------*/

/* `frames`: VW__NO_CONTEXT where there are none. */
VW_MUST_CHECK vw_status vw__get_context(vw__snapshot_fold *fold, uint32_t *context);

/* `forward_frames`: the empty stack where there are none. */
VW_MUST_CHECK vw_status vw__get_forward_stack(vw__snapshot_fold *fold, uint32_t *stack);

VW_MUST_CHECK vw_status vw__get_stream(vw__snapshot_fold *fold, uint16_t *stream);
VW_MUST_CHECK vw_status vw__fold_stream(vw__snapshot_fold *fold, uint64_t handle, uint16_t *stream);

/* Two integers; `*pool` is left alone where there are none. */
VW_MUST_CHECK vw_status vw__get_pool(vw__snapshot_fold *fold, vw__snapshot_name key,
                                     uint16_t *pool);

/* The model's id of a string, which may be anything a file can hold. */
VW_MUST_CHECK vw_status vw__fold_string(vw__snapshot_fold *fold, vw__value value, uint32_t *id);

#endif /* VW_FORMAT_TORCH_SNAPSHOT_FOLD_H */
