/* gpu_replay_bytes.h - writes the pattern into blocks and finds it again, through the device.
 *
 * On a GPU by kernels, queued on a stream like any program's work: they run when the device comes
 * to them, long after the call, and with whatever is mapped at the address by then. On the host
 * device by the processor, through the device table, done on return. Wrong words are counted where
 * they are found and read once, at the end.
 *
 * One thread at a time. */
#ifndef VW_TESTS_GPU_REPLAY_BYTES_H
#define VW_TESTS_GPU_REPLAY_BYTES_H

#include "gpu/gpu_replay_driver.h"
#include "gpu/gpu_replay_pattern.h"

typedef struct replay_bytes {
    vw_device *device;           /* borrowed */
    const replay_driver *driver; /* borrowed; NULL: by the processor */
    bool is_sampled;             /* of large blocks only pieces */
    replay_module fill_module, check_module;
    replay_function fill, check;
    vw_device_ptr device_errors; /* a replay_errors, where there are kernels */
    replay_errors errors;        /* where there are none */
    uint64_t visited_bytes;      /* written and checked so far */
} replay_bytes;

/* `driver` NULL: through the table of `device`. Kernels are compiled by the driver and run once
 * here, so that the first block does not pay for it. */
VW_MUST_CHECK vw_status replay_bytes_init(replay_bytes *bytes, vw_device *device,
                                          const replay_driver *driver, bool is_sampled);
void replay_bytes_deinit(replay_bytes *bytes);

/* Queued on `stream`. A wrong word is no failure of the call. */
VW_MUST_CHECK vw_status replay_bytes_fill(replay_bytes *bytes, const replay_block *block,
                                          vw_stream stream);
VW_MUST_CHECK vw_status replay_bytes_check(replay_bytes *bytes, const replay_block *block,
                                           vw_stream stream);

/* Waits for the device; what was found wrong since the last call. */
VW_MUST_CHECK vw_status replay_bytes_take_errors(replay_bytes *bytes, replay_errors *out);

#endif /* VW_TESTS_GPU_REPLAY_BYTES_H */
