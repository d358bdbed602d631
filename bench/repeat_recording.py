#!/usr/bin/env python3
"""repeat_recording.py RECORDING EVENTS OUT.pickle - a recording of at least so many events.

A run of ten million events is made of a real one by repeating it: at the end of each pass what is
still live is freed and what is still reserved is given back, so that the next can begin as the first
did, at the same addresses. The last pass ends as recorded, with the recorded segments. Times go on.

What is written is a plain pickle, as PyTorch's own. Only one pass is in memory: its events are
pickled once, with every stack a reference to what the first pass wrote, and from then on only the
times in those bytes change.
"""
import io
import lzma
import pathlib
import pickle
import struct
import sys

TIME_STAND_IN = 0x7A6B5C4D3E2F1A0B  # eight bytes in a pickle, none of them 0
PAUSE_US = 1000
BATCH = 1000  # items of a list that are put in at once, as pickle does it


def load(path: pathlib.Path) -> dict:
    raw = path.read_bytes()
    return pickle.loads(lzma.decompress(raw) if raw[:6] == b"\xfd7zXZ\0" else raw)


class Held:
    """What is live and what is reserved while events are followed."""

    def __init__(self) -> None:
        self.blocks = {}   # address: its alloc
        self.waiting = {}  # address: freed, but not yet complete
        self.ranges = {}   # address of a segment, or of what was mapped: (size, event)

    def follow(self, event: dict) -> None:
        action, address = event["action"], event["addr"]
        if action == "alloc":
            self.blocks[address] = event
        elif action == "free_requested":
            self.waiting[address] = self.blocks.pop(address)
        elif action == "free_completed":
            if address in self.waiting:
                del self.waiting[address]
            else:
                del self.blocks[address]
        elif action in ("segment_alloc", "segment_map"):
            self.ranges[address] = (event["size"], event)
        elif action in ("segment_free", "segment_unmap"):
            self.give_back(address, address + event["size"])

    def give_back(self, begin: int, end: int) -> None:
        for address, (size, event) in list(self.ranges.items()):
            if address < end and begin < address + size:
                del self.ranges[address]
                if address < begin:
                    self.ranges[address] = (begin - address, event)
                if end < address + size:
                    self.ranges[end] = (address + size - end, event)

    def closing(self, time_us: int) -> list:
        """The events that end a pass."""
        events = []
        for address, alloc in self.blocks.items():
            events.append({**alloc, "action": "free_requested", "time_us": time_us})
            events.append({**alloc, "action": "free_completed", "time_us": time_us})
        for address, alloc in self.waiting.items():
            events.append({**alloc, "action": "free_completed", "time_us": time_us})
        for address, (size, event) in self.ranges.items():
            action = "segment_free" if event["action"] == "segment_alloc" else "segment_unmap"
            events.append({**event, "action": action, "addr": address, "size": size,
                           "time_us": time_us})
        return events


def share(events: list) -> None:
    """Makes equal stacks, and equal texts, one object: a pickle then refers to it."""
    texts, stacks = {}, {}
    for event in events:
        for key, value in list(event.items()):
            del event[key]
            key = texts.setdefault(key, key)
            if isinstance(value, str):
                value = texts.setdefault(value, value)
            elif key == "frames":
                value = stacks.setdefault(repr(value), value)
            event[key] = value


class Writer:
    """pickle's own writer, in Python, with a file that can be exchanged."""

    def __init__(self, out: io.BufferedIOBase) -> None:
        self.out = out
        self.scratch = io.BytesIO()
        self.pickler = pickle._Pickler(self.scratch, protocol=2)
        out.write(pickle.PROTO + b"\2")

    def bytes_of(self, value) -> bytes:
        self.scratch.seek(0)
        self.scratch.truncate()
        self.pickler.save(value)
        return self.scratch.getvalue()

    def save(self, value) -> None:
        self.out.write(self.bytes_of(value))

    def open_list(self) -> None:
        self.out.write(pickle.EMPTY_LIST)

    def batch(self, items: bytes) -> None:
        self.out.write(pickle.MARK + items + pickle.APPENDS)


class Pass:
    """One pass, pickled, and where the times are in it."""

    def __init__(self, writer: Writer, events: list) -> None:
        self.batches = []  # (bytes, [place of a time], [time])
        writer.pickler.fast = True  # refers to what is there, and remembers nothing new
        for first in range(0, len(events), BATCH):
            whole, places, times = bytearray(), [], []
            for event in events[first:first + BATCH]:
                part = writer.bytes_of({**event, "time_us": TIME_STAND_IN})
                place = part.index(struct.pack("<q", TIME_STAND_IN))
                places.append(len(whole) + place)
                times.append(event["time_us"])
                whole += part
            self.batches.append((whole, places, times))
        writer.pickler.fast = False

    def write(self, writer: Writer, later_us: int) -> None:
        pack = struct.Struct("<q").pack_into
        for whole, places, times in self.batches:
            for place, time_us in zip(places, times):
                pack(whole, place, time_us + later_us)
            writer.batch(bytes(whole))


def write_trace(writer: Writer, events: list, least: int) -> int:
    """Returns how many events were written."""
    held = Held()
    for event in events:
        held.follow(event)
    end_us = events[-1]["time_us"]
    closing = held.closing(end_us)
    pass_us = end_us - events[0]["time_us"] + PAUSE_US
    share(events + closing)
    writer.open_list()
    if least <= len(events):
        writer.batch(b"".join(map(writer.bytes_of, events)))
        return len(events)
    first = events + closing
    for place in range(0, len(first), BATCH):
        writer.batch(b"".join(map(writer.bytes_of, first[place:place + BATCH])))
    count, later_us = len(first), pass_us
    middle, last = Pass(writer, first), Pass(writer, events)
    while count + len(events) < least:
        middle.write(writer, later_us)
        count, later_us = count + len(first), later_us + pass_us
    last.write(writer, later_us)
    return count + len(events)


def repeat(snapshot: dict, least: int, out: io.BufferedIOBase) -> int:
    writer = Writer(out)
    count = 0
    out.write(pickle.EMPTY_DICT + pickle.MARK)
    for key, value in snapshot.items():
        writer.save(key)
        if key != "device_traces":
            writer.save(value)
            continue
        busiest = max(value, key=len)
        writer.open_list()
        for trace in value:
            if trace is busiest:
                count = write_trace(writer, trace, least)
            else:
                writer.save(trace)
            out.write(pickle.APPEND)
    out.write(pickle.SETITEMS + pickle.STOP)
    return count


def main() -> int:
    if len(sys.argv) != 4 or not sys.argv[2].isdigit():
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    snapshot = load(pathlib.Path(sys.argv[1]))
    if not isinstance(snapshot, dict) or not any(snapshot.get("device_traces", [])):
        print("expected a recording with a trace", file=sys.stderr)
        return 3
    try:
        with open(sys.argv[3], "wb", buffering=1 << 20) as out:
            count = repeat(snapshot, int(sys.argv[2]), out)
    except KeyError as address:
        print(f"expected a trace that begins at the first allocation; {address} was freed and "
              "never allocated", file=sys.stderr)
        return 3
    print(f"{count} events, {pathlib.Path(sys.argv[3]).stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
