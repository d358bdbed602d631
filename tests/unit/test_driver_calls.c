/* test_driver_calls.c - which driver functions the launch gate sees. */
#include "driver_calls.h"

#include <string.h>

#include "device/cuda_driver_load.h"

#include "support/cmocka_here.h"

static void expect_kind(const char *name, vw__driver_call_kind kind)
{
    vw__driver_call_kind found = vw__driver_call_kind_of(name);
    if (found != kind)
        fail_msg("%s is of kind %d, expected %d", name, (int)found, (int)kind);
}

static void all_that_touches_memory_is_gated_in_every_version(void **state)
{
    (void)state;
    static const char *const gated[] = {
        "cuLaunch",
        "cuLaunchKernel",
        "cuLaunchKernel_ptsz",
        "cuLaunchKernelEx",
        "cuLaunchKernelEx_ptsz",
        "cuLaunchCooperativeKernel_ptsz",
        "cuLaunchCooperativeKernelMultiDevice",
        "cuLaunchHostFunc",
        "cuGraphLaunch",
        "cuGraphLaunch_ptsz",
        "cuGraphUpload",
        "cuMemcpy",
        "cuMemcpy_ptds",
        "cuMemcpyAsync_ptsz",
        "cuMemcpyHtoD_v2_ptds",
        "cuMemcpyDtoHAsync_v2",
        "cuMemcpyDtoDAsync_v2_ptsz",
        "cuMemcpyPeerAsync",
        "cuMemcpy3DPeer",
        "cuMemcpyBatchAsync_v2_ptsz",
        "cuMemsetD8_v2",
        "cuMemsetD2D32Async_ptsz",
        "cuStreamWriteValue32_v2_ptsz",
        "cuStreamWaitValue64",
        "cuStreamBatchMemOp_v2",
        "cuStreamAddCallback",
        "cuMemPrefetchAsync_v2",
        "cuMemBatchDecompressAsync",
        "cuMemDiscardBatchAsync",
        "cu64MemcpyDtoD",
        "cuDevicePrimaryCtxReset_v2",
    };
    for (size_t i = 0; i < sizeof gated / sizeof gated[0]; i++)
        expect_kind(gated[i], VW__CALL_GATED);
}

static void what_nobody_knows_is_gated(void **state)
{
    (void)state;
    static const char *const unknown[] = {"cuSomethingOfNextYear",
                                          "",
                                          "cu",
                                          "cuMem",
                                          "cuMemMapp",
                                          "cuMemMapArrayAsync",
                                          "cuStreamWait",
                                          "cuEvent",
                                          "_v2",
                                          "cuMemAllocAsync",
                                          "cuMemFreeAsync_ptsz"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        expect_kind(unknown[i], VW__CALL_GATED);
}

/* The pool makes these under its lock. Only copying may wait at the gate: who copies has closed
 * it. */
static void the_librarys_own_calls_are_harmless_but_for_those_that_move_bytes(void **state)
{
    (void)state;
#define EXPECT_OWN(name, newest, fallback, is_required, parameters)                                \
    expect_kind(newest, strncmp(newest, "cuMemcpy", 8) == 0 || strncmp(newest, "cuMemset", 8) == 0 \
                            ? VW__CALL_GATED                                                       \
                            : VW__CALL_HARMLESS);
    VW__CUDA_SYMBOL_LIST(EXPECT_OWN)
#undef EXPECT_OWN
}

static void waiting_and_loading_code_are_harmless(void **state)
{
    (void)state;
    static const char *const harmless[] = {
        "cuCtxSynchronize",
        "cuCtxSynchronize_v2",
        "cuStreamSynchronize_ptsz",
        "cuEventSynchronize",
        "cuStreamQuery_ptsz",
        "cuModuleLoadData",
        "cuLibraryLoadFromFile",
        "cuEventRecord_ptsz",
        "cuStreamWaitEvent_ptsz",
        "cuGraphInstantiate_v2",
        "cuGetProcAddress_v2",
        "cuMemImportFromShareableHandle",
        "cuStreamGetCaptureInfo_v3_ptsz",
    };
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        expect_kind(harmless[i], VW__CALL_HARMLESS);
}

static void captures_and_contexts_are_told_apart(void **state)
{
    (void)state;
    expect_kind("cuStreamBeginCapture", VW__CALL_BEGINS_GRAPH);
    expect_kind("cuStreamBeginCapture_v2_ptsz", VW__CALL_BEGINS_GRAPH);
    expect_kind("cuStreamBeginCaptureToGraph_ptsz", VW__CALL_BEGINS_GRAPH);
    expect_kind("cuStreamEndCapture", VW__CALL_ENDS_GRAPH);
    expect_kind("cuStreamEndCapture_ptsz", VW__CALL_ENDS_GRAPH);
    expect_kind("cuCtxCreate", VW__CALL_MAKES_CONTEXT);
    expect_kind("cuCtxCreate_v4", VW__CALL_MAKES_CONTEXT);
    expect_kind("cuGreenCtxCreate", VW__CALL_MAKES_CONTEXT);
    expect_kind("cuGLCtxCreate_v2", VW__CALL_MAKES_CONTEXT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_that_touches_memory_is_gated_in_every_version),
        cmocka_unit_test(what_nobody_knows_is_gated),
        cmocka_unit_test(the_librarys_own_calls_are_harmless_but_for_those_that_move_bytes),
        cmocka_unit_test(waiting_and_loading_code_are_harmless),
        cmocka_unit_test(captures_and_contexts_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
