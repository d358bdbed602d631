#!/usr/bin/env python3
"""test_costs.py PROGRAM [unittest arguments] - what a file costs grows with its size, not with its square.

Each test runs a command on files of one, two and four times a size and counts instructions with callgrind, which
does not depend on the machine's load. From one size to the next the cost may double, and a little more.
"""
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
MOST_GROWTH = 2.25  # of the added cost, when the added size doubles: 2 is linear, 4 is quadratic
COLLECTED = re.compile(rb"Collected : (\d+)")


def snapshot(trace=(), settings=None) -> bytes:
    return pickle.dumps({"segments": [], "device_traces": [list(trace)], "allocator_settings": settings or {}}, protocol=4)


def long_setting(size: int) -> bytes:
    return snapshot(settings={"PYTORCH_CUDA_ALLOC_CONF": "a" * size})


def many_settings(count: int) -> bytes:
    return snapshot(settings={f"setting_{i}": i for i in range(count)})


def private_pools(count: int) -> bytes:
    trace = []
    for i in range(count):
        entry = {"addr": 0x7F0000000000 + (i << 21), "stream": 0, "pool_id": (i + 1, 0)}
        trace += [{"action": "segment_alloc", "size": 2 << 20, **entry}, {"action": "alloc", "size": 512, **entry}]
    return snapshot(trace)


def streams(count: int) -> bytes:
    trace = []
    for i in range(count):
        entry = {"addr": 0x7F0000000000 + (i << 21), "stream": i}
        trace += [{"action": "segment_alloc", "size": 2 << 20, **entry}, {"action": "alloc", "size": 512, **entry}]
    return snapshot(trace)


def many_segments(count: int) -> bytes:
    """Taken in one order and given back in another, all held at once."""
    places = [(i * 7919) % count for i in range(count)]  # a prime: each once, and neighbours far apart
    entries = [{"addr": 0x7F0000000000 + (place << 21), "stream": 0} for place in places]
    taken = [event for entry in entries for event in ({"action": "segment_alloc", "size": 2 << 20, **entry},
                                                      {"action": "alloc", "size": 512, **entry})]
    freed = [{"action": action, "size": 512, **entry} for entry in reversed(entries)
             for action in ("free_requested", "free_completed")]
    return snapshot(taken + freed + [{"action": "segment_free", "size": 2 << 20, **entry} for entry in sorted(entries, key=lambda one: one["addr"])])


def handles_that_move(count: int) -> bytes:
    """As many blocks as fill the pool come free, and one request of another stream needs the memory of them all."""
    size = 1 << 30
    entries = [{"addr": 0x7F0000000000 + i * size, "size": size, "stream": 0} for i in range(count)]
    trace = [{"action": action, **entry} for actions in (("alloc",), ("free_requested", "free_completed"))
             for entry in entries for action in actions]
    return snapshot(trace + [{"action": "alloc", "addr": 0x7F0000000000, "size": count * size, "stream": 1}],
                    {"vramwise_limit_bytes": count * size})


def deep_stacks(count: int) -> bytes:
    """Each event has a stack of its own."""
    return snapshot({"action": "alloc", "addr": 512 * (i + 1), "size": 512, "stream": 0,
                     "frames": [{"name": f"f{i}", "filename": "train.py", "line": line} for line in range(16)]}
                    for i in range(count))


def long_name(size: int) -> bytes:
    return snapshot([{"action": "alloc", "addr": 512, "size": 512, "stream": 0,
                      "frames": [{"name": "f" * size, "filename": "d/" * (size // 2), "line": 1}]}])


def shared_long_name(size: int) -> bytes:
    """One name for many frames: the file grows with their sum, and what is looked at must not with their product."""
    name = "d/" * (16 * size)
    return snapshot({"action": "alloc", "addr": 512 * (i + 1), "size": 512, "stream": 0,
                     "frames": [{"name": name, "filename": name, "line": i}]} for i in range(size))


def shared_stacks(count: int) -> bytes:
    """A few deep stacks, which all devices share: the file grows with devices and depth, not with their product."""
    deep = [{"name": "f", "filename": "train.py", "line": line} for line in range(40 * count)]
    stacks = [[{"name": "g", "filename": "train.py", "line": 9000 + i}, *deep] for i in range(10)]
    trace = [{"action": "alloc", "addr": 512 * (i + 1), "size": 512, "stream": 0, "frames": stack} for i, stack in enumerate(stacks)]
    return pickle.dumps({"segments": [], "device_traces": [[dict(event) for event in trace] for _ in range(count)],
                         "allocator_settings": {}}, protocol=4)


GOLDEN = 0x9E3779B97F4A7C15  # by which hashes were multiplied once, as anybody can read
WORD = (1 << 64) - 1


def strings_that_collided(count: int) -> bytes:
    """All of one length. Each block of 16 bytes has a twin behind which a state that is only multiplied and shifted is the same."""
    block = b"aaaaaaaAbbbbBbbB"
    twin = bytes(byte ^ flipped for byte, flipped in zip(block, (0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 4, 0, 0, 0x80)))
    return snapshot(settings={"all": [b"".join(twin if number >> bit & 1 else block for bit in range(12)) for number in range(count)]})


def addresses_that_collided(count: int) -> bytes:
    """The first ones that two multiplications and a fold send to the same place."""
    inverse, found, home = pow(GOLDEN, -1, 1 << 64), [], 1
    while len(found) < count:
        folded = home * inverse & WORD
        block = (folded ^ folded >> 32) * inverse & WORD
        home += 1
        if 0 < block < 1 << 55:
            found.append(block << 9)
    return snapshot({"action": action, "addr": address, "size": 512, "stream": 0}
                    for action in ("alloc", "free_completed") for address in found)


def blank_lines(count: int) -> bytes:
    return b"\n" * count


def one_long_line(size: int) -> bytes:
    return b"CUDA out of memory " * (size // 19)


class Costs(unittest.TestCase):
    def instructions(self, arguments, content: bytes) -> int:
        with tempfile.TemporaryDirectory(prefix="cost-test-") as folder:
            path = pathlib.Path(folder) / "input"
            path.write_bytes(content)
            with path.open("rb") as file:
                result = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", PROGRAM, *arguments],
                                        cwd=folder, stdin=file, capture_output=True, timeout=280, check=False)
        self.assertIn(result.returncode, (0, 1, 3), result.stderr)
        return int(COLLECTED.search(result.stderr).group(1))

    def assert_linear(self, make, size: int, *arguments) -> None:
        costs = [self.instructions(arguments, make(times * size)) for times in (1, 2, 4)]
        growth = (costs[2] - costs[1]) / max(costs[1] - costs[0], 1)
        self.assertLess(growth, MOST_GROWTH, f"{' '.join(arguments)}: {costs} instructions for 1, 2 and 4 times {size}")

    def test_a_long_setting(self):
        self.assert_linear(long_setting, 5000, "stats", "input")

    def test_many_settings(self):
        self.assert_linear(many_settings, 200, "stats", "input")

    def test_private_pools(self):
        self.assert_linear(private_pools, 1000, "verify", "input")

    def test_streams(self):
        self.assert_linear(streams, 2000, "verify", "input")

    def test_segments(self):
        self.assert_linear(many_segments, 4000, "stats", "input")

    def test_segments_in_a_page(self):
        self.assert_linear(many_segments, 4000, "view", "input", "-o", "page.html")

    def test_handles_that_move(self):
        self.assert_linear(handles_that_move, 400, "replay", "input", "--policy", "vramwise")

    def test_stacks(self):
        self.assert_linear(deep_stacks, 100, "stats", "input", "--no-summary")

    def test_a_long_name(self):
        self.assert_linear(long_name, 5000, "stats", "input", "--no-summary")

    def test_a_long_name_that_many_frames_share(self):
        for command in (("stats", "input"), ("doctor", "input"), ("view", "input", "-o", "page.html")):
            with self.subTest(command[0]):
                self.assert_linear(shared_long_name, 100, *command)

    def test_deep_stacks_that_many_devices_share(self):
        for command in (("stats", "input", "--no-summary"), ("stats", "input", "--no-summary", "--json")):
            with self.subTest(command):
                self.assert_linear(shared_stacks, 12, *command)

    def test_strings_that_collided(self):
        self.assert_linear(strings_that_collided, 500, "stats", "input")

    def test_addresses_that_collided(self):
        for command in (("stats", "input"), ("verify", "input"), ("view", "input", "-o", "page.html")):
            with self.subTest(command[0]):
                self.assert_linear(addresses_that_collided, 1000, *command)

    def test_blank_lines(self):
        self.assert_linear(blank_lines, 20_000, "doctor", "input")

    def test_a_long_line(self):
        self.assert_linear(one_long_line, 20_000, "doctor", "input")

    def test_messages_that_wait(self):
        self.assert_linear(blank_lines, 40_000, "mcp", ".")


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
