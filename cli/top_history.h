/* top_history.h - what was seen of each row since the screen is open.
 *
 * A job without steps has no past on its page; so the screen remembers, as long as it is
 * open. A row that is gone is forgotten. */
#ifndef VRAMWISE_CLI_TOP_HISTORY_H
#define VRAMWISE_CLI_TOP_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/watch.h"

enum { TOP_HISTORY_POINTS = 240 };

/* A moment; either may be VW_LIVE_UNKNOWN. */
typedef struct top_point {
    uint64_t live_bytes;
    uint64_t reserved_bytes;
} top_point;

typedef struct top_past top_past; /* of one row */

typedef struct top_history {
    top_past *pasts;
    size_t count, capacity;
} top_history;

/* Adds what `machine` says of each row with a device. false: no memory; what was there stays. */
bool top_history_add(top_history *history, const vw_machine *machine);
/* The outlook of a row as it was found before; NULL: it was not. `*is_fresh`: it is as good as new,
 * a sixty-fourth of the row's log has come since, at most. */
const vw_job_outlook *top_history_outlook(const top_history *history, const vw_machine_row *row,
                                          bool *is_fresh);
void top_history_keep_outlook(top_history *history, const vw_machine_row *row,
                              const vw_job_outlook *outlook);

void top_history_free(top_history *history);

/* The past of a row in at most `capacity` points, oldest first, each the most of its time: by its
 * steps, or else by what was seen. `*is_by_steps` tells which. Returns how many. */
size_t top_history_points(const top_history *history, const vw_machine_row *row, top_point *points,
                          size_t capacity, bool *is_by_steps);

/* From the oldest reading that is kept of a row to the latest; 0: none is. */
double top_history_seconds(const top_history *history, const vw_machine_row *row);

#endif /* VRAMWISE_CLI_TOP_HISTORY_H */
