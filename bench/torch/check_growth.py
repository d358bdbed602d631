"""check_growth.py - is the guard of `vramwise check` silent on a GPU, and does it see one percent?

    python3 check_growth.py [--repetitions N] [--workers N]

Trains a small GPT-2 for some steps, with a thread that brings batches on a stream of its own, and
records it: 20 times, each in a fresh process, some of them at a time, so that neither addresses nor
the clock nor the order of the threads are the same. Each is checked against the first, with the
default limits: none may be worse. Then the same with one percent more: a larger batch, a wider layer,
a tensor that is kept, a leak. Each must be worse. Exits with 1 otherwise. Needs a GPU, PyTorch, and
the libraries where VRAMWISE_LIBRARY_DIR says, or in build/.
"""
import argparse
import concurrent.futures
import json
import os
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import torch  # noqa: E402
from torch import nn  # noqa: E402

import vramwise  # noqa: E402
import vramwise.torch  # noqa: E402

BATCH, SEQUENCE, WIDTH, INNER, HEADS, LAYERS, WORDS, STEPS = 100, 64, 256, 1000, 8, 4, 4096, 16


class Layer(nn.Module):
    """Attention and two linear layers, as in GPT-2."""

    def __init__(self, inner):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.widen, self.narrow = nn.Linear(WIDTH, inner), nn.Linear(inner, WIDTH)

    def forward(self, x):
        parts = self.attention(self.first(x)).view(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.output(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.narrow(nn.functional.gelu(self.widen(self.second(x))))


class Gpt(nn.Module):
    """Words in, scores of the next word out."""

    def __init__(self, inner):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(SEQUENCE, WIDTH)
        self.layers = nn.Sequential(*(Layer(inner) for _ in range(LAYERS)))
        self.scores = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, x):
        places = torch.arange(x.shape[1], device=x.device)
        return self.scores(self.layers(self.words(x) + self.places(places)))


def bring(batches, size, chance):
    """The other thread: batches, on a stream of its own."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(STEPS):
            time.sleep(chance.random() / 500)
            raw = torch.randint(WORDS, (size, SEQUENCE + 1)).to("cuda", non_blocking=True)
            batch = raw.clone()
            del raw
            event = torch.cuda.Event()
            event.record(stream)
            batches.put((batch, event))


def train(chance, batch=BATCH, inner=INNER, kept_bytes=0, leaked_bytes=0):
    """Some steps of training. Everything is gone afterwards."""
    model = Gpt(inner).cuda()
    kept = [torch.empty(kept_bytes, dtype=torch.uint8, device="cuda")] if kept_bytes else []
    optimizer = torch.optim.AdamW(model.parameters())
    batches = queue.Queue(2)
    thread = threading.Thread(target=bring, args=(batches, batch, chance))
    thread.start()
    for _ in range(STEPS):
        words, event = batches.get()
        torch.cuda.current_stream().wait_event(event)
        words.record_stream(torch.cuda.current_stream())
        scores = model(words[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if leaked_bytes:
            kept.append(torch.empty(leaked_bytes, dtype=torch.uint8, device="cuda"))
        del words, scores, loss
    thread.join()


CHANGES = {
    "batch of 101 in place of 100": {"batch": BATCH + BATCH // 100},
    "inner width of 1010 in place of 1000": {"inner": INNER + INNER // 100},
    "a tensor of 1 % of the peak, kept": {"kept_bytes": 0.01},
    "1 % of the peak leaked with each step": {"leaked_bytes": 0.01},
}


def record(path, seed, change):
    """One repetition, in this process."""
    torch.manual_seed(0)
    with vramwise.torch.record(path):
        train(random.Random(seed), **change)


def record_elsewhere(path, seed, change):
    """One repetition, in a fresh process."""
    subprocess.run([sys.executable, __file__, "--one", path, str(seed), json.dumps(change)], check=True)
    return path


def shown(name, report):
    """A row of the table; whether something is worse."""
    cells = [f"{metric['growth']:+.2%}" if metric["growth"] is not None else
             ("new" if metric["now"] else "0") for metric in report["metrics"]]
    first = report["sites"][0] if report["worse"] and report["sites"] else None
    where = f"{first['site']}, line {first['line']}" if first else ""
    print(f"| {name} | {' | '.join(cells)} | {'worse' if report['worse'] else 'within'} | {where} |",
          flush=True)
    return report["worse"]


def compare(folder, repetitions, workers):
    """Records, checks and prints everything; (false alarms, changes that were missed)."""
    baseline = os.path.join(folder, "main.json")
    with vramwise.load(record_elsewhere(os.path.join(folder, "main.pickle"), 0, {})) as recording:
        recording.write_baseline(baseline)
        peak = recording.peak_live_bytes
        print(f"# {recording.events} events, {peak / 2**20:.0f} MiB live at the peak, all streams\n")
    print("| run | peak | reserved | allocations | leak | card | check | first of what grew |")
    print("|---|---|---|---|---|---|---|---|")
    runs = [(f"repetition {seed}", {}) for seed in range(1, repetitions + 1)]
    runs += [(name, {key: int(value * peak) if isinstance(value, float) else value
                     for key, value in change.items()}) for name, change in CHANGES.items()]
    alarms = missed = 0
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        paths = pool.map(record_elsewhere,
                         [os.path.join(folder, f"{seed}.pickle") for seed in range(len(runs))],
                         range(1, len(runs) + 1), [change for _, change in runs])
        for (name, change), path in zip(runs, paths):
            is_worse = shown(name, vramwise.check(path, baseline))
            alarms += is_worse and not change
            missed += not is_worse and bool(change)
    return alarms, missed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--workers", type=int, default=6, help="processes at a time")
    parser.add_argument("--one", nargs=3, metavar=("PATH", "SEED", "CHANGE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        record(options.one[0], int(options.one[1]), json.loads(options.one[2]))
        return 0
    begin = time.monotonic()
    print(f"# torch {torch.__version__}, {torch.cuda.get_device_name()}")
    with tempfile.TemporaryDirectory(prefix="check-growth-") as folder:
        alarms, missed = compare(folder, options.repetitions, options.workers)
    print(f"\n{alarms} false alarms in {options.repetitions} repetitions; {missed} of {len(CHANGES)} "
          f"changes missed; {time.monotonic() - begin:.0f} s")
    return 1 if alarms or missed else 0


if __name__ == "__main__":
    sys.exit(main())
