/* command_view.c - makes a page of a recording, or of two, and writes or serves it.
 *
 * Served are two things, `/TOKEN/` and `/TOKEN/data`, to be had and not to be changed. The token is
 * made anew each time, and nobody can guess it: another user of the machine, or a web page that
 * tries addresses, gets nothing. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "vramwise/analysis.h"
#include "vramwise/units.h"
#include "vramwise/view.h"

#include "arguments.h"
#include "command.h"
#include "progress.h"
#include "recording_command.h"
#include "safe_print.h"
#include "serve_address.h"
#include "serve_http.h"
#include "serve_listen.h"
#include "view_browser.h"
#include "view_file.h"

enum { VIEW_TOKEN_BYTES = 16, VIEW_TOKEN_TEXT_BYTES = 2 * VIEW_TOKEN_BYTES + 1 };

typedef struct view_content {
    const void *page; /* without data */
    size_t page_bytes;
    const void *data; /* the container */
    size_t data_bytes;
} view_content;

typedef struct view_server view_server;

enum { URL_BYTES = SERVE_HOST_BYTES + 64 };

struct view_server {
    view_content content;
    char token[VIEW_TOKEN_TEXT_BYTES];
    char url[URL_BYTES];
    serve_server *server;
    sigset_t ending_signals;
};

/* Takes as long for a token that is nearly right as for any other. */
static bool is_same_token(const char *token, const char *given)
{
    unsigned difference = 0;
    for (size_t i = 0; i + 1 < VIEW_TOKEN_TEXT_BYTES; i++)
        difference |= (unsigned)((unsigned char)token[i] ^ (unsigned char)given[i]);
    return difference == 0;
}

/* What is behind "/TOKEN" in `path`; NULL without the token. */
static const char *behind_token(const view_server *server, const char *path)
{
    const size_t length = VIEW_TOKEN_TEXT_BYTES; /* with the slash before it */
    if (strlen(path) < length || path[0] != '/' || !is_same_token(server->token, path + 1))
        return NULL;
    return path + length;
}

static serve_answer find_answer(void *context, const char *path)
{
    const view_server *server = context;
    const view_content *content = &server->content;
    const char *rest = behind_token(server, path);
    if (rest != NULL && strcmp(rest, "/") == 0)
        return (serve_answer){SERVE_OK, "text/html; charset=utf-8", content->page,
                              content->page_bytes, false};
    if (rest != NULL && strcmp(rest, "/data") == 0)
        return (serve_answer){SERVE_OK, "application/octet-stream", content->data,
                              content->data_bytes, false};
    return serve_answer_not_found();
}

static bool make_token(char token[VIEW_TOKEN_TEXT_BYTES])
{
    unsigned char bytes[VIEW_TOKEN_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) /* so few come at once */
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        (void)snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

static bool start(view_server *server, const serve_address *address, serve_doors *doors)
{
    char host[SERVE_HOST_BYTES];
    const serve_site site = {.context = server, .find = find_answer};
    if (!make_token(server->token)) {
        serve_listen_close(doors);
        return false;
    }
    serve_address_host(address, host);
    (void)snprintf(server->url, sizeof server->url, "http://%s:%u/%s/", host,
                   (unsigned)address->port, server->token);
    serve_block_signals(&server->ending_signals);
    server->server = serve_start(&site, address, doors);
    return server->server != NULL;
}

/* Serves `content`, which stays the caller's and must stay, on `doors`, which are the server's from
 * here on. SIGINT, SIGTERM and SIGHUP are blocked: view_server_wait() waits for them. NULL: errno
 * says why. */
static view_server *view_server_start(const view_content *content, const serve_address *address,
                                      serve_doors *doors)
{
    view_server *server = calloc(1, sizeof *server);
    if (server == NULL) {
        serve_listen_close(doors);
        errno = ENOMEM;
        return NULL;
    }
    server->content = *content;
    if (start(server, address, doors))
        return server;
    int reason = errno;
    free(server);
    errno = reason;
    return NULL;
}

/* "http://127.0.0.1:8080/TOKEN/": of the server, until it ends. */
static const char *view_server_url(const view_server *server)
{
    return server->url;
}

/* Waits for one of the signals. */
static void view_server_wait(const view_server *server)
{
    serve_wait(&server->ending_signals);
}

/* Ends it: requests that are being answered are cut off. */
static void view_server_stop(view_server *server)
{
    serve_stop(server->server);
    free(server);
}

/* ---- the command --------------------------------------------------------------------------------
 */

typedef struct view_order {
    const char *path, *other_path; /* the second may be NULL */
    const char *page_name;         /* of the user's; NULL: ours */
    const char *torch_version;
    const char *serve_text;
    bool is_served, without_what_if;
    serve_address address;
} view_order;

/* ---- the view -------------------------------------------------------------------------------- */

static vw_status make_shown(const view_order *order, const vw_recording *recording,
                            const vw_recording *other, vw_view **out)
{
    progress line;
    progress_begin_counting(&line, "preparing");
    const vw_view_options options = {
        .struct_size = sizeof options,
        .file = recording_command_name(order->path),
        .other_file = recording_command_name(order->other_path),
        .torch_version = order->torch_version,
        .without_what_if = order->without_what_if,
        .progress = progress_show,
        .progress_context = &line,
    };
    vw_status status = vw_view_make(recording, other, &options, out);
    progress_end(&line);
    return status;
}

static int make_view(const char *command_name, const view_order *order, vw_view **out)
{
    vw_recording *recording = NULL, *other = NULL;
    int exit_status = recording_command_open_pair(command_name, order->path, order->other_path,
                                                  &recording, &other);
    if (exit_status != EXIT_DONE)
        return exit_status;
    vw_status status = make_shown(order, recording, other, out);
    if (status != VW_OK)
        exit_status = recording_command_fail(command_name, order->path, status);
    vw_recording_close(recording);
    vw_recording_close(other);
    return exit_status;
}

/* ---- as a file ------------------------------------------------------------------------------- */

static int fail_to_write(const char *command_name, const char *name, const char *reason)
{
    fprintf(stderr, "vramwise %s: ", command_name);
    safe_print(stderr, name);
    fprintf(stderr, ": %s\n", reason);
    return EXIT_COULD_NOT;
}

static int refuse_place(const char *command_name, const view_order *order, const char *name,
                        view_place place)
{
    switch (place) {
    case VIEW_PLACE_RECORDING:
        return arguments_refuse(
            command_name, "the page would overwrite the recording; choose another name with -o");
    case VIEW_PLACE_FOLDER:
        return fail_to_write(command_name, name, "expected a file, found a folder");
    case VIEW_PLACE_UNKNOWN:
        return fail_to_write(command_name, name, strerror(errno));
    case VIEW_PLACE_FILE:
    case VIEW_PLACE_STREAM:
        if (order->page_name == NULL)
            return fail_to_write(command_name, name,
                                 "exists, and is not a page that vramwise wrote; choose another "
                                 "name with -o, or name this one to replace it");
        break;
    case VIEW_PLACE_FREE:
    case VIEW_PLACE_PAGE:
        break;
    }
    return EXIT_DONE;
}

static void show_page(const char *name)
{
    char *full_name = realpath(name, NULL);
    if (full_name != NULL)
        view_browser_open(full_name);
    free(full_name);
}

static int write_page(const char *command_name, const view_order *order)
{
    char own_name[PATH_MAX], text[VW_SIZE_TEXT_BYTES];
    const char *name = order->page_name != NULL ? order->page_name : own_name;
    uint64_t size_bytes = 0;
    vw_view *view = NULL;
    if (order->page_name == NULL && !view_file_name(order->path, order->other_path, own_name))
        return fail_to_write(command_name, order->path, strerror(ENAMETOOLONG));
    view_place place = view_file_look(name, order->path, order->other_path);
    int exit_status = refuse_place(command_name, order, name, place);
    if (exit_status == EXIT_DONE)
        exit_status = make_view(command_name, order, &view);
    if (exit_status != EXIT_DONE)
        return exit_status;
    bool is_written = view_file_write(view, name, place, order->page_name != NULL, &size_bytes);
    int reason = errno;
    vw_view_free(view);
    if (!is_written)
        return fail_to_write(command_name, name, strerror(reason));
    safe_print(stdout, name);
    printf("  %s\n", vw_format_size(size_bytes, text));
    fflush(stdout);
    if (order->page_name == NULL && view_browser_is_wanted())
        show_page(name);
    return EXIT_DONE;
}

static int write_to_standard_output(const char *command_name, const view_order *order)
{
    vw_view *view = NULL;
    int exit_status = make_view(command_name, order, &view);
    if (exit_status != EXIT_DONE)
        return exit_status;
    vw_status status = vw_view_write_page(view, &recording_command_output);
    vw_view_free(view);
    return status == VW_OK ? EXIT_DONE : recording_command_fail(command_name, order->path, status);
}

/* ---- as a server ----------------------------------------------------------------------------- */

static bool write_to_stream(void *context, const char *bytes, size_t size_bytes)
{
    return fwrite(bytes, 1, size_bytes, context) == size_bytes;
}

/* The page without data, in memory that is the caller's to free. NULL: none. */
static char *make_bare_page(size_t *size_bytes)
{
    char *page = NULL;
    FILE *stream = open_memstream(&page, size_bytes);
    if (stream == NULL)
        return NULL;
    const vw_output output = {stream, write_to_stream};
    bool is_written = vw_view_write_page(NULL, &output) == VW_OK;
    if (fclose(stream) == 0 && is_written)
        return page;
    free(page);
    return NULL;
}

static int fail_to_serve(const char *command_name, const serve_address *where, int reason)
{
    serve_listen_explain(command_name, where, reason, "--serve alone finds a free port");
    return EXIT_COULD_NOT;
}

static void announce(const char *command_name, const view_order *order, const view_server *server)
{
    const char *url = view_server_url(server);
    serve_reach reach = order->address.reach;
    printf("%s\n", url);
    fflush(stdout);
    if (reach == SERVE_REACH_NETWORK || reach == SERVE_REACH_EVERY)
        fprintf(stderr,
                "vramwise %s: %s can be reached from other machines: anyone with the address "
                "above can see the recording, and so can anyone who listens on the way\n",
                command_name, order->address.text);
    fprintf(stderr, "vramwise %s: serving until Ctrl-C\n", command_name);
    if (view_browser_is_wanted())
        view_browser_open(url);
}

static int serve_view(const char *command_name, view_order *order, const vw_view *view,
                      serve_doors *doors)
{
    view_content content = {.data = NULL};
    char *page = make_bare_page(&content.page_bytes);
    view_server *server = NULL;
    content.page = page;
    content.data = vw_view_data(view, &content.data_bytes);
    if (page == NULL) {
        errno = ENOMEM;
        serve_listen_close(doors);
    } else {
        server = view_server_start(&content, &order->address, doors);
    }
    if (server == NULL) {
        int exit_status = fail_to_serve(command_name, &order->address, errno);
        free(page);
        return exit_status;
    }
    announce(command_name, order, server);
    view_server_wait(server);
    view_server_stop(server);
    free(page);
    return EXIT_DONE;
}

/* The address is had first: what is taken is said at once, not after the work. */
static int serve(const char *command_name, view_order *order)
{
    serve_doors doors;
    serve_address failed;
    vw_view *view = NULL;
    if (!serve_listen_open(&order->address, &doors, &failed))
        return fail_to_serve(command_name, &failed, errno);
    int exit_status = make_view(command_name, order, &view);
    if (exit_status == EXIT_DONE)
        exit_status = serve_view(command_name, order, view, &doors);
    else
        serve_listen_close(&doors);
    vw_view_free(view);
    return exit_status;
}

/* ---- the command line ------------------------------------------------------------------------ */

/* EXIT_DONE, or what was wrong is said. */
static int check_order(const char *command_name, view_order *order)
{
    if (order->path[0] == '\0' || (order->other_path != NULL && order->other_path[0] == '\0'))
        return arguments_refuse(command_name, "the name of the file is empty");
    if (order->page_name != NULL && order->page_name[0] == '\0')
        return arguments_refuse(command_name, "-o: the name of the page is empty");
    if (order->is_served && order->page_name != NULL)
        return arguments_refuse(
            command_name, "expected -o or --serve, not both: -o writes a page, --serve does not");
    if (order->is_served && !serve_address_parse(order->serve_text, &order->address))
        return arguments_refuse(command_name,
                                "--serve: expected " SERVE_ADDRESS_EXPECTED ", not '%s'",
                                order->serve_text);
    return EXIT_DONE;
}

int command_view(int argc, char **argv)
{
    view_order order = {.path = NULL};
    const argument_option options[] = {
        {.name = "output", .letter = 'o', .value = &order.page_name},
        {.name = "serve",
         .is_given = &order.is_served,
         .value = &order.serve_text,
         .is_value = serve_address_looks_like_one},
        {.name = "no-what-if", .is_given = &order.without_what_if},
        {.name = "torch", .value = &order.torch_version},
    };
    int first_operand = 0;
    if (!arguments_parse(options, sizeof options / sizeof options[0], argc, argv, &first_operand))
        return EXIT_WRONG_USAGE;
    int file_count = argc - first_operand;
    if (file_count != 1 && file_count != 2)
        return arguments_refuse(argv[0], "expected one file or two, not %d", file_count);
    order.path = argv[first_operand];
    order.other_path = file_count == 2 ? argv[first_operand + 1] : NULL;
    int exit_status = check_order(argv[0], &order);
    if (exit_status != EXIT_DONE)
        return exit_status;
    if (order.is_served)
        return serve(argv[0], &order);
    if (order.page_name != NULL && strcmp(order.page_name, "-") == 0)
        return write_to_standard_output(argv[0], &order);
    return write_page(argv[0], &order);
}
