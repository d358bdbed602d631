#!/usr/bin/env bash
# try_wheel.sh WHEEL RECORDING - the wheel on a machine with a GPU and PyTorch, as a new user meets it:
# every command, a program under our allocator, a program that runs out of memory, and a running job. No
# compiler is in PATH: the adapter must be one of the wheel's.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
wheel=$(realpath "$1") recording=$(realpath "$2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
fail() { echo "try_wheel: $*" >&2; exit 1; }
unset PYTHONPATH VRAMWISE_LIBRARY_DIR CC CXX
export XDG_CACHE_HOME=$folder/cache

echo "== $(. /etc/os-release && echo "$PRETTY_NAME"), $(ldd --version | sed -n 1p), $(python3 --version)"
python3 -m venv environment
# PyTorch is the machine's, wherever that has it.
python3 -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))' >torch.pth
mv torch.pth environment/lib/python3*/site-packages/
environment/bin/python -m pip install -q --no-index --no-deps "$wheel"
mkdir bin
echo "$PATH" | tr : '\n' | while read -r place; do
    find "$place" -maxdepth 1 ! -type d ! -name '*g++*' ! -name '*gcc*' ! -name 'c++*' ! -name 'cc' ! -name 'c[89]9*' \
        ! -name '*clang*' ! -name 'nvcc*' -exec ln -sn {} bin/ \; 2>/dev/null || true
done
PATH=$folder/environment/bin:$folder/bin
if command -v g++ c++ clang++ gcc cc nvcc; then fail "there is a compiler in PATH"; fi
command -v vramwise
python -c 'import torch, vramwise; print("torch", torch.__version__, "vramwise", vramwise.__version__)'
python "$here/../../install/use.py" installed "$recording"

cat >train.py <<'END'
import sys
import torch
import vramwise.torch

torch.manual_seed(0)
model = torch.nn.TransformerEncoder(
    torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, dropout=0.0), 8).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for step in range(int(sys.argv[1])):
    batch = torch.randn(16, 128 + 64 * (step * 5 % 7), 1024, device="cuda")
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
live, held = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
print(f"loss {loss.item():.6f}; {live / 2**20:.0f} MiB live at most, {held / 2**20:.0f} MiB reserved, "
      f"{held / live:.3f} times; allocator: {vramwise.torch.in_force()}")
if vramwise.torch.in_force():
    print(f"adapter: {vramwise.torch.in_force().file}, {vramwise.torch.in_force().reason}")
END

echo "== vramwise run -- python train.py"
vramwise run -- python train.py 30
echo "== vramwise run --allocator vramwise -- python train.py"
vramwise run --allocator vramwise -- python train.py 30 | tee under
grep -q "allocator: vramwise" under || fail "the program did not run under our allocator"
grep -q "adapter: .*/vramwise/_adapters/adapter-" under || fail "the adapter is not one of the wheel's"

echo "== a program that runs out of memory"
cat >crash.py <<'END'
import torch

torch.cuda.set_per_process_memory_fraction(4 * 2**30 / torch.cuda.get_device_properties(0).total_memory)
kept = []
while True:
    kept.append(torch.empty(300 * 2**20, dtype=torch.uint8, device="cuda"))
END
status=0
vramwise run -- python crash.py >said 2>&1 || status=$?
cat said
[ $status = 1 ] || fail "the program's own status, 1, became $status"
grep -q "ran out of memory on GPU 0" said || fail "there is no report"
ls -l vramwise-oom-*

echo "== vramwise top --once, beside a job"
vramwise run -- python train.py 2000 >job 2>&1 &
job=$!
row='train .*GiB.*[0-9] ?ms' # by its page: what is live, and the time of a step
for _ in $(seq 120); do
    vramwise top --once >top 2>&1 || true
    if grep -Eq "$row" top; then break; fi
    sleep 1
done
cat top
kill $job 2>/dev/null || true
wait $job 2>/dev/null || true
grep -Eq "$row" top || { cat job; fail "top does not show the job and its steps"; }
echo "the wheel works here"
