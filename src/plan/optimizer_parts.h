/* optimizer_parts.h - what the files of optimizers share. */
#ifndef VW_PLAN_OPTIMIZER_PARTS_H
#define VW_PLAN_OPTIMIZER_PARTS_H

#include "plan/plan_run.h"

/* Keeps a tensor from now on, in the host's memory where the state is spilled. */
void vw__plan_optimizer_keep(vw__plan_run *run, uint64_t elements, vw__dtype dtype);
/* `count` tensors like the item. */
void vw__plan_optimizer_keep_like(vw__plan_run *run, const vw__plan_stepped *item, unsigned count);

/* ---- optimizer_matrix.c -----------------------------------------------------------------------
 */

/* The state of an item with Muon, GaLore or APOLLO; what a step over all items takes. */
void vw__plan_optimizer_keep_matrix(vw__plan_run *run, const vw__plan_stepped *item);
void vw__plan_optimizer_step_matrices(vw__plan_run *run, const vw__plan_optimizer *optimizer);

#endif /* VW_PLAN_OPTIMIZER_PARTS_H */
