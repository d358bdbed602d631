/* job_container.c - see job_container.h.
 *
 * A path is read from left to right, name by name. A pod begins anew: what was outside of it is the
 * node, which may be a container as well. The first container in a pod is the pod's; without a pod
 * the innermost one counts. */
#include "watch/job_container.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "watch/process_parts.h"

enum { MOST_TEXT_BYTES = 1 << 14, UUID_LENGTH = 36, HASH_LENGTH = 32 };

/* A part of a path. */
typedef struct span {
    const char *bytes;
    size_t length;
} span;

static bool is_hex(char letter)
{
    return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'f');
}

static bool is_all_hex(span part)
{
    for (size_t i = 0; i < part.length; i++)
        if (!is_hex(part.bytes[i]))
            return false;
    return true;
}

static bool drop_end(span *part, const char *end)
{
    size_t length = strlen(end);
    if (part->length < length || memcmp(part->bytes + part->length - length, end, length) != 0)
        return false;
    part->length -= length;
    return true;
}

static bool is_equal(span part, const char *text)
{
    return part.length == strlen(text) && memcmp(part.bytes, text, part.length) == 0;
}

static span behind(span part, size_t skipped)
{
    return (span){part.bytes + skipped, part.length - skipped};
}

/* ---- containers ------------------------------------------------------------------------------ */

static bool is_runtime(span name)
{
    static const char *const runtimes[] = {"docker", "cri-containerd", "crio", "libpod"};
    for (size_t i = 0; i < sizeof runtimes / sizeof runtimes[0]; i++)
        if (is_equal(name, runtimes[i]))
            return true;
    return false;
}

/* "<id>", "crio-<id>", "docker-<id>.scope" */
static bool read_container(span name, vw_job_container *out)
{
    enum { LENGTH = sizeof out->id - 1 };
    (void)drop_end(&name, ".scope");
    if (name.length < LENGTH)
        return false;
    size_t before = name.length - LENGTH;
    span id = behind(name, before);
    if (!is_all_hex(id) || (before != 0 && (name.bytes[before - 1] != '-' ||
                                            !is_runtime((span){name.bytes, before - 1}))))
        return false;
    if (out->pod_uid[0] == '\0' || out->id[0] == '\0')
        memcpy(out->id, id.bytes, LENGTH);
    return true;
}

/* ---- pods ------------------------------------------------------------------------------------ */

static bool is_pod_uid(span uid, char dash)
{
    if (uid.length == HASH_LENGTH)
        return is_all_hex(uid);
    if (uid.length != UUID_LENGTH)
        return false;
    for (size_t i = 0; i < UUID_LENGTH; i++) {
        bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (is_dash ? uid.bytes[i] != dash : !is_hex(uid.bytes[i]))
            return false;
    }
    return true;
}

/* What is behind the last "pod" of "pod<uid>", or of "kubelet-kubepods-burstable-pod<uid>.slice".
 */
static bool find_pod_uid(span name, span *uid)
{
    static const char word[] = "pod";
    enum { WORD_LENGTH = sizeof word - 1 };
    bool is_slice = drop_end(&name, ".slice");
    size_t length =
        name.length >= WORD_LENGTH + UUID_LENGTH &&
                memcmp(name.bytes + name.length - UUID_LENGTH - WORD_LENGTH, word, WORD_LENGTH) == 0
            ? UUID_LENGTH
            : HASH_LENGTH;
    if (name.length < WORD_LENGTH + length)
        return false;
    size_t before = name.length - length - WORD_LENGTH;
    *uid = behind(name, before + WORD_LENGTH);
    return memcmp(name.bytes + before, word, WORD_LENGTH) == 0 &&
           is_pod_uid(*uid, is_slice ? '_' : '-') &&
           (is_slice ? before != 0 && name.bytes[before - 1] == '-' : before == 0);
}

static bool read_pod(span name, vw_job_container *out)
{
    span uid;
    if (!find_pod_uid(name, &uid))
        return false;
    *out = (vw_job_container){.id = ""};
    for (size_t i = 0; i < uid.length; i++)
        out->pod_uid[i] = (char)(uid.bytes[i] == '_' ? '-' : uid.bytes[i]);
    return true;
}

/* ---- paths ----------------------------------------------------------------------------------- */

/* One name of a path, or, where the drivers are mixed, "<slice>:<runtime>:<id>". */
static void read_name(span name, vw_job_container *out)
{
    const char *colon = memchr(name.bytes, ':', name.length);
    const char *second = memrchr(name.bytes, ':', name.length);
    if (colon != NULL && colon != second &&
        is_runtime((span){colon + 1, (size_t)(second - colon) - 1})) {
        (void)read_pod((span){name.bytes, (size_t)(colon - name.bytes)}, out);
        name = behind(name, (size_t)(second - name.bytes) + 1);
    }
    if (!read_pod(name, out))
        (void)read_container(name, out);
}

static void read_path(span path, vw_job_container *out)
{
    *out = (vw_job_container){.id = ""};
    while (path.length > 0) {
        const char *slash = memchr(path.bytes, '/', path.length);
        size_t length = slash != NULL ? (size_t)(slash - path.bytes) : path.length;
        read_name((span){path.bytes, length}, out);
        path = behind(path, slash != NULL ? length + 1 : length);
    }
}

/* "4:memory:/docker/...", of which the path counts. */
static bool read_line(span line, vw_job_container *out)
{
    for (int colons = 0; colons < 2; colons++) {
        const char *colon = memchr(line.bytes, ':', line.length);
        if (colon == NULL)
            return false;
        line = behind(line, (size_t)(colon - line.bytes) + 1);
    }
    read_path(line, out);
    return out->id[0] != '\0' || out->pod_uid[0] != '\0';
}

/* How much is known: a machine with both versions of cgroups has lines that name no container. */
static int worth_of(const vw_job_container *container)
{
    return (container->id[0] != '\0') + 2 * (container->pod_uid[0] != '\0');
}

bool vw__job_container_parse(const char *cgroup_text, vw_job_container *out)
{
    vw_job_container found;
    *out = (vw_job_container){.id = ""};
    for (const char *at = cgroup_text; *at != '\0';) {
        size_t length = strcspn(at, "\n");
        if (read_line((span){at, length}, &found) && worth_of(&found) > worth_of(out))
            *out = found;
        at += length + (at[length] == '\n');
    }
    return worth_of(out) != 0;
}

bool vw__job_container_of(const char *proc_folder, long process, vw_job_container *out)
{
    char text[MOST_TEXT_BYTES];
    int file = vw__watch_process_open(proc_folder, process, "cgroup");
    size_t length = vw__watch_process_bytes(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    text[length] = '\0';
    return vw__job_container_parse(text, out);
}

/* ---- names of pods --------------------------------------------------------------------------- */

static void set_names(vw_job_container *container, span pod_namespace, span pod)
{
    snprintf(container->pod_namespace, sizeof container->pod_namespace, "%.*s",
             (int)pod_namespace.length, pod_namespace.bytes);
    snprintf(container->pod, sizeof container->pod, "%.*s", (int)pod.length, pod.bytes);
}

/* Neither a name nor a namespace nor a uid has a _. */
static void take_pod(const char *name, vw_job_container *const *containers, size_t count)
{
    const char *first = strchr(name, '_'), *last = strrchr(name, '_');
    if (first == NULL || first == last)
        return;
    for (size_t i = 0; i < count; i++)
        if (containers[i]->pod_uid[0] != '\0' && strcmp(containers[i]->pod_uid, last + 1) == 0)
            set_names(containers[i], (span){name, (size_t)(first - name)},
                      (span){first + 1, (size_t)(last - first) - 1});
}

static bool has_nameless(vw_job_container *const *containers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (containers[i]->pod_uid[0] != '\0' && containers[i]->pod[0] == '\0')
            return true;
    return false;
}

void vw__job_container_name_pods(const char *pod_folder, vw_job_container *const *containers,
                                 size_t count)
{
    DIR *directory = has_nameless(containers, count) ? opendir(pod_folder) : NULL;
    if (directory == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;)
        take_pod(entry->d_name, containers, count);
    (void)closedir(directory);
}
