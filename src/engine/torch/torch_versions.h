/* torch_versions.h - what changed in PyTorch's allocator, release by release.
 *
 * The engine follows one PyTorch release to the byte, and the releases differ. Each difference is
 * one named field of vw__torch_rules, so that the code which needs it reads `rules->use_on_oom`
 * and never compares version numbers; which release changed what is written here, once. The
 * exception is the option string: which key exists since when is a table of its own
 * (torch_settings_parse.h), and looks at rules->version.
 *
 * Options that a release does not have are the key table's business too, and calls that a release
 * does not have (a memory fraction before 1.8, private pools that are not split before 2.10, exact
 * addresses before 2.13) are simply there. In 2.1 to 2.4 expandable blocks could be handed to
 * cudaFree when memory ran short; that is not reproduced.
 *
 * Two differences need no switch. Ages for garbage collection were counters in each block in 1.12
 * to 2.0 and in 2.2, and are differences of one clock per pool in 2.1 and since 2.3: both start at
 * 0 whenever a block enters the free set and rise by one per search of that pool, so they are
 * equal. And the sum of ages was a double before 2.4 and is an integer since: a double holds every
 * sum below 2^53 exactly.
 *
 * Release numbers are those of the main branch when the release was cut; a release branch may have
 * picked a change up earlier. 2.15 is the development version of August 2026. */
#ifndef VW_ENGINE_TORCH_TORCH_VERSIONS_H
#define VW_ENGINE_TORCH_TORCH_VERSIONS_H

#include <stdbool.h>

#include "vramwise/status.h" /* vw_status, VW_MUST_CHECK */

/* A version is 100 * major + minor: 1.13 is 113, 2.0 is 200, 2.11 is 211. */
#define VW__TORCH_OLDEST_VERSION 106
#define VW__TORCH_LAST_1_VERSION 113 /* 2.0 followed 1.13 */
#define VW__TORCH_DEFAULT_VERSION 211
#define VW__TORCH_NEWEST_VERSION 215

/* How roundup_power2_divisions rounds. */
typedef enum vw__torch_roundup_kind {
    VW__TORCH_ROUNDUP_NONE,               /* through 1.11 */
    VW__TORCH_ROUNDUP_SINGLE_COUNT,       /* 1.12-1.13: one count; 1 leaves sizes unrounded */
    VW__TORCH_ROUNDUP_TABLE_ONE_IS_ERROR, /* 2.0-2.3: a table; requests that meet a 1 fail */
    VW__TORCH_ROUNDUP_TABLE_ONE_IS_OFF,   /* 2.4+: a table; 1 and 0 both mean off */
} vw__torch_roundup_kind;

/* When pools marked use_on_oom are searched for a request that found no memory. */
typedef enum vw__torch_use_on_oom {
    VW__TORCH_USE_ON_OOM_NONE,           /* through 2.7 */
    VW__TORCH_USE_ON_OOM_AFTER_RELEASE,  /* 2.8-2.10: last of all */
    VW__TORCH_USE_ON_OOM_BEFORE_RELEASE, /* 2.11+: before anything cached is released */
} vw__torch_use_on_oom;

/* How a memory fraction becomes a limit in bytes (vw__torch_limit_bytes). */
typedef enum vw__torch_limit_rule {
    VW__TORCH_LIMIT_TRUNCATED_ALSO_FOR_ONE, /* through 2.9 */
    VW__TORCH_LIMIT_TRUNCATED,              /* 2.10-2.12: a fraction of 1 is no limit */
    VW__TORCH_LIMIT_ROUNDED,                /* 2.13+: halves away from zero */
} vw__torch_limit_rule;

/* Which of several free blocks of equal size on one stream is taken: the least of these. */
typedef enum vw__torch_tie_break {
    VW__TORCH_TIE_ADDRESS,         /* through 2.11 */
    VW__TORCH_TIE_BLOCK_COUNTER,   /* 2.12: a number for every block made. Its release branch has
                                      it; on the main branch it was taken back later */
    VW__TORCH_TIE_SEGMENT_COUNTER, /* 2.13+: a number for every segment made, then the address */
} vw__torch_tie_break;

/* What counts as capturing when events are looked at and when a failed request is retried. */
typedef enum vw__torch_capturing {
    VW__TORCH_CAPTURING_ANY_SCOPE,      /* through 2.12: an allocation scope is active */
    VW__TORCH_CAPTURING_CURRENT_STREAM, /* 2.13+: the caller's current stream really captures */
} vw__torch_capturing;

/* Whether releasing cached blocks touches the default pools. */
typedef enum vw__torch_scope_release {
    VW__TORCH_RELEASE_IN_SCOPES,           /* through 2.7: always */
    VW__TORCH_RELEASE_OUTSIDE_SCOPES,      /* 2.8-2.12: not while any scope is active */
    VW__TORCH_RELEASE_OUTSIDE_OF_CAPTURES, /* 2.13+: not while the current stream captures */
} vw__torch_scope_release;

/* How the option string is read. */
typedef enum vw__torch_grammar {
    VW__TORCH_GRAMMAR_NONE,       /* through 1.9: there is no option string */
    VW__TORCH_GRAMMAR_WORDS,      /* 1.10-1.13: words parted by space or comma, each cut at ':';
                                     a word without a value is ignored */
    VW__TORCH_GRAMMAR_SEPARATORS, /* 2.0-2.9: tokens; a wrong ':' or ',' is an error; only the
                                     space character is dropped */
    VW__TORCH_GRAMMAR_TOKENS,     /* 2.10+: tokens; any token passes for a separator; all white
                                     space is dropped */
} vw__torch_grammar;

/* The wording of the out-of-memory message, by the release that introduced it. */
typedef enum vw__torch_oom_text {
    VW__TORCH_OOM_TEXT_1_4,  /* 1.6-1.7 of the releases we follow */
    VW__TORCH_OOM_TEXT_1_8,  /* 1.8-1.9: "{limit} allowed; " under a fraction */
    VW__TORCH_OOM_TEXT_1_10, /* 1.10-2.0: max_split_size_mb is suggested */
    VW__TORCH_OOM_TEXT_2_1,  /* 2.1: processes; "capacty" */
    VW__TORCH_OOM_TEXT_2_2,  /* 2.2-2.3: expandable_segments is suggested */
    VW__TORCH_OOM_TEXT_2_4,  /* 2.4: private pools */
    VW__TORCH_OOM_TEXT_2_5,  /* 2.5-2.9: "{limit} allowed; " is back */
    VW__TORCH_OOM_TEXT_2_10, /* 2.10: PYTORCH_ALLOC_CONF */
    VW__TORCH_OOM_TEXT_2_11, /* 2.11-2.13: PYTORCH_CUDA_ALLOC_CONF again, another address */
    VW__TORCH_OOM_TEXT_2_14, /* 2.14: no suggestion with expandable segments on */
    VW__TORCH_OOM_TEXT_2_15, /* 2.15: suggests expandable_segments_reserve instead */
} vw__torch_oom_text;

/* Everything that differs. Filled by vw__torch_rules_for(), then read-only. */
typedef struct vw__torch_rules {
    int version; /* the release followed; VW__TORCH_NEWEST_VERSION where a newer one was asked */

    /* Searching, splitting, growing. */
    bool has_max_split;             /* 1.10: max_split_size_mb, oversize blocks and statistics */
    vw__torch_roundup_kind roundup; /* 1.12, 2.0, 2.4 */
    bool has_expandable;            /* 2.1 */
    bool reserve_is_configurable;   /* 2.15: expandable_segments_reserve, 9/8 before; and a
                                       request larger than a new reservation is refused */
    vw__torch_tie_break tie_break;  /* 2.12, 2.13 */

    /* Limits, and what happens when memory runs out. */
    vw__torch_limit_rule limit_rule; /* 2.10, 2.13 */
    vw__torch_use_on_oom use_on_oom; /* 2.8, 2.11 */

    /* Private pools and captures. */
    bool custom_pools_ignore_expandable;   /* 2.10: pools with an allocator of their own */
    bool scopes_newest_first;              /* 2.10: oldest first before */
    vw__torch_capturing capturing;         /* 2.13 */
    vw__torch_scope_release scope_release; /* 2.8, 2.13 */
    bool frees_deferred_at_scope_end;      /* 2.12, with graph_capture_record_stream_reuse: the
                                              blocks of the scope's pool that wait for its end */

    /* The option string. */
    vw__torch_grammar grammar;        /* 1.10, 2.0, 2.10; the wording of errors goes with it */
    bool max_split_must_be_larger;    /* through 2.9 "must be > 20"; ">=" since 2.10 */
    bool parse_resets_oversize_slack; /* 2.11; before, a parse left it as it was */
    bool roundup_rest_keeps_last;     /* 2.10: '>' in a list starts after the last boundary;
                                         before, it overwrote that boundary's entry too */
    bool roundup_text_is_misspelt;    /* "divisons", through 2.7 (the release is uncertain) */

    /* What users read. */
    vw__torch_oom_text oom_text; /* see the enum */
    bool has_requested_bytes;    /* 2.0: in memory_stats and as rows of memory_summary */
    bool has_device_call_counts; /* 2.3: num_sync_all_streams, num_device_alloc, ..._free */
    bool has_rejection_count;    /* 2.12: num_oom_rejections */
    bool has_private_pool_stats; /* 2.13: reserved_bytes_by_private_pools */
} vw__torch_rules;

/* Reads "2.11.0+cu130", "2.11", "v2.9.1" or "2.12.0a0+git1234567": white space and a 'v' may come
 * first, and whatever follows the minor number is ignored.
 *
 * VW_ERR_INVALID_ARGUMENT   no number, a dot and a number from 0 to 99; *out is untouched */
VW_MUST_CHECK vw_status vw__torch_parse_version(const char *text, int *out);

/* The rules of one release. A release newer than the newest known follows the newest known.
 *
 * VW_ERR_INVALID_ARGUMENT   older than VW__TORCH_OLDEST_VERSION, or a release that never was
 *                           (1.14 to 1.99); *out is untouched */
VW_MUST_CHECK vw_status vw__torch_rules_for(int version, vw__torch_rules *out);

/* Both at once; NULL is VW__TORCH_DEFAULT_VERSION. */
VW_MUST_CHECK vw_status vw__torch_rules_of(const char *text, vw__torch_rules *out);

#endif /* VW_ENGINE_TORCH_TORCH_VERSIONS_H */
