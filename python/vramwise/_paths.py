"""_paths.py - where our own files lie.

The package lives in one of two places. In a wheel everything it needs is inside it: the libraries in
_lib, the public headers in _include, the adapter's sources in _adapter, and in _adapters those that are
compiled already. In a checkout the libraries
are where CMake built them, and headers and sources are where they are written. Nothing here is
imported or loaded: names of files only.
"""
from __future__ import annotations

import os
import re
from pathlib import Path
from typing import List, Optional

PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = PACKAGE.parent.parent


def _is_of_others(name: str) -> bool:
    """Whether it is neither of this user, nor of root, nor of whoever the package is of. What is in a checkout is
    loaded; and where somebody has copied the package alone into a folder for all (/tmp), others can put the rest of one
    beside it."""
    try:
        owner = os.lstat(_CHECKOUT / name).st_uid
    except OSError:
        return False  # it is not there
    return owner not in (0, os.geteuid(), PACKAGE.stat().st_uid)


def is_checkout() -> bool:
    """Whether the package is used from where it is written."""
    return not (PACKAGE / "_lib").is_dir() and (_CHECKOUT / "include" / "vramwise").is_dir() \
        and not any(_is_of_others(name) for name in ("include", "adapters", "build"))


def include_folder() -> Path:
    """The folder with vramwise/vramwise.h below it."""
    return _CHECKOUT / "include" if is_checkout() else PACKAGE / "_include"


def adapter_folder() -> Path:
    """The folder with the adapter's C++; VRAMWISE_ADAPTER_SOURCES names another, for those who work
    on it."""
    told = os.environ.get("VRAMWISE_ADAPTER_SOURCES")
    if told:
        return Path(told)
    return _CHECKOUT / "adapters" / "torch" if is_checkout() else PACKAGE / "_adapter"


def prebuilt_folder() -> Path:
    """The folder with adapters that are compiled already; VRAMWISE_PREBUILT_DIR names another."""
    told = os.environ.get("VRAMWISE_PREBUILT_DIR")
    if told:
        return Path(told)
    return _CHECKOUT / "build" / "adapters" if is_checkout() else PACKAGE / "_adapters"


def library_folders() -> List[Path]:
    """Where the libraries may be, the likeliest first; VRAMWISE_LIBRARY_DIR goes before all."""
    folders = []
    told = os.environ.get("VRAMWISE_LIBRARY_DIR")
    if told:
        folders.append(Path(told))
    folders.append(_CHECKOUT / "build" if is_checkout() else PACKAGE / "_lib")
    return folders


def version() -> str:
    """The version, from the one place that states it: vramwise/version.h."""
    text = (include_folder() / "vramwise" / "version.h").read_text(encoding="utf-8")
    match = re.search(r'#define VW_VERSION_STRING "([^"]+)"', text)
    if match is None:
        raise RuntimeError("vramwise/version.h states no VW_VERSION_STRING")
    return match.group(1)


def library_file(name: str) -> Optional[Path]:
    """lib<name>.so.<major>.<minor>, as an absolute path; None: it is in none of the folders."""
    soname = f"lib{name}.so." + ".".join(version().split(".")[:2])
    for folder in library_folders():
        path = folder / soname
        if path.is_file():
            return path.absolute()
    return None
