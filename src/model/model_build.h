/* model_build.h - builds a memory model piece by piece, within limits.
 *
 * A builder takes strings, frames, stacks and events in any order, stores what repeats once, and at
 * the end makes a model of them. Readers of hostile files use it, so every table has a limit, and
 * reaching one is VW_ERR_UNSUPPORTED with a message that names the limit.
 *
 * Order of use: create; intern strings, frames, stacks; begin contexts; add events (those of one
 * device in their order); add segments, each followed by its blocks; settings, annotations,
 * features; then finish, which checks (model_check.h) and hands the model over, or abandon. */
#ifndef VW_MODEL_MODEL_BUILD_H
#define VW_MODEL_MODEL_BUILD_H

#include "vramwise/status.h"
#include "model/memory_model.h"

typedef struct vw__model_builder vw__model_builder;

/* `limit_bytes` bounds all host memory of the builder and the model together; up to a quarter of
 * it may be strings. */
VW_MUST_CHECK vw_status vw__model_builder_create(size_t limit_bytes, vw__model_builder **out);

/* Was something refused because of that limit? */
bool vw__model_builder_has_hit_memory_limit(const vw__model_builder *builder);
void vw__model_builder_destroy(vw__model_builder *builder); /* NULL does nothing */

/* Each stores the id of an equal record, or adds one. */
VW_MUST_CHECK vw_status vw__model_add_string(vw__model_builder *builder, const void *bytes,
                                             size_t size_bytes, uint32_t *id);
VW_MUST_CHECK vw_status vw__model_add_frame(vw__model_builder *builder,
                                            const vw__model_frame *frame, uint32_t *id);
VW_MUST_CHECK vw_status vw__model_add_stack(vw__model_builder *builder, const uint32_t *frame_ids,
                                            size_t frame_count, uint32_t *id);
VW_MUST_CHECK vw_status vw__model_add_note(vw__model_builder *builder, const vw__model_note *note,
                                           uint32_t *id);
VW_MUST_CHECK vw_status vw__model_add_stream(vw__model_builder *builder, vw_stream stream,
                                             uint16_t *id);
VW_MUST_CHECK vw_status vw__model_add_pool(vw__model_builder *builder, vw_private_id pool,
                                           uint16_t *id);

/* Adds a capture of a stack: a new id with each call. */
VW_MUST_CHECK vw_status vw__model_begin_context(vw__model_builder *builder, uint32_t stack,
                                                uint32_t *id);

/* Appends to the list of all events and stores the index: a reader meets events before it knows
 * their device. vw__model_add_trace() then assigns a run of them to a device. */
VW_MUST_CHECK vw_status vw__model_add_event(vw__model_builder *builder,
                                            const vw__model_event *event, size_t *index);
/* A device has one trace; traces may come in any order of devices. */
VW_MUST_CHECK vw_status vw__model_add_trace(vw__model_builder *builder, int device,
                                            size_t first_event, size_t event_count);
const vw__model_event *vw__model_builder_event(const vw__model_builder *builder, size_t index);
size_t vw__model_builder_event_count(const vw__model_builder *builder);

/* Blocks are in one list, too: those of a segment are [first_block, first_block + block_count).
 * Segments may come in any order: finish() sorts them. */
VW_MUST_CHECK vw_status vw__model_add_block(vw__model_builder *builder,
                                            const vw__model_block *block, size_t *index);
VW_MUST_CHECK vw_status vw__model_add_segment(vw__model_builder *builder,
                                              const vw__model_segment *segment);
vw__model_block *vw__model_builder_block(vw__model_builder *builder, size_t index);

VW_MUST_CHECK vw_status vw__model_add_annotation(vw__model_builder *builder,
                                                 const vw__model_annotation *annotation);
VW_MUST_CHECK vw_status vw__model_add_setting(vw__model_builder *builder, const char *key,
                                              const char *value);

/* The caller fills these, except `entries`, which vw__model_add_setting() fills. */
vw__model_settings *vw__model_builder_settings(vw__model_builder *builder);
vw__model_features *vw__model_builder_features(vw__model_builder *builder);
void vw__model_ignore_field(vw__model_builder *builder, const char *name, size_t size_bytes);

/* Checks everything, hands the model over (vw__model_destroy()) and ends the builder. On failure
 * (VW_ERR_CORRUPT_FILE: overlapping blocks and the like) the builder still exists. */
VW_MUST_CHECK vw_status vw__model_finish(vw__model_builder *builder, vw__model **out);

#endif /* VW_MODEL_MODEL_BUILD_H */
