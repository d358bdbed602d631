/* gpu_capture_scene.h - what the checks of gpu_capture_check.c are made of.
 *
 * A *GPU* is opened once: its device, kernels, and the driver's functions for graphs and imports. A
 * *scene* is a pool on it, with streams and blocks that come and go, each with a pattern that is
 * written and found again by kernels. Between pool and device the mappings are noted, so that a
 * check can find the handles under an address, see them from a second address (a *view*), and have
 * it counted if one that must stay (is *watched*) is unmapped.
 *
 * One thread, one scene at a time. */
#ifndef VW_TESTS_GPU_CAPTURE_SCENE_H
#define VW_TESTS_GPU_CAPTURE_SCENE_H

#include "gpu/gpu_replay_bytes.h"
#include "vramwise/vramwise.h"

typedef struct capture_graph_ *capture_graph;           /* CUgraph */
typedef struct capture_graph_exec_ *capture_graph_exec; /* CUgraphExec */

/* CUstreamCaptureMode, CUstreamCaptureStatus */
enum { CAPTURE_MODE_GLOBAL = 0, CAPTURE_MODE_THREAD_LOCAL = 1, CAPTURE_STATUS_ACTIVE = 1 };

/* X(name, symbol, parameters). None is required: a check says which it lacks. */
#define CAPTURE_SYMBOL_LIST(X)                                                                     \
    X(cuStreamBeginCapture, "cuStreamBeginCapture_v2", (vw__cuda_stream stream, int mode))         \
    X(cuStreamEndCapture, "cuStreamEndCapture", (vw__cuda_stream stream, capture_graph * graph))   \
    X(cuGraphInstantiate, "cuGraphInstantiateWithFlags",                                           \
      (capture_graph_exec * exec, capture_graph graph, unsigned long long flags))                  \
    X(cuGraphLaunch, "cuGraphLaunch", (capture_graph_exec exec, vw__cuda_stream stream))           \
    X(cuGraphExecDestroy, "cuGraphExecDestroy", (capture_graph_exec exec))                         \
    X(cuGraphDestroy, "cuGraphDestroy", (capture_graph graph))                                     \
    X(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle",                                  \
      (vw__cuda_handle * handle, void *address))                                                   \
    X(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle",                            \
      (vw__cuda_handle * handle, void *exported, int handle_type))

typedef struct capture_functions {
#define CAPTURE_POINTER(name, symbol, parameters) vw__cuda_result(*name) parameters;
    CAPTURE_SYMBOL_LIST(CAPTURE_POINTER)
#undef CAPTURE_POINTER
} capture_functions;

typedef struct capture_gpu {
    vw_device *real;  /* owned */
    vw_device device; /* the same, with mappings noted: what pools are made on */
    replay_driver driver;
    capture_functions functions;
    replay_bytes bytes;
    replay_module spin_module; /* NULL: there is no such kernel here */
    replay_function spin;
} capture_gpu;

/* VW_ERR_NO_DEVICE where there is none. Kernels have run once when this returns. */
VW_MUST_CHECK vw_status capture_gpu_open(int index, capture_gpu *out);
void capture_gpu_close(capture_gpu *gpu);

/* Queues a kernel that runs for so long; VW_ERR_UNSUPPORTED where there is none. */
VW_MUST_CHECK vw_status capture_spin(const capture_gpu *gpu, uint64_t duration_ns,
                                     vw_stream stream);

/* Waits for the device. VW_ERR_WRONG_STATE if a check kernel found wrong bytes since last time. */
VW_MUST_CHECK vw_status capture_expect_bytes(capture_gpu *gpu, const char *when);

/* ---- mappings -------------------------------------------------------------------------------- */

/* From now on, unmapping any of this is counted. */
VW_MUST_CHECK vw_status capture_watch(vw_device_ptr address, uint64_t size_bytes);
void capture_forget_watched(void);
uint64_t capture_watched_unmaps(void); /* since they were last forgotten */

enum { CAPTURE_MOST_PIECES = 64 };

/* A block's memory at a second address. */
typedef struct capture_view {
    vw_device_ptr reserved; /* VW_NULL: not open */
    uint64_t reserved_bytes;
    vw_device_ptr block; /* the block's bytes begin here */
    vw_device_ptr homes[CAPTURE_MOST_PIECES];
    vw_handle handles[CAPTURE_MOST_PIECES];
    uint64_t sizes_bytes[CAPTURE_MOST_PIECES];
    vw_handle imported[CAPTURE_MOST_PIECES]; /* 0: not imported */
    size_t piece_count;
    uint64_t mapped_bytes; /* so far: the first pieces */
} capture_view;

/* Imported: each handle goes out as a file descriptor and comes in again as another handle.
 * VW_ERR_UNSUPPORTED where the driver cannot. Close it in either case. */
VW_MUST_CHECK vw_status capture_view_open(const capture_gpu *gpu, const replay_block *block,
                                          bool is_imported, capture_view *out);
VW_MUST_CHECK vw_status capture_view_close(const capture_gpu *gpu, capture_view *view);

/* Is every piece still where it was when the view was opened, to us and to the driver? */
VW_MUST_CHECK vw_status capture_view_expect_in_place(const capture_gpu *gpu,
                                                     const capture_view *view);

/* ---- scenes ---------------------------------------------------------------------------------- */

enum { CAPTURE_STREAMS = 3, CAPTURE_MOST_LIVE = 400 };

typedef struct capture_scene {
    capture_gpu *gpu; /* borrowed */
    vw_pool *pool;
    vw_stream streams[CAPTURE_STREAMS]; /* the first is for graphs, blocks churn on the others */
    vw_device_event order;
    replay_block live[CAPTURE_MOST_LIVE];
    size_t live_count;
    uint64_t random;
    uint64_t last_seed;   /* of a block's pattern: no two have the same */
    uint64_t served;      /* requests */
    uint64_t ran_out;     /* requests */
    uint64_t safe_points; /* granted */
} capture_scene;

VW_MUST_CHECK vw_status capture_scene_open(capture_scene *scene, capture_gpu *gpu,
                                           const char *engine, bool is_shareable,
                                           uint64_t random_seed);
/* Waits for the device, and ends all there is. */
void capture_scene_close(capture_scene *scene);

VW_MUST_CHECK vw_status capture_set_limit(capture_scene *scene, uint64_t limit_bytes);
VW_MUST_CHECK vw_status capture_reserved_bytes(const capture_scene *scene, uint64_t *out);

/* A block with its pattern queued behind it; `size_bytes` and `stream` are the caller's. */
VW_MUST_CHECK vw_status capture_take(capture_scene *scene, uint64_t size_bytes, vw_stream stream,
                                     replay_block *out);

/* Gives the block at `address` a new pattern. */
VW_MUST_CHECK vw_status capture_fill_anew(capture_scene *scene, replay_block *block,
                                          vw_stream stream);

/* Allocates and frees at random on the streams but the first, checking what is freed; frees when
 * memory runs out. Queues work only: nothing here waits. */
VW_MUST_CHECK vw_status capture_churn(capture_scene *scene, unsigned steps);
VW_MUST_CHECK vw_status capture_check_live(capture_scene *scene);
VW_MUST_CHECK vw_status capture_free_live(capture_scene *scene);

#endif /* VW_TESTS_GPU_CAPTURE_SCENE_H */
