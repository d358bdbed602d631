/* hand_made_recording.h - recordings written in a test, event by event, as a reader makes them.
 * Event i is at i milliseconds; everything is on device 0 and the default stream. */
#ifndef VW_TESTS_HAND_MADE_RECORDING_H
#define VW_TESTS_HAND_MADE_RECORDING_H

#include <string.h>

#include "analysis/recording.h"
#include "model/model_build.h"

#include "support/cmocka_here.h"

typedef struct hand_made_recording {
    vw__model_builder *builder;
    size_t event_count;
    vw_recording recording;
} hand_made_recording;

static inline void record_begin(hand_made_recording *hand)
{
    memset(hand, 0, sizeof *hand);
    assert_int_equal(vw__model_builder_create(SIZE_MAX / 2, &hand->builder), VW_OK);
    vw__model_builder_settings(hand->builder)->conf = VW__MODEL_NO_STRING;
    vw__model_builder_settings(hand->builder)->max_split_size = -1;
}

static inline void record_event(hand_made_recording *hand, unsigned action, uint64_t address,
                                uint64_t size_bytes)
{
    uint16_t stream = 0;
    size_t index = 0;
    assert_int_equal(vw__model_add_stream(hand->builder, 0, &stream), VW_OK);
    const vw__model_event event = {
        .address = address,
        .size_bytes = size_bytes,
        .time_us = (int64_t)hand->event_count++ * 1000,
        .context = VW__MODEL_NO_CONTEXT,
        .note = VW__MODEL_NO_NOTE,
        .stream = stream,
        .pool = VW__MODEL_UNKNOWN_POOL,
        .action = (uint8_t)action,
    };
    assert_int_equal(vw__model_add_event(hand->builder, &event, &index), VW_OK);
}

/* A request that took a segment of its own, at the same address. */
static inline void record_new(hand_made_recording *hand, uint64_t address, uint64_t segment_bytes,
                              uint64_t size_bytes)
{
    record_event(hand, VW_ACTION_SEGMENT_ALLOC, address, segment_bytes);
    record_event(hand, VW_ACTION_ALLOC, address, size_bytes);
}

static inline void record_free(hand_made_recording *hand, uint64_t address, uint64_t size_bytes)
{
    record_event(hand, VW_ACTION_FREE_REQUESTED, address, size_bytes);
    record_event(hand, VW_ACTION_FREE_COMPLETED, address, size_bytes);
}

/* A training step ends here. */
static inline void record_step_end(hand_made_recording *hand)
{
    static const char name[] = "ProfilerStep#1";
    vw__model_annotation annotation = {.time_us = (int64_t)hand->event_count * 1000 - 500};
    assert_int_equal(vw__model_add_string(hand->builder, name, strlen(name), &annotation.name),
                     VW_OK);
    annotation.is_start = true;
    assert_int_equal(vw__model_add_annotation(hand->builder, &annotation), VW_OK);
    annotation.is_start = false;
    assert_int_equal(vw__model_add_annotation(hand->builder, &annotation), VW_OK);
}

static inline void record_conf(hand_made_recording *hand, const char *conf)
{
    vw__model_settings *settings = vw__model_builder_settings(hand->builder);
    settings->is_known = true;
    assert_int_equal(vw__model_add_string(hand->builder, conf, strlen(conf), &settings->conf),
                     VW_OK);
}

/* Our own recorder made it, in a pool with that engine. */
static inline void record_engine(hand_made_recording *hand, const char *engine)
{
    vw__model_settings *settings = vw__model_builder_settings(hand->builder);
    assert_int_equal(vw__model_add_string(hand->builder, engine, strlen(engine), &settings->engine),
                     VW_OK);
}

static inline const vw_recording *record_end(hand_made_recording *hand)
{
    assert_int_equal(vw__model_add_trace(hand->builder, 0, 0, hand->event_count), VW_OK);
    assert_int_equal(vw__model_finish(hand->builder, &hand->recording.model), VW_OK);
    return &hand->recording;
}

static inline void record_dispose(hand_made_recording *hand)
{
    vw__model_destroy(hand->recording.model);
}

#endif /* VW_TESTS_HAND_MADE_RECORDING_H */
