"""limit_report.py - what the runs of bench_limit.py say: tables, a check, and replay beside them.

Needs neither a GPU nor PyTorch. A factor is a card's size as a multiple of the workload's live_bytes.
"""
import json
import statistics
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "gpu" / "torch"))

import under  # noqa: E402

LOG = "limit.jsonl"
RECORDINGS = "recordings.tar"
FACTORS = (1.00, 1.01, 1.02, 1.03, 1.05)
LARGEST_FACTOR = 1.15       # beyond which no smallest card is looked for
STEP_BEYOND = 0.02
ALLOCATORS = {"expandable": "expandable segments", "vramwise": "default",
              "vramwise:rescue": "rescue"}
BEFORE = "vramwise@"        # and the root of an earlier checkout: its default
FIRST_STEPS = 3             # choose algorithms and fill caches: they are in no time
MOST_TIME_RATIO = 1.02      # of a step of the default and one of expandable segments
MOST_HOST_BOUND_RATIO = 1.005
MOST_REPLAY_PERCENT = 0.5


class Results:
    """The lines of a log; a later run takes the place of an earlier one like it."""

    def __init__(self):
        self.unlimited, self.limited, self.timed = {}, {}, {}
        self.replayed, self.machine = {}, {}

    @staticmethod
    def read(folder):
        """SystemExit: there is no log that can be read."""
        results = Results()
        try:
            with open(Path(folder) / LOG, encoding="ascii") as file:
                for line in file:
                    results.add(json.loads(line))
        except (OSError, ValueError) as error:
            raise SystemExit(f"there are no results: {error}") from None
        return results

    def add(self, line):
        if line["kind"] == "machine":
            self.machine = line
        elif line["kind"] == "replay":
            self.replayed[line["workload"], line["allocator"]] = line
        elif line["phase"] == "record":
            self.unlimited[line["workload"], line["allocator"]] = line
        elif line["phase"] == "times":
            allocator = BEFORE if line["allocator"].startswith(BEFORE) else line["allocator"]
            self.timed.setdefault((line["workload"], allocator), []).append(line)
        else:
            self.limited[line["workload"], line["allocator"], line["factor"]] = line

    def workloads(self):
        return list(dict.fromkeys(workload for workload, _ in self.unlimited))

    def strictness(self):
        return {workload: line["strict"] for (workload, _), line in self.unlimited.items()}

    def live_bytes(self, workload):
        """The peak without a limit; 0: unknown."""
        return min((line["peak_allocated"] for (name, _), line in self.unlimited.items()
                    if name == workload and line.get("completed")), default=0)

    def factors(self, workload, allocator):
        """Those tried to the end, in order: (factor, whether it completed)."""
        return sorted((factor, line["completed"]) for (name, own, factor), line
                      in self.limited.items()
                      if (name, own) == (workload, allocator) and "completed" in line)

    def smallest_completed(self, workload, allocator):
        return min((factor for factor, is_done in self.factors(workload, allocator) if is_done),
                   default=None)

    def smallest_card(self, workload, allocator):
        """The factor from which on all that were tried complete, and the largest that fails, each None
        where there is none."""
        fails = completes = None
        for factor, is_done in self.factors(workload, allocator):
            if not is_done:
                fails, completes = factor, None
            elif completes is None:
                completes = factor
        return fails, completes

    def between(self, workload, allocator, grid_percent):
        """The factors to try next, so that the smallest card is known to `grid_percent`."""
        fails, completes = self.smallest_card(workload, allocator)
        if fails is None:
            return []
        if completes is None:
            beyond = round(fails + STEP_BEYOND, 4)
            return [beyond] if beyond <= LARGEST_FACTOR else []
        parts = round((completes - fails) * 100 / grid_percent, 6)
        if parts <= 1:
            return []
        return [round(fails + grid_percent / 100 * (int(parts) // 2 or 1), 4)]

    def is_repeatable(self, workload):
        """Two runs without a limit, under PyTorch's own allocators, have the same losses."""
        runs = [self.unlimited.get((workload, name), {}) for name in ("native", "expandable")]
        return all(run.get("completed") for run in runs) and \
            runs[0]["losses"] == runs[1]["losses"]

    def losses(self, workload, line):
        """Beside those of the first run, as far as the run came."""
        if "losses" not in line or not self.is_repeatable(workload):
            return "unknown"
        wanted = self.unlimited[workload, "native"]["losses"][:len(line["losses"])]
        if line["losses"] == wanted:
            return "equal"
        # cuDNN takes another algorithm where the memory for its first choice is refused.
        return "other algorithm" if line["completed"] and line["failures"] else "DIFFERENT"


def outcome(line):
    if line.get("completed"):
        retries = line["retries"]
        return "completes" + (f", {retries} retries" if retries else "")
    if line.get("is_oom"):
        return f"out of memory in step {line['step'] + 1}"
    return "error: " + line.get("error", "none was given").replace("\n", " ").replace("|", "/")[:160]


# ---- replay --------------------------------------------------------------------------------------


def replay_one(vramwise, path):
    """The smallest card by each policy; CalledProcessError, ValueError: it could not be played."""
    # The status is 1 where a run ends out of memory, which is an answer too.
    done = subprocess.run([vramwise, "replay", str(path), "--json", "--smallest-card", "--policy",
                           ",".join(ALLOCATORS)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)
    if done.returncode > 1:
        raise ValueError(done.stderr.strip()[-300:] or f"exit status {done.returncode}")
    found = json.loads(done.stdout)
    return {result["policy"]: {"smallest_card_bytes": result["smallest_card_bytes"],
                               "peak_reserved": result["peak_reserved_bytes"],
                               "replay_live_bytes": found["peak_live_bytes"]}
            for result in found["results"]}


def replay(folder, vramwise):
    """Adds a line to the log for each recording and policy. Status 1: one could not be played."""
    is_bad = False
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(folder / RECORDINGS) as archive, \
            open(folder / LOG, "a", encoding="ascii") as log:
        for member in archive.getmembers():
            path = Path(scratch, Path(member.name).name)
            path.write_bytes(archive.extractfile(member).read())
            workload = path.name.split(".")[0]
            try:
                found = replay_one(vramwise, path)
            except (OSError, ValueError) as error:
                print(f"FAIL {workload}: {error}", flush=True)
                is_bad = True
                continue
            for allocator, numbers in found.items():
                log.write(json.dumps({"kind": "replay", "workload": workload,
                                      "allocator": allocator, **numbers}) + "\n")
            print(f"ok   {workload}: " + ", ".join(
                f"{name} {numbers['smallest_card_bytes'] / under.MIB:.0f} MiB"
                for name, numbers in found.items()), flush=True)
            path.unlink()
    return 1 if is_bad else 0


def replay_distance(results, workload, allocator):
    """What the GPU and the replay say of the smallest card: (fails, completes, replayed, by how many
    percent the replayed one is outside of what the GPU leaves open). None: one of them is unknown."""
    line = results.replayed.get((workload, allocator))
    fails, completes = results.smallest_card(workload, allocator)
    live_bytes = results.live_bytes(workload)
    if line is None or completes is None or not live_bytes or not line["smallest_card_bytes"]:
        return None
    replayed = line["smallest_card_bytes"] / live_bytes
    if replayed > completes:
        return fails, completes, replayed, 100 * (replayed - completes)
    if fails is not None and replayed <= fails:
        return fails, completes, replayed, 100 * (replayed - fails)
    return fails, completes, replayed, 0.0


# ---- times ---------------------------------------------------------------------------------------


def step_times(lines):
    """Each step's least time over the turns, without the first steps; [] if no run completed."""
    runs = [line["step_ms"][FIRST_STEPS:] for line in lines if line.get("completed")]
    return [min(times) for times in zip(*runs)]


def time_ratios(results, workload, allocator, base):
    """(median of base in ms, ratio of medians, ratio of sums); None if one of them is missing."""
    mine = step_times(results.timed.get((workload, allocator), []))
    theirs = step_times(results.timed.get((workload, base), []))
    if not mine or not theirs:
        return None
    return (statistics.median(theirs), statistics.median(mine) / statistics.median(theirs),
            sum(mine) / sum(theirs))


# ---- tables --------------------------------------------------------------------------------------


def cell(line):
    if line is None:
        return ""
    if line.get("completed"):
        return f"yes, {line['retries']} retries" if line["retries"] else "yes"
    return f"step {line['step'] + 1}" if line.get("is_oom") else "error"


def card_rows(results):
    rows = []
    for workload in results.workloads():
        live_bytes = results.live_bytes(workload)
        for allocator, name in ALLOCATORS.items():
            runs = [results.limited.get((workload, allocator, factor)) for factor in FACTORS]
            said = {results.losses(workload, run) for run in runs if run and run.get("losses")}
            free = results.unlimited.get((workload, allocator), {})
            reserved = f"{free['peak_reserved'] / live_bytes:.3f}" \
                if free.get("completed") and live_bytes else ""
            rows.append([workload, f"{live_bytes / under.MIB:.0f}", name, *map(cell, runs),
                         ", ".join(sorted(said)), reserved])
    return rows


def time_rows(results):
    rows = []
    for workload in results.workloads():
        found = time_ratios(results, workload, "vramwise", "expandable")
        if found:
            lines = results.timed[workload, "vramwise"]
            rows.append([workload, f"{lines[0]['factor']:.2f}", f"{found[0]:.2f}", f"{found[1]:.3f}",
                         f"{found[2]:.3f}", str(len(lines))])
    return rows


def host_bound_rows(results):
    rows = []
    for allocator in ("vramwise", "vramwise:rescue", BEFORE):
        found = time_ratios(results, "host_bound", allocator, "native")
        if found:
            rows.append([ALLOCATORS.get(allocator, "default before"), f"{found[0]:.3f}", f"{found[1]:.4f}",
                         f"{found[2]:.4f}"])
    return rows


def replay_rows(results):
    rows = []
    for workload in results.workloads():
        for allocator, name in ALLOCATORS.items():
            found = replay_distance(results, workload, allocator)
            if found:
                fails, completes, replayed, outside = found
                on_gpu = f"at most {completes:.3f}" if fails is None \
                    else f"{fails:.3f} to {completes:.3f}"
                rows.append([workload, name, on_gpu, f"{replayed:.4f}", f"{outside:+.2f} %"])
    return rows


def machine_line(machine):
    if "gpu" not in machine:
        return ""
    return (f"One {machine['gpu']} ({machine['gpu_bytes'] / under.GIB:.1f} GiB); PyTorch "
            f"{machine['torch']}, transformers {machine['transformers']}, Python "
            f"{machine['python']}. `bench/torch/bench_limit.py run` took {machine['seconds']} s"
            + (", and its time was up before it was done" if machine["is_cut_short"] else "")
            + ".\n\n")


def tables(results):
    errors = [line for group in (results.unlimited, results.limited) for line in group.values()
              if not line.get("completed") and not line.get("is_oom")]
    factors = [f"{factor:.2f}" for factor in FACTORS]
    parts = ["# At the limit, on a GPU\n\n", machine_line(results.machine), """\
A card is a limit (`set_per_process_memory_fraction`) of so many times what is live at the workload's
peak, rounded up to 2 MiB. **yes**: the run completes, with that many retries; **step 7**: it is out of
memory in that step. **losses**: beside those of a run without a limit, bit for bit (**unknown**:
PyTorch does not repeat them itself; **other algorithm**: cuDNN was refused the memory of its first
choice). **reserved**: the most that is held without a limit, as a multiple of what is live.

""", under.table(["workload", "live MiB", "allocator", *factors, "losses", "reserved"],
                 card_rows(results)), """

## Time of a step

On the smallest card of the table on which expandable segments complete, one run at a time, in turns.
Each step's least time over the turns; the first three steps are left out. The default's time as a
multiple of that of expandable segments, by the median step and by the sum of all.

""", under.table(["workload", "card", "expandable ms", "median", "sum", "turns"],
                 time_rows(results)), """

Without a limit, where the GPU waits for the host (GPT-2 on 2 x 128 tokens), as a multiple of native:

""", under.table(["allocator", "native ms", "median", "sum"], host_bound_rows(results)), """

## Replay beside the GPU

The smallest card, as a multiple of what is live. On the GPU: the largest card that was tried and fails,
to the one from which on all that were tried complete. **outside**: how far the replayed card is from
what these two leave open.

""", under.table(["workload", "allocator", "on the GPU", "replayed", "outside"],
                 replay_rows(results)), "\n"]
    if errors:
        parts += ["\n## Errors\n\n", *(
            f"- {line['workload']}, {line['allocator']}: {outcome(line)}\n" for line in errors)]
    return "".join(parts)


# ---- the check -----------------------------------------------------------------------------------


def find_losses_to_others(results, workload):
    """Yields a sentence for each card on which the default fails and another does not."""
    for factor in sorted({factor for name, _, factor in results.limited if name == workload}):
        own = results.limited.get((workload, "vramwise", factor))
        winners = [name for allocator, name in ALLOCATORS.items() if allocator != "vramwise"
                   and results.limited.get((workload, allocator, factor), {}).get("completed")]
        if winners and not (own or {}).get("completed"):
            how = outcome(own) if own else "was not run"
            yield f"card {factor:.3f}: done by {' and '.join(winners)}, not by the default ({how})"


def find_faults(results, workload):
    yield from find_losses_to_others(results, workload)
    for (name, allocator, factor), line in results.limited.items():
        if name == workload and results.losses(workload, line) == "DIFFERENT":
            yield f"card {factor:.3f}: the losses of {allocator} differ"
    times = time_ratios(results, workload, "vramwise", "expandable")
    if times and min(times[1:]) > MOST_TIME_RATIO:
        yield f"steps take {times[1]:.3f} times those of expandable segments ({times[2]:.3f} in all)"
    for allocator in ("expandable", "vramwise"):
        found = replay_distance(results, workload, allocator)
        if found and abs(found[3]) > MOST_REPLAY_PERCENT:
            yield f"{allocator}: replay is {found[3]:+.2f} % from the GPU"


def check(results):
    """Prints a line for each workload and fault. Status 1: a fault, or nothing was measured."""
    is_bad = not results.limited
    for workload in results.workloads():
        faults = list(find_faults(results, workload))
        tried = len(results.factors(workload, "vramwise"))
        if not tried:
            faults.append("the default was never run at a limit")
        is_bad = is_bad or bool(faults)
        if not faults:
            print(f"ok   {workload}: where another completes, the default does ({tried} cards)")
        for fault in faults:
            print(f"FAIL {workload}: {fault}")
    base = BEFORE if ("host_bound", BEFORE) in results.timed else "native"
    host_bound = time_ratios(results, "host_bound", "vramwise", base)
    if host_bound and host_bound[1] > MOST_HOST_BOUND_RATIO:
        other = "earlier ones" if base == BEFORE else "native ones"
        print(f"FAIL host_bound: the default's steps take {host_bound[1]:.4f} times {other}")
        is_bad = True
    if not results.limited:
        print("FAIL nothing was run at a limit")
    return 1 if is_bad else 0
