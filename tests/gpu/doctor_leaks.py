"""doctor_leaks.py - workloads in which memory grows step after step: the verdict is a leak.

Each in one of the ways people write them. The line that a diagnosis must name is the one that made
what stays, not the one that keeps it. Marks: doctor_catalogue.py; `job`: record_doctor.py.
"""
import gc
import random

import torch
import torch.nn.functional as F
from torch import nn

from doctor_catalogue import EXPANDABLE, variant, workload
from doctor_models import (Cell, Cnn, KeepsItsOutput, LanguageModel, Mlp, TwoHeads, labelled_images,
                           labelled_rows, language_loss, random_tokens, train_step)


@workload("leak", line="block", call="leak_loss_retained")
def leak_loss_retained(job):
    """The loss summed with its graph, which the backward pass was told to retain."""
    model = Mlp(depth=3).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    total = 0.0
    for step in range(40):
        inputs, targets = labelled_rows(512)
        loss = F.cross_entropy(model(inputs), targets)  # <- leak_loss_retained
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        total += loss
        job.mark(step)


@workload("leak", line="auxiliary_head", more_lines=("block",), call="leak_loss_auxiliary")
def leak_loss_auxiliary(job):
    """A second loss that is only logged: no backward pass goes through its part of the graph."""
    model = TwoHeads().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    logged = torch.zeros((), device="cuda")
    for step in range(40):
        inputs, targets = labelled_rows(768)
        optimizer.zero_grad(set_to_none=True)
        scores, judged = model(inputs)  # <- leak_loss_auxiliary
        F.cross_entropy(scores, targets).backward()
        optimizer.step()
        logged = logged + judged.square().mean()
        job.mark(step)


@workload("leak", line="mlp_head", call="leak_outputs")
def leak_outputs(job):
    """outputs.append(output), in training, with the backward pass done."""
    model = Mlp(depth=3, classes=8192).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    kept = []
    for step in range(48):
        inputs, targets = labelled_rows(512, classes=8192)
        optimizer.zero_grad(set_to_none=True)
        outputs = model(inputs)  # <- leak_outputs
        loss = F.cross_entropy(outputs, targets)
        loss.backward()
        optimizer.step()
        kept.append(outputs)
        job.mark(step)
    return kept  # still there when the snapshot is taken


variant("leak_outputs", "expand", conf=EXPANDABLE)
variant("leak_outputs", "late", history="late", note="recording begun after a third of the steps")
variant("leak_outputs", "ring", history="ring", note="only the last events were kept")
variant("leak_outputs", "all", history="all")


@workload("leak", line="cnn_head", call="leak_outputs_detached")
def leak_outputs_detached(job):
    """The same with detach(): the graph goes, the outputs stay."""
    model = Cnn(classes=200_000).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    predictions = []
    for step in range(30):
        images, labels = labelled_images(24, 64)
        optimizer.zero_grad()
        scores = model(images)  # <- leak_outputs_detached
        F.cross_entropy(scores, labels).backward()
        optimizer.step()
        predictions.append(scores.detach())
        job.mark(step)


@workload("leak", line="block", call="leak_hook")
def leak_hook(job):
    """A forward hook, left in place, that collects activations."""
    model = Mlp(depth=6).cuda()
    collected = {index: [] for index in range(6)}
    for index, block in enumerate(model.blocks):
        if index % 2 == 0:
            block.register_forward_hook(
                lambda module, inputs, output, kept=collected[index]: kept.append(output.detach()))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step in range(40):
        inputs, targets = labelled_rows(2048)
        train_step(model, optimizer, inputs, targets)  # <- leak_hook
        job.mark(step)


@workload("leak", line="logits", call="leak_every_tenth_step")
def leak_every_tenth_step(job):
    """Kept for a plot at every tenth step only."""
    model = LanguageModel(depth=2).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    plotted = []
    for step in range(90):
        tokens = random_tokens(4, 384)
        optimizer.zero_grad(set_to_none=True)
        logits = model(tokens)  # <- leak_every_tenth_step
        loss = language_loss(logits, tokens)
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            plotted.append((loss.detach(), logits.detach()))
        job.mark(step)


@workload("leak", line="leak_growing_cat", call="leak_growing_cat")
def leak_growing_cat(job):
    """One tensor that is made anew each step, a little longer: no block of it grows old."""
    model = Mlp(depth=2, classes=4096).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    everything = torch.empty(0, 4096, device="cuda")
    for step in range(40):
        inputs, targets = labelled_rows(1024, classes=4096)
        optimizer.zero_grad(set_to_none=True)
        scores = model(inputs)
        F.cross_entropy(scores, targets).backward()
        optimizer.step()
        everything = torch.cat([everything, scores.detach()])  # <- leak_growing_cat
        job.mark(step)


@workload("leak", line="leak_cache_by_step", call="leak_cache_by_step")
def leak_cache_by_step(job):
    """A cache whose key is never seen again."""
    model = Mlp(depth=3).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    cache = {}
    for step in range(48):
        inputs, targets = labelled_rows(2048)
        train_step(model, optimizer, inputs, targets)
        cache[step] = inputs.half() * 0.5  # <- leak_cache_by_step
        job.mark(step)
    return cache


@workload("leak", line="mlp_head", call="leak_in_evaluation")
def leak_in_evaluation(job):
    """Training leaves nothing behind; each evaluation leaves its predictions."""
    model = Mlp(depth=3, classes=4096).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    predictions = []
    for epoch in range(8):
        for _ in range(6):
            train_step(model, optimizer, *labelled_rows(1024, classes=4096))
        with torch.no_grad():
            for _ in range(4):
                predictions.append(model(labelled_rows(1024)[0]))  # <- leak_in_evaluation
        job.mark(epoch)


@workload("leak", line="cell", call="leak_hidden_state")
def leak_hidden_state(job):
    """A hidden state that is carried from step to step and never detached."""
    cell = Cell().cuda().requires_grad_(False)
    start = nn.Parameter(torch.zeros(4096, 1024, device="cuda"))
    head = nn.Linear(1024, 100).cuda()
    optimizer = torch.optim.SGD([start, *head.parameters()], lr=0.01)
    hidden = torch.sigmoid(start)
    for step in range(36):
        inputs, targets = labelled_rows(4096, classes=100)
        optimizer.zero_grad(set_to_none=True)
        hidden = cell(inputs, hidden)  # <- leak_hidden_state
        F.cross_entropy(head(hidden), targets).backward(retain_graph=True)
        optimizer.step()
        job.mark(step)


@workload("leak", line="leak_optimizers", call="leak_optimizers")
def leak_optimizers(job):
    """A new optimizer each epoch, and the old ones kept with their state."""
    model = Mlp(depth=3).cuda()
    history = []
    for epoch in range(10):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        history.append(optimizer)
        for _ in range(4):
            inputs, targets = labelled_rows(512)
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(model(inputs), targets).backward()
            optimizer.step()  # <- leak_optimizers
        job.mark(epoch)


@workload("leak", line="leak_gradient_copies", call="leak_gradient_copies")
def leak_gradient_copies(job):
    """A copy of every gradient kept for statistics."""
    model = Mlp(width=512, depth=3).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    log = []
    for step in range(40):
        inputs, targets = labelled_rows(1024, width=512)
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(inputs), targets).backward()
        log.append([p.grad.clone() for p in model.parameters()])  # <- leak_gradient_copies
        optimizer.step()
        job.mark(step)


@workload("leak", call="leak_gradients_kept",
          note="made by autograd's own thread: their stacks name no line of the program")
def leak_gradients_kept(job):
    """The gradients themselves kept, and new ones made in the next step."""
    model = Mlp(width=512, depth=3).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    log = []
    for step in range(40):
        inputs, targets = labelled_rows(1024, width=512)
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(inputs), targets).backward()  # <- leak_gradients_kept
        log.append([weight.grad for weight in model.parameters()])
        optimizer.step()
        job.mark(step)


@workload("leak", line="block", call="leak_until_oom", cap_gib=4, runs_out=True)
def leak_until_oom(job):
    """A leak that ends in an out-of-memory error: the limit is not what is wrong."""
    model = Mlp(depth=4).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    activations = []
    for block in model.blocks:
        block.register_forward_hook(lambda module, inputs, output: activations.append(output))
    for step in range(200):
        inputs, targets = labelled_rows(4096)
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(inputs), targets).backward()  # <- leak_until_oom
        optimizer.step()
        job.mark(step)


variant("leak_until_oom", "expand", conf=EXPANDABLE)
variant("leak_until_oom", "no_stacks", history="none", line=None, call=None)


def score_of(features):
    table = features @ features.T  # <- leak_traceback
    if table.numel() > 0:
        raise ValueError("no score for these features")
    return table


@workload("leak", line="leak_traceback", more_lines=("labelled_rows",), call="leak_traceback_call")
def leak_traceback(job):
    """Errors kept for a report: each holds its traceback, the frames in it, and their tensors."""
    model = Mlp(depth=3).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    errors = []
    for step in range(40):
        inputs, targets = labelled_rows(2048)
        train_step(model, optimizer, inputs, targets)
        try:
            score_of(inputs)  # <- leak_traceback_call
        except ValueError as error:
            errors.append(error)
        job.mark(step)


@workload("leak", line="mlp_head", call="leak_requests")
def leak_requests(job):
    """A server that keeps its answers; it never trains."""
    model = Mlp(depth=6, classes=8192).cuda().eval()
    answers = {}
    with torch.inference_mode():
        for request in range(64):
            rows = random.choice((256, 512, 768))
            answers[request] = model(torch.randn(rows, 1024, device="cuda"))  # <- leak_requests
            job.mark(request)
    return answers


variant("leak_requests", "no_stacks", history="none", line=None, call=None)
variant("leak_requests", "expand", conf=EXPANDABLE)


@workload("leak", line="leak_small_in_large", call="leak_small_in_large")
def leak_small_in_large(job):
    """One MiB a step beside two GiB that are needed."""
    model = Mlp(width=2048, depth=4).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    probes = []
    for step in range(80):
        inputs, targets = labelled_rows(1024, width=2048)
        train_step(model, optimizer, inputs, targets)
        probes.append(inputs[:128].clone())  # <- leak_small_in_large
        job.mark(step)


@workload("leak", line="context_cycle", call="leak_context_cycle")
def leak_context_cycle(job):
    """A function of the user's own whose context and output hold each other."""
    gc.disable()  # as large jobs do; the cycles would otherwise be found now and then
    model = Mlp(depth=2, classes=2048).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(48):
        inputs, targets = labelled_rows(1024, classes=2048)
        optimizer.zero_grad(set_to_none=True)
        scores = KeepsItsOutput.apply(model(inputs) * 0.1)  # <- leak_context_cycle
        F.cross_entropy(scores, targets).backward()
        optimizer.step()
        job.mark(step)


@workload("leak", line="logits", call="leak_varying_batches")
def leak_varying_batches(job):
    """What stays differs from step to step as the batches do."""
    model = LanguageModel(depth=3).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    last_logits = []
    for step in range(60):
        tokens = random_tokens(random.choice((2, 3, 5, 8)), random.randrange(64, 512))
        optimizer.zero_grad(set_to_none=True)
        logits = model(tokens)  # <- leak_varying_batches
        language_loss(logits, tokens).backward()
        optimizer.step()
        last_logits.append(logits.detach())
        job.mark(step)


variant("leak_varying_batches", "expand", conf=EXPANDABLE)
variant("leak_varying_batches", "no_stacks", history="none", line=None, call=None)
