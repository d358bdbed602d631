/* step_log_series.c - what is kept of the sightings, and which of them are a log.
 *
 * A series holds a bounded number of points. When it is full every second one is dropped, and from
 * then on only every second, fourth, eighth sighting is kept: what remains is spread evenly. Units
 * are guessed at the end, from all the numbers of a series together. */
#include "format/step_log_series.h"

#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"

#define MIB (1024.0 * 1024.0)
#define GIB (1024.0 * MIB)

enum {
    MANY_POINTS = 10,     /* with steps: enough in a text of any length */
    LEAST_SHARE = 50,     /* one line in so many, where there are fewer points */
    LEAST_SHARE_BARE = 2, /* of sizes that stand alone */
    FIRST_POINTS = 64     /* room for */
};

static const char *const form_names[] = {"JSON lines", "CSV", "text"};

/* Numbers as they were written; NAN-free. reserved < 0: not said. */
struct vw__raw_point {
    double step, allocated, reserved;
};

/* ---- points ---------------------------------------------------------------------------------- */

static bool is_same(const vw__step_series *known, vw__step_form form, vw__step_memory kind,
                    const vw__sighting *sighting, bool has_unit)
{
    return known->form == form && known->kind == kind && known->rank == sighting->rank &&
           known->is_epoch == sighting->is_epoch && known->has_unit == has_unit &&
           known->has_step == (sighting->step_weight != 0) &&
           strcmp(known->name, sighting->name) == 0;
}

static vw__step_series *find_series(vw__step_series_set *set, vw__step_form form,
                                    vw__step_memory kind, const vw__sighting *sighting,
                                    bool has_unit)
{
    vw__step_series *fewest = &set->all[0];
    for (size_t i = 0; i < set->count; i++) {
        if (is_same(&set->all[i], form, kind, sighting, has_unit))
            return &set->all[i];
        if (set->all[i].count < fewest->count)
            fewest = &set->all[i];
    }
    vw__step_series *made = set->count < VW__STEP_MOST_SERIES ? &set->all[set->count++] : fewest;
    vw__host_free(made->points);
    *made = (vw__step_series){
        .stride = 1,
        .form = form,
        .kind = kind,
        .is_plain = true,
        .is_bare = true,
        .rank = sighting->rank,
        .has_step = sighting->step_weight != 0,
        .has_unit = has_unit,
        .is_epoch = sighting->is_epoch,
    };
    memcpy(made->name, sighting->name, sizeof made->name);
    return made;
}

static bool make_room(vw__step_series *to)
{
    if (to->count < to->capacity)
        return true;
    if (to->capacity == VW__STEP_LOG_MOST) {
        to->count /= 2;
        for (size_t i = 0; i < to->count; i++)
            to->points[i] = to->points[2 * i];
        to->stride *= 2;
        to->next_kept = to->count * to->stride;
        return true;
    }
    size_t capacity = to->capacity != 0 ? 2 * to->capacity : FIRST_POINTS;
    vw__raw_point *grown = vw__host_realloc(to->points, capacity * sizeof *grown);
    if (grown == NULL)
        return false;
    to->points = grown;
    to->capacity = capacity;
    return true;
}

_Static_assert(VW__STEP_LOG_MOST % FIRST_POINTS == 0 &&
                   (VW__STEP_LOG_MOST & (VW__STEP_LOG_MOST - 1)) == 0,
               "doubling arrives at the most there may be");

/* Whatever memory the line names is the one that counts; a unit that is said for one figure is the
 * other one's, too. */
static vw__sighting settled(const vw__sighting *sighting)
{
    vw__sighting seen = *sighting;
    if (seen.allocated_weight == 0) {
        seen.allocated = seen.reserved;
        seen.allocated_unit_bytes = seen.reserved_unit_bytes;
        seen.allocated_weight = seen.reserved_weight;
        seen.reserved_weight = 0;
    } else if (seen.reserved_weight != 0) {
        if (seen.allocated_unit_bytes == 0)
            seen.allocated_unit_bytes = seen.reserved_unit_bytes;
        if (seen.reserved_unit_bytes == 0)
            seen.reserved_unit_bytes = seen.allocated_unit_bytes;
    }
    return seen;
}

static void note_one(vw__step_series_set *set, vw__step_form form, vw__step_memory kind,
                     const vw__sighting *sighting, uint64_t line_weight)
{
    vw__sighting seen = settled(sighting);
    bool has_unit = seen.allocated_unit_bytes != 0;
    vw__step_series *to = find_series(set, form, kind, &seen, has_unit);
    to->is_plain = to->is_plain && seen.is_plain;
    to->is_bare = to->is_bare && seen.is_bare;
    set->sighted_count++;
    to->found_count += line_weight;
    if (to->found_count <= to->next_kept)
        return;
    if (!make_room(to)) {
        set->has_failed = true;
        return;
    }
    if (set->most_stride < to->stride)
        set->most_stride = to->stride;
    to->next_kept += to->stride;
    double whole = (double)(uint64_t)seen.allocated;
    to->weight = seen.allocated_weight;
    to->is_peak = seen.is_peak;
    to->has_fraction = to->has_fraction || whole < seen.allocated;
    to->largest = seen.allocated > to->largest ? seen.allocated : to->largest;
    to->points[to->count] = (vw__raw_point){
        .step = to->has_step ? seen.step : (double)(to->count * to->stride),
        .allocated = seen.allocated * (has_unit ? seen.allocated_unit_bytes : 1),
        .reserved = seen.reserved_weight != 0
                        ? seen.reserved * (has_unit ? seen.reserved_unit_bytes : 1)
                        : -1,
    };
    to->count++;
}

static void note_reading(vw__step_series_set *set, vw__step_form form, vw__step_memory kind,
                         const vw__sighting *sighting, const vw__reading *reading,
                         uint64_t line_weight)
{
    vw__sighting seen = *sighting;
    seen.allocated = reading->value;
    seen.allocated_unit_bytes = reading->unit_bytes;
    seen.allocated_weight = reading->weight;
    seen.reserved_weight = 0;
    seen.is_peak = reading->is_peak;
    memcpy(seen.name, reading->name, sizeof seen.name);
    note_one(set, form, kind, &seen, line_weight);
}

/* Every other device that the line names is a rank of its own, unless ranks are something else. */
static void note_devices(vw__step_series_set *set, vw__step_form form, const vw__sighting *sighting,
                         uint64_t line_weight)
{
    if (sighting->rank != sighting->memory_device)
        return;
    for (size_t i = 0; i < sighting->device_count; i++) {
        vw__sighting seen = *sighting;
        seen.rank = sighting->devices[i].device;
        seen.allocated = sighting->devices[i].value;
        seen.allocated_unit_bytes = sighting->devices[i].unit_bytes;
        seen.reserved_weight = 0;
        note_one(set, form, VW__STEP_OF_CARD, &seen, line_weight);
    }
}

void vw__step_series_note(vw__step_series_set *set, vw__step_form form,
                          const vw__sighting *sighting, uint64_t line_weight)
{
    if (sighting->allocated_weight != 0 || sighting->reserved_weight != 0) {
        note_one(set, form, VW__STEP_OF_CARD, sighting, line_weight);
        note_devices(set, form, sighting, line_weight);
    } else if (sighting->free.weight != 0) {
        note_reading(set, form, VW__STEP_OF_FREE, sighting, &sighting->free, line_weight);
    } else if (sighting->share.weight != 0) {
        note_reading(set, form, VW__STEP_OF_SHARE, sighting, &sighting->share, line_weight);
    }
    if (sighting->host.weight != 0)
        note_reading(set, form, VW__STEP_OF_HOST, sighting, &sighting->host, line_weight);
}

vw_status vw__step_series_status(const vw__step_series_set *set)
{
    return set->has_failed ? vw__fail_host_memory(VW__STEP_LOG_MOST * sizeof(vw__raw_point),
                                                  "the points of a step log")
                           : VW_OK;
}

/* ---- the result ------------------------------------------------------------------------------ */

/* A few lines that look like one, in a long text that does not, are no step log; those without a
 * step are taken for one even less. One or two that cannot be anything else are, where there is
 * nothing else but perhaps a header. */
static bool is_log(const vw__step_lines *lines, const vw__step_series *found)
{
    uint64_t share = found->is_bare ? LEAST_SHARE_BARE : LEAST_SHARE;
    bool is_much_of_it = found->found_count * share >= lines->count;
    bool is_many = found->has_step && found->found_count >= MANY_POINTS;
    uint64_t blank_count = lines->blank_count + (found->form == VW__STEP_FORM_TABLE);
    bool is_all =
        lines->count < VW__STEP_LOG_FEW_LINES && found->found_count + blank_count >= lines->count;
    if (found->found_count < VW__STEP_LOG_FEWEST)
        return found->is_plain && is_all;
    return is_many || is_much_of_it;
}

static bool is_better(const vw__step_series *one, const vw__step_series *other)
{
    if ((one->kind == VW__STEP_OF_HOST) != (other->kind == VW__STEP_OF_HOST))
        return other->kind == VW__STEP_OF_HOST;
    if (one->has_step != other->has_step)
        return one->has_step;
    if (one->found_count != other->found_count)
        return one->found_count > other->found_count;
    return one->weight > other->weight;
}

/* Where no unit was said. No card has 2^20 MB, and none that was ever sold 400 GB; whole numbers
 * below that are MB, since nobody watches memory in whole GB. */
static double guessed_unit_bytes(const vw__step_series *from)
{
    enum { LARGEST_CARD_GIB = 400 };
    if (from->has_unit || from->largest >= MIB)
        return 1;
    return from->has_fraction && from->largest < LARGEST_CARD_GIB ? GIB : MIB;
}

static uint64_t to_bytes(double bytes)
{
    const double most = 1024 * 1024 * 1024 * GIB; /* a unit may have been guessed wrong */
    return (uint64_t)(bytes < most ? bytes + 0.5 : most);
}

/* Fractions of epochs count nothing that a person knows: the lines are counted instead. */
static bool has_fractions_of_epochs(const vw__step_series *from)
{
    bool has_fraction = false;
    for (size_t i = 0; i < from->count && from->is_epoch && !has_fraction; i++)
        has_fraction = (double)(uint64_t)from->points[i].step < from->points[i].step;
    return has_fraction;
}

/* `points` has room for all of them. */
static vw__step_log log_of(const vw__step_series *from, vw__step_point *points, uint64_t line_count)
{
    double unit_bytes =
        from->kind == VW__STEP_OF_SHARE ? VW__STEP_SHARE_OF_ALL / 100.0 : guessed_unit_bytes(from);
    bool counts_lines = has_fractions_of_epochs(from);
    for (size_t i = 0; i < from->count; i++) {
        const vw__raw_point *point = &from->points[i];
        points[i] = (vw__step_point){
            .step = counts_lines ? (double)(i * from->stride) : point->step,
            .allocated_bytes = to_bytes(point->allocated * unit_bytes),
            .reserved_bytes =
                point->reserved >= 0 ? to_bytes(point->reserved * unit_bytes) : VW__UNKNOWN_BYTES,
        };
    }
    vw__step_log log = {
        .points = points,
        .point_count = from->count,
        .line_count = line_count,
        .found_count = from->found_count,
        .form = form_names[from->form],
        .step_name = counts_lines      ? "logged line"
                     : !from->has_step ? "line"
                     : from->is_epoch  ? "epoch"
                                       : "step",
        .rank = from->rank,
        .is_peak = from->is_peak,
        .is_host = from->kind == VW__STEP_OF_HOST,
        .is_free = from->kind == VW__STEP_OF_FREE,
        .is_share = from->kind == VW__STEP_OF_SHARE,
    };
    memcpy(log.memory_name, from->name, sizeof log.memory_name);
    return log;
}

/* The same on another rank, or the memory of the host. */
static bool goes_with(const vw__step_lines *lines, const vw__step_series *best,
                      const vw__step_series *other)
{
    if (other == best || other->found_count < VW__STEP_LOG_FEWEST)
        return false;
    if (other->kind == VW__STEP_OF_HOST && best->kind != VW__STEP_OF_HOST)
        return is_log(lines, other) && other->has_step == best->has_step;
    return other->kind == best->kind && other->form == best->form &&
           other->has_step == best->has_step && other->has_unit == best->has_unit &&
           other->rank != best->rank && other->found_count * 2 >= best->found_count &&
           strcmp(other->name, best->name) == 0;
}

static vw_status give_logs(vw__step_series_set *set, const vw__step_lines *lines,
                           const vw__step_series *best, vw__step_log *out)
{
    size_t count = 0, used = best->count, other_count = 0;
    for (size_t i = 0; i < set->count; i++)
        count += set->all[i].count;
    set->result = vw__host_alloc(count * sizeof *set->result);
    if (set->result == NULL)
        return vw__fail_host_memory(count * sizeof *set->result, "the points of a step log");
    *out = log_of(best, set->result, lines->count);
    for (size_t i = 0; i < set->count; i++) {
        if (!goes_with(lines, best, &set->all[i]))
            continue;
        set->others[other_count++] = log_of(&set->all[i], set->result + used, lines->count);
        used += set->all[i].count;
    }
    out->others = set->others;
    out->other_count = other_count;
    return VW_OK;
}

vw_status vw__step_series_finish(vw__step_series_set *set, const vw__step_lines *lines,
                                 vw__step_log *out)
{
    VW__TRY(vw__step_series_status(set));
    const vw__step_series *best = NULL;
    for (size_t i = 0; i < set->count; i++)
        if (is_log(lines, &set->all[i]) && (best == NULL || is_better(&set->all[i], best)))
            best = &set->all[i];
    vw__step_log log = {.line_count = lines->count, .form = "", .step_name = "line", .rank = -1};
    vw__host_free(set->result);
    set->result = NULL;
    if (best != NULL)
        VW__TRY(give_logs(set, lines, best, &log));
    *out = log;
    return VW_OK;
}

void vw__step_series_deinit(vw__step_series_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        vw__host_free(set->all[i].points);
    vw__host_free(set->result);
}
