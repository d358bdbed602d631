/* diff_sites.c - pairs the lines of a function as it was with those of the function as it is.
 *
 * Lines move when code is added above them, so a line's number says little. Of the sites with one
 * name and category these are pairs, in this order:
 *
 *   1. the same line, holding the same
 *   2. any two that hold the same, if that leaves nothing of one side: the lines moved, and nothing
 *      else happened to them
 *   3. the same line, after all lines are moved by as much as fits most of them
 *   4. any two that hold the same
 *   5. sizes within a factor of two, the largest first
 *
 * 4 comes behind 3 because sizes are often powers of two: with twice the batch, each line holds
 * what another one held before.
 *
 * What is left is gone, or new. Pairs that hold the same are no change.
 *
 * A pair hides one thing: two lines of one function and category that swap their sizes. Nothing
 * grew then. What we did not do: compare whole stacks. One edited line in a caller makes every
 * stack below it another.
 *
 * Sorting dominates: the time is near-linear in the number of stacks. */
#include <stdbool.h>
#include <stdlib.h> /* qsort */
#include <string.h>

#include "analysis/diff_parts.h"
#include "analysis/site_key.h"
#include "base/error.h"

/* ---- gathering ------------------------------------------------------------------------------- */

vw_status vw__diff_add_key(vw__diff_matching *matching, vw__string_table *table, uint32_t *id)
{
    vw__byte_buffer *key = &matching->key;
    if (vw__byte_buffer_has_failed(key) ||
        !vw__string_table_add(table, vw__byte_buffer_text(key), vw__byte_buffer_size(key), id))
        return vw__fail_host_memory(vw__byte_buffer_size(key), "a place to compare");
    return VW_OK;
}

/* Bytes that are equal exactly for usages of one site. */
static void write_site(vw__byte_buffer *key, const vw_usage *usage, const vw_frame *frame)
{
    vw__byte_buffer_clear(key);
    vw__append_text(key, usage->category);
    if (frame == NULL)
        return;
    vw__append_u8(key, 0);
    vw__append_bytes(key, frame->function, strlen(frame->function) + 1);
    vw__append_bytes(key, frame->file, strlen(frame->file) + 1);
    vw__append_u32_le(key, frame->line);
}

static vw_status add_stack(vw__diff_matching *matching, vw__diff_site *site, const vw_usage *usage)
{
    vw__diff_stack *stack =
        vw__arena_alloc(&matching->scratch, sizeof *stack, _Alignof(vw__diff_stack));
    if (stack == NULL)
        return vw__fail_host_memory(sizeof *stack, "a stack to compare");
    *stack = (vw__diff_stack){usage, NULL};
    *(site->stacks == NULL ? &site->stacks : &site->last_stack->next) = stack;
    site->last_stack = stack;
    site->bytes += usage->bytes;
    site->block_count += usage->block_count;
    return VW_OK;
}

/* Usages come with the largest first. */
static vw_status add_usage(vw__diff_matching *matching, vw__string_table *keys,
                           vw__diff_sites *side, const vw_usage *usage)
{
    const vw_frame *frame = vw__site_key_frame(usage);
    uint32_t place;
    write_site(&matching->key, usage, frame);
    VW__TRY(vw__diff_add_key(matching, keys, &place));
    vw__diff_site *site = &side->sites[place];
    if (place == side->count) {
        side->count++;
        site->frame = frame;
        site->category = usage->category;
        vw__byte_buffer_clear(&matching->key);
        vw__site_key_append(&matching->key, frame);
        VW__TRY(vw__diff_add_key(matching, &matching->names, &site->name));
    }
    return add_stack(matching, site, usage);
}

static vw_status gather(vw__diff_matching *matching, const vw_moment *moment, vw__diff_sites *side)
{
    vw__string_table keys;
    side->sites = vw__arena_alloc_array(&matching->scratch, moment->usage_count,
                                        sizeof *side->sites, _Alignof(vw__diff_site));
    if (side->sites == NULL)
        return vw__fail_host_memory(moment->usage_count * sizeof *side->sites, "the places");
    vw__string_table_init(&keys, &matching->scratch, VW__STRING_TABLE_LARGEST_COUNT, SIZE_MAX);
    for (size_t i = 0; i < moment->usage_count; i++)
        VW__TRY(add_usage(matching, &keys, side, &moment->usages[i]));
    vw__diff_sort_sites(side);
    return VW_OK;
}

/* ---- order ----------------------------------------------------------------------------------- */

static int compare_u64(uint64_t one, uint64_t other)
{
    return (one > other) - (one < other);
}

static uint32_t line_of(const vw__diff_site *site)
{
    return site->frame != NULL ? site->frame->line : 0;
}

static int compare_groups(const vw__diff_site *one, const vw__diff_site *other)
{
    int order = compare_u64(one->name, other->name);
    return order != 0 ? order : strcmp(one->category, other->category);
}

static int compare_lines(const vw__diff_site *one, const vw__diff_site *other)
{
    int order = compare_u64(line_of(one), line_of(other));
    if (order == 0 && one->frame != NULL && other->frame != NULL)
        order = strcmp(one->frame->file, other->frame->file);
    return order;
}

static int compare_amounts(const vw__diff_site *one, const vw__diff_site *other)
{
    int order = compare_u64(other->bytes, one->bytes);
    return order != 0 ? order : compare_u64(other->block_count, one->block_count);
}

static int compare_sites(const void *left, const void *right)
{
    int order = compare_groups(left, right);
    return order != 0 ? order : compare_lines(left, right);
}

/* The largest first. */
static int compare_sizes(const void *left, const void *right)
{
    int order = compare_amounts(left, right);
    return order != 0 ? order : compare_lines(left, right);
}

void vw__diff_sort_sites(vw__diff_sites *side)
{
    qsort(side->sites, side->count, sizeof *side->sites, compare_sites);
}

/* ---- pairing --------------------------------------------------------------------------------- */

/* The changes, and in the same order the stacks behind them. */
typedef struct change_list {
    vw_change *changes;
    vw__diff_pair *pairs;
    size_t count;
} change_list;

/* Sites that have no partner yet, of one name and category. */
typedef struct group {
    vw__diff_sites left[2];
    int64_t shift; /* lines by which the function moved */
    change_list *list;
} group;

static const vw_frame *where_of(const vw__diff_site *site)
{
    return site->stacks->usage->where;
}

static void add_change(const group *here, const vw__diff_site *before, const vw__diff_site *after)
{
    if (before != NULL && after != NULL && compare_amounts(before, after) == 0)
        return;
    vw_change *change = &here->list->changes[here->list->count];
    vw__diff_pair *pair = &here->list->pairs[here->list->count++];
    change->category = after != NULL ? after->category : before->category;
    if (before != NULL) {
        change->before_where = where_of(before);
        change->before_bytes = before->bytes;
        change->before_count = before->block_count;
        pair->stacks[VW__DIFF_BEFORE] = before->stacks;
    }
    if (after != NULL) {
        change->after_where = where_of(after);
        change->after_bytes = after->bytes;
        change->after_count = after->block_count;
        pair->stacks[VW__DIFF_AFTER] = after->stacks;
    }
}

/* How two sites stand to each other: 0 is a pair; otherwise the first site of the two comes before
 * (negative) or behind (positive) the second, in the order in which both sides are sorted. */
typedef int (*site_relation)(const group *here, const vw__diff_site *before,
                             const vw__diff_site *after);

static int relate_lines(const group *here, const vw__diff_site *before, const vw__diff_site *after)
{
    int64_t moved = (int64_t)line_of(before) + here->shift, line = line_of(after);
    return (moved > line) - (moved < line);
}

static int relate_amounts(const group *here, const vw__diff_site *before,
                          const vw__diff_site *after)
{
    (void)here;
    return compare_amounts(before, after);
}

static int relate_sizes(const group *here, const vw__diff_site *before, const vw__diff_site *after)
{
    (void)here;
    return vw__diff_is_alike(before->bytes, after->bytes) ? 0 : compare_amounts(before, after);
}

/* How two sites are paired: `relate`, and perhaps that they hold the same as well. */
typedef struct pair_rule {
    site_relation relate;
    bool only_equal;
} pair_rule;

static const pair_rule same_line = {relate_lines, false};
static const pair_rule same_line_and_amount = {relate_lines, true};
static const pair_rule same_amount = {relate_amounts, false};
static const pair_rule alike_size = {relate_sizes, false};

static bool is_pair(const pair_rule *rule, int order, const vw__diff_site *before,
                    const vw__diff_site *after)
{
    return order == 0 && (!rule->only_equal || compare_amounts(before, after) == 0);
}

static size_t count_pairs(const group *here, const pair_rule *rule)
{
    const vw__diff_sites *before = &here->left[VW__DIFF_BEFORE];
    const vw__diff_sites *after = &here->left[VW__DIFF_AFTER];
    size_t count = 0;
    for (size_t i = 0, k = 0; i < before->count && k < after->count;) {
        const vw__diff_site *one = &before->sites[i], *other = &after->sites[k];
        int order = rule->relate(here, one, other);
        count += is_pair(rule, order, one, other);
        i += order <= 0;
        k += order >= 0;
    }
    return count;
}

/* Walks both sides once, and takes pairs out of them. */
static void take_pairs(group *here, const pair_rule *rule)
{
    vw__diff_sites *before = &here->left[VW__DIFF_BEFORE], *after = &here->left[VW__DIFF_AFTER];
    size_t i = 0, k = 0, kept_before = 0, kept_after = 0;
    while (i < before->count && k < after->count) {
        const vw__diff_site *one = &before->sites[i], *other = &after->sites[k];
        int order = rule->relate(here, one, other);
        bool is_taken = is_pair(rule, order, one, other);
        if (is_taken)
            add_change(here, one, other);
        if (order <= 0) {
            if (!is_taken)
                before->sites[kept_before++] = before->sites[i];
            i++;
        }
        if (order >= 0) {
            if (!is_taken)
                after->sites[kept_after++] = after->sites[k];
            k++;
        }
    }
    while (i < before->count)
        before->sites[kept_before++] = before->sites[i++];
    while (k < after->count)
        after->sites[kept_after++] = after->sites[k++];
    before->count = kept_before;
    after->count = kept_after;
}

static void sort_left(group *here, int (*compare)(const void *, const void *))
{
    for (int side = VW__DIFF_BEFORE; side <= VW__DIFF_AFTER; side++)
        qsort(here->left[side].sites, here->left[side].count, sizeof(vw__diff_site), compare);
}

/* Finds by how many lines the function moved. Tried are no move, and those that put the first or
 * the last line onto each other. The one that fits most lines is taken; of several, the one with
 * the most lines that hold the same. One line that fits is no evidence of a move: it takes two.
 * Both sides are sorted by line, and not empty. */
static int64_t find_shift(const group *here)
{
    const vw__diff_sites *before = &here->left[VW__DIFF_BEFORE];
    const vw__diff_sites *after = &here->left[VW__DIFF_AFTER];
    const int64_t tried[] = {
        0,
        (int64_t)line_of(&after->sites[0]) - line_of(&before->sites[0]),
        (int64_t)line_of(&after->sites[after->count - 1]) -
            line_of(&before->sites[before->count - 1]),
    };
    group moved = *here;
    int64_t best = 0;
    size_t most = 1, most_equal = 0;
    for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++) {
        moved.shift = tried[i];
        size_t count = count_pairs(&moved, &same_line);
        size_t equal = count_pairs(&moved, &same_line_and_amount);
        if (count > most || (count == most && count > 1 && equal > most_equal)) {
            most = count;
            most_equal = equal;
            best = tried[i];
        }
    }
    return best;
}

/* Returns whether equal amounts leave nothing of one side. */
static bool has_equal_amounts(const group *here)
{
    size_t before = here->left[VW__DIFF_BEFORE].count, after = here->left[VW__DIFF_AFTER].count;
    return count_pairs(here, &same_amount) == (before < after ? before : after);
}

static void pair_group(group *here)
{
    const vw__diff_sites *before = &here->left[VW__DIFF_BEFORE];
    const vw__diff_sites *after = &here->left[VW__DIFF_AFTER];
    take_pairs(here, &same_line_and_amount);
    sort_left(here, compare_sizes);
    if (before->count > 0 && after->count > 0 && !has_equal_amounts(here)) {
        sort_left(here, compare_sites);
        here->shift = find_shift(here);
        take_pairs(here, &same_line);
        sort_left(here, compare_sizes);
    }
    take_pairs(here, &same_amount);
    take_pairs(here, &alike_size);
    for (size_t i = 0; i < before->count; i++)
        add_change(here, &before->sites[i], NULL);
    for (size_t i = 0; i < after->count; i++)
        add_change(here, NULL, &after->sites[i]);
}

/* The sites from `begin` on that have the name and category of `first`, or none. */
static vw__diff_sites group_from(const vw__diff_sites *side, size_t begin,
                                 const vw__diff_site *first)
{
    size_t end = begin;
    while (end < side->count && compare_groups(&side->sites[end], first) == 0)
        end++;
    return (vw__diff_sites){&side->sites[begin], end - begin};
}

static void pair_all(vw__diff_matching *matching, change_list *list)
{
    const vw__diff_sites *before = &matching->sides[VW__DIFF_BEFORE],
                         *after = &matching->sides[VW__DIFF_AFTER];
    for (size_t i = 0, k = 0; i < before->count || k < after->count;) {
        bool is_before_first =
            k == after->count ||
            (i < before->count && compare_groups(&before->sites[i], &after->sites[k]) <= 0);
        const vw__diff_site *first = is_before_first ? &before->sites[i] : &after->sites[k];
        group here = {.list = list};
        here.left[VW__DIFF_BEFORE] = group_from(before, i, first);
        here.left[VW__DIFF_AFTER] = group_from(after, k, first);
        i += here.left[VW__DIFF_BEFORE].count;
        k += here.left[VW__DIFF_AFTER].count;
        pair_group(&here);
    }
}

/* ---- the changes ----------------------------------------------------------------------------- */

static vw_status match(vw__diff_matching *matching, const vw_moment *before, const vw_moment *after,
                       vw_diff_report *report, vw_change **changes, size_t *change_count)
{
    VW__TRY(gather(matching, before, &matching->sides[VW__DIFF_BEFORE]));
    VW__TRY(gather(matching, after, &matching->sides[VW__DIFF_AFTER]));
    VW__TRY(vw__diff_match_names(matching, report));
    size_t most = matching->sides[VW__DIFF_BEFORE].count + matching->sides[VW__DIFF_AFTER].count;
    change_list list = {.count = 0};
    list.changes =
        vw__arena_alloc_array(matching->arena, most, sizeof *list.changes, _Alignof(vw_change));
    list.pairs = vw__arena_alloc_array(&matching->scratch, most, sizeof *list.pairs,
                                       _Alignof(vw__diff_pair));
    if (list.changes == NULL || list.pairs == NULL)
        return vw__fail_host_memory(most * sizeof *list.changes, "the changes");
    pair_all(matching, &list);
    *changes = list.changes;
    *change_count = list.count;
    return vw__diff_show_stacks(matching, list.pairs, list.changes, list.count);
}

vw_status vw__diff_compare_sites(vw__arena *arena, const vw_moment *before, const vw_moment *after,
                                 vw_diff_report *report, vw_change **changes, size_t *change_count)
{
    vw__diff_matching matching = {.arena = arena};
    vw__arena_init(&matching.scratch, VW__ARENA_NO_LIMIT);
    vw__byte_buffer_init(&matching.key);
    vw__string_table_init(&matching.names, &matching.scratch, VW__STRING_TABLE_LARGEST_COUNT,
                          SIZE_MAX);
    vw_status status = match(&matching, before, after, report, changes, change_count);
    vw__byte_buffer_deinit(&matching.key);
    vw__arena_deinit(&matching.scratch);
    return status;
}
