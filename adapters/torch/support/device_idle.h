/* device_idle.h - is there work left on any GPU of this process?
 *
 * A pool's engine waits for its own device before it copies. That is not enough where another GPU
 * reads and writes this one's memory, so that here all of them are waited for. And it may be too
 * much: work that is queued can wait for work that is held at the gate (one process that drives two
 * GPUs, a collective operation whose second half is not launched yet). The driver has no wait with
 * an end, so a thread of our own does the waiting, and who asked gives up when it takes too long.
 */
#ifndef VRAMWISE_TORCH_DEVICE_IDLE_H
#define VRAMWISE_TORCH_DEVICE_IDLE_H

#include <stdbool.h>
#include <stdint.h>

/* All work in the primary contexts of all devices that was queued before the call is done. False:
 * the driver refused. Waits as long as it takes. True where there is no driver, or nobody has
 * started it. */
bool vw__devices_synchronize(void);

/* The same, but false after `most_ns`, and at once while an earlier wait is still going on. */
bool vw__devices_are_idle_within(uint64_t most_ns);

/* Is this the primary context of a device in use? */
bool vw__devices_have_context(const void *context);

/* The id of the thread that waits, which makes no other calls to the driver; 0: there is none. */
int vw__devices_waiter(void);

/* An address in the driver's library, or NULL. */
const void *vw__driver_address(void);

#endif /* VRAMWISE_TORCH_DEVICE_IDLE_H */
