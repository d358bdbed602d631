/* fleet_part.c - writes and reads parts. */
#include "fleet/fleet_part.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h> /* PATH_MAX */
#include <stdio.h>
#include <stdlib.h> /* mkostemp */
#include <string.h>
#include <sys/file.h> /* flock */
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/reading_limit.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/human_units.h"
#include "base/signal_guard.h"
#include "ranks/rank_files.h" /* vw__ranks_make_room */

const vw__fleet_part_form vw__fleet_part_of_report = {"vramwise part 2\n", "/report.part", "report",
                                                      "--torch"};
const vw__fleet_part_form vw__fleet_part_of_tune = {"vramwise tune 1\n", "/tune.part", "tune",
                                                    "--card or --torch"};

enum {
    MAGIC_BYTES = 16,
    FAMILY_BYTES = 14,            /* of the magic: the same in all versions */
    FRONT_BYTES = 12,             /* of a piece: its size and checksum */
    MOST_PIECE_BYTES = 512 << 20, /* larger ones are not ours */
    MOST_COPIES = 4,              /* of a record, while it is read and taken apart */
    UNCOUNTED_BYTES = 1 << 20     /* every machine has room for so many */
};

typedef enum piece_kind { PIECE_LIST = 1, PIECE_UNIT = 2 } piece_kind;

void vw__fleet_parts_init(vw__fleet_parts *parts, const vw__fleet_part_form *form)
{
    *parts = (vw__fleet_parts){.form = form};
    vw__arena_init(&parts->arena, VW__ARENA_NO_LIMIT);
    vw__string_table_init(&parts->keys, &parts->arena, VW__STRING_TABLE_LARGEST_COUNT, SIZE_MAX);
    vw__byte_buffer_init(&parts->list_units);
}

void vw__fleet_parts_deinit(vw__fleet_parts *parts)
{
    for (size_t i = 0; i < parts->descriptor_count; i++)
        close(parts->descriptors[i]);
    vw__host_free(parts->descriptors);
    vw__host_free(parts->entries);
    vw__byte_buffer_deinit(&parts->list_units);
    vw__arena_deinit(&parts->arena);
    *parts = (vw__fleet_parts){.entries = NULL};
}

/* FNV-1a: finds damage, and equal lists. Collisions can be made on purpose. */
uint64_t vw__fleet_part_hash(uint64_t hash, const void *bytes, size_t size_bytes)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < size_bytes; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* ---- names ----------------------------------------------------------------------------------- */

void vw__fleet_part_put_text(vw__byte_buffer *buffer, const char *text)
{
    vw__append_u32_le(buffer, (uint32_t)strlen(text));
    vw__append_bytes(buffer, text, strlen(text) + 1);
}

const char *vw__fleet_part_take_text(vw__byte_cursor *cursor)
{
    size_t size_bytes = vw__byte_cursor_u32(cursor);
    const char *text = vw__byte_cursor_bytes(cursor, size_bytes + 1);
    if (text != NULL && strnlen(text, size_bytes + 1) != size_bytes)
        cursor->has_failed = true;
    return cursor->has_failed ? "" : text;
}

static void put_name(vw__byte_buffer *buffer, const char *job, const char *path)
{
    vw__fleet_part_put_text(buffer, job);
    vw__fleet_part_put_text(buffer, path);
}

void vw__fleet_parts_put_listed(vw__byte_buffer *buffer, const vw__fleet_part_listed *unit)
{
    vw__fleet_part_put_text(buffer, unit->job);
    vw__fleet_part_put_text(buffer, unit->kind);
    vw__fleet_part_put_text(buffer, unit->path);
}

bool vw__fleet_parts_take_listed(vw__byte_cursor *cursor, vw__fleet_part_listed *unit)
{
    unit->job = vw__fleet_part_take_text(cursor);
    unit->kind = vw__fleet_part_take_text(cursor);
    unit->path = vw__fleet_part_take_text(cursor);
    return !cursor->has_failed;
}

vw_status vw__fleet_parts_find(vw__fleet_parts *parts, const char *job, const char *path,
                               uint32_t *place)
{
    uint32_t before = parts->keys.count;
    vw__byte_buffer key;
    VW__TRY(vw__ranks_make_room((void **)&parts->entries, before, &parts->entry_capacity,
                                sizeof *parts->entries));
    vw__byte_buffer_init(&key);
    put_name(&key, job, path);
    bool is_found = !vw__byte_buffer_has_failed(&key) &&
                    vw__string_table_add(&parts->keys, vw__byte_buffer_text(&key),
                                         vw__byte_buffer_size(&key), place);
    vw__byte_buffer_deinit(&key);
    if (!is_found)
        return vw__fail_host_memory(strlen(job) + strlen(path), "the name of a file");
    if (*place == before)
        parts->entries[before] = (vw__fleet_part_entry){.descriptor = -1};
    return VW_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads as many bytes as there are; fewer than asked for: the end. -1: errno says why. */
static ssize_t read_at(int descriptor, void *bytes, size_t size_bytes, uint64_t offset)
{
    size_t done = 0;
    while (done < size_bytes) {
        ssize_t count =
            pread(descriptor, (char *)bytes + done, size_bytes - done, (off_t)(offset + done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -1;
        if (count == 0)
            break;
        done += (size_t)count;
    }
    return (ssize_t)done;
}

static vw_status fail_to_read(void)
{
    return vw__fail(VW_ERR_FILE, "%s", strerror(errno));
}

/* The last list of a part counts. */
static vw_status take_list(vw__fleet_parts *parts, vw__byte_cursor *at)
{
    vw__fleet_part_list list;
    list.settings = vw__byte_cursor_u64(at); /* in an initializer they would have no order */
    list.names = vw__byte_cursor_u64(at);
    list.beside_count = vw__byte_cursor_u64(at);
    list.closed_count = vw__byte_cursor_u64(at);
    list.unit_count = vw__byte_cursor_u64(at);
    if (at->has_failed)
        return vw__fail(VW_ERR_CORRUPT_FILE, "a list of files is damaged");
    vw__byte_buffer_clear(&parts->list_units);
    vw__append_bytes(&parts->list_units, at->next, vw__byte_cursor_left(at));
    if (vw__byte_buffer_has_failed(&parts->list_units))
        return vw__fail_host_memory(vw__byte_cursor_left(at), "a list of files");
    parts->list = list;
    parts->has_list = true;
    return VW_OK;
}

static vw_status take_unit(vw__fleet_parts *parts, vw__byte_cursor *at, int descriptor,
                           uint64_t end)
{
    uint32_t place;
    const char *job = vw__fleet_part_take_text(at), *path = vw__fleet_part_take_text(at);
    uint64_t fingerprint = vw__byte_cursor_u64(at);
    if (at->has_failed)
        return vw__fail(VW_ERR_CORRUPT_FILE, "the record of a file is damaged");
    size_t size_bytes = vw__byte_cursor_left(at);
    VW__TRY(vw__fleet_parts_find(parts, job, path, &place));
    const vw__fleet_part_entry *known = &parts->entries[place];
    bool is_of_other_part = known->descriptor >= 0 && known->descriptor != descriptor;
    if (is_of_other_part && known->fingerprint != 0 && fingerprint == 0)
        return VW_OK; /* it could not be read there, and could here */
    parts->entries[place] = (vw__fleet_part_entry){.descriptor = descriptor,
                                                   .offset = end - size_bytes,
                                                   .size_bytes = (uint32_t)size_bytes,
                                                   .fingerprint = fingerprint};
    return VW_OK;
}

vw_status vw__fleet_parts_expect_room(uint64_t records_bytes)
{
    char records[VW__HUMAN_SIZE_BYTES], limit[VW__HUMAN_SIZE_BYTES];
    if (records_bytes <= UNCOUNTED_BYTES)
        return VW_OK;
    uint64_t limit_bytes = vw__reading_limit_bytes(0);
    if (records_bytes <= limit_bytes / MOST_COPIES)
        return VW_OK;
    return vw__fail(VW_ERR_UNSUPPORTED,
                    "records of %s in a state take more than %s of memory; "
                    "--max-memory allows more",
                    vw__human_size(records_bytes, records), vw__human_size(limit_bytes, limit));
}

/* One piece. `*size_bytes` 0: there is no whole one at `offset`. */
static vw_status read_piece(int descriptor, uint64_t offset, vw__byte_buffer *piece,
                            size_t *size_bytes)
{
    uint8_t front[FRONT_BYTES];
    *size_bytes = 0;
    ssize_t count = read_at(descriptor, front, sizeof front, offset);
    if (count < 0)
        return fail_to_read();
    vw__byte_cursor cursor = vw__byte_cursor_of(front, (size_t)count);
    uint32_t wanted = vw__byte_cursor_u32(&cursor);
    uint64_t checksum = vw__byte_cursor_u64(&cursor);
    struct stat found;
    if (cursor.has_failed || wanted == 0 || wanted > MOST_PIECE_BYTES ||
        fstat(descriptor, &found) != 0 || offset + FRONT_BYTES + wanted > (uint64_t)found.st_size)
        return VW_OK;
    const vw__fleet_part_entry entry = {
        .descriptor = descriptor, .offset = offset + FRONT_BYTES, .size_bytes = wanted};
    VW__TRY(vw__fleet_parts_expect_room(wanted));
    vw__byte_buffer_clear(piece);
    VW__TRY(vw__fleet_parts_load(&entry, piece));
    if (vw__fleet_part_hash(VW__FLEET_PART_HASH, vw__byte_buffer_text(piece), wanted) == checksum)
        *size_bytes = wanted;
    return VW_OK;
}

static vw_status take_piece(vw__fleet_parts *parts, const vw__byte_buffer *piece, int descriptor,
                            uint64_t end)
{
    vw__byte_cursor cursor =
        vw__byte_cursor_of(vw__byte_buffer_text(piece), vw__byte_buffer_size(piece));
    switch (vw__byte_cursor_u8(&cursor)) {
    case PIECE_LIST:
        return take_list(parts, &cursor);
    case PIECE_UNIT:
        return take_unit(parts, &cursor, descriptor, end);
    default:
        return vw__fail(VW_ERR_CORRUPT_FILE, "expected a list or a record, found something else");
    }
}

/* Everything behind the magic, up to the first piece that is not whole. */
static vw_status read_pieces(vw__fleet_parts *parts, int descriptor)
{
    vw__byte_buffer piece;
    size_t size_bytes;
    vw_status status;
    parts->end = MAGIC_BYTES;
    vw__byte_buffer_init(&piece);
    while ((status = read_piece(descriptor, parts->end, &piece, &size_bytes)) == VW_OK &&
           size_bytes != 0) {
        parts->end += FRONT_BYTES + size_bytes;
        status = take_piece(parts, &piece, descriptor, parts->end);
        if (status != VW_OK)
            break;
    }
    vw__byte_buffer_deinit(&piece);
    return status;
}

vw_status vw__fleet_parts_load(const vw__fleet_part_entry *entry, vw__byte_buffer *record)
{
    void *bytes = vw__host_alloc(entry->size_bytes);
    if (bytes == NULL)
        return vw__fail_host_memory(entry->size_bytes, "a record");
    ssize_t count = read_at(entry->descriptor, bytes, entry->size_bytes, entry->offset);
    if (count == (ssize_t)entry->size_bytes)
        vw__append_bytes(record, bytes, entry->size_bytes);
    vw__host_free(bytes);
    if (count < 0)
        return fail_to_read();
    if (count != (ssize_t)entry->size_bytes)
        return vw__fail(VW_ERR_FILE, "a part became shorter while it was read");
    return vw__byte_buffer_has_failed(record) ? vw__fail_host_memory(entry->size_bytes, "a record")
                                              : VW_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Keeps the descriptor; closes it on failure. */
static vw_status add_descriptor(vw__fleet_parts *parts, int descriptor)
{
    vw_status status = vw__ranks_make_room((void **)&parts->descriptors, parts->descriptor_count,
                                           &parts->descriptor_capacity, sizeof *parts->descriptors);
    if (status == VW_OK)
        parts->descriptors[parts->descriptor_count++] = descriptor;
    else
        close(descriptor);
    return status;
}

vw_status vw__fleet_parts_open_temporary(vw__fleet_parts *parts)
{
    const char *folder = secure_getenv("TMPDIR");
    char name[4096];
    (void)snprintf(name, sizeof name, "%s/vramwise-%s-XXXXXX",
                   folder != NULL && folder[0] != '\0' ? folder : "/tmp", parts->form->command);
    int descriptor = mkostemp(name, O_CLOEXEC);
    if (descriptor < 0)
        return vw__fail(VW_ERR_FILE, "%s: %s", name, strerror(errno));
    (void)unlink(name);
    parts->end = MAGIC_BYTES; /* nobody reads the magic */
    return add_descriptor(parts, descriptor);
}

/* Does the file begin as a part does? `*is_other`: as one of another version. */
static vw_status read_magic(const vw__fleet_part_form *form, int descriptor, bool *is_empty,
                            bool *is_other)
{
    char magic[MAGIC_BYTES];
    ssize_t count = read_at(descriptor, magic, sizeof magic, 0);
    if (count < 0)
        return fail_to_read();
    *is_empty = count == 0;
    *is_other = false;
    if (count == MAGIC_BYTES && memcmp(magic, form->magic, MAGIC_BYTES) == 0)
        return VW_OK;
    *is_other = count == MAGIC_BYTES && memcmp(magic, form->magic, FAMILY_BYTES) == 0;
    if (!*is_empty && !*is_other)
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "expected what `vramwise %s --state` keeps, found another file",
                        form->command);
    return VW_OK;
}

static vw_status begin_anew(const vw__fleet_part_form *form, int descriptor)
{
    if (ftruncate(descriptor, 0) != 0 ||
        vw__signal_guard_write_at(descriptor, form->magic, MAGIC_BYTES, 0) != MAGIC_BYTES)
        return vw__fail(VW_ERR_FILE, "%s", strerror(errno));
    return VW_OK;
}

static vw_status open_for_writing(vw__fleet_parts *parts, int descriptor)
{
    bool is_empty, is_other;
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return vw__fail(VW_ERR_WRONG_STATE, "another process is using it");
    VW__TRY(read_magic(parts->form, descriptor, &is_empty, &is_other));
    if (is_empty || is_other)
        VW__TRY(begin_anew(parts->form, descriptor));
    VW__TRY(read_pieces(parts, descriptor));
    if (ftruncate(descriptor, (off_t)parts->end) != 0)
        return vw__fail(VW_ERR_FILE, "%s", strerror(errno));
    return VW_OK;
}

/* The part in a state's folder; the caller frees it with vw__host_free(). */
static char *part_path(const vw__fleet_part_form *form, const char *folder)
{
    size_t size_bytes = strlen(folder) + strlen(form->name) + 1;
    char *path = vw__host_alloc(size_bytes);
    if (path != NULL)
        (void)snprintf(path, size_bytes, "%s%s", folder, form->name);
    return path;
}

/* Never blocks: a pipe is refused. */
static vw_status open_part(vw__fleet_parts *parts, const char *path, int flags)
{
    struct stat found;
    int descriptor = open(path, flags | O_CLOEXEC | O_NONBLOCK, 0666);
    if (descriptor < 0)
        return vw__fail(VW_ERR_FILE, "%s", strerror(errno));
    if (fstat(descriptor, &found) != 0 || !S_ISREG(found.st_mode)) {
        close(descriptor);
        return vw__fail(VW_ERR_FILE, "expected a plain file");
    }
    return add_descriptor(parts, descriptor);
}

vw_status vw__fleet_parts_open_state(vw__fleet_parts *parts, const char *folder)
{
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return vw__fail(VW_ERR_FILE, "%s: %s", folder, strerror(errno));
    char *path = part_path(parts->form, folder);
    if (path == NULL)
        return vw__fail_host_memory(strlen(folder), "the name of a folder");
    vw_status status = open_part(parts, path, O_RDWR | O_CREAT | O_NOFOLLOW);
    if (status == VW_OK)
        status = open_for_writing(parts, parts->descriptors[parts->descriptor_count - 1]);
    if (status != VW_OK && status != VW_ERR_HOST_MEMORY)
        status = vw__fail(status, "%s: %s", path, vw_last_error());
    vw__host_free(path);
    return status;
}

static vw_status read_part(vw__fleet_parts *parts, const char *path)
{
    bool is_empty, is_other;
    VW__TRY(open_part(parts, path, O_RDONLY));
    int descriptor = parts->descriptors[parts->descriptor_count - 1];
    VW__TRY(read_magic(parts->form, descriptor, &is_empty, &is_other));
    if (is_other)
        return vw__fail(VW_ERR_CORRUPT_FILE, "another version of vramwise wrote it");
    return is_empty ? VW_OK : read_pieces(parts, descriptor);
}

vw_status vw__fleet_parts_read(vw__fleet_parts *parts, const char *path)
{
    struct stat found;
    bool is_folder = stat(path, &found) == 0 && S_ISDIR(found.st_mode);
    char *inner = is_folder ? part_path(parts->form, path) : NULL;
    if (is_folder && inner == NULL)
        return vw__fail_host_memory(strlen(path), "the name of a folder");
    parts->has_list = false;
    vw_status status = read_part(parts, is_folder ? inner : path);
    if (status != VW_OK && status != VW_ERR_HOST_MEMORY)
        status = vw__fail(status, "%s: %s", is_folder ? inner : path, vw_last_error());
    vw__host_free(inner);
    return status;
}

/* A part that was only just made is empty. */
static bool is_part(const vw__fleet_part_form *form, int descriptor)
{
    char magic[MAGIC_BYTES];
    ssize_t count = read_at(descriptor, magic, sizeof magic, 0);
    return count == 0 || (count == MAGIC_BYTES && memcmp(magic, form->magic, FAMILY_BYTES) == 0);
}

bool vw__fleet_part_is_in(const char *folder)
{
    const vw__fleet_part_form *const forms[] = {&vw__fleet_part_of_report, &vw__fleet_part_of_tune};
    bool is_in = false;
    for (size_t i = 0; i < sizeof forms / sizeof *forms && !is_in; i++) {
        char path[PATH_MAX];
        (void)snprintf(path, sizeof path, "%s%s", folder, forms[i]->name);
        int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
        is_in = descriptor >= 0 && is_part(forms[i], descriptor);
        if (descriptor >= 0)
            close(descriptor);
    }
    return is_in;
}

/* ---- writing --------------------------------------------------------------------------------- */

static vw_status write_piece(vw__fleet_parts *parts, vw__byte_buffer *piece)
{
    int descriptor = parts->descriptors[parts->descriptor_count - 1];
    size_t size_bytes = vw__byte_buffer_size(piece);
    if (vw__byte_buffer_has_failed(piece))
        return vw__fail_host_memory(size_bytes, "a record");
    vw__byte_buffer front;
    vw__byte_buffer_init(&front);
    size_t body_bytes = size_bytes - FRONT_BYTES;
    vw__append_u32_le(&front, (uint32_t)body_bytes);
    vw__append_u64_le(
        &front, vw__fleet_part_hash(VW__FLEET_PART_HASH, piece->bytes + FRONT_BYTES, body_bytes));
    bool has_failed = vw__byte_buffer_has_failed(&front);
    if (!has_failed)
        memcpy(piece->bytes, front.bytes, FRONT_BYTES);
    vw__byte_buffer_deinit(&front);
    if (has_failed)
        return vw__fail_host_memory(FRONT_BYTES, "a record");
    for (size_t done = 0; done < size_bytes;) {
        ssize_t count = vw__signal_guard_write_at(descriptor, piece->bytes + done,
                                                  size_bytes - done, parts->end + done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return vw__fail(VW_ERR_FILE, "the records cannot be kept: %s", strerror(errno));
        done += (size_t)count;
    }
    parts->end += size_bytes;
    return VW_OK;
}

/* A piece with room for its front. */
static void begin_piece(vw__byte_buffer *piece, piece_kind kind)
{
    static const char front[FRONT_BYTES] = {0};
    vw__byte_buffer_init(piece);
    vw__append_bytes(piece, front, sizeof front);
    vw__append_u8(piece, (uint8_t)kind);
}

vw_status vw__fleet_parts_write_list(vw__fleet_parts *parts, const vw__fleet_part_list *list,
                                     const vw__byte_buffer *units)
{
    const uint64_t numbers[] = {list->settings, list->names, list->beside_count, list->closed_count,
                                list->unit_count};
    vw__byte_buffer piece;
    begin_piece(&piece, PIECE_LIST);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        vw__append_u64_le(&piece, numbers[i]);
    vw__append_bytes(&piece, vw__byte_buffer_text(units), vw__byte_buffer_size(units));
    vw_status status = write_piece(parts, &piece);
    vw__byte_buffer_deinit(&piece);
    return status;
}

vw_status vw__fleet_parts_write_unit(vw__fleet_parts *parts, const char *job, const char *path,
                                     uint64_t fingerprint, const vw__byte_buffer *record)
{
    uint32_t place;
    vw__byte_buffer piece;
    size_t size_bytes = vw__byte_buffer_size(record);
    begin_piece(&piece, PIECE_UNIT);
    put_name(&piece, job, path);
    vw__append_u64_le(&piece, fingerprint);
    vw__append_bytes(&piece, vw__byte_buffer_text(record), size_bytes);
    vw_status status = vw__fleet_parts_find(parts, job, path, &place);
    if (status == VW_OK)
        status = write_piece(parts, &piece);
    vw__byte_buffer_deinit(&piece);
    VW__TRY(status);
    parts->entries[place] =
        (vw__fleet_part_entry){.descriptor = parts->descriptors[parts->descriptor_count - 1],
                               .offset = parts->end - size_bytes,
                               .size_bytes = (uint32_t)size_bytes,
                               .fingerprint = fingerprint};
    return VW_OK;
}
