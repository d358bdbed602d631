/* metrics_site.c - see metrics_site.h. */
#include "metrics_site.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEALTH_PATH "/-/healthy"

static bool write_to_stream(void *context, const char *bytes, size_t size_bytes)
{
    return fwrite(bytes, 1, size_bytes, context) == size_bytes;
}

/* In memory that is the caller's to free. NULL: there was no memory for it, or vw_last_error() says
 * why. */
static char *write_metrics(const vw_jobs *jobs, const char *run, size_t *size_bytes)
{
    char *text = NULL;
    FILE *stream = open_memstream(&text, size_bytes);
    bool is_made = false;
    if (stream != NULL) {
        const vw_output output = {stream, write_to_stream};
        is_made = vw_jobs_metrics(jobs, run, &output) == VW_OK;
        is_made = fclose(stream) == 0 && is_made;
    }
    if (is_made)
        return text;
    free(text);
    return NULL;
}

/* Reads the jobs of all users into `last`. Under the lock. */
static bool read_all(metrics_source *source)
{
    const vw_jobs_shared options = {
        .struct_size = sizeof options, .pod_folder = source->pod_folder, .before = source->last};
    vw_jobs *jobs = NULL;
    if (vw_jobs_read_shared(NULL, &options, &jobs) != VW_OK)
        return false;
    vw_jobs_free(source->last);
    source->last = jobs;
    return true;
}

static char *make_metrics_of_all(metrics_source *source, size_t *size_bytes)
{
    char *text = NULL;
    (void)pthread_mutex_lock(&source->lock);
    if (read_all(source))
        text = write_metrics(source->last, NULL, size_bytes);
    (void)pthread_mutex_unlock(&source->lock);
    return text;
}

static char *make_metrics(metrics_source *source, size_t *size_bytes)
{
    vw_jobs *jobs = NULL;
    if (source->is_of_all_users)
        return make_metrics_of_all(source, size_bytes);
    if (vw_jobs_read(NULL, &jobs) != VW_OK)
        return NULL;
    char *text = write_metrics(jobs, source->run, size_bytes);
    vw_jobs_free(jobs);
    return text;
}

bool metrics_site_try(metrics_source *source)
{
    size_t size_bytes = 0;
    char *text = make_metrics(source, &size_bytes);
    free(text);
    return text != NULL;
}

void metrics_site_end(metrics_source *source)
{
    vw_jobs_free(source->last);
    (void)pthread_mutex_destroy(&source->lock);
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

static serve_answer find_metrics(metrics_source *source)
{
    size_t size_bytes = 0;
    const char *text = make_metrics(source, &size_bytes);
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
    if (strcmp(path, HEALTH_PATH) == 0)
        return serve_answer_text(SERVE_OK, "vramwise is healthy.\n");
    if (strcmp(path, "/") == 0)
        return (serve_answer){SERVE_OK, "text/html; charset=utf-8", front_page, strlen(front_page),
                              false};
    return serve_answer_not_found();
}

serve_site metrics_site(metrics_source *source)
{
    return (serve_site){
        .context = source,
        .find = find,
        .has_any_name = true, /* by DNS */
        .token = source->token,
        .open_path = HEALTH_PATH,
    };
}

void metrics_site_url(const serve_address *address, char url[METRICS_URL_BYTES])
{
    char host[SERVE_HOST_BYTES];
    serve_address_host(address, host);
    (void)snprintf(url, METRICS_URL_BYTES, "http://%s:%u/metrics", host, (unsigned)address->port);
}
