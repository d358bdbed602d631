"""doctor_kept.py - workloads that keep what they could let go, without growing step after step.

First forward passes that no backward pass follows, run with their graph all the same: the verdict
is kept-graph. Then what is held through a peak that does not need it (gradients, the last step's
outputs, another phase's memory): the run is healthy, and a finding says so. Marks:
doctor_catalogue.py; `job`: record_doctor.py.
"""
import torch
import torch.nn.functional as F
from torch import nn

from doctor_catalogue import EXPANDABLE, variant, workload
from doctor_models import (Cell, Cnn, LanguageModel, Mlp, labelled_images, labelled_rows,
                           language_loss, random_tokens, train_step)

# ---- kept graphs ---------------------------------------------------------------------------------


@workload("kept-graph", line="cnn", call="kept_graph_outputs")
def kept_graph_outputs(job):
    """Evaluation without inference_mode(), its outputs kept for a score."""
    model = Cnn().cuda().eval()
    outputs = []
    for step in range(10):
        images, _ = labelled_images(16, 128)
        outputs.append(model(images))  # <- kept_graph_outputs
        job.mark(step)
    torch.cat(outputs).argmax(-1).float().mean().item()


variant("kept_graph_outputs", "expand", conf=EXPANDABLE)
variant("kept_graph_outputs", "all", history="all")


@workload("kept-graph", line="cnn", call="kept_graph_until_oom", cap_gib=3, runs_out=True)
def kept_graph_until_oom(job):
    """The same, until the limit is reached."""
    model = Cnn().cuda().eval()
    outputs = []
    for step in range(100):
        images, _ = labelled_images(16, 128)
        outputs.append(model(images))  # <- kept_graph_until_oom
        job.mark(step)


@workload("kept-graph", line="block", call="kept_graph_between")
def kept_graph_between(job):
    """Training in order; between its epochs an evaluation that keeps its outputs, graph and all."""
    model = Mlp(depth=4).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for epoch in range(3):
        for _ in range(6):
            train_step(model, optimizer, *labelled_rows(1024))
        model.eval()
        outputs, labels = [], []
        for _ in range(6):
            inputs, targets = labelled_rows(2048)
            outputs.append(model(inputs))  # <- kept_graph_between
            labels.append(targets)
        (torch.cat(outputs).argmax(-1) == torch.cat(labels)).float().mean().item()
        del outputs, labels
        model.train()
        job.mark(epoch)


@workload("kept-graph", line="block", call="kept_graph_one_forward")
def kept_graph_one_forward(job):
    """One large forward pass with its graph, of which one number is used."""
    model = Mlp(depth=8).cuda().eval()
    with torch.inference_mode():
        for step in range(4):
            model(labelled_rows(256)[0]).mean().item()
            job.mark(step)
    score = model(labelled_rows(16384)[0]).mean()  # <- kept_graph_one_forward
    score.item()
    job.mark(4)


@workload("kept-graph", line="block", call="kept_graph_dropped")
def kept_graph_dropped(job):
    """A server that builds a graph for each request, and drops it with the answer."""
    model = Mlp(depth=8).cuda().eval()
    for request in range(24):
        answer = model(torch.randn(2048, 1024, device="cuda"))  # <- kept_graph_dropped
        answer.argmax(-1).cpu()
        del answer
        job.mark(request)


@workload("kept-graph", line="block", call="kept_graph_validation_loss")
def kept_graph_validation_loss(job):
    """A validation loss summed with its graph, dropped when the validation is over."""
    model = Mlp(depth=3).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(4):
        for _ in range(8):
            train_step(model, optimizer, *labelled_rows(512))
        total = 0.0
        for _ in range(8):
            inputs, targets = labelled_rows(1024)
            total = total + F.cross_entropy(model(inputs), targets)  # <- kept_graph_validation_loss
        total.item()
        del total
        job.mark(epoch)


@workload("kept-graph", line="cell", call="kept_graph_hidden_state", accepted=("leak",))
def kept_graph_hidden_state(job):
    """A recurrent model evaluated with its graph, which the hidden state carries on and on."""
    cell, head = Cell(2048).cuda(), nn.Linear(2048, 10).cuda()
    hidden = torch.zeros(2048, 2048, device="cuda")
    for step in range(30):
        hidden = cell(torch.randn(2048, 2048, device="cuda"), hidden)  # <- kept_graph_hidden_state
        head(hidden).argmax(-1).cpu()
        job.mark(step)


@workload("kept-graph", call="kept_graph_resnet", line="kept_graph_resnet")
def kept_graph_resnet(job):
    """A network of torchvision's without inference_mode(): all its lines are a library's."""
    import torchvision
    model = torchvision.models.resnet18().cuda().eval()
    features = []
    for step in range(8):
        features.append(model(labelled_images(24, 160)[0]))  # <- kept_graph_resnet
        job.mark(step)


# ---- held through a peak -------------------------------------------------------------------------


@workload("healthy", finding="gradients-held", call="gradients_held_late")
def gradients_held_late(job):
    """zero_grad() between the forward and the backward pass."""
    model = Mlp(width=2048, depth=4).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(16):
        inputs, targets = labelled_rows(4096, width=2048)
        loss = F.cross_entropy(model(inputs), targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # <- gradients_held_late
        optimizer.step()
        del loss
        job.mark(step)


@workload("healthy", finding="gradients-held", call="gradients_held_zeros")
def gradients_held_zeros(job):
    """zero_grad(set_to_none=False): gradients filled with zeros, all through the forward pass."""
    model = Mlp(width=2048, depth=4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step in range(16):
        inputs, targets = labelled_rows(4096, width=2048)
        optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(inputs), targets)
        loss.backward()  # <- gradients_held_zeros
        optimizer.step()
        del loss
        job.mark(step)


variant("gradients_held_zeros", "expand", conf=EXPANDABLE)


@workload("healthy", finding="held-over", line="logits", call="held_over_logits")
def held_over_logits(job):
    """The last step's logits, in a variable that the next forward pass has not yet replaced."""
    model = LanguageModel(vocabulary=32_000, depth=3).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(16):
        tokens = random_tokens(8, 512, vocabulary=32_000)
        logits = model(tokens)  # <- held_over_logits
        loss = language_loss(logits, tokens)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        job.mark(step)


@workload("healthy", finding="held-over", call="held_over_evaluation")
def held_over_evaluation(job):
    """A large evaluation beside the optimizer's state and the last batch of the training."""
    model = Mlp(width=2048, depth=4).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for epoch in range(3):
        for _ in range(5):
            inputs, targets = labelled_rows(2048, width=2048)
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()  # <- held_over_evaluation
        model.eval()
        with torch.inference_mode():
            for _ in range(4):
                model(labelled_rows(49_152, width=2048)[0]).mean().item()
        model.train()
        job.mark(epoch)
