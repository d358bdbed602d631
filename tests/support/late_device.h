/* late_device.h - the host device with delayed work: a test's own kernels.
 *
 * The host device moves bytes at once. Here a stream is a queue of work: writing marks into a block
 * and checking them, and in between the copies, events and waits of the pool. Nothing runs before
 * the test lets it, or somebody synchronizes; work touches the bytes through the address it was
 * queued with. So a mapping that goes too early is a fault, and memory that serves another stream
 * too early is a wrong mark. Plain memory is given back behind everything that is queued.
 *
 * Calls count, and fail, as vw_device_fail_call() of the host device says; but not those that
 * wait: a driver whose waits fail is lost.
 *
 * For one thread, and one device at a time. */
#ifndef VW_TESTS_LATE_DEVICE_H
#define VW_TESTS_LATE_DEVICE_H

#include <stdbool.h>

#include "vramwise/device.h"

enum { VW_TEST_LATE_STREAMS = 4 }; /* numbers 0 to 3 are the test's; the pool makes others */

/* The device for a pool; vw_test_late_end() ends it, and the caller ends the host device. */
vw_device *vw_test_late_begin(const vw_device *host);
void vw_test_late_end(void);

/* Queues work: writes marks made of `key` into every page of a block, or checks them. */
void vw_test_late_write(vw_stream stream, vw_device_ptr address, uint64_t size_bytes, uint64_t key);
void vw_test_late_look(vw_stream stream, vw_device_ptr address, uint64_t size_bytes, uint64_t key);
/* `stream` waits for what is queued on `before` by now. */
void vw_test_late_order(vw_stream stream, vw_stream before);

/* Runs one piece of work of a stream. false: there is none, or it waits for another stream. */
bool vw_test_late_run_one(vw_stream stream);
void vw_test_late_run_all(void);

/* Looks that found another mark. */
uint64_t vw_test_late_wrong_marks(void);
/* Pieces of work queued and not run. */
uint64_t vw_test_late_waiting(void);

#endif /* VW_TESTS_LATE_DEVICE_H */
