/* gate_contexts.h - in which contexts the program's work runs.
 *
 * The gate waits for the devices' primary contexts. A context of the program's own may have been
 * made before the gate saw anything; that it is used shows in the calls that pass. */
#ifndef VRAMWISE_TORCH_GATE_CONTEXTS_H
#define VRAMWISE_TORCH_GATE_CONTEXTS_H

#include <stdbool.h>

/* A call was made in this context, or in none: NULL. Any thread; asks nobody. */
void vw__contexts_note(void *context);

/* Is each of them some device's primary context? Asks the driver. One caller at a time. */
bool vw__contexts_are_primary(void);

#endif /* VRAMWISE_TORCH_GATE_CONTEXTS_H */
