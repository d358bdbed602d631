/* view_marks.h - what happened at single instants of one device's trace. */
#ifndef HR_VIEW_VIEW_MARKS_H
#define HR_VIEW_VIEW_MARKS_H

#include <stddef.h>
#include <stdint.h>

#include "headroom/status.h"
#include "export/json_write.h"
#include "model/memory_model.h"

/* What matters most first: where there are too many marks, the last kinds go. */
#define HR__VIEW_MARK_LIST(X)                                                                      \
    X(OOM, "oom")                 /* a request failed: its bytes, and what the device had free */  \
    X(RETRY, "retry")             /* memory was given back inside a request */                     \
    X(EMPTY_CACHE, "empty-cache") /* given back outside of every request */                        \
    X(SNAPSHOT, "snapshot")       /* somebody looked */                                            \
    X(USER, "user")               /* a text that the program left */                               \
    X(ANNOTATION, "annotation")   /* a named span of the program begins */

typedef enum hr__view_mark_kind {
#define HR__VIEW_MARK_ENUM(upper, text) HR__VIEW_MARK_##upper,
    HR__VIEW_MARK_LIST(HR__VIEW_MARK_ENUM)
#undef HR__VIEW_MARK_ENUM
        HR__VIEW_MARK_KINDS
} hr__view_mark_kind;

enum { HR__VIEW_MOST_MARKS = 4096 };

typedef struct hr__view_mark {
    uint32_t instant;
    uint32_t text;       /* strings, of USER and ANNOTATION */
    uint64_t bytes;      /* HR__UNKNOWN_BYTES where it has none */
    uint64_t free_bytes; /* of OOM */
    uint32_t count;      /* of RETRY and EMPTY_CACHE: segments or ranges */
    uint8_t kind;        /* hr__view_mark_kind */
} hr__view_mark;

typedef struct hr__view_marks {
    const hr__model *model; /* borrowed */
    hr__view_mark *marks;   /* owned; by instant; at most HR__VIEW_MOST_MARKS */
    size_t count;
    uint64_t all_count; /* that there are */
    size_t capacity;
    size_t kept[HR__VIEW_MARK_KINDS]; /* while they are gathered */
} hr__view_marks;

HR_MUST_CHECK hr_status hr__view_marks_find(const hr__model *model, const hr__model_trace *trace,
                                            hr__view_marks *out);
void hr__view_marks_deinit(hr__view_marks *marks);

/* "marks": [...], "mark_count": n */
void hr__view_marks_json(const hr__view_marks *marks, hr__json *json);

#endif /* HR_VIEW_VIEW_MARKS_H */
