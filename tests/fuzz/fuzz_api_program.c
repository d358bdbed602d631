/* fuzz_api_program.c - any bytes as a program of API calls under failures: support/api_program.h
 * has the oracle. */
#include <stdio.h>
#include <stdlib.h>

#include "support/api_program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_BYTES = 2000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vw_test_outcome outcome;
    vw_test_api_program_run(data, size < MOST_BYTES ? size : MOST_BYTES, &outcome);
    if (outcome.fault[0] != '\0') {
        fprintf(stderr, "%s\n", outcome.fault);
        abort();
    }
    return 0;
}
