"""rescue_capped.py - a training run on a card that holds little more than what is live.

    python3 rescue_capped.py [--factors 1.005,1.02] [ALLOCATOR...]

GPT-2-like training with batches of every length. Its peak of live bytes is measured without a
limit; then every allocator gets a card of that size times each factor. vramwise and vramwise:rescue
must complete with the losses of the run without a limit, to the last bit; what the others do is told.
The status is 1 where one of the two did not complete, or its losses differ.
"""
import argparse
import json
import sys
import threading
import time

import under

STEPS = 30


def train(limit_bytes: int) -> None:
    torch = under.enter_again()
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(99)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    total_bytes = torch.cuda.get_device_properties(0).total_memory
    if limit_bytes:
        torch.cuda.set_per_process_memory_fraction((limit_bytes + 0.5) / total_bytes)
    result = {"losses": [], "step_ms": [], "error": None}
    try:
        model = GPT2LMHeadModel(GPT2Config(n_layer=8, n_embd=512, n_head=8, vocab_size=16384,
                                           n_positions=768, use_cache=False,
                                           attn_implementation="eager")).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
        draw = torch.Generator().manual_seed(5)
        for step in range(STEPS):
            # The longest comes late, when the memory is in pieces.
            length = 768 if step == 20 else int(torch.randint(64, 700, (1,), generator=draw))
            batch = 2 * (1 + int(torch.randint(0, 4, (1,), generator=draw))) if step != 20 else 8
            tokens = torch.randint(0, 16384, (batch, length), generator=draw).cuda()
            begin = time.perf_counter()
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(input_ids=tokens, labels=tokens).loss
            loss.backward()
            optimizer.step()
            result["losses"].append(loss.item().hex())
            result["step_ms"].append(round(1e3 * (time.perf_counter() - begin), 2))
    except torch.OutOfMemoryError as error:
        result["error"] = str(error)[:160]
    stats = torch.cuda.memory_stats()
    result["peak_live_bytes"] = stats["allocated_bytes.all.peak"]
    result["peak_reserved_bytes"] = stats["reserved_bytes.all.peak"]
    result["retries"] = stats["num_alloc_retries"]
    result["stats"] = under.stats()
    print("@" + json.dumps(result), flush=True)


def run(name: str, limit_bytes: int) -> dict:
    status, output, seconds = under.run(
        [sys.executable, __file__, "--limit-bytes", str(limit_bytes)], name, 120,
        {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"})
    found = [line for line in output.splitlines() if line.startswith("@{")]
    if found:
        result = json.loads(found[-1][1:])
    else:
        result = {"losses": [], "step_ms": [], "retries": 0, "stats": {}, "peak_live_bytes": 0,
                  "peak_reserved_bytes": 0,
                  "error": f"status {status}: "
                           + " / ".join(output.strip().splitlines()[-4:])[:400]}
    result["seconds"] = seconds
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("allocators", nargs="*")
    parser.add_argument("--factors", default="1.005,1.02")
    parser.add_argument("--limit-bytes", type=int)
    arguments = parser.parse_args()
    if arguments.limit_bytes is not None:
        train(arguments.limit_bytes)
        return 0
    names = arguments.allocators or ["pytorch", "expandable", "vramwise", "vramwise:rescue"]
    free = run("pytorch", 0)
    if free["error"] or len(free["losses"]) != STEPS:
        print(f"FAIL without a limit, under pytorch: {free['error']}")
        return 1
    # PyTorch's own blocks are up to 1 MiB larger than what was asked for; with expandable segments
    # they are not, so that is what is live.
    exact = run("expandable", 0)
    peak_bytes = exact["peak_live_bytes"] or free["peak_live_bytes"]
    print(f"peak live {peak_bytes / under.MIB:.1f} MiB; without a limit PyTorch reserves "
          f"{free['peak_reserved_bytes'] / under.MIB:.1f} MiB")
    rows, is_bad = [], False
    results = {}

    def one(name: str, factor: float) -> None:
        results[name, factor] = run(name, int(peak_bytes * factor))

    for factor in [float(f) for f in arguments.factors.split(",")]:
        threads = [threading.Thread(target=one, args=(name, factor)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for name in names:
            result = results[name, factor]
            count = len(result["losses"])
            is_complete = count == STEPS and not result["error"]
            is_same = result["losses"] == free["losses"][:count]
            if name in ("vramwise", "vramwise:rescue"):
                is_bad = is_bad or not is_complete or not is_same
            moments = result["stats"].get("safe_moments") or {}
            step_ms = sorted(result["step_ms"]) or [0]
            rows.append([f"{factor:.2f}", name,
                         "completed" if is_complete else f"failed at step {count}",
                         "equal" if is_same else "DIFFERENT",
                         f"{result['peak_reserved_bytes'] / under.MIB:.1f}", str(result["retries"]),
                         f"{step_ms[len(step_ms) // 2]:.1f}", f"{step_ms[-1]:.1f}",
                         ", ".join(f"{k} {v}" for k, v in moments.items())])
            told = f": {result['error']}" if result["error"] else ""
            print(f"{'ok  ' if is_complete else 'OOM '} {factor:.2f} {name}{told}", flush=True)
            if result["stats"]:
                print(f"     {json.dumps(result['stats'])}")
    headings = ["card / peak live", "allocator", "run", "losses", "peak reserved MiB", "retries",
                "median step ms", "longest step ms", "safe moments"]
    print("\n" + under.table(headings, rows))
    return 1 if is_bad else 0


if __name__ == "__main__":
    sys.exit(main())
