/* version.h - the version numbers, and what they promise.
 *
 * Semantic versioning. Within one major number a program built against an older header runs with
 * a newer library: functions are only added, structs grow only at their end and only where they
 * begin with `struct_size`, and status numbers keep their meaning. The shared libraries' soname
 * carries the major number. While the major number is 0 the minor one plays its part: a change of
 * the minor number may break, and the soname carries both.
 *
 * The caller sets `struct_size` to the sizeof of its own header. In a struct that is shorter than
 * the library's, the missing input fields take their defaults and the missing output fields are not
 * written. In a longer one, the library ignores the fields that it does not know. A struct_size
 * smaller than a size_t is VW_ERR_INVALID_ARGUMENT. */
#ifndef VRAMWISE_VERSION_H
#define VRAMWISE_VERSION_H

#include "vramwise/status.h" /* VW_API */

#define VW_VERSION_MAJOR 0
#define VW_VERSION_MINOR 2
#define VW_VERSION_PATCH 0
#define VW_VERSION_STRING "0.2.0"

/* 10000 * major + 100 * minor + patch */
#define VW_VERSION_NUMBER (10000 * VW_VERSION_MAJOR + 100 * VW_VERSION_MINOR + VW_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the loaded library, which may be newer than the header of the program. */
VW_API int vw_version_number(void);
VW_API const char *vw_version_string(void);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_VERSION_H */
