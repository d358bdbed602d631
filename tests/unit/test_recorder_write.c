/* test_recorder_write.c - the file a recorder writes: its version, its settings, and how it
 * appears. */
#include "vramwise/recording.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/recording.h"
#include "parse/torch_snapshot_read.h"
#include "pool/pool.h"
#include "support/cmocka_here.h"
#include "support/recorder_fixture.h"

/* ---- the file's version and settings --------------------------------------------------------- */

static void the_file_has_the_fields_of_the_pools_version(void **state)
{
    (void)state;
    static const struct {
        const char *version;
        bool has_compile_context, has_user_metadata, has_pool_ids, has_max_cached_size;
    } cases[] = {
        {"2.5", false, false, false, false}, {"2.8", true, false, false, false},
        {"2.11", true, true, false, false},  {"2.12", true, true, true, false},
        {"2.13", true, true, true, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vw_test_recorded r;
        vw_test_recorded_open(&r, NULL, &(vw_test_pool_setup){.torch_version = cases[i].version});
        vw_test_alloc(&r.test, 1000);
        vw__model *model = vw_test_recorded_read(&r);
        assert_int_equal(model->features.has_compile_context, cases[i].has_compile_context);
        assert_int_equal(model->features.has_user_metadata, cases[i].has_user_metadata);
        assert_int_equal(model->features.has_pool_ids, cases[i].has_pool_ids);
        assert_int_equal(model->features.has_max_cached_size, cases[i].has_max_cached_size);
        assert_int_equal(model->ignored_field_count, 0);
        vw__model_destroy(model);
        vw_test_recorded_close(&r);
    }
}

static void the_settings_in_force_are_written(void **state)
{
    (void)state;
    static const char conf[] = "max_split_size_mb:128,garbage_collection_threshold:0.6,"
                               "roundup_power2_divisions:[256:1,>:4]";
    vw_test_recorded r;
    vw_test_recorded_open(&r, NULL, &(vw_test_pool_setup){.conf = "expandable_segments:True"});
    vw_test_must(vw_pool_configure(r.test.pool, conf));
    assert_int_equal(vw_pool_walk_conf(r.test.pool, NULL, NULL), VW_ERR_INVALID_ARGUMENT);
    vw__model *model = vw_test_recorded_read(&r);
    const vw__model_settings *settings = &model->settings;
    assert_true(settings->is_known && settings->is_expandable);
    assert_string_equal(vw__model_string(model, settings->conf), conf);
    assert_int_equal(settings->max_split_size, 128 * VW_TEST_MIB);
    assert_true(settings->garbage_collection_threshold == 0.6);
    assert_int_equal(settings->entry_count, 9 + 2); /* as PyTorch 2.11 has them, and our own */
    const vw__model_setting *last = &settings->entries[8];
    assert_string_equal(vw__model_string(model, last->key), "roundup_power2_divisions");
    assert_string_equal(vw__model_string(model, last->value),
                        "[1:1,2:1,4:1,8:1,16:1,32:1,64:1,128:1,256:1,512:4,1024:4,2048:4,4096:4,"
                        "8192:4,16384:4,32768:4]");
    vw__model_destroy(model);
    vw_test_recorded_close(&r);
}

static void the_engine_the_device_and_the_limit_of_the_pool_are_written(void **state)
{
    (void)state;
    vw_test_recorded r;
    vw_test_recorded_open(&r, NULL, NULL);
    uint64_t total_bytes = r.test.pool->device->properties.total_bytes;
    vw__model *model = vw_test_recorded_read(&r);
    assert_string_equal(vw__model_string(model, model->settings.engine), "torch");
    assert_int_equal(model->settings.device_bytes, total_bytes);
    assert_int_equal(model->settings.limit_bytes, 0);
    assert_int_equal(model->ignored_field_count, 0);
    vw__model_destroy(model);

    vw_test_must(vw_pool_set_fraction(r.test.pool, 0.25));
    model = vw_test_recorded_read(&r);
    assert_int_equal(model->settings.limit_bytes, total_bytes / 4);
    assert_true(vw__recording_is_of_a_pool(model));
    vw__model_destroy(model);
    vw_test_recorded_close(&r);
}

/* ---- memory that left the device ------------------------------------------------------------- */

static void note(vw_test_recorded *r, bool is_return, uint64_t moved_bytes, uint64_t spilled_bytes)
{
    const vw_spill_report report = {is_return, moved_bytes, 3, spilled_bytes, 7999};
    vw_recorder_note_spill(r->recorder, &report);
}

static void assert_move(const vw__model *model, size_t index, bool is_return, uint64_t moved_bytes,
                        uint64_t spilled_bytes)
{
    const vw__model_annotation *start = &model->annotations[index], *end = start + 1;
    bool is_other;
    assert_true(start->is_start && !end->is_start);
    assert_int_equal(start->name, end->name);
    assert_true(start->time_us > 0 && start->time_us == end->time_us);
    assert_true(vw__model_is_move(model, start, &is_other));
    assert_int_equal(is_other, is_return);
    assert_false(vw__model_is_move(model, end, &is_other));
    assert_int_equal(start->move.moved_bytes, moved_bytes);
    assert_int_equal(start->move.moved_handles, 3);
    assert_int_equal(start->move.spilled_bytes, spilled_bytes);
    assert_int_equal(start->move.wait_us, 7);
}

static void memory_that_left_and_came_back_is_annotated(void **state)
{
    (void)state;
    vw_test_recorded r;
    vw_test_recorded_open_stacks(&r, VW_STACKS_NONE);
    note(&r, false, 5000, 5000);
    note(&r, true, 4000, 1000);
    vw__model *model = vw_test_recorded_read(&r);
    assert_int_equal(model->annotation_count, 4);
    assert_move(model, 0, false, 5000, 5000);
    assert_move(model, 2, true, 4000, 1000);
    assert_int_equal(model->ignored_field_count, 0);
    vw__model_destroy(model);
    vw_test_must(vw_recorder_clear(r.recorder));
    model = vw_test_recorded_read(&r);
    assert_int_equal(model->annotation_count, 0);
    vw__model_destroy(model);
    vw_test_recorded_close(&r);
}

static void of_moves_the_newest_are_kept_and_an_old_version_has_no_place_for_them(void **state)
{
    (void)state;
    vw_recorder_options options = {.struct_size = sizeof options, .max_entries = 2};
    for (int is_old = 0; is_old <= 1; is_old++) {
        vw_test_recorded r;
        vw_test_recorded_open(&r, &options,
                              &(vw_test_pool_setup){.torch_version = is_old ? "2.4" : "2.5"});
        for (uint64_t i = 1; i <= 5; i++)
            note(&r, false, i, i);
        vw__model *model = vw_test_recorded_read(&r);
        assert_int_equal(model->annotation_count, is_old ? 0 : 4);
        if (!is_old)
            assert_move(model, 2, false, 5, 5);
        vw__model_destroy(model);
        vw_test_recorded_close(&r);
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

static size_t count_files(const char *folder)
{
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

static void a_file_appears_whole_or_not_at_all(void **state)
{
    (void)state;
    char folder[] = "/tmp/vramwise-test-XXXXXX", path[64];
    vw_test_recorded r;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.pickle", folder);
    vw_test_recorded_open_stacks(&r, VW_STACKS_BACKTRACE);
    vw_test_alloc(&r.test, 1000);
    for (int i = 0; i < 2; i++) { /* the second replaces the first */
        vw_test_must(vw_recorder_write(r.recorder, r.test.pool, path));
        assert_int_equal(count_files(folder), 1);
    }
    vw__byte_source *source;
    vw__model *model;
    vw__snapshot_encoding encoding;
    vw_test_must(vw__byte_source_open(path, NULL, &source));
    vw_test_must(vw__snapshot_read(source, 0, &model, &encoding));
    vw__byte_source_close(source);
    assert_int_equal(model->traces[0].event_count, 3); /* the first snapshot's own is one */
    vw__model_destroy(model);

    vw_test_must(vw_recorder_detach(r.recorder));
    assert_int_equal(vw_recorder_write(r.recorder, r.test.pool, path), VW_ERR_WRONG_STATE);
    assert_int_equal(count_files(folder), 1);
    unlink(path);
    snprintf(path, sizeof path, "%s/no/such.pickle", folder);
    assert_int_equal(vw_recorder_write(r.recorder, r.test.pool, path), VW_ERR_FILE);
    assert_non_null(strstr(vw_last_error(), "No such file"));
    rmdir(folder);
    vw_test_recorded_close(&r);
}

static void a_pipe_is_written_to_and_not_replaced(void **state)
{
    (void)state;
    char folder[] = "/tmp/vramwise-test-XXXXXX", path[64];
    static char bytes[1 << 16];
    vw_test_recorded r;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    vw_test_recorded_open_stacks(&r, VW_STACKS_NONE);
    vw_test_alloc(&r.test, 1000);
    vw_test_must(vw_recorder_write(r.recorder, r.test.pool, path));
    ssize_t size_bytes = read(reader, bytes, sizeof bytes);
    assert_true(size_bytes > 0);
    vw__model *model = vw_test_read_snapshot(bytes, (size_t)size_bytes);
    assert_int_equal(model->traces[0].event_count, 2);
    struct stat found;
    assert_int_equal(stat(path, &found), 0);
    assert_true(S_ISFIFO(found.st_mode));
    vw__model_destroy(model);
    close(reader);
    unlink(path);
    rmdir(folder);
    vw_test_recorded_close(&r);
}

static bool refuse(void *context, const void *bytes, size_t size_bytes)
{
    (void)bytes;
    (void)size_bytes;
    ++*(int *)context;
    return false;
}

static void an_output_that_refuses_ends_the_writing(void **state)
{
    (void)state;
    int calls = 0;
    vw_test_recorded r;
    vw_test_recorded_open_stacks(&r, VW_STACKS_NONE);
    assert_int_equal(vw_recorder_write_to(r.recorder, r.test.pool, refuse, &calls), VW_ERR_FILE);
    assert_int_equal(calls, 1);
    assert_int_equal(vw_recorder_write_fd(r.recorder, r.test.pool, -1), VW_ERR_FILE);
    vw_test_recorded_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_has_the_fields_of_the_pools_version),
        cmocka_unit_test(the_settings_in_force_are_written),
        cmocka_unit_test(the_engine_the_device_and_the_limit_of_the_pool_are_written),
        cmocka_unit_test(memory_that_left_and_came_back_is_annotated),
        cmocka_unit_test(of_moves_the_newest_are_kept_and_an_old_version_has_no_place_for_them),
        cmocka_unit_test(a_file_appears_whole_or_not_at_all),
        cmocka_unit_test(a_pipe_is_written_to_and_not_replaced),
        cmocka_unit_test(an_output_that_refuses_ends_the_writing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
