/* step_log_json.c - objects that name memory, wherever they stand.
 *
 * JSON lines, an array in one line or over many, a dict that Python printed inside a log line, a
 * whole file with the steps somewhere in it: all are objects with a step and memory in them. So
 * nothing is parsed into a tree, and nothing is demanded of the text around: a walk over brackets
 * and names keeps, for every open object, what was sighted in it. An object without a step of its
 * own hands what it has to the one around it ({"step": 5, "memory": {"allocated": ...}}). */
#include "format/step_log_lines.h"

#include <string.h>

#include "base/ascii.h"

void vw__step_json_reset(vw__step_json *json)
{
    json->depth = json->passed_depth = 0;
    json->key.size_bytes = 0;
}

void vw__step_json_init(vw__step_json *json, vw__sighting_sink sink, vw__object_filter filter,
                        void *sink_context)
{
    *json = (vw__step_json){.sink = sink, .filter = filter, .sink_context = sink_context};
}

/* ---- brackets -------------------------------------------------------------------------------- */

/* The innermost open one; NULL outside, and too deep. */
static vw__step_json_frame *innermost(vw__step_json *json)
{
    return json->depth != 0 && json->depth <= VW__STEP_JSON_MOST_DEPTH
               ? &json->frames[json->depth - 1]
               : NULL;
}

static void open_bracket(vw__step_json *json, bool is_list)
{
    const vw__step_json_frame *around = innermost(json);
    json->depth++;
    if (!is_list && around != NULL && around->is_list && json->filter(json->sink_context)) {
        json->passed_depth = json->depth;
        return;
    }
    vw__step_json_frame *frame = innermost(json);
    if (frame != NULL) {
        vw__sighting_init(&frame->sighting);
        frame->key = json->key;
        frame->is_list = is_list;
    }
    json->key.size_bytes = 0;
}

static void close_bracket(vw__step_json *json)
{
    vw__step_json_frame *closed = innermost(json);
    if (json->depth == 0)
        return;
    json->depth--;
    json->key.size_bytes = 0;
    if (closed == NULL || closed->is_list)
        return;
    vw__step_json_frame *around = innermost(json);
    bool has_memory = vw__sighting_has_memory(&closed->sighting);
    bool is_alone = around == NULL || around->is_list;
    if (has_memory && (closed->sighting.step_weight != 0 || is_alone))
        json->sink(json->sink_context, &closed->sighting);
    else if (!is_alone)
        vw__sighting_merge(&around->sighting, &closed->sighting);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void offer(vw__step_json *json, const vw__written_number *number)
{
    vw__step_json_frame *frame = innermost(json);
    if (frame != NULL && !frame->is_list && json->key.size_bytes != 0) {
        char name[2 * VW__STEP_JSON_KEY_BYTES + 1];
        size_t size = frame->key.size_bytes;
        memcpy(name, frame->key.text, size);
        if (size != 0)
            name[size++] = '/';
        memcpy(name + size, json->key.text, json->key.size_bytes);
        vw__field field = vw__field_of_name(name, size + json->key.size_bytes);
        vw__sighting_offer(&frame->sighting, &field, number);
    }
    json->key.size_bytes = 0;
}

/* "3.21 GB" as a string. */
static void offer_text(vw__step_json *json, const char *text, size_t size)
{
    if (size == 0 || !vw__ascii_is_digit(text[0]))
        return;
    vw__written_number number = vw__read_number(text, size, true);
    if (number.size_bytes == size)
        offer(json, &number);
}

/* At a quote. Returns where the string ends. */
static size_t walk_string(vw__step_json *json, const char *text, size_t size, size_t at)
{
    char quote = text[at];
    size_t begin = ++at;
    while (at < size && text[at] != quote)
        at += text[at] == '\\' ? 2 : 1;
    size_t end = at < size ? at : size;
    at = end < size ? end + 1 : size;
    size_t colon = at;
    while (colon < size && (text[colon] == ' ' || text[colon] == '\t'))
        colon++;
    if (colon < size && text[colon] == ':') {
        size_t length =
            end - begin < VW__STEP_JSON_KEY_BYTES ? end - begin : VW__STEP_JSON_KEY_BYTES;
        memcpy(json->key.text, text + begin, length);
        json->key.size_bytes = length;
        return colon + 1;
    }
    offer_text(json, text + begin, end - begin);
    json->key.size_bytes = 0;
    return at;
}

static size_t walk_number(vw__step_json *json, const char *text, size_t size, size_t at)
{
    vw__written_number number = vw__read_number(text + at, size - at, false);
    if (at != 0 && text[at - 1] == '-')
        number.is_other = true;
    offer(json, &number);
    return at + number.size_bytes;
}

/* Within an object that is left out, brackets and strings are all that counts. */
static size_t pass_over(vw__step_json *json, const char *text, size_t size, size_t at)
{
    static const bool counts[256] = {
        ['{'] = true, ['['] = true, ['}'] = true, [']'] = true, ['"'] = true, ['\''] = true};
    for (; at < size; at++) {
        char byte = text[at];
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
            for (at++; at < size && text[at] != byte; at++)
                at += text[at] == '\\';
        }
    }
    return size;
}

void vw__step_json_walk(vw__step_json *json, const char *text, size_t size_bytes)
{
    for (size_t at = 0; at < size_bytes;) {
        char byte = text[at];
        if (json->passed_depth != 0) {
            at = pass_over(json, text, size_bytes, at);
        } else if (byte == '"' || byte == '\'') {
            at = walk_string(json, text, size_bytes, at);
        } else if (vw__ascii_is_digit(byte)) {
            at = walk_number(json, text, size_bytes, at);
        } else if (vw__ascii_is_letter(byte)) { /* true, None, tensor(...): with its digits */
            while (at < size_bytes && (vw__ascii_is_letter(text[at]) || vw__ascii_is_digit(text[at])))
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
