/* segment_sort.h - segments by device, the host's last, then by address.
 *
 * In place and without memory: the C library's qsort() takes some of its own, behind our back.
 * Files nearly always have them in order already, which is seen in one pass. */
#ifndef VW_MODEL_SEGMENT_SORT_H
#define VW_MODEL_SEGMENT_SORT_H

#include "model/memory_model.h"

void vw__segment_sort(vw__model_segment *segments, size_t count);

#endif /* VW_MODEL_SEGMENT_SORT_H */
