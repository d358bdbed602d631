/* call_stack.c - glibc's backtrace() without the library's own frames, and dladdr() for names. */
#include "record/call_stack.h"

#include <dlfcn.h>
#include <execinfo.h> /* backtrace */
#include <inttypes.h>
#include <stdio.h>

/* The library's own frames are never more than this. */
enum { MOST_INNER_FRAMES = 24 };

bool vw__call_stack_prepare(void)
{
    void *frames[4];
    return backtrace(frames, 4) > 1;
}

/* The index of `caller`, or 0 if it is not found. */
static int find_caller(void *const *addresses, int count, const void *caller)
{
    for (int i = 0; i < count && i <= MOST_INNER_FRAMES; i++)
        if (addresses[i] == caller)
            return i;
    return 0;
}

void vw__call_stack_walk(vw__call_stack *stack, const void *caller, uint32_t most_frames)
{
    void *addresses[VW_RECORDER_MOST_FRAMES + MOST_INNER_FRAMES];
    int count = backtrace(addresses, (int)most_frames + MOST_INNER_FRAMES);
    stack->frame_count = 0;
    for (int i = find_caller(addresses, count, caller);
         i < count && stack->frame_count < most_frames; i++)
        stack->frames[stack->frame_count++] = (uintptr_t)addresses[i];
}

void vw__call_stack_name(uint64_t address, char name[VW__CALL_STACK_NAME_BYTES], const char **file)
{
    Dl_info info = {NULL, NULL, NULL, NULL};
    /* The call's own address: what follows it may belong to another function. */
    bool is_known = dladdr((void *)(uintptr_t)(address - 1), &info) != 0;
    *file = is_known && info.dli_fname != NULL ? info.dli_fname : "";
    if (is_known && info.dli_sname != NULL)
        snprintf(name, VW__CALL_STACK_NAME_BYTES, "%s", info.dli_sname);
    else
        snprintf(name, VW__CALL_STACK_NAME_BYTES, "%#" PRIx64,
                 address - (is_known ? (uintptr_t)info.dli_fbase : 0));
}
