"""bench_park.py - parking and waking a process's GPU memory.

    python3 bench_park.py [--allocator NAME] [--gib 20] [--only PART ...]

Parts, each in processes of its own:

    speed    so many GiB out and in, the first time and when host memory is kept; what is left on the GPU
    cycles   50 times 1 GiB: does anything grow?
    bits     a captured graph and a compiled model before and after
    region   a region out and in, touched in between; one that is dropped
    turns    two processes that need 70 % of what a third leaves of the card, 20 rounds
    full     the GPU is full at wake(), and is not later

Prints a table, and what each part found. Status 1: something is not as it should be, or slower than the targets.
"""
import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "gpu" / "torch"))
import under  # noqa: E402

MIB, GIB = 1 << 20, 1 << 30
CYCLES, ROUNDS = 50, 20
LEFT_FOR_TWO = 20 * GIB      # of the card, by the third process
NEEDED = int(0.7 * LEFT_FOR_TWO)
WARM_TARGET, COLD_TARGET, LEFT_TARGET = 40.0, 4.0, 100 * MIB
PATIENCE_SECONDS = 170


def fill(torch: Any, size_bytes: int) -> List[Any]:
    """Tensors as a large model has them: most of it in blocks of 64 to 512 MiB, an eighth in small ones."""
    sizes = [512 * MIB, 256 * MIB, 128 * MIB, 64 * MIB, 8 * MIB, 3 * MIB, 40960]
    shares = [0.3, 0.3, 0.2, 0.075, 0.075, 0.0499, 0.0001]
    tensors = []
    for size, share in zip(sizes, shares):
        for _ in range(max(1, int(size_bytes * share / size))):
            tensors.append(torch.empty(size // 4, dtype=torch.int32, device="cuda").random_())
    torch.cuda.synchronize()
    return tensors


def digest(torch: Any, tensors: List[Any]) -> List[int]:
    """One number each, that a changed or misplaced word changes."""
    sums = []
    for tensor in tensors:
        weights = torch.arange(4096, device="cuda", dtype=torch.int32) * 2 + 1
        head = tensor[:tensor.numel() // 4096 * 4096].view(-1, 4096)
        sums.append((head * weights).sum(dtype=torch.int64) + tensor.sum(dtype=torch.int64))
    return [int(value) for value in torch.stack(sums).tolist()]


def resident_mib() -> int:
    return next(int(line.split()[1]) // 1024 for line in open("/proc/self/status") if line.startswith("VmRSS"))


def speed(torch: Any, size_bytes: int) -> Dict[str, Any]:
    from vramwise.torch import park, wake
    digest(torch, fill(torch, 1))  # loads every kernel
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    free_before = torch.cuda.mem_get_info()[0]
    tensors = fill(torch, size_bytes)
    before = digest(torch, tensors)
    out, back, left = [], [], 0
    for _ in range(5):
        done = park()
        left = free_before - torch.cuda.mem_get_info()[0]
        out.append(done.copied_bytes / GIB / done.seconds)
        done = wake()
        back.append(done.copied_bytes / GIB / done.seconds)
    after = digest(torch, tensors)
    stats = under.stats()
    return {"GiB": round(done.copied_bytes / GIB, 2), "handles": stats["handle_count"],
            "out first": out[0], "in first": back[0], "out warm": min(out[1:]), "in warm": min(back[1:]),
            "left MiB": left / MIB, "bits": before == after,
            "is fine": before == after and min(out[1:]) >= WARM_TARGET and min(back[1:]) >= WARM_TARGET and
            out[0] >= COLD_TARGET and left <= LEFT_TARGET}


def cycles(torch: Any, size_bytes: int) -> Dict[str, Any]:
    from vramwise.torch import park, wake
    tensors = fill(torch, GIB)
    before = digest(torch, tensors)
    marks = []
    for cycle in range(CYCLES):
        park()
        parked_free = torch.cuda.mem_get_info()[0]
        wake()
        if cycle in (4, CYCLES - 1):
            marks.append((parked_free, torch.cuda.mem_get_info()[0], resident_mib(), under.stats()["park"]["host_bytes"],
                          len(os.listdir("/proc/self/fd"))))
    grown = [int(late) - int(early) for early, late in zip(marks[0], marks[1])]
    is_same = digest(torch, tensors) == before
    return {"GPU free, parked": grown[0] // MIB, "GPU free, awake": grown[1] // MIB, "resident MiB": grown[2],
            "host MiB kept": grown[3] // MIB, "files": grown[4], "bits": is_same,
            "is fine": is_same and grown[0] >= 0 and grown[1] >= 0 and grown[2] < 16 and grown[3] <= 0 and grown[4] <= 0}


def bits(torch: Any, size_bytes: int) -> Dict[str, Any]:
    from vramwise.torch import park, wake
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)]).cuda()
    given = torch.randn(512, 2048, device="cuda")
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(stream):
        model(given)
        stream.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            result = model(given)
    graph.replay()
    torch.cuda.synchronize()
    graph_before = result.clone()
    compiled = torch.compile(model, mode="reduce-overhead")
    with torch.no_grad():
        for _ in range(3):
            compiled_before = compiled(given).clone()
    result.zero_()
    done = [park(), wake(), park(), wake()]
    graph.replay()
    torch.cuda.synchronize()
    graph_same = bool(torch.equal(result, graph_before))
    with torch.no_grad():
        compiled_same = bool(torch.equal(compiled(given), compiled_before))
    return {"graph": graph_same, "compiled": compiled_same, "moved MiB": done[0].moved_bytes // MIB,
            "is fine": graph_same and compiled_same}


def region(torch: Any, size_bytes: int) -> Dict[str, Any]:
    import vramwise.torch
    with vramwise.torch.region("weights"):
        weights = fill(torch, 4 * GIB)
    with vramwise.torch.region("cache", keep=False):
        cache = torch.empty(4 * GIB, dtype=torch.uint8, device="cuda")
    before = digest(torch, weights)
    vramwise.torch.park("weights"), vramwise.torch.wake("weights")
    vramwise.torch.park("cache"), vramwise.torch.wake("cache")
    out = vramwise.torch.park("weights")
    dropped = vramwise.torch.park("cache")
    touched = digest(torch, weights) == before          # over the bus
    cache[:1000].fill_(1)                               # harmless
    others = torch.empty(2 * GIB, dtype=torch.uint8, device="cuda").fill_(3)
    torch.cuda.synchronize()
    back = vramwise.torch.wake()
    same = digest(torch, weights) == before and bool((others == 3).all())
    cache.fill_(2)
    torch.cuda.synchronize()
    return {"out GiB/s": out.copied_bytes / GIB / out.seconds, "in GiB/s": back.copied_bytes / GIB / back.seconds,
            "dropped GiB": dropped.dropped_bytes / GIB, "dropped ms": dropped.seconds * 1e3, "touched": touched,
            "bits": same, "is fine": touched and same}


# ---- several processes ---------------------------------------------------------------------------


def answer(value: Any) -> None:
    print(json.dumps(value), flush=True)


def holder(torch: Any, size_bytes: int) -> None:
    """Leaves so much of the card, until it is told to end. Takes more, and gives it back, when asked."""
    torch.zeros(1, device="cuda")
    held = [torch.empty(torch.cuda.mem_get_info()[0] - size_bytes, dtype=torch.uint8, device="cuda")]
    answer({"free": torch.cuda.mem_get_info()[0]})
    for line in sys.stdin:
        if line.startswith("take"):
            held.append(torch.empty(int(line.split()[1]), dtype=torch.uint8, device="cuda"))
        else:
            held.pop()
            torch.cuda.empty_cache()
        answer({"free": torch.cuda.mem_get_info()[0]})


def taker(torch: Any, size_bytes: int) -> None:
    """Fills its memory, parks, and then at each line wakes, works on it, and parks again."""
    from vramwise.torch import ParkError, park, wake
    tensors = fill(torch, size_bytes)
    expected = digest(torch, tensors)
    park()
    answer({"filled": size_bytes})
    for line in sys.stdin:
        try:
            woken = wake()
        except ParkError as error:
            answer({"error": str(error)})
            continue
        is_same = digest(torch, tensors) == expected
        for tensor in tensors:
            tensor.add_(1)
        expected = digest(torch, tensors)
        parked = park()
        answer({"same": is_same, "seconds": woken.seconds + parked.seconds})


class Process:
    def __init__(self, allocator: str, part: str, size_bytes: int) -> None:
        self.child = subprocess.Popen([sys.executable, __file__, "--part", part, "--allocator", allocator, "--bytes",
                                       str(size_bytes)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read(self) -> Dict[str, Any]:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise RuntimeError(f"a process ended with status {self.child.wait()}")

    def ask(self, line: str) -> Dict[str, Any]:
        assert self.child.stdin is not None
        self.child.stdin.write(line + "\n")
        self.child.stdin.flush()
        return self.read()

    def end(self) -> None:
        assert self.child.stdin is not None
        self.child.stdin.close()
        self.child.wait(timeout=PATIENCE_SECONDS)


def turns(allocator: str) -> Dict[str, Any]:
    third = Process("pytorch", "holder", LEFT_FOR_TWO)
    free_bytes = third.read()["free"]
    first = Process(allocator, "taker", NEEDED)
    first.read()
    second = Process(allocator, "taker", NEEDED)
    second.read()
    begin = time.monotonic()
    answers = [process.ask("turn") for _ in range(ROUNDS) for process in (first, second)]
    seconds = time.monotonic() - begin
    first.end(), second.end(), third.end()
    is_same = all(each.get("same") for each in answers)
    return {"left for both GiB": free_bytes / GIB, "each needs GiB": NEEDED / GIB, "rounds": ROUNDS,
            "wake and park s": sorted(each.get("seconds", 0) for each in answers)[len(answers) // 2],
            "seconds in all": seconds, "bits": is_same, "is fine": is_same}


def full(allocator: str) -> Dict[str, Any]:
    third = Process("pytorch", "holder", LEFT_FOR_TWO)
    third.read()
    process = Process(allocator, "taker", NEEDED)
    process.read()
    third.ask(f"take {LEFT_FOR_TWO // 2}")
    refused = process.ask("turn").get("error", "")
    third.ask("give back")
    later = process.ask("turn")
    process.end(), third.end()
    return {"error": refused, "later": later.get("same", False),
            "is fine": "to wake takes" in refused and bool(later.get("same"))}


# ---- all of it -----------------------------------------------------------------------------------

ALONE: Dict[str, Callable[[Any, int], Any]] = {"speed": speed, "cycles": cycles, "bits": bits, "region": region}
CHILDREN: Dict[str, Callable[[Any, int], Any]] = {**ALONE, "holder": holder, "taker": taker}
TOGETHER: Dict[str, Callable[[str], Any]] = {"turns": turns, "full": full}


def run_alone(part: str, allocator: str, size_bytes: int) -> Dict[str, Any]:
    process = Process(allocator, part, size_bytes)
    found = process.read()
    process.end()
    return found


def shown(value: Any) -> str:
    if isinstance(value, bool):
        return "equal" if value else "DIFFERENT"
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--allocator", default="vramwise")
    arguments.add_argument("--gib", type=float, default=20)
    arguments.add_argument("--only", nargs="*", choices=[*ALONE, *TOGETHER])
    arguments.add_argument("--part", choices=list(CHILDREN), help=argparse.SUPPRESS)
    arguments.add_argument("--bytes", type=int, default=0, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.part:
        found = CHILDREN[given.part](under.enter(given.allocator), given.bytes)
        if found is not None:
            answer(found)
        return 0
    is_fine = True
    for part in given.only or [*ALONE, *TOGETHER]:
        begin = time.monotonic()
        try:
            found = (TOGETHER[part](given.allocator) if part in TOGETHER
                     else run_alone(part, given.allocator, int(given.gib * GIB)))
        except RuntimeError as error:
            found = {"failed": str(error), "is fine": False}
        verdict = found.pop("is fine")
        is_fine = is_fine and verdict
        print(f"\n## {part}: {'as it should be' if verdict else 'NOT AS IT SHOULD BE'}"
              f" ({time.monotonic() - begin:.0f} s)\n", flush=True)
        print(under.table([*found], [[shown(value) for value in found.values()]]), flush=True)
    print("\nGiB/s of data copied, from the call to its return; warm: the slowest of four.")
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main())
