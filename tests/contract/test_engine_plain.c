/* test_engine_plain.c - the engine contract, on the smallest engine there could be.
 *
 * It has a plain segment for every request, keeps it when it is freed, and hands it out again to a
 * request of just its size. It splits nothing, merges nothing, and has none of the capabilities
 * that a table may leave out. It knows neither of the other engines: what it takes to write one is
 * in this file.
 *
 * The suite is tried as well: the same engine with a rule broken, one after the other, must fail.
 */
#include "contract/engine_contract.h"

#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "engine/driver_calls.h"
#include "engine/engine_base.h"
#include "engine/engine_list.h"
#include "engine/inspect.h"
#include "engine/private_pools.h" /* vw__engine_is_capturing */

/* ---- the engine ------------------------------------------------------------------------------ */

/* A rule of the engine that can be broken. */
typedef enum rule {
    NOTHING,
    BLOCKS_STAY_WITH_THEIR_STREAM,
    THE_LIMIT_HOLDS,
    IDLE_MEMORY_GOES_BACK,
    BYTES_ARE_COUNTED,
    FREED_BLOCKS_WAIT,
} rule;

static rule broken;

#define SEGMENT_BYTES (UINT64_C(2) << 20) /* segments are multiples of this */

/* The device is called first, the books follow. */
static vw_status give_back(vw__engine *engine, vw__block *block)
{
    vw__segment *segment = block->segment;
    vw__lane *lane = segment->lane;
    VW__TRY(vw__driver_give_back(&engine->owner, segment->address));
    vw__engine_notice(engine, VW_ACTION_SEGMENT_FREE, lane, segment->address, segment->size_bytes,
                      vw__engine_event_tag(engine, block));
    if (broken != BYTES_ARE_COUNTED)
        vw__engine_count_held(engine, lane->shelf, -(int64_t)segment->size_bytes);
    vw__counter_down(&engine->owner.counters->segment, lane->shelf->kind, 1);
    vw__lane_remove(lane, block);
    vw__engine_drop_segment(engine, segment);
    return VW_OK;
}

static vw_status trim(vw__engine *engine, const vw_private_id *only)
{
    (void)only; /* there are no private pools */
    VW__TRY(engine->owner.finish_pending(engine->owner.context, NULL));
    if (broken == IDLE_MEMORY_GOES_BACK)
        return VW_OK;
    for (vw__lane *lane = engine->shelves[VW__ENGINE_LARGE].lanes; lane != NULL; lane = lane->next)
        for (vw__block *block; (block = vw__free_index_first(&lane->free)) != NULL;)
            VW__TRY(give_back(engine, block));
    return VW_OK;
}

static vw_status take_segment(vw__engine *engine, vw__lane *lane, uint64_t size_bytes,
                              vw__block **out)
{
    vw_device_ptr address = VW_NULL;
    if (engine->held_bytes + size_bytes > engine->limit_bytes && broken != THE_LIMIT_HOLDS)
        return VW_ERR_OUT_OF_MEMORY;
    VW__TRY(vw__driver_take(&engine->owner, size_bytes, &address));
    vw__segment *segment = vw__engine_add_segment(engine, lane, address, size_bytes, 0, 0);
    if (segment == NULL) {
        (void)vw__driver_give_back(&engine->owner, address);
        return vw__fail_host_memory(sizeof *segment, "a segment");
    }
    vw__engine_count_held(engine, lane->shelf, (int64_t)size_bytes);
    vw__counter_up(&engine->owner.counters->segment, lane->shelf->kind, 1);
    vw__engine_notice(engine, VW_ACTION_SEGMENT_ALLOC, lane, address, size_bytes,
                      engine->serving->tag);
    *out = segment->first;
    return VW_OK;
}

static vw_status find_or_take(vw__engine *engine, vw__shelf *shelf, vw_stream stream,
                              uint64_t size_bytes, vw__block **out)
{
    vw__lane *lane =
        vw__shelf_add_lane(shelf, broken == BLOCKS_STAY_WITH_THEIR_STREAM ? 0 : stream);
    if (lane == NULL)
        return vw__fail_host_memory(sizeof *lane, "a stream's free blocks");
    *out = vw__free_index_best_fit(&lane->free, size_bytes);
    if (*out != NULL && (*out)->size_bytes == size_bytes) {
        vw__lane_remove(lane, *out);
        return VW_OK;
    }
    vw_status status = take_segment(engine, lane, size_bytes, out);
    if (status != VW_ERR_OUT_OF_MEMORY)
        return status;
    engine->owner.counters->num_alloc_retries++;
    VW__TRY(trim(engine, NULL));
    return take_segment(engine, lane, size_bytes, out);
}

static vw_status allocate(vw__engine *engine, const vw__engine_request *request, vw__block **out,
                          vw__engine_refusal *refusal)
{
    uint64_t size_bytes = (request->size_bytes + SEGMENT_BYTES - 1) & ~(SEGMENT_BYTES - 1);
    vw__shelf *shelf = &engine->shelves[VW__ENGINE_LARGE]; /* no segment is small */
    vw__block *block = NULL;
    engine->serving = request;
    vw_status status = find_or_take(engine, shelf, request->stream, size_bytes, &block);
    engine->serving = NULL;
    if (status != VW_OK) {
        *refusal = (vw__engine_refusal){.rounded_bytes = size_bytes, .segment_bytes = size_bytes};
        return status;
    }
    block->state = VW__BLOCK_LIVE;
    block->requested_bytes = request->size_bytes;
    block->tag = request->tag;
    *out = block;
    return VW_OK;
}

static void free_block(vw__engine *engine, vw__block *block)
{
    (void)engine;
    block->tag = 0;
    vw__lane_insert(vw__block_lane(block), block);
}

static vw_status set_fraction(vw__engine *engine, double fraction)
{
    engine->fraction = fraction;
    engine->limit_bytes =
        (uint64_t)(fraction * (double)engine->owner.device->properties.total_bytes);
    return VW_OK;
}

static bool is_capturing(const vw__engine *engine, vw_stream stream)
{
    return broken == FREED_BLOCKS_WAIT || vw__engine_is_capturing(engine, stream);
}

static vw_status check(vw__engine *engine)
{
    vw__engine_census census = {.check_block = NULL};
    VW__TRY(vw__engine_check_blocks(engine, &census));
    VW__ENGINE_CHECK(engine->held_bytes == census.memory_bytes[VW__ENGINE_SMALL] +
                                               census.memory_bytes[VW__ENGINE_LARGE],
                     "the bytes held are not those of the segments");
    return vw__engine_check_counter(&engine->owner.counters->segment, census.plain_segments,
                                    "segment");
}

static void destroy(vw__engine *engine)
{
    while (engine->segments != NULL) {
        vw__segment *segment = vw__segment_of_node(engine->segments);
        (void)vw__driver_give_back(&engine->owner, segment->address);
        vw__engine_drop_segment(engine, segment);
    }
    vw__engine_deinit(engine);
    vw__host_free(engine);
}

static vw_status create(const vw__engine_owner *owner, const vw_pool_options *options,
                        vw__engine **out)
{
    static const vw__engine_table table = {
        .name = "plain",
        .destroy = destroy,
        .allocate = allocate,
        .free = free_block,
        .trim = trim,
        .is_capturing = is_capturing,
        .find = vw__engine_find,
        .walk = vw__engine_walk,
        .check = check,
        .largest_free = vw__engine_largest_free,
        .private_idle = vw__engine_private_idle,
        .set_fraction = set_fraction,
    };
    (void)options; /* it has none */
    vw__engine *engine = vw__host_alloc_zeroed(1, sizeof *engine);
    if (engine == NULL)
        return vw__fail_host_memory(sizeof *engine, "an engine");
    vw__engine_init(engine, &table, owner);
    *out = engine;
    return VW_OK;
}

/* ---- the suite ------------------------------------------------------------------------------- */

static const vw__engine_kind plain = {.create = create};
static const vw_test_engine engine = {
    .name = "plain",
    .kind = &plain,
    .lacks = VW_TEST_NO_MERGING | VW_TEST_NO_EXACT_ADDRESSES | VW_TEST_NO_PRIVATE_POOLS |
             VW_TEST_NO_SETTINGS | VW_TEST_NO_MOVES,
};

/* In a process of its own: a check that fails leaves its pool behind, and one that fails in a
 * callback leaves it locked, over which a debug build aborts. */
static bool suite_fails(void)
{
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        (void)!freopen("/dev/null", "w", stdout);
        (void)!freopen("/dev/null", "w", stderr);
        _exit(vw_test_engine_contract(&engine) != 0);
    }
    int status = 0;
    return waitpid(child, &status, 0) == child && status != 0;
}

int main(void)
{
    static const struct {
        rule rule;
        const char *name;
    } rules[] = {
        {BLOCKS_STAY_WITH_THEIR_STREAM, "a freed block serves its own stream only"},
        {THE_LIMIT_HOLDS, "the limit holds"},
        {IDLE_MEMORY_GOES_BACK, "idle memory goes back"},
        {BYTES_ARE_COUNTED, "bytes given back are counted"},
        {FREED_BLOCKS_WAIT, "blocks that other streams used come free again"},
    };
    int failed = vw_test_engine_contract(&engine);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        broken = rules[i].rule;
        bool is_noticed = suite_fails();
        printf("%s: \"%s\", broken\n", is_noticed ? "noticed" : "NOT NOTICED", rules[i].name);
        failed += !is_noticed;
    }
    return failed;
}
