/* human_units.h - formats sizes, durations and shares, for everything that vramwise prints.
 *
 * Exceptions: PyTorch's own messages (pool/oom_text.c) and the summary of a pool keep PyTorch's
 * digits. The viewer follows the same rule (viewer/src/look/units.ts): tests/data/numbers has the
 * cases that both must pass. Independent of the locale. */
#ifndef VW_BASE_HUMAN_UNITS_H
#define VW_BASE_HUMAN_UNITS_H

#include <stdint.h>

#define VW__HUMAN_SIZE_BYTES 24
#define VW__HUMAN_DURATION_BYTES 32
#define VW__HUMAN_SHARE_BYTES 24

/* Writes `size_bytes` into `text` and returns it:
 *
 *   bytes             "512 B"
 *   KiB, MiB          three digits: "1.50 KiB", "24.0 MiB", "935 MiB"
 *   GiB and above     two decimals: "15.00 GiB", "139.80 GiB", "1.50 TiB"
 *
 * Rounding never gives 1024 of a unit, but 1 of the next. The digits in GiB are those of PyTorch's
 * messages, so that quoted numbers can be found there, and they resolve the last hundreds of MiB of
 * a large card. */
char *vw__human_size(uint64_t size_bytes, char text[VW__HUMAN_SIZE_BYTES]);

/* "12.3 ms", "45.0 s": three digits below a minute; then as vw_format_duration(): "2 min 10 s". */
char *vw__human_duration(uint64_t duration_ns, char text[VW__HUMAN_DURATION_BYTES]);

/* "0.8 %", "45 %", "-1.2 %" for 0.008, 0.45, -0.012: one decimal below 10 %. Positive shares below
 * 0.05 % are "<0.1 %"; NaN and infinity are "?". */
char *vw__human_share(double share, char text[VW__HUMAN_SHARE_BYTES]);

#endif /* VW_BASE_HUMAN_UNITS_H */
