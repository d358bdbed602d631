// test_install.cpp - how it gets into PyTorch, and what is said when it cannot.
//
// Installing is once for a process. So the refusals come first, then the one that succeeds.
#include "adapter_fixture.h"
#include "adapters/torch/vramwise_torch.h"

#include <unistd.h>

#include <torch/headeronly/version.h>

#ifdef __clang__
constexpr bool is_compiled_by_clang = true;
#else
constexpr bool is_compiled_by_clang = false;
#endif
#ifdef USE_ROCM
constexpr bool is_of_rocm = true;
#else
constexpr bool is_of_rocm = false;
#endif

// PyTorch's own, as far as anybody asks it.

static Adapter *native()
{
    // Another adapter does for it: what counts is that it is not the one that gets installed.
    static Adapter *instance = [] {
        Adapter &made = new_adapter({"torch", "max_split_size_mb:64", 0});
        vramwise_torch::set_installed_adapter(nullptr);
        c10::cuda::CUDACachingAllocator::allocator.store(&made);
        return &made;
    }();
    return instance;
}

static std::string refusal(const char *name)
{
    char message[200] = "untouched";
    assert_int_not_equal(vramwise_torch_install(name, 0, 0, nullptr, message, sizeof message), 0);
    assert_ptr_equal(c10::cuda::CUDACachingAllocator::get(), native());
    return message;
}

static void what_is_no_allocator_is_refused_in_one_line(void **)
{
    native();
    assert_string_equal(vramwise_torch_compiled_for(), TORCH_VERSION);
    assert_string_equal(
        refusal("jemalloc").c_str(),
        "'jemalloc' is no allocator: expected torch, vramwise, vramwise:rescue or vramwise:tight");
    assert_true(contains(refusal(nullptr), "'' is no allocator"));
    char cut[10];
    assert_int_not_equal(vramwise_torch_install("jemalloc", 0, 0, nullptr, cut, sizeof cut), 0);
    assert_string_equal(cut, "'jemalloc");
    assert_int_not_equal(vramwise_torch_install("jemalloc", 0, 0, nullptr, nullptr, 0), 0);
    assert_int_equal(vramwise_torch_stats(0, nullptr, 0), 0);
}

static void a_budget_that_cannot_be_kept_is_refused_with_the_numbers(void **)
{
    native();
    char message[400];
    if (is_of_rocm) {
        assert_int_not_equal(
            vramwise_torch_install("vramwise", 0, MiB, nullptr, message, sizeof message), 0);
        assert_string_equal(message, "nothing can be spilled on an AMD GPU: HIP cannot put host "
                                     "memory in the place of its own");
        return;
    }
    const unsigned long long far_too_much = 1ULL << 60;
    assert_int_not_equal(
        vramwise_torch_install("vramwise", 0, far_too_much, nullptr, message, sizeof message), 0);
    assert_true(contains(message, "spill_bytes"));
    assert_true(contains(message, "ulimit -l"));
    assert_int_not_equal(vramwise_torch_install("torch", 0, MiB, nullptr, message, sizeof message),
                         0);
    assert_true(contains(message, "spill_bytes"));
    assert_null(vramwise_torch::installed_adapter());
}

static void what_cannot_be_kept_free_is_refused_by_name(void **)
{
    native();
    char message[400];
    for (const char *text : {"plenty", "101%", "5 %"}) {
        assert_int_not_equal(
            vramwise_torch_install("vramwise", 0, 0, text, message, sizeof message), 0);
        assert_true(contains(message, std::string("keep_free: '") + text + "'"));
    }
    assert_int_not_equal(vramwise_torch_install("torch", 0, 0, "5%", message, sizeof message), 0);
    assert_true(contains(message, "not for torch"));
    assert_null(vramwise_torch::installed_adapter());
}

// By a thread of the pool's: waited for as good as for ever.
static void what_is_kept_free_goes_back_from_every_device(void **)
{
    Adapter *before = native();
    Setup setup;
    setup.engine = "vramwise";
    setup.device_count = 2;
    setup.keep_free = "100%";
    Adapter &adapter = new_adapter(setup);
    for (int device = 0; device < 2; device++) {
        stand_in_set_device(static_cast<c10::DeviceIndex>(device));
        adapter.raw_delete(adapter.raw_alloc(GiB));
        vw_paged_stats stats{};
        stats.struct_size = sizeof stats;
        for (int i = 0; i < 60000 && stats.given_back_bytes < GiB; i++) {
            usleep(1000);
            assert_true(adapter.get_paged_stats(device, &stats));
        }
        assert_int_equal(stats.given_back_bytes, GiB);
    }
    stand_in_set_device(0);
    char json[4096];
    assert_true(vramwise_torch_stats(0, json, sizeof json) > 0);
    assert_true(contains(json, "\"given_back_bytes\": 1073741824"));
    setup.keep_free = "9GiB"; // more than there is
    Adapter &other = new_adapter(setup);
    assert_true(contains(text_of<std::exception>([&] { other.raw_alloc(1); }), "keep_free"));
    vramwise_torch::set_installed_adapter(nullptr);
    c10::cuda::CUDACachingAllocator::allocator.store(before);
}

// PyTorch's own part hears of new settings as before, and so does the adapter: by PyTorch's hook
// where the version has one, and from Python elsewhere.
static void it_becomes_the_allocator_of_both_doors_and_follows_the_settings(void **)
{
    native();
#if STAND_IN_TORCH >= 211
    c10::CachingAllocator::AcceleratorAllocatorConfig::getConfigParserHook() =
        [](const std::string &conf) { stand_in().parsed.push_back(conf); };
#endif
    assert_int_equal(vramwise_torch_has_settings_hook(), 0); // before it is installed
    char message[200] = "untouched";
    assert_int_equal(vramwise_torch_configure("max_split_size_mb:1", message, sizeof message), 0);
    assert_int_equal(
        vramwise_torch_install("vramwise:rescue", 0, 0, nullptr, message, sizeof message), 0);
    assert_string_equal(message, "");
    auto *adapter = vramwise_torch::installed_adapter();
    assert_non_null(adapter);
    assert_ptr_equal(c10::cuda::CUDACachingAllocator::get(), adapter);
    assert_ptr_equal(c10::GetAllocator(c10::kCUDA), adapter);
    assert_string_equal(adapter->engine().c_str(), "vramwise:rescue");
    assert_int_equal(vramwise_torch_stats(0, nullptr, 0), 0); // not used yet
    bool has_hook = STAND_IN_TORCH >= 210 && !is_compiled_by_clang;
    assert_int_equal(vramwise_torch_has_settings_hook(), has_hook);
    c10::CachingAllocator::setAllocatorSettings("expandable_segments:True");
    assert_int_equal(stand_in().parsed.size(), STAND_IN_TORCH >= 210 ? 1 : 0);
    if (!has_hook)
        assert_int_equal(
            vramwise_torch_configure("expandable_segments:True", message, sizeof message), 0);
    assert_string_equal(adapter->newest_settings().c_str(), "expandable_segments:True");

    assert_int_not_equal(vramwise_torch_install("torch", 0, 0, nullptr, message, sizeof message),
                         0);
    assert_string_equal(message, "vramwise is installed already, as 'vramwise:rescue'");
}

static void by_the_usual_name_the_gate_waits_until_it_is_needed(void **)
{
    static void *volatile never_ended[4]; // as they are in a program
    size_t count = 0;
    int gates_before = gates_wanted;
    for (unsigned flags : {0u, VRAMWISE_TORCH_WITHOUT_GATE}) {
        never_ended[count++] = vramwise_torch::installed_adapter();
        never_ended[count++] = c10::cuda::CUDACachingAllocator::allocator.load();
        vramwise_torch::set_installed_adapter(nullptr); // as if nothing had happened yet
        c10::cuda::CUDACachingAllocator::allocator.store(native());
        late_gates_wanted = 0;
        assert_int_equal(vramwise_torch_install("vramwise", flags, 0, nullptr, nullptr, 0), 0);
        assert_int_equal(late_gates_wanted, flags == 0 && !is_of_rocm ? 1 : 0);
        assert_int_equal(gates_wanted, gates_before);
    }
    assert_non_null(never_ended[0]);
}

// Not before: it is of the process that uses CUDA. That there is none here is no reason to fail.
static void the_gate_comes_with_the_first_device(void **)
{
    auto *adapter = vramwise_torch::installed_adapter();
    adapter->init(1);
    assert_int_equal(gates_wanted, 0);
    for (int i = 0; i < 2; i++) {
        try {
            adapter->raw_delete(adapter->raw_alloc(1));
        } catch (const c10::Error &) { // there is no such device
        }
        assert_int_equal(gates_wanted, is_of_rocm ? 0 : 1);
    }
}

// With CUDA the support library has waited for them.
static void before_live_data_moves_every_gpu_in_use_is_idle(void **)
{
    vw_safe_point moments = vramwise_torch::safe_moments();
    stand_in().started_devices = {true, false, true};
    stand_in().is_capturing = true; // which is not spoilt
    stand_in().idle_devices.clear();
    is_moment_granted = false;
    moments_left = 0;
    assert_false(moments.enter(moments.context));
    assert_true(stand_in().idle_devices.empty());
    is_moment_granted = true;
    assert_true(moments.enter(moments.context));
    assert_true(stand_in().idle_devices ==
                (is_of_rocm ? std::vector<int>{0, 2} : std::vector<int>{}));
    assert_int_equal(moments_left, 0);
    moments.leave(moments.context);
    assert_int_equal(moments_left, 1);

    stand_in().is_unloading = true; // no GPU can be asked
    assert_int_equal(moments.enter(moments.context), !is_of_rocm);
    assert_int_equal(moments_left, is_of_rocm ? 2 : 1);
    stand_in().is_unloading = false;
    is_moment_granted = false;
}

static void too_late_is_said(void **)
{
    auto *before = vramwise_torch::installed_adapter();
    vramwise_torch::set_installed_adapter(nullptr); // as if another had started CUDA
    char message[200] = "";
    assert_int_not_equal(vramwise_torch_install("torch", 0, 0, nullptr, message, sizeof message),
                         0);
    assert_true(contains(message, "too late"));
    vramwise_torch::set_installed_adapter(before);
}

static void what_it_did_is_one_json_object(void **)
{
    Adapter &adapter = new_adapter({"vramwise", "", 1, 1 * GiB, Kind::host});
    adapter.raw_delete(adapter.raw_alloc(1));
    char json[2000];
    long needed = vramwise_torch_stats(0, json, sizeof json);
    assert_int_equal(needed, std::string(json).size() + 1);
    assert_true(contains(json, "{\"engine\": \"vramwise\", \"is_fallback\": false, "));
    assert_true(contains(json, "\"misses\": 1, "));
    assert_true(contains(json, "\"shared_pages\": 0, \"given_back_bytes\": 0, \"kept_trims\": 0, "
                               "\"spill\": {\"limit_bytes\": 0, "));
    assert_true(contains(json, "\"failed_host_creations\": 0}, \"park\": {\"parked_bytes\": 0"));
    assert_true(contains(json, "}, \"safe_moments\": {\"has_gate\": "
                               "false, \"gate\": \"refused\", \"gate_refusal\": \"no 'gate' in "
                               "tests\", "));
    assert_true(contains(json, "\"refused\": 3, \"held_launches\": 0, \"longest_hold_ns\": 0, "
                               "\"passed_launches\": 0}}"));
    assert_int_equal(vramwise_torch_stats(1, json, sizeof json), 0);
    assert_int_equal(vramwise_torch_stats(-1, json, sizeof json), 0);
    char cut[5];
    assert_int_equal(vramwise_torch_stats(0, cut, sizeof cut), needed);
    assert_string_equal(cut, "{\"en");
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_allocator_is_refused_in_one_line),
        cmocka_unit_test(a_budget_that_cannot_be_kept_is_refused_with_the_numbers),
        cmocka_unit_test(what_cannot_be_kept_free_is_refused_by_name),
        cmocka_unit_test(what_is_kept_free_goes_back_from_every_device),
        cmocka_unit_test(it_becomes_the_allocator_of_both_doors_and_follows_the_settings),
        cmocka_unit_test(the_gate_comes_with_the_first_device),
        cmocka_unit_test(before_live_data_moves_every_gpu_in_use_is_idle),
        cmocka_unit_test(too_late_is_said),
        cmocka_unit_test(what_it_did_is_one_json_object),
        cmocka_unit_test(by_the_usual_name_the_gate_waits_until_it_is_needed),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
