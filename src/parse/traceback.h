/* traceback.h - the lines of Python that led to an error, read from its traceback.
 *
 * The forms are those of Python itself (with or without the line of source, with the marks of 3.11
 * and the colours of 3.13), of IPython and notebooks, and of rich. Each line may carry the prefix
 * of a launcher; ranks that print at the same time are kept apart by it.
 *
 * A traceback is read from its outermost frame inwards, and may have hundreds of frames. Two of
 * them are kept: the innermost, and the innermost of the user's own. Which those are, and what a
 * frame means, a *judge* says, which the caller brings: this file knows texts, not programs. */
#ifndef VW_PARSE_TRACEBACK_H
#define VW_PARSE_TRACEBACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    VW__TRACEBACK_FILE_BYTES = 256,
    VW__TRACEBACK_FUNCTION_BYTES = 80,
    VW__TRACEBACK_CODE_BYTES = 160,
    VW__TRACEBACK_SLOTS = 8 /* ranks that print at the same time */
};

/* Texts are UTF-8. A path that is too long loses its beginning, a line of code its end. */
typedef struct vw__traceback_frame {
    char file[VW__TRACEBACK_FILE_BYTES];         /* "" = no frame */
    char function[VW__TRACEBACK_FUNCTION_BYTES]; /* "" = not said */
    char code[VW__TRACEBACK_CODE_BYTES];         /* first line of the statement; "" = not said */
    uint32_t line;                               /* 0 = not said */
} vw__traceback_frame;

typedef struct vw__traceback_opinion {
    bool is_users;
    uint8_t mark;   /* what the frame means, below 32; 0 = nothing */
    uint32_t marks; /* a bit (1 << mark) for it, and for what it means besides */
} vw__traceback_opinion;

typedef vw__traceback_opinion (*vw__traceback_judge)(const vw__traceback_frame *frame);

typedef struct vw__traceback {
    uint32_t frame_count; /* 0 = no traceback */
    vw__traceback_frame innermost;
    vw__traceback_frame users; /* the innermost of the user's; file "" = none is */
    uint8_t mark;              /* of the innermost frame that has one; 0 = none has */
    uint32_t marks;            /* a bit (1 << mark) for each mark of any frame */
} vw__traceback;

/* A traceback that is being read. */
typedef struct vw__traceback_slot {
    vw__traceback read;
    int rank;     /* -1 = lines without one */
    uint64_t end; /* byte of the text behind the last frame, or the header */
} vw__traceback_slot;

/* Ready when all zero, but for the judge. */
typedef struct vw__traceback_scan {
    vw__traceback_judge judge; /* NULL: nothing is read */
    vw__traceback_slot slots[VW__TRACEBACK_SLOTS];
    size_t slot_count;
    bool is_open;      /* frames may follow */
    uint64_t last_end; /* of the last frame of all ranks */
} vw__traceback_scan;

/* A piece of the text in memory: bytes 0 to size_bytes of `text`, which is byte `base` of the whole
 * text. */
typedef struct vw__traceback_piece {
    const char *text;
    size_t size_bytes;
    uint64_t base;
} vw__traceback_piece;

/* Byte `at` has "Traceback (most recent call last)": a traceback begins. */
void vw__traceback_begin(vw__traceback_scan *scan, vw__traceback_piece piece, size_t at);

/* Reads the frames that begin in first .. end, if a traceback is open. May look at bytes before and
 * behind that. */
void vw__traceback_read(vw__traceback_scan *scan, vw__traceback_piece piece, size_t first,
                        size_t end);

/* The traceback that ends before the message at byte `at`, printed by `rank`; NULL where there is
 * none. What was pasted without a header is found too, as far as the piece reaches back to `first`.
 * All tracebacks are closed: what follows belongs to another error. */
const vw__traceback *vw__traceback_before(vw__traceback_scan *scan, vw__traceback_piece piece,
                                          size_t first, size_t at, int rank);

/* The open traceback with frames, whatever its rank; NULL where there is none. */
const vw__traceback *vw__traceback_open(const vw__traceback_scan *scan);

#endif /* VW_PARSE_TRACEBACK_H */
