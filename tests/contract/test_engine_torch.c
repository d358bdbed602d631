/* test_engine_torch.c - the engine contract, on PyTorch's rules: plain and expandable segments,
 * oversize blocks, rounding, garbage collection, and each way to break a tie. */
#include "contract/engine_contract.h"

#include <stddef.h>

#define PAGE (UINT64_C(20) << 20) /* of a large expandable segment */

int main(void)
{
    static const vw_test_engine engines[] = {
        {.name = "torch 2.11", .options = {.torch_version = "2.11"}},
        {.name = "torch 2.11, expandable",
         .options = {.torch_version = "2.11", .conf = "expandable_segments:True"},
         .limit_excess_bytes = PAGE},
        {.name = "torch 2.11, oversize blocks and garbage collection",
         .options = {.torch_version = "2.11",
                     .conf = "max_split_size_mb:24,garbage_collection_threshold:0.6"}},
        {.name = "torch 2.11, rounded to quarters",
         .options = {.torch_version = "2.11", .conf = "roundup_power2_divisions:4"}},
        {.name = "torch 2.12, blocks by number", .options = {.torch_version = "2.12"}},
        {.name = "torch 2.13, segments by number",
         .options = {.torch_version = "2.13", .conf = "expandable_segments:True"},
         .limit_excess_bytes = PAGE},
        {.name = "torch 1.6", .options = {.torch_version = "1.6"}},
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++) {
        vw_test_engine engine = engines[i];
        engine.lacks = VW_TEST_NO_MOVES;
        failed += vw_test_engine_contract(&engine);
    }
    return failed;
}
