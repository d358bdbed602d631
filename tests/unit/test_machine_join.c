/* test_machine_join.c - which GPU a job's device is, by each kind of evidence. */
#include "watch/machine_join.h"

#include <string.h>

#include "support/cmocka_here.h"
#include "support/made_up_machine.h"

enum { MOST_ROWS = 16 };

/* Two GPUs and one job with one device; tests change what they are about. */
typedef struct made_scene {
    vw_gpu gpus[2];
    vw_job_device devices[2];
    vw_job job;
    vw_jobs jobs;
    vw__watch_job_environment environment;
    vw__watch_gpu_process processes[4];
    vw__watch_machine_parts parts;
    vw_machine_row rows[MOST_ROWS];
    size_t row_count;
} made_scene;

static void set_scene(made_scene *scene)
{
    *scene = (made_scene){.environment = {.is_known = true}};
    scene->gpus[0] = made_up_gpu(0, "H200");
    scene->gpus[1] = made_up_gpu(1, "H200");
    scene->devices[0] = made_up_device(0, "H200");
    scene->devices[1] = made_up_device(1, "H200");
    scene->job = made_up_job(17, "train.py", scene->devices, 1);
    scene->jobs = (vw_jobs){.jobs = &scene->job, .job_count = 1};
    scene->parts = (vw__watch_machine_parts){
        .gpus = scene->gpus,
        .gpu_count = 2,
        .numbered_count = 2,
        .processes = scene->processes,
        .jobs = &scene->jobs,
        .environments = &scene->environment,
    };
}

static void see_process(made_scene *scene, size_t gpu, long process, uint64_t used_bytes)
{
    scene->processes[scene->parts.process_count++] =
        (vw__watch_gpu_process){.gpu = gpu, .process = process, .used_bytes = used_bytes, "other"};
}

static void join(made_scene *scene)
{
    assert_true(vw__watch_machine_most_rows(&scene->parts) <= MOST_ROWS);
    scene->row_count = vw__watch_machine_join(&scene->parts, scene->rows);
    assert_true(scene->row_count <= vw__watch_machine_most_rows(&scene->parts));
}

static void set_visible(made_scene *scene, const char *visible)
{
    scene->environment.has_visible = true;
    snprintf(scene->environment.visible, sizeof scene->environment.visible, "%s", visible);
}

/* The GPU of the scene's one row; -1: none is known. */
static int joined_gpu(made_scene *scene)
{
    join(scene);
    assert_int_equal(scene->row_count, 1);
    const vw_machine_row *row = &scene->rows[0];
    assert_int_equal(row->place, row->gpu != NULL ? VW_ROW_ON_GPU : VW_ROW_ON_UNKNOWN_GPU);
    return row->gpu != NULL ? row->gpu->index : -1;
}

static void a_job_with_one_device_is_where_the_driver_lists_it(void **state)
{
    made_scene scene;
    (void)state;
    set_scene(&scene);
    set_visible(&scene, "0"); /* as it was started with; the program changed it */
    see_process(&scene, 1, 17, 500);
    assert_int_equal(joined_gpu(&scene), 1);
    assert_int_equal(scene.rows[0].process_bytes, 500);
    assert_string_equal(scene.rows[0].command, "train.py");
}

static void without_the_variable_devices_count_as_gpus_do(void **state)
{
    made_scene scene;
    (void)state;
    set_scene(&scene);
    scene.devices[0].index = 1;
    assert_int_equal(joined_gpu(&scene), 1);
    scene.devices[0].index = 7;
    assert_int_equal(joined_gpu(&scene), -1);
    scene.devices[0].index = -1;
    assert_int_equal(joined_gpu(&scene), -1);
}

static void the_variable_names_gpus_by_number_and_by_uuid(void **state)
{
    static const struct {
        const char *visible;
        int index, gpu;
    } cases[] = {
        {"1", 0, 1},           {"1,0", 0, 1},   {"1,0", 1, 0},      {"GPU-11", 0, 1},
        {"GPU-1", 0, 1},       {"GPU-", 0, -1}, {"GPU-99", 0, -1},  {"0,GPU-11", 1, 1},
        {"1", 1, -1},          {"", 0, -1},     {"-1", 0, -1},      {"MIG-1", 0, -1},
        {"NoDevFiles", 0, -1}, {"1x,0", 0, -1}, {"GPU-11,1", 0, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        made_scene scene;
        set_scene(&scene);
        set_visible(&scene, cases[i].visible);
        scene.devices[0].index = cases[i].index;
        assert_int_equal(joined_gpu(&scene), cases[i].gpu);
    }
}

static void numbers_mean_nothing_where_the_orders_may_differ(void **state)
{
    made_scene scene;
    (void)state;
    set_scene(&scene);
    scene.gpus[0] = made_up_gpu(0, "T4");
    scene.devices[0].name[0] = '\0';
    assert_int_equal(joined_gpu(&scene), -1);
    scene.environment.is_by_bus = true;
    assert_int_equal(joined_gpu(&scene), 0);
    scene.parts.numbered_count = 0; /* AMD's */
    assert_int_equal(joined_gpu(&scene), -1);
}

static void the_only_gpu_of_that_name_is_it_whatever_the_environment(void **state)
{
    made_scene scene;
    (void)state;
    set_scene(&scene);
    scene.environment.is_known = false;
    assert_int_equal(joined_gpu(&scene), -1);
    scene.gpus[0] = made_up_gpu(0, "T4");
    assert_int_equal(joined_gpu(&scene), 1);
}

static void a_part_of_a_gpu_is_on_that_gpu_and_a_longer_name_is_another(void **state)
{
    made_scene scene;
    (void)state;
    set_scene(&scene);
    see_process(&scene, 1, 17, 500);
    scene.devices[0] = made_up_device(0, "H200 MIG 1g.5gb");
    assert_int_equal(joined_gpu(&scene), 1);
    scene.devices[0] = made_up_device(0, "H200 Ti");
    join(&scene);
    assert_int_equal(scene.rows[1].place, VW_ROW_ON_UNKNOWN_GPU);
}

static void a_gpu_of_another_name_is_never_it(void **state)
{
    made_scene scene;
    (void)state;
    set_scene(&scene);
    see_process(&scene, 1, 17, 500);
    scene.gpus[1] = made_up_gpu(1, "T4");
    join(&scene);
    assert_int_equal(scene.row_count, 2);
    assert_null(scene.rows[0].device); /* the process, where the driver lists it */
    assert_ptr_equal(scene.rows[0].job, &scene.job);
    assert_int_equal(scene.rows[1].place, VW_ROW_ON_UNKNOWN_GPU);
}

static void stand_ins_are_on_no_gpu(void **state)
{
    static const char *const names[] = {"simulated", "host"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        made_scene scene;
        set_scene(&scene);
        scene.devices[0] = made_up_device(0, names[i]);
        join(&scene);
        assert_int_equal(scene.row_count, 1);
        assert_int_equal(scene.rows[0].place, VW_ROW_ON_NO_GPU);
    }
}

static void a_job_of_two_devices_has_a_row_on_each_with_its_own_bytes(void **state)
{
    made_scene scene;
    (void)state;
    set_scene(&scene);
    scene.job.device_count = 2;
    see_process(&scene, 0, 17, 100);
    see_process(&scene, 1, 17, 200);
    join(&scene);
    assert_int_equal(scene.row_count, 2);
    assert_int_equal(scene.rows[0].gpu->index, 0);
    assert_int_equal(scene.rows[0].process_bytes, 100);
    assert_int_equal(scene.rows[1].gpu->index, 1);
    assert_int_equal(scene.rows[1].process_bytes, 200);
    assert_int_equal(scene.rows[1].device->index, 1);
}

/* As after os.environ["CUDA_VISIBLE_DEVICES"] = "1" in a job that has two contexts. */
static void a_gpu_without_the_process_is_not_it_whatever_the_environment(void **state)
{
    made_scene scene;
    (void)state;
    set_scene(&scene);
    scene.job.device_count = 2;
    see_process(&scene, 1, 17, 200);
    join(&scene);
    assert_int_equal(scene.row_count, 2);
    assert_int_equal(scene.rows[0].device->index, 1);
    assert_int_equal(scene.rows[0].gpu->index, 1);
    assert_int_equal(scene.rows[1].device->index, 0);
    assert_int_equal(scene.rows[1].place, VW_ROW_ON_UNKNOWN_GPU);
}

static void a_job_that_tells_no_device_takes_the_row_of_its_process(void **state)
{
    made_scene scene;
    (void)state;
    set_scene(&scene);
    scene.job.device_count = 0;
    join(&scene);
    assert_int_equal(scene.row_count, 1);
    assert_int_equal(scene.rows[0].place, VW_ROW_ON_NO_GPU);
    see_process(&scene, 1, 17, 200);
    assert_int_equal(joined_gpu(&scene), 1);
    assert_null(scene.rows[0].device);
}

static void others_are_told_with_their_command_and_rows_go_by_gpu_and_process(void **state)
{
    made_scene scene;
    (void)state;
    set_scene(&scene);
    see_process(&scene, 1, 99, 5);
    see_process(&scene, 1, 3, VW_LIVE_UNKNOWN);
    see_process(&scene, 0, 50, 6);
    join(&scene);
    assert_int_equal(scene.row_count, 4);
    static const long order[] = {17, 50, 3, 99};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(scene.rows[i].process, order[i]);
    assert_null(scene.rows[1].job);
    assert_string_equal(scene.rows[1].command, "other");
    assert_true(scene.rows[2].process_bytes == VW_LIVE_UNKNOWN);
}

static void a_gpus_memory_is_split_among_jobs_and_the_rest(void **state)
{
    made_scene scene;
    (void)state;
    set_scene(&scene);
    scene.devices[0].values[VW_LIVE_LIVE_BYTES] = 200;
    scene.devices[0].values[VW_LIVE_RESERVED_BYTES] = 350;
    join(&scene);
    assert_int_equal(scene.gpus[0].job_live_bytes, 200);
    assert_int_equal(scene.gpus[0].job_idle_bytes, 150);
    assert_int_equal(scene.gpus[0].other_bytes, 250);
    assert_int_equal(scene.gpus[1].job_live_bytes, 0);
    assert_int_equal(scene.gpus[1].other_bytes, 600);
    scene.gpus[0].used_bytes = 100; /* told at another moment */
    join(&scene);
    assert_int_equal(scene.gpus[0].other_bytes, 0);
    scene.gpus[0].used_bytes = VW_LIVE_UNKNOWN;
    join(&scene);
    assert_true(scene.gpus[0].other_bytes == VW_LIVE_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_with_one_device_is_where_the_driver_lists_it),
        cmocka_unit_test(without_the_variable_devices_count_as_gpus_do),
        cmocka_unit_test(the_variable_names_gpus_by_number_and_by_uuid),
        cmocka_unit_test(numbers_mean_nothing_where_the_orders_may_differ),
        cmocka_unit_test(the_only_gpu_of_that_name_is_it_whatever_the_environment),
        cmocka_unit_test(a_part_of_a_gpu_is_on_that_gpu_and_a_longer_name_is_another),
        cmocka_unit_test(a_gpu_of_another_name_is_never_it),
        cmocka_unit_test(stand_ins_are_on_no_gpu),
        cmocka_unit_test(a_job_of_two_devices_has_a_row_on_each_with_its_own_bytes),
        cmocka_unit_test(a_gpu_without_the_process_is_not_it_whatever_the_environment),
        cmocka_unit_test(a_job_that_tells_no_device_takes_the_row_of_its_process),
        cmocka_unit_test(others_are_told_with_their_command_and_rows_go_by_gpu_and_process),
        cmocka_unit_test(a_gpus_memory_is_split_among_jobs_and_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
