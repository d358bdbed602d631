/* op.h - operators: what each makes, what its derivative saves and what that makes.
 *
 * One function for each operator of PyTorch, named as there. What an operator saves and allocates
 * is PyTorch's own (derivatives.yaml, the CUDA kernels' wrappers); docs/design/009-the-planner.md
 * has the table. Inside an autocast region operators cast their arguments as autocast's lists say.
 */
#ifndef HR_PLAN_OP_H
#define HR_PLAN_OP_H

#include "plan/tape.h"

/* ---- types (op_cast.c) ----------------------------------------------------------------------- */

/* x.to(dtype): the same tensor where it has it already. */
hr__tensor hr__to(hr__tape *tape, hr__tensor x, hr__dtype dtype);

/* As an operator of autocast's lower-precision list takes its argument; of its float32 list. */
hr__tensor hr__autocast_lower(hr__tape *tape, hr__tensor x);
hr__tensor hr__autocast_float32(hr__tape *tape, hr__tensor x);

/* ---- elementwise (op_pointwise.c) ------------------------------------------------------------ */

hr__tensor hr__add(hr__tape *tape, hr__tensor a, hr__tensor b);     /* of one size, or b repeats */
void hr__add_in_place(hr__tape *tape, hr__tensor *a, hr__tensor b); /* a.add_(b); b may repeat */
hr__tensor hr__mul(hr__tape *tape, hr__tensor a, hr__tensor b);     /* of one size, or b repeats */
hr__tensor hr__mul_rows(hr__tape *tape, hr__tensor x, hr__tensor weight); /* every row of x */
hr__tensor hr__where(hr__tape *tape, hr__tensor condition, hr__tensor x); /* else a number */
hr__tensor hr__mul_scalar(hr__tape *tape, hr__tensor x);
hr__tensor hr__add_scalar(hr__tape *tape, hr__tensor x);
hr__tensor hr__pow(hr__tape *tape, hr__tensor x);                     /* x ** n, n > 2 */
hr__tensor hr__square(hr__tape *tape, hr__tensor x);                  /* x.pow(2) */
hr__tensor hr__rsqrt(hr__tape *tape, hr__tensor x);                   /* saves its result */
hr__tensor hr__mean(hr__tape *tape, hr__tensor x, uint64_t elements); /* of rows, to `elements` */
hr__tensor hr__sum(hr__tape *tape, hr__tensor x, uint64_t elements);  /* its gradient is a view */
void hr__cap(hr__tape *tape, hr__tensor *x);             /* x = tanh(x / cap) * cap, line by line */
hr__tensor hr__tanh(hr__tape *tape, hr__tensor x);       /* saves its result */
hr__tensor hr__gelu(hr__tape *tape, hr__tensor x);       /* saves its argument */
hr__tensor hr__silu(hr__tape *tape, hr__tensor x);       /* saves its argument */
hr__tensor hr__relu(hr__tape *tape, hr__tensor x);       /* saves its result */
void hr__relu_in_place(hr__tape *tape, hr__tensor *x);   /* saves its result, which is x's */
hr__tensor hr__dropout(hr__tape *tape, hr__tensor x);    /* in training, with 0 < p < 1 */
hr__tensor hr__clamp(hr__tape *tape, hr__tensor x);      /* saves its argument */
hr__tensor hr__quick_gelu(hr__tape *tape, hr__tensor x); /* x * sigmoid(1.702 * x), in Python */
hr__tensor hr__gelu_new(hr__tape *tape, hr__tensor x);   /* transformers' own, in Python */

/* ---- sums (op_reduce.c) ---------------------------------------------------------------------- */

/* For derivatives: the sum of `rows` rows, given to the edge, and what computing it needs. */
void hr__node_sum_rows_for(hr__tape *tape, size_t edge, uint64_t rows, uint64_t columns,
                           hr__dtype dtype);

/* ---- shapes (op_shape.c) --------------------------------------------------------------------- */

/* A view: the same storage. */
static inline hr__tensor hr__view(hr__tape *tape, hr__tensor x)
{
    return hr__hold(tape, x);
}
hr__tensor hr__contiguous(hr__tape *tape, hr__tensor x); /* a copy, of what is not */

/* x.split() into `count` equal views; their gradients are put together again. */
void hr__split(hr__tape *tape, hr__tensor x, size_t count, hr__tensor *parts);
/* cat((-x2, x1)) of the halves of x, and a sum of products with tables that need no gradient:
 * rotary positions. `tables` has the elements of one sample's cos, or sin. */
hr__tensor hr__rotate(hr__tape *tape, hr__tensor x, hr__tensor cosine, hr__tensor sine);
/* The same of the first `width` of every head's `head_width`: sliced, rotated and put together. */
hr__tensor hr__rotate_part(hr__tape *tape, hr__tensor x, hr__tensor cosine, hr__tensor sine,
                           uint64_t width, uint64_t head_width);
/* A part of x: a view, whose gradient is filled up with zeros. */
hr__tensor hr__slice(hr__tape *tape, hr__tensor x, uint64_t elements);
hr__tensor hr__cat(hr__tape *tape, const hr__tensor *parts, size_t count);
/* x[indices]: rows, some of them more than once. */
hr__tensor hr__index(hr__tape *tape, hr__tensor x, hr__tensor indices, uint64_t elements);

/* ---- products (op_matrix.c) ------------------------------------------------------------------ */

/* A module's tensors; `bias` may be none. `weight` has in * out elements. */
typedef struct hr__linear_weights {
    hr__tensor weight, bias;
    uint64_t in, out;
} hr__linear_weights;

/* x of rows * in, to rows * out. */
hr__tensor hr__linear(hr__tape *tape, hr__tensor x, const hr__linear_weights *module);

/* a of `a.elements`, b of `b.elements`: a batched product with a result of `elements`. */
hr__tensor hr__matmul(hr__tape *tape, hr__tensor a, hr__tensor b, uint64_t elements);

hr__tensor hr__embedding(hr__tape *tape, hr__tensor ids, hr__tensor weight, uint64_t width);

/* ---- normalizing (op_norm.c) ----------------------------------------------------------------- */

hr__tensor hr__layer_norm(hr__tape *tape, hr__tensor x, hr__tensor weight, hr__tensor bias,
                          uint64_t rows);

/* transformers' RMSNorm, in Python: float32 inside, the argument's type outside. */
hr__tensor hr__rms_norm(hr__tape *tape, hr__tensor x, hr__tensor weight, uint64_t rows);

/* Gemma's: in float32 with its weight, 1 + weight; the argument's type only at the end. */
hr__tensor hr__gemma_norm(hr__tape *tape, hr__tensor x, hr__tensor weight, uint64_t rows);

/* T5's: the argument itself is scaled, by a variance in float32. */
hr__tensor hr__t5_norm(hr__tape *tape, hr__tensor x, hr__tensor weight, uint64_t rows);

/* ---- attention (op_attention.c) -------------------------------------------------------------- */

typedef enum hr__attention_kernel {
    HR__ATTENTION_FLASH,
    HR__ATTENTION_EFFICIENT,
    HR__ATTENTION_MATH,
} hr__attention_kernel;

typedef struct hr__attention_shape {
    uint64_t batch, heads, key_heads, length, key_length, width; /* width of a head */
    uint64_t window; /* tokens that a cache keeps of the layer; 0: all */
    bool has_dropout;
    bool is_causal;
    bool is_mask_strided;   /* its last dimension is not the innermost: no fused kernel takes it */
    bool is_query_joined;   /* by cat(), which leaves heads before tokens */
    bool has_capped_scores; /* a tanh before the softmax; only the eager code heeds it */
} hr__attention_shape;

/* scaled_dot_product_attention(): the kernel is chosen as PyTorch does, by the types and `shape`.
 * `mask` may be none, or bool, of which each call makes one to add. The result is laid out as
 * [batch, length, heads, width]. */
hr__tensor hr__attention(hr__tape *tape, hr__tensor query, hr__tensor key, hr__tensor value,
                         hr__tensor mask, const hr__attention_shape *shape);

/* flash_attn_func() of the flash-attn package, which has no masks and takes 16-bit types only: what
 * is still in float32 is cast to bfloat16, as transformers does under autocast. */
hr__tensor hr__flash_attention(hr__tape *tape, hr__tensor query, hr__tensor key, hr__tensor value,
                               const hr__attention_shape *shape);

/* Heads of keys or values, repeated to the number of query heads: a copy where there are fewer. */
hr__tensor hr__repeat_heads(hr__tape *tape, hr__tensor x, const hr__attention_shape *shape);

/* softmax(x, dim=-1), in float32 under autocast. */
hr__tensor hr__softmax(hr__tape *tape, hr__tensor x);
hr__tensor hr__softmax_float32(hr__tape *tape, hr__tensor x); /* softmax(x, dtype=torch.float32) */

/* ---- losses (op_loss.c) ---------------------------------------------------------------------- */

/* F.cross_entropy(logits, labels), mean. */
hr__tensor hr__cross_entropy(hr__tape *tape, hr__tensor logits, hr__tensor labels);
/* F.mse_loss(x, wanted), mean. */
hr__tensor hr__mse_loss(hr__tape *tape, hr__tensor x, hr__tensor wanted);

#endif /* HR_PLAN_OP_H */
