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

/* Has the gate put up as late as can be instead: when a pool says that its memory gets short
 * (vramwise_prepare_safe_moment()), or first asks for a moment. A launch costs nothing more until
 * then. Threads may be launching at that time: the gate first closes when each of them is known to
 * have been outside the driver since. Where it cannot be put up then, a line on standard error says
 * why, unless `is_quiet`. */
VW_API void vramwise_launch_gate_come_late(bool is_quiet);

/* Takes the gate away and leaves CUPTI to others: for a profiler that is about to start, which
 * could not otherwise. A gate that comes late does not come any more. It can be put back
 * (vramwise_launch_gate_install()) when they are done with it. False: another thread copies live
 * data, for longer than a second, or memory is parked; try again. True as well where there is none.
 */
VW_API bool vramwise_launch_gate_remove(void);

typedef enum vramwise_launch_gate_state {
    VRAMWISE_GATE_OFF,     /* nobody asked for it */
    VRAMWISE_GATE_WAITS,   /* it comes late, and was not needed yet */
    VRAMWISE_GATE_ARMING,  /* it sees launches, but not all threads are known to be outside */
    VRAMWISE_GATE_ARMED,   /* it can be closed */
    VRAMWISE_GATE_REFUSED, /* there is none */
} vramwise_launch_gate_state;

/* `reason`: why it was refused, in one line, or "". */
VW_API vramwise_launch_gate_state vramwise_get_launch_gate_state(char *reason, size_t capacity);

/* "off", "waits", "arming", "armed" or "refused". */
VW_API const char *vramwise_launch_gate_state_name(vramwise_launch_gate_state state);

/* For vw_pool_options: asks both. Between its two calls the thread waits for no other, and must not
 * be made to: a listener (vw_event_sink) of such a pool takes no lock under which others start work
 * on a GPU, Python's among them. */
VW_API vw_safe_point vramwise_safe_moments(void);

/* For vw_pool_options.prepare_safe_point: memory gets short, a moment may be asked for soon. Cheap
 * once the gate can be closed. */
VW_API void vramwise_prepare_safe_moment(void *context);

/* For vw_pool_options: holds launches at the gate while a pool is parked. A thread that launches
 * meanwhile waits until the pool is woken; the first one says so on standard error. */
VW_API vw_park_guard vramwise_park_guard(void);

/* The program is about to end: whoever waits because memory is parked goes on, and nobody waits for
 * it any more. What is done at the end, such as destroying graphs, would otherwise wait for a wake
 * that does not come. Work that touches parked memory then fails, and nothing more is parked. */
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

/* ---- file descriptors for other processes ---------------------------------------------------- */

/* Where another process of the same user fetches descriptors: a Unix socket of this process, by its
 * key, and a number. All bytes of the key are 0 where there is no socket. */
enum { VRAMWISE_DESCRIPTOR_KEY_BYTES = 16 };
typedef struct vramwise_descriptor_offer {
    uint8_t key[VRAMWISE_DESCRIPTOR_KEY_BYTES];
    uint64_t number; /* another one for each offer of this process */
} vramwise_descriptor_offer;

/* Offers descriptors, which stay open until the offer is withdrawn. The first offer opens the
 * socket and starts a thread that serves it, vramwise-share; both stay. False: there is no socket
 * (no thread, no descriptor, no random numbers), or no host memory. The offer then has a number
 * all the same, and nobody can fetch anything; the next offer tries again. In a child of fork() the
 * parent's offers are withdrawn, and an offer opens a socket of the child's own. */
VW_API bool vramwise_descriptors_offer(const int *files, size_t count,
                                       vramwise_descriptor_offer *out);

/* From the return on nobody gets them any more: they may be closed. */
VW_API void vramwise_descriptors_withdraw(uint64_t number);

/* In the other process: stores `count` new descriptors, which the caller closes. It waits for
 * each step for five seconds at most. False, with the reason in `message`: nothing is open. */
VW_API bool vramwise_descriptors_fetch(const vramwise_descriptor_offer *offer, int *files,
                                       size_t count, char *message, size_t capacity);

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
