/* torch_settings.c - the settings' life, the table of keys, and applying a string as a whole.
 *
 * A string is read into a copy of the settings, and the copy is taken over only when all of it was
 * good. (PyTorch writes as it reads, and keeps half of a string whose second half it refuses. We
 * do not follow it there: a caller that saw a failure must know what is in force.) */
#include "engine/torch/torch_settings.h"

#include <math.h> /* isfinite */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "engine/torch/torch_settings_parse.h"

/* ---- the keys -------------------------------------------------------------------------------- */

#define NOW VW__TORCH_NEWEST_VERSION
#define FIELD(name) offsetof(vw__torch_settings, name)

#define KEY(name, id, kind, first, last, is_common, offset)                                        \
    {                                                                                              \
        name, name, VW__TORCH_KEY_##id, VW__TORCH_VALUE_##kind, first, last, is_common, offset     \
    }
#define HIP(name, cuda_name, id, first, offset)                                                    \
    {                                                                                              \
        name, cuda_name, VW__TORCH_KEY_##id, VW__TORCH_VALUE_BOOL, first, NOW, false, offset       \
    }

static const vw__torch_key keys[] = {
    KEY("large_segment_size_mb", LARGE_SEGMENT, MEBIBYTES, 211, NOW, true,
        FIELD(large_segment_size_bytes)),
    KEY("max_split_size_mb", MAX_SPLIT, MEBIBYTES, 110, NOW, true, FIELD(max_split_size_bytes)),
    KEY("max_non_split_rounding_mb", OVERSIZE_SLACK, MEBIBYTES, 206, NOW, true,
        FIELD(max_non_split_rounding_bytes)),
    KEY("garbage_collection_threshold", GARBAGE_COLLECTION, FRACTION, 112, NOW, true,
        FIELD(garbage_collection_threshold)),
    KEY("roundup_power2_divisions", ROUNDUP, ROUNDUP, 112, NOW, true, 0),
    KEY("roundup_bypass_threshold_mb", ROUNDUP_BYPASS, MEBIBYTES, 113, 113, true,
        FIELD(roundup_bypass_bytes)),
    KEY("expandable_segments", EXPANDABLE, BOOL, 201, NOW, true, FIELD(is_expandable)),
    KEY("pinned_use_background_threads", PINNED_BACKGROUND, BOOL, 206, NOW, true,
        FIELD(pinned_use_background_threads)),
    KEY("pinned_max_round_threshold_mb", PINNED_ROUND, MEBIBYTES, 213, NOW, true,
        FIELD(pinned_max_round_threshold_bytes)),
    KEY("pinned_max_cached_size_mb", PINNED_CACHED, MEBIBYTES, 213, NOW, true,
        FIELD(pinned_max_cached_bytes)),
    KEY("backend", BACKEND, BACKEND, 200, NOW, false, 0),
    KEY("release_lock_on_cudamalloc", RELEASE_LOCK, BOOL, 201, NOW, false,
        FIELD(release_lock_on_device_malloc)),
    HIP("release_lock_on_hipmalloc", "release_lock_on_cudamalloc", RELEASE_LOCK, 201,
        FIELD(release_lock_on_device_malloc)),
    KEY("pinned_use_cuda_host_register", PINNED_REGISTER, BOOL, 202, NOW, false,
        FIELD(pinned_use_host_register)),
    HIP("pinned_use_hip_host_register", "pinned_use_cuda_host_register", PINNED_REGISTER, 202,
        FIELD(pinned_use_host_register)),
    KEY("pinned_num_register_threads", PINNED_THREADS, COUNT, 202, NOW, false,
        FIELD(pinned_register_thread_count)),
    KEY("pinned_reserve_segment_size_mb", PINNED_RESERVE, MEBIBYTES, 210, NOW, false,
        FIELD(pinned_reserve_segment_bytes)),
    KEY("graph_capture_record_stream_reuse", STREAM_REUSE, BOOL, 209, NOW, false,
        FIELD(graph_capture_record_stream_reuse)),
    KEY("per_process_memory_fraction", FRACTION, FRACTION, 210, NOW, false,
        FIELD(per_process_memory_fraction)),
    KEY("pinned_free_catch_all", PINNED_CATCH_ALL, BOOL, 212, NOW, false,
        FIELD(pinned_free_catch_all)),
    KEY("throw_on_cudamalloc_oom", THROW_ON_OOM, BOOL, 212, NOW, false, FIELD(throw_on_device_oom)),
    KEY("expandable_segments_reserve", RESERVE, RESERVE, 215, NOW, false, 0),
    KEY("expandable_segments_reserve_by_class", RESERVE_BY_CLASS, RESERVE_BY_CLASS, 215, NOW, false,
        0),
};

const vw__torch_key *vw__torch_key_at(size_t index)
{
    return index < sizeof keys / sizeof *keys ? &keys[index] : NULL;
}

const vw__torch_key *vw__torch_find_key(const char *name, int version)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i].name, name) == 0 && keys[i].first_version <= version &&
            version <= keys[i].last_version)
            return &keys[i];
    return NULL;
}

/* ---- helpers of both readers ----------------------------------------------------------------- */

bool vw__torch_is_reserve(const char *token)
{
    char *end = NULL;
    double value = vw__c_locale_strtod(token, &end);
    if (end == token || !isfinite(value) || !(value > 0))
        return false;
    /* What strtod takes and a C++ stream does not: spaces first, hexadecimal. */
    if (strspn(token, "0123456789.eE+-") != (size_t)(end - token))
        return false;
    return *end == '\0' || ((*end == 'G' || *end == 'g') && end[1] == '\0');
}

void vw__torch_warn(vw__torch_settings *settings, const char *format, ...)
{
    size_t used_bytes = strlen(settings->warnings);
    size_t room_bytes = sizeof settings->warnings - used_bytes;
    char *line = settings->warnings + used_bytes;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, room_bytes, format, args);
    va_end(args);
    if (length < 0 || (size_t)length + 2 > room_bytes) { /* its newline and the final zero */
        *line = '\0';
        return;
    }
    line[length] = '\n';
    line[length + 1] = '\0';
}

vw_status vw__torch_copy_text(const char *text, size_t length, char **out)
{
    char *copy = vw__host_alloc(length + 1);
    if (copy == NULL)
        return vw__fail_host_memory(length + 1, "the settings string");
    memcpy(copy, text, length);
    copy[length] = '\0';
    *out = copy;
    return VW_OK;
}

/* ---- the settings ---------------------------------------------------------------------------- */

void vw__torch_settings_init(vw__torch_settings *settings)
{
    *settings = (vw__torch_settings){
        .max_split_size_bytes = VW__TORCH_UNLIMITED,
        .max_non_split_rounding_bytes = VW__TORCH_DEFAULT_LARGE_SEGMENT_BYTES,
        .large_segment_size_bytes = VW__TORCH_DEFAULT_LARGE_SEGMENT_BYTES,
        .roundup_bypass_bytes = VW__TORCH_UNLIMITED,
        .per_process_memory_fraction = 1.0,
        .pinned_register_thread_count = 1,
        .pinned_max_round_threshold_bytes = VW__TORCH_UNLIMITED,
        .pinned_max_cached_bytes = VW__TORCH_UNLIMITED,
    };
}

static void free_texts(vw__torch_settings *settings)
{
    vw__host_free(settings->raw);
    vw__host_free(settings->expandable_reserve);
    vw__host_free(settings->expandable_reserve_by_class);
}

void vw__torch_settings_deinit(vw__torch_settings *settings)
{
    free_texts(settings);
    vw__torch_settings_init(settings);
}

/* What every string resets before it is read. The slack follows the large segment size, which the
 * string may still change: the readers set it. */
static void reset_for_parse(vw__torch_settings *next, const vw__torch_rules *rules)
{
    next->max_split_size_bytes = VW__TORCH_UNLIMITED;
    vw__torch_fill_roundup(next, 0, VW__TORCH_ROUNDUP_ENTRIES, 0);
    next->roundup_bypass_bytes = VW__TORCH_UNLIMITED;
    next->roundup_kind = rules->roundup;
    next->garbage_collection_threshold = 0;
    next->warnings[0] = '\0';
}

static bool changes_some_size(const vw__torch_settings *settings)
{
    uint64_t least = settings->roundup_kind == VW__TORCH_ROUNDUP_TABLE_ONE_IS_OFF ? 2 : 1;
    for (size_t i = 0; i < VW__TORCH_ROUNDUP_ENTRIES; i++)
        if (settings->roundup_divisions[i] >= least)
            return true;
    return false;
}

/* A string that was not given again stays. */
static char *newer(char *old_text, char *new_text)
{
    if (new_text == NULL)
        return old_text;
    vw__host_free(old_text);
    return new_text;
}

vw_status vw__torch_settings_apply(vw__torch_settings *settings, const vw__torch_rules *rules,
                                   const char *text, vw__torch_settings_mode mode)
{
    if (text == NULL)
        text = "";
    size_t length = strnlen(text, (size_t)VW__TORCH_SETTINGS_MOST_BYTES + 1);
    if (length > VW__TORCH_SETTINGS_MOST_BYTES)
        return vw__fail(VW_ERR_TOO_LARGE, "the settings string is longer than %u bytes",
                        VW__TORCH_SETTINGS_MOST_BYTES);

    vw__torch_settings next = *settings;
    next.raw = next.expandable_reserve = next.expandable_reserve_by_class = NULL;
    reset_for_parse(&next, rules);
    vw_status status = vw__torch_copy_text(text, length, &next.raw);
    if (status == VW_OK)
        status = mode == VW__TORCH_SETTINGS_STRICT
                     ? vw__torch_parse_strict(&next, rules, text)
                     : vw__torch_parse_like_torch(&next, rules, text, length);
    if (status != VW_OK) {
        free_texts(&next);
        return status;
    }

    next.has_roundup = changes_some_size(&next);
    next.is_backend_fixed = true;
    if (next.pinned_max_cached_bytes != VW__TORCH_UNLIMITED &&
        next.pinned_max_round_threshold_bytes != VW__TORCH_UNLIMITED &&
        next.pinned_max_round_threshold_bytes > next.pinned_max_cached_bytes)
        vw__torch_warn(&next, "pinned_max_round_threshold_mb is larger than "
                              "pinned_max_cached_size_mb: the cache limit wins");
    next.raw = newer(settings->raw, next.raw);
    next.expandable_reserve = newer(settings->expandable_reserve, next.expandable_reserve);
    next.expandable_reserve_by_class =
        newer(settings->expandable_reserve_by_class, next.expandable_reserve_by_class);
    *settings = next;
    return VW_OK;
}
