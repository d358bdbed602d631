/* job_holder.c - see job_holder.h. A line of the kernel's list:
 *
 *   2: FLOCK  ADVISORY  WRITE 15781 00:1b:48355 0 EOF
 *
 * Those with "->" behind the number only wait for a lock. */
#include "watch/job_holder.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "watch/process_parts.h"

enum { LONGEST_LINE_BYTES = 120 };

typedef struct holder_list {
    vw__job_holder *items;
    size_t count;
} holder_list;

static int by_file(const void *left, const void *right)
{
    const vw__job_holder *one = left, *other = right;
    if (one->file != other->file)
        return one->file < other->file ? -1 : 1;
    if (one->device != other->device)
        return one->device < other->device ? -1 : 1;
    return 0;
}

static void take_line(const char *line, void *context)
{
    const holder_list *list = context;
    long process = 0;
    unsigned int major_number = 0, minor_number = 0;
    unsigned long file = 0;
    if (sscanf(line, "%*u: FLOCK ADVISORY WRITE %ld %x:%x:%lu", &process, &major_number,
               &minor_number, &file) != 4)
        return;
    const vw__job_holder wanted = {.device = makedev(major_number, minor_number), .file = file};
    vw__job_holder *found =
        bsearch(&wanted, list->items, list->count, sizeof *list->items, by_file);
    if (found != NULL && found->container == NULL)
        found->process = process;
}

static void forget_strangers(const char *proc_folder, vw__job_holder *holder)
{
    char path[512];
    struct stat facts;
    int length = snprintf(path, sizeof path, "%s/%ld", proc_folder, holder->process);
    if (length >= (int)sizeof path || stat(path, &facts) != 0 || facts.st_uid != holder->user)
        holder->process = 0;
}

static bool are_all_known(const vw__job_holder *holders, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (holders[i].container == NULL)
            return false;
    return true;
}

void vw__job_holder_find(const char *proc_folder, vw__job_holder *holders, size_t count)
{
    char path[512];
    holder_list list = {holders, count};
    for (size_t i = 0; i < count; i++)
        holders[i].process = 0;
    if (count != 0)
        qsort(holders, count, sizeof *holders, by_file);
    if (are_all_known(holders, count) ||
        snprintf(path, sizeof path, "%s/locks", proc_folder) >= (int)sizeof path)
        return;
    vw__watch_process_pieces(open(path, O_RDONLY | O_CLOEXEC), '\n', LONGEST_LINE_BYTES,
                             VW__JOB_HOLDER_MOST_LOCKS, take_line, &list);
    for (size_t i = 0; i < count; i++)
        if (holders[i].process != 0)
            forget_strangers(proc_folder, &holders[i]);
}

const vw__job_holder *vw__job_holder_of_file(const vw__job_holder *holders, size_t count,
                                             dev_t device, ino_t file)
{
    const vw__job_holder wanted = {.device = device, .file = file};
    return count != 0 ? bsearch(&wanted, holders, count, sizeof *holders, by_file) : NULL;
}

bool vw__job_holder_is_gone(int page_file)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    return fcntl(page_file, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}
