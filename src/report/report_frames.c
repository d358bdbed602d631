/* report_frames.c - the one wording for places. */
#include "report/report_frames.h"

#include <inttypes.h>
#include <string.h>

static void append_frame(hr__byte_buffer *buffer, const hr_frame *frame)
{
    hr__append_text(buffer, frame->file != NULL && frame->file[0] != '\0' ? frame->file : "?");
    if (frame->line != 0)
        hr__append_format(buffer, ":%" PRIu32, frame->line);
    if (frame->function != NULL && frame->function[0] != '\0') {
        hr__append_text(buffer, " ");
        hr__append_text(buffer, frame->function);
    }
}

/* The file without its folders, and the line: enough to tell apart what one line of the program
 * has asked for in several ways. */
static void append_short_frame(hr__byte_buffer *buffer, const hr_frame *frame)
{
    const char *slash = frame->file != NULL ? strrchr(frame->file, '/') : NULL;
    const hr_frame without_folders = {
        .file = slash != NULL ? slash + 1 : frame->file,
        .line = frame->line,
    };
    append_frame(buffer, &without_folders);
}

void hr__append_place(hr__byte_buffer *buffer, const hr_frame *where, const hr_frame *frames,
                      size_t frame_count, const char *otherwise)
{
    if (where != NULL) {
        append_frame(buffer, where);
        if (frame_count > 0 && where != &frames[0]) {
            hr__append_text(buffer, " > ");
            append_short_frame(buffer, &frames[0]);
        }
    } else if (frame_count > 0) {
        append_frame(buffer, &frames[0]);
    } else {
        hr__append_text(buffer, otherwise);
    }
}

void hr__table_frames(hr__table *table, const hr_frame *frames, size_t frame_count, size_t most)
{
    hr__byte_buffer text;
    hr__byte_buffer_init(&text);
    for (size_t i = 0; i < frame_count && i < most; i++) {
        hr__byte_buffer_clear(&text);
        append_frame(&text, &frames[i]);
        if (text.has_failed)
            table->rows.has_failed = true;
        hr__table_detail(table, hr__byte_buffer_text(&text));
    }
    hr__byte_buffer_deinit(&text);
}

void hr__json_place(hr__json *json, const char *key, const hr_frame *frame)
{
    hr__byte_buffer text;
    if (frame == NULL) {
        hr__json_null(json, key);
        return;
    }
    hr__byte_buffer_init(&text);
    append_frame(&text, frame);
    if (text.has_failed)
        json->buffer->has_failed = true;
    hr__json_bytes(json, key, hr__byte_buffer_text(&text), text.size_bytes);
    hr__byte_buffer_deinit(&text);
}

void hr__json_frames(hr__json *json, const hr_frame *where, const hr_frame *frames,
                     size_t frame_count)
{
    hr__json_place(json, "where", where);
    hr__json_begin_array(json, "frames");
    for (size_t i = 0; i < frame_count; i++)
        hr__json_place(json, NULL, &frames[i]);
    hr__json_end_array(json);
}

void hr__json_texts(hr__json *json, const char *key, const char *const *texts, size_t text_count)
{
    hr__json_begin_array(json, key);
    for (size_t i = 0; i < text_count; i++)
        hr__json_text(json, NULL, texts[i]);
    hr__json_end_array(json);
}
