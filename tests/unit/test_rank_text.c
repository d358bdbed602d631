/* test_rank_text.c - lines to the ranks that printed them, and when an error was printed. */
#include "ranks/rank_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vramwise/doctor.h"
#include "parse/byte_source.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

#define OOM                                                                                        \
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "   \
    "capacity of 79.15 GiB of which 1.00 GiB is free. Of the allocated memory 70.00 GiB is "       \
    "allocated by PyTorch, and 2.00 GiB is reserved by PyTorch but unallocated."
#define NOON INT64_C(1772366400000000) /* 2026-03-01 12:00:00 UTC */

static vw_status read_text(vw__ranks_stories *stories, const char *text, vw__ranks_story_file *file)
{
    vw__byte_source *source = NULL;
    vw_status status = vw__byte_source_open_memory(text, strlen(text), NULL, &source);
    if (status == VW_OK)
        status = vw__ranks_stories_read(stories, source, file);
    vw__byte_source_close(source);
    return status;
}

static vw__ranks_story_file labelled(const char *text)
{
    return (vw__ranks_story_file){.path = "job.out",
                                  .rank = VW_UNKNOWN,
                                  .has_labels = true,
                                  .has_bare_labels = vw__ranks_has_bare_labels(text, strlen(text)),
                                  .last_rank = VW_UNKNOWN};
}

/* How many errors a rank's story has, and when the first was printed. */
static uint64_t errors_of(vw__ranks_stories *stories, uint64_t rank, vw__ranks_log_time *time)
{
    vw__ranks_story *story = vw__ranks_stories_take(stories, rank);
    vw__doctor_text_facts facts;
    vw_diagnosis *diagnosis;
    if (story == NULL)
        return VW_UNKNOWN;
    assert_int_equal(vw__doctor_text_scan_diagnose(story->scan, NULL, &facts, &diagnosis), VW_OK);
    uint64_t count = diagnosis->error_count;
    if (time != NULL)
        *time = vw__ranks_story_time_of(story, &facts.errors.first);
    vw_diagnosis_free(diagnosis);
    vw__ranks_story_destroy(story);
    return count;
}

static void labels_of_srun_give_each_line_to_its_rank(void **state)
{
    (void)state;
    const char text[] = "0: step 1\n1: step 1\n10: " OOM "\n 1: more\nslurmstepd: no label\n";
    vw__ranks_stories stories = {.stories = NULL};
    vw__ranks_story_file file = labelled(text);
    assert_true(file.has_bare_labels);
    assert_int_equal(read_text(&stories, text, &file), VW_OK);
    assert_int_equal(file.rank_count, 3);
    assert_int_equal(errors_of(&stories, 10, NULL), 1);
    assert_int_equal(errors_of(&stories, 0, NULL), 0);
    assert_int_equal(errors_of(&stories, 1, NULL), 0);
    assert_int_equal(errors_of(&stories, VW_UNKNOWN, NULL), 0);
    assert_int_equal(stories.count, 0);
    vw__ranks_stories_deinit(&stories);
}

static void a_number_in_front_of_few_lines_is_no_label(void **state)
{
    (void)state;
    const char text[] = "usage\n3: what is this\nlines\nwithout\nany\n4: and this\n";
    vw__ranks_stories stories = {.stories = NULL};
    vw__ranks_story_file file = labelled(text);
    assert_false(file.has_bare_labels);
    assert_int_equal(read_text(&stories, text, &file), VW_OK);
    assert_int_equal(file.rank_count, 0);
    assert_int_equal(stories.count, 1);
    vw__ranks_stories_deinit(&stories);
}

static void labels_of_pytorch_always_count(void **state)
{
    (void)state;
    const char text[] =
        "launcher\nlauncher\nlauncher\n[rank3]: Traceback (most recent call last):\n"
        "[rank3]: " OOM "\n[default5]:hello\n";
    vw__ranks_stories stories = {.stories = NULL};
    vw__ranks_story_file file = labelled(text);
    assert_int_equal(read_text(&stories, text, &file), VW_OK);
    assert_int_equal(file.rank_count, 2);
    assert_int_equal(errors_of(&stories, 3, NULL), 1);
    assert_int_equal(errors_of(&stories, 5, NULL), 0);
    vw__ranks_stories_deinit(&stories);
}

static void a_file_of_one_rank_goes_there_whole(void **state)
{
    (void)state;
    vw__ranks_stories stories = {.stories = NULL};
    vw__ranks_story_file out = {.path = "out", .rank = 4}, error = {.path = "err", .rank = 4};
    assert_int_equal(read_text(&stories, "[rank9]: step 1\n0: a\n", &out), VW_OK);
    assert_int_equal(read_text(&stories, OOM, &error), VW_OK);
    assert_int_equal(out.rank_count, 1);
    assert_int_equal(out.last_rank, 4);
    assert_int_equal(stories.count, 1);
    assert_int_equal(stories.stories[0]->file_count, 2);
    assert_string_equal(stories.stories[0]->first_path, "out");
    assert_int_equal(errors_of(&stories, 4, NULL), 1);
    vw__ranks_stories_deinit(&stories);
}

static vw__ranks_log_time time_in(const char *text)
{
    vw__ranks_stories stories = {.stories = NULL};
    vw__ranks_story_file file = {.path = "log", .rank = 0};
    vw__ranks_log_time time;
    assert_int_equal(read_text(&stories, text, &file), VW_OK);
    assert_int_equal(errors_of(&stories, 0, &time), 1);
    vw__ranks_stories_deinit(&stories);
    return time;
}

static void an_error_has_the_time_of_its_line(void **state)
{
    (void)state;
    vw__ranks_log_time time =
        time_in("2026-03-01 11:00:00 memory 5\n2026-03-01 12:00:00Z ERROR " OOM
                "\n2026-03-01 13:00:00 memory of another\n");
    assert_int_equal(time.time_us, NOON);
    assert_true(time.has_zone);
}

static void an_error_in_a_traceback_has_the_time_in_front_of_that(void **state)
{
    (void)state;
    vw__ranks_log_time time =
        time_in("2026-03-01 12:00:00 ERROR it failed\nTraceback (most recent call "
                "last):\n  File \"train.py\", line 3, in main\n    f()\n" OOM "\n");
    assert_int_equal(time.time_us, NOON);
    assert_false(time.has_zone);
}

static void an_error_after_other_words_has_no_time(void **state)
{
    (void)state;
    assert_int_equal(time_in("2026-03-01 12:00:00 step 9\nsomething else\n" OOM "\n").time_us,
                     INT64_MIN);
}

static void a_line_without_an_end_goes_on_where_it_began(void **state)
{
    (void)state;
    const size_t length = 300 << 10;
    char *text = malloc(length + sizeof OOM + 8);
    assert_non_null(text);
    memset(text, 'x', length);
    memcpy(text, "[rank6]: ", 9);
    memcpy(text + length, "\n7: " OOM, sizeof OOM + 4);
    vw__ranks_stories stories = {.stories = NULL};
    vw__ranks_story_file file = labelled("");
    file.has_bare_labels = true;
    assert_int_equal(read_text(&stories, text, &file), VW_OK);
    assert_int_equal(file.rank_count, 2);
    assert_int_equal(errors_of(&stories, 6, NULL), 0);
    assert_int_equal(errors_of(&stories, 7, NULL), 1);
    free(text);
    vw__ranks_stories_deinit(&stories);
}

static void more_ranks_than_there_is_room_for_are_counted(void **state)
{
    (void)state;
    static char text[(VW__RANKS_MOST_STORIES + 4) * 16];
    size_t size = 0;
    for (int i = 0; i < VW__RANKS_MOST_STORIES + 3; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "%d: hello\n", i);
    vw__ranks_stories stories = {.stories = NULL};
    vw__ranks_story_file file = labelled(text);
    assert_int_equal(read_text(&stories, text, &file), VW_OK);
    assert_int_equal(file.rank_count, VW__RANKS_MOST_STORIES);
    assert_int_equal(file.lost_count, 3);
    vw__ranks_stories_deinit(&stories);
}

static void what_ranks_printed_has_a_limit_and_is_forgotten_with_the_file(void **state)
{
    (void)state;
    static char text[64 * 64 + (1 << 20)];
    size_t size = 0;
    for (int i = 0; i < 64; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "%d: hello\n", i);
    vw__ranks_stories stories = {.limit_bytes = UINT64_C(8) << 20};
    vw__ranks_story_file file = labelled(text);
    assert_int_equal(read_text(&stories, text, &file), VW_ERR_UNSUPPORTED);
    assert_non_null(strstr(vw_last_error(), " ranks printed takes more than the 8.00 MiB that "
                                            "reading may take; --max-memory allows more"));
    assert_in_range(stories.count, 8, 16); /* most of a megabyte each */
    vw__ranks_stories_forget(&stories, file.path);
    assert_int_equal(stories.count, 0);
    assert_int_equal(stories.held_bytes, 0);

    size = 0;
    for (int i = 0; i < 16384; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "step %d mem %d.5GB\n", i, i % 9);
    file = (vw__ranks_story_file){.path = "rank7.log", .rank = 7};
    assert_int_equal(read_text(&stories, "hello\n", &file), VW_OK);
    uint64_t before_bytes = stories.held_bytes;
    assert_int_equal(read_text(&stories, text, &file), VW_OK);
    assert_true(stories.held_bytes > before_bytes + 16384 * 2 * sizeof(double)); /* the points */
    vw__ranks_story_destroy(vw__ranks_stories_take(&stories, 7));
    assert_int_equal(stories.held_bytes, 0);
    vw__ranks_stories_deinit(&stories);
}

static bool reads_a_labelled_text(void *context)
{
    (void)context;
    vw__ranks_stories stories = {.stories = NULL};
    vw__ranks_story_file file = labelled("0: a\n1: b\n");
    bool is_read = read_text(&stories, "0: a\n1: " OOM "\n2: c\n", &file) == VW_OK;
    vw__ranks_stories_deinit(&stories);
    return is_read;
}

static void lack_of_host_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(reads_a_labelled_text, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_of_srun_give_each_line_to_its_rank),
        cmocka_unit_test(a_number_in_front_of_few_lines_is_no_label),
        cmocka_unit_test(labels_of_pytorch_always_count),
        cmocka_unit_test(a_file_of_one_rank_goes_there_whole),
        cmocka_unit_test(an_error_has_the_time_of_its_line),
        cmocka_unit_test(an_error_in_a_traceback_has_the_time_in_front_of_that),
        cmocka_unit_test(an_error_after_other_words_has_no_time),
        cmocka_unit_test(a_line_without_an_end_goes_on_where_it_began),
        cmocka_unit_test(more_ranks_than_there_is_room_for_are_counted),
        cmocka_unit_test(what_ranks_printed_has_a_limit_and_is_forgotten_with_the_file),
        cmocka_unit_test(lack_of_host_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
