/* fake_cupti.c - see fake_cupti.h. As the real one it has one subscriber, numbers with gaps between
 * them, and calls back without a lock. FAKE_CUPTI_FAIL=cuptiEnableCallback=15 makes a function
 * answer that number. */
#include "support/fake_cupti/fake_cupti.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID_PARAMETER = 1, MULTIPLE_SUBSCRIBERS = 39 };
enum { DRIVER_API = 1, ENTER = 0, EXIT = 1 };

/* CUpti_CallbackData, from its documentation and not from our own declaration. */
typedef struct callback_data {
    int callbackSite;
    const char *functionName;
    const void *functionParams;
    void *functionReturnValue;
    const char *symbolName;
    void *context;
    uint32_t contextUid;
    uint64_t *correlationData;
    uint32_t correlationId;
} callback_data;

typedef void (*callback_function)(void *userdata, int domain, uint32_t cbid, const void *cbdata);

/* By their numbers here. NULL: a number that means nothing. */
static const char *const names[] = {
    "INVALID",
    "cuInit",
    "cuCtxSynchronize",
    "cuMemcpyDtoDAsync_v2_ptsz",
    "cuLaunchKernel",
    NULL,
    NULL,
    "cuLaunchKernelEx_ptsz",
    "cuEventRecord",
    "cuStreamWaitEvent_ptsz",
    "cuMemMap",
    "cuMemUnmap",
    "cuGraphLaunch",
    "cuStreamBeginCapture_v2_ptsz",
    "cuStreamEndCapture",
    "cuCtxCreate_v4",
    "cuMemsetD32Async",
    NULL,
    "cuSomethingOfNextYear_v3",
};
enum { NAME_COUNT = sizeof names / sizeof names[0] };

static _Atomic int is_enabled[NAME_COUNT];
static _Atomic(callback_function) subscribed;
static void *_Atomic subscribed_data;
static _Atomic int is_taken_by_other;
static void *_Atomic current_context;

static int ordered_result(const char *function)
{
    const char *order = getenv("FAKE_CUPTI_FAIL");
    size_t length = strlen(function);
    if (order == NULL || strncmp(order, function, length) != 0 || order[length] != '=')
        return SUCCESS;
    return atoi(order + length + 1);
}

EXPORT int cuptiSubscribe(void **subscriber, callback_function callback, void *userdata);
int cuptiSubscribe(void **subscriber, callback_function callback, void *userdata)
{
    if (ordered_result(__func__) != SUCCESS)
        return ordered_result(__func__);
    if (subscriber == NULL || callback == NULL)
        return INVALID_PARAMETER;
    if (is_taken_by_other != 0 || atomic_load(&subscribed) != NULL)
        return MULTIPLE_SUBSCRIBERS;
    subscribed_data = userdata;
    atomic_store(&subscribed, callback);
    *subscriber = (void *)is_enabled;
    return SUCCESS;
}

EXPORT int cuptiUnsubscribe(void *subscriber);
int cuptiUnsubscribe(void *subscriber)
{
    if (subscriber != (void *)is_enabled)
        return INVALID_PARAMETER;
    for (int i = 0; i < NAME_COUNT; i++)
        is_enabled[i] = 0;
    atomic_store(&subscribed, NULL);
    return SUCCESS;
}

EXPORT int cuptiEnableCallback(uint32_t enable, void *subscriber, int domain, uint32_t cbid);
int cuptiEnableCallback(uint32_t enable, void *subscriber, int domain, uint32_t cbid)
{
    if (ordered_result(__func__) != SUCCESS)
        return ordered_result(__func__);
    if (subscriber != (void *)is_enabled || domain != DRIVER_API || cbid >= NAME_COUNT ||
        names[cbid] == NULL)
        return INVALID_PARAMETER;
    is_enabled[cbid] = enable != 0;
    return SUCCESS;
}

EXPORT int cuptiGetCallbackName(int domain, uint32_t cbid, const char **name);
int cuptiGetCallbackName(int domain, uint32_t cbid, const char **name)
{
    if (domain != DRIVER_API || cbid >= NAME_COUNT || names[cbid] == NULL)
        return INVALID_PARAMETER;
    *name = names[cbid];
    return SUCCESS;
}

EXPORT int cuptiGetResultString(int result, const char **text);
int cuptiGetResultString(int result, const char **text)
{
    *text = result == 15 ? "CUPTI_ERROR_NOT_INITIALIZED" : NULL;
    return *text != NULL ? SUCCESS : INVALID_PARAMETER;
}

/* ---- for the test ---------------------------------------------------------------------------- */

static void tell(uint32_t id, int site, int *result, uint64_t *correlation)
{
    callback_function callback = atomic_load(&subscribed);
    if (callback == NULL || is_enabled[id] == 0)
        return;
    const callback_data data = {
        .callbackSite = site,
        .functionName = names[id],
        .functionReturnValue = site == EXIT ? result : NULL,
        .context = current_context,
        .correlationData = correlation,
    };
    callback(subscribed_data, DRIVER_API, id, &data);
}

EXPORT bool fake_cupti_call(const char *name, void (*body)(void *), void *context, int result);
bool fake_cupti_call(const char *name, void (*body)(void *), void *context, int result)
{
    for (uint32_t id = 1; id < NAME_COUNT; id++) {
        if (names[id] == NULL || strcmp(names[id], name) != 0)
            continue;
        uint64_t correlation = 0;
        tell(id, ENTER, NULL, &correlation);
        if (body != NULL)
            body(context);
        tell(id, EXIT, &result, &correlation);
        return true;
    }
    return false;
}

EXPORT void fake_cupti_set_taken(bool is_taken);
void fake_cupti_set_taken(bool is_taken)
{
    is_taken_by_other = is_taken;
}

EXPORT void fake_cupti_set_context(void *context);
void fake_cupti_set_context(void *context)
{
    current_context = context;
}

EXPORT int fake_cupti_count_enabled(void);
int fake_cupti_count_enabled(void)
{
    int count = 0;
    for (int i = 0; i < NAME_COUNT; i++)
        count += is_enabled[i];
    return count;
}
