"""build_backend.py - `pip install ./python`, without anything from the network.

A build backend of our own (PEP 517 and 660), because there is little to do and nobody to ask: the
libraries come from CMake, the rest is copied. A wheel holds

    vramwise/            the package
    vramwise/_lib        libvramwise, libvramwise-analysis and libvramwise-torch, by their sonames
    vramwise/_include    the public headers
    vramwise/_adapter    the adapter's sources, compiled on the user's machine against their torch
    vramwise/_adapters   adapters that are compiled already, where the builder has made some
    (scripts) vramwise   the program

CMake's build folder is ../build, or $VRAMWISE_BUILD_DIR. It is made if it is not there, and brought
up to date, which takes no time if it is. In a source distribution the C tree lies beside this file,
in native/.

tools/make_wheel.sh, which makes the wheel that is published, says more by four variables:
VRAMWISE_CMAKE_ARGUMENTS for a build folder that is not there yet, VRAMWISE_WHEEL_PLATFORM for the tag,
VRAMWISE_WHEEL_LICENSES for a folder with the licences of what is linked statically,
VRAMWISE_WHEEL_ADAPTERS for a folder that tools/make_adapters.py has filled, against the libraries of
this build.

scikit-build-core or meson-python would be the better choice once there is an extension module per
version of Python, or a second operating system, or once every machine that builds has a package
index: until then they are one more thing to fetch for what is a copy of a dozen files.
"""
import base64
import gzip
import hashlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
NATIVE = HERE / "native" if (HERE / "native").is_dir() else HERE.parent
if not (NATIVE / "include/vramwise/version.h").is_file():
    sys.exit("vramwise: this pip builds in a copy of the folder python, without the C beside it: use pip "
             "21.3 or newer, or 'make sdist' and 'pip install dist/vramwise-*.tar.gz'")
NAME = "vramwise"
LIBRARIES = ("vramwise", "vramwise-analysis", "vramwise-torch")

# What of the C tree goes into a source distribution, as native/.
NATIVE_PARTS = ("CMakeLists.txt", "LICENSE", "THIRD_PARTY", "include", "src", "cli", "cmake",
                "adapters", "completions", "docs/man", "examples", "viewer/dist")


class BuildError(Exception):
    """The package cannot be built, and why."""


def _version():
    text = (NATIVE / "include/vramwise/version.h").read_text(encoding="utf-8")
    return re.search(r'#define VW_VERSION_STRING "([^"]+)"', text).group(1)


CLASSIFIERS = (
    "Development Status :: 4 - Beta",
    "Environment :: Console",
    "Environment :: GPU :: NVIDIA CUDA",
    "Intended Audience :: Developers",
    "Intended Audience :: Science/Research",
    "License :: OSI Approved :: MIT License",
    "Operating System :: POSIX :: Linux",
    "Programming Language :: C",
    "Programming Language :: Python :: 3",
    "Programming Language :: Python :: 3 :: Only",
    *(f"Programming Language :: Python :: 3.{minor}" for minor in range(9, 15)),
    "Topic :: Scientific/Engineering :: Artificial Intelligence",
    "Topic :: Software Development :: Debuggers",
    "Topic :: System :: Monitoring",
)


# pytest loads the plugin of an installed package.
ENTRY_POINTS = f"""[pytest11]
{NAME} = {NAME}.pytest_plugin
"""


def _metadata():
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    classifiers = "\n".join(f"Classifier: {name}" for name in CLASSIFIERS)
    return f"""Metadata-Version: 2.1
Name: {NAME}
Version: {_version()}
Summary: Why a GPU ran out of memory, what makes it fit, and an allocator for PyTorch that wastes little
Author: The vramwise authors
License: MIT
Keywords: gpu,cuda,memory,out-of-memory,pytorch,allocator,fragmentation
{classifiers}
Requires-Python: >=3.9
Description-Content-Type: text/markdown
License-File: LICENSE
License-File: THIRD_PARTY

{readme}"""


def _program():
    """The program's name in a wheel."""
    return f"{NAME}-{_version()}.data/scripts/vramwise"


def _tag():
    platform = os.environ.get("VRAMWISE_WHEEL_PLATFORM") or sysconfig.get_platform()
    return f"py3-none-{re.sub(r'[-.]', '_', platform)}"


def _wheel_file():
    return f"""Wheel-Version: 1.0
Generator: vramwise build_backend
Root-Is-Purelib: false
Tag: {_tag()}
"""


def _run(command):
    """Runs a command; its output goes where pip shows it."""
    print("+", " ".join(str(word) for word in command), flush=True)
    try:
        subprocess.run([str(word) for word in command], check=True, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise BuildError(f"{command[0]} is needed to build the libraries and is not in PATH "
                         "(tools/setup.sh build installs it)") from None
    except subprocess.CalledProcessError as error:
        raise BuildError(f"{command[0]} failed with status {error.returncode}; what it said is "
                         "above") from None


def _built():
    """The build folder, with the libraries and the program up to date."""
    folder = Path(os.environ.get("VRAMWISE_BUILD_DIR") or NATIVE / "build").absolute()
    if not (folder / "CMakeCache.txt").is_file():
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        _run(["cmake", "-S", NATIVE, "-B", folder, *generator, "-DCMAKE_BUILD_TYPE=Release",
              "-DVW_TESTS=OFF", "-DVW_BENCH=OFF",
              *shlex.split(os.environ.get("VRAMWISE_CMAKE_ARGUMENTS", ""))])
    elif "-NOTFOUND\n" in (folder / "CMakeCache.txt").read_text(encoding="utf-8"):
        _run(["cmake", folder])  # a library that was missing may have been installed since
    jobs = str(len(os.sched_getaffinity(0)))
    _run(["cmake", "--build", folder, "--target", "program", "--parallel", jobs])
    return folder


def _has_torch_support():
    """Whether the tree has libvramwise-torch."""
    return any((NATIVE / "adapters/torch/support").glob("*.c"))


def _native_files():
    """(name in the wheel, path) of what CMake built, and the headers and sources."""
    build = _built()
    soname_end = ".".join(_version().split(".")[:2])
    for name in LIBRARIES:
        file_name = f"lib{name}.so.{soname_end}"
        if (build / file_name).is_file():
            yield f"{NAME}/_lib/{file_name}", build / file_name
        elif name != "vramwise-torch" or _has_torch_support():
            raise BuildError(f"the build made no {file_name} in {build}")
    for header in sorted((NATIVE / "include/vramwise").glob("*.h")):
        yield f"{NAME}/_include/vramwise/{header.name}", header
    adapter = NATIVE / "adapters/torch"
    for source in sorted(adapter.glob("*.cpp")) + sorted(adapter.rglob("*.h")):
        yield f"{NAME}/_adapter/{source.relative_to(adapter).as_posix()}", source
    made = os.environ.get("VRAMWISE_WHEEL_ADAPTERS")
    for path in sorted(Path(made).iterdir()) if made else ():
        yield f"{NAME}/_adapters/{path.name}", path
    yield _program(), build / "vramwise"
    for page in sorted((build / "man").glob("*.1")):
        yield f"{NAME}-{_version()}.data/data/share/man/man1/{page.name}", page


def _package_files():
    """(name in the wheel, path) of the Python."""
    for path in sorted((HERE / NAME).rglob("*")):
        name = path.relative_to(HERE).as_posix()
        if path.is_file() and "__pycache__" not in name and \
                not name.startswith(tuple(f"{NAME}/{part}/" for part in
                                          ("_lib", "_include", "_adapter", "_adapters"))):
            yield name, path


class _Wheel:
    """A wheel as it is written; remembers what RECORD must say."""

    def __init__(self, folder):
        self.name = f"{NAME}-{_version()}-{_tag()}.whl"
        self._zip = zipfile.ZipFile(Path(folder) / self.name, "w", zipfile.ZIP_DEFLATED)
        self._record = []
        self._info = f"{NAME}-{_version()}.dist-info"

    def add(self, name, content, is_program=False):
        """One file."""
        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        entry.external_attr = (0o100755 if is_program else 0o100644) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self._zip.writestr(entry, content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self._record.append(f"{name},sha256={digest},{len(content)}\n")

    def end(self):
        """The metadata, RECORD last."""
        for name, content in _info_files():
            self.add(f"{self._info}/{name}", content)
        record = f"{self._info}/RECORD"
        self.add(record, ("".join(self._record) + f"{record},,\n").encode())
        self._zip.close()


def _info_files():
    """What *.dist-info holds besides RECORD."""
    licences = os.environ.get("VRAMWISE_WHEEL_LICENSES")
    return [("METADATA", _metadata().encode()), ("WHEEL", _wheel_file().encode()),
            ("entry_points.txt", ENTRY_POINTS.encode()),
            ("LICENSE", (NATIVE / "LICENSE").read_bytes()),
            ("THIRD_PARTY", (NATIVE / "THIRD_PARTY").read_bytes()),
            *((f"licenses/{path.name}", path.read_bytes())
              for path in (sorted(Path(licences).iterdir()) if licences else ()))]


def _write_wheel(folder, files):
    if not sys.platform.startswith("linux"):
        raise BuildError(f"vramwise runs on Linux, and this is {sys.platform}")
    files = list(files)  # what fails, fails before there is half a wheel
    wheel = _Wheel(folder)
    for name, source in files:
        content = source if isinstance(source, bytes) else source.read_bytes()
        wheel.add(name, content, is_program="/scripts/" in name or "/_lib/" in name)
    wheel.end()
    return wheel.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517."""
    files = [*_package_files(), *_native_files()]
    return _write_wheel(wheel_directory, files)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 660: the package is used from the checkout, and the libraries from where they are built,
    which has to be ../build; so is the program, which finds what it needs from there."""
    program = shlex.quote(str(_built() / "vramwise"))
    return _write_wheel(wheel_directory, [
        (f"__editable__.{NAME}.pth", f"{HERE}\n".encode()),
        (_program(), f'#!/bin/sh\nexec {program} "$@"\n'.encode())])


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """PEP 517: so that pip can ask without building."""
    info = f"{NAME}-{_version()}.dist-info"
    folder = Path(metadata_directory) / info
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in _info_files():
        (folder / name).write_bytes(content)
    return info


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def get_requires_for_build_wheel(config_settings=None):
    """Nothing."""
    return []


get_requires_for_build_editable = get_requires_for_build_sdist = get_requires_for_build_wheel


def build_sdist(sdist_directory, config_settings=None):
    """PEP 517: the Python and the C tree, from which a wheel can be built anywhere."""
    stem = f"{NAME}-{_version()}"

    def plain(entry):
        if "__pycache__" in entry.name:
            return None
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = ""
        entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        return entry

    file_name = f"{stem}.tar.gz"
    with open(Path(sdist_directory) / file_name, "wb") as file, \
            gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, path in [("pyproject.toml", HERE / "pyproject.toml"),
                           ("README.md", HERE / "README.md"),
                           ("build_backend.py", HERE / "build_backend.py"),
                           ("LICENSE", NATIVE / "LICENSE"), ("THIRD_PARTY", NATIVE / "THIRD_PARTY"),
                           *_package_files()]:
            tar.add(path, f"{stem}/{name}", recursive=False, filter=plain)
        for part in NATIVE_PARTS:
            tar.add(NATIVE / part, f"{stem}/native/{part}", filter=plain)
        content = _metadata().encode()
        entry = tarfile.TarInfo(f"{stem}/PKG-INFO")
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    return file_name
