"""_say.py - the lines we write to somebody's standard error: each begins with `vramwise: ` and stands
alone. A standard error that is closed or full is no reason to fail."""
from __future__ import annotations

import sys


def say(line: str, *, quiet: bool = False) -> None:
    """One line, unless quiet."""
    if quiet or sys.stderr is None:
        return
    try:
        sys.stderr.write(f"vramwise: {line}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass
