/* park_request.h - `vramwise park` and `vramwise wake`: one request to a running job. */
#ifndef VRAMWISE_CLI_PARK_REQUEST_H
#define VRAMWISE_CLI_PARK_REQUEST_H

#include "vramwise/watch.h" /* vw_job_request */

/* Reads the command line, asks, and says what came of it. Returns how the program ends. */
int park_request_run(vw_job_request request, int argc, char **argv);

#endif /* VRAMWISE_CLI_PARK_REQUEST_H */
