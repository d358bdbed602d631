/* view_page.c - the page is put in here by the assembler: no generated source, no Node.
 *
 * CMake says where the page is (VW_VIEW_PAGE_PATH), and compiles this file again when it changes.
 */
#include "view/view_page.h"

#include <stdint.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"

__asm__(".section .rodata,\"a\"\n"
        ".global vw__view_page_begin\n"
        ".hidden vw__view_page_begin\n"
        ".global vw__view_page_end\n"
        ".hidden vw__view_page_end\n"
        "vw__view_page_begin:\n"
        ".incbin \"" VW_VIEW_PAGE_PATH "\"\n"
        "vw__view_page_end:\n"
        ".byte 0\n"
        ".previous\n");

extern const char vw__view_page_begin[] __attribute__((visibility("hidden")));
extern const char vw__view_page_end[] __attribute__((visibility("hidden")));

const char *vw__view_page(size_t *size_bytes)
{
    *size_bytes = (size_t)((uintptr_t)vw__view_page_end - (uintptr_t)vw__view_page_begin);
    return vw__view_page_begin;
}

static vw_status write(const vw_output *output, const char *bytes, size_t size_bytes)
{
    return size_bytes == 0 || output->write(output->context, bytes, size_bytes)
               ? VW_OK
               : vw__fail(VW_ERR_FILE, "the output ended the page");
}

enum { GROUP_BYTES = 3, GROUP_LETTERS = 4, GROUPS_AT_ONCE = 4096 };

/* `size_bytes` of one group, of which there are three but at the end; the rest is '='. */
static void encode_group(const uint8_t *bytes, size_t size_bytes, char *letters)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = (uint32_t)bytes[0] << 16;
    if (size_bytes > 1)
        bits |= (uint32_t)bytes[1] << 8;
    if (size_bytes > 2)
        bits |= bytes[2];
    memset(letters, '=', GROUP_LETTERS);
    for (size_t i = 0; i <= size_bytes; i++)
        letters[i] = alphabet[bits >> (18 - 6 * i) & 63];
}

static vw_status write_base64(const vw_output *output, const uint8_t *bytes, size_t size_bytes)
{
    char letters[GROUPS_AT_ONCE * GROUP_LETTERS];
    size_t filled = 0;
    for (size_t at = 0; at < size_bytes; at += GROUP_BYTES) {
        encode_group(bytes + at, (size_t)vw__min_u64(size_bytes - at, GROUP_BYTES),
                     letters + filled);
        filled += GROUP_LETTERS;
        if (filled == sizeof letters) {
            VW__TRY(write(output, letters, filled));
            filled = 0;
        }
    }
    return write(output, letters, filled);
}

vw_status vw__view_page_write(const void *bytes, size_t size_bytes, const vw_output *output)
{
    size_t page_bytes;
    const char *page = vw__view_page(&page_bytes);
    const char *tag = memmem(page, page_bytes, VW__VIEW_DATA_TAG, sizeof VW__VIEW_DATA_TAG - 1);
    if (tag == NULL)
        return vw__fail(VW_ERR_UNSUPPORTED, "the page has no place for data: expected %s in it",
                        VW__VIEW_DATA_TAG);
    size_t before_bytes = (size_t)(tag - page) + sizeof VW__VIEW_DATA_TAG - 1;
    VW__TRY(write(output, page, before_bytes));
    VW__TRY(write_base64(output, bytes, size_bytes));
    return write(output, page + before_bytes, page_bytes - before_bytes);
}
