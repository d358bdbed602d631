/* device_simulated.h - the numbers the simulated device is made of, for those who check them. */
#ifndef VW_DEVICE_DEVICE_SIMULATED_H
#define VW_DEVICE_DEVICE_SIMULATED_H

#include <stdint.h>

#include "vramwise/device.h" /* vw_call_cost */

#define VW__SIMULATED_CAPACITY_BYTES (UINT64_C(80) << 30)
#define VW__SIMULATED_GRANULARITY_BYTES (UINT64_C(2) << 20)

/* Plain memory lies in [PLAIN_BOTTOM, PLAIN_TOP), reservations in [RESERVED_BOTTOM, PLAIN_BOTTOM):
 * both below the 47 bits that a GPU's addresses have. */
#define VW__SIMULATED_PLAIN_TOP UINT64_C(0x7f0000000000)
#define VW__SIMULATED_PLAIN_BOTTOM UINT64_C(0x500000000000)
#define VW__SIMULATED_RESERVED_BOTTOM UINT64_C(0x100000000000)
#define VW__SIMULATED_PLAIN_ALIGNMENT_BYTES (UINT64_C(2) << 20)
#define VW__SIMULATED_RESERVATION_STEP_BYTES (UINT64_C(32) << 20)

/* What calls cost unless options say otherwise. */
extern const vw_call_cost vw__simulated_costs[VW_DEVICE_CALL_KINDS];

#endif /* VW_DEVICE_DEVICE_SIMULATED_H */
