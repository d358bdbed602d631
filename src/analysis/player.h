/* player.h - plays a script through the real pool, on a simulated device.
 *
 * There is no second implementation of any rule: this is vramwise.h's allocator. The player only
 * keeps the table from slots to addresses and knows which call an operation is. Replay runs it over
 * the whole script; verify runs it one operation at a time, tells the device which addresses to
 * hand out before, and compares what the pool told its listener after.
 *
 * No locks: one thread at a time. Players on the same script may run side by side. */
#ifndef VW_ANALYSIS_PLAYER_H
#define VW_ANALYSIS_PLAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/vramwise.h"
#include "analysis/script.h"

/* No stream of a recording is here: a stream is a pointer, or a small number. */
#define VW__PLAYER_FIRST_USER_STREAM (UINT64_C(1) << 62)

/* The capacity of a card without end: the simulated device has addresses for all of it. */
#define VW__PLAYER_ENDLESS_BYTES (UINT64_C(1) << 45)
#define VW__PLAYER_ADDRESS_BYTES (UINT64_C(1) << 46) /* all addresses that it has */

/* The size that such a card reports: the first, or twice the peak of live bytes if that is more, at
 * most the second. An expandable segment reserves nine eighths of it. */
#define VW__PLAYER_LARGE_CARD_BYTES (UINT64_C(1) << 38)
#define VW__PLAYER_LARGEST_CARD_BYTES (UINT64_C(1) << 41)

/* After so many operations the device has done what was queued before them: see player.c. */
#define VW__PLAYER_LAG_OPS 256

/* What playing may take of this thread's processor: LEAST_LIMIT_NS, and LIMIT_NS_PER_OP for each
 * operation (player.c). Real programs' operations take a few microseconds at most. What an
 * allocator does can grow with the square of a program's operations, and a recording may be made to
 * show that. */
typedef struct vw__player_time {
    uint64_t begin_ns; /* of this thread's processor time */
    size_t op_count;
    uint64_t charged_ns; /* of this time: in the model's slow_play_ns */
} vw__player_time;

vw__player_time vw__player_time_begin(size_t op_count);
/* The part of it that is used; more than 1: playing has to end. */
double vw__player_time_used(const vw__player_time *time);
/* VW_ERR_UNSUPPORTED if it is used up. */
VW_MUST_CHECK vw_status vw__player_time_check(const vw__player_time *time);

/* The same for one of many replays of a model. The time of those that take longer than
 * USUAL_NS_PER_OP for each operation (player.c) is added up in the model, from their first
 * operation on, and all of them together have the time of one. Replays that take no longer than
 * usual do not count, and are never given up. */
VW_MUST_CHECK vw_status vw__player_time_check_shared(vw__player_time *time, const vw__model *model);

/* Called after each operation that called the device, also if the operation failed. Reserved bytes
 * change only there. */
typedef struct vw__player_listener {
    void (*device_called)(void *context, size_t op); /* or NULL */
    void *context;
} vw__player_listener;

/* A block of the script that is not on the device for a while, as with streams. */
typedef enum vw__player_move_kind {
    VW__PLAYER_MOVE_OUT,      /* its memory is freed */
    VW__PLAYER_MOVE_TRY_BACK, /* it is asked for again, if there is free memory */
    VW__PLAYER_MOVE_BACK,     /* it is asked for again, as by any request */
} vw__player_move_kind;

/* What is out already does not leave, and what is there is not asked for. */
typedef struct vw__player_move {
    size_t before_op;
    size_t request_op; /* the ALLOC that asked for it; it is live */
    uint8_t kind;      /* vw__player_move_kind */
} vw__player_move;

typedef struct vw__player_options {
    const char *engine; /* vw_pool_options.engine; NULL = "torch" */
    const char *torch_version;
    const char *conf;
    uint64_t capacity_bytes;   /* what the device can hold; UINT64_MAX = without end */
    uint64_t total_bytes;      /* what it reports; 0: the capacity, or a large card's */
    double fraction;           /* of the total; >= 1 = no limit set */
    const vw_event_sink *sink; /* or NULL */
    vw__player_listener listener;
    const bool *is_unsplit; /* by pool of the script: made with no_split; NULL: no pool is */
    bool trims_alone; /* where only one private pool's memory went, only that pool is trimmed, as
                         when a MemPool is destroyed; else all are, as empty_cache() does */
    bool skips_empty_cache; /* trims of the script are left out, but for those of one private pool:
                               these are of that pool alone then, as with trims_alone */
    uint64_t spill_bytes;   /* vw_pool_options.spill_bytes */
    const uint8_t *advice;  /* vw_advice by operation of the script, for the block it asks for;
                               or NULL. Outlives the player */
    const vw__player_move *moves; /* by rising before_op. Outlive the player */
    size_t move_count;
    uint64_t stream_host_bytes; /* of spill_bytes, with the first move, as far as left */
} vw__player_options;

/* Memory that left the device for host memory, and what it cost steps. Steps count from the one in
 * which memory first left. Once there are later ones, the first UNSETTLED_STEPS (player.c) no
 * longer count: they make host memory that later ones find. */
typedef struct vw__player_spill {
    uint64_t moment_ns;         /* of the last safe moment: when it began, then how long it was */
    uint64_t wait_ns;           /* of all moments in which memory left or came back */
    uint64_t peak_host_bytes;   /* host memory held for it, in use or ready */
    uint64_t resting_bytes;     /* on the host since the step began, less all that came back */
    uint64_t step_from_ns;      /* of wait_ns: when the step began */
    uint64_t sum_touched_bytes; /* of the steps that count: what was spilled in each and did not
                                   come back within it */
    uint64_t sum_wait_ns;       /* and the time of moving */
    uint64_t step_count;        /* that count */
    bool has_begun;
    bool is_settled; /* the first steps no longer count */
} vw__player_spill;

typedef struct vw__player {
    const vw__script *script; /* borrowed */
    vw_device *device;        /* owned, simulated, with manual streams and an H200's costs */
    vw_pool *pool;            /* owned */
    vw_device_ptr *addresses; /* owned; by slot; VW_NULL = nothing there */
    uint16_t scope;           /* the private pool requests belong to now */
    bool has_sink;
    bool trims_alone;
    bool skips_empty_cache;
    vw__player_listener listener;
    bool has_lag;          /* the engine orders its own work by events on the script's streams */
    const uint8_t *advice; /* borrowed; or NULL */
    const vw__player_move *moves; /* borrowed */
    size_t move_count, next_move;
    vw_pinned_budget *budget;   /* owned; or NULL: no streams */
    uint64_t stream_host_bytes; /* drawn from it with the first move, then 0 */
    uint64_t drawn_bytes;
    vw__player_spill spill;

    /* Made-up streams. The pool keeps a queue for each, so their numbers are used again. */
    uint32_t *user_streams; /* owned; by user: the number of its stream while it works */
    uint32_t *idle_streams; /* owned; numbers that may be used again */
    size_t idle_stream_count;
    uint32_t stream_count; /* numbers handed out so far */

    /* What playing showed. */
    uint64_t longest_stall_ns;  /* the dearest operation, all its device calls together */
    uint64_t served_oom_count;  /* requests that failed in the recording and did not here */
    const uint64_t *elapsed_ns; /* borrowed: the device's own count of what calls cost */
} vw__player;

/* The player must not move: the pool keeps its address.
 *
 * VW_ERR_BAD_SETTING, VW_ERR_INVALID_ARGUMENT (engine, version), VW_ERR_HOST_MEMORY.
 * VW_ERR_UNSUPPORTED: its streams, private pools and pages would take more memory than
 * vw__reading_limit_bytes() allows. */
VW_MUST_CHECK vw_status vw__player_init(vw__player *player, const vw__script *script,
                                        const vw__player_options *options);
void vw__player_deinit(vw__player *player);

/* Plays ops [first, end). Stops before the first one that fails and stores its place in `*stopped`
 * (`end` if none did). An op that failed changed nothing but what vw_alloc() says: it may be played
 * again, or left out.
 *
 * VW_ERR_OUT_OF_MEMORY   a request found no room (VW_ERR_REJECTED: throw_on_cudamalloc_oom kept it
 * from looking). If that op is an OOM it failed in the recording as well, and playing on after it
 * is right; an OOM that is served is freed at once, since nobody knows how long it would have lived
 * VW_ERR_TOO_LARGE       a request of 2^60 bytes or more, which no program was ever served
 * VW_ERR_HOST_MEMORY */
VW_MUST_CHECK vw_status vw__player_play(vw__player *player, size_t first, size_t end,
                                        size_t *stopped);

/* An empty_cache() that is not in the script. */
VW_MUST_CHECK vw_status vw__player_trim(vw__player *player);

/* A step of the program ends here: vw_pool_mark_step(). */
VW_MUST_CHECK vw_status vw__player_mark_step(vw__player *player);

#endif /* VW_ANALYSIS_PLAYER_H */
