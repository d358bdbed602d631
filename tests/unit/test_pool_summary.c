/* test_pool_summary.c - memory_summary()'s text, against a text that PyTorch wrote. */
#include "pool/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"

enum { PAGE_BYTES = 8192 };

typedef struct fixture {
    vw_device *device;
    vw_pool *pool;
    vw__counters untouched;
} fixture;

static fixture open_pool(const char *torch_version, int device_index)
{
    const vw_simulated_options device_options = {.struct_size = sizeof device_options,
                                                 .index = device_index};
    const vw_pool_options options = {.struct_size = sizeof options, .torch_version = torch_version};
    fixture made;
    assert_int_equal(vw_simulated_device_create(&device_options, &made.device), VW_OK);
    assert_int_equal(vw_pool_create(made.device, &options, &made.pool), VW_OK);
    made.untouched = made.pool->counters;
    return made;
}

static void close_pool(fixture made)
{
    made.pool->counters = made.untouched;
    vw_pool_destroy(made.pool);
    vw_device_destroy(made.device);
}

static const char *page_of(const vw_pool *pool, bool is_abbreviated)
{
    static char page[PAGE_BYTES];
    size_t needed = 0;
    assert_int_equal(vw_pool_summary(pool, is_abbreviated, page, sizeof page, &needed), VW_OK);
    assert_int_equal(needed, strlen(page) + 1);
    return page;
}

/* The first line that begins with "| `name`", without its line break. */
static const char *line_of(const char *page, const char *name)
{
    static char line[256];
    char start[64];
    snprintf(start, sizeof start, "| %s", name);
    const char *found = strstr(page, start);
    if (found == NULL) {
        fail_msg("no line \"%s\"", name);
        return "";
    }
    snprintf(line, sizeof line, "%.*s", (int)strcspn(found, "\n"), found);
    return line;
}

static size_t line_count(const char *page)
{
    size_t count = 0;
    for (; *page != '\0'; page++)
        count += *page == '\n';
    return count;
}

/* ---- a training run that ran out of memory --------------------------------------------------- */

/* GPT-2 under a limit of 8 GiB, PyTorch 2.11: what was counted, and what memory_summary() said. */
static void set_recorded_counters(vw__counters *counters)
{
    static const vw__counter blocks = {
        .current = {1, 2}, .freed = {722, 1103}, .peak = {493, 314}, .peak_all = 745};
    static const vw__counter bytes = {.current = {1048576, 67108864},
                                      .freed = {9971712, 23540557824},
                                      .peak = {5791232, 7541856256},
                                      .peak_all = 7547647488};
    counters->allocation = counters->active = blocks;
    counters->allocated_bytes = counters->active_bytes = bytes;
    counters->requested_bytes = (vw__counter){.current = {1048576, 67108864},
                                              .freed = {9939680, 23517000704},
                                              .peak = {5789736, 7537419264},
                                              .peak_all = 7543209000};
    counters->inactive_split =
        (vw__counter){.current = {2, 2}, .freed = {151, 511}, .peak = {19, 81}, .peak_all = 95};
    counters->inactive_split_bytes = (vw__counter){.current = {1048576, 379584512},
                                                   .freed = {14807040, 9955943424},
                                                   .peak = {2657280, 752104448},
                                                   .peak_all = 754262528};
    counters->reserved_bytes = (vw__counter){.current = {6291456, 7811891200},
                                             .freed = {0, 503316480},
                                             .peak = {6291456, 8315207680},
                                             .peak_all = 8321499136};
    counters->segment =
        (vw__counter){.current = {3, 154}, .freed = {0, 20}, .peak = {3, 174}, .peak_all = 177};
    counters->num_ooms = 1;
    counters->num_alloc_retries = 1;
}

/* clang-format off */
static const char recorded_page[] =
    "|===========================================================================|\n"
    "|                  PyTorch CUDA memory summary, device ID 0                 |\n"
    "|---------------------------------------------------------------------------|\n"
    "|            CUDA OOMs: 1            |        cudaMalloc retries: 1         |\n"
    "|===========================================================================|\n"
    "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n"
    "|---------------------------------------------------------------------------|\n"
    "| Allocated memory      |  66560 KiB |   7197 MiB |  22524 MiB |  22459 MiB |\n"
    "|       from large pool |  65536 KiB |   7192 MiB |  22514 MiB |  22450 MiB |\n"
    "|       from small pool |   1024 KiB |      5 MiB |     10 MiB |      9 MiB |\n"
    "|---------------------------------------------------------------------------|\n"
    "| Active memory         |  66560 KiB |   7197 MiB |  22524 MiB |  22459 MiB |\n"
    "|       from large pool |  65536 KiB |   7192 MiB |  22514 MiB |  22450 MiB |\n"
    "|       from small pool |   1024 KiB |      5 MiB |     10 MiB |      9 MiB |\n"
    "|---------------------------------------------------------------------------|\n"
    "| Requested memory      |  66560 KiB |   7193 MiB |  22502 MiB |  22437 MiB |\n"
    "|       from large pool |  65536 KiB |   7188 MiB |  22491 MiB |  22427 MiB |\n"
    "|       from small pool |   1024 KiB |      5 MiB |     10 MiB |      9 MiB |\n"
    "|---------------------------------------------------------------------------|\n"
    "| GPU reserved memory   |   7456 MiB |   7936 MiB |   7936 MiB | 491520 KiB |\n"
    "|       from large pool |   7450 MiB |   7930 MiB |   7930 MiB | 491520 KiB |\n"
    "|       from small pool |      6 MiB |      6 MiB |      6 MiB |      0 KiB |\n"
    "|---------------------------------------------------------------------------|\n"
    "| Non-releasable memory | 371712 KiB | 736584 KiB |   9871 MiB |   9508 MiB |\n"
    "|       from large pool | 370688 KiB | 734477 KiB |   9856 MiB |   9494 MiB |\n"
    "|       from small pool |   1024 KiB |   2595 KiB |     15 MiB |     14 MiB |\n"
    "|---------------------------------------------------------------------------|\n"
    "| Allocations           |       3    |     745    |    1828    |    1825    |\n"
    "|       from large pool |       2    |     314    |    1105    |    1103    |\n"
    "|       from small pool |       1    |     493    |     723    |     722    |\n"
    "|---------------------------------------------------------------------------|\n"
    "| Active allocs         |       3    |     745    |    1828    |    1825    |\n"
    "|       from large pool |       2    |     314    |    1105    |    1103    |\n"
    "|       from small pool |       1    |     493    |     723    |     722    |\n"
    "|---------------------------------------------------------------------------|\n"
    "| GPU reserved segments |     157    |     177    |     177    |      20    |\n"
    "|       from large pool |     154    |     174    |     174    |      20    |\n"
    "|       from small pool |       3    |       3    |       3    |       0    |\n"
    "|---------------------------------------------------------------------------|\n"
    "| Non-releasable allocs |       4    |      95    |     666    |     662    |\n"
    "|       from large pool |       2    |      81    |     513    |     511    |\n"
    "|       from small pool |       2    |      19    |     153    |     151    |\n"
    "|---------------------------------------------------------------------------|\n"
    "| Oversize allocations  |       0    |       0    |       0    |       0    |\n"
    "|---------------------------------------------------------------------------|\n"
    "| Oversize GPU segments |       0    |       0    |       0    |       0    |\n"
    "|===========================================================================|\n";
/* clang-format on */

static void a_recorded_run_reads_as_pytorch_printed_it(void **state)
{
    (void)state;
    fixture made = open_pool("2.11", 0);
    set_recorded_counters(&made.pool->counters);
    assert_string_equal(page_of(made.pool, false), recorded_page);
    close_pool(made);
}

static void the_abbreviated_page_is_the_same_without_the_rows_of_the_halves(void **state)
{
    (void)state;
    char expected[sizeof recorded_page] = "";
    for (const char *line = recorded_page; *line != '\0'; line = strchr(line, '\n') + 1)
        if (strncmp(line, "|       from ", 13) != 0)
            strncat(expected, line, strcspn(line, "\n") + 1);
    assert_int_equal(line_count(expected), 29);
    fixture made = open_pool("2.11", 0);
    set_recorded_counters(&made.pool->counters);
    assert_string_equal(page_of(made.pool, true), expected);
    close_pool(made);
}

static void releases_before_2_0_say_kb_and_have_no_requested_rows(void **state)
{
    (void)state;
    fixture made = open_pool("1.13", 0);
    set_recorded_counters(&made.pool->counters);
    const char *page = page_of(made.pool, false);
    assert_int_equal(line_count(page), 43);
    assert_null(strstr(page, "Requested memory"));
    assert_string_equal(
        line_of(page, "Allocated memory"),
        "| Allocated memory      |   66560 KB |    7197 MB |   22524 MB |   22459 MB |");
    assert_string_equal(
        line_of(page, "Oversize allocations"),
        "| Oversize allocations  |       0    |       0    |       0    |       0    |");
    close_pool(made);
}

static void releases_before_1_10_have_no_oversize_rows(void **state)
{
    (void)state;
    fixture made = open_pool("1.9", 0);
    const char *page = page_of(made.pool, false);
    assert_int_equal(line_count(page), 39);
    assert_null(strstr(page, "Oversize"));
    assert_string_equal(
        line_of(page, "GPU reserved memory"),
        "| GPU reserved memory   |       0 B  |       0 B  |       0 B  |       0 B  |");
    close_pool(made);
}

/* ---- units ----------------------------------------------------------------------------------- */

static void assert_size_cell(fixture made, int64_t all, int64_t small, const char *all_cell,
                             const char *small_cell)
{
    made.pool->counters.active_bytes = (vw__counter){.current = {small, all - small}};
    const char *page = page_of(made.pool, false);
    char expected[32];
    snprintf(expected, sizeof expected, "| Active memory         | %s |", all_cell);
    const char *row = strstr(page, "| Active memory");
    assert_non_null(row);
    assert_memory_equal(row, expected, strlen(expected));
    snprintf(expected, sizeof expected, "|       from small pool | %s |", small_cell);
    row = strstr(row, "|       from small");
    assert_non_null(row);
    assert_memory_equal(row, expected, strlen(expected));
}

static void sizes_change_unit_at_768_of_the_next_one(void **state)
{
    (void)state;
    const int64_t kib = 1024, mib = kib * kib, gib = kib * mib, tib = kib * gib, pib = kib * tib;
    fixture made = open_pool(NULL, 0);
    assert_size_cell(made, 768 * kib - 1, 1, "786431 B  ", "     1 B  ");
    assert_size_cell(made, 768 * kib, 1, "   768 KiB", "     0 KiB");
    assert_size_cell(made, 768 * mib - 1, 1023, "786431 KiB", "     0 KiB");
    assert_size_cell(made, 768 * mib, mib - 1, "   768 MiB", "     0 MiB");
    assert_size_cell(made, 768 * gib, 7 * gib, "   768 GiB", "     7 GiB");
    assert_size_cell(made, 768 * tib, 7 * gib, "   768 TiB", "     0 TiB");
    assert_size_cell(made, 768 * pib, 7 * pib, "   768 PiB", "     7 PiB");
    assert_size_cell(made, INT64_MAX, 7 * pib, "  8191 PiB", "     7 PiB");
    close_pool(made);
}

/* Python divides the reference as a double, which rounds one byte below the limit up to it; the
 * value itself is divided exactly. */
static void the_unit_is_chosen_in_floating_point_as_python_does(void **state)
{
    (void)state;
    const int64_t pib = INT64_C(1) << 50;
    fixture made = open_pool(NULL, 0);
    assert_size_cell(made, 768 * pib - 1, 0, "   767 PiB", "     0 PiB");
    close_pool(made);
}

static void negative_numbers_are_rounded_downwards_as_python_does(void **state)
{
    (void)state;
    fixture made = open_pool(NULL, 0);
    assert_size_cell(made, INT64_C(768) << 20, -1, "   768 MiB", "    -1 MiB");
    assert_size_cell(made, INT64_C(768) << 20, -(INT64_C(2) << 20), "   768 MiB", "    -2 MiB");
    close_pool(made);
}

static void counts_change_unit_at_750_of_the_next_one(void **state)
{
    (void)state;
    static const struct {
        int64_t count;
        const char *line;
    } cases[] = {
        {749999, "| Oversize allocations  |  749999    |       0    |       0    |       0    |"},
        {750000, "| Oversize allocations  |     750 K  |       0    |       0    |       0    |"},
        {749999999,
         "| Oversize allocations  |  749999 K  |       0    |       0    |       0    |"},
        {750000000,
         "| Oversize allocations  |     750 M  |       0    |       0    |       0    |"},
        {INT64_C(12345678901234),
         "| Oversize allocations  | 12345678 M  |       0    |       0    |       0    |"},
    };
    fixture made = open_pool(NULL, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made.pool->counters.oversize_allocations =
            (vw__counter){.current = {0, cases[i].count}, .base = {0, cases[i].count}};
        assert_string_equal(line_of(page_of(made.pool, true), "Oversize allocations"),
                            cases[i].line);
    }
    close_pool(made);
}

static void the_heading_names_the_device(void **state)
{
    (void)state;
    fixture made = open_pool(NULL, 12);
    made.pool->counters.num_ooms = 345;
    made.pool->counters.num_alloc_retries = 6789;
    const char *page = page_of(made.pool, true);
    assert_non_null(strstr(page, "\n|                  PyTorch CUDA memory summary, device ID 12"
                                 "                |\n"));
    assert_non_null(
        strstr(page, "\n|            CUDA OOMs: 345          |        cudaMalloc retries: 6789"
                     "      |\n"));
    close_pool(made);
}

/* ---- buffers --------------------------------------------------------------------------------- */

static void a_buffer_too_small_gets_the_beginning_and_is_told_the_size(void **state)
{
    (void)state;
    fixture made = open_pool("2.11", 0);
    set_recorded_counters(&made.pool->counters);
    for (size_t capacity = 0; capacity <= sizeof recorded_page; capacity++) {
        char *buffer = malloc(capacity > 0 ? capacity : 1); /* exact, for the address sanitizer */
        assert_non_null(buffer);
        size_t needed = 0;
        vw_status status = vw_pool_summary(made.pool, false, buffer, capacity, &needed);
        assert_int_equal(status, capacity < sizeof recorded_page ? VW_ERR_INVALID_ARGUMENT : VW_OK);
        assert_int_equal(needed, sizeof recorded_page);
        if (capacity > 0) {
            assert_memory_equal(buffer, recorded_page, capacity - 1);
            assert_int_equal(buffer[capacity - 1], '\0');
        }
        free(buffer);
    }
    close_pool(made);
}

static void the_size_can_be_asked_without_a_buffer(void **state)
{
    (void)state;
    fixture made = open_pool("2.11", 0);
    size_t needed = 0;
    assert_int_equal(vw_pool_summary(made.pool, false, NULL, 0, &needed), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(needed, 47 * 78 + 1);
    assert_int_equal(vw_pool_summary(made.pool, true, NULL, 0, &needed), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(needed, 29 * 78 + 1);
    needed = 77;
    assert_int_equal(vw_pool_summary(made.pool, false, NULL, 10, &needed), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_pool_summary(NULL, false, NULL, 0, &needed), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(needed, 77);
    char page[PAGE_BYTES];
    assert_int_equal(vw_pool_summary(made.pool, false, page, sizeof page, NULL), VW_OK);
    close_pool(made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recorded_run_reads_as_pytorch_printed_it),
        cmocka_unit_test(the_abbreviated_page_is_the_same_without_the_rows_of_the_halves),
        cmocka_unit_test(releases_before_2_0_say_kb_and_have_no_requested_rows),
        cmocka_unit_test(releases_before_1_10_have_no_oversize_rows),
        cmocka_unit_test(sizes_change_unit_at_768_of_the_next_one),
        cmocka_unit_test(the_unit_is_chosen_in_floating_point_as_python_does),
        cmocka_unit_test(negative_numbers_are_rounded_downwards_as_python_does),
        cmocka_unit_test(counts_change_unit_at_750_of_the_next_one),
        cmocka_unit_test(the_heading_names_the_device),
        cmocka_unit_test(a_buffer_too_small_gets_the_beginning_and_is_told_the_size),
        cmocka_unit_test(the_size_can_be_asked_without_a_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
