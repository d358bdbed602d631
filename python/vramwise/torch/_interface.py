"""_interface.py - does an adapter have the virtual functions that this PyTorch calls?

PyTorch calls its allocator through a table of functions, by their place in it. An adapter that was
compiled against other headers may have another function there, and calling that would be a crash at
best. So before one is loaded that was not compiled on this machine, its table is held against the
table of PyTorch's own allocator in libc10_cuda.so: as many functions, by the same names and with the
same parameters, in the same order. Both are read off the files; nothing is loaded.
"""
from __future__ import annotations

import ctypes
import ctypes.util
import hashlib
import re
import struct
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

NATIVE = "N3c104cuda20CUDACachingAllocator6Native22NativeCachingAllocatorE"
ADAPTER = "N14vramwise_torch7AdapterE"

_RELATIVE = (8, 1027)       # R_X86_64_RELATIVE, R_AARCH64_RELATIVE: an address in the same file
_ABSOLUTE = (1, 257)        # R_X86_64_64, R_AARCH64_ABS64: a symbol
_SYMBOL_TABLES = (2, 11)    # SHT_SYMTAB, SHT_DYNSYM
_RELOCATIONS = 4            # SHT_RELA
_WORD = 8


class UnreadableError(Exception):
    """The table cannot be read off this file; the text says why."""


class _Elf:
    """So much of a 64-bit little-endian ELF file as the table needs."""

    def __init__(self, path: Path) -> None:
        self._bytes = path.read_bytes()
        if self._bytes[:6] != b"\x7fELF\x02\x01":
            raise UnreadableError(f"{path} is not a 64-bit little-endian ELF file")
        start, = struct.unpack_from("<Q", self._bytes, 40)
        size, count = struct.unpack_from("<HH", self._bytes, 58)
        self._sections = [struct.unpack_from("<IIQQQQIIQQ", self._bytes, start + i * size)
                          for i in range(count)]

    def _entries(self, section: Tuple[Any, ...], form: str) -> Iterator[Tuple[Any, ...]]:
        return struct.iter_unpack(form, self._bytes[section[4]:section[4] + section[5]])

    def _text(self, table: Tuple[Any, ...], at: int) -> str:
        begin = table[4] + at
        return self._bytes[begin:self._bytes.index(b"\0", begin)].decode("utf-8", "replace")

    def symbols(self) -> Iterator[Tuple[int, str, int, int]]:
        """Table's index, name, address and size of each that has an address."""
        for i, section in enumerate(self._sections):
            if section[1] in _SYMBOL_TABLES:
                names = self._sections[section[6]]
                for name, _, _, _, address, size in self._entries(section, "<IBBHQQ"):
                    if address != 0:
                        yield i, self._text(names, name), address, size

    def targets(self, begin: int, end: int) -> Dict[int, object]:
        """What the words from `begin` to `end` are made to point to: an address, or a name."""
        found: Dict[int, object] = {}
        for section in self._sections:
            if section[1] != _RELOCATIONS:
                continue
            symbols = self._sections[section[6]]
            for place, info, addend in self._entries(section, "<QQq"):
                if not begin <= place < end:
                    continue
                kind, index = info & 0xffffffff, info >> 32
                if kind in _RELATIVE:
                    found[place] = addend
                elif kind in _ABSOLUTE:
                    name, _, _, _, address, _ = struct.unpack_from(
                        "<IBBHQQ", self._bytes, symbols[4] + index * 24)
                    found[place] = self._text(self._sections[symbols[6]], name) or address + addend
        return found


def _demangled(names: List[str]) -> List[str]:
    try:
        library = ctypes.CDLL(ctypes.util.find_library("stdc++") or "libstdc++.so.6")
        demangle, free = library.__cxa_demangle, ctypes.CDLL(None).free
    except (OSError, AttributeError) as error:
        raise UnreadableError(f"names cannot be demangled: {error}") from None
    demangle.restype = ctypes.c_void_p
    demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    free.argtypes = [ctypes.c_void_p]
    texts = []
    for name in names:
        pointer = demangle(name.encode(), None, None, None)
        texts.append(ctypes.string_at(pointer).decode() if pointer else name)
        free(pointer)
    return texts


def _method(text: str) -> str:
    """"allocate(unsigned long)" of "c10::...::allocate(unsigned long)"."""
    text = re.sub(r"\[abi:\w+\]", "", text)
    name, bracket, parameters = text.partition("(")
    name = name.rsplit("::", 1)[-1]
    return "~" if name.startswith("~") else name + bracket + parameters


def methods(path: Path, owner: str) -> List[str]:
    """The virtual functions of class `owner` (mangled), in their order. UnreadableError."""
    try:
        elf = _Elf(path)
        symbols = list(elf.symbols())
        table = next(((address, size) for _, name, address, size in symbols
                      if name == "_ZTV" + owner), None)
        if table is None:
            raise UnreadableError(f"{path} does not name its allocator's table")
        begin, end = table[0] + 2 * _WORD, table[0] + table[1]
        by_address: Dict[int, str] = {}
        for _, name, address, _ in symbols:
            if name.startswith("_ZN"):
                by_address.setdefault(address, name)
        targets = elf.targets(begin, end)
        names: List[str] = []
        for place in range(begin, end, _WORD):
            target = targets.get(place)
            found = by_address.get(target) if isinstance(target, int) else target
            if not isinstance(found, str):
                raise UnreadableError(f"{path} does not name function {len(names)} of its allocator")
            names.append(found)
        return [_method(text) for text in _demangled(names)]
    except (OSError, struct.error, ValueError, IndexError, OverflowError, MemoryError) as error:
        raise UnreadableError(f"{path}: {error}") from None


def difference(ours: List[str], theirs: List[str]) -> Optional[str]:
    """How the tables differ, in a few words; None: they do not."""
    for i, (one, other) in enumerate(zip(ours, theirs)):
        if one != other:
            return f"function {i} is {one} in the adapter and {other} in PyTorch"
    if len(ours) != len(theirs):
        return f"the adapter has {len(ours)} functions and PyTorch {len(theirs)}"
    return None


# Headers that say how what passes between PyTorch and the adapter is laid out. A folder of headers
# with the same text in all of them has the same layout.
HEADERS = (
    "c10/core/Allocator.h", "c10/core/AllocatorConfig.h", "c10/core/CachingDeviceAllocator.h",
    "c10/core/Device.h", "c10/core/DeviceType.h", "c10/core/Stream.h", "c10/core/impl/GPUTrace.h",
    "c10/core/impl/PyInterpreter.h", "c10/cuda/CUDAAllocatorConfig.h",
    "c10/cuda/CUDACachingAllocator.h", "c10/cuda/CUDAStream.h", "c10/util/ApproximateClock.h",
    "c10/util/Exception.h", "c10/util/UniqueVoidPtr.h", "torch/csrc/cuda/CUDAPluggableAllocator.h",
    "torch/headeronly/core/DeviceType.h", "torch/headeronly/util/Exception.h")
# What PyTorch's build puts around each header that it installs, from 2.10 on.
_GUARD = re.compile(r"\A#if !defined\(TORCH_STABLE_ONLY\)[^\n]*\n|\n#else\n#error \"This file should not be "
                    r"included[^\n]*\n#endif[^\n]*\s*\Z")
_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*")', re.DOTALL)


def header_digest(include: Path) -> Optional[str]:
    """Of those headers, without their comments and white space. None: they are not there."""
    digest = hashlib.sha256()
    is_there = False
    for name in HEADERS:
        try:
            text = (include / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            text = ""  # not every version has all of them
        is_there = is_there or bool(text)
        text = _GUARD.sub("\n", text)
        bare = "".join(_COMMENT.sub(lambda match: match.group(1) or " ", text).split())
        digest.update(f"{name} {len(bare)}\n{bare}\n".encode())
    return digest.hexdigest() if is_there else None
