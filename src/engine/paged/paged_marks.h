/* paged_marks.h - marks in streams: see paged_marks.c. */
#ifndef VW_ENGINE_PAGED_PAGED_MARKS_H
#define VW_ENGINE_PAGED_PAGED_MARKS_H

#include "engine/paged/paged_engine.h"

/* The mark of this call in that stream, made if there is none yet. The caller counts as a user. */
vw_status vw__paged_mark_stream(vw__paged_engine *engine, vw_stream stream, vw__paged_mark **out);
void vw__paged_leave_mark(vw__paged_engine *engine, vw__paged_mark *mark);
vw_status vw__paged_mark_is_complete(vw__paged_engine *engine, vw__paged_mark *mark, bool *out);
void vw__paged_end_marks(vw__paged_engine *engine);

#endif /* VW_ENGINE_PAGED_PAGED_MARKS_H */
