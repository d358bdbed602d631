/* driver_calls.c - the list of harmless driver functions, by name without version.
 *
 * A function is on it if it touches no bytes of memory that the program allocated. Waiting for the
 * device is harmless, and must not be gated: the closer would have to wait for the waiter. So is
 * loading code, which may take seconds. What is left out costs nothing but the gate's few
 * nanoseconds, so where there is a doubt it is left out. */
#include "driver_calls.h"

#include <stdbool.h>
#include <stdlib.h> /* bsearch */
#include <string.h>

/* In the order of strcmp(). */
static const char *const harmless[] = {
    "cuCtxGetApiVersion",
    "cuCtxGetCacheConfig",
    "cuCtxGetCurrent",
    "cuCtxGetDevice",
    "cuCtxGetFlags",
    "cuCtxGetId",
    "cuCtxGetLimit",
    "cuCtxGetStreamPriorityRange",
    "cuCtxPopCurrent",
    "cuCtxPushCurrent",
    "cuCtxRecordEvent",
    "cuCtxSetCacheConfig",
    "cuCtxSetCurrent",
    "cuCtxSetLimit",
    "cuCtxSynchronize",
    "cuDeviceCanAccessPeer",
    "cuDeviceComputeCapability",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetByPCIBusId",
    "cuDeviceGetCount",
    "cuDeviceGetDefaultMemPool",
    "cuDeviceGetMemPool",
    "cuDeviceGetName",
    "cuDeviceGetP2PAttribute",
    "cuDeviceGetPCIBusId",
    "cuDeviceGetProperties",
    "cuDeviceGetUuid",
    "cuDevicePrimaryCtxGetState",
    "cuDevicePrimaryCtxRelease",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy",
    "cuEventElapsedTime",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventRecordWithFlags",
    "cuEventSynchronize",
    "cuFuncGetAttribute",
    "cuFuncGetModule",
    "cuFuncGetName",
    "cuFuncGetParamInfo",
    "cuFuncIsLoaded",
    "cuFuncLoad",
    "cuFuncSetAttribute",
    "cuFuncSetCacheConfig",
    "cuFuncSetSharedMemConfig",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetExportTable",
    "cuGetProcAddress",
    "cuGraphInstantiate",
    "cuGraphInstantiateWithFlags",
    "cuGraphInstantiateWithParams",
    "cuGraphNodeGetDependencies",
    "cuInit",
    "cuIpcCloseMemHandle",
    "cuIpcGetEventHandle",
    "cuIpcGetMemHandle",
    "cuIpcOpenEventHandle",
    "cuIpcOpenMemHandle",
    "cuKernelGetAttribute",
    "cuKernelGetFunction",
    "cuKernelGetLibrary",
    "cuKernelGetName",
    "cuKernelGetParamInfo",
    "cuKernelSetAttribute",
    "cuKernelSetCacheConfig",
    "cuLibraryEnumerateKernels",
    "cuLibraryGetGlobal",
    "cuLibraryGetKernel",
    "cuLibraryGetKernelCount",
    "cuLibraryGetManaged",
    "cuLibraryGetModule",
    "cuLibraryGetUnifiedFunction",
    "cuLibraryLoadData",
    "cuLibraryLoadFromFile",
    "cuLibraryUnload",
    "cuLinkAddData",
    "cuLinkAddFile",
    "cuLinkComplete",
    "cuLinkCreate",
    "cuLinkDestroy",
    "cuMemAddressFree",
    "cuMemAddressReserve",
    "cuMemAlloc",
    "cuMemAllocHost",
    "cuMemAllocPitch",
    "cuMemCreate",
    "cuMemExportToShareableHandle",
    "cuMemFree",
    "cuMemFreeHost",
    "cuMemGetAccess",
    "cuMemGetAddressRange",
    "cuMemGetAllocationGranularity",
    "cuMemGetAllocationPropertiesFromHandle",
    "cuMemGetHandleForAddressRange",
    "cuMemGetInfo",
    "cuMemHostAlloc",
    "cuMemHostGetDevicePointer",
    "cuMemHostGetFlags",
    "cuMemHostRegister",
    "cuMemHostUnregister",
    "cuMemImportFromShareableHandle",
    "cuMemMap",
    "cuMemRelease",
    "cuMemRetainAllocationHandle",
    "cuMemSetAccess",
    "cuMemUnmap",
    "cuModuleEnumerateFunctions",
    "cuModuleGetFunction",
    "cuModuleGetFunctionCount",
    "cuModuleGetGlobal",
    "cuModuleGetLoadingMode",
    "cuModuleLoad",
    "cuModuleLoadData",
    "cuModuleLoadDataEx",
    "cuModuleLoadFatBinary",
    "cuModuleUnload",
    "cuMulticastGetGranularity",
    "cuOccupancyAvailableDynamicSMemPerBlock",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
    "cuOccupancyMaxActiveClusters",
    "cuOccupancyMaxPotentialBlockSize",
    "cuOccupancyMaxPotentialBlockSizeWithFlags",
    "cuOccupancyMaxPotentialClusterSize",
    "cuPointerGetAttribute",
    "cuPointerGetAttributes",
    "cuPointerSetAttribute",
    "cuProfilerStart",
    "cuProfilerStop",
    "cuStreamCopyAttributes",
    "cuStreamCreate",
    "cuStreamCreateWithPriority",
    "cuStreamDestroy",
    "cuStreamGetAttribute",
    "cuStreamGetCaptureInfo",
    "cuStreamGetCtx",
    "cuStreamGetDevice",
    "cuStreamGetFlags",
    "cuStreamGetId",
    "cuStreamGetPriority",
    "cuStreamIsCapturing",
    "cuStreamQuery",
    "cuStreamSetAttribute",
    "cuStreamSynchronize",
    "cuStreamUpdateCaptureDependencies",
    "cuStreamWaitEvent",
    "cuTensorMapEncodeIm2col",
    "cuTensorMapEncodeIm2colWide",
    "cuTensorMapEncodeTiled",
    "cuTensorMapReplaceAddress",
    "cuThreadExchangeStreamCaptureMode",
};

static bool ends_with(const char *name, size_t length, const char *ending)
{
    size_t ending_length = strlen(ending);
    return length > ending_length &&
           memcmp(name + length - ending_length, ending, ending_length) == 0;
}

/* "_v2_ptsz" is no part of what a function does: the form of its arguments, and whose default
 * stream it means. */
static size_t length_without_version(const char *name)
{
    size_t length = strlen(name);
    if (ends_with(name, length, "_ptsz") || ends_with(name, length, "_ptds"))
        length -= strlen("_ptsz");
    size_t digits = length;
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9')
        digits--;
    if (digits < length && ends_with(name, digits, "_v"))
        length = digits - strlen("_v");
    return length;
}

typedef struct plain_name {
    const char *text;
    size_t length;
} plain_name;

static int compare(const void *key, const void *element)
{
    const plain_name *name = key;
    const char *other = *(const char *const *)element;
    int order = strncmp(name->text, other, name->length);
    return order != 0 || other[name->length] == '\0' ? order : -1;
}

vw__driver_call_kind vw__driver_call_kind_of(const char *name)
{
    static const char begins_capture[] = "cuStreamBegin", ends_capture[] = "cuStreamEndCapture";
    const plain_name plain = {name, length_without_version(name)};
    if (strncmp(name, begins_capture, sizeof begins_capture - 1) == 0)
        return VW__CALL_BEGINS_GRAPH;
    if (plain.length == sizeof ends_capture - 1 && memcmp(name, ends_capture, plain.length) == 0)
        return VW__CALL_ENDS_GRAPH;
    if (strstr(name, "CtxCreate") != NULL)
        return VW__CALL_MAKES_CONTEXT;
    bool is_harmless = bsearch(&plain, harmless, sizeof harmless / sizeof harmless[0],
                               sizeof harmless[0], compare) != NULL;
    return is_harmless ? VW__CALL_HARMLESS : VW__CALL_GATED;
}
