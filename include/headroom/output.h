/* output.h - where text goes that the library makes. */
#ifndef HEADROOM_OUTPUT_H
#define HEADROOM_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* `write` returns false to end it. */
typedef struct hr_output {
    void *context;
    bool (*write)(void *context, const char *bytes, size_t size_bytes);
} hr_output;

#ifdef __cplusplus
}
#endif
#endif /* HEADROOM_OUTPUT_H */
