/* sqlite_memory.c - see sqlite_memory.h. */
#include <stdint.h>
#include <string.h>

#ifdef VW_HAS_SQLITE
#include "sqlite_memory.h"

#define NAME "vramwise-memory"

enum { FIRST_CAPACITY = 1 << 16 };

typedef struct memory_file {
    sqlite3_file base; /* first: what SQLite has */
    sqlite_memory *memory;
} memory_file;

static sqlite_memory *memory_of(sqlite3_file *file)
{
    return ((memory_file *)(void *)file)->memory;
}

/* ---- the file -------------------------------------------------------------------------------- */

static int read_bytes(sqlite3_file *file, void *into, int count, sqlite3_int64 offset)
{
    const sqlite_memory *memory = memory_of(file);
    size_t wanted = (size_t)count, from = (size_t)offset, there = 0;
    if (from < memory->size_bytes)
        there = memory->size_bytes - from < wanted ? memory->size_bytes - from : wanted;
    if (there != 0)
        memcpy(into, memory->bytes + from, there);
    memset((char *)into + there, 0, wanted - there);
    return there == wanted ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

static int make_room(sqlite_memory *memory, size_t size_bytes)
{
    size_t capacity = memory->capacity_bytes != 0 ? memory->capacity_bytes : FIRST_CAPACITY;
    while (capacity < size_bytes)
        capacity *= 2;
    if (capacity == memory->capacity_bytes)
        return SQLITE_OK;
    unsigned char *grown = sqlite3_realloc64(memory->bytes, capacity);
    if (grown == NULL)
        return SQLITE_IOERR_NOMEM;
    memory->bytes = grown;
    memory->capacity_bytes = capacity;
    return SQLITE_OK;
}

static int write_bytes(sqlite3_file *file, const void *from, int count, sqlite3_int64 offset)
{
    sqlite_memory *memory = memory_of(file);
    size_t at = (size_t)offset, end = at + (size_t)count;
    int result = make_room(memory, end);
    if (result != SQLITE_OK)
        return result;
    if (at > memory->size_bytes)
        memset(memory->bytes + memory->size_bytes, 0, at - memory->size_bytes);
    memcpy(memory->bytes + at, from, (size_t)count);
    if (end > memory->size_bytes)
        memory->size_bytes = end;
    return SQLITE_OK;
}

static int shorten(sqlite3_file *file, sqlite3_int64 size_bytes)
{
    sqlite_memory *memory = memory_of(file);
    if ((size_t)size_bytes < memory->size_bytes)
        memory->size_bytes = (size_t)size_bytes;
    return SQLITE_OK;
}

static int tell_size(sqlite3_file *file, sqlite3_int64 *size_bytes)
{
    *size_bytes = (sqlite3_int64)memory_of(file)->size_bytes;
    return SQLITE_OK;
}

/* Nobody else has the file, and there is nothing behind it. */
static int do_nothing(sqlite3_file *file)
{
    (void)file;
    return SQLITE_OK;
}

static int do_nothing_with(sqlite3_file *file, int what)
{
    (void)file, (void)what;
    return SQLITE_OK;
}

static int is_locked(sqlite3_file *file, int *out)
{
    (void)file;
    *out = 0;
    return SQLITE_OK;
}

static int know_no_request(sqlite3_file *file, int request, void *argument)
{
    (void)file, (void)request, (void)argument;
    return SQLITE_NOTFOUND;
}

static int know_nothing(sqlite3_file *file)
{
    (void)file;
    return 0;
}

static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = do_nothing,
    .xRead = read_bytes,
    .xWrite = write_bytes,
    .xTruncate = shorten,
    .xSync = do_nothing_with,
    .xFileSize = tell_size,
    .xLock = do_nothing_with,
    .xUnlock = do_nothing_with,
    .xCheckReservedLock = is_locked,
    .xFileControl = know_no_request,
    .xSectorSize = know_nothing,
    .xDeviceCharacteristics = know_nothing,
};

/* ---- its file system ------------------------------------------------------------------------- */

static int open_file(sqlite3_vfs *system, const char *name, sqlite3_file *file, int flags, int *got)
{
    memory_file *opened = (memory_file *)(void *)file;
    (void)name;
    *opened = (memory_file){.memory = system->pAppData};
    if ((flags & SQLITE_OPEN_MAIN_DB) == 0)
        return SQLITE_CANTOPEN;
    opened->base.pMethods = &methods;
    if (got != NULL)
        *got = flags;
    return SQLITE_OK;
}

static int delete_file(sqlite3_vfs *system, const char *name, int is_synced)
{
    (void)system, (void)name, (void)is_synced;
    return SQLITE_OK;
}

static int has_file(sqlite3_vfs *system, const char *name, int flags, int *out)
{
    (void)system, (void)name, (void)flags;
    *out = 0;
    return SQLITE_OK;
}

static int full_name(sqlite3_vfs *system, const char *name, int size_bytes, char *out)
{
    (void)system;
    sqlite3_snprintf(size_bytes, out, "%s", name);
    return SQLITE_OK;
}

int sqlite_memory_open(sqlite_memory *memory, sqlite3 **out)
{
    static sqlite3_vfs system; /* SQLite keeps it */
    *out = NULL;
    int result = sqlite3_initialize();
    const sqlite3_vfs *usual = result == SQLITE_OK ? sqlite3_vfs_find(NULL) : NULL;
    if (usual == NULL)
        return result != SQLITE_OK ? result : SQLITE_ERROR;
    if (system.zName == NULL) {
        system = *usual; /* time and chance */
        system.iVersion = 1;
        system.szOsFile = sizeof(memory_file);
        system.pNext = NULL;
        system.zName = NAME;
        system.xOpen = open_file;
        system.xDelete = delete_file;
        system.xAccess = has_file;
        system.xFullPathname = full_name;
        result = sqlite3_vfs_register(&system, 0);
    }
    system.pAppData = memory;
    if (result == SQLITE_OK)
        result = sqlite3_open_v2("table", out, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NAME);
    if (result == SQLITE_OK)
        result = sqlite3_exec(*out, "PRAGMA journal_mode = OFF; PRAGMA temp_store = MEMORY;", NULL,
                              NULL, NULL);
    return result;
}

#endif
