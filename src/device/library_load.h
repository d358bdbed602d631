/* library_load.h - a vendor's library, found when the program runs.
 *
 * Building vramwise needs no vendor's kit, and a program with vramwise inside starts on a machine
 * without a GPU: libraries are opened by name, their functions looked up one by one. What was
 * tried and why it did not work is kept as text, because "no device" alone helps nobody.
 *
 * A library once opened is never closed: drivers keep threads and thread-local destructors that
 * would run into unmapped code. */
#ifndef VW_DEVICE_LIBRARY_LOAD_H
#define VW_DEVICE_LIBRARY_LOAD_H

#include <stdbool.h>
#include <stddef.h> /* size_t */

/* One function wanted: its names, newest first, and where its address goes. */
typedef struct vw__library_symbol {
    const char *newest;
    const char *fallback; /* the same signature under an older name, or NULL */
    size_t offset_bytes;  /* of the function pointer inside the table */
    bool is_required;     /* otherwise the pointer may stay NULL */
} vw__library_symbol;

/* Opens the library named by the environment variable `variable`, and only that one, where it is
 * set and not empty; otherwise the first of `names` (ends with NULL) that opens. NULL where none
 * did: `reasons` then holds what was tried and what the loader said to each. */
void *vw__library_open(const char *variable, const char *const *names, char *reasons,
                       size_t reasons_bytes);

/* Stores the address of every symbol found into `table`. Returns the newest name of the first
 * required one that is missing, or NULL where all are there. */
const char *vw__library_find_symbols(void *library, const vw__library_symbol *symbols,
                                     size_t symbol_count, void *table);

#endif /* VW_DEVICE_LIBRARY_LOAD_H */
