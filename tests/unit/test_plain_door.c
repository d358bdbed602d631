/* test_plain_door.c - the C functions of CUDAPluggableAllocator, on a fake driver.
 *
 * The choice of engine and the pools are the process's, so that each test runs in a process of its
 * own, and main() adds up how they ended. */
#include "vramwise_torch_support.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cmocka_here.h"
#include "support/fake_cuda_state.h"

#define MIB ((size_t)1 << 20)

static void blocks_come_from_the_device_named_and_go_back_to_it(void **state)
{
    (void)state;
    void *first = vramwise_plain_alloc(10 * MIB, 0, NULL);
    void *second = vramwise_plain_alloc(30 * MIB, 1, NULL);
    memset(first, 1, 10 * MIB);
    memset(second, 2, 30 * MIB);
    fake_cuda_state now = vw_test_fake_cuda_state();
    assert_true(now.device_used_bytes[0] >= 10 * MIB && now.device_used_bytes[0] < 30 * MIB);
    assert_true(now.device_used_bytes[1] >= 30 * MIB);
    vramwise_plain_free(first, 10 * MIB, 0, NULL);
    vramwise_plain_free(second, 30 * MIB, 1, NULL);
    vramwise_plain_free(NULL, 0, 0, NULL);
    void *again = vramwise_plain_alloc(10 * MIB, 0, NULL);
    assert_ptr_equal(again, first);
    vramwise_plain_free(again, 10 * MIB, 0, NULL);
    vramwise_plain_empty_cache();
    assert_int_equal(vw_test_fake_cuda_state().used_bytes, 0);
}

/* The fake driver remembers the flags of the latest event: there is one. */
static void a_use_by_another_stream_is_kept_with_the_block(void **state)
{
    (void)state;
    vw_device *device = NULL;
    vw_stream other = 0;
    assert_true(vramwise_plain_choose("torch", NULL));
    assert_int_equal(vw_cuda_device_open(1, &device), VW_OK);
    assert_int_equal(device->table->stream_create(device->context, &other), VW_OK);
    void *block = vramwise_plain_alloc(4 * MIB, 1, NULL);
    assert_int_equal(vw_test_fake_cuda_state().event_flags, 0);
    vramwise_plain_record_stream(block, (void *)(uintptr_t)other);
    vramwise_plain_free(block, 4 * MIB, 1, NULL);
    assert_int_not_equal(vw_test_fake_cuda_state().event_flags, 0);
    vramwise_plain_record_stream(block, NULL); /* unknown by now: said, and no more */
    vramwise_plain_free(block, 4 * MIB, 1, NULL);
    assert_int_equal(device->table->stream_destroy(device->context, other), VW_OK);
    vw_device_destroy(device);
}

static void the_base_of_an_inner_address_is_its_segment(void **state)
{
    (void)state;
    size_t size_bytes = 1;
    assert_true(vramwise_plain_choose("torch", ""));
    char *first = vramwise_plain_alloc(2 * MIB, 1, NULL);
    char *second = vramwise_plain_alloc(2 * MIB, 1, NULL);
    assert_ptr_equal(vramwise_plain_base(second + 100, &size_bytes), first);
    assert_int_equal(size_bytes, 20 * MIB);
    assert_ptr_equal(vramwise_plain_base(second, NULL), first);
    assert_null(vramwise_plain_base(&size_bytes, &size_bytes));
    assert_int_equal(size_bytes, 0);
}

static void the_engine_is_chosen_before_the_first_allocation(void **state)
{
    (void)state;
    assert_false(vramwise_plain_choose("cudaMallocAsync", NULL));
    assert_non_null(strstr(vw_last_error(), "cudaMallocAsync"));
    assert_false(vramwise_plain_choose("torch", "max_split_size_mb:1"));
    assert_false(vramwise_plain_choose("a name that is much longer than any engine has", NULL));
    assert_true(vramwise_plain_choose("vramwise:tight", "expandable_segments:True"));
    assert_true(vramwise_plain_choose(NULL, NULL));
    assert_true(vramwise_plain_choose("torch", "max_split_size_mb:100"));
    void *block = vramwise_plain_alloc(1, 0, NULL);
    assert_int_equal(vw_test_fake_cuda_state().used_bytes, 2 * MIB); /* "torch" it is */
    assert_false(vramwise_plain_choose("vramwise", NULL));
    assert_non_null(strstr(vw_last_error(), "too late"));
    vramwise_plain_free(block, 1, 0, NULL);
}

/* Runs `body` in a child, and stores what it wrote to standard error. Returns its wait status. */
static int run_apart(void (*body)(void), char *said, size_t capacity)
{
    int ends[2], status = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        signal(SIGABRT, SIG_DFL);
        body();
        _exit(0);
    }
    close(ends[1]);
    size_t used = 0;
    for (ssize_t got;
         used < capacity - 1 && (got = read(ends[0], said + used, capacity - 1 - used)) > 0;)
        used += (size_t)got;
    said[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void ask_for_too_much(void)
{
    vramwise_plain_set_fraction(0.25, 0); /* 1 GiB */
    (void)vramwise_plain_alloc(512 * MIB, 0, NULL);
    (void)vramwise_plain_alloc(600 * MIB, 0, NULL);
}

static void ask_for_no_device(void)
{
    (void)vramwise_plain_alloc(512, 7, NULL);
}

static void what_cannot_be_served_is_said_and_ends_the_process(void **state)
{
    (void)state;
    char said[4000];
    int status = run_apart(ask_for_too_much, said, sizeof said);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(said, "CUDA out of memory. Tried to allocate 600.00 MiB"));
    assert_non_null(strstr(said, "the process ends here"));
    status = run_apart(ask_for_no_device, said, sizeof said);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(said, "no CUDA device 7"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(blocks_come_from_the_device_named_and_go_back_to_it),
    cmocka_unit_test(a_use_by_another_stream_is_kept_with_the_block),
    cmocka_unit_test(the_base_of_an_inner_address_is_its_segment),
    cmocka_unit_test(the_engine_is_chosen_before_the_first_allocation),
    cmocka_unit_test(what_cannot_be_served_is_said_and_ends_the_process),
};

int main(void)
{
    int failures = 0;
    setenv("VRAMWISE_CUDA_DRIVER", VW_FAKE_CUDA_DRIVER, 1);
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            const struct CMUnitTest alone[] = {tests[i]};
            exit(cmocka_run_group_tests(alone, NULL, NULL) != 0);
        }
        int status = -1;
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
            failures++;
    }
    return failures;
}
