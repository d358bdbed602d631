"""bench_spill.py - training on a card that is too small: who dies, who finishes, and how fast.

    python3 bench_spill.py [--seconds S] [--only WORD] [--spill SIZE]    a table, and $OUT/spill.jsonl
    python3 bench_spill.py --child JSON                                  some runs, in this process

Each model is first run as it is, twice: that gives its peak of live memory, its losses, its time for a
step, and whether PyTorch repeats itself. Then the process may have 0.95, 0.85 and 0.7 of that peak
(set_per_process_memory_fraction): with PyTorch's allocator, with expandable segments, and with ours
that may spill. Beside them what a programmer would do: activation checkpointing, and an optimizer in
host memory, without a limit and with their peak.

All runs of an allocator are in one process. The cases come in the order of importance; those that no
time is left for are named. Status 1: a run with spill failed, or its losses differ.
"""
import argparse
import gc
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "gpu" / "torch"))
import under  # noqa: E402

STEPS, WARM_UP_STEPS = 12, 4
OFFLOADED_STEPS = 7  # each takes a second
CAPS = (0.85, 0.95, 0.7)
SHAPES = {"gpt2": (4, 1024), "llama-1b": (1, 2048)}
# model, precision, optimizer
CASES = (("gpt2", "fp32", "adamw"), ("llama-1b", "bf16", "adamw"), ("llama-1b", "bf16", "adamw-fused"),
         ("gpt2", "fp32", "adamw-fused"), ("gpt2", "amp-bf16", "adamw"), ("llama-1b", "fp32", "adamw"),
         ("gpt2", "bf16", "adamw"), ("llama-1b", "fp32", "adamw-fused"))
FEWEST_SECONDS = 25.0  # that a process needs: torch, a model, some steps
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
    family, fields = KINDS[kind]
    config = getattr(transformers, family + "Config")(use_cache=False, attn_implementation="sdpa",
                                                      **fields)
    torch.set_default_dtype(torch.bfloat16 if precision == "bf16" else torch.float32)
    try:
        with torch.device("cuda"):
            return getattr(transformers, HEADS.get(family, family + "ForCausalLM"))(config)
    finally:
        torch.set_default_dtype(torch.float32)


def optimizer_of(torch, name: str, parameters):
    if name == "offloaded":
        from offloaded_adamw import OffloadedAdamW
        return OffloadedAdamW(parameters)
    return torch.optim.AdamW(parameters, lr=1e-5, fused=True if name == "adamw-fused" else None)


def spill_counts() -> Dict[str, int]:
    return under.stats().get("spill", {})


def train(torch, run: Dict[str, Any], result: Dict[str, Any]) -> None:
    """Fills `result` as it goes, so that what was reached is known where it fails."""
    batch, length = SHAPES[run["model"]]
    model = build(torch, run["model"], run["precision"])
    model.train()
    if run.get("checkpointing"):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = optimizer_of(torch, run["optimizer"], list(model.parameters()))
    draw = torch.Generator(device="cuda").manual_seed(7)
    torch.cuda.reset_peak_memory_stats()
    for _ in range(run["steps"]):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        tokens = torch.randint(0, 30000, (batch, length), generator=draw, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=run["precision"] == "amp-bf16"):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        result["losses"].append(float(loss).hex())
        torch.cuda.synchronize()
        result["step_ms"].append(round((time.perf_counter() - begin) * 1e3, 2))
        result["spilled_bytes"].append(spill_counts().get("spilled_bytes", 0))


def forget(torch) -> None:
    """What the last run left."""
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()


def measure(torch, run: Dict[str, Any]) -> Dict[str, Any]:
    forget(torch)
    total = torch.cuda.get_device_properties(0).total_memory
    limit = run.get("limit_bytes")
    torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total) if limit else 1.0)
    torch.manual_seed(1234)
    before = spill_counts()
    result: Dict[str, Any] = dict(run, losses=[], step_ms=[], spilled_bytes=[], outcome="completed")
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
    result["safe_moments"] = under.stats().get("safe_moments")
    return result


def child(order: Dict[str, Any]) -> int:
    torch = under.enter_again()
    deterministic(torch)
    torch.zeros(1, device="cuda")
    is_strict = True
    for run in order["runs"]:
        result = measure(torch, run)
        if is_strict and result["outcome"] == "failed" and "deterministic" in result["error"]:
            is_strict = False  # something of the model has no such form
            torch.use_deterministic_algorithms(True, warn_only=True)
            result = measure(torch, run)
        result["is_strict"] = is_strict
        print("@ " + json.dumps(result), flush=True)
    return 0


# ---- all runs --------------------------------------------------------------------------------------


class Bench:
    """The time that is left, and what was found."""

    def __init__(self, seconds: float, spill: str) -> None:
        self.end = time.monotonic() + seconds
        self.spill = spill
        self.results: List[Dict[str, Any]] = []
        self.left_out: List[str] = []
        folder = Path(os.environ.get("OUT", "."))
        self.file = open(folder / "spill.jsonl", "w", encoding="utf-8")

    def has_time(self) -> bool:
        return time.monotonic() + FEWEST_SECONDS < self.end

    def run(self, allocator: str, runs: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
        """In a process of its own. What it did not come to is left out, and said."""
        what = f"{runs[0]['model']} {runs[0]['precision']} {runs[0]['optimizer']}, {allocator}"
        if not self.has_time():
            self.left_out.append(what)
            return []
        extra = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8",
                 "HEADROOM_SPILL": self.spill if allocator == "headroom" else ""}
        for run in runs:
            run["allocator"] = allocator
        status, output, seconds = under.run(
            [sys.executable, __file__, "--child", json.dumps({"runs": runs})], allocator,
            self.end - time.monotonic(), extra)
        found = [json.loads(line[2:]) for line in output.splitlines() if line.startswith("@ ")]
        for line in output.splitlines():
            if line.startswith("headroom: "):
                print(f"     {line}")
        why = "" if status == 0 else " | " + " / ".join(output.strip().splitlines()[-6:])[-900:]
        print(f"{'ok  ' if status == 0 else 'FAIL'} {what}: {len(found)} of {len(runs)} runs, "
              f"{seconds:.1f} s{why}", flush=True)
        if len(found) < len(runs):
            self.left_out.append(f"{len(runs) - len(found)} runs of {what} (status {status})")
        for result in found:
            self.file.write(json.dumps(result) + "\n")
        self.file.flush()
        self.results += found
        return found

    def case(self, model: str, precision: str, optimizer: str) -> None:
        def run(label: str, **fields: Any) -> Dict[str, Any]:
            return dict(dict(model=model, precision=precision, optimizer=optimizer, steps=STEPS,
                             label=label), **fields)
        found = self.run("native", [run("uncapped"), run("again")])
        if not found or found[0]["outcome"] != "completed":
            return
        peak = found[0]["peak_bytes"]
        capped = [run(f"{cap}", cap=cap, limit_bytes=int(cap * peak)) for cap in CAPS]
        self.run("headroom", [dict(c) for c in capped] + [run("uncapped")])
        self.run("expandable", [dict(c) for c in capped])
        self.run("native", [dict(c) for c in capped] + [
            run("checkpointing", checkpointing=True),
            run("offloaded", optimizer="offloaded", steps=OFFLOADED_STEPS)])


def median_ms(result: Dict[str, Any]) -> Optional[float]:
    times = result["step_ms"][WARM_UP_STEPS:]
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
    spill = result["spill"]
    has_spilled = spill.get("spills", 0) > 0
    return [result["allocator"], result["label"], result["outcome"],
            compared(reference, again, result),
            f"{time_ms:.0f}" if time_ms else "-",
            f"{time_ms / usual_ms:.2f}" if time_ms and usual_ms else "-",
            f"{result['peak_bytes'] / GIB:.2f}",
            f"{max(result['spilled_bytes'] or [0]) / GIB:.2f}" if has_spilled else "-",
            f"{spill['spills']} / {spill['returns']}" if has_spilled else "-",
            f"{spill['all_spilled_bytes'] / GIB:.2f}" if has_spilled else "-",
            f"{spill['spill_wait_ns'] / 1e6:.0f}" if has_spilled else "-"]


HEADINGS = ["allocator", "card", "outcome", "losses", "step ms", "ratio", "peak live GiB",
            "on the host GiB", "spills / returns", "spilled in all GiB", "waited ms"]


def report(bench: Bench) -> bool:
    """Prints the tables. True: everything that may spill finished, with the same losses."""
    is_good = True
    for model, precision, optimizer in CASES:
        runs = [r for r in bench.results if (r["model"], r["precision"]) == (model, precision) and
                r["optimizer"] in (optimizer, "offloaded")]
        named = {r["label"]: r for r in runs if r["allocator"] == "native"}
        if "uncapped" not in named:
            continue
        reference, again = named["uncapped"], named.get("again")
        batch, length = SHAPES[model]
        told = "" if again is not None and again["losses"] == reference["losses"] else \
            ", which PyTorch does not repeat to the bit"
        print(f"\n{model} {precision} {optimizer}, batch {batch}, length {length}: peak live "
              f"{reference['peak_bytes'] / GIB:.2f} GiB{told}\n")
        rows = [row(reference, again, r) for r in runs if r["label"] != "again" and
                (r["label"] != "offloaded" or optimizer == "adamw")]
        print(under.table(HEADINGS, rows))
        for r in runs:
            if r["allocator"] == "headroom" and (
                    r["outcome"] != "completed" or
                    compared(reference, again, r).startswith("DIFFERENT")):
                is_good = False
            if "error" in r and (r["outcome"] == "failed" or r["allocator"] == "headroom"):
                print(f"\n{r['allocator']} {r['label']}: {r['error']}")
    if bench.left_out:
        print("\nnot measured: " + "; ".join(bench.left_out))
    return is_good and bool(bench.results)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=280.0)
    parser.add_argument("--only", default="", help="cases with this word")
    parser.add_argument("--spill", default="24GiB")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        return child(json.loads(arguments.child))
    bench = Bench(arguments.seconds, arguments.spill)
    for case in CASES:
        if arguments.only in " ".join(case):
            bench.case(*case)
    return 0 if report(bench) else 1


if __name__ == "__main__":
    sys.exit(main())
