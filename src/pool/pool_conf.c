/* pool_conf.c - the settings in force, under the names and in the spelling of PyTorch's snapshots.
 */
#include "pool/pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/host_memory.h"

/* A copy, taken under the lock, so that `visit` is called without it. */
static vw_status copy_settings(const vw_pool *pool, vw__torch_settings *settings, char **conf)
{
    char *copy = NULL;
    for (size_t capacity = 0;;) {
        vw__pool_lock(pool);
        *settings = *pool->engine->conf;
        const char *raw = settings->raw != NULL ? settings->raw : "";
        size_t size_bytes = strlen(raw) + 1;
        if (size_bytes <= capacity)
            memcpy(copy, raw, size_bytes);
        vw__pool_unlock(pool);
        if (size_bytes <= capacity)
            break;
        vw__host_free(copy);
        capacity = size_bytes;
        copy = vw__host_alloc(capacity);
        if (copy == NULL)
            return vw__fail_host_memory(capacity, "the settings string");
    }
    *conf = copy;
    return VW_OK;
}

static const char *python_bool(bool is_true)
{
    return is_true ? "True" : "False";
}

static const char *python_bytes(char text[24], uint64_t size_bytes)
{
    snprintf(text, 24, "%" PRId64, (int64_t)size_bytes); /* unlimited: -1 */
    return text;
}

/* As repr(float): the shortest form that reads back as the same number. */
static const char *python_float(char text[32], double number)
{
    for (int digits = 1; digits <= 17; digits++) {
        double back = 0;
        snprintf(text, 32, "%.*g", digits, number);
        if (sscanf(text, "%lf", &back) == 1 && memcmp(&back, &number, sizeof back) == 0)
            break;
    }
    if (strpbrk(text, ".en") == NULL)
        memcpy(text + strlen(text), ".0", 3);
    return text;
}

vw_status vw_pool_walk_conf(const vw_pool *pool, vw_conf_visitor visit, void *context)
{
    VW__TRY(vw__pool_enter(pool));
    if (visit == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a function to call");
    vw__torch_settings settings;
    char *conf, text[32];
    VW__TRY(copy_settings(pool, &settings, &conf));
    int version = pool->engine->wording->version; /* set at creation, then read-only */

    visit(context, "PYTORCH_CUDA_ALLOC_CONF", conf);
    visit(context, "max_split_size", python_bytes(text, settings.max_split_size_bytes));
    visit(context, "garbage_collection_threshold",
          python_float(text, settings.garbage_collection_threshold));
    visit(context, "expandable_segments", python_bool(settings.is_expandable));
    visit(context, "pinned_num_register_threads",
          python_bytes(text, settings.pinned_register_thread_count));
    visit(context, "release_lock_on_cudamalloc",
          python_bool(settings.release_lock_on_device_malloc));
    visit(context, "pinned_use_cuda_host_register", python_bool(settings.pinned_use_host_register));
    if (version >= 209)
        visit(context, "graph_capture_record_stream_reuse",
              python_bool(settings.graph_capture_record_stream_reuse));
    if (version >= 213) {
        visit(context, "max_round_threshold",
              python_bytes(text, settings.pinned_max_round_threshold_bytes));
        visit(context, "max_cached_size", python_bytes(text, settings.pinned_max_cached_bytes));
    }
    char divisions[VW__TORCH_ROUNDUP_ENTRIES * 40], *end = divisions;
    for (unsigned i = 0; i < VW__TORCH_ROUNDUP_ENTRIES; i++)
        end +=
            snprintf(end, 40, "%s'%u': %" PRIu64 "%s", i == 0 ? "{" : ", ", 1u << i,
                     settings.roundup_divisions[i], i + 1 < VW__TORCH_ROUNDUP_ENTRIES ? "" : "}");
    visit(context, "roundup_power2_divisions", divisions);
    vw__host_free(conf);
    return VW_OK;
}
