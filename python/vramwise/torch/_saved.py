"""_saved.py - tensors that the forward pass saves for the backward pass, in host memory in between.

PyTorch has hooks for that: one is called for each tensor that is saved, and what it returns is kept in the
tensor's place; the other makes a tensor of it again. Ours are in force only while an optimizer's state
alone does not make enough room. The adapter decides which tensors leave, copies, and copies back ahead of
their use (saved_stream.h). Here: which tensors can leave at all, and what PyTorch keeps of them.

A tensor that stays is kept with its version, which is compared when it is wanted again: PyTorch does that
by itself only where there are no hooks.

Hooks are a stack, of each thread. Whoever pushes and pops must not meet ours: so they are pushed and
popped between steps, only while nobody else's are there, and give way where a program forbids hooks.
"""
from __future__ import annotations

import ctypes
import functools
import threading
import weakref
from typing import Any, Optional, Tuple

_LEAST_BYTES = 1 << 20  # of a tensor that is worth a copy; StateStream::least_bytes
_STEPS_WITHOUT_NEED = 16  # after so many the hooks are taken away
_WRITTEN, _UNKNOWN = -1, -2  # vramwise_torch_saved_fetch()


class _Left:
    """A storage that has left, by its id. All tensors that share it hold this one."""
    __slots__ = ("_adapter", "id", "device", "shell", "__weakref__")

    def __init__(self, adapter: ctypes.CDLL, number: int, device: int) -> None:
        self._adapter, self.id, self.device = adapter, number, device
        self.shell: Any = None  # once it is back: a tensor of its bytes

    def __del__(self) -> None:
        self._adapter.vramwise_torch_saved_release(self.device, self.id)


class SavedTensors:
    """The hooks. One for the process."""

    def __init__(self, torch: Any, with_lock: ctypes.CDLL, without: ctypes.CDLL) -> None:
        self._torch, self._with_lock, self._without = torch, with_lock, without
        self._left: "weakref.WeakValueDictionary[int, _Left]" = weakref.WeakValueDictionary()
        self._thread: Optional[int] = None  # in which the hooks are pushed
        self._is_forbidden = False  # they were in force when the program forbade hooks
        self._quiet_steps = 0
        self._others = threading.local()  # .depth: hooks of the program's own that are in force

    # ---- pushing and popping ---------------------------------------------------------------------

    def begin(self) -> bool:
        """False: this PyTorch has no such hooks, or not where they were."""
        graph = getattr(self._torch.autograd, "graph", None)
        inner = getattr(getattr(self._torch, "_C", None), "_autograd", None)
        kind = getattr(graph, "saved_tensors_hooks", None)
        names = ("_push_saved_tensors_default_hooks", "_pop_saved_tensors_default_hooks",
                 "_saved_tensors_hooks_disable", "_saved_tensors_hooks_enable")
        if kind is None or not all(hasattr(inner, name) for name in names):
            return False
        self._push, self._pop = (getattr(inner, name) for name in names[:2])
        enter, leave = kind.__enter__, kind.__exit__
        disable, enable = inner._saved_tensors_hooks_disable, inner._saved_tensors_hooks_enable

        @functools.wraps(enter)
        def counted_enter(hooks: Any) -> Any:
            result = enter(hooks)
            self._others.depth = self._depth() + 1
            return result

        @functools.wraps(leave)
        def counted_leave(hooks: Any, *more: Any) -> Any:
            self._others.depth = self._depth() - 1
            return leave(hooks, *more)

        @functools.wraps(disable)
        def disable_others(*arguments: Any) -> Any:
            """PyTorch's fails where any are in force."""
            self._is_forbidden = self.take_away() or self._is_forbidden
            return disable(*arguments)

        @functools.wraps(enable)
        def enable_all(*arguments: Any) -> Any:
            result = enable(*arguments)
            if self._is_forbidden and self._thread is None and self._depth() == 0:
                self._put_in_force()
            return result
        kind.__enter__, kind.__exit__ = counted_enter, counted_leave
        inner._saved_tensors_hooks_disable, inner._saved_tensors_hooks_enable = disable_others, enable_all
        return True

    def _depth(self) -> int:
        return getattr(self._others, "depth", 0)

    def after_step(self, is_lacking: bool) -> None:
        """Between two steps, in the thread that makes them."""
        self._quiet_steps = 0 if is_lacking else self._quiet_steps + 1
        if is_lacking and self._thread is None and self._depth() == 0:
            self._put_in_force()
        elif self._quiet_steps >= _STEPS_WITHOUT_NEED:
            self.take_away()

    def _put_in_force(self) -> None:
        self._push(self._pack, self._unpack)
        self._thread, self._is_forbidden = threading.get_ident(), False

    def take_away(self) -> bool:
        """What was saved stays as it is, and comes back by the hooks that it was saved with. False: they were not
        there, or others are on top."""
        if self._thread != threading.get_ident() or self._depth() != 0:
            return False
        self._thread = None
        self._pop()
        return True

    # ---- the hooks -------------------------------------------------------------------------------

    def _can_leave(self, tensor: Any) -> bool:
        """Not weights, which others hold, nor what is more than bytes in a storage."""
        torch = self._torch
        if tensor.numel() * tensor.element_size() < _LEAST_BYTES or not tensor.is_cuda:
            return False
        if type(tensor) is not torch.Tensor or tensor.layout is not torch.strided or tensor.dtype.is_complex:
            return False
        base = tensor._base if tensor._base is not None else tensor
        return not (base.requires_grad and base.is_leaf)

    def _pack(self, tensor: Any) -> Tuple[Any, ...]:
        number = self._without.vramwise_torch_saved_keep(tensor._cdata) if self._can_leave(tensor) else 0
        if number <= 0:
            # Without its history: an output would else hold the node that holds it. A weight has none, and must be
            # itself: some libraries give it other memory in between.
            kept = tensor if tensor.is_leaf else tensor.detach()
            return kept, tensor._version, -number - 1 if number < 0 else None
        left = self._left.get(number)
        if left is None:
            left = _Left(self._with_lock, number, tensor.device.index)
            self._left[number] = left
        return left, tensor.dtype, tensor.device, tensor.storage_offset(), tensor.shape, tensor.stride()

    def _unpack(self, packed: Tuple[Any, ...]) -> Any:
        if type(packed[0]) is not _Left:
            tensor, version, item = packed
            if tensor._version != version:
                raise _written(f"{tensor.dtype} {list(tensor.shape)}")
            if item is not None:
                self._without.vramwise_torch_saved_note(tensor.device.index, item)
            return tensor
        left, dtype, device, offset, shape, stride = packed
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
