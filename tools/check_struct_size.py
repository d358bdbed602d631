#!/usr/bin/env python3
"""check_struct_size.py - old callers go on working, as version.h promises.

Every public struct that begins with struct_size must have a case in tests/unit/test_struct_size.c,
CUT(type, field, ...), where `field` is its first one behind struct_size. And nothing in src but
base/struct_size.h may look at a struct_size: it copies, fills or refuses there.
"""
import pathlib
import re
import sys

COMMENT = re.compile(r"/\*.*?\*/", re.S)
STRUCT = re.compile(r"typedef struct (\w+) \{\s*size_t struct_size;\s*(.*?)\}\s*\1;", re.S)
CUT = re.compile(r"\bCUT\(\s*(\w+),\s*(\w+)")
SETTING = re.compile(r"\.struct_size = sizeof\b")
READING = re.compile(r"(?:->|\.)\s*struct_size\b")
HELPER = "src/base/struct_size.h"


def first_field(body):
    """The name of the first field of a struct's body; a list of fields gives its first entry."""
    declaration = body.split(";")[0]
    if declaration.lstrip().startswith("#define"):
        return None  # the fields are made by a list: any field will do
    function = re.match(r"[^(]*\(\*(\w+)\)", declaration)
    if function:
        return function.group(1)
    return re.search(r"(\w+)\s*(?:\[[^\]]*\])?\s*$", declaration.split(",")[0]).group(1)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    faults = []
    structs = {}
    for path in sorted((root / "include/vramwise").glob("*.h")):
        text = COMMENT.sub(" ", path.read_text(encoding="utf-8"))
        for name, body in STRUCT.findall(text):
            structs[name] = first_field(body)
        if len(STRUCT.findall(text)) != len(re.findall(r"\bsize_t struct_size;", text)):
            faults.append(f"{path.name}: a struct_size that is not the first field of a typedef")
    test = root / "tests/unit/test_struct_size.c"
    cases = set(CUT.findall(COMMENT.sub(" ", test.read_text(encoding="utf-8"))))
    tested = {name for name, _ in cases}
    for name, field in sorted(structs.items()):
        if name not in tested:
            faults.append(f"{name}: no CUT({name}, {field or '...'}) in {test.name}")
        elif field is not None and (name, field) not in cases:
            faults.append(f"{name}: {test.name} does not cut it behind {field}")

    for path in sorted((root / "src").rglob("*.[ch]")):
        source = path.relative_to(root).as_posix()
        if source == HELPER:
            continue
        text = COMMENT.sub(lambda match: "\n" * match.group().count("\n"),
                           path.read_text(encoding="utf-8"))
        for number, line in enumerate(text.splitlines(), 1):
            if READING.search(SETTING.sub("", line)):
                faults.append(f"{source}:{number}: struct_size is for {HELPER} to read")

    for fault in faults:
        print(fault)
    if not structs:
        faults.append("no structs found")
    print(f"struct_size: {len(structs)} structs, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
