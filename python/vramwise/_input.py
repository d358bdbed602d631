"""_input.py - how long a program waits for PyTorch's DataLoader.

The time inside an iterator's __next__, by thread: the thread that steps is the one whose waiting
costs anything; another that reads ahead may wait as long as it likes. A loader that reads from a
loader is counted once. What a worker process reads is its own affair: it has no page.

The program must not notice: what __next__ returns and raises is what it was.
"""
import functools
import sys
import time
from threading import get_ident
from typing import Any, Callable, Dict, Optional, Set


class InputWait:
    """One for the process."""

    def __init__(self, is_compiling: Optional[Callable[[], bool]]) -> None:
        self._is_compiling = is_compiling
        self._is_wrapped = is_compiling is None  # what is compiled could not be told apart
        self._waits: Dict[int, int] = {}  # nanoseconds, by thread
        self.workers: Optional[int] = None  # of the loader that was used last
        self.pins: Optional[bool] = None

    def waited_ns(self) -> Optional[int]:
        """What the calling thread has waited. None: it has used no loader."""
        return self._waits.get(get_ident())

    def follow_loaders(self) -> None:
        """From now on, if the module is there by now; to be called again if not."""
        if self._is_wrapped:
            return
        module = sys.modules.get("torch.utils.data.dataloader")
        iterators: Any = getattr(module, "_BaseDataLoaderIter", None)
        original = getattr(iterators, "__next__", None)
        if original is not None:
            self._is_wrapped = True
            iterators.__next__ = self._around(original)

    def _around(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        clock, is_compiling, waits = time.perf_counter_ns, self._is_compiling, self._waits
        inside: Set[int] = set()  # threads

        @functools.wraps(original)
        def __next__(iterator: Any) -> Any:
            if is_compiling():  # type: ignore[misc]
                return original(iterator)
            thread = get_ident()
            if thread in inside:
                return original(iterator)
            began = clock()
            try:
                inside.add(thread)
                return original(iterator)
            finally:
                inside.discard(thread)
                waits[thread] = waits.get(thread, 0) + clock() - began
                self.workers = getattr(iterator, "_num_workers", None)
                self.pins = getattr(iterator, "_pin_memory", None)
        return __next__
