/* fuzz_error_text.c - any bytes as a text with errors in it.
 *
 * The scan must come to an end with the same answer however the text is cut into pieces, and the
 * answer must agree with itself: counts that fit each other, a line that the text has, an excerpt
 * and frames that are text. */
#include <stdlib.h>
#include <string.h>

#include "analysis/phase.h"
#include "base/host_memory.h"
#include "base/utf8.h"
#include "parse/error_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool claim)
{
    if (!claim)
        abort();
}

static vw__error_text_summary scan_in_pieces(const uint8_t *data, size_t size, size_t piece_bytes)
{
    vw__error_text_scan *scan;
    vw__error_text_summary summary;
    must(vw__error_text_scan_create(&scan) == VW_OK);
    vw__error_text_scan_judge(scan, vw__phase_judge);
    while (size > 0) {
        size_t bytes = piece_bytes < size ? piece_bytes : size;
        must(vw__error_text_scan_feed(scan, (const char *)data, bytes) == VW_OK);
        data += bytes;
        size -= bytes;
    }
    must(vw__error_text_scan_finish(scan, &summary) == VW_OK);
    vw__error_text_scan_destroy(scan);
    return summary;
}

static void check_text(const char *text, size_t most_bytes)
{
    size_t length = strnlen(text, most_bytes);
    must(length < most_bytes);
    for (size_t at = 0; at < length;) {
        uint32_t character = 0;
        at += vw__utf8_next(text + at, length - at, &character);
        must(character != VW__UTF8_INVALID && character >= ' ');
    }
}

static void check_frame(const vw__traceback_frame *frame)
{
    check_text(frame->file, sizeof frame->file);
    check_text(frame->function, sizeof frame->function);
    check_text(frame->code, sizeof frame->code);
}

static void check_traceback(const vw__traceback *traceback)
{
    check_frame(&traceback->innermost);
    check_frame(&traceback->users);
    must((traceback->frame_count != 0) == (traceback->innermost.file[0] != '\0'));
    must(traceback->frame_count != 0 || (traceback->users.file[0] == '\0' && traceback->mark == 0));
    must(vw__phase_of(traceback->mark, traceback->marks) < VW__PHASE_COUNT);
}

static bool are_same_frames(const vw__traceback_frame *a, const vw__traceback_frame *b)
{
    return strcmp(a->file, b->file) == 0 && strcmp(a->function, b->function) == 0 &&
           strcmp(a->code, b->code) == 0 && a->line == b->line;
}

static void check_summary(const vw__error_text_summary *summary, size_t size)
{
    const vw__error_text_report *first = &summary->first;
    must(summary->size_bytes == size);
    must(summary->host_count <= summary->report_count);
    must(summary->rank_count <= summary->report_count);
    must(vw__error_text_kind_name(first->kind)[0] != '\0');
    check_text(first->excerpt, sizeof first->excerpt);
    check_traceback(&first->traceback);
    if (first->kind == VW__ERROR_TEXT_NONE || first->kind == VW__ERROR_TEXT_NOT_OOM ||
        first->is_warning)
        must(summary->report_count == 0);
    else
        must(summary->report_count > 0);
    if (first->kind != VW__ERROR_TEXT_NONE)
        must(first->line >= 1 && first->line <= summary->line_count && first->excerpt[0] != '\0');
    must(first->device >= -1 && first->rank >= -1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t before_bytes = vw__host_memory_get_use().in_use_bytes;
    vw__error_text_summary whole = scan_in_pieces(data, size, SIZE_MAX);
    vw__error_text_summary pieces = scan_in_pieces(data, size, size % 7 + 1);
    check_summary(&whole, size);
    must(whole.first.kind == pieces.first.kind && whole.first.line == pieces.first.line &&
         whole.first.tried_bytes == pieces.first.tried_bytes &&
         whole.report_count == pieces.report_count && whole.line_count == pieces.line_count &&
         whole.is_binary == pieces.is_binary &&
         strcmp(whole.first.excerpt, pieces.first.excerpt) == 0 &&
         whole.first.traceback.frame_count == pieces.first.traceback.frame_count &&
         are_same_frames(&whole.first.traceback.users, &pieces.first.traceback.users) &&
         are_same_frames(&whole.first.traceback.innermost, &pieces.first.traceback.innermost));
    must(vw__host_memory_get_use().in_use_bytes == before_bytes);
    return 0;
}
