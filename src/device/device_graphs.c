/* device_graphs.c - two lists of lists: tests have few streams and few nodes. */
#include "device/device_graphs.h"

#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"

typedef struct vw__device_graphs_list {
    struct vw__device_graphs_list *next;
    uint64_t key;     /* a stream, or a node */
    uint64_t capture; /* of a stream */
    size_t count;
    vw_graph_node nodes[];
} list;

static list **find(list **lists, uint64_t key)
{
    while (*lists != NULL && (*lists)->key != key)
        lists = &(*lists)->next;
    return lists;
}

static void drop(list **lists, uint64_t key)
{
    list **link = find(lists, key), *dropped = *link;
    if (dropped != NULL)
        *link = dropped->next;
    vw__host_free(dropped);
}

static vw_status set(list **lists, uint64_t key, uint64_t capture, const vw_graph_node *nodes,
                     size_t count)
{
    size_t size_bytes = sizeof(list) + count * sizeof *nodes;
    list *made = vw__host_alloc(size_bytes);
    if (made == NULL)
        return vw__fail_host_memory(size_bytes, "the nodes of a graph");
    drop(lists, key);
    *made = (list){.next = *lists, .key = key, .capture = capture, .count = count};
    if (count != 0)
        memcpy(made->nodes, nodes, count * sizeof *nodes);
    *lists = made;
    return VW_OK;
}

static void copy(const list *from, vw_graph_node *nodes, size_t capacity, size_t *count)
{
    *count = from != NULL ? from->count : 0;
    size_t copied = *count < capacity ? *count : capacity;
    if (copied != 0)
        memcpy(nodes, from->nodes, copied * sizeof *nodes);
}

vw_status vw__device_graphs_set_terminals(vw__device_graphs *graphs, vw_stream stream,
                                          uint64_t capture, const vw_graph_node *nodes,
                                          size_t count)
{
    return set(&graphs->terminals, stream, capture, nodes, count);
}

vw_status vw__device_graphs_set_parents(vw__device_graphs *graphs, vw_graph_node node,
                                        const vw_graph_node *parents, size_t count)
{
    return set(&graphs->parents, node, 0, parents, count);
}

void vw__device_graphs_forget(vw__device_graphs *graphs, vw_stream stream)
{
    drop(&graphs->terminals, stream);
}

void vw__device_graphs_get_terminals(const vw__device_graphs *graphs, vw_stream stream,
                                     uint64_t *capture, vw_graph_node *nodes, size_t capacity,
                                     size_t *count)
{
    list *lists = graphs->terminals;
    const list *found = *find(&lists, stream);
    *capture = found != NULL ? found->capture : 1;
    copy(found, nodes, capacity, count);
}

void vw__device_graphs_get_parents(const vw__device_graphs *graphs, vw_graph_node node,
                                   vw_graph_node *parents, size_t capacity, size_t *count)
{
    list *lists = graphs->parents;
    copy(*find(&lists, node), parents, capacity, count);
}

void vw__device_graphs_deinit(vw__device_graphs *graphs)
{
    while (graphs->terminals != NULL)
        drop(&graphs->terminals, graphs->terminals->key);
    while (graphs->parents != NULL)
        drop(&graphs->parents, graphs->parents->key);
}
