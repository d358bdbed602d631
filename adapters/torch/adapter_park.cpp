// adapter_park.cpp - memory that leaves the GPU until it is woken, on every GPU of the process.
//
// The pools do the work (docs/design/012-park.md). A process parks as a whole: if one GPU's memory
// cannot be, that of the others is woken again. What a pool with a source of its own has
// (device_pools.h) is not ours to park and stays.
#include "adapter.h"

#include <string>

namespace vramwise_torch
{

namespace
{

void add(vw_park_report &sum, const vw_park_report &report)
{
    sum.moved_bytes += report.moved_bytes;
    sum.copied_bytes += report.copied_bytes;
    sum.dropped_bytes += report.dropped_bytes;
    sum.stayed_bytes += report.stayed_bytes;
    sum.wait_ns += report.wait_ns;
}

vw_park_report empty_report()
{
    vw_park_report report{};
    report.struct_size = sizeof report;
    return report;
}

} // namespace

std::vector<vw_pool *> Adapter::main_pools(const MempoolId_t *only)
{
    std::vector<vw_pool *> pools;
    int count = is_forked() ? 0 : device_count_.load(std::memory_order_acquire);
    for (int i = 0; i < count; i++) {
        vw_pool *pool = devices_[static_cast<size_t>(i)].pool.load(std::memory_order_acquire);
        if (pool != nullptr &&
            (only == nullptr || vw_private_pool_use_count(pool, private_id_of(*only)) != 0))
            pools.push_back(pool);
    }
    return pools;
}

vw_status Adapter::park(const MempoolId_t *only, const char *folder, uint64_t wait_ms,
                        vw_park_report *report)
{
    const vw_private_id id = only != nullptr ? private_id_of(*only) : vw_private_id{};
    vw_park_options options{};
    options.struct_size = sizeof options;
    options.only = only != nullptr ? &id : nullptr;
    options.folder = folder;
    options.wait_ms = wait_ms;
    const std::vector<vw_pool *> pools = main_pools(only);
    if (only == nullptr && stream_ != nullptr)
        stream_->set_parked(true);
    for (size_t i = 0; i < pools.size(); i++) {
        vw_park_report done = empty_report();
        vw_status status = vw_pool_park(pools[i], &options, &done);
        if (status != VW_OK) {
            const std::string why = vw_last_error();
            for (size_t before = 0; before < i; before++)
                if (vw_pool_wake(pools[before], options.only, nullptr) != VW_OK) {
                    // It stays parked, and a later wake() brings it back.
                }
            if (only == nullptr && stream_ != nullptr)
                stream_->set_parked(false);
            vw_set_last_error(why.c_str());
            return status;
        }
        add(*report, done);
    }
    int count = only == nullptr ? device_count_.load(std::memory_order_acquire) : 0;
    for (int i = 0; i < count; i++)
        if (vw_pool *second = devices_[static_cast<size_t>(i)].second.load())
            report->stayed_bytes += reserved_bytes_of(second);
    return VW_OK;
}

vw_status Adapter::wake(const MempoolId_t *only, vw_park_report *report)
{
    const vw_private_id id = only != nullptr ? private_id_of(*only) : vw_private_id{};
    for (vw_pool *pool : main_pools(only)) {
        vw_park_report done = empty_report();
        vw_status status = vw_pool_wake(pool, only != nullptr ? &id : nullptr, &done);
        add(*report, done);
        if (status != VW_OK)
            return status;
    }
    if (only == nullptr && stream_ != nullptr)
        stream_->set_parked(false);
    return VW_OK;
}

vw_status Adapter::park_ahead(uint64_t size_bytes)
{
    for (vw_pool *pool : main_pools(nullptr)) {
        vw_status status = vw_pool_park_ahead(pool, size_bytes);
        if (status != VW_OK)
            return status;
    }
    return VW_OK;
}

vw_status Adapter::set_region(MempoolId_t id, const char *name, bool keeps_data)
{
    for (vw_pool *pool : main_pools(&id)) {
        vw_status status = vw_private_pool_set_region(pool, private_id_of(id), name, keeps_data);
        if (status != VW_OK)
            return status;
    }
    return VW_OK;
}

} // namespace vramwise_torch
