// state_stream_calls.cpp - the C functions for Python of state_stream.h.
#include "adapter.h"
#include "vramwise_torch.h"

#include <algorithm>

namespace
{

// 0 where nothing may be spilled, the GPU is not open, or an exception came out of it.
template <class Work> unsigned long long with_stream(Work work)
{
    vramwise_torch::Adapter *adapter = vramwise_torch::installed_adapter();
    try {
        if (adapter == nullptr || adapter->stream() == nullptr)
            return 0;
        return static_cast<unsigned long long>(work(*adapter->stream()));
    } catch (...) {
        return 0;
    }
}

template <class Work> unsigned long long with_device(int device, Work work)
{
    return with_stream([&](vramwise_torch::StateStream &stream) -> unsigned long long {
        vramwise_torch::DevicePools *pools =
            vramwise_torch::installed_adapter()->opened_pools(device);
        return pools != nullptr ? static_cast<unsigned long long>(work(stream, *pools)) : 0;
    });
}

vramwise_torch::NamedTensor named(unsigned long long tensor, unsigned long long object)
{
    return {static_cast<c10::TensorImpl *>(vramwise_torch::pointer_to(tensor)),
            vramwise_torch::pointer_to(object)};
}

unsigned long long moved(vramwise_torch::StateStream &stream, vramwise_torch::NamedTensor state,
                         int what)
{
    switch (what) {
    case VRAMWISE_TORCH_NOTE_STEP:
        stream.note_step(state);
        return 0;
    case VRAMWISE_TORCH_COPY_OUT:
        return stream.copy_out(state);
    case VRAMWISE_TORCH_COPY_AT_ONCE:
        return stream.copy_out_at_once(state);
    case VRAMWISE_TORCH_BIND_OUT:
        return stream.bind_out(state);
    case VRAMWISE_TORCH_FETCH:
        return stream.fetch(state);
    case VRAMWISE_TORCH_BIND_IN:
        return stream.bind_in(state);
    case VRAMWISE_TORCH_IS_ALONE:
        return stream.is_alone(state);
    default:
        return 0;
    }
}

} // namespace

int vramwise_torch_stream_start(unsigned long long tensor, unsigned long long object,
                                int (*make_room)(int, unsigned long long, int),
                                int (*has_lock)(void))
{
    return static_cast<int>(with_stream([&](vramwise_torch::StateStream &stream) {
        stream.start(named(tensor, object), make_room, has_lock);
        vramwise_torch::installed_adapter()->watch_requests();
        return 1;
    }));
}

void vramwise_torch_stream_stop(void)
{
    with_stream([](vramwise_torch::StateStream &stream) {
        stream.stop();
        return 0;
    });
}

unsigned long long vramwise_torch_stream_add(unsigned long long tensor, unsigned long long object)
{
    return with_stream(
        [&](vramwise_torch::StateStream &stream) { return stream.add(named(tensor, object)); });
}

unsigned long long vramwise_torch_stream_plan(int device, int is_step_end)
{
    return with_device(
        device, [&](vramwise_torch::StateStream &stream, vramwise_torch::DevicePools &pools) {
            return stream.plan(pools, is_step_end != 0);
        });
}

unsigned long long vramwise_torch_stream_move(unsigned long long tensor, unsigned long long object,
                                              int what)
{
    return with_stream([&](vramwise_torch::StateStream &stream) {
        return moved(stream, named(tensor, object), what);
    });
}

void vramwise_torch_stream_move_all(const unsigned long long *tensors, size_t count, int what,
                                    unsigned long long most_bytes, unsigned long long *answers)
{
    std::fill(answers, answers + count, 0);
    with_stream([&](vramwise_torch::StateStream &stream) {
        unsigned long long all_bytes = 0;
        for (size_t i = 0; i < count && all_bytes < most_bytes; i++) {
            if (tensors[i] != 0)
                answers[i] = moved(stream, named(tensors[i], 0), what);
            all_bytes += answers[i];
        }
        return 0;
    });
}

unsigned long long vramwise_torch_stream_away(int device)
{
    return with_device(device,
                       [](vramwise_torch::StateStream &stream, vramwise_torch::DevicePools &pools) {
                           return stream.counts(pools).away_bytes;
                       });
}

void vramwise_torch_stream_stage(const unsigned long long *tensors, size_t count,
                                 unsigned long long kept_bytes, unsigned long long *answers)
{
    std::fill(answers, answers + count, 0);
    with_stream([&](vramwise_torch::StateStream &stream) {
        for (size_t i = 0; i < count; i++)
            answers[i] = stream.stage(named(tensors[i], 0), kept_bytes);
        return 0;
    });
}

int vramwise_torch_stream_use_staged(unsigned long long tensor, unsigned long long shell)
{
    return static_cast<int>(with_stream([&](vramwise_torch::StateStream &stream) {
        return stream.use_staged(named(tensor, 0),
                                 static_cast<c10::TensorImpl *>(vramwise_torch::pointer_to(shell)));
    }));
}

int vramwise_torch_stream_unstage(unsigned long long tensor, unsigned long long shell)
{
    return static_cast<int>(with_stream([&](vramwise_torch::StateStream &stream) {
        return stream.unstage(named(tensor, 0),
                              static_cast<c10::TensorImpl *>(vramwise_torch::pointer_to(shell)));
    }));
}

void vramwise_torch_stream_wait(unsigned long long tensor, unsigned long long object, int is_ahead)
{
    with_stream([&](vramwise_torch::StateStream &stream) {
        stream.wait(named(tensor, object), is_ahead != 0);
        return 0;
    });
}

unsigned long long vramwise_torch_stream_release(int device, int is_ahead)
{
    return with_device(
        device, [&](vramwise_torch::StateStream &stream, vramwise_torch::DevicePools &pools) {
            return stream.release(pools, is_ahead != 0);
        });
}

void vramwise_torch_stream_pump(void)
{
    with_stream([](vramwise_torch::StateStream &stream) {
        stream.pump();
        return 0;
    });
}

int vramwise_torch_stream_next_need(int *device, unsigned long long *size_bytes, int *is_ahead)
{
    return static_cast<int>(with_stream([&](vramwise_torch::StateStream &stream) {
        uint64_t wanted_bytes = 0;
        bool is_need_ahead = false;
        const bool is_wanted = stream.next_need(device, &wanted_bytes, &is_need_ahead);
        *size_bytes = wanted_bytes;
        *is_ahead = is_need_ahead ? 1 : 0;
        return is_wanted;
    }));
}

void vramwise_torch_stream_answer(int is_worth_while)
{
    with_stream([&](vramwise_torch::StateStream &stream) {
        stream.answer(is_worth_while != 0);
        return 0;
    });
}

long long vramwise_torch_saved_keep(unsigned long long tensor)
{
    return static_cast<long long>(with_stream([&](vramwise_torch::StateStream &stream) {
        return stream.save(static_cast<c10::TensorImpl *>(vramwise_torch::pointer_to(tensor)));
    }));
}

void vramwise_torch_saved_note(int device, unsigned long long item)
{
    with_device(device,
                [&](vramwise_torch::StateStream &stream, vramwise_torch::DevicePools &pools) {
                    stream.note_saved_use(pools, item);
                    return 0;
                });
}

long long vramwise_torch_saved_fetch(int device, unsigned long long id, unsigned long long shell)
{
    long long result = vramwise_torch::SavedStream::is_unknown;
    with_device(
        device, [&](vramwise_torch::StateStream &stream, vramwise_torch::DevicePools &pools) {
            result = stream.fetch_saved(
                pools, id, static_cast<c10::TensorImpl *>(vramwise_torch::pointer_to(shell)));
            return 0;
        });
    return result;
}

int vramwise_torch_saved_fill(int device, unsigned long long id, unsigned long long tensor)
{
    return static_cast<int>(with_device(
        device, [&](vramwise_torch::StateStream &stream, vramwise_torch::DevicePools &pools) {
            return stream.fill_saved(
                pools, id, static_cast<c10::TensorImpl *>(vramwise_torch::pointer_to(tensor)));
        }));
}

void vramwise_torch_saved_release(int device, unsigned long long id)
{
    with_device(device,
                [&](vramwise_torch::StateStream &stream, vramwise_torch::DevicePools &pools) {
                    stream.release_saved(pools, id);
                    return 0;
                });
}

unsigned long long vramwise_torch_saved_lacking(int device)
{
    return with_device(device,
                       [](vramwise_torch::StateStream &stream, vramwise_torch::DevicePools &pools) {
                           return stream.saved_lacking_bytes(pools);
                       });
}
