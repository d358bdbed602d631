/* jobs_read.c - pages in, jobs out.
 *
 * A page belongs to a process that changes it while we read, may have been made by another version,
 * and may be no page at all: sizes come from the file, not from its header, and are held against
 * each other before anything is read by them. Only files of this user are taken, unless the pages
 * of all users are asked for: then the kernel's permissions decide, and no user may fill the list.
 *
 * It reads a copy that read() made, not the page itself: a file that its owner cuts off meanwhile
 * would end whoever has it mapped, and that may be somebody's `vramwise run`. */
#include "vramwise/watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stddef.h> /* offsetof */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/checked_math.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/struct_size.h"
#include "live/page_layout.h"
#include "watch/job_container.h"
#include "watch/job_holder.h"
#include "watch/user_ranges.h"

#define POD_FOLDER "/var/log/pods" /* the kubelet's own default */
#define RANGES_FILE "/etc/subuid"

enum {
    EAGER_TRIES = 100, /* for a part that does not hold still; they follow each other at once */
    MOST_PAUSES = 900, /* more tries, for all pages together */
    PAUSE_NS = 100000, /* so far apart: the writer waits for a processor */
    MOST_JOBS = 4096,
    MOST_OF_USER = 1024, /* pages and devices of one user, in a folder for all */
    MOST_OF_ALL = 8192,  /* the same of all users: each is some kilobytes of an answer */
    MOST_FILE_BYTES = 1 << 24,
    PART_LIFE_S = 60, /* of a file that is to become a page: it takes microseconds */
};

/* How much of a shared list one user has taken. */
typedef struct user_part {
    uid_t user; /* or the first of a range */
    size_t taken;
} user_part;

/* One list of results, and everything it points to. */
typedef struct job_list {
    vw_jobs result; /* first: what callers have */
    vw__arena arena;
    vw__page_slot slot; /* room for a copy of one */
    int pauses_left; /* for all pages together: many that never hold still cost no more than one */
    vw_job jobs[MOST_JOBS];
    /* only where the pages of all users are read */
    vw__user_ranges ranges;
    size_t taken; /* of all users */
    size_t user_count;
    user_part users[MOST_JOBS];
    vw__job_holder holders[MOST_JOBS]; /* of the jobs, until those are sorted */
} job_list;

/* A page that is open. What its header says of sizes is read once, and then held against the file:
 * a header that changes afterwards leads nowhere else. */
typedef struct open_page {
    int file;
    size_t size_bytes;
    vw__page_header header; /* a copy, of which only what never changes counts */
    size_t first_slot;      /* its offset */
    size_t slot_bytes;
    size_t slot_count;
    uint64_t value_count;
    vw__page_slot *slot; /* room for a copy */
    int *pauses_left;    /* the list's */
    struct stat about;
} open_page;

/* ---- copies ---------------------------------------------------------------------------------- */

/* False: the file does not go so far, or cannot be read. What is read later is no older. */
static bool copy_bytes(int file, size_t offset, void *copy, size_t size_bytes)
{
    size_t done = 0;
    while (done < size_bytes) {
        ssize_t count = pread(file, (char *)copy + done, size_bytes - done, (off_t)(offset + done));
        if (count == 0 || (count < 0 && errno != EINTR))
            return false;
        done += count > 0 ? (size_t)count : 0;
    }
    atomic_thread_fence(memory_order_acquire);
    return true;
}

/* Pauses before the next try to copy a part that did not hold still, after `tries`. Returns false
 * when no try is left. */
static bool give_way(const open_page *page, int tries)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    if (tries < EAGER_TRIES) {
        sched_yield();
        return true;
    }
    if (*page->pauses_left == 0)
        return false;
    --*page->pauses_left;
    nanosleep(&pause, NULL);
    return true;
}

/* A part of a page as it was at one instant, by the sequence number that is `sequence_at` behind
 * its beginning. False: it did not hold still, or is there no longer. */
static bool copy_part(const open_page *page, size_t offset, size_t sequence_at, void *copy,
                      size_t size_bytes)
{
    int tries = 0;
    do {
        uint64_t before, after;
        if (!copy_bytes(page->file, offset + sequence_at, &before, sizeof before))
            return false;
        if (before % 2 == 0) {
            if (!copy_bytes(page->file, offset, copy, size_bytes) ||
                !copy_bytes(page->file, offset + sequence_at, &after, sizeof after))
                return false;
            if (after == before)
                return true;
        }
    } while (give_way(page, tries++));
    return false;
}

/* ---- one page -------------------------------------------------------------------------------- */

/* False: the header says sizes that this file has not, or that we cannot follow. */
static bool read_sizes(open_page *page)
{
    const vw__page_header *header = &page->header;
    uint64_t first = vw__page_load(&header->first_slot);
    uint64_t slot = vw__page_load(&header->slot_bytes);
    uint64_t count = vw__page_load(&header->slot_count);
    if (first < sizeof *header || first > page->size_bytes || first % sizeof(uint64_t) != 0 ||
        slot < sizeof(vw__page_slot) || slot > page->size_bytes || slot % sizeof(uint64_t) != 0 ||
        count > VW__PAGE_SLOTS || first + count * slot > page->size_bytes ||
        vw__page_load(&header->step_capacity) != VW__PAGE_STEPS)
        return false;
    page->first_slot = (size_t)first;
    page->slot_bytes = (size_t)slot;
    page->slot_count = (size_t)count;
    page->value_count = vw__page_load(&header->value_count);
    return true;
}

static void read_fixed(const open_page *page, vw_job *job)
{
    const vw__page_header *header = &page->header;
    job->process = (long)vw__page_load(&header->process);
    job->user = (unsigned long)page->about.st_uid;
    job->started_us = vw__page_load(&header->started_us);
    job->page_version = vw__page_load(&header->version);
}

static bool read_identity(const open_page *page, vw_job *job)
{
    vw__page_header header;
    if (!copy_part(page, 0, offsetof(vw__page_header, sequence), &header, sizeof header))
        return false;
    job->rank = (int)(int64_t)vw__page_load(&header.rank);
    job->local_rank = (int)(int64_t)vw__page_load(&header.local_rank);
    job->world_size = (int)vw__page_load(&header.world_size);
    vw__page_load_text(header.program, job->program);
    vw__page_load_text(header.allocator, job->allocator);
    vw__page_load_text(header.job, job->job);
    vw__page_load_text(header.run, job->run);
    vw__page_load_text(header.vramwise_version, job->vramwise_version);
    return true;
}

static void read_values(const vw__page_slot *slot, uint64_t value_count, vw_job_device *device)
{
    vw__page_load_text(slot->name, device->name);
    device->index = (int)vw__page_load(&slot->device);
    device->updated_ns = vw__page_load(&slot->updated_ns);
    for (size_t i = 0; i < VW_LIVE_FIELD_COUNT; i++)
        device->values[i] =
            i < value_count ? vw__page_load(&slot->values[i]) : (uint64_t)VW_LIVE_UNKNOWN;
}

/* Takes memory for the steps that are there: a page of holes has none. */
static vw_status read_steps(const vw__page_slot *slot, vw__arena *arena, vw_job_device *device)
{
    size_t count = (size_t)vw__min_u64(vw__page_load(&slot->step_count), VW__PAGE_STEPS);
    vw_job_step *steps = vw__arena_alloc_array(arena, count, sizeof *steps, _Alignof(vw_job_step));
    if (steps == NULL)
        return vw__fail_host_memory(count * sizeof *steps, "the steps of a job");
    for (size_t i = 0; i < count; i++)
        steps[i] = (vw_job_step){
            .step = vw__page_load(&slot->steps[i].step),
            .at_ns = vw__page_load(&slot->steps[i].at_ns),
            .live_bytes = vw__page_load(&slot->steps[i].live_bytes),
            .reserved_bytes = vw__page_load(&slot->steps[i].reserved_bytes),
        };
    device->steps = steps;
    device->step_count = count;
    return VW_OK;
}

/* False: it did not hold still. */
static bool copy_slot(const open_page *page, size_t number)
{
    return copy_part(page, page->first_slot + number * page->slot_bytes,
                     offsetof(vw__page_slot, sequence), page->slot, sizeof *page->slot);
}

/* A device that does not hold still is left out, and those behind it; the others are as they were.
 */
static vw_status read_devices(const open_page *page, vw__arena *arena, vw_job *job)
{
    size_t count = page->slot_count;
    vw_job_device *devices =
        vw__arena_alloc_array(arena, count, sizeof *devices, _Alignof(vw_job_device));
    if (devices == NULL)
        return vw__fail_host_memory(count * sizeof *devices, "the devices of a job");
    job->devices = devices;
    for (size_t i = 0; i < count; i++) {
        if (!copy_slot(page, i)) {
            job->state = VW_JOB_BUSY;
            return VW_OK;
        }
        read_values(page->slot, page->value_count, &devices[i]);
        VW__TRY(read_steps(page->slot, arena, &devices[i]));
        job->device_count++;
    }
    return VW_OK;
}

static vw_status read_page(open_page *page, vw__arena *arena, vw_job *job)
{
    read_fixed(page, job);
    job->rank = job->local_rank = -1;
    job->state = VW_JOB_OTHER_VERSION;
    if (job->page_version != VW__PAGE_VERSION || !read_sizes(page))
        return VW_OK;
    job->state = VW_JOB_BUSY;
    if (!read_identity(page, job))
        return VW_OK;
    job->state = VW_JOB_RUNNING;
    return read_devices(page, arena, job);
}

/* ---- one file -------------------------------------------------------------------------------- */

static bool is_page(const open_page *page)
{
    return vw__page_load(&page->header.magic) == VW__PAGE_MAGIC;
}

static vw_status keep_path(vw__arena *arena, const char *folder, const char *name, vw_job *job)
{
    size_t room = strlen(folder) + strlen(name) + 2;
    char *path = vw__arena_alloc(arena, room, 1);
    if (path == NULL)
        return vw__fail_host_memory(room, "the name of a page");
    snprintf(path, room, "%s/%s", folder, name);
    job->path = path;
    return VW_OK;
}

/* Where the part of a file's owner is, or would be. */
static size_t place_of_user(const job_list *list, uid_t owner)
{
    const uid_t user = vw__user_ranges_first(&list->ranges, owner);
    size_t at = 0;
    while (at < list->user_count && list->users[at].user != user)
        at++;
    return at;
}

/* The pages of all users are read: notes whose the next job is. */
static void note_owner(job_list *list, const open_page *page, const vw_job *job)
{
    size_t at = place_of_user(list, page->about.st_uid);
    if (at == list->user_count) /* there are no more users than jobs */
        list->users[list->user_count++] =
            (user_part){.user = vw__user_ranges_first(&list->ranges, page->about.st_uid)};
    list->users[at].taken += 1 + job->device_count;
    list->taken += 1 + job->device_count;
    list->holders[list->result.job_count] = (vw__job_holder){.device = page->about.st_dev,
                                                             .file = page->about.st_ino,
                                                             .user = page->about.st_uid,
                                                             .place = list->result.job_count};
}

static vw_status take_page(job_list *list, open_page *page, const char *folder, const char *name)
{
    vw_job *job = &list->jobs[list->result.job_count];
    *job = (vw_job){0};
    VW__TRY(keep_path(&list->arena, folder, name, job));
    VW__TRY(read_page(page, &list->arena, job));
    if (list->result.is_shared)
        note_owner(list, page, job);
    list->result.job_count++;
    return VW_OK;
}

static vw_status take_open(job_list *list, open_page *page, int folder_file, const char *folder,
                           const char *name)
{
    if (!copy_bytes(page->file, 0, &page->header, sizeof page->header) || !is_page(page)) {
        list->result.refused_count++;
        return VW_OK;
    }
    if (vw__job_holder_is_gone(page->file)) {
        list->result.stale_count++;
        (void)unlinkat(folder_file, name, 0); /* its name never comes again */
        return VW_OK;
    }
    return take_page(list, page, folder, name);
}

static bool is_wanted(const job_list *list, const struct stat *about)
{
    if (!S_ISREG(about->st_mode) || about->st_size < (off_t)sizeof(vw__page_header) ||
        about->st_size > MOST_FILE_BYTES)
        return false;
    if (!list->result.is_shared)
        return about->st_uid == geteuid();
    if (list->taken >= MOST_OF_ALL)
        return false;
    size_t at = place_of_user(list, about->st_uid);
    return at == list->user_count || list->users[at].taken < MOST_OF_USER;
}

static vw_status take_file(job_list *list, int folder_file, const char *folder, const char *name)
{
    struct stat about;
    int file = openat(folder_file, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0 || fstat(file, &about) != 0 || !is_wanted(list, &about)) {
        list->result.refused_count += file >= 0 || errno != ENOENT;
        if (file >= 0)
            close(file);
        return VW_OK;
    }
    open_page page = {.file = file,
                      .size_bytes = (size_t)about.st_size,
                      .slot = &list->slot,
                      .pauses_left = &list->pauses_left,
                      .about = about};
    vw_status status = take_open(list, &page, folder_file, folder, name);
    close(file);
    return status;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int by_user_and_process(const void *left, const void *right)
{
    const vw_job *one = left, *other = right;
    if (one->user != other->user)
        return one->user < other->user ? -1 : 1;
    if (one->process != other->process)
        return one->process < other->process ? -1 : 1;
    return strcmp(one->path, other->path);
}

/* A process that was killed while it made its page leaves a file that nobody holds. */
static void remove_old_part(job_list *list, int folder_file, const char *name)
{
    struct stat about;
    int file = openat(folder_file, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0)
        return;
    if (fstat(file, &about) == 0 && S_ISREG(about.st_mode) &&
        (list->result.is_shared || about.st_uid == geteuid()) &&
        about.st_mtime + PART_LIFE_S < time(NULL) && vw__job_holder_is_gone(file) &&
        unlinkat(folder_file, name, 0) == 0)
        list->result.stale_count++;
    close(file);
}

static bool begins_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

static vw_status read_entries(job_list *list, DIR *directory, const char *folder)
{
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (begins_with(entry->d_name, VW__PAGE_PART_NAME))
            remove_old_part(list, dirfd(directory), entry->d_name);
        if (!begins_with(entry->d_name, VW__PAGE_NAME))
            continue;
        if (list->result.job_count == MOST_JOBS)
            break;
        VW__TRY(take_file(list, dirfd(directory), folder, entry->d_name));
    }
    return VW_OK;
}

static vw_status read_folder(job_list *list, const char *folder)
{
    DIR *directory = opendir(folder);
    if (directory == NULL)
        return vw__fail(VW_ERR_FILE, "cannot read the folder %s: %s", folder, strerror(errno));
    list->result.folder = vw__arena_copy(&list->arena, folder, strlen(folder));
    vw_status status = list->result.folder != NULL
                           ? read_entries(list, directory, folder)
                           : vw__fail_host_memory(strlen(folder) + 1, "the name of a folder");
    (void)closedir(directory);
    return status;
}

/* The folder that was named; or else where processes put their pages. */
static vw_status read_folders(job_list *list, const char *named)
{
    const char *variable = secure_getenv("VRAMWISE_LIVE_DIR");
    if (named == NULL && variable != NULL && variable[0] != '\0')
        named = variable;
    if (named != NULL)
        return read_folder(list, named);
    if (list->result.is_shared)
        return read_folder(list, VW__PAGE_SHARED_FOLDER);
    if (vw__page_folder_is_shared(VW__PAGE_SHARED_FOLDER)) {
        vw_status status = read_folder(list, VW__PAGE_SHARED_FOLDER);
        if (status != VW_OK && status != VW_ERR_FILE)
            return status;
    }
    return read_folder(list, VW__PAGE_FOLDER);
}

/* ---- their containers ------------------------------------------------------------------------ */

/* What was found out at an earlier look: a file keeps its process, and that its cgroup. */
static void recall_containers(job_list *list, const job_list *before)
{
    if (before == NULL || !before->result.is_shared)
        return;
    for (size_t i = 0; i < list->result.job_count; i++) {
        vw__job_holder *holder = &list->holders[i];
        const vw__job_holder *known = vw__job_holder_of_file(
            before->holders, before->result.job_count, holder->device, holder->file);
        if (known != NULL && known->user == holder->user)
            holder->container = known->container;
    }
}

/* The container of a page's holder, in memory of this list. NULL in `*out`: nobody knows. */
static vw_status find_container(job_list *list, const vw__job_holder *holder,
                                vw_job_container **out)
{
    vw_job_container found = {.id = ""};
    *out = NULL;
    if (holder->container != NULL)
        found = *holder->container;
    else if (holder->process != 0)
        (void)vw__job_container_of("/proc", holder->process, &found); /* else it is in none */
    else
        return VW_OK;
    *out = vw__arena_alloc(&list->arena, sizeof found, _Alignof(vw_job_container));
    if (*out == NULL)
        return vw__fail_host_memory(sizeof found, "a container");
    **out = found;
    return VW_OK;
}

/* Before the jobs are sorted. */
static vw_status find_containers(job_list *list, const char *pod_folder, const job_list *before)
{
    size_t count = 0, job_count = list->result.job_count;
    vw_job_container **found = vw__arena_alloc_array(
        &list->arena, job_count, sizeof(vw_job_container *), _Alignof(vw_job_container *));
    if (found == NULL)
        return vw__fail_host_memory(job_count * sizeof *found, "containers");
    recall_containers(list, before);
    vw__job_holder_find("/proc", list->holders, job_count);
    for (size_t i = 0; i < job_count; i++) {
        vw__job_holder *holder = &list->holders[i];
        VW__TRY(find_container(list, holder, &found[count]));
        holder->container = list->jobs[holder->place].container = found[count];
        count += found[count] != NULL;
    }
    vw__job_container_name_pods(pod_folder != NULL ? pod_folder : POD_FOLDER, found, count);
    return VW_OK;
}

/* ---- the list -------------------------------------------------------------------------------- */

static vw_status read_jobs(const char *folder, const vw_jobs_shared *shared, vw_jobs **out)
{
    if (out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a place for the jobs");
    job_list *list = vw__host_alloc(sizeof *list);
    if (list == NULL)
        return vw__fail_host_memory(sizeof *list, "a list of jobs");
    list->result = (vw_jobs){
        .read_ns = vw__clock_monotonic_ns(), .jobs = list->jobs, .is_shared = shared != NULL};
    list->pauses_left = MOST_PAUSES;
    list->user_count = list->taken = 0;
    list->ranges.count = 0;
    if (shared != NULL)
        vw__user_ranges_read(RANGES_FILE, &list->ranges);
    vw__arena_init(&list->arena, VW__ARENA_NO_LIMIT);
    vw_status status = read_folders(list, folder);
    if (status == VW_OK && shared != NULL)
        status = find_containers(list, shared->pod_folder, (const job_list *)shared->before);
    if (status != VW_OK) {
        vw_jobs_free(&list->result);
        return status;
    }
    qsort(list->jobs, list->result.job_count, sizeof *list->jobs, by_user_and_process);
    *out = &list->result;
    return VW_OK;
}

vw_status vw_jobs_read(const char *folder, vw_jobs **out)
{
    return read_jobs(folder, NULL, out);
}

vw_status vw_jobs_read_shared(const char *folder, const vw_jobs_shared *options, vw_jobs **out)
{
    vw_jobs_shared wanted = {.struct_size = sizeof wanted};
    if (options != NULL)
        VW__TRY(VW__STRUCT_IN(vw_jobs_shared, options, &wanted));
    return read_jobs(folder, &wanted, out);
}

void vw_jobs_free(vw_jobs *jobs)
{
    if (jobs == NULL)
        return;
    job_list *list = (job_list *)jobs;
    vw__arena_deinit(&list->arena);
    vw__host_free(list);
}

const vw_job *vw_jobs_find(const vw_jobs *jobs, long process)
{
    for (size_t i = 0; jobs != NULL && i < jobs->job_count; i++)
        if (jobs->jobs[i].process == process)
            return &jobs->jobs[i];
    return NULL;
}
