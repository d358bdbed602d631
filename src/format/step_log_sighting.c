/* step_log_sighting.c - of all the fields of a line, the ones to believe.
 *
 * A line may name its memory three times (allocated, peak, in use), for several devices, and for
 * the host besides; and its step twice, within the epoch and of the whole run. Fields are offered
 * one by one, in whatever order the line has them. For each thing that a sighting can hold the
 * heavier name stays, and one with a unit before one without. */
#include "format/step_log_fields.h"

#include <string.h>

#define TIB (1024.0 * 1024.0 * 1024.0 * 1024.0)

enum { MOST_RANKS = 1 << 20 };

void vw__sighting_init(vw__sighting *sighting)
{
    *sighting = (vw__sighting){.rank = -1, .device = -1, .memory_device = -1};
}

/* Bytes beyond any machine are no memory. */
static bool is_plausible(double value, double unit_bytes)
{
    return value >= 0 && value * (unit_bytes != 0 ? unit_bytes : 1) <= 1024 * TIB;
}

static void set_name(char name[VW__STEP_LOG_NAME_BYTES], const vw__field *field)
{
    const size_t most = VW__STEP_LOG_NAME_BYTES - 1;
    size_t size = field->name_bytes < most ? field->name_bytes : most;
    memcpy(name, field->name, size);
    name[size] = '\0';
}

static void offer_reading(vw__reading *reading, const vw__field *field,
                          const vw__written_number *number)
{
    double unit_bytes = number->unit_bytes != 0 ? number->unit_bytes : field->unit_bytes;
    int weight = 2 * field->weight + (unit_bytes != 0);
    if ((field->needs_unit && unit_bytes == 0) || !is_plausible(number->value, unit_bytes) ||
        weight <= reading->weight)
        return;
    reading->value = number->value;
    reading->unit_bytes = unit_bytes;
    reading->weight = weight;
    reading->is_peak = field->is_peak;
    set_name(reading->name, field);
}

/* A percentage of the card's memory; of a GPU alone it would be how busy it is. */
static void offer_share(vw__sighting *sighting, const vw__field *field,
                        const vw__written_number *number)
{
    if (number->is_percent && number->value <= 100 && field->kind == VW__FIELD_ALLOCATED &&
        !field->needs_unit && field->unit_bytes == 0)
        offer_reading(&sighting->share, field, number);
}

/* What another device than the first has allocated. The heavier name is believed here, too. */
static void offer_device(vw__sighting *sighting, const vw__device_reading *reading)
{
    size_t at = 0;
    while (at < sighting->device_count && sighting->devices[at].device != reading->device)
        at++;
    if (at == VW__SIGHTING_MOST_DEVICES)
        return;
    if (at == sighting->device_count)
        sighting->device_count++;
    else if (reading->weight <= sighting->devices[at].weight)
        return;
    sighting->devices[at] = *reading;
}

static void offer_memory(vw__sighting *sighting, const vw__field *field,
                         const vw__written_number *number)
{
    double unit_bytes = number->unit_bytes != 0 ? number->unit_bytes : field->unit_bytes;
    if ((field->needs_unit && unit_bytes == 0) || !is_plausible(number->value, unit_bytes))
        return;
    int weight = 2 * field->weight + (unit_bytes != 0);
    int device = field->device >= 0 ? field->device : sighting->device;
    if (field->kind == VW__FIELD_ALLOCATED && sighting->allocated_weight != 0 && device >= 0 &&
        sighting->memory_device >= 0 && device != sighting->memory_device) {
        offer_device(sighting, &(vw__device_reading){number->value, unit_bytes, weight, device});
        return;
    }
    if (field->kind == VW__FIELD_RESERVED) {
        if (weight > sighting->reserved_weight) {
            sighting->reserved_weight = weight;
            sighting->reserved = number->value;
            sighting->reserved_unit_bytes = unit_bytes;
            if (sighting->allocated_weight == 0) {
                set_name(sighting->name, field);
                sighting->is_peak = field->is_peak;
            }
        }
    } else if (weight > sighting->allocated_weight) {
        sighting->allocated_weight = weight;
        sighting->allocated = number->value;
        sighting->allocated_unit_bytes = unit_bytes;
        sighting->is_peak = field->is_peak;
        sighting->memory_device = device;
        if (sighting->rank < 0)
            sighting->rank = device;
        set_name(sighting->name, field);
    }
}

static void offer_rank(vw__sighting *sighting, const vw__written_number *number)
{
    if (number->is_whole && number->unit_bytes == 0 && number->value < MOST_RANKS &&
        sighting->rank < 0)
        sighting->rank = (int)number->value;
}

void vw__sighting_offer(vw__sighting *sighting, const vw__field *field,
                        const vw__written_number *number)
{
    if (number->is_other) {
        offer_share(sighting, field, number);
        return;
    }
    switch (field->kind) {
    case VW__FIELD_STEP:
    case VW__FIELD_EPOCH:
        if (number->unit_bytes == 0 && field->weight > sighting->step_weight) {
            sighting->step = number->value;
            sighting->step_weight = field->weight;
            sighting->is_epoch = field->kind == VW__FIELD_EPOCH;
        }
        break;
    case VW__FIELD_RANK:
        offer_rank(sighting, number);
        break;
    case VW__FIELD_ALLOCATED:
    case VW__FIELD_RESERVED:
        if (field->may_be_rank && number->is_whole && number->unit_bytes == 0) {
            offer_rank(sighting, number);
            sighting->device = number->value < MOST_RANKS ? (int)number->value : -1;
        }
        offer_memory(sighting, field, number);
        break;
    case VW__FIELD_HOST:
        offer_reading(&sighting->host, field, number);
        break;
    case VW__FIELD_FREE:
        offer_reading(&sighting->free, field, number);
        break;
    case VW__FIELD_NONE:
    case VW__FIELD_UNKNOWN:
    case VW__FIELD_OTHER:
        break;
    }
}

static void merge_reading(vw__reading *reading, const vw__reading *other)
{
    if (other->weight > reading->weight)
        *reading = *other;
}

static void merge_devices(vw__sighting *sighting, const vw__sighting *other)
{
    if (sighting->allocated_weight != 0 && other->allocated_weight != 0 &&
        sighting->memory_device >= 0 && other->memory_device >= 0 &&
        sighting->memory_device != other->memory_device)
        offer_device(sighting,
                     &(vw__device_reading){other->allocated, other->allocated_unit_bytes,
                                           other->allocated_weight, other->memory_device});
    for (size_t i = 0; i < other->device_count; i++)
        offer_device(sighting, &other->devices[i]);
}

void vw__sighting_merge(vw__sighting *sighting, const vw__sighting *other)
{
    merge_devices(sighting, other);
    merge_reading(&sighting->host, &other->host);
    merge_reading(&sighting->free, &other->free);
    merge_reading(&sighting->share, &other->share);
    if (other->step_weight > sighting->step_weight) {
        sighting->step = other->step;
        sighting->step_weight = other->step_weight;
        sighting->is_epoch = other->is_epoch;
    }
    if (other->allocated_weight > sighting->allocated_weight ||
        (sighting->allocated_weight == 0 && other->reserved_weight > sighting->reserved_weight)) {
        memcpy(sighting->name, other->name, sizeof sighting->name);
        sighting->is_peak = other->is_peak;
    }
    if (other->allocated_weight > sighting->allocated_weight) {
        sighting->allocated = other->allocated;
        sighting->allocated_unit_bytes = other->allocated_unit_bytes;
        sighting->allocated_weight = other->allocated_weight;
        sighting->memory_device = other->memory_device;
    }
    if (other->reserved_weight > sighting->reserved_weight) {
        sighting->reserved = other->reserved;
        sighting->reserved_unit_bytes = other->reserved_unit_bytes;
        sighting->reserved_weight = other->reserved_weight;
    }
    if (sighting->rank < 0)
        sighting->rank = other->rank;
}
