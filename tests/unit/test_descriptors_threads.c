/* test_descriptors_threads.c - many fetch, while others offer and withdraw. */
#include "vramwise_torch_support.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "support/cmocka_here.h"

enum { FETCHERS = 6, ROUNDS = 40, FILES = 5 };

static vramwise_descriptor_offer lasting;
static _Atomic uint64_t passing; /* the number of an offer that comes and goes; 0: none yet */
static _Atomic int faults;

/* Of the lasting offer all come, always; of the other all or none. */
static void *fetch(void *context)
{
    char message[256];
    int got[FILES];
    (void)context;
    for (int i = 0; i < ROUNDS; i++) {
        vramwise_descriptor_offer other = lasting;
        other.number = atomic_load(&passing);
        for (int which = 0; which < 2; which++) {
            bool is_fetched = vramwise_descriptors_fetch(which == 0 ? &lasting : &other, got, FILES,
                                                         message, sizeof message);
            for (int k = 0; k < FILES && is_fetched; k++)
                if (close(got[k]) != 0)
                    atomic_fetch_add(&faults, 1);
            if (!is_fetched && (which == 0 || strstr(message, "has freed it") == NULL))
                atomic_fetch_add(&faults, 1);
        }
    }
    return NULL;
}

static void *come_and_go(void *context)
{
    _Atomic bool *is_over = context;
    while (!atomic_load(is_over)) {
        int files[FILES];
        vramwise_descriptor_offer offer;
        for (int i = 0; i < FILES; i++)
            files[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (!vramwise_descriptors_offer(files, FILES, &offer))
            atomic_fetch_add(&faults, 1);
        atomic_store(&passing, offer.number);
        vramwise_descriptors_withdraw(offer.number);
        for (int i = 0; i < FILES; i++)
            close(files[i]);
    }
    return NULL;
}

static void many_fetch_while_others_offer_and_withdraw(void **state)
{
    (void)state;
    pthread_t fetchers[FETCHERS], offerer;
    _Atomic bool is_over = false;
    const int files[FILES] = {0, 1, 2, 0, 1};
    assert_true(vramwise_descriptors_offer(files, FILES, &lasting));
    assert_int_equal(pthread_create(&offerer, NULL, come_and_go, &is_over), 0);
    for (int i = 0; i < FETCHERS; i++)
        assert_int_equal(pthread_create(&fetchers[i], NULL, fetch, NULL), 0);
    for (int i = 0; i < FETCHERS; i++)
        pthread_join(fetchers[i], NULL);
    atomic_store(&is_over, true);
    pthread_join(offerer, NULL);
    assert_int_equal(faults, 0);
    vramwise_descriptors_withdraw(lasting.number);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_fetch_while_others_offer_and_withdraw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
