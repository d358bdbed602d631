/* gate_bench.h - what the parts of bench_launch_gate share. */
#ifndef VW_BENCH_GATE_BENCH_H
#define VW_BENCH_GATE_BENCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/gpu_replay_bytes.h"

enum {
    MOST_THREADS = 4, /* that launch */
    BATCH = 400,      /* launches between two waits for the stream: less than the driver queues */
};

#define MIB (UINT64_C(1) << 20)

extern struct gate_bench {
    vw_device *device;
    replay_driver driver;
    replay_bytes kernels; /* each thread works with a copy: its count of bytes is its own */
    int fault_count;
    _Atomic int is_over; /* for threads that launch */
} gate_bench;

/* A line, "ok" or "WRONG". */
void gate_report(bool is_right, const char *what);
/* Ends the program where it is not VW_OK. */
void gate_must(vw_status status, const char *what);
uint64_t gate_now_ns(void);
void gate_sort(uint64_t *numbers, size_t count);

/* Of a thread that launches kernels. */
void gate_begin_thread(vw_stream *stream);
void gate_end_thread(vw_stream stream);

/* A thread: launches kernels on 64 bytes at *(vw_device_ptr *)address until it is over. */
void *gate_launch_until_over(void *address);

/* Takes the gate down; it comes when it is needed. */
void gate_begin_anew(void);

/* When the gate comes that threads run into. */
typedef enum gate_time {
    GATE_FROM_THE_BEGINNING,
    GATE_NEAR_THE_LIMIT, /* put up before a copy is needed */
    GATE_WHEN_NEEDED,    /* when it is */
} gate_time;

/* Threads' kernels write blocks of a pool that copies them. */
void gate_torture(gate_time time);

/* A gate that is put up while threads launch: what it takes, and whether it holds. */
void gate_come_late(void);

#endif /* VW_BENCH_GATE_BENCH_H */
