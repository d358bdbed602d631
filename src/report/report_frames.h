/* report_frames.h - places in a program, in one wording: "file:line function". */
#ifndef HR_REPORT_REPORT_FRAMES_H
#define HR_REPORT_REPORT_FRAMES_H

#include "headroom/analysis.h"
#include "base/byte_buffer.h"
#include "export/json_write.h"
#include "report/report_text.h"

/* For people: "train.py:152 forward > linear.py:134", where the second is the innermost frame, if
 * that is another. What has no frame outside torch is named by its innermost one; what has none at
 * all by what is known instead. */
void hr__append_place(hr__byte_buffer *buffer, const hr_frame *where, const hr_frame *frames,
                      size_t frame_count, const char *otherwise);

/* Up to `most` innermost frames as details below a row. */
void hr__table_frames(hr__table *table, const hr_frame *frames, size_t frame_count, size_t most);

/* "key": "file:line function" | null */
void hr__json_place(hr__json *json, const char *key, const hr_frame *frame);

/* "where": "..." | null, "frames": ["...", ...] */
void hr__json_frames(hr__json *json, const hr_frame *where, const hr_frame *frames,
                     size_t frame_count);

/* "key": ["...", ...] */
void hr__json_texts(hr__json *json, const char *key, const char *const *texts, size_t text_count);

#endif /* HR_REPORT_REPORT_FRAMES_H */
