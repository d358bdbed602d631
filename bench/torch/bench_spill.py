"""bench_spill.py - training on a card that is too small: who dies, who finishes, and how fast.

    python3 bench_spill.py [--seconds S] [--only WORDS,...] [--spill SIZE] [--streamed]
    python3 bench_spill.py --record FOLDER [--only WORDS,...]    writes recordings of runs with room: tests/data/spill

Each model is first run as it is, twice: that gives its peak of live memory, its losses, its time for a
step, and whether PyTorch repeats itself. Then the process may have 0.95, 0.85, 0.7 and 0.5 of that peak
(set_per_process_memory_fraction): with ours that may spill, with ours that also streams the optimizer's
state and saved tensors (VRAMWISE_STREAM=1), with PyTorch's allocator, and with expandable segments. Beside
them what a programmer would do: activation checkpointing, activations kept in host memory (save_on_cpu),
and an optimizer in host memory, without a limit and with their peak. Of the fused optimizer there are the
runs of ours, of PyTorch's allocator and checkpointing only. --streamed: only as it is, with streams on 0.85,
0.7 and 0.5, and with a fused optimizer what a programmer would do.

Processes wait for runs to make, since to start one takes as long as a dozen of them: one for PyTorch's
allocator, one for expandable segments, and for each case a new one of ours, which has learned nothing
and holds no host memory yet. One process runs at a time, except where all of them are about to die and
nothing is timed. The cases come in the order of importance; those that no time is left for are named.

The tables go to the output and to $OUT/spill_<GPU>.md, all figures to $OUT/spill.jsonl. Status 1: a run
with spill failed, or its losses differ.
"""
import argparse
import contextlib
import gc
import json
import lzma
import os
import pickle
import platform
import queue
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "gpu" / "torch"))
import under  # noqa: E402

STEPS, WARM_UP_STEPS = 13, 8
LEAST_TIMED_STEPS = 3
OFFLOADED_STEPS = 8  # each takes a second
OFFLOADED_TOO = ("gpt2", "bert-large")  # beside streams
CAPS = (0.85, 0.95, 0.7, 0.5)
SHAPES = {"gpt2": (4, 1024), "llama-1b": (1, 2048), "bert-large": (16, 512),
          "llama-1b x4": (4, 2048)}  # the last has a step of a second or more
LARGE_BERT = ("Bert", dict(num_hidden_layers=24, hidden_size=1024, num_attention_heads=16,
                           intermediate_size=4096))
MODELS = (("gpt2", "fp32"), ("bert-large", "fp32"), ("llama-1b", "fp32"), ("gpt2", "bf16"), ("llama-1b", "bf16"),
          ("llama-1b x4", "fp32"))
STREAMED = "vramwise stream"  # our allocator, with an optimizer's state that is streamed
OURS = ("vramwise", STREAMED)
# model, precision, optimizer; in the order of importance
CASES = tuple((*model, optimizer) for models, optimizer in (
    (MODELS[:3], "adamw-fused"), (MODELS[:3], "adamw"), (MODELS[3:], "adamw-fused"), (MODELS[3:], "adamw"))
    for model in models)
BUS_BYTES = 1 << 28  # that are copied to see how fast the bus is
RECORDED_STEPS = 5
FEWEST_SECONDS = 20.0  # that are worth beginning with something
GIB = 1 << 30


# ---- one run ---------------------------------------------------------------------------------------


def deterministic(torch) -> None:
    import same_results
    same_results.deterministic(torch)
    torch.use_deterministic_algorithms(True)  # memory-efficient attention only heeds the strict form
    torch.utils.deterministic.fill_uninitialized_memory = False  # which writes to all that is new


def build(torch, kind: str, precision: str):
    """With weights made on the GPU: there it takes no time."""
    import transformers
    from measure_plan import HEADS, KINDS
    family, fields = LARGE_BERT if kind == "bert-large" else KINDS[kind.split()[0]]
    config = getattr(transformers, family + "Config")(use_cache=False, attn_implementation="sdpa",
                                                      **fields)
    torch.set_default_dtype(torch.bfloat16 if precision == "bf16" else torch.float32)
    try:
        with torch.device("cuda"):
            return getattr(transformers, HEADS.get(family, family + "ForCausalLM"))(config)
    finally:
        torch.set_default_dtype(torch.float32)


def optimizer_of(torch, run: Dict[str, Any], parameters):
    if run.get("offloaded"):
        from offloaded_adamw import OffloadedAdamW
        return OffloadedAdamW(parameters)
    is_fused = run["optimizer"] == "adamw-fused"
    return torch.optim.AdamW(parameters, lr=1e-5, fused=True if is_fused else None)


def spill_counts() -> Dict[str, int]:
    return under.stats().get("spill", {})


def stream_counts() -> Dict[str, int]:
    return under.stats().get("stream", {})


def train(torch, run: Dict[str, Any], result: Dict[str, Any]) -> None:
    """Fills `result` as it goes, so that what was reached is known where it fails."""
    batch, length = SHAPES[run["model"]]
    model = build(torch, run["model"], run["precision"])
    model.train()
    if run.get("checkpointing"):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = optimizer_of(torch, run, list(model.parameters()))
    draw = torch.Generator(device="cuda").manual_seed(7)
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.synchronize()
    for _ in range(run["steps"]):
        begin = time.perf_counter()
        moments = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
        moments[0].record()
        optimizer.zero_grad(set_to_none=True)
        tokens = torch.randint(0, 30000, (batch, length), generator=draw, device="cuda")
        with torch.autograd.graph.save_on_cpu(pin_memory=True) if run.get("kept_on_cpu") else \
                contextlib.nullcontext():
            loss = model(input_ids=tokens, labels=tokens).loss
        moments[1].record()
        hosts = [time.perf_counter()]
        loss.backward()
        hosts.append(time.perf_counter())
        moments[2].record()
        optimizer.step()
        hosts.append(time.perf_counter())
        moments[3].record()
        result["losses"].append(float(loss.detach()).hex())
        torch.cuda.current_stream().synchronize()  # not the device: copies go on beside the next step
        result["step_ms"].append(round((time.perf_counter() - begin) * 1e3, 2))
        result["host_ms"].append([round((until - begin) * 1e3, 2) for until in hosts])
        result["pass_ms"].append([round(since.elapsed_time(until), 2) for since, until in zip(moments, moments[1:])])
        result["spilled_bytes"].append(spill_counts().get("spilled_bytes", 0))


def forget(torch) -> None:
    """What a run left, on the GPU and in page-locked memory."""
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    getattr(torch._C, "_host_emptyCache", lambda: None)()  # since 2.6


def measure(torch, run: Dict[str, Any]) -> Dict[str, Any]:
    total = torch.cuda.get_device_properties(0).total_memory
    limit = run.get("limit_bytes")
    torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total) if limit else 1.0)
    torch.cuda.reset_peak_memory_stats()
    torch.manual_seed(1234)
    before, streamed_before, all_before = spill_counts(), stream_counts(), under.stats()
    result: Dict[str, Any] = dict(run, losses=[], step_ms=[], pass_ms=[], host_ms=[], spilled_bytes=[], outcome="completed")
    try:
        train(torch, run, result)
    except torch.OutOfMemoryError as error:
        result["outcome"] = f"OOM in step {len(result['losses']) + 1}"
        result["error"] = str(error)[:200]
    except Exception as error:  # noqa: BLE001: the other runs are worth having
        result["outcome"] = "failed"
        result["error"] = repr(error)[:400]
    result["peak_bytes"] = torch.cuda.max_memory_allocated()
    result["peak_reserved_bytes"] = torch.cuda.max_memory_reserved()
    after = spill_counts()
    result["spill"] = {name: value - before.get(name, 0) for name, value in after.items()}
    result["stream"] = {name: value - streamed_before.get(name, 0)
                        for name, value in stream_counts().items()}
    result["engine"] = {name: value - all_before.get(name, 0) for name, value in under.stats().items()
                        if isinstance(value, int) and not isinstance(value, bool)}
    result["safe_moments"] = under.stats().get("safe_moments")
    forget(torch)
    return result


# ---- recordings ------------------------------------------------------------------------------------


def without_paths(snapshot: Any) -> Any:
    """Nobody's folders are in the stacks: of events, segments and blocks."""
    homes = ((str(under.ROOT), "/home/user"), (sys.prefix, "/home/user/.venv"))
    to_see, seen = [snapshot], set()
    while to_see:
        value = to_see.pop()
        if not isinstance(value, (dict, list)) or id(value) in seen:
            continue
        seen.add(id(value))
        to_see += value.values() if isinstance(value, dict) else value
        if isinstance(value, dict) and "filename" in value:
            for home, instead in homes:
                if value["filename"].startswith(home + "/"):
                    value["filename"] = instead + value["filename"][len(home):]
    return snapshot


def record(folder: Path, only: str) -> int:
    """The steps of each model with a fused optimizer and all the memory that it wants, in FOLDER/MODEL-PRECISION.pickle.xz."""
    torch = under.enter("native")
    deterministic(torch)
    torch.use_deterministic_algorithms(True, warn_only=True)
    folder.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        model, precision, optimizer = case
        if optimizer != "adamw-fused" or not is_named(case, only):
            continue
        torch.manual_seed(1234)
        torch.cuda.memory._record_memory_history(max_entries=1 << 20, stacks="python")
        result = measure(torch, dict(model=model, precision=precision, optimizer=optimizer, steps=RECORDED_STEPS, label="recorded"))
        snapshot = without_paths(torch.cuda.memory._snapshot())
        torch.cuda.memory._record_memory_history(enabled=None)
        file = folder / f"{model.replace(' ', '-')}-{precision}.pickle.xz"
        file.write_bytes(lzma.compress(pickle.dumps(snapshot), preset=9))
        print(f"{file}: {result['outcome']}, peak {result['peak_bytes']} bytes, {file.stat().st_size} bytes written", flush=True)
        forget(torch)
    return 0


# ---- a process that makes runs ---------------------------------------------------------------------


def first_match(path: str, pattern: str) -> str:
    """In a file that need not be there; "" then."""
    try:
        found = re.search(pattern, Path(path).read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ""
    return found.group(1) if found else ""


def bus_ms_per_gib(torch) -> float:
    """Of copies in both directions at once, as streams make them."""
    host = [torch.empty(BUS_BYTES, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    there = [torch.empty(BUS_BYTES, dtype=torch.uint8, device="cuda") for _ in range(2)]
    streams = [torch.cuda.Stream() for _ in range(2)]
    times = []
    for _ in range(4):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        with torch.cuda.stream(streams[0]):
            host[0].copy_(there[0], non_blocking=True)
        with torch.cuda.stream(streams[1]):
            there[1].copy_(host[1], non_blocking=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return min(times) * 1e3 * GIB / BUS_BYTES


def describe(torch) -> Dict[str, Any]:
    import transformers
    device = torch.cuda.get_device_properties(0)
    return dict(gpu=device.name, gpu_bytes=device.total_memory, cores=os.cpu_count(),
                driver=first_match("/proc/driver/nvidia/version", r"Module\s+(?:for \S+\s+)?([\d.]+)"),
                processor=first_match("/proc/cpuinfo", r"model name\s*: (.*)"),
                torch=torch.__version__, transformers=transformers.__version__,
                python=platform.python_version())


def work() -> int:
    """Answers each line of the input, a run, with a line that begins with "@ "."""
    torch = under.enter_again()
    deterministic(torch)
    torch.zeros(1, device="cuda")
    machine = describe(torch)
    if not under.stats():  # PyTorch's allocator
        machine["bus_ms_per_gib"] = bus_ms_per_gib(torch)
        forget(torch)
    print("@ " + json.dumps(machine), flush=True)
    is_strict = True
    for line in sys.stdin:
        run = json.loads(line)
        result = measure(torch, run)
        if is_strict and result["outcome"] == "failed" and "deterministic" in result["error"]:
            is_strict = False  # something of the model has no such form
            torch.use_deterministic_algorithms(True, warn_only=True)
            result = measure(torch, run)
        result["is_strict"] = is_strict
        print("@ " + json.dumps(result), flush=True)
    return 0


class Worker:
    """The other side of work()."""

    def __init__(self, allocator: str, spill: str) -> None:
        variables = under.environment(allocator.split()[0])
        variables.update(PYTHONUNBUFFERED="1", CUBLAS_WORKSPACE_CONFIG=":4096:8",
                         VRAMWISE_SPILL=spill if allocator in OURS else "",
                         VRAMWISE_STREAM="1" if allocator == STREAMED else "")
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--work"], env=variables, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            start_new_session=True)
        self.lines: "queue.Queue[Optional[str]]" = queue.Queue()
        self.told: List[str] = []  # that was no answer
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def send(self, run: Dict[str, Any]) -> None:
        try:
            self.process.stdin.write(json.dumps(run) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # receive() finds that it has ended

    def receive(self, end: float) -> Optional[Dict[str, Any]]:
        """The next answer; None where it has ended, or does not come in time."""
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                self.told.append("too slow")
                return None
            if line is None:
                self.lines.put(None)  # it stays ended
                self.told.append(f"status {self.process.wait()}")
                return None
            if line.startswith("@ "):
                return json.loads(line[2:])
            self.told.append(line.strip())
            if line.startswith("vramwise: "):
                print(f"     {line.strip()}", flush=True)

    def end(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


# ---- all runs --------------------------------------------------------------------------------------


def is_named(case: Tuple[str, ...], only: str) -> bool:
    """A word that ends with $ is the end of the case's name: gpt2 fp32 adamw$."""
    return any(words in " ".join(case) + "$" for words in only.split(","))


class Bench:
    """The time that is left, the processes, and what was found."""

    def __init__(self, seconds: float, spill: str, is_only_streamed: bool) -> None:
        self.is_only_streamed = is_only_streamed
        self.begin = time.monotonic()
        self.end = self.begin + seconds
        self.spill = spill
        self.workers: Dict[str, Worker] = {}
        self.spares: List[Worker] = []
        self.machine: Dict[str, Any] = {}
        self.results: List[Dict[str, Any]] = []
        self.left_out: List[str] = []
        self.has_crashed = False  # a process, of whatever
        self.folder = Path(os.environ.get("OUT", "."))
        self.file = open(self.folder / "spill.jsonl", "w", encoding="utf-8")

    def start(self, allocators: List[str]) -> None:
        """All at once, where they are not there yet."""
        begun = [name for name in allocators if name not in self.workers]
        for name in begun:
            self.workers[name] = self.spares.pop() if name == STREAMED and self.spares else Worker(name, self.spill)
        for name in begun:
            self.machine.update(self.workers[name].receive(self.end) or {})

    def stop(self, allocator: str) -> None:
        worker = self.workers.pop(allocator, None)
        if worker is not None:
            worker.end()

    def run(self, orders: Dict[str, List[Dict[str, Any]]]) -> List[Dict[str, Any]]:
        """The runs of each allocator, one after the other; several allocators at once. What they did
        not come to is left out, and said."""
        names = [name for name, runs in orders.items() if runs]
        what = {name: "{model} {precision} {optimizer}".format(**orders[name][0]) + f", {name}"
                for name in names}
        if time.monotonic() + FEWEST_SECONDS > self.end:
            self.left_out += what.values()
            return []
        self.start(names)
        begin = time.monotonic()
        for name in names:
            for run in orders[name]:
                self.workers[name].send(dict(run, allocator=name))
        found: List[Dict[str, Any]] = []
        for name in names:
            answers: List[Dict[str, Any]] = []
            for _ in orders[name]:
                answer = self.workers[name].receive(self.end)
                if answer is None:
                    break
                answers.append(answer)
            found += answers
            is_whole = len(answers) == len(orders[name])
            why = "" if is_whole else " | " + " / ".join(self.workers[name].told[-6:])[-900:]
            print(f"{'ok  ' if is_whole else 'FAIL'} {what[name]}: {len(answers)} of "
                  f"{len(orders[name])} runs, {time.monotonic() - begin:.1f} s{why}", flush=True)
            if not is_whole:
                self.left_out.append(f"{len(orders[name]) - len(answers)} runs of {what[name]}")
                self.has_crashed = self.has_crashed or self.workers[name].process.poll() is not None
                self.stop(name)
        for result in found:
            self.file.write(json.dumps(result) + "\n")
        self.file.flush()
        self.results += found
        return found

    def case(self, model: str, precision: str, optimizer: str) -> None:
        def run(label: str, **fields: Any) -> Dict[str, Any]:
            return dict(dict(model=model, precision=precision, optimizer=optimizer, steps=STEPS, label=label), **fields)
        is_full = optimizer == "adamw" and not self.is_only_streamed
        usual = [run("uncapped")] + ([] if self.is_only_streamed else [run("again")])
        remedies = [run("checkpointing", checkpointing=True)]
        if is_full or (self.is_only_streamed and model in OFFLOADED_TOO and precision == "fp32"):
            remedies += [run("save_on_cpu", kept_on_cpu=True, steps=OFFLOADED_STEPS),
                         run("offloaded", offloaded=True, steps=OFFLOADED_STEPS)]
        found = self.run({"native": usual + (remedies if is_full or optimizer != "adamw" else [])})
        if not found or found[0]["outcome"] != "completed":
            return
        peak = found[0]["peak_bytes"]
        capped = [run(f"{cap}", limit_bytes=int(cap * peak)) for cap in CAPS if cap != 0.95 or not self.is_only_streamed]
        roomy = [run("uncapped")] if optimizer != "adamw" or not self.is_only_streamed else []
        for ours in (STREAMED,) if self.is_only_streamed else (STREAMED, "vramwise"):
            self.run({ours: capped + roomy})
            self.stop(ours)
        if self.is_only_streamed:
            return
        self.run({"native": capped, "expandable": capped if is_full else []})

    def all(self, only: str) -> None:
        self.start(["native"] if self.is_only_streamed else ["native", "expandable"])
        if self.is_only_streamed:  # all of them start at once
            self.spares = [Worker(STREAMED, self.spill) for case in CASES if is_named(case, only)]
        for case in CASES:
            if is_named(case, only):
                self.case(*case)
        for name in list(self.workers):
            self.stop(name)
        for worker in self.spares:
            worker.end()


# ---- what came of it -------------------------------------------------------------------------------


def median_ms(result: Dict[str, Any]) -> Optional[float]:
    times = result["step_ms"][min(WARM_UP_STEPS, len(result["step_ms"]) - LEAST_TIMED_STEPS):]
    return statistics.median(times) if times and result["outcome"] == "completed" else None


def compared(reference: Dict[str, Any], again: Optional[Dict[str, Any]], result: Dict[str, Any]) -> str:
    wanted, found = reference["losses"], result["losses"]
    if result["label"] == "offloaded" or not found:
        return "-"  # other arithmetic, or none
    if found == wanted[:len(found)]:
        return "equal" if len(found) == len(wanted) else f"equal, {len(found)}"
    if again is not None and again["losses"] != wanted:
        return "PyTorch differs from itself"
    return f"DIFFERENT from step {next(i for i, loss in enumerate(found) if loss != wanted[i]) + 1}"


def row(reference: Dict[str, Any], again: Optional[Dict[str, Any]], result: Dict[str, Any]) -> List[str]:
    time_ms, usual_ms = median_ms(result), median_ms(reference)
    spill, stream = result["spill"], result["stream"]
    has_spilled = spill.get("spills", 0) > 0
    steps = max(1, len(result["step_ms"]))
    return [result["allocator"], result["label"], result["outcome"],
            compared(reference, again, result),
            f"{time_ms:.0f}" if time_ms else "-",
            f"{time_ms / usual_ms:.2f}" if time_ms and usual_ms else "-",
            f"{result['peak_bytes'] / GIB:.2f}",
            f"{max(result['spilled_bytes'] or [0]) / GIB:.2f}" if has_spilled else "-",
            f"{spill['spills']} / {spill['returns']}" if has_spilled else "-",
            f"{spill['all_spilled_bytes'] / GIB:.2f}" if has_spilled else "-",
            f"{spill['spill_wait_ns'] / 1e6:.0f}" if has_spilled else "-"] + \
        [f"{stream[name] / GIB / steps:.2f}" if stream else "-"
         for name in ("all_left_bytes", "returned_ahead_bytes", "stayed_bytes")] + \
        [f"{stream['wait_ns'] / 1e6 / steps:.1f} / {stream['asked'] / steps:.1f}" if stream else "-"]


HEADINGS = ["allocator", "card", "outcome", "losses", "step ms", "ratio", "peak live GiB",
            "on the host GiB", "spills / returns", "spilled in all GiB", "waited ms",
            "out GiB", "back ahead GiB", "stayed GiB", "wait ms / asks"]
COLUMNS = """
- **card**: the part of the peak of live memory that the process may have; `checkpointing`, `save_on_cpu` and `offloaded` have no limit,
  their own peak shows what they need
- **losses**: beside those of the first run, bit for bit; `equal, 1`: those of the one step it came to
- **step ms**, **ratio**: the median of the steps after the first {warm_up}, and how many times the first run's. The last line of `vramwise` is
  without a limit
- **on the host GiB**: the most that was in host memory at the end of a step
- **spills / returns**, **spilled in all GiB**, **waited ms**: how often memory left and came back, over all steps, and what that took
- **out**, **back ahead**, **stayed GiB**: of streamed state, in a step: what left, what was copied back before the optimizer's step, and
  what that found on the host; **wait ms / asks**: how long requests waited for room in a step, and how many did
"""


class Case:
    """The runs of one case, in the order in which they are shown."""

    def __init__(self, bench: Bench, model: str, precision: str, optimizer: str) -> None:
        self.ms_per_gib = bench.machine.get("bus_ms_per_gib", 0.0)
        self.name = f"{model} {precision}, {'fused' if optimizer == 'adamw-fused' else 'default'} AdamW"
        self.shape = SHAPES[model]
        self.runs = [r for r in bench.results if
                     (r["model"], r["precision"], r["optimizer"]) == (model, precision, optimizer)]
        self.reference = self.named("native", "uncapped")
        self.again = self.named("native", "again")

    def named(self, allocator: str, label: str) -> Optional[Dict[str, Any]]:
        return next((r for r in self.runs if (r["allocator"], r["label"]) == (allocator, label)), None)

    def is_good(self) -> bool:
        """Everything that may spill finished, with the same losses."""
        return all(r["outcome"] == "completed" and
                   not compared(self.reference, self.again, r).startswith("DIFFERENT")
                   for r in self.runs if r["allocator"] in OURS)

    def ratio(self, allocator: str, label: str) -> str:
        found = self.named(allocator, label)
        if found is None:
            return ""
        return row(self.reference, self.again, found)[5] if median_ms(found) else found["outcome"]

    def summary(self) -> List[str]:
        usual_ms = median_ms(self.reference)
        return [self.name, f"{self.reference['peak_bytes'] / GIB:.2f}",
                f"{usual_ms:.0f}" if usual_ms else "-"] + \
            [self.ratio(ours, f"{cap}") for ours in (STREAMED, "vramwise")
             for cap in sorted(CAPS, reverse=True)] + \
            [self.ratio("native", label) for label in ("0.95", "checkpointing", "save_on_cpu", "offloaded")] + \
            [self.bound(cap) for cap in sorted(CAPS, reverse=True)]

    def bound(self, cap: float) -> str:
        """The bus's: what lacks goes out behind the forward pass and comes back behind the backward pass, and what takes
        longer than those is waited for."""
        forward, backward, _ = (statistics.median(times) for times in zip(*self.reference["pass_ms"][WARM_UP_STEPS:]))
        copy_ms = (1 - cap) * self.reference["peak_bytes"] / GIB * self.ms_per_gib
        usual_ms = median_ms(self.reference)
        return f"{1 + (max(0.0, copy_ms - forward) + max(0.0, copy_ms - backward)) / usual_ms:.2f}"

    def text(self) -> str:
        batch, length = self.shape
        is_repeated = self.again is not None and self.again["losses"] == self.reference["losses"]
        errors = [f"{r['allocator']} {r['label']}: {r['error']}" for r in self.runs
                  if "error" in r and (r["outcome"] == "failed" or r["allocator"] in OURS)]
        rows = [row(self.reference, self.again, r) for r in self.runs if r["label"] != "again"]
        return "\n\n".join(
            [f"## {self.name}",
             f"Batch {batch}, length {length}; the peak of live memory is "
             f"{self.reference['peak_bytes'] / GIB:.2f} GiB" +
             ("." if is_repeated else ". PyTorch does not repeat the losses to the bit."),
             under.table(HEADINGS, rows)] + errors)


def machine_text(bench: Bench) -> str:
    m = bench.machine
    driver = f", driver {m['driver']}" if m["driver"] else ""
    processor = f" of an {m['processor']}" if m["processor"] else ""
    return (f"One {m['gpu']} ({m['gpu_bytes'] / GIB:.1f} GiB{driver}) with {m['cores']} virtual "
            f"cores{processor}; PyTorch {m['torch']}, transformers {m['transformers']}, Python "
            f"{m['python']}. A GiB takes {m['bus_ms_per_gib']:.1f} ms each way, both ways at once.\n"
            f"`python3 bench/torch/bench_spill.py{' --streamed' if bench.is_only_streamed else ''} --spill {bench.spill}` "
            f"wrote this in {time.monotonic() - bench.begin:.0f} s.")


SUMMARY = ["model", "peak live GiB", "native, step ms"] + \
    [f"{how} at {cap}" for how in ("stream", "spill") for cap in sorted(CAPS, reverse=True)] + \
    ["native at 0.95", "checkpointing", "save_on_cpu", "offloaded AdamW"] + \
    [f"bus at {cap}" for cap in sorted(CAPS, reverse=True)]


def report(bench: Bench) -> bool:
    """Prints and writes the tables. True: all is as it should be."""
    cases = [Case(bench, *case) for case in CASES]
    cases = [case for case in cases if case.reference is not None]
    if not cases:
        print("\nnothing was measured: " + "; ".join(bench.left_out))
        return False
    gpu = bench.machine["gpu"].split()[-1]
    parts = [f"# Training that does not fit, on one {gpu}", machine_text(bench),
             "A step's time, as a multiple of what it takes on a card that is large enough:",
             under.table(SUMMARY, [case.summary() for case in cases]),
             "The columns of the other tables:\n" + COLUMNS.format(warm_up=WARM_UP_STEPS).rstrip()]
    parts += [case.text() for case in cases]
    if bench.left_out:
        parts.append("Not measured: " + "; ".join(bench.left_out))
    text = "\n\n".join(parts) + "\n"
    (bench.folder / f"spill_{gpu.lower()}.md").write_text(text, encoding="utf-8")
    print("\n" + text)
    return not bench.has_crashed and all(case.is_good() for case in cases)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=420.0)
    parser.add_argument("--only", default="", help="cases with one of these words, WORDS,...: gpt2 fp32,bert")
    parser.add_argument("--spill", default="64GiB")
    parser.add_argument("--streamed", action="store_true", help="only as it is, and with streams")
    parser.add_argument("--record", metavar="FOLDER", type=Path, help="only write recordings of runs with room there")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        return work()
    if arguments.record is not None:
        return record(arguments.record, arguments.only)
    bench = Bench(arguments.seconds, arguments.spill, arguments.streamed)
    bench.all(arguments.only)
    return 0 if report(bench) else 1


if __name__ == "__main__":
    sys.exit(main())
