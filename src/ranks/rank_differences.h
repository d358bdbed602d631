/* rank_differences.h - where ranks differ: the lines that hold their memory, and their settings.
 *
 * Both go by the recordings of the ranks: `mains` has one for each of report->ranks, or NULL. */
#ifndef VW_RANKS_RANK_DIFFERENCES_H
#define VW_RANKS_RANK_DIFFERENCES_H

#include "ranks/rank_parts.h"

/* Fills report->sites; after the medians. A line that a rank does not have counts as 0 bytes. */
VW_MUST_CHECK vw_status vw__rank_sites_compare(vw__ranks_work *work,
                                               const vw__account *const *mains);

/* Fills report->settings: of each key the ranks that do not have the value most have, and where two
 * values are equally common, not that of the lowest rank. */
VW_MUST_CHECK vw_status vw__rank_settings_compare(vw__ranks_work *work,
                                                  const vw__account *const *mains);

#endif /* VW_RANKS_RANK_DIFFERENCES_H */
