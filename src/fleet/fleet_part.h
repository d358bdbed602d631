/* fleet_part.h - records of units, in a file that grows.
 *
 * A part is what one process, or several after each other, found out: the list of units that there
 * are, and the records of those that were examined. Each piece is appended by one write, with its
 * size and a checksum in front: a process that is killed leaves at most a piece that is not whole,
 * which the next one cuts off. Later pieces replace earlier ones of the same unit, except that a
 * record without a fingerprint does not replace one of another part that has one.
 *
 *   magic    of its form, 16 bytes: "vramwise part 2\n"; then pieces
 *   piece    u32 size, u64 checksum, then so many bytes: u8 kind ...
 *   list     u64 hash of the settings, u64 of the names, u64 files beside, u64 folders closed, u64
 *            units; of each the job, its kind and the path, as texts
 *   unit     job and path, u64 fingerprint, the record: the form says of what
 *
 * No locks: one thread at a time. One process at a time writes to a part. */
#ifndef VW_FLEET_FLEET_PART_H
#define VW_FLEET_FLEET_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "base/arena.h"
#include "base/byte_buffer.h"
#include "base/byte_cursor.h"
#include "base/string_table.h"

/* Whose records a part has. */
typedef struct vw__fleet_part_form {
    const char *magic;   /* its last two characters are the version and a line feed */
    const char *name;    /* of the file in a state's folder, behind a slash */
    const char *command; /* that keeps it with --state */
    const char *options; /* of the command, on which the records depend */
} vw__fleet_part_form;

extern const vw__fleet_part_form vw__fleet_part_of_report, vw__fleet_part_of_tune;

/* Where the record of a unit is. */
typedef struct vw__fleet_part_entry {
    int descriptor;
    uint64_t offset; /* of the record */
    uint32_t size_bytes;
    uint64_t fingerprint; /* of the file that was examined; 0: it is to be examined again */
    bool is_listed;       /* vw__fleet_listing_make() has met it */
} vw__fleet_part_entry;

typedef struct vw__fleet_part_list {
    uint64_t settings; /* hash of what the records depend on besides the files */
    uint64_t names;    /* hash of the rest */
    uint64_t beside_count, closed_count;
    uint64_t unit_count;
} vw__fleet_part_list;

/* The records of one part or several. */
typedef struct vw__fleet_parts {
    const vw__fleet_part_form *form;
    vw__arena arena;
    vw__string_table keys;         /* job, zero, path; the id is the place in `entries` */
    vw__fleet_part_entry *entries; /* owned; descriptor -1: listed, and without a record */
    size_t entry_capacity;
    int *descriptors; /* owned, and open */
    size_t descriptor_count, descriptor_capacity;
    vw__fleet_part_list list; /* of the last list that was read */
    bool has_list;
    vw__byte_buffer list_units; /* its units, as written */
    uint64_t end;               /* of what is whole, in the part read last */
} vw__fleet_parts;

void vw__fleet_parts_init(vw__fleet_parts *parts, const vw__fleet_part_form *form);
void vw__fleet_parts_deinit(vw__fleet_parts *parts);

/* Adds a temporary file, which nobody else sees. */
VW_MUST_CHECK vw_status vw__fleet_parts_open_temporary(vw__fleet_parts *parts);

/* Opens the part of a state's folder for reading and writing, makes both where they are not there,
 * and cuts off what is not whole. A part of another version is begun anew.
 *
 * VW_ERR_FILE, VW_ERR_HOST_MEMORY
 * VW_ERR_WRONG_STATE   another process has it open
 * VW_ERR_CORRUPT_FILE  it is not a part */
VW_MUST_CHECK vw_status vw__fleet_parts_open_state(vw__fleet_parts *parts, const char *folder);

/* Reads a part, or that of a state's folder, beside those that are there. has_list says whether it
 * has a list. Fails as above; VW_ERR_CORRUPT_FILE also for another version or form. */
VW_MUST_CHECK vw_status vw__fleet_parts_read(vw__fleet_parts *parts, const char *path);

/* True if a folder is a state: it holds a part of any form and version. */
bool vw__fleet_part_is_in(const char *folder);

/* Finds the entry of a unit, or adds one without a record. `*place` stays valid.
 * VW_ERR_HOST_MEMORY.
 */
VW_MUST_CHECK vw_status vw__fleet_parts_find(vw__fleet_parts *parts, const char *job,
                                             const char *path, uint32_t *place);

/* Appends to the part opened last. VW_ERR_FILE: it cannot be written. VW_ERR_HOST_MEMORY. `units`
 * are vw__fleet_parts_put_listed() for each. */
VW_MUST_CHECK vw_status vw__fleet_parts_write_list(vw__fleet_parts *parts,
                                                   const vw__fleet_part_list *list,
                                                   const vw__byte_buffer *units);
VW_MUST_CHECK vw_status vw__fleet_parts_write_unit(vw__fleet_parts *parts, const char *job,
                                                   const char *path, uint64_t fingerprint,
                                                   const vw__byte_buffer *record);

/* VW_ERR_UNSUPPORTED: records of so many bytes take more memory than reading may. */
VW_MUST_CHECK vw_status vw__fleet_parts_expect_room(uint64_t records_bytes);

/* Appends the record of an entry to `record`. VW_ERR_FILE, VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__fleet_parts_load(const vw__fleet_part_entry *entry,
                                             vw__byte_buffer *record);

/* A text; taken back, it is a part of what is read, and "" after a failure. */
void vw__fleet_part_put_text(vw__byte_buffer *buffer, const char *text);
const char *vw__fleet_part_take_text(vw__byte_cursor *cursor);

/* A unit as lists have it. Taken back, its texts are a part of what is read. */
typedef struct vw__fleet_part_listed {
    const char *job, *kind, *path; /* "" for no kind, and for the path of the texts */
} vw__fleet_part_listed;
void vw__fleet_parts_put_listed(vw__byte_buffer *buffer, const vw__fleet_part_listed *unit);
VW_MUST_CHECK bool vw__fleet_parts_take_listed(vw__byte_cursor *cursor,
                                               vw__fleet_part_listed *unit);
enum { VW__FLEET_PART_LISTED_BYTES = 15 }; /* that each takes at least */

/* Goes on with a hash: begin with VW__FLEET_PART_HASH. */
#define VW__FLEET_PART_HASH UINT64_C(0xcbf29ce484222325)
uint64_t vw__fleet_part_hash(uint64_t hash, const void *bytes, size_t size_bytes);

#endif /* VW_FLEET_FLEET_PART_H */
