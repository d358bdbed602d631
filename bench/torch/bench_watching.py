"""bench_watching.py - what it costs a training job to be watched.

    python3 bench_watching.py [--vramwise PATH] [--seconds LIMIT] [--every]

GPT-2 training (12 layers, bf16 autocast) twice: 4 x 512 tokens, where the GPU waits for the host, and
16 x 1024, where the host waits for the GPU. Each plain, under `vramwise run --` as it is by default,
and without its page in shared memory (VRAMWISE_LIVE=0); --every adds, for the first, `vramwise run
--history 100000`, which keeps the stacks of all steps, and PyTorch's history in other ways. Each way is a process of its own that waits for orders, so
that they are never at work together: they take turns, and a machine that changes its speed changes it
for all.

By default the watcher measures what history costs, in the first steps, and keeps what is cheap. Those
steps are left out, and how many they are is said. After that some steps have stacks and most may not,
so means are compared, not medians: over turns of 64 steps, or 32, of which bursts with stacks have
their share. One step before each turn is left out: it finds a device that has rested.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[1] / "tests" / "gpu" / "torch"))

import under  # noqa: E402

HISTORY = {
    "history, no stacks": {"context": None, "max_entries": 100_000},
    "stacks python, frees too": {"context": "all", "stacks": "python", "max_entries": 100_000},
    "stacks all": {"context": "alloc", "stacks": "all", "max_entries": 100_000},
}
RUNS = {
    "vramwise run": ["run", "--"],
    "vramwise run, no page": ["run", "--"],
    "vramwise run --history": ["run", "--history", "100000", "--"],
}
WAYS = ("plain", "vramwise run", "vramwise run, no page")
# name: (batch, tokens, steps of a turn, share of the time)
WORKLOADS = {"bound by the host": (4, 512, 64, 0.45), "bound by the GPU": (16, 1024, 32, 0.55)}
WARMING_STEPS = 40  # more than the watcher lets pass before it measures
MOST_WARMING_STEPS = 400


def watcher_budget():
    """Of the watcher in this process; None where there is none, or nothing is measured."""
    watch = sys.modules.get("_vramwise_watch")
    return watch._state.history._budget if watch is not None else None


def warm_up(step) -> dict:
    """Until the watcher knows. What it decided."""
    count = 0
    budget = watcher_budget()
    while count < WARMING_STEPS or (budget is not None and budget.is_measuring
                                    and count < MOST_WARMING_STEPS):
        step()
        count += 1
    kept = "nothing is measured"
    if budget is not None:
        kept = (f"level {budget.base_level}, bursts of {budget.burst_steps} steps in "
                f"{budget.steps_between}; events cost {100 * budget.event_cost:.1f} %, stacks "
                f"{100 * budget.stack_cost:.1f} %{' (estimated)' if budget.is_estimated else ''}")
    return {"steps": count, "kept": kept}


def worker(way: str, workload: str) -> None:
    import torch

    if way in HISTORY:
        torch.cuda.memory._record_memory_history("all", **HISTORY[way])
    from transformers import GPT2Config, GPT2LMHeadModel

    batch, length, _, _ = WORKLOADS[workload]
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_positions=length, use_cache=False)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(0, 50257, (batch, length), device="cuda")

    def step() -> float:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - begin)

    print("@" + json.dumps({"is_recording": torch._C._cuda_isHistoryEnabled()}), flush=True)
    for line in sys.stdin:
        if line.strip() == "warm":
            print("@" + json.dumps(warm_up(step)), flush=True)
        else:
            print("@" + json.dumps([step() for _ in range(int(line))]), flush=True)


class Process:
    def __init__(self, way: str, workload: str, program: str, folder: str) -> None:
        self.way, self.why, self.turns = way, "", []
        command = [sys.executable, __file__, "--worker", way, "--workload", workload]
        if way in RUNS:
            command = [program] + RUNS[way] + command
        variables = under.environment("pytorch")
        variables["PYTHONUNBUFFERED"] = "1"
        if way.endswith("no page"):
            variables["VRAMWISE_LIVE"] = "0"
        self.process = subprocess.Popen(command, env=variables, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        errors="replace", cwd=folder)

    def answer(self) -> str:
        for line in self.process.stdout:
            if line.startswith("@"):
                return line[1:].strip()
            self.why = line.strip() or self.why
        self.process.wait()
        return ""

    def order(self, words: str):
        """What the process answers; None where it has ended."""
        try:
            self.process.stdin.write(f"{words}\n")
            self.process.stdin.flush()
            return json.loads(self.answer())
        except (OSError, ValueError):
            self.why = self.why or "the process ended"
            return None

    def end(self) -> None:
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()


def mean(values: list) -> float:
    return sum(values) / len(values) if values else 0.0


def median(values: list) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0


def start(ways: list, workload: str, program: str, folder: str) -> list:
    """Those that are ready, one after the other: two at once would measure each other."""
    processes = [Process(way, workload, program, folder) for way in ways]
    ready = []
    for process in processes:
        said = process.answer()
        if not said.startswith("{"):
            print(f"FAIL {process.way}: {process.why}", flush=True)
            continue
        is_recording = json.loads(said)["is_recording"]
        is_right = is_recording == (process.way != "plain")
        print(f"{'ok  ' if is_right else 'FAIL'} {process.way}: history is "
              f"{'on' if is_recording else 'off'} at the start", flush=True)
        ready.append(process)
    for process in list(ready):
        warmed = process.order("warm")
        if warmed is None:
            print(f"FAIL {process.way}: {process.why}", flush=True)
            ready.remove(process)
        else:
            print(f"#    {process.way}: {warmed['steps']} steps left out; {warmed['kept']}",
                  flush=True)
    return ready


def compare(ready: list, turn_steps: int, seconds: float) -> int:
    """Turns, until the time is over. How many rounds."""
    end = time.monotonic() + seconds
    rounds, longest = 0, 0.0
    while ready and (rounds < 2 or time.monotonic() + longest < end):
        begin = time.monotonic()
        for process in (ready if rounds % 2 == 0 else ready[::-1]):
            process.turns.append((process.order(str(turn_steps + 1)) or [0.0])[1:])
        longest = max(longest, time.monotonic() - begin)
        rounds += 1
    return rounds


def print_table(ready: list) -> bool:
    plain = next((process for process in ready if process.way == "plain"), None)
    if plain is None or not all(plain.turns):
        print("FAIL there is no plain run to compare with")
        return False
    base = [ms for turn in plain.turns for ms in turn]
    rows = []
    for process in ready:
        every = [ms for turn in process.turns for ms in turn]
        # A turn against the plain turn of the same round: what changes slowly falls out.
        paired = sorted(100.0 * (mean(mine) / mean(theirs) - 1.0)
                        for mine, theirs in zip(process.turns, plain.turns) if mine and theirs)
        rows.append([process.way, f"{mean(every):.3f}", f"{median(every):.3f}",
                     f"{100.0 * (mean(every) / mean(base) - 1.0):+.2f} %",
                     f"{median(paired):+.2f} %",
                     f"{paired[0]:+.2f} to {paired[-1]:+.2f} %" if paired else ""])
    print(under.table(["way", "mean step ms", "median", "by means", "round by round",
                       "least to most"], rows), flush=True)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vramwise", default=str(under.ROOT / "build" / "vramwise"))
    parser.add_argument("--seconds", type=float, default=75.0, help="of turns, in all")
    parser.add_argument("--every", action="store_true", help="other histories as well")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--workload", choices=WORKLOADS, help="this one alone")
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.worker, arguments.workload)
        return 0
    program = shutil.which(arguments.vramwise)
    if program is None:
        print(f"skip vramwise run: {arguments.vramwise} is not a program here")
    folder = tempfile.mkdtemp()
    numbers, is_good = {}, True
    for workload, (batch, length, turn_steps, share) in WORKLOADS.items():
        if arguments.workload not in (None, workload):
            continue
        ways = [way for way in WAYS if way not in RUNS or program is not None]
        if arguments.every and batch == 4:
            ways += ["vramwise run --history", *HISTORY]
        print(f"## GPT-2, {batch} x {length} tokens: {workload}\n", flush=True)
        ready = start(ways, workload, str(Path(program or ".").resolve()), folder)
        rounds = compare(ready, turn_steps, share * arguments.seconds)
        for process in ready:
            process.end()
        print(f"# {rounds} rounds of {turn_steps} steps each, in turn\n")
        is_good = print_table(ready) and len(ready) == len(ways) and is_good
        numbers[workload] = {process.way: process.turns for process in ready}
    if os.environ.get("OUT"):
        Path(os.environ["OUT"], "watching.json").write_text(json.dumps(numbers))
    shutil.rmtree(folder, ignore_errors=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
