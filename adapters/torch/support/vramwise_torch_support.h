/* vramwise_torch_support.h - what any door into PyTorch needs and plain C can do:
 * libvramwise-torch.
 *
 * Two parts. *Safe moments*: when may live data be copied to other pages? Only when nobody touches
 * it, which is known in two cases: the program says so (vramwise_safe_point_enter(), from Python
 * vramwise.torch.safe_point()), or every launch of work by any thread is held back at a gate until
 * the copy is done. The gate stands in the driver's own entry, through CUPTI's callbacks, so that
 * libraries which do not ask us (cuBLAS, cuDNN, NCCL, Triton) cannot walk around it.
 *
 * The *plain door*: the C functions of torch.cuda.memory.CUDAPluggableAllocator, for machines where
 * the adapter cannot be compiled. It allocates, frees and orders by streams; PyTorch then has no
 * statistics, snapshots, graphs or OutOfMemoryError. */
#ifndef VRAMWISE_TORCH_SUPPORT_H
#define VRAMWISE_TORCH_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/vramwise.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- safe moments ---------------------------------------------------------------------------- */

/* Puts the gate in place, once for the process: from now on each launch passes it. Call it before
 * the program starts work on a GPU, or while no thread does: a launch that is under way meanwhile
 * is not seen. False: there is none (no CUPTI, or another tool has it), and `message` says why in
 * one line; safe points still work. True as well where it stands already. */
VW_API bool vramwise_launch_gate_install(char *message, size_t capacity);

/* Takes the gate away and leaves CUPTI to others: for a profiler that is about to start, which
 * could not otherwise. It can be put back when they are done with it. False: another thread copies
 * live data, for longer than a second; try again. True as well where there is none. */
VW_API bool vramwise_launch_gate_remove(void);

/* For vw_pool_options: asks both. Between its two calls the thread waits for no other, and must not
 * be made to: a listener (vw_event_sink) of such a pool takes no lock under which others start work
 * on a GPU, Python's among them. */
VW_API vw_safe_point vramwise_safe_moments(void);

/* For vw_pool_options: holds launches at the gate while a pool is parked. A thread that launches
 * meanwhile waits until the pool is woken; the first one says so on standard error. */
VW_API vw_park_guard vramwise_park_guard(void);

/* The program is about to end: whoever waits because memory is parked goes on, and nobody waits for
 * it any more. What is done at the end, such as destroying graphs, would otherwise wait for a wake
 * that does not come. Work that touches parked memory then fails. */
VW_API void vramwise_end_holds(void);

/* Between the two the calling thread promises that no other thread starts work on any GPU, or
 * captures a graph: requests it makes itself may copy live data. Nests; one leave too many does
 * nothing. */
VW_API void vramwise_safe_point_enter(void);
VW_API void vramwise_safe_point_leave(void);

typedef struct vramwise_safe_moment_counts {
    bool has_gate;
    uint64_t granted_by_program; /* inside a safe point */
    uint64_t granted_by_gate;
    uint64_t refused;         /* neither */
    uint64_t held_launches;   /* that waited at the gate */
    uint64_t longest_hold_ns; /* from closing the gate to opening it */
    uint64_t passed_launches; /* that the gate saw: 0 in a program that works is a gate that stands
                                 in nobody's way */
} vramwise_safe_moment_counts;
VW_API vramwise_safe_moment_counts vramwise_get_safe_moment_counts(void);

/* ---- the plain door -------------------------------------------------------------------------- */

/* Chooses the engine, before the first allocation; NULL = "vramwise". `conf` as vw_pool_options.
 * False: not a name of an engine, a `conf` that would be refused, or too late: vw_last_error() says
 * which, and nothing changed. */
VW_API bool vramwise_plain_choose(const char *engine, const char *conf);

/* The signatures are PyTorch's and no compiler compares them: CUDAPluggableAllocator.h, 2.x.
 * `stream` is a cudaStream_t. A request that cannot be served cannot be refused through this door
 * (PyTorch would hand out a tensor at address 0): the text of the error is written to standard
 * error, and the process ends with abort(). */
VW_API void *vramwise_plain_alloc(size_t size_bytes, int device, void *stream);
VW_API void vramwise_plain_free(void *address, size_t size_bytes, int device, void *stream);
VW_API void vramwise_plain_record_stream(void *address, void *stream);
VW_API void *vramwise_plain_base(void *address, size_t *size_bytes);
VW_API void vramwise_plain_empty_cache(void);
VW_API void vramwise_plain_set_fraction(double fraction, int device);

/* ---- plans traced without a GPU -------------------------------------------------------------- */

/* A c10::impl::DeviceGuardImplInterface of a GPU on which nothing runs, for the entry of CUDA in
 * PyTorch's registry of guards. Never freed. */
VW_API const void *vramwise_still_guard(void);

/* Has CUDA's hooks (at::detail::getCUDAHooks(), from PyTorch 2.8 on) say that CUDA is built in and
 * its device has a context. For the rest of the process, which must have no GPU. */
VW_API void vramwise_still_hooks(void *hooks);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_TORCH_SUPPORT_H */
