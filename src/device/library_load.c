/* library_load.c - dlopen() and dlsym(), with the reasons for failures. */
#include "device/library_load.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Adds "name (the loader's message)" to the list in `reasons`, cut to its size. The message usually
 * begins with the name, which is then left out. */
static void note_reason(char *reasons, size_t reasons_bytes, const char *name, const char *said)
{
    if (said == NULL)
        said = "no reason given";
    size_t name_length = strlen(name);
    if (strncmp(said, name, name_length) == 0 && strncmp(said + name_length, ": ", 2) == 0)
        said += name_length + 2;
    size_t used = strlen(reasons);
    snprintf(reasons + used, reasons_bytes - used, "%s%s (%s)", used != 0 ? ", " : "", name, said);
}

void *vw__library_open(const char *variable, const char *const *names, char *reasons,
                       size_t reasons_bytes)
{
    const char *chosen = secure_getenv(variable);
    const char *const only_chosen[] = {chosen, NULL};
    if (chosen != NULL && chosen[0] != '\0')
        names = only_chosen;

    reasons[0] = '\0';
    for (; *names != NULL; names++) {
        void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (library != NULL)
            return library;
        note_reason(reasons, reasons_bytes, *names, dlerror());
    }
    if (names == only_chosen + 1) {
        size_t used = strlen(reasons);
        snprintf(reasons + used, reasons_bytes - used, ", as %s says", variable);
    }
    return NULL;
}

const char *vw__library_first_loaded(const char *const *names)
{
    for (; *names != NULL; names++) {
        void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
        if (library != NULL) {
            dlclose(library); /* whoever loaded it has it still */
            return *names;
        }
    }
    return NULL;
}

const char *vw__library_find_symbols(void *library, const vw__library_symbol *symbols,
                                     size_t symbol_count, void *table)
{
    const char *missing = NULL;
    for (size_t i = 0; i < symbol_count; i++) {
        void *address = dlsym(library, symbols[i].newest);
        if (address == NULL && symbols[i].fallback != NULL)
            address = dlsym(library, symbols[i].fallback);
        if (address == NULL && symbols[i].is_required && missing == NULL)
            missing = symbols[i].newest;
        /* ISO C has no cast from an object pointer to a function pointer; POSIX promises that the
         * bytes are the same. */
        memcpy((char *)table + symbols[i].offset_bytes, &address, sizeof address);
    }
    return missing;
}
