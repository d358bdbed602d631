/* fuzz_jobs_read.c - any bytes as a page.
 *
 * The bytes are a file in the folder of pages, whose lock is held, as of a process that lives. They
 * are a page or they are refused; what is read stays within the file and ends within its memory,
 * and texts end. Each input is the beginning of a file as long as a page, so that a small one
 * reaches the slots; some are the whole file as well. */
#include "vramwise/watch.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/host_memory.h"
#include "live/page_layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool claim)
{
    if (!claim)
        abort();
}

static char folder[] = "/tmp/vramwise-fuzz-pages-XXXXXX", path[80];

static void remove_folder(void)
{
    (void)unlink(path);
    (void)rmdir(folder);
}

/* One file for all inputs, whose lock is held. */
static int make_file(void)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    must(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/" VW__PAGE_NAME "x", folder);
    atexit(remove_folder);
    int file = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    must(file >= 0 && fcntl(file, F_OFD_SETLK, &lock) == 0);
    return file;
}

static void check_text(const char *text)
{
    must(memchr(text, '\0', VW_JOB_TEXT_BYTES) != NULL);
}

static void check_job(const vw_job *job)
{
    check_text(job->program);
    check_text(job->allocator);
    check_text(job->job);
    check_text(job->run);
    check_text(job->vramwise_version);
    must(job->device_count <= VW__PAGE_SLOTS);
    must(job->state != VW_JOB_OTHER_VERSION || job->device_count == 0);
    for (size_t i = 0; i < job->device_count; i++) {
        const vw_job_device *device = &job->devices[i];
        vw_job_outlook outlook;
        check_text(device->name);
        must(device->step_count <= VW__PAGE_STEPS);
        must(vw_job_outlook_find(device, &outlook) == VW_OK);
    }
}

/* The bytes at the beginning of the file, which is then `length` long; behind them nothing. */
static void fill_file(int file, const uint8_t *data, size_t size, size_t length)
{
    static const uint8_t nothing[VW__PAGE_BYTES];
    static size_t length_now, size_now;
    must(pwrite(file, data, size, 0) == (ssize_t)size);
    if (size_now > size)
        must(pwrite(file, nothing, size_now - size, (off_t)size) > 0);
    length_now = length_now > size ? length_now : size;
    if (length_now != length) /* which is slow */
        must(ftruncate(file, (off_t)length) == 0);
    length_now = length;
    size_now = size;
}

static void read_once(void)
{
    vw_jobs *jobs = NULL;
    must(vw_jobs_read(folder, &jobs) == VW_OK);
    must(jobs->job_count + jobs->refused_count == 1 && jobs->stale_count == 0);
    if (jobs->job_count == 1)
        check_job(&jobs->jobs[0]);
    vw_jobs_free(jobs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int file = -1;
    if (size > VW__PAGE_BYTES)
        return 0;
    if (file < 0)
        file = make_file();
    uint64_t before_bytes = vw__host_memory_get_use().in_use_bytes;
    fill_file(file, data, size, VW__PAGE_BYTES);
    read_once();
    if (size % 16 == 0) {
        fill_file(file, data, size, size);
        read_once();
    }
    must(vw__host_memory_get_use().in_use_bytes == before_bytes);
    return 0;
}
