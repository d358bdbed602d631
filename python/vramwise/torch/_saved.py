"""_saved.py - tensors that the forward pass saves for the backward pass, in host memory in between.

PyTorch has hooks for that: one is called for each tensor that is saved, and what it returns is kept in the
tensor's place; the other makes a tensor of it again. Ours are in force only while an optimizer's state
alone does not make enough room, and in a step only up to the last tensor that leaves. The adapter decides
which leave, copies, and copies back ahead of their use (saved_stream.h). Here: which tensors can leave at
all, and what PyTorch keeps of them.

A tensor that stays is kept with its version, which is compared when it is wanted again: PyTorch does that
by itself only where there are no hooks.

Hooks are a stack, of each thread. Whoever pushes and pops must not meet ours: so they are pushed between
steps, while nobody else's are there, popped only from the top, and give way where a program forbids hooks. The
threads of a backward pass begin with the stack of the thread that called it, and lose it at its end: steps
that are made there push nothing.
"""
from __future__ import annotations

import ctypes
import functools
import threading
import weakref
from typing import Any, Dict, Optional, Tuple

_LEAST_BYTES = 1 << 20  # of a tensor that is worth a copy; StateStream::least_bytes
_STEPS_WITHOUT_NEED = 16  # after so many the hooks are taken away
_WRITTEN, _UNKNOWN = -1, -2  # vramwise_torch_saved_fetch()
_LAST = 1 << 62  # VRAMWISE_TORCH_SAVED_LAST
_NAMES = ("_push_saved_tensors_default_hooks", "_pop_saved_tensors_default_hooks",
          "_saved_tensors_hooks_is_enabled", "_saved_tensors_hooks_disable", "_saved_tensors_hooks_enable")


class _Left:
    """A storage that has left, by its id. All tensors that share it hold this one."""
    __slots__ = ("_adapter", "id", "device", "shell", "__weakref__")

    def __init__(self, adapter: ctypes.CDLL, number: int, device: int) -> None:
        self._adapter, self.id, self.device = adapter, number, device
        self.shell: Any = None  # once it is back: a tensor of its bytes

    def __del__(self) -> None:
        self._adapter.vramwise_torch_saved_release(self.device, self.id)


class _Thread(threading.local):
    """The hooks of a thread."""
    others = 0  # hooks of the program's own that are in force; counted before PyTorch 2.8 only
    is_ours = False  # ours are in force; the same
    is_forbidden = False  # ours were in force when the program forbade hooks


class SavedTensors:
    """The hooks. One for the process."""

    def __init__(self, torch: Any, with_lock: ctypes.CDLL, without: ctypes.CDLL) -> None:
        self._torch, self._with_lock, self._without = torch, with_lock, without
        self._left: "weakref.WeakValueDictionary[Tuple[int, int], _Left]" = weakref.WeakValueDictionary()
        self._newest: Dict[int, int] = {}  # the largest id of each GPU
        self._hooks = (self._pack, self._unpack)
        self._push: Any = None  # PyTorch's, and so the next three
        self._pop: Any = None
        self._is_enabled: Any = None
        self._top: Any = None  # None: before PyTorch 2.8
        self._here = _Thread()
        self._fetching = threading.RLock()
        self._is_over = False
        self._quiet_steps = 0

    # ---- pushing and popping ---------------------------------------------------------------------

    def begin(self) -> bool:
        """False: this PyTorch has no such hooks, or not where they were."""
        outer: Any = getattr(self._torch, "_C", None)
        inner: Any = getattr(outer, "_autograd", None)
        if not hasattr(outer, "_current_graph_task_id") or not all(hasattr(inner, name) for name in _NAMES):
            return False
        self._push, self._pop, self._is_enabled, disable, enable = (getattr(inner, name) for name in _NAMES)
        try:
            inner._top_saved_tensors_default_hooks(True)
            self._top = inner._top_saved_tensors_default_hooks
        except (AttributeError, TypeError):
            if not self._count_others():
                return False

        @functools.wraps(disable)
        def disable_others(*arguments: Any, **options: Any) -> Any:
            """PyTorch's fails where any are in force."""
            self._here.is_forbidden = self.take_away() or self._here.is_forbidden
            return disable(*arguments, **options)

        @functools.wraps(enable)
        def enable_all(*arguments: Any, **options: Any) -> Any:
            result = enable(*arguments, **options)
            if self._here.is_forbidden:
                self._put_in_force()
            return result
        inner._saved_tensors_hooks_disable, inner._saved_tensors_hooks_enable = disable_others, enable_all
        return True

    def _count_others(self) -> bool:
        """Where PyTorch does not tell whose hooks are in force. False: it has no such class."""
        graph: Any = getattr(getattr(self._torch, "autograd", None), "graph", None)
        kind: Any = getattr(graph, "saved_tensors_hooks", None)
        if kind is None:
            return False
        enter, leave = kind.__enter__, kind.__exit__

        @functools.wraps(enter)
        def counted_enter(hooks: Any) -> Any:
            result = enter(hooks)
            self._here.others += 1
            return result

        @functools.wraps(leave)
        def counted_leave(hooks: Any, *more: Any) -> Any:
            self._here.others -= 1
            return leave(hooks, *more)
        kind.__enter__, kind.__exit__ = counted_enter, counted_leave
        return True

    def after_step(self, is_lacking: bool) -> None:
        """Between two steps, in the thread that makes them."""
        if self._torch._C._current_graph_task_id() != -1:
            return  # an optimizer that steps in the backward pass
        self._quiet_steps = 0 if is_lacking else self._quiet_steps + 1
        if is_lacking:
            self._put_in_force()
        elif self._quiet_steps >= _STEPS_WITHOUT_NEED:
            self.take_away()

    def _put_in_force(self) -> None:
        """Unless any are in force here, or forbidden."""
        if self._top is not None:
            is_any = self._top(True) is not None
        else:
            is_any = self._here.is_ours or self._here.others != 0
        if is_any or self._is_over or not self._is_enabled():
            return
        self._push(*self._hooks)
        self._here.is_ours, self._here.is_forbidden = True, False

    def take_away(self) -> bool:
        """What was saved stays as it is, and comes back by the hooks that it was saved with. False: they were not
        there, or others are on top."""
        if self._top is not None:
            top = self._top(True)
            is_on_top = top is not None and top[0] is self._hooks[0]
        else:
            is_on_top = self._here.is_ours and self._here.others == 0
        if is_on_top:
            self._here.is_ours = False
            self._pop()
        return is_on_top

    def end(self) -> None:
        """Nothing more leaves. Hooks of other threads are there until take_away() is called in them."""
        self._is_over = True
        self.take_away()

    # ---- the hooks -------------------------------------------------------------------------------

    def _can_leave(self, tensor: Any) -> bool:
        """Not weights, which others hold, nor what is more than bytes in a storage."""
        torch = self._torch
        if type(tensor) is not torch.Tensor or not tensor.is_cuda:
            return False
        if tensor.numel() * tensor.element_size() < _LEAST_BYTES or tensor.layout is not torch.strided:
            return False
        if tensor.dtype.is_complex or tensor.is_neg() or tensor.is_nested or tensor.is_quantized:
            return False
        base = tensor._base if tensor._base is not None else tensor
        return type(base) is torch.Tensor and not (base.requires_grad and base.is_leaf)

    def _pack(self, tensor: Any) -> Tuple[Any, ...]:
        number = 0
        if not self._is_over and self._can_leave(tensor):
            number = self._without.vramwise_torch_saved_keep(tensor._cdata)
            if number >= _LAST:
                number -= _LAST
                self.take_away()  # until the step is over: every call costs a program that is bound by the host
        left = self._left_by(tensor.device.index, number) if number > 0 else None
        if left is None:
            # Without its history: an output would else hold the node that holds it. A weight has none, and must be
            # itself: some libraries give it other memory in between.
            kept = tensor if tensor.is_leaf else tensor.detach()
            return kept, tensor._version, -number - 1 if number < 0 else None
        return left, tensor.dtype, tensor.device, tensor.storage_offset(), tensor.shape, tensor.stride()

    def _left_by(self, device: int, number: int) -> Optional[_Left]:
        """None: whoever held this id let go of it while it was asked for, and the adapter forgets it."""
        left = self._left.get((device, number))
        if left is not None:
            return left
        if number <= self._newest.get(device, 0):
            self._with_lock.vramwise_torch_saved_release(device, number)  # once more does no harm
            return None
        self._newest[device] = number
        self._left[device, number] = left = _Left(self._with_lock, number, device)
        return left

    def _unpack(self, packed: Tuple[Any, ...]) -> Any:
        if type(packed[0]) is not _Left:
            tensor, version, item = packed
            if tensor._version != version:
                raise _written(f"{tensor.dtype} {list(tensor.shape)}")
            if item is not None:
                self._without.vramwise_torch_saved_note(tensor.device.index, item)
            return tensor
        left, dtype, device, offset, shape, stride = packed
        with self._fetching:  # two threads may want it
            if left.shell is None:
                left.shell = self._fetched(left, device, f"{dtype} {list(shape)}")
        with self._torch.no_grad():
            made = self._torch.empty(0, dtype=dtype, device=device)
            return made.set_(left.shell.untyped_storage(), offset, shape, stride)

    def _fetched(self, left: _Left, device: Any, what: str) -> Any:
        torch, adapter = self._torch, self._without
        shell = torch.empty(0, dtype=torch.uint8, device=device)
        found = adapter.vramwise_torch_saved_fetch(left.device, left.id, shell._cdata)
        if found > 0:  # bytes that it needs: as any request, it may find none
            shell = torch.empty(found, dtype=torch.uint8, device=device)
            found = 0 if adapter.vramwise_torch_saved_fill(left.device, left.id, shell._cdata) else _UNKNOWN
        if found == _WRITTEN:
            raise _written(what)
        if found == _UNKNOWN:
            raise RuntimeError("vramwise: a saved tensor could not be copied back from host memory")
        return shell


def _written(what: str) -> RuntimeError:
    """In PyTorch's words: programs and people look for them."""
    return RuntimeError("one of the variables needed for gradient computation has been modified by an inplace "
                        f"operation: [{what}]. Hint: enable anomaly detection to find the operation that failed to "
                        "compute its gradient, with torch.autograd.set_detect_anomaly(True).")
