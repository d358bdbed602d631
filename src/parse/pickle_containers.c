/* pickle_containers.c - instructions that make containers and fill them, and the way around both.
 *
 * Most dicts of a snapshot are records: made, filled at once, taken by the listener, and never
 * looked at again. Those are never made (pickle_internal.h: a promise): SETITEMS and APPENDS look
 * whether the next instruction leaves the container as it is, and show the listener what lies on
 * the stack. If it declines, or if the next instruction might add more, the container is made
 * then, and filled as in Python. */
#include "parse/pickle_internal.h"

/* ---- promises -------------------------------------------------------------------------------- */

static void redeem(vw__unpickle_machine *machine, vw__value promise, vw__value value)
{
    machine->stack[vw__unpickle_promise_stack_place(promise)] = value;
    machine->memo[vw__unpickle_promise_memo_place(promise)] = value;
}

/* If `*place`, on the stack or in the memo, holds a promise: makes the container. */
vw_status vw__unpickle_keep(vw__unpickle_machine *machine, const vw__value *place)
{
    vw__value container = vw__value_none(), promise = *place;
    if (!vw__unpickle_is_promise(promise))
        return VW_OK;
    if (promise >> VW__VALUE_KIND_SHIFT == VW__UNPICKLE_DICT_PROMISE)
        VW__UNPICKLE_TRY(machine, vw__document_new_dict(machine->document, &container));
    else
        VW__UNPICKLE_TRY(machine, vw__document_new_list(machine->document, &container));
    redeem(machine, promise, container);
    return VW_OK;
}

/* ---- marks ----------------------------------------------------------------------------------- */

/* Takes the last mark away, and leaves a promise below it as it is; `*first` is the lowest value
 * above it. */
static vw_status take_mark(vw__unpickle_machine *machine, vw__value **first)
{
    if (machine->mark_count == 0)
        return vw__unpickle_fail(machine, "expected a MARK, found %s", "none");
    *first = machine->stack + machine->marks[--machine->mark_count];
    machine->fence =
        machine->stack + (machine->mark_count != 0 ? machine->marks[machine->mark_count - 1] : 0);
    return VW_OK;
}

vw_status vw__unpickle_pop_mark(vw__unpickle_machine *machine, vw__value **first)
{
    VW__TRY(take_mark(machine, first));
    return *first != machine->fence ? vw__unpickle_keep(machine, *first - 1) : VW_OK;
}

/* The same as take_mark(), for instructions that fill the container below the mark. */
static vw_status take_mark_above(vw__unpickle_machine *machine, vw__value_kind kind,
                                 vw__value **first)
{
    VW__TRY(take_mark(machine, first));
    if (*first == machine->fence)
        return vw__unpickle_fail(machine, "expected %s below the MARK, found nothing",
                                 vw__value_kind_name(kind));
    return VW_OK;
}

static vw_status need_kind(const vw__unpickle_machine *machine, vw__value value,
                           vw__value_kind kind)
{
    if (vw__value_get_kind(value) == kind)
        return VW_OK;
    return vw__unpickle_fail(machine, "expected %s to fill, found %s", vw__value_kind_name(kind),
                             vw__value_kind_name(vw__value_get_kind(value)));
}

/* ---- containers ------------------------------------------------------------------------------ */

static vw_status step_append(vw__unpickle_machine *machine)
{
    VW__TRY(vw__unpickle_need_values(machine, 2));
    VW__TRY(need_kind(machine, machine->top[-2], VW__VALUE_LIST));
    VW__UNPICKLE_TRY(machine,
                     vw__document_append(machine->document, machine->top[-2], machine->top - 1, 1));
    machine->top--;
    return VW_OK;
}

/* APPENDS, and ADDITEMS for sets. */
static vw_status step_fill(vw__unpickle_machine *machine, vw__value_kind kind)
{
    vw__value *first = NULL;
    VW__TRY(take_mark_above(machine, kind, &first));
    VW__TRY(vw__unpickle_keep(machine, first - 1));
    VW__TRY(need_kind(machine, first[-1], kind));
    VW__UNPICKLE_TRY(machine, vw__document_append(machine->document, first[-1], first,
                                                  (size_t)(machine->top - first)));
    machine->top = first;
    return VW_OK;
}

static vw_status step_set_item(vw__unpickle_machine *machine)
{
    VW__TRY(vw__unpickle_need_values(machine, 3));
    VW__TRY(need_kind(machine, machine->top[-3], VW__VALUE_DICT));
    VW__UNPICKLE_TRY(machine,
                     vw__document_set(machine->document, machine->top[-3], machine->top - 2, 1));
    machine->top -= 2;
    return VW_OK;
}

static vw_status set_pairs(vw__unpickle_machine *machine, vw__value dict, const vw__value *first)
{
    size_t count = (size_t)(machine->top - first);
    if (count % 2 != 0)
        return vw__unpickle_fail(machine, "expected keys with values, found %zu of both", count);
    VW__UNPICKLE_TRY(machine, vw__document_set(machine->document, dict, first, count / 2));
    return VW_OK;
}

static vw_status step_set_items(vw__unpickle_machine *machine)
{
    vw__value *first = NULL;
    VW__TRY(take_mark_above(machine, VW__VALUE_DICT, &first));
    VW__TRY(vw__unpickle_keep(machine, first - 1));
    VW__TRY(need_kind(machine, first[-1], VW__VALUE_DICT));
    VW__TRY(set_pairs(machine, first[-1], first));
    machine->top = first;
    return VW_OK;
}

/* The instruction behind the one at hand, a new frame between them or not; STOP where the file
 * ends. */
static vw_status look_behind(vw__unpickle_machine *machine, uint8_t *opcode)
{
    enum { WITH_A_FRAME_BYTES = 1 + 9 + 1 };
    const uint8_t *bytes;
    size_t size_bytes;
    if (machine->next < machine->stop && machine->next[1] != VW__UNPICKLE_FRAME) {
        *opcode = machine->next[1];
        return VW_OK;
    }
    VW__TRY(vw__unpickle_look_further(machine, WITH_A_FRAME_BYTES));
    VW__TRY(vw__byte_source_peek(machine->source, WITH_A_FRAME_BYTES, &bytes, &size_bytes));
    size_t place = size_bytes > 1 && bytes[1] == VW__UNPICKLE_FRAME ? WITH_A_FRAME_BYTES - 1 : 1;
    *opcode = place < size_bytes ? bytes[place] : VW__UNPICKLE_STOP;
    return VW_OK;
}

/* Is the container on top of the stack as full as it gets, going by the next instruction? It puts
 * the container into another, or, behind a dict, begins a dict, which cannot be a key. (A pickle
 * could take that dict away again and go on filling the first. No writer does, and then filling it
 * is refused.) */
static bool is_complete(uint8_t next_opcode, bool is_dict)
{
    switch (next_opcode) {
    case VW__UNPICKLE_APPENDS:
    case VW__UNPICKLE_APPEND:
    case VW__UNPICKLE_SETITEMS:
    case VW__UNPICKLE_SETITEM:
        return true;
    case VW__UNPICKLE_EMPTY_DICT:
        return is_dict;
    default:
        return false;
    }
}

/* Is a promise below the last mark? */
static bool is_promised(const vw__unpickle_machine *machine, unsigned kind)
{
    size_t count = machine->mark_count;
    if (count == 0)
        return false;
    size_t place = machine->marks[count - 1];
    return place != (count > 1 ? machine->marks[count - 2] : 0) &&
           machine->stack[place - 1] >> VW__VALUE_KIND_SHIFT == kind;
}

/* The listener has taken it. */
static vw_status end_promise(vw__unpickle_machine *machine, vw__value folded)
{
    vw__value *first = NULL;
    VW__TRY(take_mark(machine, &first));
    redeem(machine, first[-1], folded);
    machine->top = first;
    machine->next += 1;
    return VW_OK;
}

vw_status vw__unpickle_step_set_items(vw__unpickle_machine *machine)
{
    size_t count = (size_t)(machine->top - machine->fence);
    vw__value folded = vw__value_none();
    uint8_t behind;
    VW__TRY(look_behind(machine, &behind));
    bool is_last = is_complete(behind, true);
    if (is_last && is_promised(machine, VW__UNPICKLE_DICT_PROMISE) && count % 2 == 0) {
        VW__UNPICKLE_TRY(machine, vw__document_fold_pairs(machine->document, machine->fence,
                                                          count / 2, &folded));
        if (folded != vw__value_none())
            return end_promise(machine, folded);
    }
    VW__TRY(step_set_items(machine));
    if (is_last) /* so that records are folded in the order of the file, whichever way they go */
        VW__UNPICKLE_TRY(
            machine, vw__document_close(machine->document, machine->top[-1], &machine->top[-1]));
    machine->next += 1;
    return VW_OK;
}

vw_status vw__unpickle_step_append_items(vw__unpickle_machine *machine)
{
    size_t count = (size_t)(machine->top - machine->fence);
    vw__value folded = vw__value_none();
    uint8_t behind;
    VW__TRY(look_behind(machine, &behind));
    if (is_complete(behind, false) && is_promised(machine, VW__UNPICKLE_LIST_PROMISE)) {
        VW__UNPICKLE_TRY(
            machine, vw__document_fold_items(machine->document, machine->fence, count, &folded));
        if (folded != vw__value_none())
            return end_promise(machine, folded);
    }
    VW__TRY(step_fill(machine, VW__VALUE_LIST));
    machine->next += 1;
    return VW_OK;
}

/* LIST, DICT, TUPLE, FROZENSET: what lies above the mark becomes one container. */
static vw_status step_collect(vw__unpickle_machine *machine, vw__value_kind kind)
{
    vw__value *first = NULL, container = vw__value_none();
    VW__TRY(vw__unpickle_pop_mark(machine, &first));
    size_t count = (size_t)(machine->top - first);
    if (kind == VW__VALUE_TUPLE) {
        VW__UNPICKLE_TRY(machine, vw__document_tuple(machine->document, first, count, &container));
    } else if (kind == VW__VALUE_LIST) {
        VW__UNPICKLE_TRY(machine, vw__document_new_list(machine->document, &container));
        VW__UNPICKLE_TRY(machine, vw__document_append(machine->document, container, first, count));
    } else {
        VW__UNPICKLE_TRY(machine, vw__document_new_dict(machine->document, &container));
        VW__TRY(set_pairs(machine, container, first));
    }
    machine->top = first;
    vw__unpickle_push(machine, container);
    return VW_OK;
}

static vw_status step_small_tuple(vw__unpickle_machine *machine, size_t count)
{
    vw__value tuple;
    VW__TRY(vw__unpickle_need_values(machine, count));
    VW__UNPICKLE_TRY(machine,
                     vw__document_tuple(machine->document, machine->top - count, count, &tuple));
    machine->top -= count;
    vw__unpickle_push(machine, tuple);
    return VW_OK;
}

static vw_status step_new(vw__unpickle_machine *machine)
{
    vw__value container = vw__value_none();
    switch (*machine->next) {
    case VW__UNPICKLE_EMPTY_DICT:
        VW__UNPICKLE_TRY(machine, vw__document_new_dict(machine->document, &container));
        break;
    case VW__UNPICKLE_EMPTY_LIST:
        VW__UNPICKLE_TRY(machine, vw__document_new_list(machine->document, &container));
        break;
    default:
        VW__UNPICKLE_TRY(machine, vw__document_new_set(machine->document, &container));
        break;
    }
    vw__unpickle_push(machine, container);
    return VW_OK;
}

/* ---- which one ------------------------------------------------------------------------------- */

vw_status vw__unpickle_step_container(vw__unpickle_machine *machine, bool *is_known)
{
    switch (*machine->next) {
    case VW__UNPICKLE_EMPTY_DICT:
    case VW__UNPICKLE_EMPTY_LIST:
    case VW__UNPICKLE_EMPTY_SET:
        VW__TRY(step_new(machine));
        break;
    case VW__UNPICKLE_EMPTY_TUPLE:
        VW__TRY(step_small_tuple(machine, 0));
        break;
    case VW__UNPICKLE_TUPLE1:
    case VW__UNPICKLE_TUPLE2:
    case VW__UNPICKLE_TUPLE3:
        VW__TRY(step_small_tuple(machine, (size_t)(*machine->next - VW__UNPICKLE_TUPLE1 + 1)));
        break;
    case VW__UNPICKLE_LIST:
        VW__TRY(step_collect(machine, VW__VALUE_LIST));
        break;
    case VW__UNPICKLE_DICT:
        VW__TRY(step_collect(machine, VW__VALUE_DICT));
        break;
    case VW__UNPICKLE_TUPLE:
    case VW__UNPICKLE_FROZENSET:
        VW__TRY(step_collect(machine, VW__VALUE_TUPLE));
        break;
    case VW__UNPICKLE_APPEND:
        VW__TRY(step_append(machine));
        break;
    case VW__UNPICKLE_ADDITEMS:
        VW__TRY(step_fill(machine, VW__VALUE_TUPLE));
        break;
    case VW__UNPICKLE_SETITEM:
        VW__TRY(step_set_item(machine));
        break;
    case VW__UNPICKLE_APPENDS:
        return vw__unpickle_step_append_items(machine);
    case VW__UNPICKLE_SETITEMS:
        return vw__unpickle_step_set_items(machine);
    default:
        *is_known = false;
        return VW_OK;
    }
    machine->next += 1; /* none has an argument */
    return VW_OK;
}
