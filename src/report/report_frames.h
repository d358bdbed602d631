/* report_frames.h - places in a program, in one wording: "file:line function". */
#ifndef VW_REPORT_REPORT_FRAMES_H
#define VW_REPORT_REPORT_FRAMES_H

#include "vramwise/analysis.h"
#include "base/byte_buffer.h"
#include "export/json_write.h"
#include "report/report_text.h"

/* For people: "train.py:152 forward > linear.py:134", where the second is the innermost frame, if
 * that is another. What has no frame outside torch is named by its innermost one; what has none at
 * all by what is known instead. */
void vw__append_place(vw__byte_buffer *buffer, const vw_frame *where, const vw_frame *frames,
                      size_t frame_count, const char *otherwise);

/* Up to `most` innermost frames as details below a row. */
void vw__table_frames(vw__table *table, const vw_frame *frames, size_t frame_count, size_t most);

/* "key": "file:line function" | null */
void vw__json_place(vw__json *json, const char *key, const vw_frame *frame);

/* "where": "..." | null, "frames": ["...", ...] */
void vw__json_frames(vw__json *json, const vw_frame *where, const vw_frame *frames,
                     size_t frame_count);

/* "key": ["...", ...] */
void vw__json_texts(vw__json *json, const char *key, const char *const *texts, size_t text_count);

#endif /* VW_REPORT_REPORT_FRAMES_H */
