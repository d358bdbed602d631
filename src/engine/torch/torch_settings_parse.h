/* torch_settings_parse.h - what the parser of the option string and its strict check share: the
 * table of keys.
 *
 * torch_settings.c copies the settings, lets the parser write into the copy, perhaps after the
 * check, and takes the copy over when that succeeded; so it may stop anywhere. In the copy the
 * owned strings are new or NULL. */
#ifndef VW_ENGINE_TORCH_TORCH_SETTINGS_PARSE_H
#define VW_ENGINE_TORCH_TORCH_SETTINGS_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/torch/torch_settings.h"

#define VW__TORCH_BYTES_PER_MB (UINT64_C(1) << 20) /* "mb" in a key's name means MiB */

typedef enum vw__torch_key_id {
    VW__TORCH_KEY_LARGE_SEGMENT,
    VW__TORCH_KEY_MAX_SPLIT,
    VW__TORCH_KEY_OVERSIZE_SLACK,
    VW__TORCH_KEY_GARBAGE_COLLECTION,
    VW__TORCH_KEY_ROUNDUP,
    VW__TORCH_KEY_ROUNDUP_BYPASS,
    VW__TORCH_KEY_EXPANDABLE,
    VW__TORCH_KEY_PINNED_BACKGROUND,
    VW__TORCH_KEY_PINNED_ROUND,
    VW__TORCH_KEY_PINNED_CACHED,
    VW__TORCH_KEY_BACKEND,
    VW__TORCH_KEY_RELEASE_LOCK,
    VW__TORCH_KEY_PINNED_REGISTER,
    VW__TORCH_KEY_PINNED_THREADS,
    VW__TORCH_KEY_PINNED_RESERVE,
    VW__TORCH_KEY_STREAM_REUSE,
    VW__TORCH_KEY_FRACTION,
    VW__TORCH_KEY_PINNED_CATCH_ALL,
    VW__TORCH_KEY_THROW_ON_OOM,
    VW__TORCH_KEY_RESERVE,
    VW__TORCH_KEY_RESERVE_BY_CLASS,
    VW__TORCH_KEYS
} vw__torch_key_id;

typedef enum vw__torch_value_kind {
    VW__TORCH_VALUE_BOOL,      /* a bool of the settings */
    VW__TORCH_VALUE_MEBIBYTES, /* a uint64_t of the settings, in bytes */
    VW__TORCH_VALUE_COUNT,     /* a uint64_t of the settings */
    VW__TORCH_VALUE_FRACTION,  /* a double of the settings */
    VW__TORCH_VALUE_ROUNDUP,
    VW__TORCH_VALUE_BACKEND,
    VW__TORCH_VALUE_RESERVE,
    VW__TORCH_VALUE_RESERVE_BY_CLASS,
} vw__torch_value_kind;

typedef struct vw__torch_key {
    const char *name;
    const char *name_in_errors; /* the same, but for the HIP spellings */
    vw__torch_key_id id;
    vw__torch_value_kind kind;
    int first_version;
    int last_version;    /* VW__TORCH_NEWEST_VERSION while it exists */
    bool is_common;      /* since 2.10: read by the parser all devices share, before CUDA's */
    size_t field_offset; /* in vw__torch_settings, for the first four kinds */
} vw__torch_key;

/* The key of that name, if the release knows it; else NULL. */
const vw__torch_key *vw__torch_find_key(const char *name, int version);

/* The keys one after the other, releases aside; NULL past the end. */
const vw__torch_key *vw__torch_key_at(size_t index);

/* The field a key sets. */
static inline void *vw__torch_key_field(const vw__torch_key *key, vw__torch_settings *settings)
{
    return (char *)settings + key->field_offset;
}

/* value * MiB, cut as PyTorch cuts it: at the largest whole MiB that fits 64 bits. */
static inline uint64_t vw__torch_mebibytes(uint64_t value)
{
    uint64_t most = UINT64_MAX / VW__TORCH_BYTES_PER_MB;
    return (value < most ? value : most) * VW__TORCH_BYTES_PER_MB;
}

/* Fills entries [from, to) of the roundup table. */
static inline void vw__torch_fill_roundup(vw__torch_settings *settings, size_t from, size_t to,
                                          uint64_t divisions)
{
    for (size_t i = from; i < to; i++)
        settings->roundup_divisions[i] = divisions;
}

/* A positive finite number, with a 'G' or 'g' after it or not. */
bool vw__torch_is_reserve(const char *token);

/* Adds a line; dropped whole where it does not fit. */
__attribute__((format(printf, 2, 3))) void vw__torch_warn(vw__torch_settings *settings,
                                                          const char *format, ...);

/* A copy through host_memory.h. */
VW_MUST_CHECK vw_status vw__torch_copy_text(const char *text, size_t length, char **out);

/* Reads the string as PyTorch does; the second one checks it first. `length` is that of `text`, and
 * at most VW__TORCH_SETTINGS_MOST_BYTES. */
VW_MUST_CHECK vw_status vw__torch_parse_like_torch(vw__torch_settings *next,
                                                   const vw__torch_rules *rules, const char *text,
                                                   size_t length);
VW_MUST_CHECK vw_status vw__torch_parse_strict(vw__torch_settings *next,
                                               const vw__torch_rules *rules, const char *text);

#endif /* VW_ENGINE_TORCH_TORCH_SETTINGS_PARSE_H */
