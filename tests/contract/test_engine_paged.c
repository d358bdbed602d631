/* test_engine_paged.c - the engine contract on our own engine: each mode, with much idle memory
 * allowed and with next to none, and on a device without virtual memory. Its limits hold to the
 * byte: it may always grow by less. */
#include "contract/engine_contract.h"

#include <stddef.h>

#define MIB (UINT64_C(1) << 20)

static bool always(void *context)
{
    (void)context;
    return true;
}

static void leave(void *context)
{
    (void)context;
}

#define GRANTED .safe_point = {always, leave, NULL}
#define WIDE .idle_share = 1.0
#define TINY .idle_share = 0.0001, .idle_floor_bytes = 2 * MIB

int main(void)
{
    static const hr_test_engine engines[] = {
        {.name = "headroom", .options = {.engine = "headroom"}},
        {.name = "headroom, wide", .options = {.engine = "headroom", WIDE}},
        {.name = "headroom, tiny", .options = {.engine = "headroom", TINY}},
        {.name = "headroom:rescue", .options = {.engine = "headroom:rescue", GRANTED}},
        {.name = "headroom:rescue, tiny", .options = {.engine = "headroom:rescue", GRANTED, TINY}},
        {.name = "headroom:tight", .options = {.engine = "headroom:tight", GRANTED}},
        {.name = "headroom:tight, tiny", .options = {.engine = "headroom:tight", GRANTED, TINY}},
        {.name = "headroom:tight, never granted", .options = {.engine = "headroom:tight", TINY}},
        {.name = "headroom, without virtual memory",
         .options = {.engine = "headroom"},
         .without_virtual_memory = true},
        {.name = "headroom:tight, without virtual memory",
         .options = {.engine = "headroom:tight", GRANTED, TINY},
         .without_virtual_memory = true},
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++)
        failed += hr_test_engine_contract(&engines[i]);
    return failed;
}
