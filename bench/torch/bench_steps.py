"""bench_steps.py - the corpus workloads: time of a step, memory, and the smallest card.

    python3 bench_steps.py --train PATH/train.py [--seconds N] [--cards N] [--workloads A,B]
                           [ALLOCATOR...]

train.py is the script that made the recordings of the corpus; its workloads are run as they are
written there, without its recording. Each allocator has a process of its own that waits for orders.
Times: one workload at a time, one allocator at a time, in turn. The smallest card: a limit of that
many times the peak of live bytes, searched by halving; all allocators at once, as time does not
matter there. Workloads come in order of importance, and what the seconds do not allow is left out.
"""
import argparse
import contextlib
import gc
import io
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[1] / "tests" / "gpu" / "torch"))

import under  # noqa: E402

WORKLOADS = ("gpt2_varlen", "train_eval_phases", "resnet_multiscale", "llama_ckpt_varlen",
             "moe_routing", "unet_buckets", "gpt2_fixed", "streams", "t5_varlen", "graphs",
             "generate_kv")
CARDS = ("gpt2_varlen", "train_eval_phases", "resnet_multiscale", "llama_ckpt_varlen")
FACTORS = (1.00, 1.01, 1.02, 1.03, 1.05, 1.10, 1.20)  # three runs find one of them
END_OF_WORKLOADS = "\ntorch.cuda.memory._record_memory_history("


def run_workload(torch, source: str, workload: str, limit_bytes: int) -> dict:
    """One workload from the start, on a card of `limit_bytes` if that is not 0."""
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    total_bytes = torch.cuda.get_device_properties(0).total_memory
    fraction = (limit_bytes + 0.5) / total_bytes if limit_bytes else 1.0
    torch.cuda.set_per_process_memory_fraction(min(fraction, 1.0))
    sys.argv = ["train.py", workload, "/nonexistent", "none"]
    scope: dict = {"__name__": "train"}
    exec(compile(source, "train.py", "exec"), scope)  # noqa: S102: the corpus' own script
    result = {"workload": workload, "error": None, "is_oom": False}
    begin = time.perf_counter()
    try:
        scope[workload]()
    except torch.OutOfMemoryError as error:
        result["error"], result["is_oom"] = str(error)[:200], True
    except Exception as error:  # noqa: BLE001: one workload that fails is one line
        result["error"] = f"{type(error).__name__}: {error}"[:400]
    torch.cuda.synchronize()
    result["seconds"] = time.perf_counter() - begin
    stats = torch.cuda.memory_stats()
    times = [step["ms"] for step in scope["log"]["steps"] if step["ms"] is not None]
    result.update(step_ms=times, peak_reserved=stats["reserved_bytes.all.peak"],
                  peak_allocated=stats["allocated_bytes.all.peak"],
                  retries=stats["num_alloc_retries"])
    scope.clear()
    torch.cuda.set_per_process_memory_fraction(1.0)
    return result


def worker(path: str) -> None:
    source = Path(path).read_text(encoding="utf-8")
    end = source.find(END_OF_WORKLOADS)
    if end < 0:
        print(f"expected {END_OF_WORKLOADS.strip()} in {path}, where the workloads end", flush=True)
        return
    torch = under.enter_again()
    torch.cuda.init()
    print("@ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        with contextlib.redirect_stdout(io.StringIO()):
            result = run_workload(torch, source[:end], order["workload"], order["limit_bytes"])
        print("@" + json.dumps(result), flush=True)


class Process:
    def __init__(self, name: str, path: str) -> None:
        self.name, self.why = name, ""
        variables = under.environment(name)
        variables["PYTHONUNBUFFERED"] = "1"
        self.process = subprocess.Popen([sys.executable, __file__, "--train", path, "--worker"],
                                        env=variables, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        errors="replace")

    def answer(self) -> str:
        for line in self.process.stdout:
            if line.startswith("@"):
                return line[1:].strip()
            self.why = line.strip() or self.why
        self.process.wait()
        return ""

    def run(self, workload: str, limit_bytes: int = 0) -> dict:
        try:
            self.process.stdin.write(json.dumps({"workload": workload,
                                                 "limit_bytes": limit_bytes}) + "\n")
            self.process.stdin.flush()
            return json.loads(self.answer())
        except (OSError, ValueError):
            return {"error": f"the process ended: {self.why}", "is_oom": False, "step_ms": [],
                    "peak_reserved": 0, "peak_allocated": 0, "retries": 0, "seconds": 0.0}


def median(values: list) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0


def smallest_card(process: Process, workload: str, peak_bytes: int, found: dict) -> None:
    """The least factor with which it runs; by halving, so that more is taken to be enough too."""
    low, high, best = 0, len(FACTORS) - 1, None
    while low <= high:
        middle = (low + high) // 2
        result = process.run(workload, int(peak_bytes * FACTORS[middle]))
        if result["error"] is None:
            best, high = (FACTORS[middle], result["retries"]), middle - 1
        elif result["is_oom"]:
            low = middle + 1
        else:
            found[process.name] = f"failed: {result['error'][:80]}"
            return
    found[process.name] = (f"{best[0]:.2f} ({best[1]} retries)" if best
                           else f"more than {FACTORS[-1]:.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("allocators", nargs="*")
    parser.add_argument("--train", required=True, help="train.py of the corpus")
    parser.add_argument("--seconds", type=float, default=240.0, help="for the times")
    parser.add_argument("--cards", type=float, default=180.0, help="seconds for the smallest cards")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.train)
        return 0
    names = arguments.allocators or ["native", "expandable", "torch", "vramwise", "vramwise:rescue"]
    processes = [Process(name, arguments.train) for name in names]
    ready = []
    for process in processes:
        if process.answer() == "ready":
            ready.append(process)
        else:
            print(f"FAIL {process.name}: {process.why}", flush=True)
    workloads = [w for w in arguments.workloads.split(",") if w]
    times: dict = {}
    results: dict = {}
    end = time.monotonic() + arguments.seconds
    for turn in range(arguments.rounds):
        for workload in workloads:
            if time.monotonic() > end:
                break
            for process in (ready if turn % 2 == 0 else ready[::-1]):
                result = process.run(workload)
                results[workload, process.name] = result
                # The first steps choose algorithms and fill caches.
                times.setdefault((workload, process.name), []).append(median(result["step_ms"][3:]))
                print(f"{'ok  ' if result['error'] is None else 'FAIL'} {workload} {process.name} "
                      f"{result['seconds']:.1f} s, step {median(result['step_ms'][3:]):.2f} ms"
                      f"{': ' + result['error'] if result['error'] else ''}", flush=True)
    rows, most_slow = [], {}
    for workload in workloads:
        base = median(times.get((workload, names[0]), []))
        for name in names:
            result = results.get((workload, name))
            if result is None:
                continue
            step = median(times[workload, name])
            ratio = step / base if base else 0.0
            most_slow[name] = max(most_slow.get(name, 0.0), ratio)
            peak = result["peak_allocated"]
            rows.append([workload, name, f"{step:.2f}", f"{ratio:.3f}",
                         f"{result['peak_reserved'] / under.MIB:.0f}", f"{peak / under.MIB:.0f}",
                         f"{result['peak_reserved'] / peak:.3f}" if peak else "-",
                         str(result["retries"]),
                         "yes" if result["error"] is None else f"no: {result['error'][:60]}"])
    print("\n" + under.table(["workload", "allocator", "median step ms", f"/ {names[0]}",
                              "peak reserved MiB", "peak allocated MiB", "ratio", "retries",
                              "completed"], rows), flush=True)
    print("\nslowest against " + names[0] + ": " +
          ", ".join(f"{name} {ratio:.3f}" for name, ratio in most_slow.items()), flush=True)
    if os.environ.get("OUT"):
        data = [{**result, "allocator": name} for (_, name), result in results.items()]
        Path(os.environ["OUT"], "steps.json").write_text(json.dumps(data))
    rows = []
    end = time.monotonic() + arguments.cards
    for workload in [w for w in CARDS if w in workloads]:
        peaks = [results[workload, p.name]["peak_allocated"] for p in ready
                 if (workload, p.name) in results]
        if time.monotonic() > end or not peaks:
            break
        found: dict = {}
        threads = [threading.Thread(target=smallest_card, args=(p, workload, min(peaks), found))
                   for p in ready]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rows.append([workload, f"{min(peaks) / under.MIB:.0f}"] +
                    [found.get(name, "-") for name in names])
        print(f"ok   smallest card of {workload}: {found}", flush=True)
    print("\nThe smallest card, as a multiple of the peak of live bytes (retries there):\n\n" +
          under.table(["workload", "peak live MiB"] + names, rows))
    for process in processes:
        process.process.stdin.close()
        try:
            process.process.wait(10)
        except subprocess.TimeoutExpired:
            process.process.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
