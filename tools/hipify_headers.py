#!/usr/bin/env python3
"""hipify_headers.py FROM TO - PyTorch's headers for CUDA, as its build for ROCm has them from 2.11 on.

PyTorch's own torch/utils/hipify replaces some thousand names; this one those that its allocator's
headers use, which are few and regular. So the adapter can be compiled for ROCm where there are
headers for CUDA only: the folders of `make check-adapter`, and the stand-ins of the tests.
"""
import argparse
import re
import sys
from pathlib import Path

# Files that PyTorch's build gives another name. The rest it changes where it is.
RENAMED = re.compile(r"c10/cuda/((?:\w+/)*)(\w+\.\w+)")
COMMON = re.compile(r"c10/(?!cuda/)")  # of every device: not changed
INCLUDES = {
    "cuda.h": "hip/hip_runtime.h",
    "cuda_bf16.h": "hip/hip_bf16.h",
    "cuda_fp16.h": "hip/hip_fp16.h",
    "cuda_runtime.h": "hip/hip_runtime.h",
    "cuda_runtime_api.h": "hip/hip_runtime_api.h",
}
WORDS = {
    "CUDA_VERSION": "TORCH_HIP_VERSION",
    "USE_CUDA": "USE_ROCM",
    "__CUDACC__": "__HIPCC__",
    "__nv_bfloat16": "__hip_bfloat16",
    "__nv_bfloat162": "__hip_bfloat162",
}


def hip_path(path):
    """Where the header is that was at `path`, "c10/cuda/CUDAGuard.h" for one."""
    return RENAMED.sub(lambda match: f"c10/hip/{match[1]}"
                       + match[2].replace("CUDA", "HIP").replace("cuda", "hip"), path)


def hipified(text):
    """The text of a header."""
    text = re.sub(r'(#\s*include\s*[<"])([^>"]+)',
                  lambda match: match[1] + INCLUDES.get(match[2], hip_path(match[2])), text)
    text = re.sub(r"\b(?:" + "|".join(WORDS) + r")\b", lambda match: WORDS[match[0]], text)
    return re.sub(r"\bcuda(?=[A-Z])", "hip", text)  # all that is the runtime's


def hipify_tree(source, target):
    """Every file of the folder `source`; those that are there already and right stay untouched."""
    if not source.is_dir():
        raise NotADirectoryError(f"{source} is not a folder")
    for path in sorted(source.rglob("*")):
        if not path.is_file():
            continue
        name = path.relative_to(source).as_posix()
        made = target / INCLUDES.get(name, hip_path(name))
        text = path.read_text(encoding="utf-8")
        if not COMMON.match(name):
            text = hipified(text)
        made.parent.mkdir(parents=True, exist_ok=True)
        if not made.is_file() or made.read_text(encoding="utf-8") != text:
            made.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, metavar="FROM")
    parser.add_argument("target", type=Path, metavar="TO")
    arguments = parser.parse_args()
    try:
        hipify_tree(arguments.source, arguments.target)
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f"hipify: {error}")


if __name__ == "__main__":
    main()
