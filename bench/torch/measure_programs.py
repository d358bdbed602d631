"""measure_programs.py - programs that no config file describes, measured on a GPU or traced without one.

    python3 measure_programs.py measure [PART OF] [--only WORDS]       peaks, a line of JSON each
    python3 measure_programs.py trace OUT [PART OF] [--only WORDS]     traces, into the folder OUT

A program is a function that builds its models and optimizers and gives back its step. Each runs in a
process of its own, and what counts is the peak of its third step. trace_accuracy.py puts both side by
side (`--programs`).
"""
import argparse
import functools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, Dict

import torch
from torch import nn
from torch.nn import functional as F

DEVICE = "cuda"
STEPS = 3
PROGRAMS: Dict[str, Callable] = {}
SHARES = {"experts": 1 / 8}  # of the elements of a mask that are set; else the worst case


def program(function: Callable) -> Callable:
    PROGRAMS[function.__name__] = function
    return function


def training(model: nn.Module, loss: Callable, optimizer: str = "AdamW", cast=None, **settings) -> Callable:
    """The plain step: forward, backward, optimizer."""
    model.train()
    steps = getattr(torch.optim, optimizer)(model.parameters(), lr=1e-4, **settings)

    def step() -> None:
        steps.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, dtype=cast or torch.bfloat16, enabled=cast is not None):
            value = loss(model)
        value.backward()
        steps.step()

    return step


def floats(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device=DEVICE)


def numbers(most: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, most, shape, device=DEVICE)


# ---- recurrent -------------------------------------------------------------------------------------

class Recurrent(nn.Module):
    def __init__(self, kind: str, words: int, width: int, **settings) -> None:
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.cells = getattr(nn, kind)(width, width, batch_first=True, **settings)
        self.head = nn.Linear(width * (2 if settings.get("bidirectional") else 1), words)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        made, _ = self.cells(self.table(ids))
        return self.head(made)


def words_loss(words: int, batch: int, length: int) -> Callable:
    def loss(model: nn.Module) -> torch.Tensor:
        ids = numbers(words, batch, length)
        return F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
    return loss


def recurrent(kind: str, batch: int, length: int, width: int, cast=None, **settings) -> Callable:
    model = Recurrent(kind, 4000, width, **settings).to(DEVICE)
    return training(model, words_loss(4000, batch, length), cast=cast)


for _name, _arguments in dict(
        lstm=dict(kind="LSTM", batch=64, length=256, width=768, num_layers=2),
        lstm_dropout=dict(kind="LSTM", batch=32, length=512, width=640, num_layers=3, dropout=0.2),
        lstm_both_ways=dict(kind="LSTM", batch=32, length=256, width=512, num_layers=2, bidirectional=True),
        lstm_amp=dict(kind="LSTM", batch=64, length=256, width=768, num_layers=2, cast=torch.float16),
        gru=dict(kind="GRU", batch=64, length=256, width=768, num_layers=2),
        gru_both_ways=dict(kind="GRU", batch=16, length=400, width=1024, num_layers=4, bidirectional=True),
        rnn_tanh=dict(kind="RNN", batch=64, length=256, width=1024, num_layers=2)).items():
    PROGRAMS[_name] = functools.partial(recurrent, **_arguments)


@program
def truncated_lstm() -> Callable:
    model = Recurrent("LSTM", 10000, 1024, num_layers=2).to(DEVICE)
    kept = [None]

    def loss(model: nn.Module) -> torch.Tensor:
        ids = numbers(10000, 32, 128)
        made, state = model.cells(model.table(ids), kept[0])
        kept[0] = tuple(s.detach() for s in state)
        return F.cross_entropy(model.head(made).flatten(0, 1), ids.flatten())

    return training(model, loss, "SGD")


@program
def lstm_infer() -> Callable:
    model = Recurrent("LSTM", 4000, 1024, num_layers=2).to(DEVICE).eval()

    def step() -> None:
        with torch.inference_mode():
            model(numbers(4000, 64, 512))
    return step


@program
def speech_ctc() -> Callable:
    class Speech(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.front = nn.Sequential(nn.Conv2d(1, 32, (41, 11), (2, 2), (20, 5)), nn.BatchNorm2d(32),
                                       nn.Hardtanh(0, 20), nn.Conv2d(32, 32, (21, 11), (2, 1), (10, 5)),
                                       nn.BatchNorm2d(32), nn.Hardtanh(0, 20))
            self.cells = nn.GRU(32 * 41, 800, 3, batch_first=True, bidirectional=True)
            self.head = nn.Linear(1600, 29)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.front(x)
            made, _ = self.cells(x.permute(0, 3, 1, 2).flatten(2))
            return self.head(made).log_softmax(-1).transpose(0, 1)

    def loss(model: nn.Module) -> torch.Tensor:
        made = model(floats(16, 1, 161, 800))
        lengths = torch.full((16,), made.shape[0], dtype=torch.long)
        return F.ctc_loss(made, torch.randint(1, 29, (16, 50)), lengths, torch.full((16,), 50))

    return training(Speech().to(DEVICE), loss)


# ---- convolutions ----------------------------------------------------------------------------------

def image_loss(batch: int, side: int, classes: int = 1000) -> Callable:
    return lambda model: F.cross_entropy(model(floats(batch, 3, side, side)), numbers(classes, batch))


@program
def dcgan() -> Callable:
    """Two models, two optimizers, transposed convolutions."""
    def up(a: int, b: int, stride: int = 2) -> nn.Sequential:
        return nn.Sequential(nn.ConvTranspose2d(a, b, 4, stride, int(stride > 1), bias=False),
                             nn.BatchNorm2d(b), nn.ReLU(True))

    def down(a: int, b: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.2, True))

    maker = nn.Sequential(up(128, 1024, 1), up(1024, 512), up(512, 256), up(256, 128),
                          nn.ConvTranspose2d(128, 3, 4, 2, 1), nn.Tanh()).to(DEVICE)
    judge = nn.Sequential(down(3, 128), down(128, 256), down(256, 512), down(512, 1024),
                          nn.Conv2d(1024, 1, 4)).to(DEVICE)
    steps = [torch.optim.Adam(m.parameters(), 2e-4) for m in (maker, judge)]

    def step() -> None:
        real, noise = floats(128, 3, 64, 64), floats(128, 128, 1, 1)
        made = maker(noise)
        steps[1].zero_grad()
        (F.softplus(judge(made.detach())).mean() + F.softplus(-judge(real)).mean()).backward()
        steps[1].step()
        steps[0].zero_grad()
        F.softplus(-judge(made)).mean().backward()
        steps[0].step()
    return step


class Volumes(nn.Module):
    """A 3-D U-Net of two levels."""

    def __init__(self) -> None:
        super().__init__()
        def double(a: int, b: int) -> nn.Sequential:
            return nn.Sequential(nn.Conv3d(a, b, 3, padding=1), nn.InstanceNorm3d(b), nn.ReLU(),
                                 nn.Conv3d(b, b, 3, padding=1), nn.InstanceNorm3d(b), nn.ReLU())
        self.first, self.second, self.third = double(1, 32), double(32, 64), double(64, 128)
        self.up2, self.up1 = nn.ConvTranspose3d(128, 64, 2, 2), nn.ConvTranspose3d(64, 32, 2, 2)
        self.back2, self.back1 = double(128, 64), double(64, 32)
        self.head = nn.Conv3d(32, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.first(x)
        b = self.second(F.max_pool3d(a, 2))
        c = self.third(F.max_pool3d(b, 2))
        b = self.back2(torch.cat([self.up2(c), b], 1))
        return self.head(self.back1(torch.cat([self.up1(b), a], 1)))


def volumes(cast=None) -> Callable:
    return training(Volumes().to(DEVICE), lambda model: F.cross_entropy(
        model(floats(2, 1, 96, 96, 96)), numbers(3, 2, 96, 96, 96)), cast=cast)


PROGRAMS["unet_3d"] = volumes
PROGRAMS["unet_3d_amp"] = functools.partial(volumes, torch.bfloat16)


@program
def wavenet() -> Callable:
    class Wave(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv1d(1, 64, 1)
            self.layers = nn.ModuleList(nn.Conv1d(64, 128, 3, padding=2 ** (i % 8), dilation=2 ** (i % 8))
                                        for i in range(16))
            self.mix = nn.ModuleList(nn.Conv1d(64, 64, 1) for _ in range(16))
            self.head = nn.Conv1d(64, 256, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            for layer, mix in zip(self.layers, self.mix):
                a, b = layer(x).chunk(2, 1)
                x = x + mix(torch.tanh(a) * torch.sigmoid(b))
            return self.head(x)

    return training(Wave().to(DEVICE), lambda model: F.cross_entropy(
        model(floats(8, 1, 16000)), numbers(256, 8, 16000)))


@program
def vae() -> Callable:
    class Vae(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = (3, 64, 128, 256)
            self.down = nn.Sequential(*(nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.GroupNorm(8, b), nn.SiLU())
                                        for a, b in zip(sizes, sizes[1:])))
            self.both = nn.Conv2d(256, 512, 1)
            self.up = nn.Sequential(*(nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(a, b, 3, 1, 1),
                                                    nn.SiLU()) for a, b in ((256, 128), (128, 64), (64, 32))),
                                    nn.Conv2d(32, 3, 3, 1, 1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            mean, log = self.both(self.down(x)).chunk(2, 1)
            made = self.up(mean + torch.randn_like(mean) * (0.5 * log).exp())
            return F.mse_loss(made, x) - 0.5 * (1 + log - mean.pow(2) - log.exp()).mean()

    return training(Vae().to(DEVICE), lambda model: model(floats(32, 3, 128, 128)))


def vision(name: str, batch: int, side: int, cast=None, **settings) -> Callable:
    import torchvision
    model = torchvision.models.get_model(name, weights=None, **settings).to(DEVICE)
    return training(model, image_loss(batch, side), "SGD", cast, momentum=0.9)


def segmented(name: str, cast=None) -> Callable:
    import torchvision
    model = torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=21).to(DEVICE)
    return training(model, lambda model: F.cross_entropy(
        model(floats(8, 3, 320, 320))["out"], numbers(21, 8, 320, 320)), "SGD", cast, momentum=0.9)


PROGRAMS["deeplabv3_resnet50"] = functools.partial(segmented, "deeplabv3_resnet50")
PROGRAMS["fcn_resnet50_amp"] = functools.partial(segmented, "fcn_resnet50", torch.bfloat16)
PROGRAMS["googlenet"] = functools.partial(vision, "googlenet", 32, 224, aux_logits=False, init_weights=False)
PROGRAMS["densenet121"] = functools.partial(vision, "densenet121", 32, 224)
PROGRAMS["shufflenet_v2_x1_0"] = functools.partial(vision, "shufflenet_v2_x1_0", 64, 224)
PROGRAMS["maxvit_t_amp"] = functools.partial(vision, "maxvit_t", 16, 224, torch.bfloat16)


def video(name: str) -> Callable:
    import torchvision
    model = torchvision.models.get_model(name, weights=None, num_classes=400).to(DEVICE)
    return training(model, lambda model: F.cross_entropy(model(floats(4, 3, 16, 112, 112)), numbers(400, 4)), "SGD")


PROGRAMS["r3d_18"] = functools.partial(video, "r3d_18")
PROGRAMS["r2plus1d_18"] = functools.partial(video, "r2plus1d_18")


def image_model(name: str, batch: int, cast=None) -> Callable:
    import timm
    model = timm.create_model(name).to(DEVICE)
    return training(model, image_loss(batch, 224), cast=cast)


PROGRAMS["timm_convnext"] = functools.partial(image_model, "convnext_tiny", 16)
PROGRAMS["timm_mixer_amp"] = functools.partial(image_model, "mixer_b16_224", 16, torch.bfloat16)
PROGRAMS["timm_deit_amp"] = functools.partial(image_model, "deit_small_patch16_224", 32, torch.float16)


# ---- attention, tables, graphs ---------------------------------------------------------------------

class Words(nn.Module):
    def __init__(self, words: int = 16000, width: int = 512, layers: int = 6, norm_first: bool = True) -> None:
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(
            width, 8, 4 * width, batch_first=True, norm_first=norm_first, activation="gelu")
            for _ in range(layers))
        self.head = nn.Linear(width, words)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.table(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


@program
def encoder() -> Callable:
    return training(Words().to(DEVICE), words_loss(16000, 16, 512))


@program
def encoder_checkpointed() -> Callable:
    from torch.utils.checkpoint import checkpoint
    model = Words().to(DEVICE)

    def loss(model: nn.Module) -> torch.Tensor:
        ids = numbers(16000, 16, 512)
        x = model.table(ids)
        for layer in model.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return F.cross_entropy(model.head(x).flatten(0, 1), ids.flatten())

    return training(model, loss, cast=torch.bfloat16, fused=True)


@program
def encoder_accumulated() -> Callable:
    """Four parts, clipped, with an average of the weights."""
    model = Words().to(DEVICE)
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.999))
    steps = torch.optim.AdamW(model.parameters(), 1e-4)
    loss = words_loss(16000, 4, 512)

    def step() -> None:
        steps.zero_grad(set_to_none=True)
        for _ in range(4):
            (loss(model) / 4).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        steps.step()
        average.update_parameters(model)
    return step


@program
def translator_scaled() -> Callable:
    """nn.Transformer in float16, with a GradScaler."""
    class Translator(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(16000, 512)
            self.both = nn.Transformer(512, 8, 4, 4, batch_first=True)
            self.head = nn.Linear(512, 16000)

        def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=target.device)
            return self.head(self.both(self.table(source), self.table(target), tgt_mask=mask, tgt_is_causal=True))

    model = Translator().to(DEVICE)
    steps, scaler = torch.optim.Adam(model.parameters(), 1e-4), torch.amp.GradScaler()

    def step() -> None:
        steps.zero_grad()
        with torch.autocast(DEVICE, dtype=torch.float16):
            target = numbers(16000, 16, 256)
            made = model(numbers(16000, 16, 320), target)
            loss = F.cross_entropy(made.flatten(0, 1), target.flatten())
        scaler.scale(loss).backward()
        scaler.unscale_(steps)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(steps)
        scaler.update()
    return step


@program
def recommender() -> Callable:
    class Recommender(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tables = nn.ModuleList(nn.EmbeddingBag(100_000, 64, mode="sum") for _ in range(8))
            self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 64))
            self.top = nn.Sequential(nn.Linear(64 + 36, 1024), nn.ReLU(), nn.Linear(1024, 1))

        def forward(self, dense: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
            x = torch.stack([self.bottom(dense)] + [t(ids) for t in self.tables], 1)
            pairs = torch.bmm(x, x.transpose(1, 2))
            i, j = torch.triu_indices(9, 9, 1, device=x.device)
            return self.top(torch.cat([x[:, 0], pairs[:, i, j]], 1))

    return training(Recommender().to(DEVICE), lambda model: F.binary_cross_entropy_with_logits(
        model(floats(16384, 13), numbers(100_000, 16384, 20)), torch.rand(16384, 1, device=DEVICE)), "Adagrad")


@program
def graph_network() -> Callable:
    class Layer(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.message, self.own = nn.Linear(2 * width, width), nn.Linear(width, width)

        def forward(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
            sent = F.relu(self.message(torch.cat([x[ends[0]], x[ends[1]]], 1)))
            return F.relu(self.own(x) + torch.zeros_like(x).index_add(0, ends[1], sent))

    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Layer(128) for _ in range(4))
            self.head = nn.Linear(128, 40)

        def forward(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = layer(x, ends)
            return self.head(x)

    return training(Graph().to(DEVICE), lambda model: F.cross_entropy(
        model(floats(20_000, 128), numbers(20_000, 2, 300_000)), numbers(40, 20_000)))


@program
def points() -> Callable:
    """PointNet: 1x1 convolutions of 1-D, a maximum, a loss that compares all pairs."""
    net = nn.Sequential(nn.Conv1d(3, 64, 1), nn.BatchNorm1d(64), nn.ReLU(), nn.Conv1d(64, 256, 1),
                        nn.BatchNorm1d(256), nn.ReLU(), nn.Conv1d(256, 512, 1))
    model = nn.ModuleDict(dict(net=net, head=nn.Linear(512, 3 * 1024))).to(DEVICE)

    def loss(model: nn.Module) -> torch.Tensor:
        cloud = floats(32, 3, 1024)
        made = model["head"](model["net"](cloud).amax(2)).view(32, 1024, 3)
        return torch.cdist(made, cloud.transpose(1, 2)).amin(2).mean()

    return training(model, loss)


@program
def physics() -> Callable:
    """A derivative inside the loss."""
    net = nn.Sequential(nn.Linear(3, 512), nn.Tanh(), *(m for _ in range(4) for m in
                        (nn.Linear(512, 512), nn.Tanh())), nn.Linear(512, 1)).to(DEVICE)

    def loss(model: nn.Module) -> torch.Tensor:
        x = floats(100_000, 3).requires_grad_()
        made = model(x)
        slope, = torch.autograd.grad(made.sum(), x, create_graph=True)
        return (slope.pow(2).sum(1) - made.squeeze(1)).pow(2).mean()

    return training(net, loss, "Adam")


@program
def experts() -> Callable:
    """Routing by a mask for each expert, as plain code has it."""
    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(512, 8)
            self.experts = nn.ModuleList(nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512))
                                         for _ in range(8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            chosen = self.gate(x).argmax(1)
            made = torch.zeros_like(x)
            for i, expert in enumerate(self.experts):
                rows, = torch.where(chosen == i)
                made.index_add_(0, rows, expert(x[rows]))
            return made

    return training(Experts().to(DEVICE), lambda model: model(floats(8192, 512)).pow(2).mean())


# ---- several GPUs' programs, on one ----------------------------------------------------------------

def grouped(function: Callable) -> Callable:
    """In a process group of one."""
    def begin() -> Callable:
        for name, value in dict(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getpid() % 20000),
                                RANK="0", WORLD_SIZE="1").items():
            os.environ.setdefault(name, value)
        torch.cuda.set_device(0)
        torch.distributed.init_process_group("nccl")
        return function()
    PROGRAMS[function.__name__] = begin
    return begin


@grouped
def ddp() -> Callable:
    model = nn.parallel.DistributedDataParallel(Words().to(DEVICE), device_ids=[0])
    return training(model, words_loss(16000, 16, 512))


@grouped
def ddp_views_amp() -> Callable:
    model = nn.parallel.DistributedDataParallel(Words().to(DEVICE), device_ids=[0],
                                                gradient_as_bucket_view=True)
    return training(model, words_loss(16000, 16, 512), cast=torch.bfloat16)


def sharded(model: Words, **settings) -> Words:
    from torch.distributed.fsdp import fully_shard
    for layer in model.layers:
        fully_shard(layer, **settings)
    return fully_shard(model, **settings)


@grouped
def fsdp2() -> Callable:
    return training(sharded(Words().to(DEVICE)), words_loss(16000, 16, 512))


@grouped
def fsdp2_bf16() -> Callable:
    from torch.distributed.fsdp import MixedPrecisionPolicy
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return training(sharded(Words(layers=8).to(DEVICE), mp_policy=policy), words_loss(16000, 16, 512))


@program
def lightning() -> Callable:
    """The whole of a Trainer's fit() is one call: its steps are the optimizer's."""
    from lightning_script import fit
    return fit


# ---- running them ----------------------------------------------------------------------------------

def peaks(step: Callable) -> dict:
    for _ in range(STEPS):
        torch.cuda.reset_peak_memory_stats()
        step()
        torch.cuda.synchronize()
    return dict(peak=torch.cuda.max_memory_allocated(), reserved=torch.cuda.memory_reserved())


def measure(name: str, out: str) -> dict:
    if not out:
        return peaks(PROGRAMS[name]())
    import pickle
    torch.cuda.memory._record_memory_history(max_entries=500_000, stacks="python")
    result = peaks(PROGRAMS[name]())
    with open(os.path.join(out, name + ".pickle"), "wb") as file:
        pickle.dump(torch.cuda.memory._snapshot(), file)
    return result


def trace(name: str, out: str) -> dict:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
    from vramwise.torch import _tracer, _tracer_rules
    tracer = _tracer.Tracer(_tracer_rules.Card(), _tracer_rules.Policy(SHARES.get(name, 1.0)))
    begin = time.perf_counter()
    with tracer.tracing():
        step = PROGRAMS[name]()
        for _ in range(STEPS):
            tracer.requests.begin_step()
            step()
            tracer.requests.end_step()
    tracer.requests.write(os.path.join(out, name + ".trace.json"), torch=torch.__version__)
    return dict(peak=tracer.requests.peak_bytes, events=len(tracer.requests.events),
                traced_s=round(time.perf_counter() - begin, 2), notes=tracer.requests.notes)


def alone(verb: str, name: str, out: str) -> str:
    """One program, in a process of its own: its line."""
    words = [sys.executable, __file__, verb, *([out] if verb == "trace" else []), "--run", name]
    done = subprocess.run(words + (["--snapshots", out] if verb == "measure" and out else []),
                          capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"case"')]
    if done.returncode == 0 and lines:
        return lines[-1]
    if os.environ.get("VRAMWISE_TRACEBACK"):
        sys.stderr.write(done.stderr)
    last = (done.stderr.strip().splitlines() or ["no output"])[-1]
    return json.dumps(dict(case=name, error=last[:400]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=("measure", "trace"))
    parser.add_argument("out", nargs="?", default="", help="trace: the folder for traces")
    parser.add_argument("--part", default="0/1", help="every n-th program: 0/4, 1/4 ...")
    parser.add_argument("--only", default="")
    parser.add_argument("--run", help="this program, in this process")
    parser.add_argument("--snapshots", default="", help="measure: keep recordings in that folder")
    given = parser.parse_args()
    out = given.out if given.verb == "trace" else given.snapshots
    if out:
        os.makedirs(out, exist_ok=True)
    if given.run:
        result = (trace if given.verb == "trace" else measure)(given.run, out)
        print(json.dumps(dict(case=given.run, **result)), flush=True)
        return 0
    part, of = (int(word) for word in given.part.split("/"))
    for name in [n for n in PROGRAMS if given.only in n][part::of]:
        print(alone(given.verb, name, out), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
