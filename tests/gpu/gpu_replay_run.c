/* gpu_replay_run.c - see gpu_replay_run.h. */
#include "gpu/gpu_replay_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/live_bytes.h"
#include "base/clock.h"
#include "base/error.h" /* vw__fail, VW__TRY */

enum {
    USER_STREAMS = 4,        /* that blocks of other streams are used on, in turn */
    OPERATIONS_A_LOOK = 256, /* at the device's memory */
    OPERATIONS_A_TURN = 400, /* of a stream, where there are several in turn */
    SEED_OPERATION_BITS = 40,
};

/* What is live, by the requests alone. */
typedef struct live_books {
    uint64_t *slot_bytes; /* owned */
    uint64_t live_bytes;
    uint64_t peak_bytes;
} live_books;

typedef struct run_state {
    const vw__script *script;
    const replay_run_options *options;
    replay_allocator allocator;
    replay_result *result;
    live_books books;
    replay_block *blocks; /* owned; by slot */
    vw_stream *streams;   /* owned; by stream of the recording and turn */
    bool *is_own_stream;  /* owned; it was made here, and is to be destroyed */
    vw_stream users[USER_STREAMS];
    vw_device_event fence;        /* from a block's stream to a user's */
    vw_device_event *user_events; /* owned; by user of the script: behind its work; 0 = none */
    vw_device_event *idle_events; /* owned; made, and not in use */
    size_t idle_event_count;
    uint64_t before_free_bytes; /* the device's, before the allocator was asked for anything */
    uint64_t looked_live_bytes; /* when its memory was looked at last */
    uint64_t start_ns;
    uint64_t now_ns; /* as of the last call */
} run_state;

size_t replay_seed_operation(uint64_t seed)
{
    return (size_t)(seed & ((UINT64_C(1) << SEED_OPERATION_BITS) - 1)) - 1;
}

/* ---- live bytes ------------------------------------------------------------------------------ */

static vw_status books_init(live_books *books, const vw__script *script)
{
    *books = (live_books){.slot_bytes = calloc(script->slot_count + 1, sizeof(uint64_t))};
    return books->slot_bytes != NULL
               ? VW_OK
               : vw__fail_host_memory(script->slot_count * sizeof(uint64_t), "live bytes");
}

static void books_deinit(live_books *books)
{
    free(books->slot_bytes);
}

static void books_note(live_books *books, const vw__script_op *op)
{
    if (op->kind == VW__SCRIPT_ALLOC) {
        books->slot_bytes[op->slot] = vw__lifetime_bytes_of(op->size_bytes);
        books->live_bytes += books->slot_bytes[op->slot];
        if (books->live_bytes > books->peak_bytes)
            books->peak_bytes = books->live_bytes;
    } else if (op->kind == VW__SCRIPT_FREE || op->kind == VW__SCRIPT_FREE_LATER) {
        books->live_bytes -= books->slot_bytes[op->slot];
    }
}

vw_status replay_peak_live(const vw__script *script, size_t operation_count, uint64_t *out)
{
    live_books books;
    vw_status status = books_init(&books, script);
    for (size_t i = 0; i < operation_count && status == VW_OK; i++)
        books_note(&books, &script->ops[i]);
    if (status == VW_OK)
        *out = books.peak_bytes;
    books_deinit(&books);
    return status;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static vw_status look_at_memory(run_state *run)
{
    const vw_device *device = run->options->device;
    uint64_t free_bytes = 0, total_bytes = 0;
    VW__TRY(device->table->memory_info(device->context, &free_bytes, &total_bytes));
    run->looked_live_bytes = run->books.live_bytes;
    if (free_bytes < run->before_free_bytes &&
        run->before_free_bytes - free_bytes > run->result->peak_driver_bytes)
        run->result->peak_driver_bytes = run->before_free_bytes - free_bytes;
    return VW_OK;
}

static void note_call(run_state *run, uint64_t begin_ns, size_t operation)
{
    replay_result *result = run->result;
    run->now_ns = vw__clock_monotonic_ns();
    uint64_t call_ns = run->now_ns - begin_ns;
    result->calls++;
    result->calls_ns += call_ns;
    if (call_ns > result->longest_ns) {
        result->longest_ns = call_ns;
        result->longest_operation = operation;
    }
    if (operation >= run->options->operation_count / 4 && call_ns > result->longest_later_ns)
        result->longest_later_ns = call_ns;
}

/* ---- operations ------------------------------------------------------------------------------ */

static vw_status fill(run_state *run, const replay_block *block)
{
    return run->options->bytes == NULL
               ? VW_OK
               : replay_bytes_fill(run->options->bytes, block, block->stream);
}

static vw_status check(run_state *run, const replay_block *block, vw_stream stream)
{
    return run->options->bytes == NULL ? VW_OK
                                       : replay_bytes_check(run->options->bytes, block, stream);
}

static size_t stream_turns(const run_state *run)
{
    return run->options->stream_turns != 0 ? run->options->stream_turns : 1;
}

/* Where in `streams` the one is that a request is made for. */
static size_t stream_place(const run_state *run, size_t operation)
{
    size_t turns = stream_turns(run);
    return run->script->ops[operation].stream * turns + operation / OPERATIONS_A_TURN % turns;
}

static vw_status allocate(run_state *run, const vw__script_op *op, size_t operation,
                          replay_block *out)
{
    replay_block block = {
        .size_bytes = op->size_bytes,
        .stream = run->streams[stream_place(run, operation)],
        .seed = (run->options->run_number << SEED_OPERATION_BITS) + operation + 1,
    };
    if (op->size_bytes == 0) { /* nobody has an address for it, nobody frees one */
        *out = block;
        return VW_OK;
    }
    uint64_t begin_ns = vw__clock_monotonic_ns();
    vw_status status = run->allocator.table->alloc(run->allocator.context, op->size_bytes,
                                                   block.stream, &block.address);
    note_call(run, begin_ns, operation);
    VW__TRY(status);
    *out = block;
    return fill(run, &block);
}

/* The check is queued first, and may well run after the block has its next owner's address. */
static vw_status give_back(run_state *run, replay_block *block, size_t operation)
{
    replay_block freed = *block;
    if (freed.address == VW_NULL)
        return VW_OK;
    VW__TRY(check(run, &freed, freed.stream));
    block->address = VW_NULL;
    uint64_t begin_ns = vw__clock_monotonic_ns();
    vw_status status =
        run->allocator.table->free(run->allocator.context, freed.address, freed.stream);
    note_call(run, begin_ns, operation);
    return status;
}

static vw_status idle_event(run_state *run, vw_device_event *out)
{
    const vw_device *device = run->options->device;
    if (run->idle_event_count == 0)
        return device->table->event_create(device->context, out);
    *out = run->idle_events[--run->idle_event_count];
    return VW_OK;
}

/* Queues the user's work on the block behind that of its own stream, and a mark behind it. */
static vw_status use_elsewhere(run_state *run, const vw__script_op *op, const replay_block *block,
                               vw_stream user)
{
    const vw_device *device = run->options->device;
    const vw_device_table *table = device->table;
    VW__TRY(table->event_record(device->context, run->fence, block->stream));
    VW__TRY(table->stream_wait_event(device->context, user, run->fence));
    if (run->options->bytes == NULL)
        return VW_OK;
    VW__TRY(check(run, block, user));
    VW__TRY(idle_event(run, &run->user_events[op->user]));
    return table->event_record(device->context, run->user_events[op->user], user);
}

static vw_status free_later(run_state *run, const vw__script_op *op, size_t operation)
{
    replay_block *block = &run->blocks[op->slot], freed = *block;
    vw_stream user = run->users[op->user % USER_STREAMS];
    if (freed.address == VW_NULL)
        return VW_OK;
    VW__TRY(use_elsewhere(run, op, &freed, user));
    block->address = VW_NULL;
    uint64_t begin_ns = vw__clock_monotonic_ns();
    vw_status status =
        run->allocator.table->free_used(run->allocator.context, freed.address, freed.stream, user);
    note_call(run, begin_ns, operation);
    return status;
}

static vw_status complete(run_state *run, const vw__script_op *op)
{
    const vw_device *device = run->options->device;
    vw_device_event event = run->user_events[op->user];
    if (event == 0)
        return VW_OK;
    VW__TRY(device->table->event_synchronize(device->context, event));
    run->user_events[op->user] = 0;
    run->idle_events[run->idle_event_count++] = event;
    return VW_OK;
}

/* Failed when it was recorded; served or not, the program goes on without it. */
static vw_status try_again(run_state *run, const vw__script_op *op, size_t operation)
{
    replay_block block = {.address = VW_NULL};
    vw_status status = allocate(run, op, operation, &block);
    if (status == VW_ERR_OUT_OF_MEMORY || status == VW_ERR_REJECTED)
        return VW_OK;
    VW__TRY(status);
    return give_back(run, &block, operation);
}

static vw_status trim(run_state *run)
{
    uint64_t begin_ns = vw__clock_monotonic_ns();
    vw_status status = run->allocator.table->trim(run->allocator.context);
    run->now_ns = vw__clock_monotonic_ns();
    run->result->trims_ns += run->now_ns - begin_ns;
    return status;
}

static vw_status play_one(run_state *run, size_t operation)
{
    const vw__script_op *op = &run->script->ops[operation];
    const replay_allocator_table *table = run->allocator.table;
    switch ((vw__script_kind)op->kind) {
    case VW__SCRIPT_ALLOC:
        return allocate(run, op, operation, &run->blocks[op->slot]);
    case VW__SCRIPT_FREE:
        return give_back(run, &run->blocks[op->slot], operation);
    case VW__SCRIPT_FREE_LATER:
        return free_later(run, op, operation);
    case VW__SCRIPT_COMPLETE:
        return complete(run, op);
    case VW__SCRIPT_OOM:
        return try_again(run, op, operation);
    case VW__SCRIPT_TRIM:
        return trim(run);
    case VW__SCRIPT_SCOPE:
        return table->enter(run->allocator.context, run->script->pools[op->pool]);
    case VW__SCRIPT_RELEASE:
        return table->leave_for_good(run->allocator.context, run->script->pools[op->pool]);
    case VW__SCRIPT_SNAPSHOT:
        break;
    }
    return VW_OK;
}

/* ---- a run ----------------------------------------------------------------------------------- */

static bool is_refusal(vw_status status)
{
    return status == VW_ERR_OUT_OF_MEMORY || status == VW_ERR_REJECTED;
}

static void note_failure(replay_result *result, const char *what, size_t operation)
{
    result->end = REPLAY_FAILED;
    (void)snprintf(result->text, sizeof result->text, "%s, at operation %zu: %s", what, operation,
                   vw_last_error());
}

static void play(run_state *run)
{
    replay_result *result = run->result;
    size_t end = run->options->operation_count, i = 0;
    result->end = REPLAY_COMPLETE;
    for (; i < end; i++) {
        const vw__script_op *op = &run->script->ops[i];
        vw_status status = play_one(run, i);
        if (op->kind == VW__SCRIPT_ALLOC && is_refusal(status)) {
            result->end = REPLAY_OUT_OF_MEMORY;
            result->refused_bytes = op->size_bytes;
            break;
        }
        books_note(&run->books, op);
        uint64_t live_bytes = run->books.live_bytes;
        if (status == VW_OK &&
            (i % OPERATIONS_A_LOOK == 0 ||
             live_bytes > run->looked_live_bytes + run->looked_live_bytes / OPERATIONS_A_LOOK))
            status = look_at_memory(run);
        if (status != VW_OK) {
            note_failure(result, "failed", i);
            break;
        }
        if (run->now_ns - run->start_ns > run->options->most_ns) {
            result->end = REPLAY_OUT_OF_TIME;
            i++;
            break;
        }
    }
    result->operations = i;
    result->peak_live_bytes = run->books.peak_bytes;
}

/* What is live is checked and freed, without measuring it. */
static vw_status free_the_rest(run_state *run)
{
    for (size_t slot = 0; slot < run->script->slot_count; slot++) {
        replay_block block = run->blocks[slot];
        if (block.address == VW_NULL)
            continue;
        VW__TRY(check(run, &block, block.stream));
        run->blocks[slot].address = VW_NULL;
        VW__TRY(run->allocator.table->free(run->allocator.context, block.address, block.stream));
    }
    return run->options->device->table->synchronize(run->options->device->context);
}

static vw_status play_and_clear(run_state *run)
{
    const vw_device *device = run->options->device;
    uint64_t visited_bytes = run->options->bytes != NULL ? run->options->bytes->visited_bytes : 0;
    VW__TRY(device->table->synchronize(device->context));
    run->start_ns = run->now_ns = vw__clock_monotonic_ns();
    play(run);
    vw_status status = device->table->synchronize(device->context);
    run->result->wall_ns = vw__clock_monotonic_ns() - run->start_ns;
    if (run->result->end == REPLAY_FAILED)
        return VW_OK;
    VW__TRY(status);
    VW__TRY(look_at_memory(run));
    VW__TRY(run->allocator.table->get_use(run->allocator.context, &run->result->use));
    VW__TRY(free_the_rest(run));
    if (run->options->bytes == NULL)
        return VW_OK;
    run->result->visited_bytes = run->options->bytes->visited_bytes - visited_bytes;
    return replay_bytes_take_errors(run->options->bytes, &run->result->errors);
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static vw_status make_streams(run_state *run)
{
    const vw_device *device = run->options->device;
    const vw__script *script = run->script;
    for (size_t i = 0; i < run->options->operation_count; i++) {
        const vw__script_op *op = &script->ops[i];
        size_t place = stream_place(run, i);
        bool is_request = op->kind == VW__SCRIPT_ALLOC || op->kind == VW__SCRIPT_OOM;
        bool is_default = script->model->streams[op->stream] == 0 && place % stream_turns(run) == 0;
        if (!is_request || is_default || run->is_own_stream[place])
            continue;
        VW__TRY(device->table->stream_create(device->context, &run->streams[place]));
        run->is_own_stream[place] = true;
    }
    for (size_t i = 0; i < USER_STREAMS; i++)
        VW__TRY(device->table->stream_create(device->context, &run->users[i]));
    return device->table->event_create(device->context, &run->fence);
}

static vw_status prepare(run_state *run)
{
    const vw_device *device = run->options->device;
    const vw__script *script = run->script;
    size_t stream_count = script->model->stream_count * stream_turns(run);
    uint64_t total_bytes = 0;
    run->blocks = calloc(script->slot_count + 1, sizeof *run->blocks);
    run->streams = calloc(stream_count + 1, sizeof *run->streams);
    run->is_own_stream = calloc(stream_count + 1, sizeof *run->is_own_stream);
    run->user_events = calloc(script->user_count + 1, sizeof *run->user_events);
    run->idle_events = calloc(script->user_count + 1, sizeof *run->idle_events);
    if (run->blocks == NULL || run->streams == NULL || run->is_own_stream == NULL ||
        run->user_events == NULL || run->idle_events == NULL)
        return vw__fail_host_memory(script->slot_count * sizeof *run->blocks, "a run's blocks");
    VW__TRY(books_init(&run->books, script));
    VW__TRY(make_streams(run));
    return device->table->memory_info(device->context, &run->before_free_bytes, &total_bytes);
}

static void end_streams(run_state *run)
{
    const vw_device *device = run->options->device;
    for (size_t i = 0; run->user_events != NULL && i < run->script->user_count; i++)
        if (run->user_events[i] != 0)
            (void)device->table->event_destroy(device->context, run->user_events[i]);
    for (size_t i = 0; i < run->idle_event_count; i++)
        (void)device->table->event_destroy(device->context, run->idle_events[i]);
    if (run->fence != 0)
        (void)device->table->event_destroy(device->context, run->fence);
    for (size_t i = 0; i < USER_STREAMS; i++)
        if (run->users[i] != 0)
            (void)device->table->stream_destroy(device->context, run->users[i]);
    size_t stream_count = run->script->model->stream_count * stream_turns(run);
    for (size_t i = 0; run->is_own_stream != NULL && i < stream_count; i++)
        if (run->is_own_stream[i])
            (void)device->table->stream_destroy(device->context, run->streams[i]);
}

static void look_at_what_is_kept(run_state *run)
{
    const vw_device *device = run->options->device;
    uint64_t free_bytes = 0, total_bytes = 0;
    if (device->table->memory_info(device->context, &free_bytes, &total_bytes) == VW_OK &&
        free_bytes < run->before_free_bytes)
        run->result->kept_bytes = run->before_free_bytes - free_bytes;
}

vw_status replay_run(const vw__script *script, replay_allocator allocator,
                     const replay_run_options *options, replay_result *out)
{
    run_state run = {.script = script, .options = options, .allocator = allocator, .result = out};
    *out = (replay_result){.use = {.peak_reserved_bytes = UINT64_MAX}};
    vw_status status = prepare(&run);
    if (status == VW_OK && play_and_clear(&run) != VW_OK)
        note_failure(out, "failed behind the last", out->operations);
    allocator.table->destroy(allocator.context);
    if (status == VW_OK)
        look_at_what_is_kept(&run);
    end_streams(&run);
    books_deinit(&run.books);
    free(run.blocks);
    free(run.streams);
    free(run.is_own_stream);
    free(run.user_events);
    free(run.idle_events);
    return status;
}
