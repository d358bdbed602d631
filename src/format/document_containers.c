/* document_containers.c - nodes, the chunks their contents lie in, and the moment a dict is folded.
 *
 * A container is a number: its place in an array of nodes. References to it, in a reader's memo or
 * in other containers, are that number, so when a dict is folded its node turns into the folded
 * value and every reference has changed with it. Nodes are small and never given back, because a
 * memo may name any of them until the end of the file.
 *
 * Contents lie in chunks: plain arrays of values, in two sizes for each power of two. A chunk whose
 * dict was folded goes to a list of free ones of its size, and the next dict of that kind takes it:
 * reading a million events keeps using the same few kilobytes. Items of a list lie in one chunk up
 * to ITEMS_PER_CHUNK; longer lists have a directory of chunks of that size, so growing never copies
 * more than one chunk. Pairs of a dict always lie in one.
 *
 * Height, not depth, is what is counted: a container is one higher than the highest it holds, known
 * when that one is put in, whichever order a file builds them in. */
#include "format/document_private.h"

#include <stdalign.h>
#include <string.h>

#include "base/checked_math.h" /* hr__floor_log2_u64, hr__min_u64, hr__ceil_div_u64 */
#include "base/error.h"

typedef enum node_state {
    NODE_OPEN,
    NODE_CLOSED,
    NODE_FOLDED,
} node_state;

enum { NO_CHUNK = 255 };

/* Chunk class 22 holds as many; tests/unit/test_document.c fills lists around that. */
enum { ITEMS_PER_CHUNK = 4096, ITEMS_PER_CHUNK_LOG2 = 12, LIST_CHUNK_CLASS = 22 };

struct hr__document_node {
    union {
        hr__value *items;      /* up to ITEMS_PER_CHUNK, and all pairs of a dict */
        hr__value **directory; /* of chunks with ITEMS_PER_CHUNK each, the last one less */
        hr__value folded;
    } is;
    uint32_t count;      /* of items; of a dict, of keys and values together */
    uint8_t chunk_class; /* of `items` or `directory`; NO_CHUNK: none yet */
    uint8_t state;       /* node_state */
    uint16_t height;     /* 1: holds no container */
};

typedef hr__document_node node;

_Static_assert(sizeof(node) == 16, "there is one for every dict and list of a file");

/* ---- chunks ---------------------------------------------------------------------------------- */

/* Capacities 2, 3, 4, 6, 8, 12, 16, 24 ... */
static size_t chunk_capacity(unsigned chunk_class)
{
    return chunk_class == NO_CHUNK ? 0 : (size_t)(2 + chunk_class % 2) << chunk_class / 2;
}

static unsigned chunk_class_for(size_t count)
{
    if (count <= 2)
        return 0;
    unsigned log2 = hr__floor_log2_u64(count - 1);
    return count <= (size_t)3 << (log2 - 1) ? 2 * log2 - 1 : 2 * log2;
}

static hr_status take_chunk(hr__document *document, unsigned chunk_class, void **out)
{
    HR_ASSERT(chunk_class < HR__CHUNK_CLASS_COUNT);
    void *chunk = document->free_chunks[chunk_class];
    if (chunk != NULL) {
        memcpy(&document->free_chunks[chunk_class], chunk, sizeof chunk);
        *out = chunk;
        return HR_OK;
    }
    size_t size_bytes = chunk_capacity(chunk_class) * sizeof(hr__value);
    chunk = hr__arena_alloc(&document->arena, size_bytes, alignof(hr__value));
    if (chunk == NULL)
        return hr__document_explain_arena(document, size_bytes, "the contents of a container");
    *out = chunk;
    return HR_OK;
}

static void give_back_chunk(hr__document *document, unsigned chunk_class, void *chunk)
{
    if (chunk_class == NO_CHUNK)
        return;
    memcpy(chunk, &document->free_chunks[chunk_class], sizeof chunk);
    document->free_chunks[chunk_class] = chunk;
}

/* A chunk for at least `count` elements with what was in the old one, which is given back. */
static hr_status enlarge_chunk(hr__document *document, uint8_t *chunk_class, size_t used_count,
                               size_t count, void *old, void **out)
{
    unsigned grown_class = chunk_class_for(count);
    void *grown = NULL;
    HR__TRY(take_chunk(document, grown_class, &grown));
    if (used_count != 0)
        memcpy(grown, old, used_count * sizeof(hr__value));
    give_back_chunk(document, *chunk_class, old);
    *chunk_class = (uint8_t)grown_class;
    *out = grown;
    return HR_OK;
}

/* ---- looking --------------------------------------------------------------------------------- */

static bool is_container(hr__value value)
{
    return value >= HR__FIRST_CONTAINER;
}

/* Bit 3 of a kind: it is a container, or was one before it was folded. Of two values at once, too,
 * if they are ored. */
#define CONTAINER_BIT (UINT64_C(8) << HR__VALUE_KIND_SHIFT)

_Static_assert(HR__VALUE_BYTES == 7 && HR__VALUE_FOLDED == 8 && HR__VALUE_DICT < 16,
               "only containers and folded ones have CONTAINER_BIT");

static node *node_of(const hr__document *document, hr__value value)
{
    size_t place = (uint32_t)value;
    HR_ASSERT(is_container(value) && place < document->node_count);
    return &document->nodes[place];
}

hr__value hr__document_resolve(const hr__document *document, hr__value value)
{
    if (!is_container(value))
        return value;
    const node *container = node_of(document, value);
    return container->state == NODE_FOLDED ? container->is.folded : value;
}

/* NULL where there are no items to see: another kind, or folded. */
static const node *items_node(const hr__document *document, hr__value value)
{
    if (!is_container(value) || hr__value_get_kind(value) == HR__VALUE_DICT)
        return NULL;
    const node *container = node_of(document, value);
    return container->state != NODE_FOLDED ? container : NULL;
}

size_t hr__value_item_count(const hr__document *document, hr__value value)
{
    const node *container = items_node(document, value);
    return container != NULL ? container->count : 0;
}

bool hr__value_next_items(const hr__document *document, hr__value value, uint64_t *cursor,
                          const hr__value **items, size_t *item_count)
{
    const node *container = items_node(document, value);
    if (container == NULL || *cursor >= container->count)
        return false;
    size_t place = (size_t)*cursor;
    size_t left = container->count - place;
    if (container->count <= ITEMS_PER_CHUNK) {
        *items = container->is.items + place;
    } else {
        size_t inside = place % ITEMS_PER_CHUNK;
        *items = container->is.directory[place >> ITEMS_PER_CHUNK_LOG2] + inside;
        left = (size_t)hr__min_u64(left, ITEMS_PER_CHUNK - inside);
    }
    *item_count = left;
    *cursor += left;
    return true;
}

bool hr__value_next_item(const hr__document *document, hr__value value, uint64_t *cursor,
                         hr__value *item)
{
    const hr__value *items;
    size_t item_count;
    uint64_t place = *cursor;
    if (!hr__value_next_items(document, value, &place, &items, &item_count))
        return false;
    *item = hr__document_resolve(document, items[0]);
    *cursor += 1;
    return true;
}

const hr__value *hr__value_pairs(const hr__document *document, hr__value value, size_t *pair_count)
{
    *pair_count = 0;
    if (hr__value_get_kind(value) != HR__VALUE_DICT)
        return NULL;
    const node *dict = node_of(document, value);
    if (dict->state == NODE_FOLDED || dict->count == 0)
        return NULL;
    *pair_count = dict->count / 2;
    return dict->is.items;
}

/* ---- making containers ----------------------------------------------------------------------- */

static hr_status count_values(hr__document *document, size_t count)
{
    if (count > document->values_left)
        return hr__fail(HR_ERR_UNSUPPORTED,
                        "more values than the limit allows: %zu are left, and "
                        "%zu more come",
                        document->values_left, count);
    document->values_left -= count;
    return HR_OK;
}

static hr_status new_node(hr__document *document, hr__value_kind kind, hr__value *out)
{
    HR__TRY(count_values(document, 1));
    if (document->node_count == document->node_capacity) {
        void *grown = NULL;
        if (document->node_count >= UINT32_MAX / 2)
            return hr__fail(HR_ERR_UNSUPPORTED, "more than %zu containers", document->node_count);
        HR__TRY(hr__document_grow_array(document, document->nodes, sizeof *document->nodes,
                                        "containers", &document->node_capacity, &grown));
        document->nodes = grown;
    }
    document->nodes[document->node_count] =
        (node){.chunk_class = NO_CHUNK, .state = NODE_OPEN, .height = 1};
    *out = hr__value_make(kind, document->node_count++);
    return HR_OK;
}

hr_status hr__document_new_list(hr__document *document, hr__value *out)
{
    return new_node(document, HR__VALUE_LIST, out);
}

hr_status hr__document_new_dict(hr__document *document, hr__value *out)
{
    return new_node(document, HR__VALUE_DICT, out);
}

hr_status hr__document_new_set(hr__document *document, hr__value *out)
{
    return new_node(document, HR__VALUE_TUPLE, out);
}

/* Shows the pairs to the listener, who may take them. Nodes may move meanwhile. */
static hr_status fold_dict(hr__document *document, hr__value value)
{
    node *dict = node_of(document, value);
    hr__value *pairs = dict->is.items;
    hr__value folded = hr__value_none();
    for (size_t i = 1; i < dict->count; i += 2) {
        if ((pairs[i] & CONTAINER_BIT) != 0)
            pairs[i] = hr__document_resolve(document, pairs[i]);
    }
    HR__TRY(document->fold.dict(document->fold.context, document, pairs, dict->count / 2, &folded));
    if (hr__value_get_kind(folded) != HR__VALUE_FOLDED)
        return HR_OK;
    dict = node_of(document, value);
    give_back_chunk(document, dict->chunk_class, pairs);
    *dict = (node){.is.folded = folded, .chunk_class = NO_CHUNK, .state = NODE_FOLDED};
    return HR_OK;
}

static hr_status close_container(hr__document *document, hr__value value)
{
    node_of(document, value)->state = NODE_CLOSED;
    if (hr__value_get_kind(value) == HR__VALUE_DICT && document->fold.dict != NULL)
        return fold_dict(document, value);
    return HR_OK;
}

/* A container that goes into another is closed, and replaced by what it was folded to. */
static hr_status settle(hr__document *document, hr__value *value)
{
    if (node_of(document, *value)->state == NODE_OPEN)
        HR__TRY(close_container(document, *value));
    *value = hr__document_resolve(document, *value);
    return HR_OK;
}

/* What to store for `*value` inside `parent`. */
static hr_status put_container(hr__document *document, hr__value parent, hr__value *value)
{
    if ((uint32_t)*value == (uint32_t)parent)
        return hr__fail(HR_ERR_CORRUPT_FILE, "%s is put into itself",
                        hr__value_kind_name(hr__value_get_kind(parent)));
    HR__TRY(settle(document, value));
    if (!is_container(*value))
        return HR_OK;
    const node *child = node_of(document, *value);
    node *container = node_of(document, parent);
    if (child->height < container->height)
        return HR_OK;
    if (child->height >= document->height_limit)
        return hr__fail(HR_ERR_UNSUPPORTED, "containers are nested deeper than the limit of %zu",
                        document->height_limit);
    container->height = (uint16_t)(child->height + 1);
    return HR_OK;
}

/* The same for key and value. Of containers, only a tuple may be a key. */
static hr_status put_pair(hr__document *document, hr__value dict, hr__value *key, hr__value *value)
{
    if ((*key & CONTAINER_BIT) != 0) {
        if (hr__value_get_kind(*key) != HR__VALUE_TUPLE)
            return hr__fail(HR_ERR_CORRUPT_FILE, "%s is the key of a dict",
                            hr__value_kind_name(hr__value_get_kind(*key)));
        HR__TRY(put_container(document, dict, key));
    }
    return is_container(*value) ? put_container(document, dict, value) : HR_OK;
}

/* Fails unless `container` may be filled with `count` more values. */
static hr_status begin_filling(hr__document *document, hr__value container, size_t count)
{
    const node *filled = node_of(document, container);
    if (filled->state != NODE_OPEN)
        return hr__fail(HR_ERR_CORRUPT_FILE, "%s is filled after it was finished",
                        hr__value_kind_name(hr__value_get_kind(container)));
    if (count > UINT32_MAX - filled->count)
        return hr__fail(HR_ERR_UNSUPPORTED, "%s with more than %lu values",
                        hr__value_kind_name(hr__value_get_kind(container)),
                        (unsigned long)UINT32_MAX);
    return count_values(document, count);
}

/* Where the next items of a list that has ITEMS_PER_CHUNK or more go. */
static hr_status make_room_in_directory(hr__document *document, node *list, hr__value **place,
                                        size_t *room)
{
    size_t chunk_count = hr__ceil_div_u64(list->count, ITEMS_PER_CHUNK);
    size_t inside = list->count % ITEMS_PER_CHUNK;
    if (list->count == ITEMS_PER_CHUNK) { /* the one chunk becomes the first of many */
        void *directory = NULL;
        HR__TRY(take_chunk(document, 0, &directory));
        ((hr__value **)directory)[0] = list->is.items;
        list->is.directory = directory;
        list->chunk_class = 0;
    }
    if (inside == 0) {
        void *chunk = NULL, *directory = NULL;
        if (chunk_count == chunk_capacity(list->chunk_class)) {
            HR__TRY(enlarge_chunk(document, &list->chunk_class, chunk_count, chunk_count + 1,
                                  list->is.directory, &directory));
            list->is.directory = directory;
        }
        HR__TRY(take_chunk(document, LIST_CHUNK_CLASS, &chunk));
        list->is.directory[chunk_count++] = chunk;
    }
    *place = list->is.directory[chunk_count - 1] + inside;
    *room = ITEMS_PER_CHUNK - inside;
    return HR_OK;
}

/* Where the next `wanted` items go, or at least the first `*room` of them. */
static hr_status make_room(hr__document *document, node *list, size_t wanted, hr__value **place,
                           size_t *room)
{
    if (list->count >= ITEMS_PER_CHUNK)
        return make_room_in_directory(document, list, place, room);
    size_t capacity = (size_t)hr__min_u64(list->count + (uint64_t)wanted, ITEMS_PER_CHUNK);
    if (capacity > chunk_capacity(list->chunk_class)) {
        void *grown = NULL;
        HR__TRY(enlarge_chunk(document, &list->chunk_class, list->count, capacity, list->is.items,
                              &grown));
        list->is.items = grown;
    }
    *place = list->is.items + list->count;
    *room = capacity - list->count;
    return HR_OK;
}

hr_status hr__document_append(hr__document *document, hr__value list, const hr__value *items,
                              size_t item_count)
{
    HR_ASSERT(hr__value_get_kind(list) != HR__VALUE_DICT);
    HR__TRY(begin_filling(document, list, item_count));
    while (item_count > 0) {
        hr__value *place;
        size_t room;
        HR__TRY(make_room(document, node_of(document, list), item_count, &place, &room));
        size_t taken = (size_t)hr__min_u64(room, item_count);
        for (size_t i = 0; i < taken; i++) {
            hr__value item = items[i];
            if (is_container(item)) {
                const node *child = node_of(document, item);
                if (child->state == NODE_FOLDED) /* again and again: frames of many stacks */
                    item = child->is.folded;
                else
                    HR__TRY(put_container(document, list, &item));
            }
            place[i] = item;
        }
        node_of(document, list)->count += (uint32_t)taken;
        items += taken;
        item_count -= taken;
    }
    return HR_OK;
}

hr_status hr__document_set(hr__document *document, hr__value dict, const hr__value *pairs,
                           size_t pair_count)
{
    HR_ASSERT(hr__value_get_kind(dict) == HR__VALUE_DICT && pair_count <= SIZE_MAX / 2);
    size_t count = pair_count * 2;
    HR__TRY(begin_filling(document, dict, count));
    if (count == 0)
        return HR_OK;
    node *filled = node_of(document, dict);
    size_t old_count = filled->count;
    if (old_count + count > chunk_capacity(filled->chunk_class)) {
        void *grown = NULL;
        HR__TRY(enlarge_chunk(document, &filled->chunk_class, old_count, old_count + count,
                              filled->is.items, &grown));
        filled->is.items = grown;
    }
    hr__value *place = filled->is.items + old_count;
    for (size_t i = 0; i < count; i += 2) {
        hr__value key = pairs[i], value = pairs[i + 1];
        if (((key | value) & CONTAINER_BIT) != 0)
            HR__TRY(put_pair(document, dict, &key, &value));
        place[i] = key;
        place[i + 1] = value;
    }
    node_of(document, dict)->count = (uint32_t)(old_count + count);
    return HR_OK;
}

hr_status hr__document_tuple(hr__document *document, const hr__value *items, size_t item_count,
                             hr__value *out)
{
    hr__value tuple;
    HR__TRY(new_node(document, HR__VALUE_TUPLE, &tuple));
    HR__TRY(hr__document_append(document, tuple, items, item_count));
    node_of(document, tuple)->state = NODE_CLOSED;
    *out = tuple;
    return HR_OK;
}

/* ---- the short way --------------------------------------------------------------------------- */

/* Closes what the values refer to. `*is_plain` becomes false where the long way would refuse. */
static hr_status settle_pairs(hr__document *document, hr__value *pairs, size_t pair_count,
                              bool *is_plain)
{
    for (size_t i = 0; i < pair_count; i++) {
        hr__value *value = &pairs[2 * i + 1];
        if ((pairs[2 * i] & CONTAINER_BIT) != 0)
            *is_plain = false;
        if (!is_container(*value))
            continue;
        HR__TRY(settle(document, value));
        if (is_container(*value) && node_of(document, *value)->height >= document->height_limit)
            *is_plain = false;
    }
    return HR_OK;
}

/* Sets the uppermost bit of a value that is `kind` or one behind it. */
static uint64_t bit_from_kind_on(hr__value value, hr__value_kind kind)
{
    return value + ((UINT64_C(0x80) - kind) << HR__VALUE_KIND_SHIFT);
}

hr_status hr__document_fold_pairs(hr__document *document, hr__value *pairs, size_t pair_count,
                                  hr__value *folded)
{
    if (document->fold.dict == NULL || pair_count >= document->values_left / 2)
        return HR_OK;
    uint64_t work = 0; /* looked at once, at the end: usually there is none */
    for (size_t i = 0; i < pair_count; i++)
        work |= bit_from_kind_on(pairs[2 * i], HR__VALUE_FOLDED) |
                bit_from_kind_on(pairs[2 * i + 1], HR__VALUE_LIST);
    if (work >> 63 != 0) {
        bool is_plain = true;
        HR__TRY(settle_pairs(document, pairs, pair_count, &is_plain));
        if (!is_plain)
            return HR_OK;
    }
    hr__value result = hr__value_none();
    HR__TRY(document->fold.dict(document->fold.context, document, pairs, pair_count, &result));
    if (hr__value_get_kind(result) != HR__VALUE_FOLDED)
        return HR_OK;
    document->values_left -= 1 + 2 * pair_count;
    *folded = result;
    return HR_OK;
}

hr_status hr__document_fold_items(hr__document *document, hr__value *items, size_t item_count,
                                  hr__value *folded)
{
    if (document->fold.list == NULL || item_count == 0 || item_count >= document->values_left)
        return HR_OK;
    uint64_t work = 0;
    for (size_t i = 0; i < item_count; i++)
        work |= bit_from_kind_on(items[i], HR__VALUE_LIST);
    for (size_t i = 0; i < item_count && work >> 63 != 0; i++) {
        if (is_container(items[i]))
            HR__TRY(settle(document, &items[i]));
    }
    hr__value result = hr__value_none();
    HR__TRY(document->fold.list(document->fold.context, document, items, item_count, &result));
    if (hr__value_get_kind(result) != HR__VALUE_FOLDED)
        return HR_OK;
    document->values_left -= 1 + item_count;
    *folded = result;
    return HR_OK;
}

/* ---- the end --------------------------------------------------------------------------------- */

hr_status hr__document_close(hr__document *document, hr__value root, hr__value *out)
{
    if (is_container(root) && node_of(document, root)->state == NODE_OPEN)
        HR__TRY(close_container(document, root));
    *out = hr__document_resolve(document, root);
    return HR_OK;
}

void hr__document_fold_list(hr__document *document, hr__value list, hr__value folded)
{
    const node *container = items_node(document, list);
    HR_ASSERT(container != NULL && container->state == NODE_CLOSED);
    HR_ASSERT(hr__value_get_kind(folded) == HR__VALUE_FOLDED);
    if (container == NULL)
        return;
    if (container->count > ITEMS_PER_CHUNK) {
        size_t chunk_count = hr__ceil_div_u64(container->count, ITEMS_PER_CHUNK);
        for (size_t i = 0; i < chunk_count; i++)
            give_back_chunk(document, LIST_CHUNK_CLASS, container->is.directory[i]);
    }
    give_back_chunk(document, container->chunk_class, container->is.items);
    *node_of(document, list) =
        (node){.is.folded = folded, .chunk_class = NO_CHUNK, .state = NODE_FOLDED};
}
