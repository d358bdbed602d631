/* output.h - hands over a text that was gathered. */
#ifndef HR_BASE_OUTPUT_H
#define HR_BASE_OUTPUT_H

#include "headroom/output.h"
#include "headroom/status.h"
#include "base/byte_buffer.h"

/* Sends all of `buffer`, in one piece; `what` is its name in a sentence, "a report".
 *
 * HR_ERR_INVALID_ARGUMENT  no output
 * HR_ERR_HOST_MEMORY       something is missing from the buffer; nothing was sent
 * HR_ERR_FILE              `write` ended it */
HR_MUST_CHECK hr_status hr__output_send(const hr__byte_buffer *buffer, const hr_output *output,
                                        const char *what);

#endif /* HR_BASE_OUTPUT_H */
