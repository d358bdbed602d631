/* park_request.c - asks a running job to park or to wake, and says what came of it. */
#include "park_request.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vramwise/units.h"

#include "arguments.h"
#include "command.h"
#include "safe_print.h"

#define USUAL_TIMEOUT_SECONDS 60
#define MOST_TIMEOUT_SECONDS 86400

typedef struct park_order {
    const char *name;
    vw_job_request request;
    long process;
    const char *region; /* NULL: everything */
    uint64_t timeout_seconds;
    bool has_json;
} park_order;

/* "" where there is nothing to say of it. */
static const char *whose(const park_order *order)
{
    char path[64];
    struct stat facts;
    snprintf(path, sizeof path, "/proc/%ld", order->process);
    if (stat(path, &facts) != 0)
        return ": there is no such process";
    if (facts.st_uid != geteuid())
        return ": it belongs to another user";
    return ": its program does not use vramwise's allocator";
}

static int fail(const park_order *order, const char *text)
{
    safe_print_error("vramwise %s: process %ld: %s", order->name, order->process, text);
    fputc('\n', stderr);
    return EXIT_COULD_NOT;
}

static int report(const park_order *order, const vw_job_answer *answer)
{
    char size[VW_SIZE_TEXT_BYTES];
    if (answer->status != VW_OK)
        return fail(order,
                    answer->text[0] != '\0' ? answer->text : vw_status_message(answer->status));
    if (order->has_json)
        printf("{\"schema\": 1, \"process\": %ld, \"moved_bytes\": %" PRIu64
               ", \"seconds\": %.6f}\n",
               order->process, answer->moved_bytes, (double)answer->wait_ns / 1e9);
    else
        printf("process %ld: %s %s in %.2f s\n", order->process,
               order->request == VW_JOB_PARK ? "parked" : "woke",
               vw_format_size(answer->moved_bytes, size), (double)answer->wait_ns / 1e9);
    return EXIT_DONE;
}

static int ask(const park_order *order)
{
    vw_jobs *jobs = NULL;
    vw_job_answer answer = {.struct_size = sizeof answer};
    if (vw_jobs_read(NULL, &jobs) != VW_OK)
        return fail(order, vw_last_error());
    const vw_job *job = vw_jobs_find(jobs, order->process);
    int exit_status = EXIT_COULD_NOT;
    if (job == NULL) {
        fprintf(stderr, "vramwise %s: process %ld cannot be asked%s\n", order->name, order->process,
                whose(order));
    } else {
        vw_status status =
            vw_job_ask(job, order->request, order->region, (double)order->timeout_seconds, &answer);
        exit_status = status == VW_OK ? report(order, &answer) : fail(order, vw_last_error());
    }
    vw_jobs_free(jobs);
    return exit_status;
}

int park_request_run(vw_job_request request, int argc, char **argv)
{
    park_order order = {
        .name = argv[0], .request = request, .timeout_seconds = USUAL_TIMEOUT_SECONDS};
    const char *timeout_text = NULL;
    int first = 0;
    const argument_option options[] = {{.name = "json", .is_given = &order.has_json},
                                       {.name = "timeout", .value = &timeout_text}};
    if (!arguments_parse(options, sizeof options / sizeof options[0], argc, argv, &first))
        return EXIT_WRONG_USAGE;
    if (argc - first < 1 || argc - first > 2)
        return arguments_refuse(argv[0], "expected a process, and perhaps a region");
    if (!arguments_read_process(argv[0], "", argv[first], &order.process))
        return EXIT_WRONG_USAGE;
    if (argc - first == 2)
        order.region = argv[first + 1];
    if (timeout_text != NULL && (!arguments_read_number(timeout_text, &order.timeout_seconds) ||
                                 order.timeout_seconds > MOST_TIMEOUT_SECONDS))
        return arguments_refuse(argv[0], "--timeout: expected seconds, from 0 to %d, not '%s'",
                                MOST_TIMEOUT_SECONDS, timeout_text);
    return ask(&order);
}
