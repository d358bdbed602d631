/* late_program.c - see late_program.h. */
#include "support/late_program.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "vramwise/park.h"
#include "base/host_memory.h"
#include "pool/pool.h" /* the engine's table */

#include "support/late_device.h"

#define MIB (UINT64_C(1) << 20)
#define CAPACITY_BYTES (40 * MIB)
#define LEAST_CAPACITY_BYTES (28 * MIB)

enum { MOST_LIVE = 32, STEPS = 600, CHECK_EVERY = 8, STREAMS = VW_TEST_LATE_STREAMS };

/* Where a block is: the default pool, or a private pool. */
typedef enum home { DEFAULT, KEPT, DROPPED, GRAPH, HOMES } home;

typedef struct live_block {
    vw_device_ptr address;
    uint64_t size_bytes;
    uint64_t key; /* of the marks that its work left, or will have left */
    vw_stream stream;
    home home;
    bool is_pinned;
    bool has_readers;  /* on other streams */
    bool is_undefined; /* its region was parked, and keeps no data */
} live_block;

typedef struct program {
    const vw_test_late_setup *setup;
    vw_device *host;
    vw_pool *pool;
    uint64_t random;
    live_block live[MOST_LIVE];
    size_t live_count;
    uint64_t step_count;
    bool is_paged;
    bool is_parked;   /* the whole pool: no work may touch it */
    bool is_obliging; /* nothing is refused, and nothing fails */
    bool has_given_up;
    vw_test_late_outcome *outcome;
} program;

const vw_test_late_setup vw_test_late_setups[] = {
    {"moves", "vramwise", "", 0, false, false, false, false},
    {"gives back", "vramwise", "", 0, true, false, true, false},
    {"copies", "vramwise", "", 0, true, true, false, false},
    {"copies much", "vramwise:tight", "", 0, true, false, false, false},
    {"spills", "vramwise", "", 24 * MIB, true, false, false, false},
    {"spills and asks", "vramwise:rescue", "", 24 * MIB, true, true, false, false},
    {"spills, copies and gives back", "vramwise:tight", "", 16 * MIB, true, true, true, false},
    {"moves, and calls fail", "vramwise", "", 0, false, true, false, true},
    {"copies, and calls fail", "vramwise:tight", "", 0, true, true, true, true},
    {"spills, and calls fail", "vramwise:rescue", "", 24 * MIB, true, true, true, true},
    {"expandable", "torch", "expandable_segments:True", 0, false, false, false, false},
    {"native, and calls fail", "torch", "", 0, false, false, false, true},
};
const size_t vw_test_late_setup_count = sizeof vw_test_late_setups / sizeof *vw_test_late_setups;

static uint64_t dice(program *p, uint64_t sides)
{
    p->random ^= p->random << 13;
    p->random ^= p->random >> 7;
    p->random ^= p->random << 17;
    return (p->random >> 9) % sides;
}

/* Keeps the first. */
__attribute__((format(printf, 2, 3))) static void fault(program *p, const char *format, ...)
{
    char *text = p->outcome->fault;
    va_list args;
    if (text[0] != '\0')
        return;
    int length = snprintf(text, sizeof p->outcome->fault, "step %" PRIu64 ": ", p->step_count);
    va_start(args, format);
    vsnprintf(text + length, sizeof p->outcome->fault - (size_t)length, format, args);
    va_end(args);
}

/* ---- the oracle ------------------------------------------------------------------------------ */

static vw_paged_stats paged_stats(const program *p)
{
    vw_paged_stats stats = {.struct_size = sizeof stats};
    if (p->is_paged && vw_pool_get_paged_stats(p->pool, &stats) != VW_OK)
        stats.is_failed = true;
    return stats;
}

static bool has_given_up(program *p)
{
    p->has_given_up = p->has_given_up || (p->setup->fails && paged_stats(p).is_failed);
    return p->has_given_up;
}

static bool may_fail(const program *p, vw_status status)
{
    if (status == VW_ERR_DEVICE || status == VW_ERR_HOST_MEMORY)
        return p->setup->fails && !p->is_obliging;
    return status == VW_ERR_OUT_OF_MEMORY;
}

/* After a call. `also` may be its status too: VW_OK for no other. */
static bool check(program *p, const char *call, vw_status status, vw_status also)
{
    p->outcome->failures += status != VW_OK;
    if (status != VW_OK && status != also && !may_fail(p, status) && !has_given_up(p))
        fault(p, "%s: %s: %s", call, vw_status_name(status), vw_last_error());
    if ((status != VW_OK || p->step_count % CHECK_EVERY == 0) && !has_given_up(p) &&
        vw_pool_check(p->pool) != VW_OK)
        fault(p, "after %s: %s", call, vw_last_error());
    return status == VW_OK;
}

static void be_obliging(program *p)
{
    p->is_obliging = true;
    vw__host_memory_fail_at(0);
    if (vw_device_fail_call(p->host, 0, VW_OK) != VW_OK ||
        vw_device_set_capacity(p->host, CAPACITY_BYTES) != VW_OK ||
        (vw_pool_set_fraction(p->pool, 1.0) != VW_OK && !has_given_up(p)))
        fault(p, "no end of failures: %s", vw_last_error());
}

static void check_apart(program *p, const live_block *block)
{
    for (size_t i = 0; i < p->live_count; i++)
        if (block->address < p->live[i].address + p->live[i].size_bytes &&
            p->live[i].address < block->address + block->size_bytes)
            fault(p, "two blocks at %#" PRIx64, block->address);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static vw_private_id id_of(home where)
{
    return (vw_private_id){7, (uint64_t)where};
}

/* The ends of scopes do not fail: what would be open then is another subject. */
static vw_status alloc_privately(program *p, live_block *block)
{
    vw_status status = vw_private_pool_begin(p->pool, id_of(block->home), NULL, NULL);
    if (status != VW_OK)
        return status;
    status = vw_alloc(p->pool, block->size_bytes, block->stream, &block->address);
    vw__host_memory_fail_at(0);
    if ((vw_device_fail_call(p->host, 0, VW_OK) != VW_OK ||
         vw_private_pool_end(p->pool, id_of(block->home)) != VW_OK ||
         vw_private_pool_release(p->pool, id_of(block->home)) != VW_OK) &&
        !has_given_up(p))
        fault(p, "the end of a scope: %s", vw_last_error());
    return status;
}

static vw_status alloc(program *p, live_block *block)
{
    const vw_alloc_request request = {.struct_size = sizeof request,
                                      .size_bytes = block->size_bytes,
                                      .stream = block->stream,
                                      .is_optional = dice(p, 8) == 0};
    if (block->home != DEFAULT)
        return alloc_privately(p, block);
    return vw_alloc_with(p->pool, &request, &block->address);
}

/* Behind all that reads the block on any stream. */
static void write_anew(program *p, live_block *block, vw_stream stream)
{
    for (vw_stream reader = 0; block->has_readers && reader < STREAMS; reader++)
        vw_test_late_order(stream, reader);
    block->key = dice(p, UINT64_MAX);
    vw_test_late_write(stream, block->address, block->size_bytes, block->key);
}

static void look(const program *p, const live_block *block, vw_stream stream)
{
    if (!block->is_undefined && !p->is_parked)
        vw_test_late_look(stream, block->address, block->size_bytes, block->key);
}

static void step_take(program *p)
{
    uint64_t top = UINT64_C(1) << (9 + dice(p, 14));
    live_block block = {.size_bytes = top + dice(p, top), .stream = dice(p, STREAMS)};
    if (p->live_count == MOST_LIVE)
        return;
    block.home = dice(p, 4) == 0 ? (home)dice(p, HOMES) : DEFAULT;
    vw_status status = alloc(p, &block);
    p->outcome->served += status == VW_OK;
    p->outcome->refused += status == VW_ERR_OUT_OF_MEMORY;
    if (!check(p, "vw_alloc", status, VW_ERR_PARKED))
        return;
    check_apart(p, &block);
    if (p->is_parked)
        fault(p, "a parked pool served a request");
    write_anew(p, &block, block.stream);
    p->live[p->live_count++] = block;
}

/* Work on another stream, behind the block's own. */
static bool use_elsewhere(program *p, live_block *block, vw_stream other)
{
    if (!check(p, "vw_record_stream", vw_record_stream(p->pool, block->address, other), VW_OK))
        return false;
    vw_test_late_order(other, block->stream);
    look(p, block, other);
    block->has_readers = true;
    return true;
}

static void drop(program *p, size_t which)
{
    live_block block = p->live[which];
    p->live[which] = p->live[--p->live_count];
    look(p, &block, block.stream);
    if (dice(p, 5) == 0)
        (void)use_elsewhere(p, &block, dice(p, STREAMS));
    if (block.is_pinned)
        (void)check(p, "vw_pool_unpin", vw_pool_unpin(p->pool, block.address), VW_OK);
    p->outcome->late_frees += vw_test_late_waiting() != 0;
    (void)check(p, "vw_free", vw_free(p->pool, block.address), VW_OK);
}

static void step_drop(program *p)
{
    if (p->live_count != 0)
        drop(p, dice(p, p->live_count));
}

/* Its own stream, or another one, which may write to it. */
static void step_use(program *p)
{
    if (p->live_count == 0 || p->is_parked)
        return;
    live_block *block = &p->live[dice(p, p->live_count)];
    vw_stream other = dice(p, STREAMS);
    if (dice(p, 3) == 0) {
        look(p, block, block->stream);
    } else if (use_elsewhere(p, block, other) && dice(p, 2) == 0) {
        if (!block->is_undefined)
            write_anew(p, block, other);
        vw_test_late_order(block->stream, other);
        if (dice(p, 2) == 0)
            (void)check(p, "vw_unrecord_stream", vw_unrecord_stream(p->pool, block->address, other),
                        VW_OK);
    }
}

static void run_a_little(program *p)
{
    vw_stream stream = dice(p, STREAMS);
    for (uint64_t i = dice(p, 12); i > 0 && vw_test_late_run_one(stream); i--)
        continue;
}

/* ---- what the pool asks of the program ------------------------------------------------------- */

static bool free_some(program *p)
{
    uint64_t count = dice(p, 3);
    if (p->is_obliging)
        return false;
    for (uint64_t i = 0; i < count && p->live_count > 2; i++) {
        drop(p, dice(p, p->live_count));
        p->outcome->rooms++;
    }
    run_a_little(p);
    return count != 0;
}

static bool make_room(void *context, uint64_t size_bytes)
{
    (void)size_bytes;
    return free_some(context);
}

static bool reclaim(void *context)
{
    program *p = context;
    return dice(p, 4) == 0 && free_some(p);
}

static bool enter(void *context)
{
    program *p = context;
    run_a_little(p);
    return p->is_obliging || dice(p, 8) != 0;
}

static void leave(void *context)
{
    (void)context;
}

/* ---- parking --------------------------------------------------------------------------------- */

static void undefine(program *p)
{
    for (size_t i = 0; i < p->live_count; i++)
        p->live[i].is_undefined = p->live[i].is_undefined || p->live[i].home == DROPPED;
}

/* Everything is back: what was dropped is written anew. */
static void define(program *p)
{
    for (size_t i = 0; i < p->live_count; i++) {
        if (p->live[i].is_undefined)
            write_anew(p, &p->live[i], p->live[i].stream);
        p->live[i].is_undefined = false;
    }
}

static bool wake(program *p)
{
    if (!check(p, "vw_pool_wake", vw_pool_wake(p->pool, NULL, NULL),
               p->is_obliging ? VW_OK : VW_ERR_WRONG_STATE))
        return false;
    p->is_parked = false;
    if (paged_stats(p).parked_bytes != 0)
        fault(p, "memory is parked behind vw_pool_wake()");
    define(p);
    return true;
}

static void step_wake(program *p)
{
    if (p->is_paged)
        (void)wake(p);
}

/* A failure that left it parked is not told apart from one that did not: it is woken. */
static void step_park(program *p)
{
    const vw_private_id region = id_of(dice(p, 2) == 0 ? KEPT : DROPPED);
    bool is_whole = dice(p, 2) == 0;
    const vw_park_options options = {
        .struct_size = sizeof options, .only = is_whole ? NULL : &region, .is_promised = is_whole};
    if (!p->is_paged || !p->setup->has_safe_point || p->is_parked)
        return;
    if (is_whole || region.second == DROPPED)
        undefine(p);
    vw_status status = vw_pool_park(p->pool, &options, NULL);
    p->outcome->parks += status == VW_OK;
    if (check(p, "vw_pool_park", status, VW_ERR_WRONG_STATE)) {
        p->is_parked = is_whole;
    } else if (!has_given_up(p)) {
        be_obliging(p);
        if (!wake(p))
            fault(p, "not woken: %s", vw_last_error());
        p->is_obliging = false;
    }
}

/* ---- other steps ----------------------------------------------------------------------------- */

static void step_run(program *p)
{
    run_a_little(p);
}

static void step_hint(program *p)
{
    live_block *block = p->live_count != 0 ? &p->live[dice(p, p->live_count)] : NULL;
    uint64_t choice = dice(p, 8);
    vw_status status = VW_OK;
    if (choice < 3)
        status = vw_pool_mark_step(p->pool);
    else if (block != NULL && choice < 7)
        status = vw_advise(p->pool, block->address, (vw_advice)dice(p, 3));
    else if (block != NULL && !block->is_pinned) {
        status = vw_pool_pin(p->pool, block->address);
        block->is_pinned = status == VW_OK;
    }
    (void)check(p, "a hint", status, VW_ERR_PARKED);
}

static void step_trim(program *p)
{
    if (dice(p, 6) == 0)
        (void)check(p, "vw_pool_trim", vw_pool_trim(p->pool), VW_ERR_PARKED);
}

/* As the pool's thread does it for keep_free, with work in every queue. */
static void step_give_back(program *p)
{
    vw__engine *engine = p->pool->engine;
    vw__engine_slice slice = {.wanted_bytes = dice(p, 8) * MIB, .most_handles = dice(p, 8)};
    if (p->setup->gives_back && !p->is_parked)
        (void)check(p, "give_back", engine->table->give_back(engine, &slice), VW_OK);
}

static void step_limit(program *p)
{
    uint64_t room_bytes = CAPACITY_BYTES - LEAST_CAPACITY_BYTES;
    vw_status status =
        dice(p, 2) == 0
            ? vw_pool_set_fraction(p->pool, (double)(70 + dice(p, 31)) / 100)
            : vw_device_set_capacity(p->host, LEAST_CAPACITY_BYTES + dice(p, room_bytes + 1));
    (void)check(p, "a limit", status, VW_OK);
}

static void step_fail(program *p)
{
    static const vw_status statuses[] = {VW_ERR_DEVICE, VW_ERR_OUT_OF_MEMORY, VW_ERR_HOST_MEMORY};
    if (!p->setup->fails)
        return;
    if (dice(p, 3) == 0)
        vw__host_memory_fail_at(1 + dice(p, 12));
    else if (vw_device_fail_call(p->host, 1 + dice(p, 16), statuses[dice(p, 3)]) != VW_OK)
        fault(p, "no failure: %s", vw_last_error());
}

static void do_something(program *p)
{
    static const struct {
        unsigned of_a_hundred;
        void (*step)(program *p);
    } steps[] = {
        {36, step_take}, {24, step_drop},     {15, step_run}, {7, step_use},
        {5, step_hint},  {1, step_trim},      {1, step_park}, {3, step_wake},
        {2, step_limit}, {5, step_give_back}, {1, step_fail},
    };
    uint64_t what = dice(p, 100);
    size_t i = 0;
    while (what >= steps[i].of_a_hundred)
        what -= steps[i++].of_a_hundred;
    steps[i].step(p);
    if (vw_test_late_wrong_marks() != 0)
        fault(p, "%" PRIu64 " wrong marks", vw_test_late_wrong_marks());
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static void open_regions(program *p)
{
    for (home where = KEPT; where < HOMES; where++) {
        (void)check(p, "vw_private_pool_retain",
                    vw_private_pool_retain(p->pool, id_of(where), NULL), VW_OK);
        if (p->is_paged && where != GRAPH)
            (void)check(
                p, "vw_private_pool_set_region",
                vw_private_pool_set_region(p->pool, id_of(where), "a region", where == KEPT),
                VW_OK);
    }
}

static bool open_program(program *p)
{
    const vw_test_late_setup *setup = p->setup;
    if (vw_host_device_create(CAPACITY_BYTES, &p->host) != VW_OK) {
        fault(p, "no device: %s", vw_last_error());
        return false;
    }
    const vw_pool_options options = {.struct_size = sizeof options,
                                     .engine = setup->engine,
                                     .conf = setup->conf,
                                     .idle_share = 0.001,
                                     .idle_floor_bytes = 2 * MIB,
                                     .spill_bytes = setup->spill_bytes,
                                     .safe_point = {setup->has_safe_point ? enter : NULL,
                                                    setup->has_safe_point ? leave : NULL, p},
                                     .reclaim = reclaim,
                                     .reclaim_context = p,
                                     .make_room = setup->has_make_room ? make_room : NULL,
                                     .make_room_context = p,
                                     .is_unlisted = true};
    if (vw_pool_create(vw_test_late_begin(p->host), &options, &p->pool) == VW_OK) {
        open_regions(p);
        return true;
    }
    fault(p, "no pool: %s", vw_last_error());
    vw_test_late_end();
    vw_device_destroy(p->host);
    return false;
}

static void add_stats(program *p)
{
    const vw_paged_stats stats = paged_stats(p);
    vw_paged_stats *sums = &p->outcome->paged;
    sums->crossed_handles += stats.crossed_handles;
    sums->copied_bytes += stats.copied_bytes;
    sums->spills += stats.spills;
    sums->returns += stats.returns;
    sums->given_back_bytes += stats.given_back_bytes;
}

/* Everything that is live comes back, and is looked at. The pool ends with its blocks. */
static void look_at_everything(program *p)
{
    be_obliging(p);
    if (p->is_paged && !has_given_up(p) && !wake(p))
        fault(p, "not woken at the end: %s", vw_last_error());
    for (size_t i = 0; i < p->live_count && !has_given_up(p); i++)
        look(p, &p->live[i], p->live[i].stream);
}

static void close_program(program *p)
{
    vw_device_calls calls;
    if (has_given_up(p))
        vw_test_late_run_all();
    vw_pool_destroy(p->pool);
    vw_test_late_run_all();
    if (vw_test_late_wrong_marks() != 0)
        fault(p, "%" PRIu64 " wrong marks at the end", vw_test_late_wrong_marks());
    if (vw_device_get_calls(p->host, &calls) != VW_OK)
        fault(p, "no counts: %s", vw_last_error());
    else if (calls.in_use_bytes != 0 && !p->setup->fails)
        fault(p, "%" PRIu64 " bytes are held at the end", calls.in_use_bytes);
    vw_test_late_end();
    vw_device_destroy(p->host);
}

void vw_test_late_program_run(const vw_test_late_setup *setup, uint64_t seed,
                              vw_test_late_outcome *outcome)
{
    program p = {.setup = setup,
                 .random = seed * UINT64_C(0x9E3779B97F4A7C15) + 1,
                 .is_paged = strcmp(setup->engine, "torch") != 0,
                 .outcome = outcome};
    uint64_t before_bytes = vw__host_memory_get_use().in_use_bytes;
    if (outcome->fault[0] != '\0' || !open_program(&p))
        return;
    for (; p.step_count < STEPS && outcome->fault[0] == '\0' && !has_given_up(&p); p.step_count++)
        do_something(&p);
    look_at_everything(&p);
    add_stats(&p);
    close_program(&p);
    if (vw__host_memory_get_use().in_use_bytes != before_bytes)
        fault(&p, "host memory is held at the end");
}
