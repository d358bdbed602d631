/* command_exporter.c - `vramwise exporter`: the jobs of this user on this machine, or of all users,
 * for Prometheus.
 *
 * It knows nothing between two requests, so it may be started before, after and beside the jobs,
 * and ended at any time. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include "arguments.h"
#include "command.h"
#include "metrics_site.h"
#include "serve_http.h"
#include "serve_token.h"

/* In no list of ports that exporters have by default, and outside the range from which the system
 * lends ports. */
#define USUAL_PORT "17470"

/* Who sees what, where that is more than the user may expect. */
static void warn(const char *command_name, const metrics_source *source,
                 const serve_address *address)
{
    bool is_for_others =
        address->reach == SERVE_REACH_NETWORK || address->reach == SERVE_REACH_EVERY;
    if (source->token != NULL)
        return;
    if (is_for_others)
        fprintf(stderr,
                "vramwise %s: %s can be reached from other machines: anyone who connects sees "
                "the names of the jobs and their numbers\n",
                command_name, address->text);
    else if (source->is_of_all_users)
        fprintf(stderr,
                "vramwise %s: every user of this machine can connect and see the jobs of all; "
                "--token-file asks for a token\n",
                command_name);
}

/* It goes on: the folder may come later. */
static void look_once(const char *command_name, metrics_source *source)
{
    if (!metrics_site_try(source))
        fprintf(stderr, "vramwise %s: no job can be seen yet: %s\n", command_name, vw_last_error());
}

static void announce(const char *command_name, metrics_source *source, const serve_address *address)
{
    char url[METRICS_URL_BYTES];
    metrics_site_url(address, url);
    printf("%s\n", url);
    if (fflush(stdout) != 0)
        return; /* the address could not be printed */
    warn(command_name, source, address);
    if (source->is_of_all_users)
        look_once(command_name, source);
    fprintf(stderr, "vramwise %s: serving until Ctrl-C\n", command_name);
}

static int serve(const char *command_name, metrics_source *source, serve_address *address)
{
    const serve_site site = metrics_site(source);
    serve_doors doors;
    serve_address failed = *address;
    sigset_t ending_signals;
    serve_block_signals(&ending_signals);
    serve_server *server = NULL;
    if (serve_listen_open(address, &doors, &failed))
        server = serve_start(&site, address, &doors);
    if (server == NULL) {
        serve_listen_explain(command_name, &failed, errno, "--listen 0 finds a free port");
        return EXIT_COULD_NOT;
    }
    announce(command_name, source, address);
    bool is_announced = ferror(stdout) == 0;
    if (is_announced)
        serve_wait(&ending_signals);
    serve_stop(server);
    return is_announced ? EXIT_DONE : EXIT_COULD_NOT; /* main() says so, of every command */
}

int command_exporter(int argc, char **argv)
{
    const char *listen_text = USUAL_PORT, *token_file = NULL;
    char token[SERVE_TOKEN_BYTES];
    metrics_source source = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const argument_option options[] = {
        {.name = "all-users", .is_given = &source.is_of_all_users},
        {.name = "listen", .value = &listen_text},
        {.name = "pod-logs", .value = &source.pod_folder},
        {.name = "token-file", .value = &token_file},
    };
    int first_operand = 0;
    serve_address address;
    if (!arguments_parse(options, sizeof options / sizeof options[0], argc, argv, &first_operand))
        return EXIT_WRONG_USAGE;
    if (first_operand != argc)
        return arguments_refuse(argv[0], "expected no operand, not '%s'", argv[first_operand]);
    if (source.pod_folder != NULL && !source.is_of_all_users)
        return arguments_refuse(argv[0], "--pod-logs is for --all-users");
    if (!serve_address_parse(listen_text, &address))
        return arguments_refuse(argv[0], "--listen: expected " SERVE_ADDRESS_EXPECTED ", not '%s'",
                                listen_text);
    if (token_file != NULL) {
        if (!serve_token_read(argv[0], token_file, token))
            return EXIT_COULD_NOT;
        source.token = token;
    }
    int exit_status = serve(argv[0], &source, &address);
    metrics_site_end(&source);
    return exit_status;
}
