/* report_ranks.h - what the text and the JSON of a report on ranks share. */
#ifndef VW_REPORT_REPORT_RANKS_H
#define VW_REPORT_REPORT_RANKS_H

#include "vramwise/ranks.h"
#include "base/byte_buffer.h"
#include "report/report_text.h"

/* What a rank's memory grew by, as whole bytes; VW_UNKNOWN: not known. */
uint64_t vw__rank_growth_bytes(const vw_rank *rank);

/* The commands that show more of a rank: "vramwise view 'FOLDER/FILE'", and the doctor on it. The
 * name is quoted where a shell needs it. false: it has no such file. */
bool vw__append_rank_view(vw__byte_buffer *buffer, const char *folder, const vw_rank *rank);
bool vw__append_rank_doctor(vw__byte_buffer *buffer, const char *folder, const vw_rank *rank);

/* `content` is a vw_ranks_report. */
void vw__report_ranks_json(vw__report *out, vw__json *json, const void *content);

#endif /* VW_REPORT_REPORT_RANKS_H */
