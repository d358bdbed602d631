/* snapshot_request.h - a job's side of the leak guard of `vramwise run`, as _watch.py does it. */
#ifndef TESTS_SUPPORT_LIVE_JOB_SNAPSHOT_REQUEST_H
#define TESTS_SUPPORT_LIVE_JOB_SNAPSHOT_REQUEST_H

#include <stdbool.h>

/* Has anybody asked this process for a snapshot? Then the file `answer` is given, if it is there by
 * now; or the process is killed, if it `dies`. */
void snapshot_request_look(const char *answer, bool dies);

#endif
