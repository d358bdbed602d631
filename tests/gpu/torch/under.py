"""under.py - enters an allocator by name; what every script of this folder does first.

    import under
    torch = under.enter("vramwise:rescue")

A name is one of `vramwise run --allocator` (pytorch, torch, vramwise, vramwise:rescue,
vramwise:tight), or `native`, `expandable` and `cudaMallocAsync`, which are PyTorch's own with that
setting. `NAME+SETTINGS` adds settings of PYTORCH_CUDA_ALLOC_CONF: `torch+expandable_segments:True`.

The settings are read when torch is loaded, so this must be imported before torch. The name is kept
in the environment: a process that is started later enters the same one with under.enter_again().
"""
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, List, Optional, Tuple

ROOT = Path(__file__).resolve().parents[3]
KEPT_IN = "VRAMWISE_TEST_ALLOCATOR"
SETTINGS = {"native": "", "expandable": "expandable_segments:True",
            "cudaMallocAsync": "backend:cudaMallocAsync"}
MIB = 1 << 20
GIB = 1 << 30


def split(name: str) -> Tuple[str, str]:
    """"torch+max_split_size_mb:40" -> ("torch", "max_split_size_mb:40")."""
    allocator, _, settings = name.partition("+")
    if allocator in SETTINGS:
        settings = ",".join(part for part in (SETTINGS[allocator], settings) if part)
        allocator = "pytorch"
    return allocator, settings


def environment(name: str, base: Optional[Dict[str, str]] = None) -> Dict[str, str]:
    """What a process must have in its environment to enter `name`."""
    result = dict(os.environ if base is None else base)
    _, settings = split(name)
    result[KEPT_IN] = name
    result.pop("PYTORCH_ALLOC_CONF", None)
    if settings:
        result["PYTORCH_CUDA_ALLOC_CONF"] = settings
    else:
        result.pop("PYTORCH_CUDA_ALLOC_CONF", None)
    paths = [str(ROOT / "python")] + [p for p in result.get("PYTHONPATH", "").split(":") if p]
    result["PYTHONPATH"] = ":".join(dict.fromkeys(paths))
    return result


def enter(name: str):
    """Loads torch with the allocator in place, and returns torch."""
    if "torch" in sys.modules and KEPT_IN not in os.environ:
        raise RuntimeError("under.enter() must come before torch is imported")
    os.environ.update(environment(name))
    if not split(name)[1]:
        os.environ.pop("PYTORCH_CUDA_ALLOC_CONF", None)
    if str(ROOT / "python") not in sys.path:
        sys.path.insert(0, str(ROOT / "python"))
    import torch

    install(name)
    return torch


def enter_again():
    """In a started process: the allocator its parent entered."""
    return enter(os.environ.get(KEPT_IN, "pytorch"))


def install(name: str) -> None:
    """Installs the replacement in a process in which torch is loaded."""
    allocator, _ = split(name)
    if allocator == "pytorch" or getattr(install, "done", None) == allocator:
        return
    import vramwise.torch

    # Where the allocator cannot be had, PyTorch's own must not answer in its place.
    found = vramwise.torch.install(allocator, fallback="error")
    if found.door != "adapter":
        raise RuntimeError(f"expected {allocator} via the adapter, and this is {found}")
    install.done = allocator


def stats() -> dict:
    """vramwise.torch.stats(), or nothing where there is none."""
    if split(os.environ.get(KEPT_IN, "pytorch"))[0] == "pytorch":
        return {}
    import vramwise.torch

    try:
        return vramwise.torch.stats() or {}
    except Exception as error:  # noqa: BLE001: what was measured must not be lost for it
        return {"error": str(error)}


def run(command: List[str], name: str, timeout_s: float,
        extra: Optional[Dict[str, str]] = None) -> Tuple[int, str, float]:
    """Runs a command under an allocator: its status (124: too slow), its output, its seconds."""
    begin = time.perf_counter()
    variables = environment(name)
    variables["PYTHONUNBUFFERED"] = "1"
    variables.update(extra or {})
    child = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, errors="replace",
                             start_new_session=True)
    try:
        output, _ = child.communicate(timeout=timeout_s)
        status = child.returncode
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, 9)
        output, _ = child.communicate()
        status = 124
    return status, output, time.perf_counter() - begin


def table(headings: List[str], rows: List[List[str]]) -> str:
    """A table in markdown, with columns of equal width."""
    widths = [max(len(row[i]) for row in [headings] + rows) for i in range(len(headings))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths)) + " |"
             for row in [headings] + rows]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines)
