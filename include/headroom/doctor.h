/* doctor.h - which kind of out-of-memory it is, and what gives the bytes back.
 *
 * The doctor reads what a person has (a pasted error, a log, a step log, a recording) and gives a
 * verdict with its reasoning, the findings behind it, and remedies in the order in which to try
 * them, each with the bytes it would give back and the basis of that figure.
 *
 * Results are owned by the library: read-only, freed with hr_diagnosis_free(). What is not known is
 * HR_UNKNOWN, never a guess.
 *
 * Link with -lheadroom-analysis. Reading order: hr_doctor_file(), hr_diagnosis; then report.h to
 * print it. */
#ifndef HEADROOM_DOCTOR_H
#define HEADROOM_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/analysis.h"
#include "headroom/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What it comes to. The names are those of the JSON output. */
#define HR_VERDICT_LIST(X)                                                                         \
    X(GENUINE, "genuine")             /* more is needed than there is */                           \
    X(FRAGMENTATION, "fragmentation") /* enough is free, in pieces */                              \
    X(LEAK, "leak")                   /* something grows step after step */                        \
    X(KEPT_GRAPH, "kept-graph")       /* activations that no backward pass frees */                \
    X(STRANDED, "stranded")           /* idle, but on other streams or in private pools */         \
    X(OUTSIDE, "outside")             /* held by others: processes, contexts, libraries */         \
    X(CAPPED, "capped")               /* a limit that was set, not the card */                     \
    X(REFUSED, "refused")             /* the device had it free, and refused */                    \
    X(TOO_LARGE, "too-large")         /* one request larger than the card, or the limit */         \
    X(HOST, "host")                   /* the machine's memory, not the GPU's */                    \
    X(HEALTHY, "healthy")             /* nothing is wrong */                                       \
    X(NOT_OOM, "not-oom")             /* an error, but none about memory; or no error at all */    \
    X(UNKNOWN, "unknown")             /* too little is known, or it contradicts itself */

typedef enum hr_verdict {
#define HR_VERDICT_ENUM(upper, text) HR_VERDICT_##upper,
    HR_VERDICT_LIST(HR_VERDICT_ENUM)
#undef HR_VERDICT_ENUM
} hr_verdict;

typedef enum hr_confidence {
    HR_CONFIDENCE_LOW,
    HR_CONFIDENCE_MEDIUM,
    HR_CONFIDENCE_HIGH
} hr_confidence;

/* What a figure rests on, from the firmest down. */
typedef enum hr_basis {
    HR_BASIS_REPLAYED, /* the recording was run again with the change */
    HR_BASIS_MEASURED, /* counted in what was given */
    HR_BASIS_COMPUTED, /* from a formula, and what was given */
    HR_BASIS_RULE      /* a rule of thumb */
} hr_basis;

typedef enum hr_doctor_source {
    HR_SOURCE_TEXT,      /* a pasted error */
    HR_SOURCE_LOG,       /* a longer text with one in it, or several */
    HR_SOURCE_RECORDING, /* a memory snapshot */
    HR_SOURCE_STEPS      /* a log of steps with their memory */
} hr_doctor_source;

/* Something to do. */
typedef struct hr_remedy {
    const char *action;           /* one line: "set expandable_segments:True" */
    uint64_t saves_bytes;         /* HR_UNKNOWN; of a range, the lower end */
    uint64_t saves_at_most_bytes; /* the upper end; as saves_bytes where there is no range */
    hr_basis basis;
    const char *cost; /* time, accuracy, effort: one line */
    const char *how;  /* what to type: a setting, or a few lines of code */
} hr_remedy;

/* Bytes with a name: a part of the finding. */
typedef struct hr_part {
    const char *name;
    uint64_t bytes;
} hr_part;

/* One conclusion, with its evidence. Kinds: the verdicts that name a cause ("fragmentation",
 * "leak", "kept-graph", "stranded", "outside", "capped", ...), and "gradients-held", "held-over",
 * "peak", "near-limit", "input-bound", "warning". */
typedef struct hr_finding {
    const char *kind;
    const char *title;        /* one sentence */
    uint64_t bytes;           /* that it is about; HR_UNKNOWN */
    const char *const *where; /* "train.py:152 main", what matters most first */
    size_t where_count;
    const char *const *evidence; /* sentences: what was seen */
    size_t evidence_count;
    const hr_part *parts; /* largest first, where the bytes have parts */
    size_t part_count;
    const hr_remedy *remedies; /* in the order in which to try them */
    size_t remedy_count;
} hr_finding;

/* HR_UNKNOWN where it was not said. */
typedef struct hr_memory_numbers {
    uint64_t tried_bytes;     /* the request that failed */
    uint64_t total_bytes;     /* the card */
    uint64_t free_bytes;      /* by the driver */
    uint64_t allocated_bytes; /* live */
    uint64_t reserved_bytes;  /* held by PyTorch */
    uint64_t process_bytes;   /* held by the process, PyTorch and the rest */
    uint64_t allowed_bytes;   /* a limit that was set */
    int device;               /* -1 = not said */
} hr_memory_numbers;

typedef struct hr_diagnosis {
    hr_verdict verdict;
    hr_confidence confidence;
    hr_doctor_source source;
    const char *sentence;         /* the verdict, in one sentence with its numbers */
    uint64_t error_count;         /* reports of running out of memory that were found */
    const char *const *reasoning; /* how the verdict came about, step by step */
    size_t reasoning_count;
    hr_memory_numbers numbers;  /* at the failure; of a run that did not fail, at its peak; of one
                                   that is running, now */
    const hr_finding *findings; /* the cause first */
    size_t finding_count;
    bool is_running; /* the diagnosis is of a job that runs: see hr_doctor_job(), watch.h */
} hr_diagnosis;

typedef struct hr_doctor_options {
    size_t struct_size;        /* sizeof(hr_doctor_options) */
    uint64_t card_bytes;       /* judge as if the card had so much and no limit; 0: as it is */
    const char *torch_version; /* as in hr_replay_options */
    hr_progress progress;      /* or NULL */
    void *progress_context;
} hr_doctor_options;

/* Reads a file ("-" is standard input), plain or compressed, and sees for itself whether it is a
 * recording, a step log or any other text. `options` may be NULL. Errors as of
 * hr_recording_open(); bytes that are neither text nor a
 * recording are HR_ERR_CORRUPT_FILE, with words for what they are. */
HR_API HR_MUST_CHECK hr_status hr_doctor_file(const char *path, const hr_doctor_options *options,
                                              hr_diagnosis **out);

/* A text or a step log in memory, borrowed for the call. */
HR_API HR_MUST_CHECK hr_status hr_doctor_text(const char *text, size_t size_bytes,
                                              const hr_doctor_options *options, hr_diagnosis **out);

HR_API HR_MUST_CHECK hr_status hr_doctor_recording(const hr_recording *recording,
                                                   const hr_doctor_options *options,
                                                   hr_diagnosis **out);
HR_API void hr_diagnosis_free(hr_diagnosis *diagnosis); /* NULL does nothing */

/* Whether there is something to see: a verdict that is a problem, or a finding. What was alive at
 * the peak is told of every run, and is none. */
HR_API bool hr_diagnosis_is_problem(const hr_diagnosis *diagnosis);

/* There may be two accounts of one failure: a recording, and the error with the steps before it.
 * Does the second name a cause that the first cannot see? */
HR_API bool hr_diagnosis_sees_more(const hr_diagnosis *story, const hr_diagnosis *recording);

/* "genuine", "high", "replayed", "text": static. */
HR_API const char *hr_verdict_name(hr_verdict verdict);
HR_API const char *hr_confidence_name(hr_confidence confidence);
HR_API const char *hr_basis_name(hr_basis basis);
HR_API const char *hr_doctor_source_name(hr_doctor_source source);

#ifdef __cplusplus
}
#endif
#endif /* HEADROOM_DOCTOR_H */
