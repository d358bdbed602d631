/* device_host.h - the number the host device is made of, for those who count in it. */
#ifndef VW_DEVICE_DEVICE_HOST_H
#define VW_DEVICE_DEVICE_HOST_H

#include <stdint.h>

/* The size of a granule, unless the machine's pages are larger. Much smaller than a GPU's 2 MiB, so
 * that tests go through thousands of pages without touching gigabytes; larger than most machines'
 * pages, so that code which confuses the two is found out. */
#define VW__HOST_GRANULARITY_BYTES (UINT64_C(64) << 10)

#endif /* VW_DEVICE_DEVICE_HOST_H */
