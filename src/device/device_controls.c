/* device_controls.c - controls of stand-ins for tests: count, fail, lose, hold.
 *
 * Each function is one read or one change under the device's lock. They are not calls of the
 * device: nothing is counted, and they work on a lost device. */
#include "device/device_common.h"

#include "base/error.h"

/* Finds the stand-in and locks it; `what` is the public function, for the message. */
static vw_status lock_stand_in(const vw_device *device, const char *what, vw__stand_in **out)
{
    VW__TRY(vw__stand_in_with_backing(device, NULL, what, out));
    vw__mutex_lock(&(*out)->lock);
    return VW_OK;
}

vw_status vw_device_get_calls(const vw_device *device, vw_device_calls *out)
{
    vw__stand_in *stand_in = NULL;
    if (out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "vw_device_get_calls: out is NULL");
    VW__TRY(lock_stand_in(device, "vw_device_get_calls", &stand_in));
    *out = stand_in->calls;
    out->in_use_bytes = stand_in->books.in_use_bytes;
    out->peak_use_bytes = stand_in->books.peak_use_bytes;
    vw__mutex_unlock(&stand_in->lock);
    return VW_OK;
}

const uint64_t *vw_device_elapsed_counter(const vw_device *device)
{
    const vw__stand_in *stand_in = vw__stand_in_of(device);
    return stand_in != NULL ? &stand_in->calls.elapsed_ns : NULL;
}

vw_status vw_device_fail_call(vw_device *device, uint64_t nth, vw_status status)
{
    vw__stand_in *stand_in = NULL;
    if (nth != 0 && status == VW_OK)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "vw_device_fail_call: VW_OK is no failure");
    VW__TRY(lock_stand_in(device, "vw_device_fail_call", &stand_in));
    stand_in->calls_until_failure = nth;
    stand_in->failure_order = nth;
    stand_in->failure_status = status;
    vw__mutex_unlock(&stand_in->lock);
    return VW_OK;
}

vw_status vw_device_lose(vw_device *device)
{
    vw__stand_in *stand_in = NULL;
    VW__TRY(lock_stand_in(device, "vw_device_lose", &stand_in));
    stand_in->is_lost = true;
    vw__mutex_unlock(&stand_in->lock);
    return VW_OK;
}

vw_status vw_device_set_capacity(vw_device *device, uint64_t capacity_bytes)
{
    vw__stand_in *stand_in = NULL;
    VW__TRY(lock_stand_in(device, "vw_device_set_capacity", &stand_in));
    stand_in->books.capacity_bytes = capacity_bytes;
    vw__mutex_unlock(&stand_in->lock);
    return VW_OK;
}

vw_status vw_device_hold_streams(vw_device *device, bool is_held)
{
    vw__stand_in *stand_in = NULL;
    VW__TRY(lock_stand_in(device, "vw_device_hold_streams", &stand_in));
    vw__streams_hold(&stand_in->streams, is_held);
    vw__mutex_unlock(&stand_in->lock);
    return VW_OK;
}

vw_status vw_device_complete(vw_device *device, vw_stream stream)
{
    vw__stand_in *stand_in = NULL;
    VW__TRY(lock_stand_in(device, "vw_device_complete", &stand_in));
    vw__streams_complete(&stand_in->streams, stream);
    vw__mutex_unlock(&stand_in->lock);
    return VW_OK;
}

vw_status vw_device_set_capturing(vw_device *device, vw_stream stream, bool is_capturing)
{
    vw__stand_in *stand_in = NULL;
    VW__TRY(lock_stand_in(device, "vw_device_set_capturing", &stand_in));
    vw_status status = vw__streams_set_capturing(&stand_in->streams, stream, is_capturing);
    if (status == VW_OK && !is_capturing)
        vw__device_graphs_forget(&stand_in->graphs, stream);
    vw__mutex_unlock(&stand_in->lock);
    return status;
}

vw_status vw_device_set_capture_nodes(vw_device *device, vw_stream stream, uint64_t capture,
                                      const vw_graph_node *nodes, size_t count)
{
    vw__stand_in *stand_in = NULL;
    VW__TRY(lock_stand_in(device, "vw_device_set_capture_nodes", &stand_in));
    vw_status status =
        vw__device_graphs_set_terminals(&stand_in->graphs, stream, capture, nodes, count);
    vw__mutex_unlock(&stand_in->lock);
    return status;
}

vw_status vw_device_set_node_parents(vw_device *device, vw_graph_node node,
                                     const vw_graph_node *parents, size_t count)
{
    vw__stand_in *stand_in = NULL;
    VW__TRY(lock_stand_in(device, "vw_device_set_node_parents", &stand_in));
    vw_status status = vw__device_graphs_set_parents(&stand_in->graphs, node, parents, count);
    vw__mutex_unlock(&stand_in->lock);
    return status;
}
