/* struct_size.h - public structs of a caller that was built with an older or a newer header.
 *
 * Such a struct begins with `size_t struct_size`, the size that the caller's header gave it, and
 * grows at its end only (version.h). This is the one place that compares the two sizes:
 *
 *   input   VW__STRUCT_IN() copies the fields that the caller has over ours, which hold the
 *           defaults. Fields that we do not know are ignored.
 *   output  VW__STRUCT_OUT() fills the fields that the caller has room for. Fields that we do not
 *           know are left alone.
 *   hot     VW__STRUCT_VIEW() copies an input only if it is shorter than ours.
 *   table   VW__STRUCT_HAS() tells whether a field is there before it is read in place.
 *
 * A new field must begin at or after the old sizeof, never in what was padding: callers do not
 * clear padding. */
#ifndef VW_BASE_STRUCT_SIZE_H
#define VW_BASE_STRUCT_SIZE_H

#include <stdbool.h>
#include <stddef.h> /* offsetof */
#include <string.h>

#include "base/error.h"

/* Copies `*given`, a `type`, over `*out`. `given` may be NULL: `*out` then stays as it is.
 * VW_ERR_INVALID_ARGUMENT for a struct_size that cannot be one; `*out` is then untouched. */
#define VW__STRUCT_IN(type, given, out)                                                            \
    vw__struct_in((const type *){(given)}, (type *){(out)}, sizeof(type), #type)

/* `given` itself if it is as long as ours, else `room`, a copy of it with zeros for the missing
 * fields. NULL, with a message, for a struct_size that cannot be one. */
#define VW__STRUCT_VIEW(type, given, room)                                                         \
    ((const type *)vw__struct_view((const type *){(given)}, (type *){(room)}, sizeof(type), #type))

/* Checks what VW__STRUCT_OUT() will be given, before the work is done: VW_ERR_INVALID_ARGUMENT for
 * NULL, and as above. */
#define VW__STRUCT_CHECK_OUT(type, out) vw__struct_check((const type *){(out)}, #type)

/* Copies `*made`, a `type`, to the caller's `*out`, whose struct_size stays. */
#define VW__STRUCT_OUT(type, made, out)                                                            \
    vw__struct_out((const type *){(made)}, (type *){(out)}, sizeof(type))

/* Does the caller's struct contain all of `field`? */
#define VW__STRUCT_HAS(type, given, field)                                                         \
    ((given)->struct_size >= offsetof(type, field) + sizeof((given)->field))

/* For a caller of ours that wants the fields before `field` and no others, as a program has that
 * was built before there was more: what it leaves out need not be found. */
#define VW__STRUCT_UP_TO(type, field)                                                              \
    {                                                                                              \
        .struct_size = offsetof(type, field)                                                       \
    }

static inline vw_status vw__struct_check(const void *given, const char *type)
{
    if (given == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a %s, found NULL", type);
    size_t given_bytes = *(const size_t *)given;
    if (given_bytes < sizeof given_bytes)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "%s: expected a struct_size of sizeof(%s), found %zu", type, type,
                        given_bytes);
    return VW_OK;
}

/* As VW__STRUCT_IN(), for a struct whose struct_size may be 0: that counts as our own size. */
static inline void vw__struct_copy(const void *given, void *out, size_t our_bytes)
{
    size_t given_bytes = *(const size_t *)given;
    if (given_bytes == 0 || given_bytes >= our_bytes)
        memcpy(out, given, our_bytes); /* the usual case: a copy of known length */
    else
        memcpy(out, given, given_bytes);
    *(size_t *)out = our_bytes;
}

static inline vw_status vw__struct_in(const void *given, void *out, size_t our_bytes,
                                      const char *type)
{
    if (given == NULL)
        return VW_OK;
    VW__TRY(vw__struct_check(given, type));
    vw__struct_copy(given, out, our_bytes);
    return VW_OK;
}

static inline const void *vw__struct_view(const void *given, void *room, size_t our_bytes,
                                          const char *type)
{
    if (__builtin_expect(*(const size_t *)given >= our_bytes, 1))
        return given;
    memset(room, 0, our_bytes);
    return vw__struct_in(given, room, our_bytes, type) == VW_OK ? room : NULL;
}

static inline void vw__struct_out(const void *made, void *out, size_t our_bytes)
{
    size_t room_bytes = *(size_t *)out;
    memcpy(out, made, room_bytes < our_bytes ? room_bytes : our_bytes);
    *(size_t *)out = room_bytes;
}

#endif /* VW_BASE_STRUCT_SIZE_H */
