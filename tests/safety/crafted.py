"""crafted.py - files that somebody made to do harm, or that went wrong, as small generators.

crafted() yields (name, bytes) in a fixed order: the same files on every machine. A file that once did harm gets a
generator here. Nothing here is larger than a megabyte.
"""
import gzip
import io
import itertools
import json
import lzma
import pickle
import random
import struct

MIB = 1 << 20
BASE = 0x7F0000000000


def entry(action, addr, size, **more):
    return {"action": action, "addr": addr, "size": size, "stream": 0, **more}


def segment(address=BASE, size=2 * MIB, blocks=None, **more):
    if blocks is None:
        blocks = [{"address": address, "size": size, "requested_size": 0, "state": "inactive"}]
    return {"device": 0, "address": address, "total_size": size, "allocated_size": 0, "active_size": 0, "requested_size": 0,
            "stream": 0, "segment_type": "small", "segment_pool_id": (0, 0), "is_expandable": False, "blocks": blocks, **more}


def snapshot(trace=None, segments=(), **more):
    return {"segments": list(segments), "device_traces": [list(trace)] if trace is not None else [], **more}


def ordinary():
    """A small recording in which nothing is wrong."""
    trace = []
    for i in range(12):
        frames = [{"name": f"f{i % 3}", "filename": "train.py", "line": i}]
        trace += [entry("segment_alloc", BASE + i * 2 * MIB, 2 * MIB, frames=frames, time_us=i),
                  entry("alloc", BASE + i * 2 * MIB, MIB, frames=frames, time_us=i)]
    for i in range(0, 12, 2):
        trace += [entry("free_requested", BASE + i * 2 * MIB, MIB, frames=[]),
                  entry("free_completed", BASE + i * 2 * MIB, MIB, frames=[])]
    return snapshot(trace, allocator_settings={"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"})


# ---- values where others were expected --------------------------------------------------------

ODD_VALUES = (None, True, -1, 0, 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -2**63, -2**63 - 1, 0.5, float("nan"),
              float("inf"), "", "alloc", "x" * 70_000, "\ud800", "\x00\x1b[2J\u202e", b"bytes", [], [[]], (), {}, {"a": 1}, [1, 2])


def odd_fields():
    for key in ("action", "addr", "size", "stream", "time_us", "frames", "pool_id", "device_free", "compile_context", "user_metadata"):
        for number, value in enumerate(ODD_VALUES):
            if number % 4 == len(key) % 4:  # a quarter of them: each value meets several keys
                yield f"entry-{key}-{number}", snapshot([{**entry("alloc", BASE, 512), key: value}])
    for key in ("address", "total_size", "blocks", "device", "stream", "segment_type", "segment_pool_id", "is_expandable"):
        for number, value in enumerate(ODD_VALUES):
            if number % 4 == len(key) % 4:
                yield f"segment-{key}-{number}", snapshot([], [segment(**{key: value}) if key not in ("address", "blocks")
                                                               else {**segment(), key: value}])
    for key in ("segments", "device_traces", "allocator_settings", "external_annotations", "host_traces", "host_segments"):
        for number, value in enumerate(ODD_VALUES):
            if number % 4 == len(key) % 4:
                yield f"root-{key}-{number}", {**ordinary(), key: value}


# ---- recordings that contradict themselves ----------------------------------------------------

def contradictions():
    yield "nothing", snapshot([])
    yield "no-traces", snapshot()
    yield "no-segments-but-blocks", snapshot([entry("alloc", BASE, 512), entry("free_completed", BASE, 512)])
    yield "twice-allocated", snapshot([entry("segment_alloc", BASE, 2 * MIB), entry("alloc", BASE, 512), entry("alloc", BASE, 512)])
    yield "freed-before", snapshot([entry("free_completed", BASE, 512), entry("free_requested", BASE, 512)])
    yield "freed-twice", snapshot([entry("alloc", BASE, 512)] + [entry("free_completed", BASE, 512)] * 3)
    yield "end-of-addresses", snapshot([entry("segment_alloc", 2**64 - 512, 2 * MIB), entry("alloc", 2**64 - 512, 1024)],
                                       [segment(2**64 - 2 * MIB)])
    yield "all-memory", snapshot([entry("segment_alloc", 0, 2**63), entry("alloc", 0, 2**63), entry("alloc", 2**63, 2**63)])
    yield "overlap", snapshot([], [segment(), segment(BASE + MIB)])
    yield "same-segment-twice", snapshot([], [segment(), segment()])
    yield "no-blocks", snapshot([], [segment(blocks=[])])
    yield "block-beyond", snapshot([], [segment(blocks=[{"address": BASE, "size": 4 * MIB, "requested_size": 1, "state": "inactive"}])])
    yield "block-of-nothing", snapshot([], [segment(blocks=[{"address": BASE, "size": 0, "requested_size": 0, "state": "inactive"}] * 3)])
    yield "devices", {**snapshot(), "device_traces": [[] for _ in range(129)]}
    yield "too-many-devices", {**snapshot(), "device_traces": [[] for _ in range(2000)]}
    yield "clock-runs-back", snapshot([entry("alloc", BASE + 512 * i, 512, time_us=-i * 10**15) for i in range(20)])
    yield "out-of-memory-only", snapshot([entry("oom", 4096, 2**40, device_free=2**63)] * 5)
    yield "spills-of-nothing", {**ordinary(), "external_annotations": [
        {"name": "vramwise_spill", "stage": "START", "device": 0, "time_us": i, "moved_bytes": 2**64 - 1, "spilled_bytes": 2**64 - 1,
         "wait_us": 2**64 - 1} for i in range(4)]}
    yield "unbalanced-annotations", {**ordinary(), "external_annotations": [
        {"name": f"a{i}", "stage": "END" if i % 3 else "START", "device": 0, "time_us": i} for i in range(30)]}
    entries = [entry("alloc", BASE + 512 * i, 512) for i in range(60)]
    yield "one-list-many-traces", {**snapshot(), "host_traces": [entries] * 1000}
    yield "one-list-two-devices", {**snapshot(), "device_traces": [entries, entries]}
    yield "pools", snapshot(itertools.chain.from_iterable(
        (entry("segment_alloc", BASE + i * 2 * MIB, 2 * MIB, pool_id=(i, -i)), entry("alloc", BASE + i * 2 * MIB, 512, pool_id=(i, -i)))
        for i in range(300)))
    yield "streams", snapshot(entry("alloc", BASE + i * 512, 512) | {"stream": 2**64 - 1 - i} for i in range(300))
    yield "long-setting", {**snapshot([]), "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "a" * 200_000}}
    yield "settings-that-are-none", {**ordinary(), "allocator_settings": {
        "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:-1,garbage_collection_threshold:nan,roundup_power2_divisions:[::,,]",
        "max_split_size": -2**63, "garbage_collection_threshold": float("inf"), "vramwise_limit_bytes": 2**64}}
    for word in ("__proto__", "</script><script>alert(1)</script>", "\u2028\u2029", "\x9b31m", "%n%s%x", "..\\..", "A" * 100_000):
        yield f"name-{len(word)}", snapshot([entry("segment_alloc", BASE, 2 * MIB), entry("alloc", BASE, 512, frames=[
            {"name": word, "filename": word, "line": 2**32}])], allocator_settings={word: word})


# ---- bytes ------------------------------------------------------------------------------------

def segment_named_often(times=40_000):
    """One block of no bytes, named often by one segment of no bytes, which is named as often itself."""
    def text(word):
        return b"\x8c" + bytes([len(word)]) + word
    block = b"}(" + text(b"size") + b"K\0" + text(b"state") + text(b"inactive") + b"uq\1"
    blocks = b"](" + block + b"h\1" * (times - 1) + b"e"
    one = b"}(" + text(b"address") + b"K\0" + text(b"total_size") + b"K\0" + text(b"blocks") + blocks + b"uq\2"
    return b"\x80\x04}(" + text(b"device_traces") + b"](]e" + text(b"segments") + b"](" + one + b"h\2" * (times - 1) + b"eu."


def damaged_bytes():
    whole = pickle.dumps(ordinary(), protocol=4)
    chance = random.Random(20301)
    for number in range(30):  # a byte here and there
        data = bytearray(whole)
        for _ in range(1 + number % 5):
            data[chance.randrange(len(data))] = chance.randrange(256)
        yield f"flipped-{number}.pickle", bytes(data)
    for number in range(12):
        yield f"cut-{number}.pickle", whole[:len(whole) * number // 12]
    for protocol in range(6):
        yield f"protocol-{protocol}.pickle", pickle.dumps(ordinary(), protocol=protocol)
    yield "deep.pickle", b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b"."
    yield "deep.json", b"[" * 200_000
    yield "marks.pickle", b"\x80\x02" + b"(" * 300_000
    yield "huge-string.pickle", b"\x80\x04\x8d" + struct.pack("<Q", 2**63 - 1) + b"ab."
    yield "huge-number.pickle", b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b"1."
    yield "negative-length.pickle", b"\x80\x02\x8b" + struct.pack("<i", -1) + b"1."
    yield "memo.pickle", b"\x80\x02]" + b"r" + struct.pack("<I", 2**32 - 1) + b"."
    yield "memo-unknown.pickle", b"\x80\x02j" + struct.pack("<I", 77) + b"."
    yield "segment-named-often.pickle", segment_named_often()
    yield "code.pickle", b"cos\nsystem\n(S'touch harmed'\ntR."
    yield "persistent.pickle", b"\x80\x02Pabc\n."
    yield "nothing", b""
    yield "zeros", b"\0" * 5000
    yield "white", b" \t\r\n" * 2000
    yield "bom.json", b"\xef\xbb\xbf" + json.dumps(ordinary()).encode()
    yield "twice.json", json.dumps(ordinary()).encode() * 2
    yield "numbers.json", b'{"segments": [], "device_traces": [[{"action": "alloc", "addr": 1e999, "size": -0.0, "stream": 1' + b"0" * 5000 + b"}]]}"
    yield "escapes.json", b'{"segments": [], "a": "\\ud800\\udc00\\ud800\\u0000\\uDEAD"}'
    packed = gzip.compress(whole, mtime=0)
    yield "cut.gz", packed[:len(packed) // 2]
    yield "checksum.gz", packed[:-5] + b"\0" + packed[-4:]
    yield "bomb.gz", gzip.compress(b"\n" * (8 * MIB), mtime=0)
    yield "bomb.xz", lzma.compress(b"\0" * (8 * MIB))
    yield "many-members.gz", gzip.compress(b"", mtime=0) * 5000
    yield "nested.gz", gzip.compress(gzip.compress(packed, mtime=0), mtime=0)
    yield "magic.zst", b"\x28\xb5\x2f\xfd" + b"\xff" * 40
    yield "magic.xz", b"\xfd7zXZ\0" + b"\xff" * 40
    yield "zip", b"PK\x03\x04" + b"\0" * 100


OOM = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {} GiB. GPU {} has a total capacity of {} GiB of which {} GiB is "
       "free. Of the allocated memory {} GiB is allocated by PyTorch, and {} GiB is reserved by PyTorch but unallocated.\n")


def texts():
    for number, values in enumerate(((2, 0, 80, 1, 70, 5), ("9" * 400, 0, 80, 1, 70, 5), (2, "9" * 30, 80, 1, 70, 5), (-2, 0, -80, -1, -70, -5),
                                     ("nan", 0, "inf", "1e999", "0x10", ""), (0, 0, 0, 0, 0, 0), (2, 0, 1, 80, 700, 5))):
        yield f"error-{number}.log", OOM.format(*values).encode()
    yield "errors.log", OOM.format(2, 0, 80, 1, 70, 5).encode() * 500
    yield "one-line.log", OOM.format(2, 0, 80, 1, 70, 5).replace("\n", " ").encode() * 500
    yield "carriage.log", b"\r".join(f"step {i} loss 0.1 mem {i}GB".encode() for i in range(2000))
    yield "steps.log", b"".join(f"step {2**i if i < 64 else i} mem {10.0**i if i < 300 else i}GB\n".encode() for i in range(400))
    yield "steps-back.log", b"".join(f"step {500 - i} mem 1.{i}GB\n".encode() for i in range(400))
    yield "escapes.log", b"\x1b[31mRuntimeError: CUDA out of memory\x1b[0m \xc2\x9b \xff\xfe\n" * 50
    yield "traceback.log", b"Traceback (most recent call last):\n" + b'  File "a.py", line 99999999999999999999, in f\n' * 3000
    yield "newlines.log", b"\n" * 500_000
    yield "words.log", b"CUDA out of memory " * 20_000


def crafted():
    for name, value in itertools.chain(odd_fields(), contradictions()):
        data = io.BytesIO()
        try:
            pickle.dump(value, data, protocol=4)
        except (UnicodeEncodeError, OverflowError):  # half a character: JSON can spell it
            yield f"{name}.json", json.dumps(value, default=str).encode()
            continue
        yield f"{name}.pickle", data.getvalue()
    yield from damaged_bytes()
    yield from texts()
