/* spill_cost.c - the time that spilled memory costs a step, and the command that spills.
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
 * What we did not do: name other buses. PCIe 4 has half of it, NVLink-C2C ten times as much; which
 * one a card sits on is in no recording.
 *
 * No state and no locks: safe from any thread. */
#include "analysis/spill_cost.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/checked_math.h"

#define MEASURED_BYTES (949.0 * 1024 * 1024)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define MEASURED_NS (24.2e6 - 1.26e6)

uint64_t vw__spill_cost_touch_ns(uint64_t bytes)
{
    return (uint64_t)((double)bytes / MEASURED_BYTES * MEASURED_NS);
}

uint64_t vw__spill_cost_budget(uint64_t bytes)
{
    uint64_t unit_bytes = bytes < 4 * GIB ? 256 * MIB : GIB, rounded;
    return vw__align_up_u64(vw__max_u64(bytes, 1), unit_bytes, &rounded) ? rounded : bytes;
}

const char *vw__spill_cost_command(uint64_t bytes, char text[VW__SPILL_COST_COMMAND_BYTES])
{
    uint64_t budget_bytes = vw__spill_cost_budget(bytes);
    bool is_whole = budget_bytes % GIB == 0;
    (void)snprintf(text, VW__SPILL_COST_COMMAND_BYTES,
                   "vramwise run --allocator vramwise --spill %llu%s -- python train.py",
                   (unsigned long long)(budget_bytes / (is_whole ? GIB : MIB)),
                   is_whole ? "GiB" : "MiB");
    return text;
}
