/* json_read.h - JSON text as a document, for snapshots that were kept in that form.
 *
 * The text goes straight into the document as it is read: no tree in between, so that a listener
 * folds it on the way as it folds a pickle. Every list stands alone: identity is lost in JSON.
 *
 * We took no library for it: jansson ends the process by an assertion when memory is refused in the
 * middle of a number (2.14, lex_unget_unsave), and nothing of ours may do that with a file that a
 * stranger made. */
#ifndef VW_PARSE_JSON_READ_H
#define VW_PARSE_JSON_READ_H

#include "parse/byte_source.h"
#include "parse/document.h"

#define VW__DOCUMENT_JSON_DEEPEST 500 /* containers in containers */
#define VW__DOCUMENT_JSON_STRING_BYTES (16 << 20)

/* Reads one JSON value (RFC 8259) and the white space around it, to the end of the source. A byte
 * order mark at its beginning is skipped. Bytes above 127 are passed on as they are; \u escapes
 * become UTF-8, halves of pairs U+FFFD. Integers from 2^64 on are VW__VALUE_HUGE.
 *
 * VW_ERR_CORRUPT_FILE   not JSON: what was expected, what was found, line and column
 * VW_ERR_UNSUPPORTED    a limit above, or one of the document's
 * others                of the source and of the listener */
VW_MUST_CHECK vw_status vw__document_read_json(vw__byte_source *source, vw__document *document,
                                               vw__value *root);

#endif /* VW_PARSE_JSON_READ_H */
