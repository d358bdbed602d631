/* output.c - see output.h. */
#include "base/output.h"

#include "base/error.h"

hr_status hr__output_send(const hr__byte_buffer *buffer, const hr_output *output, const char *what)
{
    size_t size_bytes = hr__byte_buffer_size(buffer);
    if (output == NULL || output->write == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "%s needs an output to write to, not NULL", what);
    if (hr__byte_buffer_has_failed(buffer))
        return hr__fail_host_memory(size_bytes, what);
    if (!output->write(output->context, hr__byte_buffer_text(buffer), size_bytes))
        return hr__fail(HR_ERR_FILE, "the output took no more of %s of %zu bytes", what,
                        size_bytes);
    return HR_OK;
}
