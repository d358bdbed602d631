/* sqlite_memory.h - a file of SQLite's that is in memory, to be written wherever the program likes.
 *
 * SQLite opens files by name, and whoever may write to the folder could have put another file of
 * the user's there by then. sqlite3_serialize() gives the bytes of a database in memory, too, but
 * Debian 11's library, with which wheels are linked, does not have it. */
#ifndef VRAMWISE_CLI_SQLITE_MEMORY_H
#define VRAMWISE_CLI_SQLITE_MEMORY_H

#include <sqlite3.h>
#include <stddef.h>

typedef struct sqlite_memory {
    unsigned char *bytes; /* free with sqlite3_free(), after the database is closed */
    size_t size_bytes;
    size_t capacity_bytes;
} sqlite_memory;

/* A new database whose file is `memory`, which is empty and stays there until it is closed. It has
 * no journal: a transaction cannot be taken back. An SQLite result; close `*out` in any case. One
 * at a time. */
int sqlite_memory_open(sqlite_memory *memory, sqlite3 **out);

#endif /* VRAMWISE_CLI_SQLITE_MEMORY_H */
