/* verify_all.c - verifies every recording of a folder; ends at the first that differs.
 *
 *     verify_all FOLDER
 *
 * Exit status: 0 all came out again · 1 one did not (what differed is printed) · 3 could not be
 * done. For run_mutants.py, which links it with an engine that has one rule broken. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "vramwise/analysis.h"

#define ENDING ".pickle.xz"

static int is_recording(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name), ending = strlen(ENDING);
    return length > ending && strcmp(entry->d_name + length - ending, ENDING) == 0;
}

static int verify(const char *folder, const char *name)
{
    char path[PATH_MAX], json_path[PATH_MAX];
    int stem = (int)(strlen(name) - strlen(ENDING)), status = 3;
    vw_recording *recording = NULL;
    vw_verify_result *result = NULL;
    const vw_verify_options options = {.struct_size = sizeof options, .expect_path = json_path};
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)snprintf(json_path, sizeof json_path, "%s/%.*s.json", folder, stem, name);
    if (vw_recording_open(path, NULL, &recording) == VW_OK &&
        vw_recording_verify(recording, &options, &result) == VW_OK) {
        status = result->is_exact ? 0 : 1;
        if (status != 0)
            printf("%.*s: expected %s, got %s\n", stem, name, result->first_difference->expected,
                   result->first_difference->got);
    } else {
        printf("%s: %s\n", name, vw_last_error());
    }
    vw_verify_result_free(result);
    vw_recording_close(recording);
    return status;
}

int main(int argument_count, char **arguments)
{
    struct dirent **list;
    int count = argument_count == 2 ? scandir(arguments[1], &list, is_recording, alphasort) : 0;
    if (count <= 0) {
        printf("expected a folder with recordings\n");
        return 3;
    }
    for (int i = 0; i < count; i++) {
        int status = verify(arguments[1], list[i]->d_name);
        if (status != 0)
            return status;
    }
    return 0;
}
