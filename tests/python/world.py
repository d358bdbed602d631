"""world.py - a machine made up for a test: a torch to import, its headers and libraries, CUDA's
headers, our libraries, an adapter to compile, a home.

Everything is in one temporary folder and reached through environment variables only, so a test runs
a piece of Python in a process of its own, as a user's program would be. VRAMWISE_BUILD says where our
libraries were built.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FAKE = ROOT / "tests" / "support" / "fake_torch"
DATA = ROOT / "tests" / "data"
BUILD = Path(os.environ.get("VRAMWISE_BUILD", ROOT / "build"))

_TORCH_LIBRARIES = ("c10", "c10_cuda", "torch_cpu", "torch_cuda", "torch")


def compiler():
    """The C++ compiler of this machine."""
    return next(name for name in ("g++", "c++", "clang++") if shutil.which(name))


def _write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


class World:
    """One such machine. What compiles slowly is made once and copied."""
    _libraries = None  # a folder with what was compiled
    patience_seconds = 400  # for what hangs: compilers and Python, on a machine that is busy

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="vramwise-test-")
        self.path = Path(self._folder.name)
        self.cache = self.path / "cache" / "vramwise"
        self.site = self.path / "site"
        self.torch = self.site / "torch"
        self.cuda = self.path / "cuda"
        self.adapter = self.path / "adapter"
        self.counted = self.path / "compiled"  # a line for each run of the compiler
        shutil.copytree(FAKE / "torch", self.torch, ignore=shutil.ignore_patterns("__pycache__"))
        _write(self.torch / "include/c10/cuda/CUDACachingAllocator.h",
               "#define FAKE_TORCH_HEADERS 1\n")
        for header in ("cuda.h", "crt/host_defines.h", "crt/host_config.h"):
            _write(self.cuda / "include" / header, "")
        _write(self.cuda / "include/cuda_runtime_api.h", "#define CUDART_VERSION 13000\n")
        self.adapter.mkdir()
        shutil.copy(FAKE / "adapter/fake_adapter.cpp", self.adapter)
        shutil.copy(ROOT / "adapters/torch/vramwise_torch.h", self.adapter)
        shutil.copytree(self._compiled_libraries(), self.path / "lib", symlinks=True)
        (self.torch / "lib").mkdir()
        self.prebuilt = self.path / "prebuilt"
        for name in _TORCH_LIBRARIES:
            os.replace(self.path / "lib" / f"lib{name}.so", self.torch / "lib" / f"lib{name}.so")
        _write(self.path / "bin/counting", f'#!/bin/sh\ncase $* in *-shared*) ;; *--version*) ;; '
               f'*) echo run >> {self.counted} ;; esac\nexec {compiler()} "$@"\n')
        (self.path / "bin/counting").chmod(0o755)
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.path), "LC_ALL": "C.UTF-8",
            "PYTHONPATH": f"{ROOT / 'python'}:{self.site}", "PYTHONDONTWRITEBYTECODE": "1",
            "XDG_CACHE_HOME": str(self.path / "cache"), "TMPDIR": str(self.path),
            "CXX": str(self.path / "bin/counting"), "CUDA_HOME": str(self.cuda),
            "VRAMWISE_LIBRARY_DIR": str(self.path / "lib"),
            "VRAMWISE_ADAPTER_SOURCES": str(self.adapter),
            "VRAMWISE_PREBUILT_DIR": str(self.path / "prebuilt")}

    def become_rocm(self):
        """From now on the torch is for ROCm 7.2, and there is no CUDA."""
        for name in ("c10", "torch"):
            os.replace(self.torch / "lib" / f"lib{name}_cuda.so", self.torch / "lib" / f"lib{name}_hip.so")
        shutil.rmtree(self.torch / "include")
        _write(self.torch / "include/c10/hip/HIPCachingAllocator.h",
               "#define FAKE_TORCH_HEADERS 1\nclass CUDAAllocator {};\n")
        shutil.rmtree(self.cuda)
        self.rocm = self.path / "rocm"
        _write(self.rocm / "include/hip/hip_runtime_api.h", '#include "hip_version.h"\n')
        _write(self.rocm / "include/hip/hip_version.h", "#define HIP_VERSION_MAJOR 7\n")
        del self.environment["CUDA_HOME"]
        self.environment.update(ROCM_HOME=str(self.rocm), FAKE_TORCH_HIP="7.2.53211",
                                FAKE_TORCH_VERSION="2.11.0+rocm7.2")

    @classmethod
    def _compiled_libraries(cls):
        if cls._libraries is None:
            cls._libraries = tempfile.TemporaryDirectory(prefix="vramwise-test-")
            folder = Path(cls._libraries.name)
            for library in BUILD.glob("libvramwise*.so.*.*"):
                if library.name.count(".") == 3 and "-torch" not in library.name:
                    os.symlink(library.resolve(), folder / library.name)
            version = next(folder.glob("libvramwise.so.*")).name.split(".so.")[1]
            command = [compiler(), "-x", "c", "-shared", "-fPIC"]
            subprocess.run([*command, str(FAKE / "adapter/fake_support.c"), "-o",
                            str(folder / f"libvramwise-torch.so.{version}"),
                            f"-Wl,-soname,libvramwise-torch.so.{version}"], check=True)
            subprocess.run([*command, "/dev/null", "-o", str(folder / "libc10.so")], check=True)
            for name in _TORCH_LIBRARIES[1:]:
                shutil.copy(folder / "libc10.so", folder / f"lib{name}.so")
        return cls._libraries.name

    def close(self):
        """Takes it all away."""
        self._folder.cleanup()

    def start(self, code, **environment):
        """Starts a Python that runs the code; None takes a variable away."""
        variables = {**self.environment, **environment}
        variables = {name: value for name, value in variables.items() if value is not None}
        return subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], env=variables,
                                cwd=self.path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def run(self, code, **environment):
        """Runs it; what it wrote to standard output and to standard error."""
        process = self.start(code, **environment)
        try:
            output, errors = process.communicate(timeout=self.patience_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        if process.returncode != 0:
            raise AssertionError(f"status {process.returncode}\n{output}{errors}")
        return output.strip(), errors.strip()

    def compilations(self):
        """How often something was compiled."""
        return len(self.counted.read_text().splitlines()) if self.counted.exists() else 0

    def adapters(self):
        """The adapters that are kept."""
        return sorted(self.cache.glob("adapter-*.so"))
