/* sharding.h - weights that are not all here, or not always: split over GPUs, or kept on the host.
 *
 * Weights are taken in groups: the root's (number 0: embeddings, the last norm, the head) and one
 * for each block (from 1). A scheme says what happens around a group in each direction. Hooks on a
 * block's argument and result bring it to the tape at the moment it has in PyTorch. */
#ifndef VW_PLAN_SHARDING_H
#define VW_PLAN_SHARDING_H

#include "plan/plan_run.h"

typedef struct vw__shard_group {
    uint32_t first_weight;     /* of the run, or UINT32_MAX */
    uint64_t bytes;            /* of its weights, whole */
    uint64_t elements;         /* likewise */
    uint64_t trained_elements; /* of them */
    vw__tensor gathered;       /* a buffer with all parts, not yet copied out */
    vw__tensor gradient;       /* this GPU's part of all its gradients, in one piece */
    bool is_here;
    bool is_reduced; /* in this backward pass */
} vw__shard_group;

typedef struct vw__scheme {
    bool keeps_weights;               /* they are whole on every GPU, always */
    void (*begin)(vw__plan_run *run); /* weights are made; may be NULL, as all of these */
    void (*before_forward)(vw__plan_run *run, size_t group);
    void (*after_forward)(vw__plan_run *run, size_t group);
    void (*before_backward)(vw__plan_run *run, size_t group);
    void (*after_backward)(vw__plan_run *run, size_t group); /* of a block */
    void (*end_backward)(vw__plan_run *run);
    void (*drop_gradients)(vw__plan_run *run);
    void (*create_optimizer)(vw__plan_run *run, vw__optimizer *optimizer);
    void (*begin_step)(vw__plan_run *run);
    void (*end_step)(vw__plan_run *run);
} vw__scheme;

struct vw__sharding {
    const vw__scheme *scheme;
    const uint32_t *group_of; /* each weight, by the order of making */
    size_t weight_count;
    vw__shard_group *groups;
    size_t group_count;
    uint64_t parts;    /* GPUs */
    bool is_offloaded; /* this GPU's part is the host's */
    uint64_t elements, trained_elements;
    vw__dtype trained_dtype;   /* of gradients */
    vw__tensor last_gathered;  /* FSDP: freed when the next group is here */
    vw__tensor reduce_input;   /* FSDP: freed when the next group is reduced */
    vw__tensor bucket;         /* ZeRO */
    vw__tensor prefetched;     /* ZeRO-3 */
    vw__tensor gradient;       /* ZeRO: of this GPU's partition */
    vw__tensor float_gradient; /* ZeRO: the same in float32, during a step */
    uint64_t bucket_elements;  /* in the bucket */
};

extern const vw__scheme vw__scheme_fsdp;   /* sharding_fsdp.c */
extern const vw__scheme vw__scheme_zero_1; /* sharding_zero.c */
extern const vw__scheme vw__scheme_zero_2;
extern const vw__scheme vw__scheme_zero_3; /* sharding_zero3.c */

/* Sets run->sharding where the settings want one, before anything is made. */
VW_MUST_CHECK vw_status vw__sharding_create(vw__plan_run *run);
void vw__sharding_begin(vw__plan_run *run);

void vw__sharding_make_weight(vw__plan_run *run, uint64_t elements, vw__matrix matrix,
                              vw__dtype dtype, bool is_trained, vw__weight *out);

/* All of these do nothing without run->sharding. */
vw__tensor vw__sharding_enter_block(vw__plan_run *run, size_t number, vw__tensor x);
vw__tensor vw__sharding_leave_block(vw__plan_run *run, size_t number, vw__tensor x);
void vw__sharding_begin_forward(vw__plan_run *run);
void vw__sharding_end_forward(vw__plan_run *run);
void vw__sharding_begin_backward(vw__plan_run *run);
void vw__sharding_end_backward(vw__plan_run *run);
void vw__sharding_drop_gradients(vw__plan_run *run);
void vw__sharding_create_optimizer(vw__plan_run *run, vw__optimizer *optimizer);
void vw__sharding_begin_step(vw__plan_run *run);
void vw__sharding_end_step(vw__plan_run *run);

/* For schemes: a part of `elements`, padded so that all parts are of one size. */
uint64_t vw__part_of(const vw__sharding *sharding, uint64_t elements);
void vw__bring_group(vw__plan_run *run, size_t group);     /* its whole weights are here */
void vw__set_group_aside(vw__plan_run *run, size_t group); /* and no more */
/* Its gradients, whole: let go, or handed over in an array of the run's arena. */
void vw__drop_group_gradients(vw__plan_run *run, size_t group);
/* Something that belongs to `use`. */
vw__tensor vw__take_for(vw__plan_run *run, uint64_t elements, vw__dtype dtype, vw__use use);

/* sharding_groups.c: which weights are used by which block, by running a small forward pass. The
 * answer is in `arena`. */
VW_MUST_CHECK vw_status vw__find_groups(const vw_plan_model *model,
                                        const vw_plan_settings *settings, vw__arena *arena,
                                        vw__sharding *out);

/* sharding_ddp.c: DistributedDataParallel's buckets; and what NCCL takes beside PyTorch. */
void vw__begin_data_parallel(vw__plan_run *run);

#endif /* VW_PLAN_SHARDING_H */
