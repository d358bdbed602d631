/* step_log_series.c - what is kept of the sightings, and which of them are a log.
 *
 * A series holds a bounded number of points. When it is full every second one is dropped, and from
 * then on only every second, fourth, eighth sighting is kept: what remains is spread evenly. Units
 * are guessed at the end, from all the numbers of a series together. */
#include "parse/step_log_internal.h"

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
struct vw__step_log_raw_point {
    double step, allocated, reserved;
};

/* ---- points ---------------------------------------------------------------------------------- */

/* A sighting as a series sees it: one kind of memory of it. */
typedef struct seen {
    vw__step_log_form form;
    vw__step_log_memory kind;
    int rank;
    const vw__step_log_sighting *sighting;
    vw__step_log_reading memory;
    double reserved, reserved_unit_bytes; /* reserved < 0: not said */
    uint64_t line_weight;
} seen;

static bool is_same(const vw__step_log_series *known, const seen *point)
{
    return known->form == point->form && known->kind == point->kind && known->rank == point->rank &&
           known->is_epoch == point->sighting->is_epoch &&
           known->has_unit == (point->memory.unit_bytes != 0) &&
           known->has_step == (point->sighting->step_weight != 0) &&
           strcmp(known->name, point->memory.name) == 0;
}

static vw__step_log_series *find_series(vw__step_log_series_set *set, const seen *point)
{
    vw__step_log_series *fewest = &set->all[0];
    for (size_t i = 0; i < set->count; i++) {
        if (is_same(&set->all[i], point))
            return &set->all[i];
        if (set->all[i].count < fewest->count)
            fewest = &set->all[i];
    }
    vw__step_log_series *made =
        set->count < VW__STEP_LOG_MOST_SERIES ? &set->all[set->count++] : fewest;
    vw__host_free(made->points);
    set->points_bytes -= made->capacity * sizeof *made->points;
    *made = (vw__step_log_series){
        .stride = 1,
        .form = point->form,
        .kind = point->kind,
        .is_plain = true,
        .is_bare = true,
        .rank = point->rank,
        .has_step = point->sighting->step_weight != 0,
        .has_unit = point->memory.unit_bytes != 0,
        .is_epoch = point->sighting->is_epoch,
    };
    memcpy(made->name, point->memory.name, sizeof made->name);
    return made;
}

static bool make_room(vw__step_log_series_set *set, vw__step_log_series *to)
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
    vw__step_log_raw_point *grown = vw__host_realloc(to->points, capacity * sizeof *grown);
    if (grown == NULL)
        return false;
    set->points_bytes += (capacity - to->capacity) * sizeof *grown;
    to->points = grown;
    to->capacity = capacity;
    return true;
}

_Static_assert(VW__STEP_LOG_MOST % FIRST_POINTS == 0 &&
                   (VW__STEP_LOG_MOST & (VW__STEP_LOG_MOST - 1)) == 0,
               "doubling arrives at the most there may be");

static void note_one(vw__step_log_series_set *set, const seen *point)
{
    const vw__step_log_reading *memory = &point->memory;
    vw__step_log_series *to = find_series(set, point);
    to->is_plain = to->is_plain && point->sighting->is_plain;
    to->is_bare = to->is_bare && point->sighting->is_bare;
    set->sighted_count++;
    to->found_count += point->line_weight;
    if (to->found_count <= to->next_kept)
        return;
    if (!make_room(set, to)) {
        set->has_failed = true;
        return;
    }
    if (set->most_stride < to->stride)
        set->most_stride = to->stride;
    to->next_kept += to->stride;
    double whole = (double)(uint64_t)memory->value;
    to->weight = memory->weight;
    to->is_peak = memory->is_peak;
    to->has_fraction = to->has_fraction || whole < memory->value;
    to->largest = memory->value > to->largest ? memory->value : to->largest;
    to->points[to->count] = (vw__step_log_raw_point){
        .step = to->has_step ? point->sighting->step : (double)(to->count * to->stride),
        .allocated = memory->value * (to->has_unit ? memory->unit_bytes : 1),
        .reserved = point->reserved >= 0
                        ? point->reserved * (to->has_unit ? point->reserved_unit_bytes : 1)
                        : -1,
    };
    to->count++;
}

/* Reserved memory counts as the card's where nothing else does; a unit that is given for one figure
 * holds for the other, too. Every other device that the line names is a rank of its own,
 * unless ranks are something else. */
static void note_card(vw__step_log_series_set *set, seen point)
{
    const vw__step_log_sighting *sighting = point.sighting;
    const vw__step_log_reading *reserved = &sighting->memory[VW__STEP_LOG_OF_RESERVED];
    if (point.memory.weight == 0) {
        point.memory = *reserved;
    } else if (reserved->weight != 0) {
        if (point.memory.unit_bytes == 0)
            point.memory.unit_bytes = reserved->unit_bytes;
        point.reserved = reserved->value;
        point.reserved_unit_bytes =
            reserved->unit_bytes != 0 ? reserved->unit_bytes : point.memory.unit_bytes;
    }
    note_one(set, &point);
    if (sighting->rank != sighting->memory[VW__STEP_LOG_OF_CARD].device)
        return;
    point.reserved = -1;
    for (size_t i = 0; i < sighting->device_count; i++) {
        point.rank = sighting->devices[i].device;
        point.memory.value = sighting->devices[i].value;
        point.memory.unit_bytes = sighting->devices[i].unit_bytes;
        note_one(set, &point);
    }
}

void vw__step_log_series_note(vw__step_log_series_set *set, vw__step_log_form form,
                              const vw__step_log_sighting *sighting, uint64_t line_weight)
{
    static const vw__step_log_memory apart[] = {VW__STEP_LOG_OF_FREE, VW__STEP_LOG_OF_SHARE};
    const vw__step_log_reading *memory = sighting->memory;
    seen point = {.form = form,
                  .rank = sighting->rank,
                  .sighting = sighting,
                  .memory = memory[VW__STEP_LOG_OF_CARD],
                  .reserved = -1,
                  .line_weight = line_weight};
    bool has_card =
        memory[VW__STEP_LOG_OF_CARD].weight != 0 || memory[VW__STEP_LOG_OF_RESERVED].weight != 0;
    if (has_card)
        note_card(set, point);
    for (size_t i = 0; i < sizeof apart / sizeof *apart && !has_card; i++)
        if (memory[apart[i]].weight != 0) {
            point.kind = apart[i];
            point.memory = memory[apart[i]];
            note_one(set, &point);
            break;
        }
    if (memory[VW__STEP_LOG_OF_HOST].weight != 0) {
        point.kind = VW__STEP_LOG_OF_HOST;
        point.memory = memory[VW__STEP_LOG_OF_HOST];
        note_one(set, &point);
    }
}

vw_status vw__step_log_series_status(const vw__step_log_series_set *set)
{
    return set->has_failed
               ? vw__fail_host_memory(VW__STEP_LOG_MOST * sizeof(vw__step_log_raw_point),
                                      "the points of a step log")
               : VW_OK;
}

/* ---- the result ------------------------------------------------------------------------------ */

/* A few lines that look like one, in a long text that does not, are no step log; those without a
 * step are taken for one even less. One or two that cannot be anything else are, where there is
 * nothing else but perhaps a header. */
static bool is_log(const vw__step_log_lines *lines, const vw__step_log_series *found)
{
    uint64_t share = found->is_bare ? LEAST_SHARE_BARE : LEAST_SHARE;
    bool is_much_of_it = found->found_count * share >= lines->count;
    bool is_many = found->has_step && found->found_count >= MANY_POINTS;
    uint64_t blank_count = lines->blank_count + (found->form == VW__STEP_LOG_FORM_TABLE);
    bool is_all =
        lines->count < VW__STEP_LOG_FEW_LINES && found->found_count + blank_count >= lines->count;
    if (found->found_count < VW__STEP_LOG_FEWEST)
        return found->is_plain && is_all;
    return is_many || is_much_of_it;
}

static bool is_better(const vw__step_log_series *one, const vw__step_log_series *other)
{
    if ((one->kind == VW__STEP_LOG_OF_HOST) != (other->kind == VW__STEP_LOG_OF_HOST))
        return other->kind == VW__STEP_LOG_OF_HOST;
    if (one->has_step != other->has_step)
        return one->has_step;
    if (one->found_count != other->found_count)
        return one->found_count > other->found_count;
    return one->weight > other->weight;
}

/* Where no unit was said. No card has 2^20 MB, and none that was ever sold 400 GB; whole numbers
 * below that are MB, since nobody watches memory in whole GB. */
static double guessed_unit_bytes(const vw__step_log_series *from)
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

/* Fractions of epochs mean little to people: the lines are counted instead. */
static bool has_fractions_of_epochs(const vw__step_log_series *from)
{
    bool has_fraction = false;
    for (size_t i = 0; i < from->count && from->is_epoch && !has_fraction; i++)
        has_fraction = (double)(uint64_t)from->points[i].step < from->points[i].step;
    return has_fraction;
}

/* `points` has room for all of them. */
static vw__step_log log_of(const vw__step_log_series *from, vw__step_log_point *points,
                           uint64_t line_count)
{
    double unit_bytes = from->kind == VW__STEP_LOG_OF_SHARE ? VW__STEP_LOG_SHARE_OF_ALL / 100.0
                                                            : guessed_unit_bytes(from);
    bool counts_lines = has_fractions_of_epochs(from);
    for (size_t i = 0; i < from->count; i++) {
        const vw__step_log_raw_point *point = &from->points[i];
        points[i] = (vw__step_log_point){
            .step = counts_lines ? (double)(i * from->stride) : point->step,
            .allocated_bytes = to_bytes(point->allocated * unit_bytes),
            .reserved_bytes = point->reserved >= 0 ? to_bytes(point->reserved * unit_bytes)
                                                   : VW__MODEL_UNKNOWN_BYTES,
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
        .is_host = from->kind == VW__STEP_LOG_OF_HOST,
        .is_free = from->kind == VW__STEP_LOG_OF_FREE,
        .is_share = from->kind == VW__STEP_LOG_OF_SHARE,
    };
    memcpy(log.memory_name, from->name, sizeof log.memory_name);
    return log;
}

/* The same on another rank, or the memory of the host. */
static bool goes_with(const vw__step_log_lines *lines, const vw__step_log_series *best,
                      const vw__step_log_series *other)
{
    if (other == best || other->found_count < VW__STEP_LOG_FEWEST)
        return false;
    if (other->kind == VW__STEP_LOG_OF_HOST && best->kind != VW__STEP_LOG_OF_HOST)
        return is_log(lines, other) && other->has_step == best->has_step;
    return other->kind == best->kind && other->form == best->form &&
           other->has_step == best->has_step && other->has_unit == best->has_unit &&
           other->rank != best->rank && other->found_count * 2 >= best->found_count &&
           strcmp(other->name, best->name) == 0;
}

static vw_status give_logs(vw__step_log_series_set *set, const vw__step_log_lines *lines,
                           const vw__step_log_series *best, vw__step_log *out)
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

vw_status vw__step_log_series_finish(vw__step_log_series_set *set, const vw__step_log_lines *lines,
                                     vw__step_log *out)
{
    VW__TRY(vw__step_log_series_status(set));
    const vw__step_log_series *best = NULL;
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

void vw__step_log_series_deinit(vw__step_log_series_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        vw__host_free(set->all[i].points);
    vw__host_free(set->result);
}
