/* pickle_instructions.c - what each instruction does that works on stack and memo alone, and the
 * refusal of those that run code. */
#include "parse/pickle_internal.h"

#include <stdio.h>
#include <string.h>

enum {
    NEWEST_PROTOCOL = 5,
    FIRST_MEMO_CAPACITY = 4096,
    FIRST_MARK_CAPACITY = 64,
    MEMO_GAP = 65536,  /* places that may be skipped */
    NAMED_BYTES = 256, /* of a module or name, in a message */
};

const uint8_t vw__unpickle_argument_bytes[256] = {
#define OPCODE_ARGUMENT(name, code, argument_bytes) [(code)] = (argument_bytes),
    VW__UNPICKLE_OPCODES(OPCODE_ARGUMENT)
#undef OPCODE_ARGUMENT
};

const char *const vw__unpickle_names[256] = {
#define OPCODE_NAME(name, code, argument_bytes) [(code)] = #name,
    VW__UNPICKLE_OPCODES(OPCODE_NAME)
#undef OPCODE_NAME
};

vw_status vw__unpickle_say_where(const vw__unpickle_machine *machine, vw_status status)
{
    char words[512];
    if (status != VW_ERR_CORRUPT_FILE && status != VW_ERR_UNSUPPORTED)
        return status;
    snprintf(words, sizeof words, "%s", vw_last_error());
    return vw__fail(status, "byte %" PRIu64 " of the pickle, %s: %s", vw__unpickle_place(machine),
                    vw__unpickle_names[*machine->next], words);
}

/* ---- stack and memo -------------------------------------------------------------------------- */

vw_status vw__unpickle_need_values(const vw__unpickle_machine *machine, size_t count)
{
    if ((size_t)(machine->top - machine->fence) >= count)
        return VW_OK;
    return vw__unpickle_fail(machine, "expected %zu values on the stack, found %td", count,
                             machine->top - machine->fence);
}

static vw_status push_mark(vw__unpickle_machine *machine)
{
    if (machine->mark_count == machine->mark_capacity) {
        size_t grown =
            machine->mark_capacity != 0 ? machine->mark_capacity * 2 : FIRST_MARK_CAPACITY;
        void *memory = NULL;
        VW__TRY(vw__document_resize_memory(machine->document, machine->marks,
                                           machine->mark_capacity * sizeof *machine->marks,
                                           grown * sizeof *machine->marks, "marks", &memory));
        machine->marks = memory;
        machine->mark_capacity = grown;
    }
    machine->marks[machine->mark_count++] = (size_t)(machine->top - machine->stack);
    machine->fence = machine->top;
    return VW_OK;
}

static vw_status grow_memo(vw__unpickle_machine *machine, size_t index)
{
    size_t grown = machine->memo_capacity != 0 ? machine->memo_capacity : FIRST_MEMO_CAPACITY;
    while (grown <= index)
        grown += grown / 2;
    void *memory = NULL;
    VW__TRY(vw__document_resize_memory(machine->document, machine->memo,
                                       machine->memo_capacity * sizeof(vw__value),
                                       grown * sizeof(vw__value), "the memo", &memory));
    machine->memo = memory;
    machine->memo_capacity = grown;
    return VW_OK;
}

static vw_status put_memo(vw__unpickle_machine *machine, uint64_t index)
{
    VW__TRY(vw__unpickle_need_values(machine, 1));
    if (index > 2 * (uint64_t)machine->memo_count + MEMO_GAP)
        return vw__unpickle_fail(machine, "memo place %" PRIu64 ", when %zu are in use", index,
                                 machine->memo_count);
    if (index >= machine->memo_capacity)
        VW__UNPICKLE_TRY(machine, grow_memo(machine, (size_t)index));
    while (machine->memo_end <= index)
        machine->memo[machine->memo_end++] = VW__UNPICKLE_NOTHING;
    VW__TRY(vw__unpickle_keep(machine, &machine->memo[index]));
    if (machine->memo[index] == VW__UNPICKLE_NOTHING)
        machine->memo_count++;
    machine->memo[index] = machine->top[-1];
    return VW_OK;
}

static vw_status get_memo(vw__unpickle_machine *machine, uint64_t index)
{
    if (index >= machine->memo_end || machine->memo[index] == VW__UNPICKLE_NOTHING)
        return vw__unpickle_fail(machine, "nothing was stored at memo place %" PRIu64, index);
    VW__TRY(vw__unpickle_keep(machine, &machine->memo[index]));
    machine->memo[index] = vw__document_resolve(machine->document, machine->memo[index]);
    vw__unpickle_push(machine, machine->memo[index]);
    return VW_OK;
}

/* ---- refusing code --------------------------------------------------------------------------- */

static vw_status refuse(const vw__unpickle_machine *machine, const char *module,
                        size_t module_bytes, const char *name, size_t name_bytes)
{
    char quoted_module[NAMED_BYTES], quoted_name[NAMED_BYTES];
    vw__unpickle_quote(module, module_bytes, quoted_module, sizeof quoted_module);
    vw__unpickle_quote(name, name_bytes, quoted_name, sizeof quoted_name);
    return vw__unpickle_fail(machine, "it names code, %s.%s; only plain data is read from a pickle",
                             quoted_module, quoted_name);
}

static vw_status refuse_names_in_text(vw__unpickle_machine *machine)
{
    const char *module;
    size_t module_bytes;
    VW__TRY(vw__unpickle_take_line(machine, &module, &module_bytes));
    const char *name = module + module_bytes + 1;
    size_t left = (size_t)((const char *)machine->end - name);
    const char *newline = memchr(name, '\n', left);
    size_t name_bytes = newline != NULL ? (size_t)(newline - name) : left;
    return refuse(machine, module, module_bytes, name, name_bytes);
}

static vw_status refuse_names_on_stack(const vw__unpickle_machine *machine)
{
    VW__TRY(vw__unpickle_need_values(machine, 2));
    const char *names[2] = {"?", "?"};
    size_t sizes[2] = {1, 1};
    for (int i = 0; i < 2; i++) {
        if (vw__value_get_kind(machine->top[i - 2]) == VW__VALUE_STRING)
            names[i] = vw__value_string(machine->document, machine->top[i - 2], &sizes[i]);
    }
    return refuse(machine, names[0], sizes[0], names[1], sizes[1]);
}

static vw_status refuse_instruction(vw__unpickle_machine *machine)
{
    uint8_t opcode = *machine->next;
    switch (opcode) {
    case VW__UNPICKLE_GLOBAL:
    case VW__UNPICKLE_INST:
        return refuse_names_in_text(machine);
    case VW__UNPICKLE_STACK_GLOBAL:
        return refuse_names_on_stack(machine);
    default:
        break;
    }
    if (vw__unpickle_names[opcode] != NULL)
        return vw__unpickle_fail(
            machine, "this instruction %s; only plain data is read from a pickle",
            opcode == VW__UNPICKLE_NEXT_BUFFER || opcode == VW__UNPICKLE_READONLY_BUFFER ||
                    opcode == VW__UNPICKLE_PERSID || opcode == VW__UNPICKLE_BINPERSID
                ? "wants something from outside the file"
                : "builds objects or calls code");
    if (vw__unpickle_place(machine) == 0)
        return vw__fail(VW_ERR_CORRUPT_FILE, "not a pickle: it begins with byte 0x%02x", opcode);
    return vw__fail(VW_ERR_CORRUPT_FILE, "byte %" PRIu64 " of the pickle: 0x%02x is no instruction",
                    vw__unpickle_place(machine), opcode);
}

/* ---- the rest -------------------------------------------------------------------------------- */

static vw_status step_text_memo(vw__unpickle_machine *machine)
{
    const char *line;
    size_t size_bytes;
    vw__unpickle_number number;
    VW__TRY(vw__unpickle_take_line(machine, &line, &size_bytes));
    if (!vw__unpickle_parse_integer(line, size_bytes, &number) || number.is_negative ||
        number.is_huge)
        return vw__unpickle_refuse_line(machine, line, size_bytes, "a memo place");
    if (*machine->next == VW__UNPICKLE_GET)
        VW__TRY(get_memo(machine, number.magnitude));
    else
        VW__TRY(put_memo(machine, number.magnitude));
    vw__unpickle_skip_line(machine, size_bytes);
    return VW_OK;
}

/* A POP right behind a MARK takes the mark, as in Python. */
static vw_status step_pop(vw__unpickle_machine *machine)
{
    vw__value *first = NULL;
    if (machine->top == machine->fence && machine->mark_count > 0)
        return vw__unpickle_pop_mark(machine, &first);
    VW__TRY(vw__unpickle_need_values(machine, 1));
    machine->top--;
    return VW_OK;
}

static vw_status step_pop_mark(vw__unpickle_machine *machine)
{
    vw__value *first = NULL;
    VW__TRY(vw__unpickle_pop_mark(machine, &first));
    machine->top = first;
    return VW_OK;
}

static vw_status step_duplicate(vw__unpickle_machine *machine)
{
    VW__TRY(vw__unpickle_need_values(machine, 1));
    vw__unpickle_push(machine, machine->top[-1]);
    return VW_OK;
}

static vw_status step_protocol(vw__unpickle_machine *machine)
{
    unsigned protocol = machine->next[1];
    if (protocol > NEWEST_PROTOCOL)
        return vw__unpickle_fail(machine, "protocol %u, the newest known is %d", protocol,
                                 NEWEST_PROTOCOL);
    return VW_OK;
}

static vw_status step_frame(vw__unpickle_machine *machine)
{
    uint64_t size_bytes = vw__unpickle_read_le(machine->next + 1, 8);
    uint64_t start = vw__unpickle_place(machine) + 9;
    if (machine->frame_end != VW__UNPICKLE_NO_FRAME && start < machine->frame_end)
        return vw__unpickle_fail(machine,
                                 "beginning of a new frame %" PRIu64 " bytes before the end of the "
                                 "current one",
                                 machine->frame_end - start);
    if (size_bytes > INT64_MAX - start)
        return vw__unpickle_fail(machine, "a frame of %" PRIu64 " bytes", size_bytes);
    machine->next += 9;
    machine->frame_end = start + size_bytes;
    return vw__unpickle_look_further(machine, 1);
}

static vw_status step_stop(vw__unpickle_machine *machine)
{
    VW__TRY(vw__unpickle_need_values(machine, 1));
    machine->has_stopped = true;
    return VW_OK;
}

vw_status vw__unpickle_step(vw__unpickle_machine *machine)
{
    const uint8_t *argument = machine->next + 1;
    vw_status status;
    switch (*machine->next) {
    case VW__UNPICKLE_NONE:
        vw__unpickle_push(machine, vw__value_none());
        status = VW_OK;
        break;
    case VW__UNPICKLE_NEWTRUE:
    case VW__UNPICKLE_NEWFALSE:
        vw__unpickle_push(machine, vw__value_boolean(*machine->next == VW__UNPICKLE_NEWTRUE));
        status = VW_OK;
        break;
    case VW__UNPICKLE_MARK:
        status = push_mark(machine);
        break;
    case VW__UNPICKLE_POP:
        status = step_pop(machine);
        break;
    case VW__UNPICKLE_POP_MARK:
        status = step_pop_mark(machine);
        break;
    case VW__UNPICKLE_DUP:
        status = step_duplicate(machine);
        break;
    case VW__UNPICKLE_STOP:
        status = step_stop(machine);
        break;
    case VW__UNPICKLE_PROTO:
        status = step_protocol(machine);
        break;
    case VW__UNPICKLE_MEMOIZE:
        status = put_memo(machine, machine->memo_count);
        break;
    case VW__UNPICKLE_BINPUT:
        status = put_memo(machine, *argument);
        break;
    case VW__UNPICKLE_LONG_BINPUT:
        status = put_memo(machine, vw__unpickle_read_le(argument, 4));
        break;
    case VW__UNPICKLE_BINGET:
        status = get_memo(machine, *argument);
        break;
    case VW__UNPICKLE_LONG_BINGET:
        status = get_memo(machine, vw__unpickle_read_le(argument, 4));
        break;

    /* These advance past themselves. */
    case VW__UNPICKLE_FRAME:
        return step_frame(machine);
    case VW__UNPICKLE_GET:
    case VW__UNPICKLE_PUT:
        return step_text_memo(machine);
    default: {
        bool is_known = true;
        VW__TRY(vw__unpickle_step_scalar(machine, &is_known));
        if (is_known)
            return VW_OK;
        is_known = true;
        VW__TRY(vw__unpickle_step_container(machine, &is_known));
        return is_known ? VW_OK : refuse_instruction(machine);
    }
    }
    VW__TRY(status);
    machine->next += 1 + vw__unpickle_argument_bytes[*machine->next];
    return VW_OK;
}
