/* recorder_fixture.h - a recorded pool, and its recording as a reader of the file sees it. */
#ifndef VW_TESTS_RECORDER_FIXTURE_H
#define VW_TESTS_RECORDER_FIXTURE_H

#include "vramwise/recording.h"
#include "model/memory_model.h"
#include "support/pool_fixture.h"

typedef struct vw_test_recorded {
    vw_test_pool test;
    vw_recorder *recorder;
} vw_test_recorded;

/* VW_OK, or the test fails with vw_last_error(). */
void vw_test_must(vw_status status);

/* A recorder attached to a new pool; either may be NULL. */
void vw_test_recorded_open(vw_test_recorded *r, const vw_recorder_options *options,
                           const vw_test_pool_setup *setup);
/* With stacks of that kind, on 100 MiB. */
void vw_test_recorded_open_stacks(vw_test_recorded *r, vw_stacks stacks);
void vw_test_recorded_close(vw_test_recorded *r);

vw_recorder_counts vw_test_recorded_counts(const vw_test_recorded *r);

/* A request with a tag; and the tag of a stack of two frames: forward at model.py:7, main at
 * train.py:`line`. */
vw_device_ptr vw_test_recorded_alloc(vw_test_recorded *r, uint64_t size_bytes, uint64_t tag);
uint64_t vw_test_recorded_tag(vw_test_recorded *r, uint32_t line);

/* A vw_recorder_output that appends to a vw__byte_buffer. */
bool vw_test_append(void *buffer, const void *bytes, size_t size_bytes);

/* Handed over: vw__model_destroy(). */
vw__model *vw_test_read_snapshot(const void *bytes, size_t size_bytes);
vw__model *vw_test_recorded_read(vw_test_recorded *r);

const vw__model_event *vw_test_event_at(const vw__model *model, size_t index);

#endif /* VW_TESTS_RECORDER_FIXTURE_H */
