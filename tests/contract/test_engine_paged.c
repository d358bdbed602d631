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
    static const vw_test_engine engines[] = {
        {.name = "vramwise", .options = {.engine = "vramwise"}},
        {.name = "vramwise, wide", .options = {.engine = "vramwise", WIDE}},
        {.name = "vramwise, tiny", .options = {.engine = "vramwise", TINY}},
        {.name = "vramwise:rescue", .options = {.engine = "vramwise:rescue", GRANTED}},
        {.name = "vramwise:rescue, tiny", .options = {.engine = "vramwise:rescue", GRANTED, TINY}},
        {.name = "vramwise:tight", .options = {.engine = "vramwise:tight", GRANTED}},
        {.name = "vramwise:tight, tiny", .options = {.engine = "vramwise:tight", GRANTED, TINY}},
        {.name = "vramwise:tight, never granted", .options = {.engine = "vramwise:tight", TINY}},
        {.name = "vramwise, without virtual memory",
         .options = {.engine = "vramwise"},
         .without_virtual_memory = true},
        {.name = "vramwise:tight, without virtual memory",
         .options = {.engine = "vramwise:tight", GRANTED, TINY},
         .without_virtual_memory = true},
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++)
        failed += vw_test_engine_contract(&engines[i]);
    return failed;
}
