/* pinned.h - a cache of page-locked host memory, by the rules of PyTorch's host allocator.
 *
 * A GPU copies to and from page-locked ("pinned") host memory without the processor's help, but
 * locking pages is slow: milliseconds for a large buffer. So freed blocks stay locked and are
 * handed out again. Blocks are never split or merged: each is one range from the device, of the
 * size it was made with.
 *
 *   sizes     the next power of two; above pinned_max_round_threshold_mb, or above
 *             pinned_max_cached_size_mb, exactly what was asked (PyTorch 2.13 on)
 *   reuse     the block freed last among those whose size has the same ceil(log2) and is enough
 *   streams   a block used by work on a stream is reused only after that work: vw_pinned_free()
 *             records an event there, and blocks wait in one queue, oldest first. A block whose
 *             work is not finished holds up all that were freed after it, on any stream.
 *   memory    only vw_pinned_trim() gives memory back to the machine, except for blocks larger than
 *             pinned_max_cached_size_mb
 *
 * What it costs: a request of 2^k + 1 bytes locks 2^(k+1) bytes, and keeps them.
 *
 * Everything here is thread-safe unless a comment says otherwise. Pointers are borrowed for the
 * call unless a comment says otherwise. In a child made by fork() every call on a pool of the
 * parent returns VW_ERR_WRONG_PROCESS and touches nothing.
 *
 * Reading order: vw_pinned_pool_create(), vw_pinned_alloc(), vw_pinned_free(),
 * vw_pinned_record_stream(), vw_pinned_pool_get_stats(); then private pools. */
#ifndef VRAMWISE_PINNED_H
#define VRAMWISE_PINNED_H

#include <stdbool.h>
#include <stddef.h> /* size_t */
#include <stdint.h> /* uint64_t */

#include "vramwise/device.h"   /* vw_device, vw_stream */
#include "vramwise/vramwise.h" /* vw_stat, vw_private_id, vw_scope_filter */
#include "vramwise/status.h"   /* vw_status, VW_API, VW_MUST_CHECK */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vw_pinned_pool vw_pinned_pool; /* opaque */

/* ---- a pool and its blocks ------------------------------------------------------------------- */

typedef struct vw_pinned_options {
    size_t struct_size;        /* sizeof(vw_pinned_options) */
    const char *conf;          /* what PYTORCH_CUDA_ALLOC_CONF would hold; NULL = "" */
    const char *torch_version; /* whose rules to follow, "1.6" to "2.15"; NULL = "2.11" */
    bool is_strict;            /* refuse what PyTorch would silently accept in `conf` */
    bool is_unlisted;          /* the process's page (live.h) does not show it */
    vw_pinned_budget *budget;  /* for all its memory, or NULL; must outlive the pool */
} vw_pinned_options;

/* Makes a pool on `device`, which must outlive it. `options` may be NULL. The keys of `conf` that
 * begin with pinned_ matter here; the others are checked and change nothing:
 *
 *   pinned_use_background_threads    a thread checks freed blocks ten thousand times a second,
 *                                    instead of every allocation doing so. It starts with the
 *                                    first block that is made, and ends with the pool.
 *   pinned_max_round_threshold_mb, pinned_max_cached_size_mb    see above
 *   pinned_use_cuda_host_register    blocks are ordinary memory, touched page by page by
 *                                    pinned_num_register_threads threads, and locked afterwards
 *   pinned_reserve_segment_size_mb   the first block that is made brings a range of that size,
 *                                    from which blocks are cut in steps of 4 KiB while it lasts.
 *                                    As in PyTorch, a trimmed block of the range leaves a hole
 *                                    until the pool ends.
 *   pinned_free_catch_all            vw_pinned_free() returns VW_OK even if the device failed;
 *                                    vw_last_error() still says why
 *
 * VW_ERR_UNSUPPORTED        the device has no page-locked memory
 * VW_ERR_INVALID_ARGUMENT   NULL, unknown version
 * VW_ERR_BAD_SETTING        `conf`: vw_last_error() holds PyTorch's own text for it, or, with
 *                           is_strict, what is wrong and where
 * VW_ERR_HOST_MEMORY */
VW_API VW_MUST_CHECK vw_status vw_pinned_pool_create(vw_device *device,
                                                     const vw_pinned_options *options,
                                                     vw_pinned_pool **out);

/* Gives everything back to the device, live blocks too, and ends the pool. NULL does nothing. No
 * other call on the pool may be in progress, and no work on the device may use its blocks. Memory
 * that the device will not unlock is leaked: freeing it could give others pages that the device
 * still writes to. */
VW_API void vw_pinned_pool_destroy(vw_pinned_pool *pool);

/* Stores in `*out` the address of at least `size_bytes` of page-locked memory. Zero bytes: NULL and
 * VW_OK. New memory is taken without the pool's lock: other threads are served meanwhile.
 *
 * VW_ERR_TOO_LARGE         2^60 bytes or more
 * VW_ERR_OUT_OF_MEMORY, VW_ERR_HOST_MEMORY, VW_ERR_DEVICE   no cached block fits, and the device
 *                          refused with this status. As in PyTorch the cache is not emptied and
 *                          the device not asked again; vw_pinned_trim() and a second call often
 *                          succeed.
 * VW_ERR_HOST_MEMORY       also if the pool's budget is spent
 * VW_ERR_DEVICE            also if a query for waiting blocks failed, or a block above
 *                          pinned_max_cached_size_mb could not be given back (it stays cached)
 * VW_ERR_INVALID_ARGUMENT  `pool` or `out` is NULL
 *
 * On failure `*out` is untouched; freed blocks may have become reusable, or gone back to the
 * device. */
VW_API VW_MUST_CHECK vw_status vw_pinned_alloc(vw_pinned_pool *pool, uint64_t size_bytes,
                                               void **out);

/* The same for a caller whose current stream is `stream` (vw_pinned_alloc(): 0). The stream decides
 * which private pool serves the request, and whether it is part of a capture; the block is not
 * bound to it. */
VW_API VW_MUST_CHECK vw_status vw_pinned_alloc_on(vw_pinned_pool *pool, uint64_t size_bytes,
                                                  vw_stream stream, void **out);

/* Gives a block back. Calls the driver only to record events on streams named by
 * vw_pinned_record_stream(), or to give back a block above pinned_max_cached_size_mb; both without
 * the pool's lock. Never needs memory. Freeing NULL does nothing. A block that was allocated during
 * a capture and used on a stream is kept for good, since a graph may use it whenever it is
 * replayed.
 *
 * VW_ERR_UNKNOWN_ADDRESS   not the start of a live block of this pool: a double free, an inner
 *                          pointer, or foreign memory. Nothing changed.
 * VW_ERR_DEVICE            the block is free, but an event could not be recorded (it is reused only
 *                          after vw_pinned_trim() has waited for the whole device), or it could
 *                          not be given back (it stays cached). With pinned_free_catch_all both
 *                          are VW_OK. */
VW_API vw_status vw_pinned_free(vw_pinned_pool *pool, void *address);

/* Tells the pool that work queued on `stream` uses the live block that holds `address`, which may
 * point inside it. NULL does nothing.
 *
 * VW_ERR_UNKNOWN_ADDRESS   no live block holds it: ordinary memory, or a block already freed
 * VW_ERR_HOST_MEMORY, VW_ERR_DEVICE   no event could be made for it */
VW_API VW_MUST_CHECK vw_status vw_pinned_record_stream(vw_pinned_pool *pool, void *address,
                                                       vw_stream stream);

/* torch._C._host_emptyCache(): gives every cached block back to the device; blocks of a private
 * pool only if nobody uses that pool any more. Waits for the whole device if an event could not be
 * recorded before, or its stream was captured, and no scope is open; else for nothing. Stops at the
 * first failure; what was given back by then stays given back, and the rest stays cached. */
VW_API vw_status vw_pinned_trim(vw_pinned_pool *pool);

/* ---- statistics ------------------------------------------------------------------------------ */

/* In microseconds. */
typedef struct vw_duration_stat {
    int64_t total;
    int64_t max;
    int64_t min; /* among calls longer than 0; 0 if there are none */
    int64_t count;
    int64_t avg; /* total / count, rounded down; 0 without a call */
} vw_duration_stat;

/* The numbers of torch.cuda.host_memory_stats(), by its names of 2.10 on. */
typedef struct vw_pinned_stats {
    size_t struct_size;      /* caller sets to sizeof(vw_pinned_stats) */
    int64_t num_host_alloc;  /* == allocations.allocated */
    int64_t num_host_free;   /* == allocations.freed */
    vw_stat allocations;     /* blocks held: live, waiting or cached; private pools included */
    vw_stat allocated_bytes; /* their bytes */
    vw_stat active_requests; /* blocks live or waiting, in the default pool only */
    vw_stat active_bytes;    /* their bytes. The peaks of active_* are sums of the peaks of each
                                power of two: an upper bound, reached only if all came at once */
    vw_duration_stat host_alloc_time; /* device calls for new memory; the reserve's included */
    vw_duration_stat host_free_time;
} vw_pinned_stats;

/* Fills `*stats`. Fields beyond the caller's struct_size are left alone. */
VW_API VW_MUST_CHECK vw_status vw_pinned_pool_get_stats(const vw_pinned_pool *pool,
                                                        vw_pinned_stats *stats);

/* Peaks become current values; max and min durations become 0. */
VW_API vw_status vw_pinned_pool_reset_peaks(vw_pinned_pool *pool);

/* allocated, freed, and with them num_host_alloc and num_host_free, become 0; so do total and count
 * of the durations. */
VW_API vw_status vw_pinned_pool_reset_accumulated(vw_pinned_pool *pool);

/* Walks everything the pool knows and checks that it fits together. VW_ERR_WRONG_STATE with the
 * first contradiction in vw_last_error(). For tests. */
VW_API VW_MUST_CHECK vw_status vw_pinned_pool_check(vw_pinned_pool *pool);

/* ---- private pools --------------------------------------------------------------------------- */

/* A CUDA graph must keep the memory it was captured with: while a capture is routed to private pool
 * `id` (usually that of the device's private pool), its blocks come from there and return there.
 * These functions are vw_private_pool_retain() and the others, for pinned memory. */

/* Makes private pool `id`, or adds one to its use count. VW_ERR_INVALID_ARGUMENT for id (0, 0);
 * VW_ERR_WRONG_STATE if it was released and still holds memory; VW_ERR_HOST_MEMORY. */
VW_API VW_MUST_CHECK vw_status vw_pinned_pool_retain(vw_pinned_pool *pool, vw_private_id id);

/* Retains it and routes to it, from now to vw_pinned_pool_end(), every request whose stream
 * `filter` accepts (NULL: every one); where several accept, the one begun first. `filter` is called
 * under the pool's lock. A graph whose streams use pinned memory has to be captured inside a scope
 * of the pool. VW_ERR_WRONG_STATE if it is routed to already. */
VW_API VW_MUST_CHECK vw_status vw_pinned_pool_begin(vw_pinned_pool *pool, vw_private_id id,
                                                    vw_scope_filter filter, void *context);
VW_API VW_MUST_CHECK vw_status vw_pinned_pool_end(vw_pinned_pool *pool, vw_private_id id);

/* Takes one from the use count. At zero the next trim gives its cached blocks back, and the private
 * pool ends when it holds none. VW_ERR_WRONG_STATE if it was not retained, or is the last use and
 * still routed to. */
VW_API VW_MUST_CHECK vw_status vw_pinned_pool_release(vw_pinned_pool *pool, vw_private_id id);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_PINNED_H */
