"""limit_workloads.py - small programs that are run at the limit of their memory.

Workloads of bench_limit.py; `job` is its Job. Each has a fixed number of steps, draws its sizes and
its data from seeds, and reports a number for every step that depends on all of the step's work: runs
under two allocators can be compared bit for bit. A few GiB are live at most, and a step takes tens of
milliseconds on an H200, so that a hundred runs are a matter of minutes.

The parts of the models are those of tests/gpu/paged_models.py. The programs of record_paged.py are
kept out of here, because nothing may be tuned on them.
"""
import collections
import random
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "gpu"))

from paged_irregular import Detector, make_anchors, overlaps, random_boxes  # noqa: E402
from paged_models import (Decoder, next_token_loss, on_device, random_tokens,  # noqa: E402
                          update)
from paged_serving import roll_out  # noqa: E402


class Job:
    """Given to a workload: it counts the steps, times them, and takes their numbers."""

    def __init__(self, most_steps=None, divide_by=1):
        """`most_steps`: fewer than the workload has. `divide_by`: makes batches and sequences smaller,
        for a host without a GPU."""
        self.most_steps, self.divide_by = most_steps, divide_by
        self.step = self.steps_planned = 0
        self.losses, self.step_ms = [], []

    def steps(self, count):
        """Yields the number of each step; between two of them the device is idle."""
        self.steps_planned = count if self.most_steps is None else min(count, self.most_steps)
        torch.cuda.synchronize()
        for self.step in range(self.steps_planned):
            begin = time.perf_counter()
            yield self.step
            torch.cuda.synchronize()
            self.step_ms.append(1e3 * (time.perf_counter() - begin))
        self.step = self.steps_planned

    def report(self, value):
        self.losses.append(float(value).hex())

    def size(self, count, least=1):
        return max(min(least, count), count // self.divide_by)


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-4)


def autocast(dtype=torch.bfloat16):
    return torch.autocast("cuda", dtype=dtype)


# ---- batches packed to a token budget ------------------------------------------------------------


def packed_batches(budget_tokens, longest=1536):
    """Yields the lengths of each batch's sequences: neighbours in length, as many as the budget
    allows once all are padded to the longest."""
    while True:
        lengths = sorted(min(longest, 24 + int(random.lognormvariate(5.2, 0.9))) for _ in range(400))
        batches = [[]]
        for length in lengths:
            if (len(batches[-1]) + 1) * length > budget_tokens:
                batches.append([])
            batches[-1].append(length)
        random.shuffle(batches)
        yield from (batch for batch in batches if batch)


def packed_budget(job):
    """A language model on batches packed to a token budget; the loss of the real tokens alone."""
    vocabulary, budget_tokens = 16_000, job.size(8192, 64)
    model = on_device(lambda: Decoder(vocabulary, 768, 6, 12, 1536))
    optimizer = adamw(model)
    batches = packed_batches(budget_tokens, min(1536, budget_tokens))
    for _ in job.steps(36):
        lengths = next(batches)
        tokens = random_tokens(len(lengths), max(lengths), vocabulary)
        ends = torch.tensor(lengths, device="cuda")[:, None]
        is_real = torch.arange(max(lengths), device="cuda")[None, :] < ends
        with autocast():
            logits = model.head(model.hidden(tokens)[is_real])
        loss = F.cross_entropy(logits.float(), tokens[is_real])
        job.report(update(loss, optimizer, model.parameters()))


# ---- adapters switched between requests ----------------------------------------------------------


class Adapted(nn.Module):
    """A frozen layer and the low-rank change of the request at hand: `adapter`, (narrow, widen)."""

    def __init__(self, frozen):
        super().__init__()
        self.frozen, self.adapter = frozen.requires_grad_(False), None

    def forward(self, x):
        if self.adapter is None:
            return self.frozen(x)
        narrow, widen = self.adapter
        return self.frozen(x) + (x @ narrow) @ widen


def adapt(model):
    """Puts an Adapted in the place of each linear layer of the model's blocks; returns them all."""
    owners = [owner for block in model.blocks for owner in (block, block.attention)]
    layers = []
    for owner in owners:
        for name, layer in list(owner.named_children()):
            if isinstance(layer, nn.Linear):
                layers.append(Adapted(layer))
                setattr(owner, name, layers[-1])
    return layers


def make_adapter(layers, rank):
    """On the host, as adapters are kept that few requests ask for."""
    draw = torch.Generator().manual_seed(rank)
    return [tuple((0.02 * torch.randn(shape, generator=draw)).to(torch.bfloat16)
                  for shape in ((layer.frozen.in_features, rank),
                                (rank, layer.frozen.out_features))) for layer in layers]


def adapter_switching(job):
    """A server of one frozen model and many adapters: those asked for last are on the GPU, each
    request is answered with its own, and keys and values grow with every token."""
    model = on_device(lambda: Decoder(16_000, 1024, 8, 16, 2048), torch.bfloat16).eval()
    layers = adapt(model)
    adapters = [make_adapter(layers, rank) for rank in (4, 8, 16, 24, 32, 48, 64, 96)]
    resident = collections.OrderedDict()
    for _ in job.steps(24):
        wanted = random.randrange(len(adapters))
        if wanted not in resident:
            if len(resident) == 5:
                resident.popitem(last=False)
            resident[wanted] = [tuple(part.to("cuda") for part in pair)
                                for pair in adapters[wanted]]
        resident.move_to_end(wanted)
        for layer, pair in zip(layers, resident[wanted]):
            layer.adapter = pair
        prompts = random_tokens(job.size(random.choice((1, 4, 8, 16))),
                                job.size(random.randrange(64, 1537), 8), 16_000)
        job.report(roll_out(model, prompts, random.randrange(4, 17)).sum())
        for layer in layers:
            layer.adapter = None


# ---- truncated back-propagation ------------------------------------------------------------------


class Recurrent(nn.Module):
    def __init__(self, vocabulary, width, depth):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.cells = nn.ModuleList(nn.LSTMCell(width, width) for _ in range(depth))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens, states):
        """The logits after each token, and the states after the last."""
        outputs = []
        for x in self.tokens(tokens).unbind(1):
            states = list(states)
            for index, cell in enumerate(self.cells):
                states[index] = cell(x, states[index])
                x = states[index][0]
            outputs.append(x)
        return self.head(torch.stack(outputs, 1)), states


def truncated_backprop(job):
    """A recurrent model on an endless text, the gradient cut off at windows of changing length; less
    than 1 GiB is live."""
    vocabulary, width, depth, rows = 8000, 512, 2, job.size(64)
    model = on_device(lambda: Recurrent(vocabulary, width, depth))
    optimizer = adamw(model)
    states = [tuple(torch.zeros(rows, width, device="cuda") for _ in range(2))
              for _ in range(depth)]
    for _ in job.steps(24):
        tokens = random_tokens(rows, job.size(random.randrange(16, 65), 8), vocabulary)
        logits, states = model(tokens, states)
        job.report(update(next_token_loss(logits, tokens), optimizer, model.parameters()))
        states = [tuple(part.detach() for part in state) for state in states]
        del logits


# ---- transformers of changing length -------------------------------------------------------------


def gpt2(layers, vocabulary, positions):
    from transformers import GPT2Config, GPT2LMHeadModel

    return on_device(lambda: GPT2LMHeadModel(GPT2Config(
        n_layer=layers, vocab_size=vocabulary, n_positions=positions, use_cache=False,
        bos_token_id=0, eos_token_id=0)))


def gpt2_varlen(job):
    """GPT-2 on batches of every length."""
    model = gpt2(6, 16_000, 768)
    optimizer = adamw(model)
    for _ in job.steps(30):
        tokens = random_tokens(job.size(random.choice((2, 4, 6, 8))),
                               job.size(random.randrange(64, 769), 8), 16_000)
        with autocast():
            loss = model(input_ids=tokens, labels=tokens).loss
        job.report(update(loss, optimizer))


def host_bound(job):
    """GPT-2 on so few tokens that the GPU waits for the host; for times, not for limits."""
    model = gpt2(12, 16_000, 128)
    optimizer = adamw(model)
    tokens = random_tokens(job.size(2), job.size(128, 8), 16_000)
    for _ in job.steps(90):
        with autocast():
            loss = model(input_ids=tokens, labels=tokens).loss
        job.report(update(loss, optimizer))


def t5_varlen(job):
    """An encoder and a decoder, each with another length in every step."""
    from transformers import T5Config, T5ForConditionalGeneration

    model = on_device(lambda: T5ForConditionalGeneration(T5Config(
        d_model=512, d_ff=1024, num_layers=4, num_heads=8, d_kv=64, vocab_size=16_000,
        decoder_start_token_id=0)))
    optimizer = adamw(model)
    for _ in job.steps(24):
        rows = job.size(random.choice((8, 12, 16)))
        source = random_tokens(rows, job.size(random.randrange(32, 577), 8), 16_000)
        target = random_tokens(rows, job.size(random.randrange(16, 193), 8), 16_000)
        job.report(update(model(input_ids=source, labels=target).loss, optimizer))


def llama_checkpointed(job):
    """A llama in bfloat16 with gradient checkpointing, on long texts of every length."""
    from transformers import LlamaConfig, LlamaForCausalLM

    model = on_device(lambda: LlamaForCausalLM(LlamaConfig(
        num_hidden_layers=6, hidden_size=1024, num_attention_heads=16, num_key_value_heads=4,
        intermediate_size=2816, vocab_size=16_000, max_position_embeddings=4096,
        use_cache=False)), torch.bfloat16)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
    optimizer = adamw(model)
    for _ in job.steps(20):
        tokens = random_tokens(job.size(random.choice((1, 2, 4))),
                               job.size(random.randrange(256, 3073), 8), 16_000)
        job.report(update(model(input_ids=tokens, labels=tokens).loss, optimizer))


def train_eval_phases(job):
    """Training, then evaluation at other sizes, and empty_cache() after it; three times."""
    vocabulary = 16_000
    model = on_device(lambda: Decoder(vocabulary, 768, 6, 12, 1024))
    optimizer = adamw(model)
    for step in job.steps(24):
        if step % 8 < 4:
            tokens = random_tokens(job.size(4), job.size(768, 8), vocabulary)
            job.report(update(next_token_loss(model(tokens), tokens), optimizer))
            continue
        with torch.no_grad():
            tokens = random_tokens(job.size(8), job.size(random.randrange(200, 1001), 8),
                                   vocabulary)
            job.report(model(tokens).softmax(-1).amax(-1).mean())
        if step % 8 == 7:
            del tokens
            torch.cuda.empty_cache()


def generate_kv(job):
    """Generation: keys and values grow by concatenation, for requests of mixed length."""
    model = on_device(lambda: Decoder(16_000, 1024, 10, 16, 2048), torch.bfloat16).eval()
    for _ in job.steps(16):
        prompts = random_tokens(job.size(random.choice((1, 4, 8, 16))),
                                job.size(random.randrange(32, 1501), 8), 16_000)
        job.report(roll_out(model, prompts, random.randrange(8, 33)).sum())


# ---- sizes that come from the data ---------------------------------------------------------------


class Experts(nn.Module):
    """Each row goes through one of several networks, chosen by its own weights and by chance."""

    def __init__(self, width, count):
        super().__init__()
        self.choose = nn.Linear(width, count)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
            for _ in range(count))

    def forward(self, x):
        weights = self.choose(x).softmax(-1)
        chosen = (weights + 0.3 * torch.rand_like(weights)).argmax(-1)
        total = x
        for index, expert in enumerate(self.experts):
            rows = (chosen == index).nonzero()[:, 0]
            if len(rows) > 0:
                change = expert(x[rows]) * weights[rows, index:index + 1]
                total = total.index_add(0, rows, change)
        return total


def moe_routing(job):
    """A mixture of experts: each step sends another number of rows to each."""
    model = on_device(lambda: nn.Sequential(*[Experts(768, 8) for _ in range(4)]))
    optimizer = adamw(model)
    for _ in job.steps(20):
        x = torch.randn(job.size(random.randrange(3000, 12_001)), 768, device="cuda")
        job.report(update((model(x) - x.flip(1)).square().mean(), optimizer))


def cut_nearest(map_, boxes, side):
    """Samples of `map_` (channels, rows, columns) in each box: (boxes, channels, side, side). By
    indexing, whose gradient can be repeated to the last bit; grid_sample()'s cannot."""
    steps = torch.linspace(0, 1, side, device="cuda")
    xs, ys = ((boxes[:, axis:axis + 1] + (boxes[:, axis + 2:axis + 3] - boxes[:, axis:axis + 1])
               * steps).div(8).long() for axis in (0, 1))
    ys, xs = ys.clamp(0, map_.shape[1] - 1), xs.clamp(0, map_.shape[2] - 1)
    return map_[:, ys[:, :, None], xs[:, None, :]].transpose(0, 1)


def detection_loss(model, images):
    """A random number of boxes in each image."""
    height, width = images.shape[2:]
    maps = model.pyramid(images)
    scores = model.scores(maps).permute(0, 2, 3, 1).flatten(1)
    anchors = make_anchors(*maps.shape[2:])
    losses, crops, mask_crops = [], [], []
    for image in range(len(images)):
        boxes = random_boxes(random.randrange(1, 64), height, width)
        best, owner = overlaps(anchors, boxes).max(1)
        hits = (best > 0.3).nonzero()[:, 0][:128]
        likely = scores[image].detach().topk(random.randrange(32, 257)).indices
        chosen = torch.cat([hits, likely])
        losses.append(F.binary_cross_entropy_with_logits(scores[image][chosen],
                                                         (best[chosen] > 0.3).float()))
        crops.append(cut_nearest(maps[image], torch.cat([anchors[likely], boxes]), 7))
        mask_crops.append(cut_nearest(maps[image], torch.cat([boxes[owner[hits]], boxes]), 14))
    logits = model.classes(torch.cat(crops))
    losses.append(F.cross_entropy(logits, torch.randint(0, 81, (len(logits),), device="cuda")))
    masks = model.masks(torch.cat(mask_crops))
    losses.append(F.binary_cross_entropy_with_logits(masks, (torch.rand_like(masks) > 0.5).float()))
    return torch.stack(losses).sum()


def detection_boxes(job):
    """A detector of two stages: images of several sizes, a random number of boxes in each."""
    model = on_device(Detector)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    for _ in job.steps(16):
        height, width = (job.size(side, 64) for side in
                         (random.randrange(320, 577, 32), random.randrange(384, 673, 32)))
        images = torch.randn(job.size(3), 3, height, width, device="cuda")
        job.report(update(detection_loss(model, images), optimizer, model.parameters()))


# ---- convolutions --------------------------------------------------------------------------------


class ImageUNet(nn.Module):
    """Down three times by two, and up again; what was there on the way down is added."""

    def __init__(self, channels):
        super().__init__()
        pairs = list(zip((channels, 2 * channels, 4 * channels),
                         (2 * channels, 4 * channels, 4 * channels)))
        self.enter = nn.Conv2d(4, channels, 3, padding=1)
        self.down = nn.ModuleList(
            nn.Sequential(nn.GroupNorm(8, high), nn.SiLU(),
                          nn.Conv2d(high, low, 3, stride=2, padding=1)) for high, low in pairs)
        self.up = nn.ModuleList(
            nn.Sequential(nn.GroupNorm(8, low), nn.SiLU(),
                          nn.ConvTranspose2d(low, high, 4, stride=2, padding=1))
            for high, low in reversed(pairs))
        self.leave = nn.Conv2d(channels, 4, 3, padding=1)

    def forward(self, x):
        x, kept = self.enter(x), []
        for layer in self.down:
            kept.append(x)
            x = layer(x)
        for layer in self.up:
            x = layer(x) + kept.pop()
        return self.leave(x)


def unet_buckets(job):
    """Diffusion training in buckets of aspect ratios, with a moving average of the weights."""
    model = on_device(lambda: ImageUNet(96))
    weights = list(model.parameters())
    averages = [weight.detach().clone() for weight in weights]
    optimizer = adamw(model)
    for _ in job.steps(24):
        height, width = random.choice(((128, 128), (160, 96), (96, 160), (192, 128), (256, 192),
                                       (224, 288)))
        images = torch.randn(job.size(random.choice((4, 8, 12))), 4, job.size(height, 16),
                             job.size(width, 16), device="cuda")
        with autocast():
            guess = model(images)
        job.report(update((guess.float() - images).square().mean(), optimizer))
        torch._foreach_lerp_(averages, [weight.detach() for weight in weights], 0.01)
        del images, guess


def resnet_multiscale(job):
    """Convolutions at many image sizes, in mixed precision with a gradient scaler."""
    import torchvision

    model = on_device(lambda: torchvision.models.resnet18(weights=None))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda")
    for _ in job.steps(24):
        rows = job.size(random.choice((16, 24, 32, 48)), 2)
        side = job.size(random.randrange(128, 385, 32), 32)
        images = torch.randn(rows, 3, side, side, device="cuda")
        labels = torch.randint(0, 1000, (rows,), device="cuda")
        optimizer.zero_grad(set_to_none=True)
        with autocast(torch.float16):
            loss = F.cross_entropy(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        job.report(loss)
        del images, labels, loss


# ---- side streams --------------------------------------------------------------------------------


def side_streams(job):
    """Batches come over one stream, are prepared on another, and train a network on a third."""
    copies, preparations = torch.cuda.Stream(), torch.cuda.Stream()
    current = torch.cuda.current_stream()
    draw = torch.Generator().manual_seed(3)
    most_rows = job.size(16_384)
    pinned = torch.randint(0, 256, (most_rows, 1024), generator=draw, dtype=torch.uint8).pin_memory()
    model = on_device(lambda: nn.Sequential(
        nn.Linear(1024, 2048), nn.GELU(), nn.Linear(2048, 2048), nn.GELU(), nn.Linear(2048, 64)))
    optimizer = adamw(model)
    preparations.wait_stream(current)
    for _ in job.steps(30):
        rows = job.size(random.randrange(2048, 16_385))
        with torch.cuda.stream(copies):
            raw = pinned[:rows].to("cuda", non_blocking=True)
        preparations.wait_stream(copies)
        raw.record_stream(preparations)
        with torch.cuda.stream(preparations):
            x = raw.float().div_(255)
            x = x - x.mean(1, keepdim=True)
            labels = raw[:, 0].long() % 64
        del raw
        current.wait_stream(preparations)
        for tensor in (x, labels):
            tensor.record_stream(current)
        job.report(update(F.cross_entropy(model(x), labels), optimizer))
        del x, labels


WORKLOADS = {function.__name__: function for function in (
    packed_budget, adapter_switching, truncated_backprop, gpt2_varlen, t5_varlen,
    llama_checkpointed, train_eval_phases, generate_kv, moe_routing, detection_boxes, unet_buckets,
    resnet_multiscale, side_streams)}
