/* pickle_instructions.c - what each instruction does that works on stack and memo alone, and the
 * refusal of those that run code. */
#include "format/pickle_machine.h"

#include <stdio.h>
#include <string.h>

#include "format/pickle_text.h"

enum {
    NEWEST_PROTOCOL = 5,
    FIRST_MEMO_CAPACITY = 4096,
    FIRST_MARK_CAPACITY = 64,
    MEMO_GAP = 65536,  /* places that may be skipped */
    NAMED_BYTES = 256, /* of a module or name, in a message */
};

const uint8_t hr__pickle_argument_bytes[256] = {
#define OPCODE_ARGUMENT(name, code, argument_bytes) [(code)] = (argument_bytes),
    HR__PICKLE_OPCODES(OPCODE_ARGUMENT)
#undef OPCODE_ARGUMENT
};

const char *const hr__pickle_names[256] = {
#define OPCODE_NAME(name, code, argument_bytes) [(code)] = #name,
    HR__PICKLE_OPCODES(OPCODE_NAME)
#undef OPCODE_NAME
};

hr_status hr__pickle_say_where(const hr__pickle_machine *machine, hr_status status)
{
    char words[512];
    if (status != HR_ERR_CORRUPT_FILE && status != HR_ERR_UNSUPPORTED)
        return status;
    snprintf(words, sizeof words, "%s", hr_last_error());
    return hr__fail(status, "byte %" PRIu64 " of the pickle, %s: %s", hr__pickle_place(machine),
                    hr__pickle_names[*machine->next], words);
}

/* ---- stack and memo -------------------------------------------------------------------------- */

hr_status hr__pickle_need_values(const hr__pickle_machine *machine, size_t count)
{
    if ((size_t)(machine->top - machine->fence) >= count)
        return HR_OK;
    return hr__pickle_fail(machine, "expected %zu values on the stack, found %td", count,
                           machine->top - machine->fence);
}

static hr_status push_mark(hr__pickle_machine *machine)
{
    if (machine->mark_count == machine->mark_capacity) {
        size_t grown =
            machine->mark_capacity != 0 ? machine->mark_capacity * 2 : FIRST_MARK_CAPACITY;
        void *memory = NULL;
        HR__TRY(hr__document_resize_memory(machine->document, machine->marks,
                                           machine->mark_capacity * sizeof *machine->marks,
                                           grown * sizeof *machine->marks, "marks", &memory));
        machine->marks = memory;
        machine->mark_capacity = grown;
    }
    machine->marks[machine->mark_count++] = (size_t)(machine->top - machine->stack);
    machine->fence = machine->top;
    return HR_OK;
}

static hr_status grow_memo(hr__pickle_machine *machine, size_t index)
{
    size_t grown = machine->memo_capacity != 0 ? machine->memo_capacity : FIRST_MEMO_CAPACITY;
    while (grown <= index)
        grown += grown / 2;
    void *memory = NULL;
    HR__TRY(hr__document_resize_memory(machine->document, machine->memo,
                                       machine->memo_capacity * sizeof(hr__value),
                                       grown * sizeof(hr__value), "the memo", &memory));
    machine->memo = memory;
    machine->memo_capacity = grown;
    return HR_OK;
}

static hr_status put_memo(hr__pickle_machine *machine, uint64_t index)
{
    HR__TRY(hr__pickle_need_values(machine, 1));
    if (index > 2 * (uint64_t)machine->memo_count + MEMO_GAP)
        return hr__pickle_fail(machine, "memo place %" PRIu64 ", when %zu are in use", index,
                               machine->memo_count);
    if (index >= machine->memo_capacity)
        HR__PICKLE_TRY(machine, grow_memo(machine, (size_t)index));
    while (machine->memo_end <= index)
        machine->memo[machine->memo_end++] = HR__PICKLE_NOTHING;
    HR__TRY(hr__pickle_keep(machine, &machine->memo[index]));
    if (machine->memo[index] == HR__PICKLE_NOTHING)
        machine->memo_count++;
    machine->memo[index] = machine->top[-1];
    return HR_OK;
}

static hr_status get_memo(hr__pickle_machine *machine, uint64_t index)
{
    if (index >= machine->memo_end || machine->memo[index] == HR__PICKLE_NOTHING)
        return hr__pickle_fail(machine, "nothing was stored at memo place %" PRIu64, index);
    HR__TRY(hr__pickle_keep(machine, &machine->memo[index]));
    machine->memo[index] = hr__document_resolve(machine->document, machine->memo[index]);
    hr__pickle_push(machine, machine->memo[index]);
    return HR_OK;
}

/* ---- refusing code --------------------------------------------------------------------------- */

static hr_status refuse(const hr__pickle_machine *machine, const char *module, size_t module_bytes,
                        const char *name, size_t name_bytes)
{
    char quoted_module[NAMED_BYTES], quoted_name[NAMED_BYTES];
    hr__pickle_quote(module, module_bytes, quoted_module, sizeof quoted_module);
    hr__pickle_quote(name, name_bytes, quoted_name, sizeof quoted_name);
    return hr__pickle_fail(machine, "it names code, %s.%s; only plain data is read from a pickle",
                           quoted_module, quoted_name);
}

static hr_status refuse_names_in_text(hr__pickle_machine *machine)
{
    const char *module;
    size_t module_bytes;
    HR__TRY(hr__pickle_take_line(machine, &module, &module_bytes));
    const char *name = module + module_bytes + 1;
    size_t left = (size_t)((const char *)machine->end - name);
    const char *newline = memchr(name, '\n', left);
    size_t name_bytes = newline != NULL ? (size_t)(newline - name) : left;
    return refuse(machine, module, module_bytes, name, name_bytes);
}

static hr_status refuse_names_on_stack(const hr__pickle_machine *machine)
{
    HR__TRY(hr__pickle_need_values(machine, 2));
    const char *names[2] = {"?", "?"};
    size_t sizes[2] = {1, 1};
    for (int i = 0; i < 2; i++) {
        if (hr__value_get_kind(machine->top[i - 2]) == HR__VALUE_STRING)
            names[i] = hr__value_string(machine->document, machine->top[i - 2], &sizes[i]);
    }
    return refuse(machine, names[0], sizes[0], names[1], sizes[1]);
}

static hr_status refuse_instruction(hr__pickle_machine *machine)
{
    uint8_t opcode = *machine->next;
    switch (opcode) {
    case HR__OPCODE_GLOBAL:
    case HR__OPCODE_INST:
        return refuse_names_in_text(machine);
    case HR__OPCODE_STACK_GLOBAL:
        return refuse_names_on_stack(machine);
    default:
        break;
    }
    if (hr__pickle_names[opcode] != NULL)
        return hr__pickle_fail(
            machine, "this instruction %s; only plain data is read from a pickle",
            opcode == HR__OPCODE_NEXT_BUFFER || opcode == HR__OPCODE_READONLY_BUFFER ||
                    opcode == HR__OPCODE_PERSID || opcode == HR__OPCODE_BINPERSID
                ? "wants something from outside the file"
                : "builds objects or calls code");
    if (hr__pickle_place(machine) == 0)
        return hr__fail(HR_ERR_CORRUPT_FILE, "not a pickle: it begins with byte 0x%02x", opcode);
    return hr__fail(HR_ERR_CORRUPT_FILE, "byte %" PRIu64 " of the pickle: 0x%02x is no instruction",
                    hr__pickle_place(machine), opcode);
}

/* ---- the rest -------------------------------------------------------------------------------- */

static hr_status step_text_memo(hr__pickle_machine *machine)
{
    const char *line;
    size_t size_bytes;
    hr__pickle_number number;
    HR__TRY(hr__pickle_take_line(machine, &line, &size_bytes));
    if (!hr__pickle_parse_integer(line, size_bytes, &number) || number.is_negative ||
        number.is_huge)
        return hr__pickle_refuse_line(machine, line, size_bytes, "a memo place");
    if (*machine->next == HR__OPCODE_GET)
        HR__TRY(get_memo(machine, number.magnitude));
    else
        HR__TRY(put_memo(machine, number.magnitude));
    hr__pickle_skip_line(machine, size_bytes);
    return HR_OK;
}

/* A POP right behind a MARK takes the mark, as in Python. */
static hr_status step_pop(hr__pickle_machine *machine)
{
    hr__value *first = NULL;
    if (machine->top == machine->fence && machine->mark_count > 0)
        return hr__pickle_pop_mark(machine, &first);
    HR__TRY(hr__pickle_need_values(machine, 1));
    machine->top--;
    return HR_OK;
}

static hr_status step_pop_mark(hr__pickle_machine *machine)
{
    hr__value *first = NULL;
    HR__TRY(hr__pickle_pop_mark(machine, &first));
    machine->top = first;
    return HR_OK;
}

static hr_status step_duplicate(hr__pickle_machine *machine)
{
    HR__TRY(hr__pickle_need_values(machine, 1));
    hr__pickle_push(machine, machine->top[-1]);
    return HR_OK;
}

static hr_status step_protocol(hr__pickle_machine *machine)
{
    unsigned protocol = machine->next[1];
    if (protocol > NEWEST_PROTOCOL)
        return hr__pickle_fail(machine, "protocol %u, the newest known is %d", protocol,
                               NEWEST_PROTOCOL);
    return HR_OK;
}

static hr_status step_frame(hr__pickle_machine *machine)
{
    uint64_t size_bytes = hr__pickle_read_le(machine->next + 1, 8);
    uint64_t start = hr__pickle_place(machine) + 9;
    if (machine->frame_end != HR__PICKLE_NO_FRAME && start < machine->frame_end)
        return hr__pickle_fail(machine,
                               "beginning of a new frame %" PRIu64 " bytes before the end of the "
                               "current one",
                               machine->frame_end - start);
    if (size_bytes > INT64_MAX - start)
        return hr__pickle_fail(machine, "a frame of %" PRIu64 " bytes", size_bytes);
    machine->next += 9;
    machine->frame_end = start + size_bytes;
    return hr__pickle_look_further(machine, 1);
}

static hr_status step_stop(hr__pickle_machine *machine)
{
    HR__TRY(hr__pickle_need_values(machine, 1));
    machine->has_stopped = true;
    return HR_OK;
}

hr_status hr__pickle_step(hr__pickle_machine *machine)
{
    const uint8_t *argument = machine->next + 1;
    hr_status status;
    switch (*machine->next) {
    case HR__OPCODE_NONE:
        hr__pickle_push(machine, hr__value_none());
        status = HR_OK;
        break;
    case HR__OPCODE_NEWTRUE:
    case HR__OPCODE_NEWFALSE:
        hr__pickle_push(machine, hr__value_boolean(*machine->next == HR__OPCODE_NEWTRUE));
        status = HR_OK;
        break;
    case HR__OPCODE_MARK:
        status = push_mark(machine);
        break;
    case HR__OPCODE_POP:
        status = step_pop(machine);
        break;
    case HR__OPCODE_POP_MARK:
        status = step_pop_mark(machine);
        break;
    case HR__OPCODE_DUP:
        status = step_duplicate(machine);
        break;
    case HR__OPCODE_STOP:
        status = step_stop(machine);
        break;
    case HR__OPCODE_PROTO:
        status = step_protocol(machine);
        break;
    case HR__OPCODE_MEMOIZE:
        status = put_memo(machine, machine->memo_count);
        break;
    case HR__OPCODE_BINPUT:
        status = put_memo(machine, *argument);
        break;
    case HR__OPCODE_LONG_BINPUT:
        status = put_memo(machine, hr__pickle_read_le(argument, 4));
        break;
    case HR__OPCODE_BINGET:
        status = get_memo(machine, *argument);
        break;
    case HR__OPCODE_LONG_BINGET:
        status = get_memo(machine, hr__pickle_read_le(argument, 4));
        break;

    /* These move behind themselves. */
    case HR__OPCODE_FRAME:
        return step_frame(machine);
    case HR__OPCODE_GET:
    case HR__OPCODE_PUT:
        return step_text_memo(machine);
    default: {
        bool is_known = true;
        HR__TRY(hr__pickle_step_scalar(machine, &is_known));
        if (is_known)
            return HR_OK;
        is_known = true;
        HR__TRY(hr__pickle_step_container(machine, &is_known));
        return is_known ? HR_OK : refuse_instruction(machine);
    }
    }
    HR__TRY(status);
    machine->next += 1 + hr__pickle_argument_bytes[*machine->next];
    return HR_OK;
}
