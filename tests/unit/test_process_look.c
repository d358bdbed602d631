/* test_process_look.c - what /proc says of a process: of folders that look like it, and of children
 * that a test starts. */
#include "watch/process_look.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contract/device_contract.h" /* assert_ok, assert_status */
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

enum { MADE = 4711 };

static char folder[64];

static void write_bytes(const char *name, const void *bytes, size_t size_bytes)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size_bytes, file), size_bytes);
    assert_int_equal(fclose(file), 0);
}

static void write_text(const char *name, const char *text)
{
    write_bytes(name, text, strlen(text));
}

static void make_folder(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static int begin(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/vramwise-proc-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    make_folder("4711");
    return 0;
}

static int end(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command) == 0 ? 0 : -1;
}

/* A stat file: the state is its third field and the start its 22nd. The name has what would mislead
 * a careless reader. */
static void write_stat(const char *name, char state, unsigned long long start_ticks)
{
    char text[512];
    snprintf(text, sizeof text,
             "4711 (py) R (x) %c 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 %llu 0 0\n", state,
             start_ticks);
    write_text(name, text);
}

static void make_threads(void)
{
    make_folder("4711/task");
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "4711/task/%d", MADE + i);
        make_folder(name);
        snprintf(name, sizeof name, "4711/task/%d/stat", MADE + i);
        write_stat(name, "RDS"[i], 0);
    }
    write_text("4711/task/4711/children", "4712 4713 4714 ");
    write_text("4711/wchan", "pipe_read");
}

static void make_everything(void)
{
    static const char command[] = "/opt/env/bin/python3.14\0train.py\0--name\0a b";
    static const char environment[] =
        "HOME=/root\0PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128\0CUDA_VISIBLE_DEVICES=\0"
        "MY_PYTORCH_ALLOC_CONF=x\0PYTORCH_ALLOC_CONF_OLD=x\0CUDA_VISIBLE_DEVICES2";
    char path[128];
    write_stat("4711/stat", 'S', 100 * (unsigned long long)sysconf(_SC_CLK_TCK));
    write_text("uptime", "3700.50 1.00\n");
    write_text("meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    250 kB\n");
    write_text("4711/status", "Name:\tpython3.14\nUid:\t7\t1234\t8\t9\nVmHWM:\t   30 kB\n"
                              "VmRSS:\t   20 kB\nVmSwap:\t   2 kB\n");
    write_bytes("4711/cmdline", command, sizeof command);
    write_bytes("4711/environ", environment, sizeof environment);
    write_text("4711/maps", "7f-80 r-xp 0 08:01 1 /opt/lib/libtorch_cuda.so\n"
                            "80-81 rw-p 0 00:00 0 [heap]\n"
                            "81-82 r-xp 0 08:01 2 /opt/a lib/libtorch_cpu.so\n"
                            "82-83 r-xp 0 08:01 3 /usr/lib/libnccl.so.2 (deleted)\n"
                            "83-84 r-xp 0 08:01 4 /libtorch_cuda/other.so\n");
    snprintf(path, sizeof path, "%s/4711/exe", folder);
    assert_int_equal(symlink("/opt/env/bin/python3.14", path), 0);
    make_threads();
}

static vw_process look(void)
{
    static vw_process found;
    assert_true(vw__watch_process_look(folder, MADE, &found));
    return found;
}

static void all_that_is_there_is_read(void **state)
{
    (void)state;
    make_everything();
    const vw_process found = look();
    assert_int_equal(found.process, MADE);
    assert_int_equal(found.user, 1234); /* the effective one */
    assert_string_equal(found.command, "python3.14 train.py --name a b");
    assert_false(found.is_typable); /* "a b" is one word */
    assert_string_equal(found.executable, "/opt/env/bin/python3.14");
    assert_int_equal(found.age_seconds, 3600);
    assert_int_equal(found.resident_bytes, 20 * 1024);
    assert_int_equal(found.peak_resident_bytes, 30 * 1024);
    assert_int_equal(found.swapped_bytes, 2 * 1024);
    assert_int_equal(found.machine_total_bytes, 1000 * 1024);
    assert_int_equal(found.machine_available_bytes, 250 * 1024);
    assert_int_equal(found.thread_count, 3);
    assert_int_equal(found.running_count, 1);
    assert_int_equal(found.disk_wait_count, 1);
    assert_int_equal(found.child_count, 3);
    assert_string_equal(found.waits_in, "pipe_read");
    assert_true(found.is_environment_known && found.are_libraries_known);
    assert_int_equal(found.variable_count, 2);
    assert_string_equal(found.variables[0].name, "PYTORCH_CUDA_ALLOC_CONF");
    assert_string_equal(found.variables[0].value, "max_split_size_mb:128");
    assert_string_equal(found.variables[1].value, "");
    assert_int_equal(found.framework_count, 2);
    assert_string_equal(found.frameworks[0], "PyTorch");
    assert_string_equal(found.frameworks[1], "NCCL");
    assert_int_equal(found.python_major, 3);
    assert_int_equal(found.python_minor, 14);
    assert_false(found.is_debugging_off || found.is_elsewhere);
}

static void what_cannot_be_read_is_unknown(void **state)
{
    (void)state;
    write_stat("4711/stat", 'S', 100);
    const vw_process found = look();
    assert_string_equal(found.command, "");
    assert_string_equal(found.executable, "");
    assert_string_equal(found.waits_in, "");
    assert_int_equal(found.age_seconds, VW_LIVE_UNKNOWN);
    assert_int_equal(found.resident_bytes, VW_LIVE_UNKNOWN);
    assert_int_equal(found.machine_total_bytes, VW_LIVE_UNKNOWN);
    assert_int_equal(found.thread_count, VW_LIVE_UNKNOWN);
    assert_int_equal(found.child_count, VW_LIVE_UNKNOWN);
    assert_false(found.is_environment_known || found.are_libraries_known);
    assert_int_equal(found.python_major, 0);
}

static void a_python_that_lets_nobody_in_is_told_by_its_words_or_its_environment(void **state)
{
    static const char by_words[] = "python3.14\0-X\0disable-remote-debug\0train.py";
    static const char by_variable[] = "PYTHON_DISABLE_REMOTE_DEBUG=1";
    static const char set_to_nothing[] = "PYTHON_DISABLE_REMOTE_DEBUG=";
    (void)state;
    write_stat("4711/stat", 'S', 100);
    write_bytes("4711/cmdline", by_words, sizeof by_words);
    assert_true(look().is_debugging_off);
    write_text("4711/cmdline", "python3.14");
    assert_false(look().is_debugging_off);
    write_bytes("4711/environ", by_variable, sizeof by_variable);
    assert_true(look().is_debugging_off);
    write_bytes("4711/environ", set_to_nothing, sizeof set_to_nothing);
    assert_false(look().is_debugging_off);
}

/* An embedded Python, or a launcher of another name. */
static void
the_version_of_python_is_that_of_its_library_where_the_program_does_not_say(void **state)
{
    (void)state;
    write_stat("4711/stat", 'S', 100);
    write_text("4711/maps", "7f-80 r-xp 0 08:01 1 /usr/lib/libpython3.9.so.1.0\n");
    assert_int_equal(look().python_major, 3);
    assert_int_equal(look().python_minor, 9);
    write_text("4711/maps", "7f-80 r-xp 0 08:01 1 /usr/lib/libpython3.so\n");
    assert_int_equal(look().python_major, 0);
}

static void what_is_too_long_is_cut(void **state)
{
    char text[9000];
    (void)state;
    memset(text, 'x', sizeof text);
    write_stat("4711/stat", 'S', 100);
    write_bytes("4711/cmdline", text, sizeof text);
    memcpy(text, "PYTORCH_ALLOC_CONF=", 19);
    text[sizeof text - 1] = '\0';
    write_bytes("4711/environ", text, sizeof text);
    write_bytes("4711/maps", text, sizeof text);
    const vw_process found = look();
    assert_int_equal(strlen(found.command), sizeof found.command - 1);
    assert_int_equal(found.variable_count, 1);
    assert_int_equal(strlen(found.variables[0].value), sizeof found.variables[0].value - 1);
    assert_int_equal(found.framework_count, 0);
}

static void a_process_that_is_not_there_is_no_process(void **state)
{
    static vw_process found;
    vw_process *read = NULL;
    (void)state;
    assert_false(vw__watch_process_look(folder, 1, &found));
    assert_status(vw_process_read(0x7FFFFFFF, &read), VW_ERR_FILE);
    assert_status(vw_process_read(0, &read), VW_ERR_INVALID_ARGUMENT);
    assert_status(vw_process_read(1, NULL), VW_ERR_INVALID_ARGUMENT);
}

static bool is_read(void *context)
{
    vw_process *found = NULL;
    const bool is_done = vw_process_read(getpid(), &found) == VW_OK;
    (void)context;
    vw_process_free(found);
    return is_done;
}

static void this_process_is_seen_as_it_is(void **state)
{
    vw_process *found = NULL;
    (void)state;
    assert_ok(vw_process_read(getpid(), &found));
    assert_int_equal(found->user, geteuid());
    assert_non_null(strstr(found->command, "process_look"));
    assert_true(found->thread_count >= 1 && found->thread_count != VW_LIVE_UNKNOWN);
    assert_true(found->resident_bytes > 0 && found->resident_bytes != VW_LIVE_UNKNOWN);
    assert_true(found->is_environment_known && found->are_libraries_known);
    assert_false(found->is_elsewhere);
    vw_process_free(found);
    vw_test_sweep_host_memory(is_read, NULL);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(all_that_is_there_is_read),
        IN_FOLDER(what_cannot_be_read_is_unknown),
        IN_FOLDER(a_python_that_lets_nobody_in_is_told_by_its_words_or_its_environment),
        IN_FOLDER(the_version_of_python_is_that_of_its_library_where_the_program_does_not_say),
        IN_FOLDER(what_is_too_long_is_cut),
        IN_FOLDER(a_process_that_is_not_there_is_no_process),
        cmocka_unit_test(this_process_is_seen_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
