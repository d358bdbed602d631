/* pickle_containers.c - instructions that make containers and fill them, and the way around both.
 *
 * Most dicts of a snapshot are records: made, filled at once, taken by the listener, and never
 * looked at again. Those are never made (pickle_machine.h: a promise): SETITEMS and APPENDS look
 * whether the next instruction leaves the container as it is, and show the listener what lies on
 * the stack. If he does not want it, or if the next instruction might add more, the container is
 * made then, and filled as in Python. */
#include "format/pickle_machine.h"

/* ---- promises -------------------------------------------------------------------------------- */

static void redeem(hr__pickle_machine *machine, hr__value promise, hr__value value)
{
    machine->stack[hr__pickle_promise_stack_place(promise)] = value;
    machine->memo[hr__pickle_promise_memo_place(promise)] = value;
}

/* If `*place`, on the stack or in the memo, holds a promise: makes the container. */
hr_status hr__pickle_keep(hr__pickle_machine *machine, const hr__value *place)
{
    hr__value container = hr__value_none(), promise = *place;
    if (!hr__pickle_is_promise(promise))
        return HR_OK;
    if (promise >> HR__VALUE_KIND_SHIFT == HR__PICKLE_DICT_PROMISE)
        HR__PICKLE_TRY(machine, hr__document_new_dict(machine->document, &container));
    else
        HR__PICKLE_TRY(machine, hr__document_new_list(machine->document, &container));
    redeem(machine, promise, container);
    return HR_OK;
}

/* ---- marks ----------------------------------------------------------------------------------- */

/* Takes the last mark away, and leaves a promise below it as it is; `*first` is the lowest value
 * above it. */
static hr_status take_mark(hr__pickle_machine *machine, hr__value **first)
{
    if (machine->mark_count == 0)
        return hr__pickle_fail(machine, "expected a MARK, found %s", "none");
    *first = machine->stack + machine->marks[--machine->mark_count];
    machine->fence =
        machine->stack + (machine->mark_count != 0 ? machine->marks[machine->mark_count - 1] : 0);
    return HR_OK;
}

hr_status hr__pickle_pop_mark(hr__pickle_machine *machine, hr__value **first)
{
    HR__TRY(take_mark(machine, first));
    return *first != machine->fence ? hr__pickle_keep(machine, *first - 1) : HR_OK;
}

/* The same as take_mark(), for instructions that fill the container below the mark. */
static hr_status take_mark_above(hr__pickle_machine *machine, hr__value_kind kind,
                                 hr__value **first)
{
    HR__TRY(take_mark(machine, first));
    if (*first == machine->fence)
        return hr__pickle_fail(machine, "expected %s below the MARK, found nothing",
                               hr__value_kind_name(kind));
    return HR_OK;
}

static hr_status need_kind(const hr__pickle_machine *machine, hr__value value, hr__value_kind kind)
{
    if (hr__value_get_kind(value) == kind)
        return HR_OK;
    return hr__pickle_fail(machine, "expected %s to fill, found %s", hr__value_kind_name(kind),
                           hr__value_kind_name(hr__value_get_kind(value)));
}

/* ---- containers ------------------------------------------------------------------------------ */

static hr_status step_append(hr__pickle_machine *machine)
{
    HR__TRY(hr__pickle_need_values(machine, 2));
    HR__TRY(need_kind(machine, machine->top[-2], HR__VALUE_LIST));
    HR__PICKLE_TRY(machine,
                   hr__document_append(machine->document, machine->top[-2], machine->top - 1, 1));
    machine->top--;
    return HR_OK;
}

/* APPENDS, and ADDITEMS for sets. */
static hr_status step_fill(hr__pickle_machine *machine, hr__value_kind kind)
{
    hr__value *first = NULL;
    HR__TRY(take_mark_above(machine, kind, &first));
    HR__TRY(hr__pickle_keep(machine, first - 1));
    HR__TRY(need_kind(machine, first[-1], kind));
    HR__PICKLE_TRY(machine, hr__document_append(machine->document, first[-1], first,
                                                (size_t)(machine->top - first)));
    machine->top = first;
    return HR_OK;
}

static hr_status step_set_item(hr__pickle_machine *machine)
{
    HR__TRY(hr__pickle_need_values(machine, 3));
    HR__TRY(need_kind(machine, machine->top[-3], HR__VALUE_DICT));
    HR__PICKLE_TRY(machine,
                   hr__document_set(machine->document, machine->top[-3], machine->top - 2, 1));
    machine->top -= 2;
    return HR_OK;
}

static hr_status set_pairs(hr__pickle_machine *machine, hr__value dict, const hr__value *first)
{
    size_t count = (size_t)(machine->top - first);
    if (count % 2 != 0)
        return hr__pickle_fail(machine, "expected keys with values, found %zu of both", count);
    HR__PICKLE_TRY(machine, hr__document_set(machine->document, dict, first, count / 2));
    return HR_OK;
}

static hr_status step_set_items(hr__pickle_machine *machine)
{
    hr__value *first = NULL;
    HR__TRY(take_mark_above(machine, HR__VALUE_DICT, &first));
    HR__TRY(hr__pickle_keep(machine, first - 1));
    HR__TRY(need_kind(machine, first[-1], HR__VALUE_DICT));
    HR__TRY(set_pairs(machine, first[-1], first));
    machine->top = first;
    return HR_OK;
}

/* The instruction behind the one at hand, a new frame between them or not; STOP where the file
 * ends. */
static hr_status look_behind(hr__pickle_machine *machine, uint8_t *opcode)
{
    enum { WITH_A_FRAME_BYTES = 1 + 9 + 1 };
    const uint8_t *bytes;
    size_t size_bytes;
    if (machine->next < machine->stop && machine->next[1] != HR__OPCODE_FRAME) {
        *opcode = machine->next[1];
        return HR_OK;
    }
    HR__TRY(hr__pickle_look_further(machine, WITH_A_FRAME_BYTES));
    HR__TRY(hr__byte_source_peek(machine->source, WITH_A_FRAME_BYTES, &bytes, &size_bytes));
    size_t place = size_bytes > 1 && bytes[1] == HR__OPCODE_FRAME ? WITH_A_FRAME_BYTES - 1 : 1;
    *opcode = place < size_bytes ? bytes[place] : HR__OPCODE_STOP;
    return HR_OK;
}

/* Is the container on top of the stack as full as it gets, going by the next instruction? It puts
 * the container into another, or, behind a dict, begins a dict, which cannot be a key. (A pickle
 * could take that dict away again and go on filling the first. No writer does, and then filling it
 * is refused.) */
static bool is_complete(uint8_t next_opcode, bool is_dict)
{
    switch (next_opcode) {
    case HR__OPCODE_APPENDS:
    case HR__OPCODE_APPEND:
    case HR__OPCODE_SETITEMS:
    case HR__OPCODE_SETITEM:
        return true;
    case HR__OPCODE_EMPTY_DICT:
        return is_dict;
    default:
        return false;
    }
}

/* Is a promise below the last mark? */
static bool is_promised(const hr__pickle_machine *machine, unsigned kind)
{
    size_t count = machine->mark_count;
    if (count == 0)
        return false;
    size_t place = machine->marks[count - 1];
    return place != (count > 1 ? machine->marks[count - 2] : 0) &&
           machine->stack[place - 1] >> HR__VALUE_KIND_SHIFT == kind;
}

/* The listener has taken it. */
static hr_status end_promise(hr__pickle_machine *machine, hr__value folded)
{
    hr__value *first = NULL;
    HR__TRY(take_mark(machine, &first));
    redeem(machine, first[-1], folded);
    machine->top = first;
    machine->next += 1;
    return HR_OK;
}

hr_status hr__pickle_step_set_items(hr__pickle_machine *machine)
{
    size_t count = (size_t)(machine->top - machine->fence);
    hr__value folded = hr__value_none();
    uint8_t behind;
    HR__TRY(look_behind(machine, &behind));
    bool is_last = is_complete(behind, true);
    if (is_last && is_promised(machine, HR__PICKLE_DICT_PROMISE) && count % 2 == 0) {
        HR__PICKLE_TRY(machine, hr__document_fold_pairs(machine->document, machine->fence,
                                                        count / 2, &folded));
        if (folded != hr__value_none())
            return end_promise(machine, folded);
    }
    HR__TRY(step_set_items(machine));
    if (is_last) /* so that records are folded in the order of the file, whichever way they go */
        HR__PICKLE_TRY(machine,
                       hr__document_close(machine->document, machine->top[-1], &machine->top[-1]));
    machine->next += 1;
    return HR_OK;
}

hr_status hr__pickle_step_append_items(hr__pickle_machine *machine)
{
    size_t count = (size_t)(machine->top - machine->fence);
    hr__value folded = hr__value_none();
    uint8_t behind;
    HR__TRY(look_behind(machine, &behind));
    if (is_complete(behind, false) && is_promised(machine, HR__PICKLE_LIST_PROMISE)) {
        HR__PICKLE_TRY(machine,
                       hr__document_fold_items(machine->document, machine->fence, count, &folded));
        if (folded != hr__value_none())
            return end_promise(machine, folded);
    }
    HR__TRY(step_fill(machine, HR__VALUE_LIST));
    machine->next += 1;
    return HR_OK;
}

/* LIST, DICT, TUPLE, FROZENSET: what lies above the mark becomes one container. */
static hr_status step_collect(hr__pickle_machine *machine, hr__value_kind kind)
{
    hr__value *first = NULL, container = hr__value_none();
    HR__TRY(hr__pickle_pop_mark(machine, &first));
    size_t count = (size_t)(machine->top - first);
    if (kind == HR__VALUE_TUPLE) {
        HR__PICKLE_TRY(machine, hr__document_tuple(machine->document, first, count, &container));
    } else if (kind == HR__VALUE_LIST) {
        HR__PICKLE_TRY(machine, hr__document_new_list(machine->document, &container));
        HR__PICKLE_TRY(machine, hr__document_append(machine->document, container, first, count));
    } else {
        HR__PICKLE_TRY(machine, hr__document_new_dict(machine->document, &container));
        HR__TRY(set_pairs(machine, container, first));
    }
    machine->top = first;
    hr__pickle_push(machine, container);
    return HR_OK;
}

static hr_status step_small_tuple(hr__pickle_machine *machine, size_t count)
{
    hr__value tuple;
    HR__TRY(hr__pickle_need_values(machine, count));
    HR__PICKLE_TRY(machine,
                   hr__document_tuple(machine->document, machine->top - count, count, &tuple));
    machine->top -= count;
    hr__pickle_push(machine, tuple);
    return HR_OK;
}

static hr_status step_new(hr__pickle_machine *machine)
{
    hr__value container = hr__value_none();
    switch (*machine->next) {
    case HR__OPCODE_EMPTY_DICT:
        HR__PICKLE_TRY(machine, hr__document_new_dict(machine->document, &container));
        break;
    case HR__OPCODE_EMPTY_LIST:
        HR__PICKLE_TRY(machine, hr__document_new_list(machine->document, &container));
        break;
    default:
        HR__PICKLE_TRY(machine, hr__document_new_set(machine->document, &container));
        break;
    }
    hr__pickle_push(machine, container);
    return HR_OK;
}

/* ---- which one ------------------------------------------------------------------------------- */

hr_status hr__pickle_step_container(hr__pickle_machine *machine, bool *is_known)
{
    switch (*machine->next) {
    case HR__OPCODE_EMPTY_DICT:
    case HR__OPCODE_EMPTY_LIST:
    case HR__OPCODE_EMPTY_SET:
        HR__TRY(step_new(machine));
        break;
    case HR__OPCODE_EMPTY_TUPLE:
        HR__TRY(step_small_tuple(machine, 0));
        break;
    case HR__OPCODE_TUPLE1:
    case HR__OPCODE_TUPLE2:
    case HR__OPCODE_TUPLE3:
        HR__TRY(step_small_tuple(machine, (size_t)(*machine->next - HR__OPCODE_TUPLE1 + 1)));
        break;
    case HR__OPCODE_LIST:
        HR__TRY(step_collect(machine, HR__VALUE_LIST));
        break;
    case HR__OPCODE_DICT:
        HR__TRY(step_collect(machine, HR__VALUE_DICT));
        break;
    case HR__OPCODE_TUPLE:
    case HR__OPCODE_FROZENSET:
        HR__TRY(step_collect(machine, HR__VALUE_TUPLE));
        break;
    case HR__OPCODE_APPEND:
        HR__TRY(step_append(machine));
        break;
    case HR__OPCODE_ADDITEMS:
        HR__TRY(step_fill(machine, HR__VALUE_TUPLE));
        break;
    case HR__OPCODE_SETITEM:
        HR__TRY(step_set_item(machine));
        break;
    case HR__OPCODE_APPENDS:
        return hr__pickle_step_append_items(machine);
    case HR__OPCODE_SETITEMS:
        return hr__pickle_step_set_items(machine);
    default:
        *is_known = false;
        return HR_OK;
    }
    machine->next += 1; /* none has an argument */
    return HR_OK;
}
