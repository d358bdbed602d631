"""bench_limit.py - which allocator completes on the smallest card, on a GPU.

    python3 bench_limit.py run FOLDER [--budget SECONDS] [--parallel N] [--only A,B] [--turns N]
                               [--phases record,limits,finer,times]                 (needs a GPU)
    python3 bench_limit.py replay FOLDER [--vramwise PATH]      replays the recordings; no GPU
    python3 bench_limit.py table FOLDER [FILE.md]               writes what was found
    python3 bench_limit.py check FOLDER                         status 1: the default lost somewhere
    python3 bench_limit.py try [--only A,B] [--steps N]         each workload twice, without a GPU

`run` forks a process for each run from one that has loaded PyTorch. Its phases:

record   each workload without a limit: under native, recorded (FOLDER/recordings.tar), and under the
         others. What is live at the peak is the least of what they say was allocated: PyTorch's own
         blocks are up to 1 MiB larger than what was asked for.
limits   each workload on cards of 1.00 to 1.05 of that, under expandable segments, the default and
         rescue. Several at once: each stays within its own limit, and time does not matter.
finer    the default on cards in between, 0.5 % apart, until its smallest card is known.
times    one run at a time, in turns: expandable segments and the default on the smallest card on
         which expandable segments complete; native, the default, rescue and the default of an earlier
         checkout (--before) without a limit, where the GPU waits for the host.

A card is a limit set by set_per_process_memory_fraction(). PyTorch and our adapter both multiply it
by the card's bytes, cut off what is less than a byte, and hold no more than that. All of them hold
whole pages of 2 MiB, so a limit is rounded up to whole pages here, for all alike. cuBLAS' workspaces
count, for all alike.
FOLDER/limit.jsonl has a line for each run as soon as it ends; a run that hangs is killed, and one
that fails is a line. limit_report.py says what the lines mean.
"""
import argparse
import gc
import json
import lzma
import math
import os
import pickle
import random
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))
sys.path.insert(0, str(FOLDER.parents[1] / "tests" / "gpu" / "torch"))

import limit_children  # noqa: E402
import limit_report as report  # noqa: E402
import under  # noqa: E402

PHASES = ("record", "limits", "finer", "times")
UNLIMITED = ("native", "expandable", "vramwise")
LIMITED = ("expandable", "vramwise", "vramwise:rescue")
HOST_BOUND = ("native", "vramwise", "vramwise:rescue")
PAGE_BYTES = 2 << 20
MOST_EVENTS = 4_000_000    # the recorder's ring: never full
RUN_SECONDS = 45           # after which a run is killed
CARD_BYTES = 110 << 30     # that runs at once may have together
ENVIRONMENT = {
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",   # repeatable results need it
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",   # is_available() must not start CUDA before a fork
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1",
}


# ---- in a child ----------------------------------------------------------------------------------


def make_repeatable(torch, name, is_strict):
    """`is_strict`: operations that cannot repeat themselves are errors; some repeat only then."""
    random.seed(name)
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True, warn_only=not is_strict)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


def enter(torch, name):
    """Makes allocator `name` that of this process, and starts CUDA. Returns what is in force. After an
    @ the root of another checkout may stand, with build/gpu, whose allocator is meant."""
    name, _, before = name.partition("@")
    if before:
        os.environ["VRAMWISE_LIBRARY_DIR"] = f"{before}/build/gpu"
        sys.path.insert(0, f"{before}/python")
    os.environ[under.KEPT_IN] = name
    _, settings = under.split(name)
    if settings:
        torch.cuda.memory._set_allocator_settings(settings)
    under.install(name)
    kept = torch.empty(1, device="cuda")
    if name == "expandable" and not any(segment.get("is_expandable")
                                        for segment in torch.cuda.memory_snapshot()):
        raise RuntimeError("expandable segments were asked for and are not in force")
    del kept
    return torch.cuda.get_allocator_backend()


def limit_to(torch, limit_bytes):
    total_bytes = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((limit_bytes + 0.25) / total_bytes)


def work(torch, order, job, answer):
    """Runs the workload; what stops it goes into the answer."""
    import limit_workloads

    try:
        getattr(limit_workloads, order["workload"])(job)
        torch.cuda.synchronize()
        answer["completed"] = True
    except Exception as error:  # noqa: BLE001: what it is is told
        answer["completed"] = False
        answer["error"] = f"{type(error).__name__}: {error}"[:300]
        answer["is_oom"] = isinstance(error, torch.OutOfMemoryError)


def run_on_gpu(order):
    """One run, in a process of its own."""
    import torch
    import limit_workloads

    begin = time.perf_counter()
    make_repeatable(torch, order["workload"], order["strict"])
    if order.get("record_to"):
        torch.cuda.memory._record_memory_history(context=None, max_entries=MOST_EVENTS)
    answer = {"backend": enter(torch, order["allocator"])}
    if order.get("limit_bytes"):
        limit_to(torch, order["limit_bytes"])
    answer["start_seconds"] = round(time.perf_counter() - begin, 2)
    job = limit_workloads.Job()
    work(torch, order, job, answer)
    stats = torch.cuda.memory_stats()
    # Where cuDNN finds no memory for its first choice it takes another, and PyTorch counts a failure.
    answer.update(
        step=job.step, steps=job.steps_planned, losses=job.losses,
        step_ms=[round(ms, 3) for ms in job.step_ms],
        peak_allocated=stats["allocated_bytes.all.peak"],
        peak_requested=stats.get("requested_bytes.all.peak"),
        peak_active=stats.get("active_bytes.all.peak"),
        peak_reserved=stats["reserved_bytes.all.peak"],
        retries=stats["num_alloc_retries"], failures=stats["num_ooms"], engine=under.stats())
    answer.setdefault("is_oom", False)
    if not answer["completed"] and stats["num_ooms"] > 0:
        answer["is_oom"] = True  # cuDNN says so in its own words
    if order.get("record_to") and answer["completed"]:
        with lzma.open(order["record_to"], "wb", preset=1) as file:
            pickle.dump(torch.cuda.memory._snapshot(0), file)
    return answer


def run_anew(order):
    """The same in a process that was started, not forked: for a PyTorch that has started CUDA while it
    was loaded."""
    done = subprocess.run([sys.executable, __file__, "one", json.dumps(order)],
                          stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def ask_device(_):
    """What the machine is, and whether a forked process can use its GPU."""
    import torch
    import transformers

    if torch.cuda._is_in_bad_fork():
        return {"is_forked_too_late": True}
    device = torch.cuda.get_device_properties(0)
    return {"gpu": device.name, "gpu_bytes": device.total_memory,
            "driver_bytes": torch.cuda.mem_get_info()[1], "torch": torch.__version__,
            "transformers": transformers.__version__, "python": sys.version.split()[0]}


def run_on_host(order):
    import torch
    import limit_on_host
    import limit_workloads

    make_repeatable(torch, order["workload"], True)
    job = limit_workloads.Job(most_steps=order["most_steps"], divide_by=64)
    answer = {}
    with limit_on_host.on_host():
        work(torch, order, job, answer)
    answer.update(step=job.step, steps=job.steps_planned, losses=job.losses)
    return answer


# ---- the parent ----------------------------------------------------------------------------------


def load_all():
    """Loads what the workloads use, without starting CUDA."""
    os.environ.update(ENVIRONMENT)
    for variable in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "VRAMWISE_DISABLE"):
        os.environ.pop(variable, None)
    sys.path.insert(0, str(under.ROOT / "python"))
    import limit_workloads  # noqa: F401
    import torchvision.models  # noqa: F401
    from transformers import (GPT2LMHeadModel, LlamaForCausalLM,  # noqa: F401
                              T5ForConditionalGeneration)

    gc.collect()
    gc.freeze()


def choose(known, only):
    names = [name for name in only.split(",") if name] if only else list(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"no such workload: {' '.join(unknown)}")
    return names


def limit_bytes(live_bytes, factor):
    return math.ceil(live_bytes * factor / PAGE_BYTES) * PAGE_BYTES


class Bench:
    """The phases; every answer is a line of the log at once."""

    def __init__(self, folder, arguments, began):
        self.folder, self.arguments, self.began = folder, arguments, began
        self.deadline = began + arguments.budget
        is_new = "record" in arguments.phases
        self.results = report.Results() if is_new else report.Results.read(folder)
        self.strict = {"host_bound": False, **self.results.strictness()}
        self.log = open(folder / report.LOG, "w" if is_new else "a", encoding="ascii")
        self.work = run_on_gpu

    def note(self, order, answer):
        line = {"kind": "run", **{k: v for k, v in order.items() if k != "record_to"}, **answer}
        self.log.write(json.dumps(line) + "\n")
        self.log.flush()
        self.results.add(line)
        card = f"at {order['factor']:.3f} " if order.get("factor") else ""
        print(f"{time.monotonic() - self.began:6.1f} s  {order['phase']:7} {order['workload']:20} "
              f"{order['allocator']:16} {card}{report.outcome(line)} ({answer['seconds']:.1f} s)",
              file=sys.stderr, flush=True)

    def look_at_machine(self):
        machine = limit_children.run_all(ask_device, [None], 1, RUN_SECONDS)[0]
        if "error" in machine:
            raise SystemExit(f"the GPU cannot be used: {machine['error']}")
        if machine.get("gpu_bytes") != machine.get("driver_bytes"):
            print(f"the GPU has {machine['gpu_bytes']} bytes, and the driver says "
                  f"{machine['driver_bytes']}: limits differ as much", file=sys.stderr, flush=True)
        if machine.get("is_forked_too_late"):
            print("CUDA was started while the packages were loaded: each run loads them itself",
                  file=sys.stderr, flush=True)
            self.work = run_anew
        return machine

    def run(self, orders, at_a_time):
        return limit_children.run_all(self.work, orders, max(1, at_a_time), RUN_SECONDS,
                                      self.deadline, self.note)

    def order(self, phase, workload, allocator, factor=None):
        order = {"phase": phase, "workload": workload, "allocator": allocator,
                 "strict": self.strict.get(workload, True)}
        if factor is not None:
            order["factor"] = factor
            order["limit_bytes"] = limit_bytes(self.results.live_bytes(workload), factor)
        return order

    def at_a_time(self):
        """So many runs that together they fit the real card."""
        largest = max([self.results.live_bytes(name) for name in self.known()] or [1])
        return min(self.arguments.parallel, CARD_BYTES // max(1, int(1.5 * largest)))

    def known(self):
        return [name for name in self.arguments.workloads if self.results.live_bytes(name)]

    def record(self):
        with tempfile.TemporaryDirectory() as scratch:
            wanted = self.arguments.workloads
            for _ in range(2):
                orders = [self.order("record", name, "native") for name in wanted]
                for order in orders:
                    order["record_to"] = f"{scratch}/{order['workload']}.pickle.xz"
                answers = self.run(orders, self.arguments.parallel)
                wanted = [name for name, answer in zip(wanted, answers)
                          if answer and "determinis" in answer.get("error", "")]
                self.strict.update({name: False for name in wanted})
            with tarfile.open(self.folder / report.RECORDINGS, "w") as archive:
                for path in sorted(Path(scratch).glob("*.pickle.xz")):
                    archive.add(path, path.name)
        self.run([self.order("record", name, allocator) for name in self.known()
                  for allocator in UNLIMITED[1:]], self.arguments.parallel)

    def limits(self):
        self.run([self.order("limits", name, allocator, factor) for name in self.known()
                  for factor in report.FACTORS for allocator in LIMITED], self.at_a_time())

    def finer(self):
        """Halves the gap below the smallest card of the default, for all workloads at once."""
        while time.monotonic() < self.deadline:
            orders = [self.order("finer", name, "vramwise", factor) for name in self.known()
                      for factor in self.results.between(name, "vramwise", self.arguments.grid)
                      if (name, "vramwise", factor) not in self.results.limited]
            if not orders:
                return
            self.run(orders, self.at_a_time())

    def times(self):
        pairs = []
        for name in self.known():
            factor = self.results.smallest_completed(name, "expandable")
            if self.results.limited.get((name, "vramwise", factor), {}).get("completed"):
                pairs += [(name, allocator, factor) for allocator in ("expandable", "vramwise")]
        for turn in range(self.arguments.turns):
            orders = [self.order("times", *pair) for pair in pairs]
            host = [self.order("times", "host_bound", name) for name in HOST_BOUND]
            if self.arguments.before:
                host.append(self.order("times", "host_bound",
                                       f"{report.BEFORE}{self.arguments.before}"))
            if turn % 2 == 1:
                orders, host = orders[::-1], host[::-1]
            self.run(orders + host + host[::-1], 1)


def run(arguments):
    folder = Path(arguments.folder)
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    load_all()
    import limit_workloads

    arguments.workloads = choose(limit_workloads.WORKLOADS, arguments.only)
    bench = Bench(folder, arguments, begin)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the children end too
    print(f"loaded in {time.monotonic() - begin:.1f} s", file=sys.stderr, flush=True)
    machine = bench.look_at_machine()
    for phase in PHASES:
        if phase in arguments.phases:
            getattr(bench, phase)()
    bench.log.write(json.dumps({**machine, "kind": "machine",
                                "seconds": round(time.monotonic() - begin),
                                "is_cut_short": time.monotonic() > bench.deadline}) + "\n")
    bench.log.close()
    return 0


def try_on_host(arguments):
    """Status 1: a workload fails, differs from itself, or does not end."""
    load_all()
    import limit_workloads

    names = choose([*limit_workloads.WORKLOADS, "host_bound"], arguments.only)
    is_bad = False
    for name in names:
        orders = [{"workload": name, "most_steps": arguments.steps}] * 2
        first, second = limit_children.run_all(run_on_host, orders, 1, 600)
        why = first.get("error") or second.get("error")
        if not why and first["losses"] != second["losses"]:
            why = "the second run differs from the first"
        if not why and len(first["losses"]) != first["steps"]:
            why = f"{len(first['losses'])} losses in {first['steps']} steps"
        if not why and len(set(first["losses"])) == 1 < first["steps"]:
            why = "every step has the same loss"
        if not why and any(value in ("nan", "inf", "-inf") for value in first["losses"]):
            why = "a loss is not a number"
        is_bad = is_bad or bool(why)
        print(f"{'FAIL' if why else 'ok  '} {name}: {why or str(first['steps']) + ' steps'}, "
              f"{first['seconds']:.1f} s", flush=True)
    return 1 if is_bad else 0


def comma_list(among):
    def parse(text):
        names = text.split(",")
        for name in names:
            if name not in among:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(among)}")
        return names
    return parse


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    of_run = commands.add_parser("run", help="on a GPU")
    of_run.add_argument("folder")
    of_run.add_argument("--budget", type=float, default=400.0, help="seconds (400)")
    of_run.add_argument("--parallel", type=int, default=10, help="runs at once (10)")
    of_run.add_argument("--only", help="these workloads")
    of_run.add_argument("--turns", type=int, default=2, help="of the times (2)")
    of_run.add_argument("--before", help="root of an earlier checkout with build/gpu: its default's "
                        "time where the GPU waits for the host")
    of_run.add_argument("--grid", type=float, default=0.5, help="of `finer`, in percent (0.5)")
    of_run.add_argument("--phases", type=comma_list(PHASES), default=list(PHASES),
                        help="some of " + ",".join(PHASES))
    of_replay = commands.add_parser("replay", help="replays what was recorded")
    of_replay.add_argument("folder")
    of_replay.add_argument("--vramwise", default=str(under.ROOT / "build" / "vramwise"))
    of_table = commands.add_parser("table", help="writes the tables")
    of_table.add_argument("folder")
    of_table.add_argument("file", nargs="?")
    of_check = commands.add_parser("check", help="whether the default lost anywhere")
    of_check.add_argument("folder")
    of_try = commands.add_parser("try", help="without a GPU")
    of_try.add_argument("--only")
    of_try.add_argument("--steps", type=int, default=3)
    commands.add_parser("one").add_argument("order")  # a run in this process
    arguments = parser.parse_args()
    if arguments.command == "one":
        load_all()
        print(json.dumps(run_on_gpu(json.loads(arguments.order))))
        return 0
    if arguments.command == "run":
        return run(arguments)
    if arguments.command == "try":
        return try_on_host(arguments)
    if arguments.command == "replay":
        return report.replay(Path(arguments.folder), arguments.vramwise)
    results = report.Results.read(Path(arguments.folder))
    if arguments.command == "check":
        return report.check(results)
    text = report.tables(results)
    if arguments.file:
        Path(arguments.file).write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
