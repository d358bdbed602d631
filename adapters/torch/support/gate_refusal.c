/* gate_refusal.c - see gate_refusal.h. */
#include "gate_refusal.h"

#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static char refusal[VW__REFUSAL_BYTES];
static bool may_say;

void vw__refusal_set(const char *reason)
{
    pthread_mutex_lock(&lock);
    snprintf(refusal, sizeof refusal, "%s", reason);
    pthread_mutex_unlock(&lock);
}

bool vw__refusal_get(char *reason, size_t capacity)
{
    pthread_mutex_lock(&lock);
    bool is_set = refusal[0] != '\0';
    if (capacity != 0)
        snprintf(reason, capacity, "%s", refusal);
    pthread_mutex_unlock(&lock);
    return is_set;
}

bool vw__refusal_is_set(void)
{
    return vw__refusal_get(NULL, 0);
}

void vw__refusal_let_say(bool is_let)
{
    pthread_mutex_lock(&lock);
    may_say = is_let;
    pthread_mutex_unlock(&lock);
}

void vw__refusal_say(void)
{
    pthread_mutex_lock(&lock);
    if (may_say)
        fprintf(stderr,
                "vramwise: GPU memory gets short, and live data cannot be moved together: %s\n",
                refusal);
    may_say = false;
    pthread_mutex_unlock(&lock);
}

void vw__refusal_begin_child(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
