/* live_job.c - a job that holds nothing and says what it is told to: for tests of what reads pages.
 *
 *   live_job program=train.py rank=3 device=0:NAME live_bytes=100 ... steps=COUNT:LIVE:GROWTH
 *
 * Words are told in order. `device` chooses the one that later words are about ("0" and "simulated"
 * at first), the name of a field of live.h sets it, and `steps` tells of COUNT more steps, the
 * first with LIVE bytes live and each with GROWTH more. What was told is on the page once it says
 * "ready". Then every line of its standard input is more of the same, answered "ready" as well,
 * until that ends. */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "headroom/live.h"
#include "headroom/status.h"

typedef struct told_job {
    hr_live_page *page;
    int device;
    char device_name[64];
    uint64_t values[HR_LIVE_FIELD_COUNT];
    uint64_t step;
} told_job;

static void require(hr_status status)
{
    if (status == HR_OK)
        return;
    fprintf(stderr, "live_job: %s\n", hr_last_error());
    exit(1);
}

static void keep_all(told_job *job)
{
    for (size_t i = 0; i < HR_LIVE_FIELD_COUNT; i++)
        job->values[i] = HR_LIVE_KEEP;
}

static void put(told_job *job)
{
    require(hr_live_page_put(job->page, job->device, job->device_name, job->values,
                             HR_LIVE_FIELD_COUNT));
    keep_all(job);
}

static bool tell_identity(told_job *job, const char *name, const char *value)
{
    hr_live_identity identity = {
        .struct_size = sizeof identity, .rank = -1, .local_rank = -1, .world_size = 0};
    if (strcmp(name, "program") == 0)
        identity.program = value;
    else if (strcmp(name, "allocator") == 0)
        identity.allocator = value;
    else if (strcmp(name, "job") == 0)
        identity.job = value;
    else if (strcmp(name, "rank") == 0)
        identity.rank = atoi(value);
    else if (strcmp(name, "world_size") == 0)
        identity.world_size = atoi(value);
    else
        return false;
    require(hr_live_page_identify(job->page, &identity));
    return true;
}

static void choose_device(told_job *job, const char *value)
{
    const char *colon = strchr(value, ':');
    put(job);
    job->device = atoi(value);
    snprintf(job->device_name, sizeof job->device_name, "%s", colon != NULL ? colon + 1 : "");
}

static void tell_steps(told_job *job, const char *value)
{
    unsigned long long count = 0, live = 0, growth = 0;
    if (sscanf(value, "%llu:%llu:%llu", &count, &live, &growth) != 3) {
        fprintf(stderr, "live_job: expected steps=COUNT:LIVE:GROWTH, not '%s'\n", value);
        exit(2);
    }
    put(job);
    for (unsigned long long i = 0; i < count; i++)
        require(hr_live_page_step(job->page, job->device, ++job->step, live + i * growth,
                                  live + i * growth));
}

static void tell(told_job *job, char *word)
{
    char *value = strchr(word, '=');
    size_t field;
    if (value == NULL) {
        fprintf(stderr, "live_job: expected NAME=VALUE, not '%s'\n", word);
        exit(2);
    }
    *value++ = '\0';
    if (tell_identity(job, word, value))
        return;
    if (strcmp(word, "device") == 0) {
        choose_device(job, value);
    } else if (strcmp(word, "steps") == 0 && strchr(value, ':') != NULL) {
        tell_steps(job, value);
    } else if ((field = hr_live_field_find(word)) < HR_LIVE_FIELD_COUNT) {
        job->values[field] = strtoull(value, NULL, 10);
    } else {
        fprintf(stderr, "live_job: there is no '%s'\n", word);
        exit(2);
    }
}

static void say_ready(told_job *job)
{
    put(job);
    puts("ready");
    fflush(stdout);
}

/* Until there is something to read. */
static void stay_alive(told_job *job)
{
    enum { BETWEEN_MS = 200 };
    struct pollfd input = {.fd = 0, .events = POLLIN};
    while (poll(&input, 1, BETWEEN_MS) == 0)
        put(job);
}

int main(int argc, char **argv)
{
    told_job job = {.device_name = "simulated"};
    char line[4096];
    require(hr_live_process_page(&job.page));
    for (size_t i = 0; i < HR_LIVE_FIELD_COUNT; i++)
        job.values[i] = HR_LIVE_UNKNOWN;
    for (int i = 1; i < argc; i++)
        tell(&job, argv[i]);
    say_ready(&job);
    setvbuf(stdin, NULL, _IONBF, 0); /* so that poll() sees all that is there */
    for (;;) {
        stay_alive(&job);
        if (fgets(line, sizeof line, stdin) == NULL)
            return 0;
        for (char *word = strtok(line, " \n"); word != NULL; word = strtok(NULL, " \n"))
            tell(&job, word);
        say_ready(&job);
    }
}
