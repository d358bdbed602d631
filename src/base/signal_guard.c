/* signal_guard.c - holds signals back around a write. */
#include "base/signal_guard.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

void vw__signal_guard_begin(vw__signal_guard *guard, vw__signal_guard_scope scope)
{
    sigset_t held;
    if (scope == VW__SIGNAL_GUARD_EVERY) {
        (void)sigfillset(&held);
    } else {
        (void)sigemptyset(&held);
        (void)sigaddset(&held, SIGXFSZ);
        (void)sigaddset(&held, SIGPIPE);
    }
    (void)pthread_sigmask(SIG_BLOCK, &held, &guard->before); /* fails for a wrong first argument */
    (void)sigpending(&guard->waiting);
}

/* The signal of this thread that a failed write has raised. 0: none. */
static int raised_by(int reason)
{
    return reason == EFBIG ? SIGXFSZ : reason == EPIPE ? SIGPIPE : 0;
}

void vw__signal_guard_end(const vw__signal_guard *guard, int reason)
{
    const struct timespec at_once = {0};
    const int kept_errno = errno, raised = raised_by(reason);
    if (raised != 0 && !sigismember(&guard->waiting, raised)) {
        sigset_t taken;
        (void)sigemptyset(&taken);
        (void)sigaddset(&taken, raised);
        (void)sigtimedwait(&taken, NULL, &at_once); /* none comes where it is ignored */
    }
    (void)pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
    errno = kept_errno;
}

ssize_t vw__signal_guard_write(int file, const void *bytes, size_t size_bytes)
{
    vw__signal_guard guard;
    vw__signal_guard_begin(&guard, VW__SIGNAL_GUARD_RAISED);
    ssize_t written = write(file, bytes, size_bytes);
    vw__signal_guard_end(&guard, written < 0 ? errno : 0);
    return written;
}

ssize_t vw__signal_guard_write_at(int file, const void *bytes, size_t size_bytes, uint64_t offset)
{
    vw__signal_guard guard;
    vw__signal_guard_begin(&guard, VW__SIGNAL_GUARD_RAISED);
    ssize_t written = pwrite(file, bytes, size_bytes, (off_t)offset);
    vw__signal_guard_end(&guard, written < 0 ? errno : 0);
    return written;
}
