/* test_plan_from.c - a recorded step at another batch and length, of runs written out here. */
#include "vramwise/plan.h"

#include "support/cmocka_here.h"
#include "support/hand_made_recording.h"
#include "support/host_memory_sweep.h"

#define MIB (UINT64_C(1) << 20)
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

typedef struct step_size {
    uint64_t batch, length;
} step_size;

/* Blocks of a step: what each is for one sample of one token, by how it grows. */
static const struct {
    vw_plan_law law;
    uint64_t bytes;
} blocks[] = {
    {VW_PLAN_LAW_BATCH_LENGTH, 4096},
    {VW_PLAN_LAW_BATCH_LENGTH, 3072},
    {VW_PLAN_LAW_BATCH_LENGTH_SQUARE, 48},
    {VW_PLAN_LAW_CONSTANT, 3 * MIB},
    {VW_PLAN_LAW_LENGTH, 1024},
    {VW_PLAN_LAW_BATCH_LENGTH, 8192},
    {VW_PLAN_LAW_LENGTH_SQUARE, 64},
    {VW_PLAN_LAW_BATCH, 2048},
    {VW_PLAN_LAW_BATCH_LENGTH, 12288},
    {VW_PLAN_LAW_BATCH_LENGTH, 1024},
};

static uint64_t block_bytes(size_t block, step_size size)
{
    uint64_t batch = size.batch, length = size.length, bytes = blocks[block].bytes;
    switch (blocks[block].law) {
    case VW_PLAN_LAW_BATCH:
        return bytes * batch;
    case VW_PLAN_LAW_LENGTH:
        return bytes * length;
    case VW_PLAN_LAW_BATCH_LENGTH:
        return bytes * batch * length;
    case VW_PLAN_LAW_LENGTH_SQUARE:
        return bytes * length * length;
    case VW_PLAN_LAW_BATCH_LENGTH_SQUARE:
        return bytes * batch * length * length;
    case VW_PLAN_LAW_CONSTANT:
    case VW_PLAN_LAW_COUNT:
    default:
        return bytes;
    }
}

enum { WEIGHTS_BYTES = 64 << 20 };

/* All blocks of a step live at once, beside the weights. Sizes are multiples of 512 where lengths
 * are. */
static uint64_t peak_of(step_size size)
{
    uint64_t sum = WEIGHTS_BYTES;
    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        sum += block_bytes(i, size);
    return sum;
}

static void record_step(hand_made_recording *hand, step_size size)
{
    const uint64_t first = UINT64_C(1) << 40, apart = UINT64_C(1) << 34;
    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        record_event(hand, VW_ACTION_ALLOC, first + i * apart, block_bytes(i, size));
    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        record_free(hand, first + i * apart, block_bytes(i, size));
    record_step_end(hand);
}

static const vw_recording *record_steps(hand_made_recording *hand, const step_size *sizes,
                                        size_t count)
{
    record_begin(hand);
    record_event(hand, VW_ACTION_ALLOC, 1 << 20, WEIGHTS_BYTES);
    for (size_t i = 0; i < count; i++)
        record_step(hand, sizes[i]);
    return record_end(hand);
}

static const step_size varied[] = {{4, 128}, {4, 256}, {8, 128}, {2, 320},
                                   {8, 512}, {3, 192}, {6, 448}};

static vw_plan_scaling scaling_of(step_size now, step_size then)
{
    vw_plan_scaling scaling;
    vw_plan_scaling_init(&scaling);
    scaling.batch_now = now.batch;
    scaling.sequence_now = now.length;
    scaling.batch = then.batch;
    scaling.sequence = then.length;
    return scaling;
}

static void every_law_is_found(void **state)
{
    (void)state;
    static const step_size asked[] = {{8, 512}, {16, 512}, {8, 1024}, {1, 64}, {32, 2048}};
    hand_made_recording hand;
    const vw_recording *recording = record_steps(&hand, varied, COUNT_OF(varied));
    for (size_t from = 1; from < COUNT_OF(varied); from++)
        for (size_t i = 0; i < COUNT_OF(asked); i++) {
            vw_plan_scaling scaling = scaling_of(varied[from], asked[i]);
            vw_plan_scaled *scaled;
            scaling.step = from;
            assert_int_equal(vw_plan_from_recording(recording, &scaling, &scaled), VW_OK);
            assert_int_equal(scaled->now_peak_bytes, peak_of(varied[from]));
            assert_int_equal(scaled->peak_allocated_bytes, peak_of(asked[i]));
            assert_int_equal(scaled->evidence_steps, COUNT_OF(varied) - 2);
            assert_int_equal(scaled->irregular_bytes, 0);
            assert_true(scaled->error_low > -1e-6 && scaled->error_high < 1e-6);
            vw_plan_scaled_free(scaled);
        }
    record_dispose(&hand);
}

/* Each block of a step is there until its end, so that nothing is used twice: what is reserved is
 * what is live, rounded up by the rules. */
static void what_is_reserved_is_replayed(void **state)
{
    (void)state;
    hand_made_recording hand;
    const vw_recording *recording = record_steps(&hand, varied, COUNT_OF(varied));
    vw_plan_scaling scaling = scaling_of(varied[4], (step_size){32, 2048});
    vw_plan_scaled *scaled;
    const uint64_t most_lost = (UINT64_C(20) << 20) * (COUNT_OF(blocks) + 1);
    scaling.step = 4;
    assert_int_equal(vw_plan_from_recording(recording, &scaling, &scaled), VW_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_true(scaled->reserved_bytes[i] >= scaled->peak_allocated_bytes);
        assert_true(scaled->reserved_bytes[i] - scaled->peak_allocated_bytes < most_lost);
        assert_int_equal(scaled->reserved_bytes[i] % (2 << 20), 0); /* segments, pages */
    }
    vw_plan_scaled_free(scaled);
    scaling.batch = UINT64_C(1) << 24; /* more than any card has */
    assert_int_equal(vw_plan_from_recording(recording, &scaling, &scaled), VW_OK);
    assert_true(scaled->peak_allocated_bytes > UINT64_C(1) << 40);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(scaled->reserved_bytes[i], VW_UNKNOWN);
    vw_plan_scaled_free(scaled);
    record_dispose(&hand);
}

static void the_largest_step_is_taken(void **state)
{
    (void)state;
    hand_made_recording hand;
    const vw_recording *recording = record_steps(&hand, varied, COUNT_OF(varied));
    vw_plan_scaling scaling = scaling_of(varied[4], varied[4]);
    vw_plan_scaled *scaled;
    assert_int_equal(vw_plan_from_recording(recording, &scaling, &scaled), VW_OK);
    assert_int_equal(scaled->scaling.step, 4);
    assert_int_equal(scaled->step_count, COUNT_OF(varied));
    assert_false(scaled->is_card_known);
    vw_plan_scaled_free(scaled);
    record_dispose(&hand);
}

/* The largest batch that fits is the last one whose peak, and the context, the card holds. */
static void a_card_has_a_largest_batch(void **state)
{
    (void)state;
    hand_made_recording hand;
    const vw_recording *recording = record_steps(&hand, varied, COUNT_OF(varied));
    vw_plan_scaling scaling = scaling_of(varied[4], (step_size){40, 512});
    vw_plan_scaled *scaled;
    scaling.card_bytes = 1024 * MIB;
    assert_int_equal(vw_plan_from_recording(recording, &scaling, &scaled), VW_OK);
    uint64_t batch = scaled->largest_batch;
    assert_true(scaled->is_card_known && !scaled->fits && scaled->margin_bytes < 0);
    assert_true(peak_of((step_size){batch, 512}) + scaled->context_bytes <= scaling.card_bytes);
    assert_true(peak_of((step_size){batch + 1, 512}) + scaled->context_bytes > scaling.card_bytes);
    vw_plan_scaled_free(scaled);
    record_dispose(&hand);
}

/* With steps of one size there is nothing to compare: what comes and goes has a row for each
 * token. */
static void steps_of_one_size_say_so(void **state)
{
    (void)state;
    static const step_size same[] = {{4, 128}, {4, 128}, {4, 128}};
    hand_made_recording hand;
    const vw_recording *recording = record_steps(&hand, same, COUNT_OF(same));
    vw_plan_scaling scaling = scaling_of(same[0], (step_size){8, 128});
    vw_plan_scaled *scaled;
    assert_int_equal(vw_plan_from_recording(recording, &scaling, &scaled), VW_OK);
    assert_int_equal(scaled->evidence_steps, 0);
    assert_int_equal(scaled->checked_steps, 0);
    assert_true(scaled->note_count >= 1);
    assert_int_equal(scaled->laws[VW_PLAN_LAW_CONSTANT].bytes, WEIGHTS_BYTES);
    assert_int_equal(scaled->peak_allocated_bytes - WEIGHTS_BYTES,
                     2 * (scaled->now_peak_bytes - WEIGHTS_BYTES));
    vw_plan_scaled_free(scaled);
    record_dispose(&hand);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    static const step_size sizes[] = {{0, 0}, {0, 128}, {UINT64_C(1) << 40, 128}};
    hand_made_recording hand;
    const vw_recording *recording = record_steps(&hand, varied, COUNT_OF(varied));
    vw_plan_scaled *scaled = NULL;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        vw_plan_scaling scaling = scaling_of(varied[4], sizes[i]);
        assert_int_equal(vw_plan_from_recording(recording, &scaling, &scaled),
                         VW_ERR_INVALID_ARGUMENT);
        scaling = scaling_of(sizes[i], varied[4]);
        assert_int_equal(vw_plan_from_recording(recording, &scaling, &scaled),
                         VW_ERR_INVALID_ARGUMENT);
    }
    vw_plan_scaling scaling = scaling_of(varied[4], varied[4]);
    scaling.step = COUNT_OF(varied);
    assert_int_equal(vw_plan_from_recording(recording, &scaling, &scaled), VW_ERR_INVALID_ARGUMENT);
    scaling = scaling_of((step_size){1, 1}, (step_size){1 << 24, 1 << 26});
    assert_int_equal(vw_plan_from_recording(recording, &scaling, &scaled), VW_ERR_UNSUPPORTED);
    assert_null(scaled);
    record_dispose(&hand);
}

static void a_recording_without_steps_is_refused(void **state)
{
    (void)state;
    hand_made_recording hand;
    const vw_recording *recording = record_steps(&hand, NULL, 0);
    vw_plan_scaling scaling = scaling_of(varied[0], varied[1]);
    vw_plan_scaled *scaled;
    assert_int_equal(vw_plan_from_recording(recording, &scaling, &scaled), VW_ERR_UNSUPPORTED);
    record_dispose(&hand);
}

static bool plans(void *context)
{
    vw_plan_scaling scaling = scaling_of(varied[4], (step_size){16, 1024});
    vw_plan_scaled *scaled;
    scaling.card_bytes = 600 * MIB;
    if (vw_plan_from_recording(context, &scaling, &scaled) != VW_OK)
        return false;
    vw_plan_scaled_free(scaled);
    return true;
}

static void host_memory_may_run_out(void **state)
{
    (void)state;
    hand_made_recording hand;
    record_steps(&hand, varied, COUNT_OF(varied));
    vw_test_sweep_host_memory(plans, &hand.recording);
    record_dispose(&hand);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_law_is_found),
        cmocka_unit_test(what_is_reserved_is_replayed),
        cmocka_unit_test(the_largest_step_is_taken),
        cmocka_unit_test(a_card_has_a_largest_batch),
        cmocka_unit_test(steps_of_one_size_say_so),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(a_recording_without_steps_is_refused),
        cmocka_unit_test(host_memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
