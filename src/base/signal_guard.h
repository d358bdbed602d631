/* signal_guard.h - makes errors of the signals that a write may raise.
 *
 * A write past `ulimit -f` raises SIGXFSZ, and one to a pipe without a reader SIGPIPE; either ends
 * a program that does not expect it. Between begin and end they wait, in this thread alone, and the
 * one that the write has raised is taken away. The program's handlers stay as they are. */
#ifndef VW_BASE_SIGNAL_GUARD_H
#define VW_BASE_SIGNAL_GUARD_H

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct vw__signal_guard {
    sigset_t before;  /* the thread's mask */
    sigset_t waiting; /* had been raised before, and not by the write */
} vw__signal_guard;

typedef enum vw__signal_guard_scope {
    VW__SIGNAL_GUARD_RAISED, /* those two; Ctrl-C still ends a write that blocks */
    VW__SIGNAL_GUARD_EVERY,  /* for claims of room, which some file systems give up for a signal */
} vw__signal_guard_scope;

void vw__signal_guard_begin(vw__signal_guard *guard, vw__signal_guard_scope scope);

/* `reason` is the errno of what was called in between; 0 if it did not fail. errno is kept. */
void vw__signal_guard_end(const vw__signal_guard *guard, int reason);

/* As write() and pwrite(), but raise no signal. */
ssize_t vw__signal_guard_write(int file, const void *bytes, size_t size_bytes);
ssize_t vw__signal_guard_write_at(int file, const void *bytes, size_t size_bytes, uint64_t offset);

#endif /* VW_BASE_SIGNAL_GUARD_H */
