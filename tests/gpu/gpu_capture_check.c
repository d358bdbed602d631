/* gpu_capture_check.c - memory that moves, beside graphs, peers and streams that must not notice:
 * run by hand where there is a GPU.
 *
 * Usage: gpu_capture_check [device index] [random seed] [rounds]. For each engine: graphs are
 * captured while a pool takes memory and gives it back, then launched again and again while blocks
 * around them come and go under a limit; blocks that are pinned are seen from a second address
 * meanwhile, in one check through a file descriptor as another process would; memory goes from one
 * stream to another under a running kernel. Every byte is written and found again by kernels.
 *
 * A line for each check: "ok", "FAILED" and what was wrong, or "skipped" and what is missing here.
 * Exit status: 0 all is well, 1 something failed, 77 there is no GPU here. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h" /* vw__fail, VW__TRY */
#include "gpu/gpu_capture_scene.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)

enum { EXIT_SKIPPED = 77, STEPS_A_ROUND = 60 };

static uint64_t random_seed = 1;
static unsigned rounds = 40;
static capture_scene scene; /* one at a time */
static char detail[256];    /* what a check that passed has to say */

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
    size_t used = strlen(detail);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail + used, sizeof detail - used, format, arguments);
    va_end(arguments);
}

/* ---- what engines did ------------------------------------------------------------------------ */

static bool is_paged(const char *engine)
{
    return strncmp(engine, "vramwise", strlen("vramwise")) == 0;
}

static bool copies(const char *engine)
{
    return strcmp(engine, "vramwise:rescue") == 0 || strcmp(engine, "vramwise:tight") == 0;
}

/* A check in which nothing moved shows nothing. */
static vw_status expect_moves(const char *engine)
{
    vw_paged_stats stats = {.struct_size = sizeof stats};
    say("%" PRIu64 " requests served, %" PRIu64 " ran out", scene.served, scene.ran_out);
    if (!is_paged(engine))
        return VW_OK;
    VW__TRY(vw_pool_get_paged_stats(scene.pool, &stats));
    say(", %" PRIu64 " handles moved, %" PRIu64 " across streams, %" PRIu64
        " MiB copied at %" PRIu64 " safe points",
        stats.moved_handles, stats.crossed_handles, stats.copied_bytes / MIB, scene.safe_points);
    if (stats.is_fallback)
        return vw__fail(VW_ERR_UNSUPPORTED, "the device has no virtual memory: nothing moves");
    if (stats.moved_handles == 0 || stats.crossed_handles == 0)
        return vw__fail(VW_ERR_WRONG_STATE, "nothing moved, or nothing across streams");
    if (copies(engine) && stats.copied_bytes == 0)
        return vw__fail(VW_ERR_WRONG_STATE, "no live data was copied");
    return VW_OK;
}

/* Everything is free: the pool fits together, and all of it goes back. */
static vw_status expect_empty(void)
{
    uint64_t reserved_bytes = 0;
    VW__TRY(vw_pool_check(scene.pool));
    VW__TRY(vw_pool_trim(scene.pool));
    VW__TRY(vw_pool_check(scene.pool));
    VW__TRY(capture_reserved_bytes(&scene, &reserved_bytes));
    if (reserved_bytes != 0)
        return vw__fail(VW_ERR_WRONG_STATE, "%" PRIu64 " bytes are reserved, and nothing is live",
                        reserved_bytes);
    return VW_OK;
}

static vw_status expect_no_watched_unmaps(void)
{
    if (capture_watched_unmaps() == 0)
        return VW_OK;
    return vw__fail(VW_ERR_WRONG_STATE, "memory that must stay was unmapped %" PRIu64 " times",
                    capture_watched_unmaps());
}

/* Room for some, but soon not for all that comes. */
static vw_status limit_to_more(uint64_t more_bytes)
{
    uint64_t reserved_bytes = 0;
    VW__TRY(capture_reserved_bytes(&scene, &reserved_bytes));
    return capture_set_limit(&scene, reserved_bytes + more_bytes);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

enum { GRAPHS = 2, GRAPH_BLOCKS = 8 };

/* A captured graph, and the blocks it writes that are live still. */
typedef struct captured {
    vw_private_id id;
    capture_graph graph;
    capture_graph_exec exec;
    replay_block kept[GRAPH_BLOCKS];
    size_t kept_count;
} captured;

static const uint64_t graph_sizes_bytes[GRAPH_BLOCKS] = {
    1000, 300 * KIB + 3, 3 * MIB, 40 * MIB + 5, 512, 900 * KIB, 12 * MIB, 25 * MIB,
};

static vw__cuda_stream graph_stream(void)
{
    return (vw__cuda_stream)(uintptr_t)scene.streams[0];
}

static bool is_graph_stream(void *context, vw_stream stream)
{
    return stream == ((const capture_scene *)context)->streams[0];
}

static vw_status expect_capture_goes_on(const char *after)
{
    const replay_driver *driver = &scene.gpu->driver;
    int status = 0;
    VW__TRY(replay_driver_result(driver, driver->base->cuStreamIsCapturing(graph_stream(), &status),
                                 "cuStreamIsCapturing()"));
    if (status != CAPTURE_STATUS_ACTIVE)
        return vw__fail(VW_ERR_WRONG_STATE, "the capture was spoilt by %s: its status is %d", after,
                        status);
    return VW_OK;
}

static vw_status take_in_graph(uint64_t size_bytes, replay_block *out)
{
    VW__TRY(capture_take(&scene, size_bytes, scene.streams[0], out));
    return replay_bytes_check(&scene.gpu->bytes, out, scene.streams[0]);
}

/* Blocks of all sizes, every other given back and had again, and other streams busy meanwhile. The
 * graph checks what it wrote as it goes: what it gave back as well, before it is written anew. */
static vw_status work_in_capture(captured *graph)
{
    vw_device_ptr freed[GRAPH_BLOCKS] = {VW_NULL};
    bool is_reused = false;
    for (size_t i = 0; i < GRAPH_BLOCKS; i++) {
        VW__TRY(take_in_graph(graph_sizes_bytes[i], &graph->kept[i]));
        graph->kept_count = i + 1;
    }
    VW__TRY(expect_capture_goes_on("allocations"));
    for (size_t i = 0; i < GRAPH_BLOCKS; i += 2) {
        freed[i] = graph->kept[i].address;
        VW__TRY(vw_free(scene.pool, freed[i]));
        graph->kept[i].address = VW_NULL;
    }
    VW__TRY(expect_capture_goes_on("frees"));
    VW__TRY(capture_churn(&scene, STEPS_A_ROUND));
    VW__TRY(expect_capture_goes_on("other streams' requests"));
    for (size_t i = 0; i < GRAPH_BLOCKS; i += 2) {
        VW__TRY(take_in_graph(graph_sizes_bytes[i], &graph->kept[i]));
        for (size_t j = 0; j < GRAPH_BLOCKS; j += 2)
            is_reused |= graph->kept[i].address == freed[j];
    }
    if (!is_reused)
        return vw__fail(VW_ERR_WRONG_STATE, "nothing freed while capturing was used again");
    return expect_capture_goes_on("reuse");
}

static vw_status capture(captured *graph, int mode)
{
    const capture_functions *functions = &scene.gpu->functions;
    const replay_driver *driver = &scene.gpu->driver;
    VW__TRY(vw_private_pool_begin(scene.pool, graph->id, is_graph_stream, &scene));
    VW__TRY(replay_driver_result(driver, functions->cuStreamBeginCapture(graph_stream(), mode),
                                 "cuStreamBeginCapture_v2()"));
    vw_status status = work_in_capture(graph);
    vw__cuda_result result = functions->cuStreamEndCapture(graph_stream(), &graph->graph);
    VW__TRY(status);
    VW__TRY(replay_driver_result(driver, result, "cuStreamEndCapture()"));
    VW__TRY(replay_driver_result(driver,
                                 functions->cuGraphInstantiate(&graph->exec, graph->graph, 0),
                                 "cuGraphInstantiateWithFlags()"));
    return vw_private_pool_end(scene.pool, graph->id);
}

/* What a walk looks for, and whether it could watch it all. */
typedef struct watch_search {
    vw_private_id id;
    vw_status status;
    size_t found;
} watch_search;

static bool watch_segment(void *context, const vw_segment_info *segment)
{
    watch_search *search = context;
    if (segment->private_id.first == search->id.first &&
        segment->private_id.second == search->id.second) {
        search->status = capture_watch(segment->address, segment->total_bytes);
        search->found++;
    }
    return search->status == VW_OK;
}

static vw_status watch_graph(const captured *graph)
{
    watch_search search = {.id = graph->id, .status = VW_OK};
    const vw_walker walker = {.context = &search, .segment = watch_segment};
    VW__TRY(vw_pool_walk(scene.pool, &walker, false));
    VW__TRY(search.status);
    return search.found != 0 ? VW_OK
                             : vw__fail(VW_ERR_WRONG_STATE, "the graph's pool has no segment");
}

/* Overwrites what the graph wrote last time, so that what is found afterwards is from this one. */
static vw_status launch(const captured *graph)
{
    const replay_driver *driver = &scene.gpu->driver;
    for (size_t i = 0; i < graph->kept_count; i++) {
        replay_block spoilt = graph->kept[i];
        VW__TRY(capture_fill_anew(&scene, &spoilt, scene.streams[0]));
    }
    VW__TRY(replay_driver_result(driver,
                                 scene.gpu->functions.cuGraphLaunch(graph->exec, graph_stream()),
                                 "cuGraphLaunch()"));
    for (size_t i = 0; i < graph->kept_count; i++)
        VW__TRY(replay_bytes_check(&scene.gpu->bytes, &graph->kept[i], scene.streams[0]));
    return VW_OK;
}

static vw_status end_graph(captured *graph)
{
    const capture_functions *functions = &scene.gpu->functions;
    const replay_driver *driver = &scene.gpu->driver;
    VW__TRY(replay_driver_result(driver, functions->cuGraphExecDestroy(graph->exec),
                                 "cuGraphExecDestroy()"));
    VW__TRY(
        replay_driver_result(driver, functions->cuGraphDestroy(graph->graph), "cuGraphDestroy()"));
    while (graph->kept_count > 0)
        VW__TRY(vw_free(scene.pool, graph->kept[--graph->kept_count].address));
    return vw_private_pool_release(scene.pool, graph->id);
}

/* The other graph is launched half-way through, so that work of both kinds is queued together. */
static vw_status churn_round_graphs(const captured graphs[GRAPHS])
{
    for (int i = 0; i < GRAPHS; i++) {
        VW__TRY(launch(&graphs[i]));
        VW__TRY(capture_churn(&scene, STEPS_A_ROUND));
    }
    VW__TRY(capture_check_live(&scene));
    return capture_expect_bytes(scene.gpu, "graphs among blocks that come and go");
}

static vw_status graphs_survive(capture_gpu *gpu, const char *engine)
{
    static const int modes[GRAPHS] = {CAPTURE_MODE_GLOBAL, CAPTURE_MODE_THREAD_LOCAL};
    const capture_functions *functions = &gpu->functions;
    captured graphs[GRAPHS] = {{.kept_count = 0}};
    if (functions->cuStreamBeginCapture == NULL || functions->cuStreamEndCapture == NULL ||
        functions->cuGraphInstantiate == NULL || functions->cuGraphLaunch == NULL ||
        functions->cuGraphExecDestroy == NULL || functions->cuGraphDestroy == NULL ||
        gpu->driver.base->cuStreamIsCapturing == NULL)
        return vw__fail(VW_ERR_UNSUPPORTED, "this driver has no graphs");
    VW__TRY(capture_scene_open(&scene, gpu, engine, false, random_seed));
    VW__TRY(capture_churn(&scene, STEPS_A_ROUND));
    for (int i = 0; i < GRAPHS; i++) {
        graphs[i].id = (vw_private_id){7, (uint64_t)i};
        VW__TRY(capture(&graphs[i], modes[i]));
        VW__TRY(watch_graph(&graphs[i]));
        VW__TRY(launch(&graphs[i]));
        VW__TRY(capture_expect_bytes(gpu, "the first launch"));
    }
    VW__TRY(limit_to_more(16 * MIB));
    for (unsigned round = 0; round < rounds; round++)
        VW__TRY(churn_round_graphs(graphs));
    VW__TRY(expect_no_watched_unmaps());
    VW__TRY(expect_moves(engine));
    for (int i = 0; i < GRAPHS; i++)
        VW__TRY(end_graph(&graphs[i]));
    VW__TRY(capture_free_live(&scene));
    VW__TRY(expect_empty());
    return capture_expect_bytes(gpu, "the end");
}

/* ---- memory that others see ------------------------------------------------------------------ */

enum { SEEN_BLOCKS = 3 };

typedef struct seen_block {
    replay_block block;
    capture_view view;
} seen_block;

static vw_status check_both_ways(const seen_block *seen)
{
    replay_block from_view = seen->block;
    from_view.address = seen->view.block;
    VW__TRY(replay_bytes_check(&scene.gpu->bytes, &seen->block, seen->block.stream));
    return replay_bytes_check(&scene.gpu->bytes, &from_view, seen->block.stream);
}

/* Written at one address and found at the other, and the other way round. */
static vw_status write_both_ways(seen_block *seen)
{
    replay_block from_view = seen->block;
    from_view.address = seen->view.block;
    VW__TRY(capture_fill_anew(&scene, &seen->block, seen->block.stream));
    VW__TRY(check_both_ways(seen));
    VW__TRY(capture_fill_anew(&scene, &from_view, seen->block.stream));
    seen->block.seed = from_view.seed;
    return check_both_ways(seen);
}

static vw_status churn_round_seen(seen_block *seen)
{
    VW__TRY(capture_churn(&scene, STEPS_A_ROUND));
    for (int i = 0; i < SEEN_BLOCKS; i++) {
        VW__TRY(capture_view_expect_in_place(scene.gpu, &seen[i].view));
        VW__TRY(check_both_ways(&seen[i]));
        VW__TRY(write_both_ways(&seen[i]));
    }
    VW__TRY(capture_check_live(&scene));
    return capture_expect_bytes(scene.gpu, "blocks that others see, among those that move");
}

/* A block that was freed stays where it is as long as it is pinned; others may be given it. */
static vw_status free_while_seen(seen_block *seen)
{
    for (int i = 0; i < SEEN_BLOCKS; i++)
        VW__TRY(vw_free(scene.pool, seen[i].block.address));
    VW__TRY(capture_churn(&scene, 4 * STEPS_A_ROUND));
    VW__TRY(vw_pool_trim(scene.pool));
    for (int i = 0; i < SEEN_BLOCKS; i++)
        VW__TRY(capture_view_expect_in_place(scene.gpu, &seen[i].view));
    VW__TRY(capture_check_live(&scene));
    return capture_expect_bytes(scene.gpu, "after blocks that others see were freed");
}

static vw_status churn_around_seen(const char *engine, bool is_imported, seen_block *seen)
{
    static const uint64_t sizes_bytes[SEEN_BLOCKS] = {700 * KIB, 3 * MIB + 1, 20 * MIB};
    VW__TRY(capture_churn(&scene, STEPS_A_ROUND));
    for (int i = 0; i < SEEN_BLOCKS; i++) {
        replay_block *block = &seen[i].block;
        VW__TRY(capture_take(&scene, sizes_bytes[i], scene.streams[1], block));
        VW__TRY(vw_pool_pin(scene.pool, block->address));
        VW__TRY(capture_watch(block->address, block->size_bytes));
        VW__TRY(capture_view_open(scene.gpu, block, is_imported, &seen[i].view));
    }
    VW__TRY(limit_to_more(32 * MIB));
    for (unsigned round = 0; round < rounds; round++)
        VW__TRY(churn_round_seen(seen));
    VW__TRY(free_while_seen(seen));
    VW__TRY(expect_no_watched_unmaps());
    return expect_moves(engine);
}

static vw_status end_seen(const seen_block *seen)
{
    for (int i = 0; i < SEEN_BLOCKS; i++)
        VW__TRY(vw_pool_unpin(scene.pool, seen[i].block.address));
    VW__TRY(capture_free_live(&scene));
    VW__TRY(expect_empty());
    return capture_expect_bytes(scene.gpu, "the end");
}

static vw_status others_see_the_same(capture_gpu *gpu, const char *engine, bool is_imported)
{
    static seen_block seen[SEEN_BLOCKS];
    const vw_device_properties *properties = &gpu->real->properties;
    memset(seen, 0, sizeof seen);
    if (!properties->has_virtual_memory)
        return vw__fail(VW_ERR_UNSUPPORTED, "the device has no virtual memory");
    if (is_imported && !properties->has_shareable_handles)
        return vw__fail(VW_ERR_UNSUPPORTED, "the device has no shareable handles");
    VW__TRY(capture_scene_open(&scene, gpu, engine, is_imported, random_seed));
    vw_status status = churn_around_seen(engine, is_imported, seen);
    for (int i = 0; i < SEEN_BLOCKS; i++) {
        vw_status close_status = capture_view_close(gpu, &seen[i].view);
        status = status != VW_OK ? status : close_status;
    }
    VW__TRY(status);
    return end_seen(seen);
}

static vw_status pinned_blocks_stay(capture_gpu *gpu, const char *engine)
{
    return others_see_the_same(gpu, engine, false);
}

static vw_status imported_blocks_stay(capture_gpu *gpu, const char *engine)
{
    return others_see_the_same(gpu, engine, true);
}

/* ---- streams --------------------------------------------------------------------------------- */

#define SPIN_NS UINT64_C(50000000)
#define MOST_ALLOC_NS UINT64_C(10000000)
#define CROSSED_BYTES (256 * MIB)

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* That the kernel takes its time: without, the rest would show nothing. */
static vw_status expect_spin(void)
{
    const vw_device *device = scene.gpu->real;
    uint64_t start_ns = now_ns();
    VW__TRY(capture_spin(scene.gpu, SPIN_NS, scene.streams[1]));
    VW__TRY(device->table->stream_synchronize(device->context, scene.streams[1]));
    uint64_t taken_ns = now_ns() - start_ns;
    if (taken_ns < SPIN_NS / 2 || taken_ns > 20 * SPIN_NS)
        return vw__fail(VW_ERR_WRONG_STATE, "the kernel that is to take 50 ms took %.1f",
                        (double)taken_ns * 1e-6);
    return VW_OK;
}

/* `busy` has the block in use until its kernel ends; meanwhile `asking` wants as much. Which bytes
 * are right shows whether the two overlapped in time; only `is_judged` may the host not wait. */
static vw_status ask_under_a_kernel(const replay_block *block, vw_stream busy, vw_stream asking,
                                    bool is_judged, replay_block *out)
{
    const vw_device *device = scene.gpu->real;
    replay_block other = {.size_bytes = CROSSED_BYTES, .stream = asking};
    VW__TRY(capture_spin(scene.gpu, SPIN_NS, busy));
    VW__TRY(replay_bytes_check(&scene.gpu->bytes, block, busy));
    VW__TRY(device->table->event_record(device->context, scene.order, busy));
    VW__TRY(vw_free(scene.pool, block->address));
    uint64_t start_ns = now_ns();
    VW__TRY(vw_alloc(scene.pool, other.size_bytes, asking, &other.address));
    uint64_t taken_ns = now_ns() - start_ns;
    vw_status is_done = device->table->event_query(device->context, scene.order);
    if (is_done != VW_OK && is_done != VW_ERR_NOT_READY)
        return is_done;
    VW__TRY(capture_fill_anew(&scene, &other, asking));
    VW__TRY(replay_bytes_check(&scene.gpu->bytes, &other, asking));
    VW__TRY(capture_expect_bytes(scene.gpu, "memory asked for under a running kernel"));
    say("%s%.2f ms", detail[0] != '\0' ? ", " : "the allocation took ", (double)taken_ns * 1e-6);
    if (is_judged && (taken_ns >= MOST_ALLOC_NS || is_done == VW_OK))
        return vw__fail(VW_ERR_WRONG_STATE,
                        "the allocation took %.2f ms, and the kernel was %s when it returned",
                        (double)taken_ns * 1e-6, is_done == VW_OK ? "over" : "running");
    *out = other;
    return VW_OK;
}

/* The limit leaves the one stream's memory only, or what is in use by nobody. */
static vw_status cross_under_kernels(const char *engine)
{
    vw_paged_stats stats = {.struct_size = sizeof stats};
    replay_block block, other, third;
    VW__TRY(expect_spin());
    VW__TRY(capture_take(&scene, CROSSED_BYTES, scene.streams[1], &block));
    VW__TRY(limit_to_more(24 * MIB));
    VW__TRY(
        ask_under_a_kernel(&block, scene.streams[1], scene.streams[2], is_paged(engine), &other));
    if (is_paged(engine)) {
        VW__TRY(vw_pool_get_paged_stats(scene.pool, &stats));
        if (stats.crossed_handles == 0)
            return vw__fail(VW_ERR_WRONG_STATE, "no handle went from one stream to the other");
    }

    /* Now a stream that is not the block's own uses it: its memory is nobody's until then. */
    VW__TRY(capture_set_limit(&scene, 2 * CROSSED_BYTES + 64 * MIB));
    VW__TRY(vw_record_stream(scene.pool, other.address, scene.streams[1]));
    VW__TRY(
        ask_under_a_kernel(&other, scene.streams[1], scene.streams[2], is_paged(engine), &third));
    return vw_free(scene.pool, third.address);
}

static vw_status streams_do_not_wait(capture_gpu *gpu, const char *engine)
{
    if (gpu->spin == NULL)
        return vw__fail(VW_ERR_UNSUPPORTED, "this driver has no kernel to spin in");
    if (is_paged(engine) && !gpu->real->properties.has_virtual_memory)
        return vw__fail(VW_ERR_UNSUPPORTED, "the device has no virtual memory");
    VW__TRY(capture_scene_open(&scene, gpu, engine, false, random_seed));
    VW__TRY(cross_under_kernels(engine));
    return expect_empty();
}

/* ---------------------------------------------------------------------------------------------- */

typedef struct check {
    const char *name;
    vw_status (*run)(capture_gpu *gpu, const char *engine);
    const char *engine;
} check;

static const check checks[] = {
    {"graphs survive captures and launches", graphs_survive, "torch"},
    {"graphs survive captures and launches", graphs_survive, "vramwise"},
    {"graphs survive captures and launches", graphs_survive, "vramwise:rescue"},
    {"graphs survive captures and launches", graphs_survive, "vramwise:tight"},
    {"pinned blocks stay where they are", pinned_blocks_stay, "vramwise"},
    {"pinned blocks stay where they are", pinned_blocks_stay, "vramwise:rescue"},
    {"pinned blocks stay where they are", pinned_blocks_stay, "vramwise:tight"},
    {"imported blocks are the same memory", imported_blocks_stay, "vramwise"},
    {"imported blocks are the same memory", imported_blocks_stay, "vramwise:tight"},
    {"streams take memory without waiting", streams_do_not_wait, "torch"},
    {"streams take memory without waiting", streams_do_not_wait, "vramwise"},
    {"streams take memory without waiting", streams_do_not_wait, "vramwise:tight"},
};

enum { CHECKS = sizeof checks / sizeof checks[0] };

/* Returns the status; what a failed check leaves goes with its scene. */
static vw_status run_check(capture_gpu *gpu, const check *one)
{
    char reason[512];
    uint64_t start_ns = now_ns();
    detail[0] = '\0';
    vw_status status = one->run(gpu, one->engine);
    snprintf(reason, sizeof reason, "%s", status != VW_OK ? vw_last_error() : detail);
    if (scene.gpu != NULL)
        capture_scene_close(&scene);
    scene = (capture_scene){.gpu = NULL};
    printf("%-8s %-38s %-16s %6.1f s  %s\n",
           status == VW_OK                ? "ok"
           : status == VW_ERR_UNSUPPORTED ? "skipped"
                                          : "FAILED",
           one->name, one->engine, (double)(now_ns() - start_ns) * 1e-9, reason);
    return status;
}

int main(int argument_count, char **arguments)
{
    static capture_gpu gpu;
    int passed = 0, skipped = 0;
    setvbuf(stdout, NULL, _IOLBF, 0); /* a driver may end the process: lose no line */
    vw_status status = capture_gpu_open(argument_count > 1 ? atoi(arguments[1]) : 0, &gpu);
    if (status == VW_ERR_NO_DEVICE) {
        printf("skipped: %s\n", vw_last_error());
        return EXIT_SKIPPED;
    }
    if (status != VW_OK) {
        printf("%s: %s\n", vw_status_name(status), vw_last_error());
        return EXIT_FAILURE;
    }
    random_seed = argument_count > 2 ? strtoull(arguments[2], NULL, 10) : 88172645463325253u;
    rounds = argument_count > 3 ? (unsigned)strtoul(arguments[3], NULL, 10) : rounds;
    printf("%s, random seed %" PRIu64 ", %u rounds\n", gpu.real->properties.name, random_seed,
           rounds);
    for (size_t i = 0; i < CHECKS; i++) {
        status = run_check(&gpu, &checks[i]);
        passed += status == VW_OK;
        skipped += status == VW_ERR_UNSUPPORTED;
    }
    capture_gpu_close(&gpu);
    int failed = (int)CHECKS - passed - skipped;
    printf("%d checks passed, %d skipped, %d FAILED\n", passed, skipped, failed);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
