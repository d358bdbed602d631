/* model_build.h - filling a memory model, piece by piece, within limits.
 *
 * A builder takes strings, frames, stacks and events in any order, stores what repeats once, and at
 * the end makes a model of them. It is used by readers of hostile files, so every table has a limit
 * and running into one is HR_ERR_UNSUPPORTED with the limit in words, not a dead machine.
 *
 * Order of use: create; intern strings, frames, stacks; begin contexts; add events (those of one
 * device in their order); add segments, each followed by its blocks; settings, annotations,
 * features; then finish, which checks (model_check.h) and hands the model over, or abandon. */
#ifndef HR_MODEL_MODEL_BUILD_H
#define HR_MODEL_MODEL_BUILD_H

#include "headroom/status.h"
#include "model/memory_model.h"

typedef struct hr__model_builder hr__model_builder;

/* `limit_bytes` bounds all host memory of the builder and the model together; up to a quarter of
 * it may be strings. */
HR_MUST_CHECK hr_status hr__model_builder_create(size_t limit_bytes, hr__model_builder **out);
void hr__model_builder_destroy(hr__model_builder *builder); /* NULL does nothing */

/* Each returns the id of what is there already, or adds it. */
HR_MUST_CHECK hr_status hr__model_add_string(hr__model_builder *builder, const void *bytes,
                                             size_t size_bytes, uint32_t *id);
HR_MUST_CHECK hr_status hr__model_add_frame(hr__model_builder *builder,
                                            const hr__model_frame *frame, uint32_t *id);
HR_MUST_CHECK hr_status hr__model_add_stack(hr__model_builder *builder, const uint32_t *frame_ids,
                                            size_t frame_count, uint32_t *id);
HR_MUST_CHECK hr_status hr__model_add_note(hr__model_builder *builder, const hr__model_note *note,
                                           uint32_t *id);
HR_MUST_CHECK hr_status hr__model_add_stream(hr__model_builder *builder, hr_stream stream,
                                             uint16_t *id);
HR_MUST_CHECK hr_status hr__model_add_pool(hr__model_builder *builder, hr_private_id pool,
                                           uint16_t *id);

/* A new capture of a stack: a new id at each call. */
HR_MUST_CHECK hr_status hr__model_begin_context(hr__model_builder *builder, uint32_t stack,
                                                uint32_t *id);

/* Appends to the one list of all events and stores its place there: a reader meets events before
 * it knows their device. hr__model_add_trace() then says which run of them is whose. */
HR_MUST_CHECK hr_status hr__model_add_event(hr__model_builder *builder,
                                            const hr__model_event *event, size_t *index);
/* A device has one trace; traces may come in any order of devices. */
HR_MUST_CHECK hr_status hr__model_add_trace(hr__model_builder *builder, int device,
                                            size_t first_event, size_t event_count);
const hr__model_event *hr__model_builder_event(const hr__model_builder *builder, size_t index);
size_t hr__model_builder_event_count(const hr__model_builder *builder);

/* Blocks go into one list too; a segment's are [first_block, first_block + block_count). Segments
 * may come in any order: finish() sorts them. */
HR_MUST_CHECK hr_status hr__model_add_block(hr__model_builder *builder,
                                            const hr__model_block *block, size_t *index);
HR_MUST_CHECK hr_status hr__model_add_segment(hr__model_builder *builder,
                                              const hr__model_segment *segment);
hr__model_block *hr__model_builder_block(hr__model_builder *builder, size_t index);

HR_MUST_CHECK hr_status hr__model_add_annotation(hr__model_builder *builder,
                                                 const hr__model_annotation *annotation);
HR_MUST_CHECK hr_status hr__model_add_setting(hr__model_builder *builder, const char *key,
                                              const char *value);

/* `entries` is filled by hr__model_add_setting(); the rest by the caller, here. */
hr__model_settings *hr__model_builder_settings(hr__model_builder *builder);
hr__model_features *hr__model_builder_features(hr__model_builder *builder);
void hr__model_ignore_field(hr__model_builder *builder, const char *name, size_t size_bytes);

/* Checks everything and hands the model over (hr__model_destroy()); the builder is gone then. On
 * failure (HR_ERR_CORRUPT_FILE: overlapping blocks and the like) the builder is still there. */
HR_MUST_CHECK hr_status hr__model_finish(hr__model_builder *builder, hr__model **out);

#endif /* HR_MODEL_MODEL_BUILD_H */
