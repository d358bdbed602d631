/* run_news.c - messages in, what is known of each process out. */
#include "run_news.h"

#include <stdlib.h>
#include <string.h>

#include "arguments.h" /* arguments_read_number */

enum {
    MOST_PROCESSES = 65536, /* of which we keep account */
    MOST_TROUBLES = 64,     /* different ones that are said */
};

void run_news_init(run_news *news)
{
    memset(news, 0, sizeof *news);
}

void run_news_deinit(run_news *news)
{
    for (size_t i = 0; i < news->process_count; i++) {
        free(news->processes[i].failure);
        free(news->processes[i].error);
        free(news->processes[i].part);
        free(news->processes[i].file);
        free(news->processes[i].steps);
        free(news->processes[i].recording);
        free(news->processes[i].snapshot);
        free(news->processes[i].note);
    }
    for (size_t i = 0; i < news->trouble_count; i++)
        free(news->troubles[i]);
    free(news->processes);
    free(news->troubles);
    run_news_init(news);
}

/* ---- fields ---------------------------------------------------------------------------------- */

typedef struct message {
    const char *kind;
    const char *fields; /* after the kind */
    const char *end;
} message;

/* The field's value, or NULL. */
static const char *field(const message *given, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = given->fields; at < given->end; at += strlen(at) + 1)
        if (strncmp(at, name, length) == 0 && at[length] == '=')
            return at + length + 1;
    return NULL;
}

static uint64_t bytes_field(const message *given, const char *name)
{
    uint64_t number = RUN_NEWS_UNKNOWN;
    (void)arguments_read_number(field(given, name), &number);
    return number;
}

static long small_field(const message *given, const char *name)
{
    uint64_t number = bytes_field(given, name);
    return number > INT32_MAX ? -1 : (long)number;
}

/* The first word counts: what follows a failure is mostly the handling of it. */
static void keep_text(run_news *news, char **kept, const message *given, const char *name)
{
    const char *value = field(given, name);
    const size_t size_bytes = value != NULL ? strlen(value) + 1 : 0;
    if (*kept != NULL || value == NULL || size_bytes > RUN_NEWS_MOST_KEPT_BYTES - news->kept_bytes)
        return;
    *kept = strdup(value);
    news->kept_bytes += *kept != NULL ? size_bytes : 0;
}

static void drop_text(run_news *news, char **kept)
{
    news->kept_bytes -= *kept != NULL ? strlen(*kept) + 1 : 0;
    free(*kept);
    *kept = NULL;
}

/* ---- processes ------------------------------------------------------------------------------- */

/* Room for one more; NULL without host memory. */
static void *grow(void *items, size_t count, size_t *capacity, size_t item_bytes)
{
    if (count < *capacity)
        return items;
    size_t wanted = *capacity == 0 ? 8 : *capacity * 2;
    void *larger = realloc(items, wanted * item_bytes);
    if (larger != NULL)
        *capacity = wanted;
    return larger;
}

static run_process *process_of(run_news *news, long id)
{
    const run_process *known = run_news_find(news, id);
    if (known != NULL)
        return &news->processes[known - news->processes];
    if (news->process_count == MOST_PROCESSES)
        return NULL;
    run_process *processes = grow(news->processes, news->process_count, &news->process_capacity,
                                  sizeof *news->processes);
    if (processes == NULL)
        return NULL;
    news->processes = processes;
    run_process *process = &processes[news->process_count++];
    *process = (run_process){
        .id = id,
        .rank = -1,
        .device = -1,
        .total_bytes = RUN_NEWS_UNKNOWN,
    };
    return process;
}

static void take_failure(run_news *news, run_process *process, const message *given)
{
    process->device = small_field(given, "device");
    process->total_bytes = bytes_field(given, "total");
    keep_text(news, &process->failure, given, "text");
    keep_text(news, &process->note, given, "note");
}

static void take_of_process(run_news *news, run_process *process, const message *given)
{
    if (process->rank < 0)
        process->rank = small_field(given, "rank");
    if (strcmp(given->kind, "oom") == 0) {
        if (process->failure_number == 0)
            process->failure_number = ++news->failure_count;
        process->is_saving = true;
        take_failure(news, process, given);
    } else if (strcmp(given->kind, "again") == 0) {
        process->later_count++;
    } else if (strcmp(given->kind, "writing") == 0) {
        drop_text(news, &process->part);
        keep_text(news, &process->part, given, "path");
    } else if (strcmp(given->kind, "file") == 0) {
        process->is_saving = false;
        keep_text(news, &process->file, given, "path");
        keep_text(news, &process->steps, given, "steps");
    } else if (strcmp(given->kind, "unsaved") == 0) {
        process->is_saving = false;
    } else if (strcmp(given->kind, "error") == 0) {
        keep_text(news, &process->error, given, "text");
        keep_text(news, &process->note, given, "note");
        keep_text(news, &process->steps, given, "steps");
    } else if (strcmp(given->kind, "recording") == 0) {
        keep_text(news, &process->recording, given, "path");
    } else if (strcmp(given->kind, "recorded") == 0) {
        process->is_recorded = true;
    } else if (strcmp(given->kind, "snapshot") == 0) {
        keep_text(news, &process->snapshot, given, "path");
    } else if (strcmp(given->kind, "lost") == 0) {
        process->is_lost = true;
    }
}

static const char *take_trouble(run_news *news, const char *text)
{
    if (text == NULL || news->trouble_count == MOST_TROUBLES)
        return NULL;
    for (size_t i = 0; i < news->trouble_count; i++)
        if (strcmp(news->troubles[i], text) == 0)
            return NULL;
    char **troubles =
        grow(news->troubles, news->trouble_count, &news->trouble_capacity, sizeof *news->troubles);
    if (troubles == NULL)
        return NULL;
    news->troubles = troubles;
    char *kept = strdup(text);
    if (kept != NULL)
        troubles[news->trouble_count++] = kept;
    return kept;
}

const char *run_news_take(run_news *news, char *bytes, size_t size_bytes)
{
    bytes[size_bytes] = '\0';
    message given = {.kind = bytes, .end = bytes + size_bytes};
    given.fields = bytes + strlen(bytes) + 1;
    if (strcmp(given.kind, "trouble") == 0)
        return take_trouble(news, field(&given, "text"));
    long id = small_field(&given, "pid");
    run_process *process = id > 0 ? process_of(news, id) : NULL;
    if (process != NULL)
        take_of_process(news, process, &given);
    return NULL;
}

/* ---- questions ------------------------------------------------------------------------------- */

const run_process *run_news_find(const run_news *news, long id)
{
    for (size_t i = 0; i < news->process_count; i++)
        if (news->processes[i].id == id)
            return &news->processes[i];
    return NULL;
}

const run_process *run_news_first_failure(const run_news *news)
{
    for (size_t i = 0; i < news->process_count; i++)
        if (news->processes[i].failure_number == 1)
            return &news->processes[i];
    for (size_t i = 0; i < news->process_count; i++)
        if (news->processes[i].error != NULL)
            return &news->processes[i];
    return NULL;
}

uint64_t run_news_later_failures(const run_news *news)
{
    uint64_t count = 0;
    for (size_t i = 0; i < news->process_count; i++)
        count += news->processes[i].later_count;
    return count;
}
