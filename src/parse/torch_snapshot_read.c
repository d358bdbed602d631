/* torch_snapshot_read.c - detects the encoding of a snapshot and reads it into a model.
 *
 *   bytes -> pickle_read or json_read -> document -> torch_snapshot_fold (records, on the way)
 *                                                 -> torch_snapshot_root (the rest, at the end)
 *
 * Half of the memory allowed is for the model, half for the document, which is gone at the end. */
#include "parse/torch_snapshot_read.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/human_units.h"
#include "parse/json_read.h"
#include "parse/pickle_read.h"
#include "parse/torch_snapshot_internal.h"

static const char expected[] =
    "expected what torch.cuda.memory._dump_snapshot() writes (a pickle), or the same as JSON";

/* ---- what it looks like ---------------------------------------------------------------------- */

static bool begins_with(const uint8_t *bytes, size_t size_bytes, const char *beginning)
{
    size_t length = strlen(beginning);
    return size_bytes >= length && memcmp(bytes, beginning, length) == 0;
}

/* Are all of these bytes text? */
static bool is_text(const uint8_t *bytes, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++)
        if (bytes[i] < ' ' && !isspace(bytes[i]))
            return false;
    return true;
}

static vw_status refuse(const uint8_t *bytes, size_t size_bytes)
{
    enum { MOST_SHOWN = 24 };
    char shown[5 * MOST_SHOWN + 1] = "";
    size_t length = 0, count = size_bytes < MOST_SHOWN ? size_bytes : MOST_SHOWN;
    if (begins_with(bytes, size_bytes, "PK\003\004"))
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "this is a zip archive, as torch.save() writes one; %s", expected);
    if (begins_with(bytes, size_bytes, "\x89HDF") ||
        begins_with(bytes, size_bytes,
                    "\x7f"
                    "ELF") ||
        begins_with(bytes, size_bytes, "%PDF") || !is_text(bytes, size_bytes)) {
        for (size_t i = 0; i < count && i < 8; i++)
            length += (size_t)snprintf(shown + length, sizeof shown - length, " %02x", bytes[i]);
        return vw__fail(VW_ERR_CORRUPT_FILE, "a binary file that begins with the bytes%s; %s",
                        shown, expected);
    }
    for (size_t i = 0; i < count; i++)
        shown[length++] = (char)(bytes[i] >= ' ' && bytes[i] <= '~' ? bytes[i] : ' ');
    shown[length] = '\0';
    if (bytes[0] == '<')
        return vw__fail(VW_ERR_CORRUPT_FILE, "this is HTML or XML that begins \"%s\"; %s", shown,
                        expected);
    return vw__fail(VW_ERR_CORRUPT_FILE,
                    "this is text that begins \"%s\"; %s. 'vramwise doctor' reads errors and logs",
                    shown, expected);
}

/* Detects the encoding by the first byte that is not white space. A pickle of protocol 2 and later
 * begins with 0x80; an older one of a dict or a list with a mark or an empty container. */
static vw_status tell_encoding(vw__byte_source *source, vw__snapshot_encoding *encoding)
{
    enum { LOOKED_AT = 4096 };
    const uint8_t *bytes;
    size_t size_bytes, at = 0;
    VW__TRY(vw__byte_source_peek(source, LOOKED_AT, &bytes, &size_bytes));
    if (size_bytes == 0)
        return vw__fail(VW_ERR_CORRUPT_FILE, "the file is empty; %s", expected);
    if (bytes[0] == 0x80 || bytes[0] == '(' || bytes[0] == ']' || bytes[0] == '}') {
        *encoding = VW__SNAPSHOT_ENCODING_PICKLE;
        return VW_OK;
    }
    if (begins_with(bytes, size_bytes, "\xEF\xBB\xBF"))
        at = 3;
    while (at < size_bytes && isspace(bytes[at]))
        at++;
    if (at == size_bytes)
        return vw__fail(VW_ERR_CORRUPT_FILE, "the file begins with %zu bytes of white space; %s",
                        size_bytes, expected);
    if (bytes[at] != '{' && bytes[at] != '[')
        return refuse(bytes + at, size_bytes - at);
    *encoding = VW__SNAPSHOT_ENCODING_JSON;
    return VW_OK;
}

/* ---- the way --------------------------------------------------------------------------------- */

/* Adds to the words for a failure what the user can do about it. */
static vw_status explain_limit(vw_status status, size_t limit_bytes)
{
    char limit[VW__HUMAN_SIZE_BYTES];
    return vw__fail(status, "%s. Reading may take %s in all; --max-memory allows more",
                    vw_last_error(), vw__human_size(limit_bytes, limit));
}

static vw_status read_document(vw__byte_source *source, vw__snapshot_encoding encoding,
                               size_t limit_bytes, vw__model_builder *builder)
{
    vw__snapshot_fold fold;
    vw__snapshot_fold_init(&fold, builder);
    const vw__document_listener listener = {
        .context = &fold,
        .names = vw__snapshot_names,
        .name_count = VW__SNAPSHOT_NAME_COUNT,
        .dict = vw__snapshot_fold_dict,
        .list = vw__snapshot_fold_list,
    };
    const vw__document_limits limits = {.memory_bytes = limit_bytes - limit_bytes / 2};
    vw__document *document;
    vw__value root;
    VW__TRY(vw__document_create(&limits, &listener, &document));
    vw_status status = encoding == VW__SNAPSHOT_ENCODING_PICKLE
                           ? vw__unpickle_read(source, document, &root)
                           : vw__document_read_json(source, document, &root);
    if (status == VW_OK)
        status = vw__snapshot_read_root(&fold, document, root);
    bool has_hit_limit = vw__document_has_hit_memory_limit(document) ||
                         vw__model_builder_has_hit_memory_limit(builder);
    vw__snapshot_fold_deinit(&fold);
    vw__document_destroy(document);
    return status != VW_OK && has_hit_limit ? explain_limit(status, limit_bytes) : status;
}

vw_status vw__snapshot_read(vw__byte_source *source, size_t memory_limit_bytes, vw__model **out,
                            vw__snapshot_encoding *encoding)
{
    size_t limit_bytes = memory_limit_bytes != 0 ? memory_limit_bytes : SIZE_MAX;
    vw__snapshot_encoding found;
    vw__model_builder *builder;
    VW__TRY(tell_encoding(source, &found));
    VW__TRY(vw__model_builder_create(limit_bytes / 2, &builder));
    vw_status status = read_document(source, found, limit_bytes, builder);
    if (status == VW_OK) {
        vw__model_builder_features(builder)->has_identity = found == VW__SNAPSHOT_ENCODING_PICKLE;
        status = vw__model_finish(builder, out);
    }
    if (status != VW_OK) {
        vw__model_builder_destroy(builder);
        return status;
    }
    *encoding = found;
    return VW_OK;
}
