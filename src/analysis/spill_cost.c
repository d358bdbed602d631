/* spill_cost.c - what memory on the host costs a step: touched there or copied; and the command
 * that lets it go there.
 *
 * Kernels reach that memory over the bus. What is only read or only written goes at 49 GiB/s on an
 * H200; what is read and written goes both ways at the same time, so that it takes less than twice
 * as long. Measured there, with the memory that spills first: a fused AdamW step over 124.4 million
 * parameters took 1.26 ms, and 24.2 ms with its 949 MiB of state in host memory. So
 *
 *     time = bytes / 949 MiB * (24.2 - 1.26) ms          which is 40.4 GiB/s
 *
 * A recording does not show who touches what. An optimizer's state is read and written once a step;
 * weights are read twice and written once, activations written once and read once. The number
 * assumes one read and one write for all of them, and reports say so.
 *
 * Streams copy memory out and back. A copy between the device and page-locked memory takes 19.4 to
 * 24.9 ms a GiB on H200s, also with both directions busy and beside matrix products, which take
 * 0.3 to 0.7 % longer meanwhile, which is not counted. Memory that one block leaves to another is
 * mapped at another address, which takes 1 to 2 ms a GiB with large handles, and once more on the
 * way back.
 *
 * What we did not do: name other buses. PCIe 4 has half of it, NVLink-C2C ten times as much; which
 * one a card sits on is in no recording.
 *
 * No state and no locks: safe from any thread. */
#include "analysis/spill_cost.h"

#include <stdio.h>

#include "base/checked_math.h"

#define MEASURED_BYTES (949.0 * 1024 * 1024)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define MEASURED_ON_HOST_NS 24.2e6
#define MEASURED_ON_DEVICE_NS 1.26e6
#define COPY_NS_PER_GIB 22e6
#define MAP_NS_PER_GIB 1.5e6

uint64_t vw__spill_cost_touch_ns(uint64_t bytes)
{
    return (uint64_t)((double)bytes / MEASURED_BYTES *
                      (MEASURED_ON_HOST_NS - MEASURED_ON_DEVICE_NS));
}

uint64_t vw__spill_cost_optimizer_ns(uint64_t state_bytes)
{
    return (uint64_t)((double)state_bytes / MEASURED_BYTES * MEASURED_ON_DEVICE_NS);
}

uint64_t vw__spill_cost_copy_ns(uint64_t bytes)
{
    return (uint64_t)((double)bytes / (double)GIB * COPY_NS_PER_GIB);
}

uint64_t vw__spill_cost_map_ns(uint64_t bytes)
{
    return (uint64_t)((double)bytes / (double)GIB * MAP_NS_PER_GIB);
}

uint64_t vw__spill_cost_budget(uint64_t bytes)
{
    uint64_t unit_bytes = bytes < 4 * GIB ? 256 * MIB : GIB, rounded;
    return vw__align_up_u64(vw__max_u64(bytes, 1), unit_bytes, &rounded) ? rounded : bytes;
}

const char *vw__spill_cost_command(uint64_t bytes, bool has_streams,
                                   char text[VW__SPILL_COST_COMMAND_BYTES])
{
    uint64_t budget_bytes = vw__spill_cost_budget(bytes);
    bool is_whole = budget_bytes % GIB == 0;
    (void)snprintf(text, VW__SPILL_COST_COMMAND_BYTES,
                   "vramwise run --allocator vramwise --spill %llu%s%s -- python train.py",
                   (unsigned long long)(budget_bytes / (is_whole ? GIB : MIB)),
                   is_whole ? "GiB" : "MiB", has_streams ? " --stream" : "");
    return text;
}
