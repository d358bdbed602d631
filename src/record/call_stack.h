/* call_stack.h - walks the C stack, and names its frames.
 *
 * The stack is walked under a pool's lock, so walking takes no host memory and looks up no names:
 * addresses are kept, and named when a recording is written. The innermost frames are the library's
 * own and are left out: an event has the return address of the call into the library, and the
 * program begins there. */
#ifndef VW_RECORD_CALL_STACK_H
#define VW_RECORD_CALL_STACK_H

#include <stdbool.h>
#include <stdint.h>

#include "vramwise/recording.h" /* VW_RECORDER_MOST_FRAMES */

typedef struct vw__call_stack {
    uint64_t frames[VW_RECORDER_MOST_FRAMES]; /* return addresses, innermost first */
    uint32_t frame_count;
} vw__call_stack;

/* Does the first walk of the process, which takes host memory and loads a library. false: stacks
 * cannot be walked on this machine. */
bool vw__call_stack_prepare(void);

/* The stack of the calling thread from the return address `caller` on, or all of it if `caller` is
 * not among the innermost frames. At most `most_frames`. */
void vw__call_stack_walk(vw__call_stack *stack, const void *caller, uint32_t most_frames);

enum { VW__CALL_STACK_NAME_BYTES = 256 };

/* Names a return address: the function, or else the hexadecimal address within its file, as
 * addr2line takes it; and the program or library. `*file` is valid while that library is loaded; ""
 * = unknown. */
void vw__call_stack_name(uint64_t address, char name[VW__CALL_STACK_NAME_BYTES], const char **file);

#endif /* VW_RECORD_CALL_STACK_H */
