#!/usr/bin/env python3
"""check_links.py - a page's link to another file of the tree leads there, and files it names exist.

Looks at every [text](target) and every image of our *.md files, outside of code.
A target is a path from the page's folder, and behind a '#' a heading of the page it names, written
as GitHub does. What has a scheme (https:) leads out of the tree, and is not looked at: checks ask
no network. A source that a page names in `code` (`parse/line`, `src/plan/tape*`, `families.c`) exists,
except in the changelog and in results. Prints each fault and exits with 1.
"""
import os
import pathlib
import re
import sys

# Not ours: what was built, what npm brought, and git's own.
OTHERS = re.compile(r"build|node_modules$|\.git$")
FENCE = re.compile(r"^\s*```.*?^\s*```\s*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:")
HEADING = re.compile(r"^#+\s+(.*?)\s*#*$", re.MULTILINE)

# A source: with a folder of src, or a file name that ends as one.
NAMED = re.compile(r"`(?:(?:src/)?([a-z]+)/)?([a-z_0-9/]+)(\*?)(\.(?:c|h|cpp|def))?`")
MAY_BE_GONE = re.compile(r"CHANGELOG\.md$|bench/results/|THIRD_PARTY")


def without(pattern, text):
    """The text with what matches blanked out; its lines keep their numbers."""
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def pages_under(root):
    """Our *.md files."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if OTHERS.match(name) is None)
        yield from (pathlib.Path(folder, name) for name in sorted(names) if name.endswith(".md"))


def anchor_of(heading):
    """What stands behind the '#' in links to a heading, as GitHub writes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def headings_of(page):
    """The anchors of a page."""
    text = without(FENCE, page.read_text(encoding="utf-8"))
    return {anchor_of(heading) for heading in HEADING.findall(text)}


def fault_of(page, target):
    """What is wrong with one link, or None."""
    path, _, heading = target.partition("#")
    aim = page.parent / path if path else page
    if not aim.exists():
        return "is not there"
    if heading and aim.suffix == ".md" and heading not in headings_of(aim):
        return "has no such heading"
    return None


def missing_sources(root, page, text, names):
    """(line, name) of each source that the page names and that is not there."""
    for match in NAMED.finditer(text):
        folder, name, star, ending = match.groups()
        is_there = True
        if folder and (root / "src" / folder).is_dir():
            below = root / "src" / folder
            is_there = any(below.glob(name + star + (ending or ".*"))) or (below / name).is_dir()
        elif not folder and ending and not star:
            is_there = name + ending in names or (page.parent / (name + ending)).exists()
        if not is_there:
            yield text.count("\n", 0, match.start()) + 1, match.group()


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    pages = list(pages_under(root))
    names = {path.name for top in ("src", "include", "cli", "adapters", "tests", "bench", "examples")
             for path in (root / top).rglob("*.*")}
    link_count = fault_count = 0
    for page in pages:
        text = without(FENCE, page.read_text(encoding="utf-8"))
        if not MAY_BE_GONE.search(page.relative_to(root).as_posix()):
            for line, name in missing_sources(root, page, text, names):
                print(f"{page.relative_to(root)}:{line}: {name} is not there")
                fault_count += 1
        text = CODE.sub(lambda match: "`" * len(match.group()), text)
        for match in LINK.finditer(text):
            target = match.group(1)
            if SCHEME.match(target):
                continue
            link_count += 1
            fault = fault_of(page, target)
            if fault is not None:
                line = text.count("\n", 0, match.start()) + 1
                print(f"{page.relative_to(root)}:{line}: {target} {fault}")
                fault_count += 1
    if not pages:
        print(f"{root}: no pages found")
        return 1
    print(f"links: {len(pages)} pages, {link_count} links, {fault_count} faults")
    return 1 if fault_count else 0


if __name__ == "__main__":
    sys.exit(main())
