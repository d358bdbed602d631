/* process.h - any process of this machine, as the system shows it.
 *
 * A process without a page (live.h) still shows something: its command and its age, its host
 * memory, its threads, the libraries it has mapped, and, to its own user, its environment. All of
 * it is read from /proc; the process is not touched. vw_doctor_process() joins that with what NVML
 * says (watch.h) and names what would tell more.
 *
 * Link with -lvramwise-analysis. */
#ifndef VRAMWISE_PROCESS_H
#define VRAMWISE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/doctor.h"
#include "vramwise/status.h"
#include "vramwise/watch.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VW_PROCESS_TEXT_BYTES 256 /* of a text, its terminating zero included; any bytes */
#define VW_PROCESS_PATH_BYTES 4096
#define VW_PROCESS_MOST_VARIABLES 16
#define VW_PROCESS_MOST_FRAMEWORKS 16

/* A variable of its environment that matters for GPU memory. */
typedef struct vw_process_variable {
    const char *name; /* static */
    char value[VW_PROCESS_TEXT_BYTES];
} vw_process_variable;

/* Unknown numbers are VW_LIVE_UNKNOWN, unknown texts "". */
typedef struct vw_process {
    long process;
    unsigned long user;                     /* that it runs as */
    char command[VW_PROCESS_TEXT_BYTES];    /* "python3 train.py --epochs 3"; cut to fit */
    bool is_typable;                        /* no word of the command needs quotes in a shell */
    char executable[VW_PROCESS_PATH_BYTES]; /* its program's path */
    uint64_t age_seconds;
    uint64_t resident_bytes; /* of the machine's memory, now */
    uint64_t peak_resident_bytes;
    uint64_t swapped_bytes;
    uint64_t machine_total_bytes; /* the machine's memory */
    uint64_t machine_available_bytes;
    uint64_t thread_count;
    uint64_t running_count;   /* of its threads: on a processor, or ready to be */
    uint64_t disk_wait_count; /* of its threads: waiting for a disk or a network drive */
    uint64_t child_count;     /* processes that it has started, such as a DataLoader's workers */
    char waits_in[VW_JOB_TEXT_BYTES]; /* the kernel's function in which its first thread waits */
    bool is_environment_known;        /* false: another user's */
    vw_process_variable variables[VW_PROCESS_MOST_VARIABLES]; /* those that are set */
    size_t variable_count;
    bool are_libraries_known;                           /* false: another user's */
    const char *frameworks[VW_PROCESS_MOST_FRAMEWORKS]; /* static: "PyTorch", "JAX" */
    size_t framework_count;
    unsigned python_major, python_minor; /* 3, 14; 0: no Python, or unknown */
    bool is_debugging_off;               /* Python was told to refuse sys.remote_exec() */
    bool is_elsewhere;                   /* it sees other files than we do: a container */
} vw_process;

/* Reads what there is. VW_ERR_FILE: there is no such process. VW_ERR_HOST_MEMORY. */
VW_API VW_MUST_CHECK vw_status vw_process_read(long process, vw_process **out);
VW_API void vw_process_free(vw_process *process); /* NULL does nothing */

/* What can be said of a process from outside: what it and others hold on its GPU, and what would
 * tell more. `machine` is the one that it runs on. The numbers are current; `card_bytes` of the
 * options replaces the card's size. `options` may be NULL. Free with vw_diagnosis_free().
 *
 * VW_ERR_INVALID_ARGUMENT, VW_ERR_BAD_SETTING, VW_ERR_HOST_MEMORY */
VW_API VW_MUST_CHECK vw_status vw_doctor_process(const vw_process *process,
                                                 const vw_machine *machine,
                                                 const vw_doctor_options *options,
                                                 vw_diagnosis **out);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_PROCESS_H */
