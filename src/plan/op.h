/* op.h - operators: the tensors that each makes, saves for its derivative, and makes there.
 *
 * One function for each operator of PyTorch, with PyTorch's name. They save and allocate what
 * PyTorch does (derivatives.yaml, the wrappers of CUDA kernels); docs/design/009-the-planner.md has
 * the table. In an autocast region operators cast their arguments by autocast's lists. */
#ifndef VW_PLAN_OP_H
#define VW_PLAN_OP_H

#include "plan/hidden.h"
#include "plan/tape.h"

/* ---- one argument (op_pointwise.c) ----------------------------------------------------------- */

/* What an operator of one argument makes and keeps. */
typedef struct vw__op_unary {
    uint64_t elements; /* of its result */
    vw__dtype dtype;
    bool saves_argument, saves_result;
    uint64_t beside_elements; /* of what is made beside the result and saved; 0: nothing */
    vw__dtype beside_dtype;
    unsigned temporaries;   /* of its derivative, each of the argument's size */
    bool is_temporary_bool; /* they are, and not of the argument's type */
    bool is_passed;         /* the gradient is passed on as it came */
} vw__op_unary;

vw__tensor vw__op_apply(vw__tape *tape, vw__tensor x, vw__op_unary how);

/* A result of the argument's size and type. */
static inline vw__op_unary vw__op_like(vw__tensor x)
{
    return (vw__op_unary){.elements = x.elements, .dtype = x.dtype};
}

static inline vw__op_unary vw__op_saving_argument(vw__tensor x)
{
    return (vw__op_unary){.elements = x.elements, .dtype = x.dtype, .saves_argument = true};
}

static inline vw__op_unary vw__op_saving_result(vw__tensor x)
{
    return (vw__op_unary){.elements = x.elements, .dtype = x.dtype, .saves_result = true};
}

/* ---- types (op_shape.c) -----------------------------------------------------------------------
 */

/* x.to(dtype): x itself, held once more, if it has that type. */
vw__tensor vw__op_to(vw__tape *tape, vw__tensor x, vw__dtype dtype);

/* The argument of an operator on autocast's lower-precision list; on its float32 list. */
vw__tensor vw__op_autocast_lower(vw__tape *tape, vw__tensor x);
vw__tensor vw__op_autocast_float32(vw__tape *tape, vw__tensor x);

/* ---- elementwise (op_pointwise.c) ------------------------------------------------------------ */

vw__tensor vw__op_add(vw__tape *tape, vw__tensor a, vw__tensor b); /* of one size, or b repeats */
/* Both repeat, to `elements`. */
vw__tensor vw__op_add_repeated(vw__tape *tape, vw__tensor a, vw__tensor b, uint64_t elements);
void vw__op_add_in_place(vw__tape *tape, vw__tensor *a, vw__tensor b); /* a.add_(b); b may repeat */
vw__tensor vw__op_mul(vw__tape *tape, vw__tensor a, vw__tensor b); /* of one size, or b repeats */
vw__tensor vw__op_mul_rows(vw__tape *tape, vw__tensor x, vw__tensor weight); /* every row of x */
vw__tensor vw__op_where(vw__tape *tape, vw__tensor condition, vw__tensor x); /* else a number */
vw__tensor vw__op_mul_scalar(vw__tape *tape, vw__tensor x);
vw__tensor vw__op_add_scalar(vw__tape *tape, vw__tensor x);
vw__tensor vw__op_square(vw__tape *tape, vw__tensor x); /* x.pow(2) */
vw__tensor vw__op_rsqrt(vw__tape *tape, vw__tensor x);  /* saves its result */
vw__tensor vw__op_mean(vw__tape *tape, vw__tensor x,
                       uint64_t elements);                              /* of rows, to `elements` */
vw__tensor vw__op_sum(vw__tape *tape, vw__tensor x, uint64_t elements); /* its gradient is a view */
void vw__op_cap(vw__tape *tape, vw__tensor *x);          /* x = tanh(x / cap) * cap, line by line */
vw__tensor vw__op_tanh(vw__tape *tape, vw__tensor x);    /* saves its result */
vw__tensor vw__op_sigmoid(vw__tape *tape, vw__tensor x); /* saves its result */
vw__tensor vw__op_gelu(vw__tape *tape, vw__tensor x);    /* saves its argument */
vw__tensor vw__op_silu(vw__tape *tape, vw__tensor x);    /* and its like: saves its argument */
vw__tensor vw__op_relu(vw__tape *tape, vw__tensor x);    /* saves its result */
void vw__op_relu_in_place(vw__tape *tape, vw__tensor *x);   /* saves its result, which is x's */
void vw__op_silu_in_place(vw__tape *tape, vw__tensor *x);   /* and its like: saves a copy of x */
vw__tensor vw__op_dropout(vw__tape *tape, vw__tensor x);    /* in training, with 0 < p < 1 */
vw__tensor vw__op_clamp(vw__tape *tape, vw__tensor x);      /* saves its argument */
void vw__op_clamp_in_place(vw__tape *tape, vw__tensor *x);  /* saves a copy of what x was */
vw__tensor vw__op_quick_gelu(vw__tape *tape, vw__tensor x); /* x * sigmoid(1.702 * x), in Python */
vw__tensor vw__op_bloom_gelu(vw__tape *tape, vw__tensor x); /* saves its argument */
vw__tensor vw__op_gelu_new(vw__tape *tape, vw__tensor x);   /* transformers' own, in Python */

/* ---- sums (op_matrix.c) ---------------------------------------------------------------------- */

/* In a node: takes what a kernel takes beside its results. */
void vw__node_take_hidden(vw__tape *tape, const vw__hidden *hidden);

/* In a node: sums `rows` rows for the edge, with the buffer that PyTorch's kernel takes. */
void vw__node_sum_rows_for(vw__tape *tape, size_t edge, uint64_t rows, uint64_t columns,
                           vw__dtype dtype);

/* ---- shapes (op_shape.c) --------------------------------------------------------------------- */

/* A view: the same storage. */
static inline vw__tensor vw__op_view(vw__tape *tape, vw__tensor x)
{
    return vw__tensor_hold(tape, x);
}
vw__tensor vw__op_contiguous(vw__tape *tape, vw__tensor x); /* a copy, of what is not */

/* x.split() into `count` equal views; their gradients are put together again. */
void vw__op_split(vw__tape *tape, vw__tensor x, size_t count, vw__tensor *parts);
/* cat((-x2, x1)) of the halves of x, and a sum of products with tables that need no gradient:
 * rotary positions. `tables` has the elements of one sample's cos, or sin. */
vw__tensor vw__op_rotate(vw__tape *tape, vw__tensor x, vw__tensor cosine, vw__tensor sine);
/* The same of the first `width` of every head's `head_width`: sliced, rotated and put together. */
vw__tensor vw__op_rotate_part(vw__tape *tape, vw__tensor x, vw__tensor cosine, vw__tensor sine,
                              uint64_t width, uint64_t head_width);
/* A part of x: a view, whose gradient is padded with zeros. */
vw__tensor vw__op_slice(vw__tape *tape, vw__tensor x, uint64_t elements);
/* cat() of `count` slices that make up x, or x and padding. */
vw__tensor vw__op_interleave(vw__tape *tape, vw__tensor x, size_t count, uint64_t elements);
vw__tensor vw__op_cat(vw__tape *tape, const vw__tensor *parts, size_t count);
/* x.gather(indices): saves both. */
vw__tensor vw__op_gather(vw__tape *tape, vw__tensor x, vw__tensor indices, uint64_t elements);
/* x[indices]: rows, some of them more than once. */
vw__tensor vw__op_index(vw__tape *tape, vw__tensor x, vw__tensor indices, uint64_t elements);

/* ---- products (op_matrix.c) ------------------------------------------------------------------ */

/* `weight` has in * out elements; `bias` may be no tensor. */
typedef struct vw__op_linear_weights {
    vw__tensor weight, bias;
    uint64_t in, out;
} vw__op_linear_weights;

/* x of rows * in, to rows * out. */
vw__tensor vw__op_linear(vw__tape *tape, vw__tensor x, const vw__op_linear_weights *module);

/* The mean loss of `rows` rows of x behind that head, with their gradients made on the way
 * (op_fused_loss.c). */
vw__tensor vw__op_fused_loss(vw__tape *tape, vw__tensor x, const vw__op_linear_weights *head,
                             uint64_t rows);

/* a of `a.elements`, b of `b.elements`: a batched product with a result of `elements`. */
vw__tensor vw__op_matmul(vw__tape *tape, vw__tensor a, vw__tensor b, uint64_t elements);

/* Products of experts, in their weight's type: neither autocast nor selective checkpoints know
 * them.
 */
vw__tensor vw__op_grouped(vw__tape *tape, vw__tensor x, vw__tensor weight, uint64_t elements);

vw__tensor vw__op_embedding(vw__tape *tape, vw__tensor ids, vw__tensor weight, uint64_t width);

/* ---- normalizing (op_norm.c) ----------------------------------------------------------------- */

vw__tensor vw__op_layer_norm(vw__tape *tape, vw__tensor x, vw__tensor weight, vw__tensor bias,
                             uint64_t rows);

/* transformers' RMSNorm, in Python: float32 inside, the argument's type outside. */
vw__tensor vw__op_rms_norm(vw__tape *tape, vw__tensor x, vw__tensor weight, uint64_t rows);

/* OLMo 2's: the same, its weight inside too. */
vw__tensor vw__op_late_rms_norm(vw__tape *tape, vw__tensor x, vw__tensor weight, uint64_t rows);

/* Cohere's: a layer norm in Python, in float32 with its weight. */
vw__tensor vw__op_cohere_norm(vw__tape *tape, vw__tensor x, vw__tensor weight, uint64_t rows);

/* OLMo's: layer_norm() in float32, without weights. */
vw__tensor vw__op_plain_norm(vw__tape *tape, vw__tensor x, uint64_t rows);

/* Gemma's: in float32 with its weight, 1 + weight; the argument's type only at the end. */
vw__tensor vw__op_gemma_norm(vw__tape *tape, vw__tensor x, vw__tensor weight, uint64_t rows);

/* T5's: the argument itself is scaled, by a variance in float32. */
vw__tensor vw__op_t5_norm(vw__tape *tape, vw__tensor x, vw__tensor weight, uint64_t rows);

/* ---- attention (op_attention.c) -------------------------------------------------------------- */

typedef enum vw__op_attention_kernel {
    VW__OP_ATTENTION_FLASH,
    VW__OP_ATTENTION_EFFICIENT,
    VW__OP_ATTENTION_MATH,
} vw__op_attention_kernel;

typedef struct vw__op_attention_shape {
    uint64_t batch, heads, key_heads, length, key_length, width; /* width of a head */
    uint64_t window; /* tokens that a cache keeps of the layer; 0: all */
    bool has_dropout;
    bool is_causal;
    bool is_mask_strided;   /* its last dimension is not the innermost: no fused kernel takes it */
    bool is_query_joined;   /* by cat(), which leaves heads before tokens */
    bool keeps_key_heads;   /* fewer heads of keys are given to the kernel as they are */
    bool has_capped_scores; /* a tanh before the softmax; only the eager code heeds it */
} vw__op_attention_shape;

/* scaled_dot_product_attention(): the kernel is chosen as PyTorch does, by the types and `shape`.
 * `mask` may be no tensor, or bool: then each call makes one to add. The result is laid out as
 * [batch, length, heads, width]. */
vw__tensor vw__op_attention(vw__tape *tape, vw__tensor query, vw__tensor key, vw__tensor value,
                            vw__tensor mask, const vw__op_attention_shape *shape);

/* flash_attn_func() of the flash-attn package, which has no masks and takes 16-bit types only: what
 * is still in float32 is cast to bfloat16, as transformers does under autocast. */
vw__tensor vw__op_flash_attention(vw__tape *tape, vw__tensor query, vw__tensor key,
                                  vw__tensor value, const vw__op_attention_shape *shape);

/* Heads of keys or values, repeated to the number of query heads: a copy where there are fewer. */
vw__tensor vw__op_repeat_heads(vw__tape *tape, vw__tensor x, const vw__op_attention_shape *shape);

/* ---- softmax and losses (op_norm.c) -----------------------------------------------------------
 */

/* softmax(x, dim=-1), in float32 under autocast. */
vw__tensor vw__op_softmax(vw__tape *tape, vw__tensor x);
vw__tensor vw__op_softmax_float32(vw__tape *tape,
                                  vw__tensor x); /* softmax(x, dtype=torch.float32) */

/* F.cross_entropy(logits, labels), mean. */
vw__tensor vw__op_cross_entropy(vw__tape *tape, vw__tensor logits, vw__tensor labels);
/* F.mse_loss(x, wanted), mean. */
vw__tensor vw__op_mse_loss(vw__tape *tape, vw__tensor x, vw__tensor wanted);

#endif /* VW_PLAN_OP_H */
