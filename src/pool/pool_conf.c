/* pool_conf.c - showing the settings in force. The engine has them; the caller sees a copy that was
 * taken under the lock, so that its visitor is called without it. */
#include "pool/pool.h"

#include <string.h>

#include "base/host_memory.h"

/* Names and values one after the other, each ended by a zero. */
typedef struct texts {
    char *bytes;
    size_t capacity;
    size_t size; /* needed: may be more than the capacity */
} texts;

static void add_text(texts *all, const char *text)
{
    size_t size = strlen(text) + 1;
    if (all->size + size <= all->capacity)
        memcpy(all->bytes + all->size, text, size);
    all->size += size;
}

static void add_setting(void *context, const char *name, const char *value)
{
    add_text(context, name);
    add_text(context, value);
}

static vw_status copy_settings(const vw_pool *pool, texts *all)
{
    for (;;) {
        all->size = 0;
        vw__pool_lock(pool);
        if (pool->engine->table->walk_conf != NULL)
            pool->engine->table->walk_conf(pool->engine, add_setting, all);
        vw__pool_unlock(pool);
        if (all->size <= all->capacity)
            return VW_OK;
        vw__host_free(all->bytes);
        all->capacity = all->size;
        all->bytes = vw__host_alloc(all->capacity);
        if (all->bytes == NULL)
            return vw__fail_host_memory(all->capacity, "the settings string");
    }
}

vw_status vw_pool_walk_conf(const vw_pool *pool, vw_conf_visitor visit, void *context)
{
    VW__TRY(vw__pool_enter(pool));
    if (visit == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a function to call");
    texts all = {.bytes = NULL};
    VW__TRY(copy_settings(pool, &all));
    for (size_t at = 0; at < all.size;) {
        const char *name = all.bytes + at, *value = name + strlen(name) + 1;
        visit(context, name, value);
        at += strlen(name) + strlen(value) + 2;
    }
    vw__host_free(all.bytes);
    return VW_OK;
}
