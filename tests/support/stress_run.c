/* stress_run.c - see stress_run.h. */
#include "support/stress_run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "support/cmocka_here.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

static uint64_t number_from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 0) : otherwise;
}

uint64_t vw_test_rounds(uint64_t usual)
{
    return number_from_environment("VW_TEST_ROUNDS", IS_SANITIZED ? usual / 4 : usual);
}

uint64_t vw_test_seed(void)
{
    uint64_t seed = number_from_environment("VW_TEST_SEED", vw_test_mix((uint64_t)time(NULL)));
    print_message("VW_TEST_SEED=%#" PRIx64 "\n", seed);
    return seed;
}

uint64_t vw_test_mix(uint64_t number)
{
    number = (number ^ (number >> 31)) * UINT64_C(0x9E3779B97F4A7C15);
    return (number ^ (number >> 29)) * UINT64_C(0xBF58476D1CE4E5B9) ^ (number >> 32);
}
