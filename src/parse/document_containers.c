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
#include "parse/document_internal.h"

#include <stdalign.h>
#include <string.h>

#include "base/checked_math.h" /* vw__floor_log2_u64, vw__min_u64, vw__ceil_div_u64 */
#include "base/error.h"

typedef enum node_state {
    NODE_OPEN,
    NODE_CLOSED,
    NODE_FOLDED,
} node_state;

enum { NO_CHUNK = 255 };

/* Chunk class 22 holds as many; tests/unit/test_document.c fills lists around that. */
enum { ITEMS_PER_CHUNK = 4096, ITEMS_PER_CHUNK_LOG2 = 12, LIST_CHUNK_CLASS = 22 };

struct vw__document_node {
    union {
        vw__value *items;      /* up to ITEMS_PER_CHUNK, and all pairs of a dict */
        vw__value **directory; /* of chunks with ITEMS_PER_CHUNK each, the last one less */
        vw__value folded;
    } is;
    uint32_t count;      /* of items; of a dict, of keys and values together */
    uint8_t chunk_class; /* of `items` or `directory`; NO_CHUNK: none yet */
    uint8_t state;       /* node_state */
    uint16_t height;     /* 1: holds no container */
};

typedef vw__document_node node;

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
    unsigned log2 = vw__floor_log2_u64(count - 1);
    return count <= (size_t)3 << (log2 - 1) ? 2 * log2 - 1 : 2 * log2;
}

static vw_status take_chunk(vw__document *document, unsigned chunk_class, void **out)
{
    VW_ASSERT(chunk_class < VW__DOCUMENT_CHUNK_CLASS_COUNT);
    void *chunk = document->free_chunks[chunk_class];
    if (chunk != NULL) {
        memcpy(&document->free_chunks[chunk_class], chunk, sizeof chunk);
        *out = chunk;
        return VW_OK;
    }
    size_t size_bytes = chunk_capacity(chunk_class) * sizeof(vw__value);
    chunk = vw__arena_alloc(&document->arena, size_bytes, alignof(vw__value));
    if (chunk == NULL)
        return vw__document_explain_arena(document, size_bytes, "the contents of a container");
    *out = chunk;
    return VW_OK;
}

static void give_back_chunk(vw__document *document, unsigned chunk_class, void *chunk)
{
    if (chunk_class == NO_CHUNK)
        return;
    memcpy(chunk, &document->free_chunks[chunk_class], sizeof chunk);
    document->free_chunks[chunk_class] = chunk;
}

/* A chunk for at least `count` elements with what was in the old one, which is given back. */
static vw_status enlarge_chunk(vw__document *document, uint8_t *chunk_class, size_t used_count,
                               size_t count, void *old, void **out)
{
    unsigned grown_class = chunk_class_for(count);
    void *grown = NULL;
    VW__TRY(take_chunk(document, grown_class, &grown));
    if (used_count != 0)
        memcpy(grown, old, used_count * sizeof(vw__value));
    give_back_chunk(document, *chunk_class, old);
    *chunk_class = (uint8_t)grown_class;
    *out = grown;
    return VW_OK;
}

/* ---- looking --------------------------------------------------------------------------------- */

static bool is_container(vw__value value)
{
    return value >= VW__VALUE_FIRST_CONTAINER;
}

/* Bit 3 of a kind: it is a container, or was one before it was folded. Also tests two values at
 * once, ored together. */
#define CONTAINER_BIT (UINT64_C(8) << VW__VALUE_KIND_SHIFT)

_Static_assert(VW__VALUE_BYTES == 7 && VW__VALUE_FOLDED == 8 && VW__VALUE_DICT < 16,
               "only containers and folded ones have CONTAINER_BIT");

static node *node_of(const vw__document *document, vw__value value)
{
    size_t place = (uint32_t)value;
    VW_ASSERT(is_container(value) && place < document->node_count);
    return &document->nodes[place];
}

vw__value vw__document_resolve(const vw__document *document, vw__value value)
{
    if (!is_container(value))
        return value;
    const node *container = node_of(document, value);
    return container->state == NODE_FOLDED ? container->is.folded : value;
}

/* NULL where the value has no items: another kind, or folded. */
static const node *items_node(const vw__document *document, vw__value value)
{
    if (!is_container(value) || vw__value_get_kind(value) == VW__VALUE_DICT)
        return NULL;
    const node *container = node_of(document, value);
    return container->state != NODE_FOLDED ? container : NULL;
}

size_t vw__value_item_count(const vw__document *document, vw__value value)
{
    const node *container = items_node(document, value);
    return container != NULL ? container->count : 0;
}

bool vw__value_next_items(const vw__document *document, vw__value value, uint64_t *cursor,
                          const vw__value **items, size_t *item_count)
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
        left = (size_t)vw__min_u64(left, ITEMS_PER_CHUNK - inside);
    }
    *item_count = left;
    *cursor += left;
    return true;
}

bool vw__value_next_item(const vw__document *document, vw__value value, uint64_t *cursor,
                         vw__value *item)
{
    const vw__value *items;
    size_t item_count;
    uint64_t place = *cursor;
    if (!vw__value_next_items(document, value, &place, &items, &item_count))
        return false;
    *item = vw__document_resolve(document, items[0]);
    *cursor += 1;
    return true;
}

const vw__value *vw__value_pairs(const vw__document *document, vw__value value, size_t *pair_count)
{
    *pair_count = 0;
    if (vw__value_get_kind(value) != VW__VALUE_DICT)
        return NULL;
    const node *dict = node_of(document, value);
    if (dict->state == NODE_FOLDED || dict->count == 0)
        return NULL;
    *pair_count = dict->count / 2;
    return dict->is.items;
}

/* ---- making containers ----------------------------------------------------------------------- */

static vw_status count_values(vw__document *document, size_t count)
{
    if (count > document->values_left)
        return vw__fail(VW_ERR_UNSUPPORTED,
                        "more values than the limit allows: %zu are left, and "
                        "%zu more come",
                        document->values_left, count);
    document->values_left -= count;
    return VW_OK;
}

static vw_status new_node(vw__document *document, vw__value_kind kind, vw__value *out)
{
    VW__TRY(count_values(document, 1));
    if (document->node_count == document->node_capacity) {
        void *grown = NULL;
        if (document->node_count >= UINT32_MAX / 2)
            return vw__fail(VW_ERR_UNSUPPORTED, "more than %zu containers", document->node_count);
        VW__TRY(vw__document_grow_array(document, document->nodes, sizeof *document->nodes,
                                        "containers", &document->node_capacity, &grown));
        document->nodes = grown;
    }
    document->nodes[document->node_count] =
        (node){.chunk_class = NO_CHUNK, .state = NODE_OPEN, .height = 1};
    *out = vw__value_make(kind, document->node_count++);
    return VW_OK;
}

vw_status vw__document_new_list(vw__document *document, vw__value *out)
{
    return new_node(document, VW__VALUE_LIST, out);
}

vw_status vw__document_new_dict(vw__document *document, vw__value *out)
{
    return new_node(document, VW__VALUE_DICT, out);
}

vw_status vw__document_new_set(vw__document *document, vw__value *out)
{
    return new_node(document, VW__VALUE_TUPLE, out);
}

/* Shows the pairs to the listener, who may take them. Nodes may move meanwhile. */
static vw_status fold_dict(vw__document *document, vw__value value)
{
    node *dict = node_of(document, value);
    vw__value *pairs = dict->is.items;
    vw__value folded = vw__value_none();
    for (size_t i = 1; i < dict->count; i += 2) {
        if ((pairs[i] & CONTAINER_BIT) != 0)
            pairs[i] = vw__document_resolve(document, pairs[i]);
    }
    VW__TRY(document->fold.dict(document->fold.context, document, pairs, dict->count / 2, &folded));
    if (vw__value_get_kind(folded) != VW__VALUE_FOLDED)
        return VW_OK;
    dict = node_of(document, value);
    give_back_chunk(document, dict->chunk_class, pairs);
    *dict = (node){.is.folded = folded, .chunk_class = NO_CHUNK, .state = NODE_FOLDED};
    return VW_OK;
}

static vw_status close_container(vw__document *document, vw__value value)
{
    node_of(document, value)->state = NODE_CLOSED;
    if (vw__value_get_kind(value) == VW__VALUE_DICT && document->fold.dict != NULL)
        return fold_dict(document, value);
    return VW_OK;
}

/* A container that goes into another is closed, and replaced by what it was folded to. */
static vw_status settle(vw__document *document, vw__value *value)
{
    if (node_of(document, *value)->state == NODE_OPEN)
        VW__TRY(close_container(document, *value));
    *value = vw__document_resolve(document, *value);
    return VW_OK;
}

/* Turns `*value` into what `parent` stores for it. */
static vw_status put_container(vw__document *document, vw__value parent, vw__value *value)
{
    if ((uint32_t)*value == (uint32_t)parent)
        return vw__fail(VW_ERR_CORRUPT_FILE, "%s is put into itself",
                        vw__value_kind_name(vw__value_get_kind(parent)));
    VW__TRY(settle(document, value));
    if (!is_container(*value))
        return VW_OK;
    const node *child = node_of(document, *value);
    node *container = node_of(document, parent);
    if (child->height < container->height)
        return VW_OK;
    if (child->height >= document->height_limit)
        return vw__fail(VW_ERR_UNSUPPORTED, "containers are nested deeper than the limit of %zu",
                        document->height_limit);
    container->height = (uint16_t)(child->height + 1);
    return VW_OK;
}

/* The same for key and value. Of containers, only a tuple may be a key. */
static vw_status put_pair(vw__document *document, vw__value dict, vw__value *key, vw__value *value)
{
    if ((*key & CONTAINER_BIT) != 0) {
        if (vw__value_get_kind(*key) != VW__VALUE_TUPLE)
            return vw__fail(VW_ERR_CORRUPT_FILE, "%s is the key of a dict",
                            vw__value_kind_name(vw__value_get_kind(*key)));
        VW__TRY(put_container(document, dict, key));
    }
    return is_container(*value) ? put_container(document, dict, value) : VW_OK;
}

/* Fails unless `container` may be filled with `count` more values. */
static vw_status begin_filling(vw__document *document, vw__value container, size_t count)
{
    const node *filled = node_of(document, container);
    if (filled->state != NODE_OPEN)
        return vw__fail(VW_ERR_CORRUPT_FILE, "%s is filled after it was finished",
                        vw__value_kind_name(vw__value_get_kind(container)));
    if (count > UINT32_MAX - filled->count)
        return vw__fail(VW_ERR_UNSUPPORTED, "%s with more than %lu values",
                        vw__value_kind_name(vw__value_get_kind(container)),
                        (unsigned long)UINT32_MAX);
    return count_values(document, count);
}

/* Where the next items of a list that has ITEMS_PER_CHUNK or more go. */
static vw_status make_room_in_directory(vw__document *document, node *list, vw__value **place,
                                        size_t *room)
{
    size_t chunk_count = vw__ceil_div_u64(list->count, ITEMS_PER_CHUNK);
    size_t inside = list->count % ITEMS_PER_CHUNK;
    if (list->count == ITEMS_PER_CHUNK) { /* the one chunk becomes the first of many */
        void *directory = NULL;
        VW__TRY(take_chunk(document, 0, &directory));
        ((vw__value **)directory)[0] = list->is.items;
        list->is.directory = directory;
        list->chunk_class = 0;
    }
    if (inside == 0) {
        void *chunk = NULL, *directory = NULL;
        if (chunk_count == chunk_capacity(list->chunk_class)) {
            VW__TRY(enlarge_chunk(document, &list->chunk_class, chunk_count, chunk_count + 1,
                                  list->is.directory, &directory));
            list->is.directory = directory;
        }
        VW__TRY(take_chunk(document, LIST_CHUNK_CLASS, &chunk));
        list->is.directory[chunk_count++] = chunk;
    }
    *place = list->is.directory[chunk_count - 1] + inside;
    *room = ITEMS_PER_CHUNK - inside;
    return VW_OK;
}

/* Where the next `wanted` items go, or at least the first `*room` of them. */
static vw_status make_room(vw__document *document, node *list, size_t wanted, vw__value **place,
                           size_t *room)
{
    if (list->count >= ITEMS_PER_CHUNK)
        return make_room_in_directory(document, list, place, room);
    size_t capacity = (size_t)vw__min_u64(list->count + (uint64_t)wanted, ITEMS_PER_CHUNK);
    if (capacity > chunk_capacity(list->chunk_class)) {
        void *grown = NULL;
        VW__TRY(enlarge_chunk(document, &list->chunk_class, list->count, capacity, list->is.items,
                              &grown));
        list->is.items = grown;
    }
    *place = list->is.items + list->count;
    *room = capacity - list->count;
    return VW_OK;
}

vw_status vw__document_append(vw__document *document, vw__value list, const vw__value *items,
                              size_t item_count)
{
    VW_ASSERT(vw__value_get_kind(list) != VW__VALUE_DICT);
    VW__TRY(begin_filling(document, list, item_count));
    while (item_count > 0) {
        vw__value *place;
        size_t room;
        VW__TRY(make_room(document, node_of(document, list), item_count, &place, &room));
        size_t taken = (size_t)vw__min_u64(room, item_count);
        for (size_t i = 0; i < taken; i++) {
            vw__value item = items[i];
            if (is_container(item)) {
                const node *child = node_of(document, item);
                if (child->state == NODE_FOLDED) /* again and again: frames of many stacks */
                    item = child->is.folded;
                else
                    VW__TRY(put_container(document, list, &item));
            }
            place[i] = item;
        }
        node_of(document, list)->count += (uint32_t)taken;
        items += taken;
        item_count -= taken;
    }
    return VW_OK;
}

vw_status vw__document_set(vw__document *document, vw__value dict, const vw__value *pairs,
                           size_t pair_count)
{
    VW_ASSERT(vw__value_get_kind(dict) == VW__VALUE_DICT && pair_count <= SIZE_MAX / 2);
    size_t count = pair_count * 2;
    VW__TRY(begin_filling(document, dict, count));
    if (count == 0)
        return VW_OK;
    node *filled = node_of(document, dict);
    size_t old_count = filled->count;
    if (old_count + count > chunk_capacity(filled->chunk_class)) {
        void *grown = NULL;
        VW__TRY(enlarge_chunk(document, &filled->chunk_class, old_count, old_count + count,
                              filled->is.items, &grown));
        filled->is.items = grown;
    }
    vw__value *place = filled->is.items + old_count;
    for (size_t i = 0; i < count; i += 2) {
        vw__value key = pairs[i], value = pairs[i + 1];
        if (((key | value) & CONTAINER_BIT) != 0)
            VW__TRY(put_pair(document, dict, &key, &value));
        place[i] = key;
        place[i + 1] = value;
    }
    node_of(document, dict)->count = (uint32_t)(old_count + count);
    return VW_OK;
}

vw_status vw__document_tuple(vw__document *document, const vw__value *items, size_t item_count,
                             vw__value *out)
{
    vw__value tuple;
    VW__TRY(new_node(document, VW__VALUE_TUPLE, &tuple));
    VW__TRY(vw__document_append(document, tuple, items, item_count));
    node_of(document, tuple)->state = NODE_CLOSED;
    *out = tuple;
    return VW_OK;
}

/* ---- the short way --------------------------------------------------------------------------- */

/* Closes what the values refer to. `*is_plain` becomes false where the long way would refuse. */
static vw_status settle_pairs(vw__document *document, vw__value *pairs, size_t pair_count,
                              bool *is_plain)
{
    for (size_t i = 0; i < pair_count; i++) {
        vw__value *value = &pairs[2 * i + 1];
        if ((pairs[2 * i] & CONTAINER_BIT) != 0)
            *is_plain = false;
        if (!is_container(*value))
            continue;
        VW__TRY(settle(document, value));
        if (is_container(*value) && node_of(document, *value)->height >= document->height_limit)
            *is_plain = false;
    }
    return VW_OK;
}

/* Sets the uppermost bit of a value that is `kind` or one behind it. */
static uint64_t bit_from_kind_on(vw__value value, vw__value_kind kind)
{
    return value + ((UINT64_C(0x80) - kind) << VW__VALUE_KIND_SHIFT);
}

vw_status vw__document_fold_pairs(vw__document *document, vw__value *pairs, size_t pair_count,
                                  vw__value *folded)
{
    if (document->fold.dict == NULL || pair_count >= document->values_left / 2)
        return VW_OK;
    uint64_t work = 0; /* checked once, at the end: usually 0 */
    for (size_t i = 0; i < pair_count; i++)
        work |= bit_from_kind_on(pairs[2 * i], VW__VALUE_FOLDED) |
                bit_from_kind_on(pairs[2 * i + 1], VW__VALUE_LIST);
    if (work >> 63 != 0) {
        bool is_plain = true;
        VW__TRY(settle_pairs(document, pairs, pair_count, &is_plain));
        if (!is_plain)
            return VW_OK;
    }
    vw__value result = vw__value_none();
    VW__TRY(document->fold.dict(document->fold.context, document, pairs, pair_count, &result));
    if (vw__value_get_kind(result) != VW__VALUE_FOLDED)
        return VW_OK;
    document->values_left -= 1 + 2 * pair_count;
    *folded = result;
    return VW_OK;
}

vw_status vw__document_fold_items(vw__document *document, vw__value *items, size_t item_count,
                                  vw__value *folded)
{
    if (document->fold.list == NULL || item_count == 0 || item_count >= document->values_left)
        return VW_OK;
    uint64_t work = 0;
    for (size_t i = 0; i < item_count; i++)
        work |= bit_from_kind_on(items[i], VW__VALUE_LIST);
    for (size_t i = 0; i < item_count && work >> 63 != 0; i++) {
        if (is_container(items[i]))
            VW__TRY(settle(document, &items[i]));
    }
    vw__value result = vw__value_none();
    VW__TRY(document->fold.list(document->fold.context, document, items, item_count, &result));
    if (vw__value_get_kind(result) != VW__VALUE_FOLDED)
        return VW_OK;
    document->values_left -= 1 + item_count;
    *folded = result;
    return VW_OK;
}

/* ---- the end --------------------------------------------------------------------------------- */

vw_status vw__document_close(vw__document *document, vw__value root, vw__value *out)
{
    if (is_container(root) && node_of(document, root)->state == NODE_OPEN)
        VW__TRY(close_container(document, root));
    *out = vw__document_resolve(document, root);
    return VW_OK;
}

void vw__document_fold_list(vw__document *document, vw__value list, vw__value folded)
{
    const node *container = items_node(document, list);
    VW_ASSERT(container != NULL && container->state == NODE_CLOSED);
    VW_ASSERT(vw__value_get_kind(folded) == VW__VALUE_FOLDED);
    if (container == NULL)
        return;
    if (container->count > ITEMS_PER_CHUNK) {
        size_t chunk_count = vw__ceil_div_u64(container->count, ITEMS_PER_CHUNK);
        for (size_t i = 0; i < chunk_count; i++)
            give_back_chunk(document, LIST_CHUNK_CLASS, container->is.directory[i]);
    }
    give_back_chunk(document, container->chunk_class, container->is.items);
    *node_of(document, list) =
        (node){.is.folded = folded, .chunk_class = NO_CHUNK, .state = NODE_FOLDED};
}
