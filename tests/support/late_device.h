/* late_device.h - the host device, with work that is done late: a test's own kernels.
 *
 * The host device moves bytes at once. Here a stream is a queue of work: marks written into a block
 * and looked for in it, and between them the events and waits that the pool asked for. Nothing runs
 * before the test lets it, or somebody synchronizes; what runs touches the bytes through the
 * address it was queued with. So a mapping that goes too early is a fault, and memory that serves
 * another stream without being ordered after the one before is a wrong mark.
 *
 * For one thread, and one device at a time. */
#ifndef HR_TESTS_LATE_DEVICE_H
#define HR_TESTS_LATE_DEVICE_H

#include <stdbool.h>

#include "headroom/device.h"

enum { HR_TEST_LATE_STREAMS = 4 }; /* numbers 0 to 3 */

/* The device to give to a pool; ended by hr_test_late_end(), the host device by the caller. */
hr_device *hr_test_late_begin(const hr_device *host);
void hr_test_late_end(void);

/* Queues work: marks made of `key` into every page of a block, or a look at them. */
void hr_test_late_write(hr_stream stream, hr_device_ptr address, uint64_t size_bytes, uint64_t key);
void hr_test_late_look(hr_stream stream, hr_device_ptr address, uint64_t size_bytes, uint64_t key);
/* `stream` waits for what is queued on `before` by now. */
void hr_test_late_order(hr_stream stream, hr_stream before);

/* Lets one piece of work of a stream run. False: there is none, or it waits for another stream. */
bool hr_test_late_run_one(hr_stream stream);
void hr_test_late_run_all(void);

/* Looks that found another mark. */
uint64_t hr_test_late_wrong_marks(void);
/* Pieces of work queued and not run. */
uint64_t hr_test_late_waiting(void);

#endif /* HR_TESTS_LATE_DEVICE_H */
