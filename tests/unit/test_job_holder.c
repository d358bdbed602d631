/* test_job_holder.c - who holds a page, by lists of locks that a test writes, and by the kernel's.
 */
#include "watch/job_holder.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "support/cmocka_here.h"

static char folder[64];

static void write_locks(const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/locks", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void make_process(const char *number, bool is_there)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, number);
    assert_int_equal(is_there ? mkdir(path, 0700) : rmdir(path), 0);
}

static int begin(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/vramwise-locks-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    make_process("15781", true);
    make_process("42", true);
    return 0;
}

static int end(void **state)
{
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/locks", folder);
    (void)unlink(path);
    make_process("15781", false);
    make_process("42", false);
    return rmdir(folder);
}

static long holder_of(vw__job_holder *holders, size_t count, size_t place)
{
    for (size_t i = 0; i < count; i++)
        if (holders[i].place == place)
            return holders[i].process;
    fail();
    return -1;
}

static void files_are_found_by_device_and_number(void **state)
{
    (void)state;
    vw__job_holder holders[] = {
        {.device = makedev(0, 0x1b), .file = 900, .user = geteuid(), .place = 0},
        {.device = makedev(0, 0x1b), .file = 77, .user = geteuid(), .place = 1},
        {.device = makedev(0, 0x1c), .file = 77, .user = geteuid(), .place = 2},
        {.device = makedev(0x103, 2), .file = 77, .user = geteuid(), .place = 3},
    };
    write_locks("1: OFDLCK ADVISORY  WRITE -1 00:1b:77 0 EOF\n"
                "2: FLOCK  ADVISORY  WRITE 15781 00:1b:77 0 EOF\n"
                "3: FLOCK  ADVISORY  WRITE 42 103:02:77 0 EOF\n"
                "4: POSIX  ADVISORY  WRITE 42 00:1b:900 0 EOF\n"
                "5: FLOCK  ADVISORY  READ 42 00:1b:900 0 EOF\n"
                "6: -> FLOCK  ADVISORY  WRITE 42 00:1b:900 0 EOF\n"
                "7: FLOCK  ADVISORY  WRITE 42");
    vw__job_holder_find(folder, holders, 4);
    assert_int_equal(holder_of(holders, 4, 0), 0);
    assert_int_equal(holder_of(holders, 4, 1), 15781);
    assert_int_equal(holder_of(holders, 4, 2), 0);
    assert_int_equal(holder_of(holders, 4, 3), 42);
}

static void a_number_that_is_another_users_by_now_does_not_count(void **state)
{
    (void)state;
    vw__job_holder holders[] = {
        {.device = makedev(0, 1), .file = 1, .user = geteuid() + 1, .place = 0},
        {.device = makedev(0, 1), .file = 2, .user = geteuid(), .place = 1},
    };
    write_locks("1: FLOCK  ADVISORY  WRITE 42 00:01:1 0 EOF\n"
                "2: FLOCK  ADVISORY  WRITE 4711 00:01:2 0 EOF\n"); /* which is not there */
    vw__job_holder_find(folder, holders, 2);
    assert_int_equal(holders[0].process, 0);
    assert_int_equal(holders[1].process, 0);
}

/* As many locks before that of the page as anybody may have. */
static long holder_behind(size_t lock_count)
{
    vw__job_holder holder = {.device = makedev(0, 1), .file = 1, .user = geteuid()};
    char path[128];
    snprintf(path, sizeof path, "%s/locks", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < lock_count; i++)
        fputs("1: POSIX  ADVISORY  WRITE 42 00:01:2 0 EOF\n", file);
    fputs("2: FLOCK  ADVISORY  WRITE 42 00:01:1 0 EOF\n", file);
    assert_int_equal(fclose(file), 0);
    vw__job_holder_find(folder, &holder, 1);
    return holder.process;
}

static void locks_that_somebody_has_by_the_thousand_are_not_all_read(void **state)
{
    (void)state;
    assert_int_equal(holder_behind(VW__JOB_HOLDER_MOST_LOCKS - 1), 42);
    assert_int_equal(holder_behind(VW__JOB_HOLDER_MOST_LOCKS), 0);
}

static void without_a_list_nobody_is_known(void **state)
{
    (void)state;
    vw__job_holder holder = {.file = 1, .process = 99};
    vw__job_holder_find("/no/such/folder", &holder, 1);
    assert_int_equal(holder.process, 0);
    vw__job_holder_find("/no/such/folder", NULL, 0);
}

static void the_kernel_names_this_process(void **state)
{
    (void)state;
    char path[] = "/dev/shm/vramwise-held-XXXXXX"; /* tmpfs, as pages are on */
    struct stat facts;
    int file = mkstemp(path);
    assert_true(file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0 && fstat(file, &facts) == 0);
    vw__job_holder holder = {
        .device = facts.st_dev, .file = facts.st_ino, .user = facts.st_uid, .place = 0};
    vw__job_holder_find("/proc", &holder, 1);
    assert_int_equal(holder.process, getpid());
    assert_int_equal(unlink(path), 0);
    close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_found_by_device_and_number),
        cmocka_unit_test(a_number_that_is_another_users_by_now_does_not_count),
        cmocka_unit_test(locks_that_somebody_has_by_the_thousand_are_not_all_read),
        cmocka_unit_test(without_a_list_nobody_is_known),
        cmocka_unit_test(the_kernel_names_this_process),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
