/* test_view_columns.c - whatever goes into a container comes out of it, read by another reader. */
#include "view/view_columns.h"

#include <stdlib.h>
#include <string.h>

#include "base/host_memory.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/read_view.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

typedef struct made_container {
    char *bytes;
    read_view view;
} made_container;

static void finish(vw__view_columns *columns, const char *body_text, made_container *out)
{
    vw__byte_buffer body;
    size_t size_bytes;
    vw__byte_buffer_init(&body);
    vw__append_text(&body, body_text);
    assert_int_equal(vw__view_columns_finish(columns, &body, &out->bytes, &size_bytes), VW_OK);
    vw__byte_buffer_deinit(&body);
    vw__view_columns_deinit(columns);
    read_view_open(&out->view, out->bytes, size_bytes);
}

static void dispose(made_container *container)
{
    read_view_close(&container->view);
    vw__host_free(container->bytes);
}

static void assert_column(const made_container *container, const char *name,
                          const uint64_t *expected, size_t expected_count)
{
    size_t count;
    uint64_t *values = read_view_column(&container->view, name, &count);
    assert_int_equal(count, expected_count);
    for (size_t i = 0; i < count; i++)
        assert_true(values[i] == expected[i]);
    free(values);
}

static void the_extremes_of_every_type_come_back(void **state)
{
    (void)state;
    static const uint8_t u8[] = {0, 255, 1, 128};
    static const uint16_t u16[] = {65535, 0, 32768, 32767, 1};
    static const uint32_t u32[] = {0, UINT32_MAX, 0, 1, UINT32_C(1) << 31};
    static const uint64_t u64[] = {UINT64_MAX, 0, UINT64_C(1) << 63, 1, UINT64_MAX - 1};
    vw__view_columns columns;
    made_container container;
    vw__view_columns_init(&columns);
    vw__view_columns_prefix(&columns, "r%d.", 0);
    assert_int_equal(vw__view_columns_add(&columns, "a", VW__VIEW_ARRAY(u8, COUNT_OF(u8))), VW_OK);
    assert_int_equal(vw__view_columns_add(&columns, "b", VW__VIEW_ARRAY(u16, COUNT_OF(u16))),
                     VW_OK);
    assert_int_equal(vw__view_columns_add(&columns, "c", VW__VIEW_ARRAY(u32, COUNT_OF(u32))),
                     VW_OK);
    assert_int_equal(vw__view_columns_add(&columns, "d", VW__VIEW_ARRAY(u64, COUNT_OF(u64))),
                     VW_OK);
    finish(&columns, "\"runs\": [], \"diff\": null", &container);
    assert_column(&container, "r0.a", (const uint64_t[]){0, 255, 1, 128}, 4);
    assert_column(&container, "r0.b", (const uint64_t[]){65535, 0, 32768, 32767, 1}, 5);
    assert_column(&container, "r0.c", (const uint64_t[]){0, UINT32_MAX, 0, 1, UINT64_C(1) << 31},
                  5);
    assert_column(&container, "r0.d", u64, COUNT_OF(u64));
    assert_true(json_is_null(json_object_get(container.view.header, "diff")));
    assert_false(read_view_has(&container.view, "r0.e"));
    dispose(&container);
}

static void a_column_may_have_nothing_in_it(void **state)
{
    (void)state;
    const uint64_t *nothing = NULL;
    vw__view_columns columns;
    made_container container;
    vw__view_columns_init(&columns);
    assert_int_equal(vw__view_columns_add(&columns, "none", VW__VIEW_ARRAY(nothing, 0)), VW_OK);
    finish(&columns, "\"runs\": []", &container);
    assert_column(&container, "none", NULL, 0);
    dispose(&container);
}

/* More than a chunk, of several types at once, from fields of structs. */
static void fields_of_many_structs_come_back(void **state)
{
    (void)state;
    enum { MANY = 50000 };
    typedef struct row {
        uint64_t wide;
        uint32_t number;
        uint16_t short_one;
        uint8_t small;
    } row;
    row *rows = calloc(MANY, sizeof *rows);
    uint64_t *wide = calloc(MANY, sizeof *wide), *small = calloc(MANY, sizeof *small);
    vw__view_columns columns;
    made_container container;
    srand(4);
    for (size_t i = 0; i < MANY; i++) {
        rows[i] = (row){(uint64_t)rand() << 33 ^ (uint64_t)rand(), (uint32_t)rand(),
                        (uint16_t)rand(), (uint8_t)rand()};
        wide[i] = rows[i].wide;
        small[i] = rows[i].small;
    }
    vw__view_columns_init(&columns);
    assert_int_equal(vw__view_columns_add(&columns, "wide", VW__VIEW_FIELD(rows, wide, MANY)),
                     VW_OK);
    assert_int_equal(vw__view_columns_add(&columns, "small", VW__VIEW_FIELD(rows, small, MANY)),
                     VW_OK);
    finish(&columns, "\"runs\": []", &container);
    assert_column(&container, "wide", wide, MANY);
    assert_column(&container, "small", small, MANY);
    dispose(&container);
    free(rows);
    free(wide);
    free(small);
}

/* The header names offsets behind itself: its own length must not be off by the digits in it. */
static void offsets_are_right_whatever_the_length_of_the_header(void **state)
{
    (void)state;
    static const uint32_t values[] = {1, 2, 3};
    char body[1200];
    for (size_t length = 0; length < 1100; length += 7) {
        vw__view_columns columns;
        made_container container;
        snprintf(body, sizeof body, "\"runs\": [\"%*s\"]", (int)length, "");
        vw__view_columns_init(&columns);
        for (int i = 0; i < 12; i++) {
            vw__view_columns_prefix(&columns, "r%d.", i);
            assert_int_equal(vw__view_columns_add(&columns, "v", VW__VIEW_ARRAY(values, 3)), VW_OK);
        }
        finish(&columns, body, &container);
        json_t *first = json_array_get(json_object_get(container.view.header, "columns"), 0);
        assert_int_equal(read_view_number(first, "offset") % 8, 0);
        assert_column(&container, "r0.v", (const uint64_t[]){1, 2, 3}, 3);
        assert_column(&container, "r11.v", (const uint64_t[]){1, 2, 3}, 3);
        dispose(&container);
    }
}

static bool make_container(void *context)
{
    static const uint64_t values[] = {1, 2, 3};
    (void)context;
    vw__view_columns columns;
    vw__byte_buffer body;
    char *bytes = NULL;
    size_t size_bytes;
    vw__byte_buffer_init(&body);
    vw__append_text(&body, "\"runs\": []");
    vw__view_columns_init(&columns);
    vw_status status = vw__view_columns_add(&columns, "v", VW__VIEW_ARRAY(values, 3));
    if (status == VW_OK)
        status = vw__view_columns_finish(&columns, &body, &bytes, &size_bytes);
    vw__byte_buffer_deinit(&body);
    vw__view_columns_deinit(&columns);
    vw__host_free(bytes);
    return status == VW_OK;
}

static void every_lack_of_host_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(make_container, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_extremes_of_every_type_come_back),
        cmocka_unit_test(a_column_may_have_nothing_in_it),
        cmocka_unit_test(fields_of_many_structs_come_back),
        cmocka_unit_test(offsets_are_right_whatever_the_length_of_the_header),
        cmocka_unit_test(every_lack_of_host_memory_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
