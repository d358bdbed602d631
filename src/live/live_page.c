/* live_page.c - making a page, filling it, removing it; see page_layout.h.
 *
 * The file gets its name when it is whole and locked: a reader never sees half a page, nor takes
 * one that is being made for a stale one. */
#include "live/live_page.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fork_guard.h"
#include "base/host_memory.h"
#include "headroom/version.h"

/* ---- all pages of the process ---------------------------------------------------------------- */

static hr__mutex list_lock = HR__MUTEX_INIT(HR__LOCK_REGISTRY);
static hr_live_page *pages;

/* A child's copies of the files would keep the parent's locks after the parent's end (and so would
 * its copies of the mappings, which it does not get). fork() waits until no page is half made, so
 * that the list has them all. They stay in the child's list, since someone may ask of them. */
static void hold_list(void)
{
    hr__mutex_lock(&list_lock);
}

static void let_list_go(void)
{
    hr__mutex_unlock(&list_lock);
}

static void close_files_in_child(void)
{
    for (hr_live_page *page = pages; page != NULL; page = page->next) {
        if (page->file >= 0)
            close(page->file);
        page->file = -1;
    }
    hr__mutex_unlock(&list_lock);
}

static void register_handlers(void)
{
    pthread_atfork(hold_list, let_list_go, close_files_in_child);
}

/* Under the lock. */
static void enlist(hr_live_page *page)
{
    page->next = pages;
    pages = page;
}

static void delist(const hr_live_page *page)
{
    hr_live_page **link = &pages;
    while (*link != NULL && *link != page)
        link = &(*link)->next;
    if (*link != NULL)
        *link = page->next;
}

/* ---- making one ------------------------------------------------------------------------------ */

static hr_status fail_file(const char *what, const char *path, int reason)
{
    return hr__fail(HR_ERR_FILE, "%s %s: %s", what, path, strerror(reason));
}

/* Makes the file `size_bytes` long if that is not 0, and claims a part of it. A file that is larger
 * than the process may write (ulimit -f) is a signal that ends programs, and here only an answer.
 */
static int take_room(int file, off_t size_bytes, off_t offset, off_t claimed_bytes)
{
    const struct timespec at_once = {0};
    sigset_t too_large, before, waiting;
    sigemptyset(&too_large);
    sigaddset(&too_large, SIGXFSZ);
    (void)sigpending(&waiting);
    if (pthread_sigmask(SIG_BLOCK, &too_large, &before) != 0)
        return EAGAIN;
    int reason = size_bytes != 0 && ftruncate(file, size_bytes) != 0 ? errno : 0;
    if (reason == 0)
        reason = posix_fallocate(file, offset, claimed_bytes);
    if (reason == EFBIG && !sigismember(&waiting, SIGXFSZ)) /* not somebody else's */
        (void)sigtimedwait(&too_large, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return reason;
}

static int lock_for_life(int file)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(file, F_OFD_SETLK, &lock) == 0 ? 0 : errno;
}

static void fill_header(hr__page_header *header)
{
    hr__page_store(&header->version, HR__PAGE_VERSION);
    hr__page_store(&header->slot_bytes, HR__PAGE_SLOT_BYTES);
    hr__page_store(&header->first_slot, HR__PAGE_FIRST_SLOT);
    hr__page_store(&header->value_count, HR_LIVE_FIELD_COUNT);
    hr__page_store(&header->step_capacity, HR__PAGE_STEPS);
    hr__page_store(&header->process, (uint64_t)getpid());
    hr__page_store(&header->user, (uint64_t)geteuid());
    hr__page_store(&header->started_us, hr__clock_realtime_us());
    hr__page_store(&header->rank, (uint64_t)-1);
    hr__page_store(&header->local_rank, (uint64_t)-1);
    hr__page_store_text(header->headroom_version, HR_VERSION_STRING);
    hr__page_store(&header->magic, HR__PAGE_MAGIC);
}

/* `page` has its path and an open file of the name `part`. */
static hr_status make_file(hr_live_page *page, const char *part)
{
    int reason = take_room(page->file, HR__PAGE_BYTES, 0, HR__PAGE_FIRST_SLOT);
    if (reason != 0)
        return fail_file("no room in shared memory for", page->path, reason);
    void *memory = mmap(NULL, HR__PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, page->file, 0);
    if (memory == MAP_FAILED)
        return fail_file("cannot map", page->path, errno);
    page->header = memory;
    fill_header(page->header);
    reason = madvise(memory, HR__PAGE_BYTES, MADV_DONTFORK) == 0 ? 0 : errno;
    if (reason == 0)
        reason = lock_for_life(page->file);
    if (reason == 0 && rename(part, page->path) != 0)
        reason = errno;
    if (reason == 0)
        return HR_OK;
    (void)munmap(memory, HR__PAGE_BYTES);
    return fail_file("cannot make", page->path, reason);
}

/* The names: of the page, and of what it is until then. */
static hr_status name_files(const char *folder, char **path, char **part)
{
    int length =
        snprintf(NULL, 0, "%s/" HR__PAGE_PART_NAME "%lu-%ld-%016llx", folder, ~0UL, ~0L, ~0ULL);
    size_t room = (size_t)length + 2;
    *path = hr__host_alloc(room);
    *part = hr__host_alloc(room);
    if (*path == NULL || *part == NULL) {
        hr__host_free(*path);
        hr__host_free(*part);
        return hr__fail_host_memory(2 * room, "the name of a page");
    }
    unsigned long user = (unsigned long)geteuid();
    long process = (long)getpid();
    unsigned long long now_ns = (unsigned long long)hr__clock_monotonic_ns();
    snprintf(*path, room, "%s/" HR__PAGE_NAME "%lu-%ld-%llx", folder, user, process, now_ns);
    snprintf(*part, room, "%s/" HR__PAGE_PART_NAME "%lu-%ld-%llx", folder, user, process, now_ns);
    return HR_OK;
}

static hr_status open_page(hr_live_page *page, const char *part)
{
    page->file = open(part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (page->file < 0)
        return fail_file("cannot create", part, errno);
    hr_status status = make_file(page, part);
    if (status != HR_OK) {
        (void)unlink(part);
        close(page->file);
    }
    return status;
}

/* From its file to its place in the list no fork() comes between. */
static hr_status open_and_enlist(hr_live_page *page, const char *folder)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char *part = NULL;
    HR__TRY(name_files(folder, &page->path, &part));
    pthread_once(&once, register_handlers);
    hr__mutex_lock(&list_lock);
    hr_status status = open_page(page, part);
    if (status == HR_OK)
        enlist(page);
    hr__mutex_unlock(&list_lock);
    hr__host_free(part);
    if (status != HR_OK)
        hr__host_free(page->path);
    return status;
}

hr_status hr_live_page_create(const char *folder, const hr_live_identity *identity,
                              hr_live_page **out)
{
    if (out == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "expected a place for the page");
    hr_live_page *page = hr__host_alloc_zeroed(1, sizeof *page);
    if (page == NULL)
        return hr__fail_host_memory(sizeof *page, "a page");
    hr__fork_guard_start();
    hr__mutex_init(&page->lock, HR__LOCK_REGISTRY);
    page->fork_generation = hr__fork_generation();
    hr_status status = open_and_enlist(page, folder == NULL ? HR__PAGE_FOLDER : folder);
    if (status != HR_OK) {
        hr__host_free(page);
        return status;
    }
    if (identity != NULL)
        status = hr_live_page_identify(page, identity);
    if (status != HR_OK) {
        hr_live_page_destroy(page);
        return status;
    }
    *out = page;
    return HR_OK;
}

void hr_live_page_destroy(hr_live_page *page)
{
    if (page == NULL || page->fork_generation != hr__fork_generation())
        return;
    hr__mutex_lock(&list_lock);
    delist(page);
    (void)unlink(page->path);
    close(page->file);
    hr__mutex_unlock(&list_lock);
    (void)munmap(page->header, HR__PAGE_BYTES);
    hr__host_free(page->path);
    hr__host_free(page);
}

const char *hr_live_page_path(const hr_live_page *page)
{
    return page == NULL ? "" : page->path;
}

/* ---- filling it ------------------------------------------------------------------------------ */

static hr_status enter(const hr_live_page *page)
{
    if (page == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "the page is NULL");
    if (page->fork_generation != hr__fork_generation())
        return hr__fail(HR_ERR_WRONG_PROCESS, "the page belongs to the parent process");
    return HR_OK;
}

static void change_text(hr__page_word *words, const char *text)
{
    if (text != NULL)
        hr__page_store_text(words, text);
}

static void change_number(hr__page_word *word, int number, int none)
{
    if (number != none)
        hr__page_store(word, (uint64_t)(int64_t)number);
}

hr_status hr_live_page_identify(hr_live_page *page, const hr_live_identity *identity)
{
    HR__TRY(enter(page));
    if (identity == NULL || identity->struct_size < sizeof *identity)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "expected an identity of %zu bytes",
                        sizeof *identity);
    hr__page_header *header = page->header;
    hr__mutex_lock(&page->lock);
    hr__page_begin_write(&header->sequence);
    change_number(&header->rank, identity->rank, -1);
    change_number(&header->local_rank, identity->local_rank, -1);
    change_number(&header->world_size, identity->world_size, 0);
    change_text(header->program, identity->program);
    change_text(header->allocator, identity->allocator);
    change_text(header->job, identity->job);
    change_text(header->run, identity->run);
    hr__page_end_write(&header->sequence);
    hr__mutex_unlock(&page->lock);
    return HR_OK;
}

/* A slot for a device that has none. Its room is claimed before anybody looks at it. */
static hr_status add_slot(hr_live_page *page, int device, int number, hr__page_slot **out)
{
    if (number >= HR__PAGE_SLOTS)
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "device %d is one more than the %d a page has room for", device,
                        HR__PAGE_SLOTS);
    hr__page_slot *slot = hr__live_slot(page, number);
    int reason = take_room(page->file, 0, (char *)slot - (char *)page->header, HR__PAGE_SLOT_BYTES);
    if (reason != 0)
        return fail_file("no room in shared memory for", page->path, reason);
    hr__page_store(&slot->device, (uint64_t)device);
    hr__page_store(&slot->step_stride, 1);
    for (int i = 0; i < HR__PAGE_VALUES; i++)
        hr__page_store(&slot->values[i], HR_LIVE_UNKNOWN);
    hr__page_announce(&page->header->slot_count, (uint64_t)number + 1);
    *out = slot;
    return HR_OK;
}

/* Under the lock: the slot of a device, a fresh one if it has none. */
static hr_status find_slot(hr_live_page *page, int device, hr__page_slot **out)
{
    int count = (int)hr__page_load(&page->header->slot_count);
    for (int i = 0; i < count; i++) {
        hr__page_slot *slot = hr__live_slot(page, i);
        if (hr__page_load(&slot->device) == (uint64_t)device) {
            *out = slot;
            return HR_OK;
        }
    }
    return add_slot(page, device, count, out);
}

static void store_values(hr__page_slot *slot, const uint64_t *values, size_t count)
{
    for (size_t i = 0; i < count && i < HR_LIVE_FIELD_COUNT; i++)
        if (values[i] != HR_LIVE_KEEP)
            hr__page_store(&slot->values[i], values[i]);
}

hr_status hr_live_page_put(hr_live_page *page, int device, const char *device_name,
                           const uint64_t *values, size_t count)
{
    HR__TRY(enter(page));
    if (device < 0 || (values == NULL && count > 0))
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "expected a device from 0, and values");
    hr__page_slot *slot = NULL;
    hr__mutex_lock(&page->lock);
    hr_status status = find_slot(page, device, &slot);
    if (status == HR_OK) {
        hr__page_begin_write(&slot->sequence);
        change_text(slot->name, device_name);
        store_values(slot, values, count);
        hr__page_store(&slot->updated_ns, hr__clock_monotonic_ns());
        hr__page_end_write(&slot->sequence);
    }
    hr__mutex_unlock(&page->lock);
    return status;
}

static void copy_word(hr__page_word *to, const hr__page_word *from)
{
    hr__page_store(to, hr__page_load(from));
}

/* The log is full: of two entries the second goes. */
static void thin_out(hr__page_slot *slot)
{
    uint64_t count = hr__page_load(&slot->step_count);
    for (uint64_t i = 0; i < count; i += 2) {
        const hr__page_step *from = &slot->steps[i];
        hr__page_step *to = &slot->steps[i / 2];
        copy_word(&to->step, &from->step);
        copy_word(&to->at_ns, &from->at_ns);
        copy_word(&to->live_bytes, &from->live_bytes);
        copy_word(&to->reserved_bytes, &from->reserved_bytes);
    }
    hr__page_store(&slot->step_count, (count + 1) / 2);
    hr__page_store(&slot->step_stride, hr__page_load(&slot->step_stride) * 2);
}

/* By how many steps came, not by their numbers: a program may count in tens, or begin again. */
static void log_step(hr__page_slot *slot, uint64_t step, uint64_t live_bytes,
                     uint64_t reserved_bytes)
{
    uint64_t seen = hr__page_load(&slot->steps_seen);
    hr__page_store(&slot->steps_seen, seen + 1);
    if (seen % hr__page_load(&slot->step_stride) != 0)
        return;
    if (hr__page_load(&slot->step_count) == HR__PAGE_STEPS) {
        thin_out(slot);
        if (seen % hr__page_load(&slot->step_stride) != 0)
            return;
    }
    uint64_t count = hr__page_load(&slot->step_count);
    hr__page_step *entry = &slot->steps[count];
    hr__page_store(&entry->step, step);
    hr__page_store(&entry->at_ns, hr__clock_monotonic_ns());
    hr__page_store(&entry->live_bytes, live_bytes);
    hr__page_store(&entry->reserved_bytes, reserved_bytes);
    hr__page_store(&slot->step_count, count + 1);
}

hr_status hr_live_page_step(hr_live_page *page, int device, uint64_t step, uint64_t live_bytes,
                            uint64_t reserved_bytes)
{
    HR__TRY(enter(page));
    if (device < 0 || step == 0)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "expected a device from 0, and a step from 1");
    hr__page_slot *slot = NULL;
    hr__mutex_lock(&page->lock);
    hr_status status = find_slot(page, device, &slot);
    if (status == HR_OK) {
        hr__page_begin_write(&slot->sequence);
        log_step(slot, step, live_bytes, reserved_bytes);
        hr__page_end_write(&slot->sequence);
    }
    hr__mutex_unlock(&page->lock);
    return status;
}
