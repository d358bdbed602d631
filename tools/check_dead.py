#!/usr/bin/env python3
"""check_dead.py [BUILD_FOLDER] [--list] - finds internal code that the product does not use.

Reads the symbols of the object files of libraries and program, and reports

  - an external function or variable that no other object needs and that its own file does not use;
  - one that only its own file uses and no test calls: it should be static;
  - an inline function of a header that nothing uses;
  - a header that no source of the product includes.

Public functions (vw_, vramwise_) are exempt. --list also shows what is external for tests alone.
"""
import pathlib
import re
import subprocess
import sys

# Names that look unused -> why they are there.
EXEMPT = {
    "vw__census_set_system": "tests let questions about threads fail",
    "vw__clock_replace": "tests set the time",
    "vw__host_memory_fail_at": "tests let the n-th allocation fail",
    "vw__host_memory_get_use": "tests count allocations and leaks",
    "vw__launch_gate_set_bounds": "tests shorten the time that a launch is held",
    "vw__plan_model_open_memory": "the fuzzer of config files has no file",
    "vw__traced_open_memory": "the fuzzer of traces has no file",
    "vw__replay_play_count": "tests count how often a recording is replayed",
    "vw__setting_rows": "tests go through the table",
    "vw__nvml_driver_version": "the programs of tests/gpu print it",
    "vw__view_page_begin": "defined by the assembler, in view_page.c",
    "vw__view_page_end": "defined by the assembler, in view_page.c",
}

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
WORD = re.compile(r"[A-Za-z_]\w*")
INLINE = re.compile(r"^static inline [^;{]*?(\w+)\(", re.M)
PUBLIC = re.compile(r"(vw_(?!_)|vramwise_)")


def words_of(path):
    """How often each identifier occurs in a file, comments aside."""
    counts = {}
    for word in WORD.findall(COMMENT.sub(" ", path.read_text(encoding="utf-8"))):
        counts[word] = counts.get(word, 0) + 1
    return counts


def symbols_of(root, build):
    """source -> (symbols it defines, symbols it needs), for every object of the product."""
    objects = {}
    for folder in sorted((build / "CMakeFiles").glob("vramwise_*objects.dir")):
        for path in folder.rglob("*.o"):
            source = path.relative_to(folder).as_posix()[:-2]
            if (root / source).is_file():  # an object may outlive its source
                objects[path.resolve().as_posix()] = source
    lines = subprocess.run(["nm", "-g", "-A", *objects], check=True, capture_output=True,
                           text=True).stdout.splitlines() if objects else []
    symbols = {source: (set(), set()) for source in objects.values()}
    for line in lines:
        name, rest = line.split(":", 1)
        kind, symbol = rest.split()[-2:]
        symbols[objects[name]][kind in "Uwv"].add(symbol)
    return symbols


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    arguments = [argument for argument in sys.argv[1:] if argument != "--list"]
    symbols = symbols_of(root, root / (arguments[0] if arguments else "build"))
    if not symbols:
        print("dead: no objects; build first")
        return 1
    tested = set()
    for top in ("tests", "bench", "adapters"):
        for path in (root / top).rglob("*"):
            if path.suffix in (".c", ".h", ".cpp"):
                tested.update(words_of(path))
    needed = set().union(*(needs for _, needs in symbols.values()))

    faults, seams = [], []
    for source, (defined, _) in sorted(symbols.items()):
        words = words_of(root / source)
        for symbol in sorted(defined - needed):
            if PUBLIC.match(symbol) or symbol == "main" or symbol in EXEMPT:
                continue
            is_tested = symbol in tested
            if words.get(symbol, 0) < 2:
                faults.append((source, symbol, "only tests use it" if is_tested else "unused"))
            elif not is_tested:
                faults.append((source, symbol, "only its own file uses it: make it static"))
            else:
                seams.append((source, symbol, "its own file and tests use it"))

    headers = sorted(path for top in ("src", "cli") for path in (root / top).rglob("*.h"))
    uses = {}
    for path in headers + [root / source for source in symbols]:
        for word, count in words_of(path).items():
            uses[word] = uses.get(word, 0) + count
    for path in headers:
        for symbol in INLINE.findall(path.read_text(encoding="utf-8")):
            if uses[symbol] < 2 and symbol not in EXEMPT:
                faults.append((path.relative_to(root).as_posix(), symbol,
                               "only tests use it" if symbol in tested else "unused"))

    included = set()
    for path in headers + [root / source for source in symbols]:
        included.update(re.findall(r'#\s*include\s+"([^"]+)"', path.read_text(encoding="utf-8")))
    for path in headers:
        name = path.relative_to(root).as_posix()
        if not any(name.endswith("/" + other) for other in included):
            faults.append((name, path.name, "no source includes it"))

    for source, symbol, why in faults + (seams if "--list" in sys.argv else []):
        print(f"{source}: {symbol}: {why}")
    print(f"dead: {len(symbols)} objects, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
