/* gate_callbacks.h - the launch gate's place in CUPTI: subscribing, and which calls it sees.
 *
 * There is one subscriber in a process. All functions are for whoever holds the gate's lock, but
 * vw__gate_kind_of(), which is for callbacks. */
#ifndef VRAMWISE_TORCH_GATE_CALLBACKS_H
#define VRAMWISE_TORCH_GATE_CALLBACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cupti_load.h"
#include "driver_calls.h"

/* From now on `callback` sees all calls that may start work. False: there is no CUPTI, or another
 * tool has it, or it failed: `message` says so in one line, and nothing is left behind. */
bool vw__gate_subscribe(vw__cupti_callback callback, char *message, size_t capacity);
void vw__gate_unsubscribe(void);

/* Shows the harmless calls as well, or no longer, as far as CUPTI does. */
void vw__gate_show_harmless(bool is_shown);

/* What a callback is about; harmless where nobody knows. */
vw__driver_call_kind vw__gate_kind_of(uint32_t id);

#endif /* VRAMWISE_TORCH_GATE_CALLBACKS_H */
