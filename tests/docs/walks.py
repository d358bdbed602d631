#!/usr/bin/env python3
"""walks.py PROGRAM FAKE_NVML [--before PROGRAM | --renew] - ten walks of a new user, from what they have
to the answer they need.

Each walk types commands and reads what they print, line by line, until the line that tells what to type
next, or the answer. Counted are the commands and the lines read. Nothing needs a GPU: torch is that of
tests/support/fake_torch_watch, and NVML is FAKE_NVML.

Without an option it holds docs/explanation/walks.md against what PROGRAM prints. --renew writes that page's
figures. --before PROGRAM measures an earlier program, and writes walks_before.json.
"""
import argparse
import contextlib
import json
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
from typing import NamedTuple, Optional

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RECORDINGS = ROOT / "tests/data/recordings"
PAGE = ROOT / "docs/explanation/walks.md"
BEFORE = HERE / "walks_before.json"
BEGIN, END = "## The figures\n\n", "\n## What is left\n"  # of what it writes, in the page
SHOWN_PROCESS = "4711"  # in the page, for whichever number the running job has
LIMIT_SECONDS = 100
MIB, GIB = 1 << 20, 1 << 30


class Step(NamedTuple):
    typed: str
    wanted: Optional[str]  # a pattern of the line that is looked for; None: there is none to find


class Walk(NamedTuple):
    name: str
    before: list
    after: list


class Read(NamedTuple):
    lines: int
    found: Optional[str]


# ---- the walks -------------------------------------------------------------------------------------

CHECKPOINTING = r"model\.gradient_checkpointing_enable\("
GROWN = r"\+16\.0 MiB.*attention"

WALKS = [
    Walk("An error to a fix",
         [Step("vramwise doctor error.txt", CHECKPOINTING)],
         [Step("vramwise doctor error.txt", CHECKPOINTING)]),
    Walk("A recording to a setting",
         [Step("vramwise tune run.pickle --card 8GiB", r"^PYTORCH_CUDA_ALLOC_CONF=\S+")],
         [Step("vramwise tune run.pickle --card 8GiB", r"^PYTORCH_CUDA_ALLOC_CONF=\S+")]),
    Walk("A run to a report",
         [Step("vramwise run python3 train.py", r"vramwise run -- python3"),
          Step("vramwise run -- python3 train.py", r"loader = DataLoader\(.*")],
         [Step("vramwise run python3 train.py", r"loader = DataLoader\(.*")]),
    Walk("A plan to a batch size",
         [Step("vramwise plan --model gpt2 --seq 1024 --card 24GiB", r"^batch +at most 13")],
         [Step("vramwise plan --model gpt2 --seq 1024 --card 24GiB", r"the largest batch that fits is 13")]),
    Walk("A log to a leak",
         [Step("vramwise doctor steps.log", r"running_loss \+= loss\.item\(\)")],
         [Step("vramwise doctor steps.log", r"running_loss \+= loss\.item\(\)")]),
    Walk("A changed script to a diff",
         [Step("vramwise diff main.pickle changed.pickle", r"and \d+ smaller ones"),
          Step("vramwise diff main.pickle changed.pickle --top 0", GROWN)],
         [Step("vramwise diff main.pickle changed.pickle", GROWN)]),
    Walk("A CI job that fails",
         [Step("vramwise diff main.pickle changed.pickle --top 0", GROWN)],
         [Step("vramwise check main.pickle --write-baseline memory.json", r"wrote a baseline"),
          Step("vramwise check changed.pickle --baseline memory.json --max-growth 2%", GROWN)]),
    Walk("A pasted Chinese error",
         [Step("vramwise doctor - < chinese.txt", CHECKPOINTING)],
         [Step("vramwise doctor - < chinese.txt", CHECKPOINTING)]),
    Walk("A job that runs already",
         [Step("vramwise doctor --pid {process}", None),
          Step("vramwise top --once", r"{process} .* 60\.00 GiB")],
         [Step("vramwise doctor --pid {process}", r"60\.00 GiB are held by process {process}")]),
    Walk("A wrong file",
         [Step("vramwise tune error.txt --card 24GiB", None),
          Step("vramwise help", r"^  doctor .*"),
          Step("vramwise doctor error.txt", r"^Genuine:")],
         [Step("vramwise tune error.txt --card 24GiB", r"'vramwise doctor' reads errors and logs"),
          Step("vramwise doctor error.txt", r"^Genuine:")]),
]

# ---- what the user has -----------------------------------------------------------------------------

ERROR = """Traceback (most recent call last):
  File "/home/ada/train.py", line 88, in <module>
    loss.backward()
  File "/opt/venv/lib/python3.12/site-packages/torch/_tensor.py", line 625, in backward
    torch.autograd.backward(
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.53 GiB. GPU 0 has a total capacity of \
23.69 GiB of which 1.10 GiB is free. Including non-PyTorch memory, this process has 22.58 GiB memory in \
use. Of the allocated memory 21.50 GiB is allocated by PyTorch, and 620.00 MiB is reserved by PyTorch but \
unallocated.
"""
CHINESE = """Traceback (most recent call last):
  File "train.py", line 41, in <module>
    loss.backward()
RuntimeError: CUDA 内存不足。尝试分配 2.00 GiB(GPU 0;总容量 23.69 GiB;已分配 20.51 GiB;空闲 1.02 GiB;\
PyTorch 总共保留 21.30 GiB)
"""
FAILING = "import torch\ntorch._C.allocate(7 << 30)\ntorch._C.allocate(2 << 30)\n"
WAITING = "import sys\nprint('ready', flush=True)\nsys.stdin.read()\n"


def step_log():
    return "".join(f"INFO step {step} loss {3 - step / 250:.3f} memory {4096 + 7.5 * step:.1f} MiB\n"
                   for step in range(200))


def recording(main_line, attention_mib):
    """One step of a model with 16 layers, whose loop is at `main_line` of the script."""
    parts = [("embed", 31, 24), ("norm", 44, 4), ("attention", 52, attention_mib), ("mlp", 67, 40)]
    address, events, live = 0x7F0000000000, [], []
    size = 4 * GIB
    events.append({"action": "segment_alloc", "addr": address, "size": size, "stream": 0, "frames": []})
    for layer in range(16):
        for name, line, mib in parts:
            frames = [{"filename": "model.py", "line": line, "name": name},
                      {"filename": "train.py", "line": 12 + layer, "name": f"layer_{layer}"},
                      {"filename": "train.py", "line": main_line, "name": "<module>"}]
            live.append({"addr": address, "size": mib * MIB, "stream": 0, "frames": frames})
            address += mib * MIB
    events += [{"action": "alloc", **block} for block in live]
    for block in reversed(live):
        events += [{"action": action, **block} for action in ("free_requested", "free_completed")]
    start = events[0]["addr"]
    segment = {"device": 0, "address": start, "total_size": size, "allocated_size": 0, "active_size": 0,
               "requested_size": 0, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
               "is_expandable": False, "frames": [],
               "blocks": [{"address": start, "size": size, "requested_size": 0, "state": "inactive",
                           "frames": []}]}
    return pickle.dumps({"segments": [segment], "device_traces": [events]})


def make_files(folder):
    """The files that the commands name. The changed script has a line more, and its attention takes 1 MiB
    more in each layer, 16 MiB in all."""
    texts = {"error.txt": ERROR, "chinese.txt": CHINESE, "train.py": FAILING, "serve.py": WAITING,
             "steps.log": step_log()}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "main.pickle").write_bytes(recording(224, 12))
    (folder / "changed.pickle").write_bytes(recording(225, 13))
    shutil.copy(RECORDINGS / "train_eval_phases.native.pickle.xz", folder / "run.pickle")


# ---- walking ---------------------------------------------------------------------------------------

def environment_for(program, folder, fake_nvml):
    hidden = ("NO_COLOR", "COLUMNS", "LANG", "TERM", "CUDA_VISIBLE_DEVICES")
    result = {name: value for name, value in os.environ.items() if name not in hidden and
              not name.startswith(("LC_", "VRAMWISE", "PYTHON", "FAKE_", "RANK", "LOCAL_RANK", "SLURM"))}
    for name in ("runtime", "pages"):
        (folder / name).mkdir(exist_ok=True)
    result.update(LC_ALL="C.UTF-8", PATH=f"{program.parent}:{result['PATH']}", TMPDIR=str(folder),
                  XDG_RUNTIME_DIR=str(folder / "runtime"), VRAMWISE_LIVE_DIR=str(folder / "pages"),
                  VRAMWISE_RUN_REPORT_SECONDS="600", PYTHONDONTWRITEBYTECODE="1",
                  PYTHONNODEBUGRANGES="1",  # or a traceback has as many lines as Python likes
                  PYTHONPATH=str(ROOT / "tests/support/fake_torch_watch"),
                  FAKE_TORCH_LOG=str(folder / "torch.log"),
                  FAKE_TORCH_SNAPSHOT=str(RECORDINGS / "doctor/oom_genuine.pickle.xz"),
                  VRAMWISE_NVML=str(fake_nvml), VRAMWISE_AMD_SMI="/nowhere/libamd_smi.so",
                  FAKE_CUDA_DEVICE_COUNT="1", FAKE_NVML_NAME="NVIDIA H100",
                  FAKE_NVML_TOTAL=str(80 * GIB))
    return result


@contextlib.contextmanager
def running_job(folder, environment):
    """A job that was started without vramwise, and holds 60 GiB of GPU 0."""
    job = subprocess.Popen([shutil.which("python3"), "serve.py"], cwd=folder, env=environment, text=True,
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        job.stdout.readline()
        environment["FAKE_NVML_LIST"] = f"0:{job.pid}:{60 * GIB}"
        yield str(job.pid)
    finally:
        job.communicate()


def read_until(printed, wanted):
    """How many lines are read until the one that is wanted, and what stands there; all lines if none is."""
    lines = printed.splitlines()
    for count, line in enumerate(lines, start=1):
        found = re.search(wanted, line) if wanted is not None else None
        if found is not None:
            return Read(count, found.group())
    return Read(len(lines), None)


def take_walk(steps, folder, environment, process):
    taken = []
    for step in steps:
        printed = subprocess.run(step.typed.replace("{process}", process), shell=True, cwd=folder,
                                 env=environment, check=False, encoding="utf-8", stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 timeout=LIMIT_SECONDS).stdout
        wanted = step.wanted.replace("{process}", process) if step.wanted is not None else None
        read = read_until(printed, wanted)
        found = read.found.replace(process, SHOWN_PROCESS) if read.found is not None else None
        taken.append(Read(read.lines, found))
    return taken


def take_walks(program, fake_nvml, which):
    """For each walk, what each of its steps came to."""
    with tempfile.TemporaryDirectory(prefix="walks-") as name:
        folder = pathlib.Path(name)
        make_files(folder)
        environment = environment_for(program, folder, fake_nvml)
        with running_job(folder, environment) as process:
            return [take_walk(getattr(walk, which), folder, environment, process) for walk in WALKS]


# ---- the page --------------------------------------------------------------------------------------

def figures_of(reads):
    lines = sum(read.lines for read in reads)
    return len(reads), str(lines) if reads[-1].found is not None else f"{lines}, no answer"


def transcript_of(title, steps, reads):
    lines = [f"{title}:"]
    for step, read in zip(steps, reads):
        lines.append(f"$ {step.typed.replace('{process}', SHOWN_PROCESS)}")
        lines.append(f"  line {read.lines}: {read.found}" if read.found is not None else
                     f"  {read.lines} line{'s' if read.lines != 1 else ''}, and not there")
    return lines


def render(before, after):
    lines = ["| walk | typed before | lines before | typed now | lines now |", "|---|---|---|---|---|"]
    for walk, old, new in zip(WALKS, before, after):
        cells = [walk.name, *figures_of(old), *figures_of(new)]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    for walk, old, new in zip(WALKS, before, after):
        lines += ["", f"### {walk.name}", "", "```", *transcript_of("before", walk.before, old),
                  *transcript_of("now", walk.after, new), "```"]
    return "\n".join(lines) + "\n"


def check(after):
    """The faults of the page, and of the walks: one that does not arrive."""
    before = [[Read(*read) for read in reads] for reads in json.loads(BEFORE.read_text(encoding="utf-8"))]
    faults = [f"{walk.name}: no answer by '{step.typed}'"
              for walk, reads in zip(WALKS, after) for step, read in zip(walk.after, reads)
              if read.found is None]
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    shown, wanted = rest.partition(END)[0].splitlines(), render(before, after).splitlines()
    faults += [f"the page has {a!r}, the program {b!r}" for a, b in zip(shown, wanted) if a != b]
    if len(shown) != len(wanted):
        faults.append(f"the page has {len(shown)} lines of figures, the program makes {len(wanted)}")
    return faults


def renew(after):
    before = [[Read(*read) for read in reads] for reads in json.loads(BEFORE.read_text(encoding="utf-8"))]
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(head + BEGIN + render(before, after) + END + rest.partition(END)[2], encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("fake_nvml", type=pathlib.Path)
    parser.add_argument("--before", type=pathlib.Path)
    parser.add_argument("--renew", action="store_true")
    options = parser.parse_args()
    if options.before is not None:
        before = take_walks(options.before.resolve(), options.fake_nvml.resolve(), "before")
        BEFORE.write_text("[\n" + ",\n".join("  " + json.dumps(reads, ensure_ascii=False) for reads in before) +
                          "\n]\n", encoding="utf-8")
    after = take_walks(options.program.resolve(), options.fake_nvml.resolve(), "after")
    if options.renew:
        renew(after)
    faults = check(after)
    for fault in faults:
        print(fault)
    print(f"walks: {len(WALKS)}, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
