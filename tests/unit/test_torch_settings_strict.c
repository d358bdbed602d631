/* test_torch_settings_strict.c - the option string as its author should have it read.
 *
 * Messages are compared whole: they are what this reading is for. */
#include "engine/torch/torch_settings.h"

#include <stdio.h>
#include <string.h>

#include "support/cmocka_here.h"

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

static void warns(int version, const char *text, const char *words)
{
    vw__torch_settings settings = with(version, text, STRICT);
    assert_string_equal(settings.warnings, words);
    vw__torch_settings_deinit(&settings);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void strict_says_where_what_was_expected_and_what_was_found(void **state)
{
    (void)state;
    const struct {
        int version;
        const char *text;
        const char *words;
    } cases[] = {
        {211, "max_split_size_mb:12x",
         "at character 19: max_split_size_mb, expected a whole number of MiB, found '12x'"},
        {211, "max_split_size_mb:-1",
         "at character 19: max_split_size_mb, expected a whole number of MiB, found '-1'"},
        {211, "max_split_size_mb:19",
         "at character 19: max_split_size_mb, expected at least 20 MiB, found '19'"},
        {209, "max_split_size_mb:20",
         "at character 19: max_split_size_mb, expected more than 20 MiB, found '20'"},
        {211, "max_split_size_mb:30,large_segment_size_mb:50",
         "at character 19: max_split_size_mb, expected at least 50 MiB, found '30'"},
        {211, "large_segment_size_mb:10",
         "at character 23: large_segment_size_mb, expected more than 10 MiB, found '10'"},
        {209, "max_split_size_mb:2147483648",
         "at character 19: max_split_size_mb, expected a whole number of MiB, found '2147483648'"},
        {211, "max_split_size_mb,100",
         "at character 18: max_split_size_mb, expected ':', found ','"},
        {211, "max_split_size_mb",
         "at character 18: max_split_size_mb, expected ':', found the end"},
        {211, "max_split_size_mb:",
         "at character 19: max_split_size_mb, expected a value, found the end"},
        {211, "max_split_size_mb:100,",
         "at character 23: a setting, expected a key, found the end"},
        {211, "max_split_size_mb:100 expandable_segments:True",
         "at character 23: after a setting, expected ',' or the end, found 'expandable_segments'"},
        {211, "max_split_size_mb:100,max_split_size_mb:100",
         "at character 23: a key is given twice, expected each key once, found "
         "'max_split_size_mb'"},
        {211, "release_lock_on_cudamalloc:True,release_lock_on_hipmalloc:True",
         "at character 33: a key is given twice, expected each key once, found "
         "'release_lock_on_hipmalloc'"},
        {211, "max_split_size:100",
         "at character 1: PyTorch 2.11 has no such key, expected a key such as max_split_size_mb, "
         "found 'max_split_size'"},
        {211, "expandable_segment:True",
         "at character 1: PyTorch 2.11 has no such key, expected a key such as "
         "expandable_segments, found 'expandable_segment'"},
        {210, "large_segment_size_mb:32",
         "at character 1: PyTorch 2.10 has no such key, 2.11 has, expected one of its keys, found "
         "'large_segment_size_mb'"},
        {211, "expandable_segments:true",
         "at character 21: expandable_segments, expected True or False, found 'true'"},
        {211, "garbage_collection_threshold:1",
         "at character 30: garbage_collection_threshold, expected a number above 0 and below 1, "
         "found '1'"},
        {211, "garbage_collection_threshold:0.5f",
         "at character 30: garbage_collection_threshold, expected a number above 0 and below 1, "
         "found '0.5f'"},
        {211, "per_process_memory_fraction:2",
         "at character 29: per_process_memory_fraction, expected a number from 0 to 1, found '2'"},
        {211, "pinned_num_register_threads:256",
         "at character 29: pinned_num_register_threads, expected a power of two up to 128, found "
         "'256'"},
        {211, "pinned_reserve_segment_size_mb:0",
         "at character 32: pinned_reserve_segment_size_mb, expected more than 0 MiB, found '0'"},
        {211, "backend:async",
         "at character 9: backend, expected native or cudaMallocAsync, found 'async'"},
        {211, "roundup_power2_divisions:3",
         "at character 26: roundup_power2_divisions, expected a power of two, found '3'"},
        {211, "roundup_power2_divisions:[64:3]",
         "at character 30: roundup_power2_divisions, expected a power of two, or 0 for off, found "
         "'3'"},
        {211, "roundup_power2_divisions:[63:2]",
         "at character 27: roundup_power2_divisions, expected a boundary: a power of two of MiB up "
         "to 32768, or >, found '63'"},
        {211, "roundup_power2_divisions:[64:2,32:2]",
         "at character 32: roundup_power2_divisions, expected boundaries in rising order, found "
         "'32'"},
        {211, "roundup_power2_divisions:[>:2]",
         "at character 27: roundup_power2_divisions, expected a boundary before >, found '>'"},
        {211, "roundup_power2_divisions:[4:2,>:2,8:4]",
         "at character 35: roundup_power2_divisions, expected ] after >, found '8'"},
        {211, "roundup_power2_divisions:[4:2",
         "at character 30: roundup_power2_divisions, expected ']', found the end"},
        {203, "roundup_power2_divisions:1",
         "at character 26: PyTorch 2.0 to 2.3 fail requests that meet a count of 1, expected 2 or "
         "more, found '1'"},
        {113, "roundup_power2_divisions:[4:2]",
         "at character 26: roundup_power2_divisions, expected a value, found '['"},
        {113, "max_split_size_mb: 64",
         "at character 19: max_split_size_mb, expected a value, found ' '"},
        {109, "max_split_size_mb:64",
         "at character 1: PyTorch before 1.10 reads no settings, expected nothing, found "
         "'max_split_size_mb'"},
        {215, "expandable_segments_reserve:0",
         "at character 29: expandable_segments_reserve, expected a fraction such as 0.5 or a size "
         "such as 40G, found '0'"},
        {215, "expandable_segments_reserve_by_class:4",
         "at character 38: expandable_segments_reserve_by_class, expected a list in brackets, "
         "found '4'"},
        {211, "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggg:1",
         "at character 1: PyTorch 2.11 has no such key, expected one of its keys, found "
         "'aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd'..."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(cases[i].version, cases[i].text, STRICT, cases[i].words);
}

static void strict_takes_white_space_where_the_release_drops_it(void **state)
{
    (void)state;
    vw__torch_settings settings =
        with(211, " max_split_size_mb :\t100 ,\n roundup_power2_divisions : [ 64 : 8 , > : 2 ] ",
             STRICT);
    assert_int_equal(settings.max_split_size_bytes, 100 * MIB);
    assert_int_equal(settings.roundup_divisions[7], 2);
    vw__torch_settings_deinit(&settings);
    settings = with(113, " max_split_size_mb:100 ,\tgarbage_collection_threshold:0.5 ", STRICT);
    assert_true(settings.garbage_collection_threshold == 0.5);
    vw__torch_settings_deinit(&settings);
    refused(209, "max_split_size_mb:\t100", STRICT,
            "at character 19: max_split_size_mb, expected a value, found '\t'");
}

/* ---- warnings -------------------------------------------------------------------------------- */

static void strict_warns_of_what_has_no_effect(void **state)
{
    (void)state;
    warns(211, "garbage_collection_threshold:0.8",
          "garbage_collection_threshold has no effect without a memory fraction below 1\n");
    warns(211, "garbage_collection_threshold:0.8,per_process_memory_fraction:0.9", "");
    warns(211, "max_non_split_rounding_mb:30",
          "max_non_split_rounding_mb has no effect without max_split_size_mb\n");
    warns(211, "pinned_num_register_threads:4",
          "pinned_num_register_threads has no effect without pinned_use_cuda_host_register:True\n");
    warns(215, "expandable_segments_reserve:0.5",
          "a reserve has no effect without expandable_segments:True\n");
    warns(113, "roundup_bypass_threshold_mb:30",
          "roundup_bypass_threshold_mb has no effect without roundup_power2_divisions\n");
    warns(211, "backend:cudaMallocAsync,expandable_segments:True",
          "backend:cudaMallocAsync ignores max_split_size_mb, roundup_power2_divisions, "
          "garbage_collection_threshold and expandable_segments\n");
    warns(211, "roundup_power2_divisions:1",
          "roundup_power2_divisions: a count of 1 rounds nothing up\n");
}

static void strict_warns_of_gaps_in_a_roundup_list(void **state)
{
    (void)state;
    warns(211, "roundup_power2_divisions:[64:8,256:4,>:2]",
          "roundup_power2_divisions: sizes from 128 to 256 MiB are not rounded up, no boundary of "
          "the list names them\n");
    warns(
        211, "roundup_power2_divisions:[64:8,128:4]",
        "roundup_power2_divisions: sizes from 256 MiB on are not rounded up, the list has no >\n");
    warns(211, "roundup_power2_divisions:[64:8,128:4,>:2]", "");
    warns(209, "roundup_power2_divisions:[64:8,>:2]",
          "roundup_power2_divisions: before PyTorch 2.10, > also replaces the last count before "
          "it\n");
}

/* ---- random strings -------------------------------------------------------------------------- */

/* Everything but the string itself and the warnings. */
static bool mean_the_same(const vw__torch_settings *a, const vw__torch_settings *b)
{
    const char *a_reserve = a->expandable_reserve ? a->expandable_reserve : "";
    const char *b_reserve = b->expandable_reserve ? b->expandable_reserve : "";
    const char *a_classes = a->expandable_reserve_by_class ? a->expandable_reserve_by_class : "";
    const char *b_classes = b->expandable_reserve_by_class ? b->expandable_reserve_by_class : "";
    return a->max_split_size_bytes == b->max_split_size_bytes &&
           a->max_non_split_rounding_bytes == b->max_non_split_rounding_bytes &&
           a->large_segment_size_bytes == b->large_segment_size_bytes &&
           a->garbage_collection_threshold == b->garbage_collection_threshold &&
           a->has_roundup == b->has_roundup && a->is_expandable == b->is_expandable &&
           memcmp(a->roundup_divisions, b->roundup_divisions, sizeof a->roundup_divisions) == 0 &&
           a->roundup_bypass_bytes == b->roundup_bypass_bytes && a->backend == b->backend &&
           a->is_backend_fixed == b->is_backend_fixed &&
           a->release_lock_on_device_malloc == b->release_lock_on_device_malloc &&
           a->throw_on_device_oom == b->throw_on_device_oom &&
           a->graph_capture_record_stream_reuse == b->graph_capture_record_stream_reuse &&
           a->per_process_memory_fraction == b->per_process_memory_fraction &&
           a->pinned_use_background_threads == b->pinned_use_background_threads &&
           a->pinned_use_host_register == b->pinned_use_host_register &&
           a->pinned_free_catch_all == b->pinned_free_catch_all &&
           a->pinned_register_thread_count == b->pinned_register_thread_count &&
           a->pinned_reserve_segment_bytes == b->pinned_reserve_segment_bytes &&
           a->pinned_max_round_threshold_bytes == b->pinned_max_round_threshold_bytes &&
           a->pinned_max_cached_bytes == b->pinned_max_cached_bytes &&
           strcmp(a_reserve, b_reserve) == 0 && strcmp(a_classes, b_classes) == 0;
}

static uint64_t random_state = 88172645463325252u;

static unsigned random_below(unsigned bound) /* xorshift */
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state % bound);
}

#define PICK(list) list[random_below(sizeof list / sizeof *list)]

/* Strings made of what such strings are made of, mostly right, now and then wrong. */
static void make_text(char *text, size_t room_bytes)
{
    static const struct {
        const char *key, *values[3];
    } pairs[] = {
        {"max_split_size_mb", {"64", "21", "20"}},
        {"large_segment_size_mb", {"32", "11", "10"}},
        {"max_non_split_rounding_mb", {"64", "33", "21"}},
        {"garbage_collection_threshold", {"0.5", ".8", "1e-3"}},
        {"roundup_power2_divisions", {"4", "[64:8,256:4]", "[1:0, 2:8 ,4:1,>:2]"}},
        {"expandable_segments", {"True", "False", "True "}},
        {"pinned_num_register_threads", {"8", "128", "0"}},
        {"per_process_memory_fraction", {"0.5", "1", "0"}},
        {"backend", {"native", "cudaMallocAsync", "native"}},
        {"release_lock_on_cudamalloc", {"True", "False", "False"}},
        {"pinned_max_cached_size_mb", {"0", "1", "17592186044415"}},
        {"expandable_segments_reserve", {"0.5", "40G", "8g"}},
        {"expandable_segments_reserve_by_class", {"[a:0.5]", "[a : 1e2 , b:8G]", "[]"}},
        {"roundup_bypass_threshold_mb", {"100", "1", "0"}},
    };
    static const char *const wrong[] = {"-1", "x", "[64:8,", "[", "99999999999999999999", "1e400"};
    static const char *const joints[] = {",", ",", ",", ",", ",", " , ", ":", "]", " ", "\t", ",,"};
    static const char *const colons[] = {":", ":", ":", ":", ":", ":", " : ", ":\t", "::", ","};
    text[0] = '\0';
    unsigned pair_count = 1 + random_below(3);
    for (unsigned i = 0; i < pair_count; i++) {
        size_t pair = random_below(sizeof pairs / sizeof *pairs);
        snprintf(text + strlen(text), room_bytes - strlen(text), "%s%s%s%s",
                 i == 0 ? "" : PICK(joints), pairs[pair].key, PICK(colons),
                 random_below(8) == 0 ? PICK(wrong) : PICK(pairs[pair].values));
    }
    if (random_below(4) == 0)
        text[random_below((unsigned)strlen(text))] = (char)(1 + random_below(127));
}

static void what_strict_accepts_pytorch_accepts_with_the_same_meaning(void **state)
{
    (void)state;
    static const int versions[] = {106, 110, 113, 200, 203, 206, 209, 210, 211, 213, 215};
    unsigned accepted_count = 0, refused_count = 0;
    for (int i = 0; i < 20000; i++) {
        char text[512];
        make_text(text, sizeof text);
        int version = versions[random_below(sizeof versions / sizeof *versions)];
        vw__torch_settings strict, like_torch;
        vw__torch_settings_init(&strict);
        vw__torch_settings_init(&like_torch);
        vw_status status = apply(&like_torch, version, text, LIKE_TORCH);
        if (apply(&strict, version, text, STRICT) == VW_OK) {
            accepted_count++;
            if (status != VW_OK || !mean_the_same(&strict, &like_torch))
                fail_msg("PyTorch %d reads another way: %s", version, text);
        } else {
            refused_count++;
            assert_memory_equal(vw_last_error(), "at character ", strlen("at character "));
        }
        vw__torch_settings_deinit(&strict);
        vw__torch_settings_deinit(&like_torch);
    }
    assert_true(accepted_count > 500 && refused_count > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strict_says_where_what_was_expected_and_what_was_found),
        cmocka_unit_test(strict_takes_white_space_where_the_release_drops_it),
        cmocka_unit_test(strict_warns_of_what_has_no_effect),
        cmocka_unit_test(strict_warns_of_gaps_in_a_roundup_list),
        cmocka_unit_test(what_strict_accepts_pytorch_accepts_with_the_same_meaning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
