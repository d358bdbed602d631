/* metrics_site.c - see metrics_site.h. */
#include "metrics_site.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vramwise/status.h"
#include "vramwise/watch.h"

static bool write_to_stream(void *context, const char *bytes, size_t size_bytes)
{
    return fwrite(bytes, 1, size_bytes, context) == size_bytes;
}

/* In memory that is the caller's to free. NULL: vw_last_error() says why, or there was no memory
 * for it. */
static char *make_metrics(const char *run, size_t *size_bytes)
{
    vw_jobs *jobs = NULL;
    char *text = NULL;
    if (vw_jobs_read(NULL, &jobs) != VW_OK)
        return NULL;
    FILE *stream = open_memstream(&text, size_bytes);
    bool is_made = false;
    if (stream != NULL) {
        const vw_output output = {stream, write_to_stream};
        is_made = vw_jobs_metrics(jobs, run, &output) == VW_OK;
        is_made = fclose(stream) == 0 && is_made;
    }
    vw_jobs_free(jobs);
    if (is_made)
        return text;
    free(text);
    return NULL;
}

/* Prometheus then marks the target as down, and shows the status. */
static serve_answer unavailable(void)
{
    static const char no_memory[] = "Out of memory.\n";
    serve_answer answer = serve_answer_text(SERVE_UNAVAILABLE, no_memory);
    char *text = NULL;
    int length = asprintf(&text, "The jobs cannot be read: %s\n", vw_last_error());
    if (length < 0)
        return answer;
    answer.bytes = text;
    answer.size_bytes = (size_t)length;
    answer.is_owned = true;
    return answer;
}

static serve_answer find_metrics(const char *run)
{
    size_t size_bytes = 0;
    const char *text = make_metrics(run, &size_bytes);
    if (text == NULL)
        return unavailable();
    return (serve_answer){SERVE_OK, VW_METRICS_CONTENT_TYPE, text, size_bytes, true};
}

static serve_answer find(void *context, const char *path)
{
    static const char front_page[] = "<!doctype html>\n<title>vramwise</title>\n"
                                     "<p>vramwise: <a href=\"metrics\">metrics</a>\n";
    if (strcmp(path, "/metrics") == 0)
        return find_metrics(context);
    if (strcmp(path, "/-/healthy") == 0)
        return serve_answer_text(SERVE_OK, "vramwise is healthy.\n");
    if (strcmp(path, "/") == 0)
        return (serve_answer){SERVE_OK, "text/html; charset=utf-8", front_page, strlen(front_page),
                              false};
    return serve_answer_not_found();
}

serve_site metrics_site(const char *run)
{
    return (serve_site){
        .context = (void *)(uintptr_t)run, .find = find, .has_any_name = true, /* by DNS */
    };
}

void metrics_site_url(const serve_address *address, char url[METRICS_URL_BYTES])
{
    char host[SERVE_HOST_BYTES];
    serve_address_host(address, host);
    (void)snprintf(url, METRICS_URL_BYTES, "http://%s:%u/metrics", host, (unsigned)address->port);
}
