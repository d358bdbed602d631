/* run_environment.c - finds the hook, and says in variables what was asked for.
 *
 * PYTHONPATH gets the hook's folder in front and keeps the rest: the hook takes itself off sys.path
 * again. An empty PYTHONPATH is the same as none to Python, but not with something in front of it,
 * where it means the working directory; so it is dropped. */
#include "run_environment.h"

#include <errno.h>
#include <glob.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h> /* getauxval */
#include <sys/stat.h>
#include <unistd.h>

bool run_environment_is_disabled(void)
{
    const char *value = secure_getenv("VRAMWISE_DISABLE");
    return value != NULL && value[0] != '\0' && strcmp(value, "0") != 0;
}

/* ---- the hook -------------------------------------------------------------------------------- */

/* The kernel's word for this program's file; where /proc is not mounted, the name that it was
 * started by, which may be relative to the working directory. */
static bool find_program(char file[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", file, PATH_MAX - 1);
    if (length > 0) {
        file[length] = '\0';
        return true;
    }
    const char *started_by = (const char *)(uintptr_t)getauxval(AT_EXECFN);
    return started_by != NULL && realpath(started_by, file) != NULL;
}

static bool find_program_folder(char folder[PATH_MAX])
{
    if (!find_program(folder))
        return false;
    char *slash = strrchr(folder, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    return true;
}

/* Copies a name so that glob() takes every character for itself. */
static void escape_name(const char *name, char *escaped, size_t capacity)
{
    size_t length = 0;
    for (; *name != '\0' && length + 2 < capacity; name++) {
        if (strchr("*?[]\\", *name) != NULL)
            escaped[length++] = '\\';
        escaped[length++] = *name;
    }
    escaped[length] = '\0';
}

/* The folder with the file that `pattern`, which may have a * in it, names: the first there is. */
static bool find_file_in(const char *folder, const char *pattern, char *place_found,
                         size_t capacity)
{
    char wanted[3 * PATH_MAX], escaped[2 * PATH_MAX];
    glob_t found;
    bool is_found = false;
    escape_name(folder, escaped, sizeof escaped);
    snprintf(wanted, sizeof wanted, "%s/%s", escaped, pattern);
    if (glob(wanted, 0, NULL, &found) != 0)
        return false;
    char *place = realpath(found.gl_pathv[0], NULL);
    if (place != NULL) {
        char *slash = strrchr(place, '/');
        *slash = '\0';
        is_found = strlen(place) < capacity;
        if (is_found)
            strcpy(place_found, place);
        free(place);
    }
    globfree(&found);
    return is_found;
}

/* What is found beside the program runs as this user. Where the program lies in a folder for all
 * (/tmp), others can put a folder beside it: the first name of `pattern` is to be of the user, of
 * root, or of whoever the program is of. */
static bool is_trusted(const char *program_folder, const char *pattern)
{
    char path[2 * PATH_MAX];
    struct stat found, program;
    size_t above = strncmp(pattern, "../", 3) == 0 ? 3 : 0;
    snprintf(path, sizeof path, "%s/%.*s", program_folder,
             (int)(above + strcspn(pattern + above, "/")), pattern);
    if (lstat(path, &found) != 0)
        return false;
    return found.st_uid == 0 || found.st_uid == geteuid() ||
           (stat("/proc/self/exe", &program) == 0 && program.st_uid == found.st_uid);
}

static bool find_in(const char *folder, const char *pattern, char *hook, size_t capacity)
{
    char file[PATH_MAX];
    snprintf(file, sizeof file, "%s/sitecustomize.py", pattern);
    return find_file_in(folder, file, hook, capacity) &&
           strchr(hook, ':') == NULL; /* PYTHONPATH's */
}

bool run_environment_find_hook(char *hook, size_t capacity)
{
    static const char *const places[] = {
        "python/vramwise/_start",
        "../share/vramwise/python/vramwise/_start",
        "../lib/python3*/site-packages/vramwise/_start",
        "../lib64/python3*/site-packages/vramwise/_start",
        "../lib/python3*/dist-packages/vramwise/_start", /* Debian's */
        "../vramwise/_start",                            /* pip install --target */
        "../_start",                                     /* the program inside the package */
    };
    char program[PATH_MAX];
    const char *given = secure_getenv("VRAMWISE_PYTHON");
    if (given != NULL && given[0] != '\0')
        return find_in(given, "vramwise/_start", hook, capacity);
    if (!find_program_folder(program))
        return false;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (is_trusted(program, places[i]) && find_in(program, places[i], hook, capacity))
            return true;
    return false;
}

/* ---- where the recording goes ---------------------------------------------------------------- */

static bool may_write_in(const char *folder)
{
    struct stat found;
    if (stat(folder, &found) != 0)
        return false;
    if (!S_ISDIR(found.st_mode)) {
        errno = ENOTDIR;
        return false;
    }
    return access(folder, W_OK | X_OK) == 0;
}

const char *run_environment_place_recording(const char *record, char *place, size_t capacity)
{
    struct stat found;
    char folder[PATH_MAX];
    const char *slash = strrchr(record, '/');
    int length = slash == NULL ? snprintf(folder, sizeof folder, ".")
                               : snprintf(folder, sizeof folder, "%.*s",
                                          (int)(slash == record ? 1 : slash - record), record);
    if (length < 0 || (size_t)length >= sizeof folder)
        return strerror(ENAMETOOLONG);
    if (stat(record, &found) == 0 && !S_ISREG(found.st_mode))
        return S_ISDIR(found.st_mode) ? strerror(EISDIR)
                                      : "expected a regular file, found a pipe or a device";
    if (!may_write_in(folder))
        return strerror(errno);
    char *real = realpath(folder, NULL);
    if (real == NULL)
        return strerror(errno);
    length = snprintf(place, capacity, "%s/%s", strcmp(real, "/") == 0 ? "" : real,
                      slash == NULL ? record : slash + 1);
    free(real);
    return length >= 0 && (size_t)length < capacity ? NULL : strerror(ENAMETOOLONG);
}

/* ---- the variables --------------------------------------------------------------------------- */

bool run_environment_add_python_path(const char *folder)
{
    const char *rest = secure_getenv("PYTHONPATH");
    if (rest == NULL || rest[0] == '\0')
        return setenv("PYTHONPATH", folder, 1) == 0;
    char *both = NULL;
    if (asprintf(&both, "%s:%s", folder, rest) < 0)
        return false;
    bool is_set = setenv("PYTHONPATH", both, 1) == 0;
    free(both);
    return is_set;
}

/* A run inside a run must not inherit what the outer one was asked for. */
static bool set_or_unset(const char *name, const char *value)
{
    return (value != NULL && value[0] != '\0' ? setenv(name, value, 1) : unsetenv(name)) == 0;
}

/* Files go to where the user started the run, or beside the recording. */
static bool set_files_folder(const char *place)
{
    char *folder = place[0] != '\0' ? strdup(place) : getcwd(NULL, 0);
    if (folder != NULL && place[0] != '\0') {
        char *slash = strrchr(folder, '/');
        slash[slash == folder ? 1 : 0] = '\0';
    }
    bool is_set = set_or_unset("VRAMWISE_RUN_FOLDER", folder);
    free(folder);
    return is_set;
}

/* Where the libraries are that the page and the allocator need: beside the program, or where they
 * are installed with it. A wheel knows its own. */
static bool set_library_folder(void)
{
    static const char *const places[] = {"libvramwise.so", "../lib/libvramwise.so",
                                         "../lib64/libvramwise.so", "../lib/*/libvramwise.so"};
    char program[PATH_MAX], wanted[PATH_MAX];
    if (secure_getenv("VRAMWISE_LIBRARY_DIR") != NULL || !find_program_folder(program))
        return true;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (is_trusted(program, places[i]) &&
            find_file_in(program, places[i], wanted, sizeof wanted))
            return setenv("VRAMWISE_LIBRARY_DIR", wanted, 1) == 0;
    return true;
}

bool run_environment_set(const char *hook, const char *run_folder_path, const run_wishes *wishes,
                         const char *place)
{
    return run_environment_add_python_path(hook) && set_or_unset("VRAMWISE_RUN", run_folder_path) &&
           set_or_unset("VRAMWISE_RUN_ALLOCATOR", wishes->allocator) &&
           set_or_unset("VRAMWISE_RUN_HISTORY", wishes->history) &&
           set_or_unset("VRAMWISE_KEEP_FREE", wishes->keep_free) &&
           set_or_unset("VRAMWISE_SPILL", wishes->spill) &&
           (!wishes->stream || setenv("VRAMWISE_STREAM", "1", 1) == 0) && /* users set it, too */
           set_or_unset("VRAMWISE_RUN_RECORD", place) && set_files_folder(place) &&
           set_library_folder();
}
