// stand_in_tensor.h - tensors and storages of c10, as far as the adapter looks at them. Counts of
// references are numbers that a test sets.
#pragma once

#include <memory>

#include "stand_in_c10.h"

namespace c10
{

struct intrusive_ptr_target {
    virtual ~intrusive_ptr_target() = default;
    virtual void release_resources()
    {
    }
    uint32_t uses = 1;
    uint32_t weak_uses = 1;
};

namespace raw
{
namespace weak_intrusive_ptr
{
inline void decref(intrusive_ptr_target *target);
}
namespace intrusive_ptr
{
inline uint32_t use_count(intrusive_ptr_target *target)
{
    return target->uses;
}
inline void incref(intrusive_ptr_target *target)
{
    target->uses++;
}
inline void decref(intrusive_ptr_target *target)
{
    if (--target->uses != 0)
        return;
    target->release_resources();
    weak_intrusive_ptr::decref(target); // all strong ones together hold one weak
}
} // namespace intrusive_ptr
namespace weak_intrusive_ptr
{
// Throws without a weak reference of the caller's, as PyTorch's does where NDEBUG is not defined.
inline uint32_t use_count(intrusive_ptr_target *target)
{
    TORCH_CHECK(target->weak_uses > (target->uses > 0 ? 1u : 0u), "not a weak pointer");
    return target->uses;
}
inline void incref(intrusive_ptr_target *target)
{
    target->weak_uses++;
}
template <class T> inline T *lock(T *target)
{
    if (target->uses == 0)
        return nullptr;
    target->uses++;
    return target;
}
inline void decref(intrusive_ptr_target *target)
{
    if (--target->weak_uses == 0)
        delete target;
}
} // namespace weak_intrusive_ptr
} // namespace raw

class StorageImpl final : public intrusive_ptr_target
{
  public:
    StorageImpl(size_t size_bytes, DataPtr &&data) : size_bytes_(size_bytes), data_(std::move(data))
    {
    }
    size_t nbytes() const
    {
        return size_bytes_;
    }
    const DataPtr &data_ptr() const
    {
        return data_;
    }
    void set_nbytes(size_t size_bytes)
    {
        size_bytes_ = size_bytes;
    }
    void release_resources() override
    {
        data_ = DataPtr(nullptr, data_.device());
    }
    DataPtr set_data_ptr(DataPtr &&data)
    {
        DataPtr before(std::move(data_));
        data_ = std::move(data);
        return before;
    }

  private:
    size_t size_bytes_;
    DataPtr data_;
};

class Storage
{
  public:
    explicit Storage(StorageImpl *impl) : impl_(impl)
    {
    }
    StorageImpl *unsafeGetStorageImpl() const
    {
        return impl_;
    }

  private:
    StorageImpl *impl_;
};

// Copies count together.
struct VariableVersion {
    uint32_t current_version() const
    {
        return *number;
    }
    void bump()
    {
        ++*number;
    }
    std::shared_ptr<uint32_t> number = std::make_shared<uint32_t>(0);
};

struct TensorImpl : public intrusive_ptr_target {
    explicit TensorImpl(StorageImpl *impl) : storage(impl)
    {
    }
    const Storage &unsafe_storage() const
    {
        return storage;
    }
    bool is_inference()
    {
        return is_without_version;
    }
    const VariableVersion &version_counter() const
    {
        return version;
    }
    Storage storage;
    VariableVersion version;
    bool is_without_version = false;
};

} // namespace c10
