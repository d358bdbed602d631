/* test_gpu_replay.c - that gpu_replay's checks see what they are there to see.
 *
 * On the host device and on the fake driver, since a program that finds no wrong byte on a GPU is
 * worth what it would have found. The allocators it is given here have the faults that an engine
 * could have: one address for two blocks, a page left behind, memory not given back. */
#include "gpu/gpu_replay_run.h"

#include <stdlib.h>
#include <string.h>

#include "contract/device_contract.h" /* assert_ok, assert_status */
#include "support/cmocka_here.h"
#include "support/hand_made_script.h"

#define GIB (UINT64_C(1) << 30)

/* ---- the pattern ----------------------------------------------------------------------------- */

typedef struct fixture {
    vw_device *device;
    replay_driver driver;
    bool has_driver;
    replay_bytes bytes;
} fixture;

static void open_fixture(fixture *f, bool has_driver, bool is_sampled)
{
    *f = (fixture){.has_driver = has_driver};
    if (has_driver) {
        assert_ok(vw_cuda_device_open(0, &f->device));
        assert_ok(replay_driver_open(0, &f->driver));
    } else {
        assert_ok(vw_host_device_create(4 * GIB, &f->device));
    }
    assert_ok(replay_bytes_init(&f->bytes, f->device, has_driver ? &f->driver : NULL, is_sampled));
}

static void close_fixture(fixture *f)
{
    replay_bytes_deinit(&f->bytes);
    if (f->has_driver)
        replay_driver_close(&f->driver);
    vw_device_destroy(f->device);
}

static replay_block take_block(fixture *f, uint64_t size_bytes, uint64_t seed)
{
    replay_block block = {.size_bytes = size_bytes, .seed = seed};
    assert_ok(f->device->table->take(f->device->context, size_bytes, &block.address));
    return block;
}

static replay_errors errors_in(fixture *f, const replay_block *block)
{
    replay_errors errors;
    assert_ok(replay_bytes_check(&f->bytes, block, 0));
    assert_ok(replay_bytes_take_errors(&f->bytes, &errors));
    return errors;
}

static void flip(fixture *f, const replay_block *block, uint64_t at)
{
    uint8_t byte;
    assert_ok(f->device->table->read(f->device->context, &byte, block->address + at, 1));
    byte ^= 1;
    assert_ok(f->device->table->write(f->device->context, block->address + at, &byte, 1));
}

static void check_every_byte(bool has_driver)
{
    static const uint64_t sizes[] = {1, 7, 8, 9, 511, 4096, 4101};
    fixture f;
    open_fixture(&f, has_driver, false);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        replay_block block = take_block(&f, sizes[i], 40 + i);
        assert_ok(replay_bytes_fill(&f.bytes, &block, 0));
        assert_int_equal(errors_in(&f, &block).count, 0);
        for (uint64_t at = 0; at < sizes[i]; at++) {
            flip(&f, &block, at);
            replay_errors errors = errors_in(&f, &block);
            assert_int_equal(errors.count, 1);
            assert_int_equal(errors.seed, 40 + i);
            assert_int_equal(errors.word, at / 8);
            assert_true(errors.found != errors.wanted);
            flip(&f, &block, at);
        }
        assert_ok(f.device->table->give_back(f.device->context, block.address));
    }
    close_fixture(&f);
}

static void a_flipped_bit_is_found_in_every_byte(void **state)
{
    (void)state;
    check_every_byte(false);
}

static void kernels_find_a_flipped_bit_in_every_byte(void **state)
{
    (void)state;
    check_every_byte(true);
}

static void a_block_of_another_seed_has_no_word_in_common(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, false, false);
    replay_block block = take_block(&f, 64 * 1024 + 5, 7);
    assert_ok(replay_bytes_fill(&f.bytes, &block, 0));
    block.seed = 8;
    assert_int_equal(errors_in(&f, &block).count, 8 * 1024 + 5);
    assert_ok(f.device->table->give_back(f.device->context, block.address));
    close_fixture(&f);
}

static void samples_stay_inside_the_block_and_reach_both_ends(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {REPLAY_WHOLE_UP_TO_BYTES + 1, REPLAY_WHOLE_UP_TO_BYTES + 4096,
                                     3 * GIB + 12345};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const replay_block block = {.address = 512, .size_bytes = sizes[i]};
        replay_visit visits[REPLAY_MOST_VISITS] = {{0}, {0}};
        assert_int_equal(replay_plan_visits(&block, true, visits), 2);
        assert_int_equal(replay_visit_word(&visits[0], 0), 0);
        for (size_t v = 0; v < 2; v++) {
            uint64_t last = replay_visit_word(&visits[v], visits[v].word_count - 1);
            assert_true(last < sizes[i] / 8);
            assert_int_equal(visits[v].tail_bytes, v == 0 ? 0 : sizes[i] % 8);
        }
        assert_int_equal(replay_visit_word(&visits[1], visits[1].word_count - 1), sizes[i] / 8 - 1);
        assert_int_equal(visits[1].tail_word, sizes[i] / 8);
    }
    const replay_block small = {.address = 512, .size_bytes = REPLAY_WHOLE_UP_TO_BYTES};
    replay_visit visits[REPLAY_MOST_VISITS] = {{0}, {0}};
    assert_int_equal(replay_plan_visits(&small, true, visits), 1);
    assert_int_equal(visits[0].word_count, REPLAY_WHOLE_UP_TO_BYTES / 8);
}

/* ---- allocators with faults ------------------------------------------------------------------ */

typedef enum fault {
    NO_FAULT,
    ONE_ADDRESS,      /* every block is at the same address */
    PAGE_LEFT_BEHIND, /* a live block's bytes are zero after the next request */
    NOT_GIVEN_BACK,
} fault;

typedef struct faulty_allocator {
    vw_device *device;
    fault fault;
    vw_device_ptr latest;
    uint64_t frees;
    uint64_t used_frees;
    vw_stream last_stream;
    uint64_t stream_changes;
} faulty_allocator;

static vw_status faulty_alloc(void *context, uint64_t size_bytes, vw_stream stream,
                              vw_device_ptr *out)
{
    faulty_allocator *faulty = context;
    const vw_device *device = faulty->device;
    faulty->stream_changes += stream != faulty->last_stream;
    faulty->last_stream = stream;
    if (faulty->fault == PAGE_LEFT_BEHIND && faulty->latest != VW_NULL)
        assert_ok(device->table->fill(device->context, faulty->latest, 0, 4096, stream));
    if (faulty->fault == ONE_ADDRESS)
        size_bytes = 8 * MIB; /* enough for all */
    if (faulty->fault != ONE_ADDRESS || faulty->latest == VW_NULL)
        assert_ok(device->table->take(device->context, size_bytes, &faulty->latest));
    *out = faulty->latest;
    return VW_OK;
}

static vw_status faulty_free(void *context, vw_device_ptr address, vw_stream stream)
{
    faulty_allocator *faulty = context;
    (void)stream;
    faulty->frees++;
    return faulty->fault == ONE_ADDRESS || faulty->fault == NOT_GIVEN_BACK
               ? VW_OK
               : faulty->device->table->give_back(faulty->device->context, address);
}

static vw_status faulty_free_used(void *context, vw_device_ptr address, vw_stream stream,
                                  vw_stream user)
{
    faulty_allocator *faulty = context;
    assert_true(user != stream && user != 0);
    faulty->used_frees++;
    return faulty_free(context, address, stream);
}

static vw_status faulty_trim(void *context)
{
    (void)context;
    return VW_OK;
}

static vw_status faulty_scope(void *context, vw_private_id id)
{
    (void)context;
    (void)id;
    return VW_OK;
}

static vw_status faulty_get_use(void *context, replay_use *out)
{
    (void)context;
    *out = (replay_use){.peak_reserved_bytes = UINT64_MAX};
    return VW_OK;
}

static void faulty_destroy(void *context)
{
    (void)context;
}

static const replay_allocator_table faulty_table = {
    .alloc = faulty_alloc,
    .free = faulty_free,
    .free_used = faulty_free_used,
    .trim = faulty_trim,
    .enter = faulty_scope,
    .leave_for_good = faulty_scope,
    .get_use = faulty_get_use,
    .destroy = faulty_destroy,
};

/* ---- runs ------------------------------------------------------------------------------------ */

static hand_made_script hand;

/* Two blocks at a time, one of them used on another stream when it is freed, one live at the end.
 */
static void write_script(void)
{
    hand_begin(&hand);
    hand_alloc(&hand, 0, 5 * MIB + 3);
    hand_alloc_on(&hand, 1, 3 * MIB, 1);
    hand_free(&hand, 0);
    hand_alloc_on(&hand, 2, 4 * MIB, 2);
    hand_free_later(&hand, 1, 0);
    hand_complete(&hand, 0);
    hand_alloc(&hand, 3, 0);
    hand_free(&hand, 3);
    hand_free(&hand, 2);
    hand_alloc(&hand, 4, 6 * MIB);
}

static replay_result play(fixture *f, replay_allocator allocator, uint64_t most_ns)
{
    replay_result result;
    const replay_run_options options = {
        .device = f->device,
        .bytes = &f->bytes,
        .operation_count = hand.script.op_count,
        .most_ns = most_ns,
        .run_number = 9,
    };
    assert_ok(replay_run(&hand.script, allocator, &options, &result));
    return result;
}

static replay_result play_faulty(fixture *f, faulty_allocator *faulty)
{
    const replay_allocator allocator = {.table = &faulty_table, .context = faulty};
    write_script();
    faulty->device = f->device;
    return play(f, allocator, UINT64_MAX);
}

static replay_result play_policy(fixture *f, const char *name, uint64_t card_bytes,
                                 uint64_t most_ns)
{
    replay_allocator allocator;
    write_script();
    assert_ok(replay_allocator_make(replay_policy_find(name), f->device,
                                    f->has_driver ? &f->driver : NULL, card_bytes, &allocator));
    return play(f, allocator, most_ns);
}

static void a_run_plays_every_operation_and_counts_what_is_live(void **state)
{
    (void)state;
    fixture f;
    faulty_allocator sound = {.fault = NO_FAULT};
    open_fixture(&f, false, false);
    replay_result result = play_faulty(&f, &sound);
    uint64_t peak_bytes = 0;
    assert_int_equal(result.end, REPLAY_COMPLETE);
    assert_int_equal(result.operations, hand.script.op_count);
    assert_int_equal(result.peak_live_bytes, hand.script.peak_live_bytes);
    assert_ok(replay_peak_live(&hand.script, hand.script.op_count, &peak_bytes));
    assert_int_equal(peak_bytes, hand.script.peak_live_bytes);
    assert_int_equal(result.calls, 4 + 3);
    assert_int_equal(sound.frees, 4); /* the last one when the run was over */
    assert_int_equal(sound.used_frees, 1);
    assert_int_equal(result.visited_bytes, 2 * (18 * MIB + 3));
    assert_true(result.peak_driver_bytes >= 8 * MIB + 3);
    assert_true(result.peak_driver_bytes < 9 * MIB);
    assert_true(result.longest_ns != 0 && result.calls_ns >= result.longest_ns);
    assert_int_equal(result.errors.count, 0);
    assert_int_equal(result.kept_bytes, 0);
    close_fixture(&f);
}

static void requests_go_to_the_next_stream_every_few_hundred_operations(void **state)
{
    (void)state;
    fixture f;
    replay_result result;
    faulty_allocator sound = {.fault = NO_FAULT};
    const replay_allocator allocator = {.table = &faulty_table, .context = &sound};
    open_fixture(&f, false, false);
    hand_begin(&hand);
    for (int i = 0; i < 1000; i++) {
        hand_alloc(&hand, 0, 512);
        hand_free(&hand, 0);
    }
    sound.device = f.device;
    const replay_run_options options = {
        .device = f.device,
        .bytes = &f.bytes,
        .operation_count = hand.script.op_count,
        .stream_turns = 3,
        .most_ns = UINT64_MAX,
    };
    assert_ok(replay_run(&hand.script, allocator, &options, &result));
    assert_int_equal(sound.stream_changes, 4); /* five turns, of 400 operations each */
    assert_int_equal(result.errors.count, 0);
    close_fixture(&f);
}

static void two_live_blocks_at_one_address_are_found(void **state)
{
    (void)state;
    fixture f;
    faulty_allocator faulty = {.fault = ONE_ADDRESS};
    open_fixture(&f, false, false);
    replay_result result = play_faulty(&f, &faulty);
    assert_true(result.errors.count >= 3 * MIB / 8);
    assert_int_equal(replay_seed_operation(result.errors.seed), 0);
    assert_ok(f.device->table->give_back(f.device->context, faulty.latest));
    close_fixture(&f);
}

static void a_page_left_behind_is_found(void **state)
{
    (void)state;
    fixture f;
    faulty_allocator faulty = {.fault = PAGE_LEFT_BEHIND};
    open_fixture(&f, false, false);
    write_script();
    hand.script.op_count = 3; /* the first block is zeroed by the second request, then freed */
    const replay_allocator allocator = {.table = &faulty_table, .context = &faulty};
    faulty.device = f.device;
    replay_result result = play(&f, allocator, UINT64_MAX);
    assert_int_equal(result.errors.count, 4096 / 8);
    assert_int_equal(replay_seed_operation(result.errors.seed), 0);
    assert_int_equal(result.errors.found, 0);
    close_fixture(&f);
}

static void memory_that_is_not_given_back_is_seen(void **state)
{
    (void)state;
    fixture f;
    faulty_allocator faulty = {.fault = NOT_GIVEN_BACK};
    open_fixture(&f, false, false);
    replay_result result = play_faulty(&f, &faulty);
    assert_int_equal(result.end, REPLAY_COMPLETE);
    assert_true(result.kept_bytes >= 18 * MIB);
    close_fixture(&f);
}

static void every_policy_of_today_keeps_every_byte(void **state)
{
    (void)state;
    static const char *const names[] = {"cuMemAlloc", "cuMemAllocAsync", "cuMemAllocAsync:keep",
                                        "native", "expandable"};
    for (int has_driver = 0; has_driver < 2; has_driver++) {
        fixture f;
        open_fixture(&f, has_driver == 1, false);
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            if (has_driver == 0 && replay_policy_find(names[i])->is_async)
                continue;
            replay_result result = play_policy(&f, names[i], 0, UINT64_MAX);
            assert_int_equal(result.end, REPLAY_COMPLETE);
            assert_int_equal(result.errors.count, 0);
            assert_int_equal(result.kept_bytes, 0);
            assert_true(result.use.peak_reserved_bytes >= 8 * MIB + 3);
        }
        close_fixture(&f);
    }
}

static void running_out_of_memory_ends_the_run_and_is_no_failure(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, false, false);
    replay_result result = play_policy(&f, "native", 21 * MIB, UINT64_MAX);
    assert_int_equal(result.end, REPLAY_OUT_OF_MEMORY);
    assert_int_equal(result.operations, 1);
    assert_int_equal(result.refused_bytes, 3 * MIB);
    assert_int_equal(result.errors.count, 0);
    assert_int_equal(result.kept_bytes, 0);
    close_fixture(&f);
}

static void a_run_ends_when_its_time_is_over(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, false, false);
    replay_result result = play_policy(&f, "native", 0, 0);
    assert_int_equal(result.end, REPLAY_OUT_OF_TIME);
    assert_int_equal(result.operations, 1);
    assert_int_equal(result.kept_bytes, 0);
    close_fixture(&f);
}

static void the_drivers_own_allocator_needs_a_driver(void **state)
{
    (void)state;
    fixture f;
    replay_allocator allocator;
    open_fixture(&f, false, false);
    assert_status(VW_ERR_UNSUPPORTED, replay_allocator_make(replay_policy_find("cuMemAllocAsync"),
                                                            f.device, NULL, 0, &allocator));
    assert_null(replay_policy_find("cudaMalloc"));
    close_fixture(&f);
}

static void a_launch_that_the_driver_refuses_ends_the_run_with_its_words(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, true, false);
    assert_int_equal(setenv("FAKE_CUDA_FAIL", "cuLaunchKernel=700", 1), 0);
    replay_result result = play_policy(&f, "native", 0, UINT64_MAX);
    assert_int_equal(unsetenv("FAKE_CUDA_FAIL"), 0);
    assert_int_equal(result.end, REPLAY_FAILED);
    assert_non_null(strstr(result.text, "operation 0"));
    assert_non_null(strstr(result.text, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flipped_bit_is_found_in_every_byte),
        cmocka_unit_test(kernels_find_a_flipped_bit_in_every_byte),
        cmocka_unit_test(a_block_of_another_seed_has_no_word_in_common),
        cmocka_unit_test(samples_stay_inside_the_block_and_reach_both_ends),
        cmocka_unit_test(a_run_plays_every_operation_and_counts_what_is_live),
        cmocka_unit_test(requests_go_to_the_next_stream_every_few_hundred_operations),
        cmocka_unit_test(two_live_blocks_at_one_address_are_found),
        cmocka_unit_test(a_page_left_behind_is_found),
        cmocka_unit_test(memory_that_is_not_given_back_is_seen),
        cmocka_unit_test(every_policy_of_today_keeps_every_byte),
        cmocka_unit_test(running_out_of_memory_ends_the_run_and_is_no_failure),
        cmocka_unit_test(a_run_ends_when_its_time_is_over),
        cmocka_unit_test(the_drivers_own_allocator_needs_a_driver),
        cmocka_unit_test(a_launch_that_the_driver_refuses_ends_the_run_with_its_words),
    };
    if (setenv("VRAMWISE_CUDA_DRIVER", VW_FAKE_CUDA_DRIVER, 1) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
