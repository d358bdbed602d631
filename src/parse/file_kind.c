/* file_kind.c - detects what a file is by its first bytes.
 *
 * A pickle is a recording, and so is JSON with the fields of a snapshot near its beginning.
 * Archives, images and checkpoints are refused with a message that says what they are. Everything
 * else is text. */
#include "parse/file_kind.h"

#include <string.h>

#include "base/error.h"

static bool contains(const uint8_t *bytes, size_t size_bytes, const char *word)
{
    return memmem(bytes, size_bytes, word, strlen(word)) != NULL;
}

static bool is_pickle(const uint8_t *bytes, size_t size_bytes)
{
    enum { PROTOCOL_OPCODE = 0x80, NEWEST_PROTOCOL = 5 };
    return size_bytes >= 2 && bytes[0] == PROTOCOL_OPCODE && bytes[1] <= NEWEST_PROTOCOL;
}

/* Protocols 0 and 1 have no header: a dict or a list begins with one of these. */
static bool is_old_pickle(const uint8_t *bytes, size_t size_bytes)
{
    static const char *const beginnings[] = {"(dp", "(lp", "}q", "]q"};
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
        size_t length = strlen(beginnings[i]);
        if (size_bytes > length && memcmp(bytes, beginnings[i], length) == 0 &&
            (bytes[0] != '(' || (bytes[length] >= '0' && bytes[length] <= '9')))
            return true;
    }
    return false;
}

static bool is_snapshot_json(const uint8_t *bytes, size_t size_bytes)
{
    size_t first = 0;
    while (first < size_bytes && strchr(" \t\r\n", bytes[first]) != NULL && bytes[first] != '\0')
        first++;
    if (first == size_bytes || (bytes[first] != '{' && bytes[first] != '['))
        return false;
    bool has_segment =
        contains(bytes, size_bytes, "\"total_size\"") && contains(bytes, size_bytes, "\"blocks\"");
    bool has_event =
        contains(bytes, size_bytes, "\"action\"") && contains(bytes, size_bytes, "\"addr\"");
    return contains(bytes, size_bytes, "\"device_traces\"") || has_segment || has_event ||
           contains(bytes, size_bytes, "\"segments\"");
}

typedef struct unreadable_format {
    size_t offset_bytes;
    const char *mark;
    size_t mark_bytes;
    const char *what;
} unreadable_format;

#define MARK(text) text, sizeof(text) - 1

/* Formats that no reader here can open. */
static const unreadable_format unreadable_formats[] = {
    {0, MARK("PK\x03\x04"), "a zip file: unpack it first"},
    {0, MARK("PK\x05\x06"), "a zip file, and empty"},
    {4, MARK("1AY&SY"), "compressed with bzip2: unpack it first (bunzip2)"},
    {0, MARK("7z\xBC\xAF\x27\x1C"), "a 7z archive: unpack it first"},
    {0, MARK("Rar!\x1A\x07"), "a rar archive: unpack it first"},
    {0, MARK("\x04\x22\x4D\x18"), "compressed with lz4: unpack it first (unlz4)"},
    {0, MARK("\x1F\x9D"), "compressed with compress: unpack it first (uncompress)"},
    {0, MARK("\x1F\x8B\x08"), "compressed twice (gzip inside): unpack it once first"},
    {0,
     MARK("\xFD"
          "7zXZ"),
     "compressed twice (xz inside): unpack it once first"},
    {0, MARK("\x28\xB5\x2F\xFD"), "compressed twice (zstd inside): unpack it once first"},
    {0, MARK("\x89PNG\r\n"), "an image: copy the text of the error instead"},
    {0, MARK("\xFF\xD8\xFF"), "an image: copy the text of the error instead"},
    {0, MARK("%PDF-"), "a PDF: copy the text of the error instead"},
};

/* torch.save() writes a zip file. */
static bool is_checkpoint(const uint8_t *bytes, size_t size_bytes)
{
    return size_bytes > 4 && memcmp(bytes, "PK\x03\x04", 4) == 0 &&
           contains(bytes, size_bytes, "/data.pkl");
}

static vw_status refuse_unreadable(const uint8_t *bytes, size_t size_bytes)
{
    if (is_checkpoint(bytes, size_bytes))
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "this is a checkpoint (torch.save, a zip file): it holds tensors, and "
                        "neither an error nor a record of the memory; expected an error message, "
                        "a log, or a memory snapshot (_dump_snapshot)");
    for (size_t i = 0; i < sizeof unreadable_formats / sizeof *unreadable_formats; i++) {
        const unreadable_format *format = &unreadable_formats[i];
        if (size_bytes >= format->offset_bytes + format->mark_bytes &&
            memcmp(bytes + format->offset_bytes, format->mark, format->mark_bytes) == 0)
            return vw__fail(VW_ERR_CORRUPT_FILE, "this is %s", format->what);
    }
    return VW_OK;
}

vw_status vw__file_kind_detect(const uint8_t *bytes, size_t size_bytes, bool *is_recording)
{
    VW__TRY(refuse_unreadable(bytes, size_bytes));
    *is_recording = is_pickle(bytes, size_bytes) || is_old_pickle(bytes, size_bytes) ||
                    is_snapshot_json(bytes, size_bytes);
    return VW_OK;
}
