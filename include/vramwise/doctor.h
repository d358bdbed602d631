/* doctor.h - why a job ran out of memory, and what to do about it.
 *
 * The doctor reads a pasted error, a log, a step log or a recording. It returns a verdict with its
 * reasoning, the findings behind it, and remedies in the order in which to try them, each with the
 * bytes it would give back and the basis of that figure.
 *
 * Results are owned by the library: read-only, freed with vw_diagnosis_free(). Unknown values are
 * VW_UNKNOWN, never a guess.
 *
 * Link with -lvramwise-analysis. Reading order: vw_doctor_file(), vw_diagnosis; then report.h to
 * print it. */
#ifndef VRAMWISE_DOCTOR_H
#define VRAMWISE_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/analysis.h"
#include "vramwise/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The names are those of the JSON output. */
#define VW_VERDICT_LIST(X)                                                                         \
    X(GENUINE, "genuine")             /* more is needed than there is */                           \
    X(FRAGMENTATION, "fragmentation") /* enough is free, in pieces */                              \
    X(LEAK, "leak")                   /* something grows step after step */                        \
    X(KEPT_GRAPH, "kept-graph")       /* activations that no backward pass frees */                \
    X(STRANDED, "stranded")           /* idle, but on other streams or in private pools */         \
    X(OUTSIDE, "outside")             /* held by other processes, contexts or libraries */         \
    X(CAPPED, "capped")               /* a configured limit, not the card */                       \
    X(REFUSED, "refused")             /* the device had it free, and refused */                    \
    X(TOO_LARGE, "too-large")         /* one request larger than the card, or the limit */         \
    X(HOST, "host")                   /* the machine's memory, not the GPU's */                    \
    X(HEALTHY, "healthy")             /* nothing is wrong */                                       \
    X(NOT_OOM, "not-oom")             /* another error, or no error at all */                      \
    X(UNKNOWN, "unknown")             /* too little evidence, or it contradicts itself */

typedef enum vw_verdict {
#define VW_VERDICT_ENUM(upper, text) VW_VERDICT_##upper,
    VW_VERDICT_LIST(VW_VERDICT_ENUM)
#undef VW_VERDICT_ENUM
} vw_verdict;

typedef enum vw_confidence {
    VW_CONFIDENCE_LOW,
    VW_CONFIDENCE_MEDIUM,
    VW_CONFIDENCE_HIGH
} vw_confidence;

/* What a figure rests on, the most reliable first. */
typedef enum vw_basis {
    VW_BASIS_REPLAYED, /* the recording was run again with the change */
    VW_BASIS_MEASURED, /* counted in the input */
    VW_BASIS_COMPUTED, /* by a formula, from the input */
    VW_BASIS_RULE      /* a rule of thumb */
} vw_basis;

typedef enum vw_doctor_source {
    VW_SOURCE_TEXT,      /* a pasted error */
    VW_SOURCE_LOG,       /* a longer text with one error or several */
    VW_SOURCE_RECORDING, /* a memory snapshot */
    VW_SOURCE_STEPS,     /* a log of steps with their memory */
    VW_SOURCE_PROCESS    /* a process that publishes nothing (process.h) */
} vw_doctor_source;

/* Whether a remedy alone would serve the request that failed. YES and NO need a replay under the
 * recording's own limit, or numbers that leave no doubt. */
typedef enum vw_enough { VW_ENOUGH_UNKNOWN, VW_ENOUGH_NO, VW_ENOUGH_YES } vw_enough;

/* Something to do. */
typedef struct vw_remedy {
    const char *action;           /* one line: "set expandable_segments:True" */
    uint64_t saves_bytes;         /* lower end of a range; VW_UNKNOWN */
    uint64_t saves_at_most_bytes; /* upper end; equal to saves_bytes if there is no range */
    vw_basis basis;
    vw_enough enough;
    const char *cost; /* time, accuracy, effort: one line */
    const char *how;  /* what to type: a setting, or a few lines of code */
} vw_remedy;

/* Named bytes: a part of a finding. */
typedef struct vw_part {
    const char *name;
    uint64_t bytes;
} vw_part;

/* One conclusion, with its evidence. Kinds: the verdicts that name a cause ("fragmentation",
 * "leak", "kept-graph", "stranded", "outside", "capped", ...), and "gradients-held", "held-over",
 * "peak", "near-limit", "input-bound", "process", "warning". */
typedef struct vw_finding {
    const char *kind;
    const char *title;        /* one sentence */
    uint64_t bytes;           /* bytes concerned; VW_UNKNOWN */
    const char *const *where; /* "train.py:152 main", most important first */
    size_t where_count;
    const char *const *evidence; /* sentences */
    size_t evidence_count;
    const vw_part *parts; /* of the bytes, largest first; may be empty */
    size_t part_count;
    const vw_remedy *remedies; /* in the order in which to try them */
    size_t remedy_count;
} vw_finding;

/* VW_UNKNOWN if the input does not say. */
typedef struct vw_memory_numbers {
    uint64_t tried_bytes;     /* the request that failed */
    uint64_t total_bytes;     /* the card */
    uint64_t free_bytes;      /* by the driver */
    uint64_t allocated_bytes; /* live */
    uint64_t reserved_bytes;  /* held by PyTorch */
    uint64_t process_bytes;   /* held by the process, PyTorch included */
    uint64_t allowed_bytes;   /* a configured limit */
    int device;               /* -1 = unknown */
} vw_memory_numbers;

/* The line of the program that failed. */
typedef struct vw_failed_at {
    const char *file;
    int line;             /* -1 = unknown */
    const char *function; /* or NULL */
    const char *code;     /* the line itself, from a traceback; or NULL */
    const char *phase; /* "forward", "backward", "optimizer", "generate", "evaluation", "loading",
                          "data", "saving", "other" */
} vw_failed_at;

typedef struct vw_diagnosis {
    vw_verdict verdict;
    vw_confidence confidence;
    vw_doctor_source source;
    const char *sentence;         /* the verdict, in one sentence with its numbers */
    uint64_t error_count;         /* out-of-memory errors in the input */
    const char *const *reasoning; /* how the verdict was reached, step by step */
    size_t reasoning_count;
    vw_memory_numbers numbers;  /* at the failure; without a failure, at the peak; for a running
                                   job, now */
    const vw_finding *findings; /* the cause first */
    size_t finding_count;
    bool is_running;               /* made by vw_doctor_job() (watch.h) for a running job */
    const vw_failed_at *failed_at; /* from a traceback or the stack of the request; NULL: unknown */
} vw_diagnosis;

typedef struct vw_doctor_options {
    size_t struct_size;        /* sizeof(vw_doctor_options) */
    uint64_t card_bytes;       /* judge as if the card had this size and no limit; 0: as it is */
    const char *torch_version; /* as in vw_replay_options */
    vw_progress progress;      /* or NULL */
    void *progress_context;
} vw_doctor_options;

/* Reads a file ("-" is standard input), plain or compressed, and detects whether it is a recording,
 * a step log or another text. `options` may be NULL. Errors as in vw_recording_open(); bytes that
 * are neither text nor a recording are VW_ERR_CORRUPT_FILE, and vw_last_error() names their type.
 */
VW_API VW_MUST_CHECK vw_status vw_doctor_file(const char *path, const vw_doctor_options *options,
                                              vw_diagnosis **out);

/* A text or a step log in memory, borrowed for the call. */
VW_API VW_MUST_CHECK vw_status vw_doctor_text(const char *text, size_t size_bytes,
                                              const vw_doctor_options *options, vw_diagnosis **out);

VW_API VW_MUST_CHECK vw_status vw_doctor_recording(const vw_recording *recording,
                                                   const vw_doctor_options *options,
                                                   vw_diagnosis **out);
VW_API void vw_diagnosis_free(vw_diagnosis *diagnosis); /* NULL does nothing */

/* Returns whether there is a problem: a verdict that is one, or a finding other than "peak", which
 * every run has. */
VW_API bool vw_diagnosis_is_problem(const vw_diagnosis *diagnosis);

/* For two diagnoses of one failure, `story` from its log and `recording` from its snapshot: returns
 * whether the log shows a cause that the snapshot cannot show. */
VW_API bool vw_diagnosis_sees_more(const vw_diagnosis *story, const vw_diagnosis *recording);

/* "genuine", "high", "replayed", "text": static. */
VW_API const char *vw_verdict_name(vw_verdict verdict);
VW_API const char *vw_confidence_name(vw_confidence confidence);
VW_API const char *vw_basis_name(vw_basis basis);
VW_API const char *vw_doctor_source_name(vw_doctor_source source);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_DOCTOR_H */
