/* plan_device.c - what is on a card beside PyTorch's tensors.
 *
 * A card's last bytes decide, so the three things that a tape does not know are counted in with a
 * number each. All of them are rules of thumb. */
#include "plan/plan_device.h"

#include "base/checked_math.h"

/* CUDA's context and the kernels of one training step: 527 MiB were measured on an H200 with
 * PyTorch 2.11; reports for other cards have 0.4 to 0.6 GiB (unsloth-zoo PR 1053: 426 MiB;
 * ml-engineering: 0.47 GiB on an A100). */
#define CUDA_BYTES (UINT64_C(527) << 20)

/* NCCL's channels, from the first collective on: 1.45 GiB on 2 GPUs (ml-engineering,
 * training/performance), 1.06 GB on 8 H100 (nccl#1685). It grows with channels; the higher of the
 * two is planned with. */
#define NCCL_BYTES (UINT64_C(1485) << 20)

/* What PyTorch's allocator cannot use of what it holds, on a card that is full: it gives unused
 * segments back, but not the ends of used ones. 3 % is usual for steps that are all alike. */
#define UNUSABLE_PERCENT 3

/* A prediction that nobody has measured. */
#define UNMEASURED_ERROR 0.03

uint64_t vw__context_bytes(const vw_plan_settings *settings)
{
    return CUDA_BYTES + (settings->gpus > 1 ? NCCL_BYTES : 0);
}

uint64_t vw__device_bytes(uint64_t peak_allocated_bytes, const vw_plan_settings *settings)
{
    uint64_t sum;
    if (!vw__add_u64(peak_allocated_bytes, peak_allocated_bytes / 100 * UNUSABLE_PERCENT, &sum) ||
        !vw__add_u64(sum, vw__context_bytes(settings), &sum))
        return UINT64_MAX;
    return sum;
}

uint64_t vw__resident_bytes(uint64_t pageable_bytes, uint64_t used_bytes,
                            const vw_plan_settings *settings)
{
    const uint64_t card_bytes = settings->card_bytes == 0 ? UINT64_MAX : settings->card_bytes;
    const uint64_t room = card_bytes > used_bytes ? card_bytes - used_bytes : 0;
    return pageable_bytes < room ? pageable_bytes : room;
}

uint64_t vw__device_bytes_at_worst(uint64_t peak_allocated_bytes, const vw_plan_settings *settings,
                                   vw__error_band band)
{
    double lowest = band.case_count > 0 ? band.low : -UNMEASURED_ERROR;
    double missing = lowest < 0 ? -lowest / (1 + lowest) : 0; /* measured / predicted - 1 */
    uint64_t more = peak_allocated_bytes > UINT64_MAX / 4
                        ? UINT64_MAX / 4
                        : (uint64_t)((double)peak_allocated_bytes * missing);
    uint64_t sum;
    if (!vw__add_u64(peak_allocated_bytes, more, &sum))
        return UINT64_MAX;
    return vw__device_bytes(sum, settings);
}
