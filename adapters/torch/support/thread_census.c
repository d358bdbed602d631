/* thread_census.c - see thread_census.h. */
#include "thread_census.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h> /* dl_iterate_phdr */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "device_idle.h" /* vw__driver_address, vw__devices_waiter */

#define MOST_STACK_BYTES (UINT64_C(64) << 20) /* a thread that is in deeper is left */

enum {
    MOST_THREADS = 4096,
    MOST_DRIVER_PARTS = 16,
    LISTINGS = 16, /* that are tried until two are the same */
    ENTRIES_BYTES = MOST_THREADS * 32,
    TEXT_BYTES = 16384, /* /proc/.../status: its list of groups may be long */
    CHUNK_WORDS = 2048,
};

/* ---- the system ------------------------------------------------------------------------------ */

static long read_file(const char *path, char *text, size_t capacity)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    size_t length = 0;
    ssize_t got = 1;
    while (length < capacity && got > 0) {
        got = read(file, text + length, capacity - length);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            length += (size_t)got;
    }
    int error = errno;
    close(file);
    errno = error;
    return got < 0 ? -1 : (long)length;
}

/* One call: the kernel goes on by position in a later one, and threads may have ended meanwhile. */
static long list_threads(char *entries, size_t capacity)
{
    char rest[64];
    int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return -1;
    long length = syscall(SYS_getdents64, folder, entries, capacity);
    long more = length > 0 ? syscall(SYS_getdents64, folder, rest, sizeof rest) : 0;
    int error = more != 0 ? EOVERFLOW : errno; /* EINVAL: not even one fits in `rest` */
    close(folder);
    errno = error;
    return more == 0 ? length : -1;
}

static long read_memory(uint64_t address, void *to, size_t size_bytes)
{
    struct iovec ours = {.iov_base = to, .iov_len = size_bytes};
    struct iovec there = {.iov_base = (void *)(uintptr_t)address, .iov_len = size_bytes};
    return process_vm_readv(getpid(), &ours, 1, &there, 1, 0);
}

static const vw__census_system real_system = {read_file, list_threads, read_memory};
static const vw__census_system *asked = &real_system;

const vw__census_system *vw__census_set_system(const vw__census_system *other)
{
    const vw__census_system *before = asked;
    asked = other != NULL ? other : &real_system;
    return before;
}

static int own_id(void)
{
    return (int)syscall(SYS_gettid);
}

/* ---- the driver's code ----------------------------------------------------------------------- */

typedef struct part {
    uint64_t begin, end;
} part;

static part driver_parts[MOST_DRIVER_PARTS];
static size_t driver_part_count;

static bool is_in_driver(uint64_t address)
{
    for (size_t i = 0; i < driver_part_count; i++)
        if (address >= driver_parts[i].begin && address < driver_parts[i].end)
            return true;
    return false;
}

/* A call pushes the address of what follows it. Two ways to write one on x86-64: E8 and a distance
 * of four bytes, or FF with 2 or 3 in the middle of the next byte, two to eight bytes in all. So
 * the address of a function, which a variable may hold, is told from a return into the driver. What
 * cannot be read counts as one. */
static bool may_be_return_to_driver(uint64_t address)
{
    enum { LONGEST_CALL = 8, NEAR_CALL = 5 };
    unsigned char code[LONGEST_CALL];
    if (!is_in_driver(address))
        return false;
    if (asked->read_memory(address - sizeof code, code, sizeof code) != (long)sizeof code ||
        code[LONGEST_CALL - NEAR_CALL] == 0xE8)
        return true;
    for (size_t i = 0; i + 1 < sizeof code; i++)
        if (code[i] == 0xFF && (code[i + 1] >> 4 & 3) == 1)
            return true;
    return false;
}

static bool is_named_as_driver(const char *path)
{
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    const char *name = slash != NULL ? slash + 1 : path;
    return name != NULL && strncmp(name, "libcuda.so", strlen("libcuda.so")) == 0;
}

static part part_of(const struct dl_phdr_info *object, size_t index)
{
    uint64_t begin = (uint64_t)object->dlpi_addr + object->dlpi_phdr[index].p_vaddr;
    return (part){begin, begin + object->dlpi_phdr[index].p_memsz};
}

static bool holds(const struct dl_phdr_info *object, uint64_t address)
{
    for (size_t i = 0; i < object->dlpi_phnum; i++) {
        part loaded = part_of(object, i);
        if (object->dlpi_phdr[i].p_type == PT_LOAD && address >= loaded.begin &&
            address < loaded.end)
            return true;
    }
    return false;
}

/* Not 0 where there is no room. */
static int note_driver(struct dl_phdr_info *object, size_t size, void *context)
{
    uint64_t within = (uint64_t)(uintptr_t)vw__driver_address();
    (void)size, (void)context;
    if (!is_named_as_driver(object->dlpi_name) && !(within != 0 && holds(object, within)))
        return 0;
    for (size_t i = 0; i < object->dlpi_phnum; i++) {
        if (object->dlpi_phdr[i].p_type != PT_LOAD || (object->dlpi_phdr[i].p_flags & PF_X) == 0)
            continue;
        if (driver_part_count == MOST_DRIVER_PARTS)
            return 1;
        driver_parts[driver_part_count++] = part_of(object, i);
    }
    return 0;
}

static bool find_driver(void)
{
    driver_part_count = 0;
    return dl_iterate_phdr(note_driver, NULL) == 0;
}

/* ---- where a stack begins -------------------------------------------------------------------- */

/* glibc keeps a record of each thread at the beginning of its stack, behind all its frames. The
 * record begins with its own address, has that again in its third word, and further on the thread's
 * id and the function it began with. Where these two are is found in a thread of our own. */
enum { RECORD_BYTES = 4096, SELF_AGAIN = 2 };

static size_t id_offset_bytes;
static size_t start_offset_bytes; /* 0: not known */
static uint64_t first_stack_end; /* of the process's first thread, which has no such record there */

static void *find_offsets(void *unused)
{
    const char *record = (const char *)pthread_self();
    uint64_t word = 0, self = (uint64_t)(uintptr_t)record;
    uint64_t begin = (uint64_t)(uintptr_t)&find_offsets;
    size_t most_bytes = RECORD_BYTES - self % RECORD_BYTES; /* a stack ends with a page */
    int id = own_id(), found = 0;
    (void)unused;
    char copy[RECORD_BYTES] = "";
    if (asked->read_memory(self, copy, most_bytes) != (long)most_bytes)
        return NULL;
    for (size_t at = 0; at + sizeof word <= most_bytes; at += sizeof id) {
        memcpy(&found, copy + at, sizeof found);
        memcpy(&word, copy + at, sizeof word);
        if (id_offset_bytes == 0 && found == id)
            id_offset_bytes = at;
        if (start_offset_bytes == 0 && word == begin && at % sizeof word == 0)
            start_offset_bytes = at;
    }
    return NULL;
}

static bool learn_records(void)
{
    void *const *stack_end = dlsym(RTLD_DEFAULT, "__libc_stack_end"); /* where frames begin */
    pthread_t thread;
    id_offset_bytes = 0;
    start_offset_bytes = 0;
    first_stack_end = stack_end != NULL ? (uint64_t)(uintptr_t)*stack_end : 0;
    if (pthread_create(&thread, NULL, find_offsets, NULL) != 0)
        return false;
    pthread_join(thread, NULL);
    return id_offset_bytes != 0 && first_stack_end != 0;
}

static bool is_record_of(int id, uint64_t address)
{
    uint64_t words[SELF_AGAIN + 1] = {0};
    int found = 0;
    return asked->read_memory(address, words, sizeof words) == (long)sizeof words &&
           words[0] == address && words[SELF_AGAIN] == address &&
           asked->read_memory(address + id_offset_bytes, &found, sizeof found) ==
               (long)sizeof found &&
           found == id;
}

static bool is_started_by_driver(uint64_t record)
{
    uint64_t start = 0;
    return start_offset_bytes != 0 &&
           asked->read_memory(record + start_offset_bytes, &start, sizeof start) ==
               (long)sizeof start &&
           is_in_driver(start);
}

/* ---- one thread ------------------------------------------------------------------------------ */

/* A thread that sleeps. */
typedef struct sleeper {
    uint64_t switch_count;
    char where[256]; /* the kernel's line: the call it is in, stack pointer, program counter */
    uint64_t stack, counter;
} sleeper;

/* What became of a question about a thread. */
typedef enum answer { IS_ANSWERED, IS_UNKNOWN, HAS_ENDED } answer;

static char text[TEXT_BYTES + 1];

static answer read_of_thread(int id, const char *file)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/%s", id, file);
    long length = asked->read_file(path, text, TEXT_BYTES);
    text[length > 0 ? length : 0] = '\0';
    if (length > 0)
        return IS_ANSWERED;
    return length < 0 && (errno == ENOENT || errno == ESRCH) ? HAS_ENDED : IS_UNKNOWN;
}

static answer add_number_after(const char *label, uint64_t *sum)
{
    const char *at = strstr(text, label);
    if (at == NULL)
        return IS_UNKNOWN;
    *sum += strtoull(at + strlen(label), NULL, 10);
    return IS_ANSWERED;
}

static answer read_switches(int id, sleeper *out)
{
    answer given = read_of_thread(id, "status");
    if (given == IS_ANSWERED && strstr(text, "\nState:\tZ") != NULL)
        given = HAS_ENDED;
    if (given == IS_ANSWERED)
        given = add_number_after("\nvoluntary_ctxt_switches:", &out->switch_count);
    if (given == IS_ANSWERED)
        given = add_number_after("\nnonvoluntary_ctxt_switches:", &out->switch_count);
    return given;
}

/* IS_UNKNOWN also where it does not sleep: the line is "running" then. */
static answer read_where(int id, sleeper *out)
{
    answer given = read_of_thread(id, "syscall");
    if (given != IS_ANSWERED)
        return given;
    snprintf(out->where, sizeof out->where, "%.255s", text); /* it is half as long */
    const char *counter = strrchr(out->where, ' ');
    if (counter == NULL)
        return IS_UNKNOWN;
    const char *stack = counter;
    while (stack != out->where && stack[-1] != ' ')
        stack--;
    out->stack = strtoull(stack, NULL, 16);
    out->counter = strtoull(counter, NULL, 16);
    return out->stack != 0 && out->stack % sizeof(uint64_t) == 0 ? IS_ANSWERED : IS_UNKNOWN;
}

/* False: the beginning of its stack was not found, or something there leads back to the driver. */
static bool is_stack_clear(int id, uint64_t stack)
{
    static uint64_t words[CHUNK_WORDS];
    bool is_first = id == getpid(), is_clear = true;
    uint64_t end = is_first ? first_stack_end : stack + MOST_STACK_BYTES;
    for (uint64_t address = stack; address < end; address += sizeof words) {
        uint64_t most = (end - address) / sizeof words[0];
        uint64_t count = most < CHUNK_WORDS ? most : CHUNK_WORDS;
        long got = asked->read_memory(address, words, (size_t)(count * sizeof words[0]));
        for (uint64_t i = 0; got > 0 && i < (uint64_t)got / sizeof words[0]; i++) {
            uint64_t at = address + i * sizeof words[0];
            if (!is_first && words[i] == at && is_record_of(id, at))
                return is_clear || is_started_by_driver(at);
            is_clear = is_clear && !may_be_return_to_driver(words[i]);
        }
        if (got != (long)(count * sizeof words[0]))
            return false;
    }
    return is_first && stack < end && is_clear;
}

/* A thread that ran between the two looks has gone to sleep again, which its switches show: they
 * are read before the first look and after the second. */
static bool is_outside(int id, vw__census_witness is_seen)
{
    sleeper before = {.switch_count = 0}, after = {.switch_count = 0};
    if (id == own_id() || id == vw__devices_waiter() || is_seen(id))
        return true;
    answer given = read_switches(id, &before);
    if (given == IS_ANSWERED)
        given = read_where(id, &before);
    if (given != IS_ANSWERED)
        return given == HAS_ENDED;
    if (is_in_driver(before.counter) || !is_stack_clear(id, before.stack))
        return false;
    return read_where(id, &after) == IS_ANSWERED && read_switches(id, &after) == IS_ANSWERED &&
           before.switch_count == after.switch_count && strcmp(before.where, after.where) == 0;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int left[MOST_THREADS]; /* not proven yet */
static size_t left_count;
static bool is_listed; /* since the beginning */

/* As the kernel has it, which is no type of the C library's. */
typedef struct entry {
    uint64_t inode;
    int64_t next;
    unsigned short size_bytes;
    unsigned char kind;
    char name[];
} entry;

/* False: they cannot be listed, or there are too many. */
static bool list(int *ids, size_t *count)
{
    static char entries[ENTRIES_BYTES];
    long length = asked->list_threads(entries, sizeof entries);
    *count = 0;
    for (long at = 0; at < length;) {
        unsigned short size_bytes = 0;
        memcpy(&size_bytes, entries + at + offsetof(entry, size_bytes), sizeof size_bytes);
        int id = atoi(entries + at + offsetof(entry, name)); /* 0: "." and ".." */
        if (id != 0 && *count == MOST_THREADS)
            return false;
        if (id != 0)
            ids[(*count)++] = id;
        at += size_bytes;
    }
    return length >= 0;
}

/* A listing ends early, or passes over a thread, where one that it had listed has ended meanwhile.
 * That one is not in the next: two that are the same have passed over nobody. */
static bool list_twice_the_same(void)
{
    static int before[MOST_THREADS];
    size_t before_count = 0;
    if (!list(left, &left_count))
        return false;
    for (int i = 0; i < LISTINGS; i++) {
        memcpy(before, left, left_count * sizeof left[0]);
        before_count = left_count;
        if (!list(left, &left_count))
            return false;
        if (left_count == before_count && memcmp(left, before, left_count * sizeof left[0]) == 0)
            return true;
    }
    return false;
}

/* Each question is asked once, about the thread itself: NULL, or what is not answered. */
static const char *find_obstacle(void)
{
    sleeper self = {.switch_count = 0};
    uint64_t word = 0;
    size_t count = 0;
#ifndef __x86_64__
    return "the stacks of threads can be read on x86-64 only";
#endif
    if (asked->read_memory((uint64_t)(uintptr_t)&self, &word, sizeof word) != (long)sizeof word)
        return "process_vm_readv() is not permitted";
    if (read_switches(own_id(), &self) != IS_ANSWERED ||
        read_of_thread(own_id(), "syscall") != IS_ANSWERED || !list(left, &count))
        return "/proc does not show what threads do";
    if (!learn_records())
        return "the C library's threads look unfamiliar";
    return find_driver() ? NULL : "the driver's library looks unfamiliar";
}

bool vw__census_begin(char *reason, size_t capacity)
{
    const char *obstacle = find_obstacle();
    is_listed = false;
    left_count = 0;
    if (obstacle != NULL)
        snprintf(reason, capacity, "%s", obstacle);
    return obstacle == NULL;
}

size_t vw__census_look(vw__census_witness is_seen)
{
    size_t kept = 0;
    is_listed = is_listed || list_twice_the_same();
    if (!is_listed)
        return vw__census_count();
    for (size_t i = 0; i < left_count; i++)
        if (!is_outside(left[i], is_seen))
            left[kept++] = left[i];
    left_count = kept;
    return left_count;
}

size_t vw__census_count(void)
{
    return is_listed ? left_count : 1; /* at least the one who asks */
}
