/* device_spy.h - a device that is listened to: which calls were made, in which order, on what.
 *
 * The stand-ins count their calls; where a test is about the order of two of them, or about a call
 * that is refused for good, the pool is given the spy's device, which passes everything on to the
 * real one. The real one still answers hr_device_get_calls() and its like. One spy at a time: the
 * table's functions know it by a static pointer. */
#ifndef HR_TESTS_DEVICE_SPY_H
#define HR_TESTS_DEVICE_SPY_H

#include <stdbool.h>
#include <stddef.h>

#include "headroom/device.h"

typedef enum hr_test_call {
    HR_TEST_RESERVE,
    HR_TEST_UNRESERVE,
    HR_TEST_CREATE,
    HR_TEST_RELEASE,
    HR_TEST_MAP,
    HR_TEST_UNMAP,
    HR_TEST_SET_ACCESS,
    HR_TEST_EVENT_CREATE,
    HR_TEST_EVENT_RECORD,
    HR_TEST_EVENT_QUERY,
    HR_TEST_EVENT_SYNCHRONIZE,
    HR_TEST_STREAM_WAIT_EVENT,
    HR_TEST_STREAM_SYNCHRONIZE,
    HR_TEST_SYNCHRONIZE,
    HR_TEST_COPY,
    HR_TEST_CREATE_ON_HOST,
} hr_test_call;

/* What of it applies to the call; the rest is 0. */
typedef struct hr_test_call_made {
    hr_test_call call;
    hr_status status;
    hr_device_ptr address; /* of a copy: where to */
    uint64_t size_bytes;
    hr_handle handle;
    hr_stream stream;
    hr_device_event event;
} hr_test_call_made;

typedef struct hr_test_spy {
    hr_device device;
    hr_device_table table;
    const hr_device_table *real;
    hr_test_call_made calls[4096]; /* the latest; older ones are forgotten in one piece */
    size_t call_count;
    unsigned refused_unmaps;         /* how many of the next calls fail, with HR_ERR_DEVICE */
    unsigned refused_accesses;       /* of set_access(), with `access_status` */
    hr_status access_status;         /* HR_OK stands for HR_ERR_DEVICE */
    unsigned refused_host_creations; /* of create_on_host(), with HR_ERR_HOST_MEMORY */
    unsigned refused_wait_events;    /* of stream_wait_event(), with HR_ERR_DEVICE */

    /* Of calls of any kind above: so many are let through, then so many are refused, with so many
     * let through after each of them. */
    uint64_t let_through;
    uint64_t refused_calls;
    uint64_t let_between;
    hr_status refusal; /* HR_OK stands for HR_ERR_DEVICE */
} hr_test_spy;

/* The device to give to a pool. `spy` is zero before, but for what it is to refuse. */
hr_device *hr_test_spy_on(hr_test_spy *spy, const hr_device *real);

/* How often a call was made since the last hr_test_spy_forget(), failures included. */
size_t hr_test_spy_count(const hr_test_spy *spy, hr_test_call call);
/* The first such call, or NULL; and the one after `previous`. */
const hr_test_call_made *hr_test_spy_find(const hr_test_spy *spy, hr_test_call call,
                                          const hr_test_call_made *previous);
/* Of the handles that the device refused to take back: their sizes together. */
uint64_t hr_test_spy_lost_bytes(const hr_test_spy *spy);
void hr_test_spy_forget(hr_test_spy *spy);

#endif /* HR_TESTS_DEVICE_SPY_H */
