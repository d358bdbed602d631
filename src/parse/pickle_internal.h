/* pickle_internal.h - the registers of the pickle machine, for the files that move them.
 *
 *   pickle_read.c          runs it: bytes, frames, and the few instructions that files are made of
 *   pickle_instructions.c  knows all instructions, and does those that work on stack and memo
 *   pickle_containers.c    does those that make containers and fill them
 *   pickle_scalars.c       does those that make numbers, strings and bytes */
#ifndef VW_PARSE_PICKLE_INTERNAL_H
#define VW_PARSE_PICKLE_INTERNAL_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#include "parse/byte_source.h"
#include "parse/document.h"

/* ---- instructions ---------------------------------------------------------------------------- */

/* Every instruction of protocols 0 to 5: name, code, and the bytes of argument that always follow.
 * Names and codes are those of Python's pickletools. */
/* clang-format off */
#define VW__UNPICKLE_OPCODES(X)                                                                      \
    X(MARK,             '(',  0) X(STOP,             '.',  0)                                      \
    X(POP,              '0',  0) X(POP_MARK,         '1',  0)                                      \
    X(DUP,              '2',  0) X(FLOAT,            'F',  0)                                      \
    X(INT,              'I',  0) X(BININT,           'J',  4)                                      \
    X(BININT1,          'K',  1) X(LONG,             'L',  0)                                      \
    X(BININT2,          'M',  2) X(NONE,             'N',  0)                                      \
    X(PERSID,           'P',  0) X(BINPERSID,        'Q',  0)                                      \
    X(REDUCE,           'R',  0) X(STRING,           'S',  0)                                      \
    X(BINSTRING,        'T',  4) X(SHORT_BINSTRING,  'U',  1)                                      \
    X(UNICODE,          'V',  0) X(BINUNICODE,       'X',  4)                                      \
    X(APPEND,           'a',  0) X(BUILD,            'b',  0)                                      \
    X(GLOBAL,           'c',  0) X(DICT,             'd',  0)                                      \
    X(EMPTY_DICT,       '}',  0) X(APPENDS,          'e',  0)                                      \
    X(GET,              'g',  0) X(BINGET,           'h',  1)                                      \
    X(INST,             'i',  0) X(LONG_BINGET,      'j',  4)                                      \
    X(LIST,             'l',  0) X(EMPTY_LIST,       ']',  0)                                      \
    X(OBJ,              'o',  0) X(PUT,              'p',  0)                                      \
    X(BINPUT,           'q',  1) X(LONG_BINPUT,      'r',  4)                                      \
    X(SETITEM,          's',  0) X(TUPLE,            't',  0)                                      \
    X(EMPTY_TUPLE,      ')',  0) X(SETITEMS,         'u',  0)                                      \
    X(BINFLOAT,         'G',  8) X(PROTO,            0x80, 1)                                      \
    X(NEWOBJ,           0x81, 0) X(EXT1,             0x82, 1)                                      \
    X(EXT2,             0x83, 2) X(EXT4,             0x84, 4)                                      \
    X(TUPLE1,           0x85, 0) X(TUPLE2,           0x86, 0)                                      \
    X(TUPLE3,           0x87, 0) X(NEWTRUE,          0x88, 0)                                      \
    X(NEWFALSE,         0x89, 0) X(LONG1,            0x8a, 1)                                      \
    X(LONG4,            0x8b, 4) X(BINBYTES,         'B',  4)                                      \
    X(SHORT_BINBYTES,   'C',  1) X(SHORT_BINUNICODE, 0x8c, 1)                                      \
    X(BINUNICODE8,      0x8d, 8) X(BINBYTES8,        0x8e, 8)                                      \
    X(EMPTY_SET,        0x8f, 0) X(ADDITEMS,         0x90, 0)                                      \
    X(FROZENSET,        0x91, 0) X(NEWOBJ_EX,        0x92, 0)                                      \
    X(STACK_GLOBAL,     0x93, 0) X(MEMOIZE,          0x94, 0)                                      \
    X(FRAME,            0x95, 8) X(BYTEARRAY8,       0x96, 8)                                      \
    X(NEXT_BUFFER,      0x97, 0) X(READONLY_BUFFER,  0x98, 0)
/* clang-format on */

enum {
#define VW__UNPICKLE_CODE(name, code, argument_bytes) VW__UNPICKLE_##name = (code),
    VW__UNPICKLE_OPCODES(VW__UNPICKLE_CODE)
#undef VW__UNPICKLE_CODE
};

/* ---- values of the machine's own ------------------------------------------------------------- */

enum { VW__UNPICKLE_LOOKAHEAD_BYTES = 16 }; /* the longest instruction of a fixed length has 9 */

#define VW__UNPICKLE_NO_FRAME UINT64_MAX
#define VW__UNPICKLE_NOTHING UINT64_MAX /* no value is that: a memo place not stored yet */

/* A value of the memo below this one is what it is. Others are nothing, a promise, or a container
 * that may have been folded since. */
#define VW__UNPICKLE_FIRST_UNSETTLED VW__VALUE_FIRST_CONTAINER

/* ---- containers that are not there yet ---------------------------------------------------------
 *
 * Writers make a container with EMPTY_DICT or EMPTY_LIST, MEMOIZE, MARK, and fill it with the next
 * SETITEMS or APPENDS; most are folded right then, and nobody had looked at them before. So these
 * three instructions make a *promise* of a container, a value that only this machine
 * knows. It lies in two places, which it names itself: on the stack, right below the mark, and in
 * the memo. Nothing can reach it there but taking the mark away, GET, and storing over the memo
 * place; each of those first keeps the promise (vw__unpickle_keep), unless the listener takes what
 * was to go into the container and makes it unnecessary. */

enum { VW__UNPICKLE_LIST_PROMISE = 0x40, VW__UNPICKLE_DICT_PROMISE = 0x41 }; /* kinds of values */

#define VW__UNPICKLE_PROMISE_PLACES ((size_t)1 << 24) /* of the stack: no promises above them */

static inline vw__value vw__unpickle_promise(bool is_dict, size_t stack_place, uint32_t memo_place)
{
    uint64_t kind = is_dict ? VW__UNPICKLE_DICT_PROMISE : VW__UNPICKLE_LIST_PROMISE;
    return kind << VW__VALUE_KIND_SHIFT | (uint64_t)stack_place << 32 | memo_place;
}

static inline bool vw__unpickle_is_promise(vw__value value)
{
    return value >> VW__VALUE_KIND_SHIFT == VW__UNPICKLE_LIST_PROMISE ||
           value >> VW__VALUE_KIND_SHIFT == VW__UNPICKLE_DICT_PROMISE;
}

static inline size_t vw__unpickle_promise_stack_place(vw__value promise)
{
    return (size_t)(promise >> 32) & (VW__UNPICKLE_PROMISE_PLACES - 1);
}

static inline size_t vw__unpickle_promise_memo_place(vw__value promise)
{
    return (uint32_t)promise;
}

/* ---- the machine ----------------------------------------------------------------------------- */

extern const uint8_t vw__unpickle_argument_bytes[256];
extern const char *const vw__unpickle_names[256]; /* NULL: no instruction */

/* stack <= fence <= top <= stack_end: values below the fence are behind the last MARK.
 *
 * Before an instruction runs, it is there with its fixed argument, and top < stack_end. Where
 * next < stop, as many bytes as VW__UNPICKLE_LOOKAHEAD_BYTES are there. */
typedef struct vw__unpickle_machine {
    vw__byte_source *source;
    vw__document *document;

    const uint8_t *window;
    const uint8_t *next; /* the instruction at hand */
    const uint8_t *end;  /* of the window, or of the frame inside it */
    const uint8_t *stop; /* instructions that begin before it need no look at bytes or stack */
    uint64_t window_offset;
    uint64_t frame_end; /* as an offset, or VW__UNPICKLE_NO_FRAME */

    vw__value *stack;
    vw__value *fence;
    vw__value *top; /* one past the topmost value */
    vw__value *stack_end;
    size_t *marks; /* the place of each fence but the lowest */
    size_t mark_count;
    size_t mark_capacity;

    vw__value *memo;
    size_t memo_capacity;
    size_t memo_end;   /* behind the last place stored; those before it may hold NOTHING */
    size_t memo_count; /* of places stored; where MEMOIZE stores next */
    bool has_stopped;
} vw__unpickle_machine;

/* Bytes from the instruction at hand to the end of the window or frame. */
static inline size_t vw__unpickle_at_hand(const vw__unpickle_machine *machine)
{
    return (size_t)(machine->end - machine->next);
}

/* Where the instruction at hand lies, counted from the beginning of the pickle. */
static inline uint64_t vw__unpickle_place(const vw__unpickle_machine *machine)
{
    return machine->window_offset + (uint64_t)(machine->next - machine->window);
}

#define vw__unpickle_fail(machine, format, ...)                                                    \
    vw__fail(VW_ERR_CORRUPT_FILE, "byte %" PRIu64 " of the pickle, %s: " format,                   \
             vw__unpickle_place(machine), vw__unpickle_names[*(machine)->next], __VA_ARGS__)

/* Adds the place to what the document, or its listener, said. */
VW_MUST_CHECK vw_status vw__unpickle_say_where(const vw__unpickle_machine *machine,
                                               vw_status status);

#define VW__UNPICKLE_TRY(machine, expression)                                                      \
    do {                                                                                           \
        vw_status vw__try_status = (expression);                                                   \
        if (__builtin_expect(vw__try_status != VW_OK, 0))                                          \
            return vw__unpickle_say_where(machine, vw__try_status);                                \
    } while (0)

/* `width` bytes, the least significant first. */
static inline uint64_t vw__unpickle_read_le(const uint8_t *bytes, unsigned width)
{
    uint64_t number = 0;
    for (unsigned i = 0; i < width; i++)
        number |= (uint64_t)bytes[i] << 8 * i;
    return number;
}

static inline void vw__unpickle_push(vw__unpickle_machine *machine, vw__value value)
{
    *machine->top++ = value;
}

/* Makes a new window that begins at the instruction at hand, with `wanted_bytes` or what is left.
 */
VW_MUST_CHECK vw_status vw__unpickle_look_further(vw__unpickle_machine *machine,
                                                  size_t wanted_bytes);

/* Brings the whole instruction at hand, `size_bytes` of it, into the window. Pointers into it are
 * invalid after. */
VW_MUST_CHECK vw_status vw__unpickle_need(vw__unpickle_machine *machine, uint64_t size_bytes);

/* Are there `count` values above the last mark? */
VW_MUST_CHECK vw_status vw__unpickle_need_values(const vw__unpickle_machine *machine, size_t count);

/* Takes the last mark away; `*first` is the lowest value above it. */
VW_MUST_CHECK vw_status vw__unpickle_pop_mark(vw__unpickle_machine *machine, vw__value **first);

/* If `*place`, on the stack or in the memo, holds a promise: makes the container. */
VW_MUST_CHECK vw_status vw__unpickle_keep(vw__unpickle_machine *machine, const vw__value *place);

/* The text behind the instruction, up to a newline, which is not counted. */
VW_MUST_CHECK vw_status vw__unpickle_take_line(vw__unpickle_machine *machine, const char **line,
                                               size_t *size_bytes);

/* Moves behind the instruction and that text. */
static inline void vw__unpickle_skip_line(vw__unpickle_machine *machine, size_t line_bytes)
{
    machine->next += line_bytes + 2;
}

VW_MUST_CHECK vw_status vw__unpickle_refuse_line(const vw__unpickle_machine *machine,
                                                 const char *line, size_t size_bytes,
                                                 const char *expected);

/* Bytes of the file for a message, cut and zero-terminated: nothing that a terminal would obey. */
void vw__unpickle_quote(const void *bytes, size_t size_bytes, char *text, size_t text_bytes);

typedef struct vw__unpickle_number {
    bool is_negative;
    bool is_huge; /* more than 64 bits; no magnitude then */
    uint64_t magnitude;
} vw__unpickle_number;

/* Reads decimal digits, perhaps with a sign. */
bool vw__unpickle_parse_integer(const char *line, size_t size_bytes, vw__unpickle_number *out);

/* Does the instruction at hand if it makes a number, a string or bytes, and moves behind it.
 * Otherwise `*is_known` becomes false, and nothing else happens. */
VW_MUST_CHECK vw_status vw__unpickle_step_scalar(vw__unpickle_machine *machine, bool *is_known);

/* The same for one that makes or fills a container. */
VW_MUST_CHECK vw_status vw__unpickle_step_container(vw__unpickle_machine *machine, bool *is_known);

/* SETITEMS and APPENDS, of which files are full; they move behind themselves. */
VW_MUST_CHECK vw_status vw__unpickle_step_set_items(vw__unpickle_machine *machine);
VW_MUST_CHECK vw_status vw__unpickle_step_append_items(vw__unpickle_machine *machine);

/* Does the instruction at hand, whichever it is, and moves behind it. */
VW_MUST_CHECK vw_status vw__unpickle_step(vw__unpickle_machine *machine);

#endif /* VW_PARSE_PICKLE_INTERNAL_H */
