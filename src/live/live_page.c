/* live_page.c - making a page, filling it, removing it; see page_layout.h.
 *
 * The file gets its name once it is complete and locked: a reader never sees half a page, nor takes
 * one that is being made for stale. */
#include "live/live_page.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/file.h> /* flock */
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked_math.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fork_guard.h"
#include "base/host_memory.h"
#include "base/signal_guard.h"
#include "base/struct_size.h"
#include "vramwise/version.h"

/* ---- all pages of the process ---------------------------------------------------------------- */

static vw__mutex list_lock = VW__MUTEX_INIT(VW__LOCK_REGISTRY);
static vw_live_page *pages;

/* A child closes its copies of the files, which would keep the parent's locks after the parent's
 * end (so would copies of the mappings, which it does not get). fork() waits until no page is half
 * made, so that all are in the list. The child keeps them in its list, since calls may name them.
 */
static void hold_list(void)
{
    vw__mutex_lock(&list_lock);
}

static void let_list_go(void)
{
    vw__mutex_unlock(&list_lock);
}

static void close_files_in_child(void)
{
    for (vw_live_page *page = pages; page != NULL; page = page->next) {
        if (page->file >= 0)
            close(page->file);
        page->file = -1;
    }
    vw__mutex_unlock(&list_lock);
    vw__mutex_init(&list_lock, VW__LOCK_REGISTRY); /* those who waited for it are not here */
}

static void register_handlers(void)
{
    pthread_atfork(hold_list, let_list_go, close_files_in_child);
}

/* Under the lock. */
static void enlist(vw_live_page *page)
{
    page->next = pages;
    pages = page;
}

static void delist(const vw_live_page *page)
{
    vw_live_page **link = &pages;
    while (*link != NULL && *link != page)
        link = &(*link)->next;
    if (*link != NULL)
        *link = page->next;
}

/* ---- making one ------------------------------------------------------------------------------ */

static vw_status fail_file(const char *what, const char *path, int reason)
{
    return vw__fail(VW_ERR_FILE, "%s %s: %s", what, path, strerror(reason));
}

/* Makes the file `size_bytes` long if that is not 0, and claims a part of it. 0, or why there is no
 * room. */
static int take_room(int file, off_t size_bytes, off_t offset, off_t claimed_bytes)
{
    vw__signal_guard guard;
    vw__signal_guard_begin(&guard, VW__SIGNAL_GUARD_EVERY);
    int reason = size_bytes != 0 && ftruncate(file, size_bytes) != 0 ? errno : 0;
    if (reason == 0)
        reason = posix_fallocate(file, offset, claimed_bytes);
    vw__signal_guard_end(&guard, reason);
    return reason;
}

static int lock_for_life(int file)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(file, F_OFD_SETLK, &lock) == 0 ? 0 : errno;
}

/* From the kernel; by the clock where it has none yet, which others can guess at. */
static uint64_t new_key(void)
{
    uint64_t key;
    if (getrandom(&key, sizeof key, GRND_NONBLOCK) != (ssize_t)sizeof key)
        key = vw__clock_monotonic_ns();
    return key != 0 ? key : 1;
}

void vw__live_renew_request_key(const vw_live_page *page)
{
    vw__page_store(&page->header->request_key, new_key());
}

static void fill_header(vw__page_header *header)
{
    vw__page_store(&header->version, VW__PAGE_VERSION);
    vw__page_store(&header->slot_bytes, VW__PAGE_SLOT_BYTES);
    vw__page_store(&header->first_slot, VW__PAGE_FIRST_SLOT);
    vw__page_store(&header->value_count, VW_LIVE_FIELD_COUNT);
    vw__page_store(&header->step_capacity, VW__PAGE_STEPS);
    vw__page_store(&header->process, (uint64_t)getpid());
    vw__page_store(&header->user, (uint64_t)geteuid());
    vw__page_store(&header->started_us, vw__clock_realtime_us());
    vw__page_store(&header->rank, (uint64_t)-1);
    vw__page_store(&header->local_rank, (uint64_t)-1);
    vw__page_store_text(header->vramwise_version, VW_VERSION_STRING);
    vw__page_store(&header->request_key, new_key());
    vw__page_store(&header->magic, VW__PAGE_MAGIC);
}

/* `page` has its path and an open file of the name `part`. */
static vw_status make_file(vw_live_page *page, const char *part)
{
    int reason = take_room(page->file, VW__PAGE_BYTES, 0, VW__PAGE_FIRST_SLOT);
    if (reason != 0)
        return fail_file("no room in shared memory for", page->path, reason);
    void *memory = mmap(NULL, VW__PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, page->file, 0);
    if (memory == MAP_FAILED)
        return fail_file("cannot map", page->path, errno);
    page->header = memory;
    fill_header(page->header);
    reason = madvise(memory, VW__PAGE_BYTES, MADV_DONTFORK) == 0 ? 0 : errno;
    if (reason == 0)
        reason = lock_for_life(page->file);
    if (reason == 0 && rename(part, page->path) != 0)
        reason = errno;
    if (reason == 0)
        return VW_OK;
    (void)munmap(memory, VW__PAGE_BYTES);
    return fail_file("cannot make", page->path, reason);
}

/* The name of the page, and the name of the file until it is complete. */
static vw_status name_files(const char *folder, char **path, char **part)
{
    int length =
        snprintf(NULL, 0, "%s/" VW__PAGE_PART_NAME "%lu-%ld-%016llx", folder, ~0UL, ~0L, ~0ULL);
    size_t room = (size_t)length + 2;
    *path = vw__host_alloc(room);
    *part = vw__host_alloc(room);
    if (*path == NULL || *part == NULL) {
        vw__host_free(*path);
        vw__host_free(*part);
        return vw__fail_host_memory(2 * room, "the name of a page");
    }
    unsigned long user = (unsigned long)geteuid();
    long process = (long)getpid();
    unsigned long long now_ns = (unsigned long long)vw__clock_monotonic_ns();
    snprintf(*path, room, "%s/" VW__PAGE_NAME "%lu-%ld-%llx", folder, user, process, now_ns);
    snprintf(*part, room, "%s/" VW__PAGE_PART_NAME "%lu-%ld-%llx", folder, user, process, now_ns);
    return VW_OK;
}

/* Lets the folder's group read the page, whatever the umask is, and shows who holds it. */
static vw_status share_file(const vw_live_page *page)
{
    if (fchmod(page->file, S_IRUSR | S_IWUSR | S_IRGRP) != 0 ||
        flock(page->file, LOCK_EX | LOCK_NB) != 0)
        return fail_file("cannot share", page->path, errno);
    return VW_OK;
}

static vw_status open_page(vw_live_page *page, const char *part, bool is_shared)
{
    page->file = open(part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
    if (page->file < 0)
        return fail_file("cannot create", part, errno);
    vw_status status = is_shared ? share_file(page) : VW_OK;
    if (status == VW_OK)
        status = make_file(page, part);
    if (status != VW_OK) {
        (void)unlink(part);
        close(page->file);
    }
    return status;
}

/* No fork() happens between opening the file and adding the page to the list. */
static vw_status open_and_enlist(vw_live_page *page, const char *folder)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char *part = NULL;
    VW__TRY(name_files(folder, &page->path, &part));
    pthread_once(&once, register_handlers);
    vw__mutex_lock(&list_lock);
    vw_status status = open_page(page, part, vw__page_folder_is_shared(folder));
    if (status == VW_OK)
        enlist(page);
    vw__mutex_unlock(&list_lock);
    vw__host_free(part);
    if (status != VW_OK)
        vw__host_free(page->path);
    return status;
}

vw_status vw_live_page_create(const char *folder, const vw_live_identity *identity,
                              vw_live_page **out)
{
    if (out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a place for the page");
    vw_live_page *page = vw__host_alloc_zeroed(1, sizeof *page);
    if (page == NULL)
        return vw__fail_host_memory(sizeof *page, "a page");
    vw__fork_guard_start();
    vw__mutex_init(&page->lock, VW__LOCK_REGISTRY);
    page->fork_generation = vw__fork_generation();
    vw_status status = open_and_enlist(page, folder == NULL ? VW__PAGE_FOLDER : folder);
    if (status != VW_OK) {
        vw__host_free(page);
        return status;
    }
    if (identity != NULL)
        status = vw_live_page_identify(page, identity);
    if (status != VW_OK) {
        vw_live_page_destroy(page);
        return status;
    }
    *out = page;
    return VW_OK;
}

void vw_live_page_destroy(vw_live_page *page)
{
    if (page == NULL || page->fork_generation != vw__fork_generation())
        return;
    vw__mutex_lock(&list_lock);
    delist(page);
    (void)unlink(page->path);
    close(page->file);
    vw__mutex_unlock(&list_lock);
    (void)munmap(page->header, VW__PAGE_BYTES);
    vw__host_free(page->path);
    vw__host_free(page);
}

const char *vw_live_page_path(const vw_live_page *page)
{
    return page == NULL ? "" : page->path;
}

/* ---- filling it ------------------------------------------------------------------------------ */

static vw_status enter(const vw_live_page *page)
{
    if (page == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "the page is NULL");
    if (page->fork_generation != vw__fork_generation())
        return vw__fail(VW_ERR_WRONG_PROCESS, "the page belongs to the parent process");
    return VW_OK;
}

static void change_text(vw__page_word *words, const char *text)
{
    if (text != NULL)
        vw__page_store_text(words, text);
}

static void change_number(vw__page_word *word, int number, int none)
{
    if (number != none)
        vw__page_store(word, (uint64_t)(int64_t)number);
}

vw_status vw_live_page_identify(vw_live_page *page, const vw_live_identity *identity)
{
    VW__TRY(enter(page));
    vw_live_identity who = {.struct_size = sizeof who, .rank = -1, .local_rank = -1};
    if (identity == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected an identity, found NULL");
    VW__TRY(VW__STRUCT_IN(vw_live_identity, identity, &who));
    vw__page_header *header = page->header;
    vw__mutex_lock(&page->lock);
    vw__page_begin_write(&header->sequence);
    change_number(&header->rank, who.rank, -1);
    change_number(&header->local_rank, who.local_rank, -1);
    change_number(&header->world_size, who.world_size, 0);
    change_text(header->program, who.program);
    change_text(header->allocator, who.allocator);
    change_text(header->job, who.job);
    change_text(header->run, who.run);
    vw__page_end_write(&header->sequence);
    vw__mutex_unlock(&page->lock);
    return VW_OK;
}

/* Adds a slot for a device. Its room is claimed before anybody reads it. */
static vw_status add_slot(vw_live_page *page, int device, int number, vw__page_slot **out)
{
    if (number >= VW__PAGE_SLOTS)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "device %d is one more than the %d a page has room for", device,
                        VW__PAGE_SLOTS);
    vw__page_slot *slot = vw__live_slot(page, number);
    int reason = take_room(page->file, 0, (char *)slot - (char *)page->header, VW__PAGE_SLOT_BYTES);
    if (reason != 0)
        return fail_file("no room in shared memory for", page->path, reason);
    vw__page_store(&slot->device, (uint64_t)device);
    vw__page_store(&slot->step_stride, 1);
    for (int i = 0; i < VW__PAGE_VALUES; i++)
        vw__page_store(&slot->values[i], VW_LIVE_UNKNOWN);
    vw__page_announce(&page->header->slot_count, (uint64_t)number + 1);
    *out = slot;
    return VW_OK;
}

/* ---- what stands in the page ----------------------------------------------------------------- */

/* Other processes of the user can write to it: what they put there must not lead us out of it. */

static int slot_count_of(const vw_live_page *page)
{
    return (int)vw__min_u64(vw__page_load(&page->header->slot_count), VW__PAGE_SLOTS);
}

static uint64_t step_count_of(const vw__page_slot *slot)
{
    return vw__min_u64(vw__page_load(&slot->step_count), VW__PAGE_STEPS);
}

static uint64_t step_stride_of(const vw__page_slot *slot)
{
    return vw__max_u64(vw__page_load(&slot->step_stride), 1);
}

/* ---- writing it ------------------------------------------------------------------------------ */

/* The slot of a device, a new one if it has none. Under the lock. */
static vw_status find_slot(vw_live_page *page, int device, vw__page_slot **out)
{
    int count = slot_count_of(page);
    for (int i = 0; i < count; i++) {
        vw__page_slot *slot = vw__live_slot(page, i);
        if (vw__page_load(&slot->device) == (uint64_t)device) {
            *out = slot;
            return VW_OK;
        }
    }
    return add_slot(page, device, count, out);
}

static void store_values(vw__page_slot *slot, const uint64_t *values, size_t count)
{
    for (size_t i = 0; i < count && i < VW_LIVE_FIELD_COUNT; i++)
        if (values[i] != VW_LIVE_KEEP)
            vw__page_store(&slot->values[i], values[i]);
}

vw_status vw_live_page_put(vw_live_page *page, int device, const char *device_name,
                           const uint64_t *values, size_t count)
{
    VW__TRY(enter(page));
    if (device < 0 || (values == NULL && count > 0))
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a device from 0, and values");
    vw__page_slot *slot = NULL;
    vw__mutex_lock(&page->lock);
    vw_status status = find_slot(page, device, &slot);
    if (status == VW_OK) {
        vw__page_begin_write(&slot->sequence);
        change_text(slot->name, device_name);
        store_values(slot, values, count);
        vw__page_store(&slot->updated_ns, vw__clock_monotonic_ns());
        vw__page_end_write(&slot->sequence);
    }
    vw__mutex_unlock(&page->lock);
    return status;
}

static void copy_word(vw__page_word *to, const vw__page_word *from)
{
    vw__page_store(to, vw__page_load(from));
}

/* Drops every second entry of a full log. */
static void thin_out(vw__page_slot *slot)
{
    uint64_t count = step_count_of(slot);
    for (uint64_t i = 0; i < count; i += 2) {
        const vw__page_step *from = &slot->steps[i];
        vw__page_step *to = &slot->steps[i / 2];
        copy_word(&to->step, &from->step);
        copy_word(&to->at_ns, &from->at_ns);
        copy_word(&to->live_bytes, &from->live_bytes);
        copy_word(&to->reserved_bytes, &from->reserved_bytes);
    }
    vw__page_store(&slot->step_count, (count + 1) / 2);
    vw__page_store(&slot->step_stride, step_stride_of(slot) * 2);
}

/* Counts the calls, not the step numbers: a program may count in tens, or start again. */
static void log_step(vw__page_slot *slot, uint64_t step, uint64_t live_bytes,
                     uint64_t reserved_bytes)
{
    uint64_t seen = vw__page_load(&slot->steps_seen);
    vw__page_store(&slot->steps_seen, seen + 1);
    if (seen % step_stride_of(slot) != 0)
        return;
    if (step_count_of(slot) == VW__PAGE_STEPS) {
        thin_out(slot);
        if (seen % step_stride_of(slot) != 0)
            return;
    }
    uint64_t count = step_count_of(slot);
    if (count == VW__PAGE_STEPS) /* another process has changed it meanwhile */
        return;
    vw__page_step *entry = &slot->steps[count];
    vw__page_store(&entry->step, step);
    vw__page_store(&entry->at_ns, vw__clock_monotonic_ns());
    vw__page_store(&entry->live_bytes, live_bytes);
    vw__page_store(&entry->reserved_bytes, reserved_bytes);
    vw__page_store(&slot->step_count, count + 1);
}

vw_status vw_live_page_step(vw_live_page *page, int device, uint64_t step, uint64_t live_bytes,
                            uint64_t reserved_bytes)
{
    VW__TRY(enter(page));
    if (device < 0 || step == 0)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a device from 0, and a step from 1");
    vw__page_slot *slot = NULL;
    vw__mutex_lock(&page->lock);
    vw_status status = find_slot(page, device, &slot);
    if (status == VW_OK) {
        vw__page_begin_write(&slot->sequence);
        log_step(slot, step, live_bytes, reserved_bytes);
        vw__page_end_write(&slot->sequence);
    }
    vw__mutex_unlock(&page->lock);
    return status;
}
