#!/usr/bin/env python3
"""check_names.py [--list FOLDER] - names that say where they belong.

Over src and cli:

  - A type (tag or typedef), an enumerator or an external function is defined once in the tree. Plain
    names inside a .c file (no vw__ in front) may repeat: nobody else sees them.
  - In src, what other files can see (external functions and variables; types, enumerators, macros and
    inline functions of headers) is called vw__<module>_... or VW__<MODULE>_..., where the module is
    the folder, a file of the folder, or in the table below. A module is used by one folder.

Macros of a header called <what>_rows.h are the words that tables are written in, and may be plain: only
.c files of its own folder include it.

Functions may be defined again under another #if, or in a <what>_missing.c that takes the place of what
a missing library would give.

--list shows the names of one folder that break the second rule, for the table or for a rename.
"""
import collections
import pathlib
import re
import sys

# folder -> modules that are neither the folder nor one of its files
MODULES = {
    "src/analysis": ["category", "lifetime", "limit", "notes", "policy", "portion", "role"],
    "src/base": ["append", "fail", "try", "assert", "struct", "host", "mutex", "lock", "tree", "fork",
                 "string", "file", "human",
                 # arithmetic: vw__add_u64, vw__align_up_u64, vw__is_power_of_two_u64 ...
                 "add", "sub", "mul", "min", "max", "align", "ceil", "floor", "is_power_of_two",
                 "narrow"],
    "src/device": ["amd_smi", "books", "cuda", "hip", "library", "monitor", "nvml", "simulated", "stand_in", "streams"],
    "src/engine": ["counter", "driver", "lane", "lender", "private", "scope", "segment", "spill"],
    "src/export": ["json"],
    "src/parse": ["snapshot", "unpickle", "value", "zlib"],
    "src/live": ["page"],
    "src/plan": ["config", "dtype", "node", "shard", "storage", "tensor"],
    "src/pool": ["pinned", "stock"],
    "src/record": ["capture"],
    "src/settings": ["setting"],
}

NOT_OURS = {"ZLIB_CONST"}  # that a library's headers look at

NOISE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.M)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
TAG = re.compile(r"\b(?:struct|union|enum)\s+(\w+)\s*\{")
ENUM = re.compile(r"\benum\b[^{};()=]*\{([^{}]*)\}")
ENUMERATOR = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:=.*)?\s*", re.S)
LIST_USE = re.compile(r"(\w+)\(\s*(\w+)\s*\)")
FORWARD = re.compile(r"typedef\s+(?:struct|union|enum)\s+(\w+)\s+\1\s*$")
ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)")
INTERNAL = re.compile(r"vw__|VW__")
PUBLIC = re.compile(r"(?:vw|VW)_(?!_)")

Definition = collections.namedtuple("Definition", "kind name line is_static")


def statements(text):
    """Yields (line, head, body) for each declaration at the outermost level; body is None or what
    stands in its first braces."""
    depth, start, open_at, body = 0, 0, 0, None
    for i, character in enumerate(text):
        if character == "{":
            if depth == 0:
                open_at = i
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0 and body is None:
                body = (open_at, i)
            if depth == 0 and is_function(text[start:open_at]):
                yield start, text[start:open_at], text[open_at:i + 1]
                start, body = i + 1, None
        elif character == ";" and depth == 0:
            if body is None:
                yield start, text[start:i], None
            else:
                head = text[start:body[0]] + "{}" + text[body[1] + 1:i]
                yield start, head, text[body[0]:body[1] + 1]
            start, body = i + 1, None


def is_function(head):
    return "(" in head and "=" not in head and not re.match(r"\s*typedef\b", head)


def declared_name(declaration):
    """The name that a typedef, or a variable's definition, gives."""
    declaration = ATTRIBUTE.sub(" ", declaration)
    pointer = re.search(r"\(\s*\*\s*(?:const\s+)?(\w+)", declaration)
    if pointer:
        return pointer.group(1)
    declaration = re.split(r"[(\[=]", declaration.replace("{}", " "))[0]
    words = re.findall(r"\w+", declaration)
    return words[-1] if words else None


def lists_of(text):
    """Lists of the form `#define LIST(X) X(FIRST, ...) X(SECOND, ...)`: name -> first arguments."""
    text = NOISE.sub(" ", text).replace("\\\n", " ")
    return {name: re.findall(r"\b%s\(\s*(\w+)" % argument, body) for name, argument, body in
            re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\((\w+)\)([^\n]*)", text, re.M)}


def enumerators(body, directives, lists):
    """The names in an enum's body; LIST(MAKE) stands for those that MAKE pastes together."""
    for name, maker in LIST_USE.findall(body):
        made = re.search(r"define\s+%s\((\w+)[^)]*\)\s*(\w*?)\s*##\s*\1" % maker, directives)
        for entry in lists.get(name, ()) if made else ():
            yield made.group(2) + entry
    for item in LIST_USE.sub("", body).split(","):
        entry = ENUMERATOR.fullmatch(item)
        if entry:
            yield entry.group(1)


def definitions(text, static_words=("static",), lists={}):
    """Everything that a file defines. `static_words`: "static", and macros that stand for it; `lists`:
    as of lists_of(), of all files."""
    static = re.compile(r"\b(?:%s)\b" % "|".join(static_words))
    plain = NOISE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    line_of = lambda offset: plain.count("\n", 0, offset) + 1
    for match in MACRO.finditer(plain):
        yield Definition("macro", match.group(1), line_of(match.start(1)), False)
    directives = "\n".join(DIRECTIVE.findall(plain))
    plain = DIRECTIVE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), plain)
    plain = re.sub(r'extern\s+"C"\s*\{', " ", plain)
    for match in TAG.finditer(plain):
        yield Definition("tag", match.group(1), line_of(match.start(1)), False)
    for match in ENUM.finditer(plain):
        for name in enumerators(match.group(1), directives, lists):
            yield Definition("enumerator", name, line_of(match.start()), False)
    for offset, head, body in statements(plain):
        offset += len(head) - len(head.lstrip())
        head = head.strip()
        if FORWARD.match(head):
            continue
        if re.match(r"typedef\b", head):
            yield Definition("typedef", declared_name(head), line_of(offset), False)
        elif body is not None and is_function(head):
            head = ATTRIBUTE.sub(" ", head)
            name = re.match(r"[^(]*?(\w+)\s*\(", head)
            if name and not re.match(r"[A-Z_]+\s*\(", head):  # not the use of a macro
                yield Definition("function", name.group(1), line_of(offset),
                                 bool(static.search(head)))
        elif ("=" in head or re.search(r"\w\s+\**\w+(\[[^\]]*\])*$", head)) and "(" not in \
                head.split("=")[0] and not re.match(r"(extern|struct|union|enum)\b[^=]*$", head):
            name = declared_name(head)
            if name and not name.startswith("_Static"):
                yield Definition("variable", name, line_of(offset),
                                 bool(static.search(head)))


def modules_of(root):
    """module -> the folders that may use it."""
    owners = collections.defaultdict(set)
    for folder in sorted(path for path in (root / "src").iterdir() if path.is_dir()):
        name = "src/" + folder.name
        below = [path for path in folder.rglob("*") if path.is_dir() or path.suffix in (".c", ".h")]
        for module in {folder.name, *(path.stem for path in below), *MODULES.get(name, ())}:
            owners[module].add(name)
    return owners


def module_of(name, owners):
    """The longest module that a name begins with, or None."""
    words = name[4:].lower().rstrip("_").split("_") if INTERNAL.match(name) else []
    for count in range(len(words), 0, -1):
        if "_".join(words[:count]) in owners:
            return "_".join(words[:count])
    return None


def is_visible(path, definition):
    """Can another file use it?"""
    if definition.name is None or definition.kind == "macro" and definition.name.endswith("_H"):
        return False
    if path.endswith(".h"):
        return True
    return definition.kind in ("function", "variable") and not definition.is_static


SELF_TEST = """
#define VW__THING_MOST 3
/* struct vw__comment { */
enum { FIRST = 1, SECOND /* , THIRD */, FOURTH = FIRST + 2 };
#define LIST(X) X(C, "c") \\
    X(D, "d")
#define MADE(upper, text) VW__THING_##upper,
typedef enum vw__thing_kind { VW__THING_A, VW__THING_B = 7, LIST(MADE) VW__END } vw__thing_kind;
typedef struct vw__thing vw__thing;
typedef bool (*vw__thing_call)(void *context, const vw__thing *thing);
struct vw__thing { int a; struct vw__inner { int b; } inner; };
extern int vw__not_here;
const char *const vw__thing_names[] = {"a;", "b}"};
static int hidden = 3;
static int helper(int a) { return a; }
VW_MUST_CHECK vw_status vw__thing_make(const vw__thing *thing, int (*call)(int));
vw_status vw__thing_make(const vw__thing *thing, int (*call)(int))
{
    enum { LOCAL = 1 };
    return (vw_status){0};
}
__attribute__((cold)) void vw__thing_cold(void) { if (1) { } }
"""


def self_test():
    found = {(d.kind, d.name) for d in definitions(SELF_TEST, lists=lists_of(SELF_TEST))
             if not d.is_static}
    expected = {("macro", "VW__THING_MOST"), ("enumerator", "FIRST"), ("enumerator", "SECOND"),
                ("macro", "LIST"), ("macro", "MADE"), ("enumerator", "VW__THING_C"),
                ("enumerator", "VW__THING_D"), ("enumerator", "VW__END"),
                ("enumerator", "FOURTH"), ("enumerator", "LOCAL"), ("tag", "vw__thing_kind"),
                ("typedef", "vw__thing_kind"), ("enumerator", "VW__THING_A"),
                ("enumerator", "VW__THING_B"), ("typedef", "vw__thing_call"), ("tag", "vw__thing"),
                ("tag", "vw__inner"), ("variable", "vw__thing_names"),
                ("function", "vw__thing_make"), ("function", "vw__thing_cold")}
    assert found == expected, found ^ expected
    assert module_of("vw__thing_make", {"thing", "thing_part"}) == "thing"
    assert module_of("VW__THING_PART_MOST", {"thing", "thing_part"}) == "thing_part"
    assert module_of("vw__things_make", {"thing", "thing_part"}) is None


def main():
    self_test()
    root = pathlib.Path(__file__).resolve().parent.parent
    listed = sys.argv[2] if sys.argv[1:2] == ["--list"] else None
    owners, faults, count = modules_of(root), [], 0
    users = collections.defaultdict(set)  # module -> the folders that use it
    places = collections.defaultdict(list)  # (kind, name) -> where it is defined
    texts = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
             for top in ("src", "cli") for path in sorted((root / top).rglob("*.[ch]"))}
    static_words = {"static", *(word for text in texts.values() for word in
                                re.findall(r"#define (\w+)[ \t\\\n]+static\b", text))}
    lists = {}
    for text in texts.values():
        lists.update(lists_of(text))
    for source, text in texts.items():
        folder = "/".join(source.split("/")[:2])
        for definition in sorted(set(definitions(text, static_words, lists))):
            count += 1
            kind, name, line, is_static = definition
            place = f"{source}:{line}"
            is_plain = source.endswith(".c") and not INTERNAL.match(name or "")
            if kind in ("tag", "typedef"):
                kind, place = "type", source  # `typedef struct a {} a` is one
            if kind in ("type", "enumerator") and not is_plain or \
                    kind == "function" and not is_static and not source.endswith("_missing.c"):
                places[kind, name].append(place)
            if not source.startswith("src/") or not is_visible(source, definition) or \
                    PUBLIC.match(name) or name in NOT_OURS or \
                    kind == "macro" and source.endswith("_rows.h"):
                continue
            module = module_of(name, owners)
            if module is None or folder not in owners[module]:
                faults.append(f"{place}: {kind} {name} names no module of its folder")
            else:
                users[module].add(folder)
    for source, text in texts.items():
        for rows in re.findall(r'#include "(\w+)/\w+_rows\.h"', text):
            if source.endswith(".h") or source.split("/")[1] != rows:
                faults.append(f"{source}: includes the words of another folder's tables")
    for module, folders in sorted(users.items()):
        if len(folders) > 1:
            faults.append(f"module {module} is used by {' and '.join(sorted(folders))}")
    for (kind, name), where in sorted(places.items()):
        if len({place.split(":")[0] for place in where}) > 1:
            faults.append(f"{kind} {name} is defined twice: {', '.join(sorted(set(where)))}")

    if listed is not None:
        names = sorted({re.search(r": \w+ (\w+) ", fault).group(1) for fault in faults
                        if fault.startswith(listed) and re.search(r": \w+ (\w+) ", fault)})
        print("\n".join(names))
        return 0
    for fault in faults:
        print(fault)
    print(f"names: {count} definitions, {len(faults)} faults")
    return 1 if faults or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
