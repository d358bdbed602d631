/* test_player.c - each kind of operation becomes the call it stands for. */
#include "analysis/player.h"

#include <string.h>

#include "support/cmocka_here.h"
#include "support/hand_made_script.h"
#include "support/host_memory_sweep.h"

enum { MOST_SEEN = 256 };

typedef struct listener {
    vw_memory_event seen[MOST_SEEN];
    size_t count;
} listener;

static void listen(void *context, const vw_memory_event *event)
{
    listener *self = context;
    if (self->count < MOST_SEEN)
        self->seen[self->count++] = *event;
}

typedef struct fixture {
    hand_made_script hand;
    vw__player player;
    listener listener;
    vw_event_sink sink;
    size_t stopped;
} fixture;

static fixture the_fixture; /* large, and one at a time */

static fixture *begin(void)
{
    fixture *self = &the_fixture;
    memset(self, 0, sizeof *self);
    hand_begin(&self->hand);
    self->sink = (vw_event_sink){&self->listener, listen};
    return self;
}

static void start_with(fixture *self, const bool *is_unsplit, bool trims_alone)
{
    const vw__player_options options = {
        .torch_version = "2.11",
        .conf = "",
        .capacity_bytes = UINT64_MAX,
        .fraction = 1.0,
        .sink = &self->sink,
        .is_unsplit = is_unsplit,
        .trims_alone = trims_alone,
    };
    assert_int_equal(vw__player_init(&self->player, &self->hand.script, &options), VW_OK);
}

static void start_on(fixture *self, uint64_t capacity_bytes, const char *conf)
{
    const vw__player_options options = {
        .torch_version = "2.11",
        .conf = conf,
        .capacity_bytes = capacity_bytes,
        .fraction = 1.0,
        .sink = &self->sink,
    };
    assert_int_equal(vw__player_init(&self->player, &self->hand.script, &options), VW_OK);
}

static void start(fixture *self)
{
    start_on(self, UINT64_MAX, "");
}

static vw_status play(fixture *self)
{
    return vw__player_play(&self->player, 0, self->hand.script.op_count, &self->stopped);
}

static void end(fixture *self)
{
    assert_int_equal(vw_pool_check(self->player.pool), VW_OK);
    vw__player_deinit(&self->player);
}

static int64_t live_blocks(const fixture *self)
{
    vw_pool_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw_pool_get_stats(self->player.pool, &stats), VW_OK);
    return stats.allocation.all.current;
}

/* The actions the pool told of, one letter each: A alloc, r free_requested, c free_completed, S
 * segment_alloc, F segment_free, M and U map and unmap, P snapshot, O oom. */
static const char *actions(const fixture *self)
{
    static const char letters[] = {
        [VW_ACTION_ALLOC] = 'A',
        [VW_ACTION_FREE_REQUESTED] = 'r',
        [VW_ACTION_FREE_COMPLETED] = 'c',
        [VW_ACTION_SEGMENT_ALLOC] = 'S',
        [VW_ACTION_SEGMENT_FREE] = 'F',
        [VW_ACTION_SEGMENT_MAP] = 'M',
        [VW_ACTION_SEGMENT_UNMAP] = 'U',
        [VW_ACTION_SNAPSHOT] = 'P',
        [VW_ACTION_OOM] = 'O',
    };
    static char text[MOST_SEEN + 1];
    for (size_t i = 0; i < self->listener.count; i++)
        text[i] = letters[self->listener.seen[i].action];
    text[self->listener.count] = '\0';
    return text;
}

static void requests_and_frees_go_to_the_pool_in_order(void **state)
{
    (void)state;
    fixture *self = begin();
    hand_alloc(&self->hand, 0, 1000);
    hand_alloc(&self->hand, 1, 2000);
    hand_free(&self->hand, 0);
    start(self);
    assert_int_equal(play(self), VW_OK);
    assert_int_equal(self->stopped, 3);
    assert_string_equal(actions(self), "SAArc");
    assert_int_equal(self->listener.seen[1].size_bytes, 1000);
    assert_int_equal(self->listener.seen[2].size_bytes, 2000);
    assert_int_equal(live_blocks(self), 1);
    assert_int_equal(self->player.addresses[0], VW_NULL);
    assert_int_equal(self->player.addresses[1], self->listener.seen[2].address);
    end(self);
}

static void a_request_goes_to_the_stream_of_the_recording(void **state)
{
    (void)state;
    fixture *self = begin();
    hand_alloc_on(&self->hand, 0, 1000, 2);
    start(self);
    assert_int_equal(play(self), VW_OK);
    assert_int_equal(self->listener.seen[1].stream, self->hand.streams[2]);
    end(self);
}

static void a_late_free_holds_its_block_until_it_is_complete(void **state)
{
    (void)state;
    fixture *self = begin();
    hand_alloc(&self->hand, 0, 1000);
    hand_free_later(&self->hand, 0, 0);
    hand_alloc(&self->hand, 1, 1000);
    hand_complete(&self->hand, 0);
    hand_alloc(&self->hand, 2, 1000);
    start(self);
    assert_int_equal(play(self), VW_OK);
    assert_string_equal(actions(self), "SArAcA");
    uint64_t first = self->listener.seen[1].address;
    assert_int_not_equal(self->listener.seen[3].address, first);
    assert_int_equal(self->listener.seen[5].address, first);
    end(self);
}

static void late_frees_complete_in_the_order_of_the_script(void **state)
{
    (void)state;
    fixture *self = begin();
    for (uint32_t i = 0; i < 3; i++)
        hand_alloc(&self->hand, i, 1000);
    for (uint32_t i = 0; i < 3; i++)
        hand_free_later(&self->hand, i, i);
    hand_complete(&self->hand, 1);
    hand_complete(&self->hand, 2);
    hand_complete(&self->hand, 0);
    start(self);
    assert_int_equal(play(self), VW_OK);
    assert_string_equal(actions(self), "SAAArrrccc");
    assert_int_equal(self->listener.seen[7].address, self->listener.seen[2].address);
    assert_int_equal(self->listener.seen[8].address, self->listener.seen[3].address);
    assert_int_equal(self->listener.seen[9].address, self->listener.seen[1].address);
    end(self);
}

static void streams_of_finished_users_are_used_again(void **state)
{
    (void)state;
    fixture *self = begin();
    for (uint32_t user = 0; user < HAND_MOST_SLOTS; user += 2) {
        hand_alloc(&self->hand, 0, 1000);
        hand_alloc(&self->hand, 1, 1000);
        hand_free_later(&self->hand, 0, user);
        hand_free_later(&self->hand, 1, user + 1);
        hand_complete(&self->hand, user + 1);
        hand_complete(&self->hand, user);
    }
    start(self);
    assert_int_equal(play(self), VW_OK);
    assert_int_equal(self->player.stream_count, 2);
    assert_int_equal(live_blocks(self), 0);
    end(self);
}

static void a_free_that_completed_by_a_retry_may_be_completed_again(void **state)
{
    (void)state;
    fixture *self = begin();
    hand_alloc(&self->hand, 0, 20 * MIB);
    hand_free_later(&self->hand, 0, 0);
    hand_alloc(&self->hand, 1, 20 * MIB); /* fits only if the first is waited for */
    hand_complete(&self->hand, 0);
    start_on(self, 30 * MIB, "");
    assert_int_equal(play(self), VW_OK);
    assert_string_equal(actions(self), "SArcFSA");
    end(self);
}

static void playing_stops_before_the_request_that_finds_no_room(void **state)
{
    (void)state;
    fixture *self = begin();
    hand_alloc(&self->hand, 0, 20 * MIB);
    hand_alloc(&self->hand, 1, 40 * MIB);
    hand_free(&self->hand, 0);
    start_on(self, 30 * MIB, "");
    assert_int_equal(play(self), VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(self->stopped, 1);
    assert_int_equal(self->player.addresses[1], VW_NULL);
    assert_string_equal(actions(self), "SAO");
    /* Played on behind it, the rest is as recorded. */
    assert_int_equal(vw__player_play(&self->player, 2, 3, &self->stopped), VW_OK);
    assert_int_equal(self->stopped, 3);
    assert_int_equal(live_blocks(self), 0);
    end(self);
}

static void a_request_that_failed_before_is_freed_at_once_where_it_is_served(void **state)
{
    (void)state;
    fixture *self = begin();
    hand_oom(&self->hand, 40 * MIB);
    start_on(self, 80 * MIB, "");
    assert_int_equal(play(self), VW_OK);
    assert_string_equal(actions(self), "SArc");
    assert_int_equal(self->player.served_oom_count, 1);
    end(self);

    self->listener.count = 0;
    start_on(self, 30 * MIB, "");
    assert_int_equal(play(self), VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(self->stopped, 0);
    assert_int_equal(self->player.served_oom_count, 0);
    end(self);
}

static void empty_cache_gives_idle_segments_back(void **state)
{
    (void)state;
    fixture *self = begin();
    hand_alloc(&self->hand, 0, 20 * MIB);
    hand_free(&self->hand, 0);
    hand_add(&self->hand, VW__SCRIPT_TRIM, 1);
    start(self);
    assert_int_equal(play(self), VW_OK);
    assert_string_equal(actions(self), "SArcF");
    end(self);
}

static void a_snapshot_is_told_only_where_somebody_listens(void **state)
{
    (void)state;
    fixture *self = begin();
    hand_add(&self->hand, VW__SCRIPT_SNAPSHOT, 1);
    start(self);
    assert_int_equal(play(self), VW_OK);
    assert_string_equal(actions(self), "P");
    end(self);
    const vw__player_options deaf = {
        .torch_version = "2.11", .capacity_bytes = UINT64_MAX, .fraction = 1.0};
    assert_int_equal(vw__player_init(&self->player, &self->hand.script, &deaf), VW_OK);
    assert_int_equal(play(self), VW_OK);
    end(self);
}

static void a_scope_routes_requests_until_the_next(void **state)
{
    (void)state;
    fixture *self = begin();
    hand_alloc(&self->hand, 0, 1000);
    hand_scope(&self->hand, 1);
    hand_alloc(&self->hand, 1, 1000);
    hand_scope(&self->hand, 2);
    hand_alloc(&self->hand, 2, 1000);
    hand_scope(&self->hand, 1);
    hand_alloc(&self->hand, 3, 1000);
    hand_scope(&self->hand, 0);
    hand_alloc(&self->hand, 4, 1000);
    start(self);
    assert_int_equal(play(self), VW_OK);
    assert_string_equal(actions(self), "SASASAAA");
    static const size_t alloc_at[] = {1, 3, 5, 6, 7};
    static const uint64_t pool_of[] = {0, 1, 2, 1, 0};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(self->listener.seen[alloc_at[i]].private_id.second, pool_of[i]);
    end(self);
}

static void a_released_pool_gives_its_memory_back_with_the_next_empty_cache(void **state)
{
    (void)state;
    fixture *self = begin();
    hand_scope(&self->hand, 1);
    hand_alloc(&self->hand, 0, 1000);
    hand_scope(&self->hand, 0);
    hand_scope(&self->hand, 1);
    hand_free(&self->hand, 0);
    hand_add(&self->hand, VW__SCRIPT_TRIM, 0);
    hand_release(&self->hand, 1); /* while it is the scope */
    hand_add(&self->hand, VW__SCRIPT_TRIM, 1);
    hand_release(&self->hand, 1); /* long gone */
    start(self);
    assert_int_equal(play(self), VW_OK);
    assert_string_equal(actions(self), "SArcF");
    assert_int_equal(self->player.scope, 0);
    end(self);
}

static void a_trim_of_one_pool_leaves_the_others_alone_if_told_to(void **state)
{
    (void)state;
    for (int alone = 0; alone <= 1; alone++) {
        fixture *self = begin();
        hand_alloc(&self->hand, 0, 1000);
        hand_scope(&self->hand, 1);
        hand_alloc(&self->hand, 1, 1000);
        hand_scope(&self->hand, 0);
        hand_free(&self->hand, 0);
        hand_free(&self->hand, 1);
        hand_release(&self->hand, 1);
        hand_add(&self->hand, VW__SCRIPT_TRIM, 1)->pool = 1;
        start_with(self, NULL, alone == 1);
        assert_int_equal(play(self), VW_OK);
        assert_string_equal(actions(self), alone == 1 ? "SASArcrcF" : "SASArcrcFF");
        end(self);
    }
}

/* The second trim is a MemPool's end. */
static void calls_of_empty_cache_are_left_out_if_told_to_and_the_end_of_a_pool_is_not(void **state)
{
    (void)state;
    for (int skips = 0; skips <= 1; skips++) {
        fixture *self = begin();
        const vw__player_options options = {
            .torch_version = "2.11",
            .conf = "",
            .capacity_bytes = UINT64_MAX,
            .fraction = 1.0,
            .sink = &self->sink,
            .skips_empty_cache = skips == 1,
        };
        hand_alloc(&self->hand, 0, 1000);
        hand_free(&self->hand, 0);
        hand_add(&self->hand, VW__SCRIPT_TRIM, 1);
        hand_alloc(&self->hand, 0, 1000);
        hand_scope(&self->hand, 1);
        hand_alloc(&self->hand, 1, 1000);
        hand_scope(&self->hand, 0);
        hand_free(&self->hand, 1);
        hand_release(&self->hand, 1);
        hand_free(&self->hand, 0);
        hand_add(&self->hand, VW__SCRIPT_TRIM, 1)->pool = 1;
        assert_int_equal(vw__player_init(&self->player, &self->hand.script, &options), VW_OK);
        assert_int_equal(play(self), VW_OK);
        assert_string_equal(actions(self), skips == 1 ? "SArcASArcrcF" : "SArcFSASArcrcFF");
        if (skips == 1) { /* one that is not in the script is made */
            assert_int_equal(vw__player_trim(&self->player), VW_OK);
            assert_string_equal(actions(self), "SArcASArcrcFF");
        }
        end(self);
    }
}

static void blocks_of_an_unsplit_pool_have_segments_of_their_own(void **state)
{
    (void)state;
    static const bool is_unsplit[HAND_POOLS] = {false, true, false};
    for (int unsplit = 0; unsplit <= 1; unsplit++) {
        fixture *self = begin();
        hand_scope(&self->hand, 1);
        hand_alloc(&self->hand, 0, 1000);
        hand_alloc(&self->hand, 1, 1000);
        start_with(self, unsplit == 1 ? is_unsplit : NULL, false);
        assert_int_equal(play(self), VW_OK);
        assert_string_equal(actions(self), unsplit == 1 ? "SASA" : "SAA");
        end(self);
    }
}

static void nothing_is_allocated_for_a_request_of_zero_bytes(void **state)
{
    (void)state;
    fixture *self = begin();
    hand_alloc(&self->hand, 0, 0);
    hand_alloc(&self->hand, 1, 0);
    hand_free(&self->hand, 0);
    hand_free_later(&self->hand, 1, 0);
    hand_complete(&self->hand, 0);
    start(self);
    assert_int_equal(play(self), VW_OK);
    assert_string_equal(actions(self), "");
    end(self);
}

static void sizes_that_no_device_has_are_refused_in_words(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {UINT64_C(1) << 60, UINT64_MAX, UINT64_MAX - 511};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        fixture *self = begin();
        hand_alloc(&self->hand, 0, sizes[i]);
        start(self);
        assert_int_equal(play(self), VW_ERR_TOO_LARGE);
        assert_int_equal(self->stopped, 0);
        end(self);
    }
    static const char *const confs[] = {"", "expandable_segments:True",
                                        "roundup_power2_divisions:4"};
    for (size_t i = 0; i < sizeof confs / sizeof confs[0]; i++) {
        fixture *self = begin();
        hand_alloc(&self->hand, 0, (UINT64_C(1) << 60) - 1);
        start_on(self, UINT64_MAX, confs[i]);
        assert_int_equal(play(self), VW_ERR_OUT_OF_MEMORY);
        end(self);
    }
}

static void the_longest_stall_is_the_dearest_operation_with_all_its_calls(void **state)
{
    (void)state;
    fixture *self = begin();
    hand_alloc(&self->hand, 0, 1024 * MIB);
    hand_free(&self->hand, 0);
    start(self);
    assert_int_equal(play(self), VW_OK);
    uint64_t take_ns = self->player.longest_stall_ns;
    assert_int_equal(take_ns, 45000 + 140000);
    assert_int_equal(vw__player_trim(&self->player), VW_OK);
    assert_int_equal(self->player.longest_stall_ns, 38000 + 560000);
    end(self);
}

static void an_endless_card_takes_more_than_any_card_has(void **state)
{
    (void)state;
    static const char *const confs[] = {"", "expandable_segments:True"};
    for (size_t i = 0; i < 2; i++) {
        fixture *self = begin();
        for (uint32_t slot = 0; slot < 20; slot++)
            hand_alloc(&self->hand, slot, 400 * 1024 * MIB);
        start_on(self, UINT64_MAX, confs[i]);
        assert_int_equal(play(self), VW_OK);
        assert_int_equal(live_blocks(self), 20);
        end(self);
    }
}

/* Is work that was queued on a stream of the script before the first operation done by then? */
static bool is_done_after(const char *engine, size_t op_count)
{
    fixture *self = begin();
    vw_device_event event = 0;
    size_t stopped = 0;
    const vw__player_options options = {.engine = engine,
                                        .torch_version = "2.11",
                                        .conf = "",
                                        .capacity_bytes = UINT64_MAX,
                                        .fraction = 1.0};
    for (size_t i = 0; i < VW__PLAYER_LAG_OPS; i++) {
        hand_alloc_on(&self->hand, 0, 1000, 1);
        hand_free(&self->hand, 0);
    }
    assert_int_equal(vw__player_init(&self->player, &self->hand.script, &options), VW_OK);
    const vw_device *device = self->player.device;
    assert_int_equal(device->table->event_create(device->context, &event), VW_OK);
    assert_int_equal(
        device->table->event_record(device->context, event, self->hand.model.streams[1]), VW_OK);
    for (size_t i = 0; i < op_count; i = stopped) /* in parts: the count goes on */
        assert_int_equal(
            vw__player_play(&self->player, i, i + 100 < op_count ? i + 100 : op_count, &stopped),
            VW_OK);
    assert_int_equal(stopped, op_count);
    vw_status status = device->table->event_query(device->context, event);
    assert_int_equal(device->table->event_destroy(device->context, event), VW_OK);
    end(self);
    return status == VW_OK;
}

static void the_device_lags_behind_engine_vramwise_by_so_many_operations(void **state)
{
    (void)state;
    assert_false(is_done_after("vramwise", VW__PLAYER_LAG_OPS - 1));
    assert_true(is_done_after("vramwise", VW__PLAYER_LAG_OPS));
    assert_true(is_done_after("vramwise:tight", 2 * VW__PLAYER_LAG_OPS - 1));
    assert_false(is_done_after("torch", 2 * VW__PLAYER_LAG_OPS));
    assert_false(is_done_after(NULL, 2 * VW__PLAYER_LAG_OPS));
}

static void what_cannot_be_played_is_refused_at_the_beginning(void **state)
{
    (void)state;
    fixture *self = begin();
    vw__player_options options = {.torch_version = "2.11", .capacity_bytes = 1, .fraction = 1.0};
    options.conf = "no_such_option:1";
    assert_int_equal(vw__player_init(&self->player, &self->hand.script, &options),
                     VW_ERR_BAD_SETTING);
    options.conf = "";
    options.torch_version = "1.14";
    assert_int_equal(vw__player_init(&self->player, &self->hand.script, &options),
                     VW_ERR_INVALID_ARGUMENT);
    options.torch_version = "2.11";
    options.engine = "vramwise:loose";
    assert_int_equal(vw__player_init(&self->player, &self->hand.script, &options),
                     VW_ERR_INVALID_ARGUMENT);
    options.engine = NULL;
    options.capacity_bytes = 0;
    assert_int_equal(vw__player_init(&self->player, &self->hand.script, &options),
                     VW_ERR_INVALID_ARGUMENT);
    vw__player_deinit(&self->player); /* does nothing */
}

static bool play_everything(void *context)
{
    fixture *self = context;
    const vw__player_options options = {.torch_version = "2.11",
                                        .conf = "expandable_segments:True",
                                        .capacity_bytes = UINT64_MAX,
                                        .fraction = 1.0};
    if (vw__player_init(&self->player, &self->hand.script, &options) != VW_OK)
        return false;
    bool is_played = play(self) == VW_OK;
    vw__player_deinit(&self->player);
    return is_played;
}

static void running_out_of_host_memory_anywhere_leaves_nothing_behind(void **state)
{
    (void)state;
    fixture *self = begin();
    hand_alloc(&self->hand, 0, 1000);
    hand_alloc(&self->hand, 1, 20 * MIB);
    hand_free_later(&self->hand, 0, 0);
    hand_scope(&self->hand, 1);
    hand_alloc(&self->hand, 2, 1000);
    hand_scope(&self->hand, 0);
    hand_complete(&self->hand, 0);
    hand_free(&self->hand, 1);
    hand_add(&self->hand, VW__SCRIPT_TRIM, 1);
    vw_test_sweep_host_memory(play_everything, self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_and_frees_go_to_the_pool_in_order),
        cmocka_unit_test(a_request_goes_to_the_stream_of_the_recording),
        cmocka_unit_test(a_late_free_holds_its_block_until_it_is_complete),
        cmocka_unit_test(late_frees_complete_in_the_order_of_the_script),
        cmocka_unit_test(streams_of_finished_users_are_used_again),
        cmocka_unit_test(a_free_that_completed_by_a_retry_may_be_completed_again),
        cmocka_unit_test(playing_stops_before_the_request_that_finds_no_room),
        cmocka_unit_test(a_request_that_failed_before_is_freed_at_once_where_it_is_served),
        cmocka_unit_test(empty_cache_gives_idle_segments_back),
        cmocka_unit_test(a_snapshot_is_told_only_where_somebody_listens),
        cmocka_unit_test(a_scope_routes_requests_until_the_next),
        cmocka_unit_test(a_released_pool_gives_its_memory_back_with_the_next_empty_cache),
        cmocka_unit_test(a_trim_of_one_pool_leaves_the_others_alone_if_told_to),
        cmocka_unit_test(calls_of_empty_cache_are_left_out_if_told_to_and_the_end_of_a_pool_is_not),
        cmocka_unit_test(blocks_of_an_unsplit_pool_have_segments_of_their_own),
        cmocka_unit_test(nothing_is_allocated_for_a_request_of_zero_bytes),
        cmocka_unit_test(sizes_that_no_device_has_are_refused_in_words),
        cmocka_unit_test(the_longest_stall_is_the_dearest_operation_with_all_its_calls),
        cmocka_unit_test(an_endless_card_takes_more_than_any_card_has),
        cmocka_unit_test(the_device_lags_behind_engine_vramwise_by_so_many_operations),
        cmocka_unit_test(what_cannot_be_played_is_refused_at_the_beginning),
        cmocka_unit_test(running_out_of_host_memory_anywhere_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
