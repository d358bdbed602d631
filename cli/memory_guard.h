/* memory_guard.h - the most memory that a command may take, whatever a file says.
 *
 * The readers have limits of their own, with words that name what was too much. Behind them the
 * system's limit for a process's data holds for everything, other libraries too: an allocation
 * beyond it fails, and the command ends with a message. */
#ifndef VRAMWISE_CLI_MEMORY_GUARD_H
#define VRAMWISE_CLI_MEMORY_GUARD_H

#include <stdint.h>

/* From now on this process may take twice what reading may take, and 512 MiB; or less, where less
 * is allowed already. Nothing under a sanitizer, whose own tables are larger than any limit. */
void memory_guard_set(void);

/* Back to what was allowed before: for a program of somebody else's that is to be started. */
void memory_guard_lift(void);

/* What memory_guard_set() allowed; 0 if nothing is limited by it. */
uint64_t memory_guard_bytes(void);

#endif /* VRAMWISE_CLI_MEMORY_GUARD_H */
