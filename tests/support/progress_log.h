/* progress_log.h - a progress function that checks its calls. */
#ifndef VW_TESTS_PROGRESS_LOG_H
#define VW_TESTS_PROGRESS_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "support/cmocka_here.h"

typedef struct progress_log {
    double last;
    size_t calls;
    size_t stop_at; /* the call that answers false; 0 = none */
} progress_log;

/* A vw_progress: checks that `done` rises, and stops at a given call. */
static inline bool log_progress(void *context, double done)
{
    progress_log *log = context;
    assert_true(done >= log->last && done <= 1.0);
    log->last = done;
    return ++log->calls != log->stop_at;
}

#endif /* VW_TESTS_PROGRESS_LOG_H */
