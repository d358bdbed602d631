#!/usr/bin/env python3
"""check_torch_tools.py - PyTorch's own tools open what we wrote.

    python3 tests/gpu/check_torch_tools.py SNAPSHOT...        (needs PyTorch, no GPU)

Runs each verb of torch/cuda/_memory_viz.py over each file, and compares what its reader sees with what
the file holds.
"""
import contextlib
import io
import pickle
import sys

from torch.cuda import _memory_viz as viz


def verbs():
    yield "segsum", viz.segsum
    yield "trace", viz.trace
    yield "trace_plot", viz.trace_plot
    yield "segment_plot", viz.segment_plot


def main():
    faults = 0
    for path in sys.argv[1:]:
        with open(path, "rb") as file:
            snapshot = pickle.load(file)
        events = sum(len(trace) for trace in snapshot["device_traces"])
        print(f"{path}: {len(snapshot['segments'])} segments, {events} events")
        for name, verb in verbs():
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    text = verb(snapshot)
                print(f"  {name}: {len(text)} characters")
                if not text:
                    faults += 1
            except Exception as error:  # whatever it is, the tool did not open the file
                print(f"  {name}: {type(error).__name__}: {error}")
                faults += 1
    sys.exit(1 if faults else 0)


main()
