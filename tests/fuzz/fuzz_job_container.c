/* fuzz_job_container.c - any bytes as the text of /proc/PID/cgroup.
 *
 * Users name cgroups where a part of the tree is theirs. Whatever the names are, an id is 64
 * hexadecimal digits or empty, and a pod's is a UUID, a hash or empty: nothing else of a path
 * reaches a label. */
#include "watch/job_container.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool claim)
{
    if (!claim)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vw_job_container found;
    char *text = malloc(size + 1);
    must(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    bool is_found = vw__job_container_parse(text, &found);
    size_t id = strlen(found.id), pod = strlen(found.pod_uid);
    must(is_found == (id != 0 || pod != 0));
    must((id == 0 || id == 64) && strspn(found.id, "0123456789abcdef") == id);
    must((pod == 0 || pod == 32 || pod == 36) && strspn(found.pod_uid, "0123456789abcdef-") == pod);
    must(found.pod[0] == '\0' && found.pod_namespace[0] == '\0');
    free(text);
    return 0;
}
