/* api_program.c - see api_program.h. */
#include "support/api_program.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "vramwise/vramwise.h"
#include "base/host_memory.h"

#include "support/watched_device.h"

enum { MOST_LIVE = 64, PRIVATE_IDS = 2, STREAMS = 4, CHECK_EVERY = 8 };

#define MIB (UINT64_C(1) << 20)
#define CAPACITY_BYTES (96 * MIB)
#define HOST_CAPACITY_BYTES (24 * MIB)
#define HOST_GRANULE_BYTES (MIB / 16)

typedef struct live_block {
    vw_device_ptr address;
    uint64_t size_bytes;
    uint64_t pattern;
    bool is_pinned;
} live_block;

typedef struct program {
    const uint8_t *bytes;
    size_t size_bytes, at;
    vw_test_watched watched;
    vw_pool *pool;
    const char *engine;
    bool is_paged;
    bool has_bytes;
    uint64_t granule_bytes; /* sizes are parts of it; 0: they are of all kinds */
    uint64_t capacity_bytes;
    live_block live[MOST_LIVE];
    size_t live_count;
    uint64_t live_bytes; /* as they were asked for */
    uint64_t next_pattern;
    int retained[PRIVATE_IDS];
    bool is_open[PRIVATE_IDS]; /* its scope */
    vw_test_outcome *outcome;
} program;

static uint8_t next(program *p)
{
    return p->at < p->size_bytes ? p->bytes[p->at++] : 0;
}

/* Keeps the first. */
__attribute__((format(printf, 2, 3))) static void fault(program *p, const char *format, ...)
{
    va_list args;
    if (p->outcome->fault[0] != '\0')
        return;
    va_start(args, format);
    vsnprintf(p->outcome->fault, sizeof p->outcome->fault, format, args);
    va_end(args);
}

/* For what cannot fail. */
static void must(program *p, const char *what, vw_status status)
{
    if (status != VW_OK && !p->outcome->has_given_up)
        fault(p, "%s: %s: %s", what, vw_status_name(status), vw_last_error());
}

/* ---- the oracle ------------------------------------------------------------------------------ */

static bool has_given_up(program *p)
{
    vw_paged_stats stats = {.struct_size = sizeof stats};
    if (p->is_paged && vw_pool_get_paged_stats(p->pool, &stats) == VW_OK && stats.is_failed)
        p->outcome->has_given_up = true;
    return p->outcome->has_given_up;
}

static void check_counters(program *p)
{
    vw_pool_stats stats = {.struct_size = sizeof stats};
    if (vw_pool_get_stats(p->pool, &stats) != VW_OK)
        fault(p, "no statistics: %s", vw_last_error());
    else if ((uint64_t)stats.allocation.all.current != p->live_count)
        fault(p, "%zu blocks are live, %" PRId64 " are counted", p->live_count,
              stats.allocation.all.current);
    else if ((uint64_t)stats.allocated_bytes.all.current < p->live_bytes)
        fault(p, "%" PRIu64 " bytes are live, %" PRId64 " are counted", p->live_bytes,
              stats.allocated_bytes.all.current);
    else if (stats.reserved_bytes.all.current < stats.allocated_bytes.all.current && !p->is_paged)
        fault(p, "less is reserved than allocated");
}

/* After a step. */
static void check(program *p, const char *step, vw_status status)
{
    bool is_failure = status == VW_ERR_HOST_MEMORY || status == VW_ERR_DEVICE ||
                      status == VW_ERR_OUT_OF_MEMORY || status == VW_ERR_REJECTED;
    p->outcome->step_count++;
    p->outcome->failure_count += status != VW_OK;
    if (status != VW_OK && !is_failure && !has_given_up(p))
        fault(p, "%s: %s: %s", step, vw_status_name(status), vw_last_error());
    if ((status == VW_OK && p->outcome->step_count % CHECK_EVERY != 0) || has_given_up(p))
        return;
    if (vw_pool_check(p->pool) != VW_OK)
        fault(p, "after %s: %s", step, vw_last_error());
    check_counters(p);
}

/* Of the pattern at its end: the one at its beginning must not reach it. */
static uint64_t last_word(const live_block *block)
{
    return block->size_bytes >= 2 * sizeof block->pattern
               ? block->size_bytes - sizeof block->pattern
               : 0;
}

static void write_pattern(program *p, const live_block *block)
{
    const vw_device *device = p->watched.real;
    if (!p->has_bytes || block->size_bytes < sizeof block->pattern)
        return;
    if (device->table->write(device->context, block->address, &block->pattern,
                             sizeof block->pattern) != VW_OK ||
        device->table->write(device->context, block->address + last_word(block), &block->pattern,
                             sizeof block->pattern) != VW_OK)
        fault(p, "a block cannot be written to: %s", vw_last_error());
}

static void check_word(program *p, const live_block *block, uint64_t offset)
{
    const vw_device *device = p->watched.real;
    uint64_t found = 0;
    if (device->table->read(device->context, &found, block->address + offset, sizeof found) !=
        VW_OK)
        fault(p, "a block cannot be read: %s", vw_last_error());
    else if (found != block->pattern)
        fault(p, "block %#" PRIx64 " holds %" PRIu64 " at %" PRIu64 ", %" PRIu64 " was written",
              block->address, found, offset, block->pattern);
}

static void check_pattern(program *p, const live_block *block)
{
    if (!p->has_bytes || block->size_bytes < sizeof block->pattern || has_given_up(p))
        return;
    check_word(p, block, 0);
    check_word(p, block, last_word(block));
}

static void check_place(program *p, const live_block *block)
{
    if (block->address == VW_NULL || block->address % 512 != 0)
        fault(p, "a block at %#" PRIx64, block->address);
    for (size_t i = 0; i < p->live_count; i++)
        if (block->address < p->live[i].address + p->live[i].size_bytes &&
            p->live[i].address < block->address + block->size_bytes)
            fault(p, "blocks overlap: %#" PRIx64 " of %" PRIu64 " and %#" PRIx64 " of %" PRIu64,
                  block->address, block->size_bytes, p->live[i].address, p->live[i].size_bytes);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static uint64_t choose_part(const program *p, uint8_t kind, uint8_t more)
{
    switch (kind % 5) {
    case 0:
    case 1:
        return p->granule_bytes / 8 * (1 + (uint64_t)(more % 8));
    case 2:
        return p->granule_bytes / 4 * (1 + (uint64_t)(more % 16));
    case 3:
        return p->granule_bytes * (1 + (uint64_t)(more % 4));
    default:
        return more % (p->capacity_bytes / p->granule_bytes) * p->granule_bytes + kind + 1;
    }
}

static uint64_t choose_size(program *p)
{
    uint8_t kind = next(p), more = next(p);
    if (p->granule_bytes != 0)
        return choose_part(p, kind, more);
    switch (kind % 6) {
    case 0:
        return 1 + more;
    case 1:
        return 512 * (1 + (uint64_t)more);
    case 2:
        return MIB - 128 + more;
    case 3:
        return MIB + 40960 * (uint64_t)more;
    case 4:
        return (1 + (uint64_t)(more % 24)) * MIB;
    default:
        return (uint64_t)(more % 64) * MIB + kind;
    }
}

/* Pages are shared within a stream: most blocks are of one where that is to happen. */
static vw_stream choose_stream(program *p)
{
    uint8_t number = next(p);
    return p->granule_bytes != 0 && number % 3 != 0 ? 0 : number % STREAMS;
}

static void step_allocate(program *p)
{
    live_block block = {.size_bytes = choose_size(p), .pattern = ++p->next_pattern};
    if (p->live_count == MOST_LIVE)
        return;
    vw_status status = vw_alloc(p->pool, block.size_bytes, choose_stream(p), &block.address);
    if (status == VW_OK) {
        check_place(p, &block);
        write_pattern(p, &block);
        p->live[p->live_count++] = block;
        p->live_bytes += block.size_bytes;
    } else if (block.address != VW_NULL) {
        fault(p, "a refused request has an address");
    }
    check(p, "vw_alloc", status);
}

static live_block *choose_live(program *p)
{
    uint8_t number = next(p);
    return p->live_count != 0 ? &p->live[number % p->live_count] : NULL;
}

/* Whatever it answers, the block is free. */
static void free_block(program *p, live_block *block)
{
    const live_block freed = *block;
    check_pattern(p, &freed);
    if (freed.is_pinned)
        must(p, "vw_pool_unpin", vw_pool_unpin(p->pool, freed.address));
    *block = p->live[--p->live_count];
    p->live_bytes -= freed.size_bytes;
    vw_status status = vw_free(p->pool, freed.address);
    check(p, "vw_free", status);
    if (status != VW_ERR_UNKNOWN_ADDRESS && !has_given_up(p) &&
        vw_free(p->pool, freed.address) != VW_ERR_UNKNOWN_ADDRESS)
        fault(p, "a block was freed twice");
}

static void step_free(program *p)
{
    live_block *block = choose_live(p);
    if (block != NULL)
        free_block(p, block);
}

static void step_use(program *p)
{
    live_block *block = choose_live(p);
    vw_stream stream = next(p) % STREAMS;
    if (block != NULL)
        check(p, "vw_record_stream", vw_record_stream(p->pool, block->address, stream));
}

static void step_complete(program *p)
{
    must(p, "streams", vw_device_complete(p->watched.real, next(p) % STREAMS));
}

/* What makes sense next with a private pool. */
static void step_private(program *p)
{
    uint8_t choice = next(p);
    size_t number = choice % PRIVATE_IDS;
    const vw_private_id id = {7, number + 1};
    const vw_private_options options = {.struct_size = sizeof options,
                                        .use_on_oom = (choice & 8) != 0};
    vw_status status = VW_OK;
    if (p->is_open[number]) {
        if ((status = vw_private_pool_end(p->pool, id)) == VW_OK) {
            p->is_open[number] = false;
            status = vw_private_pool_release(p->pool, id);
        }
    } else if (p->retained[number] > 0 && (choice & 4) != 0) {
        if ((status = vw_private_pool_begin(p->pool, id, NULL, NULL)) == VW_OK)
            p->is_open[number] = true;
    } else if (p->retained[number] > 0) {
        if ((status = vw_private_pool_release(p->pool, id)) == VW_OK)
            p->retained[number]--;
        check(p, "vw_private_pool_release", status);
        status = vw_private_pool_trim(p->pool, id);
    } else {
        status = vw_private_pool_retain(p->pool, id, &options);
        p->retained[number] += status == VW_OK;
        if (status == VW_ERR_WRONG_STATE) /* released, and holds memory still */
            status = VW_OK;
    }
    check(p, "a private pool's call", status);
}

static void step_limit(program *p)
{
    uint8_t choice = next(p);
    if (choice % 2 == 0)
        check(p, "vw_pool_set_fraction",
              vw_pool_set_fraction(p->pool, (double)(1 + choice % 100) / 100));
    else if (p->granule_bytes == 0)
        must(p, "capacity", vw_device_set_capacity(p->watched.real, (8 + choice % 88) * MIB));
    else
        must(p, "capacity",
             vw_device_set_capacity(p->watched.real,
                                    p->capacity_bytes - choice % 4 * p->granule_bytes));
}

static void step_hint(program *p)
{
    live_block *block = choose_live(p);
    uint8_t choice = next(p);
    vw_status status = VW_OK;
    if (choice % 4 == 0)
        status = vw_pool_mark_step(p->pool);
    else if (block != NULL && choice % 4 == 1)
        status = vw_advise(p->pool, block->address, (vw_advice)(choice / 4 % 3));
    else if (block != NULL && !block->is_pinned) {
        status = vw_pool_pin(p->pool, block->address);
        block->is_pinned = status == VW_OK;
    }
    check(p, "a hint", status == VW_ERR_UNSUPPORTED ? VW_OK : status);
}

static void step_configure(program *p)
{
    static const char *const confs[] = {"", "expandable_segments:True", "max_split_size_mb:32",
                                        "garbage_collection_threshold:0.6"};
    check(p, "vw_pool_configure", vw_pool_configure(p->pool, confs[next(p) % 4]));
}

static void step_fail_device(program *p)
{
    static const vw_status statuses[] = {VW_ERR_DEVICE, VW_ERR_OUT_OF_MEMORY, VW_ERR_DEVICE,
                                         VW_ERR_HOST_MEMORY};
    uint8_t choice = next(p);
    must(p, "failures",
         vw_device_fail_call(p->watched.real, 1 + choice % 12, statuses[choice / 16 % 4]));
}

static void step_trim(program *p)
{
    check(p, "vw_pool_trim", vw_pool_trim(p->pool));
}

static void step_fail_host(program *p)
{
    vw__host_memory_fail_at(1 + next(p) % 12);
}

static void run_steps(program *p)
{
    static void (*const steps[])(program *) = {
        step_allocate, step_allocate,    step_allocate,  step_allocate,  step_free,  step_free,
        step_free,     step_use,         step_complete,  step_private,   step_limit, step_hint,
        step_trim,     step_fail_device, step_fail_host, step_configure,
    };
    while (p->at < p->size_bytes && p->outcome->fault[0] == '\0')
        steps[next(p) % (sizeof steps / sizeof *steps)](p);
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static bool enter_safe_point(void *context)
{
    (void)context;
    return true;
}

static void leave_safe_point(void *context)
{
    (void)context;
}

typedef struct setup {
    const char *engine, *conf;
    bool is_on_host; /* the host device, with real bytes */
    uint64_t spill_bytes;
} setup;

static const setup setups[] = {
    {"torch", "", false, 0},
    {"torch", "expandable_segments:True", false, 0},
    {"torch", "max_split_size_mb:32,garbage_collection_threshold:0.7", false, 0},
    {"torch", "expandable_segments:True", true, 0},
    {"vramwise", "", false, 0},
    {"vramwise:rescue", "", false, 0},
    {"vramwise:tight", "", false, 0},
    {"vramwise:rescue", "", false, 32 * MIB},
    {"vramwise:tight", "", true, 0},
    {"vramwise", "", true, 16 * MIB},
};

/* A device of a few granules, where pages are shared, live data is copied and leaves all the time.
 */
static const setup tight_setups[] = {
    {"vramwise:rescue", "", true, 1}, {"vramwise:tight", "", true, 1},  {"vramwise", "", true, 1},
    {"vramwise:tight", "", true, 0},  {"vramwise:rescue", "", true, 0},
};

static bool open_pool(program *p, const setup *chosen)
{
    const vw_simulated_options simulated = {
        .struct_size = sizeof simulated, .capacity_bytes = CAPACITY_BYTES, .manual_streams = true};
    vw_device *device = NULL;
    if ((chosen->is_on_host ? vw_host_device_create(p->capacity_bytes, &device)
                            : vw_simulated_device_create(&simulated, &device)) != VW_OK) {
        fault(p, "no device: %s", vw_last_error());
        return false;
    }
    vw_test_watched_open(&p->watched, device);
    p->is_paged = strcmp(chosen->engine, "torch") != 0;
    p->has_bytes = device->properties.has_bytes;
    const vw_pool_options options = {
        .struct_size = sizeof options,
        .engine = chosen->engine,
        .conf = chosen->conf,
        .spill_bytes = chosen->spill_bytes,
        .safe_point = {p->is_paged ? enter_safe_point : NULL, p->is_paged ? leave_safe_point : NULL,
                       NULL},
        .is_unlisted = true,
    };
    if (vw_pool_create(&p->watched.device, &options, &p->pool) == VW_OK)
        return true;
    fault(p, "no pool: %s", vw_last_error());
    vw_test_watched_close(&p->watched);
    return false;
}

/* Nothing fails from here on, so nothing may be left. */
static void give_everything_back(program *p)
{
    vw_pool_stats stats = {.struct_size = sizeof stats};
    for (int i = 0; i < PRIVATE_IDS; i++) {
        const vw_private_id id = {7, (uint64_t)i + 1};
        if (p->is_open[i] && vw_private_pool_end(p->pool, id) == VW_OK)
            must(p, "vw_private_pool_release", vw_private_pool_release(p->pool, id));
        for (; p->retained[i] > 0; p->retained[i]--)
            must(p, "vw_private_pool_release", vw_private_pool_release(p->pool, id));
    }
    while (p->live_count > 0 && p->outcome->fault[0] == '\0')
        free_block(p, &p->live[p->live_count - 1]);
    for (vw_stream stream = 0; stream < STREAMS; stream++)
        must(p, "streams", vw_device_complete(p->watched.real, stream));
    check(p, "the last vw_pool_trim", vw_pool_trim(p->pool));
    if (!has_given_up(p) && vw_pool_get_stats(p->pool, &stats) == VW_OK &&
        (stats.active.all.current != 0 || stats.allocated_bytes.all.current != 0))
        fault(p, "%" PRId64 " blocks are active after the last free", stats.active.all.current);
}

/* From the third byte on. */
static void run(program *started, const setup *chosen, uint8_t ending)
{
    uint64_t before_bytes = vw__host_memory_get_use().in_use_bytes;
    program p = *started;
    uint64_t full_bytes = p.granule_bytes != 0 ? p.capacity_bytes : CAPACITY_BYTES;
    vw_test_outcome *outcome = p.outcome;
    if (!open_pool(&p, chosen))
        return;
    run_steps(&p);
    vw__host_memory_fail_at(0);
    if (ending % 4 != 0) { /* else failures go on */
        must(&p, "failures", vw_device_fail_call(p.watched.real, 0, VW_OK));
        must(&p, "capacity", vw_device_set_capacity(p.watched.real, full_bytes));
    }
    if (ending % 4 == 1 && outcome->fault[0] == '\0')
        give_everything_back(&p);
    vw_test_watched_begin_end(&p.watched);
    vw_pool_destroy(p.pool);
    outcome->refusal_count = p.watched.refusal_count;
    if (outcome->fault[0] == '\0')
        (void)vw_test_watched_has_leak(&p.watched, outcome->fault, sizeof outcome->fault);
    vw_test_watched_close(&p.watched);
    if (vw__host_memory_get_use().in_use_bytes != before_bytes)
        fault(&p, "host memory is held after the end");
}

void vw_test_api_program_run(const uint8_t *bytes, size_t size_bytes, vw_test_outcome *outcome)
{
    program p = {.bytes = bytes,
                 .size_bytes = size_bytes,
                 .capacity_bytes = HOST_CAPACITY_BYTES,
                 .outcome = outcome};
    *outcome = (vw_test_outcome){.step_count = 0};
    const setup *chosen = &setups[next(&p) % (sizeof setups / sizeof *setups)];
    uint8_t ending = next(&p);
    run(&p, chosen, ending);
}

void vw_test_api_program_run_tight(const uint8_t *bytes, size_t size_bytes,
                                   vw_test_outcome *outcome)
{
    program p = {.bytes = bytes,
                 .size_bytes = size_bytes,
                 .granule_bytes = HOST_GRANULE_BYTES,
                 .outcome = outcome};
    *outcome = (vw_test_outcome){.step_count = 0};
    setup chosen = tight_setups[next(&p) % (sizeof tight_setups / sizeof *tight_setups)];
    uint8_t ending = next(&p), room = next(&p);
    p.capacity_bytes = (4 + (uint64_t)(room % 8)) * HOST_GRANULE_BYTES;
    chosen.spill_bytes *= (2 + (uint64_t)(room / 16)) * HOST_GRANULE_BYTES;
    run(&p, &chosen, ending);
}

void vw_test_api_program_make(uint64_t seed, uint8_t *bytes, size_t size_bytes)
{
    uint64_t state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    for (size_t i = 0; i < size_bytes; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes[i] = (uint8_t)(state >> 24);
    }
}
