#!/usr/bin/env python3
"""never_dies.py PROGRAM [--jobs N] [--only WORD] [--output FILE] - a job never dies because of us.

On a machine with a GPU and PyTorch. A small training runs plainly, and then once for each thing that can go wrong
with the watcher, the page, the adapter or the launch gate: libraries that are missing or damaged, shared memory that
is full, no compiler, wrong versions, a closed standard error, a fork in the middle, a watcher that is killed. Each
time its losses and its exit status must be those of the plain run, bit by bit. The table goes to FILE, for
bench/results/never_dies_h200.txt. Exit status 0: all the same; 1: some differ; 3: the plain run does not work.

PROGRAM is build/vramwise, or one that tests/gpu/torch/on_gpu.sh has built; VRAMWISE_LIBRARY_DIR names the folder with
libvramwise.so and libvramwise-torch.so.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
LIMIT_SECONDS = 80
EXIT_STATUS = 7  # of the job: neither success nor what an exception gives

JOB = """
import json, os, sys
losses = []
import torch
torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
device = torch.device("cuda")
model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
event = os.environ.get("JOB_EVENT", "")
for step in range(30):
    x = torch.randn(64 + 32 * (step % 3), 256, device=device)
    loss = torch.nn.functional.mse_loss(model(x), x)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item().hex())
    if step == 10 and event == "fork":
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    if step == 10 and event == "kill-watcher":
        os.kill(os.getppid(), 9)
    if step == 10 and event == "remove-folder":
        import shutil
        shutil.rmtree(os.environ["VRAMWISE_RUN"], ignore_errors=True)
    if step == 10 and event == "out-of-memory":
        try:
            torch.empty(1 << 50, dtype=torch.uint8, device=device)
        except torch.OutOfMemoryError:
            pass
with open(os.environ["JOB_RESULT"], "w") as file:
    json.dump(losses, file)
sys.exit(int(os.environ["JOB_STATUS"]))
"""


class Case:
    """One run: options of `vramwise run` (None: a plain run), variables, and what happens."""

    def __init__(self, name, options=None, event="", closes_stderr=False, prepare=None, is_killed=False, **variables):
        self.name, self.options, self.event = name, options, event
        self.closes_stderr, self.prepare, self.is_killed = closes_stderr, prepare, is_killed
        self.variables = variables


def full_folder(here: pathlib.Path) -> dict:
    """A file system without room, where that can be had; else a folder that is not there."""
    place = here / "full"
    place.mkdir()
    if os.geteuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", place], capture_output=True,
                                            check=False).returncode == 0:
        (place / "all").write_bytes(b"x" * 4096)
        return {"VRAMWISE_LIVE_DIR": str(place)}
    return {"VRAMWISE_LIVE_DIR": str(here / "nowhere")}


def damaged_libraries(here: pathlib.Path) -> dict:
    place = here / "libraries"
    place.mkdir()
    for name in ("libvramwise.so", "libvramwise-torch.so", "libvramwise-analysis.so"):
        (place / name).write_bytes(b"\x7fELF" + b"\0" * 200)
    return {"VRAMWISE_LIBRARY_DIR": str(place)}


def no_compiler(here: pathlib.Path) -> dict:
    """Python is found, and nothing else; the cache is empty."""
    place = here / "bin"
    place.mkdir()
    (place / "python3").symlink_to(sys.executable)
    return {"PATH": str(place), "XDG_CACHE_HOME": str(here / "cache"), "CXX": "", "CC": ""}


def broken_compiler(here: pathlib.Path) -> dict:
    fails = here / "c++"
    fails.write_text("#!/bin/sh\necho 'error: made up' >&2\nexit 1\n")
    fails.chmod(0o755)
    return {"CXX": str(fails), "XDG_CACHE_HOME": str(here / "cache")}


def unwritable_cache(here: pathlib.Path) -> dict:
    (here / "cache").write_text("no folder")
    return {"XDG_CACHE_HOME": str(here / "cache")}


def wrong_package(here: pathlib.Path) -> dict:
    """An older vramwise, without most of its files, before ours on the path."""
    place = here / "old" / "vramwise"
    place.mkdir(parents=True)
    (place / "__init__.py").write_text("__version__ = '0.0.1'\n")
    return {"PYTHONPATH": os.pathsep.join((str(here / "old"), os.environ["PYTHONPATH"]))}


NOWHERE = "/nonexistent/library.so"
PLAIN = Case("plain")
CASES = (
    Case("watched, nothing wrong", []),
    Case("allocator torch, nothing wrong", ["--allocator", "torch"]),
    Case("allocator vramwise, nothing wrong", ["--allocator", "vramwise"]),
    Case("libraries missing", ["--allocator", "vramwise"], VRAMWISE_LIBRARY_DIR="/nonexistent"),
    Case("libraries damaged", ["--allocator", "vramwise"], prepare=damaged_libraries),
    Case("CUPTI missing", ["--allocator", "vramwise:rescue"], VRAMWISE_CUPTI=NOWHERE),
    Case("NVML missing", [], VRAMWISE_NVML=NOWHERE),
    Case("shared memory full", [], prepare=full_folder),
    Case("no compiler", ["--allocator", "vramwise"], prepare=no_compiler),
    Case("a compiler that fails", ["--allocator", "vramwise"], prepare=broken_compiler),
    Case("a cache that is none", ["--allocator", "vramwise"], prepare=unwritable_cache),
    Case("another vramwise on the path", [], prepare=wrong_package),
    Case("settings nobody knows", ["--allocator", "vramwise"], PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"),
    Case("standard error closed", [], closes_stderr=True),
    Case("temporary folders missing", [], TMPDIR="/nonexistent", XDG_RUNTIME_DIR="/nonexistent"),
    Case("a fork in the middle", [], event="fork"),
    Case("a fork in the middle, allocator vramwise", ["--allocator", "vramwise"], event="fork"),
    Case("the run's folder removed", [], event="remove-folder"),
    Case("the watcher killed", [], event="kill-watcher", is_killed=True),
    Case("out of memory, and caught", [], event="out-of-memory"),
    Case("out of memory, caught, allocator vramwise:rescue", ["--allocator", "vramwise:rescue"], event="out-of-memory"),
)


def run(case: Case, program: str, folder: pathlib.Path) -> dict:
    here = pathlib.Path(tempfile.mkdtemp(dir=folder))
    (here / "job.py").write_text(JOB)
    result = here / "result.json"
    environment = {**os.environ, "JOB_RESULT": str(result), "JOB_STATUS": str(EXIT_STATUS), "JOB_EVENT": case.event,
                   "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "VRAMWISE_LIVE_DIR": str(here), **case.variables}
    if case.prepare is not None:
        environment.update(case.prepare(here))
    command = [sys.executable, "job.py"]
    if case.options is not None:
        command = [program, "run", *case.options, "--", *command]
    if case.closes_stderr:
        command = ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", *command]
    began = time.monotonic()
    process = subprocess.Popen(command, cwd=here, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True)
    try:
        said, _ = process.communicate(timeout=LIMIT_SECONDS)
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, status = process.communicate()[0], "hung"
    if case.is_killed and status == -signal.SIGKILL:  # the watcher; the job ends by itself
        status = EXIT_STATUS if wait_for(result) else "the job ended with its watcher"
    subprocess.run(["umount", here / "full"], capture_output=True, check=False)
    try:
        losses = json.loads(result.read_text())
    except (OSError, ValueError):
        losses = None
    return {"status": status, "losses": losses, "seconds": time.monotonic() - began, "said": said.decode(errors="replace")}


def wait_for(result: pathlib.Path) -> bool:
    """Whether the file is complete within the time."""
    for _ in range(LIMIT_SECONDS * 10):
        try:
            json.loads(result.read_text())
            return True
        except (OSError, ValueError):
            time.sleep(0.1)
    return False


def difference(found: dict, plain: dict) -> str:
    if found["status"] != plain["status"]:
        return f"exit status {found['status']}, not {plain['status']}"
    if found["losses"] is None:
        return "no losses"
    if found["losses"] != plain["losses"]:
        step = next(i for i, (one, other) in enumerate(zip(found["losses"], plain["losses"])) if one != other)
        return f"another loss from step {step} on"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--jobs", type=int, default=6, help="runs at a time")
    parser.add_argument("--only", default="", help="cases with this word")
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    program = str(pathlib.Path(options.program).resolve())
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT / "python"), os.environ.get("PYTHONPATH"))))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="never-dies-"))
    lines, differing = [], 0
    try:
        plain = run(PLAIN, program, folder)
        if plain["status"] != EXIT_STATUS or not plain["losses"]:
            print(f"the plain run ended with {plain['status']}:\n{plain['said'][-2000:]}", file=sys.stderr)
            return 3
        cases = [case for case in CASES if options.only in case.name]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for case, found in zip(cases, pool.map(lambda case: run(case, program, folder), cases)):
                what = difference(found, plain)
                differing += what != ""
                last = next((line for line in reversed(found["said"].splitlines()) if line.startswith("vramwise")), "")
                lines.append(f"{'DIFFERS' if what else 'same':8} {case.name:52} {found['seconds']:5.1f} s  {what or last[:100]}")
                print(lines[-1], flush=True)
                if what:
                    print(found["said"][-1500:], file=sys.stderr)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    summary = f"{len(lines)} cases, {differing} differ; {len(plain['losses'])} losses and the exit status of each against a plain run"
    print(summary)
    if options.output is not None:
        options.output.write_text("\n".join(["# tests/gpu/torch/never_dies.py: what goes wrong, and whether the job notices.", *lines, summary, ""]))
    return int(differing != 0)


if __name__ == "__main__":
    sys.exit(main())
