/* recorder_fixture.h - a recorded pool, and its recording as a reader of the file sees it. */
#ifndef HR_TESTS_RECORDER_FIXTURE_H
#define HR_TESTS_RECORDER_FIXTURE_H

#include "headroom/recording.h"
#include "model/memory_model.h"
#include "support/pool_fixture.h"

typedef struct hr_test_recorded {
    hr_test_pool test;
    hr_recorder *recorder;
} hr_test_recorded;

/* HR_OK, or the test fails with hr_last_error(). */
void hr_test_must(hr_status status);

/* A recorder attached to a new pool; either may be NULL. */
void hr_test_recorded_open(hr_test_recorded *r, const hr_recorder_options *options,
                           const hr_test_pool_setup *setup);
/* With stacks of that kind, on 100 MiB. */
void hr_test_recorded_open_stacks(hr_test_recorded *r, hr_stacks stacks);
void hr_test_recorded_close(hr_test_recorded *r);

hr_recorder_counts hr_test_recorded_counts(const hr_test_recorded *r);

/* A request with a tag; and the tag of a stack of two frames: forward at model.py:7, main at
 * train.py:`line`. */
hr_device_ptr hr_test_recorded_alloc(hr_test_recorded *r, uint64_t size_bytes, uint64_t tag);
uint64_t hr_test_recorded_tag(hr_test_recorded *r, uint32_t line);

/* An hr_recorder_output into an hr__byte_buffer. */
bool hr_test_append(void *buffer, const void *bytes, size_t size_bytes);

/* Handed over: hr__model_destroy(). */
hr__model *hr_test_read_snapshot(const void *bytes, size_t size_bytes);
hr__model *hr_test_recorded_read(hr_test_recorded *r);

const hr__model_event *hr_test_event_at(const hr__model *model, size_t index);

#endif /* HR_TESTS_RECORDER_FIXTURE_H */
