/* diff_stacks.c - which stack to show for a line that changed.
 *
 * One line of a program, such as `out = model(batch)`, may have asked for memory in a hundred ways.
 * The row is their sum; the stack that is shown with it is the one that changed most, so that the
 * reader sees at once which layer it was. Stacks are told apart by what torch and other libraries
 * did below the line: functions and files, without line numbers, since libraries are upgraded too.
 */
#include <string.h>

#include "analysis/diff_parts.h"
#include "analysis/site_key.h"
#include "base/error.h"

/* What was done below the line, in both recordings. */
typedef struct route {
    const vw_usage *usages[2]; /* the largest of each; NULL = none */
    uint64_t bytes[2];
} route;

typedef struct route_list {
    route *routes;
    size_t count;
    vw__string_table keys; /* the id is the place in `routes` */
} route_list;

static void write_route(vw__byte_buffer *key, const vw_usage *usage)
{
    vw__byte_buffer_clear(key);
    for (size_t i = 0; i < usage->frame_count && &usage->frames[i] != usage->where; i++) {
        const vw_frame *frame = &usage->frames[i];
        const char *file = vw__site_key_file(frame->file);
        vw__append_bytes(key, frame->function, strlen(frame->function) + 1);
        vw__append_bytes(key, file, strlen(file) + 1);
    }
}

static size_t count_stacks(const vw__diff_stack *stacks)
{
    size_t count = 0;
    for (; stacks != NULL; stacks = stacks->next)
        count++;
    return count;
}

static vw_status add_stacks(vw__diff_matching *matching, route_list *list,
                            const vw__diff_stack *stacks, int side)
{
    for (; stacks != NULL; stacks = stacks->next) {
        const vw_usage *usage = stacks->usage;
        uint32_t place;
        write_route(&matching->key, usage);
        VW__TRY(vw__diff_add_key(matching, &list->keys, &place));
        route *one = &list->routes[place];
        list->count += place == list->count;
        if (one->usages[side] == NULL || usage->bytes > one->usages[side]->bytes)
            one->usages[side] = usage;
        one->bytes[side] += usage->bytes;
    }
    return VW_OK;
}

/* By how many bytes a route went the way of the whole line; negative if it went the other way. */
static int64_t share_of(const route *one, bool has_grown)
{
    int64_t difference = (int64_t)(one->bytes[VW__DIFF_AFTER] - one->bytes[VW__DIFF_BEFORE]);
    return has_grown ? difference : -difference;
}

/* The first of the largest: lists begin with their largest stacks. */
static const route *most_changed(const route_list *list, bool has_grown)
{
    const route *most = &list->routes[0];
    for (size_t i = 1; i < list->count; i++)
        if (share_of(&list->routes[i], has_grown) > share_of(most, has_grown))
            most = &list->routes[i];
    return most;
}

static vw_status show_stack(vw__diff_matching *matching, const vw__diff_pair *pair,
                            vw_change *change)
{
    const size_t counts[] = {count_stacks(pair->stacks[VW__DIFF_BEFORE]),
                             count_stacks(pair->stacks[VW__DIFF_AFTER])};
    const size_t most = counts[VW__DIFF_BEFORE] + counts[VW__DIFF_AFTER];
    route_list list = {.count = 0};
    list.routes =
        vw__arena_alloc_array(&matching->scratch, most, sizeof *list.routes, _Alignof(route));
    if (list.routes == NULL)
        return vw__fail_host_memory(most * sizeof *list.routes, "the stacks of a line");
    vw__string_table_init(&list.keys, &matching->scratch, VW__STRING_TABLE_LARGEST_COUNT, SIZE_MAX);
    VW__TRY(add_stacks(matching, &list, pair->stacks[VW__DIFF_BEFORE], VW__DIFF_BEFORE));
    VW__TRY(add_stacks(matching, &list, pair->stacks[VW__DIFF_AFTER], VW__DIFF_AFTER));

    const bool has_grown = change->after_bytes >= change->before_bytes;
    const route *chosen = most_changed(&list, has_grown);
    int side = has_grown ? VW__DIFF_AFTER : VW__DIFF_BEFORE;
    if (chosen->usages[side] == NULL)
        side = has_grown ? VW__DIFF_BEFORE : VW__DIFF_AFTER;
    change->frames = chosen->usages[side]->frames;
    change->frame_count = chosen->usages[side]->frame_count;
    change->where = chosen->usages[side]->where;
    change->stack_count = counts[side];
    return VW_OK;
}

vw_status vw__diff_show_stacks(vw__diff_matching *matching, const vw__diff_pair *pairs,
                               vw_change *changes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        VW__TRY(show_stack(matching, &pairs[i], &changes[i]));
    return VW_OK;
}
