/* gate_contexts.c - see gate_contexts.h. */
#include "gate_contexts.h"

#include <stdatomic.h>
#include <stddef.h>

#include "device_idle.h"

enum { MOST_CONTEXTS = 64 }; /* a process with more has some of its own */

static void *_Atomic noted[MOST_CONTEXTS]; /* in the order they came; none goes */
static _Atomic bool has_more;
static size_t judged_count; /* the first so many are primary */

void vw__contexts_note(void *context)
{
    if (context == NULL)
        return;
    for (size_t i = 0; i < MOST_CONTEXTS; i++) {
        void *there = NULL;
        if (atomic_compare_exchange_strong(&noted[i], &there, context) || there == context)
            return;
    }
    atomic_store(&has_more, true);
}

bool vw__contexts_are_primary(void)
{
    while (judged_count < MOST_CONTEXTS && atomic_load(&noted[judged_count]) != NULL) {
        if (!vw__devices_have_context(atomic_load(&noted[judged_count])))
            return false;
        judged_count++;
    }
    return !atomic_load(&has_more);
}
