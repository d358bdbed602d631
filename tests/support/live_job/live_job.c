/* live_job.c - a job that holds nothing and says what it is told to: for tests of what reads pages.
 *
 *   live_job program=train.py rank=3 device=0:NAME live_bytes=100 ...
 *
 * Words are told in order:
 *
 *   FIELD=N                a value of the device, by its name in live.h
 *   device=N[:NAME]        later words are about this one; "0:simulated" at first
 *   steps=COUNT:LIVE:GROWTH[:RESERVED]
 *                          COUNT more steps, the first with LIVE bytes live and each with GROWTH
 *                          more; RESERVED bytes are reserved, or what is live
 *   program=, allocator=, job=, rank=, world_size=    who it is
 *   ready=FILE             where it says "ready", with its number: not on standard output
 *   until=FILE             it ends when FILE is there, whatever comes from standard input
 *   answer=FILE, dies=1    what becomes of a request for a snapshot (snapshot_request.h)
 *   deaf=1                 SIGTERM does not end it
 *   pool=BYTES             it has so much in a pool on a simulated GPU, which can be parked
 *
 * What was told is on the page once it says "ready". Then every line of its standard input is more
 * of the same, with tabs between the words, and answered "ready" as well, until that ends. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vramwise/live.h"
#include "vramwise/status.h"
#include "vramwise/vramwise.h"
#include "snapshot_request.h"

typedef struct told_job {
    vw_live_page *page;
    int device;
    char device_name[64];
    uint64_t values[VW_LIVE_FIELD_COUNT];
    bool has_news; /* that are not on the page yet */
    bool is_on_page;
    uint64_t step;
    char *ready, *until, *answer;
    bool dies;
} told_job;

static void require(vw_status status)
{
    if (status == VW_OK)
        return;
    fprintf(stderr, "live_job: %s\n", vw_last_error());
    exit(1);
}

static void keep_all(told_job *job)
{
    for (size_t i = 0; i < VW_LIVE_FIELD_COUNT; i++)
        job->values[i] = VW_LIVE_KEEP;
}

static void put(told_job *job)
{
    require(vw_live_page_put(job->page, job->device, job->device_name, job->values,
                             VW_LIVE_FIELD_COUNT));
    keep_all(job);
    job->has_news = false;
    job->is_on_page = true;
}

static bool tell_identity(told_job *job, const char *name, const char *value)
{
    vw_live_identity identity = {
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
    require(vw_live_page_identify(job->page, &identity));
    return true;
}

static void choose_device(told_job *job, const char *value)
{
    const char *colon = strchr(value, ':');
    if (job->has_news)
        put(job);
    job->has_news = true;
    job->device = atoi(value);
    snprintf(job->device_name, sizeof job->device_name, "%s", colon != NULL ? colon + 1 : "");
}

static void tell_steps(told_job *job, const char *value)
{
    unsigned long long count = 0, live = 0, growth = 0, reserved = 0;
    int given = sscanf(value, "%llu:%llu:%llu:%llu", &count, &live, &growth, &reserved);
    if (given < 3) {
        fprintf(stderr, "live_job: expected steps=COUNT:LIVE:GROWTH[:RESERVED], not '%s'\n", value);
        exit(2);
    }
    put(job);
    for (unsigned long long i = 0; i < count; i++, live += growth)
        require(vw_live_page_step(job->page, job->device, ++job->step, live,
                                  given == 4 ? reserved : live));
}

static bool grant(void *context)
{
    (void)context;
    return true;
}

static void end_grant(void *context)
{
    (void)context;
}

static void open_pool(const char *value)
{
    vw_device *device = NULL;
    vw_pool *pool = NULL;
    vw_device_ptr address = VW_NULL;
    const vw_pool_options options = {.struct_size = sizeof options,
                                     .engine = "vramwise",
                                     .safe_point = {grant, end_grant, NULL},
                                     .park_guard = {.hold = grant, .let_go = end_grant}};
    require(vw_simulated_device_create(NULL, &device));
    require(vw_pool_create(device, &options, &pool));
    require(vw_alloc(pool, strtoull(value, NULL, 10), 0, &address));
}

/* Of what it does beside telling. */
static bool tell_conduct(told_job *job, const char *name, char *value)
{
    if (strcmp(name, "ready") == 0)
        job->ready = value;
    else if (strcmp(name, "until") == 0)
        job->until = value;
    else if (strcmp(name, "answer") == 0)
        job->answer = value;
    else if (strcmp(name, "dies") == 0)
        job->dies = true;
    else if (strcmp(name, "pool") == 0)
        open_pool(value);
    else if (strcmp(name, "deaf") == 0)
        signal(SIGTERM, SIG_IGN);
    else
        return false;
    return true;
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
    if (tell_identity(job, word, value) || tell_conduct(job, word, value))
        return;
    if (strcmp(word, "device") == 0) {
        choose_device(job, value);
    } else if (strcmp(word, "steps") == 0 && strchr(value, ':') != NULL) {
        tell_steps(job, value);
    } else if ((field = vw_live_field_find(word)) < VW_LIVE_FIELD_COUNT) {
        job->values[field] = strtoull(value, NULL, 10);
        job->has_news = true;
    } else {
        fprintf(stderr, "live_job: there is no '%s'\n", word);
        exit(2);
    }
}

/* Under its name the file is whole. */
static void write_ready(const char *path)
{
    char part[PATH_MAX];
    snprintf(part, sizeof part, "%s.part", path);
    FILE *file = fopen(part, "w");
    if (file == NULL || fprintf(file, "%ld\n", (long)getpid()) < 0 || fclose(file) != 0 ||
        rename(part, path) != 0) {
        fprintf(stderr, "live_job: %s: %s\n", path, strerror(errno));
        exit(9);
    }
}

static void say_ready(told_job *job)
{
    put(job);
    if (job->ready != NULL) {
        write_ready(job->ready);
        return;
    }
    puts("ready");
    fflush(stdout);
}

/* Until there is something to read. */
static void stay_alive(told_job *job)
{
    enum { BETWEEN_MS = 200 };
    struct pollfd input = {.fd = 0, .events = POLLIN};
    while (poll(&input, 1, BETWEEN_MS) == 0)
        if (job->is_on_page)
            put(job);
}

static void listen_to_input(told_job *job)
{
    char line[4096];
    setvbuf(stdin, NULL, _IONBF, 0); /* so that poll() sees all that is there */
    for (;;) {
        stay_alive(job);
        if (fgets(line, sizeof line, stdin) == NULL)
            return;
        for (char *word = strtok(line, "\t\n"); word != NULL; word = strtok(NULL, "\t\n"))
            tell(job, word);
        say_ready(job);
    }
}

static int stay_until(const told_job *job)
{
    enum { LONGEST_WAIT_SECONDS = 200, LOOK_AGAIN_US = 10000 };
    for (long waited = 0; access(job->until, F_OK) != 0; waited++) {
        if (waited * LOOK_AGAIN_US >= LONGEST_WAIT_SECONDS * 1000000L) {
            fprintf(stderr, "live_job: %s: nobody made it\n", job->until);
            return 9;
        }
        snapshot_request_look(job->answer, job->dies);
        usleep(LOOK_AGAIN_US);
    }
    return 0;
}

int main(int argc, char **argv)
{
    told_job job = {.device_name = "simulated"};
    require(vw_live_process_page(&job.page));
    for (size_t i = 0; i < VW_LIVE_FIELD_COUNT; i++)
        job.values[i] = VW_LIVE_UNKNOWN;
    for (int i = 1; i < argc; i++)
        tell(&job, argv[i]);
    if (argc > 1)
        say_ready(&job);
    if (job.until != NULL)
        return stay_until(&job);
    listen_to_input(&job);
    return 0;
}
