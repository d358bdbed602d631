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

static void finish(hr__view_columns *columns, const char *body_text, made_container *out)
{
    hr__byte_buffer body;
    size_t size_bytes;
    hr__byte_buffer_init(&body);
    hr__append_text(&body, body_text);
    assert_int_equal(hr__view_columns_finish(columns, &body, &out->bytes, &size_bytes), HR_OK);
    hr__byte_buffer_deinit(&body);
    hr__view_columns_deinit(columns);
    read_view_open(&out->view, out->bytes, size_bytes);
}

static void dispose(made_container *container)
{
    read_view_close(&container->view);
    hr__host_free(container->bytes);
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
    hr__view_columns columns;
    made_container container;
    hr__view_columns_init(&columns);
    hr__view_columns_prefix(&columns, "r%d.", 0);
    assert_int_equal(hr__view_columns_add(&columns, "a", HR__VIEW_ARRAY(u8, COUNT_OF(u8))), HR_OK);
    assert_int_equal(hr__view_columns_add(&columns, "b", HR__VIEW_ARRAY(u16, COUNT_OF(u16))),
                     HR_OK);
    assert_int_equal(hr__view_columns_add(&columns, "c", HR__VIEW_ARRAY(u32, COUNT_OF(u32))),
                     HR_OK);
    assert_int_equal(hr__view_columns_add(&columns, "d", HR__VIEW_ARRAY(u64, COUNT_OF(u64))),
                     HR_OK);
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
    hr__view_columns columns;
    made_container container;
    hr__view_columns_init(&columns);
    assert_int_equal(hr__view_columns_add(&columns, "none", HR__VIEW_ARRAY(nothing, 0)), HR_OK);
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
    hr__view_columns columns;
    made_container container;
    srand(4);
    for (size_t i = 0; i < MANY; i++) {
        rows[i] = (row){(uint64_t)rand() << 33 ^ (uint64_t)rand(), (uint32_t)rand(),
                        (uint16_t)rand(), (uint8_t)rand()};
        wide[i] = rows[i].wide;
        small[i] = rows[i].small;
    }
    hr__view_columns_init(&columns);
    assert_int_equal(hr__view_columns_add(&columns, "wide", HR__VIEW_FIELD(rows, wide, MANY)),
                     HR_OK);
    assert_int_equal(hr__view_columns_add(&columns, "small", HR__VIEW_FIELD(rows, small, MANY)),
                     HR_OK);
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
        hr__view_columns columns;
        made_container container;
        snprintf(body, sizeof body, "\"runs\": [\"%*s\"]", (int)length, "");
        hr__view_columns_init(&columns);
        for (int i = 0; i < 12; i++) {
            hr__view_columns_prefix(&columns, "r%d.", i);
            assert_int_equal(hr__view_columns_add(&columns, "v", HR__VIEW_ARRAY(values, 3)), HR_OK);
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
    hr__view_columns columns;
    hr__byte_buffer body;
    char *bytes = NULL;
    size_t size_bytes;
    hr__byte_buffer_init(&body);
    hr__append_text(&body, "\"runs\": []");
    hr__view_columns_init(&columns);
    hr_status status = hr__view_columns_add(&columns, "v", HR__VIEW_ARRAY(values, 3));
    if (status == HR_OK)
        status = hr__view_columns_finish(&columns, &body, &bytes, &size_bytes);
    hr__byte_buffer_deinit(&body);
    hr__view_columns_deinit(&columns);
    hr__host_free(bytes);
    return status == HR_OK;
}

static void every_lack_of_host_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    hr_test_sweep_host_memory(make_container, NULL);
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
