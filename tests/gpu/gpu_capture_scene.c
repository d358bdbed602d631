/* gpu_capture_scene.c - see gpu_capture_scene.h; mappings and views are in gpu_capture_views.c. */
#include "gpu/gpu_capture_scene.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h" /* vw__fail, VW__TRY */
#include "device/library_load.h"
#include "gpu/gpu_capture_views.h"

#define MIB (UINT64_C(1) << 20)
#define MOST_CHURNED_BYTES (48 * MIB)

/* ---- the GPU --------------------------------------------------------------------------------- */

/* Ends by the clock, or after so many looks at it: never later than in some seconds. */
static const char spin_text[] = ".version 6.0\n"
                                ".target sm_50\n"
                                ".address_size 64\n"
                                ".visible .entry spin(.param .u64 p_duration)\n"
                                "{\n"
                                ".reg .pred is_early;\n"
                                ".reg .u32 looks;\n"
                                ".reg .u64 start, now, duration;\n"
                                "ld.param.u64 duration, [p_duration];\n"
                                "mov.u32 looks, 0;\n"
                                "mov.u64 start, %globaltimer;\n"
                                "AGAIN:\n"
                                "add.u32 looks, looks, 1;\n"
                                "setp.gt.u32 is_early, looks, 50000000;\n"
                                "@is_early bra END;\n"
                                "mov.u64 now, %globaltimer;\n"
                                "sub.u64 now, now, start;\n"
                                "setp.lt.u64 is_early, now, duration;\n"
                                "@is_early bra AGAIN;\n"
                                "END:\n"
                                "ret;\n"
                                "}\n";

static const vw__library_symbol symbols[] = {
#define SYMBOL(name, symbol, parameters) {symbol, NULL, offsetof(capture_functions, name), false},
    CAPTURE_SYMBOL_LIST(SYMBOL)
#undef SYMBOL
};

/* The driver is loaded already: this finds the same library. */
static vw_status find_functions(capture_functions *functions)
{
    static const char *const names[] = {"libcuda.so.1", "libcuda.so",
                                        "/usr/lib/wsl/lib/libcuda.so.1", NULL};
    char reasons[800];
    void *library = vw__library_open("VRAMWISE_CUDA_DRIVER", names, reasons, sizeof reasons);
    if (library == NULL)
        return vw__fail(VW_ERR_NO_DEVICE, "no CUDA driver could be loaded; tried %s", reasons);
    (void)vw__library_find_symbols(library, symbols, sizeof symbols / sizeof symbols[0], functions);
    return VW_OK;
}

vw_status capture_spin(const capture_gpu *gpu, uint64_t duration_ns, vw_stream stream)
{
    void *parameters[] = {&duration_ns};
    if (gpu->spin == NULL)
        return vw__fail(VW_ERR_UNSUPPORTED, "this driver has no kernel to spin in");
    return replay_driver_result(&gpu->driver,
                                gpu->driver.cuLaunchKernel(gpu->spin, 1, 1, 1, 1, 1, 1, 0,
                                                           (vw__cuda_stream)(uintptr_t)stream,
                                                           parameters, NULL),
                                "cuLaunchKernel(spin)");
}

/* A fake driver knows some kernels by name, and not this one: then there is none. */
static vw_status load_spin(capture_gpu *gpu)
{
    enum { NOT_FOUND = 500 };
    const replay_driver *driver = &gpu->driver;
    VW__TRY(replay_driver_result(driver, driver->cuModuleLoadData(&gpu->spin_module, spin_text),
                                 "cuModuleLoadData(spin)"));
    vw__cuda_result result = driver->cuModuleGetFunction(&gpu->spin, gpu->spin_module, "spin");
    if (result == NOT_FOUND) {
        gpu->spin = NULL;
        return VW_OK;
    }
    VW__TRY(replay_driver_result(driver, result, "cuModuleGetFunction(spin)"));
    VW__TRY(capture_spin(gpu, 1000, 0));
    return gpu->real->table->synchronize(gpu->real->context);
}

static vw_status open_rest(int index, capture_gpu *gpu)
{
    VW__TRY(replay_driver_open(index, &gpu->driver));
    VW__TRY(find_functions(&gpu->functions));
    VW__TRY(replay_bytes_init(&gpu->bytes, gpu->real, &gpu->driver, false));
    gpu->device = *gpu->real;
    capture_note_mappings(&gpu->device);
    return load_spin(gpu);
}

vw_status capture_gpu_open(int index, capture_gpu *out)
{
    *out = (capture_gpu){.real = NULL};
    VW__TRY(vw_cuda_device_open(index, &out->real));
    vw_status status = open_rest(index, out);
    if (status != VW_OK)
        capture_gpu_close(out);
    return status;
}

void capture_gpu_close(capture_gpu *gpu)
{
    if (gpu->spin_module != NULL)
        (void)gpu->driver.cuModuleUnload(gpu->spin_module);
    if (gpu->bytes.device != NULL)
        replay_bytes_deinit(&gpu->bytes);
    if (gpu->driver.base != NULL)
        replay_driver_close(&gpu->driver);
    vw_device_destroy(gpu->real);
    *gpu = (capture_gpu){.real = NULL};
}

vw_status capture_expect_bytes(capture_gpu *gpu, const char *when)
{
    replay_errors errors;
    VW__TRY(replay_bytes_take_errors(&gpu->bytes, &errors));
    if (errors.count == 0)
        return VW_OK;
    return vw__fail(VW_ERR_WRONG_STATE,
                    "%s: %" PRIu64 " words were wrong, one of them number %" PRIu64
                    " of block %" PRIu64 ": found %#" PRIx64 ", expected %#" PRIx64,
                    when, errors.count, errors.word, errors.seed, errors.found, errors.wanted);
}

/* ---- a scene --------------------------------------------------------------------------------- */

static bool grant_safe_point(void *context)
{
    ((capture_scene *)context)->safe_points++;
    return true;
}

static void end_safe_point(void *context)
{
    (void)context;
}

vw_status capture_scene_open(capture_scene *scene, capture_gpu *gpu, const char *engine,
                             bool is_shareable, uint64_t random_seed)
{
    const vw_device *device = gpu->real;
    const vw_pool_options options = {
        .struct_size = sizeof options,
        .engine = engine,
        .safe_point = {grant_safe_point, end_safe_point, scene},
        .is_shareable = is_shareable,
    };
    *scene = (capture_scene){.gpu = gpu, .random = random_seed | 1, .last_seed = 1000};
    capture_forget_watched();
    VW__TRY(vw_pool_create(&gpu->device, &options, &scene->pool));
    for (int i = 0; i < CAPTURE_STREAMS; i++)
        VW__TRY(device->table->stream_create(device->context, &scene->streams[i]));
    return device->table->event_create(device->context, &scene->order);
}

void capture_scene_close(capture_scene *scene)
{
    const vw_device *device = scene->gpu->real;
    (void)device->table->synchronize(device->context);
    vw_pool_destroy(scene->pool);
    if (scene->order != 0)
        (void)device->table->event_destroy(device->context, scene->order);
    for (int i = 0; i < CAPTURE_STREAMS; i++)
        if (scene->streams[i] != 0)
            (void)device->table->stream_destroy(device->context, scene->streams[i]);
    capture_forget_watched();
    *scene = (capture_scene){.gpu = scene->gpu};
}

vw_status capture_reserved_bytes(const capture_scene *scene, uint64_t *out)
{
    vw_pool_stats stats = {.struct_size = sizeof stats};
    VW__TRY(vw_pool_get_stats(scene->pool, &stats));
    *out = (uint64_t)stats.reserved_bytes.all.current;
    return VW_OK;
}

vw_status capture_set_limit(capture_scene *scene, uint64_t limit_bytes)
{
    double total_bytes = (double)scene->gpu->real->properties.total_bytes;
    double fraction = (double)limit_bytes / total_bytes;
    return vw_pool_set_fraction(scene->pool, fraction < 1.0 ? fraction : 1.0);
}

/* ---- blocks that come and go ----------------------------------------------------------------- */

static uint64_t next_random(capture_scene *scene)
{
    scene->random ^= scene->random << 13;
    scene->random ^= scene->random >> 7;
    scene->random ^= scene->random << 17;
    return scene->random >> 11; /* the low bits are the weakest */
}

/* As many of each order of magnitude, from 512 bytes up. */
static uint64_t random_size_bytes(capture_scene *scene)
{
    uint64_t most_bytes = UINT64_C(1024) << next_random(scene) % 17;
    uint64_t size_bytes = most_bytes / 2 + next_random(scene) % (most_bytes / 2 + 1);
    return size_bytes < MOST_CHURNED_BYTES ? size_bytes : MOST_CHURNED_BYTES;
}

static vw_stream random_stream(capture_scene *scene)
{
    return scene->streams[1 + next_random(scene) % (CAPTURE_STREAMS - 1)];
}

vw_status capture_fill_anew(capture_scene *scene, replay_block *block, vw_stream stream)
{
    block->seed = ++scene->last_seed;
    return replay_bytes_fill(&scene->gpu->bytes, block, stream);
}

vw_status capture_take(capture_scene *scene, uint64_t size_bytes, vw_stream stream,
                       replay_block *out)
{
    replay_block block = {.size_bytes = size_bytes, .stream = stream};
    VW__TRY(vw_alloc(scene->pool, size_bytes, stream, &block.address));
    VW__TRY(capture_fill_anew(scene, &block, stream));
    *out = block;
    return VW_OK;
}

/* Another stream looks at the block, too: after its own is done with it so far. */
static vw_status use_elsewhere(capture_scene *scene, const replay_block *block)
{
    const vw_device *device = scene->gpu->real;
    vw_stream other = scene->streams[1];
    if (other == block->stream)
        other = scene->streams[2];
    VW__TRY(device->table->event_record(device->context, scene->order, block->stream));
    VW__TRY(device->table->stream_wait_event(device->context, other, scene->order));
    VW__TRY(vw_record_stream(scene->pool, block->address, other));
    return replay_bytes_check(&scene->gpu->bytes, block, other);
}

static vw_status let_go_at(capture_scene *scene, size_t at)
{
    replay_block block = scene->live[at];
    VW__TRY(replay_bytes_check(&scene->gpu->bytes, &block, block.stream));
    if (next_random(scene) % 4 == 0)
        VW__TRY(use_elsewhere(scene, &block));
    VW__TRY(vw_free(scene->pool, block.address));
    scene->live[at] = scene->live[--scene->live_count];
    return VW_OK;
}

static vw_status let_go_some(capture_scene *scene)
{
    for (size_t left = scene->live_count / 4 + 1; left > 0 && scene->live_count > 0; left--)
        VW__TRY(let_go_at(scene, next_random(scene) % scene->live_count));
    return VW_OK;
}

static vw_status take_one(capture_scene *scene)
{
    vw_status status = capture_take(scene, random_size_bytes(scene), random_stream(scene),
                                    &scene->live[scene->live_count]);
    if (status == VW_ERR_OUT_OF_MEMORY) {
        scene->ran_out++;
        return let_go_some(scene);
    }
    VW__TRY(status);
    scene->served++;
    scene->live_count++;
    return VW_OK;
}

vw_status capture_churn(capture_scene *scene, unsigned steps)
{
    for (unsigned step = 0; step < steps; step++) {
        if (scene->live_count == CAPTURE_MOST_LIVE)
            VW__TRY(let_go_some(scene));
        if (scene->live_count != 0 && next_random(scene) % 5 < 2)
            VW__TRY(let_go_at(scene, next_random(scene) % scene->live_count));
        else
            VW__TRY(take_one(scene));
        if (scene->gpu->spin != NULL && step % 16 == 0) /* so that streams fall behind */
            VW__TRY(capture_spin(scene->gpu, 500000, random_stream(scene)));
    }
    return VW_OK;
}

vw_status capture_check_live(capture_scene *scene)
{
    for (size_t i = 0; i < scene->live_count; i++)
        VW__TRY(replay_bytes_check(&scene->gpu->bytes, &scene->live[i], scene->live[i].stream));
    return VW_OK;
}

vw_status capture_free_live(capture_scene *scene)
{
    while (scene->live_count > 0)
        VW__TRY(let_go_at(scene, scene->live_count - 1));
    return VW_OK;
}
