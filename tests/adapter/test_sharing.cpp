// test_sharing.cpp - memory of one process in another, and handles that are none.
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <cstdlib>
#include <functional>
#include <new>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adapter_fixture.h"

static int news_left; // that many requests from now one finds no host memory; 0: none

void *operator new(size_t size_bytes, const std::nothrow_t &) noexcept
{
    return news_left > 0 && --news_left == 0 ? nullptr : std::malloc(size_bytes);
}

void *operator new(size_t size_bytes)
{
    void *taken = operator new(size_bytes, std::nothrow);
    if (taken == nullptr)
        throw std::bad_alloc();
    return taken;
}

void operator delete(void *address) noexcept
{
    std::free(address);
}

void operator delete(void *address, size_t) noexcept
{
    std::free(address);
}

static const Setup on_host{"torch", "expandable_segments:True", 1, 1 * GiB, Kind::host};

constexpr size_t key_offset = 22; // of the socket, in a handle
constexpr size_t identity_offset = key_offset + 16;

static void plain_memory_is_shared_by_the_runtime_in_pytorchs_own_form(void **)
{
    Adapter &adapter = new_adapter();
    void *first = adapter.raw_alloc(2 * MiB);
    void *second = adapter.raw_alloc(2 * MiB);
    auto handle = adapter.shareIpcHandle(second);
    assert_int_equal(handle.offset, 2 * MiB);
    assert_int_equal(handle.handle.size(), 66);
    assert_int_equal(handle.handle[1], 'c');
    {
        auto base = adapter.getIpcDevPtr(handle.handle);
        auto again = adapter.getIpcDevPtr(adapter.shareIpcHandle(first).handle);
        assert_ptr_equal(base.get(), first);
        assert_ptr_equal(base.get(), again.get());
        assert_int_equal(stand_in().opened_handles, 1);
    }
    assert_int_equal(stand_in().closed_handles, 1);
    auto base = adapter.getIpcDevPtr(handle.handle); // once more
    assert_int_equal(stand_in().opened_handles, 2);
    stand_in().is_unloading = true; // nobody can be told
    base.reset();
    stand_in().is_unloading = false;
    base = adapter.getIpcDevPtr(handle.handle);
    assert_int_equal(stand_in().opened_handles, 3);
    adapter.raw_delete(first);
    adapter.raw_delete(second);
}

static void virtual_memory_is_shared_by_descriptors_and_mapped_once(void **)
{
    for (const char *engine : {"torch", "vramwise"}) {
        Setup setup = on_host;
        setup.engine = engine;
        Adapter &adapter = new_adapter(setup);
        auto *before = static_cast<char *>(adapter.raw_alloc(3 * MiB));
        auto *block = static_cast<char *>(adapter.raw_alloc(50 * MiB));
        std::memset(block, 17, 50 * MiB);
        auto handle = adapter.shareIpcHandle(block);
        auto inside = adapter.shareIpcHandle(block + 4096);
        assert_true(handle.handle == inside.handle);
        assert_int_equal(inside.offset - handle.offset, 4096);
        auto base = adapter.getIpcDevPtr(handle.handle);
        assert_ptr_equal(base.get(), adapter.getIpcDevPtr(inside.handle).get());
        char *seen = static_cast<char *>(base.get()) + handle.offset;
        assert_ptr_not_equal(seen, block);
        assert_int_equal(seen[0], 17);
        assert_int_equal(seen[50 * MiB - 1], 17);
        seen[4096] = 99;
        assert_int_equal(block[4096], 99);
        // Freed by its owner, the receiver still has it; sharing anew is another sharing.
        adapter.raw_delete(block);
        assert_int_equal(seen[4096], 99);
        base.reset();
        auto *next = static_cast<char *>(adapter.raw_alloc(50 * MiB));
        auto next_handle = adapter.shareIpcHandle(next);
        assert_true(next_handle.handle != handle.handle);
        adapter.raw_delete(next);
        adapter.raw_delete(before);
        adapter.emptyCache();
        assert_int_equal(adapter.getDeviceStats(0).reserved_bytes[0].current, 0);
        assert_true(contains(text_of<c10::Error>([&] { adapter.getIpcDevPtr(next_handle.handle); }),
                             "cannot "));
    }
}

// A graph's pool is put back: what was shared of it is shared no more, and the next block there is
// another one.
// Whoever waits for a lock that it has itself would wait for ever: the alarm ends it.
static void without_host_memory_nothing_is_opened_and_it_can_be_tried_again(void **)
{
    constexpr int most_requests = 100; // more than are made
    Adapter &adapter = new_adapter(on_host);
    void *block = adapter.raw_alloc(50 * MiB);
    const std::string handle = adapter.shareIpcHandle(block).handle;
    int failures = 0;
    alarm(300);
    for (int nth = 1; nth <= most_requests; nth++) {
        std::shared_ptr<void> base;
        news_left = nth;
        try {
            base = adapter.getIpcDevPtr(handle);
        } catch (const std::bad_alloc &) {
            failures++;
        }
        news_left = 0;
        assert_int_equal(failures == nth, base == nullptr);
        assert_non_null(adapter.getIpcDevPtr(handle).get());
    }
    alarm(0);
    assert_in_range(failures, 5, most_requests - 1);
    adapter.raw_delete(block);
}

static void a_block_that_a_checkpoint_takes_back_is_shared_no_more(void **)
{
    const MempoolId_t graph{1, 0};
    for (const char *engine : {"torch", "vramwise"}) {
        Setup setup = on_host;
        setup.engine = engine;
        Adapter &adapter = new_adapter(setup);
        adapter.beginAllocateToPool(0, graph, [](cudaStream_t) { return true; });
        adapter.raw_delete(adapter.raw_alloc(80 * MiB));
        auto state = adapter.getCheckpointState(0, graph);
        void *block = adapter.raw_alloc(20 * MiB);
        auto handle = adapter.shareIpcHandle(block);
        auto delta = adapter.setCheckpointPoolState(0, state);
        assert_int_equal(delta.ptrs_freed.size(), 1);
        void *larger = adapter.raw_alloc(80 * MiB);
        assert_ptr_equal(larger, block);
        assert_true(adapter.shareIpcHandle(larger).handle.size() > handle.handle.size());
        adapter.raw_delete(larger);
        adapter.endAllocateToPool(0, graph);
        adapter.releasePool(0, graph);
    }
}

// ---- another process ---------------------------------------------------------------------------

// From now on this process gets `error` for these calls, as in a container.
static bool forbid(std::initializer_list<long> calls, int error)
{
    std::vector<sock_filter> program{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
    for (long call : calls) {
        program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 1));
        program.push_back(
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)));
    }
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

constexpr long pidfd_open_call = 434, pidfd_getfd_call = 438;
enum Answer { wrong = -1, no_filter = -2, refused_as_expected = -3 };

// What a receiver sees of a block that is full of 42. It knows nothing of the sender but the
// handle, and calls `prepare` first; with `refusal`, it must not get it, for that reason.
static int ask_receiver(const std::function<bool()> &prepare, bool has_socket = true,
                        const char *refusal = nullptr)
{
    int down[2], up[2];
    assert_int_equal(pipe(down), 0);
    assert_int_equal(pipe(up), 0);
    pid_t child = fork();
    if (child == 0) {
        alarm(100);
        char text[4096];
        uint64_t offset = 0;
        ssize_t got = read(down[0], &offset, sizeof offset);
        got = got > 0 ? read(down[0], text, sizeof text) : -1;
        Adapter &adapter = new_adapter(on_host);
        int answer = wrong;
        try {
            if (prepare()) {
                auto base = adapter.getIpcDevPtr(std::string(text, static_cast<size_t>(got)));
                answer = static_cast<char *>(base.get())[offset];
            } else {
                answer = no_filter;
            }
        } catch (const c10::Error &error) {
            if (refusal != nullptr && contains(error.what(), refusal))
                answer = refused_as_expected;
            else
                fprintf(stderr, "%s\n", error.what());
        }
        _exit(write(up[1], &answer, sizeof answer) == sizeof answer ? 0 : 1);
    }
    Adapter &adapter = new_adapter(on_host);
    auto *block = static_cast<char *>(adapter.raw_alloc(5 * MiB));
    std::memset(block, 42, 5 * MiB);
    auto handle = adapter.shareIpcHandle(block);
    if (!has_socket)
        std::memset(&handle.handle[key_offset], 0, 16);
    auto offset = static_cast<uint64_t>(handle.offset);
    assert_int_equal(write(down[1], &offset, sizeof offset), sizeof offset);
    assert_int_equal(write(down[1], handle.handle.data(), handle.handle.size()),
                     handle.handle.size());
    int answer = 0, status = -1;
    assert_int_equal(read(up[0], &answer, sizeof answer), sizeof answer);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    for (int end : {down[0], down[1], up[0], up[1]})
        close(end);
    adapter.raw_delete(block);
    return answer;
}

static void another_process_sees_the_bytes(void **)
{
    assert_int_equal(ask_receiver([] { return true; }), 42);
}

static void where_descriptors_cannot_be_taken_they_come_over_the_socket(void **)
{
    for (int error : {EPERM, ENOSYS}) {
        int answer = ask_receiver([=] { return forbid({pidfd_getfd_call}, error); });
        if (answer == no_filter)
            skip(); // not even that is allowed here
        assert_int_equal(answer, 42);
        answer = ask_receiver([=] { return forbid({pidfd_open_call, pidfd_getfd_call}, error); });
        assert_int_equal(answer, 42);
    }
}

static void where_neither_works_both_reasons_are_given(void **)
{
    int answer =
        ask_receiver([] { return forbid({pidfd_getfd_call}, EPERM); }, false,
                     "not permitted (pidfd_getfd): the kernel wants the right to trace it, "
                     "see kernel.yama.ptrace_scope, and SYS_PTRACE of containers; and over "
                     "a socket: nobody serves its socket here");
    if (answer == no_filter)
        skip();
    assert_int_equal(answer, refused_as_expected);
}

static void handles_that_are_none_are_refused_in_words(void **)
{
    Adapter &adapter = new_adapter(on_host);
    auto refusal = [&](const std::string &handle) {
        return text_of<c10::Error>([&] { adapter.getIpcDevPtr(handle); });
    };
    assert_true(contains(refusal(""), "illformed shareable handle"));
    assert_true(contains(refusal("\1"), "illformed shareable handle"));
    assert_true(contains(refusal("\1cabc"), "illformed shareable handle"));
    assert_true(contains(refusal("\1eabc"), "illformed shareable handle"));
    assert_true(contains(refusal("\1hnobody"), "another version"));
    assert_true(contains(refusal("\1hhrm3123"), "cut off"));
    void *block = adapter.raw_alloc(1 * MiB);
    std::string handle = adapter.shareIpcHandle(block).handle;
    assert_true(contains(refusal(handle.substr(0, handle.size() - 1)), "cut off"));
    std::string gone = handle;
    int32_t nobody = 0x3fffffff; // more than a kernel gives out
    std::memcpy(&gone[14], &nobody, sizeof nobody);
    auto known = adapter.getIpcDevPtr(gone); // a process of another namespace: its socket is here
    assert_non_null(known.get());
    known.reset();
    std::memset(&gone[key_offset], 0, 16);
    assert_true(contains(refusal(gone), "is not to be found here"));
    for (size_t at : {identity_offset, identity_offset + 8}) { // its namespace, and its start
        std::string other = handle;
        other[at] ^= 1;
        known = adapter.getIpcDevPtr(other); // over the socket
        assert_non_null(known.get());
        known.reset();
        std::memset(&other[key_offset], 0, 16);
        assert_true(contains(refusal(other), "the process of that number here is another one"));
    }
    adapter.raw_delete(block);
}

int main()
{
    const struct CMUnitTest tests[] = {
        // While the child may still open some.
        cmocka_unit_test(another_process_sees_the_bytes),
        cmocka_unit_test(where_descriptors_cannot_be_taken_they_come_over_the_socket),
        cmocka_unit_test(where_neither_works_both_reasons_are_given),
        cmocka_unit_test(plain_memory_is_shared_by_the_runtime_in_pytorchs_own_form),
        cmocka_unit_test(virtual_memory_is_shared_by_descriptors_and_mapped_once),
        cmocka_unit_test(handles_that_are_none_are_refused_in_words),
        cmocka_unit_test(without_host_memory_nothing_is_opened_and_it_can_be_tried_again),
        cmocka_unit_test(a_block_that_a_checkpoint_takes_back_is_shared_no_more),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
