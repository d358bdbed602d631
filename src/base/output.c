/* output.c - see output.h. */
#include "base/output.h"

#include "base/error.h"

vw_status vw__output_send(const vw__byte_buffer *buffer, const vw_output *output, const char *what)
{
    size_t size_bytes = vw__byte_buffer_size(buffer);
    if (output == NULL || output->write == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "%s needs an output to write to, not NULL", what);
    if (vw__byte_buffer_has_failed(buffer))
        return vw__fail_host_memory(size_bytes, what);
    if (!output->write(output->context, vw__byte_buffer_text(buffer), size_bytes))
        return vw__fail(VW_ERR_FILE, "the output took no more of %s of %zu bytes", what,
                        size_bytes);
    return VW_OK;
}
