/* output.h - hands over a text that was gathered. */
#ifndef VW_BASE_OUTPUT_H
#define VW_BASE_OUTPUT_H

#include "vramwise/output.h"
#include "vramwise/status.h"
#include "base/byte_buffer.h"

/* Sends all of `buffer`, in one piece; `what` is its name in a sentence, "a report".
 *
 * VW_ERR_INVALID_ARGUMENT  no output
 * VW_ERR_HOST_MEMORY       something is missing from the buffer; nothing was sent
 * VW_ERR_FILE              `write` ended it */
VW_MUST_CHECK vw_status vw__output_send(const vw__byte_buffer *buffer, const vw_output *output,
                                        const char *what);

#endif /* VW_BASE_OUTPUT_H */
