// pool_in_cpp.cpp - libvramwise in a C++ program: owners, exceptions, a memory resource.
//
//   pool_in_cpp [RECORDING]
//
// The library is C and has no opinion on how C++ should look; this namespace of wrappers is one
// that works. Handles become owners that cannot be copied. A status becomes an exception, and
// running out of memory one of its own, a std::bad_alloc with the numbers. A resource hands out
// device memory for one stream, in the manner of std::pmr::memory_resource (whose own interface
// promises memory that the host can touch).
//
//   c++ -std=c++17 pool_in_cpp.cpp -o pool_in_cpp $(pkg-config --cflags --libs vramwise)
//
// On the first GPU; on a machine without one, on host memory that follows the same rules. Ends with
// 0 where all went as it should.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <vramwise/vramwise.h>
#include <vramwise/recording.h>

namespace gpu
{

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

class error : public std::runtime_error
{
  public:
    explicit error(vw_status status)
        : std::runtime_error(std::string(vw_status_name(status)) + ": " + vw_last_error())
    {
    }
};

class out_of_memory : public std::bad_alloc
{
  public:
    out_of_memory() : text(vw_last_error())
    {
        report.struct_size = sizeof report;
        if (vw_last_out_of_memory(&report) != VW_OK)
            report.requested_bytes = 0;
    }
    const char *what() const noexcept override
    {
        return text.c_str();
    }
    vw_oom_report report{};

  private:
    std::string text;
};

inline void check(vw_status status)
{
    if (status == VW_ERR_OUT_OF_MEMORY)
        throw out_of_memory();
    if (status != VW_OK)
        throw error(status);
}

// What ends each handle.
struct ends {
    void operator()(vw_device *device) const
    {
        vw_device_destroy(device);
    }
    void operator()(vw_pool *pool) const
    {
        vw_pool_destroy(pool);
    }
    void operator()(vw_recorder *recorder) const
    {
        vw_recorder_destroy(recorder);
    }
};
using device = std::unique_ptr<vw_device, ends>;
using pool = std::unique_ptr<vw_pool, ends>; // declared after its device: ends before it
using recorder = std::unique_ptr<vw_recorder, ends>;

// Reserves at most `limit_bytes`: set_per_process_memory_fraction().
inline pool make_pool(vw_device *on, const char *engine, std::uint64_t limit_bytes)
{
    vw_pool_options options{};
    options.struct_size = sizeof options;
    options.engine = engine;
    vw_pool *made = nullptr;
    check(vw_pool_create(on, &options, &made));
    pool owned(made);
    double total_bytes = static_cast<double>(on->properties.total_bytes);
    check(vw_pool_set_fraction(made, static_cast<double>(limit_bytes) / total_bytes));
    return owned;
}

class stream
{
  public:
    explicit stream(vw_device *owner) : on(owner)
    {
        check(on->table->stream_create(on->context, &handle));
    }
    ~stream()
    {
        (void)on->table->stream_destroy(on->context, handle);
    }
    stream(const stream &) = delete;
    stream &operator=(const stream &) = delete;
    vw_stream get() const
    {
        return handle;
    }

  private:
    vw_device *on;
    vw_stream handle = 0;
};

// Memory for the work of one stream.
class resource
{
  public:
    resource(vw_pool *source, const stream &user) : from(source), on(user.get())
    {
    }
    vw_device_ptr allocate(std::uint64_t size_bytes)
    {
        vw_device_ptr address = VW_NULL;
        check(vw_alloc(from, size_bytes, on, &address));
        return address;
    }
    void deallocate(vw_device_ptr address) noexcept
    {
        (void)vw_free(from, address);
    }
    // Work on another stream uses it as well.
    void used_by(vw_device_ptr address, const stream &other)
    {
        check(vw_record_stream(from, address, other.get()));
    }

  private:
    vw_pool *from;
    vw_stream on;
};

// Elements on the device, given back by the destructor.
template <typename T> class buffer
{
  public:
    buffer(resource &source, std::uint64_t count)
        : from(&source), address(source.allocate(count * sizeof(T))), length(count)
    {
    }
    buffer(buffer &&other) noexcept
        : from(other.from), address(std::exchange(other.address, VW_NULL)), length(other.length)
    {
    }
    ~buffer()
    {
        from->deallocate(address);
    }
    buffer(const buffer &) = delete;
    buffer &operator=(const buffer &) = delete;
    buffer &operator=(buffer &&) = delete;
    vw_device_ptr data() const
    {
        return address;
    }
    std::uint64_t size() const
    {
        return length;
    }
    void used_by(const stream &other)
    {
        from->used_by(address, other);
    }

  private:
    resource *from;
    vw_device_ptr address;
    std::uint64_t length;
};

} // namespace gpu

namespace
{

constexpr std::uint64_t limit_bytes = 256 * gpu::mib; // the rest of the card is others'

gpu::device open_device()
{
    vw_device *opened = nullptr;
    if (vw_cuda_device_open(0, &opened) == VW_OK) {
        std::printf("on %s\n", opened->properties.name);
        return gpu::device(opened);
    }
    std::printf("no GPU here (%s)\non 512 MiB of host memory instead\n", vw_last_error());
    gpu::check(vw_host_device_create(512 * gpu::mib, &opened));
    return gpu::device(opened);
}

void run_step(gpu::resource &memory, const gpu::stream &reader)
{
    std::vector<gpu::buffer<float>> activations;
    for (std::uint64_t layer = 1; layer <= 8; layer++)
        activations.emplace_back(memory, layer * 400 * 1000);
    activations.back().used_by(reader);
    // All of them go back here; the last one when the reader is done with it.
}

void print_statistics(const vw_pool *pool)
{
    vw_pool_stats stats{};
    stats.struct_size = sizeof stats;
    gpu::check(vw_pool_get_stats(pool, &stats));
    std::printf("live at most %lld MiB, held from the device at most %lld MiB\n",
                static_cast<long long>(stats.allocated_bytes.all.peak) / (1 << 20),
                static_cast<long long>(stats.reserved_bytes.all.peak) / (1 << 20));
}

// True: it ran out of memory, as it should.
bool ask_for_too_much(gpu::resource &memory)
{
    try {
        gpu::buffer<float> too_much(memory, 2 * limit_bytes / sizeof(float));
    } catch (const gpu::out_of_memory &refused) {
        std::printf("%s\nasked for %llu MiB, %llu MiB free on the device\n", refused.what(),
                    static_cast<unsigned long long>(refused.report.requested_bytes / gpu::mib),
                    static_cast<unsigned long long>(refused.report.free_bytes / gpu::mib));
        return true;
    }
    return false;
}

bool run(const char *path)
{
    gpu::device device = open_device();
    gpu::pool pool = gpu::make_pool(device.get(), "vramwise", limit_bytes);
    gpu::recorder recorder;
    if (path != nullptr) {
        vw_recorder *made = nullptr;
        gpu::check(vw_recorder_create(nullptr, &made));
        recorder.reset(made);
        gpu::check(vw_recorder_attach(recorder.get(), pool.get()));
    }
    gpu::stream compute(device.get()), reader(device.get());
    gpu::resource memory(pool.get(), compute);
    bool is_as_expected;
    {
        gpu::buffer<float> weights(memory, 10 * 1000 * 1000);
        for (int step = 0; step < 4; step++)
            run_step(memory, reader);
        print_statistics(pool.get());
        is_as_expected = ask_for_too_much(memory);
    }
    if (recorder != nullptr) {
        gpu::check(vw_recorder_write(recorder.get(), pool.get(), path));
        std::printf("recorded in %s\n", path);
    }
    return is_as_expected;
}

} // namespace

int main(int argc, char **argv)
{
    try {
        return run(argc > 1 ? argv[1] : nullptr) ? 0 : 1;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
