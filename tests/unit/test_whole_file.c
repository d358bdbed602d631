/* test_whole_file.c - the promises of base/whole_file.h. */
#include "base/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "support/cmocka_here.h"

static char folder[] = "/tmp/vw-whole-file-XXXXXX";

/* All tests work in a folder of their own. */
static int enter_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
    (void)state;
    return chdir("/") == 0 && rmdir(folder) == 0 ? 0 : -1; /* which every test leaves empty */
}

static vw_status write_text(void *context, int file_descriptor)
{
    vw__file_output file = {file_descriptor, 0};
    if (vw__file_output_write(&file, context, strlen(context)))
        return VW_OK;
    return vw__fail(VW_ERR_FILE, "cannot write: %s", strerror(file.error));
}

static vw_status put(const char *path)
{
    return vw__whole_file_write(path, write_text, (void *)"12345");
}

static int exit_of_child(int (*work)(void))
{
    int ended = -1;
    pid_t child = fork();
    if (child == 0)
        _exit(work());
    assert_int_equal(waitpid(child, &ended, 0), child);
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : -WTERMSIG(ended);
}

/* ---- what cannot be written ------------------------------------------------------------------ */

static int write_where_nothing_grows(void)
{
    const struct rlimit limit = {4, 4};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 90;
    return put("file") == VW_ERR_FILE && strstr(vw_last_error(), "File too large") != NULL ? 0 : 1;
}

static void a_file_that_may_not_grow_is_a_status_and_leaves_nothing(void **state)
{
    (void)state;
    assert_int_equal(exit_of_child(write_where_nothing_grows), 0);
}

static vw_status take_reader_away(void *context, int file_descriptor)
{
    close(*(int *)context);
    return write_text((void *)"12345", file_descriptor);
}

static int write_without_reader(void)
{
    int reader = open("pipe", O_RDONLY | O_NONBLOCK);
    return vw__whole_file_write("pipe", take_reader_away, &reader) == VW_ERR_FILE &&
                   strstr(vw_last_error(), "Broken pipe") != NULL
               ? 0
               : 1;
}

static void a_pipe_whose_reader_went_is_a_status_and_stays(void **state)
{
    (void)state;
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(exit_of_child(write_without_reader), 0);
    assert_int_equal(unlink("pipe"), 0);
}

/* ---- links to what is not replaced ----------------------------------------------------------- */

/* How many bytes came through the pipe when `name` was written. */
static size_t came_through(int reader, const char *name)
{
    char bytes[16];
    assert_int_equal(put(name), VW_OK);
    ssize_t count = read(reader, bytes, sizeof bytes);
    return count > 0 ? (size_t)count : 0;
}

static void a_link_of_the_user_to_a_pipe_is_followed(void **state)
{
    (void)state;
    struct stat facts;
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(symlink("pipe", "link"), 0);
    int reader = open("pipe", O_RDWR | O_NONBLOCK);
    assert_int_equal(came_through(reader, "link"), 5);
    assert_true(lstat("link", &facts) == 0 && S_ISLNK(facts.st_mode));
    close(reader);
    assert_int_equal(unlink("link"), 0);
    assert_int_equal(unlink("pipe"), 0);
}

static void a_link_of_somebody_else_to_a_pipe_is_replaced(void **state)
{
    (void)state;
    struct stat facts;
    if (geteuid() != 0)
        skip(); /* only root can make a link somebody else's */
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(symlink("pipe", "link"), 0);
    assert_int_equal(lchown("link", 4711, 4711), 0);
    int reader = open("pipe", O_RDWR | O_NONBLOCK);
    assert_int_equal(came_through(reader, "link"), 0);
    assert_true(lstat("link", &facts) == 0 && S_ISREG(facts.st_mode));
    close(reader);
    assert_int_equal(unlink("link"), 0);
    assert_int_equal(unlink("pipe"), 0);
}

static void the_names_of_open_files_are_followed(void **state)
{
    (void)state;
    static const char *const names[] = {"/dev/fd/%d", "/proc/self/fd/%d"};
    for (int i = 0; i < 2; i++) {
        int ends[2];
        char name[64];
        assert_int_equal(pipe(ends), 0);
        snprintf(name, sizeof name, names[i], ends[1]);
        assert_int_equal(came_through(ends[0], name), 5);
        close(ends[0]);
        close(ends[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_may_not_grow_is_a_status_and_leaves_nothing),
        cmocka_unit_test(a_pipe_whose_reader_went_is_a_status_and_stays),
        cmocka_unit_test(a_link_of_the_user_to_a_pipe_is_followed),
        cmocka_unit_test(a_link_of_somebody_else_to_a_pipe_is_replaced),
        cmocka_unit_test(the_names_of_open_files_are_followed),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
