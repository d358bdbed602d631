/* process_read.h - what /proc tells of a process.
 *
 * The process is somebody's, and may end meanwhile: what cannot be read is not known, and no error.
 * Texts may hold any bytes. */
#ifndef HR_WATCH_PROCESS_READ_H
#define HR_WATCH_PROCESS_READ_H

#include "watch/machine_join.h"

/* How it was started, "python3 train.py --epochs 3", without the folder of the program and cut to
 * fit; "" where that is not known. */
void hr__process_command(long process, char out[HR_JOB_TEXT_BYTES]);

/* Of the variables it was started with, those that say which GPUs it sees. */
void hr__process_environment(long process, hr__job_environment *out);

#endif /* HR_WATCH_PROCESS_READ_H */
