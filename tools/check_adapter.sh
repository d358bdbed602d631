#!/usr/bin/env bash
# check_adapter.sh TORCH_INCLUDE CUDA_INCLUDE - compiles the adapter against PyTorch's real headers.
#
# CI has no PyTorch and compiles it against stand-ins (tests/support/c10_stand_in). This is for a
# machine that has the headers: with every warning that is ours to avoid, as errors. Headers of
# theirs are system headers here, and may warn as they like.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -ne 2 ]; then
    echo "usage: tools/check_adapter.sh TORCH_INCLUDE CUDA_INCLUDE" >&2
    exit 2
fi
cxx=${CXX:-$(command -v g++ || command -v clang++ || command -v c++)}
[ -e "$1/c10/cuda/CUDACachingAllocator.h" ] ||
    { echo "adapter: $1 has no c10/cuda/CUDACachingAllocator.h" >&2; exit 1; }
[ -e "$2/cuda_runtime_api.h" ] || { echo "adapter: $2 has no cuda_runtime_api.h" >&2; exit 1; }
count=0
for source in adapters/torch/*.cpp; do
    "$cxx" -std=c++17 -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Werror -Iinclude \
        -isystem "$1" -isystem "$2" "$source"
    count=$((count + 1))
done
echo "adapter: $count files compile"
