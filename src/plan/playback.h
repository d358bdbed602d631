/* playback.h - requests that nobody measured, as a recording.
 *
 * Requests go to the real pool, on a simulated device without a limit. The pool reports events to
 * its listener, and holds segments and blocks at the end. So such a recording has the addresses,
 * splits and cached blocks that the allocator would give, and `vramwise verify` finds it exact.
 *
 * Nothing in it depends on the clock or the machine. Times are made up, the same from one event to
 * the next, and an annotation says so. */
#ifndef VW_PLAN_PLAYBACK_H
#define VW_PLAN_PLAYBACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/analysis.h"
#include "vramwise/device.h"
#include "vramwise/vramwise.h"
#include "model/memory_model.h"
#include "model/model_build.h"

typedef struct vw__playback {
    vw__model_builder *builder; /* owned; stacks are the caller's to add */
    vw_device *device;          /* owned */
    vw_pool *pool;              /* owned */
    vw_status status;           /* the first failure in a callback */
    size_t block_count;         /* while the end is walked */
} vw__playback;

/* `made_up` is the annotation that says what the recording is. The model may take
 * `memory_limit_bytes`: whatever adds to it fails beyond that with VW_ERR_UNSUPPORTED. After a
 * failure too, only vw__playback_deinit() may follow. Must not be moved: the pool points to it.
 * VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__playback_start(vw__playback *playback, size_t memory_limit_bytes,
                                           const char *made_up);
void vw__playback_deinit(vw__playback *playback);

/* A line of a stack; `line` 0: none. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__playback_add_frame(vw__playback *playback, const char *file,
                                               uint32_t line, const char *function, uint32_t *id);

/* VW_ERR_UNSUPPORTED: more than a device could have. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__playback_alloc(vw__playback *playback, uint64_t size_bytes,
                                           uint32_t stack, vw_device_ptr *address);
VW_MUST_CHECK vw_status vw__playback_free(vw__playback *playback, vw_device_ptr address);

/* At the next event, or after the last one. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__playback_begin(vw__playback *playback, const char *name);
VW_MUST_CHECK vw_status vw__playback_end(vw__playback *playback, const char *name);

/* Adds what the pool holds now, and gives the model away. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__playback_finish(vw__playback *playback, const char *made_up,
                                            vw__model **out);

/* ---- the model ------------------------------------------------------------------------------- */

/* Takes the model over, on failure too. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__playback_open(vw__model *model, vw_recording **out);

/* As torch.cuda.memory._dump_snapshot() writes it. VW_ERR_FILE, VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__playback_write(const vw__model *model, const char *path);

#endif /* VW_PLAN_PLAYBACK_H */
