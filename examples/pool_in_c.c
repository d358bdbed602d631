/* pool_in_c.c - libheadroom in a C program, without Python.
 *
 *   pool_in_c [RECORDING]
 *
 * A program of a few steps: weights that stay, activations that come and go on one stream, a buffer
 * that a second stream reads. Then it asks for more than there is, and says what it was told. With
 * a file's name the history goes there, for `headroom stats`, `replay`, `doctor`, or
 * pytorch.org/memory_viz.
 *
 *   cc pool_in_c.c -o pool_in_c $(pkg-config --cflags --libs headroom)
 *
 * On the first GPU; on a machine without one, on host memory that follows the same rules. Ends with
 * 0 where all went as it should. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <headroom/headroom.h>
#include <headroom/recording.h>

enum { LAYERS = 8, STEPS = 4 };

#define MIB (UINT64_C(1) << 20)
#define HOST_BYTES (512 * MIB)
#define LIMIT_BYTES (256 * MIB) /* the rest of the card is others' */

/* Every call that can fail says so; most programs want one place for it. */
static void must(hr_status status, const char *what)
{
    if (status == HR_OK)
        return;
    fprintf(stderr, "%s: %s (%s)\n", what, hr_last_error(), hr_status_name(status));
    exit(1);
}

static hr_device *open_device(void)
{
    hr_device *device = NULL;
    if (hr_cuda_device_open(0, &device) == HR_OK) {
        printf("on %s\n", device->properties.name);
        return device;
    }
    printf("no GPU here (%s)\non %" PRIu64 " MiB of host memory instead\n", hr_last_error(),
           HOST_BYTES / MIB);
    must(hr_host_device_create(HOST_BYTES, &device), "host memory");
    return device;
}

/* ---- a few steps of work --------------------------------------------------------------------- */

/* Work is queued on `stream`; a real program would launch kernels on it. */
static void run_step(hr_pool *pool, hr_device *device, hr_stream stream, hr_stream other)
{
    hr_device_ptr activations[LAYERS], loss = HR_NULL;
    for (int i = 0; i < LAYERS; i++) {
        uint64_t size_bytes = (uint64_t)(i + 1) * 3 * MIB / 2;
        must(hr_alloc(pool, size_bytes, stream, &activations[i]), "an activation");
        must(device->table->fill(device->context, activations[i], (uint8_t)i, size_bytes, stream),
             "a kernel");
    }
    must(hr_alloc(pool, 512, stream, &loss), "the loss");

    /* A second stream reads the last one. The pool has to know, or the block could be handed out
     * again while it does. */
    must(hr_record_stream(pool, activations[LAYERS - 1], other), "hr_record_stream");

    must(hr_free(pool, loss), "hr_free");
    for (int i = LAYERS; i-- > 0;)
        must(hr_free(pool, activations[i]), "hr_free");
}

static void print_statistics(const hr_pool *pool)
{
    hr_pool_stats stats = {.struct_size = sizeof stats};
    must(hr_pool_get_stats(pool, &stats), "hr_pool_get_stats");
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
static bool ask_for_too_much(hr_pool *pool, hr_stream stream)
{
    hr_device_ptr address = HR_NULL;
    hr_oom_report report = {.struct_size = sizeof report};
    hr_status status = hr_alloc(pool, 2 * LIMIT_BYTES, stream, &address);
    if (status != HR_ERR_OUT_OF_MEMORY) {
        fprintf(stderr, "expected to run out of memory, found %s\n", hr_status_name(status));
        return false;
    }
    printf("%s\n", hr_last_error());
    must(hr_last_out_of_memory(&report), "hr_last_out_of_memory");
    printf("asked for %" PRIu64 " MiB, %" PRIu64 " MiB free on the device, %" PRIu64
           " MiB idle in one piece\n",
           report.requested_bytes / MIB, report.free_bytes / MIB,
           report.largest_free_block_bytes / MIB);
    return true;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : NULL;
    hr_device *device = open_device();
    const hr_pool_options options = {.struct_size = sizeof options, .engine = "headroom"};
    hr_pool *pool = NULL;
    hr_recorder *recorder = NULL;
    hr_stream compute = 0, reading = 0;
    hr_device_ptr weights = HR_NULL;

    must(hr_pool_create(device, &options, &pool), "a pool");
    must(hr_pool_set_fraction(pool, (double)LIMIT_BYTES / (double)device->properties.total_bytes),
         "its limit");
    if (path != NULL) {
        must(hr_recorder_create(NULL, &recorder), "a recorder");
        must(hr_recorder_attach(recorder, pool), "attaching it"); /* before the first request */
    }
    must(device->table->stream_create(device->context, &compute), "a stream");
    must(device->table->stream_create(device->context, &reading), "a stream");

    must(hr_alloc(pool, 40 * MIB, compute, &weights), "the weights");
    for (int step = 0; step < STEPS; step++)
        run_step(pool, device, compute, reading);
    print_statistics(pool);
    bool is_as_expected = ask_for_too_much(pool, compute);
    must(hr_free(pool, weights), "hr_free");

    if (path != NULL) {
        must(hr_recorder_write(recorder, pool, path), "the recording");
        printf("recorded in %s\n", path);
    }
    hr_recorder_destroy(recorder);
    must(device->table->stream_destroy(device->context, reading), "ending a stream");
    must(device->table->stream_destroy(device->context, compute), "ending a stream");
    hr_pool_destroy(pool); /* before its device */
    hr_device_destroy(device);
    return is_as_expected ? 0 : 1;
}
