/* step_log_fields.h - what a name and a number of a log mean together.
 *
 * Every form of step log comes down to fields: a name ("max_mem", "memory/allocated (GiB)", "GPU
 * memory allocated") and a number, with a unit or without. The name's words say whether it is a
 * step, memory, or neither (step_log_fields.c); of several candidates in one line the best is kept
 * in a *sighting* (step_log_sighting.c). Numbers are read in step_log_numbers.c. */
#ifndef VW_FORMAT_STEP_LOG_FIELDS_H
#define VW_FORMAT_STEP_LOG_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include "format/step_log.h" /* VW__STEP_LOG_NAME_BYTES */

typedef enum vw__field_kind {
    VW__FIELD_NONE,    /* no words at all */
    VW__FIELD_UNKNOWN, /* words that mean nothing here */
    VW__FIELD_OTHER,   /* something else for certain: time, loss, a file */
    VW__FIELD_STEP,
    VW__FIELD_EPOCH,
    VW__FIELD_ALLOCATED,
    VW__FIELD_RESERVED,
    VW__FIELD_HOST, /* memory of the host: cpu mem, rss */
    VW__FIELD_FREE, /* memory of the card that nobody uses */
    VW__FIELD_RANK
} vw__field_kind;

typedef struct vw__field {
    vw__field_kind kind;
    int weight;        /* among fields of its kind the heavier one is believed */
    double unit_bytes; /* said by the name; 0 = not said */
    bool needs_unit;   /* memory only if the number has a unit: "gpu", "peak" */
    bool may_be_rank;  /* "gpu" with a whole number */
    bool is_peak;
    bool has_more;    /* words that mean nothing here */
    int device;       /* gpu.1.memory: 1; -1 = not said */
    const char *name; /* the part of the name that matters; borrowed */
    size_t name_bytes;
} vw__field;

/* How a number was written. */
typedef struct vw__written_number {
    double value;
    double unit_bytes;    /* 0 = none */
    bool is_whole;        /* no point, no exponent */
    bool has_letter_unit; /* G or M alone, which stand for other things, too */
    bool is_percent;      /* and is_other */
    bool is_other;        /* a percentage, a rate, a time, a count with a unit of its own */
    size_t size_bytes;    /* of the text, the unit included */
} vw__written_number;

/* Memory that is not what is allocated or reserved on the card, and a series of its own. */
typedef struct vw__reading {
    double value, unit_bytes; /* 0 = not said */
    int weight;               /* 0 = not seen */
    bool is_peak;
    char name[VW__STEP_LOG_NAME_BYTES];
} vw__reading;

/* Allocated on another device of the same line. */
typedef struct vw__device_reading {
    double value, unit_bytes;
    int weight, device;
} vw__device_reading;

enum { VW__SIGHTING_MOST_DEVICES = 7 }; /* besides the first */

typedef struct vw__sighting {
    double step, allocated, reserved;
    double allocated_unit_bytes, reserved_unit_bytes;   /* 0 = not said */
    int step_weight, allocated_weight, reserved_weight; /* 0 = not seen */
    int rank;                                           /* -1 = not said */
    int device;        /* that the next figure is of, where its name does not say; -1 */
    int memory_device; /* that `allocated` is of; -1 = not said */
    size_t device_count;
    vw__device_reading devices[VW__SIGHTING_MOST_DEVICES];
    bool is_epoch, is_peak;
    bool is_plain; /* a step and memory and nothing else: one such line is a step log */
    bool is_bare;  /* a size and nothing else */
    char name[VW__STEP_LOG_NAME_BYTES];
    vw__reading host, free, share; /* the last in percent of the card */
} vw__sighting;

/* What the words of a name say. `name` need not end in a zero. */
vw__field vw__field_of_name(const char *name, size_t size_bytes);

/* How much the words of a part of a line say besides steps, times and losses; words that are
 * attached to a number (3.21GB) are not looked at. */
typedef enum vw__talk {
    VW__TALK_OF_STEPS,  /* nothing */
    VW__TALK_OF_MEMORY, /* words of memory */
    VW__TALK_OF_ELSE,   /* words that mean nothing here */
    VW__TALK_OF_FILES   /* checkpoints, downloads, disks */
} vw__talk;

vw__talk vw__talk_of(const char *text, size_t size_bytes);

/* Reads the number at `text`, which begins with a digit, or a point before one. Groups of three
 * digits with commas are read where `has_groups`. */
vw__written_number vw__read_number(const char *text, size_t size_bytes, bool has_groups);

void vw__sighting_init(vw__sighting *sighting);
void vw__sighting_offer(vw__sighting *sighting, const vw__field *field,
                        const vw__written_number *number);

/* What `other` saw and `sighting` did not, or less well. */
void vw__sighting_merge(vw__sighting *sighting, const vw__sighting *other);

static inline bool vw__sighting_has_memory(const vw__sighting *sighting)
{
    return sighting->allocated_weight != 0 || sighting->reserved_weight != 0 ||
           sighting->host.weight != 0 || sighting->free.weight != 0 || sighting->share.weight != 0;
}

#endif /* VW_FORMAT_STEP_LOG_FIELDS_H */
