"""check_spill.py - live data that leaves a real GPU under PyTorch: nothing is lost, and what cannot be
is said.

    python3 check_spill.py               all checks, each in a process of its own; status 1: one failed
    python3 check_spill.py --check NAME  one of them, in this process
"""
import argparse
import os
import subprocess
import sys
from typing import List

import under

GIB = 1 << 30
MIB = 1 << 20
SPILL = "4GiB"
MOST_STEPS_TO_RETURN = 40  # what is cold waits for quiet ones


def cap(torch, size_bytes: int) -> None:
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(size_bytes / total)


def counts() -> dict:
    return under.stats()["spill"]


def made(torch, number: int, size_bytes: int = 256 * MIB):
    """A block whose every element says whose it is."""
    return torch.arange(size_bytes // 8, device="cuda", dtype=torch.int64).add_(number * 10**9)


def check_made(torch, number: int, tensor) -> None:
    wanted = made(torch, number, 8 * tensor.numel())
    assert torch.equal(tensor, wanted), f"block {number} has changed"


def values_stay_with_several_streams(torch) -> None:
    cap(torch, 2 * GIB)
    streams = [torch.cuda.Stream() for _ in range(3)]
    blocks, addresses = [], []
    for number in range(12):  # 3 GiB on a card of 2
        with torch.cuda.stream(streams[number % 3]):
            blocks.append(made(torch, number, 256 * MIB))
            addresses.append(blocks[-1].data_ptr())
    found = counts()
    assert found["spills"] > 0 and found["spilled_bytes"] >= GIB, found
    torch.cuda.synchronize()
    for number, block in enumerate(blocks):
        assert block.data_ptr() == addresses[number]
        for stream in streams:
            stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(streams[(number + 1) % 3]):
            block.add_(1)
            block.sub_(1)
        torch.cuda.synchronize()
        part = block[:1000].cpu()
        assert torch.equal(part, torch.arange(1000) + number * 10**9), number
    del blocks[6:], block
    for number, block in enumerate(blocks):
        check_made(torch, number, block)


def what_left_comes_back(torch) -> None:
    """Within the step: it is not cold, and the optimizer's weight was advised, so that it is known."""
    cap(torch, 2 * GIB)
    weight = torch.nn.Parameter(torch.zeros(1000, device="cuda"))
    optimizer = torch.optim.AdamW([weight], lr=1e-3)
    kept = [made(torch, number) for number in range(4)]
    addresses = [block.data_ptr() for block in kept]
    crowd = [made(torch, number) for number in range(4, 10)]  # 2.5 GiB on a card of 2: the oldest leave
    found = counts()
    assert 256 * MIB <= found["spilled_bytes"] <= GIB + 64 * MIB, found
    for number, block in enumerate(crowd, 4):
        assert block[7].item() == number * 10**9 + 7
    del crowd, block
    weight.sum().backward()  # which asks for memory
    optimizer.step()
    found = counts()
    assert found["returns"] > 0 and found["spilled_bytes"] == 0, found
    assert found["returned_bytes"] >= 256 * MIB, found  # it came back, and was not only freed
    assert [block.data_ptr() for block in kept] == addresses
    for number, block in enumerate(kept):
        check_made(torch, number, block)


def an_optimizer_s_state_leaves_first(torch) -> None:
    import vramwise.torch
    cap(torch, 2 * GIB)
    weight = torch.nn.Parameter(torch.zeros(64 * MIB, device="cuda"))  # 256 MiB, its state 512
    optimizer = torch.optim.AdamW([weight], lr=1e-3, fused=True)
    weight.sum().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    assert vramwise.torch.spill(optimizer) >= 512 * MIB
    crowd = [made(torch, number) for number in range(6)]  # 1.5 GiB: 256 MiB have to go
    found = counts()
    assert 0 < found["spilled_bytes"] <= 512 * MIB + 64 * MIB, found
    del crowd
    for _ in range(MOST_STEPS_TO_RETURN):
        optimizer.zero_grad(set_to_none=True)
        weight.sum().backward()
        optimizer.step()
        if counts()["spilled_bytes"] == 0:
            break
    found = counts()
    assert found["returns"] > 0 and found["spilled_bytes"] == 0, found
    assert torch.isfinite(weight).all()


def snapshots_tell_of_it(torch) -> None:
    cap(torch, 2 * GIB)
    torch.cuda.memory._record_memory_history(max_entries=1000, stacks="python")
    crowd = [made(torch, number) for number in range(10)]
    found = counts()
    told = [entry for entry in torch.cuda.memory._snapshot()["external_annotations"]
            if entry.get("name") == "vramwise spill" and entry["stage"] == "START"]
    assert len(told) == found["spills"] > 0, (told, found)
    assert sum(int(entry["moved_bytes"]) for entry in told) == found["all_spilled_bytes"], told
    assert int(told[-1]["spilled_bytes"]) == found["spilled_bytes"], (told, found)
    assert all(entry["device"] == 0 and entry["time_us"] > 0 for entry in told), told
    torch.cuda.memory._record_memory_history(enabled=None)
    assert crowd[0][7].item() == 7


def a_graph_is_left_alone(torch) -> None:
    cap(torch, 2 * GIB)
    given = torch.ones(64 * MIB, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        (given * 2).sum()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        product = given * 3
    graph.replay()
    crowd = [made(torch, number) for number in range(8)]
    assert counts()["spills"] > 0, counts()
    given.fill_(5)
    graph.replay()
    assert product[0].item() == 15 and product.sum(dtype=torch.float64).item() == 15 * 64 * MIB
    for number, block in enumerate(crowd[:2]):
        assert block[7].item() == number * 10**9 + 7


def beyond_the_budget_is_pytorch_s_error(torch) -> None:
    cap(torch, 2 * GIB)
    blocks: List = []
    try:
        for number in range(100):  # 2 GiB and 4 GiB are 24 of them
            blocks.append(made(torch, number))
        raise AssertionError("25 GiB fitted")
    except torch.OutOfMemoryError as error:
        assert "out of memory" in str(error)
    assert 16 <= len(blocks) <= 24, len(blocks)
    assert counts()["spilled_bytes"] <= 4 * GIB, counts()
    del blocks[8:]
    for number, block in enumerate(blocks[:4]):
        assert block[9].item() == number * 10**9 + 9
    assert made(torch, 1)[5].item() == 10**9 + 5  # and it goes on


def a_budget_beyond_the_machine_is_refused() -> None:
    import torch
    import vramwise.torch
    try:
        vramwise.torch.install("vramwise", spill=1 << 50, fallback="error")
    except vramwise.torch.InstallError as error:
        assert "spill_bytes" in str(error) and "ulimit -l" in str(error), error
        print(f"# {error}")
    else:
        raise AssertionError("a PiB was granted")
    assert not vramwise.torch.in_force()
    assert torch.ones(3, device="cuda").sum().item() == 3


CHECKS = (values_stay_with_several_streams, what_left_comes_back, an_optimizer_s_state_leaves_first,
          snapshots_tell_of_it, a_graph_is_left_alone, beyond_the_budget_is_pytorch_s_error)
ALONE = (a_budget_beyond_the_machine_is_refused,)  # they install themselves


def run_check(name: str) -> int:
    if name in [check.__name__ for check in ALONE]:
        globals()[name]()
        return 0
    torch = under.enter("vramwise")
    globals()[name](torch)
    print(f"# {counts()}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [check.__name__ for check in CHECKS + ALONE]
    parser.add_argument("--check", choices=names)
    arguments = parser.parse_args()
    if arguments.check:
        return run_check(arguments.check)
    os.environ["VRAMWISE_SPILL"] = SPILL
    children = {name: subprocess.Popen(
        [sys.executable, __file__, "--check", name], stdout=subprocess.PIPE, text=True,
        stderr=subprocess.STDOUT, errors="replace",
        env=under.environment("vramwise")) for name in names}
    is_bad = False
    for name, process in children.items():
        output, _ = process.communicate()
        is_bad = is_bad or process.returncode != 0
        told = " / ".join(output.strip().splitlines()[-8:])[-900:]
        print(f"{'ok  ' if process.returncode == 0 else 'FAIL'} {name}: {told}", flush=True)
    return 1 if is_bad else 0


if __name__ == "__main__":
    sys.exit(main())
