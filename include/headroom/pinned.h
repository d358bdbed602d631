/* pinned.h - cached page-locked host memory, as PyTorch's host allocator does it.
 *
 * A GPU copies to and from page-locked ("pinned") host memory without the processor's help, but
 * locking pages is slow: milliseconds for a large buffer. So freed blocks stay locked and are
 * handed out again. Blocks are never split or merged: each is one range from the device, of the
 * size it was made with.
 *
 *   sizes     the next power of two; above pinned_max_round_threshold_mb, or above
 *             pinned_max_cached_size_mb, exactly what was asked (PyTorch 2.13 on)
 *   reuse     the block freed last among those whose size has the same ceil(log2) and is enough
 *   streams   a block used by work on a stream is reused only after that work: hr_pinned_free()
 *             records an event there, and blocks wait in one queue, oldest first. One that is not
 *             finished holds up all that were freed after it, whatever stream they wait for.
 *   memory    nothing goes back to the machine before hr_pinned_trim(), except blocks larger than
 *             pinned_max_cached_size_mb
 *
 * What it costs: a request of 2^k + 1 bytes locks 2^(k+1) bytes, and keeps them.
 *
 * Everything here is thread-safe unless a comment says otherwise. Pointers are borrowed for the
 * call unless a comment says otherwise. In a child made by fork() every call on a pool of the
 * parent answers HR_ERR_WRONG_PROCESS and touches nothing.
 *
 * Reading order: hr_pinned_pool_create(), hr_pinned_alloc(), hr_pinned_free(),
 * hr_pinned_record_stream(), hr_pinned_pool_get_stats(); then private pools. */
#ifndef HEADROOM_PINNED_H
#define HEADROOM_PINNED_H

#include <stdbool.h>
#include <stddef.h> /* size_t */
#include <stdint.h> /* uint64_t */

#include "headroom/device.h"   /* hr_device, hr_stream */
#include "headroom/headroom.h" /* hr_stat, hr_private_id, hr_scope_filter */
#include "headroom/status.h"   /* hr_status, HR_API, HR_MUST_CHECK */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hr_pinned_pool hr_pinned_pool; /* opaque */

/* ---- a pool and its blocks ------------------------------------------------------------------- */

typedef struct hr_pinned_options {
    size_t struct_size;        /* sizeof(hr_pinned_options) */
    const char *conf;          /* what PYTORCH_CUDA_ALLOC_CONF would hold; NULL = "" */
    const char *torch_version; /* whose rules to follow, "1.6" to "2.15"; NULL = "2.11" */
    bool is_strict;            /* refuse what PyTorch would silently accept in `conf` */
    bool is_unlisted;          /* not in the process's page for others to see (live.h) */
    hr_pinned_budget *budget;  /* that all its memory is drawn from, or NULL; outlives the pool */
} hr_pinned_options;

/* Makes a pool on `device`, which must outlive it. `options` may be NULL. Of `conf` the keys that
 * begin with pinned_ matter here; the others are checked and change nothing:
 *
 *   pinned_use_background_threads    a thread of the pool looks after freed blocks ten thousand
 *                                    times a second, instead of every allocation doing so. It
 *                                    starts with the first block that is made, and ends with the
 *                                    pool.
 *   pinned_max_round_threshold_mb, pinned_max_cached_size_mb    see above
 *   pinned_use_cuda_host_register    blocks are ordinary memory, touched page by page by
 *                                    pinned_num_register_threads threads, and locked afterwards
 *   pinned_reserve_segment_size_mb   the first block that is made brings a range of that size,
 *                                    from which blocks are cut in steps of 4 KiB while it lasts.
 *                                    As in PyTorch, what was cut is never put back: a block of
 *                                    the range that is trimmed leaves a hole until the pool ends.
 *   pinned_free_catch_all            hr_pinned_free() answers HR_OK also where the device failed;
 *                                    hr_last_error() still says why
 *
 * HR_ERR_UNSUPPORTED        the device has no page-locked memory
 * HR_ERR_INVALID_ARGUMENT   NULL, unknown version
 * HR_ERR_BAD_SETTING        `conf`: hr_last_error() holds PyTorch's own text for it, or, with
 *                           is_strict, what is wrong and where
 * HR_ERR_HOST_MEMORY */
HR_API HR_MUST_CHECK hr_status hr_pinned_pool_create(hr_device *device,
                                                     const hr_pinned_options *options,
                                                     hr_pinned_pool **out);

/* Gives everything back to the device, live blocks too, and ends the pool. NULL does nothing. No
 * other call on the pool may be in progress, and no work on the device may use its blocks. Memory
 * that the device will not unlock is left where it is: freeing it could hand pages to others that
 * the device still writes to. */
HR_API void hr_pinned_pool_destroy(hr_pinned_pool *pool);

/* Stores in `*out` the address of at least `size_bytes` of page-locked memory. Zero bytes: NULL and
 * HR_OK. New memory is taken without the pool's lock: other threads are served meanwhile.
 *
 * HR_ERR_TOO_LARGE         2^60 bytes or more
 * HR_ERR_OUT_OF_MEMORY, HR_ERR_HOST_MEMORY, HR_ERR_DEVICE   no cached block fits, and the device
 *                          gave no memory: its own answer. As in PyTorch the cache is not emptied
 *                          and the device not asked again; hr_pinned_trim() and a second call
 *                          often succeed. Also HR_ERR_DEVICE: a look at waiting blocks failed, or a
 *                          block above pinned_max_cached_size_mb could not be given back (it
 *                          stays cached).
 *                          HR_ERR_HOST_MEMORY also where the pool's budget is spent
 * HR_ERR_INVALID_ARGUMENT  `pool` or `out` is NULL
 *
 * On failure `*out` is untouched; freed blocks may have become reusable, or gone back to the
 * device. */
HR_API HR_MUST_CHECK hr_status hr_pinned_alloc(hr_pinned_pool *pool, uint64_t size_bytes,
                                               void **out);

/* The same for a caller whose current stream is `stream` (hr_pinned_alloc(): 0). It does not bind
 * the block to the stream: it says which private pool the request belongs to, and whether it is
 * part of a capture. */
HR_API HR_MUST_CHECK hr_status hr_pinned_alloc_on(hr_pinned_pool *pool, uint64_t size_bytes,
                                                  hr_stream stream, void **out);

/* Gives a block back. Calls the driver only to record events on streams named by
 * hr_pinned_record_stream(), or to give back a block above pinned_max_cached_size_mb; both without
 * the pool's lock. Never needs memory. Freeing NULL does nothing. A block that was allocated during
 * a capture and used on a stream is kept for good, since a graph may use it whenever it is
 * replayed.
 *
 * HR_ERR_UNKNOWN_ADDRESS   not the start of a live block of this pool: a double free, an inner
 *                          pointer, or foreign memory. Nothing changed.
 * HR_ERR_DEVICE            the block is free all the same. An event could not be recorded: it is
 *                          not reused before hr_pinned_trim() has waited for the whole device. Or
 *                          it could not be given back: it stays cached. With pinned_free_catch_all
 *                          both are HR_OK. */
HR_API hr_status hr_pinned_free(hr_pinned_pool *pool, void *address);

/* Says that work queued on `stream` uses the live block that holds `address`, which may point
 * inside it. NULL does nothing.
 *
 * HR_ERR_UNKNOWN_ADDRESS   no live block holds it: ordinary memory, or a block already freed
 * HR_ERR_HOST_MEMORY, HR_ERR_DEVICE   no event could be made for it */
HR_API HR_MUST_CHECK hr_status hr_pinned_record_stream(hr_pinned_pool *pool, void *address,
                                                       hr_stream stream);

/* torch._C._host_emptyCache(): gives every cached block back to the device, those of private pools
 * only where nobody uses the pool any more. Waits for nothing, except after an event could not be
 * recorded: then for the whole device. Stops at the first failure; what was given back by then
 * stays given back, and the rest stays cached. */
HR_API hr_status hr_pinned_trim(hr_pinned_pool *pool);

/* ---- statistics ------------------------------------------------------------------------------ */

/* In microseconds. */
typedef struct hr_duration_stat {
    int64_t total;
    int64_t max;
    int64_t min; /* of the calls that took any time; 0 if none did */
    int64_t count;
    int64_t avg; /* total / count, rounded down; 0 without a call */
} hr_duration_stat;

/* The numbers of torch.cuda.host_memory_stats(), by its names of 2.10 on. */
typedef struct hr_pinned_stats {
    size_t struct_size;      /* caller sets to sizeof(hr_pinned_stats) */
    int64_t num_host_alloc;  /* == allocations.allocated */
    int64_t num_host_free;   /* == allocations.freed */
    hr_stat allocations;     /* blocks held: live, waiting or cached; private pools included */
    hr_stat allocated_bytes; /* of the same */
    hr_stat active_requests; /* blocks live or waiting, of the default pool only */
    hr_stat active_bytes;    /* of the same. The peaks of active_* are sums of the peaks of each
                                power of two: an upper bound, reached only if all came at once */
    hr_duration_stat host_alloc_time; /* in the device, for new memory; the reserve's included */
    hr_duration_stat host_free_time;
} hr_pinned_stats;

/* Fills `*stats`. Fields beyond the caller's struct_size are left alone. */
HR_API HR_MUST_CHECK hr_status hr_pinned_pool_get_stats(const hr_pinned_pool *pool,
                                                        hr_pinned_stats *stats);

/* Peaks become current values; max and min durations become 0. */
HR_API hr_status hr_pinned_pool_reset_peaks(hr_pinned_pool *pool);

/* allocated, freed, and with them num_host_alloc and num_host_free, become 0; so do total and count
 * of the durations. */
HR_API hr_status hr_pinned_pool_reset_accumulated(hr_pinned_pool *pool);

/* Walks everything the pool knows and checks that it fits together. HR_ERR_WRONG_STATE with the
 * first contradiction in hr_last_error(). For tests. */
HR_API HR_MUST_CHECK hr_status hr_pinned_pool_check(hr_pinned_pool *pool);

/* ---- private pools --------------------------------------------------------------------------- */

/* What a CUDA graph was captured with must stay its own: while a capture is routed to private pool
 * `id` (the number of the device's private pool is the natural choice), its blocks come from there
 * and return there. These are hr_private_pool_retain() and its sisters, for pinned memory. */

/* Makes private pool `id`, or adds one to its use count. HR_ERR_INVALID_ARGUMENT for id (0, 0);
 * HR_ERR_WRONG_STATE if it was released and still holds memory; HR_ERR_HOST_MEMORY. */
HR_API HR_MUST_CHECK hr_status hr_pinned_pool_retain(hr_pinned_pool *pool, hr_private_id id);

/* Retains it and routes to it, from now to hr_pinned_pool_end(), every request whose stream
 * `filter` accepts (NULL: every one); where several accept, the one begun first. `filter` is called
 * under the pool's lock. HR_ERR_WRONG_STATE if it is routed to already. */
HR_API HR_MUST_CHECK hr_status hr_pinned_pool_begin(hr_pinned_pool *pool, hr_private_id id,
                                                    hr_scope_filter filter, void *context);
HR_API HR_MUST_CHECK hr_status hr_pinned_pool_end(hr_pinned_pool *pool, hr_private_id id);

/* Takes one from the use count. At zero the next trim gives its cached blocks back, and the private
 * pool ends when it holds none. HR_ERR_WRONG_STATE if it was not retained, or is the last use and
 * still routed to. */
HR_API HR_MUST_CHECK hr_status hr_pinned_pool_release(hr_pinned_pool *pool, hr_private_id id);

#ifdef __cplusplus
}
#endif
#endif /* HEADROOM_PINNED_H */
