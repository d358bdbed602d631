"""_prebuilt.py - an adapter that came with the wheel, where one fits the torch that is imported.

A wheel holds adapters for known versions of PyTorch, one for each version and C++ ABI, so that no
compiler is needed. adapters.json beside them says what each was compiled against. One is taken only
if it is certain to fit: the table of virtual functions in the installed libc10_cuda.so is the one it
has, and the installed headers, where there are any, lay everything out as those it was compiled
against. Anything else is left to the compiler.
"""
from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Tuple

from .. import _paths
from . import _interface
from ._compile import Torch, release_of

INDEX = "adapters.json"


class NoneFits(Exception):
    """No prebuilt adapter fits; the text says why, and is "" where none was installed."""


@dataclass(frozen=True)
class Prebuilt:
    """One adapter of the wheel."""
    file: Path
    version: str          # of PyTorch, "2.11.0"
    cxx11_abi: bool
    is_of_release: bool   # compiled against the headers of a release, not of a day on the way to it
    methods: List[str]
    headers: str          # _interface.header_digest()


def _entry(folder: Path, facts: Dict[str, Any]) -> Prebuilt:
    return Prebuilt(file=folder / facts["file"], version=facts["torch"], cxx11_abi=facts["cxx11_abi"],
                    is_of_release=facts["is_of_release"], methods=facts["methods"],
                    headers=facts["headers"])


def shipped(folder: Path) -> List[Prebuilt]:
    """Those in the folder. NoneFits: there are none, or the index is not readable."""
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        return [_entry(folder, facts) for facts in index["adapters"]]
    except FileNotFoundError:
        raise NoneFits("") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NoneFits(f"{folder / INDEX} cannot be read: {error}") from None


def _minor(version: str) -> Tuple[str, ...]:
    return tuple(release_of(version).split(".")[:2])


def _check(adapter: Prebuilt, torch: Torch) -> str:
    """Why it fits. NoneFits: why not."""
    library = torch.folder / "lib" / "libc10_cuda.so"
    try:
        theirs = _interface.methods(library, _interface.NATIVE)
    except _interface.UnreadableError as error:
        raise NoneFits(f"its functions cannot be compared: {error}") from None
    difference = _interface.difference(adapter.methods, theirs)
    if difference is not None:
        raise NoneFits(difference)
    headers = _interface.header_digest(torch.folder / "include")
    if headers == adapter.headers:
        return f"same headers and the same {len(theirs)} functions as PyTorch {torch.version}"
    if headers is not None:
        raise NoneFits(f"the headers of PyTorch {torch.version} are not those it was compiled against")
    if not adapter.is_of_release:
        raise NoneFits(f"it was compiled before PyTorch {'.'.join(_minor(adapter.version))} was "
                       "released, and there are no headers to compare")
    if release_of(torch.version) != release_of(adapter.version):
        raise NoneFits(f"it is for PyTorch {adapter.version}, and there are no headers to compare")
    return f"same version and the same {len(theirs)} functions as PyTorch {torch.version}"


def choose(torch: Torch) -> Tuple[Path, str]:
    """The adapter that fits, and why it does. NoneFits."""
    if torch.hip_version is not None:
        raise NoneFits("no prebuilt adapter is for ROCm")
    candidates = [adapter for adapter in shipped(_paths.prebuilt_folder())
                  if _minor(adapter.version) == _minor(torch.version)
                  and adapter.cxx11_abi == torch.cxx11_abi]
    if not candidates:
        raise NoneFits(f"no prebuilt adapter is for PyTorch {'.'.join(_minor(torch.version))} with "
                       f"C++ ABI {int(torch.cxx11_abi)}")
    reasons = []
    for adapter in candidates:
        try:
            return adapter.file, _check(adapter, torch)
        except NoneFits as reason:
            reasons.append(f"{adapter.file.name}: {reason}")
    raise NoneFits("; ".join(reasons))
