/* report_ranks.h - what the text and the JSON of a report on ranks share. */
#ifndef HR_REPORT_REPORT_RANKS_H
#define HR_REPORT_REPORT_RANKS_H

#include "headroom/ranks.h"
#include "base/byte_buffer.h"
#include "report/report_text.h"

/* What a rank's memory grew by, as whole bytes; HR_UNKNOWN: not known. */
uint64_t hr__rank_growth_bytes(const hr_rank *rank);

/* The commands that show more of a rank: "headroom view 'FOLDER/FILE'", and the doctor on it. The
 * name is quoted where a shell needs it. false: it has no such file. */
bool hr__append_rank_view(hr__byte_buffer *buffer, const char *folder, const hr_rank *rank);
bool hr__append_rank_doctor(hr__byte_buffer *buffer, const char *folder, const hr_rank *rank);

void hr__report_ranks_json(hr__report *out, const hr_ranks_report *report);

#endif /* HR_REPORT_REPORT_RANKS_H */
