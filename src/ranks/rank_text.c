/* rank_text.c - see rank_text.h. */
#include "ranks/rank_text.h"

#include <string.h>
#include <strings.h> /* strncasecmp */

#include "base/ascii.h"
#include "base/byte_buffer.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/human_units.h"
#include "parse/byte_source.h"
#include "parse/line.h"       /* vw__line_prefix */
#include "ranks/rank_files.h" /* vw__ranks_make_room */

enum {
    LOOKED_AT_BYTES = 64,
    DATE_BYTES = 19, /* "2026-03-01 12:00:00" */
    US_PER_SECOND = 1000000,
    SECONDS_PER_DAY = 86400,
};

/* `count` digits at `text`; -1 where they are not. */
static int digits(const char *text, size_t count)
{
    int value = 0;
    for (size_t i = 0; i < count; i++) {
        if (!vw__ascii_is_digit(text[i]))
            return -1;
        value = value * 10 + (text[i] - '0');
    }
    return value;
}

/* Days since 1970 in the Gregorian calendar, without asking the C library for a zone. A year is
 * counted from March, so that the day that may be missing is its last. */
static int64_t days_since_1970(int year, int month, int day)
{
    int64_t shifted = month <= 2 ? year - 1 : year;
    int64_t era = shifted / 400, year_of_era = shifted - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static bool read_seconds(const char *text, int64_t *seconds)
{
    int year = digits(text, 4), month = digits(text + 5, 2), day = digits(text + 8, 2);
    int hour = digits(text + 11, 2), minute = digits(text + 14, 2), second = digits(text + 17, 2);
    bool has_signs = (text[4] == '-' || text[4] == '/') && text[7] == text[4] &&
                     (text[10] == ' ' || text[10] == 'T') && text[13] == ':' && text[16] == ':';
    if (!has_signs || year < 1970 || month < 1 || month > 12 || day < 1 || day > 31 || hour < 0 ||
        hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60)
        return false;
    *seconds =
        days_since_1970(year, month, day) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second;
    return true;
}

/* ".123", ",123456": microseconds; further digits are left out. */
static int64_t read_fraction(const char *text, size_t size_bytes, size_t *at)
{
    int64_t unit = US_PER_SECOND, fraction = 0;
    if (*at + 1 >= size_bytes || (text[*at] != '.' && text[*at] != ',') ||
        !vw__ascii_is_digit(text[*at + 1]))
        return 0;
    for (++*at; *at < size_bytes && vw__ascii_is_digit(text[*at]); ++*at) {
        unit /= 10;
        fraction += unit * (text[*at] - '0');
    }
    return fraction;
}

/* "Z", "+01:00", "-0500" */
static bool read_zone(const char *text, size_t size_bytes, size_t at, int64_t *seconds)
{
    *seconds = 0;
    if (at < size_bytes && text[at] == 'Z')
        return true;
    if (at + 5 > size_bytes || (text[at] != '+' && text[at] != '-'))
        return false;
    size_t colon = text[at + 3] == ':';
    int hours = digits(text + at + 1, 2);
    int minutes = at + 5 + colon <= size_bytes ? digits(text + at + 3 + colon, 2) : -1;
    if (hours < 0 || hours > 14 || minutes < 0 || minutes > 59)
        return false;
    *seconds = (hours * 3600 + minutes * 60) * (text[at] == '-' ? -1 : 1);
    return true;
}

vw__ranks_log_time vw__ranks_log_time_of(const char *line, size_t size_bytes)
{
    if (size_bytes > LOOKED_AT_BYTES)
        size_bytes = LOOKED_AT_BYTES;
    for (size_t i = 0; i + DATE_BYTES <= size_bytes; i++) {
        int64_t seconds, east_seconds;
        if (!vw__ascii_is_digit(line[i]) || (i > 0 && vw__ascii_is_digit(line[i - 1])) ||
            !read_seconds(line + i, &seconds))
            continue;
        size_t at = i + DATE_BYTES;
        int64_t fraction_us = read_fraction(line, size_bytes, &at);
        bool has_zone = read_zone(line, size_bytes, at, &east_seconds);
        return (vw__ranks_log_time){(seconds - east_seconds) * US_PER_SECOND + fraction_us,
                                    has_zone};
    }
    return VW__RANKS_NO_LOG_TIME;
}

enum {
    MOST_LINE_BYTES = 64 << 10, /* a longer line is cut in pieces of so many */
    FEWEST_LABELLED_LINES = 2,
    NEAR_LINES = 2, /* the error's line, as the scanner counts, and where its words stand */
};

/* ---- the list -------------------------------------------------------------------------------- */

void vw__ranks_story_destroy(vw__ranks_story *story)
{
    if (story == NULL)
        return;
    vw__doctor_text_scan_destroy(story->scan);
    vw__host_free(story);
}

void vw__ranks_stories_deinit(vw__ranks_stories *stories)
{
    for (size_t i = 0; i < stories->count; i++)
        vw__ranks_story_destroy(stories->stories[i]);
    vw__host_free(stories->stories);
    *stories = (vw__ranks_stories){.stories = NULL, .limit_bytes = stories->limit_bytes};
}

static vw_status begin_story(uint64_t rank, vw__ranks_story **out)
{
    vw__ranks_story *story = vw__host_alloc_zeroed(1, sizeof *story);
    if (story == NULL)
        return vw__fail_host_memory(sizeof *story, "the text of a rank");
    vw_status status = vw__doctor_text_scan_create(&story->scan);
    if (status != VW_OK) {
        vw__host_free(story);
        return status;
    }
    story->rank = rank;
    story->time = VW__RANKS_NO_LOG_TIME;
    *out = story;
    return VW_OK;
}

static size_t place_of(const vw__ranks_stories *stories, uint64_t rank)
{
    size_t i = 0;
    while (i < stories->count && stories->stories[i]->rank != rank)
        i++;
    return i;
}

/* Counts what a story holds now. */
static vw_status count_held(vw__ranks_stories *stories, vw__ranks_story *story)
{
    char limit[VW__HUMAN_SIZE_BYTES];
    uint64_t held_bytes = sizeof *story + vw__doctor_text_scan_held_bytes(story->scan);
    stories->held_bytes += held_bytes - story->held_bytes;
    story->held_bytes = held_bytes;
    if (stories->limit_bytes == 0 || stories->held_bytes <= stories->limit_bytes)
        return VW_OK;
    return vw__fail(VW_ERR_UNSUPPORTED,
                    "what %zu ranks printed takes more than the %s that reading may take; "
                    "--max-memory allows more",
                    stories->count, vw__human_size(stories->limit_bytes, limit));
}

/* Returns the story of a rank; begins one if it has none. */
static vw_status get_story(vw__ranks_stories *stories, uint64_t rank, vw__ranks_story **out)
{
    size_t place = place_of(stories, rank);
    VW__TRY(vw__ranks_make_room((void **)&stories->stories, place, &stories->capacity,
                                sizeof(vw__ranks_story *)));
    if (place == stories->count) {
        VW__TRY(begin_story(rank, &stories->stories[place]));
        stories->count++;
        VW__TRY(count_held(stories, stories->stories[place]));
    }
    *out = stories->stories[place];
    return VW_OK;
}

static vw__ranks_story *take_at(vw__ranks_stories *stories, size_t place)
{
    vw__ranks_story *story = stories->stories[place];
    stories->stories[place] = stories->stories[--stories->count];
    stories->held_bytes -= story->held_bytes;
    return story;
}

vw__ranks_story *vw__ranks_stories_take(vw__ranks_stories *stories, uint64_t rank)
{
    size_t place = place_of(stories, rank);
    return place < stories->count ? take_at(stories, place) : NULL;
}

void vw__ranks_stories_forget(vw__ranks_stories *stories, const char *path)
{
    for (size_t i = stories->count; i-- > 0;)
        if (stories->stories[i]->first_path == path || stories->stories[i]->first_path == NULL)
            vw__ranks_story_destroy(take_at(stories, i));
}

/* ---- times ----------------------------------------------------------------------------------- */

static bool contains(const char *line, size_t size_bytes, const char *word)
{
    size_t length = strlen(word);
    for (size_t i = 0; i + length <= size_bytes; i++)
        if ((line[i] | 0x20) == word[0] && strncasecmp(line + i, word, length) == 0)
            return true;
    return false;
}

/* Could the scanner's report be on this line? Kept short: it only bounds what is remembered. */
static bool may_report(const char *line, size_t size_bytes)
{
    return contains(line, size_bytes, "memory") || contains(line, size_bytes, "alloc") ||
           contains(line, size_bytes, "killed");
}

static bool begins_with(const char *line, size_t size_bytes, const char *word)
{
    size_t length = strlen(word);
    return size_bytes >= length && memcmp(line, word, length) == 0;
}

/* What stands between the line that a logger wrote and the error at the end of its traceback. */
static bool is_of_traceback(const char *line, size_t size_bytes)
{
    return size_bytes == 0 || line[0] == ' ' || line[0] == '\t' || line[0] == '\r' ||
           begins_with(line, size_bytes, "Traceback ") ||
           begins_with(line, size_bytes, "During handling of") ||
           begins_with(line, size_bytes, "The above exception");
}

/* `label_bytes` of the line name a rank. */
static void note_time(vw__ranks_story *story, const char *line, size_t size_bytes,
                      size_t label_bytes)
{
    vw__ranks_log_time own = vw__ranks_log_time_of(line, size_bytes);
    if (own.time_us != INT64_MIN)
        story->time = own;
    if (story->time.time_us != INT64_MIN && story->time_count < VW__RANKS_STORY_MOST_TIMES &&
        may_report(line, size_bytes))
        story->times[story->time_count++] = (vw__ranks_story_time){story->line_count, story->time};
    if (own.time_us == INT64_MIN && !is_of_traceback(line + label_bytes, size_bytes - label_bytes))
        story->time = VW__RANKS_NO_LOG_TIME;
}

vw__ranks_log_time vw__ranks_story_time_of(const vw__ranks_story *story,
                                           const vw__error_text_report *report)
{
    vw__ranks_log_time found = VW__RANKS_NO_LOG_TIME;
    uint64_t nearest = NEAR_LINES + 1;
    for (size_t i = 0; i < story->time_count; i++) {
        uint64_t line = story->times[i].line;
        uint64_t away = line > report->line ? line - report->line : report->line - line;
        if (away < nearest) {
            nearest = away;
            found = story->times[i].time;
        }
    }
    return found;
}

/* ---- lines ----------------------------------------------------------------------------------- */

typedef struct reading {
    vw__ranks_stories *stories;
    vw__ranks_story_file *file;
    vw__ranks_story *story; /* of the line before: most go where that went */
    bool is_in_line;        /* the last piece did not end its line */
} reading;

/* What a launcher put in front of a line. */
typedef struct line_label {
    uint64_t rank;      /* VW_UNKNOWN: none that counts */
    size_t size_bytes;  /* of the label, where it is the first thing */
    size_t taken_bytes; /* of them not to be fed on: the scanners know the others themselves */
} line_label;

static line_label label_of(const vw__ranks_story_file *file, const char *line, size_t size_bytes)
{
    line_label label = {.rank = VW_UNKNOWN};
    vw__line_rank rank;
    if (!file->has_labels)
        return label;
    (void)vw__line_prefix(line, size_bytes, &rank);
    if (rank.rank < 0 || (rank.is_bare && !file->has_bare_labels))
        return label;
    label.rank = (uint64_t)rank.rank;
    const char *colon = memchr(line, ':', size_bytes);
    if (colon != NULL && (rank.is_bare || line[0] == '['))
        label.size_bytes = (size_t)(colon - line) + 1;
    if (label.size_bytes < size_bytes && label.size_bytes > 0 && line[label.size_bytes] == ' ')
        label.size_bytes++;
    label.taken_bytes = rank.is_bare ? label.size_bytes : 0;
    return label;
}

/* Labels could name any number of ranks. */
static bool has_room(const reading *at, uint64_t rank)
{
    return !at->file->has_labels || at->stories->count < VW__RANKS_MOST_STORIES ||
           place_of(at->stories, rank) < at->stories->count;
}

/* Makes the story of a rank the one that lines of this file go to; NULL: there is no room. */
static vw_status turn_to(reading *at, uint64_t rank)
{
    vw__ranks_story_file *file = at->file;
    if (at->story == NULL || at->story->rank != rank) {
        at->story = NULL;
        if (has_room(at, rank))
            VW__TRY(get_story(at->stories, rank, &at->story));
    }
    vw__ranks_story *story = at->story;
    if (story == NULL) {
        file->lost_count++;
    } else if (story->last_path != file->path) {
        story->first_path = story->first_path != NULL ? story->first_path : file->path;
        story->last_path = file->path;
        story->file_count++;
        story->time = VW__RANKS_NO_LOG_TIME;
        file->rank_count += rank != VW_UNKNOWN;
        file->last_rank = rank != VW_UNKNOWN ? rank : file->last_rank;
    }
    return VW_OK;
}

/* A line without its end; or a piece of one that is too long, of which the beginning says where all
 * of it goes. */
static vw_status take_line(reading *at, const char *line, size_t size_bytes, bool is_ended)
{
    line_label label = {.rank = VW_UNKNOWN};
    bool is_begun = at->is_in_line;
    if (!is_begun) {
        label = label_of(at->file, line, size_bytes);
        VW__TRY(turn_to(at, label.rank != VW_UNKNOWN ? label.rank : at->file->rank));
    }
    at->is_in_line = !is_ended;
    vw__ranks_story *story = at->story;
    if (story == NULL)
        return VW_OK;
    if (!is_begun) {
        story->line_count++;
        note_time(story, line, size_bytes, label.size_bytes);
    }
    VW__TRY(vw__doctor_text_scan_feed(story->scan, line + label.taken_bytes,
                                      size_bytes - label.taken_bytes));
    if (is_ended)
        VW__TRY(vw__doctor_text_scan_feed(story->scan, "\n", 1));
    return count_held(at->stories, story);
}

/* The lines that are whole in the window; how much of it that was. */
static vw_status take_lines(reading *at, const char *bytes, size_t size_bytes, size_t *taken_bytes)
{
    size_t begin = 0;
    const char *end;
    while (begin < size_bytes && (end = memchr(bytes + begin, '\n', size_bytes - begin)) != NULL) {
        VW__TRY(take_line(at, bytes + begin, (size_t)(end - bytes) - begin, true));
        begin = (size_t)(end - bytes) + 1;
    }
    *taken_bytes = begin;
    return VW_OK;
}

vw_status vw__ranks_stories_read(vw__ranks_stories *stories, vw__byte_source *source,
                                 vw__ranks_story_file *file)
{
    reading at = {.stories = stories, .file = file};
    if (file->rank != VW_UNKNOWN) /* an empty file is its rank's, too */
        VW__TRY(turn_to(&at, file->rank));
    for (;;) {
        const uint8_t *bytes;
        size_t size_bytes, taken_bytes;
        VW__TRY(vw__byte_source_peek(source, MOST_LINE_BYTES, &bytes, &size_bytes));
        if (size_bytes == 0)
            return at.is_in_line ? take_line(&at, "", 0, true) : VW_OK;
        VW__TRY(take_lines(&at, (const char *)bytes, size_bytes, &taken_bytes));
        if (taken_bytes == 0) { /* a line that does not end here */
            taken_bytes = size_bytes;
            VW__TRY(take_line(&at, (const char *)bytes, size_bytes, false));
        }
        vw__byte_source_take(source, taken_bytes);
    }
}

bool vw__ranks_has_bare_labels(const char *bytes, size_t size_bytes)
{
    size_t line_count = 0, labelled_count = 0;
    for (size_t begin = 0; begin < size_bytes;) {
        const char *end = memchr(bytes + begin, '\n', size_bytes - begin);
        size_t length = (end != NULL ? (size_t)(end - bytes) : size_bytes) - begin;
        vw__line_rank rank;
        (void)vw__line_prefix(bytes + begin, length, &rank);
        line_count += length > 0;
        labelled_count += rank.rank >= 0 && rank.is_bare;
        begin += length + 1;
    }
    return labelled_count >= FEWEST_LABELLED_LINES && labelled_count * 2 >= line_count;
}
