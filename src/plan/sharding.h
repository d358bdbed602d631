/* sharding.h - weights that are split over GPUs, or kept on the host until they are needed.
 *
 * Weights form groups: group 0 is the root's (embeddings, the last norm, the head), and each block
 * has one, from 1 on. A scheme lists what happens to a group at each moment of a step. Hooks on the
 * argument and the result of a block call it at the moment at which PyTorch would. */
#ifndef VW_PLAN_SHARDING_H
#define VW_PLAN_SHARDING_H

#include "plan/plan_run.h"

typedef struct vw__shard_group {
    uint32_t first_weight;     /* of the run, or UINT32_MAX */
    uint64_t bytes, elements;  /* of its whole weights */
    uint64_t trained_elements; /* those of them that are trained */
    vw__tensor gathered;       /* a buffer with all parts, not yet copied to the weights */
    vw__tensor gradient;       /* this GPU's part of the group's gradients, in one piece */
    bool is_here;              /* the whole weights are in memory */
    bool is_reduced;           /* in this backward pass */
} vw__shard_group;

typedef enum vw__shard_moment {
    VW__SHARD_BUILT, /* the weights were made */
    VW__SHARD_BEFORE_FORWARD,
    VW__SHARD_AFTER_FORWARD,
    VW__SHARD_BEFORE_BACKWARD,
    VW__SHARD_AFTER_BACKWARD, /* of one group */
    VW__SHARD_END_BACKWARD,   /* of all groups */
    VW__SHARD_DROP_GRADIENTS,
    VW__SHARD_BEGIN_STEP,
    VW__SHARD_END_STEP,
    VW__SHARD_MOMENTS
} vw__shard_moment;

typedef struct vw__shard_scheme {
    bool keeps_weights; /* they are whole on every GPU, always */
    /* NULL: nothing happens then. `group` is 0 at moments that concern all groups. */
    void (*at[VW__SHARD_MOMENTS])(vw__plan_run *run, size_t group);
    void (*create_optimizer)(vw__plan_run *run, vw__plan_optimizer *optimizer);
} vw__shard_scheme;

struct vw__shard_state {
    const vw__shard_scheme *scheme;
    const uint32_t *group_of; /* by weight, in the order of making */
    size_t weight_count;
    vw__shard_group *groups;
    size_t group_count;
    uint64_t parts;    /* number of GPUs */
    bool is_offloaded; /* this GPU's part is in host memory */
    uint64_t trained_elements;
    vw__dtype trained_dtype;   /* of gradients */
    vw__tensor last_gathered;  /* FSDP: freed when the next group is here */
    vw__tensor reduce_input;   /* FSDP: freed when the next group is reduced */
    vw__tensor bucket;         /* ZeRO */
    vw__tensor prefetched;     /* ZeRO-3 */
    vw__tensor gradient;       /* ZeRO: of this GPU's partition */
    vw__tensor float_gradient; /* ZeRO: the same in float32, during a step */
    uint64_t bucket_elements;  /* in the bucket */
};

extern const vw__shard_scheme vw__shard_scheme_fsdp;   /* sharding_fsdp.c */
extern const vw__shard_scheme vw__shard_scheme_zero_1; /* sharding_zero.c */
extern const vw__shard_scheme vw__shard_scheme_zero_2;
extern const vw__shard_scheme vw__shard_scheme_zero_3;

/* Sets run->sharding where the settings want it, before anything is made. */
VW_MUST_CHECK vw_status vw__shard_create(vw__plan_run *run);

void vw__shard_make_weight(vw__plan_run *run, uint64_t elements, vw__dtype dtype, bool is_trained,
                           vw__plan_weight *out);

/* These do nothing without run->sharding, but note which block runs. */
vw__tensor vw__shard_enter_block(vw__plan_run *run, size_t number, vw__tensor x);
vw__tensor vw__shard_leave_block(vw__plan_run *run, size_t number, vw__tensor x);
void vw__shard_begin_backward(vw__plan_run *run);
void vw__shard_end_backward(vw__plan_run *run);
void vw__shard_at(vw__plan_run *run, vw__shard_moment moment, size_t group);

/* DistributedDataParallel's buckets, where the settings have several GPUs and no sharding. */
void vw__shard_begin_data_parallel(vw__plan_run *run);

/* ---- for schemes ----------------------------------------------------------------------------- */

/* One GPU's part of `elements`, padded so that all parts have the same size. */
uint64_t vw__shard_part_of(const vw__shard_state *sharding, uint64_t elements);
void vw__shard_bring_group(vw__plan_run *run, size_t group);     /* makes its whole weights */
void vw__shard_set_group_aside(vw__plan_run *run, size_t group); /* frees them */
void vw__shard_drop_group_gradients(vw__plan_run *run, size_t group);
vw__tensor vw__shard_take_for(vw__plan_run *run, uint64_t elements, vw__dtype dtype,
                              vw__tape_use use);

/* Finds which block uses which weight, by running a small forward pass. Fills group_of,
 * weight_count, groups (uninitialized) and group_count, in `arena`. */
VW_MUST_CHECK vw_status vw__shard_find_groups(const vw_plan_model *model,
                                              const vw_plan_settings *settings, vw__arena *arena,
                                              vw__shard_state *out);

#endif /* VW_PLAN_SHARDING_H */
