/* byte_source.c - shows the (unpacked) bytes of a file through a window.
 *
 *   file or memory --> input buffer --> decompressor --> window --> the reader
 *
 * Plain files skip the middle: they are read into the window. Plain memory skips everything: the
 * window is a piece of it. We did not map files: one that is cut short while it is read would end
 * the process with a signal, and reading costs a few percent of what parsing does.
 *
 * The window grows by doubling, and only as far as bytes really come: a length in a damaged file
 * that asks for 200 MB gets the little that is there, not 200 MB of memory. */
#include "parse/byte_source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h> /* PATH_MAX */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h> /* makedev */
#include <unistd.h>

#include "base/checked_math.h" /* vw__min_u64 */
#include "base/error.h"
#include "base/file_access.h"
#include "base/host_memory.h"

#include "parse/decompress.h"

enum {
    WINDOW_BYTES = 1 << 18, /* to begin with */
    INPUT_BYTES = 128 << 10,
    SNIFFED_BYTES = 6, /* the longest magic number, xz's */
    NO_FILE = -1,
};

struct vw__byte_source {
    char *name; /* for messages */
    int file;   /* NO_FILE: memory */
    bool owns_file;
    uint64_t file_size_bytes; /* 0: not known */
    uint64_t file_read_bytes;
    uint64_t next_look_bytes; /* for holes, when so many were read */

    uint8_t *input_buffer; /* of INPUT_BYTES; NULL for memory */
    const uint8_t *input;  /* bytes of the file not used yet */
    size_t input_bytes;
    bool is_input_over; /* nothing comes after `input` */

    vw__byte_source_packing compression;
    vw__decompress_stream *decompressor; /* NULL: plain */

    uint8_t *buffer; /* the window lies here; NULL for plain memory */
    size_t capacity_bytes;
    const uint8_t *window; /* the next byte to be taken */
    size_t window_bytes;
    uint64_t offset; /* of the window in what comes out */
    bool is_over;    /* nothing comes after the window */
    vw_status failure;

    uint64_t limit_bytes;
    vw__byte_source_options options;
};

const char *vw__byte_source_packing_name(vw__byte_source_packing compression)
{
    static const char *const names[] = {"plain", "gzip", "xz", "zstd"};
    return names[compression];
}

/* ---- the file -------------------------------------------------------------------------------- */

static vw_status report_progress(const vw__byte_source *source)
{
    if (source->options.progress != NULL &&
        !source->options.progress(source->options.progress_context, source->file_read_bytes,
                                  source->file_size_bytes))
        return vw__fail(VW_ERR_WRONG_STATE, "%s: reading was stopped at byte %" PRIu64,
                        source->name, source->file_read_bytes);
    return VW_OK;
}

/* Returns whether the file system says that no byte of the file is stored. One that knows nothing
 * of holes says that there is data, or does not know the question. */
static bool is_one_hole(int file)
{
    off_t here = lseek(file, 0, SEEK_CUR);
    if (here < 0)
        return false;
    bool is_hole = lseek(file, 0, SEEK_DATA) < 0 && errno == ENXIO;
    (void)lseek(file, here, SEEK_SET);
    return is_hole;
}

/* Holes take no room on a disk, and as long to read as anything else: terabytes of them are made at
 * once. The file is looked at when it has been read so far: what comes from an archive has its room
 * then. No blocks are those of a hole, or of a file system that does not count any. */
static vw_status check_holes(vw__byte_source *source)
{
    enum { BLOCK_BYTES = 512 }; /* of st_blocks, whatever the file system's are */
    struct stat facts;
    if (source->file_read_bytes <= source->next_look_bytes)
        return VW_OK;
    source->next_look_bytes = 2 * source->file_read_bytes;
    if (fstat(source->file, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_blocks < 0)
        return VW_OK;
    if (facts.st_blocks == 0 && !is_one_hole(source->file))
        return VW_OK;
    uint64_t stored_bytes = (uint64_t)facts.st_blocks * BLOCK_BYTES;
    if (source->file_read_bytes / VW__BYTE_SOURCE_LARGEST_GROWTH <= stored_bytes)
        return VW_OK;
    return vw__fail(VW_ERR_CORRUPT_FILE,
                    "%s: nearly all of it is holes: more than %d times the %" PRIu64
                    " bytes that it has on the disk, which no recording and no log is",
                    source->name, VW__BYTE_SOURCE_LARGEST_GROWTH, stored_bytes);
}

/* Calls read() once. 0 bytes mean the end of the file. */
static vw_status read_file(vw__byte_source *source, uint8_t *bytes, size_t size_bytes,
                           size_t *read_bytes)
{
    ssize_t count;
    do {
        count = read(source->file, bytes, size_bytes);
    } while (count < 0 && errno == EINTR);
    if (count < 0 && source->file_read_bytes == 0)
        return vw__fail(VW_ERR_FILE, "%s: %s", source->name, strerror(errno));
    if (count < 0)
        return vw__fail(VW_ERR_FILE, "%s: %s, after %" PRIu64 " bytes", source->name,
                        strerror(errno), source->file_read_bytes);
    if (count == 0)
        source->is_input_over = true;
    source->file_read_bytes += (uint64_t)count;
    *read_bytes = (size_t)count;
    VW__TRY(check_holes(source));
    return report_progress(source);
}

/* Brings the bytes at hand to `wanted_bytes`, or to the end of the file. */
static vw_status read_input(vw__byte_source *source, size_t wanted_bytes)
{
    if (source->file == NO_FILE)
        return VW_OK;
    if (source->input_bytes != 0)
        memmove(source->input_buffer, source->input, source->input_bytes);
    source->input = source->input_buffer;
    while (source->input_bytes < wanted_bytes && !source->is_input_over) {
        size_t read_bytes = 0;
        VW__TRY(read_file(source, source->input_buffer + source->input_bytes,
                          INPUT_BYTES - source->input_bytes, &read_bytes));
        source->input_bytes += read_bytes;
    }
    return VW_OK;
}

/* ---- what comes out -------------------------------------------------------------------------- */

static vw_status say_where(const vw__byte_source *source, vw_status status)
{
    char words[256];
    uint64_t unused_bytes = source->file == NO_FILE ? 0 : source->input_bytes;
    snprintf(words, sizeof words, "%s", vw_last_error());
    return vw__fail(status, "%s: %s, near byte %" PRIu64 " of the file", source->name, words,
                    source->file_read_bytes - unused_bytes);
}

static vw_status decompress(vw__byte_source *source, uint8_t *bytes, size_t size_bytes,
                            size_t *made_bytes)
{
    while (*made_bytes == 0 && !source->is_over) {
        if (source->input_bytes == 0)
            VW__TRY(read_input(source, 1));
        vw__decompress_span span = {
            .input = source->input,
            .input_bytes = source->input_bytes,
            .is_input_over = source->is_input_over,
            .output = bytes,
            .output_bytes = size_bytes,
        };
        vw_status status =
            source->decompressor->step(source->decompressor, &span, &source->is_over);
        if (source->file == NO_FILE)
            source->file_read_bytes += source->input_bytes - span.input_bytes;
        source->input = span.input;
        source->input_bytes = span.input_bytes;
        *made_bytes = size_bytes - span.output_bytes;
        if (status != VW_OK)
            return say_where(source, status);
        if (source->file == NO_FILE)
            VW__TRY(report_progress(source));
    }
    return VW_OK;
}

/* Adds to the window what can be had cheaply: at least one byte, unless the file is over. */
static vw_status fill(vw__byte_source *source)
{
    uint8_t *end = source->buffer + source->window_bytes;
    size_t room_bytes = source->capacity_bytes - source->window_bytes;
    size_t made_bytes = 0;
    if (source->decompressor != NULL) {
        VW__TRY(decompress(source, end, room_bytes, &made_bytes));
    } else if (source->input_bytes != 0) { /* what was sniffed at */
        made_bytes = (size_t)vw__min_u64(source->input_bytes, room_bytes);
        memcpy(end, source->input, made_bytes);
        source->input += made_bytes;
        source->input_bytes -= made_bytes;
    } else {
        if (!source->is_input_over)
            VW__TRY(read_file(source, end, room_bytes, &made_bytes));
        source->is_over = source->is_input_over;
    }
    source->window_bytes += made_bytes;
    return VW_OK;
}

static vw_status grow_buffer(vw__byte_source *source)
{
    size_t capacity_bytes =
        source->capacity_bytes != 0 ? source->capacity_bytes * 2 : (size_t)WINDOW_BYTES;
    uint8_t *grown = vw__host_realloc(source->buffer, capacity_bytes);
    if (grown == NULL)
        return vw__fail_host_memory(capacity_bytes, "a window into a file");
    source->buffer = grown;
    source->window = grown;
    source->capacity_bytes = capacity_bytes;
    return VW_OK;
}

/* Plain memory: only moves the window. */
static vw_status widen_over_memory(vw__byte_source *source, size_t wanted_bytes)
{
    uint64_t widened_bytes = wanted_bytes > WINDOW_BYTES ? wanted_bytes : WINDOW_BYTES;
    size_t more_bytes =
        (size_t)vw__min_u64(widened_bytes - source->window_bytes, source->input_bytes);
    source->window_bytes += more_bytes;
    source->input_bytes -= more_bytes;
    source->file_read_bytes += more_bytes;
    source->is_over = source->input_bytes == 0;
    return report_progress(source);
}

static vw_status widen(vw__byte_source *source, size_t wanted_bytes)
{
    if (source->buffer == NULL && source->file == NO_FILE && source->decompressor == NULL)
        return widen_over_memory(source, wanted_bytes);
    if (source->buffer == NULL)
        VW__TRY(grow_buffer(source));
    if (source->window != source->buffer && source->window_bytes != 0)
        memmove(source->buffer, source->window, source->window_bytes);
    source->window = source->buffer;
    while (source->window_bytes < wanted_bytes && !source->is_over) {
        if (source->window_bytes == source->capacity_bytes)
            VW__TRY(grow_buffer(source));
        VW__TRY(fill(source));
    }
    return VW_OK;
}

/* Has more come out than may? */
static vw_status check_output(const vw__byte_source *source)
{
    uint64_t made_bytes = source->offset + source->window_bytes;
    if (made_bytes > source->limit_bytes)
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "%s: more than the limit of %" PRIu64
                        " bytes come out of it, after %" PRIu64 " bytes of the file",
                        source->name, source->limit_bytes, source->file_read_bytes);
    if (source->decompressor == NULL || made_bytes <= VW__BYTE_SOURCE_SMALL_BYTES)
        return VW_OK;
    uint64_t file_bytes = vw__max_u64(source->file_size_bytes, source->file_read_bytes);
    if (made_bytes / VW__BYTE_SOURCE_LARGEST_GROWTH <= file_bytes)
        return VW_OK;
    return vw__fail(VW_ERR_CORRUPT_FILE,
                    "%s: unpacked, its %" PRIu64 " bytes become more than %d times as many, which "
                    "no recording and no log does",
                    source->name, file_bytes, VW__BYTE_SOURCE_LARGEST_GROWTH);
}

vw_status vw__byte_source_peek(vw__byte_source *source, size_t wanted_bytes, const uint8_t **bytes,
                               size_t *size_bytes)
{
    if (source->failure != VW_OK)
        return vw__fail(source->failure, "%s: reading failed before", source->name);
    if (wanted_bytes > VW__BYTE_SOURCE_LARGEST_PEEK_BYTES)
        return vw__fail(
            VW_ERR_CORRUPT_FILE, "%s: %zu bytes in one piece at byte %" PRIu64 ", the most is %zu",
            source->name, wanted_bytes, source->offset, VW__BYTE_SOURCE_LARGEST_PEEK_BYTES);
    if (wanted_bytes == 0)
        wanted_bytes = 1;
    if (source->window_bytes < wanted_bytes && !source->is_over) {
        vw_status status = widen(source, wanted_bytes);
        if (status == VW_OK)
            status = check_output(source);
        if (status != VW_OK) {
            source->failure = status;
            return status;
        }
    }
    *bytes = source->window;
    *size_bytes = source->window_bytes;
    return VW_OK;
}

void vw__byte_source_take(vw__byte_source *source, size_t size_bytes)
{
    VW_ASSERT(size_bytes <= source->window_bytes);
    source->window += size_bytes;
    source->window_bytes -= size_bytes;
    source->offset += size_bytes;
}

vw__byte_source_packing vw__byte_source_compression(const vw__byte_source *source)
{
    return source->compression;
}

uint64_t vw__byte_source_offset(const vw__byte_source *source)
{
    return source->offset;
}

uint64_t vw__byte_source_file_bytes(const vw__byte_source *source)
{
    return source->file_read_bytes;
}

/* ---- opening --------------------------------------------------------------------------------- */

static vw__byte_source_packing sniff(const uint8_t *bytes, size_t size_bytes)
{
    static const struct {
        uint8_t magic[SNIFFED_BYTES];
        size_t size_bytes;
        vw__byte_source_packing compression;
    } kinds[] = {
        {{0x1f, 0x8b}, 2, VW__BYTE_SOURCE_GZIP},
        {{0xfd, '7', 'z', 'X', 'Z', 0}, 6, VW__BYTE_SOURCE_XZ},
        {{0x28, 0xb5, 0x2f, 0xfd}, 4, VW__BYTE_SOURCE_ZSTD},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (size_bytes >= kinds[i].size_bytes &&
            memcmp(bytes, kinds[i].magic, kinds[i].size_bytes) == 0)
            return kinds[i].compression;
    }
    return VW__BYTE_SOURCE_PLAIN;
}

static vw_status begin(vw__byte_source *source)
{
    VW__TRY(read_input(source, SNIFFED_BYTES));
    source->compression = sniff(source->input, source->input_bytes);
    switch (source->compression) {
    case VW__BYTE_SOURCE_GZIP:
        return vw__decompress_gzip_create(&source->decompressor);
    case VW__BYTE_SOURCE_XZ:
        return vw__decompress_xz_create(&source->decompressor);
    case VW__BYTE_SOURCE_ZSTD:
        return vw__decompress_zstd_create(&source->decompressor);
    default:
        return VW_OK;
    }
}

static vw_status new_source(const char *name, const vw__byte_source_options *options,
                            vw__byte_source **out)
{
    vw__byte_source *source = vw__host_alloc_zeroed(1, sizeof *source);
    size_t name_bytes = strlen(name) + 1;
    if (source == NULL || (source->name = vw__host_alloc(name_bytes)) == NULL) {
        vw__host_free(source);
        return vw__fail_host_memory(sizeof *source + name_bytes, "reading a file");
    }
    memcpy(source->name, name, name_bytes);
    source->file = NO_FILE;
    source->next_look_bytes = VW__BYTE_SOURCE_SMALL_BYTES;
    if (options != NULL)
        source->options = *options;
    source->limit_bytes = source->options.output_limit_bytes != 0
                              ? source->options.output_limit_bytes
                              : VW__BYTE_SOURCE_DEFAULT_LIMIT_BYTES;
    *out = source;
    return VW_OK;
}

static bool is_null_device(const struct stat *facts)
{
    return S_ISCHR(facts->st_mode) && facts->st_rdev == makedev(1, 3);
}

static vw_status check_kind(const vw__byte_source *source, const struct stat *facts)
{
    if (S_ISDIR(facts->st_mode))
        return vw__fail(VW_ERR_FILE, "%s: expected a file, found a folder", source->name);
    if (S_ISBLK(facts->st_mode) ||
        (S_ISCHR(facts->st_mode) && !is_null_device(facts) && isatty(source->file) == 0))
        return vw__fail(VW_ERR_FILE, "%s: expected a file or a pipe, found a device", source->name);
    return VW_OK;
}

static vw_status check_found(const vw__byte_source *source, const struct stat *name,
                             const struct stat *facts)
{
    if (!S_ISREG(facts->st_mode))
        return vw__fail(VW_ERR_FILE, "%s: expected a plain file", source->name);
    return vw__file_access_may_lead(name, facts)
               ? VW_OK
               : vw__fail(VW_ERR_FILE, "%s: a link of user %lu to a file of user %lu", source->name,
                          (unsigned long)name->st_uid, (unsigned long)facts->st_uid);
}

/* The folder of that name in another, and what its name is there. -1: errno says why. */
static int open_folder(int above, const char *path, size_t path_bytes, struct stat *name)
{
    char text[PATH_MAX];
    if (path_bytes >= sizeof text) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(text, path, path_bytes);
    text[path_bytes] = '\0';
    if (fstatat(above, text, name, AT_SYMLINK_NOFOLLOW) != 0)
        return -1;
    return openat(above, text, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Goes on to a folder that was found in `above`, which is closed. -1: errno says why. */
static int enter(int above, const char *path, size_t path_bytes)
{
    struct stat name, facts;
    int folder = open_folder(above, path, path_bytes, &name), reason = errno;
    if (folder >= 0 && (fstat(folder, &facts) != 0 || !vw__file_access_may_lead(&name, &facts))) {
        reason = ELOOP;
        close(folder);
        folder = -1;
    }
    close(above);
    errno = reason;
    return folder;
}

/* The folder that the last name of `*path` is in; the path becomes that name. -1: errno says why.
 */
static int enter_folders(const char **path, size_t named_bytes)
{
    struct stat name;
    const char *at = *path + named_bytes;
    int folder = open_folder(AT_FDCWD, *path, named_bytes, &name);
    while (folder >= 0) {
        at += strspn(at, "/");
        size_t length = strcspn(at, "/");
        if (at[length] == '\0')
            break;
        folder = enter(folder, at, length);
        at += length;
    }
    *path = at;
    return folder;
}

/* -1: errno says why. */
static int open_found(const vw__byte_source *source, const char *path, struct stat *name)
{
    const size_t named_bytes = source->options.named_bytes;
    int folder = named_bytes != 0 ? enter_folders(&path, named_bytes) : AT_FDCWD;
    if (folder == -1)
        return -1;
    int file = fstatat(folder, path, name, AT_SYMLINK_NOFOLLOW) == 0
                   ? openat(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
                   : -1;
    int reason = errno;
    if (folder != AT_FDCWD)
        close(folder);
    errno = reason;
    return file;
}

static vw_status open_file(vw__byte_source *source, const char *path)
{
    struct stat name = {.st_mode = 0}, facts;
    bool is_found = source->options.is_found;
    bool is_standard_input = !is_found && strcmp(path, "-") == 0;
    source->file = is_standard_input ? STDIN_FILENO
                   : is_found        ? open_found(source, path, &name)
                                     : open(path, O_RDONLY | O_CLOEXEC);
    if (source->file < 0) {
        source->file = NO_FILE;
        return vw__fail(VW_ERR_FILE, "%s: %s", path, strerror(errno));
    }
    source->owns_file = !is_standard_input;
    if (fstat(source->file, &facts) != 0)
        return vw__fail(VW_ERR_FILE, "%s: %s", source->name, strerror(errno));
    VW__TRY(is_found ? check_found(source, &name, &facts) : check_kind(source, &facts));
    if (S_ISREG(facts.st_mode) && facts.st_size > 0)
        source->file_size_bytes = (uint64_t)facts.st_size;
    source->input_buffer = vw__host_alloc(INPUT_BYTES);
    if (source->input_buffer == NULL)
        return vw__fail_host_memory(INPUT_BYTES, "reading a file");
    return begin(source);
}

vw_status vw__byte_source_open(const char *path, const vw__byte_source_options *options,
                               vw__byte_source **out)
{
    vw__byte_source *source;
    VW__TRY(new_source(strcmp(path, "-") == 0 ? "standard input" : path, options, &source));
    vw_status status = open_file(source, path);
    if (status != VW_OK) {
        vw__byte_source_close(source);
        return status;
    }
    *out = source;
    return VW_OK;
}

vw_status vw__byte_source_open_memory(const void *bytes, size_t size_bytes,
                                      const vw__byte_source_options *options, vw__byte_source **out)
{
    vw__byte_source *source;
    VW__TRY(new_source("memory", options, &source));
    source->file_size_bytes = size_bytes;
    source->input = size_bytes != 0 ? bytes : (const void *)"";
    source->input_bytes = size_bytes;
    source->is_input_over = true;
    source->window = source->input;
    vw_status status = begin(source);
    if (status != VW_OK) {
        vw__byte_source_close(source);
        return status;
    }
    *out = source;
    return VW_OK;
}

void vw__byte_source_close(vw__byte_source *source)
{
    if (source == NULL)
        return;
    if (source->decompressor != NULL)
        source->decompressor->destroy(source->decompressor);
    if (source->owns_file)
        close(source->file);
    vw__host_free(source->input_buffer);
    vw__host_free(source->buffer);
    vw__host_free(source->name);
    vw__host_free(source);
}
