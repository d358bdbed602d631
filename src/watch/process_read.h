/* process_read.h - what /proc tells of a process.
 *
 * The process is somebody's, and may end meanwhile: what cannot be read is not known, and no error.
 * Texts may hold any bytes. */
#ifndef VW_WATCH_PROCESS_READ_H
#define VW_WATCH_PROCESS_READ_H

#include "watch/machine_join.h"

/* How it was started, "python3 train.py --epochs 3", without the folder of the program and cut to
 * fit; "" where that is not known. */
void vw__process_command(long process, char out[VW_JOB_TEXT_BYTES]);

/* Of the variables it was started with, those that say which GPUs it sees. */
void vw__process_environment(long process, vw__job_environment *out);

#endif /* VW_WATCH_PROCESS_READ_H */
