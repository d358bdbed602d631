/* page_layout.h - the layout of a page in shared memory, for its writer and its readers.
 *
 *   header          who the process is
 *   slot 0 ... 15   one device each: its values, then its log of steps
 *
 * Everything is 64-bit words in the machine's order, so that every load and store is atomic; texts
 * are words too. The header and each slot begin with a sequence number, which is odd while the
 * writer changes them: a reader copies the words and checks that the number did not change
 * (watch/jobs_read.c). The writer never waits.
 *
 * The file has room for 16 slots and is empty after those in use: shared memory is charged when it
 * is touched, even by reading. So nobody reads a slot before its room was claimed: a full /dev/shm
 * is then an error for the writer, and a signal for nobody. The header has the number of slots.
 *
 * The writer holds a lock on the file (of its open file description) as long as it lives; the
 * kernel drops it however the process ends. A page without that lock is stale. The name contains
 * process and time, and is never used again.
 *
 * A folder may be meant for the pages of all users: it is sticky, so that nobody removes another's
 * page, and gives its group to new files. That group may then read the page (mode 0640); in any
 * other folder nobody but the owner may (0600). There the writer also holds a flock(), by which the
 * kernel tells readers the number that the process has in their own namespace (/proc/locks).
 *
 * VW__PAGE_VERSION rises with every change that older readers cannot follow. New fields go to the
 * end of a slot's values, where there is room; their number is in the header. */
#ifndef VW_LIVE_PAGE_LAYOUT_H
#define VW_LIVE_PAGE_LAYOUT_H

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "vramwise/live.h"

#define VW__PAGE_MAGIC UINT64_C(0x314556494c575624)         /* "$VWLIVE1" */
#define VW__PAGE_NAME "vramwise-live-"                      /* then user, process, time */
#define VW__PAGE_PART_NAME "." VW__PAGE_NAME                /* until it is whole */
#define VW__PAGE_REQUEST_NAME "vramwise-ask-"               /* then as its page, and the key */
#define VW__PAGE_REQUEST_MAGIC UINT64_C(0x31204b5341575624) /* "$VWASK 1" */
#define VW__PAGE_FOLDER "/dev/shm"
#define VW__PAGE_SHARED_FOLDER "/run/vramwise" /* for the pages of all users */

enum {
    VW__PAGE_VERSION = 1,
    VW__PAGE_SLOTS = 16,
    VW__PAGE_VALUES = 64, /* of which the first VW_LIVE_FIELD_COUNT are used */
    VW__PAGE_STEPS = 512,
    VW__PAGE_TEXT_WORDS = 8, /* 64 bytes, the terminating zero included */
    VW__PAGE_ALIGNMENT = 4096,
    VW__PAGE_PATH_BYTES = 4096,
    VW__PAGE_REGION_BYTES = 48,
    VW__PAGE_ANSWER_OFFSET = 64,
};

_Static_assert((int)VW_LIVE_FIELD_COUNT <= (int)VW__PAGE_VALUES,
               "the page has room for its fields");

typedef _Atomic uint64_t vw__page_word;

typedef struct vw__page_header {
    vw__page_word magic;
    vw__page_word version;
    vw__page_word slot_bytes; /* from one slot to the next */
    vw__page_word first_slot; /* its offset */
    vw__page_word value_count;
    vw__page_word step_capacity;
    vw__page_word process; /* in its own namespace */
    vw__page_word user;
    vw__page_word started_us; /* realtime */
    vw__page_word slot_count; /* in use: only rises, when a slot is whole */
    /* ---- from here on under `sequence` ---- */
    vw__page_word sequence;
    vw__page_word rank; /* as int64_t, -1 = none */
    vw__page_word local_rank;
    vw__page_word world_size;
    vw__page_word program[VW__PAGE_TEXT_WORDS];
    vw__page_word allocator[VW__PAGE_TEXT_WORDS];
    vw__page_word job[VW__PAGE_TEXT_WORDS];
    vw__page_word run[VW__PAGE_TEXT_WORDS];
    vw__page_word vramwise_version[VW__PAGE_TEXT_WORDS];
    /* ---- by itself ---- */
    vw__page_word request_key; /* at the end of the next request's name; 0: that has no key */
} vw__page_header;

typedef struct vw__page_step {
    vw__page_word step;
    vw__page_word at_ns; /* monotonic */
    vw__page_word live_bytes;
    vw__page_word reserved_bytes;
} vw__page_step;

typedef struct vw__page_slot {
    vw__page_word sequence;
    vw__page_word device;
    vw__page_word updated_ns; /* monotonic */
    vw__page_word name[VW__PAGE_TEXT_WORDS];
    vw__page_word values[VW__PAGE_VALUES];
    vw__page_word steps_seen;  /* that were to be logged, those left out included */
    vw__page_word step_stride; /* of so many steps one is in the log: the first, and so on */
    vw__page_word step_count;  /* entries in the log */
    vw__page_step steps[VW__PAGE_STEPS];
} vw__page_slot;

enum {
    VW__PAGE_FIRST_SLOT = VW__PAGE_ALIGNMENT,
    VW__PAGE_SLOT_BYTES =
        (sizeof(vw__page_slot) + VW__PAGE_ALIGNMENT - 1) / VW__PAGE_ALIGNMENT * VW__PAGE_ALIGNMENT,
    VW__PAGE_BYTES = VW__PAGE_FIRST_SLOT + VW__PAGE_SLOTS * VW__PAGE_SLOT_BYTES,
};

_Static_assert(sizeof(vw__page_header) <= VW__PAGE_FIRST_SLOT, "the header fits before the slots");

static inline uint64_t vw__page_load(const vw__page_word *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static inline void vw__page_store(vw__page_word *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

/* For a number that readers load without a sequence: they see it after everything that was stored
 * before. */
static inline void vw__page_announce(vw__page_word *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
}

/* The sequence becomes odd before anything else is seen to change. */
static inline void vw__page_begin_write(vw__page_word *sequence)
{
    vw__page_store(sequence, vw__page_load(sequence) + 1);
    atomic_thread_fence(memory_order_release);
}

/* The sequence becomes even after all changes are seen. */
static inline void vw__page_end_write(vw__page_word *sequence)
{
    atomic_store_explicit(sequence, vw__page_load(sequence) + 1, memory_order_release);
}

static inline void vw__page_store_text(vw__page_word *words, const char *text)
{
    char bytes[VW__PAGE_TEXT_WORDS * sizeof(uint64_t)] = "";
    strncpy(bytes, text, sizeof bytes - 1);
    for (int i = 0; i < VW__PAGE_TEXT_WORDS; i++) {
        uint64_t word;
        memcpy(&word, bytes + (size_t)i * sizeof word, sizeof word);
        vw__page_store(&words[i], word);
    }
}

/* `text` has room for VW__PAGE_TEXT_WORDS words, and ends with a zero whatever the page holds. */
static inline void vw__page_load_text(const vw__page_word *words, char *text)
{
    for (int i = 0; i < VW__PAGE_TEXT_WORDS; i++) {
        uint64_t word = vw__page_load(&words[i]);
        memcpy(text + (size_t)i * sizeof word, &word, sizeof word);
    }
    text[VW__PAGE_TEXT_WORDS * sizeof(uint64_t) - 1] = '\0';
}

/* Returns whether pages in `folder` are for its group to read, too. */
static inline bool vw__page_folder_is_shared(const char *folder)
{
    struct stat facts;
    return stat(folder, &facts) == 0 && S_ISDIR(facts.st_mode) &&
           (facts.st_mode & (S_ISVTX | S_ISGID)) == (S_ISVTX | S_ISGID);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* A file beside the page, with what is asked of its process, and later the answer behind it. Who
 * asks holds a lock on it, as the writer of the page does, until the answer is there. */
typedef struct vw__page_request {
    uint64_t magic;
    uint64_t is_wake;                   /* 0: park, 1: wake */
    char region[VW__PAGE_REGION_BYTES]; /* "": everything */
} vw__page_request;

typedef struct vw__page_answer {
    uint64_t magic;  /* written last */
    uint64_t status; /* vw_status */
    uint64_t moved_bytes;
    uint64_t wait_ns;
    char text[1024]; /* why, where it failed */
} vw__page_answer;

_Static_assert(sizeof(vw__page_request) <= VW__PAGE_ANSWER_OFFSET, "the answer is behind it");

/* The name of the request's file, by that of the page and its key. Only who may read the page knows
 * the key, and it changes with each request: nobody else can take the name beforehand. False: it
 * does not fit, or is no page's. */
static inline bool vw__page_request_path(const char *page_path, uint64_t key, char *path,
                                         size_t capacity)
{
    char ending[24] = "";
    const char *slash = strrchr(page_path, '/');
    size_t folder_length = slash != NULL ? (size_t)(slash - page_path) : 0;
    const char *name = slash != NULL ? slash + 1 : "";
    size_t prefix_length = sizeof VW__PAGE_NAME - 1;
    if (strncmp(name, VW__PAGE_NAME, prefix_length) != 0)
        return false;
    if (key != 0)
        snprintf(ending, sizeof ending, "-%016" PRIx64, key);
    int length = snprintf(path, capacity, "%.*s/" VW__PAGE_REQUEST_NAME "%s%s", (int)folder_length,
                          page_path, name + prefix_length, ending);
    return length > 0 && (size_t)length < capacity;
}

#endif /* VW_LIVE_PAGE_LAYOUT_H */
