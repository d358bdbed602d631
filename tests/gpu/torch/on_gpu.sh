#!/usr/bin/env bash
# Runs on a machine with a GPU and PyTorch: builds the libraries with gcc alone, then the parts that
# are named, each within its time. One part that fails does not keep the others from running.
#
#   on_gpu.sh PART...     PART: build plan checks same runs live gate rescue limit spill registered neighbours frameworks raw tools watching pytorch steps, or all
#   PART:SECONDS          gives a part another limit; PART=ALLOCATOR,... other allocators (of limit: phases)
#
# What is not in the repository is looked for in build/carried (or where the variable says):
#   train.py   the corpus script, for steps            (VRAMWISE_TRAIN)
#   pytests/   test_cuda.py and others, for pytorch    (VRAMWISE_PYTORCH_TESTS)
#   vramwise   the program, built elsewhere            (VRAMWISE_PROGRAM)
# Without that, the one that part build makes is used: no compressed files, no screen of top, no metrics.
#
# Output: $OUT/on_gpu.log and $OUT/data.tgz, both complete after every part; ends with a table.
set -uo pipefail
cd "$(dirname "$0")/../../.."
root=$PWD
result=${OUT:-$root/build/on_gpu}
mkdir -p "$result" build/gpu
if [ "${1:-}" != --part ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    export OUT=$work
fi
carried=$root/build/carried
export PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
export PYTHONPATH="$root/python${PYTHONPATH:+:$PYTHONPATH}"
export VRAMWISE_LIBRARY_DIR=${VRAMWISE_LIBRARY_DIR:-$root/build/gpu}
tests=$root/tests/gpu/torch
bench=$root/bench/torch
log=$result/on_gpu.log
table=()

program() {
    for path in "${VRAMWISE_PROGRAM:-}" "$carried/vramwise" build/gpu/vramwise build/vramwise; do
        if [ -n "$path" ] && "$path" --version >/dev/null 2>&1; then
            realpath "$path"
            return
        fi
    done
    echo /nonexistent/vramwise
}

# shellcheck disable=SC2046 # no name has a space
# Compiles every source of the arguments into build/gpu/objects, in parallel, unless it is there.
objects() {
    mkdir -p build/gpu/objects
    printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} sh -c '
        object=build/gpu/objects/$(echo "{}" | tr / _).o
        if [ ! -e "$object" ] || [ -n "$(find "{}" include src adapters cli -name "*.[ch]" -newer "$object" -print -quit)" ]; then
            gcc -std=c11 -D_GNU_SOURCE -O3 -DNDEBUG -fPIC -fvisibility=hidden -Wall -Iinclude -Isrc \
                -Iadapters/torch/support -DVW_VIEW_PAGE_PATH="\"viewer/dist/page.html\"" -c "{}" -o "$object"
        fi'
}
named() { for source in "$@"; do echo "build/gpu/objects/$(echo "$source" | tr / _).o"; done; }

# shellcheck disable=SC2046 # no name has a space
# library NAME SOURCES LINKING...: build/gpu/libNAME.so of the objects of SOURCES, an array's name.
library() {
    local -n of=$2
    gcc -shared -Wl,-soname,"lib$1.so.$version" -Wl,-rpath,'$ORIGIN' -Wl,--no-undefined \
        -o "build/gpu/lib$1.so.$version" $(named "${of[@]}") -Lbuild/gpu "${@:3}" -lpthread -ldl -lm
    ln -sf "lib$1.so.$version" "build/gpu/lib$1.so"
}

# shellcheck disable=SC2046 # no name has a space
# What reads files and concludes, and the program: as CMakeLists.txt makes them where there is no other library.
analysis() {
    local sources tools program_sources
    mapfile -t sources < <(find src/{parse,analysis,watch,check,doctor,fleet,mcp,plan,ranks,remedy,report,settings,trend,view} \
        -name '*.c' ! -name 'decompress_gzip.c' ! -name 'decompress_xz.c' ! -name 'decompress_zstd.c' | sort)
    mapfile -t tools < <(printf '%s\n' src/{base,model,export}/*.c src/device/{gpu_monitor,nvml_load,amd_smi_load,library_load}.c \
        src/engine/torch/torch_{settings*,rounding,versions}.c | grep -v -e base/last_error -e base/version)
    mapfile -t program_sources < <(printf '%s\n' cli/*.c | grep -v -E '/top_(crash|details|draw|loop|screen)[.]c')
    objects "${sources[@]}" "${program_sources[@]}"
    rm -f build/gpu/tools.a
    ar cr build/gpu/tools.a $(named "${tools[@]}")
    library vramwise-analysis sources build/gpu/tools.a -Wl,--exclude-libs,ALL -lvramwise
    gcc -o build/gpu/vramwise $(named "${program_sources[@]}") -Wl,-rpath,'$ORIGIN' -Lbuild/gpu -lvramwise-analysis \
        -lvramwise -lpthread -ldl -lm
}

part_build() {
    set -e
    local version core support
    version=$(sed -n 's/#define VW_VERSION_STRING "\([0-9]*\.[0-9]*\).*/\1/p' include/vramwise/version.h)
    mapfile -t core < <(find src/base src/device src/engine src/pool src/model src/export src/record \
        src/live -name '*.c' | sort)
    mapfile -t support < <(find adapters/torch/support -name '*.c' | sort)
    objects "${core[@]}" "${support[@]}"
    library vramwise core
    library vramwise-torch support -lvramwise
    analysis
    ls -l build/gpu/*.so.* build/gpu/vramwise 2>/dev/null || true
    echo "program: $(program)"
    python3 -c 'import torch, transformers, torchvision
print("torch", torch.__version__, "transformers", transformers.__version__, "torchvision",
      torchvision.__version__, torch.cuda.get_device_name(0))'
    # The adapter is compiled here, once, and not by every process that needs it.
    local is_bad=0
    for allocator in torch vramwise vramwise:rescue; do
        python3 - "$allocator" "$tests" <<'PY' || { echo "FAIL not installed: $allocator"; is_bad=1; }
import sys
sys.path.insert(0, sys.argv[2])
import under
torch = under.enter(sys.argv[1])
tensor = torch.arange(1000, device="cuda")
assert tensor.sum().item() == 499500
print("ok   installed", sys.argv[1], "backend", torch.cuda.get_allocator_backend(),
      "allocated", torch.cuda.memory_allocated())
PY
    done
    return $is_bad
}
# The launch gate by itself, with CUPTI and the runtime that PyTorch brings.
part_gate() {
    set -e
    local sources parts
    mapfile -t sources < <(find src/base src/device src/engine src/pool src/model src/export src/record \
        src/live adapters/torch/support -name '*.c' | sort)
    parts=(bench/bench_launch_gate.c bench/gate_*.c tests/gpu/gpu_replay_bytes.c tests/gpu/gpu_replay_driver.c)
    objects "${sources[@]}"
    gcc -std=c11 -D_GNU_SOURCE -O3 -DNDEBUG -Wall -I. -Iinclude -Isrc -Itests -Iadapters/torch/support \
        -o build/gpu/bench_launch_gate "${parts[@]}" $(named "${sources[@]}") -lpthread -ldl -lm
    python3 - <<'PY' >build/gpu/gate_libraries
import glob, os, torch
torch.cuda.init()
loaded = {line.split()[-1] for line in open("/proc/self/maps") if "/" in line}
for name in ("libcupti.so", "libcudart.so"):
    near = {path for at in loaded if "libcudart.so" in at
            for path in glob.glob(os.path.join(os.path.dirname(at), "**", name + ".*"), recursive=True)
            + glob.glob(os.path.join(os.path.dirname(at), "../../*/lib", name + ".*"))}
    found = sorted(path for path in loaded | near if os.path.basename(path).startswith(name))
    print(found[0] if found else "")
PY
    { read -r cupti; read -r runtime; } <build/gpu/gate_libraries
    VRAMWISE_CUPTI=$cupti build/gpu/bench_launch_gate 0 "$runtime"
}
part_plan() {
    python3 "$bench/measure_plan.py" 0 2 >"$OUT/plan0.jsonl" &
    python3 "$bench/measure_plan.py" 1 2 >"$OUT/plan1.jsonl"
    wait
    cat "$OUT"/plan?.jsonl
    ! grep -q '"error"' "$OUT"/plan?.jsonl
}
part_checks() { python3 "$tests/check_allocator.py" ${names:-pytorch torch vramwise vramwise:rescue}; }
part_same() { python3 "$tests/same_results.py" $names; }
part_runs() { python3 "$tests/whole_runs.py" --vramwise "$(program)"; }
part_live() { python3 "$tests/check_live.py"; }
part_rescue() { python3 "$tests/rescue_capped.py" $names; }
part_limit() {
    python3 "$bench/bench_limit.py" run "$OUT/limit" --budget $((limit - 30)) ${names:+--phases "${names// /,}"} || return
    python3 "$bench/bench_limit.py" table "$OUT/limit"
    python3 "$bench/bench_limit.py" check "$OUT/limit"
}
part_spill() {
    local is_bad=0
    python3 "$tests/check_spill.py" || is_bad=1
    python3 "$tests/check_stream.py" || is_bad=1
    python3 "$bench/bench_touch.py" || is_bad=1
    python3 "$bench/bench_spill.py" --seconds $((limit - SECONDS - 10)) || is_bad=1
    return $is_bad
}
part_registered() { python3 "$tests/registered.py" ${names:+--allocator "$names"}; }
part_neighbours() { python3 "$tests/neighbours.py"; }
part_frameworks() {
    local is_bad=0
    python3 "$tests/frameworks.py" || is_bad=1
    python3 "$tests/notebook_cell.py" || is_bad=1
    return $is_bad
}
part_pytorch() {
    python3 "$tests/run_pytorch_tests.py" --tests "${VRAMWISE_PYTORCH_TESTS:-$carried/pytests}" $names
}
part_raw() { python3 "$bench/bench_raw_alloc.py" $names; }
part_steps() {
    python3 "$bench/bench_steps.py" --train "${VRAMWISE_TRAIN:-$carried/train.py}" \
        --seconds $((limit * 55 / 100)) --cards $((limit * 30 / 100)) $names
}
part_watching() { python3 "$bench/bench_watching.py" --vramwise "$(program)" --seconds $((limit / 2)); }
part_tools() { python3 "$tests/snapshot_tools.py" --vramwise "$(program)" --out "$OUT" $names; }

declare -A limits=([build]=240 [plan]=200 [checks]=300 [same]=200 [runs]=180 [live]=90 [gate]=560 [rescue]=180 [limit]=420 [spill]=480 [registered]=90 [neighbours]=120 [frameworks]=180 [raw]=180 [tools]=160 [watching]=160 [pytorch]=420 [steps]=420)
order=(build plan checks same runs live gate rescue limit spill registered neighbours frameworks raw tools watching pytorch steps)

if [ "${1:-}" = --part ]; then # in a process of its own, so that it can be stopped
    limit=$3
    names=${4:-}
    "part_$2"
    exit
fi
[ "$#" -gt 0 ] || { echo "usage: on_gpu.sh PART... (${order[*]}, all)" >&2; exit 2; }
parts=()
for word in "$@"; do
    if [ "$word" = all ]; then parts+=("${order[@]}"); else parts+=("$word"); fi
done
: >"$log"
for word in "${parts[@]}"; do
    names=""
    case $word in *=*) names=${word#*=}; names=${names//,/ }; word=${word%%=*} ;; esac
    part=${word%%:*}
    limit=${limits[$part]:-}
    case $word in *:*) limit=${word#*:} ;; esac
    [ -n "$limit" ] || { echo "unknown part: $part" | tee -a "$log"; continue; }
    echo "== $part, at most $limit s" | tee -a "$log"
    begin=$SECONDS
    timeout -k 5 "$limit" "$tests/on_gpu.sh" --part "$part" "$limit" "$names" 2>&1 | tee -a "$log"
    status=${PIPESTATUS[0]}
    table+=("$(printf '%-10s status %3d  %4d s' "$part" "$status" $((SECONDS - begin)))")
    tar -C "$work" -czf "$result/data.tgz" . 2>/dev/null
done
{
    echo
    echo "== parts"
    printf '%s\n' "${table[@]}"
} | tee -a "$log"
