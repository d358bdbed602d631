/* fuzz_plan_traced.c - any bytes as the file of a trace, which is then planned.
 *
 * Whatever is accepted must come to a recording with its requests, and to a plan or a refusal in
 * words; and nothing may be left behind.
 *
 * The one function below is libFuzzer's entry and needs nothing of libFuzzer: a program that calls
 * it with the contents of each file of a corpus is the regression test. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/host_memory.h"
#include "plan/traced.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool claim)
{
    if (!claim)
        abort();
}

static void plan(const vw_plan_traced *traced)
{
    vw_plan_scaling scaling;
    vw_plan_scaled *scaled = NULL;
    vw_plan_scaling_init(&scaling);
    if (traced->size_count > 0)
        scaling.batch = 2 * (traced->sizes[0].batch % 1000) + 1;
    if (vw_plan_from_traced(traced, &scaling, &scaled) != VW_OK) {
        must(scaled == NULL && vw_last_error()[0] != '\0');
        return;
    }
    must(scaled->is_traced && scaled->peak_device_bytes > scaled->peak_allocated_bytes);
    vw_plan_scaled_free(scaled);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vw_plan_traced *traced = NULL;
    const uint64_t in_use_bytes = vw__host_memory_get_use().in_use_bytes;
    if (vw__traced_open_memory(data, size, NULL, &traced) != VW_OK) {
        must(traced == NULL && vw_last_error()[0] != '\0');
    } else {
        must(traced->recording != NULL && traced->note_count <= VW__TRACED_MOST_NOTES);
        plan(traced);
        vw_plan_traced_close(traced);
    }
    must(vw__host_memory_get_use().in_use_bytes == in_use_bytes);
    return 0;
}
