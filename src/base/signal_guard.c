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

enum { CUT_SHORT = -1 }; /* a reader that goes meanwhile raises a signal, too */

static void take_away(const vw__signal_guard *guard, int raised)
{
    const struct timespec at_once = {0};
    sigset_t taken;
    if (sigismember(&guard->waiting, raised))
        return;
    (void)sigemptyset(&taken);
    (void)sigaddset(&taken, raised);
    (void)sigtimedwait(&taken, NULL, &at_once); /* none comes where it is ignored */
}

void vw__signal_guard_end(const vw__signal_guard *guard, int reason)
{
    const int kept_errno = errno;
    if (reason == EFBIG || reason == CUT_SHORT)
        take_away(guard, SIGXFSZ);
    if (reason == EPIPE || reason == CUT_SHORT)
        take_away(guard, SIGPIPE);
    (void)pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
    errno = kept_errno;
}

static int reason_of(ssize_t written, size_t size_bytes)
{
    if (written < 0)
        return errno;
    return (size_t)written < size_bytes ? CUT_SHORT : 0;
}

ssize_t vw__signal_guard_write(int file, const void *bytes, size_t size_bytes)
{
    vw__signal_guard guard;
    vw__signal_guard_begin(&guard, VW__SIGNAL_GUARD_RAISED);
    ssize_t written = write(file, bytes, size_bytes);
    vw__signal_guard_end(&guard, reason_of(written, size_bytes));
    return written;
}

ssize_t vw__signal_guard_write_at(int file, const void *bytes, size_t size_bytes, uint64_t offset)
{
    vw__signal_guard guard;
    vw__signal_guard_begin(&guard, VW__SIGNAL_GUARD_RAISED);
    ssize_t written = pwrite(file, bytes, size_bytes, (off_t)offset);
    vw__signal_guard_end(&guard, reason_of(written, size_bytes));
    return written;
}
