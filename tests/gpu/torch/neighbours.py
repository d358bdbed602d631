"""neighbours.py - other processes that want memory while a training runs on the same GPU.

    python3 neighbours.py [--sizes 1,2,4,8]

A training begins with some large batches and goes on with small ones, as a run does after its
evaluation or its longest sequences. PyTorch's allocator keeps what the large ones took. A filler
makes the card small: under `native` it takes all but a little, and as much in the other runs. Then
other processes ask the driver for 1, 2, 4 and 8 GiB (cuMemAlloc), one after the other, each up to
its deadline. Under `native` all must fail, and under `vramwise` with keep_free all must get it,
while the training goes on with the same losses. The status is 1 otherwise. The table has the steps'
time before, and beside the neighbours.

Each run is of three kinds of processes, started by the first:
    --train          the training: reports each step on its standard output
    --fill-all-but N takes all of the card but N bytes, and holds it until its standard input ends
    --fill N         takes N bytes
    --ask N          asks for N bytes until it gets them or its time is over
"""
import argparse
import ctypes
import json
import os
import subprocess
import sys
import time
from statistics import median
from typing import Dict, List, Optional, Tuple

import under

MIB = 1 << 20
GIB = 1 << 30
LARGE_STEPS = 4
WARM_STEPS = 40          # small ones, before anybody asks
LARGE_BATCH = 96         # about 25 GiB of activations
SMALL_BATCH = 8
LEFT_BYTES = 1200 * MIB  # that the filler leaves: a neighbour's context, and less than any asks for
ASK_SECONDS = 2.0        # that a neighbour keeps trying


# ---- the training ------------------------------------------------------------------------------

def model_of(torch):
    """Blocks of a transformer, enough for steps of some 20 ms."""
    layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True,
                                             norm_first=True)
    return torch.nn.TransformerEncoder(layer, 8, enable_nested_tensor=False).cuda()


def is_told_to_end() -> bool:
    try:
        os.read(sys.stdin.fileno(), 1)  # something, or its end
        return True
    except BlockingIOError:
        return False


def train() -> None:
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what repeatable products need
    torch = under.enter_again()
    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True)  # to warn alone would leave attention as it is
    torch.backends.cuda.enable_cudnn_sdp(False)  # it has no deterministic derivative
    torch.utils.deterministic.fill_uninitialized_memory = False
    model = model_of(torch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    draw = torch.Generator("cuda").manual_seed(5)
    step = 0
    os.set_blocking(sys.stdin.fileno(), False)
    while not is_told_to_end():
        batch = LARGE_BATCH if step < LARGE_STEPS else SMALL_BATCH
        length = 512 - 16 * (step % 4)
        data = torch.randn(batch, length, 1024, generator=draw, device="cuda")
        torch.cuda.synchronize()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(data).float().square().mean()
        loss.backward()
        optimizer.step()
        told = loss.item().hex()  # waits for the step
        print(json.dumps({"step": step, "ms": 1e3 * (time.perf_counter() - begin), "loss": told,
                          "reserved": torch.cuda.memory_reserved(),
                          "live": torch.cuda.memory_allocated()}), flush=True)
        step += 1
    stats = under.stats()
    print(json.dumps({"peak_live": torch.cuda.max_memory_allocated(),
                      "given_back": stats.get("given_back_bytes", 0)}), flush=True)


# ---- the others, which have no PyTorch ---------------------------------------------------------

class Driver:
    """cuMemAlloc and cuMemGetInfo in a context of its own."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.must(self.cuda.cuInit(0))
        self.must(self.cuda.cuDeviceGet(ctypes.byref(device), 0))
        self.must(self.cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device))

    @staticmethod
    def must(status: int) -> None:
        if status != 0:
            raise RuntimeError(f"the driver says {status}")

    def free_bytes(self) -> int:
        left, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.must(self.cuda.cuMemGetInfo_v2(ctypes.byref(left), ctypes.byref(total)))
        return left.value

    def takes(self, size_bytes: int) -> bool:
        address = ctypes.c_ulonglong()
        return self.cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size_bytes)) == 0


def fill(most_bytes: int, left_bytes: int) -> None:
    driver = Driver()
    taken, piece = 0, 2 * GIB
    while piece >= 16 * MIB:
        if taken + piece <= most_bytes and driver.free_bytes() >= left_bytes + piece and \
                driver.takes(piece):
            taken += piece
        else:
            piece //= 2
    print(json.dumps({"taken": taken, "left": driver.free_bytes()}), flush=True)
    sys.stdin.read()


def ask(size_bytes: int) -> int:
    """Up to its deadline: what native caching holds it gets at no time."""
    begin, tries = time.perf_counter(), 0
    try:
        driver = Driver()
    except RuntimeError:  # not even a context
        print(json.dumps({"tries": tries}), flush=True)
        return 1
    while time.perf_counter() - begin < ASK_SECONDS:
        tries += 1
        if driver.takes(size_bytes):
            print(json.dumps({"ms": 1e3 * (time.perf_counter() - begin), "tries": tries}), flush=True)
            sys.stdin.read()  # holds it until it is told to end
            return 0
        time.sleep(0.02)
    print(json.dumps({"tries": tries}), flush=True)
    return 1


# ---- a run -------------------------------------------------------------------------------------

def started(arguments: List[str], name: str, extra: Dict[str, str]) -> subprocess.Popen:
    variables = under.environment(name)
    variables.update({"PYTHONUNBUFFERED": "1", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"})
    variables.update(extra)
    return subprocess.Popen([sys.executable, __file__] + arguments, env=variables, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def ended(process: subprocess.Popen) -> None:
    process.stdin.close()
    process.wait(timeout=20)


class Training:
    """The process that trains, and its steps so far."""

    def __init__(self, name: str, keep_free: str) -> None:
        self.process = started(["--train"], name, {"VRAMWISE_KEEP_FREE": keep_free})
        self.steps: List[dict] = []

    def read(self, until: int) -> None:
        """Until so many steps were made."""
        while len(self.steps) < until:
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError(f"the training ended after {len(self.steps)} steps")
            if line.startswith("{"):
                self.steps.append(json.loads(line))

    def read_waiting(self, other: subprocess.Popen) -> Tuple[int, int]:
        """Until the other process has said something: the steps from and to."""
        import select

        first = len(self.steps)
        while other.stdout not in select.select([other.stdout], [], [], 0)[0]:
            self.read(len(self.steps) + 1)
        return first, len(self.steps)

    def end(self) -> dict:
        last: dict = {}
        try:
            self.process.stdin.close()
        except BrokenPipeError:  # it has ended
            pass
        for line in self.process.stdout:
            if line.startswith("{"):
                found = json.loads(line)
                if "peak_live" in found:
                    last = found
                else:
                    self.steps.append(found)
        self.process.wait(timeout=20)
        return last


def step_ms(steps: List[dict]) -> Optional[float]:
    return median(step["ms"] for step in steps) if steps else None


def run(name: str, keep_free: str, sizes: List[int], filled_bytes: Optional[int]) -> dict:
    """`filled_bytes`: by the filler; None: all but LEFT_BYTES."""
    training = Training(name, keep_free)
    others: List[subprocess.Popen] = []
    result: dict = {"asked": []}
    try:
        training.read(LARGE_STEPS + WARM_STEPS)
        others.append(started(["--fill-all-but", str(LEFT_BYTES)] if filled_bytes is None else
                              ["--fill", str(filled_bytes)], "native", {}))
        training.read_waiting(others[0])
        result.update(json.loads(others[0].stdout.readline()))
        before = len(training.steps)
        training.read(before + 20)
        result["reserved"] = training.steps[-1]["reserved"]
        for size in sizes:
            others.append(started(["--ask", str(size * GIB)], "native", {}))
            first, last = training.read_waiting(others[-1])
            told = json.loads(others[-1].stdout.readline())
            training.read(last + 10)
            result["asked"].append({"size": size, "got": "ms" in told, "ms": told.get("ms"),
                                    "tries": told["tries"],
                                    "step_ms": step_ms(training.steps[first:])})
            ended(others.pop())  # its memory is free again, and the next asks for more
        result["alone_ms"] = step_ms(training.steps[LARGE_STEPS + 10:before])
    except RuntimeError as error:
        result["error"] = str(error)
    finally:
        for process in others:
            ended(process)
    result.update(training.end())
    result["losses"] = [step["loss"] for step in training.steps]
    return result


# ---- all of them -------------------------------------------------------------------------------

def shown(bytes_: Optional[int]) -> str:
    return "-" if bytes_ is None else f"{bytes_ / GIB:.2f}"


def row(title: str, found: dict, sizes: List[int]) -> List[str]:
    cells = [title, shown(found.get("peak_live")), shown(found.get("reserved")),
             shown(found.get("left"))]
    by_size = {each["size"]: each for each in found["asked"]}
    for size in sizes:
        each = by_size.get(size)
        cells.append("-" if each is None else
                     f"got it ({each['ms']:.0f} ms)" if each["got"] else f"no ({each['tries']} tries)")
    alone = found.get("alone_ms")
    beside = [each["step_ms"] for each in found["asked"] if each["step_ms"]]
    cells += ["-" if alone is None else f"{alone:.2f}",
              "-" if not beside else f"{median(beside):.2f}", shown(found.get("given_back"))]
    return cells


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="1,2,4,8", help="GiB, rising")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--fill", type=int)
    parser.add_argument("--fill-all-but", type=int)
    parser.add_argument("--ask", type=int)
    arguments = parser.parse_args()
    if arguments.train:
        train()
        return 0
    if arguments.fill is not None:
        fill(arguments.fill, 0)
        return 0
    if arguments.fill_all_but is not None:
        fill(1 << 60, arguments.fill_all_but)
        return 0
    if arguments.ask is not None:
        return ask(arguments.ask)
    sizes = [int(size) for size in arguments.sizes.split(",")]
    keep = f"{max(sizes) + 1}GiB"  # a neighbour's context takes some, too
    results: Dict[str, dict] = {}
    filled_bytes: Optional[int] = None
    for name, keep_free in (("native", "0"), ("vramwise", "0"), ("vramwise", keep)):
        title = f"{name}, keep_free {keep_free}" if keep_free != "0" else name
        begin = time.perf_counter()
        found = results[title] = run(name, keep_free, sizes, filled_bytes)
        filled_bytes = filled_bytes or found.get("taken")
        print(f"{title}: {time.perf_counter() - begin:.0f} s, {len(found['losses'])} steps"
              f"{', ' + found['error'] if 'error' in found else ''}", flush=True)
    headings = ["allocator", "live at most", "reserved", "left on the card"] + \
        [f"asks for {size} GiB" for size in sizes] + ["step ms", "beside neighbours", "given back"]
    print(under.table(headings, [row(title, found, sizes) for title, found in results.items()]))

    is_bad = False
    steps = min(len(found["losses"]) for found in results.values())
    if len({tuple(found["losses"][:steps]) for found in results.values()}) != 1:
        print(f"FAIL losses differ within {steps} steps")
        is_bad = True
    else:
        print(f"ok   the same losses in {steps} steps")
    for title, found in results.items():
        wanted = "keep_free" in title
        got = [each["got"] for each in found["asked"]]
        is_right = "error" not in found and len(got) == len(sizes) and \
            (all(got) if wanted else title != "native" or not any(got))
        print(f"{'ok  ' if is_right else 'FAIL'} {title}: {sum(got)} of {len(sizes)} neighbours got "
              "their memory")
        is_bad |= not is_right
    return 1 if is_bad else 0


if __name__ == "__main__":
    sys.exit(main())
