/* cupti_load.c - see cupti_load.h. */
#include "cupti_load.h"

#include <dlfcn.h>
#include <limits.h> /* PATH_MAX */
#include <link.h>   /* dl_iterate_phdr */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
enum { NAME_COUNT = sizeof names / sizeof names[0] };

/* ---- where it may be ------------------------------------------------------------------------- */

/* PyTorch's wheels: nvidia/cu13/lib has both; before CUDA 13 each library had a folder of its own,
 * nvidia/cuda_runtime/lib and nvidia/cuda_cupti/lib. */
static const char *const beside_runtime[] = {"", "../../cuda_cupti/lib/", "../extras/CUPTI/lib64/"};

static int note_runtime(struct dl_phdr_info *info, size_t size, void *context)
{
    char *folder = context;
    (void)size;
    const char *slash = info->dlpi_name != NULL ? strrchr(info->dlpi_name, '/') : NULL;
    if (slash == NULL || strncmp(slash + 1, "libcudart.so", strlen("libcudart.so")) != 0)
        return 0;
    size_t length = (size_t)(slash + 1 - info->dlpi_name);
    if (length >= PATH_MAX)
        return 0;
    memcpy(folder, info->dlpi_name, length);
    folder[length] = '\0';
    return 1;
}

static void *open_beside_runtime(void)
{
    char folder[PATH_MAX] = "", path[2 * PATH_MAX];
    if (dl_iterate_phdr(note_runtime, folder) == 0)
        return NULL;
    for (size_t place = 0; place < sizeof beside_runtime / sizeof beside_runtime[0]; place++)
        for (size_t i = 0; i < NAME_COUNT; i++) {
            snprintf(path, sizeof path, "%s%s%s", folder, beside_runtime[place], names[i]);
            void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            if (library != NULL)
                return library;
        }
    return NULL;
}

static void *open_any(char *reason, size_t capacity)
{
    const char *chosen = secure_getenv("VRAMWISE_CUPTI");
    if (chosen != NULL && chosen[0] != '\0') {
        void *library = dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) {
            const char *said = dlerror();
            snprintf(reason, capacity, "VRAMWISE_CUPTI names a library that does not load: %s",
                     said != NULL ? said : chosen);
        }
        return library;
    }
    void *library = NULL;
    for (size_t i = 0; i < NAME_COUNT && library == NULL; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    for (size_t i = 0; i < NAME_COUNT && library == NULL; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        library = open_beside_runtime();
    if (library == NULL)
        snprintf(
            reason, capacity,
            "no CUPTI: neither libcupti.so.13, libcupti.so.12 nor libcupti.so loads, and there "
            "is none beside the CUDA runtime; VRAMWISE_CUPTI can name one");
    return library;
}

/* ---- what is in it --------------------------------------------------------------------------- */

typedef struct wanted_function {
    const char *name;
    size_t offset_bytes;
    bool is_required;
} wanted_function;

static const wanted_function wanted[] = {
    {"cuptiSubscribe", offsetof(vw__cupti, subscribe), true},
    {"cuptiUnsubscribe", offsetof(vw__cupti, unsubscribe), true},
    {"cuptiEnableCallback", offsetof(vw__cupti, enable_callback), true},
    {"cuptiGetCallbackName", offsetof(vw__cupti, get_callback_name), true},
    {"cuptiGetResultString", offsetof(vw__cupti, get_result_string), false},
};

bool vw__cupti_load(vw__cupti *out, char *reason, size_t capacity)
{
    memset(out, 0, sizeof *out);
    void *library = open_any(reason, capacity);
    if (library == NULL)
        return false;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        void *address = dlsym(library, wanted[i].name);
        if (address == NULL && wanted[i].is_required) {
            snprintf(reason, capacity, "the CUPTI found here has no function %s", wanted[i].name);
            return false;
        }
        /* ISO C has no cast from an object pointer to a function pointer; POSIX promises that the
         * bytes are the same. */
        memcpy((char *)out + wanted[i].offset_bytes, &address, sizeof address);
    }
    return true;
}

const char *vw__cupti_text(const vw__cupti *cupti, int result)
{
    const char *text = NULL;
    if (cupti->get_result_string == NULL ||
        cupti->get_result_string(result, &text) != VW__CUPTI_SUCCESS || text == NULL)
        return "unknown error";
    return text;
}
