// adapter_fixture.cpp - see adapter_fixture.h. Also: what libvramwise-torch would answer.
#include "adapter_fixture.h"

#include <atomic>
#include <mutex>

#include "adapters/torch/support/vramwise_torch_support.h"

static std::vector<vw_device *> devices;
// So that none counts as lost, at the very end either.
static auto &all_adapters = *new std::vector<Adapter *>();
static auto &all_devices = *new std::vector<vw_device *>();
static std::mutex devices_lock; // two may be opened at once

static vw_status open_device(const Setup &setup, int index, vw_device **out)
{
    vw_status status;
    if (setup.kind == Kind::host) {
        status = vw_host_device_create(setup.capacity_bytes, out);
    } else if (setup.kind == Kind::gpu) {
        status = vramwise_torch::open_gpu(index, out);
    } else {
        vw_simulated_options options{};
        options.struct_size = sizeof options;
        options.capacity_bytes = setup.capacity_bytes;
        options.index = index;
        status = vw_simulated_device_create(&options, out);
    }
    if (status == VW_OK) {
        std::lock_guard<std::mutex> hold(devices_lock);
        devices[static_cast<size_t>(index)] = *out;
        all_devices.push_back(*out);
    }
    return status;
}

Adapter &new_adapter(const Setup &setup)
{
    stand_in() = StandIn();
    stand_in().conf = setup.conf;
    stand_in().is_expandable = contains(setup.conf, "expandable_segments:True");
    stand_in_set_device(0);
    stand_in_set_stream(0);
    devices.assign(static_cast<size_t>(setup.device_count), nullptr);
    vramwise_torch::AdapterOptions options;
    options.engine = setup.engine;
    options.safe_point = setup.safe_point;
    options.park_guard = setup.park_guard;
    options.spill_bytes = setup.spill_bytes;
    options.is_quiet = setup.is_quiet;
    options.keep_free = setup.keep_free;
    options.open_device = [setup](int index, vw_device **out) {
        return open_device(setup, index, out);
    };
    auto *adapter = new Adapter(options);
    all_adapters.push_back(adapter);
    vramwise_torch::set_installed_adapter(adapter);
    if (setup.device_count > 0)
        adapter->init(setup.device_count);
    return *adapter;
}

void expect_devices(int device_count)
{
    devices.assign(static_cast<size_t>(device_count), nullptr);
}

vw_device *opened_device(int index)
{
    return devices[static_cast<size_t>(index)];
}

static std::atomic<int> gathered{0};
static std::atomic<int> living{0};

NumberedContext::NumberedContext(int to_have) : number(to_have)
{
    living++;
}

NumberedContext::~NumberedContext()
{
    living--;
}

std::shared_ptr<c10::GatheredContext> gather_numbered()
{
    return std::make_shared<NumberedContext>(++gathered);
}

int last_gathered()
{
    return gathered;
}

int living_contexts()
{
    return living;
}

int number_of(const Context &context)
{
    return context != nullptr ? static_cast<NumberedContext *>(context.get())->number : -1;
}

// ---- libvramwise-torch -------------------------------------------------------------------------

int gates_wanted;
int late_gates_wanted;
int moments_prepared;
bool is_moment_granted;
int moments_left;

bool vramwise_launch_gate_install(char *message, size_t capacity)
{
    gates_wanted++;
    snprintf(message, capacity, "no gate in tests");
    return false;
}

void vramwise_launch_gate_come_late(bool)
{
    late_gates_wanted++;
}

void vramwise_prepare_safe_moment(void *)
{
    moments_prepared++;
}

vramwise_launch_gate_state vramwise_get_launch_gate_state(char *reason, size_t capacity)
{
    snprintf(reason, capacity, "no \"gate\" in tests");
    return VRAMWISE_GATE_REFUSED;
}

const char *vramwise_launch_gate_state_name(vramwise_launch_gate_state)
{
    return "refused";
}

vw_park_guard vramwise_park_guard(void)
{
    return {};
}

vw_safe_point vramwise_safe_moments(void)
{
    return {[](void *) { return is_moment_granted; }, [](void *) { moments_left++; }, nullptr};
}

vramwise_safe_moment_counts vramwise_get_safe_moment_counts(void)
{
    vramwise_safe_moment_counts counts{};
    counts.refused = 3;
    return counts;
}
