/* gate_callbacks.c - see gate_callbacks.h. */
#include "gate_callbacks.h"

#include <stdio.h>

enum {
    MOST_CALLBACKS = 4096, /* CUPTI 13.0 has 807 */
    MOST_UNNAMED_IN_A_ROW = 64,
};

static vw__cupti cupti;
static vw__cupti_subscriber subscriber;

/* By a callback's number; written before it is enabled. */
static unsigned char kinds[MOST_CALLBACKS];
static uint32_t kind_count;

vw__driver_call_kind vw__gate_kind_of(uint32_t id)
{
    return id < MOST_CALLBACKS ? (vw__driver_call_kind)kinds[id] : VW__CALL_HARMLESS;
}

/* All that is not known to be harmless. */
static bool enable_callbacks(char *message, size_t capacity)
{
    unsigned unnamed = 0, enabled = 0;
    for (uint32_t id = 1; id < MOST_CALLBACKS && unnamed < MOST_UNNAMED_IN_A_ROW; id++) {
        const char *name = NULL;
        if (cupti.get_callback_name(VW__CUPTI_DRIVER_API, id, &name) != VW__CUPTI_SUCCESS ||
            name == NULL) {
            unnamed++;
            continue;
        }
        unnamed = 0;
        vw__driver_call_kind kind = vw__driver_call_kind_of(name);
        kinds[id] = (unsigned char)kind;
        kind_count = id + 1;
        if (kind == VW__CALL_HARMLESS)
            continue;
        int result = cupti.enable_callback(1, subscriber, VW__CUPTI_DRIVER_API, id);
        if (result != VW__CUPTI_SUCCESS) {
            snprintf(message, capacity, "cuptiEnableCallback(%s) failed: %s (%d)", name,
                     vw__cupti_text(&cupti, result), result);
            return false;
        }
        enabled++;
    }
    if (enabled == 0 || unnamed < MOST_UNNAMED_IN_A_ROW) {
        snprintf(message, capacity, "CUPTI names %u driver functions, expected 1 to %d", enabled,
                 MOST_CALLBACKS - MOST_UNNAMED_IN_A_ROW);
        return false;
    }
    return true;
}

void vw__gate_unsubscribe(void)
{
    (void)cupti.unsubscribe(subscriber);
    subscriber = NULL;
}

void vw__gate_show_harmless(bool is_shown)
{
    for (uint32_t id = 1; id < kind_count; id++)
        if (kinds[id] == VW__CALL_HARMLESS)
            (void)cupti.enable_callback(is_shown, subscriber, VW__CUPTI_DRIVER_API, id);
}

bool vw__gate_subscribe(vw__cupti_callback callback, char *message, size_t capacity)
{
    if (!vw__cupti_load(&cupti, message, capacity))
        return false;
    int result = cupti.subscribe(&subscriber, callback, NULL);
    if (result == VW__CUPTI_ERROR_MULTIPLE_SUBSCRIBERS) {
        snprintf(message, capacity,
                 "another tool has CUPTI (a profiler or a debugger; torch.profiler keeps it from "
                 "its first use on)");
        return false;
    }
    if (result != VW__CUPTI_SUCCESS) {
        snprintf(message, capacity, "cuptiSubscribe() failed: %s (%d)",
                 vw__cupti_text(&cupti, result), result);
        return false;
    }
    if (!enable_callbacks(message, capacity)) {
        vw__gate_unsubscribe();
        return false;
    }
    return true;
}
