/* park_file.h - parked data in a file. */
#ifndef VW_POOL_PARK_FILE_H
#define VW_POOL_PARK_FILE_H

#include "engine/park_store.h"

/* A store on a file in `folder`, which nobody else can open and which is gone with the store, or
 * with the process. `device` must outlive it. VW_ERR_FILE, VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__park_file_open(const vw_device *device, const char *folder,
                                           vw__park_store *out);

#endif /* VW_POOL_PARK_FILE_H */
