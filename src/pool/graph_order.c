/* graph_order.c - marks, and the ancestors of a stream's last nodes. */
#include "pool/graph_order.h"

#include <string.h>

#include "base/address_map.h"
#include "base/host_memory.h"
#include "device/device_table.h"
#include "engine/shelf.h" /* vw__block_stream */
#include "pool/stream_order.h"

struct vw__graph_order_marks {
    uint64_t capture;
    size_t count;
    vw_graph_node nodes[];
};

struct vw__graph_order_past {
    vw__graph_order_past *next;
    uint64_t capture;
    vw_stream stream;
    vw__address_map nodes; /* by key_of() */
};

enum { FIRST_CAPACITY = 64 };

typedef struct node_list {
    vw_graph_node *nodes; /* owned */
    size_t count;
    size_t capacity;
} node_list;

static bool make_room(node_list *list, size_t more)
{
    size_t wanted = list->capacity != 0 ? list->capacity : FIRST_CAPACITY;
    while (wanted - list->count < more)
        wanted *= 2;
    if (wanted == list->capacity)
        return true;
    vw_graph_node *grown = vw__host_realloc(list->nodes, wanted * sizeof *grown);
    if (grown == NULL)
        return false;
    list->nodes = grown;
    list->capacity = wanted;
    return true;
}

/* Appends the last nodes of `stream`. False: it is not captured, or unknown. */
static bool append_last(node_list *list, const vw_device *device, vw_stream stream,
                        uint64_t *capture)
{
    size_t found = 1;
    for (;;) {
        if (!make_room(list, found))
            return false;
        size_t room = list->capacity - list->count;
        if (device->table->stream_capture_nodes(device->context, stream, capture,
                                                list->nodes + list->count, room, &found) != VW_OK)
            return false;
        if (found <= room)
            break;
    }
    list->count += found;
    return *capture != 0;
}

static bool append_parents(node_list *list, const vw_device *device, vw_graph_node node)
{
    size_t found = 1;
    for (;;) {
        if (!make_room(list, found))
            return false;
        size_t room = list->capacity - list->count;
        if (device->table->graph_node_parents(device->context, node, list->nodes + list->count,
                                              room, &found) != VW_OK)
            return false;
        if (found <= room)
            break;
    }
    list->count += found;
    return true;
}

static bool can_tell(const vw_device *device)
{
    return VW__DEVICE_TABLE_HAS(device->table, stream_capture_nodes) &&
           VW__DEVICE_TABLE_HAS(device->table, graph_node_parents);
}

/* ---- marks ----------------------------------------------------------------------------------- */

vw__graph_order_marks *vw__graph_order_mark(const vw_device *device, const vw__block *block)
{
    node_list list = {NULL, 0, 0};
    uint64_t capture = 0;
    vw__graph_order_marks *marks = NULL;
    bool is_known =
        can_tell(device) && append_last(&list, device, vw__block_stream(block), &capture);
    for (const vw__stream_order_use *use = block->uses; use != NULL && is_known; use = use->next) {
        uint64_t of_use = 0;
        is_known = use->is_from_capture && append_last(&list, device, use->stream, &of_use) &&
                   of_use == capture;
    }
    if (is_known && list.count != 0)
        marks = vw__host_alloc(sizeof *marks + list.count * sizeof *list.nodes);
    if (marks != NULL) {
        marks->capture = capture;
        marks->count = list.count;
        memcpy(marks->nodes, list.nodes, list.count * sizeof *list.nodes);
    }
    vw__host_free(list.nodes);
    return marks;
}

/* ---- ancestors ------------------------------------------------------------------------------- */

/* The map is made for addresses of blocks and drops the low nine bits, which in a node's number say
 * something. */
static uint64_t key_of(vw_graph_node node)
{
    return node << 9 | node >> 55;
}

static vw__graph_order_past *find_or_make(vw__graph_order *order, uint64_t capture,
                                          vw_stream stream)
{
    vw__graph_order_past *past = order->pasts;
    while (past != NULL && (past->capture != capture || past->stream != stream))
        past = past->next;
    if (past == NULL && (past = vw__host_alloc_zeroed(1, sizeof *past)) != NULL) {
        past->capture = capture;
        past->stream = stream;
        vw__address_map_init(&past->nodes);
        past->next = order->pasts;
        order->pasts = past;
    }
    return past;
}

/* Adds the nodes of `waiting` and their ancestors. */
static bool extend(vw__graph_order_past *past, const vw_device *device, node_list *waiting)
{
    while (waiting->count != 0) {
        vw_graph_node node = waiting->nodes[--waiting->count];
        if (node == 0 || vw__address_map_get(&past->nodes, key_of(node)) != NULL)
            continue;
        if (!vw__address_map_reserve(&past->nodes, 1))
            return false;
        vw__address_map_insert(&past->nodes, key_of(node), past);
        if (!append_parents(waiting, device, node))
            return false;
    }
    return true;
}

const vw__graph_order_past *vw__graph_order_look(vw__graph_order *order, const vw_device *device,
                                                 vw_stream stream)
{
    node_list waiting = {NULL, 0, 0};
    uint64_t capture = 0;
    vw__graph_order_past *past = NULL;
    if (can_tell(device) && append_last(&waiting, device, stream, &capture) && waiting.count != 0)
        past = find_or_make(order, capture, stream);
    if (past != NULL && !extend(past, device, &waiting)) {
        vw__graph_order_forget(order); /* it has nodes whose ancestors it lacks */
        past = NULL;
    }
    vw__host_free(waiting.nodes);
    return past;
}

bool vw__graph_order_is_over(const vw__graph_order_past *past, const vw__graph_order_marks *marks)
{
    if (past->capture != marks->capture)
        return false;
    for (size_t i = 0; i < marks->count; i++)
        if (vw__address_map_get(&past->nodes, key_of(marks->nodes[i])) == NULL)
            return false;
    return true;
}

void vw__graph_order_forget(vw__graph_order *order)
{
    while (order->pasts != NULL) {
        vw__graph_order_past *past = order->pasts;
        order->pasts = past->next;
        vw__address_map_deinit(&past->nodes);
        vw__host_free(past);
    }
}
