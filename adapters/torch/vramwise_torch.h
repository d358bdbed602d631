/* vramwise_torch.h - what Python calls in the adapter, which is C++ inside and plain C here.
 *
 * The adapter is a shared library compiled against one version of PyTorch, either for the wheel or
 * on the user's machine. Python loads it after torch, with ctypes; so every type here is one that
 * ctypes has. No exception leaves these functions. */
#ifndef VRAMWISE_TORCH_H
#define VRAMWISE_TORCH_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VRAMWISE_TORCH_API __attribute__((visibility("default")))

/* The version of PyTorch it was compiled against, as torch.__version__ begins: "2.11.0". */
VRAMWISE_TORCH_API const char *vramwise_torch_compiled_for(void);

/* Makes the allocator PyTorch's own for the rest of the process. `allocator` is "torch",
 * "vramwise", whose launch gate comes when it is needed, or "vramwise:rescue" or "vramwise:tight",
 * whose gate comes with the first device. Settings come from PyTorch, which has read
 * PYTORCH_CUDA_ALLOC_CONF. Opens no device: that happens at the first use of one.
 *
 * `spill_bytes`: so much host memory live data may go to where a GPU is full, on all GPUs of the
 * process together; 0 = none, and always so for "torch". More than the machine has is refused, with
 * the numbers; what depends on the device (`ulimit -l`) is an error at its first use.
 *
 * `keep_free`: so much of each GPU is left to others, "2GiB" or "5%"; NULL or "" = nothing, and
 * always so for "torch". More than a GPU has is an error at its first use.
 *
 * 0: done. Otherwise nothing changed, and `message` says why, in one line. */
#define VRAMWISE_TORCH_WITHOUT_GATE 1u /* live data is copied at safe points only */
#define VRAMWISE_TORCH_QUIET 2u        /* no line on standard error when live data leaves a GPU */
VRAMWISE_TORCH_API int vramwise_torch_install(const char *allocator, unsigned flags,
                                              unsigned long long spill_bytes, const char *keep_free,
                                              char *message, size_t capacity);

/* 1 if PyTorch itself passes new settings on to the installed allocator. 0: whoever changes them
 * calls vramwise_torch_configure() afterwards. */
VRAMWISE_TORCH_API int vramwise_torch_has_settings_hook(void);

/* New settings, which PyTorch has read already, for all pools. 0: in force; otherwise `message`
 * says why not. Nothing happens where nothing is installed. */
VRAMWISE_TORCH_API int vramwise_torch_configure(const char *conf, char *message, size_t capacity);

/* Says of blocks how often they are touched, as vw_advise(): `addresses` are of any byte in them,
 * and those of no block are passed over. Returns the bytes of all the others together. */
VRAMWISE_TORCH_API unsigned long long vramwise_torch_advise(const unsigned long long *addresses,
                                                            size_t count, int advice);

/* A step of the program has ended, as vw_pool_mark_step(), on every GPU it uses. May wait for them:
 * without Python's lock. 0: done; otherwise `message` says what did not come back, and why. */
VRAMWISE_TORCH_API int vramwise_torch_mark_step(char *message, size_t capacity);

/* An optimizer's state that leaves the GPU beside the computation (state_stream.h); only where
 * memory may be spilled. `tensor` and `object` are tensor._cdata and id(tensor) of a tensor that
 * lives for the call. stream_start() is called with Python's lock held all the time, and so are the
 * moves of which it is said; everything else without it.
 *
 * stream_start(): from now on requests are counted, and one that finds no room has `make_room`
 * called: by whoever answers stream_next_need(), or at once if its thread has Python's lock by
 * `has_lock`. The tensor is one that only a dictionary and a variable hold; others are bound
 * elsewhere only while they are held like it. 1: done.
 * stream_add(): takes the tensor's storage in; its bytes, or 0 if it is not one that can move.
 * stream_plan(): bytes that shall be copied out now. `is_step_end`: a step has ended, so that there
 * is a new schedule.
 * stream_move(): one of the below.
 * stream_move_all(): one of the first four for many tensors, tensor._cdata or 0, until the answers
 * add up to `most_bytes`. Each goes to `answers`; 0 for tensors that it did not come to.
 * stream_away(): bytes of state that are on the host. stream_stage() and the next two: state that
 * its optimizer's step finds there is used in blocks of the GPU, as StateStream::stage() says; each
 * tensor's bytes or 0 go to `answers`, and `shell` is an empty tensor's _cdata. 1: done.
 * stream_wait(): waits for a copy out. `is_ahead`: only while the GPU has enough to do.
 * stream_release(): frees what was bound out, behind all that is queued on the GPU. Its bytes.
 * `is_ahead`: when that is over, so that nothing waits for it.
 * stream_pump(): copies out what is due, in a thread of its own; returns after stream_stop().
 * stream_next_need(): waits for a request without room, or for one at which state is to leave
 * though nothing lacks yet (`is_ahead`); 0: there will be no more. Then stream_answer(). */
#define VRAMWISE_TORCH_NOTE_STEP 0    /* its optimizer has stepped, on the current stream */
#define VRAMWISE_TORCH_COPY_OUT 1     /* it is to be copied out from the next request on; bytes */
#define VRAMWISE_TORCH_COPY_AT_ONCE 2 /* begins to copy it out; bytes */
#define VRAMWISE_TORCH_FETCH 3        /* before a step on the current stream; bytes to BIND_IN */
#define VRAMWISE_TORCH_BIND_OUT 4     /* with the lock, behind stream_wait(); bytes; 0: it stays */
#define VRAMWISE_TORCH_BIND_IN 5      /* with the lock, behind FETCH; 1: it is on the GPU */
#define VRAMWISE_TORCH_IS_ALONE 6     /* with the lock; 1: held like the tensor of stream_start() */
VRAMWISE_TORCH_API unsigned long long
vramwise_torch_stream_move(unsigned long long tensor, unsigned long long object, int what);
VRAMWISE_TORCH_API void vramwise_torch_stream_move_all(const unsigned long long *tensors,
                                                       size_t count, int what,
                                                       unsigned long long most_bytes,
                                                       unsigned long long *answers);
VRAMWISE_TORCH_API unsigned long long vramwise_torch_stream_away(int device);
VRAMWISE_TORCH_API void vramwise_torch_stream_stage(const unsigned long long *tensors, size_t count,
                                                    unsigned long long kept_bytes,
                                                    unsigned long long *answers);
VRAMWISE_TORCH_API int vramwise_torch_stream_use_staged(unsigned long long tensor,
                                                        unsigned long long shell);
VRAMWISE_TORCH_API int vramwise_torch_stream_unstage(unsigned long long tensor,
                                                     unsigned long long shell);
VRAMWISE_TORCH_API int vramwise_torch_stream_start(
    unsigned long long tensor, unsigned long long object,
    int (*make_room)(int device, unsigned long long size_bytes, int is_ahead),
    int (*has_lock)(void));
VRAMWISE_TORCH_API void vramwise_torch_stream_stop(void);
VRAMWISE_TORCH_API unsigned long long vramwise_torch_stream_add(unsigned long long tensor,
                                                                unsigned long long object);
VRAMWISE_TORCH_API unsigned long long vramwise_torch_stream_plan(int device, int is_step_end);
VRAMWISE_TORCH_API void vramwise_torch_stream_wait(unsigned long long tensor,
                                                   unsigned long long object, int is_ahead);
VRAMWISE_TORCH_API unsigned long long vramwise_torch_stream_release(int device, int is_ahead);
VRAMWISE_TORCH_API void vramwise_torch_stream_pump(void);
VRAMWISE_TORCH_API int vramwise_torch_stream_next_need(int *device, unsigned long long *size_bytes,
                                                       int *is_ahead);
VRAMWISE_TORCH_API void vramwise_torch_stream_answer(int is_worth_while);

/* Tensors that the forward pass saves (saved_stream.h), without Python's lock.
 *
 * saved_keep(): one that is saved, tensor._cdata. More than 0: it leaves, and whoever gets this id
 * lets go of the tensor. Less: it stays; saved_note() with -result - 1 when it is wanted again. 0:
 * it stays. VRAMWISE_TORCH_SAVED_LAST in an id: nothing that this step saves from now on leaves, so
 * nobody has to ask until the next.
 * saved_fetch(): 0: `shell`, an empty tensor of bytes, has its storage now. More: so many bytes
 * does the tensor need that saved_fill() wants. -1: it was written to meanwhile. -2: it is not
 * known. saved_fill(): 1: its bytes are copied into `tensor`, in the order of the current stream.
 * saved_release(): nobody wants the id any more. May be called with Python's lock.
 * saved_lacking(): what the last step lacked even with the state away; 0: nothing has to leave. */
#define VRAMWISE_TORCH_SAVED_LAST (1LL << 62)
VRAMWISE_TORCH_API long long vramwise_torch_saved_keep(unsigned long long tensor);
VRAMWISE_TORCH_API void vramwise_torch_saved_note(int device, unsigned long long item);
VRAMWISE_TORCH_API long long vramwise_torch_saved_fetch(int device, unsigned long long id,
                                                        unsigned long long shell);
VRAMWISE_TORCH_API int vramwise_torch_saved_fill(int device, unsigned long long id,
                                                 unsigned long long tensor);
VRAMWISE_TORCH_API void vramwise_torch_saved_release(int device, unsigned long long id);
VRAMWISE_TORCH_API unsigned long long vramwise_torch_saved_lacking(int device);

/* vw_pool_park(), vw_pool_wake() and vw_pool_park_ahead() for every GPU of the process: all or none
 * is parked. `region` is the id of a MemPool that vramwise_torch_region() was called for; {0, 0} is
 * everything. `numbers` gets what vw_park_report has behind struct_size. They may wait for the
 * GPUs: without Python's lock. Return a vw_status; other than 0, `message` says why. */
VRAMWISE_TORCH_API int vramwise_torch_park(const unsigned long long region[2], const char *folder,
                                           unsigned long long wait_ms,
                                           unsigned long long numbers[5], char *message,
                                           size_t capacity);
VRAMWISE_TORCH_API int vramwise_torch_wake(const unsigned long long region[2],
                                           unsigned long long numbers[5], char *message,
                                           size_t capacity);
VRAMWISE_TORCH_API int vramwise_torch_park_ahead(unsigned long long size_bytes, char *message,
                                                 size_t capacity);
/* vw_private_pool_set_region(), wherever that MemPool is in use. */
VRAMWISE_TORCH_API int vramwise_torch_region(const unsigned long long region[2], const char *name,
                                             int keeps_data, char *message, size_t capacity);

/* Whether PyTorch's profiler may want to hear of single blocks: 1 until told otherwise. To ask
 * PyTorch at each of them costs a third of an allocation; whoever says 0 knows of every profiler
 * before it starts, and says 1 then. */
VRAMWISE_TORCH_API void vramwise_torch_expect_profilers(int is_expected);

/* What the allocator did on one device, as one JSON object: vw_paged_stats by field name, those
 * about spilled memory in "spill", those about streamed state in "stream", and "safe_moments" with
 * what vramwise_safe_moment_counts has, the state of the gate ("gate") and why there is none
 * ("gate_refusal"). Returns the length it needs, the zero included; less than 1: nothing is
 * installed, or the device was not used. */
VRAMWISE_TORCH_API long vramwise_torch_stats(int device, char *json, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_TORCH_H */
