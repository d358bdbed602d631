/* view_marks.h - what happened at single instants of one device's trace. */
#ifndef VW_VIEW_VIEW_MARKS_H
#define VW_VIEW_VIEW_MARKS_H

#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "export/json_write.h"
#include "model/memory_model.h"

/* What matters most first: where there are too many marks, the last kinds go. */
#define VW__VIEW_MARK_LIST(X)                                                                      \
    X(OOM, "oom")                 /* a request failed: its bytes, and what the device had free */  \
    X(RETRY, "retry")             /* memory was given back inside a request */                     \
    X(EMPTY_CACHE, "empty-cache") /* given back outside of every request */                        \
    X(SNAPSHOT, "snapshot")       /* a snapshot was taken */                                       \
    X(USER, "user")               /* a text that the program left */                               \
    X(ANNOTATION, "annotation")   /* a named span of the program begins */

typedef enum vw__view_mark_kind {
#define VW__VIEW_MARK_ENUM(upper, text) VW__VIEW_MARK_##upper,
    VW__VIEW_MARK_LIST(VW__VIEW_MARK_ENUM)
#undef VW__VIEW_MARK_ENUM
        VW__VIEW_MARK_KINDS
} vw__view_mark_kind;

enum { VW__VIEW_MOST_MARKS = 4096 };

typedef struct vw__view_mark {
    uint32_t instant;
    uint32_t text;       /* strings, of USER and ANNOTATION */
    uint64_t bytes;      /* VW__MODEL_UNKNOWN_BYTES where it has none */
    uint64_t free_bytes; /* of OOM */
    uint32_t count;      /* of RETRY and EMPTY_CACHE: segments or ranges */
    uint8_t kind;        /* vw__view_mark_kind */
} vw__view_mark;

typedef struct vw__view_marks {
    const vw__model *model; /* borrowed */
    vw__view_mark *marks;   /* owned; by instant; at most VW__VIEW_MOST_MARKS */
    size_t count;
    uint64_t all_count; /* that there are */
    size_t capacity;
    size_t kept[VW__VIEW_MARK_KINDS]; /* while they are gathered */
} vw__view_marks;

VW_MUST_CHECK vw_status vw__view_marks_find(const vw__model *model, const vw__model_trace *trace,
                                            vw__view_marks *out);
void vw__view_marks_deinit(vw__view_marks *marks);

/* "marks": [...], "mark_count": n */
void vw__view_marks_json(const vw__view_marks *marks, vw__json *json);

#endif /* VW_VIEW_VIEW_MARKS_H */
