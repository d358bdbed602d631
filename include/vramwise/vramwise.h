/* vramwise.h - the allocator.
 *
 * A pool borrows large segments from one device and serves blocks out of them. Freed blocks stay
 * in the pool for reuse; vw_pool_trim() gives idle segments back. Which block serves a request is
 * decided by the pool's engine: "torch" follows PyTorch's caching allocator to the byte; "vramwise"
 * is our own, which keeps hardly more memory than is live.
 *
 * Words: *live* bytes are handed out, *reserved* bytes are held from the device, *idle* bytes are
 * reserved but not live. Blocks tile their segment. A *private pool* is a part of a pool whose
 * segments serve only the requests routed to it (CUDA graphs, torch.cuda.MemPool).
 *
 * A stream that was named in a request must live as long as the pool, or until vw_pool_trim() has
 * given back all of its memory: when memory goes from one stream to another, engine "vramwise"
 * records an event on the first, and a driver crashes if that stream was destroyed.
 *
 * Everything here is thread-safe unless a comment says otherwise. Pointers are borrowed for the
 * call unless a comment says otherwise. In a child made by fork() every call on a pool of the
 * parent answers VW_ERR_WRONG_PROCESS and touches nothing: its memory is the parent's.
 *
 * Reading order: vw_pool_create(), vw_alloc(), vw_free(), vw_record_stream(), vw_pool_get_stats();
 * then out-of-memory reports, walking, events, private pools, pinned host memory. */
#ifndef VRAMWISE_VRAMWISE_H
#define VRAMWISE_VRAMWISE_H

#include <stdbool.h>
#include <stddef.h> /* size_t */
#include <stdint.h> /* uint64_t */

#include "vramwise/device.h"  /* vw_device, vw_device_ptr, vw_stream */
#include "vramwise/status.h"  /* vw_status, VW_API, VW_MUST_CHECK */
#include "vramwise/version.h" /* VW_VERSION_STRING */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vw_pool vw_pool; /* opaque */

/* ---- a pool and its blocks ------------------------------------------------------------------- */

/* A moment in which nobody touches the pool's blocks, so that the engine can copy live data to
 * other pages. The address stays, but nothing is mapped there between the old page and the new one.
 * The engine calls enter() in the thread that asked for memory, without the pool's lock.
 *
 * If enter() returns true, then until leave() no thread may start work that touches blocks of the
 * pool, on any stream, or replay a graph that does. Work that is already queued may run: the engine
 * waits for the device. If it returns false, the engine makes no copy and counts the refusal. */
typedef struct vw_safe_point {
    bool (*enter)(void *context); /* both NULL: live data is never copied */
    void (*leave)(void *context); /* called under the pool's lock: must not call the pool */
    void *context;
} vw_safe_point;

/* One limit for all page-locked host memory: pools that spill and pinned pools (vramwise/pinned.h)
 * draw from the same budget, so that together they cannot lock too much of the machine's memory. */
typedef struct vw_pinned_budget vw_pinned_budget; /* opaque */

/* Live memory has left the device, or has come back; see spill_bytes below. */
typedef struct vw_spill_report {
    bool is_return;         /* true: it came back */
    uint64_t moved_bytes;   /* live bytes, this time */
    uint64_t moved_handles; /* pieces of physical memory they were in */
    uint64_t spilled_bytes; /* live bytes that are in host memory now */
    uint64_t wait_ns;       /* time that the request, or vw_pool_mark_step(), waited for it */
} vw_spill_report;

/* Names of the annotations that stand for these reports in a PyTorch snapshot. They have the fields
 * moved_bytes, moved_handles, spilled_bytes and wait_us. */
#define VW_SPILL_ANNOTATION "vramwise spill"
#define VW_RETURN_ANNOTATION "vramwise return"

/* moved() is called without the pool's lock, in the thread whose call moved the memory. It may use
 * the pool, but not park it, which waits for that call. */
typedef struct vw_spill_listener {
    void *context;
    void (*moved)(void *context, const vw_spill_report *report); /* or NULL */
} vw_spill_listener;

/* Holds launches back while the whole pool is parked (park.h), so that no work touches memory that
 * is not there. hold() is called inside a safe point; from then on until let_go() no work may start
 * on the device, in any thread: who tries waits. False: it cannot be done, and nothing is parked;
 * vw_set_last_error() may say why. Calls nest. Both are called under the pool's lock. is_coming()
 * is called without it, when a safe point or hold() was refused: true if that is about to change,
 * and then vw_pool_park() tries again for about ten seconds. */
typedef struct vw_park_guard {
    bool (*hold)(void *context); /* both NULL: none */
    void (*let_go)(void *context);
    void *context;
    bool (*is_coming)(void *context); /* or NULL: never */
} vw_park_guard;

typedef struct vw_pool_options {
    size_t struct_size;        /* sizeof(vw_pool_options) */
    const char *engine;        /* NULL = "torch"; see below */
    const char *conf;          /* what PYTORCH_CUDA_ALLOC_CONF would hold; NULL = "" */
    const char *torch_version; /* whose rules to follow, "1.6" to "2.15"; NULL = "2.11" */
    bool is_strict;            /* refuse what PyTorch would silently accept in `conf` */

    /* Called without the pool's lock when no cached block fits, before the device is asked for
     * more. It may free blocks of this pool. Returns whether the pool should look again. Or NULL.
     */
    bool (*reclaim)(void *reclaim_context);
    void *reclaim_context;

    /* ---- engine "vramwise" only ---- */
    vw_safe_point safe_point;  /* to copy live data, for spill_bytes, and to park (park.h) */
    double idle_share;         /* share of the peak of live bytes that may be idle; 0 = 0.016 */
    uint64_t idle_floor_bytes; /* bytes that may be idle in any case; 0 = 16 MiB */

    /* The pool's virtual memory can be shared with other processes (vw_pool_share()). With engine
     * "torch" this holds for expandable segments. */
    bool is_shareable;

    /* The process's page (live.h) does not show this pool. */
    bool is_unlisted;

    /* ---- engine "vramwise" only: when what is live does not fit ---- */

    /* Page-locked host memory to use rather than run out of memory; 0 = none. Live blocks go there
     * in a safe point, with their data and at the same address, and the device reaches them over
     * the bus. Cold blocks come back at vw_pool_mark_step(), once there has been room for some
     * steps. Hot blocks and those of the current step come back with a request, as soon as frees
     * have made room. vw_advise() says which is which. Blocks that are pinned, shared or used by a
     * graph never leave. */
    uint64_t spill_bytes;
    uint64_t spill_ahead_bytes;       /* part of it that a thread prepares once memory gets short */
    vw_pinned_budget *pinned_budget;  /* also drawn from, or NULL; must outlive the pool */
    vw_spill_listener spill_listener; /* copied */

    /* ---- engine "vramwise" only: safe points ---- */

    /* Called once the pool would hold seven eighths of what it can have: safe_point.enter() may be
     * called soon. From then on with each request that finds no free block. In the thread that
     * asked for memory, without the pool's lock, with the safe point's context. Or NULL. */
    void (*prepare_safe_point)(void *context);

    /* ---- engine "vramwise" only: room for others on the device ---- */

    /* Device memory that other libraries and processes can count on: "2GiB", "1000000", or "5%" of
     * the device. NULL, "" or 0 = none. A thread asks the device for its free memory, and where it
     * is less than that gives idle memory back, the longest idle first, without waiting for the
     * device. A request that finds less free uses idle memory before it takes more; live memory
     * still has precedence. Streams must live as long as the pool. Read during the call. */
    const char *keep_free;

    vw_park_guard park_guard; /* engine "vramwise" only: for vw_pool_park() */

    /* Engine "vramwise" only. Called without the pool's lock when everything else was tried, before
     * live memory leaves the device or the request fails; never while requests are routed to a
     * private pool, since a stream may be capturing. It may free blocks of this pool. Returns
     * whether the pool should look again. Or NULL. */
    bool (*make_room)(void *make_room_context, uint64_t size_bytes);
    void *make_room_context;
} vw_pool_options;

/* Makes a pool on `device`, which must outlive it. `options` may be NULL. On a device without
 * virtual memory all segments are plain: expandable_segments has no effect, and engine "vramwise"
 * works as "torch" does (vw_paged_stats.is_fallback is true).
 *
 * Engines:
 *   "torch"             PyTorch's rules
 *   "vramwise"          moves free pages; with a safe_point and without spill_bytes it also copies
 *                       live data rather than run out of memory
 *   "vramwise:rescue"   copies live data rather than run out of memory; with spill_bytes, too
 *   "vramwise:tight"    copies live data rather than hold more than its idle share
 * The "vramwise" engines heed per_process_memory_fraction in `conf`, and accept everything else
 * that PyTorch accepts.
 *
 * VW_ERR_INVALID_ARGUMENT   unknown engine, mode or version; a backend other than "native"; an
 *                           idle_share outside [0, 1]; a safe point with only one function;
 *                           spill_bytes with engine "torch", or less than spill_ahead_bytes, or
 *                           more than is free on this machine, than the control group allows, or
 *                           than `ulimit -l` where it applies: the message has the three numbers;
 *                           keep_free with engine "torch", or neither a size nor a share, or more
 *                           than the device has
 * VW_ERR_UNSUPPORTED        is_shareable on a device without has_shareable_handles, spill_bytes on
 *                           one without has_host_handles, keep_free on one without virtual memory
 * VW_ERR_BAD_SETTING        `conf`: vw_last_error() holds PyTorch's own text for it, or, with
 *                           is_strict, what is wrong and where */
VW_API VW_MUST_CHECK vw_status vw_pool_create(vw_device *device, const vw_pool_options *options,
                                              vw_pool **out);

/* Gives everything back to the device, live blocks too, and ends the pool. NULL does nothing. No
 * other call on the pool may be in progress. Only what the device refuses to take back stays with
 * it: now, or when a handle was released before, which is asked once. */
VW_API void vw_pool_destroy(vw_pool *pool);

/* Allocates `size_bytes` for work queued on `stream` and stores the address in `*out`. A request
 * for zero bytes succeeds and stores VW_NULL.
 *
 * VW_ERR_OUT_OF_MEMORY     neither the pool nor the device has room; vw_last_error() holds
 *                          PyTorch's text, vw_last_out_of_memory() the numbers
 * VW_ERR_REJECTED          refused by throw_on_cudamalloc_oom
 * VW_ERR_TOO_LARGE         2^60 bytes or more: no device could ever serve this size
 * VW_ERR_DEVICE            the driver failed otherwise; vw_last_error() holds its code and text
 * VW_ERR_HOST_MEMORY       no host memory for the pool's own records
 * VW_ERR_PARKED            the pool, or the region asked for, is parked (park.h)
 * VW_ERR_INVALID_ARGUMENT  `pool` or `out` is NULL
 *
 * On failure `*out` is untouched and the pool serves as it did before the call, except that idle
 * segments may have been returned to the device, and an expandable segment may have grown. */
VW_API VW_MUST_CHECK vw_status vw_alloc(vw_pool *pool, uint64_t size_bytes, vw_stream stream,
                                        vw_device_ptr *out);

/* The long form. */
typedef struct vw_alloc_request {
    size_t struct_size; /* sizeof(vw_alloc_request) */
    uint64_t size_bytes;
    vw_stream stream;
    uint64_t tag;           /* kept with the block, shown to listeners and walkers; 0 = none */
    vw_device_ptr at;       /* not 0: exactly this address, out of a free block, or fail */
    uint64_t *served_bytes; /* not NULL: receives the size of the block */
    bool is_optional; /* engine vramwise serves it only out of memory that is free: it waits for
                       * nobody, asks nobody, and its failure is neither counted nor reported */
} vw_alloc_request;

/* As vw_alloc(). With `at`, VW_ERR_INVALID_ARGUMENT if it is not a multiple of 512, and
 * VW_ERR_OUT_OF_MEMORY if no free block of that stream holds the range; the device is not asked. */
VW_API VW_MUST_CHECK vw_status vw_alloc_with(vw_pool *pool, const vw_alloc_request *request,
                                             vw_device_ptr *out);

/* Gives a block back. Calls the driver only to record events for streams named by
 * vw_record_stream(), without the pool's lock, and never needs memory, so it cannot fail for lack
 * of it. Freeing VW_NULL does nothing.
 *
 * VW_ERR_UNKNOWN_ADDRESS   not the start of a live block of this pool: a double free, an inner
 *                          pointer, or another pool's block. Nothing changed.
 * any other                the device's word for an event that could not be recorded, which is
 *                          VW_ERR_DEVICE, or VW_ERR_HOST_MEMORY of a device that takes host memory
 *                          for it. The block is free; the pool reuses it only after it has waited
 *                          for the whole device. Freeing it again is a double free. */
VW_API vw_status vw_free(vw_pool *pool, vw_device_ptr address);

/* Tells the pool that work queued on `stream` uses the block at `address`, which was allocated for
 * another stream: once freed, the block is reused only after that work is done. Naming the block's
 * own stream does nothing.
 *
 * VW_ERR_UNKNOWN_ADDRESS, VW_ERR_HOST_MEMORY, VW_ERR_DEVICE (no event could be created) */
VW_API VW_MUST_CHECK vw_status vw_record_stream(vw_pool *pool, vw_device_ptr address,
                                                vw_stream stream);

/* Takes vw_record_stream() back: that work is done, or the block's own stream waits for it. Uses
 * that are part of a captured graph stay. VW_ERR_UNKNOWN_ADDRESS */
VW_API vw_status vw_unrecord_stream(vw_pool *pool, vw_device_ptr address, vw_stream stream);

/* Tells the pool that others can see the block at `address`: an IPC peer, a network card, a graph
 * made elsewhere. Its pages stay mapped where they are until vw_pool_unpin(), even after the block
 * was freed; they still serve requests then. Calls nest.
 *
 * Engine "torch" never moves memory and keeps no list of pins: vw_pool_pin() only checks that the
 * block is live, vw_pool_unpin() accepts any address, and a pinned segment can be given back.
 *
 * VW_ERR_UNKNOWN_ADDRESS   not the start of a live block; to unpin: not pinned
 * VW_ERR_HOST_MEMORY */
VW_API VW_MUST_CHECK vw_status vw_pool_pin(vw_pool *pool, vw_device_ptr address);
VW_API VW_MUST_CHECK vw_status vw_pool_unpin(vw_pool *pool, vw_device_ptr address);

/* Says how often a block is touched. With spill_bytes, cold blocks leave the device first and come
 * back last. Once any block was advised, only cold ones stay away until vw_pool_mark_step(); the
 * others leave later and come back within the step. The advice holds until the block is freed. An
 * engine that does not spill ignores it and returns VW_OK.
 *
 * VW_ERR_UNKNOWN_ADDRESS    not the start of a live block
 * VW_ERR_INVALID_ARGUMENT   not a vw_advice */
typedef enum vw_advice {
    VW_ADVISE_NORMAL, /* unknown: age decides. If no block was ever advised, blocks that outlived
                       * two steps leave first, and stay away as if they were cold */
    VW_ADVISE_COLD,   /* seldom touched, such as an optimizer's state, once a step */
    VW_ADVISE_HOT,    /* always in use: leaves only if the pool would run out of memory */
} vw_advice;
VW_API VW_MUST_CHECK vw_status vw_advise(vw_pool *pool, vw_device_ptr address, vw_advice advice);

/* Ends a step of the program: in training, after the optimizer's step. The pool learns which blocks
 * outlive steps. Spilled memory may come back, in a safe point, if nothing left for four steps and
 * there is room; the call may then wait for the device. In a program that never calls it, cold
 * blocks stay on the host until they are freed. Without spill_bytes it does nothing.
 *
 * VW_ERR_DEVICE, VW_ERR_HOST_MEMORY: some memory could not come back, and stays on the host */
VW_API VW_MUST_CHECK vw_status vw_pool_mark_step(vw_pool *pool);

/* Schedules state that a step uses once, such as an optimizer's: how much leaves the device after
 * the step, and how much of it may be back when. The next step is expected to be like the last.
 *
 * `live_bytes[i]` is what was live at the i-th mark of the last step, counting state that was away
 * as if it had been on the device. `limit_bytes` is what the device can hold, `state_bytes` how
 * much can leave. Returns the bytes that have to leave: 0 if everything fits. `back_bytes[i]`
 * receives how many of them may be on the device, or on their way to it, from mark i on: then
 * everything that follows still fits. It never falls from one mark to the next. `back_bytes` may be
 * `live_bytes`. A pure function. */
VW_API uint64_t vw_schedule_stream(const uint64_t *live_bytes, size_t mark_count,
                                   uint64_t limit_bytes, uint64_t state_bytes,
                                   uint64_t *back_bytes);

/* How much of that is better not brought back at all, but used on the host by the optimizer: what
 * the computation hides no copies of. vw_schedule_stay_bytes(): of `leave_bytes`, if the step hides
 * copies of `hidden_bytes` each way; then no more than the rest may be back at any mark.
 * vw_schedule_hidden_bytes(): how many those are, by a step that took `step_ns`, in which
 * `turned_bytes` left and returned and `stayed_bytes` were used on the host, where the copy of a
 * GiB takes `gib_ns` (0: not known, UINT64_MAX). Pure functions. */
VW_API uint64_t vw_schedule_stay_bytes(const uint64_t *live_bytes, size_t mark_count,
                                       uint64_t limit_bytes, uint64_t leave_bytes,
                                       uint64_t hidden_bytes);
VW_API uint64_t vw_schedule_hidden_bytes(uint64_t step_ns, uint64_t turned_bytes,
                                         uint64_t stayed_bytes, uint64_t gib_ns);

/* How early that is. Memory that is given up in pieces, at the last moment, has to be put together
 * for every large request; what left earlier is filled in order.
 *
 * vw_schedule_need_mark(): the first mark that does not fit while nothing is away; `mark_count` if
 * all do. vw_schedule_left_bytes(): how many of `leave_bytes` shall have left at a mark: in four
 * parts, evenly up to that one. vw_schedule_left_mark(): when something that could leave from
 * `from_mark` on shall have done so. vw_schedule_room_bytes(): how much of the device what returns
 * may fill: some is kept for requests, which come in all sizes. Pure functions. */
VW_API size_t vw_schedule_need_mark(const uint64_t *live_bytes, size_t mark_count,
                                    uint64_t limit_bytes);
VW_API uint64_t vw_schedule_left_bytes(uint64_t leave_bytes, size_t need_mark, size_t mark);
VW_API size_t vw_schedule_left_mark(size_t need_mark, size_t from_mark);
VW_API uint64_t vw_schedule_room_bytes(uint64_t limit_bytes);

/* Something that a step makes, keeps and uses again, such as an activation: it may be away from the
 * device in between. Marks are those of vw_schedule_stream(). */
typedef struct vw_saved_item {
    uint64_t size_bytes;
    uint32_t from_mark;  /* from here on it need not be on the device */
    uint32_t until_mark; /* here it is used again; up to from_mark: it cannot leave */
    uint32_t back_mark;  /* set: from here on it may be on its way back */
    bool leaves;         /* set */
} vw_saved_item;

/* Schedules such items: which leave the device, and when they may return. `live_bytes[i]` is what
 * the last step had at mark i, counting all that was away, and `away_bytes[i]` what of the state
 * will be away then (NULL: nothing). As few bytes leave as the marks lack, first those that are
 * used last. Returns the most bytes that a mark lacks while all items are there: 0 if everything
 * fits. `scratch` has room for `mark_count` numbers. A pure function. */
VW_API uint64_t vw_schedule_saved(const uint64_t *live_bytes, const uint64_t *away_bytes,
                                  size_t mark_count, uint64_t limit_bytes, vw_saved_item *items,
                                  size_t item_count, uint64_t *scratch);

/* One physical piece of a block's memory, for another process. */
typedef struct vw_shared_part {
    uint64_t size_bytes;
    int file_descriptor; /* the caller closes it */
} vw_shared_part;

/* Shares the live block at `address` with another process: pins it, as vw_pool_pin(), and stores a
 * file descriptor for each piece of memory under it, by rising address. The block begins
 * `*offset_bytes` into the first piece. The first and the last piece may hold parts of other
 * blocks, which the other process can then see as well. `*count` receives the number of pieces; if
 * it is more than `capacity`, the call returns VW_ERR_INVALID_ARGUMENT and shares nothing (to ask
 * for the number, pass capacity 0; `parts` may then be NULL). To undo it, close the descriptors and
 * call vw_pool_unpin(). The other process maps them with vw_shared_open().
 *
 * VW_ERR_UNSUPPORTED       the pool was not made with is_shareable; or the block lies in plain
 *                          memory (whose owner, the CUDA runtime, shares it), or was spilled
 * VW_ERR_UNKNOWN_ADDRESS   not the start of a live block
 * VW_ERR_DEVICE            the driver refused to export it: nothing is shared; `parts` may have
 *                          been written to
 * VW_ERR_HOST_MEMORY */
VW_API VW_MUST_CHECK vw_status vw_pool_share(vw_pool *pool, vw_device_ptr address,
                                             vw_shared_part *parts, size_t capacity, size_t *count,
                                             uint64_t *offset_bytes);

/* In the other process: maps the parts one after another at a fresh address of `device`, which must
 * be the device that owns the memory, with access. The caller may close the descriptors afterwards.
 * The memory lives as long as it is mapped, even if its owner gives it back.
 *
 * VW_ERR_UNSUPPORTED (the device cannot), VW_ERR_INVALID_ARGUMENT (no parts, or one of no size),
 * VW_ERR_OUT_OF_MEMORY (addresses), VW_ERR_DEVICE, VW_ERR_HOST_MEMORY, VW_ERR_WRONG_PROCESS (in a
 * child made by fork(), where the parent has opened some): nothing is mapped. */
VW_API VW_MUST_CHECK vw_status vw_shared_open(vw_device *device, const vw_shared_part *parts,
                                              size_t count, vw_device_ptr *out);
/* Unmaps what vw_shared_open() mapped; no queued work may use it any more.
 * VW_ERR_UNKNOWN_ADDRESS (not opened on that device, or closed already), VW_ERR_WRONG_PROCESS,
 * VW_ERR_DEVICE: it may be tried again. */
VW_API vw_status vw_shared_close(vw_device *device, vw_device_ptr address);

/* Makes a dma-buf of a range of addresses, for drivers of other devices (network cards, storage),
 * and pins the live block that `address` lies in, as vw_pool_pin() on the block's own address. The
 * range is whole pages of the host. It may reach beyond the block, and must lie in one piece of
 * physical memory: use a private pool with one_handle, or engine "torch" with plain segments. To
 * undo it, close the descriptor and call vw_pool_unpin() for the block.
 *
 * VW_ERR_UNSUPPORTED        the device makes no dma-buf; or the range lies in several pieces, which
 *                           the message counts, or was spilled
 * VW_ERR_INVALID_ARGUMENT   not whole pages, or beyond the memory of the block's segment
 * VW_ERR_UNKNOWN_ADDRESS    no live block holds `address`
 * VW_ERR_DEVICE             the driver or the kernel refused
 * VW_ERR_HOST_MEMORY */
VW_API VW_MUST_CHECK vw_status vw_pool_export_dma_buf(vw_pool *pool, vw_device_ptr address,
                                                      uint64_t size_bytes, int *file_descriptor);

/* Lets the GPU with that index read and write this pool's memory directly: what is mapped now, and
 * what any pool of the device maps later. Plain memory does not need it (the CUDA runtime has its
 * own switch for that). For the pool's own device it does nothing and returns VW_OK.
 *
 * VW_ERR_UNSUPPORTED        the device has no peers, or that one cannot reach its memory
 * VW_ERR_INVALID_ARGUMENT   there is no such device
 * VW_ERR_DEVICE             only part of the memory could be opened, and later mappings are not;
 *                           may be tried again */
VW_API VW_MUST_CHECK vw_status vw_pool_allow_peer(vw_pool *pool, int peer_index);

/* torch.cuda.empty_cache(): waits for freed blocks that are still in use on other streams, then
 * gives every idle segment (and every idle page of an expandable one) back to the device. Stops at
 * the first driver error; what was given back by then stays given back.
 *
 * Engine "vramwise" keeps memory in a program that calls this in a loop and takes the memory again
 * each time, as long as the device has some to spare; it counts as reserved (kept_trims in
 * vw_paged_stats). Two calls without a request between them give everything back. With keep_free
 * a call gives a part back, and the pool's thread the rest, soon. */
VW_API vw_status vw_pool_trim(vw_pool *pool);

/* set_per_process_memory_fraction(): reserves at most that part of the device's total from now
 * on. Gives nothing back. VW_ERR_INVALID_ARGUMENT outside [0, 1]. */
VW_API VW_MUST_CHECK vw_status vw_pool_set_fraction(vw_pool *pool, double fraction);
VW_API double vw_pool_get_fraction(const vw_pool *pool); /* 1.0 until set */

/* Reads a new option string while the pool runs, with PyTorch's rules for what it resets. A
 * string that is refused changes nothing. */
VW_API VW_MUST_CHECK vw_status vw_pool_configure(vw_pool *pool, const char *conf);

/* Calls `visit` with each setting in force, by the keys and in the order of `allocator_settings` in
 * PyTorch's snapshots; values as Python prints them ("True", "-1", "0.6"). The first is
 * PYTORCH_CUDA_ALLOC_CONF, the last option string read. Without the pool's lock: `visit` may use
 * the pool. Texts are valid during the call. VW_ERR_HOST_MEMORY. */
typedef void (*vw_conf_visitor)(void *context, const char *key, const char *value);
VW_API VW_MUST_CHECK vw_status vw_pool_walk_conf(const vw_pool *pool, vw_conf_visitor visit,
                                                 void *context);

typedef struct vw_private_id {
    uint64_t first; /* (0, 0) is the default pool */
    uint64_t second;
} vw_private_id;

/* Where an address lies: its live block, and the segment around that (what PyTorch calls the base
 * allocation). */
typedef struct vw_block_place {
    vw_device_ptr block_address;
    uint64_t block_bytes;
    uint64_t requested_bytes;
    vw_stream stream;
    uint64_t tag;
    vw_device_ptr segment_address; /* the segment, or the mapped range of an expandable one */
    uint64_t segment_bytes;
    bool is_expandable;
    vw_private_id private_id;
} vw_block_place;

/* `address` may point inside a block. VW_ERR_UNKNOWN_ADDRESS if no live block holds it. */
VW_API VW_MUST_CHECK vw_status vw_pool_find(vw_pool *pool, vw_device_ptr address,
                                            vw_block_place *out);

/* ---- statistics ------------------------------------------------------------------------------ */

/* At any instant current == allocated - freed since the last vw_pool_reset_accumulated(), plus
 * what was current then. */
typedef struct vw_stat {
    int64_t current;
    int64_t peak; /* since creation, or the last vw_pool_reset_peaks() */
    int64_t allocated;
    int64_t freed;
} vw_stat;

typedef struct vw_stat_group {
    vw_stat all;
    vw_stat small_pool;
    vw_stat large_pool;
} vw_stat_group;

/* The groups of torch.cuda.memory_stats(), by its names. */
#define VW_STAT_GROUP_LIST(X)                                                                      \
    X(active) /* blocks live or waiting for other streams */                                       \
    X(active_bytes)                                                                                \
    X(allocated_bytes) /* live blocks, after rounding */                                           \
    X(allocation)      /* live blocks */                                                           \
    X(inactive_split)  /* free blocks that share their segment */                                  \
    X(inactive_split_bytes)                                                                        \
    X(requested_bytes) /* live blocks, as callers asked for them */                                \
    X(reserved_bytes)  /* held from the device */                                                  \
    X(segment)         /* segments held; expandable ones are not counted */

typedef struct vw_pool_stats {
    size_t struct_size; /* caller sets to sizeof(vw_pool_stats) */
#define VW__STAT_GROUP_FIELD(name) vw_stat_group name;
    VW_STAT_GROUP_LIST(VW__STAT_GROUP_FIELD)
#undef VW__STAT_GROUP_FIELD
    vw_stat oversize_allocations;
    vw_stat oversize_segments;
    int64_t max_split_size; /* -1 = unlimited; as it was when the pool was made */
    int64_t num_alloc_retries;
    int64_t num_device_alloc;
    int64_t num_device_free;
    int64_t num_oom_rejections;
    int64_t num_ooms;
    int64_t num_sync_all_streams;
    uint64_t largest_free_block_bytes; /* what could be served without the device, any stream */
    uint64_t limit_bytes;              /* by the memory fraction; UINT64_MAX = none */
} vw_pool_stats;

/* Fills `*stats`. Fields beyond the caller's struct_size are left alone, so a program built
 * against an older header keeps working. */
VW_API VW_MUST_CHECK vw_status vw_pool_get_stats(const vw_pool *pool, vw_pool_stats *stats);

/* Calls `visit` with every key of torch.cuda.memory_stats() that the pool's PyTorch version has,
 * in sorted order. Without the pool's lock: `visit` may use the pool. VW_ERR_HOST_MEMORY. */
typedef void (*vw_stat_visitor)(void *context, const char *key, int64_t value);
VW_API VW_MUST_CHECK vw_status vw_pool_walk_stats(const vw_pool *pool, vw_stat_visitor visit,
                                                  void *context);

/* What engine "vramwise" did; counts are since the pool was made. */
typedef struct vw_paged_stats {
    size_t struct_size;     /* caller sets to sizeof(vw_paged_stats) */
    bool is_fallback;       /* the device has no virtual memory: plain segments serve */
    bool is_failed;         /* a change could be neither made nor undone: every call says why */
    uint64_t handle_count;  /* physical handles held now */
    uint64_t misses;        /* requests that no free block served */
    uint64_t moved_handles; /* free memory that changed its address, or its stream */
    uint64_t moved_bytes;
    uint64_t crossed_handles; /* of those, to another stream, ordered by an event */
    uint64_t retiring_bytes;  /* still mapped at an old address as well, now; addresses only */
    uint64_t copied_bytes;    /* live data copied to other pages */
    uint64_t copies;          /* times the engine waited for the device to do so */
    uint64_t refused_copies;  /* times a safe point was refused, or there was none */
    uint64_t shared_pages;    /* physical pages seen at several addresses now */

    /* Live memory that left the device (vw_pool_options.spill_bytes). It still counts as live and
     * as reserved. */
    uint64_t spilled_bytes;         /* live bytes in host memory now */
    uint64_t peak_spilled_bytes;    /* highest value so far */
    uint64_t spills;                /* times memory left the device */
    uint64_t all_spilled_bytes;     /* sum over all times */
    uint64_t returns;               /* times memory came back */
    uint64_t returned_bytes;        /* sum over all times */
    uint64_t spill_wait_ns;         /* waiting for the device, copying and mapping, both ways */
    uint64_t host_handle_bytes;     /* page-locked host memory held now, in use or ready */
    uint64_t refused_spills;        /* times a safe point for a spill was refused */
    uint64_t failed_host_creations; /* failed allocations of page-locked host memory */

    uint64_t given_back_bytes; /* idle memory given back for vw_pool_options.keep_free */
    uint64_t kept_trims;       /* calls of vw_pool_trim() that kept memory for the next requests */

    /* Memory that was parked (park.h). It still counts as live, but not as reserved. */
    uint64_t parked_bytes;    /* device memory that a wake takes again, now */
    uint64_t parks;           /* times memory was parked */
    uint64_t wakes;           /* times it came back */
    uint64_t park_host_bytes; /* page-locked host memory kept for parking, in use or ready */
} vw_paged_stats;

/* Fills `*stats`, with struct_size as in vw_pool_get_stats(). VW_ERR_UNSUPPORTED with engine
 * "torch". */
VW_API VW_MUST_CHECK vw_status vw_pool_get_paged_stats(const vw_pool *pool, vw_paged_stats *stats);

VW_API vw_status vw_pool_reset_peaks(vw_pool *pool);
VW_API vw_status vw_pool_reset_accumulated(vw_pool *pool);

/* Writes torch.cuda.memory_summary()'s text, character for character, and a terminating zero.
 * At most `capacity` bytes are written; `*needed` (may be NULL) gets the whole length, the zero
 * included. VW_ERR_INVALID_ARGUMENT if it does not fit: the text is then cut. */
VW_API VW_MUST_CHECK vw_status vw_pool_summary(const vw_pool *pool, bool is_abbreviated,
                                               char *buffer, size_t capacity, size_t *needed);

/* ---- a budget for page-locked host memory ---------------------------------------------------- */

/* VW_ERR_INVALID_ARGUMENT (NULL, 0 bytes), VW_ERR_HOST_MEMORY. */
VW_API VW_MUST_CHECK vw_status vw_pinned_budget_create(uint64_t limit_bytes,
                                                       vw_pinned_budget **out);
/* Pools that draw from it must be gone. NULL does nothing. */
VW_API void vw_pinned_budget_destroy(vw_pinned_budget *budget);

typedef struct vw_pinned_budget_stats {
    size_t struct_size; /* caller sets to sizeof(vw_pinned_budget_stats) */
    uint64_t limit_bytes;
    uint64_t used_bytes;
    uint64_t peak_bytes;
    uint64_t refusals; /* requests for more than was left */
} vw_pinned_budget_stats;
VW_API VW_MUST_CHECK vw_status vw_pinned_budget_get(const vw_pinned_budget *budget,
                                                    vw_pinned_budget_stats *stats);

/* ---- when it runs out ------------------------------------------------------------------------ */

/* The numbers behind the last VW_ERR_OUT_OF_MEMORY or VW_ERR_REJECTED of this thread. */
typedef struct vw_oom_report {
    size_t struct_size;       /* caller sets to sizeof(vw_oom_report) */
    int device;               /* properties.index */
    vw_stream stream;         /* of the request */
    uint64_t requested_bytes; /* as the caller asked */
    uint64_t rounded_bytes;   /* the block that was looked for */
    uint64_t segment_bytes;   /* what the device was asked for: PyTorch's "tried to allocate" */
    uint64_t total_bytes;     /* of the device */
    uint64_t free_bytes;      /* on the device, at that moment */
    uint64_t limit_bytes;     /* by the memory fraction; UINT64_MAX = none */
    uint64_t allocated_bytes; /* live */
    uint64_t reserved_bytes;
    uint64_t private_idle_bytes;        /* idle inside private pools */
    uint64_t largest_free_block_bytes;  /* idle in one piece, any stream */
    uint64_t largest_same_stream_bytes; /* idle in one piece, for this stream */
    uint64_t process_bytes;         /* used by this process, all libraries; UINT64_MAX = unknown */
    uint64_t other_processes_bytes; /* UINT64_MAX = unknown */
    bool is_rejection;              /* VW_ERR_REJECTED */
    bool is_expandable;             /* expandable segments were on */
} vw_oom_report;

/* VW_ERR_WRONG_STATE if no allocation of this thread has run out of memory yet. */
VW_API VW_MUST_CHECK vw_status vw_last_out_of_memory(vw_oom_report *report);

/* ---- walking --------------------------------------------------------------------------------- */

typedef enum vw_block_state {
    VW_BLOCK_LIVE,         /* PyTorch: active_allocated */
    VW_BLOCK_PENDING_FREE, /* freed, but another stream may still use it: active_pending_free */
    VW_BLOCK_FREE,         /* inactive */
} vw_block_state;

/* A segment; for an expandable one, each mapped range is reported as one. */
typedef struct vw_segment_info {
    vw_device_ptr address;
    uint64_t total_bytes;
    uint64_t allocated_bytes; /* live blocks */
    uint64_t active_bytes;    /* live or pending */
    uint64_t requested_bytes; /* of live and pending blocks */
    vw_stream stream;
    vw_private_id private_id;
    uint64_t tag; /* of the request that made it, as long as PyTorch would know it; else 0 */
    size_t block_count;
    bool is_large;
    bool is_expandable;
    uint32_t number; /* in order of creation, from 0; the mapped ranges of one share it */
} vw_segment_info;

typedef struct vw_block_info {
    vw_device_ptr address;
    uint64_t size_bytes;
    uint64_t requested_bytes; /* for a free block: the last request, as in PyTorch */
    uint64_t tag;             /* 0 for a free block */
    vw_block_state state;
} vw_block_info;

/* What to call for each segment, and after it for each of its blocks; either may be NULL. Under
 * the pool's lock: must not call the pool. Returning false ends the walk. */
typedef struct vw_walker {
    void *context;
    bool (*segment)(void *context, const vw_segment_info *segment);
    bool (*block)(void *context, const vw_segment_info *segment, const vw_block_info *block);
} vw_walker;

/* Visits segments, and the blocks of each, by rising address. If `is_snapshot`, the event sink then
 * gets VW_ACTION_SNAPSHOT. */
VW_API VW_MUST_CHECK vw_status vw_pool_walk(vw_pool *pool, const vw_walker *walker,
                                            bool is_snapshot);

/* Walks everything the pool knows and checks that it fits together. VW_ERR_WRONG_STATE with the
 * first contradiction in vw_last_error(). For tests: takes time in proportion to the pool. */
VW_API VW_MUST_CHECK vw_status vw_pool_check(vw_pool *pool);

/* ---- the event sink -------------------------------------------------------------------------- */

/* By PyTorch's names and meanings (torch.cuda.memory._snapshot()). */
#define VW_ACTION_LIST(X)                                                                          \
    X(ALLOC, alloc)                   /* a block was handed out; size as requested */              \
    X(FREE_REQUESTED, free_requested) /* the caller gave it back; size as requested */             \
    X(FREE_COMPLETED, free_completed) /* it can be reused */                                       \
    X(SEGMENT_ALLOC, segment_alloc)                                                                \
    X(SEGMENT_FREE, segment_free)                                                                  \
    X(SEGMENT_MAP, segment_map)                                                                    \
    X(SEGMENT_UNMAP, segment_unmap)                                                                \
    X(SNAPSHOT, snapshot) /* size: active bytes */                                                 \
    X(OOM, oom)           /* size: the rounded request; address: the device's free bytes */

typedef enum vw_action {
#define VW__ACTION_ENUM(upper, lower) VW_ACTION_##upper,
    VW_ACTION_LIST(VW__ACTION_ENUM)
#undef VW__ACTION_ENUM
} vw_action;

typedef struct vw_memory_event {
    vw_action action;
    vw_device_ptr address;
    uint64_t size_bytes;
    vw_stream stream;
    vw_private_id private_id;
    uint64_t tag;       /* of the request served, or of the block given back; 0 = none */
    uint64_t request;   /* number of the request that caused it: 1, 2 ...; 0 = no request */
    const void *caller; /* return address of the call into the library; NULL = unknown */
} vw_memory_event;

/* A listener. `notice` is called under the pool's lock, in the order of events, and must not call
 * the pool. It runs on the allocation path; without a sink that path has a branch or two more.
 *
 * Requests are numbered while there is a listener. Every event that a request causes carries its
 * number: memory given back to make room, memory taken, and last the block handed out or
 * VW_ACTION_OOM. Other requests may come in between where the pool drops its lock (the reclaim
 * callback, release_lock_on_cudamalloc). A request that was in progress when the first listener
 * came has no number. */
typedef struct vw_event_sink {
    void *context;
    void (*notice)(void *context, const vw_memory_event *event);
} vw_event_sink;

/* Replaces the listener; NULL takes it away. The struct is copied. */
VW_API vw_status vw_pool_set_sink(vw_pool *pool, const vw_event_sink *sink);

/* ---- private pools --------------------------------------------------------------------------- */

typedef struct vw_private_options {
    size_t struct_size; /* sizeof(vw_private_options) */
    bool use_on_oom;    /* also serves default requests that would run out of memory, unless it is
                         * a region that keeps no data (park.h) */
    bool no_split;      /* hands out whole blocks */

    /* Where its segments come from; NULL = the device. take() returns VW_NULL if it has no room.
     * Both run under the pool's lock and must not call the pool. VW_ERR_UNSUPPORTED with engine
     * "vramwise". */
    vw_device_ptr (*take)(void *source_context, uint64_t size_bytes, int device, vw_stream stream);
    void (*give_back)(void *source_context, vw_device_ptr address, uint64_t size_bytes, int device,
                      vw_stream stream);
    void *source_context;

    /* Each segment is one piece of physical memory, with addresses of its own: NCCL, UCX and RDMA
     * drivers can register it, and a dma-buf can be made of it. It stays where it is until it is
     * given back. Listeners see VW_ACTION_SEGMENT_ALLOC and, before the memory goes,
     * VW_ACTION_SEGMENT_FREE. Segments have the sizes that PyTorch gives them: 2 MiB, 20 MiB, or a
     * multiple of 2 MiB. Engine "torch" makes plain segments, also with expandable_segments. */
    bool one_handle;
} vw_private_options;

/* Makes private pool `id`, or adds one to its use count. `options` (may be NULL) count only when
 * it is made. VW_ERR_INVALID_ARGUMENT for id (0, 0). */
VW_API VW_MUST_CHECK vw_status vw_private_pool_retain(vw_pool *pool, vw_private_id id,
                                                      const vw_private_options *options);

/* Whether a request on `stream`, made by the calling thread, belongs to the scope. Called under
 * the pool's lock: must not call the pool. */
typedef bool (*vw_scope_filter)(void *context, vw_stream stream);

/* Retains the pool and routes to it, from now to vw_private_pool_end(), every request that `filter`
 * accepts (NULL: every one). A graph has to be captured inside a scope of the pool: without one
 * nobody looks whether a stream is captured. VW_ERR_WRONG_STATE if it is routed to already. */
VW_API VW_MUST_CHECK vw_status vw_private_pool_begin(vw_pool *pool, vw_private_id id,
                                                     vw_scope_filter filter, void *context);
VW_API VW_MUST_CHECK vw_status vw_private_pool_end(vw_pool *pool, vw_private_id id);

/* Takes one from the use count. At zero its idle memory may be given back by the next trim, and
 * the pool ends when it holds none. VW_ERR_WRONG_STATE if it was not retained, or if it is routed
 * to and this would be its last use. */
VW_API VW_MUST_CHECK vw_status vw_private_pool_release(vw_pool *pool, vw_private_id id);

/* 0 also for a pool that does not exist. */
VW_API int vw_private_pool_use_count(const vw_pool *pool, vw_private_id id);

VW_API VW_MUST_CHECK vw_status vw_private_pool_set_use_on_oom(vw_pool *pool, vw_private_id id,
                                                              bool use_on_oom);
VW_API VW_MUST_CHECK vw_status vw_private_pool_set_no_split(vw_pool *pool, vw_private_id id,
                                                            bool no_split);

/* vw_pool_trim() for one private pool that nobody uses any more. */
VW_API vw_status vw_private_pool_trim(vw_pool *pool, vw_private_id id);

/* The live and free blocks of a private pool at one moment, for CUDA graphs that share a pool and
 * run in turns: each needs the blocks as they were when it was captured. Belongs to the vw_pool it
 * was taken from; it may outlive the pool, but is useless then. */
typedef struct vw_private_state vw_private_state; /* opaque */

/* First waits for blocks that other streams still use; they count as free.
 *
 * VW_ERR_INVALID_ARGUMENT   no such private pool is in use
 * VW_ERR_WRONG_STATE        a block waits for a stream that is being captured
 * VW_ERR_DEVICE             the wait failed
 * VW_ERR_HOST_MEMORY */
VW_API VW_MUST_CHECK vw_status vw_private_pool_checkpoint(vw_pool *pool, vw_private_id id,
                                                          vw_private_state **out);
VW_API void vw_private_state_free(vw_private_state *state); /* NULL does nothing */

/* Called without the pool's lock, after the restore: freed() for each block that was live before,
 * then allocated() for each block that is live now, both by rising address. An address may be in
 * both lists. Either function may be NULL. `tag` becomes the tag of the blocks that are live now; 0
 * = none. */
typedef struct vw_restore_listener {
    void *context;
    void (*freed)(void *context, vw_device_ptr address);
    void (*allocated)(void *context, vw_device_ptr address);
    uint64_t tag;
} vw_restore_listener;

/* Restores the private pool: frees all its live blocks, those of default requests (use_on_oom) too,
 * and allocates those that were live at the checkpoint again, at their addresses and with their
 * sizes (requested size = block size). Memory taken since then stays in the private pool, idle.
 * Bytes are not touched. Listeners see ordinary
 * frees and allocations, all with one request number; with engine "torch", as in PyTorch, blocks
 * that were free at the checkpoint are also allocated, and then freed. `listener` may be NULL. A
 * state can be restored several times, and states in any order.
 *
 * VW_ERR_WRONG_STATE   the private pool is no longer in use, one of its blocks waits for a stream
 *                      that is being captured, or memory of the checkpoint was given back
 *                      meanwhile: nothing changed
 * VW_ERR_INVALID_ARGUMENT, VW_ERR_HOST_MEMORY, VW_ERR_DEVICE (waiting for another stream): nothing
 *                      changed */
VW_API VW_MUST_CHECK vw_status vw_private_pool_restore(vw_pool *pool, const vw_private_state *state,
                                                       const vw_restore_listener *listener);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_VRAMWISE_H */
