/* gate_late.c - a gate that is put up while threads launch. */
#include "bench/gate_bench.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "adapters/torch/support/launch_gate.h"
#include "vramwise_torch_support.h"

enum { MOST_CROWD = 64, ARMINGS = 20 };

static void *sleep_until_over(void *unused)
{
    while (atomic_load(&gate_bench.is_over) == 0)
        usleep(5000);
    return unused;
}

/* Closed at the first request, or after how many: each waits for a second at most. */
static int close_and_open(void)
{
    for (int tries = 1; tries <= 20; tries++) {
        if (vw__launch_gate_close()) {
            vw__launch_gate_open();
            return tries;
        }
        vw__launch_gate_set_bounds(1000000000, 0); /* try again at once */
    }
    return 0;
}

static void arm_with(unsigned crowd, unsigned launching)
{
    pthread_t threads[MOST_CROWD];
    uint64_t arming_ns[ARMINGS], closing_ns[ARMINGS];
    int again = 0, never = 0;
    vw_device_ptr memory = VW_NULL;
    vw_device *device = gate_bench.device;
    gate_must(device->table->take(device->context, 4096, &memory), "memory");
    atomic_store(&gate_bench.is_over, 0);
    for (unsigned i = 0; i < crowd; i++)
        pthread_create(&threads[i], NULL, i < launching ? gate_launch_until_over : sleep_until_over,
                       &memory);
    usleep(100000);
    for (int i = 0; i < ARMINGS; i++) {
        gate_begin_anew();
        usleep(10000);
        uint64_t begin_ns = gate_now_ns();
        vw__launch_gate_arm();
        uint64_t armed_ns = gate_now_ns();
        int tries = close_and_open();
        closing_ns[i] = gate_now_ns() - armed_ns;
        arming_ns[i] = armed_ns - begin_ns;
        again += tries > 1;
        never += tries == 0;
    }
    atomic_store(&gate_bench.is_over, 1);
    for (unsigned i = 0; i < crowd; i++)
        pthread_join(threads[i], NULL);
    gate_must(device->table->give_back(device->context, memory), "giving memory back");
    gate_sort(arming_ns, ARMINGS);
    gate_sort(closing_ns, ARMINGS);
    printf("%-8u %10u %12.2f %12.2f %14.2f %12.2f %8d %8d\n", crowd, launching,
           (double)arming_ns[ARMINGS / 2] / 1e6, (double)arming_ns[ARMINGS - 1] / 1e6,
           (double)closing_ns[ARMINGS / 2] / 1e6, (double)closing_ns[ARMINGS - 1] / 1e6, again,
           never);
    gate_report(never == 0, "a gate that comes late closes");
}

void gate_come_late(void)
{
    printf("%-8s %10s %12s %12s %14s %12s %8s %8s\n", "threads", "launching", "arming, ms",
           "worst, ms", "then closed", "worst, ms", "again", "never");
    arm_with(1, 1);
    arm_with(16, 4);
    arm_with(64, 4);
    gate_torture(GATE_NEAR_THE_LIMIT);
    gate_torture(GATE_WHEN_NEEDED);
    gate_report(!vw__launch_gate_get_counts().has_nested_calls,
                "no driver function came to the gate from within another");
}
