/* thread_census.h - proves of every thread of the process that it is outside the CUDA driver.
 *
 * Callbacks at the driver's entry see every call from the moment on at which they are in force, and
 * none that began before. The census lists the threads of that moment and crosses out each one that
 * is proven to have been outside at any time since: its next call is seen. A thread is outside if
 *
 *   - it was seen at the driver's entry (the caller's witness says so), or it has ended; or
 *   - it sleeps in the kernel, and from its stack pointer to the beginning of its stack no word
 *     is a return address in the driver's code, nor is its program counter there: nobody called the
 *     driver who has not come back. That it slept all the while is known from the number of its
 * context switches;
 *   - or the driver started it: such threads do the driver's own work.
 *
 * A word that somebody left there by chance only means that the thread is looked at again.
 * docs/design/007-safe-moments.md has the proof, and what it rests on.
 *
 * Needs /proc, process_vm_readv(), glibc and x86-64 (on others a return address may be in a
 * register). Not thread-safe: one census at a time. Allocates nothing. */
#ifndef VRAMWISE_TORCH_THREAD_CENSUS_H
#define VRAMWISE_TORCH_THREAD_CENSUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Begins a census of the threads that there are from now on. Callbacks must be in force already.
 * False: it cannot be known here, and `reason` says why. */
bool vw__census_begin(char *reason, size_t capacity);

/* Has this thread been seen at the driver's entry since? */
typedef bool (*vw__census_witness)(int thread_id);

/* Looks at each thread that is left, once; the calling one counts as proven. Returns how many are
 * left: 0 if all were outside at some time. Does not wait for any. */
size_t vw__census_look(vw__census_witness is_seen);

/* How many are left; 1 at least while they could not be listed. */
size_t vw__census_count(void);

/* What the census asks the system. Each returns the number of bytes, or -1 with errno. */
typedef struct vw__census_system {
    /* All of a file in /proc, as far as there is room. */
    long (*read_file)(const char *path, char *text, size_t capacity);
    /* Entries of /proc/self/task as getdents64() has them, all at one time. */
    long (*list_threads)(char *entries, size_t capacity);
    /* Of this process's memory; short where it ends. */
    long (*read_memory)(uint64_t address, void *to, size_t size_bytes);
} vw__census_system;

/* For tests; NULL: the real one. Returns the one in force before. */
const vw__census_system *vw__census_set_system(const vw__census_system *other);

#endif /* VRAMWISE_TORCH_THREAD_CENSUS_H */
