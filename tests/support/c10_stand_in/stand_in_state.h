// stand_in_state.h - what a test says about the PyTorch and the CUDA that are not there, and what
// they were asked.
#pragma once

#include "stand_in_cuda.h"

struct StandIn {
    // What the settings say.
    std::string conf;
    size_t max_split_bytes = std::numeric_limits<size_t>::max();
    bool is_expandable = false;
    std::vector<std::string> parsed; // what CUDA's own parser got

#if STAND_IN_TORCH < 208
    c10::cuda::MemPool *active_pool = nullptr;
#endif

    // Who watches.
    bool is_profiling = false;
    bool is_tracing = false;

    struct Report {
        int64_t change_bytes;
        size_t allocated_bytes;
        size_t reserved_bytes;
    };
    std::vector<Report> reports;
    std::vector<Report> out_of_memory_reports;
    std::vector<uintptr_t> traced_allocations;
    std::vector<uintptr_t> traced_deallocations;

    // Called where no cached block fits.
    std::function<bool()> free_memory;

    // What the CUDA runtime was asked.
    std::vector<std::pair<int, int>> peers;            // current device, device to reach
    std::vector<std::pair<int, cudaStream_t>> awaited; // current device, stream
    bool is_unloading = false;                         // as at the end of a process
    bool is_capturing = false;                         // a graph, in another thread
    std::vector<bool> started_devices;                 // one for each there is
    std::vector<int> idle_devices;                     // that were waited for
    int plain_copies = 0;
    int peer_copies = 0;
    int opened_handles = 0;
    int closed_handles = 0;
    int uncached_blocks = 0;
};

StandIn &stand_in();

// The calling thread's.
void stand_in_set_device(c10::DeviceIndex device);
void stand_in_set_stream(c10::StreamId stream);
