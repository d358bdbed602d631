/* step_log_text.c - a line as a person prints it.
 *
 * A name stands before its number (`mem 3.21GB`, `max_mem: 3287M`, `GPU memory allocated = 3.21`)
 * or behind it (`3.21 GB allocated`). So the line is read from number to number: the words since
 * the last one are the name, and where they say nothing, those up to the next one. What is written
 * n/m is a step of so many where no name says otherwise, unless it is a date.
 *
 * A number with nothing but GB behind it (`step 50: 3.21 GB`) is memory only in a line that has a
 * step and, from there on, no words but those of training: `step 50: read 3.21 GB` is not, nor is
 * the size of a checkpoint. */
#include "parse/step_log_internal.h"

#include <string.h>

enum {
    MOST_LINE_BYTES = 4096,
    MOST_NAME_BYTES = 96,          /* of the words before a number, the last of them */
    BAR_WEIGHT = 5,                /* of a progress bar's n/m, below a step that is called so */
    FRACTION_WEIGHT = 4,           /* any other n/m */
    WORDS_WEIGHT = 3,              /* n/m with words before it, `50 steps` */
    UNIT_WEIGHT = 1,               /* nothing but GB */
    LEAST_COUNT_OF_BYTES = 1 << 20 /* a number this large is bytes without saying so */
};

typedef struct text_reader {
    const vw__step_log_words *words;
    vw__line line;
    size_t at;
    size_t name_begin;
    vw__step_log_sighting *sighting;
    vw__step_log_field last_field; /* of the last number */
    bool last_lacked_unit;         /* memory, and no unit: a number with one may follow */
    bool is_awaited;               /* `memory at the end of step 3:`, and its figure comes next */
    size_t step_begin;             /* of the first number that may be a step; SIZE_MAX */
} text_reader;

/* Memory that is a series of its own. */
static bool is_apart(const vw__step_log_field *field)
{
    return field->kind == VW__STEP_LOG_FIELD_HOST || field->kind == VW__STEP_LOG_FIELD_FREE;
}

static char byte_at(const text_reader *reader, size_t at)
{
    return vw__line_at(reader->line, at);
}

static size_t skip_blanks(const text_reader *reader, size_t at)
{
    return vw__line_skip_blanks(reader->line, at);
}

static vw__step_log_field field_between(const text_reader *reader, size_t begin, size_t end)
{
    return vw__step_log_field_of_name(reader->words,
                                      (vw__line){reader->line.text + begin, end - begin});
}

static vw__step_log_field field_before(const text_reader *reader)
{
    size_t begin = reader->name_begin;
    if (reader->at - begin > MOST_NAME_BYTES)
        begin = reader->at - MOST_NAME_BYTES;
    return field_between(reader, begin, reader->at);
}

/* ---- n/m ------------------------------------------------------------------------------------- */

typedef struct fraction {
    vw__line_number first, second;
    bool is_fraction;
    bool is_date;
    size_t end;
} fraction;

static bool is_clock(const text_reader *reader, size_t at)
{
    size_t digits = vw__line_skip_digits(reader->line, at);
    return digits > at && digits <= at + 2 && byte_at(reader, digits) == ':' &&
           vw__line_is_digit(reader->line, digits + 1);
}

static fraction read_fraction(const text_reader *reader)
{
    fraction read = {0};
    read.first = vw__line_number_read(reader->line, reader->at, true);
    read.end = read.first.end;
    size_t slash = skip_blanks(reader, read.end);
    size_t second = skip_blanks(reader, slash + 1);
    if (byte_at(reader, slash) != '/' || !vw__line_is_digit(reader->line, second))
        return read;
    read.second = vw__line_number_read(reader->line, second, true);
    read.is_fraction = true;
    read.end = read.second.end;
    size_t behind = skip_blanks(reader, read.end);
    read.is_date =
        (byte_at(reader, read.end) == '/' && vw__line_is_digit(reader->line, read.end + 1)) ||
        is_clock(reader, behind);
    return read;
}

static bool is_step_fraction(const fraction *read)
{
    return read->is_fraction && !read->is_date && read->first.is_whole && read->second.is_whole &&
           read->first.unit_bytes == 0 && read->second.unit_bytes == 0 && !read->first.is_other &&
           !read->second.is_other && read->first.value <= read->second.value;
}

/* ---- names behind the number ----------------------------------------------------------------- */

typedef struct words_behind {
    vw__step_log_field field;
    size_t end;
    bool are_next_name; /* a colon or a number follows: perhaps they name that */
    bool is_named;      /* a colon does: certainly */
} words_behind;

static words_behind read_behind(const text_reader *reader, size_t at)
{
    size_t begin = at;
    while (at < reader->line.size_bytes && at - begin < MOST_NAME_BYTES &&
           (vw__ascii_is_letter(reader->line.text[at]) ||
            memchr(" \t_-", reader->line.text[at], 4) != NULL))
        at++;
    char next = byte_at(reader, at);
    words_behind words = {.field = field_between(reader, begin, at), .end = at};
    words.is_named = next == ':' || next == '=';
    words.are_next_name = words.is_named || vw__ascii_is_digit(next) || next == '(' || next == '[';
    return words;
}

/* `50 steps`, and no rate. */
static bool is_count_of_steps(const text_reader *reader, size_t at)
{
    size_t begin = skip_blanks(reader, at), end = vw__line_skip_letters(reader->line, begin);
    char next = byte_at(reader, skip_blanks(reader, end));
    return end > begin && next != '/' && next != ':' && next != '=' && !vw__ascii_is_digit(next) &&
           field_between(reader, begin, end).kind == VW__STEP_LOG_FIELD_STEP;
}

/* ---- a number -------------------------------------------------------------------------------- */

static void offer_step(text_reader *reader, const vw__line_number *number, int weight)
{
    vw__step_log_field field = vw__step_log_field_nameless(VW__STEP_LOG_FIELD_STEP, weight);
    vw__step_log_sighting_offer(reader->sighting, &field, number);
}

/* A number without a name of memory before it, but with a unit of bytes. */
static void take_nameless(text_reader *reader, const fraction *read, const vw__line_number *number,
                          vw__step_log_field_kind before)
{
    words_behind words = read_behind(reader, read->end);
    if (reader->last_lacked_unit && before == VW__STEP_LOG_FIELD_NONE) { /* `memory [0]: 3.21 GB` */
        vw__step_log_sighting_offer(reader->sighting, &reader->last_field, number);
        return;
    }
    if (!words.is_named && (vw__step_log_field_is_memory(&words.field) || is_apart(&words.field))) {
        vw__step_log_sighting_offer(reader->sighting, &words.field, number);
        reader->at = words.end; /* they are not the next number's */
        return;
    }
    bool is_something_else = words.field.kind == VW__STEP_LOG_FIELD_OTHER && !words.are_next_name;
    bool is_ambiguous = number->has_letter_unit && number->unit_bytes != 1024.0 * 1024.0 * 1024.0;
    if (before != VW__STEP_LOG_FIELD_NONE || read->is_fraction || is_something_else || is_ambiguous)
        return;
    vw__step_log_field field =
        vw__step_log_field_nameless(VW__STEP_LOG_FIELD_ALLOCATED, UNIT_WEIGHT);
    vw__step_log_sighting_offer(reader->sighting, &field, number);
}

static void take_named(text_reader *reader, const fraction *read, const vw__step_log_field *field,
                       const vw__line_number *number)
{
    if (vw__step_log_field_is_memory(field) || is_apart(field)) {
        words_behind words = read_behind(reader, read->end);
        if (words.field.kind == VW__STEP_LOG_FIELD_OTHER && !words.are_next_name)
            return; /* `GPU memory: 3.2 GB free` */
        reader->last_lacked_unit = number->unit_bytes == 0 && field->unit_bytes == 0;
        reader->last_field = *field;
    }
    vw__step_log_sighting_offer(reader->sighting, field, number);
}

/* `[trainer.on_step_end:125]`, `(train.py:31)`: the line of a program, whatever the name. */
static bool is_reference(const text_reader *reader)
{
    size_t end = reader->at - 1, begin, component;
    if (reader->at < 2 || reader->line.text[end] != ':')
        return false;
    for (begin = component = end; begin != 0; begin--) {
        char byte = reader->line.text[begin - 1];
        if (byte == '.' && component == end)
            component = begin;
        if (!vw__ascii_is_name(byte) && byte != '.')
            break;
    }
    if (end - begin > 3 && memcmp(reader->line.text + begin, "on_", 3) == 0)
        return true;
    return component != end && component != begin && field_between(reader, component, end).has_more;
}

/* The last word before the number is a step, whatever the name begins with: `GPU memory at the end
 * of step 3: 3102`. What it begins with is then the next number's name. */
static bool take_step_of_memory(text_reader *reader, const vw__step_log_field *field,
                                const vw__line_number *number, size_t begin)
{
    size_t end = begin;
    while (end > reader->name_begin && !vw__ascii_is_letter(reader->line.text[end - 1]))
        end--;
    size_t word = end;
    while (word > reader->name_begin && vw__ascii_is_letter(reader->line.text[word - 1]))
        word--;
    if (!number->is_whole || number->unit_bytes != 0 || word == reader->name_begin ||
        reader->line.text[word - 1] != ' ' || end - word == 0)
        return false;
    vw__step_log_field step = field_between(reader, word, end);
    if (step.kind != VW__STEP_LOG_FIELD_STEP && step.kind != VW__STEP_LOG_FIELD_EPOCH)
        return false;
    vw__step_log_sighting_offer(reader->sighting, &step, number);
    reader->last_field = *field;
    reader->is_awaited = true;
    return true;
}

/* At a digit. */
static void take_number(text_reader *reader)
{
    fraction read = read_fraction(reader);
    vw__line_number number = read.first;
    size_t begin = reader->at;
    bool lacked_unit = reader->last_lacked_unit, was_awaited = reader->is_awaited;
    bool had_step = reader->sighting->step_weight != 0;
    reader->is_awaited = false;
    if (read.is_fraction && number.unit_bytes == 0) { /* 3.21/24.00 GB */
        number.unit_bytes = read.second.unit_bytes;
        number.has_letter_unit = read.second.has_letter_unit;
        number.is_other = number.is_other || read.second.is_other;
    }
    if (begin != 0 && reader->line.text[begin - 1] == '-' &&
        (begin == 1 || !(vw__ascii_is_letter(reader->line.text[begin - 2]) ||
                         vw__ascii_is_digit(reader->line.text[begin - 2]))))
        number.is_other = true; /* negative */
    vw__step_log_field field = {.device = -1};
    if (!read.is_date && (!number.is_other || number.is_percent))
        field = field_before(reader);
    bool points_at_line = !read.is_date && is_reference(reader);
    reader->at = read.end;
    if (points_at_line) {
        reader->at = read.first.end;
    } else if (number.is_percent && !read.is_fraction) {
        vw__step_log_sighting_offer(reader->sighting, &field, &number);
        reader->at = read.first.end;
    } else if (read.is_date || number.is_other) {
        if (!read.is_date && !read.is_fraction)
            reader->at = read.first.end;
    } else if (field.kind == VW__STEP_LOG_FIELD_ALLOCATED && field.name.size_bytes == 0) {
        /* `3 * GB, 4`: the unit belongs to what came before */
    } else if (was_awaited && field.kind == VW__STEP_LOG_FIELD_NONE && !read.is_fraction) {
        vw__step_log_sighting_offer(reader->sighting, &reader->last_field, &number);
    } else if (vw__step_log_field_is_memory(&field) &&
               take_step_of_memory(reader, &field, &number, begin)) {
        /* its figure comes next */
    } else if (field.kind == VW__STEP_LOG_FIELD_NONE || field.kind == VW__STEP_LOG_FIELD_UNKNOWN) {
        bool is_bar =
            byte_at(reader, skip_blanks(reader, read.end)) == '[' ||
            memchr(reader->line.text + reader->name_begin, '|', begin - reader->name_begin) != NULL;
        if (is_step_fraction(&read))
            offer_step(reader, &number,
                       field.kind == VW__STEP_LOG_FIELD_UNKNOWN ? WORDS_WEIGHT
                       : is_bar                                 ? BAR_WEIGHT
                                                                : FRACTION_WEIGHT);
        else if (number.unit_bytes != 0)
            take_nameless(reader, &read, &number, field.kind);
        else if (number.is_whole && is_count_of_steps(reader, read.end))
            offer_step(reader, &number, WORDS_WEIGHT);
    } else {
        take_named(reader, &read, &field, &number);
    }
    if (!had_step && reader->sighting->step_weight != 0)
        reader->step_begin = begin;
    if (lacked_unit && reader->last_lacked_unit)
        reader->last_lacked_unit = false; /* only for the number right behind */
    reader->name_begin = reader->at;
}

/* ---- the line -------------------------------------------------------------------------------- */

/* At a letter. Digits behind letters belong to the word (A100, fp16), but for step50 and gpu0. */
static void take_word(text_reader *reader)
{
    size_t begin = reader->at;
    reader->at = vw__line_skip_letters(reader->line, begin);
    if (!vw__line_is_digit(reader->line, reader->at))
        return;
    vw__step_log_field field = field_between(reader, begin, reader->at);
    if (field.kind == VW__STEP_LOG_FIELD_STEP || field.kind == VW__STEP_LOG_FIELD_EPOCH ||
        field.kind == VW__STEP_LOG_FIELD_RANK || field.may_be_rank)
        return;
    while (vw__line_is_letter(reader->line, reader->at) ||
           vw__line_is_digit(reader->line, reader->at))
        reader->at++;
}

/* Does a name end here? A bar may stand between a unit and its names:
 * `memory (MB) | allocated: 3287`. */
static bool is_separator(const text_reader *reader)
{
    char byte = reader->line.text[reader->at];
    char next = byte_at(reader, reader->at + 1);
    if (byte == ',' || byte == ';')
        return true;
    if (byte == '.')
        return next == ' ';
    if (byte == '-')
        return next == ' ' && reader->at != 0 && reader->line.text[reader->at - 1] == ' ';
    if (byte != '|')
        return false;
    vw__step_log_field field = field_before(reader);
    return field.kind != VW__STEP_LOG_FIELD_NONE &&
           !(vw__step_log_field_is_memory(&field) && field.unit_bytes != 0);
}

/* A line that is a size and nothing else, as nvidia-smi prints it. */
static bool read_bare(vw__line line, vw__step_log_sighting *out)
{
    if (!vw__line_is_digit(line, 0))
        return false;
    vw__line_number number = vw__line_number_read(line, 0, false);
    if (number.end != line.size_bytes || number.unit_bytes <= 1 || number.has_letter_unit)
        return false;
    vw__step_log_field field =
        vw__step_log_field_nameless(VW__STEP_LOG_FIELD_ALLOCATED, UNIT_WEIGHT);
    vw__step_log_sighting_offer(out, &field, &number);
    out->is_bare = out->memory[VW__STEP_LOG_OF_CARD].weight != 0;
    return out->is_bare;
}

static bool is_only_unit(const vw__step_log_sighting *sighting)
{
    return sighting->memory[VW__STEP_LOG_OF_CARD].weight <= 2 * UNIT_WEIGHT + 1 &&
           sighting->memory[VW__STEP_LOG_OF_RESERVED].weight == 0;
}

static bool has_unit(const vw__step_log_sighting *sighting, vw__step_log_memory kind)
{
    return sighting->memory[kind].unit_bytes != 0;
}

/* Drops a size without a name if the words around the step are about something else. */
static void weigh_talk(const text_reader *reader, bool is_asked, vw__step_log_sighting *out)
{
    enum { NAMED_STEP_WEIGHT = 6 };
    vw__step_log_reading *card = &out->memory[VW__STEP_LOG_OF_CARD];
    bool is_nameless = card->weight != 0 && is_only_unit(out);
    if (out->step_weight == 0 || !(is_nameless || is_asked))
        return;
    vw__line line = reader->line;
    size_t begin = reader->step_begin;
    vw__step_log_talk before = vw__step_log_talk_of(reader->words, (vw__line){line.text, begin});
    vw__step_log_talk behind =
        vw__step_log_talk_of(reader->words, (vw__line){line.text + begin, line.size_bytes - begin});
    if (is_nameless &&
        (before == VW__STEP_LOG_TALK_OF_FILES || behind > VW__STEP_LOG_TALK_OF_STEPS))
        card->weight = 0;
    out->is_plain =
        out->step_weight >= NAMED_STEP_WEIGHT &&
        (has_unit(out, VW__STEP_LOG_OF_CARD) || has_unit(out, VW__STEP_LOG_OF_RESERVED) ||
         has_unit(out, VW__STEP_LOG_OF_HOST)) &&
        before <= VW__STEP_LOG_TALK_OF_MEMORY && behind <= VW__STEP_LOG_TALK_OF_MEMORY;
}

/* Without a step only what is said to be bytes counts: prose has memory and numbers, too. */
static void weigh_stepless(vw__step_log_sighting *out)
{
    vw__step_log_reading *card = &out->memory[VW__STEP_LOG_OF_CARD],
                         *host = &out->memory[VW__STEP_LOG_OF_HOST];
    bool is_bytes = has_unit(out, VW__STEP_LOG_OF_CARD) ||
                    has_unit(out, VW__STEP_LOG_OF_RESERVED) || card->value >= LEAST_COUNT_OF_BYTES;
    if (is_only_unit(out) || !is_bytes)
        card->weight = out->memory[VW__STEP_LOG_OF_RESERVED].weight = 0;
    if (host->unit_bytes == 0 && host->value < LEAST_COUNT_OF_BYTES)
        host->weight = 0;
    out->memory[VW__STEP_LOG_OF_FREE].weight = out->memory[VW__STEP_LOG_OF_SHARE].weight = 0;
}

bool vw__step_log_text_read(const vw__step_log_words *words, vw__line line, bool is_asked,
                            vw__step_log_sighting *out)
{
    text_reader reader = {.words = words, .line = line, .sighting = out, .step_begin = SIZE_MAX};
    vw__step_log_sighting_init(out);
    if (read_bare(line, out))
        return true;
    if (line.size_bytes > MOST_LINE_BYTES)
        reader.line.size_bytes = MOST_LINE_BYTES;
    while (reader.at < reader.line.size_bytes) {
        if (vw__line_is_digit(line, reader.at)) {
            take_number(&reader);
        } else if (vw__line_is_letter(line, reader.at)) {
            take_word(&reader);
        } else {
            if (is_separator(&reader))
                reader.name_begin = reader.at + 1;
            reader.at++;
        }
    }
    weigh_talk(&reader, is_asked, out);
    if (out->step_weight == 0)
        weigh_stepless(out);
    return vw__step_log_sighting_has_memory(out);
}
