/* process_look.c - what /proc says of a process that publishes nothing.
 *
 * Only files are read: nothing is sent to the process, and none of its threads is stopped. Of
 * another user's process the environment and the mappings are closed; the rest is for everybody. A
 * process may end meanwhile: what cannot be read is unknown. */
#include "watch/process_look.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/c_locale.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "watch/process_parts.h"

enum { MOST_THREADS_LOOKED_AT = 4096, START_FIELD = 22, STAT_BYTES = 1024 };

typedef struct look {
    const char *folder;
    long process;
    vw_process *out;
} look;

static int open_file(const look *at, const char *name)
{
    return vw__watch_process_open(at->folder, at->process, name);
}

/* A short file as a text. Returns its length. */
static size_t read_text(int file, char *text, size_t capacity)
{
    const size_t length = vw__watch_process_bytes(file, text, capacity - 1);
    text[length] = '\0';
    if (file >= 0)
        close(file);
    return length;
}

/* The same for one that belongs to no process. */
static size_t read_machine_text(const look *at, const char *name, char *text, size_t capacity)
{
    char path[512];
    snprintf(path, sizeof path, "%.400s/%s", at->folder, name);
    FILE *file = fopen(path, "re");
    const size_t length = file != NULL ? fread(text, 1, capacity - 1, file) : 0;
    text[length] = '\0';
    if (file != NULL)
        fclose(file);
    return length;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* "VmRSS:    1234 kB" in a file of such lines; VW_LIVE_UNKNOWN. */
static uint64_t kilobytes_of(const char *text, const char *name)
{
    const size_t name_bytes = strlen(name);
    for (const char *line = text; line != NULL;
         line = (line = strchr(line, '\n')) != NULL ? line + 1 : NULL) {
        unsigned long long kilobytes;
        if (strncmp(line, name, name_bytes) == 0 && line[name_bytes] == ':' &&
            sscanf(line + name_bytes + 1, " %llu kB", &kilobytes) == 1 &&
            kilobytes < UINT64_MAX / 1024)
            return (uint64_t)kilobytes * 1024;
    }
    return VW_LIVE_UNKNOWN;
}

static void read_memory(const look *at)
{
    char text[8192];
    vw_process *out = at->out;
    read_text(open_file(at, "status"), text, sizeof text);
    out->resident_bytes = kilobytes_of(text, "VmRSS");
    out->peak_resident_bytes = kilobytes_of(text, "VmHWM");
    out->swapped_bytes = kilobytes_of(text, "VmSwap");
    const char *user = strstr(text, "\nUid:");
    if (user != NULL)
        sscanf(user + strlen("\nUid:"), " %*u %lu", &out->user);
    read_machine_text(at, "meminfo", text, sizeof text);
    out->machine_total_bytes = kilobytes_of(text, "MemTotal");
    out->machine_available_bytes = kilobytes_of(text, "MemAvailable");
}

/* ---- its age and its threads ----------------------------------------------------------------- */

/* Behind the name of the program, which is in parentheses and may hold any bytes. "" if there is
 * none. */
static const char *behind_name(const char *stat)
{
    const char *end = strrchr(stat, ')');
    return end != NULL && end[1] == ' ' ? end + 2 : "";
}

/* The field of that number, the state being the third. */
static const char *field_of(const char *stat, int number)
{
    const char *at = behind_name(stat);
    for (int i = 3; i < number && *at != '\0'; i++) {
        at += strcspn(at, " ");
        at += *at == ' ';
    }
    return at;
}

static void read_age(const look *at, const char *stat)
{
    char text[128];
    char *end;
    const long ticks_per_second = sysconf(_SC_CLK_TCK);
    const char *start = field_of(stat, START_FIELD);
    read_machine_text(at, "uptime", text, sizeof text);
    const double up_seconds = vw__c_locale_strtod(text, &end);
    if (end == text || *start == '\0' || ticks_per_second <= 0)
        return;
    const double started = (double)strtoull(start, NULL, 10) / (double)ticks_per_second;
    if (started <= up_seconds)
        at->out->age_seconds = (uint64_t)(up_seconds - started);
}

static void count_thread(const look *at, const char *thread)
{
    char name[64], text[STAT_BYTES];
    snprintf(name, sizeof name, "task/%.20s/stat", thread);
    if (read_text(open_file(at, name), text, sizeof text) == 0)
        return;
    const char state = behind_name(text)[0];
    at->out->thread_count++;
    at->out->running_count += state == 'R';
    at->out->disk_wait_count += state == 'D';
}

static void read_threads(const look *at)
{
    char path[512], text[8192];
    snprintf(path, sizeof path, "%.400s/%ld/task", at->folder, at->process);
    DIR *threads = opendir(path);
    vw_process *out = at->out;
    if (threads == NULL)
        return;
    out->thread_count = out->running_count = out->disk_wait_count = 0;
    for (struct dirent *entry;
         out->thread_count < MOST_THREADS_LOOKED_AT && (entry = readdir(threads)) != NULL;)
        if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
            count_thread(at, entry->d_name);
    closedir(threads);
    snprintf(path, sizeof path, "task/%ld/children", at->process);
    int file = open_file(at, path);
    if (file >= 0) {
        out->child_count = 0;
        read_text(file, text, sizeof text);
        for (const char *space = text; (space = strchr(space, ' ')) != NULL; space++)
            out->child_count++;
    }
    read_text(open_file(at, "wchan"), out->waits_in, sizeof out->waits_in);
    if (strcmp(out->waits_in, "0") == 0) /* it runs, or we may not know */
        out->waits_in[0] = '\0';
}

/* ---- its program ----------------------------------------------------------------------------- */

/* "python3.14", "libpython3.14.so.1.0": what is behind `prefix`. */
static void take_python_version(const char *name, const char *prefix, vw_process *out)
{
    unsigned major, minor;
    if (strncmp(name, prefix, strlen(prefix)) == 0 &&
        sscanf(name + strlen(prefix), "%1u.%3u", &major, &minor) == 2 && out->python_major == 0) {
        out->python_major = major;
        out->python_minor = minor;
    }
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* Can the command be typed again as it is shown, with spaces between its words? */
static bool is_typable(const char *bytes, size_t length)
{
    size_t at = 0;
    while (at < length && vw__ascii_is_shell_word(bytes + at))
        at += strnlen(bytes + at, length - at) + 1;
    return length > 0 && at >= length;
}

/* Told by its command line: python -X disable-remote-debug. */
static bool has_switch(const char *bytes, size_t length, const char *wanted)
{
    for (size_t at = 0; at < length; at += strnlen(bytes + at, length - at) + 1)
        if (strstr(bytes + at, wanted) != NULL)
            return true;
    return false;
}

static void read_program(const look *at)
{
    char path[512], bytes[4096];
    vw_process *out = at->out;
    snprintf(path, sizeof path, "%.400s/%ld/exe", at->folder, at->process);
    const ssize_t link_bytes = readlink(path, out->executable, sizeof out->executable - 1);
    out->executable[link_bytes > 0 ? link_bytes : 0] = '\0';
    take_python_version(base_name(out->executable), "python", out);
    size_t length = read_text(open_file(at, "cmdline"), bytes, sizeof bytes);
    out->is_debugging_off = has_switch(bytes, length, "disable-remote-debug") ||
                            has_switch(bytes, length, "disable_remote_debug");
    out->is_typable = is_typable(bytes, length);
    length = vw__watch_process_join(bytes, length);
    if (length >= sizeof out->command)
        length = sizeof out->command - 1;
    memcpy(out->command, bytes, length);
    out->command[length] = '\0';
}

/* ---- its environment ------------------------------------------------------------------------- */

/* Settings of allocators, what is taken in advance, which cards are seen, and what Python and we
 * were told to leave. */
static const char *const variables[] = {
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_ALLOCATOR",
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "TF_GPU_ALLOCATOR",
    "PYTHON_DISABLE_REMOTE_DEBUG",
    "VRAMWISE_DISABLE",
};
_Static_assert(sizeof variables / sizeof variables[0] <= VW_PROCESS_MOST_VARIABLES,
               "a process has room for all of them");

static void take_variable(const char *text, void *context)
{
    vw_process *out = context;
    const size_t name_bytes = strcspn(text, "=");
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        if (strlen(variables[i]) != name_bytes || strncmp(variables[i], text, name_bytes) != 0 ||
            text[name_bytes] == '\0' || out->variable_count == VW_PROCESS_MOST_VARIABLES)
            continue;
        vw_process_variable *kept = &out->variables[out->variable_count++];
        kept->name = variables[i];
        snprintf(kept->value, sizeof kept->value, "%.*s", (int)sizeof kept->value - 1,
                 text + name_bytes + 1);
        if (strcmp(variables[i], "PYTHON_DISABLE_REMOTE_DEBUG") == 0 && kept->value[0] != '\0')
            out->is_debugging_off = true;
    }
}

/* ---- its libraries --------------------------------------------------------------------------- */

/* By what the name of a mapped file begins with. The first of a framework's rows that is found
 * names it. */
static const struct {
    const char *prefix, *framework;
} libraries[] = {
    {"libtorch_cuda", "PyTorch"},
    {"libtorch_hip", "PyTorch"},
    {"libtorch_cpu", "PyTorch"},
    {"libtensorflow", "TensorFlow"},
    {"_pywrap_tensorflow", "TensorFlow"},
    {"xla_extension", "JAX"},
    {"libjax_common", "JAX"},
    {"xla_cuda_plugin", "JAX"},
    {"libonnxruntime", "ONNX Runtime"},
    {"libnvinfer", "TensorRT"},
    {"libcupy", "CuPy"},
    {"libllama", "llama.cpp"},
    {"libggml", "llama.cpp"},
    {"libnccl", "NCCL"},
    {"librccl", "RCCL"},
    {"libcuda.so", "the CUDA driver"},
    {"libamdhip64", "the HIP runtime"},
    {"libvramwise", "vramwise"},
};

static void take_framework(vw_process *out, const char *framework)
{
    for (size_t i = 0; i < out->framework_count; i++)
        if (strcmp(out->frameworks[i], framework) == 0)
            return;
    if (out->framework_count < VW_PROCESS_MOST_FRAMEWORKS)
        out->frameworks[out->framework_count++] = framework;
}

/* "7f00-7f01 r-xp 00000000 08:01 123 /opt/lib/libtorch_cuda.so" */
static void take_mapping(const char *line, void *context)
{
    vw_process *out = context;
    const char *path = strchr(line, '/');
    if (path == NULL)
        return;
    const char *name = base_name(path);
    take_python_version(name, "libpython", out);
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++)
        if (strncmp(name, libraries[i].prefix, strlen(libraries[i].prefix)) == 0)
            take_framework(out, libraries[i].framework);
}

/* ---- where it runs --------------------------------------------------------------------------- */

/* Does it see the files that we see? Unknown counts as yes. */
static bool is_elsewhere(const look *at)
{
    char path[512];
    struct stat its, ours;
    snprintf(path, sizeof path, "%.400s/%ld/ns/mnt", at->folder, at->process);
    return stat(path, &its) == 0 && stat("/proc/self/ns/mnt", &ours) == 0 &&
           (its.st_ino != ours.st_ino || its.st_dev != ours.st_dev);
}

/* ---- all of it ------------------------------------------------------------------------------- */

bool vw__watch_process_look(const char *folder, long process, vw_process *out)
{
    const look at = {folder, process, out};
    char stat_text[STAT_BYTES];
    *out = (vw_process){.process = process,
                        .age_seconds = VW_LIVE_UNKNOWN,
                        .thread_count = VW_LIVE_UNKNOWN,
                        .running_count = VW_LIVE_UNKNOWN,
                        .disk_wait_count = VW_LIVE_UNKNOWN,
                        .child_count = VW_LIVE_UNKNOWN};
    if (read_text(open_file(&at, "stat"), stat_text, sizeof stat_text) == 0)
        return false;
    read_memory(&at);
    read_age(&at, stat_text);
    read_threads(&at);
    read_program(&at);
    out->is_environment_known = vw__watch_process_pieces(
        open_file(&at, "environ"), '\0', VW_PROCESS_TEXT_BYTES + 64, SIZE_MAX, take_variable, out);
    out->are_libraries_known = vw__watch_process_pieces(
        open_file(&at, "maps"), '\n', VW_PROCESS_PATH_BYTES + 128, SIZE_MAX, take_mapping, out);
    out->is_elsewhere = is_elsewhere(&at);
    return true;
}

vw_status vw_process_read(long process, vw_process **out)
{
    if (out == NULL || process <= 0)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a process and a place for it");
    vw_process *made = vw__host_alloc(sizeof *made);
    if (made == NULL)
        return vw__fail_host_memory(sizeof *made, "a process");
    if (!vw__watch_process_look("/proc", process, made)) {
        vw__host_free(made);
        return vw__fail(VW_ERR_FILE, "it does not run; expected the number of a process that does");
    }
    *out = made;
    return VW_OK;
}

void vw_process_free(vw_process *process)
{
    vw__host_free(process);
}
