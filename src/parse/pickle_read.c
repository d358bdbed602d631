/* pickle_read.c - the stack machine, without the instructions that run code.
 *
 * A snapshot is tens of millions of instructions of three bytes each, nine of ten of them from a
 * handful: fetch from the memo, small numbers, begin and fill a dict. So run() keeps the machine's
 * registers in local variables and knows that handful; the other files do the rest, with the
 * registers stored back.
 *
 * Bytes are looked at in the source's window. At the top of the loop there is one check: whether
 * LOOKAHEAD_BYTES and a free place on the stack are there. If so, no instruction needs to check for
 * its fixed argument; if not, prepare() gets more. Where there is no more (a frame ends), single
 * instructions are done the long way, and the error says exactly what is missing.
 *
 * Frames (protocol 4 and later) cut the pickle into pieces for buffering. An instruction that
 * reaches over the end of its frame is an error, and so is a frame inside another; Python's readers
 * look a little less closely, but no writer makes such a file. The length of a frame is not
 * otherwise believed: nothing is reserved for it, and one that claims more than the file has is
 * noticed only if the file ends before STOP.
 *
 * The memo is an array. Writers count its places up from 0, so a place far beyond what was stored
 * so far is refused instead of making room for it. */
#include "parse/pickle_read.h"

#include <limits.h>

#include "base/checked_math.h" /* vw__min_u64 */

#include "parse/pickle_internal.h"

enum {
    LOOKAHEAD_BYTES = VW__UNPICKLE_LOOKAHEAD_BYTES,
    FIRST_STACK_CAPACITY = 8192,
    LEAST_STACK_ROOM = 1024,
};

/* ---- bytes ----------------------------------------------------------------------------------- */

vw_status vw__unpickle_look_further(vw__unpickle_machine *machine, size_t wanted_bytes)
{
    size_t window_bytes = 0;
    vw__byte_source_take(machine->source, (size_t)(machine->next - machine->window));
    machine->window_offset += (uint64_t)(machine->next - machine->window);
    machine->window = machine->next;
    VW__TRY(vw__byte_source_peek(machine->source, wanted_bytes, &machine->window, &window_bytes));
    machine->next = machine->window;
    machine->stop = machine->window;
    machine->end = machine->window +
                   (size_t)vw__min_u64(window_bytes, machine->frame_end - machine->window_offset);
    return VW_OK;
}

vw_status vw__unpickle_need(vw__unpickle_machine *machine, uint64_t size_bytes)
{
    if (size_bytes <= vw__unpickle_at_hand(machine))
        return VW_OK;
    if (machine->frame_end != VW__UNPICKLE_NO_FRAME &&
        size_bytes > machine->frame_end - vw__unpickle_place(machine))
        return vw__unpickle_fail(machine,
                                 "pickle exhausted before end of frame: %" PRIu64
                                 " bytes expected, "
                                 "the frame has %" PRIu64 " more",
                                 size_bytes, machine->frame_end - vw__unpickle_place(machine));
    if (size_bytes > VW__BYTE_SOURCE_LARGEST_PEEK_BYTES)
        return vw__unpickle_fail(machine, "%" PRIu64 " bytes in one piece, the most is %zu",
                                 size_bytes, VW__BYTE_SOURCE_LARGEST_PEEK_BYTES);
    VW__TRY(vw__unpickle_look_further(machine, (size_t)size_bytes));
    if (size_bytes <= vw__unpickle_at_hand(machine))
        return VW_OK;
    return vw__unpickle_fail(machine,
                             "cut short: %" PRIu64 " bytes expected, the file has %zu more",
                             size_bytes, vw__unpickle_at_hand(machine));
}

static vw_status grow_stack(vw__unpickle_machine *machine)
{
    size_t capacity = (size_t)(machine->stack_end - machine->stack);
    size_t count = (size_t)(machine->top - machine->stack),
           fence = (size_t)(machine->fence - machine->stack);
    size_t grown = capacity != 0 ? capacity * 2 : FIRST_STACK_CAPACITY;
    void *memory = NULL;
    VW__TRY(vw__document_resize_memory(machine->document, machine->stack,
                                       capacity * sizeof(vw__value), grown * sizeof(vw__value),
                                       "the stack", &memory));
    machine->stack = memory;
    machine->top = machine->stack + count;
    machine->fence = machine->stack + fence;
    machine->stack_end = machine->stack + grown;
    return VW_OK;
}

/* Makes sure of the next instruction, its fixed argument, and a place on the stack, and of as many
 * more as can be had at once: each takes a byte at least, and a place at most. */
static vw_status prepare(vw__unpickle_machine *machine)
{
    if (machine->stack_end - machine->top < LEAST_STACK_ROOM)
        VW__TRY(grow_stack(machine));
    if (vw__unpickle_at_hand(machine) < LOOKAHEAD_BYTES) {
        if (vw__unpickle_place(machine) == machine->frame_end)
            machine->frame_end = VW__UNPICKLE_NO_FRAME;
        if (machine->frame_end == VW__UNPICKLE_NO_FRAME ||
            vw__unpickle_at_hand(machine) < machine->frame_end - vw__unpickle_place(machine))
            VW__TRY(vw__unpickle_look_further(machine, LOOKAHEAD_BYTES));
    }
    size_t at_hand = vw__unpickle_at_hand(machine);
    if (at_hand >= LOOKAHEAD_BYTES) {
        size_t room = (size_t)(machine->stack_end - machine->top);
        machine->stop = machine->next + vw__min_u64(at_hand - LOOKAHEAD_BYTES + 1, room);
        return VW_OK;
    }
    if (at_hand == 0)
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "cut short: byte %" PRIu64
                        " of the pickle is the end of the file, expected an instruction",
                        vw__unpickle_place(machine));
    machine->stop = machine->next;
    return vw__unpickle_need(machine, 1u + vw__unpickle_argument_bytes[*machine->next]);
}

/* ---- running --------------------------------------------------------------------------------- */

static uint32_t read_u32_le(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

static uint64_t read_u64_le(const uint8_t *bytes)
{
    return (uint64_t)read_u32_le(bytes) | (uint64_t)read_u32_le(bytes + 4) << 32;
}

static vw__value small_integer(int64_t number)
{
    return vw__value_make(VW__VALUE_INTEGER, (uint64_t)number & (VW__VALUE_INTEGER_IS_STORED - 1));
}

static inline bool fetch(const vw__value *memo, size_t memo_end, size_t place, vw__value *to)
{
    if (place >= memo_end || memo[place] >= VW__UNPICKLE_FIRST_UNSETTLED)
        return false;
    *to = memo[place];
    return true;
}

/* Each instruction here does what vw__unpickle_step() would do, or leaves it to that.
 *
 * memo_end can grow up to memo_limit without a look at anything else: 0 where places were left out,
 * for then MEMOIZE does not store at the end. */
static vw_status run(vw__unpickle_machine *machine)
{
    const uint8_t *next = machine->next, *stop = machine->next;
    vw__value *top = machine->top, *memo = machine->memo;
    size_t memo_end = machine->memo_end, memo_limit = 0;
    uint64_t last_text = 0; /* a string of up to eight bytes, and its value */
    vw__value last_text_value = vw__value_none();
    unsigned last_text_bytes = UINT_MAX;
    for (;;) {
        if (__builtin_expect(next >= stop, 0)) {
            machine->next = next;
            machine->top = top;
            VW__TRY(prepare(machine));
            next = machine->next;
            stop = machine->stop;
            top = machine->top;
            if (next >= stop)
                goto step;
        }
        /* Three of five are these two; the switch would ask for others first. */
        if (*next == VW__UNPICKLE_LONG_BINGET) {
            if (!fetch(memo, memo_end, read_u32_le(next + 1), top))
                goto step;
            top++;
            next += 5;
            continue;
        }
        if (*next == VW__UNPICKLE_BINGET) {
            if (!fetch(memo, memo_end, next[1], top))
                goto step;
            top++;
            next += 2;
            continue;
        }
        switch (*next) {
        case VW__UNPICKLE_MEMOIZE:
            if (memo_end >= memo_limit || top == machine->fence)
                break;
            memo[memo_end++] = top[-1];
            next += 1;
            continue;
        case VW__UNPICKLE_LONG1: {
            unsigned size_bytes = next[1];
            if (size_bytes - 1 >= 8)
                break;
            unsigned spare_bits = 64 - 8 * size_bytes;
            int64_t number = (int64_t)(read_u64_le(next + 2) << spare_bits) >> spare_bits;
            if (number < -VW__VALUE_INTEGER_INLINE_LIMIT ||
                number >= VW__VALUE_INTEGER_INLINE_LIMIT)
                break;
            *top++ = small_integer(number);
            next += 2 + size_bytes;
            continue;
        }
        case VW__UNPICKLE_BININT1:
            *top++ = small_integer(next[1]);
            next += 2;
            continue;
        case VW__UNPICKLE_BININT2:
            *top++ = small_integer(next[1] | next[2] << 8);
            next += 3;
            continue;
        case VW__UNPICKLE_BININT:
            *top++ = small_integer((int32_t)read_u32_le(next + 1));
            next += 5;
            continue;
        case VW__UNPICKLE_SHORT_BINUNICODE: {
            /* "N/A" once with every event: nearly always the one we had last. */
            unsigned size_bytes = next[1];
            if (size_bytes - 1 >= 8)
                break;
            uint64_t text = read_u64_le(next + 2) << (64 - 8 * size_bytes);
            if (text != last_text || size_bytes != last_text_bytes) {
                machine->next = next;
                VW__UNPICKLE_TRY(machine, vw__document_string(machine->document, next + 2,
                                                              size_bytes, &last_text_value));
                last_text = text;
                last_text_bytes = size_bytes;
            }
            *top++ = last_text_value;
            next += 2 + size_bytes;
            continue;
        }
        case VW__UNPICKLE_EMPTY_DICT:
        case VW__UNPICKLE_EMPTY_LIST: {
            size_t place = (size_t)(top - machine->stack);
            if (next[1] != VW__UNPICKLE_MEMOIZE || next[2] != VW__UNPICKLE_MARK ||
                memo_end >= memo_limit || place >= VW__UNPICKLE_PROMISE_PLACES ||
                machine->mark_count == machine->mark_capacity)
                break;
            vw__value promise =
                vw__unpickle_promise(*next == VW__UNPICKLE_EMPTY_DICT, place, (uint32_t)memo_end);
            *top++ = promise;
            memo[memo_end++] = promise;
            machine->marks[machine->mark_count++] = place + 1;
            machine->fence = top;
            next += 3;
            continue;
        }
        case VW__UNPICKLE_MARK:
            if (machine->mark_count == machine->mark_capacity)
                break;
            machine->marks[machine->mark_count++] = (size_t)(top - machine->stack);
            machine->fence = top;
            next += 1;
            continue;
        default:
            break;
        }
    step:
        machine->next = next;
        machine->top = top;
        machine->memo_count += memo_end - machine->memo_end;
        machine->memo_end = memo_end;
        if (*next == VW__UNPICKLE_SETITEMS)
            VW__TRY(vw__unpickle_step_set_items(machine));
        else if (*next == VW__UNPICKLE_APPENDS)
            VW__TRY(vw__unpickle_step_append_items(machine));
        else
            VW__TRY(vw__unpickle_step(machine));
        if (machine->has_stopped)
            return VW_OK;
        next = machine->next;
        stop = machine->stop;
        top = machine->top;
        memo = machine->memo;
        memo_end = machine->memo_end;
        memo_limit = memo_end == machine->memo_count ? machine->memo_capacity : 0;
    }
}

vw_status vw__unpickle_read(vw__byte_source *source, vw__document *document, vw__value *root)
{
    vw__unpickle_machine machine = {
        .source = source, .document = document, .frame_end = VW__UNPICKLE_NO_FRAME};
    size_t window_bytes = 0;
    VW__TRY(vw__byte_source_peek(source, LOOKAHEAD_BYTES, &machine.window, &window_bytes));
    machine.next = machine.window;
    machine.end = machine.window + window_bytes;
    vw_status status = run(&machine);
    if (status == VW_OK) {
        vw__byte_source_take(source, (size_t)(machine.next - machine.window));
        status = vw__document_close(document, machine.top[-1], root);
    }
    vw__document_free_memory(document, machine.stack,
                             (size_t)(machine.stack_end - machine.stack) * sizeof(vw__value));
    vw__document_free_memory(document, machine.marks, machine.mark_capacity * sizeof(size_t));
    vw__document_free_memory(document, machine.memo, machine.memo_capacity * sizeof(vw__value));
    return status;
}
