"""capture_reuse.py - graph_capture_record_stream_reuse, under PyTorch's allocator and ours.

Captures a graph in which blocks are used on a second stream (record_stream) and freed while the capture
goes on, the second stream joined each time. With the option the blocks serve again; without it each round
takes new memory. Prints what the graph's pool reserves, and fails where ours does not reuse, or where the
graph computes something else. Run by hand on a machine with a GPU; one process for each allocator.
"""
import subprocess
import sys

CODE = """
import sys, warnings
warnings.simplefilter("ignore")
import torch, vramwise.torch
allocator, is_on = sys.argv[1], sys.argv[2] == "on"
vramwise.torch.install(allocator, fallback="error")
torch.cuda.init()
torch.cuda.memory._set_allocator_settings(f"graph_capture_record_stream_reuse:{is_on}")
size, rounds = 8 << 20, 12
source = torch.ones(size, device="cuda")
total = torch.zeros(size, device="cuda")
side = torch.cuda.Stream()
graph = torch.cuda.CUDAGraph()
torch.cuda.synchronize()
before = torch.cuda.memory_reserved()
with torch.cuda.graph(graph):
    main = torch.cuda.current_stream()
    for i in range(rounds):
        block = source * (i + 1)
        side.wait_stream(main)
        with torch.cuda.stream(side):
            total.add_(block)
        block.record_stream(side)
        main.wait_stream(side)
        del block
reserved = torch.cuda.memory_reserved() - before
for _ in range(3):
    graph.replay()
torch.cuda.synchronize()
wanted = 3 * sum(range(1, rounds + 1))
assert bool((total == wanted).all()), "the graph computed something else"
print(reserved >> 20)
"""


def reserved_mib(allocator, state):
    """What the graph's pool takes, in MiB."""
    done = subprocess.run([sys.executable, "-c", CODE, allocator, state], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"{allocator}, {state}: {done.stdout}{done.stderr}")
    return int(done.stdout.split()[-1])


def main():
    """See above."""
    print("| allocator | off, MiB | on, MiB |\n|---|---|---|")
    is_good = True
    for allocator in ("pytorch", "torch", "vramwise"):
        off, on = (reserved_mib(allocator, state) for state in ("off", "on"))
        print(f"| {allocator} | {off} | {on} |", flush=True)
        is_good = is_good and on < off
    sys.exit(0 if is_good else "blocks were not reused with the option on")


if __name__ == "__main__":
    main()
