/* view_page.h - the page that was built from viewer/, and writing it with data in it. */
#ifndef VW_VIEW_VIEW_PAGE_H
#define VW_VIEW_VIEW_PAGE_H

#include <stddef.h>

#include "vramwise/report.h" /* vw_output */
#include "vramwise/status.h"

/* viewer/dist/page.html, as it is; not terminated. */
const char *vw__view_page(size_t *size_bytes);

/* Where the page has room for the data: behind this, up to the next end tag. */
#define VW__VIEW_DATA_TAG "<script type=\"text/plain\" id=\"vramwise-data\">"

/* The page, with `bytes` in base64 where its data goes. VW_ERR_FILE if `output` ended it. */
VW_MUST_CHECK vw_status vw__view_page_write(const void *bytes, size_t size_bytes,
                                            const vw_output *output);

#endif /* VW_VIEW_VIEW_PAGE_H */
