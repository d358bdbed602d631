/* rank_differences.h - where ranks differ: the lines that hold their memory, and their settings.
 *
 * Both go by the recordings of the ranks: `mains` has one for each of report->ranks, or NULL. */
#ifndef HR_RANKS_RANK_DIFFERENCES_H
#define HR_RANKS_RANK_DIFFERENCES_H

#include "ranks/rank_parts.h"

/* Fills report->sites; after the medians. A line that a rank does not have counts as 0 bytes. */
HR_MUST_CHECK hr_status hr__rank_sites_compare(hr__ranks_work *work,
                                               const hr__account *const *mains);

/* Fills report->settings: of each key the ranks that do not have the value most have, and where two
 * values are equally common, not that of the lowest rank. */
HR_MUST_CHECK hr_status hr__rank_settings_compare(hr__ranks_work *work,
                                                  const hr__account *const *mains);

#endif /* HR_RANKS_RANK_DIFFERENCES_H */
