"""bench_raw_alloc.py - how long PyTorch's C++ entry takes: raw_alloc and raw_delete.

    python3 bench_raw_alloc.py [--rounds N] [--seconds LIMIT] [ALLOCATOR...]

Each allocator has a process of its own, and all of them wait; one measures at a time, in turn,
round after round, so that a machine that changes its speed changes it for all. Medians of the
rounds, and how many times faster than `native` each one is; with eight threads the wall time over
all operations, and how that compares with one thread's.
"""
import argparse
import ctypes
import glob
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[1] / "tests" / "gpu" / "torch"))

import under  # noqa: E402

PATTERNS = ("pair 512 B", "pair 64 KiB", "pair 2 MiB", "pair 256 MiB", "churn 256", "churn 4096")
MANY = 8  # threads
# (pattern, threads): the name of a column.
CASES = {**{(k, 1): name for k, name in enumerate(PATTERNS)},
         **{(k, MANY): f"{PATTERNS[k]}, {MANY} threads" for k in (0, 4, 5)}}


def compiled(folder: str) -> str:
    """The library of bench_raw_alloc.cpp, compiled against the torch that is installed."""
    facts = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.__path__[0]); "
         "print(int(torch.compiled_with_cxx11_abi())); print(torch.__version__)"],
        check=True, capture_output=True, text=True).stdout.split("\n")
    torch, abi = facts[0], facts[1]
    places = [os.environ.get("CUDA_HOME", "") + "/include"]
    places += sorted(glob.glob(os.path.join(os.path.dirname(torch), "nvidia", "*", "include")))
    places += ["/usr/local/cuda/include"]
    cuda = [f"-I{p}" for p in places if os.path.exists(os.path.join(p, "cuda_runtime_api.h"))]
    library = os.path.join(folder, "bench_raw_alloc.so")
    subprocess.run(
        ["g++", "-std=c++17", "-O2", "-DNDEBUG", f"-D_GLIBCXX_USE_CXX11_ABI={abi}", "-shared",
         "-fPIC", "-fvisibility=hidden", f"-I{FOLDER.parents[1]}", f"-I{torch}/include"] + cuda +
        [str(FOLDER / "bench_raw_alloc.cpp"), "-o", library, f"-L{torch}/lib",
         f"-Wl,-rpath,{torch}/lib", "-lc10", "-lc10_cuda", "-pthread"], check=True)
    processor = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("model name", 1)[-1]
    print(f"# torch {facts[2]},{processor.splitlines()[0].strip().lstrip(':')}")
    return library


def worker(library: str) -> None:
    """Measures what it is told to, one line for each order."""
    torch = under.enter_again()
    torch.cuda.init()
    torch.empty(1, device="cuda")
    measure = ctypes.CDLL(library).bench_raw_alloc
    measure.restype = ctypes.c_double
    measure.argtypes = [ctypes.c_uint] * 5
    print("@ready", torch.cuda.get_allocator_backend(), flush=True)
    for line in sys.stdin:
        print(f"@{measure(*map(int, line.split()))}", flush=True)


class Process:
    def __init__(self, name: str, library: str) -> None:
        self.name = name
        self.ns: dict = {}
        self.why = ""
        variables = under.environment(name)
        variables["PYTHONUNBUFFERED"] = "1"
        self.process = subprocess.Popen([sys.executable, __file__, "--worker", library],
                                        env=variables, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def answer(self) -> str:
        for line in self.process.stdout:
            if line.startswith("@"):
                return line[1:].strip()
            self.why = line.strip() or self.why
        self.process.wait()
        return ""

    def measure(self, case: tuple, seed: int) -> None:
        pattern, threads = case
        batches = 41 if threads == 1 else 20
        if self.process.poll() is not None:
            return
        try:
            self.process.stdin.write(f"{pattern} {threads} {batches} 2000 {seed}\n")
            self.process.stdin.flush()
            ns = float(self.answer() or -1.0)
        except (OSError, ValueError):
            return
        if ns > 0:
            self.ns.setdefault(case, []).append(ns)

    def median(self, case: tuple) -> float:
        values = sorted(self.ns.get(case, []))
        return values[len(values) // 2] if values else 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("allocators", nargs="*")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=90.0)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.worker)
        return 0
    names = arguments.allocators or ["native", "expandable", "cudaMallocAsync", "torch", "vramwise",
                                     "vramwise:rescue"]
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(folder)
        processes = [Process(name, library) for name in names]
        ready = []
        for process in processes:
            backend = process.answer()
            if backend.startswith("ready"):
                ready.append(process)
                print(f"ok   {process.name} is ready: backend {backend[6:]}", flush=True)
            else:
                print(f"FAIL {process.name}: {process.why}", flush=True)
        end = time.monotonic() + arguments.seconds
        done = 0
        for turn in range(arguments.rounds):
            if time.monotonic() > end:
                break
            for case in CASES:
                for process in ready:
                    process.measure(case, turn)
            done += 1
        for process in processes:
            process.process.stdin.close()
            try:
                process.process.wait(20)
            except subprocess.TimeoutExpired:
                process.process.kill()
    print(f"# {done} rounds, in turn; nanoseconds of one allocation and free, median\n")
    base = next((p for p in processes if p.name in ("native", "pytorch")), None)
    rows, least = [], {}
    for process in processes:
        row = [process.name]
        for case in CASES:
            ns = process.median(case)
            ratio = base.median(case) / ns if base and ns else 0.0
            row.append(f"{ns:.0f} ({ratio:.2f}x)" if ns else "failed")
            least[process.name] = min(least.get(process.name, ratio), ratio)
        rows.append(row)
    print(under.table(["allocator"] + list(CASES.values()), rows))
    print("\nleast times faster than native: " +
          ", ".join(f"{name} {ratio:.2f}" for name, ratio in least.items()))
    print(f"\nthroughput of {MANY} threads, one thread's is 1: ")
    for process in ready:
        print(f"  {process.name}: " + ", ".join(
            f"{PATTERNS[k]} {process.median((k, 1)) / process.median((k, threads)):.2f}"
            for k, threads in CASES if threads != 1 and process.median((k, threads))))
    if os.environ.get("OUT"):
        data = {p.name: {CASES[case]: v for case, v in p.ns.items()} for p in processes}
        Path(os.environ["OUT"], "raw_alloc.json").write_text(json.dumps(data, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
