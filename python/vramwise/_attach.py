"""_attach.py - runs inside a process that `vramwise doctor --attach` has entered.

Python 3.14's sys.remote_exec() has the process run it, with `folder` as a global: a private folder, in
which it writes PyTorch's snapshot and then a file `answer`, empty or with the reason why there is none.
It starts nothing in the process, changes nothing in it, and raises nothing.
"""
import os
import pickle
import sys
from typing import Any


def _write_snapshot(path: str) -> str:
    """Returns "" or why there is nothing to write."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return "it has not imported torch"
    if not torch.cuda.is_initialized():
        return "it has not used a GPU through PyTorch"
    snapshot = torch.cuda.memory._snapshot()
    with open(path, "xb") as file:
        pickle.dump(snapshot, file, protocol=4)
    return ""


def answer(folder: str) -> None:
    """Writes the snapshot, then the answer, which appears when it is complete."""
    try:
        try:
            text = _write_snapshot(os.path.join(folder, "snapshot.pickle"))
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
        part = os.path.join(folder, "answer.part")
        with open(part, "x", encoding="utf-8", errors="replace") as file:
            file.write(text)
        os.replace(part, os.path.join(folder, "answer"))
    except OSError:
        pass  # the asker has gone, and its folder with it


if "folder" in globals():
    answer(globals()["folder"])
