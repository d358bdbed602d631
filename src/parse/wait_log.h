/* wait_log.h - how long steps waited for their input, as training loops log it.
 *
 * Many loops print both times on one line: "time: 0.52  data_time: 0.40" (mmengine, detectron2),
 * "time: 0.0506  data: 0.0004" (torchvision's references), "Time 0.345 (0.350)  Data 0.290 (0.300)"
 * (PyTorch's examples, timm). The second is part of the first. */
#ifndef VW_PARSE_WAIT_LOG_H
#define VW_PARSE_WAIT_LOG_H

#include <stddef.h>
#include <stdint.h>

#define VW__WAIT_LOG_LINE_BYTES 1024 /* of a line; the rest is not looked at */

/* All zero at the beginning. */
typedef struct vw__wait_log {
    uint64_t step_count;   /* lines with both times */
    double waited_seconds; /* sums; only their ratio means something: loops log in other units */
    double step_seconds;
    char line[VW__WAIT_LOG_LINE_BYTES]; /* the beginning of one that goes on in the next piece */
    size_t line_bytes;
} vw__wait_log;

/* Pieces may end anywhere. The last line counts once it has an end. */
void vw__wait_log_feed(vw__wait_log *log, const char *bytes, size_t size_bytes);

/* The share of the steps' time that went into waiting, or 0 where too few steps say so. */
double vw__wait_log_share(const vw__wait_log *log);

#endif /* VW_PARSE_WAIT_LOG_H */
