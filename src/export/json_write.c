/* json_write.c - commas, escapes, and numbers that every reader takes for the same number. */
#include "export/json_write.h"

#include <inttypes.h>
#include <math.h> /* isfinite */
#include <string.h>

#include "base/c_locale.h"
#include "base/utf8.h"

void vw__json_init(vw__json *json, vw__byte_buffer *buffer)
{
    *json = (vw__json){.buffer = buffer};
}

/* ---- strings --------------------------------------------------------------------------------- */

/* The escape of a character that steers, a quotation mark or a backslash. */
static void append_escaped(vw__byte_buffer *buffer, unsigned character)
{
    static const char *const short_forms[] = {
        ['\b'] = "\\b", ['\t'] = "\\t", ['\n'] = "\\n",  ['\f'] = "\\f",
        ['\r'] = "\\r", ['"'] = "\\\"", ['\\'] = "\\\\",
    };
    if (character < sizeof short_forms / sizeof short_forms[0] && short_forms[character] != NULL)
        vw__append_text(buffer, short_forms[character]);
    else if (character < 0x10000)
        vw__append_format(buffer, "\\u%04x", character);
    else
        vw__append_format(buffer, "\\u%04x\\u%04x", 0xD800 + ((character - 0x10000) >> 10),
                          0xDC00 + ((character - 0x10000) & 0x3FF));
}

/* Runs of plain characters are appended whole: most strings are one run. */
static void append_string(vw__byte_buffer *buffer, const char *bytes, size_t size_bytes)
{
    size_t run_start = 0, at = 0;
    vw__append_bytes(buffer, "\"", 1);
    while (at < size_bytes) {
        uint32_t character = 0;
        size_t length = vw__utf8_next(bytes + at, size_bytes - at, &character);
        bool is_plain = character != '"' && character != '\\' && character != VW__UTF8_INVALID &&
                        !vw__utf8_is_steering(character);
        if (!is_plain) {
            vw__append_bytes(buffer, bytes + run_start, at - run_start);
            if (character == VW__UTF8_INVALID)
                vw__append_text(buffer, "\xEF\xBF\xBD"); /* U+FFFD, the replacement character */
            else
                append_escaped(buffer, character);
            run_start = at + length;
        }
        at += length;
    }
    vw__append_bytes(buffer, bytes + run_start, size_bytes - run_start);
    vw__append_bytes(buffer, "\"", 1);
}

/* ---- nesting --------------------------------------------------------------------------------- */

/* What stands before a value: the comma after the one before it, and its key. */
static void begin_value(vw__json *json, const char *key)
{
    if (json->needs_comma[json->depth])
        vw__append_text(json->buffer, ", ");
    json->needs_comma[json->depth] = true;
    if (key != NULL) {
        append_string(json->buffer, key, strlen(key));
        vw__append_text(json->buffer, ": ");
    }
}

static void begin_nested(vw__json *json, const char *key, const char *opening)
{
    begin_value(json, key);
    vw__append_text(json->buffer, opening);
    if (json->depth + 1 >= VW__JSON_DEEPEST) {
        json->buffer->has_failed = true; /* what follows would not nest as it should */
        return;
    }
    json->depth++;
    json->needs_comma[json->depth] = false;
}

static void end_nested(vw__json *json, const char *closing)
{
    vw__append_text(json->buffer, closing);
    if (json->depth > 0)
        json->depth--;
}

void vw__json_begin_object(vw__json *json, const char *key)
{
    begin_nested(json, key, "{");
}

void vw__json_end_object(vw__json *json)
{
    end_nested(json, "}");
}

void vw__json_begin_array(vw__json *json, const char *key)
{
    begin_nested(json, key, "[");
}

void vw__json_end_array(vw__json *json)
{
    end_nested(json, "]");
}

/* ---- values ---------------------------------------------------------------------------------- */

void vw__json_text(vw__json *json, const char *key, const char *text)
{
    if (text == NULL)
        vw__json_null(json, key);
    else
        vw__json_bytes(json, key, text, strlen(text));
}

void vw__json_bytes(vw__json *json, const char *key, const char *bytes, size_t size_bytes)
{
    begin_value(json, key);
    append_string(json->buffer, bytes, size_bytes);
}

void vw__json_unsigned(vw__json *json, const char *key, uint64_t number)
{
    begin_value(json, key);
    vw__append_format(json->buffer, "%" PRIu64, number);
}

void vw__json_known(vw__json *json, const char *key, uint64_t number)
{
    if (number == UINT64_MAX)
        vw__json_null(json, key);
    else
        vw__json_unsigned(json, key, number);
}

void vw__json_integer(vw__json *json, const char *key, int64_t number)
{
    begin_value(json, key);
    vw__append_format(json->buffer, "%" PRId64, number);
}

void vw__json_double(vw__json *json, const char *key, double number)
{
    char text[VW__C_LOCALE_NUMBER_BYTES];
    if (!isfinite(number)) {
        vw__json_null(json, key);
        return;
    }
    begin_value(json, key);
    vw__append_text(json->buffer, vw__c_locale_number(text, number, 15));
}

void vw__json_boolean(vw__json *json, const char *key, bool is_true)
{
    begin_value(json, key);
    vw__append_text(json->buffer, is_true ? "true" : "false");
}

void vw__json_null(vw__json *json, const char *key)
{
    begin_value(json, key);
    vw__append_text(json->buffer, "null");
}

void vw__json_ready(vw__json *json, const char *key, const char *bytes, size_t size_bytes)
{
    begin_value(json, key);
    vw__append_bytes(json->buffer, bytes, size_bytes);
}
