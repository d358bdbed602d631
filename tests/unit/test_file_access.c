/* test_file_access.c - the promises of base/file_access.h and of vw_keep_file_access(). */
#include "base/file_access.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "vramwise/output.h" /* vw_keep_file_access */

#include "support/cmocka_here.h"

enum { USER = 65534, FIRST_GROUP = 65534, OTHER_GROUP = 4711, OTHER_USER = 4712 };

static char folder[] = "/tmp/vw-file-access-XXXXXX";

static int enter_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL && chdir(folder) == 0 && chmod(folder, 0777) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
    (void)state;
    return chdir("/") == 0 && rmdir(folder) == 0 ? 0 : -1; /* which every test leaves empty */
}

static void make_file(const char *name, uid_t user, gid_t group, mode_t mode)
{
    int file = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(file >= 0);
    if (geteuid() == 0)
        assert_int_equal(fchown(file, user, group), 0);
    assert_int_equal(fchmod(file, mode), 0);
    close(file);
}

/* What a user of one group makes of a new file that replaces `old`. 0: it has those permissions. */
typedef struct expected_access {
    const gid_t *more_groups; /* besides FIRST_GROUP */
    size_t more_count;
    mode_t mode;
    gid_t group;
} expected_access;

static int replace_as_user(const expected_access *expected)
{
    struct stat facts;
    if (setgroups(expected->more_count, expected->more_groups) != 0 || setgid(FIRST_GROUP) != 0 ||
        setuid(USER) != 0)
        return 90;
    int file = open("new", O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (!vw_keep_file_access(file, "old") || fstat(file, &facts) != 0)
        return 91;
    if ((facts.st_mode & 0777) != expected->mode)
        return 1;
    return facts.st_gid == expected->group ? 0 : 2;
}

static void check_as_user(const expected_access *expected)
{
    int ended = -1;
    pid_t child = fork();
    if (child == 0)
        _exit(replace_as_user(expected));
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
}

static void remove_files(void)
{
    assert_int_equal(unlink("new"), 0);
    assert_int_equal(unlink("old"), 0);
}

/* ---- modes ----------------------------------------------------------------------------------- */

static void a_new_file_has_the_mode_of_the_old_one_whatever_the_umask(void **state)
{
    (void)state;
    static const mode_t modes[] = {0600, 0664, 0444, 0777, 0200, 0};
    mode_t before = umask(0777);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        struct stat facts;
        make_file("old", geteuid(), getegid(), modes[i]);
        make_file("new", geteuid(), getegid(), 0600);
        int file = open("new", O_RDONLY);
        assert_true(vw_keep_file_access(file, "old"));
        assert_int_equal(fstat(file, &facts), 0);
        assert_int_equal(facts.st_mode & 0777, modes[i]);
        close(file);
        remove_files();
    }
    umask(before);
}

static void what_is_no_plain_file_of_the_user_says_nothing(void **state)
{
    (void)state;
    make_file("new", geteuid(), getegid(), 0600);
    int file = open("new", O_RDONLY);
    assert_false(vw_keep_file_access(file, "nowhere"));
    assert_int_equal(symlink("new", "old"), 0);
    assert_false(vw_keep_file_access(file, "old"));
    assert_int_equal(unlink("old"), 0);
    assert_int_equal(mkfifo("old", 0666), 0);
    assert_false(vw_keep_file_access(file, "old"));
    assert_false(vw__file_access_is_own("old"));
    assert_true(vw__file_access_is_own("new"));
    if (geteuid() == 0) {
        assert_int_equal(unlink("old"), 0);
        make_file("old", USER, FIRST_GROUP, 0666);
        assert_false(vw_keep_file_access(file, "old"));
    }
    close(file);
    remove_files();
}

/* ---- groups ---------------------------------------------------------------------------------- */

static void the_group_stays_where_the_user_is_in_it(void **state)
{
    (void)state;
    static const gid_t more[] = {OTHER_GROUP};
    if (geteuid() != 0)
        skip();
    make_file("old", USER, OTHER_GROUP, 0660);
    check_as_user(&(expected_access){more, 1, 0660, OTHER_GROUP});
    remove_files();
}

static void without_the_group_no_group_has_more_access_than_others(void **state)
{
    (void)state;
    static const mode_t modes[][2] = {{0660, 0600}, {0664, 0604}, {0606, 0600}, {0777, 0707}};
    if (geteuid() != 0)
        skip();
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        make_file("old", USER, OTHER_GROUP, modes[i][0]);
        check_as_user(&(expected_access){.mode = modes[i][1], .group = FIRST_GROUP});
        remove_files();
    }
}

/* ---- access lists ---------------------------------------------------------------------------- */

typedef struct list_entry {
    uint16_t tag, permissions;
    uint32_t id;
} list_entry;

#define NO_ID UINT32_MAX

enum { LIST_ENTRIES = 5 };

/* As the kernel has it: u::rw-, u:4712:rw-, g::---, m::rw-, o::--- */
typedef struct access_list {
    uint32_t version;
    list_entry entries[LIST_ENTRIES];
} access_list;

static const access_list list = {2,
                                 {{0x01, 6, NO_ID},
                                  {0x02, 6, OTHER_USER},
                                  {0x04, 0, NO_ID},
                                  {0x10, 6, NO_ID},
                                  {0x20, 0, NO_ID}}};

/* False: this file system has no lists. */
static bool put_list(const char *path, const char *name)
{
    if (setxattr(path, name, &list, sizeof list, 0) == 0)
        return true;
    assert_int_equal(errno, ENOTSUP);
    return false;
}

static void a_list_is_copied(void **state)
{
    (void)state;
    access_list found;
    make_file("old", geteuid(), getegid(), 0600);
    make_file("new", geteuid(), getegid(), 0600);
    int file = open("new", O_RDONLY);
    bool has_lists = put_list("old", "system.posix_acl_access");
    if (has_lists) {
        assert_true(vw_keep_file_access(file, "old"));
        assert_int_equal(fgetxattr(file, "system.posix_acl_access", &found, sizeof found),
                         sizeof list);
        assert_memory_equal(&found, &list, sizeof list);
    }
    close(file);
    remove_files();
    if (!has_lists)
        skip();
}

static void without_the_group_a_list_leaves_access_to_the_owner_alone(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    make_file("old", USER, OTHER_GROUP, 0600);
    bool has_lists = put_list("old", "system.posix_acl_access");
    check_as_user(&(expected_access){.mode = 0600, .group = FIRST_GROUP});
    remove_files();
    if (!has_lists)
        skip();
}

static void the_list_of_the_folder_is_not_for_what_had_none(void **state)
{
    (void)state;
    make_file("old", geteuid(), getegid(), 0660);
    bool has_lists = put_list(".", "system.posix_acl_default");
    if (has_lists) {
        struct stat facts;
        make_file("new", geteuid(), getegid(), 0600);
        int file = open("new", O_RDONLY);
        assert_true(fgetxattr(file, "system.posix_acl_access", NULL, 0) > 0);
        assert_true(vw_keep_file_access(file, "old"));
        assert_int_equal(fgetxattr(file, "system.posix_acl_access", NULL, 0), -1);
        assert_int_equal(fstat(file, &facts), 0);
        assert_int_equal(facts.st_mode & 0777, 0660);
        close(file);
        assert_int_equal(removexattr(".", "system.posix_acl_default"), 0);
        assert_int_equal(unlink("new"), 0);
    }
    assert_int_equal(unlink("old"), 0);
    if (!has_lists)
        skip();
}

/* ---- links ----------------------------------------------------------------------------------- */

static bool may_lead(mode_t kind, uid_t owner, uid_t target_owner)
{
    const struct stat name = {.st_ino = 1, .st_mode = kind, .st_uid = owner};
    const struct stat facts = {.st_ino = 2, .st_mode = S_IFIFO, .st_uid = target_owner};
    return vw__file_access_may_lead(&name, &facts);
}

static void a_link_may_lead_where_its_owner_may_lead(void **state)
{
    (void)state;
    const uid_t self = geteuid(), other = self + 1, third = self + 2;
    assert_true(may_lead(S_IFLNK, self, other));
    assert_true(may_lead(S_IFLNK, 0, other));
    assert_true(may_lead(S_IFLNK, other, other)); /* their own could stand there itself */
    assert_false(may_lead(S_IFLNK, other, self));
    assert_false(may_lead(S_IFLNK, other, third));
    assert_false(may_lead(S_IFIFO, self, self)); /* another file by now */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_file_has_the_mode_of_the_old_one_whatever_the_umask),
        cmocka_unit_test(what_is_no_plain_file_of_the_user_says_nothing),
        cmocka_unit_test(the_group_stays_where_the_user_is_in_it),
        cmocka_unit_test(without_the_group_no_group_has_more_access_than_others),
        cmocka_unit_test(a_list_is_copied),
        cmocka_unit_test(without_the_group_a_list_leaves_access_to_the_owner_alone),
        cmocka_unit_test(the_list_of_the_folder_is_not_for_what_had_none),
        cmocka_unit_test(a_link_may_lead_where_its_owner_may_lead),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
