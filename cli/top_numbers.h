/* top_numbers.h - numbers in as few columns as a table has for them.
 *
 * Each is written into `text` and returned: at most five columns, "-" for what is not known. */
#ifndef VRAMWISE_CLI_TOP_NUMBERS_H
#define VRAMWISE_CLI_TOP_NUMBERS_H

#include <stdint.h>

typedef char top_number[16];

#define TOP_MOST_BYTES 0x1p63 /* a double that top_size() shows: pages may claim any number */

const char *top_size(uint64_t size_bytes, top_number text); /* "13.4G", "1023M", "0B" */
const char *top_rate(double per_second, top_number text);   /* "0.25", "345", "12.3k" */
const char *top_share(double share, top_number text);       /* "23%", "0.4%" */
const char *top_duration(double seconds, top_number text);  /* "412ms", "1.23s", "2m05" */

#endif /* VRAMWISE_CLI_TOP_NUMBERS_H */
