"""_live.py - this process's page in shared memory (live.h), filled with what PyTorch knows.

A thread of its own looks once a second at the statistics of every device that the program uses, and
puts them on the page, for `vramwise top` and its like. After a step, the thread that stepped adds one
entry to the page's log; nothing else runs in the program's threads. Where one of our allocators
serves, the library puts its pools on the page itself, and this adds what pools do not know: steps,
time spent waiting for input, PyTorch's pinned memory.

The program must not notice: CUDA is started nowhere, a device without a context gets none, a capture
of a CUDA graph is not disturbed, no exception leaves this file. What cannot be had is unknown on the
page. A process forked meanwhile has no part in it. VRAMWISE_LIVE=0 switches it off.
"""
import ctypes
import os
import signal
import sys
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import _library
from ._ending import at_the_end
from ._history import allowed_part
from ._input import InputWait
from ._steps import is_compiling_of, memory_in

UNKNOWN = 2**64 - 1  # VW_LIVE_UNKNOWN
KEEP = 2**64 - 2  # VW_LIVE_KEEP
TICK_MILLISECONDS = 1000
LONGEST_TICK_MILLISECONDS = 60_000
PATIENCE_SECONDS = 10.0  # at the end, for a look that is under way

# Those of this thread itself. All others are the program's, and its threads'.
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED

# Where PyTorch's statistics have what the page tells.
_PEAKS = {"peak_live_bytes": ("allocated_bytes", "all", "peak"),
          "peak_reserved_bytes": ("reserved_bytes", "all", "peak")}
_COUNTERS = {"allocations": (("allocation", "all", "allocated"),),
             "retries": (("num_alloc_retries",),),
             "out_of_memory": (("num_ooms",),),
             "driver_calls": (("num_device_alloc",), ("num_device_free",))}
_OF_THE_PROCESS = ("pinned_bytes", "steps", "step_nanoseconds", "input_wait_nanoseconds",
                   "loader_workers", "loader_pins")

Values = Dict[str, int]


def is_switched_off() -> bool:
    """By VRAMWISE_LIVE, or VRAMWISE_DISABLE: as vw_live_is_wanted() of the library says."""
    return os.environ.get("VRAMWISE_LIVE") == "0" or _library.is_disabled()


def tick_seconds() -> float:
    """From look to look: VRAMWISE_LIVE_MS, by the library's own rule for it."""
    told = os.environ.get("VRAMWISE_LIVE_MS", "")
    wanted = int(told) if told.isdecimal() and len(told) < 10 else 0
    return (wanted if 1 <= wanted <= LONGEST_TICK_MILLISECONDS else TICK_MILLISECONDS) / 1000


def allocator_in_force() -> Tuple[str, bool]:
    """What serves PyTorch's requests, and whether it is ours: by what vramwise.torch has installed,
    if it was ever imported."""
    state = getattr(sys.modules.get("vramwise.torch._state"), "State", None)
    installed = getattr(state, "installed", None)
    return (installed.allocator, True) if installed else ("pytorch", False)


def _launch_gate() -> Values:
    return {"launch_gate": sys.modules["vramwise.torch._state"].launch_gate()[0]}


class _Identity(ctypes.Structure):
    """vw_live_identity"""
    _fields_ = [("struct_size", ctypes.c_size_t), ("program", ctypes.c_char_p),
                ("allocator", ctypes.c_char_p), ("job", ctypes.c_char_p),
                ("run", ctypes.c_char_p), ("rank", ctypes.c_int), ("local_rank", ctypes.c_int),
                ("world_size", ctypes.c_int)]


class Page:
    """The page of this process. VramwiseError: there is none, and why."""

    def __init__(self) -> None:
        # The calls are short, so they keep the interpreter's lock: to give it up and ask for it
        # again could take the program milliseconds.
        library = ctypes.PyDLL(None, handle=_library.load("vramwise")._handle)
        library.vw_live_field_count.restype = ctypes.c_size_t
        library.vw_live_field_name.restype = ctypes.c_char_p
        library.vw_live_field_name.argtypes = [ctypes.c_size_t]
        library.vw_live_process_page.argtypes = [ctypes.POINTER(ctypes.c_void_p)]
        library.vw_live_page_path.restype = ctypes.c_char_p
        library.vw_live_page_path.argtypes = [ctypes.c_void_p]
        library.vw_live_page_identify.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Identity)]
        library.vw_live_page_put.argtypes = [
            ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64),
            ctypes.c_size_t]
        library.vw_live_page_step.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64,
                                              ctypes.c_uint64, ctypes.c_uint64]
        page = ctypes.c_void_p()
        _library.check(library.vw_live_process_page(ctypes.byref(page)))
        self._library = library
        self._page = page
        self._count = library.vw_live_field_count()
        self._places = {library.vw_live_field_name(place).decode(): place
                        for place in range(self._count)}
        self.step = library.vw_live_page_step
        self.address = page.value
        self.path = os.fsdecode(library.vw_live_page_path(page))

    def identify(self, program: str, allocator: str) -> None:
        """Says who the process is; the rest the library knows from variables."""
        identity = _Identity(ctypes.sizeof(_Identity), _library.encoded(program),
                             _library.encoded(allocator), None, None, -1, -1, 0)
        _library.check(self._library.vw_live_page_identify(self._page, ctypes.byref(identity)))

    def put(self, device: int, name: Optional[str], values: Values) -> None:
        """What is not among the values stays."""
        row = (ctypes.c_uint64 * self._count)(*[KEEP] * self._count)
        for field, value in values.items():
            if field in self._places:
                row[self._places[field]] = value
        _library.check(self._library.vw_live_page_put(
            self._page, device, _library.encoded(name), row, self._count))


class _Device:
    """One that the program uses: what PyTorch says of it, as the page wants it."""

    def __init__(self, torch: Any, index: int) -> None:
        self._torch = torch
        self._index = index
        self._peaks: Values = {}
        self._counts: Dict[str, Tuple[int, int]] = {}  # the last, and the sum of those before a reset
        self.name: Optional[str] = None

    def memory(self) -> Values:
        """PyTorch's statistics. The program may reset peaks and counters; the page's only rise."""
        statistics = self._torch._C._cuda_memoryStats(self._index)
        live, reserved = memory_in(statistics)
        values = {"live_bytes": live, "reserved_bytes": reserved}
        for field, place in _PEAKS.items():
            highest = max(self._peaks.get(field, 0), _found(statistics, place) or 0,
                          values[field[len("peak_"):]])
            self._peaks[field] = values[field] = highest
        for field, places in _COUNTERS.items():
            found = [_found(statistics, place) for place in places]
            if None not in found:
                values[field] = self._risen(field, sum(found))  # type: ignore[arg-type]
        return values

    def _risen(self, field: str, value: int) -> int:
        last, before = self._counts.get(field, (0, 0))
        if value < last:
            before += last
        self._counts[field] = (value, before)
        return value + before

    def card(self) -> Values:
        """What its driver says. To be asked only where there is a context."""
        torch = self._torch
        if self.name is None:
            self.name = str(torch.cuda.get_device_properties(self._index).name)
        # PyTorch goes to the device for this, and then back to where the thread was: it must not be
        # another one, on which that would make a context.
        torch._C._cuda_setDevice(self._index)
        free, total = torch.cuda.mem_get_info(self._index)
        part = allowed_part(torch, self._index)
        return {"device_free_bytes": free, "device_total_bytes": total,
                "limit_bytes": UNKNOWN if part is None or part >= 1.0 else int(total * part)}


def _found(statistics: Any, place: Tuple[str, ...]) -> Optional[int]:
    for word in place:
        statistics = statistics.get(word) if isinstance(statistics, dict) else None
    return statistics


def _leave_captures_alone() -> None:
    """While a CUDA graph is captured, the driver forbids other threads calls that it finds unsafe,
    and the capture is lost; a thread can be exempted. What is called here touches no stream."""
    try:
        mode = ctypes.c_int(_RELAXED)
        ctypes.CDLL("libcuda.so.1").cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
    except (OSError, AttributeError):
        pass  # no such driver


class Live:
    """One for the process. `every_tick` is called by the thread, after its look."""

    def __init__(self, torch: Any, program: str, every_tick: Callable[[], None] = lambda: None
                 ) -> None:
        self._torch = torch
        self._every_tick = every_tick
        self._page = Page()
        allocator, self._is_ours = allocator_in_force()
        self._page.identify(program, allocator)
        self._input = InputWait(is_compiling_of(torch))
        self._devices: Dict[int, _Device] = {}
        self._home: Optional[int] = None  # the device with what is the process's
        self._first_step: Optional[Tuple[float, int]] = None  # when, and what was waited by then
        self._last_step: Optional[Tuple[int, Values]] = None  # on which device, and what to tell of it
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="vramwise-live", daemon=True)
        self._is_on = True
        os.register_at_fork(after_in_child=self._switch_off)

    def begin(self) -> None:
        """CUDA has started, or is about to."""
        self._input.follow_loaders()
        self._thread.start()
        at_the_end(self._finish)

    def after_step(self, now: float, device: int, step: int, statistics: Any) -> None:
        """In the thread that stepped. Times count from the end of the first step."""
        if not self._is_on:
            return
        waited = self._input.waited_ns()
        if self._first_step is None:
            self._first_step = (now, waited or 0)
        began, waited_before = self._first_step
        values = {"steps": step, "step_nanoseconds": int((now - began) * 1e9)}
        if waited is not None:
            values["input_wait_nanoseconds"] = max(waited - waited_before, 0)
        self._last_step = (device, values)
        if statistics is not None:
            self._page.step(self._page.address, device, step, *memory_in(statistics))

    # ---- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _FAULTS)
        _leave_captures_alone()
        seconds = tick_seconds()
        while not self._is_over.wait(seconds):
            for task in (self._look, self._every_tick):
                try:
                    task()
                except Exception:
                    pass  # what is on the page stays, with its age

    def _look(self) -> None:
        if not self._torch.cuda.is_initialized():
            return
        self._input.follow_loaders()
        last = self._last_step
        used = self._used_devices()
        home = last[0] if last is not None else used[0] if used else None
        if self._home is not None and self._home != home:
            self._page.put(self._home, None, dict.fromkeys(_OF_THE_PROCESS, UNKNOWN))
        self._home = home
        for index in used:
            device = self._devices.setdefault(index, _Device(self._torch, index))
            values: Values = {}
            if self._is_ours:
                _ask(_launch_gate, values, ("launch_gate",))
            else:
                _ask(device.memory, values, ("live_bytes", "reserved_bytes"))
                _ask(device.card, values, ("device_free_bytes",))
            if index == home:
                values.update(self._of_the_process())
                values.update(last[1] if last is not None else {})
            self._page.put(index, device.name, values)

    def _used_devices(self) -> List[int]:
        """Those with a context. To be asked about others would give them one."""
        count = self._torch.cuda.device_count()
        has_context = getattr(self._torch._C, "_cuda_hasPrimaryContext", None)
        if has_context is None:
            return [] if self._last_step is None else [self._last_step[0]]
        return [index for index in range(count) if has_context(index)]

    def _of_the_process(self) -> Values:
        values: Values = {}
        _ask(self._pinned, values, ("pinned_bytes",))
        if self._input.workers is not None:
            values["loader_workers"] = int(self._input.workers)
        if self._input.pins is not None:
            values["loader_pins"] = int(bool(self._input.pins))
        return values

    def _pinned(self) -> Values:
        statistics = self._torch._C._cuda_hostMemoryStats()  # older versions have none
        held = _found(statistics, ("reserved_bytes", "current"))
        if held is None:
            held = _found(statistics, ("allocated_bytes", "current"))
        return {} if held is None else {"pinned_bytes": held}

    # ---- the end ---------------------------------------------------------------------------------

    def _switch_off(self) -> None:
        self._is_on = False

    def _finish(self) -> None:
        """Before the interpreter goes: a thread that wakes up in its ruins would end the process
        with an error. The page goes too, since multiprocessing's children skip its own end."""
        if not self._is_on:
            return
        self._is_over.set()
        self._thread.join(PATIENCE_SECONDS)
        try:
            os.unlink(self._page.path)
        except OSError:
            pass  # shared memory was emptied meanwhile


def _ask(question: Callable[[], Values], values: Values, fields: Tuple[str, ...]) -> None:
    """Adds the answer to the values; where there is none, those fields are unknown."""
    try:
        values.update(question())
    except Exception:  # another allocator, an older PyTorch, a device that was lost
        values.update(dict.fromkeys(fields, UNKNOWN))
