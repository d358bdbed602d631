/* diff_names.c - finds files and functions that were renamed between two recordings.
 *
 * A name that only the first recording has is gone; one that only the second has is new. A gone
 * name became a new one if the rest agrees. In this order:
 *
 *   1. A file that is gone became a new file: functions of equal name that hold the same are more
 *      than half of either; or both have the same functions, and sizes that are alike (so that the
 *      file may have changed as well).
 *   2. A function of such a file is the function of that name in the new one.
 *   3. A function that holds the same in another file was moved there.
 *   4. A function that holds the same in the same file, under another name, was renamed.
 *   5. The same as 3 and 4 for a function of which one category holds the same, and is more than
 *      half of it: something was added to it as well.
 *
 * "Holds the same" is: in each category the same bytes and blocks. A name alone is weak evidence,
 * since every module has a forward(); with exact sizes it is strong.
 *
 * Every step is a lookup of keys: the time is linear in the number of names. Several candidates
 * with one key are taken in their order, the largest first. */
#include <stdbool.h>
#include <stdlib.h> /* qsort */
#include <string.h>

#include "analysis/diff_parts.h"
#include "analysis/site_key.h"
#include "base/error.h"

#define NOBODY UINT32_MAX

/* A file, or a function in a file. */
typedef struct known_entry {
    bool is_on[2];
    bool is_taken; /* new, and something became it */
    uint32_t now;  /* gone: the new one that it became, or NOBODY */
    uint64_t bytes[2];
} known_entry;

typedef struct known_name {
    known_entry base;
    const vw_frame *frame; /* with its file and function; NULL: no stack */
    uint32_t file;
    const vw__diff_site *sites; /* of the side that has it, if only one does */
    size_t site_count;
} known_name;

typedef struct known_file {
    known_entry base;
    const char *text;
    const uint32_t *names; /* by function */
    size_t name_count;
} known_file;

typedef struct renaming {
    vw__diff_matching *matching;
    known_name *names;
    size_t name_count;
    known_file *files;
    size_t file_count;
    uint32_t *partners; /* by gone name or file: what pair() found, or NOBODY */
} renaming;

static bool is_gone(const known_entry *one)
{
    return one->is_on[VW__DIFF_BEFORE] && !one->is_on[VW__DIFF_AFTER] && one->now == NOBODY;
}

static bool is_new(const known_entry *one)
{
    return one->is_on[VW__DIFF_AFTER] && !one->is_on[VW__DIFF_BEFORE] && !one->is_taken;
}

static void *make_array(renaming *work, size_t count, size_t element_bytes, size_t alignment_bytes)
{
    void *made =
        vw__arena_alloc_array(&work->matching->scratch, count, element_bytes, alignment_bytes);
    if (made == NULL)
        (void)vw__fail_host_memory(count * element_bytes, "the names to compare");
    return made;
}

/* ---- the names and their files --------------------------------------------------------------- */

static void count_in(known_entry *one, int side, uint64_t bytes)
{
    one->is_on[side] = true;
    one->bytes[side] += bytes;
    one->now = NOBODY;
}

static vw_status add_sites(renaming *work, vw__string_table *file_table, int side)
{
    const vw__diff_sites *all = &work->matching->sides[side];
    for (size_t i = 0; i < all->count; i++) {
        const vw__diff_site *site = &all->sites[i];
        known_name *one = &work->names[site->name];
        const char *text = site->frame != NULL ? vw__site_key_file(site->frame->file) : "";
        vw__byte_buffer_clear(&work->matching->key);
        vw__append_text(&work->matching->key, text);
        VW__TRY(vw__diff_add_key(work->matching, file_table, &one->file));
        if (i == 0 || site[-1].name != site->name) {
            one->sites = site;
            one->site_count = 0;
        }
        one->site_count++;
        one->frame = site->frame;
        count_in(&one->base, side, site->bytes);
        work->files[one->file].text = text;
        count_in(&work->files[one->file].base, side, site->bytes);
    }
    return VW_OK;
}

typedef struct listed_name {
    const char *function;
    uint32_t file, name;
} listed_name;

static int compare_listed(const void *left, const void *right)
{
    const listed_name *one = left, *other = right;
    if (one->file != other->file)
        return one->file < other->file ? -1 : 1;
    return strcmp(one->function, other->function);
}

/* Gives every file its names, by function. */
static vw_status list_names(renaming *work)
{
    listed_name *listed = make_array(work, work->name_count, sizeof *listed, _Alignof(listed_name));
    uint32_t *numbers = make_array(work, work->name_count, sizeof *numbers, _Alignof(uint32_t));
    if (listed == NULL || numbers == NULL)
        return VW_ERR_HOST_MEMORY;
    for (uint32_t i = 0; i < work->name_count; i++) {
        const known_name *one = &work->names[i];
        listed[i] = (listed_name){one->frame != NULL ? one->frame->function : "", one->file, i};
    }
    qsort(listed, work->name_count, sizeof *listed, compare_listed);
    for (size_t i = 0; i < work->name_count; i++) {
        known_file *of = &work->files[listed[i].file];
        numbers[i] = listed[i].name;
        if (of->name_count++ == 0)
            of->names = &numbers[i];
    }
    return VW_OK;
}

static vw_status gather(renaming *work)
{
    vw__string_table file_table;
    work->name_count = work->matching->names.count;
    work->names = make_array(work, work->name_count, sizeof *work->names, _Alignof(known_name));
    work->files = make_array(work, work->name_count, sizeof *work->files, _Alignof(known_file));
    work->partners = make_array(work, work->name_count, sizeof *work->partners, _Alignof(uint32_t));
    if (work->names == NULL || work->files == NULL || work->partners == NULL)
        return VW_ERR_HOST_MEMORY;
    vw__string_table_init(&file_table, &work->matching->scratch, VW__STRING_TABLE_LARGEST_COUNT,
                          SIZE_MAX);
    VW__TRY(add_sites(work, &file_table, VW__DIFF_BEFORE));
    VW__TRY(add_sites(work, &file_table, VW__DIFF_AFTER));
    work->file_count = file_table.count;
    return list_names(work);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* What a name holds of one category. */
typedef struct holding {
    const char *category;
    uint64_t bytes, block_count;
} holding;

/* Adds up the category of site `*place`, and goes on to the next one. */
static holding next_holding(const known_name *one, size_t *place)
{
    holding sum = {one->sites[*place].category, 0, 0};
    for (; *place < one->site_count; (*place)++) {
        const vw__diff_site *site = &one->sites[*place];
        if (strcmp(site->category, sum.category) != 0)
            break;
        sum.bytes += site->bytes;
        sum.block_count += site->block_count;
    }
    return sum;
}

static void append_holding(vw__byte_buffer *key, const holding *held)
{
    vw__append_bytes(key, held->category, strlen(held->category) + 1);
    vw__append_bytes(key, &held->bytes, sizeof held->bytes);
    vw__append_bytes(key, &held->block_count, sizeof held->block_count);
}

/* The name is on one side only, as in all keys of amounts. */
static void append_amounts(vw__byte_buffer *key, const renaming *work, uint32_t number)
{
    const known_name *one = &work->names[number];
    for (size_t place = 0; place < one->site_count;) {
        const holding held = next_holding(one, &place);
        append_holding(key, &held);
    }
}

static bool is_most(uint64_t part_bytes, uint64_t all_bytes)
{
    return part_bytes > all_bytes / 2;
}

/* The category that is more than half of it; without one, what no other name has. */
static void append_most(vw__byte_buffer *key, const renaming *work, uint32_t number)
{
    const known_name *one = &work->names[number];
    for (size_t place = 0; place < one->site_count;) {
        const holding held = next_holding(one, &place);
        if (is_most(held.bytes, one->base.bytes[VW__DIFF_BEFORE] + one->base.bytes[VW__DIFF_AFTER]))
            append_holding(key, &held);
    }
    if (vw__byte_buffer_size(key) == 0)
        vw__append_u32_le(key, number);
}

static void append_function(vw__byte_buffer *key, const known_name *one)
{
    vw__append_bytes(key, one->frame->function, strlen(one->frame->function) + 1);
}

static void append_file_now(vw__byte_buffer *key, const renaming *work, const known_name *one)
{
    const known_file *of = &work->files[one->file];
    vw__append_u32_le(key, of->base.now != NOBODY ? of->base.now : one->file);
}

static void key_by_function_and_amounts(const renaming *work, uint32_t number, vw__byte_buffer *key)
{
    append_amounts(key, work, number);
    append_function(key, &work->names[number]);
}

static void key_by_file_and_amounts(const renaming *work, uint32_t number, vw__byte_buffer *key)
{
    append_amounts(key, work, number);
    append_file_now(key, work, &work->names[number]);
}

static void key_by_function_and_most(const renaming *work, uint32_t number, vw__byte_buffer *key)
{
    append_most(key, work, number);
    append_function(key, &work->names[number]);
}

static void key_by_file_and_most(const renaming *work, uint32_t number, vw__byte_buffer *key)
{
    append_most(key, work, number);
    append_file_now(key, work, &work->names[number]);
}

static void key_by_file_and_function(const renaming *work, uint32_t number, vw__byte_buffer *key)
{
    append_file_now(key, work, &work->names[number]);
    append_function(key, &work->names[number]);
}

static void key_by_functions(const renaming *work, uint32_t number, vw__byte_buffer *key)
{
    const known_file *of = &work->files[number];
    for (size_t i = 0; i < of->name_count; i++)
        append_function(key, &work->names[of->names[i]]);
}

/* ---- pairs of equal key ---------------------------------------------------------------------- */

typedef const known_entry *(*entry_getter)(const renaming *work, uint32_t number);
typedef void (*key_writer)(const renaming *work, uint32_t number, vw__byte_buffer *key);

/* NULL: takes no part. */
static const known_entry *get_name(const renaming *work, uint32_t number)
{
    return work->names[number].frame != NULL ? &work->names[number].base : NULL;
}

static const known_entry *get_name_of_lone_file(const renaming *work, uint32_t number)
{
    const known_entry *of = &work->files[work->names[number].file].base;
    return is_gone(of) || is_new(of) ? get_name(work, number) : NULL;
}

static const known_entry *get_file(const renaming *work, uint32_t number)
{
    return work->files[number].text[0] != '\0' ? &work->files[number].base : NULL;
}

static vw_status key_of(renaming *work, vw__string_table *keys, key_writer write, uint32_t number,
                        uint32_t *id)
{
    vw__byte_buffer_clear(&work->matching->key);
    write(work, number, &work->matching->key);
    return vw__diff_add_key(work->matching, keys, id);
}

/* Fills work->partners: of each that is gone, the new one with the same key. */
static vw_status pair(renaming *work, size_t count, entry_getter get, key_writer write)
{
    vw__string_table keys;
    uint32_t id;
    uint32_t *first = make_array(work, count, sizeof *first, _Alignof(uint32_t)); /* by key; + 1 */
    uint32_t *next = make_array(work, count, sizeof *next, _Alignof(uint32_t));
    if (first == NULL || next == NULL)
        return VW_ERR_HOST_MEMORY;
    vw__string_table_init(&keys, &work->matching->scratch, VW__STRING_TABLE_LARGEST_COUNT,
                          SIZE_MAX);
    for (uint32_t i = (uint32_t)count; i-- > 0;) { /* backwards, so that lists are in order */
        const known_entry *one = get(work, i);
        if (one == NULL || !is_new(one))
            continue;
        VW__TRY(key_of(work, &keys, write, i, &id));
        next[i] = first[id];
        first[id] = i + 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        const known_entry *one = get(work, i);
        work->partners[i] = NOBODY;
        if (one == NULL || !is_gone(one))
            continue;
        VW__TRY(key_of(work, &keys, write, i, &id));
        if (first[id] == 0)
            continue;
        work->partners[i] = first[id] - 1;
        first[id] = next[first[id] - 1];
    }
    return VW_OK;
}

static void become(known_entry *gone, known_entry *fresh, uint32_t number)
{
    gone->now = number;
    fresh->is_taken = true;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Bytes of functions that hold the same in both files. */
typedef struct vote {
    uint32_t gone, fresh;
    uint64_t bytes;
} vote;

static int compare_votes(const void *left, const void *right)
{
    const vote *one = left, *other = right;
    if (one->gone != other->gone)
        return one->gone < other->gone ? -1 : 1;
    return (one->fresh > other->fresh) - (one->fresh < other->fresh);
}

static vw_status rename_files_by_votes(renaming *work)
{
    VW__TRY(pair(work, work->name_count, get_name_of_lone_file, key_by_function_and_amounts));
    vote *votes = make_array(work, work->name_count, sizeof *votes, _Alignof(vote));
    size_t count = 0;
    if (votes == NULL)
        return VW_ERR_HOST_MEMORY;
    for (uint32_t i = 0; i < work->name_count; i++)
        if (work->partners[i] != NOBODY)
            votes[count++] = (vote){work->names[i].file, work->names[work->partners[i]].file,
                                    work->names[i].base.bytes[VW__DIFF_BEFORE]};
    qsort(votes, count, sizeof *votes, compare_votes);
    for (size_t begin = 0, end; begin < count; begin = end) {
        uint64_t bytes = 0;
        for (end = begin; end < count && compare_votes(&votes[begin], &votes[end]) == 0; end++)
            bytes += votes[end].bytes;
        known_entry *gone = &work->files[votes[begin].gone].base;
        known_entry *fresh = &work->files[votes[begin].fresh].base;
        if (is_most(bytes, gone->bytes[VW__DIFF_BEFORE]) &&
            is_most(bytes, fresh->bytes[VW__DIFF_AFTER]))
            become(gone, fresh, votes[begin].fresh);
    }
    return VW_OK;
}

static vw_status rename_files_by_functions(renaming *work)
{
    VW__TRY(pair(work, work->file_count, get_file, key_by_functions));
    for (uint32_t i = 0; i < work->file_count; i++) {
        if (work->partners[i] == NOBODY)
            continue;
        known_entry *gone = &work->files[i].base, *fresh = &work->files[work->partners[i]].base;
        if (vw__diff_is_alike(gone->bytes[VW__DIFF_BEFORE], fresh->bytes[VW__DIFF_AFTER]))
            become(gone, fresh, work->partners[i]);
    }
    return VW_OK;
}

/* ---- functions ------------------------------------------------------------------------------- */

static vw_status rename_functions(renaming *work, key_writer write)
{
    VW__TRY(pair(work, work->name_count, get_name, write));
    for (uint32_t i = 0; i < work->name_count; i++)
        if (work->partners[i] != NOBODY)
            become(&work->names[i].base, &work->names[work->partners[i]].base, work->partners[i]);
    return VW_OK;
}

static vw_status rename_all(renaming *work)
{
    VW__TRY(rename_files_by_votes(work));
    VW__TRY(rename_files_by_functions(work));
    VW__TRY(rename_functions(work, key_by_file_and_function));
    VW__TRY(rename_functions(work, key_by_function_and_amounts));
    VW__TRY(rename_functions(work, key_by_file_and_amounts));
    VW__TRY(rename_functions(work, key_by_function_and_most));
    return rename_functions(work, key_by_file_and_most);
}

/* ---- the report ------------------------------------------------------------------------------ */

/* A function that only went along with its file is not reported. */
static bool is_renamed(const renaming *work, const known_name *one)
{
    if (one->base.now == NOBODY)
        return false;
    const known_name *now = &work->names[one->base.now];
    return strcmp(one->frame->function, now->frame->function) != 0 ||
           work->files[one->file].base.now != now->file;
}

static vw_status report_renames(renaming *work, vw_diff_report *report)
{
    const vw__string_table *texts = &work->matching->names;
    vw__arena *arena = work->matching->arena;
    size_t most = work->file_count + work->name_count, count = 0;
    vw_rename *renames = vw__arena_alloc_array(arena, most, sizeof *renames, _Alignof(vw_rename));
    if (renames == NULL)
        return vw__fail_host_memory(most * sizeof *renames, "the renames");
    for (size_t i = 0; i < work->file_count; i++) {
        const known_file *one = &work->files[i];
        if (one->base.now != NOBODY)
            renames[count++] = (vw_rename){true, one->text, work->files[one->base.now].text};
    }
    for (uint32_t i = 0; i < work->name_count; i++) {
        if (!is_renamed(work, &work->names[i]))
            continue;
        vw__string before = vw__string_table_get(texts, i);
        vw__string after = vw__string_table_get(texts, work->names[i].base.now);
        vw_rename *made = &renames[count++];
        made->before = vw__arena_copy(arena, before.bytes, before.size_bytes);
        made->after = vw__arena_copy(arena, after.bytes, after.size_bytes);
        if (made->before == NULL || made->after == NULL)
            return vw__fail_host_memory(before.size_bytes + after.size_bytes, "a rename");
    }
    report->renames = renames;
    report->rename_count = count;
    return VW_OK;
}

vw_status vw__diff_match_names(vw__diff_matching *matching, vw_diff_report *report)
{
    renaming work = {.matching = matching};
    vw__diff_sites *before = &matching->sides[VW__DIFF_BEFORE];
    VW__TRY(gather(&work));
    VW__TRY(rename_all(&work));
    VW__TRY(report_renames(&work, report));
    for (size_t i = 0; i < before->count; i++)
        if (work.names[before->sites[i].name].base.now != NOBODY)
            before->sites[i].name = work.names[before->sites[i].name].base.now;
    vw__diff_sort_sites(before);
    return VW_OK;
}
