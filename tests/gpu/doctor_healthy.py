"""doctor_healthy.py - workloads in which nothing is wrong, although some of them look as if.

Caches that fill and then stay, buffers that appear late, loads that vary, phases that differ: the
verdict is healthy. Marks: doctor_catalogue.py; `job`: record_doctor.py.
"""
import collections
import random

import torch
import torch.nn.functional as F
from torch import nn

from doctor_catalogue import EXPANDABLE, variant, workload
from doctor_models import (Cnn, LanguageModel, LowRank, Mlp, labelled_images, labelled_rows,
                           language_loss, random_tokens, train_step)


def language_step(model, optimizer, tokens):
    optimizer.zero_grad(set_to_none=True)
    loss = language_loss(model(tokens), tokens)
    loss.backward()
    optimizer.step()
    return loss.item()


@workload("healthy")
def healthy_lru_cache(job):
    """A cache that fills over the first steps and then evicts what was used longest ago."""
    model = Mlp(depth=3).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    cache = collections.OrderedDict()
    for step in range(40):
        inputs, targets = labelled_rows(1024)
        train_step(model, optimizer, inputs, targets)
        cache[step] = inputs @ torch.randn(1024, 8192, device="cuda")
        if len(cache) > 8:
            cache.popitem(last=False)
        job.mark(step)


variant("healthy_lru_cache", "ring", history="ring", note="only the last events were kept")
variant("healthy_lru_cache", "expand", conf=EXPANDABLE)


@workload("healthy")
def healthy_replay_buffer(job):
    """A replay buffer, there from the start and written round and round."""
    model = Mlp(depth=2, classes=16).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    states = torch.empty(200_000, 1024, device="cuda")
    actions = torch.zeros(200_000, dtype=torch.long, device="cuda")
    for step in range(50):
        begin = step * 8192 % 190_000
        states[begin:begin + 8192] = torch.randn(8192, 1024, device="cuda")
        chosen = torch.randint(0, 190_000, (2048,), device="cuda")
        train_step(model, optimizer, states[chosen], actions[chosen])
        job.mark(step)


@workload("healthy")
def healthy_moving_average(job):
    """A moving average of the weights, made anew each step: always one copy."""
    model = Mlp(depth=4).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    average = [weight.detach().clone() for weight in model.parameters()]
    for step in range(30):
        train_step(model, optimizer, *labelled_rows(1024))
        average = [0.99 * old + 0.01 * weight.detach()
                   for old, weight in zip(average, model.parameters())]
        job.mark(step)


@workload("healthy")
def healthy_accumulation(job):
    """Gradients of four batches summed before each step of the optimizer."""
    model = Mlp(depth=4).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(12):
        optimizer.zero_grad(set_to_none=True)
        for _ in range(4):
            inputs, targets = labelled_rows(1024)
            loss = F.cross_entropy(model(inputs), targets) / 4
            loss.backward()
            del loss
        optimizer.step()
        job.mark(step)


@workload("healthy")
def healthy_workspaces(job):
    """Libraries' workspaces: one for each stream and kind of work, as each is first used."""
    convolutions, products = Cnn().cuda(), Mlp(depth=2).cuda()
    optimizer = torch.optim.SGD(
        [*convolutions.parameters(), *products.parameters()], lr=0.01, momentum=0.9)
    side = torch.cuda.Stream()
    for step in range(24):
        optimizer.zero_grad(set_to_none=True)
        images, labels = labelled_images(16, 96)
        F.cross_entropy(convolutions(images), labels).backward()
        if step >= 3:
            inputs, targets = labelled_rows(1024)
            F.cross_entropy(products(inputs), targets).backward()
        if step >= 6:
            with torch.cuda.stream(side), torch.no_grad():
                small = torch.randn(512, 512, device="cuda")
                (small @ small).sum().item()
        optimizer.step()
        job.mark(step)


@workload("healthy")
def healthy_curriculum(job):
    """Sequences that grow longer over the first third, and then no more."""
    model = LanguageModel(depth=3).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(42):
        language_step(model, optimizer, random_tokens(8, min(64 + 48 * step, 736)))
        job.mark(step)


@workload("healthy")
def healthy_lengths(job):
    """Batches of every length."""
    model = LanguageModel(depth=3).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(48):
        tokens = random_tokens(random.choice((2, 4, 8)), random.randrange(48, 768))
        language_step(model, optimizer, tokens)
        job.mark(step)


variant("healthy_lengths", "expand", conf=EXPANDABLE)
variant("healthy_lengths", "no_stacks", history="none")
variant("healthy_lengths", "pow2", conf="roundup_power2_divisions:4")


@workload("healthy")
def healthy_late_momentum(job):
    """Momentum that appears only when the optimizer is first used, at the sixth step."""
    model = Mlp(depth=4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step in range(30):
        inputs, targets = labelled_rows(1024)
        F.cross_entropy(model(inputs), targets).backward()
        if step >= 5:
            optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        job.mark(step)


@workload("healthy")
def healthy_unfreezing(job):
    """Layers that are trained from later steps on: gradients and state come in stages."""
    model = Mlp(depth=4).cuda().requires_grad_(False)
    model.head.requires_grad_(True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(40):
        if step in (4, 8, 12, 16):
            model.blocks[4 - step // 4].requires_grad_(True)
        train_step(model, optimizer, *labelled_rows(1024))
        job.mark(step)


@workload("healthy")
def healthy_logging(job):
    """loss.item() in a list: numbers, no tensors."""
    model = Cnn(channels=48).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    losses = []
    for step in range(40):
        losses.append(train_step(model, optimizer, *labelled_images(16, 128)))
        job.mark(step)


variant("healthy_logging", "late", history="late",
        note="recording begun after a third of the steps")
variant("healthy_logging", "cpp", history="cpp", note="with C++ stacks")


@workload("healthy")
def healthy_evaluation(job):
    """Evaluation every five steps, in inference_mode(), its predictions kept until it is over."""
    model = Mlp(depth=4, classes=4096).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(40):
        train_step(model, optimizer, *labelled_rows(1024, classes=4096))
        if step % 5 == 4:
            model.eval()
            with torch.inference_mode():
                predictions = [model(labelled_rows(1024)[0]) for _ in range(6)]
                torch.cat(predictions).argmax(-1).float().mean().item()
            del predictions
            model.train()
        job.mark(step)


variant("healthy_evaluation", "expand", conf=EXPANDABLE)


@workload("healthy")
def healthy_inference(job):
    """A server whose answers leave the card."""
    model = Mlp(depth=6, classes=8192).cuda().eval()
    with torch.inference_mode():
        for request in range(60):
            answer = model(torch.randn(random.randrange(64, 2048), 1024, device="cuda"))
            answer.argmax(-1).cpu()
            job.mark(request)


variant("healthy_inference", "no_stacks", history="none")


@workload("healthy")
def healthy_generation(job):
    """Keys and values that grow with every token of a request, and go with it."""
    model = LanguageModel(width=1024, depth=4).cuda().eval()
    with torch.inference_mode():
        for request in range(6):
            pasts = [[] for _ in model.attentions]
            tokens = random_tokens(16, random.randrange(128, 640))
            for _ in range(16):
                tokens = model(tokens, pasts)[:, -1:].argmax(-1)
            del pasts
            job.mark(request)


@workload("healthy")
def healthy_low_rank(job):
    """Frozen weights with small trained ones beside them."""
    model = nn.Sequential(*[LowRank(4096) for _ in range(8)], nn.Linear(4096, 100)).cuda()
    optimizer = torch.optim.AdamW(
        [weight for weight in model.parameters() if weight.requires_grad], lr=1e-3)
    for step in range(30):
        train_step(model, optimizer, *labelled_rows(1024, width=4096, classes=100))
        job.mark(step)


@workload("healthy")
def healthy_mixed_precision(job):
    """Autocast with a gradient scaler."""
    model = Mlp(depth=4).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler("cuda")
    for step in range(30):
        inputs, targets = labelled_rows(2048)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        job.mark(step)


@workload("healthy")
def healthy_two_models(job):
    """Two models with an optimizer each, trained in turn."""
    maker, judge = Mlp(depth=3, classes=1024).cuda(), Mlp(depth=2, classes=1).cuda()
    maker_optimizer = torch.optim.Adam(maker.parameters(), lr=1e-4)
    judge_optimizer = torch.optim.Adam(judge.parameters(), lr=1e-4)
    for step in range(24):
        real, noise = labelled_rows(1024)[0], labelled_rows(1024)[0]
        judge_optimizer.zero_grad(set_to_none=True)
        (judge(maker(noise).detach()).mean() - judge(real).mean()).backward()
        judge_optimizer.step()
        maker_optimizer.zero_grad(set_to_none=True)
        (-judge(maker(noise)).mean()).backward()
        maker_optimizer.step()
        job.mark(step)


@workload("healthy")
def healthy_checkpointing(job):
    """Activations made again in the backward pass."""
    model = Mlp(depth=8, is_checkpointed=True).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(20):
        train_step(model, optimizer, *labelled_rows(4096))
        job.mark(step)


@workload("healthy")
def healthy_graphs(job):
    """Captured graphs, each with a private pool that it needs."""
    model = Mlp(depth=4).cuda().eval()
    graphs = []
    with torch.no_grad():
        for rows in (64, 512, 2048):
            inputs = torch.randn(rows, 1024, device="cuda")
            warm = torch.cuda.Stream()
            warm.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(warm):
                model(inputs)
            torch.cuda.current_stream().wait_stream(warm)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                outputs = model(inputs)
            graphs.append((graph, inputs, outputs))
        for step in range(24):
            graph, inputs, outputs = graphs[step % 3]
            inputs.copy_(torch.randn_like(inputs))
            graph.replay()
            outputs.sum().item()
            job.mark(step)


@workload("healthy")
def healthy_resnet(job):
    """A network of torchvision's, trained at one size."""
    import torchvision
    model = torchvision.models.resnet18().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step in range(16):
        train_step(model, optimizer, *labelled_images(32, 160))
        job.mark(step)


@workload("healthy")
def healthy_gpt2(job):
    """A model of transformers', trained with accumulation, and evaluated now and then."""
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config(n_layer=3, n_embd=384, n_head=6, vocab_size=8000,
                                       n_positions=512, use_cache=False)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(12):
        optimizer.zero_grad(set_to_none=True)
        for _ in range(2):
            tokens = random_tokens(4, 512)
            (model(input_ids=tokens, labels=tokens).loss / 2).backward()
        optimizer.step()
        if step % 4 == 3:
            with torch.inference_mode():
                tokens = random_tokens(8, 512)
                model(input_ids=tokens, labels=tokens).loss.item()
        job.mark(step)
