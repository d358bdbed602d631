/* optimizer_matrix.c - optimizers that work on the matrices inside of a model: Muon, which makes
 * their updates orthogonal, and GaLore and APOLLO, which keep AdamW's state in a space of low rank.
 *
 * Vectors, embeddings and the head are AdamW's, as their authors have it. A step goes matrix by
 * matrix, and all of its temporaries are of one matrix. GaLore finds its space anew every 200
 * steps; the planned step is such a one, since memory must suffice for it. */
#include "plan/optimizer_parts.h"

enum { LOW_RANK = 128 }; /* of transformers' Trainer, for GaLore and for APOLLO */

typedef struct sides {
    uint64_t small, large;
} sides;

static sides sides_of(const vw__plan_stepped *item)
{
    const uint64_t rows = item->matrix.rows, width = item->matrix.width;
    return rows < width ? (sides){rows, width} : (sides){width, rows};
}

/* A table of words, positions or kinds of tokens is a matrix too, and none of these. */
static bool is_inner_matrix(const vw__plan_run *run, const vw__plan_stepped *item)
{
    const vw__plan_embedding *tables = &run->model->shape.embedding;
    const uint64_t rows = item->matrix.rows;
    return rows > 0 && item->matrix.width > 0 && rows != tables->vocabulary &&
           rows != tables->positions && rows != tables->token_types &&
           item->elements == rows * item->matrix.width;
}

static uint64_t low_rank(sides of)
{
    return of.small < LOW_RANK ? of.small : LOW_RANK;
}

/* ---- state ----------------------------------------------------------------------------------- */

/* GaLore's float32 space is a view of all that the decomposition made; a 16-bit one is a copy. */
static uint64_t space_elements(const vw__plan_run *run, const vw__plan_stepped *item)
{
    const sides of = sides_of(item);
    const bool is_view =
        run->settings->optimizer == VW_OPTIMIZER_GALORE && item->dtype == VW__DTYPE_FLOAT32;
    return vw__tape_times(run->tape, of.small, is_view ? of.small : low_rank(of));
}

void vw__plan_optimizer_keep_matrix(vw__plan_run *run, const vw__plan_stepped *item)
{
    const sides of = sides_of(item);
    if (!is_inner_matrix(run, item)) {
        vw__plan_optimizer_keep_like(run, item, 2);
    } else if (run->settings->optimizer == VW_OPTIMIZER_MUON) {
        vw__plan_optimizer_keep_like(run, item, 1);
    } else {
        const uint64_t elements = vw__tape_times(run->tape, of.large, low_rank(of));
        vw__plan_optimizer_keep(run, space_elements(run, item), item->dtype);
        vw__plan_optimizer_keep(run, elements, item->dtype);
        vw__plan_optimizer_keep(run, elements, item->dtype);
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Tensors that are there at once, in this order. */
typedef struct heap {
    vw__tensor tensors[8];
    size_t count;
} heap;

static void take(vw__plan_run *run, heap *of, uint64_t elements, vw__dtype dtype)
{
    of->tensors[of->count++] = vw__tensor_new(run->tape, elements, dtype);
}

static void drop_all(vw__plan_run *run, heap *of)
{
    while (of->count > 0)
        vw__tensor_drop(run->tape, &of->tensors[--of->count]);
}

/* torch.optim.Muon: grad.lerp(), and in bf16 X @ X.T, its polynomial and a*X + B@X, each product
 * and each multiple a tensor of its own. */
static void step_muon(vw__plan_run *run, const vw__plan_stepped *item)
{
    heap held = {.count = 0}, made = {.count = 0};
    const sides of = sides_of(item);
    const uint64_t square = vw__tape_times(run->tape, of.small, of.small);
    take(run, &held, item->elements, item->dtype); /* the update */
    if (item->dtype != VW__DTYPE_BFLOAT16)
        take(run, &held, item->elements, VW__DTYPE_BFLOAT16);
    for (unsigned i = 0; i < 4; i++) /* gram, b * gram, c * gram @ gram, and their sum */
        take(run, &made, square, VW__DTYPE_BFLOAT16);
    drop_all(run, &made);
    take(run, &held, square, VW__DTYPE_BFLOAT16); /* gram, and the sum */
    take(run, &held, square, VW__DTYPE_BFLOAT16);
    for (unsigned i = 0; i < 3; i++) /* a * X, B @ X, and their sum */
        take(run, &made, item->elements, VW__DTYPE_BFLOAT16);
    drop_all(run, &made);
    drop_all(run, &held);
}

/* torch.linalg.svd() of a float32 matrix: its factors, and the copy that they are computed in. */
static void find_space(vw__plan_run *run, const vw__plan_stepped *item)
{
    heap made = {.count = 0};
    const sides of = sides_of(item);
    if (item->dtype != VW__DTYPE_FLOAT32)
        take(run, &made, item->elements, VW__DTYPE_FLOAT32);
    take(run, &made, item->elements, VW__DTYPE_FLOAT32); /* the copy */
    take(run, &made, item->elements, VW__DTYPE_FLOAT32); /* the factor of the long side */
    take(run, &made, vw__tape_times(run->tape, of.small, of.small), VW__DTYPE_FLOAT32);
    drop_all(run, &made);
}

/* The gradient in the space, the root and the quotient there; then two in full: GaLore multiplies
 * what comes back, APOLLO scales the gradient itself, and limits that. */
static void step_low_rank(vw__plan_run *run, const vw__plan_stepped *item)
{
    heap made = {.count = 0};
    const sides of = sides_of(item);
    if (run->settings->optimizer == VW_OPTIMIZER_GALORE)
        find_space(run, item);
    for (unsigned i = 0; i < 3; i++)
        take(run, &made, vw__tape_times(run->tape, of.large, low_rank(of)), item->dtype);
    take(run, &made, item->elements, item->dtype);
    take(run, &made, item->elements, item->dtype);
    drop_all(run, &made);
}

/* AdamW, tensor by tensor. */
static void step_other(vw__plan_run *run, const vw__plan_stepped *item)
{
    heap made = {.count = 0};
    take(run, &made, item->elements, item->dtype);
    take(run, &made, item->elements, item->dtype);
    drop_all(run, &made);
}

void vw__plan_optimizer_step_matrices(vw__plan_run *run, const vw__plan_optimizer *optimizer)
{
    for (size_t i = 0; i < optimizer->count && vw__tape_status(run->tape) == VW_OK; i++) {
        const vw__plan_stepped *item = &optimizer->items[i];
        if (!is_inner_matrix(run, item))
            step_other(run, item);
        else if (run->settings->optimizer == VW_OPTIMIZER_MUON)
            step_muon(run, item);
        else
            step_low_rank(run, item);
    }
}
