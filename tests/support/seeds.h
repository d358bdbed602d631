/* seeds.h - which random programs a test runs: its usual ones, or those of VRAMWISE_SEEDS, which is
 * "COUNT" or "COUNT,FIRST" (`make campaign`). */
#ifndef VW_TESTS_SEEDS_H
#define VW_TESTS_SEEDS_H

#include <stdint.h>
#include <stdlib.h>

typedef struct vw_test_seeds {
    uint64_t first, count;
} vw_test_seeds;

static inline vw_test_seeds vw_test_choose_seeds(uint64_t usual_count)
{
    vw_test_seeds seeds = {1, usual_count};
    const char *asked = getenv("VRAMWISE_SEEDS");
    char *end = NULL;
    if (asked != NULL && asked[0] != '\0') {
        seeds.count = strtoull(asked, &end, 10);
        if (*end == ',')
            seeds.first = strtoull(end + 1, NULL, 10);
    }
    return seeds;
}

#endif /* VW_TESTS_SEEDS_H */
