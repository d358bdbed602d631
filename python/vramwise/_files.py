"""_files.py - creates every file that the package writes.

A folder may be writable by other users, who can put symbolic links where they expect our files. So
content goes to a new file with a random name, which is then renamed:

  - A file is created with O_EXCL and O_NOFOLLOW: a link that is already there is never followed.
  - The mode is 0600, even if the umask allows more: a snapshot shows source paths and stacks.
  - rename() replaces a link at the final name and leaves its target alone.
  - After any exception, the new file is removed and its descriptor is closed.

Standard library only: _watch.py loads this file into programs that know nothing of our package.
_start/sitecustomize.py cannot load it (it also runs in Python 2.7) and creates its one empty file
with the same flags.
"""
import os
import stat
from typing import Any, Callable, Iterable, Optional, Union

Path = Union[str, "os.PathLike[str]"]
Write = Callable[[Any], Any]  # gets a binary file to write to
Announce = Callable[[str], Any]  # gets the absolute path of the file with the random name

_MODE = 0o600
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def _remove(path: Path) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _fill(path: Path, write: Write, finish: Callable[[], Any]) -> Any:
    """Creates the file, writes it, closes it and returns what `finish` returns. Removes the file if
    any of that fails, unless the file was there before (FileExistsError)."""
    is_ours = False

    def opener(name: str, _flags: int) -> int:
        nonlocal is_ours
        descriptor = os.open(name, _NEW, _MODE)
        is_ours = True
        return descriptor

    try:
        with open(path, "wb", opener=opener) as file:
            write(file)
        return finish()
    except BaseException:
        if is_ours:
            _remove(path)
        raise


def _random_name_in(folder: str, announce: Optional[Announce]) -> str:
    part = os.path.join(os.path.abspath(folder), f".vramwise-{os.urandom(8).hex()}.part")
    if announce is not None:
        announce(part)
    return part


def create(path: Path, content: bytes = b"") -> None:
    """Creates a file. FileExistsError if anything has that name, including a link: of several
    processes, one succeeds."""
    _fill(path, lambda file: file.write(content), lambda: None)


def write_whole(path: Path, write: Write, announce: Optional[Announce] = None) -> None:
    """Writes a file that appears under its name when it is complete. Replaces a file, a link, a pipe
    or a device of that name; see is_special(). `announce` is called before the file with the random
    name is created."""
    whole = os.path.abspath(path)
    part = _random_name_in(os.path.dirname(whole), announce)
    _fill(part, write, lambda: os.replace(part, whole))


def _rename_to_free(part: str, path: str) -> None:
    """Renames a file. FileExistsError if anything has the new name."""
    try:
        os.link(part, path, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        _fill(path, lambda file: None, lambda: os.replace(part, path))
    else:
        _remove(part)


def write_new(folder: str, names: Iterable[str], write: Write,
              announce: Optional[Announce] = None) -> str:
    """Like write_whole(), under the first of the names that is free in the folder. Returns the path.
    Never replaces anything, also if several processes try the same names. FileExistsError if no name
    is free."""
    part = _random_name_in(folder, announce)

    def finish() -> str:
        for name in names:
            path = os.path.join(folder, name)
            try:
                _rename_to_free(part, path)
                return path
            except FileExistsError:
                continue
        raise FileExistsError(f"no name is free in {folder}")

    return _fill(part, write, finish)


def read_own(path: Path) -> bytes:
    """Reads a regular file that belongs to this user. OSError if it is something else."""
    with open(path, "rb", opener=lambda name, _flags: os.open(name, _READ)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise PermissionError(f"{os.fspath(path)} is not a regular file of this user")
        return file.read()


def is_special(path: Path) -> bool:
    """Whether the path leads to something other than a regular file, such as a pipe or /dev/stdout.
    write_whole() would replace it, so a caller must check a path that the user has chosen."""
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False
