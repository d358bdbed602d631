/* device_spy.h - a device that records its calls, their order and their arguments.
 *
 * The stand-ins only count their calls. For tests of the order of calls, or of calls that fail
 * repeatedly, the pool gets the spy's device, which passes everything on to the real one. The real
 * device still answers vw_device_get_calls() and the other controls. One spy at a time: the table's
 * functions find it through a static pointer. */
#ifndef VW_TESTS_DEVICE_SPY_H
#define VW_TESTS_DEVICE_SPY_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/device.h"

typedef enum vw_test_call {
    VW_TEST_RESERVE,
    VW_TEST_UNRESERVE,
    VW_TEST_CREATE,
    VW_TEST_RELEASE,
    VW_TEST_MAP,
    VW_TEST_UNMAP,
    VW_TEST_SET_ACCESS,
    VW_TEST_EVENT_CREATE,
    VW_TEST_EVENT_RECORD,
    VW_TEST_EVENT_QUERY,
    VW_TEST_EVENT_SYNCHRONIZE,
    VW_TEST_STREAM_WAIT_EVENT,
    VW_TEST_STREAM_SYNCHRONIZE,
    VW_TEST_SYNCHRONIZE,
    VW_TEST_COPY,
    VW_TEST_CREATE_ON_HOST,
} vw_test_call;

/* Arguments that a call does not have are 0. */
typedef struct vw_test_call_made {
    vw_test_call call;
    vw_status status;
    vw_device_ptr address; /* of a copy: where to */
    uint64_t size_bytes;
    vw_handle handle;
    vw_stream stream;
    vw_device_event event;
} vw_test_call_made;

typedef struct vw_test_spy {
    vw_device device;
    vw_device_table table;
    const vw_device_table *real;
    vw_test_call_made calls[4096]; /* the latest; older ones are forgotten in one piece */
    size_t call_count;
    unsigned refused_unmaps;         /* how many of the next calls fail, with VW_ERR_DEVICE */
    unsigned refused_accesses;       /* of set_access(), with `access_status` */
    vw_status access_status;         /* VW_OK stands for VW_ERR_DEVICE */
    unsigned refused_host_creations; /* of create_on_host(), with VW_ERR_HOST_MEMORY */
    unsigned refused_wait_events;    /* of stream_wait_event(), with VW_ERR_DEVICE */

    /* For calls of any kind above: how many pass first, how many are refused then, and how many
     * pass after each refusal. */
    uint64_t let_through;
    uint64_t refused_calls;
    uint64_t let_between;
    vw_status refusal; /* VW_OK stands for VW_ERR_DEVICE */
} vw_test_spy;

/* The device for a pool. `spy` is zero before, except for what it shall refuse. */
vw_device *vw_test_spy_on(vw_test_spy *spy, const vw_device *real);

/* How often a call was made since the last vw_test_spy_forget(), failures included. */
size_t vw_test_spy_count(const vw_test_spy *spy, vw_test_call call);
/* The first such call, or NULL; and the one after `previous`. */
const vw_test_call_made *vw_test_spy_find(const vw_test_spy *spy, vw_test_call call,
                                          const vw_test_call_made *previous);
/* Was anything in this range unmapped, or tried to be? */
bool vw_test_spy_has_unmapped(const vw_test_spy *spy, vw_device_ptr address, uint64_t size_bytes);
/* Total size of the handles that the device refused to take back. */
uint64_t vw_test_spy_lost_bytes(const vw_test_spy *spy);
void vw_test_spy_forget(vw_test_spy *spy);

#endif /* VW_TESTS_DEVICE_SPY_H */
