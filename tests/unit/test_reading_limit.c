/* test_reading_limit.c - how much memory reading may take: the caller's word, then the machine's.
 */
#include "analysis/reading_limit.h"

#include <string.h>

#include "vramwise/analysis.h"

#include "support/cmocka_here.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static void the_machine_s_memory_is_the_default(void **state)
{
    (void)state;
    static const struct {
        uint64_t free_bytes, group_bytes, limit_bytes;
    } machines[] = {
        {24 * GIB, UINT64_MAX, 6 * GIB},    {24 * GIB, 2 * GIB, 512 * MIB},
        {512 * GIB, UINT64_MAX, 16 * GIB},  {100 * MIB, UINT64_MAX, 64 * MIB},
        {UINT64_MAX, UINT64_MAX, 16 * GIB},
    };
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        const vw__host_limits machine = {machines[i].free_bytes, machines[i].group_bytes,
                                         UINT64_MAX};
        assert_int_equal(vw__reading_limit_of_machine(&machine), machines[i].limit_bytes);
    }
}

static void the_nearest_word_counts(void **state)
{
    (void)state;
    uint64_t of_machine = vw__reading_limit_bytes(0);
    assert_in_range(of_machine, 64 * MIB, 16 * GIB);
    vw_reading_limit_set(3 * GIB);
    assert_int_equal(vw__reading_limit_bytes(0), 3 * GIB);
    assert_int_equal(vw__reading_limit_bytes(MIB), MIB);
    vw_reading_limit_set(0);
    assert_in_range(vw__reading_limit_bytes(0), 64 * MIB, 16 * GIB);
}

static void a_recording_beyond_the_limit_is_refused_with_the_way_out(void **state)
{
    (void)state;
    const char path[] = VW_TEST_DATA "/recordings/oom_varlen.gc6.pickle.xz";
    vw_recording *recording = NULL;
    vw_reading_limit_set(MIB);
    assert_int_equal(vw_recording_open(path, NULL, &recording), VW_ERR_UNSUPPORTED);
    assert_non_null(
        strstr(vw_last_error(), "Reading may take 1.00 MiB in all; --max-memory allows more"));
    vw_reading_limit_set(0);
    assert_int_equal(vw_recording_open(path, NULL, &recording), VW_OK);
    vw_recording_close(recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_machine_s_memory_is_the_default),
        cmocka_unit_test(the_nearest_word_counts),
        cmocka_unit_test(a_recording_beyond_the_limit_is_refused_with_the_way_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
