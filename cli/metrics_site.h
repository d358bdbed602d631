/* metrics_site.h - what is to be had from `vramwise exporter` and `vramwise run --metrics`:
 * /metrics for Prometheus, /-/healthy, and at / a page that says so.
 *
 * Every answer is read anew from the pages of the jobs (watch.h), which costs them nothing. */
#ifndef VRAMWISE_CLI_METRICS_SITE_H
#define VRAMWISE_CLI_METRICS_SITE_H

#include <pthread.h>
#include <stdbool.h>

#include "vramwise/watch.h"

#include "serve_http.h"

/* Which jobs, and to whom. It must outlive the server. */
typedef struct metrics_source {
    const char *run;        /* those of the run with that folder; NULL: all */
    bool is_of_all_users;   /* or of this user */
    const char *pod_folder; /* of vw_jobs_shared */
    const char *token;      /* that is asked for, but at /-/healthy; NULL: nothing */
    pthread_mutex_t lock;   /* PTHREAD_MUTEX_INITIALIZER */
    vw_jobs *last;          /* under the lock, of all users: what need not be looked for again */
} metrics_source;

serve_site metrics_site(metrics_source *source);

/* Reads the jobs once, as the site does. False: vw_last_error() says why not. */
bool metrics_site_try(metrics_source *source);

/* After the server has stopped. */
void metrics_site_end(metrics_source *source);

/* "http://127.0.0.1:17470/metrics" */
enum { METRICS_URL_BYTES = SERVE_HOST_BYTES + 32 };
void metrics_site_url(const serve_address *address, char url[METRICS_URL_BYTES]);

#endif /* VRAMWISE_CLI_METRICS_SITE_H */
