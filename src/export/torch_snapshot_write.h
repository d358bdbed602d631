/* torch_snapshot_write.h - a memory model as a PyTorch memory snapshot.
 *
 * Writes the pickle that torch.cuda.memory._dump_snapshot() would: the same keys in the same order,
 * so that torch/cuda/_memory_viz.py and pytorch.org/memory_viz open it. Which of the keys that came
 * with some release are there is decided by model->features, since a file's keys are all that tells
 * its version; what is unknown is left out. Earlier shapes than 2.1's (a bare list of segments,
 * blocks with a `history`) are not written: such a model comes out in 2.1's shape.
 *
 * Every string and frame is written once and referred to afterwards. So is each context's list of
 * frames: events of one request share one list object, two requests with equal stacks have two.
 *
 * Read back, the model is the same, but for two things that the format cannot say: a segment or
 * block without a context has an empty one, and names that are not UTF-8 are mended. */
#ifndef VW_EXPORT_TORCH_SNAPSHOT_WRITE_H
#define VW_EXPORT_TORCH_SNAPSHOT_WRITE_H

#include "vramwise/status.h"
#include "export/pickle_write.h"
#include "model/memory_model.h"

/* Needs host memory in proportion to the strings, frames and contexts of the model, not to its
 * events. VW_ERR_FILE: the sink ended it. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__export_snapshot(const vw__model *model,
                                            const vw__export_pickle_sink *sink);

#endif /* VW_EXPORT_TORCH_SNAPSHOT_WRITE_H */
