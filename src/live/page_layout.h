/* page_layout.h - what a page looks like in shared memory, for its writer and its readers.
 *
 *   header          who the process is
 *   slot 0 ... 15   one device each: its values, then its log of steps
 *
 * Everything is 64-bit words in the machine's order, so that every load and store is atomic; texts
 * are words too. The header and each slot begin with a sequence number, odd while the writer is at
 * it: a reader copies the words and looks whether the number is what it was (watch/jobs_read.c).
 * The writer never waits.
 *
 * The file is as large as 16 slots and empty behind the slots in use: shared memory counts what was
 * touched, and looking at an empty part is touching it. So nobody looks at a slot before its room
 * was claimed: a full /dev/shm is then an error for the writer, and a signal for nobody. The header
 * says how many slots there are.
 *
 * The writer holds a lock on the file (of its open file description) for as long as it lives; the
 * kernel drops it whatever ends the process. A page without that lock is stale. The name carries
 * process and time, and never comes again.
 *
 * A change that readers of before could not follow raises HR__PAGE_VERSION. Fields are added at the
 * end of a slot's values, where there is room; their number is in the header. */
#ifndef HR_LIVE_PAGE_LAYOUT_H
#define HR_LIVE_PAGE_LAYOUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "headroom/live.h"

#define HR__PAGE_MAGIC UINT64_C(0x314556494c524824) /* "$HRLIVE1" */
#define HR__PAGE_NAME "headroom-live-"              /* then user, process, time */
#define HR__PAGE_PART_NAME "." HR__PAGE_NAME        /* until it is whole */
#define HR__PAGE_FOLDER "/dev/shm"

enum {
    HR__PAGE_VERSION = 1,
    HR__PAGE_SLOTS = 16,
    HR__PAGE_VALUES = 64, /* of which the first HR_LIVE_FIELD_COUNT are used */
    HR__PAGE_STEPS = 512,
    HR__PAGE_TEXT_WORDS = 8, /* 64 bytes, the terminating zero included */
    HR__PAGE_ALIGNMENT = 4096,
};

_Static_assert((int)HR_LIVE_FIELD_COUNT <= (int)HR__PAGE_VALUES,
               "the page has room for its fields");

typedef _Atomic uint64_t hr__page_word;

typedef struct hr__page_header {
    hr__page_word magic;
    hr__page_word version;
    hr__page_word slot_bytes; /* from one slot to the next */
    hr__page_word first_slot; /* its offset */
    hr__page_word value_count;
    hr__page_word step_capacity;
    hr__page_word process; /* in its own namespace */
    hr__page_word user;
    hr__page_word started_us; /* realtime */
    hr__page_word slot_count; /* in use: only rises, when a slot is whole */
    /* ---- from here on under `sequence` ---- */
    hr__page_word sequence;
    hr__page_word rank; /* as int64_t, -1 = none */
    hr__page_word local_rank;
    hr__page_word world_size;
    hr__page_word program[HR__PAGE_TEXT_WORDS];
    hr__page_word allocator[HR__PAGE_TEXT_WORDS];
    hr__page_word job[HR__PAGE_TEXT_WORDS];
    hr__page_word run[HR__PAGE_TEXT_WORDS];
    hr__page_word headroom_version[HR__PAGE_TEXT_WORDS];
} hr__page_header;

typedef struct hr__page_step {
    hr__page_word step;
    hr__page_word at_ns; /* monotonic */
    hr__page_word live_bytes;
    hr__page_word reserved_bytes;
} hr__page_step;

typedef struct hr__page_slot {
    hr__page_word sequence;
    hr__page_word device;
    hr__page_word updated_ns; /* monotonic */
    hr__page_word name[HR__PAGE_TEXT_WORDS];
    hr__page_word values[HR__PAGE_VALUES];
    hr__page_word steps_seen;  /* that were to be logged, those left out included */
    hr__page_word step_stride; /* of so many steps one is in the log: the first, and so on */
    hr__page_word step_count;  /* entries in the log */
    hr__page_step steps[HR__PAGE_STEPS];
} hr__page_slot;

enum {
    HR__PAGE_FIRST_SLOT = HR__PAGE_ALIGNMENT,
    HR__PAGE_SLOT_BYTES =
        (sizeof(hr__page_slot) + HR__PAGE_ALIGNMENT - 1) / HR__PAGE_ALIGNMENT * HR__PAGE_ALIGNMENT,
    HR__PAGE_BYTES = HR__PAGE_FIRST_SLOT + HR__PAGE_SLOTS * HR__PAGE_SLOT_BYTES,
};

_Static_assert(sizeof(hr__page_header) <= HR__PAGE_FIRST_SLOT, "the header fits before the slots");

static inline uint64_t hr__page_load(const hr__page_word *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static inline void hr__page_store(hr__page_word *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

/* What is told by a number that readers look at without a sequence: it is seen after all that was
 * stored before. */
static inline void hr__page_announce(hr__page_word *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
}

/* The sequence becomes odd before anything else is seen to change. */
static inline void hr__page_begin_write(hr__page_word *sequence)
{
    hr__page_store(sequence, hr__page_load(sequence) + 1);
    atomic_thread_fence(memory_order_release);
}

/* And even after everything else was. */
static inline void hr__page_end_write(hr__page_word *sequence)
{
    atomic_store_explicit(sequence, hr__page_load(sequence) + 1, memory_order_release);
}

static inline void hr__page_store_text(hr__page_word *words, const char *text)
{
    char bytes[HR__PAGE_TEXT_WORDS * sizeof(uint64_t)] = "";
    strncpy(bytes, text, sizeof bytes - 1);
    for (int i = 0; i < HR__PAGE_TEXT_WORDS; i++) {
        uint64_t word;
        memcpy(&word, bytes + (size_t)i * sizeof word, sizeof word);
        hr__page_store(&words[i], word);
    }
}

/* `text` has room for HR__PAGE_TEXT_WORDS words, and ends with a zero whatever the page holds. */
static inline void hr__page_load_text(const hr__page_word *words, char *text)
{
    for (int i = 0; i < HR__PAGE_TEXT_WORDS; i++) {
        uint64_t word = hr__page_load(&words[i]);
        memcpy(text + (size_t)i * sizeof word, &word, sizeof word);
    }
    text[HR__PAGE_TEXT_WORDS * sizeof(uint64_t) - 1] = '\0';
}

#endif /* HR_LIVE_PAGE_LAYOUT_H */
