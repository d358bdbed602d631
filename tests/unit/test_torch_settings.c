/* test_torch_settings.c - the option string as PyTorch reads it, and one string after another. */
#include "engine/torch/torch_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/host_memory.h"
#include "support/cmocka_here.h"
#include "support/comma_locale.h"

#define MIB (UINT64_C(1) << 20)
#define LIKE_TORCH VW__TORCH_SETTINGS_LIKE_TORCH
#define STRICT VW__TORCH_SETTINGS_STRICT

static vw_status apply(vw__torch_settings *settings, int version, const char *text,
                       vw__torch_settings_mode mode)
{
    vw__torch_rules rules;
    assert_int_equal(vw__torch_rules_for(version, &rules), VW_OK);
    return vw__torch_settings_apply(settings, &rules, text, mode);
}

static vw__torch_settings with(int version, const char *text, vw__torch_settings_mode mode)
{
    vw__torch_settings settings;
    vw__torch_settings_init(&settings);
    if (apply(&settings, version, text, mode) != VW_OK)
        fail_msg("%s: %s", text, vw_last_error());
    return settings;
}

/* Applies a string that must be refused in exactly these words. */
static void refused(int version, const char *text, vw__torch_settings_mode mode, const char *words)
{
    vw__torch_settings settings;
    vw__torch_settings_init(&settings);
    if (apply(&settings, version, text, mode) == VW_OK)
        fail_msg("accepted: %s", text);
    assert_string_equal(vw_last_error(), words);
    assert_null(settings.raw);
}

static void accepted(int version, const char *text)
{
    vw__torch_settings settings = with(version, text, LIKE_TORCH);
    vw__torch_settings_deinit(&settings);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void defaults_are_pytorchs(void **state)
{
    (void)state;
    vw__torch_settings settings = with(211, "", LIKE_TORCH);
    assert_int_equal(settings.max_split_size_bytes, UINT64_MAX);
    assert_int_equal(settings.max_non_split_rounding_bytes, 20 * MIB);
    assert_int_equal(settings.large_segment_size_bytes, 20 * MIB);
    assert_true(settings.garbage_collection_threshold == 0);
    assert_true(settings.per_process_memory_fraction == 1.0);
    assert_int_equal(settings.pinned_register_thread_count, 1);
    assert_int_equal(settings.pinned_max_cached_bytes, UINT64_MAX);
    assert_int_equal(settings.pinned_max_round_threshold_bytes, UINT64_MAX);
    assert_false(settings.is_expandable);
    assert_false(settings.has_roundup);
    assert_string_equal(settings.raw, "");
    assert_string_equal(settings.warnings, "");
    vw__torch_settings_deinit(&settings);
    assert_null(settings.raw);
}

static const char every_key[] =
    "large_segment_size_mb:32,max_split_size_mb:256,max_non_split_rounding_mb:64,"
    "garbage_collection_threshold:0.6,roundup_power2_divisions:4,expandable_segments:True,"
    "pinned_use_background_threads:True,pinned_max_round_threshold_mb:7,"
    "pinned_max_cached_size_mb:9,backend:native,release_lock_on_cudamalloc:True,"
    "pinned_use_cuda_host_register:True,pinned_num_register_threads:8,"
    "pinned_reserve_segment_size_mb:3,graph_capture_record_stream_reuse:True,"
    "per_process_memory_fraction:0.5,pinned_free_catch_all:True,throw_on_cudamalloc_oom:True,"
    "expandable_segments_reserve:0.5,expandable_segments_reserve_by_class:[a:0.25,b:8G]";

static void every_key_sets_its_value_in_both_modes(void **state)
{
    (void)state;
    for (int mode = LIKE_TORCH; mode <= STRICT; mode++) {
        vw__torch_settings s = with(215, every_key, (vw__torch_settings_mode)mode);
        assert_int_equal(s.large_segment_size_bytes, 32 * MIB);
        assert_int_equal(s.max_split_size_bytes, 256 * MIB);
        assert_int_equal(s.max_non_split_rounding_bytes, 64 * MIB);
        assert_true(s.garbage_collection_threshold == 0.6);
        for (size_t i = 0; i < VW__TORCH_ROUNDUP_ENTRIES; i++)
            assert_int_equal(s.roundup_divisions[i], 4);
        assert_true(s.has_roundup && s.is_expandable && s.pinned_use_background_threads);
        assert_int_equal(s.pinned_max_round_threshold_bytes, 7 * MIB);
        assert_int_equal(s.pinned_max_cached_bytes, 9 * MIB);
        assert_int_equal(s.backend, VW__TORCH_BACKEND_NATIVE);
        assert_true(s.release_lock_on_device_malloc && s.pinned_use_host_register);
        assert_int_equal(s.pinned_register_thread_count, 8);
        assert_int_equal(s.pinned_reserve_segment_bytes, 3 * MIB);
        assert_true(s.graph_capture_record_stream_reuse && s.pinned_free_catch_all);
        assert_true(s.per_process_memory_fraction == 0.5 && s.throw_on_device_oom);
        assert_string_equal(s.expandable_reserve, "0.5");
        assert_string_equal(s.expandable_reserve_by_class, "[a:0.25,b:8G]");
        assert_string_equal(s.raw, every_key);
        assert_string_equal(s.warnings, "");
        vw__torch_settings_deinit(&s);
    }
}

static void settings_have_points_in_every_locale(void **state)
{
    (void)state;
    comma_locale_enter();
    every_key_sets_its_value_in_both_modes(state);
    comma_locale_leave();
}

static void the_hip_spellings_set_the_same_values(void **state)
{
    (void)state;
    vw__torch_settings settings =
        with(211, "release_lock_on_hipmalloc:True,pinned_use_hip_host_register:True", LIKE_TORCH);
    assert_true(settings.release_lock_on_device_malloc && settings.pinned_use_host_register);
    vw__torch_settings_deinit(&settings);
}

static void each_key_is_unknown_before_its_release(void **state)
{
    (void)state;
    const struct {
        int first_version;
        const char *pair;
    } keys[] = {
        {110, "max_split_size_mb:100"},
        {112, "garbage_collection_threshold:0.5"},
        {112, "roundup_power2_divisions:4"},
        {113, "roundup_bypass_threshold_mb:100"},
        {200, "backend:native"},
        {201, "expandable_segments:True"},
        {201, "release_lock_on_cudamalloc:True"},
        {202, "pinned_use_cuda_host_register:True"},
        {202, "pinned_num_register_threads:2"},
        {206, "max_non_split_rounding_mb:30"},
        {206, "pinned_use_background_threads:True"},
        {209, "graph_capture_record_stream_reuse:True"},
        {210, "pinned_reserve_segment_size_mb:1"},
        {210, "per_process_memory_fraction:0.5"},
        {211, "large_segment_size_mb:32"},
        {212, "pinned_free_catch_all:True"},
        {212, "throw_on_cudamalloc_oom:True"},
        {213, "pinned_max_round_threshold_mb:1"},
        {213, "pinned_max_cached_size_mb:1"},
        {215, "expandable_segments_reserve:0.5"},
        {215, "expandable_segments_reserve_by_class:[a:1G]"},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        accepted(keys[i].first_version, keys[i].pair);
        int before = keys[i].first_version == 200 ? 113 : keys[i].first_version - 1;
        char words[128];
        int name_length = (int)strcspn(keys[i].pair, ":");
        if (before < 110) {
            accepted(before, keys[i].pair); /* 1.9 reads nothing */
            continue;
        }
        snprintf(words, sizeof words,
                 before < 210 ? "Unrecognized CachingAllocator option: %.*s"
                              : "Unrecognized key '%.*s' in Accelerator allocator config.",
                 name_length, keys[i].pair);
        refused(before, keys[i].pair, LIKE_TORCH, words);
    }
    refused(200, "roundup_bypass_threshold_mb:100", LIKE_TORCH,
            "Unrecognized CachingAllocator option: roundup_bypass_threshold_mb");
}

/* ---- PyTorch's reading ----------------------------------------------------------------------- */

static void numbers_are_read_as_stoull_and_stod_do(void **state)
{
    (void)state;
    const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        {"max_split_size_mb:100MB", 100 * MIB},
        {"max_split_size_mb:+64", 64 * MIB},
        {"max_split_size_mb:0064.9", 64 * MIB},
        {"max_split_size_mb:-1", ((UINT64_C(1) << 44) - 1) * MIB},
        {"max_split_size_mb:18446744073709551615", ((UINT64_C(1) << 44) - 1) * MIB},
        {"max_split_size_mb: 1 0 0", 100 * MIB},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vw__torch_settings settings = with(211, cases[i].text, LIKE_TORCH);
        assert_int_equal(settings.max_split_size_bytes, cases[i].bytes);
        vw__torch_settings_deinit(&settings);
    }
    refused(211, "max_split_size_mb:18446744073709551616", LIKE_TORCH, "stoull");
    refused(211, "max_split_size_mb:lots", LIKE_TORCH, "stoull");
    refused(211, "max_split_size_mb:-", LIKE_TORCH, "stoull");
    refused(211, "garbage_collection_threshold:x", LIKE_TORCH, "stod");
    refused(211, "garbage_collection_threshold:1e999", LIKE_TORCH, "stod");
    refused(211, "garbage_collection_threshold:1e-999", LIKE_TORCH, "stod");
    vw__torch_settings settings = with(211, "garbage_collection_threshold:.8x", LIKE_TORCH);
    assert_true(settings.garbage_collection_threshold == .8);
    vw__torch_settings_deinit(&settings);
}

static void before_2_10_numbers_are_ints(void **state)
{
    (void)state;
    vw__torch_settings settings = with(209, "max_split_size_mb:-1", LIKE_TORCH);
    assert_int_equal(settings.max_split_size_bytes, ((UINT64_C(1) << 44) - 1) * MIB);
    vw__torch_settings_deinit(&settings);
    accepted(209, "max_split_size_mb:2147483647");
    refused(209, "max_split_size_mb:2147483648", LIKE_TORCH, "stoi");
    refused(113, "max_split_size_mb:x", LIKE_TORCH, "stoi");
    refused(209, "roundup_power2_divisions:[x:4]", LIKE_TORCH, "stoul");
    accepted(210, "max_split_size_mb:2147483648");
}

static void values_out_of_range_are_refused_in_pytorchs_words(void **state)
{
    (void)state;
    refused(211, "large_segment_size_mb:10", LIKE_TORCH,
            "CachingAllocator option large_segment_size_mb must be > 10 MB");
    refused(211, "max_split_size_mb:19", LIKE_TORCH,
            "CachingAllocator option max_split_size_mb too small, must be >= 20");
    accepted(211, "max_split_size_mb:20");
    refused(209, "max_split_size_mb:20", LIKE_TORCH,
            "CachingAllocator option max_split_size_mb too small, must be > 20");
    refused(113, "max_split_size_mb:20", LIKE_TORCH,
            "CachingAllocator option max_split_size_mb too small, must be > 20");
    accepted(209, "max_split_size_mb:21");
    refused(211, "max_non_split_rounding_mb:1", LIKE_TORCH,
            "CachingAllocator option max_non_split_rounding_mb too small, must be >= 20");
    refused(206, "max_non_split_rounding_mb:20", LIKE_TORCH,
            "CachingAllocator option max_non_split_rounding_mb too small, must be > 20");
    const char *words = "garbage_collect_threshold is invalid, set it in (0.0, 1.0)";
    refused(211, "garbage_collection_threshold:0", LIKE_TORCH, words);
    refused(211, "garbage_collection_threshold:1.0", LIKE_TORCH, words);
    refused(211, "garbage_collection_threshold:nan", LIKE_TORCH, words);
    refused(209, "garbage_collection_threshold:0", LIKE_TORCH,
            "garbage_collect_threshold too small, set it 0.0~1.0");
    refused(112, "garbage_collection_threshold:1", LIKE_TORCH,
            "garbage_collect_threshold too big, set it 0.0~1.0");
    refused(211, "per_process_memory_fraction:1.01", LIKE_TORCH,
            "per_process_memory_fraction is invalid, set it in [0.0, 1.0]");
    accepted(211, "per_process_memory_fraction:0");
    refused(211, "pinned_num_register_threads:3", LIKE_TORCH,
            "Number of register threads has to be power of 2, got 3");
    refused(211, "pinned_num_register_threads:256", LIKE_TORCH,
            "Number of register threads should be less than or equal to 128, got 256");
    refused(209, "pinned_num_register_threads:0", LIKE_TORCH,
            "Number of register threads has to be power of 2 ");
    refused(209, "pinned_num_register_threads:256", LIKE_TORCH,
            "Number of register threads should be less than or equal to 128");
    refused(211, "pinned_reserve_segment_size_mb:0", LIKE_TORCH,
            "Pinned reserve segment size has to be greater than 0");
    refused(211, "backend:jemalloc", LIKE_TORCH,
            "Unknown allocator backend, options are native and cudaMallocAsync");
}

static void booleans_are_true_or_false_with_a_capital(void **state)
{
    (void)state;
    refused(211, "max_split_size_mb:100,expandable_segments:true", LIKE_TORCH,
            "Expected 'True' or 'False' at index 6 in ConfigTokenizer but got 'true'");
    refused(209, "expandable_segments:true", LIKE_TORCH,
            "Expected a single True/False argument for expandable_segments");
    refused(209, "pinned_use_hip_host_register:1", LIKE_TORCH,
            "Expected a single True/False argument for pinned_use_cuda_host_register");
}

static void since_2_10_any_token_passes_for_a_separator(void **state)
{
    (void)state;
    vw__torch_settings settings =
        with(211, "max_split_size_mb,100]expandable_segments[True:roundup_power2_divisions]8",
             LIKE_TORCH);
    assert_int_equal(settings.max_split_size_bytes, 100 * MIB);
    assert_true(settings.is_expandable);
    assert_int_equal(settings.roundup_divisions[15], 8);
    vw__torch_settings_deinit(&settings);
    accepted(211, "max_split_size_mb:100,");
    accepted(211, "max_split_size_mb:100,\t\n expand\vable_segments : True");
    refused(211, "max_split_size_mb=100", LIKE_TORCH,
            "Unrecognized key 'max_split_size_mb=100' in Accelerator allocator config.");
    refused(211, ",max_split_size_mb:100", LIKE_TORCH,
            "Unrecognized key ',' in Accelerator allocator config.");
    const char *past_end = "Index out of bounds in ConfigTokenizer";
    refused(211, "max_split_size_mb", LIKE_TORCH, past_end);
    refused(211, "max_split_size_mb:", LIKE_TORCH, past_end);
    refused(211, "backend:", LIKE_TORCH, past_end);
    refused(211, "expandable_segments:", LIKE_TORCH, past_end);
    refused(215, "expandable_segments_reserve_by_class:a", LIKE_TORCH, past_end);
}

static void through_2_9_a_wrong_separator_is_an_error(void **state)
{
    (void)state;
    const char *colon = "Error parsing CachingAllocator settings, expected :";
    const char *comma = "Error parsing CachingAllocator settings, expected ,";
    refused(209, "max_split_size_mb,100", LIKE_TORCH, colon);
    refused(209, "max_split_size_mb", LIKE_TORCH, colon);
    refused(209, "max_split_size_mb:100:expandable_segments:True", LIKE_TORCH, comma);
    refused(200, "roundup_power2_divisions:[64:4:128:4]", LIKE_TORCH, comma);
    refused(200, "roundup_power2_divisions:[64:4", LIKE_TORCH, comma);
    refused(209, "max_split_size_mb\t:100", LIKE_TORCH,
            "Unrecognized CachingAllocator option: max_split_size_mb\t");
    accepted(209, " max_split_size_mb : 1 00 , expandable_segments : True ,");
    accepted(209, "roundup_power2_divisions:[");
    accepted(209, "roundup_power2_divisions:[64:4,");
    refused(209, "max_split_size_mb:", LIKE_TORCH, "Error, expecting max_split_size_mb value");
    refused(209, "pinned_use_cuda_host_register:", LIKE_TORCH,
            "Error, expecting pinned_use_cuda_host_register value");
    refused(209, "roundup_power2_divisions:", LIKE_TORCH,
            "Error, expecting roundup_power2_divisions value");
    refused(209, "roundup_power2_divisions:[4:", LIKE_TORCH,
            "Error parsing roundup_power2_divisions value");
    refused(209, "backend:", LIKE_TORCH, "Error parsing backend value");
    refused(209, "expandable_segments:", LIKE_TORCH,
            "Expected a single True/False argument for expandable_segments");
}

static void through_1_13_words_without_a_value_are_ignored(void **state)
{
    (void)state;
    vw__torch_settings settings =
        with(113, "hello max_split_size_mb::64:9,,garbage_collection_threshold: 0.5", LIKE_TORCH);
    assert_int_equal(settings.max_split_size_bytes, 64 * MIB);
    assert_true(settings.garbage_collection_threshold == 0);
    vw__torch_settings_deinit(&settings);
    refused(113, ":5", LIKE_TORCH, "Unrecognized CachingAllocator option: ");
    refused(113, "roundup_power2_divisions:[64:4]", LIKE_TORCH, "stoi");
    accepted(109, "anything at all : [");
}

static void large_segment_size_is_read_before_everything_else(void **state)
{
    (void)state;
    refused(211, "max_split_size_mb:30,large_segment_size_mb:50", LIKE_TORCH,
            "CachingAllocator option max_split_size_mb too small, must be >= 50");
    vw__torch_settings settings =
        with(211, "max_split_size_mb:15,large_segment_size_mb:12", LIKE_TORCH);
    assert_int_equal(settings.max_split_size_bytes, 15 * MIB);
    assert_int_equal(settings.max_non_split_rounding_bytes, 12 * MIB);
    vw__torch_settings_deinit(&settings);
    refused(211, "backend:what,large_segment_size_mb:x", LIKE_TORCH, "stoull");
    /* Keys all devices share come before CUDA's own, whatever their order. */
    refused(211, "backend:what,max_split_size_mb:1", LIKE_TORCH,
            "CachingAllocator option max_split_size_mb too small, must be >= 20");
}

/* ---- roundups -------------------------------------------------------------------------------- */

static void check_divisions(int version, const char *text, const uint64_t expected[16])
{
    vw__torch_settings settings = with(version, text, LIKE_TORCH);
    for (size_t i = 0; i < VW__TORCH_ROUNDUP_ENTRIES; i++)
        assert_int_equal(settings.roundup_divisions[i], expected[i]);
    vw__torch_settings_deinit(&settings);
}

static void a_list_fills_below_its_first_boundary_and_leaves_gaps(void **state)
{
    (void)state;
    const uint64_t gap[16] = {8, 8, 8, 8, 8, 8, 8, 0, 4};
    check_divisions(211, "roundup_power2_divisions:[64:8,256:4]", gap);
    const uint64_t rest[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8};
    check_divisions(211, "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", rest);
    const uint64_t alone[16] = {0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
    check_divisions(211, "roundup_power2_divisions:[>:2]", alone);
    const uint64_t clamped[16] = {4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4};
    check_divisions(211, "roundup_power2_divisions:[65536:4,>:2]", clamped);
    const uint64_t falling[16] = {2, 2, 0, 2};
    check_divisions(211, "roundup_power2_divisions:[8:2,4:0]", falling);
}

static void before_2_10_the_rest_of_a_list_takes_its_last_boundary_too(void **state)
{
    (void)state;
    const uint64_t rest[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 8, 8, 8, 8, 8, 8};
    check_divisions(209, "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", rest);
}

static void bad_roundups_are_refused_in_pytorchs_words(void **state)
{
    (void)state;
    const char *count = "For roundups, the divisions has to be power of 2 ";
    const char *entry = "For roundups, the divisions has to be power of 2 or 0 to disable roundup ";
    refused(211, "roundup_power2_divisions:3", LIKE_TORCH, count);
    refused(211, "roundup_power2_divisions:0", LIKE_TORCH, count);
    refused(211, "roundup_power2_divisions:[64:3]", LIKE_TORCH, entry);
    refused(211, "roundup_power2_divisions:[63:4]", LIKE_TORCH,
            "For roundups, the intervals have to be power of 2 ");
    refused(211, "roundup_power2_divisions:[0:4]", LIKE_TORCH,
            "For roundups, the intervals have to be power of 2 ");
    refused(208, "roundup_power2_divisions:3", LIKE_TORCH, count);
    refused(207, "roundup_power2_divisions:3", LIKE_TORCH,
            "For roundups, the divisons has to be power of 2 ");
    refused(207, "roundup_power2_divisions:[64:3]", LIKE_TORCH,
            "For roundups, the divisons has to be power of 2 or 0 to disable roundup ");
    refused(112, "roundup_power2_divisions:0", LIKE_TORCH,
            "For roundups, the divisons has to be power of 2 ");
    const char *open = "Expected closing bracket ']' in ConfigTokenizer but reached end of config";
    refused(211, "roundup_power2_divisions:[", LIKE_TORCH, open);
    refused(211, "roundup_power2_divisions:[64:4,", LIKE_TORCH, open);
    refused(211, "roundup_power2_divisions:[64:4", LIKE_TORCH,
            "Index out of bounds in ConfigTokenizer");
    /* The second reading leaves the list at the first bracket, and stumbles over the rest. */
    refused(211, "roundup_power2_divisions:[64]4]", LIKE_TORCH,
            "Unrecognized key ']' in CUDA allocator config.");
}

static void has_roundup_is_set_when_some_size_changes(void **state)
{
    (void)state;
    const struct {
        int version;
        const char *value;
        bool has_roundup;
    } cases[] = {
        {211, "1", false}, {204, "1", false},     {203, "1", true},         {113, "1", true},
        {211, "2", true},  {211, "[4:0]", false}, {211, "[4:0,>:2]", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        snprintf(text, sizeof text, "roundup_power2_divisions:%s", cases[i].value);
        vw__torch_settings settings = with(cases[i].version, text, LIKE_TORCH);
        assert_int_equal(settings.has_roundup, cases[i].has_roundup);
        vw__torch_settings_deinit(&settings);
    }
}

/* ---- one string after another ---------------------------------------------------------------- */

static void a_later_string_resets_what_pytorch_resets(void **state)
{
    (void)state;
    for (int mode = LIKE_TORCH; mode <= STRICT; mode++) {
        vw__torch_settings s = with(215, every_key, LIKE_TORCH);
        assert_int_equal(
            apply(&s, 215, "pinned_free_catch_all:False", (vw__torch_settings_mode)mode), VW_OK);
        assert_int_equal(s.max_split_size_bytes, UINT64_MAX);
        assert_true(s.garbage_collection_threshold == 0);
        assert_false(s.has_roundup);
        assert_int_equal(s.roundup_divisions[0], 0);
        assert_int_equal(s.max_non_split_rounding_bytes, 32 * MIB); /* the large segment size */

        assert_int_equal(s.large_segment_size_bytes, 32 * MIB);
        assert_true(s.is_expandable && s.pinned_use_background_threads);
        assert_true(s.release_lock_on_device_malloc && s.per_process_memory_fraction == 0.5);
        assert_int_equal(s.pinned_max_cached_bytes, 9 * MIB);
        assert_string_equal(s.expandable_reserve, "0.5");
        assert_string_equal(s.expandable_reserve_by_class, "[a:0.25,b:8G]");
        assert_false(s.pinned_free_catch_all);
        assert_string_equal(s.raw, "pinned_free_catch_all:False");
        assert_int_equal(apply(&s, 215, NULL, (vw__torch_settings_mode)mode), VW_OK);
        assert_string_equal(s.raw, "");
        vw__torch_settings_deinit(&s);
    }
}

static void before_2_11_the_slack_stays_as_it_was(void **state)
{
    (void)state;
    for (int version = 210; version <= 211; version++) {
        vw__torch_settings s = with(version, "max_non_split_rounding_mb:64", LIKE_TORCH);
        assert_int_equal(apply(&s, version, "", LIKE_TORCH), VW_OK);
        assert_int_equal(s.max_non_split_rounding_bytes, version == 210 ? 64 * MIB : 20 * MIB);
        vw__torch_settings_deinit(&s);
    }
}

static void a_failed_string_changes_nothing(void **state)
{
    (void)state;
    for (int mode = LIKE_TORCH; mode <= STRICT; mode++) {
        vw__torch_settings settings = with(215, every_key, LIKE_TORCH);
        vw__torch_settings before = settings;
        const char *bad = "large_segment_size_mb:40,max_split_size_mb:300,"
                          "expandable_segments_reserve:0.1,expandable_segments:maybe";
        assert_int_equal(apply(&settings, 215, bad, (vw__torch_settings_mode)mode),
                         VW_ERR_BAD_SETTING);
        assert_memory_equal(&settings, &before, sizeof settings);
        assert_string_equal(settings.raw, every_key);
        vw__torch_settings_deinit(&settings);
    }
}

static void the_first_string_fixes_the_backend(void **state)
{
    (void)state;
    vw__torch_settings settings = with(211, "backend:cudaMallocAsync", LIKE_TORCH);
    assert_int_equal(settings.backend, VW__TORCH_BACKEND_CUDA_MALLOC_ASYNC);
    assert_int_equal(apply(&settings, 211, "backend:cudaMallocAsync", LIKE_TORCH), VW_OK);
    assert_int_equal(apply(&settings, 211, "backend:native", LIKE_TORCH), VW_ERR_BAD_SETTING);
    assert_string_equal(vw_last_error(),
                        "Allocator backend parsed at runtime != allocator backend parsed at load "
                        "time, native != cudaMallocAsync");
    assert_int_equal(apply(&settings, 209, "backend:native", LIKE_TORCH), VW_ERR_BAD_SETTING);
    assert_string_equal(vw_last_error(), "Allocator backend parsed at runtime != allocator backend "
                                         "parsed at load time");
    assert_int_equal(apply(&settings, 211, "backend:native", STRICT), VW_ERR_BAD_SETTING);
    assert_string_equal(vw_last_error(),
                        "at character 9: the backend cannot change while the program runs, "
                        "expected cudaMallocAsync, found 'native'");
    vw__torch_settings_deinit(&settings);
}

static void without_host_memory_nothing_changes(void **state)
{
    (void)state;
    for (int mode = LIKE_TORCH; mode <= STRICT; mode++) {
        vw__torch_settings settings;
        vw__torch_settings_init(&settings);
        uint64_t before_bytes = vw__host_memory_get_use().in_use_bytes;
        vw_status status = VW_ERR_HOST_MEMORY;
        uint64_t nth = 0;
        while (status != VW_OK) {
            vw__host_memory_fail_at(++nth);
            status = apply(&settings, 215, every_key, (vw__torch_settings_mode)mode);
            vw__host_memory_fail_at(0);
            if (status != VW_OK) {
                assert_int_equal(status, VW_ERR_HOST_MEMORY);
                assert_null(settings.raw);
                assert_int_equal(vw__host_memory_get_use().in_use_bytes, before_bytes);
            }
        }
        assert_true(nth > 3); /* the copy, and both reserves at least */
        vw__torch_settings_deinit(&settings);
        assert_int_equal(vw__host_memory_get_use().in_use_bytes, before_bytes);
    }
}

static void a_string_too_long_to_be_true_is_refused(void **state)
{
    (void)state;
    size_t length = (size_t)VW__TORCH_SETTINGS_MOST_BYTES + 1;
    char *text = malloc(length + 1);
    assert_non_null(text);
    memset(text, ' ', length);
    text[length] = '\0';
    vw__torch_settings settings;
    vw__torch_settings_init(&settings);
    assert_int_equal(apply(&settings, 211, text, LIKE_TORCH), VW_ERR_TOO_LARGE);
    assert_int_equal(apply(&settings, 211, text + 1, LIKE_TORCH), VW_OK);
    vw__torch_settings_deinit(&settings);
    free(text);
}

/* ---- warnings -------------------------------------------------------------------------------- */

static void warns(int version, const char *text, vw__torch_settings_mode mode, const char *words)
{
    vw__torch_settings settings = with(version, text, mode);
    assert_string_equal(settings.warnings, words);
    vw__torch_settings_deinit(&settings);
}

static void pytorchs_own_warnings_come_in_both_modes(void **state)
{
    (void)state;
    for (int mode = LIKE_TORCH; mode <= STRICT; mode++)
        warns(213, "pinned_max_round_threshold_mb:9,pinned_max_cached_size_mb:8",
              (vw__torch_settings_mode)mode,
              "pinned_max_round_threshold_mb is larger than pinned_max_cached_size_mb: the cache "
              "limit wins\n");
    warns(209, "backend:cudaMallocAsync,max_split_size_mb:100", LIKE_TORCH,
          "backend:cudaMallocAsync ignores max_split_size_mb,roundup_power2_divisions, and "
          "garbage_collect_threshold.\n");
    warns(211, "backend:cudaMallocAsync,max_split_size_mb:100", LIKE_TORCH, "");
    warns(211, "backend:cudaMallocAsync,pinned_num_register_threads:2", LIKE_TORCH,
          "backend:cudaMallocAsync ignores max_split_size_mb,roundup_power2_divisions, and "
          "garbage_collect_threshold.\n");
    vw__torch_settings settings =
        with(215, "expandable_segments_reserve:-1,expandable_segments_reserve_by_class:[a:x,b:2G]",
             LIKE_TORCH);
    assert_null(settings.expandable_reserve);
    assert_string_equal(settings.expandable_reserve_by_class, "[b:2G]");
    assert_non_null(strstr(settings.warnings, "expandable-segment reserve value '-1'"));
    assert_non_null(strstr(settings.warnings, "expandable-segment reserve value 'x'"));
    vw__torch_settings_deinit(&settings);
}

static void warnings_that_do_not_fit_are_left_out_whole(void **state)
{
    (void)state;
    char text[4096] = "expandable_segments_reserve_by_class:[";
    for (int i = 0; i < 40; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "c%d:bad%d,", i, i);
    strcat(text, "z:1G]");
    vw__torch_settings settings = with(215, text, LIKE_TORCH);
    size_t length = strlen(settings.warnings);
    assert_true(length > 512 && length < sizeof settings.warnings);
    assert_int_equal(settings.warnings[length - 1], '\n');
    assert_string_equal(settings.expandable_reserve_by_class, "[z:1G]");
    vw__torch_settings_deinit(&settings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_pytorchs),
        cmocka_unit_test(every_key_sets_its_value_in_both_modes),
        cmocka_unit_test(settings_have_points_in_every_locale),
        cmocka_unit_test(the_hip_spellings_set_the_same_values),
        cmocka_unit_test(each_key_is_unknown_before_its_release),
        cmocka_unit_test(numbers_are_read_as_stoull_and_stod_do),
        cmocka_unit_test(before_2_10_numbers_are_ints),
        cmocka_unit_test(values_out_of_range_are_refused_in_pytorchs_words),
        cmocka_unit_test(booleans_are_true_or_false_with_a_capital),
        cmocka_unit_test(since_2_10_any_token_passes_for_a_separator),
        cmocka_unit_test(through_2_9_a_wrong_separator_is_an_error),
        cmocka_unit_test(through_1_13_words_without_a_value_are_ignored),
        cmocka_unit_test(large_segment_size_is_read_before_everything_else),
        cmocka_unit_test(a_list_fills_below_its_first_boundary_and_leaves_gaps),
        cmocka_unit_test(before_2_10_the_rest_of_a_list_takes_its_last_boundary_too),
        cmocka_unit_test(bad_roundups_are_refused_in_pytorchs_words),
        cmocka_unit_test(has_roundup_is_set_when_some_size_changes),
        cmocka_unit_test(a_later_string_resets_what_pytorch_resets),
        cmocka_unit_test(before_2_11_the_slack_stays_as_it_was),
        cmocka_unit_test(a_failed_string_changes_nothing),
        cmocka_unit_test(the_first_string_fixes_the_backend),
        cmocka_unit_test(without_host_memory_nothing_changes),
        cmocka_unit_test(a_string_too_long_to_be_true_is_refused),
        cmocka_unit_test(pytorchs_own_warnings_come_in_both_modes),
        cmocka_unit_test(warnings_that_do_not_fit_are_left_out_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
