/* step_log_forms.c - steps as objects (JSON, dicts of Python) and as tables (CSV and the like). */
#include "parse/step_log_internal.h"

#include <string.h>

/* ---- objects --------------------------------------------------------------------------------- */

/* JSON lines, an array in one line or over many, a dict that Python printed inside a log line, a
 * whole file with the steps somewhere in it: all are objects with a step and memory in them. So
 * nothing is parsed into a tree, and nothing is demanded of the text around: a walk over brackets
 * and names keeps, for every open object, what was sighted in it. An object without a step of its
 * own hands what it has to the one around it ({"step": 5, "memory": {"allocated": ...}}). */

void vw__step_log_json_reset(vw__step_log_json *json)
{
    json->depth = json->passed_depth = 0;
    json->key.size_bytes = 0;
}

/* The innermost open one; NULL outside, and too deep. */
static vw__step_log_json_frame *innermost(vw__step_log_json *json)
{
    return json->depth != 0 && json->depth <= VW__STEP_LOG_JSON_MOST_DEPTH
               ? &json->frames[json->depth - 1]
               : NULL;
}

static void open_bracket(vw__step_log_json *json, bool is_list)
{
    const vw__step_log_json_frame *around = innermost(json);
    json->depth++;
    if (!is_list && around != NULL && around->is_list && json->filter(json->sink_context)) {
        json->passed_depth = json->depth;
        return;
    }
    vw__step_log_json_frame *frame = innermost(json);
    if (frame != NULL) {
        vw__step_log_sighting_init(&frame->sighting);
        frame->key = json->key;
        frame->is_list = is_list;
    }
    json->key.size_bytes = 0;
}

static void close_bracket(vw__step_log_json *json)
{
    vw__step_log_json_frame *closed = innermost(json);
    if (json->depth == 0)
        return;
    json->depth--;
    json->key.size_bytes = 0;
    if (closed == NULL || closed->is_list)
        return;
    vw__step_log_json_frame *around = innermost(json);
    bool has_memory = vw__step_log_sighting_has_memory(&closed->sighting);
    bool is_alone = around == NULL || around->is_list;
    if (has_memory && (closed->sighting.step_weight != 0 || is_alone))
        json->sink(json->sink_context, &closed->sighting);
    else if (!is_alone)
        vw__step_log_sighting_merge(&around->sighting, &closed->sighting);
}

static void offer(vw__step_log_json *json, const vw__line_number *number)
{
    vw__step_log_json_frame *frame = innermost(json);
    if (frame != NULL && !frame->is_list && json->key.size_bytes != 0) {
        char name[2 * VW__STEP_LOG_JSON_KEY_BYTES + 1];
        size_t size = frame->key.size_bytes;
        memcpy(name, frame->key.text, size);
        if (size != 0)
            name[size++] = '/';
        memcpy(name + size, json->key.text, json->key.size_bytes);
        vw__step_log_field field =
            vw__step_log_field_of_name(json->words, (vw__line){name, size + json->key.size_bytes});
        vw__step_log_sighting_offer(&frame->sighting, &field, number);
    }
    json->key.size_bytes = 0;
}

/* "3.21 GB" as a string. */
static void offer_text(vw__step_log_json *json, vw__line text)
{
    if (!vw__line_is_digit(text, 0))
        return;
    vw__line_number number = vw__line_number_read(text, 0, true);
    if (number.end == text.size_bytes)
        offer(json, &number);
}

/* At a quote. Returns where the string ends. */
static size_t walk_string(vw__step_log_json *json, vw__line text, size_t at)
{
    char quote = text.text[at];
    size_t begin = ++at;
    while (at < text.size_bytes && text.text[at] != quote)
        at += text.text[at] == '\\' ? 2 : 1;
    size_t end = at < text.size_bytes ? at : text.size_bytes;
    at = end < text.size_bytes ? end + 1 : text.size_bytes;
    size_t colon = vw__line_skip_blanks(text, at);
    if (vw__line_at(text, colon) == ':') {
        size_t length =
            end - begin < VW__STEP_LOG_JSON_KEY_BYTES ? end - begin : VW__STEP_LOG_JSON_KEY_BYTES;
        memcpy(json->key.text, text.text + begin, length);
        json->key.size_bytes = length;
        return colon + 1;
    }
    offer_text(json, (vw__line){text.text + begin, end - begin});
    json->key.size_bytes = 0;
    return at;
}

static size_t walk_number(vw__step_log_json *json, vw__line text, size_t at)
{
    vw__line_number number = vw__line_number_read(text, at, false);
    if (at != 0 && text.text[at - 1] == '-')
        number.is_other = true;
    offer(json, &number);
    return number.end;
}

/* Within an object that is left out, only brackets and strings count. */
static size_t pass_over(vw__step_log_json *json, vw__line text, size_t at)
{
    static const bool counts[256] = {
        ['{'] = true, ['['] = true, ['}'] = true, [']'] = true, ['"'] = true, ['\''] = true};
    for (; at < text.size_bytes; at++) {
        char byte = text.text[at];
        if (!counts[(unsigned char)byte])
            continue;
        if (byte == '{' || byte == '[') {
            json->depth++;
        } else if (byte == '}' || byte == ']') {
            if (json->depth-- == json->passed_depth) {
                json->passed_depth = 0;
                json->key.size_bytes = 0;
                return at + 1;
            }
        } else {
            for (at++; at < text.size_bytes && text.text[at] != byte; at++)
                at += text.text[at] == '\\';
        }
    }
    return text.size_bytes;
}

void vw__step_log_json_walk(vw__step_log_json *json, vw__line text)
{
    for (size_t at = 0; at < text.size_bytes;) {
        char byte = text.text[at];
        if (json->passed_depth != 0) {
            at = pass_over(json, text, at);
        } else if (byte == '"' || byte == '\'') {
            at = walk_string(json, text, at);
        } else if (vw__ascii_is_digit(byte)) {
            at = walk_number(json, text, at);
        } else if (vw__ascii_is_letter(byte)) { /* true, None, tensor(...): with its digits */
            while (vw__line_is_letter(text, at) || vw__line_is_digit(text, at))
                at++;
        } else {
            if (byte == '{' || byte == '[')
                open_bracket(json, byte == '[');
            else if (byte == '}' || byte == ']')
                close_bracket(json);
            else if (byte == ',')
                json->key.size_bytes = 0;
            at++;
        }
    }
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* The header is the only line that says what the numbers are. It is a line of names, one of them
 * memory's, and no number among them; whatever separator makes it so is the table's. Rows have as
 * many cells as the header, and a number where memory should be. */

enum {
    MOST_MISSES = 64,         /* lines between two rows */
    MOST_STEPLESS_MISSES = 2, /* the same in a table without steps */
    MOST_CELL_BYTES = 96      /* a longer one is prose */
};

static bool is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r';
}

static vw__line trimmed(vw__line cell)
{
    while (cell.size_bytes != 0 && is_space(cell.text[0])) {
        cell.text++;
        cell.size_bytes--;
    }
    while (cell.size_bytes != 0 && is_space(cell.text[cell.size_bytes - 1]))
        cell.size_bytes--;
    if (cell.size_bytes >= 2 && (cell.text[0] == '"' || cell.text[0] == '\'') &&
        cell.text[cell.size_bytes - 1] == cell.text[0])
        return (vw__line){cell.text + 1, cell.size_bytes - 2};
    return cell;
}

/* The next cell from `*at` on; false behind the last. */
static bool next_cell(vw__line line, char separator, size_t *at, vw__line *out)
{
    if (separator == ' ')
        *at = vw__line_skip(line, *at, is_space);
    if (*at > line.size_bytes || (*at == line.size_bytes && (separator == ' ' || separator == '|')))
        return false;
    size_t end = *at;
    char quote = '\0';
    for (; end < line.size_bytes; end++) {
        char byte = line.text[end];
        if (quote == '\0' && byte == '"' && separator != ' ')
            quote = '"';
        else if (quote != '\0' && byte == quote)
            quote = '\0';
        else if (quote == '\0' && separator != '\0' &&
                 (byte == separator || (separator == ' ' && is_space(byte))))
            break;
    }
    *out = trimmed((vw__line){line.text + *at, end - *at});
    *at = end + 1;
    return true;
}

static bool holds(vw__line line, char byte)
{
    return memchr(line.text, byte, line.size_bytes) != NULL;
}

static bool is_name(vw__line cell)
{
    return cell.size_bytes <= MOST_CELL_BYTES && !vw__line_is_digit(cell, 0) && !holds(cell, ':') &&
           !holds(cell, '=');
}

static bool read_columns(vw__step_log_table *table, const vw__step_log_words *words,
                         size_t header_bytes, char separator)
{
    bool has_memory = false, has_step = false;
    size_t at = 0, count = 0;
    vw__line name;
    const vw__line header = {table->header, header_bytes};
    while (next_cell(header, separator, &at, &name)) {
        if (count == VW__STEP_LOG_TABLE_MOST_COLUMNS || !is_name(name))
            return false;
        vw__step_log_field field = vw__step_log_field_of_name(words, name);
        field.may_be_rank = false;
        has_memory =
            has_memory || field.kind == VW__STEP_LOG_FIELD_ALLOCATED ||
            field.kind == VW__STEP_LOG_FIELD_RESERVED ||
            ((field.kind == VW__STEP_LOG_FIELD_HOST || field.kind == VW__STEP_LOG_FIELD_FREE) &&
             !field.needs_unit);
        has_step = has_step || field.kind == VW__STEP_LOG_FIELD_STEP ||
                   field.kind == VW__STEP_LOG_FIELD_EPOCH;
        table->columns[count++] = field;
    }
    table->separator = separator;
    table->column_count = count;
    table->miss_count = 0;
    table->has_step = has_step;
    table->most_misses = has_step ? MOST_MISSES : MOST_STEPLESS_MISSES;
    if (separator == ' ') /* prose has spaces, too */
        return has_memory && has_step;
    if (separator == '\0') /* and single words */
        return has_memory && table->columns[0].unit_bytes != 0;
    return has_memory && count > 1;
}

bool vw__step_log_table_read_header(vw__step_log_table *table, const vw__step_log_words *words,
                                    vw__line line)
{
    static const char separators[] = "\t,;| "; /* and last: none */
    if (line.size_bytes >= sizeof table->header || holds(line, ':') || holds(line, '='))
        return false; /* no name has those */
    memcpy(table->header, line.text, line.size_bytes);
    table->is_open = false;
    for (size_t i = 0; i < sizeof separators && !table->is_open; i++)
        if (separators[i] == '\0' || holds(line, separators[i]))
            table->is_open = read_columns(table, words, line.size_bytes, separators[i]);
    return table->is_open;
}

/* A cell that is nothing but a number; of n/m the first. */
static bool read_cell(vw__line cell, vw__line_number *out)
{
    if (!vw__line_is_digit(cell, 0))
        return false;
    *out = vw__line_number_read(cell, 0, true);
    return out->end == cell.size_bytes || cell.text[out->end] == '/';
}

static bool read_row(const vw__step_log_table *table, vw__line line, vw__step_log_sighting *out)
{
    size_t at = 0, count = 0;
    vw__line cell;
    vw__step_log_sighting_init(out);
    while (next_cell(line, table->separator, &at, &cell)) {
        if (count == table->column_count)
            return false;
        const vw__step_log_field *field = &table->columns[count++];
        vw__line_number number;
        if (field->kind > VW__STEP_LOG_FIELD_OTHER && read_cell(cell, &number))
            vw__step_log_sighting_offer(out, field, &number);
    }
    return count == table->column_count && vw__step_log_sighting_has_memory(out) &&
           (out->step_weight != 0 || !table->has_step);
}

bool vw__step_log_table_read_row(vw__step_log_table *table, vw__line line,
                                 vw__step_log_sighting *out)
{
    if (!table->is_open)
        return false;
    if (read_row(table, line, out)) {
        table->miss_count = 0;
        return true;
    }
    table->is_open = ++table->miss_count < table->most_misses;
    return false;
}
