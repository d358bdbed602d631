#!/usr/bin/env python3
"""debian13_torch.py - what try_debian13_torch.sh runs beside Debian's PyTorch; prints what was found."""
import ctypes
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import List, Optional

import torch

import vramwise.torch
from vramwise.torch import _compile, _install, _interface, _prebuilt
from vramwise.torch._state import bound_adapter

PLUGGABLE = "N5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocatorE"
LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")


def say(what: str, found: object) -> None:
    print(f"{what:<14}{found}", flush=True)


def require(is_so: bool, text: str) -> None:
    if not is_so:
        sys.exit(f"debian13_torch: {text}")


def output_of(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def named_methods(path: Path, owner: str) -> List[Optional[str]]:
    """As _interface.methods(), with None for functions that the library does not name."""
    elf = _interface._Elf(path)
    symbols = list(elf.symbols())
    begin, size = next((address, size) for _, name, address, size in symbols if name == "_ZTV" + owner)
    names = {address: name for _, name, address, _ in symbols if name.startswith("_ZN")}
    targets = elf.targets(begin + 16, begin + size)
    found = [targets.get(place) for place in range(begin + 16, begin + size, 8)]
    named = [names.get(target) if isinstance(target, int) else target for target in found]
    return [_interface._method(_interface._demangled([name])[0]) if name else None for name in named]


def method_count(path: Path, owner: str) -> int:
    """How many functions the table of a class has that the library does not name: found by the name
    of its type, and counted up to the first word that points nowhere."""
    elf = _interface._Elf(path)
    at = elf._bytes.index(b"\0" + owner.encode() + b"\0") + 1
    section = next(each for each in elf._sections if each[4] <= at < each[4] + each[5])
    targets = elf.targets(0, 1 << 62)
    name_address = section[3] + at - section[4]
    type_address = next(place for place, target in targets.items() if target == name_address) - 8
    first = next(place for place, target in targets.items() if target == type_address) + 8
    count = 0
    while first + 8 * count in targets:
        count += 1
    return count


def compare_tables(adapter: Path) -> None:
    ours = _interface.methods(adapter, _interface.ADAPTER)
    say("adapter", f"{len(ours)} virtual functions")
    try:
        theirs = _interface.methods(LIBRARIES / "libc10_cuda.so", _interface.NATIVE)
        difference = _interface.difference(ours, theirs)
        require(difference is None, str(difference))
        say("libc10_cuda", f"the same {len(theirs)} functions in the same order")
    except _interface.UnreadableError as error:
        say("libc10_cuda", "its names are stripped: " + str(error).rsplit("/", 1)[-1])
        count = method_count(LIBRARIES / "libc10_cuda.so", _interface.NATIVE)
        require(count == len(ours), f"the native allocator has {count} functions")
        say("", f"the table of the native allocator has {count} functions as well")
    pluggable = named_methods(LIBRARIES / "libtorch_cuda.so", PLUGGABLE)
    require(len(pluggable) == len(ours), f"CUDAPluggableAllocator has {len(pluggable)} functions")
    for i, (one, other) in enumerate(zip(ours, pluggable)):
        require(other in (None, one), f"function {i} is {one} in the adapter and {other} in PyTorch")
    say("libtorch_cuda", f"CUDAPluggableAllocator has {len(pluggable)} functions as well; the "
                         f"{sum(name is not None for name in pluggable)} that are named are the same")


def offer_as_prebuilt(adapter: Path, facts: _compile.Torch) -> None:
    """The same adapter as a wheel would bring it: is it taken without a compiler?"""
    index = {"file": adapter.name, "torch": _compile.release_of(facts.version), "cxx11_abi": facts.cxx11_abi,
             "is_of_release": True, "methods": _interface.methods(adapter, _interface.ADAPTER),
             "headers": _interface.header_digest(facts.folder / "include")}
    (adapter.parent / _prebuilt.INDEX).write_text(json.dumps({"adapters": [index]}), encoding="utf-8")
    os.environ["VRAMWISE_PREBUILT_DIR"] = str(adapter.parent)
    try:
        say("prebuilt", "taken: " + _prebuilt.choose(facts)[1])
    except _prebuilt.NoneFits as error:
        say("prebuilt", "refused: " + re.sub(r"/\S*/", "", str(error).split(": ", 1)[-1]))


def allocators_library() -> str:
    """The file that the functions of PyTorch's current allocator are in."""
    c10_cuda = ctypes.CDLL("libc10_cuda.so.2.6")
    allocator = ctypes.c_void_p.in_dll(c10_cuda, "_ZN3c104cuda20CUDACachingAllocator9allocatorE")
    table = ctypes.c_size_t.from_address(allocator.value or 0).value
    function = ctypes.c_size_t.from_address(table).value
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        begin, end = (int(number, 16) for number in line.split()[0].split("-"))
        if begin <= function < end:
            return Path(line.split()[-1]).name
    return "no file"


def install(adapter: Path) -> None:
    """As vramwise.torch.install() does it once it has found a GPU."""
    library = bound_adapter(str(adapter))
    say("loaded", "compiled for PyTorch " + library.vramwise_torch_compiled_for().decode())
    say("before", "PyTorch's allocator is of " + allocators_library())
    message = ctypes.create_string_buffer(1024)
    require(library.vramwise_torch_install(b"vramwise", 0, 0, None, message, len(message)) == 0,
            message.value.decode())
    found = allocators_library()
    require(found == adapter.name, f"PyTorch's allocator is of {found} still")
    say("installed", "PyTorch's allocator is of the adapter, and is called "
        + torch.cuda.get_allocator_backend())  # by the last function of the table
    require(library.vramwise_torch_configure(b"expandable_segments:True", message, len(message)) == 0,
            message.value.decode())
    require(library.vramwise_torch_stats(0, None, 0) < 1, "there are statistics of a device")
    try:
        torch.ones(1, device="cuda")
    except RuntimeError as error:
        say("a tensor", str(error).splitlines()[0])
    else:
        sys.exit("debian13_torch: there is a GPU")


def main() -> None:
    facts = _compile.Torch.of(torch)
    say("Debian", Path("/etc/debian_version").read_text(encoding="utf-8").strip())
    say("PyTorch", f"{facts.version}, CUDA {facts.cuda_version}, C++11 ABI {facts.cxx11_abi}")
    say("compiler", output_of("g++", "--version").splitlines()[0])
    answer = vramwise.torch.install("vramwise", quiet=True)
    say("install()", f"{answer.allocator}: {answer.reason}")
    adapter = _compile.adapter(facts, quiet=True)
    linked = re.findall(r"\[(lib(?:c10|torch)\S*)\]", output_of("readelf", "-d", str(adapter)))
    say("compiled", "and linked with " + " ".join(linked))
    missing = [line for line in output_of("ldd", "-r", str(adapter)).splitlines()
               if "not found" in line or "undefined symbol" in line]
    require(not missing, "; ".join(missing))
    say("symbols", "all are found")
    compare_tables(adapter)
    offer_as_prebuilt(adapter, facts)
    install(adapter)
    require(_install.State.adapter is None, "install() kept something")
    print("ok")


main()
