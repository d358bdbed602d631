/* test_job_container.c - containers and pods by the layouts in tests/data/cgroups, and names of
 * pods by the kubelet's folders. */
#include "watch/job_container.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/cmocka_here.h"

enum { MOST_BYTES = 1 << 16 };

/* ---- layouts --------------------------------------------------------------------------------- */

typedef struct layout {
    char name[128], container[80], pod[80], text[8192];
} layout;

static void check(const layout *made)
{
    vw_job_container found;
    const char *container = strcmp(made->container, "-") == 0 ? "" : made->container;
    const char *pod = strcmp(made->pod, "-") == 0 ? "" : made->pod;
    bool is_found = vw__job_container_parse(made->text, &found);
    if (strcmp(found.id, container) != 0 || strcmp(found.pod_uid, pod) != 0 ||
        is_found != (container[0] != '\0' || pod[0] != '\0'))
        fail_msg("%s: found container '%s' and pod '%s'", made->name, found.id, found.pod_uid);
    assert_string_equal(found.pod, "");
    assert_string_equal(found.pod_namespace, "");
}

static void read_text(char *text)
{
    FILE *file = fopen(VW_TEST_DATA "/cgroups/layouts.txt", "r");
    assert_non_null(file);
    size_t length = fread(text, 1, MOST_BYTES - 1, file);
    assert_true(length > 0 && length < MOST_BYTES - 1);
    text[length] = '\0';
    assert_int_equal(fclose(file), 0);
}

static void take_line(layout *made, const char *line)
{
    size_t length = strlen(made->text);
    (void)sscanf(line, "case %127[^\n]", made->name);
    (void)sscanf(line, "container %79s", made->container);
    (void)sscanf(line, "pod %79s", made->pod);
    if (strncmp(line, "  ", 2) == 0)
        snprintf(made->text + length, sizeof made->text - length, "%s\n", line + 2);
}

static void every_layout_names_its_container_and_its_pod(void **state)
{
    (void)state;
    static char text[MOST_BYTES];
    static layout made;
    int count = 0;
    read_text(text);
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        if (strncmp(line, "case ", 5) == 0) {
            if (count++ > 0)
                check(&made);
            memset(&made, 0, sizeof made);
        }
        take_line(&made, line);
    }
    check(&made);
    assert_int_equal(count, 49);
}

/* The text may end anywhere, and any letter may be another. */
static void no_damage_leads_past_the_end(void **state)
{
    (void)state;
    static char text[MOST_BYTES];
    vw_job_container found;
    read_text(text);
    char *part = strstr(text, "system.slice/containerd.service");
    assert_non_null(part);
    size_t length = 400;
    char *copy = malloc(length + 1);
    assert_non_null(copy);
    for (size_t cut = 0; cut <= length; cut++) {
        memcpy(copy, part - 10, cut);
        copy[cut] = '\0';
        (void)vw__job_container_parse(copy, &found);
        assert_true(strlen(found.id) == 0 || strlen(found.id) == 64);
        assert_true(strlen(found.pod_uid) == 0 || strlen(found.pod_uid) == 36);
    }
    for (size_t at = 0; at < length; at++)
        for (const char *letter = ":/-_.\n"; *letter != '\0'; letter++) {
            memcpy(copy, part - 10, length);
            copy[length] = '\0';
            copy[at] = *letter;
            (void)vw__job_container_parse(copy, &found);
        }
    free(copy);
}

/* ---- processes ------------------------------------------------------------------------------- */

static void a_process_that_is_not_there_is_in_no_container(void **state)
{
    (void)state;
    vw_job_container found;
    assert_false(vw__job_container_of("/no/such/folder", 1, &found));
    assert_string_equal(found.id, "");
}

/* ---- names of pods --------------------------------------------------------------------------- */

static char folder[64];

static void make_pod(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void remove_pod(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(rmdir(path), 0);
}

static void pods_have_the_names_of_their_folders(void **state)
{
    (void)state;
    static const char *const names[] = {"research_train-0_5ea1-uid",
                                        "kube-system_etcd-node1_77",
                                        "no-underscore",
                                        "one_underscore",
                                        "__",
                                        "team.a_llm.pretrain-1_99"};
    enum { COUNT = sizeof names / sizeof names[0] };
    snprintf(folder, sizeof folder, "/tmp/vramwise-pods-XXXXXX");
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < COUNT; i++)
        make_pod(names[i]);
    vw_job_container made[] = {{.pod_uid = "5ea1-uid"},
                               {.pod_uid = "99"},
                               {.pod_uid = "5ea1-uid"},
                               {.pod_uid = "elsewhere"}};
    vw_job_container *const all[] = {&made[0], &made[1], &made[2], &made[3]};
    vw__job_container_name_pods(folder, all, 4);
    assert_string_equal(made[0].pod_namespace, "research");
    assert_string_equal(made[0].pod, "train-0");
    assert_string_equal(made[1].pod_namespace, "team.a");
    assert_string_equal(made[1].pod, "llm.pretrain-1");
    assert_string_equal(made[2].pod, "train-0");
    assert_string_equal(made[3].pod, "");
    vw__job_container_name_pods("/no/such/folder", all, 4);
    assert_string_equal(made[0].pod, "train-0");
    for (size_t i = 0; i < COUNT; i++)
        remove_pod(names[i]);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_names_its_container_and_its_pod),
        cmocka_unit_test(no_damage_leads_past_the_end),
        cmocka_unit_test(a_process_that_is_not_there_is_in_no_container),
        cmocka_unit_test(pods_have_the_names_of_their_folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
