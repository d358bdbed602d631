/* slowdowns.c - what each change does to the time of a step, and the source of that number.
 *
 * For ranking: effects multiply only roughly. Factors are the remedy's (remedy/remedy_table.c);
 * here are those that follow from the settings: how often a batch is halved, what the head takes,
 * what goes over the bus. */
#include <math.h>

#include "analysis/spill_cost.h"
#include "analysis/stream_cost.h"
#include "plan/changes.h"
#include "plan/plan_settings.h"

/* ---- by the remedy --------------------------------------------------------------------------- */

static vw__plan_slowdown of_remedy(vw__plan_change change, const vw_plan_settings *to)
{
    vw__remedy_id id = vw__plan_change_remedy(change, to);
    if (id == VW__REMEDY_COUNT)
        return (vw__plan_slowdown){1.0, "not known"};
    return (vw__plan_slowdown){vw__remedy_of(id)->slowdown, vw__remedy_of(id)->source};
}

static vw__plan_slowdown of_precision(const vw_plan_settings *from, const vw_plan_settings *to)
{
    if (from->precision != VW_PRECISION_FP32 ||
        !vw__plan_card_has(from->card_name, VW__PLAN_CARD_TENSOR_CORES))
        return (vw__plan_slowdown){1.0, "not slower; how much faster depends on the card"};
    return of_remedy(VW__PLAN_CHANGE_PRECISION, to);
}

/* ---- computed -------------------------------------------------------------------------------- */

/* For the same number of samples. */
static vw__plan_slowdown of_batch(const vw_plan_settings *from, const vw_plan_settings *to)
{
    if (to->generate > 0)
        return (vw__plan_slowdown){(double)from->batch / (double)to->batch,
                                   "computed: each token reads all weights, for few samples as for "
                                   "many"};
    vw__plan_slowdown halving = of_remedy(VW__PLAN_CHANGE_BATCH, to);
    return (vw__plan_slowdown){pow(halving.factor, log2((double)from->batch / (double)to->batch)),
                               halving.source};
}

/* ---- offload --------------------------------------------------------------------------------- */

/* An accelerator of the A100's class at half its peak, a PCIe 4 slot, and a host's memory. */
#define FLOPS_16_BIT 100e12
#define FLOPS_32_BIT 10e12
#define SLOT_BYTES_PER_S 25e9
#define HOST_BYTES_PER_S 50e9
#define CARD_BYTES_PER_S 1.5e12
#define HOST_BYTES_PER_WEIGHT 28.0 /* AdamW in float32: reads 4 numbers, writes 3 */

static double tokens_of_step(const vw_plan_settings *settings)
{
    enum { PIXELS_PER_TOKEN = 256 }; /* patches of 16 by 16; a ResNet computes about as much */
    double pixels = (double)settings->image * (double)settings->image;
    double tokens = settings->image > 0 ? pixels / PIXELS_PER_TOKEN : (double)settings->sequence;
    return (double)settings->batch * (double)settings->accumulation * (tokens < 1 ? 1 : tokens);
}

/* The time that products take, for one weight. A training step makes three times as many. */
static double products_of_step(const vw_plan_settings *settings)
{
    return (vw__plan_is_training(settings) ? 6 : 2) * tokens_of_step(settings) /
           (settings->precision == VW_PRECISION_FP32 ? FLOPS_32_BIT : FLOPS_16_BIT);
}

/* For one weight: both computing and moving grow with their number. */
static vw__plan_slowdown of_offload(const vw_plan_settings *to)
{
    bool is_training = vw__plan_is_training(to);
    double weight_bytes = vw__plan_is_half(to->precision) ? 2 : 4;
    double moved = is_training ? 2 * weight_bytes : weight_bytes;
    if (to->generate > 0) /* every token reads all weights */
        return (vw__plan_slowdown){
            CARD_BYTES_PER_S / SLOT_BYTES_PER_S,
            "computed: each token waits for all weights over PCIe 4 at 25 GB/s, "
            "in place of 1.5 TB/s"};
    if (is_training && to->offload == VW_OFFLOAD_WEIGHTS)
        moved += 2 * weight_bytes * (double)to->accumulation - weight_bytes;
    double host = is_training ? HOST_BYTES_PER_WEIGHT / HOST_BYTES_PER_S : 0;
    return (vw__plan_slowdown){
        1 + (moved / SLOT_BYTES_PER_S + host) / products_of_step(to),
        "computed: weights and gradients over PCIe 4 at 25 GB/s, AdamW at 50 GB/s "
        "of the host's memory, nothing hidden; 0.5 s became 7 s in DeepSpeed's "
        "ZenFlow article"};
}

double vw__plan_state_bytes_per_weight(const vw_plan_settings *settings)
{
    bool is_half = vw__plan_is_half(settings->precision) && !settings->has_master_weights;
    double number_bytes = is_half ? 2 : 4;
    switch (settings->optimizer) {
    case VW_OPTIMIZER_ADAMW:
    case VW_OPTIMIZER_ADAMW_FUSED:
    case VW_OPTIMIZER_ADAMW_LOOP:
        return 2 * number_bytes;
    case VW_OPTIMIZER_SGD_MOMENTUM:
    case VW_OPTIMIZER_LION:
    case VW_OPTIMIZER_MUON:
        return number_bytes;
    case VW_OPTIMIZER_ADAM_8BIT:
        return 2;
    default: /* no state, one number a row, or pageable already */
        return 0;
    }
}

/* ---- spill ----------------------------------------------------------------------------------- */

/* All for one weight, and with all of its state away: how much of it a card holds is unknown. */

/* The state stays on the host and is read and written at the same time, which takes 1.2 times as
 * long as one way: on an H200, 24.2 ms for 949 MiB where one way goes at 49 GiB/s
 * (analysis/spill_cost.c). */
static double touching_time(const vw_plan_settings *to)
{
    const double both_ways = 1.2;
    return both_ways * vw__plan_state_bytes_per_weight(to) / SLOT_BYTES_PER_S;
}

/* With streams the state leaves behind the first forward pass and returns behind the last backward
 * pass of a step, and is mapped each time. What takes longer than the pass is waited for; what
 * half of both does not hide stays on the host (vw_schedule_hidden_bytes()). */
static double streaming_time(const vw_plan_settings *to)
{
    const double bytes = vw__plan_state_bytes_per_weight(to), ns_per_s = 1e9;
    const uint64_t unit_bytes = UINT64_C(1) << 30;
    double passes = products_of_step(to) / (double)to->accumulation;
    double forward = passes * VW__STREAM_COST_FORWARD_SHARE, backward = passes - forward;
    double turning = fmin(bytes, passes / 2 * SLOT_BYTES_PER_S);
    double one_way = turning / SLOT_BYTES_PER_S;
    double mapping = (double)vw__spill_cost_map_ns(unit_bytes) / ns_per_s / (double)unit_bytes;
    double staying = bytes > 0 ? (bytes - turning) / bytes * touching_time(to) : 0;
    return fmax(0, one_way - forward) + fmax(0, one_way - backward) + 2 * turning * mapping +
           staying;
}

/* Only optimizers of torch.optim are streamed. */
static bool can_stream(const vw_plan_settings *to)
{
    return to->optimizer == VW_OPTIMIZER_ADAMW || to->optimizer == VW_OPTIMIZER_ADAMW_FUSED ||
           to->optimizer == VW_OPTIMIZER_ADAMW_LOOP || to->optimizer == VW_OPTIMIZER_SGD_MOMENTUM;
}

bool vw__plan_spill_streams(const vw_plan_settings *to)
{
    return can_stream(to) && streaming_time(to) < touching_time(to);
}

static vw__plan_slowdown of_spill(const vw_plan_settings *to)
{
    if (vw__plan_spill_streams(to))
        return (vw__plan_slowdown){1 + streaming_time(to) / products_of_step(to),
                                   "computed: all of the state copied out behind the forward pass "
                                   "and back behind the backward pass, over PCIe 4 at 25 GB/s; "
                                   "what takes longer than these is waited for"};
    return (vw__plan_slowdown){
        1 + touching_time(to) / products_of_step(to),
        "computed: all of the state read and written once a step over PCIe 4 at 25 GB/s, both ways "
        "in 1.2 times the time of one as measured on an H200"};
}

/* ---- together -------------------------------------------------------------------------------- */

vw__plan_slowdown vw__plan_slowdown_of(vw__plan_change change, const vw_plan_settings *from,
                                       const vw_plan_settings *to, double head_share)
{
    switch (change) {
    case VW__PLAN_CHANGE_PRECISION:
        return of_precision(from, to);
    case VW__PLAN_CHANGE_BATCH:
        return of_batch(from, to);
    case VW__PLAN_CHANGE_LOSS:
        return (vw__plan_slowdown){1 + head_share / 3, /* of the three passes, one is run again */
                                   "computed: the head runs once more in the backward pass"};
    case VW__PLAN_CHANGE_OFFLOAD:
        return to->offload == VW_OFFLOAD_SPILL ? of_spill(to) : of_offload(to);
    default:
        return of_remedy(change, to);
    }
}

double vw__plan_slowdown_together(const vw_plan_settings *from, const vw_plan_settings *to,
                                  double head_share)
{
    double product = 1;
    for (vw__plan_change change = 0; change < VW__PLAN_CHANGE_COUNT; change++)
        if (vw__plan_has_changed(change, from, to))
            product *= vw__plan_slowdown_of(change, from, to, head_share).factor;
    return product;
}
