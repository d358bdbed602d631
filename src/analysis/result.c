/* result.c - see result.h. */
#include "analysis/result.h"

#include <stdarg.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/error.h"
#include "base/host_memory.h"

/* Lies in front of a result, which may need any alignment. */
typedef union result_header {
    vw__arena arena;
    max_align_t align;
} result_header;

void *vw__result_create(size_t size_bytes)
{
    result_header *header = vw__host_alloc_zeroed(1, sizeof *header + size_bytes);
    if (header == NULL)
        return NULL;
    vw__arena_init(&header->arena, VW__ARENA_NO_LIMIT);
    return header + 1;
}

vw__arena *vw__result_arena(void *result)
{
    return &((result_header *)result - 1)->arena;
}

void vw__result_free(void *result)
{
    if (result == NULL)
        return;
    vw__arena_deinit(vw__result_arena(result));
    vw__host_free((result_header *)result - 1);
}

/* ---- notes ----------------------------------------------------------------------------------- */

enum { MOST_TEXT_BYTES = 1024 }; /* a longer one is cut */

void vw__notes_init(vw__notes *notes, vw__arena *arena)
{
    *notes = (vw__notes){.arena = arena};
}

void vw__notes_add(vw__notes *notes, const char *format, ...)
{
    char text[MOST_TEXT_BYTES];
    va_list arguments;
    if (notes == NULL || notes->count == VW__NOTES_MOST)
        return;
    va_start(arguments, format);
    (void)vw__c_locale_vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const char *kept = vw__arena_copy(notes->arena, text, strlen(text));
    if (kept == NULL)
        notes->has_failed = true;
    else
        notes->texts[notes->count++] = kept;
}

vw_status vw__notes_finish(vw__notes *notes, const char *const **texts, size_t *count)
{
    size_t size_bytes = notes->count * sizeof *notes->texts;
    const char **array = vw__arena_alloc(notes->arena, size_bytes, _Alignof(const char *));
    if (array == NULL || notes->has_failed)
        return vw__fail_host_memory(size_bytes, "notes");
    memcpy(array, notes->texts, size_bytes);
    *texts = array;
    *count = notes->count;
    return VW_OK;
}
