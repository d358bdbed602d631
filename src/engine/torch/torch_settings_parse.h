/* torch_settings_parse.h - what the two readers of the option string share: the table of keys.
 *
 * torch_settings.c copies the settings, lets one of the readers below write into the copy, and
 * takes the copy over when it succeeded; so the readers may stop anywhere. In the copy the owned
 * strings are new or NULL. */
#ifndef HR_ENGINE_TORCH_TORCH_SETTINGS_PARSE_H
#define HR_ENGINE_TORCH_TORCH_SETTINGS_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/torch/torch_settings.h"

#define HR__TORCH_BYTES_PER_MB (UINT64_C(1) << 20) /* "mb" in a key's name means MiB */

typedef enum hr__torch_key_id {
    HR__TORCH_KEY_LARGE_SEGMENT,
    HR__TORCH_KEY_MAX_SPLIT,
    HR__TORCH_KEY_OVERSIZE_SLACK,
    HR__TORCH_KEY_GARBAGE_COLLECTION,
    HR__TORCH_KEY_ROUNDUP,
    HR__TORCH_KEY_ROUNDUP_BYPASS,
    HR__TORCH_KEY_EXPANDABLE,
    HR__TORCH_KEY_PINNED_BACKGROUND,
    HR__TORCH_KEY_PINNED_ROUND,
    HR__TORCH_KEY_PINNED_CACHED,
    HR__TORCH_KEY_BACKEND,
    HR__TORCH_KEY_RELEASE_LOCK,
    HR__TORCH_KEY_PINNED_REGISTER,
    HR__TORCH_KEY_PINNED_THREADS,
    HR__TORCH_KEY_PINNED_RESERVE,
    HR__TORCH_KEY_STREAM_REUSE,
    HR__TORCH_KEY_FRACTION,
    HR__TORCH_KEY_PINNED_CATCH_ALL,
    HR__TORCH_KEY_THROW_ON_OOM,
    HR__TORCH_KEY_RESERVE,
    HR__TORCH_KEY_RESERVE_BY_CLASS,
    HR__TORCH_KEYS
} hr__torch_key_id;

typedef enum hr__torch_value_kind {
    HR__TORCH_VALUE_BOOL,      /* a bool of the settings */
    HR__TORCH_VALUE_MEBIBYTES, /* a uint64_t of the settings, in bytes */
    HR__TORCH_VALUE_COUNT,     /* a uint64_t of the settings */
    HR__TORCH_VALUE_FRACTION,  /* a double of the settings */
    HR__TORCH_VALUE_ROUNDUP,
    HR__TORCH_VALUE_BACKEND,
    HR__TORCH_VALUE_RESERVE,
    HR__TORCH_VALUE_RESERVE_BY_CLASS,
} hr__torch_value_kind;

typedef struct hr__torch_key {
    const char *name;
    const char *name_in_errors; /* the same, but for the HIP spellings */
    hr__torch_key_id id;
    hr__torch_value_kind kind;
    int first_version;
    int last_version;    /* HR__TORCH_NEWEST_VERSION while it exists */
    bool is_common;      /* since 2.10: read by the parser all devices share, before CUDA's */
    size_t field_offset; /* in hr__torch_settings, for the first four kinds */
} hr__torch_key;

/* The key of that name, if the release knows it; else NULL. */
const hr__torch_key *hr__torch_find_key(const char *name, int version);

/* The keys one after the other, releases aside; NULL past the end. */
const hr__torch_key *hr__torch_key_at(size_t index);

/* The field a key sets. */
static inline void *hr__torch_key_field(const hr__torch_key *key, hr__torch_settings *settings)
{
    return (char *)settings + key->field_offset;
}

/* value * MiB, cut as PyTorch cuts it: at the largest whole MiB that fits 64 bits. */
static inline uint64_t hr__torch_mebibytes(uint64_t value)
{
    uint64_t most = UINT64_MAX / HR__TORCH_BYTES_PER_MB;
    return (value < most ? value : most) * HR__TORCH_BYTES_PER_MB;
}

/* Fills entries [from, to) of the roundup table. */
static inline void hr__torch_fill_roundup(hr__torch_settings *settings, size_t from, size_t to,
                                          uint64_t divisions)
{
    for (size_t i = from; i < to; i++)
        settings->roundup_divisions[i] = divisions;
}

/* A positive finite number, with a 'G' or 'g' after it or not. */
bool hr__torch_is_reserve(const char *token);

/* Adds a line; dropped whole where it does not fit. */
__attribute__((format(printf, 2, 3))) void hr__torch_warn(hr__torch_settings *settings,
                                                          const char *format, ...);

/* A copy through host_memory.h. */
HR_MUST_CHECK hr_status hr__torch_copy_text(const char *text, size_t length, char **out);

/* The readers. `length` is that of `text`, and at most HR__TORCH_SETTINGS_MOST_BYTES. */
HR_MUST_CHECK hr_status hr__torch_parse_like_torch(hr__torch_settings *next,
                                                   const hr__torch_rules *rules, const char *text,
                                                   size_t length);
HR_MUST_CHECK hr_status hr__torch_parse_strict(hr__torch_settings *next,
                                               const hr__torch_rules *rules, const char *text);

#endif /* HR_ENGINE_TORCH_TORCH_SETTINGS_PARSE_H */
