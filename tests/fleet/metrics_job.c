/* metrics_job.c - a job that tells of itself what it is told to, for tests of those who watch.
 *
 * One order to a line of standard input, and "ok" on standard output when it is done:
 *
 *   put DEVICE FIELD=VALUE...           hr_live_page_put(), fields by their names in live.h
 *   name DEVICE NAME                    the name of a device, to the end of the line
 *   step DEVICE STEP LIVE RESERVED      hr_live_page_step()
 *   program|allocator|job TEXT          who it is, to the end of the line
 *
 * It ends, and its page with it, at the end of its input. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "headroom/live.h"

static bool put(hr_live_page *page, char *words)
{
    uint64_t values[HR_LIVE_FIELD_COUNT];
    char *rest = NULL, *word = strtok_r(words, " ", &rest);
    if (word == NULL)
        return false;
    int device = atoi(word);
    for (size_t i = 0; i < HR_LIVE_FIELD_COUNT; i++)
        values[i] = HR_LIVE_KEEP;
    while ((word = strtok_r(NULL, " ", &rest)) != NULL) {
        char *equals = strchr(word, '=');
        if (equals == NULL)
            return false;
        *equals = '\0';
        size_t field = hr_live_field_find(word);
        if (field == HR_LIVE_FIELD_COUNT)
            return false;
        values[field] = strtoull(equals + 1, NULL, 10);
    }
    return hr_live_page_put(page, device, NULL, values, HR_LIVE_FIELD_COUNT) == HR_OK;
}

static bool name(hr_live_page *page, char *words)
{
    char *text = strchr(words, ' ');
    return text != NULL && hr_live_page_put(page, atoi(words), text + 1, NULL, 0) == HR_OK;
}

static bool step(hr_live_page *page, const char *words)
{
    int device;
    uint64_t number, live_bytes, reserved_bytes;
    return sscanf(words, "%d %" SCNu64 " %" SCNu64 " %" SCNu64, &device, &number, &live_bytes,
                  &reserved_bytes) == 4 &&
           hr_live_page_step(page, device, number, live_bytes, reserved_bytes) == HR_OK;
}

static bool identify(hr_live_page *page, const char *which, const char *text)
{
    hr_live_identity identity = {.struct_size = sizeof identity, .rank = -1, .local_rank = -1};
    if (strcmp(which, "program") == 0)
        identity.program = text;
    else if (strcmp(which, "allocator") == 0)
        identity.allocator = text;
    else if (strcmp(which, "job") == 0)
        identity.job = text;
    else
        return false;
    return hr_live_page_identify(page, &identity) == HR_OK;
}

static bool obey(hr_live_page *page, char *line)
{
    char *words = strchr(line, ' ');
    if (words == NULL)
        return false;
    *words++ = '\0';
    if (strcmp(line, "put") == 0)
        return put(page, words);
    if (strcmp(line, "name") == 0)
        return name(page, words);
    if (strcmp(line, "step") == 0)
        return step(page, words);
    return identify(page, line, words);
}

int main(void)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    hr_live_page *page = NULL;
    bool is_well = hr_live_process_page(&page) == HR_OK;
    while (is_well && (length = getline(&line, &capacity, stdin)) > 0) {
        line[length - 1] = '\0'; /* every line ends with one */
        is_well = obey(page, line);
        puts(is_well ? "ok" : "no");
        fflush(stdout);
    }
    free(line);
    if (!is_well)
        fprintf(stderr, "live_job: %s\n", hr_last_error());
    return is_well ? 0 : 1;
}
