"""_tracer.py - a program's own steps, run on tensors without data, as a list of requests.

Tensors of the GPU are PyTorch's fake tensors: they have shape, type and device, and no memory. A
dispatch mode sees every operator; a storage that is new is a request, and the end of a storage (Python
keeps its object as long as C++ needs it) is a free. Autograd, autocast, checkpoints and optimizers are
PyTorch's own, so what is saved and when it goes is not modelled but happens.

Tensors of the CPU are real: loaders, tokenizers and metrics run as ever. Only parameters are fake from
the moment they are made (`torch.empty()` of a Linear costs nothing until it is filled), so that a model
of any size can be made on any machine. What a program reads back from the GPU are ones.

What no dispatch mode can see (workspaces and buffers inside kernels) is named here by the operator and
its sizes; how many bytes that is, the planner in C knows (src/plan/hidden.h).
"""
from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import threading
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

from .. import _files
from . import _tracer_cuda
from . import _tracer_rules as rules

VERSION = 2
MOST_FRAMES = 48
MOST_READ_BYTES = 64 << 20  # of what is copied to the CPU, and becomes real
_HERE = __file__.rpartition("/")[0]
_STARTER = _HERE.rpartition("/")[0] + "/_trace.py"  # of scripts

# The first number of an event in the file.
ALLOC, FREE, HIDDEN, BEGIN, END = range(5)


class Untraceable(Exception):
    """An operator or a line at which fake tensors cannot go on."""


class Requests:
    """The list: what was asked for, from where, and when it went."""

    def __init__(self) -> None:
        self.events: List[List[Any]] = []
        self.live_bytes = self.peak_bytes = 0
        self.notes: Dict[str, int] = {}
        self.slots = self.steps = 0
        self._frames: Dict[Tuple[Any, ...], int] = {}
        self._stacks: Dict[Tuple[Any, ...], int] = {}

    def alloc(self, size_bytes: int, stack: int) -> int:
        slot = self.slots
        self.slots += 1
        self.events.append([ALLOC, slot, size_bytes, stack])
        self.live_bytes += size_bytes
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        return slot

    def free(self, slot: int, size_bytes: int) -> None:
        self.events.append([FREE, slot])
        self.live_bytes -= size_bytes

    def hidden(self, kind: str, numbers: Tuple[int, ...], stack: int) -> None:
        self.events.append([HIDDEN, kind, *numbers, stack])

    def begin_step(self) -> None:
        """As torch.profiler marks a step."""
        self.events.append([BEGIN, f"ProfilerStep#{self.steps}"])

    def end_step(self) -> None:
        self.events.append([END, f"ProfilerStep#{self.steps}"])
        self.steps += 1

    def note(self, text: str) -> None:
        self.notes[text] = self.notes.get(text, 0) + 1

    def stack(self, frames: List[Tuple[Any, ...]]) -> int:
        key = tuple(self._frames.setdefault(frame, len(self._frames)) for frame in frames)
        return self._stacks.setdefault(key, len(self._stacks))

    def to_dict(self, **facts: Any) -> Dict[str, Any]:
        return {"vramwise_trace": VERSION, **facts,
                "notes": [{"text": text, "times": times} for text, times in self.notes.items()],
                "frames": [list(frame) for frame in self._frames],
                "stacks": [list(stack) for stack in self._stacks],
                "events": self.events}

    def write(self, path: Union[str, "os.PathLike[str]"], **facts: Any) -> None:
        """The file appears when it is complete."""
        if _files.is_special(path):
            raise OSError(f"{os.fspath(path)}: expected a regular file")

        def write(file: Any) -> None:
            with io.TextIOWrapper(file, encoding="utf-8") as text:
                json.dump(self.to_dict(**facts), text, separators=(",", ":"))

        _files.write_whole(path, write)


def _is_ours(name: str) -> bool:
    return name.startswith(_HERE) or "/torch/utils/_python_dispatch" in name \
        or "/torch/_subclasses/" in name or "/torch/overrides.py" in name or name == "<frozen runpy>"


def frames_of(frame: Any) -> List[Tuple[Any, ...]]:
    """(file, line, function), the innermost first."""
    found: List[Tuple[Any, ...]] = []
    while frame is not None and len(found) < MOST_FRAMES:
        code = frame.f_code
        if code.co_filename == _STARTER:  # outside of it is only how it was started
            break
        if not _is_ours(code.co_filename):
            found.append((code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return found


class Tracer:
    """Runs code on fake tensors and keeps the list. `card`: what the GPU can do (rules.Card)."""

    def __init__(self, card: rules.Card, policy: rules.Policy) -> None:
        import torch
        from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

        self.torch, self.FakeTensor = torch, FakeTensor
        self.card, self.policy = card, policy
        self.requests = Requests()
        self.fake = FakeTensorMode(allow_non_fake_inputs=True, allow_fallback_kernels=False)
        self.composite = torch._C.DispatchKey.CompositeImplicitAutograd
        self._known: Dict[int, Any] = {}
        self._main = threading.get_ident()
        self._lock = threading.RLock()

    # ---- storages ---------------------------------------------------------------------------

    def see(self, tensor: Any, stack: Optional[int] = None) -> None:
        """A tensor that an operator gave back, or that was there before."""
        if not isinstance(tensor, self.FakeTensor) or tensor.device.type != "cuda":
            return
        storage = tensor.untyped_storage()
        with self._lock:
            if storage._cdata not in self._known:
                self._keep(storage, self.stack() if stack is None else stack)

    def _keep(self, storage: Any, stack: int) -> None:
        key, size = storage._cdata, int(storage.nbytes())
        slot = self.requests.alloc(size, stack) if size > 0 else None
        self._known[key] = weakref.finalize(storage, self._gone, key, slot, size)
        self._known[key].atexit = False

    def _gone(self, key: int, slot: Optional[int], size: int) -> None:
        with self._lock:
            self._known.pop(key, None)
            if slot is not None:
                self.requests.free(slot, size)

    def resized(self, storage: Any) -> None:
        """Sharded parameters leave and come back by the size of their storages."""
        with self._lock:
            known = self._known.get(storage._cdata)
            if known is not None:
                known()
                self._keep(storage, self.stack())

    def stack(self) -> int:
        """Where we are. The derivative's thread has no frames of its own: its caller waits in
        backward()."""
        frames = frames_of(sys._getframe(1))
        if threading.get_ident() != self._main:
            frames += frames_of(sys._current_frames().get(self._main))
        return self.requests.stack(frames[:MOST_FRAMES])

    # ---- operators --------------------------------------------------------------------------

    def run(self, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        made = self._run(func, args, kwargs)
        for tensor in self.torch.utils._pytree.tree_leaves(made):
            self.see(tensor)
        self.policy.remember(func, args, made)
        hidden = rules.hidden_by(func, args, kwargs, made)
        if hidden is not None:
            self.hide(hidden[0], hidden[1:])
        return made

    def hide(self, kind: str, numbers: Tuple[int, ...]) -> None:
        """An operator of that kind takes more than its results."""
        is_backward = threading.get_ident() != self._main or self.is_in_backward()
        self.requests.hidden(kind, (int(is_backward), *numbers), self.stack())

    def is_for_shapes(self) -> bool:
        """Somebody else's fake mode is on, to ask an operator for shapes."""
        active = self.torch._C._get_dispatch_mode(self.torch._C._TorchDispatchModeKey.FAKE)
        return active is not None and active is not self.fake

    def is_in_backward(self) -> bool:
        return self.torch._C._current_graph_task_id() != -1

    def _run(self, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        answer = self.policy.answer(self, func, args, kwargs)
        if answer is not None:
            return answer[0]
        device = kwargs.get("device")
        if kwargs.get("pin_memory"):
            kwargs = dict(kwargs, pin_memory=False)
        try:
            if device is not None and self.torch.device(device).type == "cuda":
                args = self.torch.utils._pytree.tree_map(self.faked, args)
                with self.fake:
                    return func(*args, **kwargs)
            made = func(*args, **kwargs)
        except Exception as error:
            reason = rules.refusal(self, func, error)
            if reason is None:
                raise
            raise Untraceable(reason) from error
        if func is self.torch.ops.aten._to_copy.default and isinstance(made, self.FakeTensor) \
                and made.device.type == "cpu" and made.nbytes <= MOST_READ_BYTES:
            return self.torch.ones(made.shape, dtype=made.dtype)
        return made

    @contextlib.contextmanager
    def tracing(self) -> Iterator["Tracer"]:
        """What runs inside is traced."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(_tracer_cuda.pretended(self))
            stack.enter_context(_functions(self))
            stack.enter_context(_operators(self))
            yield self

    def faked(self, data: Any) -> Any:
        """A real tensor without its data; anything else as it is."""
        if not isinstance(data, self.torch.Tensor) or isinstance(data, self.FakeTensor):
            return data
        with _without_modes(self.torch):
            return self.fake.from_tensor(data, static_shapes=True)


@contextlib.contextmanager
def _without_modes(torch: Any) -> Iterator[None]:
    from torch.utils._python_dispatch import _disable_current_modes
    with _disable_current_modes():
        yield


def _operators(tracer: Tracer) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if any(hasattr(kind, "__tensor_flatten__") for kind in types):
                return NotImplemented  # of several tensors, as DTensor is: these come one by one
            if tracer.is_for_shapes():
                return func(*args, **kwargs)
            if rules.is_composite(tracer.torch, func):  # not yet taken apart, as in inference_mode()
                with self:  # as C++ does it, which is not always what PyTorch's Python says
                    return func._op_dk(tracer.composite, *args, **kwargs)
            return tracer.run(func, args, kwargs)

    return Operators()


def _functions(tracer: Tracer) -> Any:
    from torch.overrides import TorchFunctionMode
    replaced = rules.replaced_functions(tracer)

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            other: Optional[Callable[..., Any]] = replaced.get(func)
            if other is not None:
                return other(func, args, kwargs)
            return func(*args, **kwargs)

    return Functions()
