"""_watch.py - what `vramwise run` does inside a process that has imported torch.

Loaded by _start/sitecustomize.py under a name of its own, so that a program which has a module
called `vramwise` keeps it. In the order in which things happen:

  arm()          torch has just been imported. The allocator is exchanged, if that was asked for, and
                 a call is queued for the moment in which CUDA starts. A process that never uses
                 CUDA (a DataLoader's worker, a launcher) pays for no more than that.
  _start()       CUDA starts. PyTorch keeps a history from here on (_history.py); nothing of ours
                 runs when a block is allocated or freed.
                 A thread of its own keeps the page up to date by which others see this process
                 (_live.py), and writes a snapshot when `vramwise run` asks for one.
  _after_step()  after an optimizer's step (_steps.py): how much is allocated. One look at the
                 statistics, for the log and the page; and a look at the clock: what of the history
                 costs too much is not kept (_budget.py).
  _observe()     PyTorch has run out of memory, and is about to raise the error. The first time, a
                 snapshot is written. Later ones are only counted: a program that catches the error
                 and tries a smaller batch may meet it again and again.
  _excepthook()  an error that nobody caught. Some that are about memory the allocator never sees.
  _finish()      the interpreter ends: the recording, if one was asked for.

What is learned goes to the program that started all this, `vramwise run`, by datagrams to a socket
in its folder (VRAMWISE_RUN). It has the doctor look at it, outside this process. Where nobody
listens (another machine, variables set by hand), the file's name is printed instead.

The program must not notice: no exception leaves this file, CUDA is never started by it, and what
the program says about history itself (_record_memory_history) holds. A process forked
after CUDA started has no business with any of it, and is left alone.
"""
import itertools
import os
import pickle
import re
import stat
import sys
import threading
import traceback
from typing import Any, Callable, Dict, Iterator, Optional

USUAL_HISTORY = 100_000  # events that PyTorch keeps, unless told otherwise
FEWEST_STEPS = 3  # fewer make no log
MOST_RANK = 1 << 24  # as in src/live/live_process.c
MOST_TEXT = 24_000  # characters of an error that are sent on
PATIENCE_SECONDS = 5.0  # for a listener that is busy; once, and then
LITTLE_PATIENCE_SECONDS = 0.01

# Errors about memory, of the card or of the machine, whoever raises them. The doctor decides; this
# only spares it what is certainly about something else.
_ABOUT_MEMORY = re.compile(
    r"out of memory|OutOfMemory|_ALLOC_FAILED|can(?:'|no)t allocate|[Uu]nable to allocate|"
    r"failed to (?:CUDA )?c?alloc|MemoryError|bad_alloc|Cannot allocate memory", re.IGNORECASE)


def _beside(name: str) -> Any:
    """A module from the file beside this one, whatever the program's own path leads to: of a package
    that has our folder, and a name which nobody else has."""
    import importlib
    import types

    if "_vramwise" not in sys.modules:
        package = types.ModuleType("_vramwise")
        package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
        sys.modules["_vramwise"] = package
    return importlib.import_module(f"_vramwise.{name}")


_files = _beside("_files")


class _State:
    """What this process knows of itself."""

    def __init__(self) -> None:
        self.torch: Any = None
        self.history: Any = None  # _history.History
        self.process_id = os.getpid()
        self.has_started = False  # CUDA, and with it the watching
        self.is_left_alone = False  # a fork of a process in which CUDA had started
        self.oom_count = 0
        self.has_uncaught = False  # an error about memory that ended the program
        self.has_said = False
        self.patience_seconds = PATIENCE_SECONDS
        self.lock = threading.Lock()
        # One snapshot at a time. Of the same thread more: writing one may collect garbage, which may
        # run anything.
        self.snapshot_lock = threading.RLock()
        self.recording: Optional[str] = None  # where the recording of --record goes
        self.program_name: Callable[[], str]
        self.steps: Any = None  # _steps.Steps
        self.live: Any = None  # _live.Live, if there is a page


_state = _State()


# ---- words to others -----------------------------------------------------------------------------


def _run_folder() -> str:
    """The folder of `vramwise run`; "" where there is none, or it is not this user's alone: a process may
    outlive its run, and then others can make a folder of that name, and listen there."""
    folder = os.environ.get("VRAMWISE_RUN", "")
    try:
        status = os.lstat(folder)
    except (OSError, ValueError):
        return ""
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022
    return folder if is_ours else ""


def _encoded(word: str) -> bytes:
    """As in a file's name, bytes that are no text included; texts may have other halves of characters."""
    word = word.replace("\0", "?")
    try:
        return word.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return word.encode("utf-8", "backslashreplace")


def _send(kind: str, **fields: Any) -> bool:
    """One datagram: the kind, then name=value, a zero byte between. False where nobody listens."""
    folder = _run_folder()
    if not folder:
        return False
    import _socket  # not socket, which may be a file of the program's

    words = [kind, f"pid={os.getpid()}"]
    words += [f"{name}={value}" for name, value in fields.items() if value is not None]
    message = b"\0".join(map(_encoded, words))
    try:
        door = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
        try:
            door.settimeout(_state.patience_seconds)
            door.sendto(message, os.path.join(folder, "socket"))
        finally:
            door.close()
        return True
    except _socket.timeout:
        _state.patience_seconds = LITTLE_PATIENCE_SECONDS
        return False
    except OSError:
        return False


def _leave_word(name: str) -> None:
    folder = _run_folder()
    if folder:
        try:
            _files.create(os.path.join(folder, name))
        except OSError:
            pass  # another process has left it, or nobody is there to read it


def _print(text: str) -> None:
    """Past sys.stderr, which may be anything by now."""
    try:
        os.write(2, f"vramwise: {text}\n".encode("utf-8", "replace"))
    except OSError:
        pass


def _say(text: str, error: Optional[BaseException]) -> None:
    """Says what does not work; of many processes with the same words, once."""
    if error is not None:
        text += f": {type(error).__name__}"
        try:
            text += f": {error}"
        except Exception:
            pass  # it has no words
    text = "".join(each if each.isprintable() else "?" for each in " ".join(text.split())[:1000])
    if not _send("trouble", text=text):
        _print(text)


def _trouble(text: str, error: Optional[BaseException] = None) -> None:
    """The same, once per process: what comes after it comes of it."""
    if not _state.has_said:
        _state.has_said = True
        _say(text, error)


def rank() -> Optional[int]:
    """The rank of this process, by the variables that launchers set."""
    for name in ("RANK", "SLURM_PROCID", "LOCAL_RANK"):
        value = os.environ.get(name, "")
        if value.isdecimal() and len(value) <= len(str(MOST_RANK)) and int(value) <= MOST_RANK:
            return int(value)
    return None


# ---- files ---------------------------------------------------------------------------------------


def _started_from() -> str:
    return os.environ.get("VRAMWISE_RUN_FOLDER", "") or os.getcwd()


def _for_temporary_files() -> str:
    import tempfile

    return tempfile.gettempdir()


def _announce(part: str) -> None:
    """`vramwise run` removes the file if this process is killed before it can."""
    _send("writing", path=part)


def _write_snapshot(path: str) -> None:
    with _state.snapshot_lock:
        snapshot = _state.torch.cuda.memory._snapshot()
        _files.write_whole(path, lambda file: pickle.dump(snapshot, file), _announce)


def _steps_path(path: str) -> str:
    return (path[:-len(".pickle")] if path.endswith(".pickle") else path) + ".steps.jsonl"


def _write_steps(path: str) -> Optional[str]:
    """The step log, as lines of JSON. None where there is none."""
    steps = list(_state.steps.log)
    if len(steps) < FEWEST_STEPS:
        return None
    lines = "".join(f'{{"step": {step}, "allocated": {allocated}, "reserved": {reserved}}}\n'
                    for step, allocated, reserved in steps)
    _files.write_whole(path, lambda file: file.write(lines.encode()), _announce)
    return path


def _failure_names() -> Iterator[str]:
    """Names for the snapshot of a failure, the best first."""
    number = rank()
    stem = f"vramwise-oom-{_state.program_name()}-{os.getpid()}"
    if number is not None:
        stem += f"-rank{number}"
    yield f"{stem}.pickle"
    for attempt in itertools.count(2):
        yield f"{stem}-{attempt}.pickle"


def _write_new_snapshot(folder: str) -> str:
    """Writes the snapshot of a failure under a name that no other file has. Returns its path."""
    with _state.snapshot_lock:
        snapshot = _state.torch.cuda.memory._snapshot()
        return _files.write_new(folder, _failure_names(),
                                lambda file: pickle.dump(snapshot, file), _announce)


def _is_first_to_claim(what: str) -> bool:
    """Of the processes of this run; where nobody else can be asked, it is."""
    folder = _run_folder()
    if folder:
        import zlib

        claim = os.path.join(folder, "claim-%08x" % zlib.crc32(os.fsencode(what)))
        try:
            _files.create(claim)
        except FileExistsError:
            return False
        except OSError:
            pass  # nobody to share with
    return True


def recording_name(wanted: str) -> str:
    """run.pickle becomes run.rank3.pickle; and if another process of this run has that name, as a
    program's subprocesses have its rank, run.rank3.pid1234.pickle."""
    number = rank()
    stem, ending = os.path.splitext(wanted)
    if number is not None:
        wanted = f"{stem}.rank{number}{ending}"
    if not _is_first_to_claim(wanted):
        stem, ending = os.path.splitext(wanted)
        wanted = f"{stem}.pid{os.getpid()}{ending}"
    return wanted


# ---- steps, and what others see ------------------------------------------------------------------


def _after_step(now: float, device: int, step: int, statistics: Any) -> None:
    if _state.live is not None:
        _state.live.after_step(now, device, step, statistics)
    _state.history.after_step(now, device, statistics)  # last: from here on it is the next step


def _answer() -> None:
    """In the thread that keeps the page: `vramwise run` may have asked for a snapshot, by a file with
    the path that it wants. A file of another user is ignored."""
    folder = _run_folder()
    if not folder:
        return
    asked = os.path.join(folder, f"ask-{os.getpid()}")
    try:
        path = _files.read_own(asked).decode("utf-8", "surrogateescape")
        os.unlink(asked)
    except OSError:
        return  # nobody has
    try:
        if not os.path.isabs(path):
            raise ValueError(f"expected an absolute path, and found {path!r}")
        _write_snapshot(path)
        _send("snapshot", path=path, steps=_write_steps(_steps_path(path)))
    except Exception as error:
        _say("the snapshot that was asked for could not be written", error)


def is_watching() -> bool:
    """Whether this process gets its page from here, now or when CUDA starts."""
    return _state.torch is not None and not _state.is_left_alone


def _publish() -> None:
    try:
        live = _beside("_live")
        if not live.is_switched_off():
            _state.live = live.Live(_state.torch, _state.program_name(), _answer)
            _state.live.begin()
    except Exception as error:
        _state.live = None
        if _is_first_to_claim("there is no page"):  # the words differ, by the page's name
            _say("vramwise top and its like do not see this program", error)


# ---- running out ---------------------------------------------------------------------------------


def _size(size_bytes: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:.2f} {name}"
    return f"{size_bytes} bytes"


def _describe(device: int, tried: int, limit: int, free: int) -> Dict[str, Any]:
    """The numbers, and PyTorch's words for them: the error itself is not made yet."""
    allocated, reserved = _beside("_steps").memory_in(_state.torch._C._cuda_memoryStats(device))
    total = int(_state.torch.cuda.get_device_properties(device).total_memory)
    allowed = f"{_size(limit)} allowed; " if limit < total else ""
    text = (f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {_size(tried)}. "
            f"GPU {device} has a total capacity of {_size(total)} of which {_size(free)} is free. "
            f"{allowed}Of the allocated memory {_size(allocated)} is allocated by PyTorch, and "
            f"{_size(reserved - allocated)} is reserved by PyTorch but unallocated.")
    return {"device": device, "total": total, "text": text}


def _save_failure() -> Optional[str]:
    """Writes the snapshot where it can be written. The path, or None and the reason is said."""
    if _state.recording is not None:
        try:
            _write_snapshot(_state.recording)
            return _state.recording
        except OSError:
            pass  # somewhere else, then
    problem: Optional[BaseException] = None
    for folder_of in (_started_from, _for_temporary_files):
        try:  # either may be gone, full, or not ours
            return _write_new_snapshot(folder_of())
        except OSError as error:
            problem = problem or error
    _trouble("no snapshot of the failure could be written", problem)
    return None


def _report_failure(device: int, tried: int, limit: int, free: int) -> None:
    try:
        fields = _describe(device, tried, limit, free)
    except Exception:  # an allocator without statistics
        fields = {"device": device}
    is_heard = _send("oom", rank=rank(), note=_state.history.words(), **fields)
    path = None
    try:
        path = _save_failure()
    finally:
        if path is None:
            _send("unsaved")  # so that the report does not wait for it
    if path is None:
        return
    steps = None
    try:
        steps = _write_steps(_steps_path(path))
    except OSError as error:
        _trouble("the step log could not be written", error)
    if not (is_heard and _send("file", path=os.path.abspath(path), steps=steps)):
        _print(f"process {os.getpid()} ran out of GPU memory; "
               f"'vramwise doctor {path}' says why")


def _observe(device: int, tried: int, limit: int, free: int) -> None:
    """PyTorch's observer: called in the thread that failed, before the error is raised."""
    state = _state
    if state.is_left_alone:
        return
    try:
        with state.lock:
            state.oom_count += 1
            is_first = state.oom_count == 1
        if is_first:
            _report_failure(device, tried, limit, free)
        else:
            _send("again")
    except Exception as error:
        _trouble("the out-of-memory error could not be looked at", error)


def _about_memory(value: Optional[BaseException]) -> Optional[BaseException]:
    """The error itself, or the one it came of, if that is about memory: the first that was raised."""
    found = None
    for _ in range(20):  # errors can be chained in a circle
        if value is None:
            break
        if _ABOUT_MEMORY.search(f"{type(value).__name__}: {value}"):
            found = value
        value = value.__cause__ or value.__context__
    return found


def _words_of(error: BaseException) -> str:
    """As Python prints it, without the lines of the program: these may quote the very error."""
    places = [f'  File "{place.filename}", line {place.lineno}, in {place.name}\n'
              for place in traceback.extract_tb(error.__traceback__)]
    words = "".join(traceback.format_exception_only(type(error), error))
    return "".join(["Traceback (most recent call last):\n", *places[-50:], words])


def _report_error(value: Optional[BaseException], ends_the_program: bool) -> None:
    error = None if _state.is_left_alone else _about_memory(value)
    if error is None:
        return
    _state.has_uncaught = _state.has_uncaught or ends_the_program
    steps = None
    folder = _run_folder()
    if folder and _state.oom_count == 0:
        try:
            steps = _write_steps(os.path.join(folder, f"steps-{os.getpid()}.jsonl"))
        except OSError:
            pass  # on another machine
    _send("error", rank=rank(), steps=steps, note=_state.history.words(),
          text=_words_of(error)[-MOST_TEXT:])


def _excepthook_before(previous: Callable[..., Any]) -> Callable[..., Any]:
    def excepthook(kind: Any, value: Any, trace: Any) -> Any:
        try:
            return previous(kind, value, trace)
        finally:
            try:
                _report_error(value, ends_the_program=True)
            except Exception as error:
                _trouble("the error could not be looked at", error)
    return excepthook


def _thread_excepthook_before(previous: Callable[..., Any]) -> Callable[..., Any]:
    def excepthook(args: Any) -> Any:
        try:
            return previous(args)
        finally:
            try:
                _report_error(args.exc_value, ends_the_program=False)
            except Exception as error:
                _trouble("the error could not be looked at", error)
    return excepthook


# ---- beginning and end ---------------------------------------------------------------------------


def _keep_history() -> None:
    """As many events as were asked for, and all of what belongs to them. Nobody asked: as much as
    costs little."""
    value = os.environ.get("VRAMWISE_RUN_HISTORY", "")
    if value.isdecimal():
        if int(value) > 0:
            _state.history.begin(min(int(value), sys.maxsize))
    elif os.environ.get("VRAMWISE_RUN_RECORD"):
        _state.history.begin(sys.maxsize)
    else:
        _state.history.begin(USUAL_HISTORY, _beside("_budget").Budget())


def _finish() -> None:
    """At the interpreter's end: the recording, unless the failure that ended it is in the file."""
    state = _state
    if state.is_left_alone or state.process_id != os.getpid() or state.recording is None:
        return
    path, state.recording = state.recording, None
    try:
        if not (state.has_uncaught and state.oom_count > 0 and os.path.exists(path)):
            _write_snapshot(path)
        _write_steps(_steps_path(path))
    except Exception as error:
        _send("lost")  # so that nobody guesses at the reason
        _trouble(f"the recording {path} could not be written", error)
        return
    _send("recorded", path=path)


def _after_fork() -> None:
    if _state.has_started:
        _state.is_left_alone = True
    else:
        _state.process_id = os.getpid()
        _state.lock, _state.snapshot_lock = threading.Lock(), threading.RLock()


def _start() -> None:
    """CUDA has started."""
    state = _state
    torch = state.torch
    state.has_started = True
    state.process_id = os.getpid()
    _leave_word("cuda")
    _publish()
    attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
    if attach is None:
        _trouble(f"PyTorch {torch.__version__} tells nobody when it runs out of memory; "
                 "watching needs 2.0 or later, with CUDA")
        return
    try:
        _keep_history()
        attach(_observe)
    except Exception as error:
        _trouble("this allocator keeps no history, so only errors that end the program are seen",
                 error)
        return
    state.steps.begin()
    wanted = os.environ.get("VRAMWISE_RUN_RECORD", "")
    if wanted:
        state.recording = recording_name(wanted)
        _send("recording", path=state.recording)
        _beside("_ending").at_the_end(_finish)


def _start_safely() -> None:
    try:
        _start()
    except Exception as error:
        _trouble("this program is not watched", error)


def _package() -> Any:
    """The package beside this file, as `vramwise`: from here, wherever the program's own path
    leads. A module of that name which is not ours stays what it is."""
    import importlib
    from importlib import util

    if "vramwise" not in sys.modules:
        folder = os.path.dirname(os.path.abspath(__file__))
        spec = util.spec_from_file_location("vramwise", os.path.join(folder, "__init__.py"),
                                            submodule_search_locations=[folder])
        if spec is None or spec.loader is None:
            raise ImportError(f"no package in {folder}")
        module = util.module_from_spec(spec)
        sys.modules["vramwise"] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            sys.modules.pop("vramwise", None)
            raise
    return importlib.import_module("vramwise.torch")


def _install(allocator: str) -> None:
    if allocator in ("", "pytorch"):
        return
    try:
        # Asked for an error rather than a line of its own: many ranks then say it once.
        _package().install(allocator, fallback="error")
    except Exception as error:
        _trouble(f"allocator {allocator} was not installed, and PyTorch's own stays", error)


def arm(torch: Any) -> None:
    """torch has been imported."""
    if not hasattr(torch, "cuda"):
        _trouble(f"{getattr(torch, '__file__', None)} is not PyTorch, though it is called torch")
        return
    _state.torch = torch
    _leave_word("torch")
    _state.history = _beside("_history").History(torch)
    _state.program_name = _beside("_program").program_name
    _state.steps = _beside("_steps").Steps(torch, _after_step, _trouble)
    _install(os.environ.get("VRAMWISE_RUN_ALLOCATOR", ""))
    sys.excepthook = _excepthook_before(sys.excepthook)
    threading.excepthook = _thread_excepthook_before(threading.excepthook)
    os.register_at_fork(after_in_child=_after_fork)
    torch.cuda._lazy_call(_start_safely)
