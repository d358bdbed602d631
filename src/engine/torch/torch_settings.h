/* torch_settings.h - PyTorch's option string (PYTORCH_CUDA_ALLOC_CONF), as typed values.
 *
 * A string is applied to settings as PyTorch applies one while running: some values return to
 * their defaults with every string, others stay until a later string names them again. The first
 * string applied plays the part of the environment, and fixes the backend for good.
 *
 *   returns to its default   max_split, roundup divisions and bypass, garbage collection threshold,
 *                            and since 2.11 the slack for oversize blocks
 *   stays                    all the rest
 *
 * A string can be read in two ways. LIKE_TORCH accepts and refuses exactly what the release does,
 * oddities included ("-1" is a huge number, "25MB" is 25, since 2.10 any token passes for a
 * separator), and fails with PyTorch's own words and no others, so that a tool which stands in for
 * PyTorch behaves as it. STRICT is for people who write such strings: the same keys, but whatever
 * is doubtful is an error that says where it is, what was expected and what was found, and what
 * has no effect is a warning.
 *
 * Where PyTorch's words come out of an internal assertion we give its message without the source
 * line that precedes it. Numbers that cannot be read fail with the name of the C++ function that
 * refused them and nothing else ("stoull", "stod", before 2.10 "stoi" and "stoul"): that is what
 * libstdc++'s exceptions say, and what users see.
 *
 * No locks: the owner of the settings has one. */
#ifndef VW_ENGINE_TORCH_TORCH_SETTINGS_H
#define VW_ENGINE_TORCH_TORCH_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "vramwise/status.h"             /* vw_status, VW_MUST_CHECK */
#include "engine/torch/torch_versions.h" /* vw__torch_rules */

#define VW__TORCH_UNLIMITED UINT64_MAX
#define VW__TORCH_ROUNDUP_ENTRIES 16
#define VW__TORCH_DEFAULT_LARGE_SEGMENT_BYTES (UINT64_C(20) << 20)
#define VW__TORCH_MOST_REGISTER_THREADS 128
#define VW__TORCH_SETTINGS_MOST_BYTES (1u << 20) /* the longest string read */
#define VW__TORCH_SETTINGS_WARNING_BYTES 1024

typedef enum vw__torch_backend {
    VW__TORCH_BACKEND_NATIVE,
    VW__TORCH_BACKEND_CUDA_MALLOC_ASYNC,
} vw__torch_backend;

typedef enum vw__torch_settings_mode {
    VW__TORCH_SETTINGS_LIKE_TORCH,
    VW__TORCH_SETTINGS_STRICT,
} vw__torch_settings_mode;

/* Always: 10 MiB < large_segment_size_bytes <= max_split_size_bytes, and <=
 * max_non_split_rounding_bytes; has_roundup == some entry of roundup_divisions changes a size. */
typedef struct vw__torch_settings {
    /* What the hot path looks at. */
    uint64_t max_split_size_bytes; /* VW__TORCH_UNLIMITED: every block may be split */
    uint64_t max_non_split_rounding_bytes;
    uint64_t large_segment_size_bytes;
    double garbage_collection_threshold; /* 0: off */
    bool has_roundup;
    bool is_expandable;

    /* Entry 0 is for sizes below 2 MiB, entry i for [2^i, 2^(i+1)) MiB, the last for the rest. */
    uint64_t roundup_divisions[VW__TORCH_ROUNDUP_ENTRIES];
    uint64_t roundup_bypass_bytes;       /* 1.13 only: larger requests are not rounded by it */
    vw__torch_roundup_kind roundup_kind; /* the release's, kept here for rounding */

    /* The rest of the device's options. */
    vw__torch_backend backend;
    bool is_backend_fixed; /* a string was applied */
    bool release_lock_on_device_malloc;
    bool throw_on_device_oom;
    bool graph_capture_record_stream_reuse;
    double per_process_memory_fraction; /* 1: no limit. Read when a pool is made, not later */

    /* Pinned host memory. */
    bool pinned_use_background_threads;
    bool pinned_use_host_register;
    bool pinned_free_catch_all;
    uint64_t pinned_register_thread_count;
    uint64_t pinned_reserve_segment_bytes;     /* 0: off */
    uint64_t pinned_max_round_threshold_bytes; /* VW__TORCH_UNLIMITED by default */
    uint64_t pinned_max_cached_bytes;          /* VW__TORCH_UNLIMITED by default */

    /* As written, checked for form only; owned by the settings; NULL where never given. */
    char *expandable_reserve; /* "0.5" of the device, or "40G" */
    char
        *expandable_reserve_by_class; /* "[serving:0.25,sparse:8G]", entries of bad form left out */

    char *raw; /* the last string applied; owned by the settings; NULL before the first */

    /* What the last string applied gave cause for: lines, each ended by a newline. Ours in STRICT,
     * PyTorch's in both; PyTorch prints some of its own only once in a process. */
    char warnings[VW__TORCH_SETTINGS_WARNING_BYTES];
} vw__torch_settings;

/* PyTorch's defaults. Nothing is allocated. */
void vw__torch_settings_init(vw__torch_settings *settings);

/* Frees what the settings own and sets the defaults again. */
void vw__torch_settings_deinit(vw__torch_settings *settings);

/* Reads `text` by the rules of one release; NULL is the empty string. A call that fails changed
 * nothing.
 *
 * VW_ERR_BAD_SETTING   refused; vw_last_error() is PyTorch's own text (LIKE_TORCH), or says where
 *                      and why (STRICT)
 * VW_ERR_TOO_LARGE     longer than VW__TORCH_SETTINGS_MOST_BYTES
 * VW_ERR_HOST_MEMORY */
VW_MUST_CHECK vw_status vw__torch_settings_apply(vw__torch_settings *settings,
                                                 const vw__torch_rules *rules, const char *text,
                                                 vw__torch_settings_mode mode);

#endif /* VW_ENGINE_TORCH_TORCH_SETTINGS_H */
