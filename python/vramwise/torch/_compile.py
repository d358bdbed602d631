"""_compile.py - from the adapter's C++ to a library that this PyTorch can load.

PyTorch's C++ has no stable binary interface. Where no adapter of the wheel fits (_prebuilt.py), it is
compiled on the user's machine against the headers of the torch that is imported, with a plain C++
compiler: no nvcc, no ninja, no torch.utils.cpp_extension (which costs a second to import). What was compiled is kept under a name made
of everything it depends on. The compiler stands apart in that name: where none is left (a compute node
that shares its home with the machine that compiled), what another compiler made will do.

For ROCm it is the same source and the same compiler: no hipcc (torch_headers.h has the names). Untested
on hardware.
"""
from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, List, Optional, Sequence, Tuple

from .. import _files, _paths
from . import _cache
from ._cache import Beat
from ._say import say

_LIBRARIES = ("c10", "c10_cuda", "torch_cpu", "torch_cuda", "torch")
_ROCM_LIBRARIES = ("c10", "c10_hip", "torch_cpu", "torch_hip", "torch")
_CUDA_HEADERS = ("cuda_runtime_api.h", "cuda.h", "crt/host_defines.h", "crt/host_config.h")
HIP_HEADER = "hip/hip_runtime_api.h"
_TORCH_HEADER = "c10/cuda/CUDACachingAllocator.h"
_ROCM_TORCH_HEADER = "c10/hip/HIPCachingAllocator.h"
_TIME_LIMIT_SECONDS = 600.0
_BUILDING = "building-"


class BuildError(Exception):
    """The adapter cannot be had; the text says what is missing, in one line."""


@dataclass(frozen=True)
class Torch:
    """What compiling needs to know of the torch that is imported."""
    version: str
    git_version: str
    cuda_version: str
    cxx11_abi: bool
    folder: Path
    hip_version: Optional[str] = None  # of ROCm; None: it is for CUDA

    @staticmethod
    def of(module: Any) -> "Torch":
        """Of the module."""
        return Torch(version=str(module.__version__),
                     git_version=str(getattr(module.version, "git_version", None)),
                     cuda_version=str(module.version.cuda),
                     cxx11_abi=bool(module.compiled_with_cxx11_abi()),
                     folder=Path(module.__file__).resolve().parent,
                     hip_version=hip_version_of(module))


def hip_version_of(module: Any) -> Optional[str]:
    """"7.0.51831" of a torch for ROCm; None of any other."""
    version = getattr(module.version, "hip", None)
    return str(version) if version else None


def release_of(version: str) -> str:
    """"2.11.0" of "2.11.0+cu130" or "2.11.0a0+git1234"."""
    match = re.match(r"\d+(\.\d+)*", version)
    return match.group(0) if match else version


def find_compiler() -> List[str]:
    """The command: CXX, which may have arguments, or the first of the usual names."""
    told = os.environ.get("CXX")
    if told:
        words = shlex.split(told)
        if words and shutil.which(words[0]):
            return words
        raise BuildError(f"there is no C++ compiler {told!r}, which CXX names")
    for name in ("g++", "c++", "clang++"):  # only g++ makes PyTorch's settings hook work up to 2.12
        if shutil.which(name):
            return [name]
    raise BuildError("there is no C++ compiler (CXX is not set; g++, c++, clang++ are not in PATH)")


def _compiler_identity(compiler: Sequence[str]) -> str:
    try:
        answer = subprocess.run([*compiler, "--version"], stdin=subprocess.DEVNULL,
                                capture_output=True, timeout=60, check=True, text=True,
                                errors="replace", env={**os.environ, "LC_ALL": "C"})
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildError(f"the C++ compiler {shlex.join(compiler)} does not run: {error}") from None
    return f"{shlex.join(compiler)} {answer.stdout.strip()}"


def _cuda_folders(torch: Torch) -> List[Path]:
    """Where CUDA's headers may be: where the user says, where the wheels beside torch put them,
    where the toolkit goes."""
    folders = [Path(os.environ[name]) / "include" for name in ("CUDA_HOME", "CUDA_PATH")
               if os.environ.get(name)]
    packages = torch.folder.parent
    major = torch.cuda_version.split(".")[0]
    beside = [packages / "nvidia" / f"cu{major}" / "include",
              packages / "nvidia" / "cuda_runtime" / "include"]
    beside += [Path(name) for name in sorted(glob.glob(f"{packages}/nvidia/*/include"))]
    beside.append(packages / "triton" / "backends" / "nvidia" / "include")
    folders += beside
    nvcc = shutil.which("nvcc")
    if nvcc:
        folders.append(Path(nvcc).resolve().parent.parent / "include")
    folders += [Path(f"/usr/local/cuda-{torch.cuda_version}/include"),
                Path("/usr/local/cuda/include"), Path("/usr/include")]
    return list(dict.fromkeys(folders))


def _cuda_major(folder: Path) -> Optional[str]:
    """Of which CUDA the runtime's header is; None: it does not say."""
    try:
        text = (folder / "cuda_runtime_api.h").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(r"#define\s+CUDART_VERSION\s+(\d+)", text)
    return str(int(match.group(1)) // 1000) if match else None


def find_cuda_headers(torch: Torch) -> List[Path]:
    """The folders that together have what is needed; one where one has it all."""
    major = torch.cuda_version.split(".")[0]
    folders = [folder for folder in _cuda_folders(torch) if folder.is_dir()]
    found: List[Path] = []
    other_major = None
    for header in _CUDA_HEADERS:
        for folder in found + folders:
            if not (folder / header).is_file():
                continue
            if header == "cuda_runtime_api.h" and _cuda_major(folder) not in (None, major):
                other_major = f"{folder} is of CUDA {_cuda_major(folder)}"
                continue
            found.append(folder)
            break
        else:
            wheel = "nvidia-cuda-crt" if header.startswith("crt/") else "nvidia-cuda-runtime"
            raise BuildError(
                f"CUDA's header {header} is missing"
                + (f" ({other_major}, PyTorch of {torch.cuda_version})" if other_major else "")
                + f": set CUDA_HOME to a CUDA {major} toolkit, or pip install {wheel}")
    # The compiler knows /usr/include; naming it would put it before its own.
    return [folder for folder in dict.fromkeys(found) if folder != Path("/usr/include")]


def _hip_folders(torch: Torch) -> List[Path]:
    """Where HIP's headers may be: where the user says, where the wheels beside torch put them, where
    ROCm goes."""
    homes = [Path(os.environ[name]) for name in ("ROCM_HOME", "ROCM_PATH", "HIP_PATH")
             if os.environ.get(name)]
    packages = torch.folder.parent
    homes += [packages / "_rocm_sdk_devel", packages / "_rocm_sdk_core"]
    hipcc = shutil.which("hipcc")
    if hipcc:
        homes.append(Path(hipcc).resolve().parent.parent)
    homes.append(Path("/opt/rocm"))
    return list(dict.fromkeys([home / "include" for home in homes] + [Path("/usr/include")]))


def _hip_major(folder: Path) -> Optional[str]:
    """Of which HIP the headers are; None: they do not say."""
    try:
        text = (folder / "hip" / "hip_version.h").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(r"#define\s+HIP_VERSION_MAJOR\s+(\d+)", text)
    return match.group(1) if match else None


def find_hip_headers(torch: Torch) -> List[Path]:
    """The folder that has them; none where the compiler knows it."""
    major = str(torch.hip_version).split(".", maxsplit=1)[0]
    other_major = None
    for folder in _hip_folders(torch):
        if not (folder / HIP_HEADER).is_file():
            continue
        if _hip_major(folder) in (None, major):
            return [folder] if folder != Path("/usr/include") else []
        other_major = f"{folder} is of HIP {_hip_major(folder)}"
    raise BuildError(f"HIP's header {HIP_HEADER} is missing"
                     + (f" ({other_major}, PyTorch of {torch.hip_version})" if other_major else "")
                     + f": set ROCM_HOME to a ROCm {major}")


def _check_torch_headers(torch: Torch) -> None:
    """BuildError: they are not there, or their allocator is not one that the adapter can be."""
    name = _TORCH_HEADER if torch.hip_version is None else _ROCM_TORCH_HEADER
    header = torch.folder / "include" / name
    if not header.is_file():
        raise BuildError(f"PyTorch's headers are missing: no {name} in {torch.folder / 'include'}")
    if torch.hip_version is not None and not re.search(
            r"\bclass\b[^;{]*\bCUDAAllocator\b", header.read_text(encoding="utf-8", errors="replace")):
        raise BuildError(f"for ROCm the adapter needs PyTorch 2.11 or newer, and this is {torch.version}")


def _library(name: str) -> Path:
    path = _paths.library_file(name)
    if path is None:
        raise BuildError(f"lib{name}.so is missing: "
                         + ", ".join(str(folder) for folder in _paths.library_folders()))
    return path


def _sources() -> List[Path]:
    folder = _paths.adapter_folder()
    sources = sorted(folder.glob("*.cpp"))
    if not sources:
        raise BuildError(f"the adapter's sources are missing: no .cpp in {folder}")
    return sources


@dataclass(frozen=True)
class Plan:
    """How this adapter is compiled, up to the compiler."""
    torch: Torch
    sources: List[Path]
    libraries: List[Path]
    key: str

    @property
    def stem(self) -> str:
        """The first part of the name of what is kept."""
        return f"adapter-{release_of(self.torch.version)}-{self.key}"


def make_plan(torch: Torch) -> Plan:
    """Gathers what the adapter depends on."""
    sources = _sources()
    libraries = [_library("vramwise"), _library("vramwise-torch")]
    digest = hashlib.sha256()
    facts = {"torch": torch.version, "git": torch.git_version, "cuda": torch.cuda_version,
             "hip": torch.hip_version,
             "abi": torch.cxx11_abi, "folder": str(torch.folder),
             "vramwise": _paths.version(), "libraries": [str(path) for path in libraries],
             "flags": _flags(torch)}
    digest.update(json.dumps(facts, sort_keys=True).encode())
    headers = sorted(_paths.adapter_folder().rglob("*.h")) \
        + sorted((_paths.include_folder() / "vramwise").glob("*.h"))
    for path in sources + headers:
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    return Plan(torch, sources, libraries, digest.hexdigest()[:16])


def minor_of(version: str) -> Tuple[int, int]:
    """(2, 11) of "2.11.0+cu130"; (0, 0): it does not begin so."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


def rocm_flags(hip_version: str) -> List[str]:
    """What PyTorch's headers want to know of ROCm; HIP has its first two numbers."""
    major, minor = minor_of(hip_version)
    return ["-DUSE_ROCM=1", "-D__HIP_PLATFORM_AMD__=1", f"-DROCM_VERSION={major * 10000 + minor * 100}",
            f"-DTORCH_HIP_VERSION={major * 100 + minor}"]


def _flags(torch: Torch) -> List[str]:
    standard = "c++20" if minor_of(torch.version) >= (2, 13) else "c++17"  # PyTorch's own policy
    return [f"-std={standard}", "-O2", "-fPIC", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.cxx11_abi)}",
            *(rocm_flags(torch.hip_version) if torch.hip_version is not None else [])]


def _compile_command(plan: Plan, compiler: Sequence[str], runtime: Sequence[Path]) -> List[str]:
    adapter = _paths.adapter_folder()
    ours = [adapter, adapter / "support", _paths.include_folder()]
    include = plan.torch.folder / "include"
    theirs = [include, include / "torch" / "csrc" / "api" / "include", *runtime]
    return [*compiler, *_flags(plan.torch), *(f"-I{folder}" for folder in ours),
            *(word for folder in theirs for word in ("-isystem", str(folder)))]


def _link_command(plan: Plan, compiler: Sequence[str], objects: Sequence[Path],
                  output: Path) -> List[str]:
    libraries = plan.torch.folder / "lib"
    names = _LIBRARIES if plan.torch.hip_version is None else _ROCM_LIBRARIES
    rpaths = dict.fromkeys([str(path.parent) for path in plan.libraries] + [str(libraries)])
    return [*compiler, "-shared", "-o", str(output), *(str(path) for path in objects),
            f"-L{libraries}", *(f"-l{name}" for name in names),
            *(str(path) for path in plan.libraries),
            *(f"-Wl,-rpath,{folder}" for folder in rpaths)]


class _Progress:
    """One line that counts seconds on a terminal; two lines elsewhere."""

    def __init__(self, version: str, quiet: bool) -> None:
        self._text = f"compiling the adapter for torch {version}, once; about 30 s"
        self._quiet = quiet
        self._begin = time.monotonic()
        self._is_live = not quiet and sys.stderr is not None and sys.stderr.isatty()
        self._shown = -1
        if not self._is_live:
            say(self._text, quiet=quiet)
        self.show()

    def show(self) -> None:
        """Now and then."""
        seconds = int(time.monotonic() - self._begin)
        if self._is_live and seconds != self._shown:
            self._shown = seconds
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(f"\rvramwise: {self._text} ... {seconds} s ")
                sys.stderr.flush()

    def end(self, outcome: str) -> None:
        """Once."""
        if self._is_live:
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write("\n")
        say(f"{outcome} after {time.monotonic() - self._begin:.0f} s", quiet=self._quiet)


def _run_all(commands: Sequence[Sequence[str]], log: Path, beat: Beat) -> bool:
    """Runs the commands, as many at a time as there are processors; all they say goes to the log.
    False: one of them failed."""
    waiting: List[Sequence[str]] = list(commands)
    running: List[Any] = []
    deadline = time.monotonic() + _TIME_LIMIT_SECONDS
    at_once = max(1, len(os.sched_getaffinity(0)))
    environment = {**os.environ, "LC_ALL": "C"}
    is_good = True
    with open(log, "ab") as file:
        try:
            while (waiting and is_good) or running:
                while waiting and is_good and len(running) < at_once:
                    command = waiting.pop(0)
                    file.write((shlex.join(command) + "\n").encode())
                    file.flush()
                    running.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file,
                                                    stderr=file, env=environment))
                for process in list(running):
                    if process.poll() is not None:
                        running.remove(process)
                        is_good = is_good and process.returncode == 0
                if time.monotonic() > deadline:
                    file.write(f"not done after {_TIME_LIMIT_SECONDS:.0f} s\n".encode())
                    return False
                beat()
                time.sleep(0.05)
        finally:
            for process in running:
                process.kill()
                process.wait()
    return is_good


def _first_errors(log: Path) -> str:
    """The first lines that say what is wrong, as one. A virtual function that the adapter does not
    know is named: PyTorch is newer than the adapter."""
    text = log.read_text(encoding="utf-8", errors="replace")
    lines = text.splitlines()
    unknown = re.search(r"virtual [^\n]*?\b(\w+)\([^\n]*\) *(?:const *)?= *0", text) \
        if "abstract" in text else None
    if unknown:
        return f"PyTorch's allocator has a function that the adapter does not know: {unknown.group(1)}()"
    errors = [line.strip() for line in lines if re.search(r"error|undefined|cannot find|not done",
                                                          line, re.IGNORECASE)
              and not re.match(r"\S+ (-\S+ )*-std=", line)]
    return " | ".join((errors or lines[-1:] or ["no output"])[:2])


def _build(plan: Plan, compiler: Sequence[str], runtime: Sequence[Path], target: Path, quiet: bool,
           beat: Beat) -> None:
    """Compiles into a folder of its own, and puts the result in its place with one rename."""
    cache = target.parent
    _cache.remove_stale(cache, _BUILDING)
    folder = Path(tempfile.mkdtemp(prefix=_BUILDING, dir=cache))
    log = folder / "log"
    progress = _Progress(release_of(plan.torch.version), quiet)

    def alive() -> None:
        progress.show()
        with contextlib.suppress(OSError):
            beat()

    try:
        _files.create(log)
        start = _compile_command(plan, compiler, runtime)
        objects = [folder / (source.name + ".o") for source in plan.sources]
        commands = [[*start, "-c", str(source), "-o", str(made)]
                    for source, made in zip(plan.sources, objects)]
        made = folder / target.name
        is_good = _run_all(commands, log, alive) and \
            _run_all([_link_command(plan, compiler, objects, made)], log, alive)
        if not is_good or not made.is_file():
            kept = cache / (target.stem + ".log")
            os.replace(log, kept)
            progress.end("compiling failed")
            raise BuildError(f"the adapter does not compile: {_first_errors(kept)} "
                             f"(the whole log: {kept})")
        os.chmod(made, 0o600)
        os.replace(made, target)
        (cache / (target.stem + ".log")).unlink(missing_ok=True)
        progress.end("compiled the adapter")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _made_by_another(cache: Path, plan: Plan) -> Optional[Path]:
    """What another compiler made of the same sources, the newest."""
    made = [path for path in cache.glob(plan.stem + "-*.so") if _cache.is_trusted_file(path)]
    return max(made, key=lambda path: path.stat().st_mtime) if made else None


def adapter(torch: Torch, *, quiet: bool = False, anew: bool = False) -> Path:
    """The compiled adapter for that torch, compiled now if it was not before. `anew`: what is kept
    cannot be loaded; unless another process replaced it meanwhile, it is compiled again.
    BuildError: it cannot be had."""
    plan = make_plan(torch)
    began = time.time()
    try:
        cache = _cache.folder(quiet=quiet)
        try:
            compiler = find_compiler()
            identity = _compiler_identity(compiler)
            runtime = find_cuda_headers(torch) if torch.hip_version is None else \
                find_hip_headers(torch)
            _check_torch_headers(torch)
        except BuildError:
            made = None if anew else _made_by_another(cache, plan)
            if made is None:
                raise
            return made
        identity += " ".join(str(folder) for folder in runtime)
        target = cache / (f"{plan.stem}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}.so")

        def is_there() -> bool:
            return _cache.is_trusted_file(target) and \
                not (anew and target.stat().st_mtime < began)

        if not is_there():
            with _cache.lock(cache / target.stem, quiet=quiet) as beat:
                if not is_there():
                    _build(plan, compiler, runtime, target, quiet, beat)
        return target
    except _cache.CacheError as error:
        raise BuildError(str(error)) from None
    except OSError as error:
        raise BuildError(f"the adapter cannot be kept: {error}") from None
