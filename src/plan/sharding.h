/* sharding.h - weights that are not all here, or not always: split over GPUs, or kept on the host.
 *
 * Weights are taken in groups: the root's (number 0: embeddings, the last norm, the head) and one
 * for each block (from 1). A scheme says what happens around a group in each direction. Hooks on a
 * block's argument and result bring it to the tape at the moment it has in PyTorch. */
#ifndef HR_PLAN_SHARDING_H
#define HR_PLAN_SHARDING_H

#include "plan/plan_run.h"

typedef struct hr__shard_group {
    uint32_t first_weight;     /* of the run, or UINT32_MAX */
    uint64_t bytes;            /* of its weights, whole */
    uint64_t elements;         /* likewise */
    uint64_t trained_elements; /* of them */
    hr__tensor gathered;       /* a buffer with all parts, not yet copied out */
    hr__tensor gradient;       /* this GPU's part of all its gradients, in one piece */
    bool is_here;
    bool is_reduced; /* in this backward pass */
} hr__shard_group;

typedef struct hr__scheme {
    bool keeps_weights;               /* they are whole on every GPU, always */
    void (*begin)(hr__plan_run *run); /* weights are made; may be NULL, as all of these */
    void (*before_forward)(hr__plan_run *run, size_t group);
    void (*after_forward)(hr__plan_run *run, size_t group);
    void (*before_backward)(hr__plan_run *run, size_t group);
    void (*after_backward)(hr__plan_run *run, size_t group); /* of a block */
    void (*end_backward)(hr__plan_run *run);
    void (*drop_gradients)(hr__plan_run *run);
    void (*create_optimizer)(hr__plan_run *run, hr__optimizer *optimizer);
    void (*begin_step)(hr__plan_run *run);
    void (*end_step)(hr__plan_run *run);
} hr__scheme;

struct hr__sharding {
    const hr__scheme *scheme;
    const uint32_t *group_of; /* each weight, by the order of making */
    size_t weight_count;
    hr__shard_group *groups;
    size_t group_count;
    uint64_t parts;    /* GPUs */
    bool is_offloaded; /* this GPU's part is the host's */
    uint64_t elements, trained_elements;
    hr__dtype trained_dtype;   /* of gradients */
    hr__tensor last_gathered;  /* FSDP: freed when the next group is here */
    hr__tensor reduce_input;   /* FSDP: freed when the next group is reduced */
    hr__tensor bucket;         /* ZeRO */
    hr__tensor prefetched;     /* ZeRO-3 */
    hr__tensor gradient;       /* ZeRO: of this GPU's partition */
    hr__tensor float_gradient; /* ZeRO: the same in float32, during a step */
    uint64_t bucket_elements;  /* in the bucket */
};

extern const hr__scheme hr__scheme_fsdp;   /* sharding_fsdp.c */
extern const hr__scheme hr__scheme_zero_1; /* sharding_zero.c */
extern const hr__scheme hr__scheme_zero_2;
extern const hr__scheme hr__scheme_zero_3; /* sharding_zero3.c */

/* Sets run->sharding where the settings want one, before anything is made. */
HR_MUST_CHECK hr_status hr__sharding_create(hr__plan_run *run);
void hr__sharding_begin(hr__plan_run *run);

void hr__sharding_make_weight(hr__plan_run *run, uint64_t elements, hr__matrix matrix,
                              hr__dtype dtype, bool is_trained, hr__weight *out);

/* All of these do nothing without run->sharding. */
hr__tensor hr__sharding_enter_block(hr__plan_run *run, size_t number, hr__tensor x);
hr__tensor hr__sharding_leave_block(hr__plan_run *run, size_t number, hr__tensor x);
void hr__sharding_begin_forward(hr__plan_run *run);
void hr__sharding_end_forward(hr__plan_run *run);
void hr__sharding_begin_backward(hr__plan_run *run);
void hr__sharding_end_backward(hr__plan_run *run);
void hr__sharding_drop_gradients(hr__plan_run *run);
void hr__sharding_create_optimizer(hr__plan_run *run, hr__optimizer *optimizer);
void hr__sharding_begin_step(hr__plan_run *run);
void hr__sharding_end_step(hr__plan_run *run);

/* For schemes: a part of `elements`, padded so that all parts are of one size. */
uint64_t hr__part_of(const hr__sharding *sharding, uint64_t elements);
void hr__bring_group(hr__plan_run *run, size_t group);     /* its whole weights are here */
void hr__set_group_aside(hr__plan_run *run, size_t group); /* and no more */
/* Its gradients, whole: let go, or handed over in an array of the run's arena. */
void hr__drop_group_gradients(hr__plan_run *run, size_t group);
/* Something that belongs to `use`. */
hr__tensor hr__take_for(hr__plan_run *run, uint64_t elements, hr__dtype dtype, hr__use use);

/* sharding_groups.c: which weights are used by which block, by running a small forward pass. The
 * answer is in `arena`. */
HR_MUST_CHECK hr_status hr__find_groups(const hr_plan_model *model,
                                        const hr_plan_settings *settings, hr__arena *arena,
                                        hr__sharding *out);

/* sharding_ddp.c: DistributedDataParallel's buckets; and what NCCL takes beside PyTorch. */
void hr__begin_data_parallel(hr__plan_run *run);

#endif /* HR_PLAN_SHARDING_H */
