/* view_browser.c - see view_browser.h.
 *
 * The browser is a grandchild in a session of its own: closing the terminal, or Ctrl-C there, does
 * not end it, and it leaves no zombie. Its output is discarded. */
#include "view_browser.h"

#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "file_guard.h"
#include "memory_guard.h"

static bool is_set(const char *name)
{
    const char *value = secure_getenv(name);
    return value != NULL && value[0] != '\0';
}

bool view_browser_has_viewer(bool is_terminal)
{
    return is_terminal && (is_set("DISPLAY") || is_set("WAYLAND_DISPLAY"));
}

bool view_browser_is_wanted(void)
{
    return view_browser_has_viewer(isatty(STDOUT_FILENO) == 1 && isatty(STDERR_FILENO) == 1);
}

/* A list of commands, or a command with arguments, is left to xdg-open. */
static const char *browser_name(void)
{
    const char *name = secure_getenv("BROWSER");
    return is_set("BROWSER") && strpbrk(name, ": %") == NULL ? name : "xdg-open";
}

static void be_quiet(void)
{
    int nowhere = open("/dev/null", O_RDWR);
    for (int i = STDIN_FILENO; i <= STDERR_FILENO && nowhere >= 0; i++)
        (void)dup2(nowhere, i);
    if (nowhere > STDERR_FILENO)
        close(nowhere);
}

static void become_browser(const char *name, const char *target)
{
    sigset_t none;
    sigemptyset(&none); /* a server blocks those that end it */
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    be_quiet();
    memory_guard_lift();
    file_guard_lift();
    execlp(name, name, target, (char *)NULL);
    _exit(127);
}

void view_browser_open(const char *target)
{
    const char *name = browser_name();
    pid_t child = fork();
    if (child == 0) {
        (void)setsid();
        if (fork() == 0)
            become_browser(name, target);
        _exit(0);
    }
    if (child > 0)
        (void)waitpid(child, NULL, 0); /* which is over at once */
}
