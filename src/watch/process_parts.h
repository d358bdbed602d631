/* process_parts.h - reading the files of /proc, shared by process_read.c and process_look.c. */
#ifndef VW_WATCH_PROCESS_PARTS_H
#define VW_WATCH_PROCESS_PARTS_H

#include <stdbool.h>
#include <stddef.h>

/* Opens "<folder>/<process>/<name>"; -1: cannot. */
int vw__watch_process_open(const char *folder, long process, const char *name);

/* As many bytes as there are, up to `room`; 0 where it cannot be read. `file` may be -1. */
size_t vw__watch_process_bytes(int file, char *bytes, size_t room);

/* Calls `take` for each piece of the file that ends with `separator`, without it, and for
 * `most_pieces` of them at most; what is longer than `most_bytes` is cut. Returns whether anything
 * was read. Closes the file, which may be -1. */
bool vw__watch_process_pieces(int file, char separator, size_t most_bytes, size_t most_pieces,
                              void (*take)(const char *piece, void *context), void *context);

/* "/usr/bin/python3\0train.py\0" becomes "python3 train.py". Returns its length. */
size_t vw__watch_process_join(char *bytes, size_t length);

#endif /* VW_WATCH_PROCESS_PARTS_H */
