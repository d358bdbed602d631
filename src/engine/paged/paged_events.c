/* paged_events.c - marks in streams.
 *
 * A move takes a handle from where it was used last. It needs no wait: on the same stream the work
 * that used it comes first anyway, and another stream is made to wait for a mark. But the old
 * mapping may go only when the device has passed the mark. One mark serves a whole call of the
 * allocator and stream. */
#include "engine/paged/paged_engine.h"

#include "base/error.h"
#include "base/host_memory.h"

static hr_status take_mark(hr__paged_engine *engine, hr__mark **out)
{
    hr__mark *mark = engine->spare_marks;
    if (mark != NULL) {
        engine->spare_marks = mark->next;
        *out = mark;
        return HR_OK;
    }
    mark = hr__host_alloc_zeroed(1, sizeof *mark);
    if (mark == NULL)
        return hr__fail_host_memory(sizeof *mark, "a mark in a stream");
    hr_status status =
        hr__paged_device(engine)->event_create(hr__paged_context(engine), &mark->event);
    if (status != HR_OK) {
        hr__host_free(mark);
        return status;
    }
    *out = mark;
    return HR_OK;
}

/* The mark of this call in that stream, made if there is none yet. The caller counts as a user. */
hr_status hr__paged_mark_stream(hr__paged_engine *engine, hr_stream stream, hr__mark **out)
{
    for (hr__mark *mark = engine->marks; mark != NULL && mark->call == engine->call;
         mark = mark->next) {
        if (mark->stream == stream) {
            mark->users++;
            *out = mark;
            return HR_OK;
        }
    }
    hr__mark *mark = NULL;
    HR__TRY(take_mark(engine, &mark));
    hr_status status =
        hr__paged_device(engine)->event_record(hr__paged_context(engine), mark->event, stream);
    if (status != HR_OK) {
        mark->next = engine->spare_marks;
        engine->spare_marks = mark;
        return status;
    }
    mark->stream = stream;
    mark->call = engine->call;
    mark->users = 1;
    mark->is_complete = false;
    mark->next = engine->marks;
    engine->marks = mark;
    *out = mark;
    return HR_OK;
}

void hr__paged_leave_mark(hr__paged_engine *engine, hr__mark *mark)
{
    if (--mark->users != 0)
        return;
    hr__mark **link = &engine->marks;
    while (*link != mark)
        link = &(*link)->next;
    *link = mark->next;
    mark->next = engine->spare_marks;
    engine->spare_marks = mark;
}

hr_status hr__paged_mark_is_complete(hr__paged_engine *engine, hr__mark *mark, bool *out)
{
    if (!mark->is_complete) {
        hr_status status =
            hr__paged_device(engine)->event_query(hr__paged_context(engine), mark->event);
        if (status != HR_OK && status != HR_ERR_NOT_READY)
            return status;
        mark->is_complete = status == HR_OK;
    }
    *out = mark->is_complete;
    return HR_OK;
}

static void end_list(hr__paged_engine *engine, hr__mark *mark)
{
    for (hr__mark *next; mark != NULL; mark = next) {
        next = mark->next;
        (void)hr__paged_device(engine)->event_destroy(hr__paged_context(engine), mark->event);
        hr__host_free(mark);
    }
}

void hr__paged_end_marks(hr__paged_engine *engine)
{
    end_list(engine, engine->marks);
    end_list(engine, engine->spare_marks);
    engine->marks = engine->spare_marks = NULL;
}
