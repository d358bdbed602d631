/* fuzz_rank_text.c - any bytes as a log of several ranks, and any line of it as a name.
 *
 * No line may be lost: what the stories have together is what the text had. Times and ranks are
 * found or not, without a byte read beyond the end. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/host_memory.h"
#include "parse/byte_source.h"
#include "ranks/rank_files.h"
#include "ranks/rank_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool claim)
{
    if (!claim)
        abort();
}

static uint64_t lines_in(const uint8_t *data, size_t size)
{
    uint64_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += data[i] == '\n';
    return count + (size > 0 && data[size - 1] != '\n');
}

static void read_stories(const uint8_t *data, size_t size)
{
    vw__ranks_stories stories = {.stories = NULL};
    vw__byte_source *source;
    vw__ranks_story_file file = {.path = "fuzz",
                                 .rank = VW_UNKNOWN,
                                 .has_labels = true,
                                 .has_bare_labels =
                                     vw__ranks_has_bare_labels((const char *)data, size)};
    if (vw__byte_source_open_memory(data, size, NULL, &source) != VW_OK)
        return; /* compressed, and damaged */
    bool is_plain = vw__byte_source_compression(source) == VW__BYTE_SOURCE_PLAIN;
    vw_status status = vw__ranks_stories_read(&stories, source, &file);
    vw__byte_source_close(source);
    must(!is_plain || status == VW_OK);
    uint64_t line_count = file.lost_count;
    for (size_t i = 0; i < stories.count; i++) {
        line_count += stories.stories[i]->line_count;
        must(stories.stories[i]->time_count <= VW__RANKS_STORY_MOST_TIMES);
    }
    must(!is_plain || line_count == lines_in(data, size));
    must(stories.count <= VW__RANKS_MOST_STORIES);
    vw__ranks_stories_deinit(&stories);
}

/* A copy of just so many bytes, so that reading beyond them is seen. */
static void look_at_names(const uint8_t *data, size_t size)
{
    char *name = malloc(size + 1);
    must(name != NULL);
    memcpy(name, data, size);
    name[size] = '\0';
    vw__ranks_name found = vw__ranks_of_path(name);
    must(!found.is_known || found.rank <= 999999);
    must(found.run_bytes <= size);
    (void)vw__ranks_is_log_name(name);
    (void)vw__ranks_is_failure_name(name);
    char *line = realloc(name, size != 0 ? size : 1);
    must(line != NULL);
    (void)vw__ranks_log_time_of(line, size);
    free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t before_bytes = vw__host_memory_get_use().in_use_bytes;
    read_stories(data, size);
    look_at_names(data, size);
    must(vw__host_memory_get_use().in_use_bytes == before_bytes);
    return 0;
}
