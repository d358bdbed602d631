/* output.h - where the library writes text to. */
#ifndef VRAMWISE_OUTPUT_H
#define VRAMWISE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* `write` returns false to stop. */
typedef struct vw_output {
    void *context;
    bool (*write)(void *context, const char *bytes, size_t size_bytes);
} vw_output;

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_OUTPUT_H */
