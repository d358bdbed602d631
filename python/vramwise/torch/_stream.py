"""_stream.py - an optimizer's state that leaves the GPU behind the forward pass and returns behind the
backward pass; and where that is not enough, tensors that the forward pass saves (_saved.py).

The adapter copies, binds storages elsewhere and makes the schedule (state_stream.h). Here: which tensors
are an optimizer's state, when its steps begin and end, and what is moved when a request finds no room.

A storage may be bound elsewhere only while no other thread can be between reading its address and using
it. Whoever uses a tensor holds a reference to it, in Python or in C++. So the adapter, with Python's
lock held, compares the counts of references with those of a tensor that just one dictionary holds: that
is what _ask() is for, through which every such call is made. Without a global lock there is no such
moment, and Python without one is refused. Calls that copy are made without the lock: while the process is
parked they wait for a wake.

A failure here must not end the job: it is said in a line, nothing more leaves, and what is away comes
back with the next steps, or stays on the host, where it is right and slow.
"""
from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
import weakref
from typing import Any, Callable, Dict, List, Optional

from .. import _steps
from .._library import VramwiseError
from ._parts import Staging, StepInParts
from ._saved import SavedTensors
from ._say import say
from ._spill import STEPS_BETWEEN_LOOKS, _tensors_in
from ._state import ROOM_MAKER, bound_stream

_MOST_MISSED = 8  # pieces in a row that stay: others hold them, or their copies are not complete, nor those that follow
_STAGEABLE = ("ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD")
# What vramwise_torch_stream_move() does.
_NOTE_STEP, _COPY_OUT, _COPY_AT_ONCE, _FETCH, _BIND_OUT, _BIND_IN, _IS_ALONE = range(7)


class _Piece:
    """A tensor of an optimizer's state. Held weakly: the optimizer alone decides how long it lives."""
    __slots__ = ("tensor", "size", "device", "is_leaving")

    def __init__(self, tensor: "weakref.ref[Any]", size: int, device: int) -> None:
        self.tensor, self.size, self.device = tensor, size, device
        self.is_leaving = False  # a copy was begun, and it was not bound to it yet


class _State:
    """What an optimizer's state was when it was last looked through."""
    __slots__ = ("identities", "pieces", "steps")

    def __init__(self, identities: Optional[List[int]], pieces: List[_Piece]) -> None:
        self.identities = identities  # of all its values, in order; None: they say too little
        self.pieces = pieces
        self.steps = 0  # since then

    def is_still(self, identities: Optional[List[int]]) -> bool:
        """A tensor that is there as it was, in the same place, is the same one. Once in a while nobody relies on it: one
        that could not be streamed may have got other memory."""
        self.steps += 1
        return (self.steps < STEPS_BETWEEN_LOOKS and identities is not None and identities == self.identities
                and all(piece.tensor() is not None for piece in self.pieces))


def _ask(function: Callable[..., int], reference: "weakref.ref[Any]", *more: Any) -> int:
    """`function` for a tensor that is held by this variable, and by whoever else holds it."""
    tensor = reference()
    return function(tensor._cdata, id(tensor), *more) if tensor is not None else 0


def _ask_all(adapter: ctypes.CDLL, pieces: List[_Piece], what: int, most: int = 2**64 - 1) -> List[int]:
    """The answers for each piece, all in one call. For what does not ask who holds a tensor."""
    tensors = [piece.tensor() for piece in pieces]  # which live for the call
    numbers = ctypes.c_ulonglong * len(pieces)
    asked, answers = numbers(*[0 if tensor is None else tensor._cdata for tensor in tensors]), numbers()
    adapter.vramwise_torch_stream_move_all(asked, len(pieces), what, most, answers)
    return list(answers)


class Streamer:
    """One for the process."""

    def __init__(self, torch: Any, adapter: ctypes.CDLL, quiet: bool) -> None:
        self._torch, self._quiet = torch, quiet
        self._with_lock, self._without = bound_stream(adapter, True), bound_stream(adapter, False)
        self._is_at_work = True   # state may leave
        self._is_started = False  # with the first step that counts: before, CUDA may not be started
        self._is_child = False    # of fork()
        self._first = _steps.FirstToStep()
        self._pieces: Dict[int, _Piece] = {}  # by id(tensor), in the order in which they came
        self._by_optimizer: "weakref.WeakKeyDictionary[Any, _State]" = weakref.WeakKeyDictionary()
        self._moving = threading.Lock()
        self._saved = SavedTensors(torch, self._with_lock, self._without)
        self._can_save = False  # PyTorch has the hooks for it
        self._parts = StepInParts(torch, Staging(torch, self._without))
        self._room_maker = ROOM_MAKER(self._make_room)  # the adapter has its address

    def begin(self) -> None:
        """From here on."""
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            self._end("this Python has no global lock")
        elif not (_steps.call_before_steps(self._torch, self._before_safely)
                  and _steps.call_after_steps(self._torch, self._after_safely)):
            self._end(f"PyTorch {self._torch.__version__} does not tell of steps")
        else:
            os.register_at_fork(after_in_child=self._leave_to_parent)
            self._can_save = self._saved.begin()
            self._parts.begin()

    def _end(self, reason: str) -> None:
        self._is_at_work = self._parts.is_wanted = False
        if self._can_save:
            self._saved.end()
        if self._is_started:
            self._without.vramwise_torch_stream_stop()
        say(f"no optimizer's state is streamed to host memory any more: {reason}", quiet=self._quiet)

    def _leave_to_parent(self) -> None:
        self._is_at_work, self._is_child = False, True

    # ---- around steps ----------------------------------------------------------------------------

    def _before_safely(self, optimizer: Any) -> None:
        """Also after the end: what is away is to come back."""
        try:
            if not self._is_child:
                self._before(optimizer)
        except Exception as error:
            if self._is_at_work:
                self._end(f"{type(error).__name__}: {error}")

    def _after_safely(self, optimizer: Any) -> None:
        if not self._is_at_work:
            if self._can_save:
                self._saved.take_away()  # the end may have come in another thread
            return
        try:
            self._after(optimizer)
        except Exception as error:
            self._end(f"{type(error).__name__}: {error}")

    def _before(self, optimizer: Any) -> None:
        self._parts.may_stage = _is_stageable(optimizer)
        state = self._by_optimizer.get(optimizer)
        if state is None:
            return
        for piece, fetched in zip(state.pieces, _ask_all(self._without, state.pieces, _FETCH)):
            if fetched > 0:
                _ask(self._with_lock.vramwise_torch_stream_move, piece.tensor, _BIND_IN)
            piece.is_leaving = False

    def _after(self, optimizer: Any) -> None:
        if not self._torch.cuda.is_initialized() or self._torch.cuda.is_current_stream_capturing():
            return
        if not self._is_started:
            self._start()
        pieces = self._pieces_of(optimizer) if _can_stream(optimizer) else []
        _ask_all(self._without, pieces, _NOTE_STEP)
        is_step_end = self._first.is_it(optimizer)
        devices = {piece.device for piece in (list(self._pieces.values()) if is_step_end else pieces)}
        if is_step_end:
            devices.add(self._torch.cuda.current_device())
        is_lacking = False
        for device in sorted(devices):
            wanted = self._without.vramwise_torch_stream_plan(device, is_step_end)
            self._parts.is_wanted |= wanted > 0  # and from then on
            is_lacking |= is_step_end and self._without.vramwise_torch_saved_lacking(device) > 0
            if wanted > 0:
                here = [piece for piece in pieces if piece.device == device]
                for piece, begun in zip(here, _ask_all(self._without, here, _COPY_OUT, wanted)):
                    piece.is_leaving = begun > 0
        if is_step_end and self._can_save:
            self._saved.after_step(is_lacking)

    def _pieces_of(self, optimizer: Any) -> List[_Piece]:
        """As they were after its last step, if nothing was put in their place: to look at hundreds of tensors one by one
        takes milliseconds."""
        identities = _identities_in(optimizer.state)
        known = self._by_optimizer.get(optimizer)
        if known is None or not known.is_still(identities):
            known = self._by_optimizer[optimizer] = _State(identities, self._look_through(optimizer.state))
        return known.pieces

    def _look_through(self, states: Any) -> List[_Piece]:
        found = []
        for state in list(states.values()):
            for tensor in _tensors_in(state):
                piece = self._pieces.get(id(tensor))
                if piece is None or piece.tensor() is not tensor:
                    piece = self._new_piece(tensor)
                if piece is not None:
                    found.append(piece)
        return found

    def _new_piece(self, tensor: Any) -> Optional[_Piece]:
        """None: it is not a plain tensor on a GPU with a storage of its own, or too small."""
        if type(tensor) is not self._torch.Tensor or not tensor.is_cuda or tensor.requires_grad:
            return None
        if tensor.layout is not self._torch.strided or tensor.storage_offset() != 0:
            return None
        if tensor.numel() * tensor.element_size() != tensor.untyped_storage().nbytes():
            return None
        key, pieces = id(tensor), self._pieces
        reference = weakref.ref(tensor, lambda _: pieces.pop(key, None))
        size = _ask(self._without.vramwise_torch_stream_add, reference)
        if size == 0:
            return None
        pieces[key] = _Piece(reference, size, tensor.device.index)
        return pieces[key]

    # ---- starting --------------------------------------------------------------------------------

    def _start(self) -> None:
        """VramwiseError: counts of references do not say here who holds a tensor."""
        holder = {"state": self._torch.empty(8)}
        holder["state"].untyped_storage()  # an object that counts from the first time on
        reference = weakref.ref(holder["state"])
        move = self._with_lock.vramwise_torch_stream_move
        has_lock = ctypes.cast(ctypes.pythonapi.PyGILState_Check, ctypes.c_void_p)
        if not _ask(self._with_lock.vramwise_torch_stream_start, reference, self._room_maker, has_lock):
            raise VramwiseError("the adapter refused")
        self._is_started = True
        is_seen = [_ask(move, reference, _IS_ALONE)]
        other: Any = holder["state"]
        is_seen.append(1 - _ask(move, reference, _IS_ALONE))
        other = other.detach()
        is_seen.append(1 - _ask(move, reference, _IS_ALONE))
        del other
        is_seen.append(_ask(move, reference, _IS_ALONE))
        if not all(is_seen):
            raise VramwiseError(f"references cannot be counted here ({is_seen})")
        atexit.register(self._quit)
        threading.Thread(target=self._serve, name="vramwise-stream", daemon=True).start()
        threading.Thread(target=self._without.vramwise_torch_stream_pump, name="vramwise-copies", daemon=True).start()

    def _quit(self) -> None:
        if not self._is_child:
            self._is_at_work = False
            self._without.vramwise_torch_stream_stop()

    # ---- a request without room ------------------------------------------------------------------

    def _serve(self) -> None:
        """For requests of threads that do not have Python's lock."""
        device, size, is_ahead = ctypes.c_int(), ctypes.c_ulonglong(), ctypes.c_int()
        while self._without.vramwise_torch_stream_next_need(ctypes.byref(device), ctypes.byref(size), ctypes.byref(is_ahead)):
            self._without.vramwise_torch_stream_answer(self._make_room(device.value, size.value, is_ahead.value))
        if self._is_at_work:
            self._end("a request for memory waited too long for Python")

    def _make_room(self, device: int, size: int, is_ahead: int) -> int:
        """1: memory was freed. Ahead, nothing lacks yet: only what leaves anyway, and without a wait that counts."""
        if not self._is_at_work or not self._moving.acquire(blocking=False):
            return 0
        try:
            return int(self._move_out([piece for piece in list(self._pieces.values())
                                       if piece.device == device], device, size, is_ahead))
        except Exception as error:
            self._end(f"{type(error).__name__}: {error}")
            return 0
        finally:
            self._moving.release()

    def _move_out(self, pieces: List[_Piece], device: int, size: int, is_ahead: int) -> bool:
        moved = self._bind_out([piece for piece in pieces if piece.is_leaving], size, is_ahead)
        if moved < size and not is_ahead:  # more than was planned, or nothing was
            begun: List[_Piece] = []
            lacking = size - moved
            for piece in pieces:
                if lacking > 0 and _ask(self._without.vramwise_torch_stream_move, piece.tensor, _COPY_AT_ONCE):
                    piece.is_leaving = True
                    lacking -= piece.size
                    begun.append(piece)
            moved += self._bind_out(begun, size - moved, is_ahead)
        if moved > 0:
            self._without.vramwise_torch_stream_release(device, is_ahead)
        return moved > 0

    def _bind_out(self, pieces: List[_Piece], wanted: int, is_ahead: int) -> int:
        """Waits for copies until that many bytes are bound; those that are complete by then are bound as well, so that
        few requests ask, and memory comes free in large parts."""
        moved, move = 0, self._with_lock.vramwise_torch_stream_move
        may_wait, missed = True, 0
        for piece in pieces:
            bound = _ask(move, piece.tensor, _BIND_OUT)
            if bound == 0 and moved < wanted and may_wait:
                _ask(self._without.vramwise_torch_stream_wait, piece.tensor, is_ahead)
                bound = _ask(move, piece.tensor, _BIND_OUT)
                may_wait = bound > 0 or not is_ahead
            piece.is_leaving = piece.is_leaving and bound == 0
            moved += bound
            missed = missed + 1 if bound == 0 else 0
            if missed == _MOST_MISSED and (is_ahead or moved >= wanted):
                break
        return moved


def _identities_in(states: Any) -> Optional[List[int]]:
    """Of all values of an optimizer's states. None: some have others within, which may change unseen."""
    values = [value for state in list(states.values()) if type(state) is dict for value in state.values()]
    if len(states) == 0 or not all(type(state) is dict for state in states.values()):
        return None
    return None if {list, tuple, dict} & set(map(type, values)) else list(map(id, values))


def _is_stageable(optimizer: Any) -> bool:
    """Its step writes in place into the tensors of each part, before it asks for the next part."""
    kind = type(optimizer)
    return (kind.__module__.startswith("torch.optim.") and kind.__name__ in _STAGEABLE
            and not any(group.get("fused") for group in optimizer.param_groups))


def _can_stream(optimizer: Any) -> bool:
    """One of PyTorch's own, which touch their state inside of step() only, on the current stream; and not
    one whose step is in a CUDA graph, which has the addresses."""
    if type(optimizer).__module__.split(".")[:2] != ["torch", "optim"]:
        return False
    if hasattr(optimizer.__dict__.get("step"), "_torchdynamo_orig_callable"):
        return False  # compiled: its hooks are not called
    return not any(group.get("capturable") or group.get("differentiable") for group in optimizer.param_groups)
