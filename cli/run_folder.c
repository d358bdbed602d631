/* run_folder.c - makes the folder of a run, and takes it away. */
#include "run_folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "left_folders.h"

#define SOCKET_NAME "socket"
#define FOLDER_NAME "vramwise-run."

/* What a run, and python/vramwise/_watch.py in its processes, make in it. */
static const char *const files[] = {SOCKET_NAME,
                                    "entered",
                                    "torch",
                                    "cuda",
                                    "claim-????????",
                                    "ask-[0-9]*",
                                    "steps-[0-9]*.jsonl",
                                    ".vramwise-????????????????.part",
                                    NULL};

/* A socket's path is short: the folder's name must leave room for it. */
static bool address_in(const char *folder, struct sockaddr_un *address)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    int length = snprintf(address->sun_path, sizeof address->sun_path, "%s/" SOCKET_NAME, folder);
    return length > 0 && (size_t)length < sizeof address->sun_path;
}

static int open_socket(const struct sockaddr_un *address)
{
    enum { ROOM_BYTES = 1 << 20 }; /* many ranks may fail at once, each with its error's text */
    const int room = ROOM_BYTES;
    int door = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (door < 0)
        return -1;
    (void)setsockopt(door, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    if (bind(door, (const struct sockaddr *)address, sizeof *address) != 0) {
        int reason = errno;
        close(door);
        errno = reason;
        return -1;
    }
    return door;
}

static bool create_in(const char *parent, run_folder *folder)
{
    struct sockaddr_un address;
    int length = snprintf(folder->path, sizeof folder->path, "%s/" FOLDER_NAME "XXXXXX", parent);
    if (length < 0 || (size_t)length >= sizeof folder->path ||
        !address_in(folder->path, &address)) {
        errno = ENAMETOOLONG;
        return false;
    }
    if (mkdtemp(folder->path) == NULL) /* mode 0700 */
        return false;
    if (address_in(folder->path, &address))
        folder->socket = open_socket(&address);
    if (folder->socket >= 0) {
        folder->held = left_folders_hold(folder->path);
        left_folders_remove(parent, FOLDER_NAME, files);
        return true;
    }
    int reason = errno;
    rmdir(folder->path);
    errno = reason;
    return false;
}

bool run_folder_create(run_folder *folder)
{
    const char *const parents[] = {secure_getenv("XDG_RUNTIME_DIR"), secure_getenv("TMPDIR"),
                                   "/tmp"};
    folder->socket = folder->held = -1;
    for (size_t i = 0; i < sizeof parents / sizeof parents[0]; i++)
        if (parents[i] != NULL && parents[i][0] == '/' && create_in(parents[i], folder))
            return true;
    return false;
}

bool run_folder_has(const run_folder *folder, const char *name)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    return access(path, F_OK) == 0;
}

void run_folder_remove(run_folder *folder)
{
    close(folder->socket);
    left_folders_end(folder->held, folder->path);
    folder->socket = folder->held = -1;
}
