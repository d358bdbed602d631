// test_verify.cpp - a snapshot taken under allocator "torch" is one of PyTorch's, event for event:
// our own verifier, which replays it under PyTorch's rules, finds no difference.
//
// The file is written here as torch._C would write it: one `frames` list for each gathered context,
// and every further mention of it a reference to the same list.
#include <cstring>
#include <random>

#include "adapter_fixture.h"
#include "vramwise/analysis.h"

// The few instructions of a pickle that a snapshot needs.
class Pickle
{
  public:
    Pickle() : text_("\x80\x02")
    {
    }
    void dict()
    {
        text_ += "}(";
    }
    void end_dict()
    {
        text_ += "u";
    }
    void list()
    {
        text_ += "](";
    }
    void end_list()
    {
        text_ += "e";
    }
    void text(const std::string &value)
    {
        text_ += "X";
        number32(static_cast<uint32_t>(value.size()));
        text_ += value;
    }
    void integer(uint64_t value)
    {
        text_ += "\x8a\x08";
        text_.append(reinterpret_cast<const char *>(&value), sizeof value);
    }
    void boolean(bool value)
    {
        text_ += value ? "\x88" : "\x89";
    }
    void pair(uint64_t first, uint64_t second)
    {
        integer(first);
        integer(second);
        text_ += "\x86";
    }
    void zero()
    {
        text_ += "G";
        text_.append(8, '\0');
    }
    // The list for a context: itself the first time, a reference later.
    void frames(const Context &context)
    {
        auto found = memo_.find(context.get());
        if (found != memo_.end()) {
            text_ += "j";
            number32(found->second);
            return;
        }
        text_ += "]";
        auto slot = static_cast<uint32_t>(memo_.size());
        text_ += "r";
        number32(slot);
        memo_[context.get()] = slot;
        text_ += "(";
        dict();
        text("name");
        text("step");
        text("filename");
        text("train.py");
        text("line");
        integer(static_cast<uint64_t>(number_of(context)));
        end_dict();
        end_list();
    }
    std::string finish()
    {
        return text_ + ".";
    }

  private:
    void number32(uint32_t value)
    {
        text_.append(reinterpret_cast<const char *>(&value), sizeof value);
    }
    std::string text_;
    std::unordered_map<const void *, uint32_t> memo_;
};

static void write_segment(Pickle &pickle, const c10::CachingDeviceAllocator::SegmentInfo &segment)
{
    pickle.dict();
    auto field = [&](const char *name, uint64_t value) {
        pickle.text(name);
        pickle.integer(value);
    };
    field("device", static_cast<uint64_t>(segment.device));
    field("address", segment.address);
    field("total_size", segment.total_size);
    field("allocated_size", segment.allocated_size);
    field("active_size", segment.active_size);
    field("requested_size", segment.requested_size);
    field("stream", reinterpret_cast<uint64_t>(segment.stream));
    pickle.text("segment_type");
    pickle.text(segment.is_large ? "large" : "small");
    pickle.text("segment_pool_id");
    pickle.pair(segment.owner_private_pool_id.first, segment.owner_private_pool_id.second);
    pickle.text("is_expandable");
    pickle.boolean(segment.is_expandable);
    pickle.text("blocks");
    pickle.list();
    uint64_t address = segment.address;
    for (const auto &block : segment.blocks) {
        pickle.dict();
        field("address", address);
        field("size", block.size);
        field("requested_size", block.requested_size);
        pickle.text("state");
        pickle.text(block.allocated ? "active_allocated"
                                    : (block.active ? "active_pending_free" : "inactive"));
        pickle.text("frames");
        pickle.frames(block.context_when_allocated);
        pickle.end_dict();
        address += block.size;
    }
    pickle.end_list();
    pickle.text("frames");
    pickle.frames(segment.context_when_allocated);
    pickle.end_dict();
}

static void write_entry(Pickle &pickle, const TraceEntry &entry)
{
    static const char *const names[] = {"alloc",         "free_requested", "free_completed",
                                        "segment_alloc", "segment_free",   "segment_map",
                                        "segment_unmap", "snapshot",       "oom"};
    pickle.dict();
    pickle.text("action");
    pickle.text(names[entry.action_]);
    pickle.text(entry.action_ == TraceEntry::OOM ? "device_free" : "addr");
    pickle.integer(entry.addr_);
    pickle.text("size");
    pickle.integer(entry.size_);
    pickle.text("stream");
    pickle.integer(reinterpret_cast<uint64_t>(entry.stream_));
    pickle.text("time_us");
    pickle.integer(static_cast<uint64_t>(entry.time_.t_));
    pickle.text("compile_context");
    pickle.text(entry.compile_context_);
    pickle.text("user_metadata");
    pickle.text(entry.user_metadata_);
    if (entry.context_ != nullptr) {
        pickle.text("frames");
        pickle.frames(entry.context_);
    }
    pickle.end_dict();
}

static std::string written(const vramwise_torch::SnapshotInfo &snapshot)
{
    Pickle pickle;
    pickle.dict();
    pickle.text("segments");
    pickle.list();
    for (const auto &segment : snapshot.segments)
        write_segment(pickle, segment);
    pickle.end_list();
    pickle.text("device_traces");
    pickle.list();
    for (const auto &trace : snapshot.device_traces) {
        pickle.list();
        for (const TraceEntry &entry : trace)
            write_entry(pickle, entry);
        pickle.end_list();
    }
    pickle.end_list();
    pickle.text("allocator_settings");
    pickle.dict();
    pickle.text("PYTORCH_CUDA_ALLOC_CONF");
    pickle.text(snapshot.config_metadata.last_allocator_settings);
    pickle.text("max_split_size");
    pickle.integer(snapshot.config_metadata.max_split_size);
    pickle.text("garbage_collection_threshold");
    pickle.zero();
    pickle.text("expandable_segments");
    pickle.boolean(snapshot.config_metadata.expandable_segments);
    pickle.end_dict();
    pickle.end_dict();
    return pickle.finish();
}

// A program on a card that is nearly too small, with what makes traces hard to read.
static void work(Adapter &adapter, unsigned seed)
{
    std::mt19937 random(seed);
    std::vector<c10::DataPtr> live, graphs;
    adapter.beginAllocateToPool(0, {1, 0}, [](cudaStream_t) { return true; });
    for (int i = 0; i < 10; i++) {
        graphs.push_back(adapter.allocate(1 + random() % (4 * MiB)));
        if (i % 3 == 2)
            graphs.erase(graphs.begin());
    }
    adapter.endAllocateToPool(0, {1, 0});
    for (int i = 0; i < 600; i++) {
        size_t chance = random() % 100;
        stand_in_set_stream(chance < 20 ? 0x5000 : 0);
        size_t size = chance < 50 ? 1 + random() % (64 * KiB) : 1 + random() % (40 * MiB);
        text_of<c10::OutOfMemoryError>([&] { live.push_back(adapter.allocate(size)); });
        if (!live.empty() && chance % 7 == 0)
            adapter.recordStream(live.back(), CUDAStream(0, 0x6000));
        while (live.size() > 24 || (!live.empty() && random() % 3 == 0))
            live.erase(live.begin() + static_cast<std::ptrdiff_t>(random() % live.size()));
        if (i % 150 == 149)
            adapter.emptyCache();
    }
    stand_in_set_stream(0);
    for (auto *list : {&live, &graphs})
        for (c10::DataPtr &kept : *list)
            kept.release_context(); // live at the end, and so in the snapshot
}

static void a_snapshot_under_allocator_torch_verifies_exactly(void **)
{
    for (const char *conf : {"", "expandable_segments:True"})
        for (RecordContext when : {RecordContext::ALLOC, RecordContext::ALL}) {
            Adapter &adapter = new_adapter({"torch", conf, 1, 320 * MiB});
            adapter.recordHistory(true, gather_numbered, 1000000, when, false, {});
            work(adapter, 7);
            auto stats = adapter.getDeviceStats(0);
            assert_true(stats.num_alloc_retries > 0); // or it is too easy
            const std::string file = written(adapter.snapshot());
            vw_recording *recording = nullptr;
            assert_int_equal(
                vw_recording_open_memory(file.data(), file.size(), nullptr, &recording), VW_OK);
            vw_verify_result *result = nullptr;
            assert_int_equal(vw_recording_verify(recording, nullptr, &result), VW_OK);
            if (result->first_difference != nullptr)
                print_message("%s: event %llu: expected %s, got %s (%s)\n", conf,
                              static_cast<unsigned long long>(result->first_difference->event),
                              result->first_difference->expected, result->first_difference->got,
                              result->first_difference->explanation);
            assert_null(result->first_difference);
            assert_true(result->is_exact);
            assert_true(result->placements_recorded > 500);
            assert_int_equal(result->placements_matched, result->placements_recorded);
            assert_int_equal(result->segment_events_matched, result->segment_events_recorded);
            assert_int_equal(result->end_segments_matched, result->end_segments_recorded);
            vw_verify_result_free(result);
            vw_recording_close(recording);
        }
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_snapshot_under_allocator_torch_verifies_exactly),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
