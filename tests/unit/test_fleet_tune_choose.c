/* test_fleet_tune_choose.c - which of several settings is the best for many jobs. */
#include <stdio.h>
#include <string.h>

#include "base/host_memory.h"
#include "fleet/fleet_tune_parts.h"
#include "support/cmocka_here.h"

enum { MOST_LINES = 8, CARD = 3200 };

/* Rows: "" (the defaults), "a:1", "b:2,c:3", vramwise. */
enum { DEFAULTS, ONE, TWO, ENGINE, ROWS };

typedef struct made_up {
    vw__fleet_tune_result result;
    vw__fleet_tune_line lines[MOST_LINES];
    vw__tune_grid_cell cells[MOST_LINES][ROWS];
    char names[MOST_LINES][8];
} made_up;

static const vw__tune_grid_cell fails = {.peak_reserved_bytes = CARD};

static vw__tune_grid_cell takes(uint64_t bytes)
{
    return (vw__tune_grid_cell){.is_complete = true, .peak_reserved_bytes = bytes};
}

static void begin(made_up *at)
{
    static const char *const confs[ROWS] = {"", "a:1", "b:2,c:3", ""};
    static const char *const policies[ROWS] = {"native", "conf", "conf", "vramwise"};
    *at = (made_up){.result = {.lines = at->lines, .row_count = ROWS}};
    at->result.shown.card_bytes = CARD;
    vw__arena_init(&at->result.arena, VW__ARENA_NO_LIMIT);
    for (size_t i = 0; i < ROWS; i++) {
        at->result.rows[i].policy = policies[i];
        (void)snprintf(at->result.rows[i].conf, sizeof at->result.rows[i].conf, "%s", confs[i]);
    }
}

static void end(made_up *at)
{
    vw__arena_deinit(&at->result.arena);
}

/* A job, called by its number. */
static void add(made_up *at, const char *kind, vw__tune_grid_cell recorded,
                const vw__tune_grid_cell cells[ROWS])
{
    size_t place = at->result.line_count++;
    (void)snprintf(at->names[place], sizeof at->names[place], "job%zu", place);
    memcpy(at->cells[place], cells, sizeof at->cells[place]);
    at->lines[place] = (vw__fleet_tune_line){
        .shown = {.name = at->names[place], .is_possible = true, .kind = SIZE_MAX},
        .kind_name = kind,
        .recorded = recorded,
        .cells = at->cells[place]};
}

static const vw_fleet_tuning *choose(made_up *at)
{
    assert_int_equal(vw__fleet_tune_choose(&at->result), VW_OK);
    return &at->result.shown;
}

static void the_setting_with_which_most_jobs_fit_is_the_best(void **state)
{
    (void)state;
    made_up at;
    begin(&at);
    add(&at, "", takes(1000), (vw__tune_grid_cell[]){takes(1000), takes(3000), fails, fails});
    add(&at, "", fails, (vw__tune_grid_cell[]){fails, takes(3000), takes(1000), fails});
    const vw_fleet_tuning *found = choose(&at);
    assert_string_equal(found->best->conf, "a:1");
    assert_int_equal(found->best->fit_count, 2);
    assert_int_equal(found->best->gained_count, 1);
    assert_true(found->best->saved_bytes == -2000); /* of the job that fits with both */
    assert_int_equal(found->recorded.fit_count, 1);
    assert_false(found->is_recorded_best);
    assert_int_equal(found->kind_count, 1);
    assert_int_equal(found->settings[0].fit_count, 2);
    end(&at);
}

static void of_as_many_the_one_that_breaks_the_fewest_is_better(void **state)
{
    (void)state;
    made_up at;
    begin(&at);
    add(&at, "", takes(3000), (vw__tune_grid_cell[]){fails, takes(3000), fails, fails});
    add(&at, "", fails, (vw__tune_grid_cell[]){takes(100), fails, fails, fails});
    const vw_fleet_tuning *found = choose(&at);
    assert_string_equal(found->best->conf, "a:1");
    assert_int_equal(found->best->lost_count, 0);
    assert_string_equal(found->settings[1].policy, "native");
    assert_int_equal(found->settings[1].lost_count, 1);
    end(&at);
}

static void every_option_must_pay_for_itself(void **state)
{
    (void)state;
    made_up at;
    begin(&at); /* an option is worth a 32nd of the card: 100 */
    add(&at, "", takes(1000), (vw__tune_grid_cell[]){takes(1000), takes(901), takes(802), fails});
    const vw_fleet_tuning *found = choose(&at);
    assert_string_equal(found->best->policy, "native");
    assert_true(found->is_recorded_best);
    end(&at);
    begin(&at);
    add(&at, "", takes(1000), (vw__tune_grid_cell[]){takes(1000), takes(899), takes(800), fails});
    found = choose(&at);
    assert_string_equal(found->best->conf, "a:1");
    assert_false(found->is_recorded_best);
    assert_true(found->best->saved_bytes == 101);
    end(&at);
}

static void a_job_that_retries_or_is_slow_counts_as_the_whole_card(void **state)
{
    (void)state;
    static const vw__tune_grid_cell costly[] = {
        {.is_complete = true, .peak_reserved_bytes = 100, .retries = 1},
        {.is_complete = true, .peak_reserved_bytes = 100, .is_slow = true},
    };
    for (size_t i = 0; i < 2; i++) {
        made_up at;
        begin(&at);
        add(&at, "", takes(2000), (vw__tune_grid_cell[]){takes(2000), costly[i], fails, fails});
        assert_string_equal(choose(&at)->best->policy, "native");
        end(&at);
        begin(&at); /* but it does not outweigh what the others save */
        add(&at, "", takes(2000), (vw__tune_grid_cell[]){takes(2000), costly[i], fails, fails});
        add(&at, "", takes(2000), (vw__tune_grid_cell[]){takes(2000), takes(300), fails, fails});
        assert_string_equal(choose(&at)->best->conf, "a:1");
        assert_int_equal(at.result.shown.best->retry_count, i == 0);
        end(&at);
    }
}

static void another_allocator_comes_behind_every_setting(void **state)
{
    (void)state;
    made_up at;
    begin(&at);
    add(&at, "", takes(2000), (vw__tune_grid_cell[]){takes(2000), fails, fails, takes(10)});
    add(&at, "", fails, (vw__tune_grid_cell[]){fails, fails, fails, takes(10)});
    const vw_fleet_tuning *found = choose(&at);
    assert_string_equal(found->best->policy, "native");
    assert_string_equal(found->settings[ROWS - 1].policy, "vramwise");
    assert_int_equal(found->kind_count, 2);
    assert_string_equal(found->kinds[1].best.policy, "vramwise");
    assert_string_equal(found->kinds[1].job, "job1");
    assert_int_equal(found->kinds_fit_count, 2);
    assert_string_equal(found->jobs[0].name, "job1"); /* the setting for all does not do */
    assert_true(found->jobs[0].fits && !found->jobs[0].fits_best);
    assert_int_equal(found->jobs[0].reserved_bytes, 10);
    end(&at);
}

static void jobs_that_do_not_fit_with_the_best_get_another(void **state)
{
    (void)state;
    made_up at;
    begin(&at);
    add(&at, "", fails, (vw__tune_grid_cell[]){takes(100), fails, fails, fails});
    add(&at, "", fails, (vw__tune_grid_cell[]){takes(100), fails, fails, fails});
    add(&at, "", fails, (vw__tune_grid_cell[]){fails, takes(100), takes(100), fails});
    add(&at, "", fails, (vw__tune_grid_cell[]){fails, fails, takes(100), fails});
    add(&at, "", fails, (vw__tune_grid_cell[]){fails, fails, fails, fails});
    const vw_fleet_tuning *found = choose(&at);
    assert_int_equal(found->kind_count, 2);
    assert_int_equal(found->kinds[0].best.fit_count, 2);
    assert_string_equal(found->kinds[1].best.conf,
                        found->kinds[0].best.conf[0] == '\0' ? "b:2,c:3" : "");
    assert_int_equal(found->kinds_fit_count, 4);
    assert_int_equal(found->stuck_count, 1);
    assert_string_equal(found->jobs[0].name, "job4");
    assert_true(found->jobs[0].kind == SIZE_MAX);
    end(&at);
}

static void kinds_that_are_named_get_their_own_setting(void **state)
{
    (void)state;
    made_up at;
    begin(&at);
    add(&at, "text", takes(900), (vw__tune_grid_cell[]){takes(900), takes(100), fails, fails});
    add(&at, "vision", takes(900), (vw__tune_grid_cell[]){takes(900), fails, takes(100), fails});
    add(&at, "text", takes(900), (vw__tune_grid_cell[]){takes(900), takes(100), fails, fails});
    add(&at, "huge", fails, (vw__tune_grid_cell[]){fails, fails, fails, fails});
    const vw_fleet_tuning *found = choose(&at);
    assert_string_equal(found->best->policy, "native");
    assert_int_equal(found->kind_count, 3);
    assert_string_equal(found->kinds[0].name, "huge");
    assert_null(found->kinds[0].best.policy);
    assert_string_equal(found->kinds[1].name, "text");
    assert_string_equal(found->kinds[1].best.conf, "a:1");
    assert_int_equal(found->kinds[1].best.job_count, 2);
    assert_string_equal(found->kinds[2].best.conf, "b:2,c:3");
    assert_int_equal(found->kinds_fit_count, 3);
    end(&at);
}

/* A setting of their own that nobody else would try. */
static void what_fits_only_as_recorded_is_not_called_unfit(void **state)
{
    (void)state;
    made_up at;
    begin(&at);
    add(&at, "", takes(100), (vw__tune_grid_cell[]){fails, fails, fails, fails});
    const vw_fleet_tuning *found = choose(&at);
    assert_null(found->best);
    assert_true(found->is_recorded_best);
    assert_int_equal(found->stuck_count, 0);
    assert_true(found->jobs[0].fits_recorded);
    assert_false(found->is_something_to_see);
    end(&at);
}

static void a_setting_that_a_version_refuses_is_counted(void **state)
{
    (void)state;
    const vw__tune_grid_cell refused = {.is_refused = true};
    made_up at;
    begin(&at);
    add(&at, "", takes(900), (vw__tune_grid_cell[]){takes(900), refused, takes(800), fails});
    const vw_fleet_tuning *found = choose(&at);
    for (size_t i = 0; i < found->setting_count; i++)
        assert_int_equal(found->settings[i].refused_count,
                         strcmp(found->settings[i].conf, "a:1") == 0);
    end(&at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_setting_with_which_most_jobs_fit_is_the_best),
        cmocka_unit_test(of_as_many_the_one_that_breaks_the_fewest_is_better),
        cmocka_unit_test(every_option_must_pay_for_itself),
        cmocka_unit_test(a_job_that_retries_or_is_slow_counts_as_the_whole_card),
        cmocka_unit_test(another_allocator_comes_behind_every_setting),
        cmocka_unit_test(jobs_that_do_not_fit_with_the_best_get_another),
        cmocka_unit_test(kinds_that_are_named_get_their_own_setting),
        cmocka_unit_test(what_fits_only_as_recorded_is_not_called_unfit),
        cmocka_unit_test(a_setting_that_a_version_refuses_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
