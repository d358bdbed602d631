/* check_parts.h - what the files of this folder share. */
#ifndef VW_CHECK_CHECK_PARTS_H
#define VW_CHECK_CHECK_PARTS_H

#include <stddef.h>

#include "vramwise/check.h"

/* Sorts by name, the order of vw_baseline.sites. */
void vw__check_sort_sites(vw_baseline_site *sites, size_t count);

#endif /* VW_CHECK_CHECK_PARTS_H */
