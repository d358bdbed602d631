/* test_oom_report.c - what is said when memory runs out: the words of every release, and the
 * numbers behind them. */
#include "pool/oom_report.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h> /* alarm */

#include "pool/pool.h"
#include "support/cmocka_here.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* "x.yz GiB", as near as bytes come. */
#define GIB_HUNDREDTHS(hundredths) (UINT64_C(hundredths) * GIB / 100)

static const char *text_of(const char *version, const vw_oom_report *report,
                           const vw_process_memory *processes, size_t process_count)
{
    static char text[VW__ERROR_DETAIL_BYTES];
    vw__torch_rules rules;
    int number = 0;
    assert_int_equal(vw__torch_parse_version(version, &number), VW_OK);
    assert_int_equal(vw__torch_rules_for(number, &rules), VW_OK);
    size_t length = vw__oom_text(text, sizeof text, &rules, report, processes, process_count);
    assert_int_equal(length, strlen(text));
    return text;
}

/* ---- texts that PyTorch wrote ---------------------------------------------------------------- */

#define ADVICE_2_11                                                                                \
    " If reserved but unallocated memory is large try setting "                                    \
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "               \
    "documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html"   \
    "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"

/* Three runs with PyTorch 2.11 on an H200 under a memory fraction; pool and device numbers are the
 * recorded ones, those of processes are the printed ones. */
static void recorded_failures_read_as_pytorch_printed_them(void **state)
{
    (void)state;
    vw_oom_report report = {.total_bytes = 150109880320,
                            .free_bytes = 141483376640,
                            .segment_bytes = 734003200,
                            .limit_bytes = 8 * GIB,
                            .allocated_bytes = 5144930304,
                            .reserved_bytes = 8074035200};
    const vw_process_memory alone[] = {{GIB_HUNDREDTHS(803), 2, true}};
    assert_string_equal(
        text_of("2.11", &report, alone, 1),
        "CUDA out of memory. Tried to allocate 700.00 MiB. GPU 0 has a total capacity of 139.80 "
        "GiB of which 131.77 GiB is free. Including non-PyTorch memory, this process has 8.03 GiB "
        "memory in use. 8.00 GiB allowed; Of the allocated memory 4.79 GiB is allocated by "
        "PyTorch, and 2.73 GiB is reserved by PyTorch but unallocated." ADVICE_2_11);

    report.free_bytes = 127328911360;
    report.segment_bytes = 824180736;
    report.allocated_bytes = 7547581440;
    report.reserved_bytes = 7818182656;
    const vw_process_memory four[] = {{GIB_HUNDREDTHS(418), 439, false},
                                      {GIB_HUNDREDTHS(801), 2, true},
                                      {GIB_HUNDREDTHS(850), 2068, false},
                                      {518 * MIB, 2193, false}};
    assert_string_equal(
        text_of("2.11", &report, four, 4),
        "CUDA out of memory. Tried to allocate 786.00 MiB. GPU 0 has a total capacity of 139.80 "
        "GiB of which 118.58 GiB is free. Process 439 has 4.18 GiB memory in use. Including "
        "non-PyTorch memory, this process has 8.01 GiB memory in use. Process 2068 has 8.50 GiB "
        "memory in use. Process 2193 has 518.00 MiB memory in use. 8.00 GiB allowed; Of the "
        "allocated memory 7.03 GiB is allocated by PyTorch, and 258.07 MiB is reserved by PyTorch "
        "but unallocated." ADVICE_2_11);

    report.free_bytes = 137587326976;
    report.segment_bytes = 1967128576;
    report.limit_bytes = 11 * GIB;
    report.allocated_bytes = 10652006912;
    report.reserved_bytes = 11165237248;
    const vw_process_memory two[] = {{GIB_HUNDREDTHS(1114), 2, true}, {518 * MIB, 2263, false}};
    assert_string_equal(
        text_of("2.13", &report, two, 2),
        "CUDA out of memory. Tried to allocate 1.83 GiB. GPU 0 has a total capacity of 139.80 GiB "
        "of which 128.14 GiB is free. Including non-PyTorch memory, this process has 11.14 GiB "
        "memory in use. Process 2263 has 518.00 MiB memory in use. 11.00 GiB allowed; Of the "
        "allocated memory 9.92 GiB is allocated by PyTorch, and 489.45 MiB is reserved by PyTorch "
        "but unallocated." ADVICE_2_11);
}

/* ---- every wording --------------------------------------------------------------------------- */

static const vw_oom_report example = {
    .device = 3,
    .requested_bytes = 19 * MIB,
    .segment_bytes = 20 * MIB,
    .total_bytes = 24 * GIB,
    .free_bytes = 10 * MIB,
    .limit_bytes = 22 * GIB,
    .allocated_bytes = 15 * GIB,
    .reserved_bytes = 20 * GIB,
    .private_idle_bytes = 2 * GIB,
};
static const vw_process_memory example_processes[] = {{3 * GIB, 1234, false}, {21 * GIB, 7, true}};

static const char *example_text(const char *version, bool is_expandable)
{
    vw_oom_report report = example;
    report.is_expandable = is_expandable;
    return text_of(version, &report, example_processes, 2);
}

#define BRACKETED                                                                                  \
    "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 3; 24.00 GiB total capacity; 15.00 GiB " \
    "already allocated; 10.00 MiB free; "
#define SENTENCES(capacity)                                                                        \
    "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 3 has a total " capacity                 \
    " of 24.00 GiB of which 10.00 MiB is free. Process 1234 has 3.00 GiB memory in use. "          \
    "Including non-PyTorch memory, this process has 21.00 GiB memory in use. "
#define WITHOUT_PRIVATE                                                                            \
    "Of the allocated memory 15.00 GiB is allocated by PyTorch, and 5.00 GiB is reserved by "      \
    "PyTorch but unallocated."
#define WITH_PRIVATE                                                                               \
    "Of the allocated memory 17.00 GiB is allocated by PyTorch, with 2.00 GiB allocated in "       \
    "private pools (e.g., CUDA Graphs), and 3.00 GiB is reserved by PyTorch but unallocated."
#define ADVICE_2_2                                                                                 \
    " If reserved but unallocated memory is large try setting "                                    \
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "               \
    "documentation for Memory Management  "                                                        \
    "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"

static void each_release_through_2_0_has_its_bracketed_wording(void **state)
{
    (void)state;
    static const char with_limit[] =
        BRACKETED "22.00 GiB allowed; 20.00 GiB reserved in total by PyTorch)";
    static const char with_advice[] =
        BRACKETED "22.00 GiB allowed; 20.00 GiB reserved in total by PyTorch) If reserved memory "
                  "is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  "
                  "See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF";
    assert_string_equal(example_text("1.6", false),
                        BRACKETED "20.00 GiB reserved in total by PyTorch)");
    assert_string_equal(example_text("1.7", false),
                        BRACKETED "20.00 GiB reserved in total by PyTorch)");
    assert_string_equal(example_text("1.8", false), with_limit);
    assert_string_equal(example_text("1.9", false), with_limit);
    assert_string_equal(example_text("1.10", false), with_advice);
    assert_string_equal(example_text("1.13", false), with_advice);
    assert_string_equal(example_text("2.0", false), with_advice);
}

static void each_release_since_2_1_has_its_sentences(void **state)
{
    (void)state;
    assert_string_equal(example_text("2.1", true), SENTENCES("capacty") WITHOUT_PRIVATE
                        " If reserved but unallocated memory is large try setting "
                        "max_split_size_mb to avoid fragmentation.  See documentation for "
                        "Memory Management and PYTORCH_CUDA_ALLOC_CONF");
    assert_string_equal(example_text("2.2", true),
                        SENTENCES("capacity") WITHOUT_PRIVATE ADVICE_2_2);
    assert_string_equal(example_text("2.3", true),
                        SENTENCES("capacity") WITHOUT_PRIVATE ADVICE_2_2);
    assert_string_equal(example_text("2.4", true), SENTENCES("capacity") WITH_PRIVATE ADVICE_2_2);
    static const char since_2_5[] =
        SENTENCES("capacity") "22.00 GiB allowed; " WITH_PRIVATE ADVICE_2_2;
    assert_string_equal(example_text("2.5", true), since_2_5);
    assert_string_equal(example_text("2.9", true), since_2_5);
    assert_string_equal(
        example_text("2.10", true),
        SENTENCES("capacity") "22.00 GiB allowed; " WITH_PRIVATE
                              " If reserved but unallocated memory is large try setting "
                              "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid "
                              "fragmentation.  See documentation for Memory Management  "
                              "(https://pytorch.org/docs/stable/notes/cuda.html"
                              "#environment-variables)");
    static const char since_2_11[] =
        SENTENCES("capacity") "22.00 GiB allowed; " WITH_PRIVATE ADVICE_2_11;
    assert_string_equal(example_text("2.11", true), since_2_11);
    assert_string_equal(example_text("2.13", true), since_2_11);
    assert_string_equal(example_text("2.14", false), since_2_11);
    assert_string_equal(example_text("2.15", false), since_2_11);
}

static void the_newest_releases_do_not_advise_what_is_on_already(void **state)
{
    (void)state;
    assert_string_equal(example_text("2.14", true),
                        SENTENCES("capacity") "22.00 GiB allowed; " WITH_PRIVATE);
    assert_string_equal(
        example_text("2.15", true),
        SENTENCES("capacity") "22.00 GiB allowed; " WITH_PRIVATE
                              " expandable_segments is enabled. If instead the process is running "
                              "out of virtual address space (VSZ), expandable segments may be "
                              "over-reserving VA (each segment reserves ~9/8 of device memory, "
                              "times the number of streams); reduce it via "
                              "PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve / "
                              "expandable_segments_reserve_by_class.");
}

static void without_a_limit_nothing_is_said_about_one(void **state)
{
    (void)state;
    static const char *const versions[] = {"1.6", "1.8", "1.10", "2.1", "2.5", "2.11", "2.15"};
    vw_oom_report report = example;
    report.limit_bytes = UINT64_MAX;
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        assert_null(strstr(text_of(versions[i], &report, NULL, 0), "allowed"));
}

static void without_private_pools_nothing_is_said_about_them(void **state)
{
    (void)state;
    vw_oom_report report = example;
    report.private_idle_bytes = 0;
    const char *text = text_of("2.4", &report, NULL, 0);
    assert_string_equal(strstr(text, "Of the allocated"), WITHOUT_PRIVATE ADVICE_2_2);
}

static void unknown_process_memory_reads_as_in_pytorch(void **state)
{
    (void)state;
    const vw_process_memory processes[] = {{UINT64_MAX, 4294967295, false}};
    assert_non_null(strstr(text_of("2.11", &example, processes, 1),
                           " is free. Process 4294967295 has 17179869184.00 GiB memory in use. "
                           "22.00 GiB allowed; Of the"));
    assert_non_null(strstr(text_of("2.11", &example, NULL, 0), " is free. 22.00 GiB allowed; Of"));
}

static void a_rejection_names_the_size_that_was_asked(void **state)
{
    (void)state;
    vw_oom_report report = example;
    report.is_rejection = true;
    assert_string_equal(text_of("2.12", &report, example_processes, 2),
                        "CUDA out of memory. Allocation was preemptively rejected because it would "
                        "exceed per_process_memory_fraction limit. Requested size: 19.00 MiB");
}

static void a_text_is_cut_to_every_buffer_and_its_length_is_told(void **state)
{
    (void)state;
    vw__torch_rules rules;
    assert_int_equal(vw__torch_rules_for(211, &rules), VW_OK);
    const char *whole = example_text("2.11", false);
    size_t length = strlen(whole);
    for (size_t capacity = 0; capacity <= length + 1; capacity++) {
        char *buffer = malloc(capacity > 0 ? capacity : 1); /* exact, for the address sanitizer */
        assert_non_null(buffer);
        assert_int_equal(vw__oom_text(buffer, capacity, &rules, &example, example_processes, 2),
                         length);
        if (capacity > 0) {
            assert_memory_equal(buffer, whole, capacity - 1);
            assert_int_equal(buffer[capacity - 1], '\0');
        }
        free(buffer);
    }
}

/* ---- a pool that runs out -------------------------------------------------------------------- */

/* A simulated device with answers of our own to two questions. Who uses the device is asked without
 * the pool's lock. */
typedef struct fixture {
    vw_device *device; /* the simulated one */
    vw_device asked;   /* the one the pool sees: the same, but for the table */
    vw_device_table table;
    vw_pool *pool;
    vw_memory_event ooms[4];
    size_t oom_count;
} fixture;

static fixture run; /* the tests run one after the other */

static struct {
    const vw_process_memory *entries;
    size_t count; /* what is said; at most `capacity` entries are stored */
    vw_status status;
} who;

static vw_status answer_who(void *context, vw_process_memory *entries, size_t capacity,
                            size_t *count)
{
    (void)context;
    vw_pool_stats stats = {.struct_size = sizeof stats};
    alarm(100); /* under the pool's lock this would wait for ever */
    assert_int_equal(vw_pool_get_stats(run.pool, &stats), VW_OK);
    alarm(0);
    if (who.status != VW_OK)
        return vw__fail(who.status, "nobody knows");
    for (size_t i = 0; i < who.count && i < capacity; i++)
        entries[i] = who.entries[i];
    *count = who.count;
    return VW_OK;
}

static vw_status refuse_memory_info(void *context, uint64_t *free_bytes, uint64_t *total_bytes)
{
    (void)context, (void)free_bytes, (void)total_bytes;
    return vw__fail(VW_ERR_DEVICE, "memory_info failed");
}

static void note_oom(void *context, const vw_memory_event *event)
{
    fixture *made = context;
    if (event->action == VW_ACTION_OOM && made->oom_count < 4)
        made->ooms[made->oom_count++] = *event;
}

/* Opens `run`: 64 MiB of memory on device 3. */
static void open_run(const char *torch_version, const char *conf)
{
    const vw_simulated_options device_options = {.struct_size = sizeof device_options,
                                                 .capacity_bytes = 64 * MIB,
                                                 .total_bytes = 100 * MIB,
                                                 .index = 3};
    const vw_pool_options options = {
        .struct_size = sizeof options, .torch_version = torch_version, .conf = conf};
    memset(&run, 0, sizeof run);
    memset(&who, 0, sizeof who);
    assert_int_equal(vw_simulated_device_create(&device_options, &run.device), VW_OK);
    run.asked = *run.device;
    run.table = *run.device->table;
    run.table.processes = answer_who;
    run.asked.table = &run.table;
    assert_int_equal(vw_pool_create(&run.asked, &options, &run.pool), VW_OK);
    const vw_event_sink sink = {&run, note_oom};
    assert_int_equal(vw_pool_set_sink(run.pool, &sink), VW_OK);
}

static void close_run(void)
{
    assert_int_equal(vw_pool_check(run.pool), VW_OK);
    vw_pool_destroy(run.pool);
    vw_device_destroy(run.device);
}

static vw_oom_report last_report(void)
{
    vw_oom_report report = {.struct_size = sizeof report};
    assert_int_equal(vw_last_out_of_memory(&report), VW_OK);
    return report;
}

static vw_device_ptr allocated(uint64_t size_bytes, vw_stream stream)
{
    vw_device_ptr address = VW_NULL;
    assert_int_equal(vw_alloc(run.pool, size_bytes, stream, &address), VW_OK);
    return address;
}

static int64_t oom_total(void)
{
    vw_pool_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw_pool_get_stats(run.pool, &stats), VW_OK);
    return stats.num_ooms;
}

/* First of all tests. */
static void before_the_first_failure_there_is_no_report(void **state)
{
    (void)state;
    vw_oom_report report = {.struct_size = sizeof report, .device = 77};
    assert_int_equal(vw_last_out_of_memory(&report), VW_ERR_WRONG_STATE);
    assert_int_equal(report.device, 77);
}

/* 36 MiB live, 4 MiB live on stream 5 beside 16 MiB idle; 30 MiB more do not fit into 64. */
static void running_out_leaves_text_numbers_count_and_event(void **state)
{
    (void)state;
    open_run("2.11", NULL);
    const vw_process_memory processes[] = {
        {5 * MIB, 41, false}, {70 * MIB, 42, true}, {7 * MIB, 43, false}};
    who.entries = processes;
    who.count = 3;
    allocated(36 * MIB, 0);
    allocated(4 * MIB, 5);
    vw_device_ptr untouched = 77;
    const vw_alloc_request request = {
        .struct_size = sizeof request, .size_bytes = 29 * MIB + 1, .stream = 9, .tag = 1234};
    assert_int_equal(vw_alloc_with(run.pool, &request, &untouched), VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(untouched, 77);
    assert_string_equal(
        vw_last_error(),
        "CUDA out of memory. Tried to allocate 30.00 MiB. GPU 3 has a total capacity of 100.00 MiB "
        "of which 8.00 MiB is free. Process 41 has 5.00 MiB memory in use. Including non-PyTorch "
        "memory, this process has 70.00 MiB memory in use. Process 43 has 7.00 MiB memory in use. "
        "Of the allocated memory 40.00 MiB is allocated by PyTorch, and 16.00 MiB is reserved by "
        "PyTorch but unallocated." ADVICE_2_11);

    vw_oom_report report = last_report();
    assert_int_equal(report.struct_size, sizeof report);
    assert_int_equal(report.device, 3);
    assert_int_equal(report.stream, 9);
    assert_int_equal(report.requested_bytes, 29 * MIB + 1);
    assert_int_equal(report.rounded_bytes, 29 * MIB + 512);
    assert_int_equal(report.segment_bytes, 30 * MIB);
    assert_int_equal(report.total_bytes, 100 * MIB);
    assert_int_equal(report.free_bytes, 8 * MIB);
    assert_int_equal(report.limit_bytes, UINT64_MAX);
    assert_int_equal(report.allocated_bytes, 40 * MIB);
    assert_int_equal(report.reserved_bytes, 56 * MIB);
    assert_int_equal(report.private_idle_bytes, 0);
    assert_int_equal(report.largest_free_block_bytes, 16 * MIB);
    assert_int_equal(report.largest_same_stream_bytes, 0);
    assert_int_equal(report.process_bytes, 70 * MIB);
    assert_int_equal(report.other_processes_bytes, 12 * MIB);
    assert_false(report.is_rejection);
    assert_false(report.is_expandable);

    assert_int_equal(oom_total(), 1);
    assert_int_equal(run.oom_count, 1);
    assert_int_equal(run.ooms[0].address, 8 * MIB);
    assert_int_equal(run.ooms[0].size_bytes, 29 * MIB + 512);
    assert_int_equal(run.ooms[0].stream, 9);
    assert_int_equal(run.ooms[0].tag, 1234);

    assert_int_equal(vw_alloc(run.pool, 30 * MIB, 5, &untouched), VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(last_report().largest_same_stream_bytes, 16 * MIB);
    assert_int_equal(oom_total(), 2);
    close_run();
}

static void idle_memory_of_private_pools_is_told_apart(void **state)
{
    (void)state;
    open_run("2.11", NULL);
    const vw_private_id id = {0, 1};
    assert_int_equal(vw_private_pool_begin(run.pool, id, NULL, NULL), VW_OK);
    assert_int_equal(vw_free(run.pool, allocated(20 * MIB, 0)), VW_OK);
    assert_int_equal(vw_private_pool_end(run.pool, id), VW_OK);
    allocated(30 * MIB, 0);
    vw_device_ptr address;
    assert_int_equal(vw_alloc(run.pool, 40 * MIB, 0, &address), VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(last_report().private_idle_bytes, 20 * MIB);
    assert_non_null(strstr(vw_last_error(),
                           "50.00 MiB is allocated by PyTorch, with 20.00 MiB allocated in private "
                           "pools (e.g., CUDA Graphs), and 0 bytes is reserved by PyTorch but "
                           "unallocated."));
    close_run();
}

static void a_limit_and_expandable_segments_are_reported(void **state)
{
    (void)state;
    open_run("2.14", "expandable_segments:True");
    assert_int_equal(vw_pool_set_fraction(run.pool, 0.5), VW_OK);
    vw_device_ptr address;
    assert_int_equal(vw_alloc(run.pool, 60 * MIB, 0, &address), VW_ERR_OUT_OF_MEMORY);
    vw_oom_report report = last_report();
    assert_int_equal(report.limit_bytes, 50 * MIB);
    assert_true(report.is_expandable);
    assert_non_null(strstr(vw_last_error(), "50.00 MiB allowed; Of the allocated memory 0 bytes"));
    assert_null(strstr(vw_last_error(), "try setting"));
    close_run();
}

static void a_rejection_is_reported_but_is_no_oom(void **state)
{
    (void)state;
    open_run("2.12", "throw_on_cudamalloc_oom:True");
    vw_device_ptr address = 77;
    assert_int_equal(vw_alloc(run.pool, 120 * MIB, 0, &address), VW_ERR_REJECTED);
    assert_int_equal(address, 77);
    assert_string_equal(vw_last_error(),
                        "CUDA out of memory. Allocation was preemptively rejected because it would "
                        "exceed per_process_memory_fraction limit. Requested size: 120.00 MiB");
    vw_oom_report report = last_report();
    assert_true(report.is_rejection);
    assert_int_equal(report.limit_bytes, UINT64_MAX);
    assert_int_equal(report.requested_bytes, 120 * MIB);
    assert_int_equal(oom_total(), 0);
    assert_int_equal(run.oom_count, 0);
    close_run();
}

static void a_device_that_cannot_say_how_much_is_free_has_none(void **state)
{
    (void)state;
    open_run("2.11", NULL);
    run.table.memory_info = refuse_memory_info;
    vw_device_ptr address;
    assert_int_equal(vw_alloc(run.pool, 65 * MIB, 0, &address), VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(last_report().free_bytes, 0);
    assert_int_equal(last_report().total_bytes, 100 * MIB);
    assert_int_equal(run.ooms[0].address, 0);
    assert_non_null(strstr(vw_last_error(), "capacity of 100.00 MiB of which 0 bytes is free. "));
    close_run();
}

/* ---- who uses the device --------------------------------------------------------------------- */

static void assert_process_sums(uint64_t process_bytes, uint64_t other_processes_bytes)
{
    vw_device_ptr address;
    assert_int_equal(vw_alloc(run.pool, 65 * MIB, 0, &address), VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(last_report().process_bytes, process_bytes);
    assert_int_equal(last_report().other_processes_bytes, other_processes_bytes);
}

static void what_is_not_known_about_processes_is_said_to_be_unknown(void **state)
{
    (void)state;
    enum { MANY = 70 };
    static vw_process_memory many[MANY];
    many[0] = (vw_process_memory){9 * MIB, 1, true};
    for (uint32_t i = 1; i < MANY; i++)
        many[i] = (vw_process_memory){MIB, i + 1, false};
    const vw_process_memory strangers[] = {{5 * MIB, 41, false}, {6 * MIB, 42, false}};
    const vw_process_memory silent[] = {{5 * MIB, 41, false}, {UINT64_MAX, 42, true}};
    const vw_process_memory one_silent[] = {{UINT64_MAX, 41, false}, {6 * MIB, 42, true}};

    open_run("2.11", NULL);
    who.entries = many;
    who.count = 64;
    assert_process_sums(9 * MIB, 63 * MIB);
    who.count = MANY; /* six of them are not listed */
    assert_process_sums(9 * MIB, UINT64_MAX);
    who.entries = strangers; /* one of them may be us, under another number */
    who.count = 2;
    assert_process_sums(UINT64_MAX, UINT64_MAX);
    assert_non_null(strstr(vw_last_error(), "Process 42 has 6.00 MiB memory in use. "));
    who.entries = silent;
    assert_process_sums(UINT64_MAX, 5 * MIB);
    who.entries = one_silent;
    assert_process_sums(6 * MIB, UINT64_MAX);
    who.status = VW_ERR_UNSUPPORTED;
    assert_process_sums(UINT64_MAX, UINT64_MAX);
    assert_non_null(strstr(vw_last_error(), "is free. Of the allocated memory"));
    close_run();
}

static void a_table_without_processes_is_not_asked(void **state)
{
    (void)state;
    const vw_process_memory processes[] = {{5 * MIB, 41, true}};
    open_run("2.11", NULL);
    who.entries = processes;
    who.count = 1;
    assert_process_sums(5 * MIB, 0);
    run.table.struct_size = offsetof(vw_device_table, processes); /* a table from before */
    assert_process_sums(UINT64_MAX, UINT64_MAX);
    run.table.struct_size = sizeof run.table;
    run.table.processes = NULL;
    assert_process_sums(UINT64_MAX, UINT64_MAX);
    close_run();
}

/* ---- reading the report ---------------------------------------------------------------------- */

static void an_older_callers_report_is_filled_to_its_size_and_no_further(void **state)
{
    (void)state;
    open_run("2.11", NULL);
    assert_process_sums(UINT64_MAX, UINT64_MAX);
    size_t sizes[] = {offsetof(vw_oom_report, device) + sizeof(int),
                      offsetof(vw_oom_report, free_bytes), sizeof(vw_oom_report)};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        vw_oom_report report;
        memset(&report, 0xA5, sizeof report);
        report.struct_size = sizes[i];
        assert_int_equal(vw_last_out_of_memory(&report), VW_OK);
        assert_int_equal(report.struct_size, sizes[i]);
        assert_int_equal(report.device, 3);
        for (size_t byte = sizes[i]; byte < sizeof report; byte++)
            assert_int_equal(((unsigned char *)&report)[byte], 0xA5);
    }
    vw_oom_report report = {.struct_size = sizeof(size_t) - 1, .device = 77};
    assert_int_equal(vw_last_out_of_memory(&report), VW_ERR_INVALID_ARGUMENT);
    report.struct_size = 0;
    assert_int_equal(vw_last_out_of_memory(&report), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(report.device, 77);
    assert_int_equal(vw_last_out_of_memory(NULL), VW_ERR_INVALID_ARGUMENT);
    close_run();
}

static void *ask_on_another_thread(void *context)
{
    vw_oom_report report = {.struct_size = sizeof report};
    *(vw_status *)context = vw_last_out_of_memory(&report);
    return NULL;
}

static void a_thread_hears_of_its_own_failures_only(void **state)
{
    (void)state;
    open_run("2.11", NULL);
    assert_process_sums(UINT64_MAX, UINT64_MAX);
    vw_status status = VW_OK;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, ask_on_another_thread, &status), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(status, VW_ERR_WRONG_STATE);
    assert_int_equal(last_report().requested_bytes, 65 * MIB);
    close_run();
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* What PyTorch does, in the locale of a test, which is "C". */
static void assert_size_as_by_printf(uint64_t size_bytes)
{
    const vw_oom_report report = {.is_rejection = true, .requested_bytes = size_bytes};
    const double size = (double)size_bytes;
    char expected[64];
    if (size_bytes <= 1024)
        snprintf(expected, sizeof expected, "Requested size: %.0f bytes", size);
    else if (size_bytes <= MIB)
        snprintf(expected, sizeof expected, "Requested size: %.2f KiB", size / 1024.0);
    else if (size_bytes <= GIB)
        snprintf(expected, sizeof expected, "Requested size: %.2f MiB", size / 1048576.0);
    else
        snprintf(expected, sizeof expected, "Requested size: %.2f GiB", size / 1073741824.0);
    assert_string_equal(strstr(text_of("2.11", &report, NULL, 0), "Requested size"), expected);
}

static void sizes_are_those_of_pytorchs_format_size(void **state)
{
    (void)state;
    for (uint64_t size_bytes = 0; size_bytes < 3 * 1024; size_bytes++)
        assert_size_as_by_printf(size_bytes);
    for (uint64_t limit = 1024; limit <= 4 * GIB; limit *= 1024) {
        assert_size_as_by_printf(limit - 1);
        assert_size_as_by_printf(limit); /* belongs to the smaller unit */
        assert_size_as_by_printf(limit + 1);
    }
    /* Ties: an odd number of eighths is half way between two hundredths. */
    for (uint64_t eighths = 9; eighths < 8 * 1024; eighths += 2) {
        assert_size_as_by_printf(eighths * 1024 / 8);
        assert_size_as_by_printf(eighths * MIB / 8);
        assert_size_as_by_printf(eighths * GIB / 8);
    }
    /* And all magnitudes, beyond the 53 bits of a double too. */
    for (uint64_t size_bytes = 1025; size_bytes < UINT64_MAX / 2; size_bytes += size_bytes / 97 + 1)
        assert_size_as_by_printf(size_bytes);
    assert_size_as_by_printf(UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_those_of_pytorchs_format_size),
        cmocka_unit_test(before_the_first_failure_there_is_no_report),
        cmocka_unit_test(recorded_failures_read_as_pytorch_printed_them),
        cmocka_unit_test(each_release_through_2_0_has_its_bracketed_wording),
        cmocka_unit_test(each_release_since_2_1_has_its_sentences),
        cmocka_unit_test(the_newest_releases_do_not_advise_what_is_on_already),
        cmocka_unit_test(without_a_limit_nothing_is_said_about_one),
        cmocka_unit_test(without_private_pools_nothing_is_said_about_them),
        cmocka_unit_test(unknown_process_memory_reads_as_in_pytorch),
        cmocka_unit_test(a_rejection_names_the_size_that_was_asked),
        cmocka_unit_test(a_text_is_cut_to_every_buffer_and_its_length_is_told),
        cmocka_unit_test(running_out_leaves_text_numbers_count_and_event),
        cmocka_unit_test(idle_memory_of_private_pools_is_told_apart),
        cmocka_unit_test(a_limit_and_expandable_segments_are_reported),
        cmocka_unit_test(a_rejection_is_reported_but_is_no_oom),
        cmocka_unit_test(a_device_that_cannot_say_how_much_is_free_has_none),
        cmocka_unit_test(what_is_not_known_about_processes_is_said_to_be_unknown),
        cmocka_unit_test(a_table_without_processes_is_not_asked),
        cmocka_unit_test(an_older_callers_report_is_filled_to_its_size_and_no_further),
        cmocka_unit_test(a_thread_hears_of_its_own_failures_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
