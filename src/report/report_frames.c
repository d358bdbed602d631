/* report_frames.c - the one wording for places. */
#include "report/report_frames.h"

#include <inttypes.h>
#include <string.h>

static void append_frame(vw__byte_buffer *buffer, const vw_frame *frame)
{
    vw__append_text(buffer, frame->file != NULL && frame->file[0] != '\0' ? frame->file : "?");
    if (frame->line != 0)
        vw__append_format(buffer, ":%" PRIu32, frame->line);
    if (frame->function != NULL && frame->function[0] != '\0') {
        vw__append_text(buffer, " ");
        vw__append_text(buffer, frame->function);
    }
}

/* The file without its folders, and the line: enough to tell apart what one line of the program
 * has asked for in several ways. */
static void append_short_frame(vw__byte_buffer *buffer, const vw_frame *frame)
{
    const char *slash = frame->file != NULL ? strrchr(frame->file, '/') : NULL;
    const vw_frame without_folders = {
        .file = slash != NULL ? slash + 1 : frame->file,
        .line = frame->line,
    };
    append_frame(buffer, &without_folders);
}

void vw__append_place(vw__byte_buffer *buffer, const vw_frame *where, const vw_frame *frames,
                      size_t frame_count, const char *otherwise)
{
    if (where != NULL) {
        append_frame(buffer, where);
        if (frame_count > 0 && where != &frames[0]) {
            vw__append_text(buffer, " > ");
            append_short_frame(buffer, &frames[0]);
        }
    } else if (frame_count > 0) {
        append_frame(buffer, &frames[0]);
    } else {
        vw__append_text(buffer, otherwise);
    }
}

void vw__table_frames(vw__table *table, const vw_frame *frames, size_t frame_count, size_t most)
{
    vw__byte_buffer text;
    vw__byte_buffer_init(&text);
    for (size_t i = 0; i < frame_count && i < most; i++) {
        vw__byte_buffer_clear(&text);
        append_frame(&text, &frames[i]);
        if (text.has_failed)
            table->rows.has_failed = true;
        vw__table_detail(table, vw__byte_buffer_text(&text));
    }
    vw__byte_buffer_deinit(&text);
}

void vw__json_place(vw__json *json, const char *key, const vw_frame *frame)
{
    vw__byte_buffer text;
    if (frame == NULL) {
        vw__json_null(json, key);
        return;
    }
    vw__byte_buffer_init(&text);
    append_frame(&text, frame);
    if (text.has_failed)
        json->buffer->has_failed = true;
    vw__json_bytes(json, key, vw__byte_buffer_text(&text), text.size_bytes);
    vw__byte_buffer_deinit(&text);
}

void vw__json_frames(vw__json *json, const vw_frame *where, const vw_frame *frames,
                     size_t frame_count)
{
    vw__json_place(json, "where", where);
    vw__json_begin_array(json, "frames");
    for (size_t i = 0; i < frame_count; i++)
        vw__json_place(json, NULL, &frames[i]);
    vw__json_end_array(json);
}

void vw__json_texts(vw__json *json, const char *key, const char *const *texts, size_t text_count)
{
    vw__json_begin_array(json, key);
    for (size_t i = 0; i < text_count; i++)
        vw__json_text(json, NULL, texts[i]);
    vw__json_end_array(json);
}
