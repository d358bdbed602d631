/* test_engine_torch.c - the engine contract, on PyTorch's rules: plain and expandable segments,
 * oversize blocks, rounding, garbage collection, and each way to break a tie. */
#include "contract/engine_contract.h"

#include <stddef.h>

#define PAGE (UINT64_C(20) << 20) /* of a large expandable segment */

int main(void)
{
    static const vw_test_engine engines[] = {
        {"torch 2.11", {.torch_version = "2.11"}, 0, false},
        {"torch 2.11, expandable",
         {.torch_version = "2.11", .conf = "expandable_segments:True"},
         PAGE,
         false},
        {"torch 2.11, oversize blocks and garbage collection",
         {.torch_version = "2.11", .conf = "max_split_size_mb:24,garbage_collection_threshold:0.6"},
         0,
         false},
        {"torch 2.11, rounded to quarters",
         {.torch_version = "2.11", .conf = "roundup_power2_divisions:4"},
         0,
         false},
        {"torch 2.12, blocks by number", {.torch_version = "2.12"}, 0, false},
        {"torch 2.13, segments by number",
         {.torch_version = "2.13", .conf = "expandable_segments:True"},
         PAGE,
         false},
        {"torch 1.6", {.torch_version = "1.6"}, 0, false},
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++)
        failed += vw_test_engine_contract(&engines[i]);
    return failed;
}
