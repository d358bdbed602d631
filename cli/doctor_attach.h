/* doctor_attach.h - `vramwise doctor --pid PID --attach`: a snapshot, written by the process
 * itself.
 *
 * Python 3.14 runs a file in another process when asked to (sys.remote_exec), at a moment that is
 * safe for it. Its own interpreter is started to ask, since both must be of one version. The file
 * has the process write PyTorch's snapshot into a private folder. */
#ifndef VRAMWISE_CLI_DOCTOR_ATTACH_H
#define VRAMWISE_CLI_DOCTOR_ATTACH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "vramwise/process.h"

enum { DOCTOR_ATTACH_REASON_BYTES = 1024 };

/* What the system lets us do to other processes. */
typedef struct doctor_attach_rights {
    unsigned long user; /* that we run as */
    bool may_trace_all; /* CAP_SYS_PTRACE */
    int ptrace_scope;   /* Yama's: 0 = every process of the same user; without Yama 0 */
} doctor_attach_rights;

doctor_attach_rights doctor_attach_find_rights(void);

/* Returns whether the process cannot be entered, and why in `reason`. */
bool doctor_attach_is_refused(const vw_process *process, const doctor_attach_rights *rights,
                              char reason[DOCTOR_ATTACH_REASON_BYTES]);

typedef struct doctor_attach {
    char folder[PATH_MAX - 64];              /* "" = there is none */
    char snapshot[PATH_MAX];                 /* in it */
    char reason[DOCTOR_ATTACH_REASON_BYTES]; /* why there is no snapshot */
} doctor_attach;

/* Has the process write a snapshot, and waits for it: 30 seconds, or as many as
 * VRAMWISE_ATTACH_SECONDS says. false: `reason` says why there is none. In both cases
 * doctor_attach_end() is to be called. */
bool doctor_attach_begin(doctor_attach *attach, const vw_process *process);
void doctor_attach_end(doctor_attach *attach);

#endif /* VRAMWISE_CLI_DOCTOR_ATTACH_H */
