/* trace_replay.h - a PyTorch recording, once more, through our pool on a simulated device.
 *
 * The requests, the frees and the addresses that the driver gave are the input; the address of
 * every block, every segment taken and given back, the end state, the statistics and the texts must
 * be the recorded ones.
 *
 * What a recording does not show, and what is done about it:
 *   - record_stream(): a free that completes later than it was requested had one. The block is
 * given a made-up user stream of its own before the free, and that stream completes right before
 * the operation during which the recorded free completed. Which of several completes first is a
 *     hash order in PyTorch, so they are completed one at a time.
 *   - an empty_cache() that gave nothing back: only num_sync_all_streams would tell, so that one is
 *     a lower bound.
 *   - private pools: see extract_trace.py.
 *   - the size of a request that ran out of memory: only the rounded size is recorded. It rounds to
 *     itself, so it is what we ask for.
 *   - other processes on the GPU: what the text says about them is left out of the comparison. */
#ifndef HR_TESTS_TRACE_REPLAY_H
#define HR_TESTS_TRACE_REPLAY_H

#include <stdbool.h>
#include <stddef.h>

#include "support/trace_file.h"

/* Replays a trace recorded by PyTorch 2.11. True if everything came out as recorded; else the first
 * difference, with the number of its event, is in `complaint`. */
bool hr_test_replay(const hr_test_trace *trace, char *complaint, size_t complaint_bytes);

#endif /* HR_TESTS_TRACE_REPLAY_H */
