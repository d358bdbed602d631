"""run_pytorch_tests.py - PyTorch's own tests of its memory, under each allocator.

    python3 run_pytorch_tests.py --tests FOLDER [--together] [--limit SECONDS] [-k WORD] [ALLOCATOR...]

FOLDER has files of PyTorch's test folder (test_cuda.py; test_multiprocessing.py and
test_cudagraph_trees.py where they are wanted). They are not ours and not in this repository; those
of a version near the installed one will do: what they import and this torch lacks is replaced by
something that does nothing, and a test that fails under `pytorch` as well is told apart.

The tests that concern memory are chosen by name, a group of them to a process; the groups of one
allocator run side by side. With --together the groups of a file share one process, and no other
runs beside it: a test then finds what the tests before it have left. Those that would take minutes, or the whole card, are left out for all.
"""
import argparse
import ast
import contextlib
import glob
import hashlib
import importlib
import os
import re
import subprocess
import sys
import tempfile
import time
import types
import unittest
from pathlib import Path

import under
from check_allocator import Group, Lines, run_groups, summary

# What is run, by file: name of a group, classes, names that are wanted.
MEMORY = (r"memory|oom|snapshot|graph|mempool|alloc|caching|stream|ipc|pinned|fraction|split|"
          r"garbage|record|event|host|pool|checkpoint|cycles|lazy_init|cublas_workspace|out_of|"
          r"non_blocking|multiple_threads|settings|backend|rng")
GROUPS = (
    ("cuda", "test_cuda", r"TestCuda$", r"test_(?!graph|cuda_graph|multiple)", MEMORY),
    ("cuda graphs", "test_cuda", r"TestCuda$", r"test_(graph|cuda_graph|multiple)", MEMORY),
    ("allocator", "test_cuda", r"TestCudaAllocator|TestCudaMallocAsync", "", ""),
    ("absorption", "test_cuda", r"TestBlockStateAbsorption|TestCudaDevice|TestFXMemory", "", ""),
    ("pools", "test_cuda", r"TestMemPool", "", ""),
    ("host", "test_cuda", r"TestCachingHost", "", ""),
    ("ipc", "test_multiprocessing", r"TestMultiprocessing", "cuda|event", ""),
    ("trees a", "test_cudagraph_trees", r"CudaGraphTreeTests", r"test_[a-b]", "@trees"),
    ("trees b", "test_cudagraph_trees", r"CudaGraphTreeTests", r"test_[c-f]", "@trees"),
    ("trees c", "test_cudagraph_trees", r"CudaGraphTreeTests", r"test_[g-z]", "@trees"),
)
TREES = (r"accumulate|alias|checkpoint|cleanup|constant_output|conv_benchmark|dies|end_recording|"
         r"execution_into|expanded|forward_backward$|index_put$|live_outputs|livenes|"
         r"longer_in_pool|multinomial|empty_storage|rerecording|rng_trees|run_simple|"
         r"separate_recordings|side_stream_memory|single_stream|storage_access|warmup_stream|"
         r"workspace_allocation|dealloc_use|mark_step")
# Too slow, too large, several GPUs, or other machines; left out whatever the allocator.
LEFT_OUT = (r"large_tensor|loop_overflow|uuid|gds|rocm|hip|amdsmi|send_many|multigpu|multi_gpu|"
            r"multi_device|nccl|optims|resnet|prod_large|cpp_memory_snapshot_pickle|randint|"
            r"multinomial_|nvml|temperature|power_draw|clock_speed|graph_optims|"
            r"scaling_fused|ipc_deadlock|bad_call|jetson|no_triton_on_import|"
            r"make_graphed_callables_with_amp|index_out_of_bounds|cuda_assert")

# What our own engine answers otherwise, and why; in one process, or by groups.
EXPLAINED = {
    "test_allocate_in_thread_to_pool":
        "expects 4 segments; blocks of one pool share a range, as in expandable segments, for "
        "which the test itself expects the 2 that it gets",
    "test_graph_memory_stats_and_use_result_after_destroy_graph":
        "expects segments of 2 and 20 MiB, and as many reserved bytes; pages are taken instead",
    "test_allocator_settings":
        "expects roundup_power2_divisions to enlarge blocks; the engine has no use for it, since "
        "a free page serves a block of any size",
    "test_mempool_no_split":
        "expects more segments from a pool whose segments are not split; a page is not split",
    "test_nested_mempool": "expects a segment for each block of 20 MiB; they share a range",
}


class Nothing:
    """Stands for what the installed torch does not have: a decorator, a context, a class."""

    def __new__(cls, *arguments, **names):
        if len(arguments) == 1 and isinstance(arguments[0], types.FunctionType):
            return arguments[0]  # a decorator without arguments
        return super().__new__(cls)

    def __init__(self, *arguments, **names) -> None:
        pass

    def __call__(self, *arguments, **names):
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else Nothing()

    def __enter__(self):
        return self

    def __exit__(self, *arguments) -> None:
        pass


def stand_in(name: str, **contents) -> None:
    """A module, where it is not installed."""
    try:
        importlib.import_module(name)
    except ImportError:
        module = types.ModuleType(name)
        module.__dict__.update(contents)
        sys.modules[name] = module
        parent, _, last = name.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], last, module)


class ExpectTestCase(unittest.TestCase):
    longMessage = True

    def assertExpectedInline(self, actual, expected, skip: int = 0) -> None:
        self.assertMultiLineEqual(str(expected), str(actual))


def fill_in(path: Path) -> None:
    """Gives torch what the file imports and it has not: False for a constant, else Nothing."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("torch."):
            continue
        stand_in(node.module)
        module = sys.modules[node.module]
        for alias in node.names:
            if hasattr(module, alias.name):
                continue
            with contextlib.suppress(ImportError):
                importlib.import_module(f"{node.module}.{alias.name}")
                continue
            print(f"# not in this torch: {node.module}.{alias.name}", flush=True)
            setattr(module, alias.name,
                    False if alias.name.isupper() else type(alias.name, (Nothing,), {}))


def loaded_library(name: str) -> str:
    """The path of a library this process has loaded."""
    with open("/proc/self/maps", encoding="utf-8") as file:
        for line in file:
            if name in line:
                return line.split()[-1]
    raise RuntimeError(f"{name} is not loaded")


def cuda_headers() -> str:
    places = [os.environ.get("CUDA_HOME", "") + "/include", "/usr/local/cuda/include"]
    for path in sys.path:
        places += glob.glob(os.path.join(path, "nvidia", "*", "include"))
    for place in places:
        if os.path.exists(os.path.join(place, "cuda_runtime_api.h")):
            return place
    raise RuntimeError("no cuda_runtime_api.h in CUDA_HOME, /usr/local/cuda or the nvidia wheels")


def quick_load_inline(original):
    """torch.utils.cpp_extension.load_inline without ninja, and without the half minute that
    <torch/extension.h> takes to compile; for plain libraries. The memory is the card's own."""
    import torch

    def load_inline(name, cpp_sources, *arguments, is_python_module=True, **names):
        if is_python_module:
            return original(name, cpp_sources, *arguments, is_python_module=True, **names)
        source = cpp_sources if isinstance(cpp_sources, str) else "\n".join(cpp_sources)
        source = source.replace("<torch/extension.h>", "<c10/cuda/CUDAException.h>")
        source = source.replace("#include <ATen/cuda/Exceptions.h>", "")
        source = source.replace("cudaMallocManaged", "cudaMalloc")
        folder = os.path.join(tempfile.gettempdir(), "vramwise_pytorch_tests")
        os.makedirs(folder, exist_ok=True)
        key = hashlib.sha256(source.encode()).hexdigest()[:16]
        library = os.path.join(folder, f"{name}_{key}.so")
        if not os.path.exists(library):
            text = f"{library}.{os.getpid()}.cpp"
            Path(text).write_text(source, encoding="utf-8")
            base, runtime = torch.__path__[0], loaded_library("libcudart.so")
            subprocess.run(
                ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", text, "-o", text + ".so",
                 f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
                 f"-I{base}/include", f"-I{cuda_headers()}", f"-L{base}/lib", "-lc10", "-lc10_cuda",
                 runtime], check=True, capture_output=True, text=True)
            os.replace(text + ".so", library)
        return library

    return load_inline


def prepare(folder: str):
    """torch with the allocator, and everything the tests import. In a started process as well."""
    torch = under.enter_again()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    stand_in("expecttest", TestCase=ExpectTestCase, ACCEPT=False)
    stand_in("psutil", disk_partitions=lambda: [])
    # From here on nothing may be read from our own command line.
    sys.argv = sys.argv[:1]
    import torch.utils.cpp_extension as cpp_extension

    cpp_extension.load_inline = quick_load_inline(cpp_extension.load_inline)
    for name in ("test_cuda", "test_multiprocessing", "test_cudagraph_trees"):
        path = Path(folder) / f"{name}.py"
        if path.exists() and name == os.environ.get("VRAMWISE_TEST_FILE", name):
            fill_in(path)
    return torch


def child(folder: str, label: str, word: str, done: list) -> None:
    """The tests of a group, or of all groups of the file `label`."""
    groups = [group for group in GROUPS if label in (group[0], group[1])]
    file = groups[0][1]
    os.environ["VRAMWISE_TEST_FILE"] = file
    prepare(folder)
    module = importlib.import_module(file)
    result = Lines()
    result.failfast = False
    for _, _, classes, first, second in groups:
        wanted = TREES if second == "@trees" else second
        for class_name, found in sorted(vars(module).items()):
            if not (isinstance(found, type) and issubclass(found, unittest.TestCase)
                    and re.search(classes, class_name)):
                continue
            names = [name for name in unittest.defaultTestLoader.getTestCaseNames(found)
                     if f"{class_name}.{name}" not in done and re.search(first, name)
                     and re.search(wanted, name) and not re.search(LEFT_OUT, name)
                     and word in f"{class_name}.{name}"]
            unittest.TestSuite(found(name) for name in names).run(result)
            if result.shouldStop:  # the device is lost to this process
                print("@restart", flush=True)
                os._exit(1)
    print("@finished", flush=True)
    os._exit(0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("allocators", nargs="*")
    parser.add_argument("--tests", required=True)
    parser.add_argument("-k", dest="word", default="")
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--limit", type=float, default=45.0)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--done", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    folder = str(Path(arguments.tests).resolve())
    if arguments.child:
        child(folder, arguments.child, arguments.word, arguments.done.split(","))
    column = 1 if arguments.together else 0
    labels = list(dict.fromkeys(g[column] for g in GROUPS
                                if (Path(folder) / f"{g[1]}.py").exists()))
    if not labels:
        print(f"expected test_cuda.py in {folder}, and there is none")
        return 2
    os.environ["VRAMWISE_TEST_FOLDER"] = folder
    results: dict = {}
    rows: list = []
    for allocator in arguments.allocators or ["pytorch", "torch", "vramwise"]:
        begin = time.perf_counter()
        runs = [Group(label, [__file__, "--tests", folder, "--child", label, "-k", arguments.word],
                      allocator, arguments.limit) for label in labels]
        run_groups(runs, begin, results, rows, is_one_by_one=arguments.together)
    status = summary(results, rows, {name: EXPLAINED for name in results
                                     if name.startswith("vramwise")})
    control = results.get("pytorch", {})
    for allocator, found in results.items():
        others = [f"{name} ({control[name][0]} there, {what} here)"
                  for name, (what, _) in sorted(found.items())
                  if control.get(name, (what,))[0] != what and what != "FAIL"]
        missing = sorted(set(control) - set(found))
        for text in others + [f"{name} did not run" for name in missing]:
            print(f"differs    {allocator:16} {text}")
    return status


if __name__ == "__mp_main__":  # a process that a test has started
    prepare(os.environ["VRAMWISE_TEST_FOLDER"])
if __name__ == "__main__":
    sys.exit(main())
