/* torch_snapshot_fold.h - the dicts of a snapshot become records, one by one, as they are read.
 *
 * A dict is known by the keys it has, wherever it stands: one with `action` is a trace entry, one
 * with `total_size` a segment, and so on. It goes into the model (or, where the model must wait for
 * the whole, into a list here) and the document keeps a number for it. Lists of frames become
 * contexts in the same way: one for each list object, as their identity is information.
 *
 * What stays are the outermost dict, the settings, and lists of numbers; torch_snapshot_root.h
 * makes the model's traces and segments of those. */
#ifndef HR_FORMAT_TORCH_SNAPSHOT_FOLD_H
#define HR_FORMAT_TORCH_SNAPSHOT_FOLD_H

#include "format/document.h"
#include "format/torch_snapshot_fields.h"
#include "model/model_build.h"

/* What a folded value stands for. */
typedef enum hr__folded_kind {
    HR__FOLDED_ENTRY = 1,     /* the builder's events */
    HR__FOLDED_FRAME,         /* the builder's frames */
    HR__FOLDED_CONTEXT,       /* a list of frames: the builder's contexts */
    HR__FOLDED_FORWARD_STACK, /* a list of strings: the builder's stacks */
    HR__FOLDED_SEGMENT,       /* `segments` below */
    HR__FOLDED_BLOCK,         /* the builder's blocks */
    HR__FOLDED_USED_BLOCKS,   /* a list of blocks that has its segment */
    HR__FOLDED_PAST,          /* an entry of a block's `history`: `pasts` below */
    HR__FOLDED_ANNOTATION,    /* `annotations` below */
    HR__FOLDED_POOL,          /* two integers: the builder's pools */
} hr__folded_kind;

const char *hr__folded_kind_name(unsigned kind); /* "a trace entry", for messages */

typedef struct hr__folded_list {
    void *items; /* the document's memory, owned */
    size_t count;
    size_t capacity;
    size_t item_bytes;
} hr__folded_list;

typedef struct hr__past {
    uint64_t real_bytes;
    uint32_t context;
} hr__past;

/* What trace entries usually look like: the keys of the last one, and where its values are. An
 * entry with the same keys in the same order is read without sorting its fields; one whose values
 * are not the usual kinds goes the long way. */
enum { HR__USUAL_PAIRS = 16 };

typedef struct hr__usual_entry {
    size_t pair_count; /* 0: none yet */
    hr__value keys[HR__USUAL_PAIRS];
    uint64_t present;              /* as in hr__snapshot_fields */
    uint8_t places[HR__KEY_COUNT]; /* of values among the pairs, where present */
} hr__usual_entry;

typedef struct hr__snapshot_fold {
    hr__model_builder *builder; /* borrowed */
    hr__document *document;     /* borrowed; set by the first dict */
    hr__snapshot_fields fields; /* of the dict at hand */
    hr__usual_entry usual;

    hr__folded_list segments;    /* hr__model_segment */
    hr__folded_list annotations; /* hr__model_annotation */
    hr__folded_list pasts;       /* hr__past */
    hr__folded_list frame_ids;   /* of the list at hand */

    size_t frame_count;
    size_t block_count;
    size_t first_free_block; /* those before it have their segment */
    uint64_t entry_keys;     /* that any trace entry had */
    uint64_t block_keys;
    bool has_contexts;

    /* The last stream: nearly always the next one's, too. */
    uint64_t last_stream;
    uint16_t last_stream_id;
} hr__snapshot_fold;

void hr__snapshot_fold_init(hr__snapshot_fold *fold, hr__model_builder *builder);

/* Before the document is destroyed. */
void hr__snapshot_fold_deinit(hr__snapshot_fold *fold);

/* hr__fold's `dict`, with the fold as its context. */
hr_status hr__snapshot_fold_dict(void *context, hr__document *document, const hr__value *pairs,
                                 size_t pair_count, hr__value *folded);

/* hr__fold's `list`: a list of frames is a context, wherever it stands. */
hr_status hr__snapshot_fold_list(void *context, hr__document *document, const hr__value *items,
                                 size_t item_count, hr__value *folded);

/* "found a list", "found a trace entry": what `value` is, in words. */
const char *hr__snapshot_value_name(hr__value value);

/* Counts the keys of a dict that we do not know. */
void hr__snapshot_ignore_unknown(hr__snapshot_fold *fold, const hr__value *pairs,
                                 size_t pair_count);

/* Adds a copy of an item to a list and stores its place. */
HR_MUST_CHECK hr_status hr__folded_list_add(hr__snapshot_fold *fold, hr__folded_list *list,
                                            const void *item, uint32_t *place);

/* ---- one kind of dict each; the fields are in `fold->fields` ----------------------------------*/

hr_status hr__fold_entry(hr__snapshot_fold *fold, hr__value *folded);

/* From the pairs themselves. `*folded` is left alone where the entry is not a usual one. */
HR_MUST_CHECK hr_status hr__fold_usual_entry(hr__snapshot_fold *fold, const hr__value *pairs,
                                             size_t pair_count, hr__value *folded);

/* Remembers an entry that went the long way, for the next ones. */
void hr__learn_usual_entry(hr__snapshot_fold *fold, const hr__value *pairs, size_t pair_count);

hr_status hr__fold_segment(hr__snapshot_fold *fold, hr__value *folded);
hr_status hr__fold_block(hr__snapshot_fold *fold, hr__value *folded);
hr_status hr__fold_past(hr__snapshot_fold *fold, hr__value *folded);

/* ---- fields that several kinds have -----------------------------------------------------------*/

/* `frames`: HR__NO_CONTEXT where there are none. */
HR_MUST_CHECK hr_status hr__get_context(hr__snapshot_fold *fold, uint32_t *context);

/* `forward_frames`: the empty stack where there are none. */
HR_MUST_CHECK hr_status hr__get_forward_stack(hr__snapshot_fold *fold, uint32_t *stack);

HR_MUST_CHECK hr_status hr__get_stream(hr__snapshot_fold *fold, uint16_t *stream);
HR_MUST_CHECK hr_status hr__fold_stream(hr__snapshot_fold *fold, uint64_t handle, uint16_t *stream);

/* Two integers; `*pool` is left alone where there are none. */
HR_MUST_CHECK hr_status hr__get_pool(hr__snapshot_fold *fold, hr__snapshot_name key,
                                     uint16_t *pool);

/* The model's id of a string, which may be anything a file can hold. */
HR_MUST_CHECK hr_status hr__fold_string(hr__snapshot_fold *fold, hr__value value, uint32_t *id);

#endif /* HR_FORMAT_TORCH_SNAPSHOT_FOLD_H */
