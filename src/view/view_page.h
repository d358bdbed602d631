/* view_page.h - the page that was built from viewer/, and writing it with data in it. */
#ifndef HR_VIEW_VIEW_PAGE_H
#define HR_VIEW_VIEW_PAGE_H

#include <stddef.h>

#include "headroom/report.h" /* hr_output */
#include "headroom/status.h"

/* viewer/dist/page.html, as it is; not terminated. */
const char *hr__view_page(size_t *size_bytes);

/* Where the page has room for the data: behind this, up to the next end tag. */
#define HR__VIEW_DATA_TAG "<script type=\"text/plain\" id=\"headroom-data\">"

/* The page, with `bytes` in base64 where its data goes. HR_ERR_FILE if `output` ended it. */
HR_MUST_CHECK hr_status hr__view_page_write(const void *bytes, size_t size_bytes,
                                            const hr_output *output);

#endif /* HR_VIEW_VIEW_PAGE_H */
