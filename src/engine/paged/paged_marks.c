/* paged_marks.c - marks in streams.
 *
 * A move takes a handle from where it was used last. It needs no wait: on the same stream the work
 * that used it comes first anyway, and another stream is made to wait for a mark. But the old
 * mapping may go only when the device has passed the mark. One mark serves a whole call of the
 * allocator and stream. */
#include "engine/paged/paged_marks.h"

#include "base/error.h"
#include "base/host_memory.h"

static vw_status take_mark(vw__paged_engine *engine, vw__paged_mark **out)
{
    vw__paged_mark *mark = engine->spare_marks;
    if (mark != NULL) {
        engine->spare_marks = mark->next;
        *out = mark;
        return VW_OK;
    }
    mark = vw__host_alloc_zeroed(1, sizeof *mark);
    if (mark == NULL)
        return vw__fail_host_memory(sizeof *mark, "a mark in a stream");
    vw_status status =
        vw__paged_device(engine)->event_create(vw__paged_context(engine), &mark->event);
    if (status != VW_OK) {
        vw__host_free(mark);
        return status;
    }
    *out = mark;
    return VW_OK;
}

vw_status vw__paged_mark_stream(vw__paged_engine *engine, vw_stream stream, vw__paged_mark **out)
{
    for (vw__paged_mark *mark = engine->marks; mark != NULL && mark->call == engine->call;
         mark = mark->next) {
        if (mark->stream == stream) {
            mark->users++;
            *out = mark;
            return VW_OK;
        }
    }
    vw__paged_mark *mark = NULL;
    VW__TRY(take_mark(engine, &mark));
    vw_status status =
        vw__paged_device(engine)->event_record(vw__paged_context(engine), mark->event, stream);
    if (status != VW_OK) {
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
    return VW_OK;
}

void vw__paged_leave_mark(vw__paged_engine *engine, vw__paged_mark *mark)
{
    if (--mark->users != 0)
        return;
    vw__paged_mark **link = &engine->marks;
    while (*link != mark)
        link = &(*link)->next;
    *link = mark->next;
    mark->next = engine->spare_marks;
    engine->spare_marks = mark;
}

vw_status vw__paged_mark_is_complete(vw__paged_engine *engine, vw__paged_mark *mark, bool *out)
{
    if (!mark->is_complete) {
        vw_status status =
            vw__paged_device(engine)->event_query(vw__paged_context(engine), mark->event);
        if (status != VW_OK && status != VW_ERR_NOT_READY)
            return status;
        mark->is_complete = status == VW_OK;
    }
    *out = mark->is_complete;
    return VW_OK;
}

static void end_list(vw__paged_engine *engine, vw__paged_mark *mark)
{
    for (vw__paged_mark *next; mark != NULL; mark = next) {
        next = mark->next;
        (void)vw__paged_device(engine)->event_destroy(vw__paged_context(engine), mark->event);
        vw__host_free(mark);
    }
}

void vw__paged_end_marks(vw__paged_engine *engine)
{
    end_list(engine, engine->marks);
    end_list(engine, engine->spare_marks);
    engine->marks = engine->spare_marks = NULL;
}
