/* metrics_site.h - what is to be had from `vramwise exporter` and `vramwise run --metrics`:
 * /metrics for Prometheus, /-/healthy, and at / a page that says so.
 *
 * Every answer is read anew from the pages of the jobs (watch.h), which costs them nothing. */
#ifndef VRAMWISE_CLI_METRICS_SITE_H
#define VRAMWISE_CLI_METRICS_SITE_H

#include "serve_http.h"

/* Serves all jobs, or those of the run with that folder. `run` may be NULL, and must outlive it. */
serve_site metrics_site(const char *run);

/* "http://127.0.0.1:17470/metrics" */
enum { METRICS_URL_BYTES = SERVE_HOST_BYTES + 32 };
void metrics_site_url(const serve_address *address, char url[METRICS_URL_BYTES]);

#endif /* VRAMWISE_CLI_METRICS_SITE_H */
