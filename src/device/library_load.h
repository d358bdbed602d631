/* library_load.h - loads a vendor's library at run time.
 *
 * Building vramwise needs no vendor's kit, and programs with vramwise start on machines without a
 * GPU: libraries are opened by name, and their functions looked up one by one. On failure a text
 * says what was tried and why it did not work.
 *
 * A library is never closed: drivers keep threads and thread-local destructors that would run into
 * unmapped code. */
#ifndef VW_DEVICE_LIBRARY_LOAD_H
#define VW_DEVICE_LIBRARY_LOAD_H

#include <stdbool.h>
#include <stddef.h> /* size_t */

/* A function to look up: its names, newest first, and where to store its address. */
typedef struct vw__library_symbol {
    const char *newest;
    const char *fallback; /* the same signature under an older name, or NULL */
    size_t offset_bytes;  /* of the function pointer inside the table */
    bool is_required;     /* otherwise the pointer may stay NULL */
} vw__library_symbol;

/* Opens the library named by the environment variable `variable`, and only that one, if it is set
 * and not empty; otherwise the first of `names` (ends with NULL) that opens. NULL if none does:
 * `reasons` then has what was tried, and the loader's messages. */
void *vw__library_open(const char *variable, const char *const *names, char *reasons,
                       size_t reasons_bytes);

/* The first of `names` (ends with NULL) that the process has loaded already, or NULL. */
const char *vw__library_first_loaded(const char *const *names);

/* Stores the address of every symbol found in `table`. Returns the newest name of the first
 * required symbol that is missing, or NULL. */
const char *vw__library_find_symbols(void *library, const vw__library_symbol *symbols,
                                     size_t symbol_count, void *table);

#endif /* VW_DEVICE_LIBRARY_LOAD_H */
