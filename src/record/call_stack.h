/* call_stack.h - where in the program we are, and what that place is called.
 *
 * Walking the stack is done while a pool's lock is held, so it takes no host memory and looks up no
 * names: addresses are kept, and named when a recording is written. The innermost frames are the
 * library's own and are left out: an event says where the call into the library returns to, and the
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

/* The first walk of a process takes host memory and loads a library: it is done here. false:
 * stacks cannot be walked on this machine. */
bool vw__call_stack_prepare(void);

/* The stack of the calling thread from `caller` on, a return address; all of it where that is not
 * among the innermost. At most `most_frames`. */
void vw__call_stack_walk(vw__call_stack *stack, const void *caller, uint32_t most_frames);

enum { VW__FRAME_NAME_BYTES = 256 };

/* What is known of a return address: the function, else the address within its file in
 * hexadecimal, as addr2line takes it; and the program or library. `*file` is valid while that
 * library is loaded; "" where there is none. */
void vw__name_address(uint64_t address, char name[VW__FRAME_NAME_BYTES], const char **file);

#endif /* VW_RECORD_CALL_STACK_H */
