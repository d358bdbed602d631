/* leaking_job.c - a job with a page, as its tests want it: leaking_job NAME=VALUE...
 *
 *   FIELD=N       a value of device 0, by its name in live.h; `1.FIELD=N` of device 1
 *   made=N        makes N steps, beginning with `live_bytes`
 *   grow=N        of which each adds N bytes
 *   rank=N        of several processes: which one this is
 *   answer=FILE   when it is asked for a snapshot, FILE is what it gives, as soon as that is there
 *   dies=1        when it is asked, it is killed
 *   deaf=1        SIGTERM does not end it
 *   ready=FILE    written, with its number, when the page is there
 *   until=FILE    it ends when FILE is there
 *
 * It does what Python does inside of `headroom run` (see _watch.py), without any Python: tests with
 * sanitizers run it too. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "headroom/live.h"

enum { DEVICES = 2, LONGEST_WAIT_SECONDS = 200, LOOK_AGAIN_US = 10000 };

typedef struct order {
    uint64_t values[DEVICES][HR_LIVE_FIELD_COUNT];
    int device_count;
    uint64_t made, grow;
    int rank;
    const char *answer, *ready, *until;
    bool dies, is_deaf;
} order;

__attribute__((noreturn)) static void give_up(const char *what, const char *why)
{
    fprintf(stderr, "leaking_job: %s: %s\n", what, why);
    exit(9);
}

static void read_field(order *wanted, const char *name, const char *value)
{
    int device = strncmp(name, "1.", 2) == 0;
    size_t field = hr_live_field_find(name + 2 * device);
    if (field == hr_live_field_count())
        give_up(name, "no field of a page");
    wanted->values[device][field] = strtoull(value, NULL, 10);
    if (device >= wanted->device_count)
        wanted->device_count = device + 1;
}

static void read_argument(order *wanted, char *argument)
{
    char *value = strchr(argument, '=');
    if (value == NULL)
        give_up(argument, "expected NAME=VALUE");
    *value++ = '\0';
    if (strcmp(argument, "made") == 0)
        wanted->made = strtoull(value, NULL, 10);
    else if (strcmp(argument, "grow") == 0)
        wanted->grow = strtoull(value, NULL, 10);
    else if (strcmp(argument, "rank") == 0)
        wanted->rank = atoi(value);
    else if (strcmp(argument, "answer") == 0)
        wanted->answer = value;
    else if (strcmp(argument, "ready") == 0)
        wanted->ready = value;
    else if (strcmp(argument, "until") == 0)
        wanted->until = value;
    else if (strcmp(argument, "dies") == 0)
        wanted->dies = true;
    else if (strcmp(argument, "deaf") == 0)
        wanted->is_deaf = true;
    else
        read_field(wanted, argument, value);
}

static void must(hr_status status)
{
    if (status != HR_OK)
        give_up(hr_status_name(status), hr_last_error());
}

static void publish(const order *wanted)
{
    const hr_live_identity identity = {.struct_size = sizeof identity,
                                       .program = "train.py",
                                       .rank = wanted->rank,
                                       .local_rank = -1};
    uint64_t live = wanted->values[0][HR_LIVE_LIVE_BYTES];
    hr_live_page *page;
    must(hr_live_process_page(&page));
    must(hr_live_page_identify(page, &identity));
    for (int i = 0; i < wanted->device_count; i++)
        must(hr_live_page_put(page, i, i == 0 ? "Simulated" : NULL, wanted->values[i],
                              HR_LIVE_FIELD_COUNT));
    for (uint64_t step = 1; step <= wanted->made; step++)
        must(hr_live_page_step(page, 0, step, live + (step - 1) * wanted->grow,
                               wanted->values[0][HR_LIVE_RESERVED_BYTES]));
    if (wanted->made == 0 || wanted->grow == 0)
        return;
    uint64_t now = live + (wanted->made - 1) * wanted->grow;
    must(hr_live_page_put(page, 0, NULL, &now, 1)); /* live_bytes, the first */
}

static void copy_whole(const char *from, const char *to)
{
    char part[PATH_MAX + 8], bytes[1 << 16];
    size_t count;
    snprintf(part, sizeof part, "%s.part", to);
    FILE *source = fopen(from, "rb"), *copy = fopen(part, "wb");
    if (source == NULL || copy == NULL)
        give_up(source == NULL ? from : part, strerror(errno));
    while ((count = fread(bytes, 1, sizeof bytes, source)) > 0)
        fwrite(bytes, 1, count, copy);
    fclose(source);
    if (fclose(copy) != 0 || rename(part, to) != 0)
        give_up(to, strerror(errno));
}

static void tell(const char *folder, const char *path)
{
    char message[PATH_MAX + 64];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length =
        snprintf(message, sizeof message, "snapshot%cpid=%ld%cpath=%s", 0, (long)getpid(), 0, path);
    snprintf(address.sun_path, sizeof address.sun_path, "%.80s/socket", folder);
    int door = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (sendto(door, message, (size_t)length, 0, (const struct sockaddr *)&address,
               sizeof address) != length)
        give_up(address.sun_path, strerror(errno));
    close(door);
}

/* Has anybody asked for a snapshot? */
static void look_for_request(const order *wanted)
{
    const char *folder = getenv("HEADROOM_RUN");
    char name[PATH_MAX], path[PATH_MAX];
    bool can_answer = wanted->answer != NULL && access(wanted->answer, F_OK) == 0;
    if (folder == NULL || (!can_answer && !wanted->dies))
        return;
    snprintf(name, sizeof name, "%s/ask-%ld", folder, (long)getpid());
    FILE *request = fopen(name, "r");
    if (request == NULL)
        return;
    size_t length = fread(path, 1, sizeof path - 1, request);
    path[length] = '\0';
    fclose(request);
    unlink(name);
    if (wanted->dies)
        raise(SIGKILL);
    copy_whole(wanted->answer, path);
    tell(folder, path);
}

static void say_ready(const char *path)
{
    char part[PATH_MAX];
    snprintf(part, sizeof part, "%s.part", path);
    FILE *file = fopen(part, "w");
    if (file == NULL || fprintf(file, "%ld\n", (long)getpid()) < 0 || fclose(file) != 0 ||
        rename(part, path) != 0)
        give_up(path, strerror(errno));
}

int main(int argc, char **argv)
{
    order wanted = {.device_count = 1, .rank = -1};
    for (int i = 0; i < DEVICES; i++)
        for (size_t field = 0; field < HR_LIVE_FIELD_COUNT; field++)
            wanted.values[i][field] = HR_LIVE_UNKNOWN;
    for (int i = 1; i < argc; i++)
        read_argument(&wanted, argv[i]);
    if (wanted.is_deaf)
        signal(SIGTERM, SIG_IGN);
    publish(&wanted);
    if (wanted.ready != NULL)
        say_ready(wanted.ready);
    for (long waited = 0; wanted.until != NULL && access(wanted.until, F_OK) != 0; waited++) {
        if (waited * LOOK_AGAIN_US >= LONGEST_WAIT_SECONDS * 1000000L)
            give_up(wanted.until, "nobody made it");
        look_for_request(&wanted);
        usleep(LOOK_AGAIN_US);
    }
    return 0;
}
