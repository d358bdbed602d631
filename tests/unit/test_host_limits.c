/* test_host_limits.c - what a machine allows, read from files that a test has made up. */
#include "base/host_limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/cmocka_here.h"

#define KIB UINT64_C(1024)

static char root[64]; /* a folder of the test's own, in place of / */

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/vramwise-limits-XXXXXX");
    return mkdtemp(root) != NULL ? 0 : -1;
}

static int end_root(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

/* Makes the file, and the folders it lies in. */
static void write_file(const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *slash = strchr(whole + strlen(root) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(whole, 0700);
        *slash = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static vw__host_limits limits(void)
{
    vw__host_limits found;
    vw__host_limits_read(root, &found);
    return found;
}

static void free_memory_is_what_can_be_had_without_swapping(void **state)
{
    (void)state;
    write_file("/proc/meminfo", "MemTotal:       32774180 kB\nMemFree:         1000000 kB\n"
                                "MemAvailable:    2048 kB\nBuffers: 7 kB\n");
    assert_int_equal(limits().free_bytes, 2048 * KIB);
    assert_true(limits().group_bytes == UINT64_MAX);
    assert_true(limits().locked_bytes == UINT64_MAX);
}

static void the_tightest_group_up_to_the_root_counts(void **state)
{
    (void)state;
    write_file("/proc/self/cgroup", "0::/jobs/mine\n");
    write_file("/sys/fs/cgroup/jobs/mine/memory.max", "max\n");
    assert_true(limits().group_bytes == UINT64_MAX);
    write_file("/sys/fs/cgroup/jobs/memory.max", "7340032\n");
    assert_int_equal(limits().group_bytes, 7340032);
    write_file("/sys/fs/cgroup/jobs/mine/memory.max", "9000000\n");
    assert_int_equal(limits().group_bytes, 7340032);
    write_file("/sys/fs/cgroup/jobs/mine/memory.max", "5000000\n");
    assert_int_equal(limits().group_bytes, 5000000);
}

/* In a container the path is often the host's name for it. */
static void a_path_that_is_not_there_leads_to_the_folders_above(void **state)
{
    (void)state;
    write_file("/proc/self/cgroup", "0::/docker/abc/def\n");
    write_file("/sys/fs/cgroup/memory.max", "123456789\n");
    assert_int_equal(limits().group_bytes, 123456789);
}

static void groups_of_the_first_version_count_as_well(void **state)
{
    (void)state;
    write_file("/proc/self/cgroup",
               "12:cpu,cpuacct:/a\n4:blkio,memory:/b\n3:memoryless:/c\n0::/d\nnonsense\n");
    write_file("/sys/fs/cgroup/memory/b/memory.limit_in_bytes", "4096\n");
    write_file("/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "1\n");
    write_file("/sys/fs/cgroup/d/memory.max", "8192\n");
    assert_int_equal(limits().group_bytes, 4096);
}

static void what_cannot_be_read_is_no_limit(void **state)
{
    (void)state;
    assert_true(limits().free_bytes == UINT64_MAX && limits().group_bytes == UINT64_MAX);
    write_file("/proc/meminfo", "MemAvailable: many kB\n");
    write_file("/proc/self/cgroup", "0::/jobs\n");
    write_file("/sys/fs/cgroup/jobs/memory.max", "-1\n");
    assert_true(limits().free_bytes == UINT64_MAX && limits().group_bytes == UINT64_MAX);
}

static void this_machine_is_asked_for_its_lock_limit_too(void **state)
{
    (void)state;
    vw__host_limits found;
    struct rlimit limit;
    vw__host_limits_read("", &found);
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    assert_true(found.locked_bytes ==
                (limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur));
    assert_true(found.free_bytes != UINT64_MAX && found.free_bytes > 0);
}

static void more_than_any_of_the_three_is_refused_with_all_of_them(void **state)
{
    (void)state;
    const vw__host_limits tight = {.free_bytes = 300, .group_bytes = 200, .locked_bytes = 100};
    assert_int_equal(vw__host_limits_check(&tight, "a thing", 100, true), VW_OK);
    assert_int_equal(vw__host_limits_check(&tight, "a thing", 101, true), VW_ERR_INVALID_ARGUMENT);
    assert_string_equal(
        vw_last_error(),
        "a thing of 101 bytes is more page-locked memory than this process can have: free on this "
        "machine 300 bytes, limit of the control group 200 bytes, ulimit -l 100 bytes");
    assert_int_equal(vw__host_limits_check(&tight, "a thing", 200, false), VW_OK);
    assert_int_equal(vw__host_limits_check(&tight, "a thing", 201, false), VW_ERR_INVALID_ARGUMENT);
    const vw__host_limits loose = {300, UINT64_MAX, UINT64_MAX};
    assert_int_equal(vw__host_limits_check(&loose, "a thing", 300, true), VW_OK);
    assert_int_equal(vw__host_limits_check(&loose, "a thing", 301, true), VW_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(vw_last_error(), "control group no limit, ulimit -l no limit"));
}

#define IN_A_ROOT(name) cmocka_unit_test_setup_teardown(name, make_root, end_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_ROOT(free_memory_is_what_can_be_had_without_swapping),
        IN_A_ROOT(the_tightest_group_up_to_the_root_counts),
        IN_A_ROOT(a_path_that_is_not_there_leads_to_the_folders_above),
        IN_A_ROOT(groups_of_the_first_version_count_as_well),
        IN_A_ROOT(what_cannot_be_read_is_no_limit),
        cmocka_unit_test(this_machine_is_asked_for_its_lock_limit_too),
        cmocka_unit_test(more_than_any_of_the_three_is_refused_with_all_of_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
