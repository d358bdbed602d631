#!/usr/bin/env bash
# Runs on a machine with a GPU and PyTorch: our allocator beside PyTorch's, in one run, on one host.
# Needs gcc, g++, python3 with torch; no CMake. Usage: on_gpu.sh OUTPUT_FOLDER [TURNS [ENGINE...]]
# Engines are measured beside "torch", each on the simulated device and on the GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: on_gpu.sh OUTPUT_FOLDER [TURNS [ENGINE...]]}
turns=${2:-20}
engines=("${@:3}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

gcc -std=c11 -D_GNU_SOURCE -O3 -DNDEBUG -Iinclude -Isrc -Ibench $(find src/base src/device src/engine src/pool src/model src/export src/record -name "*.c") \
    bench/bench_alloc.c -o "$work/bench_alloc" -lpthread -ldl -lm

read -r torch abi < <(python3 - <<'PY'
import torch
print(torch.__path__[0], int(torch._C._GLIBCXX_USE_CXX11_ABI))
PY
)
cuda=${CUDA_HOME:-/usr/local/cuda}
g++ -std=c++17 -O3 -DNDEBUG -D_GLIBCXX_USE_CXX11_ABI="$abi" -Ibench -I"$torch/include" \
    -I"$torch/include/torch/csrc/api/include" -I"$cuda/include" bench/peer_torch.cpp \
    -o "$work/peer_torch" -L"$torch/lib" -Wl,-rpath,"$torch/lib" -Wl,--no-as-needed \
    -lc10 -lc10_cuda -ltorch_cpu -ltorch_cuda -ltorch -lpthread

{
    echo "# $(uname -srm); $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1); $(nproc) cores"
    echo "# $(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | head -1)"
    echo "# $(gcc --version | head -1); torch $(python3 -c 'import torch; print(torch.__version__)')"
    "$work/bench_alloc" # one thread and eight
    for engine in "${engines[@]}"; do
        "$work/bench_alloc" --engine "$engine"
        "$work/bench_alloc" --engine "$engine" --cuda
    done
    PYTORCH_CUDA_ALLOC_CONF= "$work/peer_torch"
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True "$work/peer_torch"
    # A shared host changes its speed between runs, so one thread is measured in many short turns.
    for round in $(seq "$turns"); do
        echo "# turn $round"
        "$work/bench_alloc" --single
        for engine in "${engines[@]}"; do
            "$work/bench_alloc" --engine "$engine" --single
            "$work/bench_alloc" --engine "$engine" --cuda --single
        done
        PYTORCH_CUDA_ALLOC_CONF= "$work/peer_torch" --single
    done
} | tee "$out/alloc_h200.csv"

python3 bench/summarise.py "$out/alloc_h200.csv"
