/* fuzz_torch_settings.c - any bytes as an option string, for any release.
 *
 * The first byte chooses the release, the second one whether the string comes on top of another;
 * the rest is the string. Both readings must come to an end without touching memory they do not
 * own, a refusal must leave the settings alone and say something, and what the strict reading
 * accepts PyTorch's must accept with the same meaning.
 *
 * The one function below is libFuzzer's entry and needs nothing of libFuzzer: a program that calls
 * it with the contents of each file of a corpus is the regression test. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/torch/torch_rounding.h"
#include "engine/torch/torch_settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool claim)
{
    if (!claim)
        abort();
}

static void check(const vw__torch_settings *settings)
{
    must(settings->large_segment_size_bytes > VW__TORCH_MIN_LARGE_BYTES);
    must(settings->max_split_size_bytes >= settings->large_segment_size_bytes);
    must(settings->max_non_split_rounding_bytes >= settings->large_segment_size_bytes);
    must(settings->garbage_collection_threshold >= 0 && settings->garbage_collection_threshold < 1);
    must(settings->per_process_memory_fraction >= 0 && settings->per_process_memory_fraction <= 1);
    must(settings->pinned_register_thread_count >= 1);
    must(memchr(settings->warnings, '\0', sizeof settings->warnings) != NULL);
    for (uint64_t size = 1; size < VW__TORCH_MOST_REQUESTED_BYTES; size = size * 3 + 1) {
        uint64_t block_bytes = vw__torch_round_size(settings, size);
        must(block_bytes >= size || block_bytes == 0);
    }
}

static vw_status apply(vw__torch_settings *settings, const vw__torch_rules *rules, const char *text,
                       vw__torch_settings_mode mode)
{
    vw__torch_settings before = *settings;
    vw_status status = vw__torch_settings_apply(settings, rules, text, mode);
    if (status != VW_OK) {
        must(memcmp(&before, settings, sizeof before) == 0);
        must(vw_last_error()[0] != '\0');
    } else {
        must(strcmp(settings->raw, text) == 0);
    }
    check(settings);
    return status;
}

static bool mean_the_same(const vw__torch_settings *a, const vw__torch_settings *b)
{
    return a->max_split_size_bytes == b->max_split_size_bytes &&
           a->max_non_split_rounding_bytes == b->max_non_split_rounding_bytes &&
           a->large_segment_size_bytes == b->large_segment_size_bytes &&
           a->garbage_collection_threshold == b->garbage_collection_threshold &&
           a->per_process_memory_fraction == b->per_process_memory_fraction &&
           a->is_expandable == b->is_expandable && a->has_roundup == b->has_roundup &&
           memcmp(a->roundup_divisions, b->roundup_divisions, sizeof a->roundup_divisions) == 0 &&
           a->backend == b->backend;
}

static void read_both_ways(const vw__torch_rules *rules, const char *text, bool has_earlier_text)
{
    vw__torch_settings strict, like_torch;
    vw__torch_settings_init(&strict);
    vw__torch_settings_init(&like_torch);
    if (has_earlier_text) {
        const char *earlier = "max_split_size_mb:64";
        must(apply(&strict, rules, earlier, VW__TORCH_SETTINGS_LIKE_TORCH) == VW_OK);
        must(apply(&like_torch, rules, earlier, VW__TORCH_SETTINGS_LIKE_TORCH) == VW_OK);
    }
    vw_status status = apply(&like_torch, rules, text, VW__TORCH_SETTINGS_LIKE_TORCH);
    if (apply(&strict, rules, text, VW__TORCH_SETTINGS_STRICT) == VW_OK)
        must(status == VW_OK && mean_the_same(&strict, &like_torch));
    vw__torch_settings_deinit(&strict);
    vw__torch_settings_deinit(&like_torch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int versions[] = {106, 110, 113, 200, 203, 206, 209, 210, 211, 212, 213, 215};
    if (size < 2)
        return 0;
    vw__torch_rules rules;
    must(vw__torch_rules_for(versions[data[0] % (sizeof versions / sizeof *versions)], &rules) ==
         VW_OK);
    char *text = malloc(size - 1);
    must(text != NULL);
    memcpy(text, data + 2, size - 2);
    text[size - 2] = '\0';
    read_both_ways(&rules, text, data[1] % 2 != 0);
    free(text);
    return 0;
}
