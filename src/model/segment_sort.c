/* segment_sort.c - a heap sort: no memory, and no order of input that makes it slow. */
#include "model/segment_sort.h"

static bool comes_before(const vw__model_segment *a, const vw__model_segment *b)
{
    if (a->device != b->device)
        return (unsigned)a->device < (unsigned)b->device; /* the host is -1: last */
    return a->address < b->address;
}

static bool is_sorted(const vw__model_segment *segments, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (comes_before(&segments[i], &segments[i - 1]))
            return false;
    return true;
}

/* Lets the segment at `root` sink until both of its children come before it. */
static void sink(vw__model_segment *heap, size_t root, size_t count)
{
    vw__model_segment sinking = heap[root];
    for (;;) {
        size_t child = 2 * root + 1;
        if (child >= count)
            break;
        if (child + 1 < count && comes_before(&heap[child], &heap[child + 1]))
            child++;
        if (!comes_before(&sinking, &heap[child]))
            break;
        heap[root] = heap[child];
        root = child;
    }
    heap[root] = sinking;
}

void vw__segment_sort(vw__model_segment *segments, size_t count)
{
    if (is_sorted(segments, count))
        return;
    for (size_t i = count / 2; i-- > 0;)
        sink(segments, i, count);
    for (size_t last = count - 1; last > 0; last--) {
        vw__model_segment largest = segments[0];
        segments[0] = segments[last];
        segments[last] = largest;
        sink(segments, 0, last);
    }
}
