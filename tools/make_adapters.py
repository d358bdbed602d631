#!/usr/bin/env python3
"""make_adapters.py HEADERS OUTPUT - compiles the adapter for every version of PyTorch in HEADERS.

HEADERS has a folder VERSION/include for each, as a checkout of PyTorch or its wheel has them; OUTPUT
gets the adapters and adapters.json, which says what each was compiled against. PyTorch's libraries
are not needed: the adapter is linked with empty ones of the same names, and finds the real ones in
the process that loads it.

  --libraries DIR   where libvramwise and libvramwise-torch are
  --cuda DIR        CUDA's headers; of which CUDA does not matter, as only types that never changed
                    are used
  --hip DIR         with --check: HIP's headers; the adapter is compiled for ROCm too, against the same
                    folders with ROCm's names in them (hipify_headers.py), from PyTorch 2.11 on
  --compiler CXX    g++ if not said
  --rpath PATH      where an adapter finds our libraries
  --only V[,V...]   these versions
  --check           compile only, with every warning as an error, and look at the table of virtual
                    functions; nothing is written
"""
import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))
import hipify_headers  # noqa: E402
from vramwise.torch import _compile, _interface  # noqa: E402

SOURCES = ROOT / "adapters" / "torch"
TORCH_LIBRARIES = ("c10", "c10_cuda", "torch_cpu", "torch_cuda", "torch")
OLDEST = (2, 5)
OLDEST_ON_ROCM = (2, 11)  # before, hipify renamed PyTorch's classes as well
LAST_RELEASE = (2, 11)  # later folders of headers were taken on the way to a release
# pip's builds for CUDA had the old ABI up to 2.6; from 2.7 on all have the new one.
LAST_WITH_OLD_ABI = (2, 6)

# What PyTorch's own class may do for us.
LEFT_TO_PYTORCH = {
    "is_simple_data_ptr": "asks whether data and context of a pointer are the same, which they are",
    "recordStream": "takes any Stream, and calls ours with a CUDAStream",
    "getMemoryInfo": "asks the CUDA runtime",
    "markCaptureBegin": "the pool asks the driver whether a stream is being captured",
    "markCaptureEnd": "see markCaptureBegin",
}


class Failed(Exception):
    """What went wrong, as the compiler says it."""


def version_of(name):
    match = re.fullmatch(r"(\d+)\.(\d+)", name)
    return tuple(map(int, match.groups())) if match else None


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def compile_flags(include, version, abi, cuda):
    standard = "c++20" if version >= (2, 13) else "c++17"  # PyTorch's own policy
    theirs = [include, include / "torch" / "csrc" / "api" / "include", cuda]
    ours = [SOURCES, SOURCES / "support", ROOT / "include"]
    return [f"-std={standard}", f"-D_GLIBCXX_USE_CXX11_ABI={abi}",
            *(f"-I{folder}" for folder in ours),
            *(word for folder in theirs for word in ("-isystem", str(folder)))]


def left_to_pytorch(compiler, flags, folder):
    """The virtual functions that the adapter does not override."""
    unit, dump = folder / "table.cpp", folder / "table.class"
    unit.write_text('#include "adapter.h"\n')
    run([compiler, *flags, "-fsyntax-only", f"-fdump-lang-class={dump}", str(unit)])
    table = re.search(r"^Vtable for vramwise_torch::Adapter\n(.*?)\n\n", dump.read_text(),
                      re.DOTALL | re.MULTILINE)
    if table is None:
        raise Failed("the compiler shows no table of the adapter's virtual functions")
    entries = re.findall(r"\(int \(\*\)\(\.\.\.\)\)([\w:~]+)", table.group(1))[1:]
    return [entry.rsplit("::", 1)[-1] for entry in entries
            if not entry.startswith("vramwise_torch::Adapter::")]


def check(compiler, flags, pool):
    """With every warning, and the table."""
    strict = [*flags, "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]
    with tempfile.TemporaryDirectory() as folder:
        for done in [pool.submit(run, [compiler, *strict, str(source)])
                     for source in sorted(SOURCES.glob("*.cpp"))]:
            done.result()
        left = left_to_pytorch(compiler, flags, Path(folder))
    strange = [name for name in left if name not in LEFT_TO_PYTORCH]
    if strange:
        raise Failed(f"PyTorch's own function stays where the adapter's should be: {', '.join(strange)}")
    return left


def check_all(arguments, include, version, pool):
    """For CUDA and, where its headers are, for ROCm."""
    name = ".".join(map(str, version))
    flags = compile_flags(include, version, 1, arguments.cuda)
    left = check(arguments.compiler, flags, pool)
    print(f"adapter: PyTorch {name}: compiles; left to PyTorch: {', '.join(left)}", flush=True)
    if arguments.hip is None or version < OLDEST_ON_ROCM:
        return
    with tempfile.TemporaryDirectory() as folder:
        hipify_headers.hipify_tree(include, Path(folder))
        flags = compile_flags(Path(folder), version, 1, arguments.hip)
        check(arguments.compiler, [*flags, *_compile.rocm_flags("7.0")], pool)
    print(f"adapter: PyTorch {name} for ROCm: compiles", flush=True)


def make_stubs(compiler, folder):
    folder.mkdir()
    empty = folder / "empty.cpp"
    empty.write_text("")
    for name in TORCH_LIBRARIES:
        run([compiler, "-shared", f"-Wl,-soname,lib{name}.so", "-o", str(folder / f"lib{name}.so"),
             str(empty)])


def build(arguments, include, version, abi, pool, scratch):
    """Compiles, links and describes one adapter."""
    compiler = arguments.compiler
    name = ".".join(map(str, version))
    folder = scratch / f"{name}-{abi}"
    folder.mkdir()
    flags = [*compile_flags(include, version, abi, arguments.cuda), "-O2", "-g0", "-fPIC",
             "-fvisibility=hidden", "-fstack-protector-strong", "-D_FORTIFY_SOURCE=2"]
    sources = sorted(SOURCES.glob("*.cpp"))
    objects = [folder / (source.stem + ".o") for source in sources]
    for done in [pool.submit(run, [compiler, *flags, "-c", str(source), "-o", str(made)])
                 for source, made in zip(sources, objects)]:
        done.result()
    file = arguments.output / f"adapter-{name}-abi{abi}.so"
    run([compiler, "-shared", "-o", str(file), *map(str, objects), f"-L{scratch / 'stubs'}",
         "-Wl,--no-as-needed", *(f"-l{library}" for library in TORCH_LIBRARIES), "-Wl,--as-needed",
         *(str(next(arguments.libraries.glob(f"lib{library}.so.*.*[0-9]")))
           for library in ("vramwise", "vramwise-torch")),
         f"-Wl,-rpath,{arguments.rpath}", "-Wl,-z,relro", "-Wl,-z,now"])
    methods = _interface.methods(file, _interface.ADAPTER)
    run(["strip", "--strip-unneeded", str(file)])
    text = next(path for path in (include / "torch/headeronly/version.h",
                                  include / "torch/csrc/api/include/torch/version.h")
                if path.is_file()).read_text()
    numbers = [re.search(rf"#define TORCH_VERSION_{part} (\d+)", text) for part in
               ("MAJOR", "MINOR", "PATCH")]
    release = ".".join(match.group(1) for match in numbers) if all(numbers) else name + ".0"
    return {"file": file.name, "torch": release, "cxx11_abi": bool(abi),
            "is_of_release": version <= LAST_RELEASE, "methods": methods,
            "headers": _interface.header_digest(include)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("headers", type=Path)
    parser.add_argument("output", type=Path, nargs="?")
    parser.add_argument("--libraries", type=Path, default=ROOT / "build")
    parser.add_argument("--cuda", type=Path, default=Path("/usr/local/cuda/include"))
    parser.add_argument("--hip", type=Path)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--rpath", default="$ORIGIN/../_lib")
    parser.add_argument("--only", default="")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if not (arguments.cuda / "cuda_runtime_api.h").is_file():
        sys.exit(f"adapters: {arguments.cuda} has no cuda_runtime_api.h")
    if arguments.hip is not None and not (arguments.hip / _compile.HIP_HEADER).is_file():
        sys.exit(f"adapters: {arguments.hip} has no {_compile.HIP_HEADER}")
    wanted = [version_of(word) for word in arguments.only.split(",") if word]
    versions = sorted(version for version in (version_of(path.name)
                                              for path in arguments.headers.iterdir())
                      if version is not None and version >= OLDEST
                      and (not wanted or version in wanted))
    if not versions or (wanted and len(versions) != len(set(wanted))):
        sys.exit(f"adapters: {arguments.headers} does not have the headers of "
                 f"{arguments.only or 'any version'}")
    jobs = int(os.environ.get("JOBS", len(os.sched_getaffinity(0))))
    try:
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool, \
                tempfile.TemporaryDirectory() as scratch:
            if arguments.check:
                for version in versions:
                    include = arguments.headers / ".".join(map(str, version)) / "include"
                    check_all(arguments, include, version, pool)
                return
            arguments.output.mkdir(parents=True, exist_ok=True)
            make_stubs(arguments.compiler, Path(scratch) / "stubs")
            made = []
            for version in versions:
                include = arguments.headers / ".".join(map(str, version)) / "include"
                for abi in ((0, 1) if version <= LAST_WITH_OLD_ABI else (1,)):
                    made.append(build(arguments, include, version, abi, pool, Path(scratch)))
                    print(f"adapter: {made[-1]['file']}", flush=True)
            index = arguments.output / "adapters.json"
            index.write_text(json.dumps({"adapters": made}, indent=1) + "\n")
    except Failed as error:
        sys.exit(f"adapters: {error}")


if __name__ == "__main__":
    main()
