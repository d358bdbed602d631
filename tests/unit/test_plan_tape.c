/* test_plan_tape.c - the rules of the tape (docs/design/009-the-planner.md), each by a small graph
 * whose bytes are counted by hand. */
#include "plan/tape.h"

#include <string.h>

#include "plan/op.h"
#include "plan/plan_run.h"
#include "plan/tape_parts.h"

#include "support/cmocka_here.h"

enum {
    ELEMENTS = 1024,
    ONE = 4 * ELEMENTS, /* bytes of a float32 tensor of these */
    SMALL = 512,        /* bytes that a scalar takes */
};

static vw__tape *new_tape(void)
{
    vw__tape *tape = NULL;
    assert_int_equal(vw__tape_create(NULL, &tape), VW_OK);
    return tape;
}

static vw__tensor new_parameter(vw__tape *tape)
{
    return vw__tape_parameter(tape, ELEMENTS, VW__DTYPE_FLOAT32, true);
}

static vw__tensor new_tensor(vw__tape *tape)
{
    return vw__tensor_new(tape, ELEMENTS, VW__DTYPE_FLOAT32);
}

/* The mean of x, which is taken over, as a loss; what is live then is where peaks begin. */
static vw__tensor loss_of(vw__tape *tape, vw__tensor x)
{
    vw__tensor loss = vw__op_mean(tape, x, 1);
    vw__tensor_drop(tape, &x);
    vw__tape_reset_peak(tape);
    return loss;
}

static void expect_peak(vw__tape *tape, uint64_t bytes)
{
    assert_int_equal(vw__tape_status(tape), VW_OK);
    assert_int_equal(vw__tape_get_peak(tape).live_bytes, bytes);
}

static void expect_live(vw__tape *tape, uint64_t bytes)
{
    assert_int_equal(vw__tape_status(tape), VW_OK);
    assert_int_equal(vw__tape_live_bytes(tape), bytes);
}

/* ---- 1 and 2: holders ------------------------------------------------------------------------ */

static void a_storage_is_rounded_and_lives_from_its_first_holder_to_its_last(void **state)
{
    (void)state;
    vw__tape *tape = new_tape();
    vw__tensor x = vw__tensor_new(tape, 1, VW__DTYPE_BYTE);
    expect_live(tape, 512);
    vw__tensor y = vw__tensor_new(tape, 513, VW__DTYPE_BOOL);
    expect_live(tape, 512 + 1024);
    vw__tensor again = vw__tensor_hold(tape, y);
    vw__tensor_drop(tape, &y);
    expect_live(tape, 512 + 1024);
    vw__tensor_drop(tape, &again);
    vw__tensor_drop(tape, &x);
    expect_live(tape, 0);
    expect_peak(tape, 512 + 1024);
    vw__tape_destroy(tape);
}

static void an_operator_borrows_and_its_result_is_held_once(void **state)
{
    (void)state;
    vw__tape *tape = new_tape();
    vw__tensor x = new_tensor(tape);
    vw__tensor y = vw__op_tanh(tape, x);
    expect_live(tape, 2 * ONE);
    vw__tensor_drop(tape, &x);
    expect_live(tape, ONE);
    vw__tensor_drop(tape, &y);
    expect_live(tape, 0);
    vw__tape_destroy(tape);
}

/* ---- 3: what is saved ------------------------------------------------------------------------ */

static void a_product_saves_an_operand_only_if_the_other_wants_a_gradient(void **state)
{
    (void)state;
    vw__tape *tape = new_tape();
    vw__tensor weight = new_parameter(tape), other = new_parameter(tape);
    vw__tensor x = new_tensor(tape);
    vw__tensor y = vw__op_mul(tape, weight, x); /* saves x, not the weight */
    vw__tensor_drop(tape, &x);
    expect_live(tape, 4 * ONE);
    vw__tensor z = vw__op_mul(tape, y, other); /* saves y, and the other */
    vw__tensor_drop(tape, &y);
    expect_live(tape, 5 * ONE);
    vw__tape_drop_graph(tape);
    expect_live(tape, 3 * ONE); /* two weights, and z */
    vw__tensor_drop(tape, &z);
    vw__tape_destroy(tape);
}

static void without_gradients_nothing_is_saved(void **state)
{
    (void)state;
    vw__tape *tape = new_tape();
    vw__tensor weight = new_parameter(tape);
    vw__tensor x = new_tensor(tape);
    assert_true(vw__tape_set_grad(tape, false));
    vw__tensor y = vw__op_mul(tape, weight, x);
    assert_false(vw__tensor_wants_gradient(y));
    vw__tensor_drop(tape, &x);
    expect_live(tape, 2 * ONE);
    assert_false(vw__tape_set_grad(tape, true));
    vw__tensor_drop(tape, &y);
    vw__tape_destroy(tape);
}

/* ---- 4: a node that runs --------------------------------------------------------------------- */

static void a_node_drops_its_gradients_and_saved_tensors_when_it_has_run(void **state)
{
    (void)state;
    vw__tape *tape = new_tape();
    vw__tensor weight = new_parameter(tape);
    vw__tensor a = vw__op_tanh(tape, weight); /* saved */
    vw__tensor b = vw__op_tanh(tape, a);      /* saved */
    vw__tensor_drop(tape, &a);
    vw__tensor loss = loss_of(tape, b);
    expect_live(tape, 3 * ONE + SMALL);
    vw__tape_backward(tape, loss);
    expect_peak(tape, 5 * ONE + SMALL); /* weight, a, b, and the gradients of b and a */
    expect_live(tape, 2 * ONE + SMALL); /* weight, and its gradient */
    assert_int_equal(vw__tape_live_of(tape, VW__TAPE_USE_GRADIENTS), ONE);
    vw__tape_drop_gradients(tape);
    expect_live(tape, ONE + SMALL);
    vw__tensor_drop(tape, &loss);
    vw__tape_destroy(tape);
}

/* ---- 5: gradients that meet ------------------------------------------------------------------ */

static void a_second_gradient_is_added_in_place_if_nobody_else_holds_the_first(void **state)
{
    (void)state;
    vw__tape *tape = new_tape();
    vw__tensor weight = new_parameter(tape), x = vw__op_mul_scalar(tape, weight);
    vw__tensor u = vw__op_mean(tape, x, 1), v = vw__op_mean(tape, x, 1);
    vw__tensor loss = vw__op_add(tape, u, v);
    vw__tensor_drop(tape, &v);
    vw__tensor_drop(tape, &u);
    vw__tensor_drop(tape, &x);
    expect_live(tape,
                ONE + SMALL); /* weight and loss: means and products with a number save nothing */
    vw__tape_reset_peak(tape);
    vw__tape_backward(tape, loss);
    /* weight, loss and its gradient, u's and v's for x: their sum is not made beside them */
    expect_peak(tape, 3 * ONE + 2 * SMALL);
    expect_live(tape, 2 * ONE + SMALL);
    vw__tensor_drop(tape, &loss);
    vw__tape_destroy(tape);
}

static void a_shared_gradient_is_added_into_a_new_tensor(void **state)
{
    (void)state;
    vw__tape *tape = new_tape();
    vw__tensor weight = new_parameter(tape);
    vw__tensor x = vw__op_add_scalar(tape, weight);
    vw__tensor u = vw__op_add_scalar(tape, x), v = vw__op_add_scalar(tape, x);
    vw__tensor sum = vw__op_add(tape, u, v);
    vw__tensor_drop(tape, &v);
    vw__tensor_drop(tape, &u);
    vw__tensor_drop(tape, &x);
    vw__tensor loss = loss_of(tape, sum);
    expect_live(tape, ONE + SMALL); /* additions save nothing */
    vw__tape_backward(tape, loss);
    expect_peak(tape, 3 * ONE + SMALL); /* weight, the one gradient, and twice it */
    expect_live(tape, 2 * ONE + SMALL);
    vw__tensor_drop(tape, &loss);
    vw__tape_destroy(tape);
}

/* cat() hands on parts of one gradient: the second makes a sum of the part's own size. */
static void a_part_of_a_gradient_is_added_into_a_tensor_of_its_size(void **state)
{
    (void)state;
    vw__tape *tape = new_tape();
    vw__tensor parameters[] = {new_parameter(tape), new_parameter(tape)}, parts[2];
    for (size_t i = 0; i < 2; i++)
        parts[i] = vw__op_mul_scalar(tape, parameters[i]);
    vw__tensor first = vw__op_cat(tape, parts, 2), second = vw__op_cat(tape, parts, 2);
    vw__tensor sum = vw__op_add(tape, first, second);
    vw__tensor_drop(tape, &second);
    vw__tensor_drop(tape, &first);
    for (size_t i = 0; i < 2; i++)
        vw__tensor_drop(tape, &parts[i]);
    vw__tensor loss = loss_of(tape, sum);
    expect_live(tape, 2 * ONE + SMALL);
    vw__tape_backward(tape, loss);
    /* Weights and loss; what both cat() hand on, and a sum for each part. */
    expect_peak(tape, 2 * ONE + SMALL + 2 * ONE + 2 * ONE);
    vw__tensor_drop(tape, &loss);
    vw__tape_destroy(tape);
}

static void a_gradient_is_taken_over_or_copied_where_another_holds_it(void **state)
{
    (void)state;
    vw__tape *tape = new_tape();
    vw__tensor weight = new_parameter(tape), other = new_parameter(tape);
    vw__tensor loss = loss_of(tape, vw__op_add(tape, weight, other));
    vw__tape_backward(tape, loss);
    expect_peak(tape, 4 * ONE + SMALL); /* one copies, the other takes over */
    expect_live(tape, 4 * ONE + SMALL);
    vw__tensor_drop(tape, &loss);
    vw__tape_destroy(tape);

    tape = new_tape();
    weight = new_parameter(tape);
    loss = loss_of(tape, vw__op_mul_scalar(tape, weight));
    vw__tape_backward(tape, loss);
    expect_peak(tape, 3 * ONE + SMALL); /* weight, the product's gradient, and the weight's own */
    expect_live(tape, 2 * ONE + SMALL);
    vw__tensor_drop(tape, &loss);
    vw__tape_destroy(tape);
}

static void the_gradient_of_a_second_backward_pass_is_added_to_the_first(void **state)
{
    (void)state;
    vw__tape *tape = new_tape();
    vw__tensor weight = new_parameter(tape);
    for (unsigned i = 0; i < 2; i++) {
        vw__tensor loss = loss_of(tape, vw__op_mul_scalar(tape, weight));
        vw__tape_backward(tape, loss);
        expect_peak(tape, (3 + i) * ONE + SMALL);
        vw__tensor_drop(tape, &loss);
        expect_live(tape, 2 * ONE);
    }
    vw__tape_destroy(tape);
}

/* A weight that is used twice has its gradient when both uses have brought theirs. */
static void a_shared_weight_waits_for_all_of_its_gradients(void **state)
{
    (void)state;
    vw__tape *tape = new_tape();
    vw__tensor weight = new_parameter(tape);
    vw__tensor x = vw__op_mul_scalar(tape, weight);
    vw__tensor y = vw__op_mul(tape, x, weight); /* saves both: the weight, and x */
    vw__tensor_drop(tape, &x);
    vw__tensor loss = loss_of(tape, y);
    vw__tape_backward(tape, loss);
    /* weight, x, y's gradient, x's, the weight's; then x's again, and the weight's second */
    expect_peak(tape, 5 * ONE + SMALL);
    expect_live(tape, 2 * ONE + SMALL);
    vw__tensor_drop(tape, &loss);
    vw__tape_destroy(tape);
}

static void a_node_without_a_gradient_does_not_delay_the_others(void **state)
{
    (void)state;
    vw__tape *tape = new_tape();
    vw__tensor weight = new_parameter(tape);
    vw__tensor unused = vw__op_tanh(tape, weight);
    vw__tensor loss = loss_of(tape, vw__op_mul_scalar(tape, weight));
    vw__tensor_drop(tape, &unused);
    vw__tape_backward(tape, loss);
    assert_int_equal(vw__tape_live_of(tape, VW__TAPE_USE_GRADIENTS), ONE);
    expect_live(tape, 2 * ONE + SMALL);
    vw__tensor_drop(tape, &loss);
    vw__tape_destroy(tape);
}

/* ---- 6: autocast ----------------------------------------------------------------------------- */

enum { WIDTH = 32, HALF = ONE / 2 }; /* WIDTH * WIDTH elements; the same in bfloat16 */

static void a_trained_weight_is_cast_once_in_a_region(void **state)
{
    (void)state;
    vw__tape *tape = new_tape();
    const vw__op_linear_weights module = {new_parameter(tape), vw__tensor_none(), WIDTH, WIDTH};
    vw__tensor x = new_tensor(tape);
    vw__tape_autocast_enter(tape, VW__DTYPE_BFLOAT16);
    vw__tensor y = vw__op_linear(tape, x, &module), z = vw__op_linear(tape, x, &module);
    assert_int_equal(y.dtype, VW__DTYPE_BFLOAT16);
    /* x and the weight; the weight in bfloat16; x in bfloat16, saved twice; y and z */
    expect_live(tape, 2 * ONE + HALF + 2 * HALF + 2 * HALF);
    vw__tape_autocast_leave(tape);
    expect_live(tape, 2 * ONE + 2 * HALF + 2 * HALF);
    vw__tensor_drop(tape, &z);
    vw__tensor_drop(tape, &y);
    vw__tensor_drop(tape, &x);
    vw__tape_destroy(tape);
}

/* A search along all casts would take the square of a model's layers. */
static void a_weight_knows_the_place_of_its_cast(void **state)
{
    (void)state;
    enum { WEIGHTS = 100 };
    vw__tape *tape = new_tape();
    vw__tensor weights[WEIGHTS], casts[WEIGHTS];
    for (size_t i = 0; i < WEIGHTS; i++)
        weights[i] = new_parameter(tape);
    vw__tape_autocast_enter(tape, VW__DTYPE_BFLOAT16);
    for (size_t i = WEIGHTS; i-- > 0;)
        casts[i] = vw__op_autocast_lower(tape, weights[i]);
    for (size_t i = 0; i < WEIGHTS; i++) {
        assert_int_equal(tape->leaves.items[weights[i].source.node].cast, WEIGHTS - i);
        vw__tensor again = vw__op_autocast_lower(tape, weights[i]);
        assert_int_equal(again.storage, casts[i].storage);
        vw__tensor_drop(tape, &again);
        vw__tensor_drop(tape, &casts[i]);
    }
    vw__tape_autocast_leave(tape);
    for (size_t i = 0; i < WEIGHTS; i++)
        assert_int_equal(tape->leaves.items[weights[i].source.node].cast, 0);
    vw__tape_destroy(tape);
}

static void a_cast_weight_that_was_saved_outlives_its_region(void **state)
{
    (void)state;
    vw__tape *tape = new_tape();
    const vw__op_linear_weights module = {new_parameter(tape), vw__tensor_none(), WIDTH, WIDTH};
    vw__tensor weight = new_parameter(tape);
    vw__tensor x =
        vw__op_mul_scalar(tape, weight); /* wants a gradient: the product saves its weight */
    vw__tape_autocast_enter(tape, VW__DTYPE_BFLOAT16);
    vw__tensor y = vw__op_linear(tape, x, &module);
    vw__tensor_drop(tape, &x);
    vw__tape_autocast_leave(tape);
    expect_live(tape, 2 * ONE + HALF + HALF + HALF); /* weights; x, the weight, and y in bfloat16 */
    vw__tensor_drop(tape, &y);
    vw__tape_destroy(tape);
}

static void a_frozen_weight_is_cast_at_each_use(void **state)
{
    (void)state;
    vw__tape *tape = new_tape();
    const vw__op_linear_weights module = {
        vw__tape_parameter(tape, ELEMENTS, VW__DTYPE_FLOAT32, false), vw__tensor_none(), WIDTH,
        WIDTH};
    vw__tensor x = new_tensor(tape);
    vw__tape_autocast_enter(tape, VW__DTYPE_BFLOAT16);
    vw__tensor y = vw__op_linear(tape, x, &module);
    expect_live(tape, 2 * ONE + HALF);
    expect_peak(tape, 2 * ONE + 3 * HALF);
    vw__tape_autocast_leave(tape);
    vw__tensor_drop(tape, &y);
    vw__tensor_drop(tape, &x);
    vw__tape_destroy(tape);
}

/* ---- 7: checkpoints -------------------------------------------------------------------------- */

enum { WIDE = 4 }; /* times as many */

/* tanh, tanh, and a product to WIDE times the elements, with a frozen weight. */
static vw__tensor checkpointed_part(vw__tape *tape, void *context, vw__tensor x)
{
    vw__tensor a = vw__op_tanh(tape, x);
    vw__tensor_rebind(tape, &a, vw__op_tanh(tape, a));
    vw__tensor_rebind(tape, &a, vw__op_linear(tape, a, context));
    return a;
}

static void a_checkpoint_runs_again_and_stops_with_the_last_thing_saved(void **state)
{
    (void)state;
    vw__tape *tape = new_tape();
    vw__op_linear_weights frozen = {
        .weight = vw__tape_parameter(tape, WIDE * ELEMENTS, VW__DTYPE_FLOAT32, false),
        .bias = vw__tensor_none(),
        .in = WIDTH,
        .out = WIDE * WIDTH};
    vw__tensor weight = new_parameter(tape);
    vw__tensor x = vw__op_tanh(tape, weight);
    vw__tensor y = vw__tape_checkpoint(tape, checkpointed_part, &frozen, x);
    vw__tensor_drop(tape, &x);
    vw__tensor loss = loss_of(tape, y);
    expect_live(tape, (WIDE + 2) * ONE + SMALL); /* both weights, and x */
    vw__tape_backward(tape, loss);
    /* Weights and x; y's gradient; both results of tanh again, but not y; then the gradient of the
     * last tanh. */
    expect_peak(tape, (WIDE + 2) * ONE + WIDE * ONE + 2 * ONE + ONE + SMALL);
    expect_live(tape, (WIDE + 2) * ONE + SMALL);
    vw__tensor_drop(tape, &loss);
    vw__tape_destroy(tape);
}

static void the_inputs_of_a_checkpoint_are_held_until_the_graph_is_gone(void **state)
{
    (void)state;
    for (int has_checkpoint = 0; has_checkpoint < 2; has_checkpoint++) {
        vw__tape *tape = new_tape();
        vw__op_linear_weights module = {new_parameter(tape), vw__tensor_none(), WIDTH, WIDTH};
        vw__tensor x = vw__op_mul_scalar(tape, module.weight), table = new_tensor(tape);
        vw__tensor y = has_checkpoint ? vw__tape_checkpoint(tape, checkpointed_part, &module, x)
                                      : vw__tensor_hold(tape, x);
        vw__tensor_drop(tape, &x);
        uint64_t before = vw__tape_live_bytes(tape);
        vw__tape_drop_with_graph(tape, table);
        expect_live(tape, has_checkpoint ? before : before - ONE);
        vw__tensor loss = loss_of(tape, y);
        vw__tape_backward(tape, loss);
        expect_live(tape, 2 * ONE + SMALL); /* a weight, and its gradient */
        vw__tensor_drop(tape, &loss);
        vw__tape_destroy(tape);
    }
}

/* ---- attention: which kernel, and what it keeps ---------------------------------------------- */

enum { HEADS = 4, LENGTH = 64, HEAD_WIDTH = 16, PAIRS = HEADS * LENGTH * LENGTH };

/* Bytes that one attention keeps for its derivative, with the query alone to be trained. */
static uint64_t kept_by_attention(vw__dtype dtype, bool has_mask, bool is_mask_strided)
{
    const vw__op_attention_shape shape = {.batch = 1,
                                          .heads = HEADS,
                                          .key_heads = HEADS,
                                          .length = LENGTH,
                                          .key_length = LENGTH,
                                          .width = HEAD_WIDTH,
                                          .is_mask_strided = is_mask_strided};
    vw__tape *tape = new_tape();
    vw__tensor query = vw__tape_parameter(tape, HEADS * LENGTH * HEAD_WIDTH, dtype, true);
    vw__tensor key = vw__tensor_new(tape, query.elements, dtype);
    vw__tensor value = vw__tensor_new(tape, query.elements, dtype);
    vw__tensor mask = has_mask ? vw__tensor_new(tape, PAIRS, dtype) : vw__tensor_none();
    uint64_t before = vw__tape_live_bytes(tape);
    vw__tensor made = vw__op_attention(tape, query, key, value, mask, &shape);
    uint64_t kept = vw__tape_live_bytes(tape) - before;
    assert_int_equal(vw__tape_status(tape), VW_OK);
    vw__tensor_drop(tape, &made);
    vw__tape_destroy(tape);
    return kept;
}

static void a_mask_whose_rows_are_not_in_order_has_no_fused_kernel(void **state)
{
    (void)state;
    uint64_t result = UINT64_C(4) * HEADS * LENGTH * HEAD_WIDTH,
             sums = UINT64_C(4) * HEADS * LENGTH;
    assert_int_equal(kept_by_attention(VW__DTYPE_FLOAT32, false, false), result + sums);
    assert_int_equal(kept_by_attention(VW__DTYPE_FLOAT32, true, false), result + sums);
    assert_int_equal(kept_by_attention(VW__DTYPE_BFLOAT16, true, false), result / 2 + sums);
    /* The result, the scaled key, and all probabilities. */
    assert_int_equal(kept_by_attention(VW__DTYPE_FLOAT32, true, true), 2 * result + 4 * PAIRS);
}

/* ---- sums of rows ---------------------------------------------------------------------------- */

/* What the backward pass of a product with nothing but a bias to train takes. */
static uint64_t peak_of_bias(uint64_t rows, uint64_t columns)
{
    vw__tape *tape = new_tape();
    vw__op_linear_weights module = {
        .weight = vw__tape_parameter(tape, columns, VW__DTYPE_FLOAT32, false),
        .bias = vw__tape_parameter(tape, columns, VW__DTYPE_FLOAT32, true),
        .in = 1,
        .out = columns};
    vw__tensor x = vw__tensor_new(tape, rows, VW__DTYPE_FLOAT32);
    vw__tensor loss = loss_of(tape, vw__op_linear(tape, x, &module));
    vw__tensor_drop(tape, &x);
    vw__tape_reset_peak(tape);
    uint64_t before = vw__tape_live_bytes(tape);
    vw__tape_backward(tape, loss);
    uint64_t peak = vw__tape_get_peak(tape).live_bytes - before;
    vw__tensor_drop(tape, &loss);
    vw__tape_destroy(tape);
    return peak;
}

/* The buffers were seen in recordings of GPT-2 (4096 rows) and T5 (2208 rows). */
static void the_gradient_of_a_bias_needs_a_buffer_where_rows_are_many(void **state)
{
    (void)state;
    static const struct {
        uint64_t rows, columns, buffer_bytes;
    } seen[] = {
        {4096, 768, 24 << 20}, {4096, 2304, 72 << 20}, {4096, 3072, 96 << 20},
        {2208, 512, 9175040},  {512, 768, 0},
    };
    for (size_t i = 0; i < sizeof seen / sizeof seen[0]; i++) {
        uint64_t gradient = 4 * seen[i].rows * seen[i].columns;
        uint64_t result = 4 * seen[i].columns;
        assert_int_equal(peak_of_bias(seen[i].rows, seen[i].columns),
                         gradient + result + seen[i].buffer_bytes);
    }
}

/* ---- failures -------------------------------------------------------------------------------- */

static void sizes_beyond_an_address_space_are_refused(void **state)
{
    (void)state;
    vw__tape *tape = new_tape();
    vw__tensor x = vw__tensor_new(tape, UINT64_MAX, VW__DTYPE_FLOAT32);
    assert_false(vw__tensor_exists(x));
    assert_int_equal(vw__tape_status(tape), VW_ERR_UNSUPPORTED);
    x = vw__tensor_new(tape, 1, VW__DTYPE_FLOAT32); /* it sticks */
    assert_false(vw__tensor_exists(x));
    vw__tape_destroy(tape);

    tape = new_tape();
    assert_int_equal(vw__tape_times(tape, 3, 4), 12);
    assert_int_equal(vw__tape_status(tape), VW_OK);
    (void)vw__tape_times(tape, UINT64_C(1) << 33, UINT64_C(1) << 33);
    assert_int_equal(vw__tape_status(tape), VW_ERR_UNSUPPORTED);
    vw__tape_destroy(tape);
}

/* ---- limits ---------------------------------------------------------------------------------- */

enum { TOO_MANY = UINT16_MAX + 1 };

static void expect_too_many(vw__tape *tape, const char *words)
{
    assert_int_equal(vw__tape_status(tape), VW_ERR_UNSUPPORTED);
    assert_non_null(strstr(vw_last_error(), words));
    vw__tape_destroy(tape);
}

/* Each brings one of its gradients; one more has no number of its own. */
static void arguments_of_an_operator_are_limited(void **state)
{
    (void)state;
    static vw__tensor arguments[TOO_MANY];
    for (size_t count = TOO_MANY - 1; count <= TOO_MANY; count++) {
        vw__tape *tape = new_tape();
        for (size_t i = 0; i < count; i++)
            arguments[i] = vw__tape_parameter(tape, 1, VW__DTYPE_FLOAT32, true);
        vw__node_begin(tape, arguments, count);
        for (size_t i = 0; i < count; i++)
            vw__node_take_for(tape, i, 1, VW__DTYPE_FLOAT32);
        vw__tensor x = new_tensor(tape);
        vw__node_end(tape, &x, 1);
        if (count == TOO_MANY) {
            expect_too_many(tape, "an operator of the step has more than 65535 arguments");
            continue;
        }
        vw__tensor loss = loss_of(tape, x);
        vw__tape_backward(tape, loss);
        vw__tensor_drop(tape, &loss);
        expect_live(tape, 2 * count * (uint64_t)SMALL); /* each has its gradient */
        vw__tape_destroy(tape);
    }
}

static void a_tape_keeps_to_its_limit_of_host_memory(void **state)
{
    (void)state;
    vw__tape *tape = new_tape();
    tape->limit_bytes = 1 << 20;
    for (size_t i = 0; i < TOO_MANY; i++)
        (void)new_parameter(tape);
    assert_true(tape->held_bytes <= tape->limit_bytes);
    expect_too_many(tape,
                    "the model is too large to plan: running it would take more than 1.00 MiB "
                    "of host memory");
}

/* What is handed out instead can be written to, up to a page. */
static void modules_keep_to_their_limit_of_host_memory(void **state)
{
    (void)state;
    vw__plan_run run = {.tape = new_tape()};
    vw__arena_init(&run.arena, 64 << 10);
    char *fits = vw__module_alloc(&run, 1, 32 << 10);
    assert_non_null(fits);
    assert_int_equal(vw__tape_status(run.tape), VW_OK);
    char *more = vw__module_alloc(&run, 1, 64 << 10);
    more[0] = 1;
    vw__arena_deinit(&run.arena);
    expect_too_many(run.tape, "would take more than 64.0 KiB of host memory");
}

static void results_of_an_operator_are_limited(void **state)
{
    (void)state;
    static vw__tensor results[TOO_MANY];
    vw__tape *tape = new_tape();
    vw__tensor weight = new_parameter(tape);
    vw__node_begin(tape, &weight, 1);
    vw__node_end(tape, results, TOO_MANY);
    expect_too_many(tape, "an operator of the step has more than 65535 results");
    tape = new_tape();
    weight = new_parameter(tape);
    vw__node_begin(tape, &weight, 1);
    for (size_t i = 0; i < TOO_MANY; i++)
        (void)vw__node_take(tape, 1, VW__DTYPE_FLOAT32);
    expect_too_many(tape, "an operator of the step has more than 65535 results in its derivative");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_storage_is_rounded_and_lives_from_its_first_holder_to_its_last),
        cmocka_unit_test(an_operator_borrows_and_its_result_is_held_once),
        cmocka_unit_test(a_product_saves_an_operand_only_if_the_other_wants_a_gradient),
        cmocka_unit_test(without_gradients_nothing_is_saved),
        cmocka_unit_test(a_node_drops_its_gradients_and_saved_tensors_when_it_has_run),
        cmocka_unit_test(a_second_gradient_is_added_in_place_if_nobody_else_holds_the_first),
        cmocka_unit_test(a_shared_gradient_is_added_into_a_new_tensor),
        cmocka_unit_test(a_part_of_a_gradient_is_added_into_a_tensor_of_its_size),
        cmocka_unit_test(a_gradient_is_taken_over_or_copied_where_another_holds_it),
        cmocka_unit_test(the_gradient_of_a_second_backward_pass_is_added_to_the_first),
        cmocka_unit_test(a_shared_weight_waits_for_all_of_its_gradients),
        cmocka_unit_test(a_node_without_a_gradient_does_not_delay_the_others),
        cmocka_unit_test(a_trained_weight_is_cast_once_in_a_region),
        cmocka_unit_test(a_weight_knows_the_place_of_its_cast),
        cmocka_unit_test(a_cast_weight_that_was_saved_outlives_its_region),
        cmocka_unit_test(a_frozen_weight_is_cast_at_each_use),
        cmocka_unit_test(a_checkpoint_runs_again_and_stops_with_the_last_thing_saved),
        cmocka_unit_test(the_inputs_of_a_checkpoint_are_held_until_the_graph_is_gone),
        cmocka_unit_test(a_mask_whose_rows_are_not_in_order_has_no_fused_kernel),
        cmocka_unit_test(the_gradient_of_a_bias_needs_a_buffer_where_rows_are_many),
        cmocka_unit_test(sizes_beyond_an_address_space_are_refused),
        cmocka_unit_test(arguments_of_an_operator_are_limited),
        cmocka_unit_test(a_tape_keeps_to_its_limit_of_host_memory),
        cmocka_unit_test(modules_keep_to_their_limit_of_host_memory),
        cmocka_unit_test(results_of_an_operator_are_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
