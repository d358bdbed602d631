// adapter.h - the allocator as PyTorch sees it: every method of its CUDAAllocator, by vramwise.h.
//
// The class holds no rule about memory. It finds the device and stream of a call, asks the pool,
// and says in PyTorch's words what came of it. By subject:
//   adapter.cpp        asking and freeing, and what can go wrong there
//   adapter_state.cpp  opening devices, settings, statistics, peers, copies
//   adapter_pools.cpp  private pools: CUDA graphs, torch.cuda.MemPool, graph trees
//   adapter_observe.cpp  history, snapshots, observers
//   adapter_spill.cpp  live data that goes to host memory
//   state_stream.cpp   an optimizer's state that leaves the GPU beside the computation
//   adapter_park.cpp   memory that leaves the GPU until it is woken
//   vramwise_torch.cpp how it gets into PyTorch; the C functions for Python
//
// A method with `override` is the same in every version of PyTorch. The others came with the
// version named beside them, or have another shape before and after: each shape is declared, the
// version's own overrides, and the rest are plain functions that nobody calls (see torch_names.h).
//
// Locks, from the outside in: DevicePools::opening, then DevicePools::lock or quick_lock_, then a
// pool's own, then those in history.h. Python's global lock is never asked for inside any of them.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "device_pools.h"
#include "foreign_uses.h"
#include "history.h"
#include "platform.h"
#include "sharing.h"
#include "state_stream.h"
#include "vramwise/park.h"

namespace vramwise_torch
{

struct AdapterOptions {
    std::string engine = "torch"; // any name of vw_pool_options.engine
    vw_safe_point safe_point{};
    void (*prepare_safe_point)(void *context) = nullptr; // vw_pool_options.prepare_safe_point
    vw_park_guard park_guard{};                          // vw_pool_options.park_guard

    // Host memory that live data may go to, on all devices together; not for engine "torch". Its
    // first use on a device is said in a line, unless nobody wants any.
    uint64_t spill_bytes = 0;
    bool is_quiet = false;

    // vw_pool_options.keep_free of each device; empty: none. Not for engine "torch".
    std::string keep_free;

    // Where devices come from: in tests a stand-in.
    std::function<vw_status(int index, vw_device **out)> open_device = open_gpu;

    // Called once, before the first of them: what may be done only in the process that uses CUDA,
    // which may be a child of the one in which this was installed.
    std::function<void()> before_first_device;
};

// Why a request was not served, taken down before anything else can fail.
struct Failure {
    vw_status status = VW_OK;
    std::string text;
    vw_oom_report report{}; // of VW_ERR_OUT_OF_MEMORY
};
Failure failure_of(vw_status status);

#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Winconsistent-missing-override" // see above
#endif
class Adapter final : public CUDAAllocator
{
  public:
    // There is one in a process, and it is never ended.
    explicit Adapter(AdapterOptions options);

    // ---- asking and freeing --------------------------------------------------------------------
    c10::DataPtr allocate(size_t size_bytes) override;
    c10::DeleterFnPtr raw_deleter() const override;
    void *raw_alloc(size_t size_bytes) override;
    void *raw_alloc_with_stream(size_t size_bytes, cudaStream_t stream) override;
    void raw_delete(void *pointer) override;
    void recordStream(const c10::DataPtr &pointer, CUDAStream stream) override;
    using CUDAAllocator::recordStream;
    void copy_data(void *to, const void *from, std::size_t size_bytes) const override;
    void enable(bool is_enabled);                                     // 2.6
    bool isEnabled() const;                                           // 2.6
    c10::DataPtr allocateWithAddress(size_t size_bytes, void *there); // 2.13

    // ---- devices, settings, statistics ---------------------------------------------------------
    void init(int device_count) override;
    bool initialized() override;
    std::string name() override;
    double getMemoryFraction(c10::DeviceIndex device); // 2.6
    void setMemoryFraction(double fraction, c10::DeviceIndex device) override;
    std::vector<StreamSegmentSize> getExpandableSegmentSizes(c10::DeviceIndex device); // 2.10
    void emptyCache(MempoolId_t id);                                                   // 2.8
    void emptyCache();                                                                 // up to 2.7
    void cacheInfo(c10::DeviceIndex device, size_t *largest_bytes) override;
    void *getBaseAllocation(void *pointer, size_t *size_bytes) override;
    DeviceStats getDeviceStats(c10::DeviceIndex device) override;
    void resetAccumulatedStats(c10::DeviceIndex device) override;
    void resetPeakStats(c10::DeviceIndex device) override;
    void enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex device_to_access) override;
    cudaError_t memcpyAsync(void *to, int to_device, const void *from, int from_device,
                            size_t size_bytes, cudaStream_t stream, bool is_peer_enabled) override;
    ShareableHandle shareIpcHandle(void *pointer); // 2.5
    std::shared_ptr<void> getIpcDevPtr(std::string handle) override;

    // A new option string, while the pools run; PyTorch has read it already.
    void configure(const std::string &conf);
    std::string newest_settings();
    // What engine "vramwise" did on a device; false where there is nothing to tell.
    bool get_paged_stats(int device, vw_paged_stats *stats);
    const std::string &engine() const
    {
        return options_.engine;
    }
    uint64_t spill_bytes() const
    {
        return options_.spill_bytes;
    }
    bool is_open(int device) const;

    // What is known of the block that holds `pointer`: its size, or 0 where it is none of ours.
    uint64_t advise(const void *pointer, vw_advice advice);
    // vw_pool_park() and what goes with it, for the pools of all devices; `only` is a region. What
    // fails is in vw_last_error().
    vw_status park(const MempoolId_t *only, const char *folder, uint64_t wait_ms,
                   vw_park_report *report);
    vw_status wake(const MempoolId_t *only, vw_park_report *report);
    vw_status park_ahead(uint64_t size_bytes);
    vw_status set_region(MempoolId_t id, const char *name, bool keeps_data);

    // Null where nothing may be spilled.
    StateStream *stream()
    {
        return stream_.get();
    }
    // From now on stream() sees every request.
    void watch_requests()
    {
        settle_all_quick_ways();
    }
    DevicePools *opened_pools(int device); // null where it is not open

    // The program has made a step; what was spilled may come back, on all devices. Throws.
    void mark_step();

    // ---- private pools -------------------------------------------------------------------------
    void beginAllocateToPool(c10::DeviceIndex device, MempoolId_t id,
                             std::function<bool(cudaStream_t)> filter) override;
    void endAllocateToPool(c10::DeviceIndex device, MempoolId_t id) override;
    void releasePool(c10::DeviceIndex device, MempoolId_t id) override;
    int getPoolUseCount(c10::DeviceIndex device, MempoolId_t id); // 2.6
    void createOrIncrefPool(c10::DeviceIndex device, MempoolId_t id,
                            std::shared_ptr<CUDAAllocator> source = nullptr); // 2.11
    void createOrIncrefPool(c10::DeviceIndex device, MempoolId_t id,
                            CUDAAllocator *source);                             // 2.8 to 2.10
    void ensureExistsAndIncrefPool(c10::DeviceIndex device, MempoolId_t id);    // 2.6, 2.7
    void setUseOnOOM(c10::DeviceIndex device, MempoolId_t id, bool use_on_oom); // 2.11
    void setUseOnOOM(c10::DeviceIndex device, MempoolId_t id);                  // 2.8 to 2.10
    void setNoSplit(c10::DeviceIndex device, MempoolId_t id);                   // 2.10
    bool checkPoolLiveAllocations(c10::DeviceIndex device, MempoolId_t id,
                                  const std::unordered_set<void *> &expected) override;
    std::shared_ptr<AllocatorState> getCheckpointState(c10::DeviceIndex device,
                                                       MempoolId_t id) override;
    CheckpointDelta setCheckpointPoolState(c10::DeviceIndex device,
                                           std::shared_ptr<AllocatorState> state) override;

    // ---- history, snapshots, observers ---------------------------------------------------------
    bool isHistoryEnabled() override;
    void recordHistory(bool is_enabled, CreateContextFn recorder, size_t most_entries,
                       RecordContext when, bool is_cleared,
                       const std::vector<std::string> &skip_actions); // 2.11
    void recordHistory(bool is_enabled, CreateContextFn recorder, size_t most_entries,
                       RecordContext when, bool is_cleared); // 2.8 to 2.10
    void recordHistory(bool is_enabled, CreateContextFn recorder, size_t most_entries,
                       RecordContext when); // up to 2.7
    void recordAnnotation(const std::vector<std::pair<std::string, std::string>> &metadata); // 2.5
    void pushCompileContext(std::string &text);                                              // 2.8
    void popCompileContext();                                                                // 2.8
    bool supportsUserMetadata();                                                             // 2.14
    void setUserMetadata(const std::string &text);                                           // 2.10
    std::string getUserMetadata();                                                           // 2.10
    void annotateMemory(const void *pointer, const std::string &metadata);                   // 2.14
    Context getContextForPointer(const void *pointer);                                       // 2.12
    void attachOutOfMemoryObserver(OutOfMemoryObserver observer) override;
    void attachOomRejectionObserver(OomRejectionObserver observer); // 2.12
    void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) override;
    SnapshotInfo snapshot(MempoolId_t id, bool has_traces); // 2.11
    SnapshotInfo snapshot(MempoolId_t id);                  // 2.8 to 2.10
    SnapshotInfo snapshot();                                // up to 2.7

  private:
    static constexpr int most_devices = 128; // more than c10::DeviceIndex can count

    // adapter.cpp
    // With one device there is no question; asking the runtime takes longer than finding a block.
    c10::DeviceIndex current_device() const
    {
        return C10_LIKELY(device_count_.load(std::memory_order_relaxed) == 1)
                   ? c10::DeviceIndex{0}
                   : ask_current_device();
    }
    c10::DeviceIndex ask_current_device() const;
    void *serve(c10::DeviceIndex device, size_t size_bytes, cudaStream_t stream);
    void *serve_slowly(c10::DeviceIndex device, size_t size_bytes, cudaStream_t stream);
    void *serve_observed(DevicePools &device, size_t size_bytes, cudaStream_t stream,
                         vw_device_ptr at = VW_NULL);
    [[noreturn]] void fail(const Failure &failure, c10::DeviceIndex device);
    [[noreturn, gnu::cold, gnu::noinline]] void fail_with(vw_status status,
                                                          c10::DeviceIndex device);
    void free_slowly(void *pointer);
    vw_status free_in(DevicePools &device, void *pointer);
    bool find(const void *pointer, DevicePools **device, vw_pool **pool, vw_block_place *place);
    bool is_uncached() const;
    bool is_forked() const;
    static void delete_block(void *pointer); // the deleter of every block of ours

    // adapter_state.cpp
    DevicePools &ready(c10::DeviceIndex device); // opened; throws
    void open(DevicePools &device);
    vw_pool *make_pool(DevicePools &device, const std::string &engine);
    vw_pool *second_pool(DevicePools &device);   // made where there is none; throws
    DevicePools &known(c10::DeviceIndex device); // throws for an index that is none
    void settle_quick_ways(DevicePools &device);
    void settle_all_quick_ways();
    vw_event_sink sink_for(DevicePools &device) const;
    bool is_observed() const;
    static bool enter_moment(void *context);
    static void leave_moment(void *context);
    static void prepare_moment(void *context);

    // adapter_pools.cpp
    vw_pool *route(DevicePools &device, cudaStream_t stream);
    Failure ask(DevicePools &device, const vw_alloc_request &request, vw_device_ptr *out);
    Failure ask_either(DevicePools &device, const vw_alloc_request &request, vw_device_ptr *out);
    vw_pool *owner_of(DevicePools &device, MempoolId_t id);
    void drop_unused_sources(DevicePools &device);
    bool take_source(DevicePools &device, MempoolId_t id, CUDAAllocator *source);
    void begin_scope(DevicePools &device, MempoolId_t id, std::function<bool(cudaStream_t)> filter);

    // adapter_park.cpp
    std::vector<vw_pool *> main_pools(const MempoolId_t *only);

    // adapter_spill.cpp
    void let_spill(DevicePools &device, vw_pool_options &options);

    // adapter_observe.cpp
    void sweep_contexts(DevicePools &device);
    void tell_profiler(DevicePools &device, void *pointer, int64_t change_bytes);
    void tell_out_of_memory(const vw_oom_report &report, c10::DeviceIndex device);
    void tell_rejection(const vw_oom_report &report, c10::DeviceIndex device);

    AdapterOptions options_;
    vw_pinned_budget *pinned_budget_ = nullptr; // of all devices; null where nothing is spilled
    std::once_flag has_device_;
    std::array<DevicePools, most_devices> devices_;
    std::unique_ptr<StateStream> stream_;
    std::atomic<int> device_count_{0};
    std::atomic<bool> is_enabled_{true};
    std::atomic<int> process_id_{0};  // that started CUDA; 0: none has yet
    const bool is_caching_forbidden_; // PYTORCH_NO_CUDA_MEMORY_CACHING
    const bool is_shareable_;         // TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC is not 0

    History history_;
    SharedOut shared_out_;
    SharedIn shared_in_;
    ForeignUses foreign_uses_;

    std::mutex quick_lock_; // of whoever changes quick_alloc and quick_free

    std::mutex conf_lock_;
    std::vector<std::string> confs_; // all that were read, for devices opened later

    std::mutex observers_lock_;
    std::vector<OutOfMemoryObserver> observers_;
    std::vector<OomRejectionObserver> rejection_observers_;

    c10::ApproximateClockToUnixTimeConverter clock_;
};
#ifdef __clang__
#pragma clang diagnostic pop
#endif

// The handle behind a stream of PyTorch's, which its own stream() takes some 100 ns to find, going
// by way of the driver. For a number other than 0, the device's default stream, it is asked for and
// remembered.
cudaStream_t remembered_handle_of(const CUDAStream &stream);
inline cudaStream_t handle_of(const CUDAStream &stream)
{
    return C10_LIKELY(stream.id() == 0) ? nullptr : remembered_handle_of(stream);
}

// The version of PyTorch compiled against, which is that of the process: "2.11.0". Pools follow it.
const char *torch_version();

// 0 where the pool does not say.
uint64_t reserved_bytes_of(vw_pool *pool);

// What became of a call that is not about one block: nothing, or an exception.
void check_done(vw_status status);

// An address for a message. Not by C++'s streams: there that is a virtual call whose place differs
// between versions of the C++ library, and the one at hand need not be the one PyTorch brings.
std::string shown(const void *pointer);

// vramwise_torch_expect_profilers().
void expect_profilers(bool is_expected);

// The engine that moves nothing; every other is one of vramwise's own.
constexpr char torch_engine[] = "torch";

// Does a pool of that engine need safe moments? To copy live data, or to let it leave the GPU.
inline bool moves_live_data(const std::string &engine)
{
    return engine != torch_engine;
}

// May the launch gate wait until it is needed? By the other names it stands from the beginning.
inline bool gate_comes_late(const std::string &engine)
{
    return engine == "vramwise";
}

// How much a pool may spill, and make ready for it.
void set_spill(vw_pool_options &options, uint64_t spill_bytes);

// The one that was installed; null before.
Adapter *installed_adapter();
void set_installed_adapter(Adapter *adapter);

} // namespace vramwise_torch
