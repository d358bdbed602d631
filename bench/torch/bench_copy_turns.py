"""bench_copy_turns.py - how long a small copy of a program waits while large ones are under way.

    python3 bench_copy_turns.py [--seconds S]

A thread copies a GiB over and over in chunks, of which so many are queued at a time: all on one stream, or
on two that take turns, each copy behind the one before. Beside it the program reads a number from the GPU
(item()), writes one to it, and runs a kernel. Shown are the median, the 90th percentile and the longest of
each, in milliseconds, and how fast the chunks were. One look takes as long as it takes: where the engine
starves the program, a line may take seconds.
"""
import argparse
import statistics
import threading
import time
from typing import Callable, Dict, List

import torch

MIB = 1 << 20
WHOLE = 1 << 30
KINDS = (("one stream", 16, 2), ("two streams", 16, 2), ("one stream", 16, 1), ("one stream", 4, 4), ("two streams", 4, 4))


class Pump(threading.Thread):
    """Copies to the host until it is told to stop."""

    def __init__(self, streams: int, chunk: int, depth: int) -> None:
        super().__init__()
        self.there = torch.empty(WHOLE, dtype=torch.uint8, device="cuda")
        self.host = torch.empty(WHOLE, dtype=torch.uint8, pin_memory=True)
        self.streams = [torch.cuda.Stream() for _ in range(streams)]
        self.ends = [torch.cuda.Event() for _ in range(depth)]
        self.chunk, self.copied, self.is_over = chunk, 0, False

    def run(self) -> None:
        number, last = 0, None
        while not self.is_over:
            stream, end = self.streams[number % len(self.streams)], self.ends[number % len(self.ends)]
            while number >= len(self.ends) and not end.query():
                time.sleep(50e-6)
            if last is not None:
                stream.wait_event(last)
            first = number * self.chunk % WHOLE
            with torch.cuda.stream(stream):
                self.host[first:first + self.chunk].copy_(self.there[first:first + self.chunk], non_blocking=True)
            end.record(stream)
            last = end
            self.copied += self.chunk
            number += 1
        torch.cuda.synchronize()


def looks(work: Callable[[], object], seconds: float) -> List[float]:
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        work()
        torch.cuda.current_stream().synchronize()
        times.append((time.perf_counter() - begin) * 1e3)
        time.sleep(0.0005)
    return sorted(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.25, help="of looks of each kind")
    seconds = parser.parse_args().seconds
    number = torch.ones(1, device="cuda")
    works: Dict[str, Callable[[], object]] = {"item()": number.item, "to the GPU": lambda: torch.tensor([1.0]).to("cuda"),
                                              "kernel": lambda: number.add_(0)}
    for work in works.values():
        looks(work, 0.01)
    for kind, chunk, depth in KINDS:
        pump = Pump(2 if kind == "two streams" else 1, chunk * MIB, depth)
        pump.start()
        begin, found = time.perf_counter(), []
        for name, work in works.items():
            times = looks(work, seconds)
            found.append(f"{name} {statistics.median(times):.2f}, {times[len(times) * 9 // 10]:.2f}, {times[-1]:.2f}")
        speed = pump.copied / WHOLE / (time.perf_counter() - begin)
        pump.is_over = True
        pump.join()
        print(f"{kind}, {depth} x {chunk} MiB, {speed:.1f} GiB/s: {'; '.join(found)}", flush=True)


if __name__ == "__main__":
    main()
