"""_cache.py - where the compiled adapter is kept, and how many processes come to one.

64 ranks start at once: one compiles, the others wait and take its result. The result is loaded into
the process, so the folder is trusted like a program's own: it must belong to this user, and nobody
else may write in it. The lock is flock(), which the kernel releases when its holder dies. Where a file
system has none (some NFS homes), a file made with O_EXCL serves, which names its holder: one that is
dead, or has not touched it for a while, is passed over.
"""
from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import grp
import os
import pwd
import shutil
import socket
import stat
import tempfile
import time
from pathlib import Path
from typing import Callable, Iterator, Optional, Tuple

from .. import _files
from ._say import say

STALE_SECONDS = 300.0
WAIT_SECONDS = 900.0
_POLL_SECONDS = 0.1
_NO_FLOCK = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.EIO)


class CacheError(Exception):
    """The folder cannot be used; the text says why."""


def _check_folder(path: Path) -> None:
    """Raises unless nobody but this user can put something there."""
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        raise CacheError(f"{path} is a link")
    if not stat.S_ISDIR(status.st_mode):
        raise CacheError(f"{path} is not a folder")
    if status.st_uid != os.geteuid():
        raise CacheError(f"{path} belongs to user {status.st_uid}, not to {os.geteuid()}")
    if status.st_mode & 0o022:
        raise CacheError(f"{path} is writable by others (mode {status.st_mode & 0o777:04o}); "
                         f"chmod 700 {path}")
    if not os.access(path, os.W_OK | os.X_OK):
        raise CacheError(f"{path} cannot be written to")


def _has_others(group_id: int) -> bool:
    """Whether somebody else may be in the group: in any but root's, and the private one that many systems give each
    user, which has the user's name. Its list of members lacks those who have it as their first group."""
    if group_id == 0:
        return False
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(group_id)
    except KeyError:
        return True
    return group_id != user.pw_gid or group.gr_name != user.pw_name or not set(group.gr_mem) <= {user.pw_name} \
        or any(one.pw_gid == group_id and one.pw_name != user.pw_name for one in pwd.getpwall())


def _has_access_list(path: Path) -> bool:
    """Whether an access list may let others write where the mode names the group."""
    try:
        os.getxattr(path, "system.posix_acl_access")
    except OSError:
        return False
    return True


def _check_parents(path: Path) -> None:
    """Raises if somebody else could exchange the folder for another, between a look at it and its use. A folder that
    only this user's private group can write to is as good as the user's: some systems make homes like that."""
    for parent in path.parents:
        status = os.stat(parent)
        if status.st_uid not in (0, os.geteuid()):
            raise CacheError(f"{parent} belongs to user {status.st_uid}")
        is_shared = status.st_mode & 0o002 or (
            status.st_mode & 0o020 and (_has_others(status.st_gid) or _has_access_list(parent)))
        if is_shared and not status.st_mode & stat.S_ISVTX:
            raise CacheError(f"{parent} is writable by others (mode {status.st_mode & 0o7777:04o})")


def _prepared(path: Path, may_be_link: bool = True) -> Path:
    """The folder, made if need be, with mode 0700, and checked. Where links lead to it, its own path: whoever can
    change a link on the way must not lead us elsewhere after the check."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        path = Path(os.path.realpath(path)) if may_be_link else Path(os.path.realpath(path.parent)) / path.name
        _check_folder(path)
        _check_parents(path)
        # access() believes what a read-only file system or a full disk disproves.
        handle, name = tempfile.mkstemp(prefix="trial-", dir=path)
        os.close(handle)
        os.unlink(name)
    except OSError as error:
        raise CacheError(f"{path}: {error.strerror or error}") from None
    return path


def wanted_folder() -> Path:
    """$XDG_CACHE_HOME/vramwise, or ~/.cache/vramwise. XDG says that a relative path counts for
    nothing."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "vramwise"


def folder(*, quiet: bool = False) -> Path:
    """The cache, or a folder in the temporary directory that this user's processes share, with a
    line that says why. CacheError: there is neither."""
    try:
        return _prepared(wanted_folder())
    except CacheError as reason:
        instead = Path(tempfile.gettempdir()) / f"vramwise-{os.geteuid()}"
        try:
            instead = _prepared(instead, may_be_link=False)  # others can put links into that folder
        except CacheError as second:
            raise CacheError(f"{reason}; and {second}") from None
        say(f"the cache cannot be used ({reason}): the adapter is kept in {instead}", quiet=quiet)
        return instead


def is_trusted_file(path: Path) -> bool:
    """A plain file of this user's that nobody else can write to."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022 \
        and status.st_size > 0


def remove_stale(cache: Path, prefix: str, older_than_seconds: float = 3600.0) -> None:
    """Takes away what builds that were killed left behind."""
    for left in cache.glob(prefix + "*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > older_than_seconds:
                shutil.rmtree(left) if left.is_dir() else left.unlink()


def _try_flock(path: Path) -> Optional[int]:
    """A descriptor that holds the lock; None: somebody else has it. OSError as of flock()."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    except OSError:
        os.close(handle)
        raise
    return handle


def _holder_is_gone(path: Path) -> bool:
    """Whether the file that stands for the lock was left by somebody who will not return."""
    try:
        age_seconds = time.time() - path.stat().st_mtime
        host, _, process = path.read_text(encoding="utf-8").partition(" ")
    except (OSError, UnicodeDecodeError):
        return False
    if host == socket.gethostname() and process.strip().isdigit():
        try:
            os.kill(int(process), 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass
    return age_seconds > STALE_SECONDS


def _try_exclusive(path: Path) -> bool:
    """Makes the file that stands for the lock, after taking away one whose holder is gone."""
    if _holder_is_gone(path):
        with contextlib.suppress(OSError):
            path.unlink()
    try:
        _files.create(path, f"{socket.gethostname()} {os.getpid()}\n".encode())
    except FileExistsError:
        return False
    return True


Beat = Callable[[], None]


def _take(name: Path) -> Optional[Tuple[Beat, Beat]]:
    """Tries once; (what shows that we live, what gives the lock back), or None."""
    busy = name.parent / (name.name + ".busy")
    try:
        handle = _try_flock(name.parent / (name.name + ".lock"))
    except OSError as error:
        if error.errno not in _NO_FLOCK:
            raise
        if not _try_exclusive(busy):
            return None
        return (lambda: os.utime(busy)), (lambda: busy.unlink(missing_ok=True))
    if handle is None:
        return None
    return (lambda: None), functools.partial(os.close, handle)


@contextlib.contextmanager
def lock(name: Path, *, quiet: bool = False,
         wait_seconds: float = WAIT_SECONDS) -> Iterator[Beat]:
    """Holds the lock of that name; what it gives is to be called now and then while working. Waits
    for another holder, and says so after two seconds. CacheError: it took too long."""
    begin, has_said = time.monotonic(), False
    while True:
        try:
            taken = _take(name)
        except OSError as error:
            raise CacheError(f"{name}: cannot be locked: {error.strerror or error}") from None
        if taken is not None:
            break
        waited = time.monotonic() - begin
        if waited > wait_seconds:
            raise CacheError(f"another process has held {name}.* for {wait_seconds:.0f} s")
        if waited > 2.0 and not has_said:
            say("waiting for another process, which is compiling the adapter", quiet=quiet)
            has_said = True
        time.sleep(_POLL_SECONDS)
    beat, release = taken
    try:
        yield beat
    finally:
        with contextlib.suppress(OSError):
            release()
