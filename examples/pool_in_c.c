/* pool_in_c.c - libvramwise in a C program, without Python.
 *
 *   pool_in_c [RECORDING]
 *
 * A program of a few steps: weights that stay, activations that come and go on one stream, a buffer
 * that a second stream reads. Then it asks for more than there is, and says what it was told. With
 * a file's name the history goes there, for `vramwise stats`, `replay`, `doctor`, or
 * pytorch.org/memory_viz.
 *
 *   cc pool_in_c.c -o pool_in_c $(pkg-config --cflags --libs vramwise)
 *
 * On the first GPU; on a machine without one, on host memory that follows the same rules. Ends with
 * 0 where all went as it should. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vramwise/vramwise.h>
#include <vramwise/recording.h>

enum { LAYERS = 8, STEPS = 4 };

#define MIB (UINT64_C(1) << 20)
#define HOST_BYTES (512 * MIB)
#define LIMIT_BYTES (256 * MIB) /* the rest of the card is others' */

/* Every call that can fail says so; most programs want one place for it. */
static void must(vw_status status, const char *what)
{
    if (status == VW_OK)
        return;
    fprintf(stderr, "%s: %s (%s)\n", what, vw_last_error(), vw_status_name(status));
    exit(1);
}

static vw_device *open_device(void)
{
    vw_device *device = NULL;
    if (vw_cuda_device_open(0, &device) == VW_OK) {
        printf("on %s\n", device->properties.name);
        return device;
    }
    printf("no GPU here (%s)\non %" PRIu64 " MiB of host memory instead\n", vw_last_error(),
           HOST_BYTES / MIB);
    must(vw_host_device_create(HOST_BYTES, &device), "host memory");
    return device;
}

/* ---- a few steps of work --------------------------------------------------------------------- */

/* Work is queued on `stream`; a real program would launch kernels on it. */
static void run_step(vw_pool *pool, vw_device *device, vw_stream stream, vw_stream other)
{
    vw_device_ptr activations[LAYERS], loss = VW_NULL;
    for (int i = 0; i < LAYERS; i++) {
        uint64_t size_bytes = (uint64_t)(i + 1) * 3 * MIB / 2;
        must(vw_alloc(pool, size_bytes, stream, &activations[i]), "an activation");
        must(device->table->fill(device->context, activations[i], (uint8_t)i, size_bytes, stream),
             "a kernel");
    }
    must(vw_alloc(pool, 512, stream, &loss), "the loss");

    /* A second stream reads the last one. The pool has to know, or the block could be handed out
     * again while it does. */
    must(vw_record_stream(pool, activations[LAYERS - 1], other), "vw_record_stream");

    must(vw_free(pool, loss), "vw_free");
    for (int i = LAYERS; i-- > 0;)
        must(vw_free(pool, activations[i]), "vw_free");
}

static void print_statistics(const vw_pool *pool)
{
    vw_pool_stats stats = {.struct_size = sizeof stats};
    must(vw_pool_get_stats(pool, &stats), "vw_pool_get_stats");
    printf("live now %" PRId64 " MiB, at most %" PRId64 " MiB; held from the device %" PRId64
           " MiB, at most %" PRId64 " MiB\n",
           stats.allocated_bytes.all.current / (int64_t)MIB,
           stats.allocated_bytes.all.peak / (int64_t)MIB,
           stats.reserved_bytes.all.current / (int64_t)MIB,
           stats.reserved_bytes.all.peak / (int64_t)MIB);
}

/* ---- more than there is ---------------------------------------------------------------------- */

/* A request that fails leaves the pool as it was. The text is PyTorch's; the numbers behind it are
 * there too. */
static bool ask_for_too_much(vw_pool *pool, vw_stream stream)
{
    vw_device_ptr address = VW_NULL;
    vw_oom_report report = {.struct_size = sizeof report};
    vw_status status = vw_alloc(pool, 2 * LIMIT_BYTES, stream, &address);
    if (status != VW_ERR_OUT_OF_MEMORY) {
        fprintf(stderr, "expected to run out of memory, found %s\n", vw_status_name(status));
        return false;
    }
    printf("%s\n", vw_last_error());
    must(vw_last_out_of_memory(&report), "vw_last_out_of_memory");
    printf("asked for %" PRIu64 " MiB, %" PRIu64 " MiB free on the device, %" PRIu64
           " MiB idle in one piece\n",
           report.requested_bytes / MIB, report.free_bytes / MIB,
           report.largest_free_block_bytes / MIB);
    return true;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : NULL;
    vw_device *device = open_device();
    const vw_pool_options options = {.struct_size = sizeof options, .engine = "vramwise"};
    vw_pool *pool = NULL;
    vw_recorder *recorder = NULL;
    vw_stream compute = 0, reading = 0;
    vw_device_ptr weights = VW_NULL;

    must(vw_pool_create(device, &options, &pool), "a pool");
    must(vw_pool_set_fraction(pool, (double)LIMIT_BYTES / (double)device->properties.total_bytes),
         "its limit");
    if (path != NULL) {
        must(vw_recorder_create(NULL, &recorder), "a recorder");
        must(vw_recorder_attach(recorder, pool), "attaching it"); /* before the first request */
    }
    must(device->table->stream_create(device->context, &compute), "a stream");
    must(device->table->stream_create(device->context, &reading), "a stream");

    must(vw_alloc(pool, 40 * MIB, compute, &weights), "the weights");
    for (int step = 0; step < STEPS; step++)
        run_step(pool, device, compute, reading);
    print_statistics(pool);
    bool is_as_expected = ask_for_too_much(pool, compute);
    must(vw_free(pool, weights), "vw_free");

    if (path != NULL) {
        must(vw_recorder_write(recorder, pool, path), "the recording");
        printf("recorded in %s\n", path);
    }
    vw_recorder_destroy(recorder);
    must(device->table->stream_destroy(device->context, reading), "ending a stream");
    must(device->table->stream_destroy(device->context, compute), "ending a stream");
    vw_pool_destroy(pool); /* before its device */
    vw_device_destroy(device);
    return is_as_expected ? 0 : 1;
}
