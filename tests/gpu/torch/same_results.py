"""same_results.py - the same training, to the last bit, whatever the allocator.

    python3 same_results.py [--only PART,...] [ALLOCATOR...]     compares; status 1: a difference
    python3 same_results.py --part PART                          one part, in this process

Every loss is printed as a hexadecimal float. The first allocator is the reference (by default
`pytorch`, which is run twice: what it cannot repeat itself proves nothing, and is said). The parts
of all allocators run in processes side by side.
"""
import argparse
import os
import sys
import threading
import time
from typing import Dict, List, Tuple

import under

STEPS = 20
PARTS = ("gpt2", "resnet50", "resnet50_plain", "graphed_mlp", "compiled", "streams")
REPEATED = " (again)"


def deterministic(torch) -> None:
    torch.manual_seed(1234)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.deterministic = True
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def tell(step: int, loss) -> None:
    print(f"@ {step} {float(loss).hex()}", flush=True)


def gpt2(torch) -> None:
    """Variable lengths, mixed precision, dropout: the classic fragmenting run."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_layer=6, n_embd=384, n_head=6, vocab_size=8192,
                                       n_positions=512, use_cache=False,
                                       attn_implementation="eager")).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    draw = torch.Generator().manual_seed(7)
    for step in range(STEPS):
        length = int(torch.randint(64, 512, (1,), generator=draw))
        batch = (2, 4, 8)[int(torch.randint(0, 3, (1,), generator=draw))]
        tokens = torch.randint(0, 8192, (batch, length), generator=draw).cuda()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        tell(step, loss)


def resnet50(torch, benchmark: bool = True) -> None:
    """cudnn.benchmark on: cuDNN tries algorithms with workspaces of its own choosing. Which one
    wins is a matter of time, so PyTorch may differ from itself."""
    import torchvision

    torch.backends.cudnn.benchmark = benchmark
    model = torchvision.models.resnet50(weights=None).cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    draw = torch.Generator().manual_seed(8)
    for step in range(STEPS):
        side = (96, 128, 160)[step % 3]
        images = torch.randn(16, 3, side, side, generator=draw).cuda().to(
            memory_format=torch.channels_last)
        labels = torch.randint(0, 1000, (16,), generator=draw).cuda()
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        tell(step, loss)


def resnet50_plain(torch) -> None:
    """The same, where only one algorithm comes into question."""
    resnet50(torch, benchmark=False)


def graphed_mlp(torch) -> None:
    """A whole training step captured once and replayed, with other work between."""
    model = torch.nn.Sequential(*[layer for _ in range(4) for layer in
                                  (torch.nn.Linear(1024, 1024), torch.nn.GELU())]).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
    given = torch.randn(256, 1024, device="cuda")
    wanted = torch.randn(256, 1024, device="cuda")

    def train():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(model(given), wanted)
        loss.backward()
        optimizer.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            train()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = train()
    draw = torch.Generator().manual_seed(9)
    for step in range(STEPS):
        given.copy_(torch.randn(256, 1024, generator=draw))
        graph.replay()
        between = torch.full((int(2 ** (12 + step)),), 3.0, device="cuda")  # up to 8 GiB
        tell(step, loss + 0 * between[-1])
        del between
        if step % 7 == 6:
            torch.cuda.empty_cache()


def compiled(torch) -> None:
    """torch.compile, then the same with graph trees."""
    import torch._inductor.config as inductor

    if hasattr(inductor, "deterministic"):
        inductor.deterministic = True
    for mode in ("default", "reduce-overhead"):
        torch._dynamo.reset()
        torch.manual_seed(11)
        model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(),
                                    torch.nn.LayerNorm(2048), torch.nn.Linear(2048, 512)).cuda()
        run = torch.compile(model, mode=mode)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        draw = torch.Generator().manual_seed(12)
        for step in range(STEPS):
            given = torch.randn(128, 512, generator=draw).cuda()
            torch.compiler.cudagraph_mark_step_begin()
            optimizer.zero_grad(set_to_none=True)
            loss = (run(given) - given).square().mean()
            loss.backward()
            optimizer.step()
            tell(step, loss)


def streams(torch) -> None:
    """Blocks made on one stream and used on another, freed while the other still works."""
    copies, others = torch.cuda.Stream(), torch.cuda.Stream()
    weight = torch.randn(2048, 2048, device="cuda") / 45
    draw = torch.Generator().manual_seed(13)
    for step in range(STEPS * 3):
        rows = int(torch.randint(256, 4096, (1,), generator=draw))
        source = torch.randn(rows, 2048, generator=draw).pin_memory()
        with torch.cuda.stream(copies):
            given = source.to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(copies)
        given.record_stream(torch.cuda.current_stream())
        product = given @ weight
        others.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(others):
            torch.cuda._sleep(1_000_000)
            total = (product * 2).square().mean()
        product.record_stream(others)
        del given, product
        torch.cuda.current_stream().wait_stream(others)
        total.record_stream(torch.cuda.current_stream())
        tell(step, total)


def run_part(part: str) -> None:
    torch = under.enter_again()
    deterministic(torch)
    begin = time.perf_counter()
    globals()[part](torch)
    torch.cuda.synchronize()
    print(f"# {part} {time.perf_counter() - begin:.1f} s, peak allocated "
          f"{torch.cuda.max_memory_allocated() >> 20} MiB, reserved "
          f"{torch.cuda.max_memory_reserved() >> 20} MiB, {under.stats().get('safe_moments', '')}")


def compare(reference: List[str], again: List[str], found: List[str]) -> str:
    if not reference:
        return "the reference did not run"
    if len(found) != len(reference):
        return f"DIFFERENT: {len(found)} losses of {len(reference)}"
    if found == again:
        return "equal"
    for i, (mine, wanted) in enumerate(zip(found, reference)):
        if mine != wanted:
            if again != reference:
                return "not decided: PyTorch differs from itself"
            return f"DIFFERENT at line {i}: {mine} instead of {wanted}"
    return "equal"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("allocators", nargs="*")
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--limit", type=float, default=140.0)
    parser.add_argument("--jobs", type=int, default=8)
    arguments = parser.parse_args()
    if arguments.part:
        run_part(arguments.part)
        return 0
    names = arguments.allocators or ["pytorch", "torch", "vramwise", "vramwise:rescue"]
    parts = arguments.only.split(",")
    runs: Dict[Tuple[str, str], List[str]] = {}
    places = threading.Semaphore(arguments.jobs)

    def one(name: str, part: str) -> None:
        with places:
            status, output, seconds = under.run(
                [sys.executable, __file__, "--part", part], name.replace(REPEATED, ""),
                arguments.limit, {"CUBLAS_WORKSPACE_CONFIG": ":4096:8",
                                  "TORCHINDUCTOR_COMPILE_THREADS": "4"})
        lines = [line for line in output.splitlines() if line.startswith("@ ")]
        runs[name, part] = lines
        told = [line for line in output.splitlines() if line.startswith("# ")]
        why = "" if status == 0 else " | " + " / ".join(output.strip().splitlines()[-6:])[:700]
        print(f"{'ok  ' if status == 0 else 'FAIL'} {name:16} {part:12} {len(lines)} losses, "
              f"{seconds:.1f} s {' '.join(told)}{why}", flush=True)

    threads = [threading.Thread(target=one, args=(name, part))
               for part in sorted(parts, key=lambda p: p != "compiled")
               for name in names + [names[0] + REPEATED]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows, is_bad = [], False
    for part in parts:
        reference, again = runs[names[0], part], runs[names[0] + REPEATED, part]
        told = "" if again == reference else ", not repeatable"
        row = [part, f"{len(reference)} losses{told}"]
        for name in names[1:]:
            row.append(compare(reference, again, runs[name, part]))
            is_bad = is_bad or not row[-1].startswith(("equal", "not decided"))
        rows.append(row)
    print("\n" + under.table(["workload", names[0]] + names[1:], rows))
    folder = os.environ.get("OUT")
    if folder:
        with open(os.path.join(folder, "same_results_losses.txt"), "w", encoding="ascii") as file:
            for (name, part), lines in sorted(runs.items()):
                file.writelines(f"{name} {part} {line}\n" for line in lines)
    return 1 if is_bad else 0


if __name__ == "__main__":
    sys.exit(main())
