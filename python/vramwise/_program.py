"""_program.py - what the program is called."""
import os
import re
import sys


def program_name() -> str:
    """What the program is called, in letters that any file name can have."""
    argument = sys.argv[0] if getattr(sys, "argv", None) else ""
    folder, name = os.path.split(argument)
    if name in ("", "-", "-c", "-m"):
        return "python"
    if name == "__main__.py":
        name = os.path.basename(os.path.abspath(folder))
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", name[:-3] if name.endswith(".py") else name)
    return name.strip("-.")[:60] or "python"
