/* step_log_table.c - tables with a header: CSV, TSV, columns of spaces, what nvidia-smi writes.
 *
 * The header is the only line that says what the numbers are. It is a line of names, one of them
 * memory's, and no number among them; whatever separator makes it so is the table's. Rows have as
 * many cells as the header, and a number where memory should be. */
#include "format/step_log_lines.h"

#include <string.h>

#include "base/ascii.h"

enum {
    MOST_MISSES = 64,         /* lines between two rows */
    MOST_STEPLESS_MISSES = 2, /* the same in a table without steps */
    MOST_CELL_BYTES = 96      /* a longer one is prose */
};

typedef struct cell {
    const char *text;
    size_t size;
} cell;

static bool is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r';
}

static cell trimmed(const char *text, size_t size)
{
    while (size != 0 && is_space(text[0])) {
        text++;
        size--;
    }
    while (size != 0 && is_space(text[size - 1]))
        size--;
    if (size >= 2 && (text[0] == '"' || text[0] == '\'') && text[size - 1] == text[0])
        return (cell){text + 1, size - 2};
    return (cell){text, size};
}

/* The next cell from `*at` on; false behind the last. */
static bool next_cell(const char *line, size_t size, char separator, size_t *at, cell *out)
{
    if (separator == ' ')
        while (*at < size && is_space(line[*at]))
            ++*at;
    if (*at > size || (*at == size && (separator == ' ' || separator == '|')))
        return false;
    size_t end = *at;
    char quote = '\0';
    for (; end < size; end++) {
        if (quote == '\0' && line[end] == '"' && separator != ' ')
            quote = '"';
        else if (quote != '\0' && line[end] == quote)
            quote = '\0';
        else if (quote == '\0' && separator != '\0' &&
                 (line[end] == separator || (separator == ' ' && is_space(line[end]))))
            break;
    }
    *out = trimmed(line + *at, end - *at);
    *at = end + 1;
    return true;
}

/* ---- the header ------------------------------------------------------------------------------ */

static bool is_name(cell name)
{
    if (name.size > MOST_CELL_BYTES || (name.size != 0 && vw__ascii_is_digit(name.text[0])))
        return false;
    return memchr(name.text, ':', name.size) == NULL && memchr(name.text, '=', name.size) == NULL;
}

static bool read_columns(vw__step_table *table, size_t header_bytes, char separator)
{
    bool has_memory = false, has_step = false;
    size_t at = 0, count = 0;
    cell name;
    while (next_cell(table->header, header_bytes, separator, &at, &name)) {
        if (count == VW__STEP_TABLE_MOST_COLUMNS || !is_name(name))
            return false;
        vw__field field = vw__field_of_name(name.text, name.size);
        field.may_be_rank = false;
        has_memory =
            has_memory || field.kind == VW__FIELD_ALLOCATED || field.kind == VW__FIELD_RESERVED ||
            ((field.kind == VW__FIELD_HOST || field.kind == VW__FIELD_FREE) && !field.needs_unit);
        has_step = has_step || field.kind == VW__FIELD_STEP || field.kind == VW__FIELD_EPOCH;
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

bool vw__step_table_read_header(vw__step_table *table, const char *line, size_t size_bytes)
{
    static const char separators[] = "\t,;| "; /* and last: none */
    if (size_bytes >= sizeof table->header || memchr(line, ':', size_bytes) != NULL ||
        memchr(line, '=', size_bytes) != NULL) /* no name has those */
        return false;
    memcpy(table->header, line, size_bytes);
    table->is_open = false;
    for (size_t i = 0; i < sizeof separators && !table->is_open; i++)
        if (separators[i] == '\0' || memchr(line, separators[i], size_bytes) != NULL)
            table->is_open = read_columns(table, size_bytes, separators[i]);
    return table->is_open;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* A cell that is nothing but a number; of n/m the first. */
static bool read_cell(cell text, vw__written_number *out)
{
    if (text.size == 0 || !vw__ascii_is_digit(text.text[0]))
        return false;
    *out = vw__read_number(text.text, text.size, true);
    return out->size_bytes == text.size || text.text[out->size_bytes] == '/';
}

static bool read_row(const vw__step_table *table, const char *line, size_t size, vw__sighting *out)
{
    size_t at = 0, count = 0;
    cell text;
    vw__sighting_init(out);
    while (next_cell(line, size, table->separator, &at, &text)) {
        if (count == table->column_count)
            return false;
        const vw__field *field = &table->columns[count++];
        vw__written_number number;
        if (field->kind > VW__FIELD_OTHER && read_cell(text, &number))
            vw__sighting_offer(out, field, &number);
    }
    return count == table->column_count && vw__sighting_has_memory(out) &&
           (out->step_weight != 0 || !table->has_step);
}

bool vw__step_table_read_row(vw__step_table *table, const char *line, size_t size_bytes,
                             vw__sighting *out)
{
    if (!table->is_open)
        return false;
    if (read_row(table, line, size_bytes, out)) {
        table->miss_count = 0;
        return true;
    }
    table->is_open = ++table->miss_count < table->most_misses;
    return false;
}
