#!/usr/bin/env python3
"""check_layers.py - an #include points only downwards.

Holds every #include "..." of ours against the table below, which is the architecture in a form a
machine can read: who may include whom. A header named *_parts.h or *_internal.h belongs to the
files of its own folder. Prints each line that breaks a rule and exits with 1.
"""
import pathlib
import re
import sys

# folder -> the folders whose headers it may include, besides its own and the public ones
LAYERS = {
    "src/base": [],
    "src/device": ["src/base"],
    "src/engine": ["src/base", "src/device"],
    "src/live": ["src/base"],
    "src/pool": ["src/base", "src/device", "src/engine", "src/live"],
    "src/model": ["src/base"],
    "src/export": ["src/base", "src/model"],
    "src/record": ["src/base", "src/pool", "src/model", "src/export"],
    "src/parse": ["src/base", "src/model"],
    "src/analysis": ["src/base", "src/device", "src/engine", "src/pool", "src/model",
                     "src/parse", "src/export"],
    "src/trend": ["src/base"],
    "src/settings": ["src/base", "src/model", "src/analysis"],
    "src/remedy": ["src/base", "src/analysis"],
    "src/plan": ["src/base", "src/model", "src/parse", "src/analysis", "src/export",
                 "src/settings", "src/remedy"],
    "src/doctor": ["src/base", "src/engine", "src/model", "src/parse", "src/analysis",
                   "src/settings", "src/remedy", "src/plan", "src/trend"],
    "src/watch": ["src/base", "src/device", "src/live", "src/trend", "src/doctor"],
    "src/ranks": ["src/base", "src/model", "src/parse", "src/analysis", "src/doctor"],
    "src/fleet": ["src/base", "src/parse", "src/analysis", "src/settings", "src/ranks"],
    "src/check": ["src/base", "src/model", "src/parse", "src/export", "src/analysis", "src/doctor"],
    "src/mcp": ["src/base", "src/parse", "src/export"],
    "src/report": ["src/base", "src/model", "src/analysis", "src/doctor", "src/plan", "src/ranks",
                   "src/watch", "src/fleet",
                   "src/export"],
    "src/view": ["src/base", "src/model", "src/parse", "src/export", "src/analysis", "src/trend",
                 "src/settings", "src/doctor", "src/ranks", "src/report"],
    "include/vramwise": [],
    "cli": [],
    "adapters": [],
    "examples": [],
}
# Tests and benchmarks may look everywhere.
EVERYWHERE = list(LAYERS) + ["tests"]
OBSERVERS = ("tests", "bench")
for observer in OBSERVERS:
    LAYERS[observer] = EVERYWHERE

# Projects of somebody else's, kept here to be built against what was installed.
OUTSIDERS = ("tests/install/",)

# Headers that only their own folder may include. Tests and benchmarks may, too.
INNER = ("_parts.h", "_internal.h")

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def layer_of(path):
    """The row of the table that a file belongs to, or None."""
    for layer in sorted(LAYERS, key=len, reverse=True):
        if path.startswith(layer + "/"):
            return layer
    return None


def resolve(root, including, name):
    """The file that `name` means in `including`, relative to the root, or None."""
    folders = [root / "include", root / "src", (root / including).parent]
    if including.startswith(("tests/", "bench/")):
        folders += [root / "tests", root, root / "adapters/torch/support"]
    for folder in folders:
        candidate = folder / name
        if candidate.is_file():
            return candidate.resolve().relative_to(root).as_posix()
    return None


def faults_of(root, path):
    """Yields (line number, what is wrong) for each include of one file."""
    own = layer_of(path)
    if own is None:
        yield 0, "its folder is not in the table of layers"
        return
    for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if match is None:
            continue
        quote, name = match.groups()
        target = resolve(root, path, name)
        if quote == "<" and target is None:
            continue  # the system's
        if target is None:
            yield number, f'"{name}" is no header of ours'
            continue
        if name.endswith(".c"):
            yield number, f'"{name}" is a source, not a header'
            continue
        layer = layer_of(target)
        if layer not in (own, "include/vramwise") and layer not in LAYERS[own]:
            yield number, f'"{name}": {own} may not include {layer}'
        elif (target.endswith(INNER) and own not in OBSERVERS
              and pathlib.PurePath(target).parent != pathlib.PurePath(path).parent):
            yield number, (f'"{name}" is for {pathlib.PurePath(target).parent} only, '
                           f'{pathlib.PurePath(path).parent} may not include it')
        elif path.startswith("src/") and target != "src/" + name and layer != "include/vramwise":
            yield number, f'"{name}": write it from the root of src, "{target[4:]}"'


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    sources = sorted(path.relative_to(root).as_posix()
                     for top in ("include", "src", "cli", "adapters", "examples", "tests", "bench")
                     for path in (root / top).rglob("*") if path.suffix in (".c", ".h", ".cpp"))
    sources = [path for path in sources if not path.startswith(OUTSIDERS)]
    fault_count = 0
    for path in sources:
        for number, fault in faults_of(root, path):
            print(f"{path}:{number}: {fault}")
            fault_count += 1
    if not sources:
        print(f"{root}: no sources found")
        return 1
    print(f"layers: {len(sources)} files, {fault_count} faults")
    return 1 if fault_count else 0


if __name__ == "__main__":
    sys.exit(main())
