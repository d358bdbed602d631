#!/usr/bin/env python3
"""check_shipped.py [--glibc VERSION] PATH... - what we hand to others, as its ELF files say.

PATH is a program, a library, a folder, a wheel or a Debian package; every ELF file in it is read.
Each must

  - search for libraries nowhere, or beside itself: RUNPATH is absent or $ORIGIN, RPATH is absent;
    an adapter for PyTorch looks in the folder _lib beside its own
  - be position-independent, with a table of addresses that is read-only once it runs (RELRO, all of
    it bound at start), without an executable stack and without relocations in its code
  - have been compiled with a stack protector and _FORTIFY_SOURCE, as the functions show that it
    imports from the C library

With --glibc, as for a wheel that names a glibc in its tag, each must also need nothing but the C
library, in a version no newer than that, and libraries that lie beside it; an adapter also PyTorch's
libraries, and the C++ library in a version that is in every system with that glibc. A wheel's own tag, the
files that its RECORD lists, and its size are checked as well.

Says each fault, and exits with 1 if there is one.
"""
import argparse
import base64
import csv
import hashlib
import io
import re
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

MOST_WHEEL_BYTES = 20_000_000
ADAPTER = re.compile(r"adapter-\d+\.\d+-abi[01]\.so$")
ADAPTER_NEEDS = re.compile(r"lib(c10|c10_cuda|torch|torch_cpu|torch_cuda)\.so$|libstdc\+\+\.so\.6$|"
                           r"libgcc_s\.so\.1$")
MOST_GLIBCXX = "3.4.28"  # of Debian 11's g++ 10, whose glibc is the oldest that a wheel may need
C_LIBRARY = re.compile(r"(libc|libm|libdl|libpthread|librt)\.so\.\d+$|ld-linux[-a-z0-9_]*\.so\.\d+$")
MACHINES = {62: "x86_64", 183: "aarch64"}
# Packages of wheels that run with a glibc name it in their tag (PEP 600).
TAGGED = re.compile(r"-manylinux_(\d+_\d+)_(\w+)\.whl$")


class Elf:
    """A little-endian 64-bit ELF file: what its dynamic section and its segments say."""

    STACK, RELRO, DYNAMIC, LOAD = 0x6474E551, 0x6474E552, 2, 1

    def __init__(self, content):
        self._content = content
        (self.type, self.machine) = struct.unpack_from("<HH", content, 16)
        (table,) = struct.unpack_from("<Q", content, 32)
        size, count = struct.unpack_from("<HH", content, 54)
        # type, flags, offset, address, (physical), size in the file
        self.segments = [struct.unpack_from("<IIQQQQ", content, table + i * size)
                         for i in range(count)]
        self.dynamic = self._read_dynamic()
        self._strings = self._place(self._value(5)) if self._value(5) else 0

    @staticmethod
    def is_one(content):
        """Whether it is an ELF file of the kind we ship."""
        return content[:6] == b"\x7fELF\x02\x01"

    def _read_dynamic(self):
        entries = []
        for kind, _, offset, _, _, size in self.segments:
            if kind == self.DYNAMIC:
                entries += [struct.unpack_from("<QQ", self._content, place)
                            for place in range(offset, offset + size, 16)]
        return [entry for entry in entries if entry[0] != 0]

    def _values(self, tag):
        return [value for found, value in self.dynamic if found == tag]

    def _value(self, tag):
        return next(iter(self._values(tag)), 0)

    def _place(self, address):
        """Where in the file an address is."""
        for kind, _, offset, begin, _, size in self.segments:
            if kind == self.LOAD and begin <= address < begin + size:
                return address - begin + offset
        raise ValueError(f"no segment has address {address:#x}")

    def _string(self, offset):
        begin = self._strings + offset
        return self._content[begin:self._content.index(b"\0", begin)].decode()

    def needed(self):
        """The libraries it loads."""
        return [self._string(value) for value in self._values(1)]

    def search_paths(self):
        """{"RPATH": ..., "RUNPATH": ...}, those that it has."""
        return {name: self._string(value) for name, tag in (("RPATH", 15), ("RUNPATH", 29))
                for value in self._values(tag)}

    def is_bound_at_start(self):
        """BIND_NOW, in any of its three forms."""
        return bool(self._values(24) or self._value(30) & 8 or self._value(0x6FFFFFFB) & 1)

    def has_text_relocations(self):
        """Whether the loader writes into its code."""
        return bool(self._values(22) or self._value(30) & 4)

    def versions(self):
        """(library, version) of every versioned symbol that it needs."""
        found = []
        place = self._place(self._value(0x6FFFFFFE)) if self._value(0x6FFFFFFE) else None
        for _ in range(self._value(0x6FFFFFFF)):
            _, count, file_name, first, following = struct.unpack_from("<HHIII", self._content, place)
            entry = place + first
            for _ in range(count):
                _, _, _, name, step = struct.unpack_from("<IHHII", self._content, entry)
                found.append((self._string(file_name), self._string(name)))
                entry += step
            place += following
        return found

    def imports(self):
        """Names of the symbols that others must define."""
        (table,) = struct.unpack_from("<Q", self._content, 40)
        size, count = struct.unpack_from("<HH", self._content, 58)
        names = set()
        for header in range(table, table + count * size, size):
            kind, _, _, offset, length = struct.unpack_from("<IQQQQ", self._content, header + 4)
            if kind != 11:  # the dynamic symbols, which stripping leaves
                continue
            for place in range(offset, offset + length, 24):
                name, info, _, section = struct.unpack_from("<IBBH", self._content, place)
                if section == 0 and info >> 4 in (1, 2):
                    names.add(self._string(name))
        return names


def faults_of_build(elf, is_adapter):
    """How it was linked and compiled."""
    beside = "$ORIGIN/../_lib" if is_adapter else "$ORIGIN"
    for kind, path in elf.search_paths().items():
        if kind == "RPATH" or path != beside:
            yield f"{kind} is {path!r}, expected none, or a RUNPATH of {beside}"
    if elf.type != 3:
        yield "it is not position-independent"
    if not any(segment[0] == Elf.RELRO for segment in elf.segments):
        yield "no part of it becomes read-only after relocation (no RELRO)"
    if not elf.is_bound_at_start():
        yield "symbols are bound when first used (no BIND_NOW)"
    stacks = [segment for segment in elf.segments if segment[0] == Elf.STACK]
    if not stacks or stacks[0][1] & 1:
        yield "its stack is executable"
    if elf.has_text_relocations():
        yield "its code has relocations"
    imports = elf.imports()
    if "__stack_chk_fail" not in imports:
        yield "it has no stack protector"
    if not any(re.fullmatch(r"__\w+_chk", name) for name in imports):
        yield "it was compiled without _FORTIFY_SOURCE"


def as_numbers(version):
    """(2, 31)"""
    return tuple(int(part) for part in version.split("."))


def faults_of_needs(elf, glibc, beside, is_adapter):
    """What it needs on the machine that it comes to; `beside` is carried along."""
    for name in elf.needed():
        is_there = C_LIBRARY.match(name) or name in beside or (is_adapter and ADAPTER_NEEDS.match(name))
        if not is_there:
            yield f"it needs {name}, which neither the C library nor the package has"
    for library, version in elf.versions():
        match = re.fullmatch(r"GLIBCXX_(\d+(?:\.\d+)*)", version)
        if match and as_numbers(match.group(1)) > as_numbers(MOST_GLIBCXX):
            yield f"it needs {version} of {library}, newer than {MOST_GLIBCXX}"
        match = re.fullmatch(r"GLIBC_(\d+(?:\.\d+)*)", version)
        if match and as_numbers(match.group(1)) > as_numbers(glibc):
            yield f"it needs {version} of {library}, newer than {glibc}"
        elif version.startswith("GLIBC_") and not match:
            yield f"it needs {version} of {library}, which no numbered version promises"


def newest_glibc(elves):
    """The newest version of glibc that any of them asks for."""
    versions = [as_numbers(version[6:]) for elf in elves for _, version in elf.versions()
                if re.fullmatch(r"GLIBC_[\d.]+", version)]
    return ".".join(str(part) for part in max(versions, default=(0,)))


def faults_of_wheel(path, elves):
    """Its size, its tag and its RECORD."""
    if path.stat().st_size > MOST_WHEEL_BYTES:
        yield f"it has {path.stat().st_size} bytes, more than {MOST_WHEEL_BYTES}"
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        (record,) = (name for name in names if name.endswith(".dist-info/RECORD"))
        (about,) = (name for name in names if name.endswith(".dist-info/WHEEL"))
        tag = re.search(r"^Tag: (.*)$", wheel.read(about).decode(), re.M).group(1)
        if not path.name.endswith(f"-{tag}.whl"):
            yield f"its name and its tag, {tag}, differ"
        for elf in elves:
            if not tag.endswith("_" + MACHINES.get(elf.machine, "?")):
                yield f"a file is for machine {elf.machine}, its tag is {tag}"
        listed = list(csv.reader(io.StringIO(wheel.read(record).decode())))
        if sorted(row[0] for row in listed) != sorted(names):
            yield "RECORD does not list the files that are there"
        for name, digest, _ in listed:
            found = hashlib.sha256(wheel.read(name)).digest()
            if name != record and digest != "sha256=" + base64.urlsafe_b64encode(found).rstrip(
                    b"=").decode():
                yield f"RECORD has another digest for {name}"


def contents(path):
    """(name, content) of every file in it."""
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file() and not file.is_symlink():
                yield str(file.relative_to(path)), file.read_bytes()
    elif path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                yield name, wheel.read(name)
    elif path.suffix == ".deb":
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["dpkg-deb", "-x", path, folder], check=True)
            yield from contents(Path(folder))
    else:
        yield path.name, path.read_bytes()


def check(path, glibc):
    """Prints what is wrong with one path; the number of ELF files and of faults."""
    tagged = TAGGED.search(path.name)
    glibc = tagged.group(1).replace("_", ".") if tagged else glibc
    files = {name: Elf(content) for name, content in contents(path) if Elf.is_one(content)}
    beside = {Path(name).name for name in files}
    faults = []
    for name, elf in files.items():
        is_adapter = bool(ADAPTER.search(name))
        found = list(faults_of_build(elf, is_adapter))
        if glibc:
            found += faults_of_needs(elf, glibc, beside, is_adapter)
        where = f"{path}: {name}" if name != path.name else path
        faults += [f"{where}: {fault}" for fault in found]
    if path.suffix == ".whl":
        faults += [f"{path}: {fault}" for fault in faults_of_wheel(path, files.values())]
    if not files and path.suffix != ".deb":
        faults.append(f"{path}: there is no ELF file in it")
    for fault in faults:
        print(f"shipped: {fault}", file=sys.stderr)
    if tagged:
        print(f"shipped: {path.name}: {path.stat().st_size / 1e6:.1f} MB, needs glibc "
              f"{newest_glibc(files.values())}, tagged {glibc}")
    return len(files), len(faults)


def main():
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--glibc", help="the oldest glibc that it must run with, such as 2.31")
    parser.add_argument("paths", nargs="+", type=Path)
    order = parser.parse_args()
    try:
        counts = [check(path, order.glibc) for path in order.paths]
    except (OSError, ValueError, struct.error, zipfile.BadZipFile) as error:
        print(f"shipped: cannot be read: {error}", file=sys.stderr)
        return 1
    faults = sum(count for _, count in counts)
    print(f"shipped: {sum(count for count, _ in counts)} ELF files, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
