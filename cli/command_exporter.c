/* command_exporter.c - `vramwise exporter`: the jobs of this user on this machine, for Prometheus.
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

/* In no list of ports that exporters have by default, and outside the range from which the system
 * lends ports. */
#define USUAL_PORT "17470"

static void announce(const char *command_name, const serve_address *address)
{
    char url[METRICS_URL_BYTES];
    metrics_site_url(address, url);
    printf("%s\n", url);
    if (fflush(stdout) != 0)
        return; /* the address could not be printed */
    if (address->reach == SERVE_REACH_NETWORK || address->reach == SERVE_REACH_EVERY)
        fprintf(stderr,
                "vramwise %s: %s can be reached from other machines: anyone who connects sees "
                "the names of the jobs and their numbers\n",
                command_name, address->text);
    fprintf(stderr, "vramwise %s: serving until Ctrl-C\n", command_name);
}

static int serve(const char *command_name, serve_address *address)
{
    const serve_site site = metrics_site(NULL);
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
    announce(command_name, address);
    bool is_announced = ferror(stdout) == 0;
    if (is_announced)
        serve_wait(&ending_signals);
    serve_stop(server);
    return is_announced ? EXIT_DONE : EXIT_COULD_NOT; /* main() says so, of every command */
}

int command_exporter(int argc, char **argv)
{
    const char *listen_text = USUAL_PORT;
    const argument_option options[] = {{.name = "listen", .value = &listen_text}};
    int first_operand = 0;
    serve_address address;
    if (!arguments_parse(options, sizeof options / sizeof options[0], argc, argv, &first_operand))
        return EXIT_WRONG_USAGE;
    if (first_operand != argc)
        return arguments_refuse(argv[0], "expected no operand, not '%s'", argv[first_operand]);
    if (!serve_address_parse(listen_text, &address))
        return arguments_refuse(argv[0], "--listen: expected " SERVE_ADDRESS_EXPECTED ", not '%s'",
                                listen_text);
    return serve(argv[0], &address);
}
