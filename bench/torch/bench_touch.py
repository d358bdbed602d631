"""bench_touch.py - what a kernel takes when one of its tensors is in host memory.

    python3 bench_touch.py      a table: on the device, and after everything left

Some tensors are named as an optimizer's state, which leaves first; then the card is filled until they
are gone. The same kernels are timed before and after. Status 1: they did not leave, so that the
second column would say nothing.
"""
import os
import sys
import time
from pathlib import Path
from typing import Callable, Dict

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "gpu" / "torch"))
import under  # noqa: E402

GIB = 1 << 30
MIB = 1 << 20
SIDE = 4096  # 64 MiB of float32, 32 MiB of bfloat16
REPEATS = 5
CARD_BYTES = 4 * GIB
SPILL = "8GiB"


def milliseconds(torch, work: Callable[[], object]) -> float:
    work()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(REPEATS):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / REPEATS * 1e3


class Tensors:
    """Those that stay, and those that will leave: a matrix in two precisions, and what fills up the
    memory they share with others."""

    def __init__(self, torch) -> None:
        def square(dtype=torch.float32):
            return torch.randn(SIDE, SIDE, device="cuda", dtype=dtype)
        self.left, self.other, self.result = square(), square(), square()
        self.left_16, self.result_16 = square(torch.bfloat16), square(torch.bfloat16)
        self.leaving, self.leaving_16 = square(), square(torch.bfloat16)
        self.filling = torch.empty(256 * MIB, device="cuda", dtype=torch.uint8)

    def leave(self, torch) -> None:
        import vramwise.torch
        weight = torch.nn.Parameter(torch.zeros(8, device="cuda"))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        optimizer.state[weight].update(a=self.leaving, b=self.leaving_16, c=self.filling)
        advised_bytes = vramwise.torch.spill(optimizer)
        crowd = []
        while under.stats()["spill"]["spilled_bytes"] < advised_bytes:
            crowd.append(torch.empty(64 * MIB, device="cuda", dtype=torch.uint8))
        del crowd
        torch.cuda.synchronize()


def kernels(torch, t: Tensors) -> Dict[str, Callable[[], object]]:
    return {
        "sum": t.leaving.sum,
        "add_": lambda: t.leaving.add_(1),
        "mul, result elsewhere": lambda: torch.mul(t.leaving, 2, out=t.result),
        "copy_ from it": lambda: t.result.copy_(t.leaving),
        "copy_ to it": lambda: t.leaving.copy_(t.result),
        "gelu": lambda: torch.nn.functional.gelu(t.leaving),
        "softmax": lambda: torch.softmax(t.leaving, -1),
        "mm, second operand": lambda: torch.mm(t.left, t.leaving, out=t.result),
        "mm of its transpose": lambda: torch.mm(t.leaving.t(), t.other, out=t.result),
        "mm, bfloat16": lambda: torch.mm(t.left_16, t.leaving_16, out=t.result_16),
    }


def measure(torch, tensors: Tensors) -> Dict[str, float]:
    return {name: milliseconds(torch, work) for name, work in kernels(torch, tensors).items()}


def main() -> int:
    os.environ["VRAMWISE_SPILL"] = SPILL
    torch = under.enter("vramwise")
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(CARD_BYTES / total)
    tensors = Tensors(torch)
    device = measure(torch, tensors)
    try:
        tensors.leave(torch)
    except torch.OutOfMemoryError as error:
        print(f"they did not leave: {error}")
        return 1
    host = measure(torch, tensors)
    rows = [[name, f"{device[name]:.3f}", f"{host[name]:.3f}", f"{host[name] / device[name]:.1f}"]
            for name in device]
    print(under.table(["kernel", "on the device, ms", "on the host, ms", "times"], rows))
    left = under.stats()["spill"]
    print(f"\n{torch.cuda.get_device_name()}, PyTorch {torch.__version__}: {left}")
    wanted_bytes = sum(t.untyped_storage().nbytes() for t in (tensors.leaving, tensors.leaving_16))
    return 0 if left["spilled_bytes"] >= wanted_bytes else 1


if __name__ == "__main__":
    sys.exit(main())
