/* version.h - the numbers, and what they promise.
 *
 * Semantic versioning. Within one major number a program built against an older header runs with
 * a newer library: functions are only added, structs grow only at their end and only where they
 * begin with `struct_size`, and status numbers keep their meaning. The shared libraries' soname
 * carries the major number. While the major number is 0 the minor one plays its part: a change of
 * the minor number may break, and the soname carries both. */
#ifndef HEADROOM_VERSION_H
#define HEADROOM_VERSION_H

#include "headroom/status.h" /* HR_API */

#define HR_VERSION_MAJOR 0
#define HR_VERSION_MINOR 1
#define HR_VERSION_PATCH 0
#define HR_VERSION_STRING "0.1.0"

/* 10000 * major + 100 * minor + patch */
#define HR_VERSION_NUMBER (10000 * HR_VERSION_MAJOR + 100 * HR_VERSION_MINOR + HR_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

/* Of the library that is loaded, which may be newer than the header a program was built with. */
HR_API int hr_version_number(void);
HR_API const char *hr_version_string(void);

#ifdef __cplusplus
}
#endif
#endif /* HEADROOM_VERSION_H */
