/* pickle_read.h - Python's pickle, data only.
 *
 * A pickle is a program for a small stack machine, and some of its instructions import and call
 * whatever they name. This reader knows the instructions that make plain data (None, booleans,
 * numbers, strings, bytes, lists, tuples, dicts, sets), all protocols 0 to 5, memo and framing
 * included. Every other one is refused with its name and its place, and where it names something
 * (GLOBAL, STACK_GLOBAL) with that name. */
#ifndef VW_PARSE_PICKLE_READ_H
#define VW_PARSE_PICKLE_READ_H

#include "parse/byte_source.h"
#include "parse/document.h"

/* Reads one pickle, up to and including its STOP; what follows is left in the source.
 *
 * VW_ERR_CORRUPT_FILE   not a pickle, cut short, damaged, or it wants to run code; vw_last_error()
 *                       says what was expected, what was found, and at which byte
 * VW_ERR_UNSUPPORTED    a limit of the document
 * others                of the source and of the listener */
VW_MUST_CHECK vw_status vw__unpickle_read(vw__byte_source *source, vw__document *document,
                                          vw__value *root);

#endif /* VW_PARSE_PICKLE_READ_H */
