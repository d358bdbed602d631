/* test_pool.c - what a pool promises its callers, whatever engine is below.
 *
 * Where a call is refused, the whole pool is described before and after, and nothing may differ:
 * "a failed call changes nothing" is then a comparison of two texts. */
#include "pool/pool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/cmocka_here.h"
#include "support/pool_fixture.h"

/* ---- nothing changed ------------------------------------------------------------------------- */

typedef struct picture {
    char *text;
    vw_pool_stats stats;
} picture;

static picture take_picture(vw_test_pool *t)
{
    vw_test_forget_events(t);
    return (picture){vw_test_describe(t), vw_test_stats(t)};
}

static void expect_unchanged(vw_test_pool *t, picture *before)
{
    vw_test_expect_no_events(t);
    char *text = vw_test_describe(t);
    vw_pool_stats stats = vw_test_stats(t);
    assert_string_equal(text, before->text);
    assert_memory_equal(&stats, &before->stats, sizeof stats);
    free(text);
    free(before->text);
    before->text = NULL;
}

/* ---- making a pool --------------------------------------------------------------------------- */

static void a_pool_that_cannot_be_made_says_why_and_stores_nothing(void **state)
{
    (void)state;
    vw_device *device = NULL;
    assert_int_equal(vw_simulated_device_create(NULL, &device), VW_OK);
    const struct {
        vw_pool_options options;
        vw_status status;
        const char *text;
    } cases[] = {
        {{.struct_size = 1}, VW_ERR_INVALID_ARGUMENT, "struct_size"},
        {{.struct_size = sizeof(vw_pool_options), .engine = "tcmalloc"},
         VW_ERR_INVALID_ARGUMENT,
         "tcmalloc"},
        {{.struct_size = sizeof(vw_pool_options), .torch_version = "two"},
         VW_ERR_INVALID_ARGUMENT,
         "two"},
        {{.struct_size = sizeof(vw_pool_options), .torch_version = "1.5"},
         VW_ERR_INVALID_ARGUMENT,
         "1.5"},
        {{.struct_size = sizeof(vw_pool_options), .conf = "no_such_key:1"},
         VW_ERR_BAD_SETTING,
         "no_such_key"},
        {{.struct_size = sizeof(vw_pool_options), .conf = "backend:cudaMallocAsync"},
         VW_ERR_INVALID_ARGUMENT,
         "cudaMallocAsync"},
    };
    vw_pool *const untouched = (vw_pool *)(void *)&cases;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vw_pool *pool = untouched;
        assert_int_equal(vw_pool_create(device, &cases[i].options, &pool), cases[i].status);
        assert_ptr_equal(pool, untouched);
        assert_non_null(strstr(vw_last_error(), cases[i].text));
    }
    vw_pool *pool = untouched;
    assert_int_equal(vw_pool_create(NULL, NULL, &pool), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_pool_create(device, NULL, NULL), VW_ERR_INVALID_ARGUMENT);
    assert_ptr_equal(pool, untouched);
    vw_device_destroy(device);
}

static void without_options_it_is_pytorchs_allocator_with_its_defaults(void **state)
{
    (void)state;
    vw_device *device = NULL;
    vw_pool *pool = NULL;
    assert_int_equal(vw_simulated_device_create(NULL, &device), VW_OK);
    assert_int_equal(vw_pool_create(device, NULL, &pool), VW_OK);
    assert_string_equal(pool->engine->table->name, "torch");
    assert_int_equal(pool->wording.version, VW__TORCH_DEFAULT_VERSION);
    assert_true(vw_pool_get_fraction(pool) == 1.0);
    vw_pool_destroy(pool);
    vw_pool_destroy(NULL);
    vw_device_destroy(device);
}

static void calls_without_a_pool_or_a_place_are_refused(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, NULL);
    vw_device_ptr address = 77;
    vw_alloc_request request = {.struct_size = sizeof request, .size_bytes = 1};
    vw_block_place place;
    assert_int_equal(vw_alloc(NULL, 1, 0, &address), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_alloc(t.pool, 1, 0, NULL), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_alloc(t.pool, 0, 0, NULL), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_alloc_with(NULL, &request, &address), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_alloc_with(t.pool, NULL, &address), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_alloc_with(t.pool, &request, NULL), VW_ERR_INVALID_ARGUMENT);
    request.struct_size = 0;
    assert_int_equal(vw_alloc_with(t.pool, &request, &address), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_free(NULL, 512), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_record_stream(NULL, 512, 1), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_pool_trim(NULL), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_pool_set_fraction(NULL, 0.5), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_pool_configure(NULL, ""), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_pool_find(NULL, 512, &place), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_pool_find(t.pool, 512, NULL), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_pool_walk(t.pool, NULL, false), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_pool_check(NULL), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_pool_set_sink(t.pool, &(vw_event_sink){NULL, NULL}),
                     VW_ERR_INVALID_ARGUMENT);
    assert_true(vw_pool_get_fraction(NULL) == 1.0);
    assert_int_equal(address, 77);
    vw_test_pool_close(&t);
}

/* ---- odd sizes ------------------------------------------------------------------------------- */

static void zero_bytes_are_the_null_address(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, NULL);
    picture before = take_picture(&t);
    vw_device_ptr address = 77;
    vw_test_ok(&t, vw_alloc(t.pool, 0, 0, &address));
    assert_int_equal(address, VW_NULL);
    address = 77;
    vw_test_ok(&t,
               vw_alloc_with(t.pool, &(vw_alloc_request){.struct_size = sizeof(vw_alloc_request)},
                             &address));
    assert_int_equal(address, VW_NULL);
    vw_test_free(&t, VW_NULL);
    expect_unchanged(&t, &before);
    vw_test_pool_close(&t);
}

static void two_to_the_60_bytes_are_refused_in_pytorchs_words(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, NULL);
    const uint64_t sizes[] = {UINT64_C(1) << 60, (UINT64_C(1) << 60) + 1, UINT64_MAX};
    picture before = take_picture(&t);
    for (size_t i = 0; i < 3; i++) {
        vw_test_alloc_fails(&t, sizes[i], 0, VW_ERR_TOO_LARGE);
        assert_string_equal(vw_last_error(),
                            "CUDA out of memory. Tried to allocate more than 1EB memory.");
    }
    expect_unchanged(&t, &before);
    vw_test_alloc_fails(&t, (UINT64_C(1) << 60) - 1, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_pool_close(&t);
}

/* ---- addresses that are none ----------------------------------------------------------------- */

static void frees_of_anything_but_a_live_block_change_nothing(void **state)
{
    (void)state;
    for (int is_expandable = 0; is_expandable < 2; is_expandable++) {
        vw_test_pool t, other;
        const vw_test_pool_setup setup = {.conf =
                                              is_expandable ? "expandable_segments:True" : NULL};
        vw_test_pool_open(&t, &setup);
        vw_test_pool_open(&other, &setup);
        vw_test_alloc(&other, 100 * VW_TEST_MIB);
        vw_device_ptr foreign = vw_test_alloc(&other, 200 * VW_TEST_MIB);
        vw_device_ptr a = vw_test_alloc(&t, 4096), b = vw_test_alloc(&t, 4096);
        vw_device_ptr freed = vw_test_alloc(&t, 4096);
        vw_test_alloc(&t, 4096);
        vw_test_free(&t, freed);
        const vw_device_ptr wrong[] = {freed,       foreign,
                                       a + 1,       a + 512,
                                       b - 1,       b + 4096 - 512,
                                       freed + 512, a + 2 * VW_TEST_MIB,
                                       1,           512,
                                       UINT64_MAX,  UINT64_MAX - 511};
        picture before = take_picture(&t);
        for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
            vw_test_refused(&t, vw_free(t.pool, wrong[i]), VW_ERR_UNKNOWN_ADDRESS);
            vw_test_refused(&t, vw_record_stream(t.pool, wrong[i], 9), VW_ERR_UNKNOWN_ADDRESS);
        }
        expect_unchanged(&t, &before);
        vw_test_free(&t, a);
        vw_test_refused(&t, vw_free(t.pool, a), VW_ERR_UNKNOWN_ADDRESS);
        vw_test_pool_close(&other);
        vw_test_pool_close(&t);
    }
}

static void a_block_is_found_from_its_first_to_its_last_byte(void **state)
{
    (void)state;
    for (int is_expandable = 0; is_expandable < 2; is_expandable++) {
        vw_test_pool t;
        vw_test_pool_open(
            &t, &(vw_test_pool_setup){.conf = is_expandable ? "expandable_segments:True" : NULL});
        vw_device_ptr first = vw_test_alloc_on(&t, 700, 3);
        vw_device_ptr block = VW_NULL;
        vw_alloc_request request = {
            .struct_size = sizeof request, .size_bytes = 1500, .stream = 3, .tag = 42};
        vw_test_ok(&t, vw_alloc_with(t.pool, &request, &block));
        const uint64_t inside[] = {0, 1, 511, 1499, 1500, 1535};
        for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++) {
            vw_block_place place;
            vw_test_ok(&t, vw_pool_find(t.pool, block + inside[i], &place));
            assert_int_equal(place.block_address, block);
            assert_int_equal(place.block_bytes, 1536);
            assert_int_equal(place.requested_bytes, 1500);
            assert_int_equal(place.stream, 3);
            assert_int_equal(place.tag, 42);
            assert_int_equal(place.segment_address, first);
            assert_int_equal(place.segment_bytes, 2 * VW_TEST_MIB); /* of it, what is mapped */
            assert_int_equal(place.is_expandable, is_expandable);
        }
        vw_block_place place = {.block_address = 77};
        vw_test_refused(&t, vw_pool_find(t.pool, block + 1536, &place), VW_ERR_UNKNOWN_ADDRESS);
        vw_test_refused(&t, vw_pool_find(t.pool, first - 1, &place), VW_ERR_UNKNOWN_ADDRESS);
        vw_test_refused(&t, vw_pool_find(t.pool, first + 2 * VW_TEST_MIB, &place),
                        VW_ERR_UNKNOWN_ADDRESS);
        vw_test_refused(&t, vw_pool_find(t.pool, VW_NULL, &place), VW_ERR_UNKNOWN_ADDRESS);
        vw_test_free(&t, block);
        vw_test_refused(&t, vw_pool_find(t.pool, block, &place), VW_ERR_UNKNOWN_ADDRESS);
        assert_int_equal(place.block_address, 77);
        vw_test_pool_close(&t);
    }
}

/* ---- the long form --------------------------------------------------------------------------- */

static vw_device_ptr alloc_at(vw_test_pool *t, vw_device_ptr at, uint64_t size_bytes)
{
    vw_device_ptr address = VW_NULL;
    uint64_t served_bytes = 0;
    vw_alloc_request request = {.struct_size = sizeof request,
                                .size_bytes = size_bytes,
                                .tag = 7,
                                .at = at,
                                .served_bytes = &served_bytes};
    vw_test_ok(t, vw_alloc_with(t->pool, &request, &address));
    assert_int_equal(address, at);
    assert_true(served_bytes >= size_bytes);
    return address;
}

static void refuse_at(vw_test_pool *t, vw_device_ptr at, uint64_t size_bytes, vw_stream stream,
                      vw_status expected)
{
    picture before = take_picture(t);
    vw_device_ptr address = 77;
    uint64_t served_bytes = 77;
    vw_alloc_request request = {.struct_size = sizeof request,
                                .size_bytes = size_bytes,
                                .stream = stream,
                                .at = at,
                                .served_bytes = &served_bytes};
    uint64_t takes = vw_test_calls(t).count[VW_DEVICE_CALL_TAKE];
    vw_test_refused(t, vw_alloc_with(t->pool, &request, &address), expected);
    assert_int_equal(address, 77);
    assert_int_equal(served_bytes, 77);
    assert_int_equal(vw_test_calls(t).count[VW_DEVICE_CALL_TAKE], takes);
    expect_unchanged(t, &before);
}

static void the_size_served_and_the_tag_are_told(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, NULL);
    vw_device_ptr a = VW_NULL;
    uint64_t served_bytes = 0;
    vw_alloc_request request = {.struct_size = sizeof request,
                                .size_bytes = 19 * VW_TEST_MIB + 1,
                                .tag = 5,
                                .served_bytes = &served_bytes};
    vw_test_ok(&t, vw_alloc_with(t.pool, &request, &a));
    assert_int_equal(served_bytes, 20 * VW_TEST_MIB); /* the rest is too small to split off */
    assert_int_equal(t.event_count, 2);
    assert_int_equal(t.events[0].action, VW_ACTION_SEGMENT_ALLOC);
    assert_int_equal(t.events[1].action, VW_ACTION_ALLOC);
    assert_int_equal(t.events[0].tag, 5);
    assert_int_equal(t.events[1].tag, 5);
    char *text = vw_test_describe(&t);
    assert_non_null(strstr(text, "requested 19922945 tag 5 live"));
    free(text);
    vw_test_forget_events(&t);
    vw_test_free(&t, a);
    assert_int_equal(t.event_count, 2);
    assert_int_equal(t.events[0].tag, 5);
    assert_int_equal(t.events[1].tag, 5);
    text = vw_test_describe(&t);
    assert_non_null(strstr(text, "requested 19922945 tag 0 free"));
    free(text);
    vw_test_pool_close(&t);
}

static void an_exact_address_at_a_free_blocks_start_is_carved_as_usual(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, NULL);
    vw_device_ptr a = vw_test_alloc(&t, 4096);
    vw_test_free(&t, a);
    vw_test_forget_events(&t);
    alloc_at(&t, a, 1000);
    vw_test_expect_events(&t, {VW_ACTION_ALLOC, a, 1000});
    assert_int_equal(vw_test_stats(&t).allocated_bytes.all.current, 1024);
    vw_test_pool_close(&t);
}

/* What lies before the address is handed out and given back: PyTorch's traces show it. */
static void an_exact_address_inside_a_free_block_leaves_free_blocks_around_it(void **state)
{
    (void)state;
    for (int is_expandable = 0; is_expandable < 2; is_expandable++) {
        vw_test_pool t;
        vw_test_pool_open(
            &t, &(vw_test_pool_setup){.conf = is_expandable ? "expandable_segments:True" : NULL});
        vw_device_ptr a = vw_test_alloc(&t, 4096);
        vw_test_free(&t, a);
        vw_test_forget_events(&t);
        vw_device_ptr b = alloc_at(&t, a + 64 * VW_TEST_KIB, 1000);
        vw_test_expect_events(&t, {VW_ACTION_ALLOC, a, 64 * VW_TEST_KIB},
                              {VW_ACTION_ALLOC, b, 1000},
                              {VW_ACTION_FREE_REQUESTED, a, 64 * VW_TEST_KIB},
                              {VW_ACTION_FREE_COMPLETED, a, 64 * VW_TEST_KIB});
        assert_int_equal(vw_test_stats(&t).allocated_bytes.all.current, 1024);
        assert_int_equal(vw_test_alloc(&t, 64 * VW_TEST_KIB), a);
        assert_int_equal(vw_test_alloc(&t, 512), b + 1024);
        vw_test_pool_close(&t);
    }
}

static void an_exact_address_may_take_the_very_end_of_a_block(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, NULL);
    vw_device_ptr a = vw_test_alloc(&t, 4096);
    vw_test_free(&t, a);
    vw_device_ptr end = a + 2 * VW_TEST_MIB;
    refuse_at(&t, end - 1024, 1025, 0, VW_ERR_OUT_OF_MEMORY);
    alloc_at(&t, end - 1024, 1024);
    vw_test_pool_close(&t);
}

static void an_exact_address_that_is_not_free_is_refused_and_nothing_changed(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, &(vw_test_pool_setup){.conf = "expandable_segments:True"});
    vw_device_ptr a = vw_test_alloc(&t, 4096), b = vw_test_alloc(&t, 4096);
    vw_test_alloc(&t, 4096);
    vw_test_free(&t, b);
    refuse_at(&t, b + 1, 512, 0, VW_ERR_INVALID_ARGUMENT);
    refuse_at(&t, b + 256, 512, 0, VW_ERR_INVALID_ARGUMENT);
    refuse_at(&t, a, 512, 0, VW_ERR_OUT_OF_MEMORY);                   /* live */
    refuse_at(&t, b, 4097, 0, VW_ERR_OUT_OF_MEMORY);                  /* reaches into a live one */
    refuse_at(&t, b + 512, 4096, 0, VW_ERR_OUT_OF_MEMORY);            /* the same, from inside */
    refuse_at(&t, b, 512, 1, VW_ERR_OUT_OF_MEMORY);                   /* another stream's */
    refuse_at(&t, b, 2 * VW_TEST_MIB, 0, VW_ERR_OUT_OF_MEMORY);       /* another size kind's */
    refuse_at(&t, a + 2 * VW_TEST_MIB, 512, 0, VW_ERR_OUT_OF_MEMORY); /* not mapped */
    refuse_at(&t, 512, 512, 0, VW_ERR_OUT_OF_MEMORY);                 /* nobody's */
    vw_test_pool_close(&t);
}

/* ---- listeners ------------------------------------------------------------------------------- */

static void count_event(void *context, const vw_memory_event *event)
{
    (void)event;
    ++*(size_t *)context;
}

static void a_listener_can_be_replaced_and_taken_away_at_any_time(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, NULL);
    size_t second_count = 0;
    vw_event_sink second = {&second_count, count_event};
    vw_device_ptr a = vw_test_alloc(&t, 100);
    assert_int_equal(t.event_count, 2);
    vw_test_ok(&t, vw_pool_set_sink(t.pool, &second));
    second.notice = NULL; /* the struct was copied */
    vw_test_free(&t, a);
    assert_int_equal(t.event_count, 2);
    assert_int_equal(second_count, 2);
    vw_test_trim(&t); /* the engine's own events go there, too */
    assert_int_equal(second_count, 3);
    assert_int_equal(vw_pool_set_sink(t.pool, &second), VW_ERR_INVALID_ARGUMENT);
    vw_test_ok(&t, vw_pool_set_sink(t.pool, NULL));
    vw_test_free(&t, vw_test_alloc(&t, 100));
    vw_test_alloc_fails(&t, 2 * VW_TEST_GIB, 0, VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(second_count, 3);
    assert_int_equal(t.event_count, 2);
    vw_test_pool_close(&t);
}

static bool stop_at_once(void *context, const vw_segment_info *segment)
{
    (void)segment;
    return --*(int *)context > 0;
}

static bool stop_at_block(void *context, const vw_segment_info *segment, const vw_block_info *block)
{
    (void)segment;
    (void)block;
    return --*(int *)context > 0;
}

static void a_walk_goes_as_far_as_its_visitor_wants(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, NULL);
    for (vw_stream stream = 0; stream < 3; stream++)
        vw_test_alloc_on(&t, 100, stream);
    for (int wanted = 1; wanted <= 3; wanted++) {
        int left = wanted;
        vw_test_ok(&t, vw_pool_walk(t.pool, &(vw_walker){&left, stop_at_once, NULL}, false));
        assert_int_equal(left, 0);
        left = wanted;
        vw_test_ok(&t, vw_pool_walk(t.pool, &(vw_walker){&left, NULL, stop_at_block}, false));
        assert_int_equal(left, 0);
    }
    vw_test_forget_events(&t);
    vw_test_ok(&t, vw_pool_walk(t.pool, &(vw_walker){NULL, NULL, NULL}, true));
    vw_test_expect_events(&t, {VW_ACTION_SNAPSHOT, 0, 3 * 512});
    vw_test_pool_close(&t);
}

/* ---- settings -------------------------------------------------------------------------------- */

static void a_fraction_lies_between_nothing_and_all(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, NULL);
    const double wrong[] = {-0.001, 1.001, -INFINITY, INFINITY, NAN};
    vw_test_ok(&t, vw_pool_set_fraction(t.pool, 0.5));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        vw_test_refused(&t, vw_pool_set_fraction(t.pool, wrong[i]), VW_ERR_INVALID_ARGUMENT);
        assert_true(vw_pool_get_fraction(t.pool) == 0.5);
        assert_int_equal(vw_test_stats(&t).limit_bytes, VW_TEST_GIB / 2);
    }
    vw_device_ptr a = vw_test_alloc(&t, 512 * VW_TEST_MIB);
    vw_test_alloc_fails(&t, 1, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_ok(&t, vw_pool_set_fraction(t.pool, 0.0)); /* gives nothing back */
    assert_int_equal(vw_test_calls(&t).in_use_bytes, 512 * VW_TEST_MIB);
    vw_test_free(&t, a);
    assert_int_equal(vw_test_alloc(&t, 512 * VW_TEST_MIB), a); /* what is cached still serves */
    vw_test_ok(&t, vw_pool_set_fraction(t.pool, 1.0));
    vw_test_alloc(&t, 1);
    vw_test_pool_close(&t);
}

static void settings_can_change_while_the_pool_runs(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, NULL);
    vw_device_ptr a = vw_test_alloc(&t, 512);
    vw_test_ok(&t, vw_pool_configure(t.pool, "expandable_segments:True"));
    vw_device_ptr b = vw_test_alloc_on(&t, 512, 1);
    vw_block_place place;
    vw_test_ok(&t, vw_pool_find(t.pool, a, &place));
    assert_false(place.is_expandable);
    vw_test_ok(&t, vw_pool_find(t.pool, b, &place));
    assert_true(place.is_expandable);
    vw_test_ok(&t, vw_pool_configure(t.pool, "max_split_size_mb:100"));
    assert_int_equal(t.pool->engine->max_split_bytes, 100 * VW_TEST_MIB);
    assert_int_equal(vw_test_stats(&t).max_split_size, -1); /* as it was when it was made */
    vw_test_ok(&t, vw_pool_configure(t.pool, NULL));
    assert_int_equal(t.pool->engine->max_split_bytes, UINT64_MAX);
    vw_test_pool_close(&t);
}

static void settings_that_are_refused_change_nothing(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, &(vw_test_pool_setup){.conf = "max_split_size_mb:200"});
    const char *const wrong[] = {
        "max_split_size_mb:1",
        "max_split_size_mb:100,no_such_key:1",
        "expandable_segments:True,garbage_collection_threshold:2",
        "max_split_size_mb:x",
        "expandable_segments:maybe",
    };
    vw_test_alloc(&t, 512);
    picture before = take_picture(&t);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        vw_test_refused(&t, vw_pool_configure(t.pool, wrong[i]), VW_ERR_BAD_SETTING);
        assert_int_equal(t.pool->engine->max_split_bytes, 200 * VW_TEST_MIB);
    }
    expect_unchanged(&t, &before);
    vw_device_ptr b = vw_test_alloc_on(&t, 512, 1);
    vw_block_place place;
    vw_test_ok(&t, vw_pool_find(t.pool, b, &place));
    assert_false(place.is_expandable);
    vw_test_pool_close(&t);
}

/* ---- the program's own memory ---------------------------------------------------------------- */

typedef struct hoard {
    vw_test_pool *t;
    vw_device_ptr block; /* freed when asked */
    bool answer;
    int calls;
    vw_status checked; /* what vw_pool_check() said meanwhile */
} hoard;

static bool let_go(void *context)
{
    hoard *mine = context;
    mine->calls++;
    if (mine->block != VW_NULL)
        vw_free(mine->t->pool, mine->block);
    mine->block = VW_NULL;
    mine->checked = vw_pool_check(mine->t->pool);
    return mine->answer;
}

static void open_with_hoard(vw_test_pool *t, hoard *mine)
{
    *mine = (hoard){.t = t, .answer = true};
    vw_test_pool_open(t, &(vw_test_pool_setup){.reclaim = let_go, .reclaim_context = mine});
}

static void the_program_is_asked_before_the_device_is(void **state)
{
    (void)state;
    vw_test_pool t;
    hoard mine;
    open_with_hoard(&t, &mine);
    mine.block = vw_test_alloc(&t, 30 * VW_TEST_MIB);
    vw_device_ptr held = mine.block;
    assert_int_equal(mine.calls, 1); /* asked, and had nothing */
    vw_test_forget_events(&t);
    assert_int_equal(vw_test_alloc(&t, 30 * VW_TEST_MIB), held);
    vw_test_expect_events(&t, {VW_ACTION_FREE_REQUESTED, held, 30 * VW_TEST_MIB},
                          {VW_ACTION_FREE_COMPLETED, held, 30 * VW_TEST_MIB},
                          {VW_ACTION_ALLOC, held, 30 * VW_TEST_MIB});
    assert_int_equal(mine.calls, 2);
    vw_test_free(&t, held);
    vw_test_alloc(&t, 30 * VW_TEST_MIB);
    assert_int_equal(mine.calls, 2); /* a cached block fits: nobody is asked */
    vw_test_pool_close(&t);
}

static void if_the_program_says_no_the_device_is_asked(void **state)
{
    (void)state;
    vw_test_pool t;
    hoard mine;
    open_with_hoard(&t, &mine);
    mine.block = vw_test_alloc(&t, 30 * VW_TEST_MIB);
    vw_device_ptr held = mine.block;
    mine.answer = false; /* it frees, and says that it did not */
    assert_int_not_equal(vw_test_alloc(&t, 30 * VW_TEST_MIB), held);
    vw_test_pool_close(&t);
}

/* Without the lock anything may be asked of the pool, and it is whole. */
static void while_the_program_is_asked_the_pool_is_whole(void **state)
{
    (void)state;
    vw_test_pool t;
    hoard mine;
    open_with_hoard(&t, &mine);
    vw_test_alloc(&t, 100);
    assert_int_equal(mine.calls, 1);
    if (mine.checked != VW_OK)
        fail_msg("%s", vw_last_error());
    vw_test_pool_close(&t);
}

/* As another thread could while this one waits for the program's answer. */
static bool allocate_a_little(void *context)
{
    static bool is_busy; /* its own request must not ask again */
    vw_test_pool *t = context;
    vw_device_ptr ignored;
    if (is_busy)
        return false;
    is_busy = true;
    assert_int_equal(vw_alloc(t->pool, 512, 0, &ignored), VW_OK);
    is_busy = false;
    return false;
}

/* The room for an address is looked for first. If others file theirs while the program is asked,
 * it must still be there afterwards: a map that is too full is never found too full again. */
static void blocks_handed_out_meanwhile_do_not_take_the_requests_room(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t,
                      &(vw_test_pool_setup){.reclaim = allocate_a_little, .reclaim_context = &t});
    vw_test_free(&t, vw_test_alloc(&t, 512)); /* one block stays: two at a time meet every limit */
    for (vw_stream stream = 1; stream < 100; stream++) {
        vw_test_alloc_on(&t, 512, stream); /* a miss each time */
        assert_true(VW__BLOCK_MAP_SPARSENESS * vw__block_map_count(&t.pool->live) <=
                    t.pool->live.capacity);
    }
    vw_test_pool_close(&t);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void the_end_gives_everything_back(void **state)
{
    (void)state;
    static const char *const confs[] = {"", "expandable_segments:True", "max_split_size_mb:50"};
    for (size_t i = 0; i < sizeof confs / sizeof confs[0]; i++) {
        vw_test_pool t;
        vw_test_pool_open(&t, &(vw_test_pool_setup){.conf = confs[i], .manual_streams = true});
        for (vw_stream stream = 0; stream < 3; stream++) {
            vw_device_ptr live = vw_test_alloc_on(&t, 5000, stream);
            vw_device_ptr pending = vw_test_alloc_on(&t, 60 * VW_TEST_MIB, stream);
            vw_device_ptr freed = vw_test_alloc_on(&t, 7 * VW_TEST_MIB, stream);
            vw_test_ok(&t, vw_record_stream(t.pool, live, 8));
            vw_test_ok(&t, vw_record_stream(t.pool, pending, 9));
            vw_test_free(&t, pending);
            vw_test_free(&t, freed);
        }
        const vw_private_id id = {1, 2};
        vw_test_ok(&t, vw_private_pool_begin(t.pool, id, NULL, NULL));
        vw_test_alloc(&t, 5000);
        assert_true(vw_test_calls(&t).in_use_bytes > 0);
        vw_test_pool_close(&t); /* sees to it that nothing is in use */
    }
}

/* An expandable private pool reserves addresses before it asks for memory. If there is none, it
 * holds none, and must come to its end like any other. */
static void a_private_pool_that_never_got_memory_ends_with_its_last_use(void **state)
{
    (void)state;
    for (int is_expandable = 0; is_expandable < 2; is_expandable++) {
        const vw_private_id id = {1, 0};
        vw_test_pool t;
        vw_test_pool_open(
            &t, &(vw_test_pool_setup){.conf = is_expandable ? "expandable_segments:True" : NULL});
        vw_test_ok(&t, vw_private_pool_begin(t.pool, id, NULL, NULL));
        assert_int_equal(vw_device_set_capacity(t.device, VW_TEST_KIB), VW_OK);
        vw_test_alloc_fails(&t, 512, 0, VW_ERR_OUT_OF_MEMORY);
        vw_test_ok(&t, vw_private_pool_end(t.pool, id));
        vw_test_ok(&t, vw_private_pool_release(t.pool, id));
        vw_test_trim(&t);
        vw_test_ok(&t, vw_private_pool_retain(t.pool, id, NULL)); /* a new one of that name */
        vw_test_pool_close(&t);
    }
}

/* A hundred thousand live blocks in one segment: if the end took each of them from the segment's
 * first, it would take minutes. */
static void the_end_of_many_blocks_comes_soon(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, &(vw_test_pool_setup){.conf = "expandable_segments:True"});
    vw_test_ok(&t, vw_pool_set_sink(t.pool, NULL));
    vw_device_ptr address = VW_NULL;
    for (int i = 0; i < 100000; i++)
        assert_int_equal(vw_alloc(t.pool, 512, 0, &address), VW_OK);
    clock_t start = clock();
    vw_test_pool_close(&t);
    assert_true(clock() - start < 3 * CLOCKS_PER_SEC);
}

/* ---- a device that vanishes ------------------------------------------------------------------ */

static void without_its_device_a_pool_serves_from_its_cache_and_fails_cleanly(void **state)
{
    (void)state;
    static const char *const confs[] = {"", "expandable_segments:True"};
    for (size_t i = 0; i < sizeof confs / sizeof confs[0]; i++) {
        vw_test_pool t;
        vw_test_pool_open(&t, &(vw_test_pool_setup){.conf = confs[i]});
        vw_device_ptr a = vw_test_alloc(&t, 5000), b = vw_test_alloc(&t, 30 * VW_TEST_MIB);
        vw_device_ptr c = vw_test_alloc(&t, 5000);
        vw_test_ok(&t, vw_record_stream(t.pool, c, 1));
        vw_test_free(&t, b);
        assert_int_equal(vw_device_lose(t.device), VW_OK);

        vw_device_ptr cached = vw_test_alloc(&t, 30 * VW_TEST_MIB);
        assert_int_equal(cached, b);
        vw_test_alloc_fails(&t, 200 * VW_TEST_MIB, 0, VW_ERR_DEVICE);
        vw_test_alloc_fails(&t, 5000, 7, VW_ERR_DEVICE);
        vw_test_free(&t, cached);
        vw_test_free(&t, a);
        vw_test_refused(&t, vw_record_stream(t.pool, c, 2), VW_ERR_DEVICE);
        vw_test_refused(&t, vw_pool_trim(t.pool), VW_ERR_DEVICE);
        assert_int_equal(vw_test_alloc(&t, 30 * VW_TEST_MIB), b); /* nothing was lost by trying */
        vw_test_refused(&t, vw_free(t.pool, c), VW_ERR_DEVICE);   /* its event */
        vw_test_refused(&t, vw_free(t.pool, c), VW_ERR_UNKNOWN_ADDRESS);
        vw_test_refused(&t, vw_pool_trim(t.pool), VW_ERR_DEVICE);
        vw_pool_destroy(t.pool);
        vw_device_destroy(t.device);
        free(t.events);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pool_that_cannot_be_made_says_why_and_stores_nothing),
        cmocka_unit_test(without_options_it_is_pytorchs_allocator_with_its_defaults),
        cmocka_unit_test(calls_without_a_pool_or_a_place_are_refused),
        cmocka_unit_test(zero_bytes_are_the_null_address),
        cmocka_unit_test(two_to_the_60_bytes_are_refused_in_pytorchs_words),
        cmocka_unit_test(frees_of_anything_but_a_live_block_change_nothing),
        cmocka_unit_test(a_block_is_found_from_its_first_to_its_last_byte),
        cmocka_unit_test(the_size_served_and_the_tag_are_told),
        cmocka_unit_test(an_exact_address_at_a_free_blocks_start_is_carved_as_usual),
        cmocka_unit_test(an_exact_address_inside_a_free_block_leaves_free_blocks_around_it),
        cmocka_unit_test(an_exact_address_may_take_the_very_end_of_a_block),
        cmocka_unit_test(an_exact_address_that_is_not_free_is_refused_and_nothing_changed),
        cmocka_unit_test(a_listener_can_be_replaced_and_taken_away_at_any_time),
        cmocka_unit_test(a_walk_goes_as_far_as_its_visitor_wants),
        cmocka_unit_test(a_fraction_lies_between_nothing_and_all),
        cmocka_unit_test(settings_can_change_while_the_pool_runs),
        cmocka_unit_test(settings_that_are_refused_change_nothing),
        cmocka_unit_test(the_program_is_asked_before_the_device_is),
        cmocka_unit_test(if_the_program_says_no_the_device_is_asked),
        cmocka_unit_test(while_the_program_is_asked_the_pool_is_whole),
        cmocka_unit_test(blocks_handed_out_meanwhile_do_not_take_the_requests_room),
        cmocka_unit_test(the_end_gives_everything_back),
        cmocka_unit_test(a_private_pool_that_never_got_memory_ends_with_its_last_use),
        cmocka_unit_test(the_end_of_many_blocks_comes_soon),
        cmocka_unit_test(without_its_device_a_pool_serves_from_its_cache_and_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
