/* test_call_stack.c - a pool's listener looks at the stack: whose frames it finds. */
#include "record/call_stack.h"

#include <dlfcn.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/pool_fixture.h"

typedef struct listener {
    uint32_t most_frames;
    bool knows_no_caller;
    unsigned counts[VW_ACTION_OOM + 1];
    vw__call_stack last[VW_ACTION_OOM + 1]; /* by action */
} listener;

static listener heard; /* large */

static void listen(void *context, const vw_memory_event *event)
{
    listener *l = context;
    l->counts[event->action]++;
    vw__call_stack_walk(&l->last[event->action], l->knows_no_caller ? l : event->caller,
                        l->most_frames);
}

static void open_pool(vw_test_pool *test, const char *conf, uint32_t most_frames)
{
    vw_test_pool_open(test,
                      &(vw_test_pool_setup){.capacity_bytes = 100 * VW_TEST_MIB, .conf = conf});
    memset(&heard, 0, sizeof heard);
    assert_true(vw__call_stack_prepare());
    heard.most_frames = most_frames;
    assert_int_equal(vw_pool_set_sink(test->pool, &(vw_event_sink){&heard, listen}), VW_OK);
}

/* Where a call returns to is inside the function that made it: so these are never inlined, do
 * something after the call, and are short. */
#define CALLER __attribute__((noinline))
#define MOST_CALLER_BYTES 400

static CALLER vw_status ask(vw_pool *pool, uint64_t size_bytes, vw_device_ptr *out)
{
    vw_status status = vw_alloc(pool, size_bytes, 0, out);
    __asm__ volatile("" ::: "memory");
    return status;
}

static CALLER vw_status ask_at_length(vw_pool *pool, uint64_t size_bytes, vw_device_ptr *out)
{
    vw_alloc_request request = {.struct_size = sizeof request, .size_bytes = size_bytes};
    vw_status status = vw_alloc_with(pool, &request, out);
    __asm__ volatile("" ::: "memory");
    return status;
}

static CALLER vw_status empty(vw_pool *pool)
{
    vw_status status = vw_pool_trim(pool);
    __asm__ volatile("" ::: "memory");
    return status;
}

typedef vw_status (*asker)(vw_pool *pool, uint64_t size_bytes, vw_device_ptr *out);

/* The innermost frame that was found lies in `function`. */
static void expect_called_from(vw_action action, uintptr_t function)
{
    const vw__call_stack *stack = &heard.last[action];
    assert_int_not_equal(heard.counts[action], 0);
    assert_true(stack->frame_count >= 2);
    assert_in_range(stack->frames[0], function, function + MOST_CALLER_BYTES);
}

static void a_request_is_seen_from_its_caller_on(void **state)
{
    (void)state;
    const asker askers[] = {ask, ask_at_length};
    for (size_t i = 0; i < 2; i++) {
        vw_test_pool test;
        vw_device_ptr address;
        open_pool(&test, NULL, 64);
        assert_int_equal(askers[i](test.pool, VW_TEST_MIB, &address), VW_OK);
        expect_called_from(VW_ACTION_SEGMENT_ALLOC, (uintptr_t)askers[i]);
        expect_called_from(VW_ACTION_ALLOC, (uintptr_t)askers[i]);
        vw_test_pool_close(&test);
    }
}

static void memory_given_back_is_seen_from_whoever_caused_it(void **state)
{
    (void)state;
    static const char *const confs[] = {NULL, "expandable_segments:True"};
    const vw_action releases[] = {VW_ACTION_SEGMENT_FREE, VW_ACTION_SEGMENT_UNMAP};
    const asker askers[] = {ask, ask_at_length};
    for (size_t i = 0; i < 4; i++) {
        vw_test_pool test;
        vw_device_ptr address;
        vw_action action = releases[i % 2];
        asker asks = askers[i / 2];
        open_pool(&test, confs[i % 2], 64);
        assert_int_equal(asks(test.pool, 60 * VW_TEST_MIB, &address), VW_OK);
        assert_int_equal(vw_free(test.pool, address), VW_OK);
        assert_int_equal(empty(test.pool), VW_OK);
        expect_called_from(action, (uintptr_t)empty);

        assert_int_equal(asks(test.pool, 60 * VW_TEST_MIB, &address), VW_OK);
        assert_int_equal(vw_free(test.pool, address), VW_OK);
        assert_int_equal(asks(test.pool, 200 * VW_TEST_MIB, &address), VW_ERR_OUT_OF_MEMORY);
        expect_called_from(action, (uintptr_t)asks);
        expect_called_from(VW_ACTION_OOM, (uintptr_t)asks);
        vw_test_pool_close(&test);
    }
}

static void no_more_frames_are_kept_than_asked_for(void **state)
{
    (void)state;
    for (uint32_t most_frames = 0; most_frames <= 2; most_frames++) {
        vw_test_pool test;
        vw_device_ptr address;
        open_pool(&test, NULL, most_frames);
        assert_int_equal(ask(test.pool, VW_TEST_MIB, &address), VW_OK);
        assert_int_equal(heard.last[VW_ACTION_SEGMENT_ALLOC].frame_count, most_frames);
        vw_test_pool_close(&test);
    }
}

static void all_frames_are_kept_where_the_caller_is_not_among_them(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_device_ptr address;
    open_pool(&test, NULL, 64);
    assert_int_equal(ask(test.pool, VW_TEST_MIB, &address), VW_OK);
    uint32_t frame_count = heard.last[VW_ACTION_ALLOC].frame_count;
    assert_int_equal(vw_free(test.pool, address), VW_OK);
    heard.knows_no_caller = true;
    assert_int_equal(ask(test.pool, VW_TEST_MIB, &address), VW_OK);
    assert_true(heard.last[VW_ACTION_ALLOC].frame_count > frame_count);
    vw_test_pool_close(&test);
}

static void an_address_of_a_library_has_a_function_and_a_file(void **state)
{
    (void)state;
    char name[VW__CALL_STACK_NAME_BYTES];
    const char *file;
    void *function = dlsym(RTLD_DEFAULT, "getppid"); /* any that a library exports */
    assert_non_null(function);
    vw__call_stack_name((uintptr_t)function + 1, name, &file);
    assert_non_null(strstr(name, "getppid"));
    assert_non_null(strstr(file, "libc"));
}

static void an_address_of_nothing_is_its_own_name(void **state)
{
    (void)state;
    char name[VW__CALL_STACK_NAME_BYTES];
    const char *file;
    vw__call_stack_name(0x1234, name, &file);
    assert_string_equal(name, "0x1234");
    assert_string_equal(file, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_seen_from_its_caller_on),
        cmocka_unit_test(memory_given_back_is_seen_from_whoever_caused_it),
        cmocka_unit_test(no_more_frames_are_kept_than_asked_for),
        cmocka_unit_test(all_frames_are_kept_where_the_caller_is_not_among_them),
        cmocka_unit_test(an_address_of_a_library_has_a_function_and_a_file),
        cmocka_unit_test(an_address_of_nothing_is_its_own_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
