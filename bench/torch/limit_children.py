"""limit_children.py - one forked process for each piece of work, several at a time.

The parent has loaded what the work needs; a child starts with all of that and costs nothing but its
work. The parent is one thread, and must not touch CUDA: a child could not use it then. A child
answers with one JSON object through a pipe; one that hangs is killed, one that dies is answered for.
"""
import collections
import contextlib
import json
import os
import selectors
import signal
import sys
import tempfile
import time
import traceback

LAST_OUTPUT_BYTES = 1500  # of a child that failed
MORE_SECONDS = 10         # for children that run at the deadline


class Child:
    """A process that runs work(order)."""

    def __init__(self, work, order, limit_s):
        self.order, self.answer_bytes = order, b""
        self.began = time.monotonic()
        self.ends_at = self.began + limit_s
        self.output = tempfile.TemporaryFile()
        self.read_end, write_end = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.read_end)
            self._work(work, write_end)
        os.close(write_end)

    def _work(self, work, write_end):
        """In the child; never returns."""
        status = 1
        try:
            os.setpgid(0, 0)  # what it starts ends with it
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.dup2(self.output.fileno(), 1)
            os.dup2(self.output.fileno(), 2)
            sys.stdout = sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)
            answer = json.dumps(work(self.order), default=str).encode()
            while answer:
                answer = answer[os.write(write_end, answer):]
            status = 0
        except BaseException:  # noqa: BLE001: nothing of the parent may go on in the child
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)  # no destructors: what they would do is measured nowhere

    def kill(self):
        for kill in (os.killpg, os.kill):  # in its first moments it has no group
            with contextlib.suppress(ProcessLookupError):
                kill(self.pid, signal.SIGKILL)

    def read(self):
        """Returns whether the child has said everything."""
        part = os.read(self.read_end, 1 << 16)
        self.answer_bytes += part
        return not part

    def finish(self, is_late):
        """Waits for the end, after a kill if `is_late`. Returns the answer; `error` is in it if there
        is none, and `seconds` always."""
        if is_late:
            self.kill()
        _, status = os.waitpid(self.pid, 0)
        os.close(self.read_end)
        seconds = time.monotonic() - self.began
        try:
            if is_late:
                raise ValueError
            answer = json.loads(self.answer_bytes)
        except ValueError:
            answer = {"error": self._epitaph(status, is_late, seconds)}
        self.output.close()
        answer["seconds"] = round(seconds, 2)
        return answer

    def _epitaph(self, status, is_late, seconds):
        if is_late:
            return f"killed after {seconds:.0f} s"
        self.output.seek(0, os.SEEK_END)
        self.output.seek(max(0, self.output.tell() - LAST_OUTPUT_BYTES))
        words = self.output.read().decode("utf-8", "replace").strip()
        code = os.waitstatus_to_exitcode(status)
        how = f"signal {-code}" if code < 0 else f"exit status {code}"
        return f"{how}: {words.splitlines()[-1] if words else 'no output'}"


def run_all(work, orders, at_a_time, limit_s, deadline=float("inf"), on_answer=None):
    """Runs work(order) for each of `orders`, in order. None starts after `deadline` (of
    time.monotonic()), and one that runs then has MORE_SECONDS. on_answer(order, answer) is called
    as each ends. Returns the answers, None for those that never started."""
    answers = [None] * len(orders)
    waiting = collections.deque(enumerate(orders))
    running = {}  # child -> its place
    try:
        while True:
            while waiting and len(running) < at_a_time and time.monotonic() < deadline:
                place, order = waiting.popleft()
                left_s = deadline + MORE_SECONDS - time.monotonic()
                running[Child(work, order, min(limit_s, left_s))] = place
            if not running:
                return answers
            for child, is_late in wait_for(running):
                answer = child.finish(is_late)
                answers[running.pop(child)] = answer
                if on_answer is not None:
                    on_answer(child.order, answer)
    finally:
        for child in running:
            child.kill()


def wait_for(running):
    """Waits until one of the children ends or is late; returns all of these, and which are late."""
    with selectors.DefaultSelector() as selector:
        for child in running:
            selector.register(child.read_end, selectors.EVENT_READ, child)
        next_end = min(child.ends_at for child in running)
        ready = selector.select(max(0.0, next_end - time.monotonic()))
        ended = [key.data for key, _ in ready if key.data.read()]
    now = time.monotonic()
    late = [child for child in running if child not in ended and now >= child.ends_at]
    return [(child, False) for child in ended] + [(child, True) for child in late]
