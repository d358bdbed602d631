/* pool_stats.c - statistics, put together from counters when somebody looks.
 *
 * The counters (engine/counters.h) hold what is cheap to count; here they become the numbers that
 * torch.cuda.memory_stats() shows, under its keys, in its order.
 *
 * That order is Python's sorted() over the flattened keys: by bytes, in which '.' comes before
 * digits, digits before '_', and '_' before letters. So "active.all.peak" precedes
 * "active_bytes.all.peak", and private pool (10, 0) precedes (1, 0). The fixed keys are written
 * down in that order below, and tests/unit/test_pool_stats.c compares each key with the one before
 * it; private pools are sorted by name, in a tree, because qsort() takes host memory behind our
 * back.
 *
 * Numbers are gathered under the pool's lock, so they belong to one instant; the visitor is called
 * without it. */
#include "pool/pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/host_memory.h"
#include "base/ordered_tree.h"
#include "base/struct_size.h"

/* ---- from counters to statistics ------------------------------------------------------------- */

static vw_stat stat_of_kind(const vw__counter *counter, vw__engine_size_kind kind)
{
    const vw_stat stat = {
        .current = counter->current[kind],
        .peak = counter->peak[kind],
        .allocated = counter->current[kind] - counter->base[kind] + counter->freed[kind],
        .freed = counter->freed[kind],
    };
    return stat;
}

static vw_stat_group group_of(const vw__counter *counter)
{
    vw_stat_group group = {
        .small_pool = stat_of_kind(counter, VW__ENGINE_SMALL),
        .large_pool = stat_of_kind(counter, VW__ENGINE_LARGE),
    };
    group.all = (vw_stat){
        .current = group.small_pool.current + group.large_pool.current,
        .peak = counter->peak_all,
        .allocated = group.small_pool.allocated + group.large_pool.allocated,
        .freed = group.small_pool.freed + group.large_pool.freed,
    };
    return group;
}

/* Under the lock. */
static void put_together(const vw_pool *pool, vw_pool_stats *stats)
{
    const vw__counters *counters = &pool->counters;
    *stats = (vw_pool_stats){
        .struct_size = sizeof *stats,
#define FILL_GROUP(name) .name = group_of(&counters->name),
        VW_STAT_GROUP_LIST(FILL_GROUP)
#undef FILL_GROUP
            .oversize_allocations = group_of(&counters->oversize_allocations).all,
        .oversize_segments = group_of(&counters->oversize_segments).all,
        .max_split_size = pool->max_split_at_creation,
        .num_alloc_retries = counters->num_alloc_retries,
        .num_device_alloc = counters->num_device_alloc,
        .num_device_free = counters->num_device_free,
        .num_oom_rejections = counters->num_oom_rejections,
        .num_ooms = counters->num_ooms,
        .num_sync_all_streams = counters->num_sync_all_streams,
        .limit_bytes = pool->engine->limit_bytes,
    };
    stats->active_bytes.all.peak = vw__counters_active_peak(counters);
}

vw_status vw_pool_get_stats(const vw_pool *pool, vw_pool_stats *stats)
{
    VW__TRY(vw__pool_enter(pool));
    VW__TRY(VW__STRUCT_CHECK_OUT(vw_pool_stats, stats));
    vw_pool_stats all;
    vw__pool_lock(pool);
    put_together(pool, &all);
    if (VW__STRUCT_HAS(vw_pool_stats, stats, largest_free_block_bytes)) /* else it need not look */
        all.largest_free_block_bytes = pool->engine->table->largest_free(pool->engine, NULL);
    vw__pool_unlock(pool);
    VW__STRUCT_OUT(vw_pool_stats, &all, stats);
    return VW_OK;
}

/* ---- under PyTorch's keys -------------------------------------------------------------------- */

/* The longest is "reserved_bytes_by_private_pools.", two numbers and ".small_pool.allocated". */
enum { KEY_BYTES = 128, PRIVATE_NAME_BYTES = 48 };

typedef struct private_entry {
    vw__tree_node node;            /* by name */
    char name[PRIVATE_NAME_BYTES]; /* "0_1" */
    vw_stat_group reserved_bytes;
} private_entry;

typedef struct listener {
    vw_stat_visitor visit;
    void *context;
} listener;

static void tell_number(const listener *to, const char *key, int64_t value)
{
    to->visit(to->context, key, value);
}

static void tell_stat(const listener *to, const char *prefix, const vw_stat *stat)
{
    const struct {
        const char *name;
        int64_t value;
    } parts[] = {{"allocated", stat->allocated},
                 {"current", stat->current},
                 {"freed", stat->freed},
                 {"peak", stat->peak}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char key[KEY_BYTES];
        snprintf(key, sizeof key, "%s.%s", prefix, parts[i].name);
        tell_number(to, key, parts[i].value);
    }
}

static void tell_group(const listener *to, const char *name, const vw_stat_group *group)
{
    const struct {
        const char *name;
        const vw_stat *stat;
    } parts[] = {{"all", &group->all},
                 {"large_pool", &group->large_pool},
                 {"small_pool", &group->small_pool}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char prefix[KEY_BYTES / 2 + PRIVATE_NAME_BYTES];
        snprintf(prefix, sizeof prefix, "%s.%s", name, parts[i].name);
        tell_stat(to, prefix, parts[i].stat);
    }
}

static private_entry *entry_of(vw__tree_node *node)
{
    return (private_entry *)(void *)node; /* `node` is the first field */
}

static bool name_before(const vw__tree_node *a, const vw__tree_node *b)
{
    return strcmp(((const private_entry *)(const void *)a)->name,
                  ((const private_entry *)(const void *)b)->name) < 0;
}

static void tell_private(const listener *to, private_entry *entries, size_t count)
{
    vw__tree_node *root = NULL;
    for (size_t i = 0; i < count; i++)
        vw__tree_insert(&root, &entries[i].node, name_before);
    for (vw__tree_node *node = vw__tree_first(root); node != NULL;
         node = vw__tree_after(root, node, name_before)) {
        char name[KEY_BYTES / 2 + PRIVATE_NAME_BYTES / 2];
        snprintf(name, sizeof name, "reserved_bytes_by_private_pools.%s", entry_of(node)->name);
        tell_group(to, name, &entry_of(node)->reserved_bytes);
    }
}

/* Every key the release has, sorted. */
static void tell_all(const listener *to, const vw__torch_rules *rules, const vw_pool_stats *stats,
                     private_entry *entries, size_t count)
{
    tell_group(to, "active", &stats->active);
    tell_group(to, "active_bytes", &stats->active_bytes);
    tell_group(to, "allocated_bytes", &stats->allocated_bytes);
    tell_group(to, "allocation", &stats->allocation);
    tell_group(to, "inactive_split", &stats->inactive_split);
    tell_group(to, "inactive_split_bytes", &stats->inactive_split_bytes);
    if (rules->has_max_split)
        tell_number(to, "max_split_size", stats->max_split_size);
    tell_number(to, "num_alloc_retries", stats->num_alloc_retries);
    if (rules->has_device_call_counts) {
        tell_number(to, "num_device_alloc", stats->num_device_alloc);
        tell_number(to, "num_device_free", stats->num_device_free);
    }
    if (rules->has_rejection_count)
        tell_number(to, "num_oom_rejections", stats->num_oom_rejections);
    tell_number(to, "num_ooms", stats->num_ooms);
    if (rules->has_device_call_counts)
        tell_number(to, "num_sync_all_streams", stats->num_sync_all_streams);
    if (rules->has_max_split) {
        tell_stat(to, "oversize_allocations", &stats->oversize_allocations);
        tell_stat(to, "oversize_segments", &stats->oversize_segments);
    }
    if (rules->has_requested_bytes)
        tell_group(to, "requested_bytes", &stats->requested_bytes);
    tell_group(to, "reserved_bytes", &stats->reserved_bytes);
    tell_private(to, entries, count);
    tell_group(to, "segment", &stats->segment);
}

/* Under the lock. */
static size_t count_private(const vw_pool *pool)
{
    size_t count = 0;
    if (pool->wording.has_private_pool_stats)
        for (const vw__private_stat *stat = pool->engine->private_stats; stat != NULL;
             stat = stat->next)
            count++;
    return count;
}

/* Under the lock. `count` entries, and as many private pools. */
static void gather_private(const vw_pool *pool, private_entry *entries, size_t count)
{
    const vw__private_stat *stat = pool->engine->private_stats;
    for (size_t i = 0; i < count; i++, stat = stat->next) {
        snprintf(entries[i].name, sizeof entries[i].name, "%" PRIu64 "_%" PRIu64, stat->id.first,
                 stat->id.second);
        entries[i].reserved_bytes = group_of(&stat->reserved_bytes);
    }
}

vw_status vw_pool_walk_stats(const vw_pool *pool, vw_stat_visitor visit, void *context)
{
    VW__TRY(vw__pool_enter(pool));
    if (visit == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a visitor");
    private_entry *entries = NULL;
    size_t count, capacity = 0;
    vw_pool_stats stats;
    vw__pool_lock(pool);
    while ((count = count_private(pool)) > capacity) { /* more may come while we get memory */
        vw__pool_unlock(pool);
        vw__host_free(entries);
        capacity = count;
        entries = vw__host_alloc_zeroed(capacity, sizeof *entries);
        if (entries == NULL)
            return vw__fail_host_memory(capacity * sizeof *entries, "private pools' statistics");
        vw__pool_lock(pool);
    }
    put_together(pool, &stats);
    gather_private(pool, entries, count);
    vw__pool_unlock(pool);

    const listener to = {visit, context};
    tell_all(&to, &pool->wording, &stats, entries, count);
    vw__host_free(entries);
    return VW_OK;
}

/* ---- starting again -------------------------------------------------------------------------- */

static void reset_peak(vw__counter *counter)
{
    counter->peak[VW__ENGINE_SMALL] = counter->current[VW__ENGINE_SMALL];
    counter->peak[VW__ENGINE_LARGE] = counter->current[VW__ENGINE_LARGE];
    counter->peak_all = counter->current[VW__ENGINE_SMALL] + counter->current[VW__ENGINE_LARGE];
}

static void reset_accumulated(vw__counter *counter)
{
    for (int kind = VW__ENGINE_SMALL; kind <= VW__ENGINE_LARGE; kind++) {
        counter->base[kind] = counter->current[kind];
        counter->freed[kind] = 0;
    }
}

/* Every counter of the pool, private pools' included. Under the lock. */
static void reset_each(vw_pool *pool, void (*reset)(vw__counter *counter))
{
    vw__counters *counters = &pool->counters;
#define RESET(name) reset(&counters->name);
    VW_STAT_GROUP_LIST(RESET)
    RESET(oversize_allocations)
    RESET(oversize_segments)
#undef RESET
    for (vw__private_stat *stat = pool->engine->private_stats; stat != NULL; stat = stat->next)
        reset(&stat->reserved_bytes);
}

vw__counter_forgotten vw__pool_ever(const vw_pool *pool)
{
    const vw__counters *counters = &pool->counters;
    const vw__counter_forgotten *before = &counters->forgotten;
    return (vw__counter_forgotten){
        .allocations =
            before->allocations + (uint64_t)group_of(&counters->allocation).all.allocated,
        .retries = before->retries + (uint64_t)counters->num_alloc_retries,
        .ooms = before->ooms + (uint64_t)counters->num_ooms,
    };
}

vw_status vw_pool_reset_peaks(vw_pool *pool)
{
    VW__TRY(vw__pool_enter(pool));
    vw__pool_lock(pool);
    vw__counters_keep_for_trims(&pool->counters);
    reset_each(pool, reset_peak);
    vw__pool_unlock(pool);
    return VW_OK;
}

vw_status vw_pool_reset_accumulated(vw_pool *pool)
{
    VW__TRY(vw__pool_enter(pool));
    vw__pool_lock(pool);
    vw__counters *counters = &pool->counters;
    counters->forgotten = vw__pool_ever(pool);
    reset_each(pool, reset_accumulated);
    counters->num_alloc_retries = 0;
    counters->num_ooms = 0;
    counters->num_sync_all_streams = 0;
    counters->num_device_alloc = 0;
    counters->num_device_free = 0;
    counters->num_oom_rejections = 0;
    vw__pool_unlock(pool);
    return VW_OK;
}
