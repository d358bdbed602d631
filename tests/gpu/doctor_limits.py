"""doctor_limits.py - workloads that run out of memory, and those whose idle memory lies elsewhere.

Out of memory under a limit, on a card that is full, in pieces too small, in one request too large
for any card; and memory that is idle on other streams or in private pools. Marks:
doctor_catalogue.py; `job`: record_doctor.py.
"""
import functools
import random
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch import nn

from doctor_catalogue import EXPANDABLE, variant, workload
from doctor_driver import Driver
from doctor_models import Block, Mlp, labelled_rows, train_step

MIB, GIB = 1 << 20, 1 << 30


# No function of Python's: the innermost line of the stack is the caller's.
take = functools.partial(torch.empty, dtype=torch.uint8, device="cuda")


def few_steps(job, first_step, steps):
    """Ordinary training for a while: what came before then did not grow up to the failure."""
    model = Mlp(width=512, depth=2, classes=100).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(first_step, first_step + steps):
        train_step(model, optimizer, *labelled_rows(1024, width=512, classes=100))
        job.mark(step)


# ---- the limit -----------------------------------------------------------------------------------


def larger_and_larger(job):
    model = Mlp(depth=8).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step, rows in enumerate((1024, 1024, 2048, 4096, 8192, 16384, 32768, 65536)):
        inputs, targets = labelled_rows(rows)
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(inputs), targets).backward()  # <- larger_and_larger
        optimizer.step()
        job.mark(step)


@workload("capped", line="block", call="larger_and_larger", cap_gib=6, runs_out=True)
def oom_capped(job):
    """Batches that double until the limit is reached."""
    larger_and_larger(job)


variant("oom_capped", "expand", conf=EXPANDABLE)
variant("oom_capped", "no_stacks", history="none", line=None, call=None)


@workload("capped", line="block", call="larger_and_larger", runs_out=True,
          conf="per_process_memory_fraction:0.04")
def oom_capped_by_option(job):
    """The same, with the limit in the option string."""
    job.said["cap_gib"] = 0.04 * job.total_bytes / GIB
    larger_and_larger(job)


@workload("capped", line="block", call="oom_survived", cap_gib=5, runs_out=True)
def oom_survived(job):
    """A batch that fails, is halved until it fits, and then a run that ends well."""
    model = Mlp(depth=6).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    rows, step = 65536, 0
    while step < 12:
        try:
            train_step(model, optimizer, *labelled_rows(rows))  # <- oom_survived
        except torch.OutOfMemoryError as error:
            job.ran_out(error)
            rows //= 2
            continue
        job.mark(step)
        step += 1


@workload("too-large", line="oom_too_large", call="oom_too_large", cap_gib=3, runs_out=True)
def oom_too_large(job):
    """One request larger than the limit."""
    few_steps(job, 0, 6)
    features = torch.randn(36_864, 64, device="cuda")
    (features @ features.T).softmax(-1)  # <- oom_too_large


variant("oom_too_large", "expand", conf=EXPANDABLE)


@workload("too-large", line="oom_too_large_for_the_card", call="oom_too_large_for_the_card",
          runs_out=True)
def oom_too_large_for_the_card(job):
    """One request larger than the card."""
    few_steps(job, 0, 6)
    features = torch.randn(235_000, 64, device="cuda")
    (features @ features.T).softmax(-1)  # <- oom_too_large_for_the_card


# ---- pieces --------------------------------------------------------------------------------------


@workload("fragmentation", line="fragmented_loading_weights", call="fragmented_loading",
          cap_gib=5, runs_out=True)
def fragmented_loading(job):
    """Weights loaded beside larger temporaries, which then go and leave holes between them."""
    weights, temporaries = [], []
    for _ in range(400):
        weights.append(take(3 * MIB))  # <- fragmented_loading_weights
        temporaries.append(take(7 * MIB))
    del temporaries
    few_steps(job, 0, 8)
    batch = take(1600 * MIB)  # <- fragmented_loading
    del batch, weights


variant("fragmented_loading", "expand", conf=EXPANDABLE)
variant("fragmented_loading", "no_stacks", history="none", line=None, call=None)


@workload("fragmentation", line="fragmented_interleaved_blocks", call="fragmented_interleaved",
          cap_gib=5.5, runs_out=True)
def fragmented_interleaved(job):
    """Long-lived tensors among short-lived ones, of many sizes."""
    blocks = []
    for _ in range(1150):
        blocks.append(take(random.randrange(2 * MIB, 6 * MIB)))  # <- fragmented_interleaved_blocks
    kept = blocks[::4]
    del blocks
    few_steps(job, 0, 8)
    batch = take(1800 * MIB)  # <- fragmented_interleaved
    del batch, kept


variant("fragmented_interleaved", "expand", conf=EXPANDABLE)
variant("fragmented_interleaved", "gc", conf="garbage_collection_threshold:0.7")


@workload("fragmentation", line="fragmented_statistics_small", call="fragmented_statistics",
          cap_gib=6, runs_out=True)
def fragmented_statistics(job):
    """Small statistics, made in the first step, each inside a large block that it pins for good."""
    layers, large, small = 12, 320 * MIB, 6 * MIB
    statistics = {}
    for step in range(10):
        activations = []
        for layer in range(layers):
            scratch = take(large)
            del scratch
            if layer not in statistics:
                statistics[layer] = take(small)  # <- fragmented_statistics_small
            activations.append(take(large - small))
        del activations
        job.mark(step)
    batch = take(3 * GIB)  # <- fragmented_statistics
    del batch


# ---- the card ------------------------------------------------------------------------------------


# A recording does not say how large the card is: "genuine" is all that it can know of these two.
@workload("outside", line="block", call="larger_and_larger", runs_out=True, is_alone=True,
          accepted=("genuine",))
def outside_same_process(job):
    """Most of the card is held in this process, by something other than PyTorch."""
    take(MIB)  # makes the context
    driver = Driver()
    held = driver.take(driver.free_bytes() - 5 * GIB)
    try:
        larger_and_larger(job)
    finally:
        driver.give_back(held)


@workload("outside", line="block", call="larger_and_larger", runs_out=True, is_alone=True,
          accepted=("genuine",))
def outside_other_process(job):
    """Most of the card is held by another process."""
    holder = subprocess.Popen([sys.executable, job.script, "--hold", str(6 * GIB)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        if holder.stdout.readline().strip() != "held":
            raise RuntimeError("the other process could not take its memory")
        larger_and_larger(job)
    finally:
        holder.communicate()


@workload("genuine", line="block", call="oom_genuine", runs_out=True, is_alone=True)
def oom_genuine(job):
    """The whole card is needed, and more."""
    model = nn.Sequential(*[Block(4096) for _ in range(6)]).to("cuda", torch.bfloat16)
    for step, rows in enumerate((16_384, 65_536, 131_072, 524_288)):
        inputs = torch.randn(rows, 4096, dtype=torch.bfloat16, device="cuda")
        model(inputs).square().mean().backward()  # <- oom_genuine
        model.zero_grad(set_to_none=True)
        job.mark(step)


# ---- other streams, private pools ----------------------------------------------------------------


@workload("stranded")
def stranded_loader(job):
    """Batches prepared on a stream of their own, whose temporaries no other stream can use."""
    loader = torch.cuda.Stream()
    model = Mlp(width=4096, depth=1, classes=10).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(30):
        rows = random.choice((8192, 16_384, 24_576, 32_768))
        with torch.cuda.stream(loader):
            raw = torch.randn(rows, 4096, device="cuda")
            scaled = (raw - raw.mean()) / raw.std()
            batch = scaled[: rows // 4].clone()
            del raw, scaled
        torch.cuda.current_stream().wait_stream(loader)
        batch.record_stream(torch.cuda.current_stream())
        targets = torch.zeros(batch.shape[0], dtype=torch.long, device="cuda")
        train_step(model, optimizer, batch, targets)
        del batch, targets
        job.mark(step)


variant("stranded_loader", "expand", conf=EXPANDABLE)


@workload("stranded")
def stranded_in_turns(job):
    """Two streams that work in turns, each with memory of its own that the other cannot use."""
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    weights = torch.randn(4096, 4096, device="cuda")
    torch.cuda.synchronize()
    for step in range(24):
        rows = random.choice((16_384, 32_768) if step % 2 == 0 else (24_576, 49_152))
        with torch.cuda.stream(streams[step % 2]):
            x = torch.randn(rows, 4096, device="cuda")
            first = x @ weights
            second = F.gelu(first) @ weights
            second.sum().item()
            del x, first, second
        job.mark(step)


variant("stranded_in_turns", "expand", conf=EXPANDABLE)
variant("stranded_in_turns", "no_stacks", history="none")


@workload("stranded")
def stranded_waiting(job):
    """Memory freed while a slow stream may still use it: it waits, and more is taken meanwhile."""
    slow = torch.cuda.Stream()
    for step in range(4):
        for _ in range(12):
            x = torch.randn(random.randrange(48, 160) * MIB, device="cuda")
            slow.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(slow):
                torch.cuda._sleep(40_000_000)
                x.mul_(2)
            x.record_stream(slow)
            del x
        job.mark(step)


@workload("stranded", call="oom_stranded_on_a_stream", cap_gib=4, runs_out=True,
          note="a tensor of 4 MiB pins the block that lies idle on the other stream")
def oom_stranded_on_a_stream(job):
    """A request that fails while one idle block would hold it, on another stream."""
    side = torch.cuda.Stream()
    few_steps(job, 0, 6)
    with torch.cuda.stream(side):
        large = take(2560 * MIB)
        del large
        kept = take(4 * MIB)
    torch.cuda.synchronize()
    few_steps(job, 6, 6)
    batch = take(2048 * MIB)  # <- oom_stranded_on_a_stream
    del batch, kept


@workload("stranded", call="oom_stranded_in_a_pool", cap_gib=4, runs_out=True)
def oom_stranded_in_a_pool(job):
    """A request that fails while one idle block would hold it, in a private pool."""
    pool = torch.cuda.MemPool()
    few_steps(job, 0, 6)
    with torch.cuda.use_mem_pool(pool):
        large = take(2560 * MIB)
        del large
        kept = take(4 * MIB)
    few_steps(job, 6, 6)
    batch = take(2048 * MIB)  # <- oom_stranded_in_a_pool
    del batch, kept
