#!/usr/bin/env python3
"""make_site.py BUILD - the documentation as a static site, in BUILD/site.

    README.md             the front page
    docs/**/*.md          a page each, at the same path; docs/README.md is also the navigation
    BUILD/man/*.1         the manual, at docs/man
    every *.md that a page links to (ARCHITECTURE.md, bench/results)
    demo.html             `vramwise view` of a recording, made by BUILD/vramwise

cmark-gfm converts Markdown and mandoc the man pages; this script adds the frame, the anchors of
headings, and the links between pages. Files under docs/ that a page links to are copied. A link to
any other file of the tree becomes its name as code, since the site does not have that file.

Every page, anchor and image that a page of the site names must be in the site: the script prints
what is missing and exits with 1. It exits with 3 if a tool or a built file is missing.
"""
import html
import html.parser
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing is left in the tree
from check_links import LINK, SCHEME, anchor_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
INDEX = "docs/README.md"
MANUAL_INDEX = "docs/reference/commands.md"
RECORDING = "tests/data/recordings/train_eval_phases.native.pickle.xz"
STYLE = "tools/site.css"
DEMO = "demo.html"
ASIDE_ONLY = "For engineers"  # a section of the index that the header leaves out

ANCHOR = re.compile(r'<a href="([^"]*)"([^>]*)>(.*?)</a>', re.DOTALL)
IMAGE = re.compile(r'<img src="([^"]*)"')
HEADING = re.compile(r"<h([1-6])>(.*?)</h\1>", re.DOTALL)
TAG = re.compile(r"<[^>]*>")
MANUAL_NAME = re.compile(r"<b>(vramwise(?:-[a-z]+)?)</b>\(1\)")
# The title and the date that mandoc puts around a page.
MANUAL_EDGE = re.compile(r'<table class="(?:head|foot)">.*?</table>', re.DOTALL)


class SiteError(Exception):
    """Something that the site is made of is missing."""


def relative(target, page):
    """The address of a place in the site, seen from a page."""
    path, _, anchor = target.partition("#")
    address = os.path.relpath(path, os.path.dirname(page) or ".")
    return address + ("#" + anchor if anchor else "")


def place_of(source):
    """Where a file of the tree is in the site."""
    folder, name = os.path.split(source)
    if name == "README.md":
        return os.path.join(folder, "index.html")
    for ending in (".md", ".scd"):
        if name.endswith(ending):
            return os.path.join(folder, name[:-len(ending)] + ".html")
    return source


def linked_pages(sources):
    """The *.md files that these link to, directly or through others; all as paths from the root."""
    found, waiting = set(sources), list(sources)
    while waiting:
        source = waiting.pop()
        text = (ROOT / source).read_text(encoding="utf-8")
        for target in LINK.findall(text):
            path = target.partition("#")[0]
            if SCHEME.match(target) or not path:
                continue
            aim = ROOT / source_of(source, path)
            name = str(aim.relative_to(ROOT))
            if aim.suffix == ".md" and aim.is_file() and name not in found:
                found.add(name)
                waiting.append(name)
    return sorted(found)


def source_of(page, path):
    """The file of the tree that a link names; of a folder, its README.md if it has one."""
    name = os.path.normpath(os.path.join(os.path.dirname(page), path))
    if (ROOT / name / "README.md").is_file():
        name = os.path.join(name, "README.md")
    return name


class Linker:
    """Turns the links of the tree's pages into those of the site."""

    def __init__(self, pages):
        self.pages = pages      # sources that are pages of the site
        self.assets = set()     # other files that pages need
        self.faults = []

    def place(self, source, address):
        """Where a link leads in the site. None: to a file that the site does not have."""
        path, _, anchor = html.unescape(address).partition("#")
        name = source_of(source, path) if path else source
        if not name.startswith("..") and (ROOT / name).exists():
            if name in self.pages:
                return place_of(name) + ("#" + anchor if anchor else "")
            if name.startswith("docs/") and (ROOT / name).is_file():
                self.assets.add(name)
                return name
            return None
        self.faults.append(f"{source}: {address} is not there")
        return None

    def links(self, source, text):
        here = place_of(source)

        def anchor(match):
            address, rest, words = match.groups()
            if SCHEME.match(address):
                return match.group()
            place = self.place(source, address)
            if place is not None:
                return f'<a href="{html.escape(relative(place, here))}"{rest}>{words}</a>'
            name = html.escape(source_of(source, html.unescape(address)))
            words = re.sub(r"</?code>", "", words)
            return f'<code title="{name} in the source">{words}</code>'

        def image(match):
            place = self.place(source, match.group(1))
            return f'<img src="{html.escape(relative(place, here))}"' if place else match.group()

        return IMAGE.sub(image, ANCHOR.sub(anchor, text))


def with_anchors(text):
    """Headings get the anchors that GitHub gives them: the second of a name ends in -1."""
    count = {}

    def heading(match):
        level, words = match.groups()
        name = anchor_of(html.unescape(TAG.sub("", words)))
        number = count.get(name, 0)
        count[name] = number + 1
        name += f"-{number}" if number else ""
        return f'<h{level} id="{html.escape(name)}">{words}</h{level}>'

    return HEADING.sub(heading, text)


def run(*command):
    """What a program prints."""
    try:
        return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True,
                              encoding="utf-8").stdout
    except FileNotFoundError:
        raise SiteError(f"{command[0]} is not there: `tools/setup.sh build site` and `make` bring it") from None
    except subprocess.CalledProcessError as error:
        raise SiteError(f"{command[0]} exits with {error.returncode}") from None


def page_of(source, linker):
    """The body of a page from Markdown."""
    body = run("cmark-gfm", "--to", "html", "-e", "table", "-e", "strikethrough", source)
    if "<!-- raw HTML omitted -->" in body:
        linker.faults.append(f"{source}: has raw HTML, which the site leaves out")
    return with_anchors(linker.links(source, body))


def manual_of(file, names):
    """The body of a man page."""
    body = run("mandoc", "-T", "html", "-O", "fragment", str(file))
    body = MANUAL_EDGE.sub("", body).replace("<br/>\n", "")
    body = re.sub(r"•(?=\S)", "• ", body)
    body = re.sub(r"<(/?)h([12])\b", lambda tag: f"<{tag[1]}h{int(tag[2]) + 1}", body)

    def link(match):
        name = match.group(1)
        if name not in names or name == file.stem:
            return match.group()
        return f'<a href="{name}.1.html">{match.group()}</a>'

    return f"<h1>{file.stem}(1)</h1>\n" + MANUAL_NAME.sub(link, body)


def navigation(linker):
    """(heading, its anchor, [(words, place)]) for each section of docs/README.md that has links."""
    sections = [("", "", [])]
    for line in (ROOT / INDEX).read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            sections.append((line[3:], anchor_of(line[3:]), []))
        for match in LINK.finditer(line):
            words = re.match(r"\[([^\]]*)\]", match.group()).group(1)
            place = linker.place(INDEX, match.group(1))
            if place is not None:
                sections[-1][2].append((html.escape(words), place))
    return [section for section in sections if section[2]]


def frame(title, body, here, sections):
    """A whole page."""
    belongs_to = place_of(MANUAL_INDEX) if here.startswith("docs/man/") else here
    header, aside = [], []
    for heading, anchor, links in sections:
        is_here = any(place == belongs_to for _, place in links)
        current = ' aria-current="true"' if is_here else ""
        if not heading:
            header += [f'<a href="{relative(place, here)}"{current}>{words}</a>' for words, place in links]
        elif heading != ASIDE_ONLY:
            header.append(f'<a href="{relative(place_of(INDEX) + "#" + anchor, here)}"{current}>{heading}</a>')
        items = "".join(
            f'<li><a href="{relative(place, here)}"{" aria-current=page" if place == belongs_to else ""}>'
            f"{words}</a></li>" for words, place in links)
        aside.append((f"<h2>{heading}</h2>" if heading else "") + f"<ul>{items}</ul>")
    header.append(f'<a href="{relative(DEMO, here)}">Demo</a>')
    whole_title = title if title == "vramwise" else f"{title} - vramwise"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{whole_title}</title>
<link rel="stylesheet" href="{relative('site.css', here)}">
</head>
<body>
<header><a class="name" href="{relative('index.html', here)}">vramwise</a><nav>{''.join(header)}</nav></header>
<div class="columns">
<main>
{body}</main>
<aside><nav aria-label="All pages">{''.join(aside)}</nav></aside>
</div>
</body>
</html>
"""


class Reader(html.parser.HTMLParser):
    """What a page names, and the anchors it has."""

    def __init__(self):
        super().__init__()
        self.targets, self.anchors = [], set()

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.anchors.add(value)
            elif name in ("href", "src"):
                self.targets.append(value)


def faults_of(site):
    """What the pages of a folder name and the folder does not have; and how many links they have."""
    pages = {}
    for path in sorted(site.rglob("*.html")):
        pages[path.resolve()] = reader = Reader()
        reader.feed(path.read_text(encoding="utf-8"))
    faults, count = [], 0
    for path, reader in pages.items():
        for target in reader.targets:
            if SCHEME.match(target):
                continue
            count += 1
            name, _, anchor = target.partition("#")
            aim = (path.parent / name).resolve() if name else path
            where = path.relative_to(site.resolve())
            if not aim.is_file():
                faults.append(f"{where}: {target} is not there")
            elif anchor and aim in pages and anchor not in pages[aim].anchors:
                faults.append(f"{where}: {target} has no such heading")
    return faults, count


def make(build):
    """Makes the site, and returns what is wrong with it."""
    site = build / "site"
    shutil.rmtree(site, ignore_errors=True)
    first = ["README.md", *(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]
    sources = linked_pages(first)
    manuals = sorted((build / "man").glob("*.1"))
    if not manuals:
        raise SiteError(f"{build}/man has no man pages: `make` makes them where scdoc is there")
    linker = Linker({*sources, *(f"docs/man/{page.name}.scd" for page in manuals)})
    sections = navigation(linker)

    pages = {place_of(source): page_of(source, linker) for source in sources}
    names = {page.stem for page in manuals}
    pages.update((f"docs/man/{page.name}.html", manual_of(page, names)) for page in manuals)
    for place, body in pages.items():
        title = re.search(r"<h1[^>]*>(.*?)</h1>", body, re.DOTALL)
        path = site / place
        path.parent.mkdir(parents=True, exist_ok=True)
        text = frame(TAG.sub("", title.group(1)) if title else place, body, place, sections)
        path.write_text(text, encoding="utf-8")
    for asset in linker.assets:
        (site / asset).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / asset, site / asset)
    shutil.copy(ROOT / STYLE, site / "site.css")
    run(str(build / "vramwise"), "view", RECORDING, "-o", str(site / DEMO))

    faults, count = faults_of(site)
    listed = {place for _, _, links in sections for _, place in links}
    faults += [f"{place}: {INDEX} does not list it" for place in pages
               if place.startswith(("docs/guides/", "docs/reference/", "docs/explanation/"))
               and place not in listed]
    return linker.faults + faults, len(pages), count


def main():
    if len(sys.argv) != 2:
        print("usage: make_site.py BUILD", file=sys.stderr)
        return 2
    build = pathlib.Path(sys.argv[1]).resolve()
    try:
        faults, page_count, link_count = make(build)
    except SiteError as error:
        print(f"site: {error}", file=sys.stderr)
        return 3
    for fault in faults:
        print(fault)
    print(f"site: {page_count} pages and a demo, {link_count} links, {len(faults)} faults: "
          f"{build / 'site/index.html'}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
