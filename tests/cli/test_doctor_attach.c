/* test_doctor_attach.c - which processes may be entered, and the words for those that may not. */
#include "cli/doctor_attach.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/cmocka_here.h"

static char reason[DOCTOR_ATTACH_REASON_BYTES];

/* A process of this user that may be entered: its interpreter is this very program. */
static vw_process open_process(void)
{
    vw_process process = {
        .process = 4711, .user = geteuid(), .python_major = 3, .python_minor = 14};
    ssize_t length = readlink("/proc/self/exe", process.executable, sizeof process.executable - 1);
    assert_true(length > 0);
    return process;
}

static doctor_attach_rights usual_rights(void)
{
    return (doctor_attach_rights){.user = geteuid()};
}

static void assert_refused(const vw_process *process, const doctor_attach_rights *rights,
                           const char *words)
{
    reason[0] = '\0';
    assert_true(doctor_attach_is_refused(process, rights, reason));
    if (strstr(reason, words) == NULL)
        fail_msg("'%s' is not in '%s'", words, reason);
}

static void a_python_of_this_user_may_be_entered(void **state)
{
    vw_process process = open_process();
    doctor_attach_rights rights = usual_rights();
    (void)state;
    assert_false(doctor_attach_is_refused(&process, &rights, reason));
    process.python_minor = 15;
    assert_false(doctor_attach_is_refused(&process, &rights, reason));
    process.python_major = 4;
    process.python_minor = 0;
    assert_false(doctor_attach_is_refused(&process, &rights, reason));
}

static void the_version_is_a_reason(void **state)
{
    vw_process process = open_process();
    const doctor_attach_rights rights = usual_rights();
    (void)state;
    process.python_minor = 13;
    assert_refused(&process, &rights, "it runs Python 3.13; expected 3.14 or newer");
    process.python_major = 0;
    assert_refused(&process, &rights, "expected a Python program, found /");
    process.executable[0] = '\0';
    assert_refused(&process, &rights, "found one that is not known");
}

static void what_python_was_told_is_a_reason(void **state)
{
    vw_process process = open_process();
    const doctor_attach_rights rights = usual_rights();
    (void)state;
    process.is_debugging_off = true;
    assert_refused(&process, &rights, "PYTHON_DISABLE_REMOTE_DEBUG");
}

static void a_container_is_a_reason(void **state)
{
    vw_process process = open_process();
    const doctor_attach_rights rights = usual_rights();
    (void)state;
    process.is_elsewhere = true;
    assert_refused(&process, &rights, "container");
}

static void rights_are_a_reason(void **state)
{
    vw_process process = open_process();
    doctor_attach_rights rights = usual_rights();
    (void)state;
    process.user = rights.user + 1; /* its interpreter could be anything, whatever its name */
    assert_refused(&process, &rights, "only that user's vramwise enters it");
    rights.may_trace_all = true;
    assert_refused(&process, &rights, "only that user's vramwise enters it");
    for (int scope = 1; scope <= 3; scope++) {
        rights = usual_rights();
        rights.ptrace_scope = scope;
        process.user = rights.user;
        assert_refused(&process, &rights, "kernel.yama.ptrace_scope is");
        rights.may_trace_all = true; /* 3 keeps everybody out */
        assert_int_equal(doctor_attach_is_refused(&process, &rights, reason), scope == 3);
    }
}

/* What is run as us must be ours or root's, and nobody else may have written it. */
static void an_interpreter_that_others_could_have_changed_is_not_run(void **state)
{
    vw_process process = open_process();
    const doctor_attach_rights rights = usual_rights();
    (void)state;
    snprintf(process.executable, sizeof process.executable, "/tmp"); /* open to all for writing */
    assert_refused(&process, &rights, "not run as this user");
    snprintf(process.executable, sizeof process.executable, "/nowhere/python3.14");
    assert_refused(&process, &rights, "not run as this user");
}

static void our_own_rights_can_be_found(void **state)
{
    const doctor_attach_rights rights = doctor_attach_find_rights();
    (void)state;
    assert_int_equal(rights.user, geteuid());
    assert_in_range(rights.ptrace_scope, 0, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_python_of_this_user_may_be_entered),
        cmocka_unit_test(the_version_is_a_reason),
        cmocka_unit_test(what_python_was_told_is_a_reason),
        cmocka_unit_test(a_container_is_a_reason),
        cmocka_unit_test(rights_are_a_reason),
        cmocka_unit_test(an_interpreter_that_others_could_have_changed_is_not_run),
        cmocka_unit_test(our_own_rights_can_be_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
