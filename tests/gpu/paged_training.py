"""paged_training.py - training on what has no fixed size: lengths, resolutions, phases, tasks.

Workloads of record_paged.py; `job` is its Job. Sizes are such that the GPU, not Python, sets the
pace: a step is tens to hundreds of milliseconds.
"""
import random

import torch
import torch.nn.functional as F
from torch import nn

from paged_models import (Block, Decoder, Encoder, Pyramid, join_heads, next_token_loss, on_device,
                          random_tokens, split_heads, update)


def masked_buckets(job):
    """A masked language model in mixed precision; each batch of one length bucket, as many rows as
    a budget of tokens allows, the loss of the masked positions alone."""
    vocabulary, budget_tokens = 30_522, 24_576
    model = on_device(lambda: Decoder(vocabulary, 1536, 8, 24, 512, is_causal=False))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    scaler = torch.amp.GradScaler("cuda")
    while job.is_going():
        longest = random.choice((64, 96, 128, 192, 256, 384, 512))
        lengths = [random.randrange(longest * 2 // 3, longest + 1)
                   for _ in range(budget_tokens // longest)]
        tokens = random_tokens(len(lengths), max(lengths), vocabulary)
        ends = torch.tensor(lengths, device="cuda")[:, None]
        is_there = torch.arange(max(lengths), device="cuda")[None, :] < ends
        is_masked = (torch.rand(tokens.shape, device="cuda") < 0.15) & is_there
        with torch.autocast("cuda", dtype=torch.float16):
            hidden = model.hidden(tokens.masked_fill(is_masked, 103),
                                  mask=is_there[:, None, None, :])
            logits = model.head(hidden[is_masked])
        loss = F.cross_entropy(logits.float(), tokens[is_masked])
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        loss.item()


class ImageModel(nn.Module):
    """Patches of 16 by 16 pixels; a layer's branches see only some of the images, fewer the deeper
    (stochastic depth by leaving rows out, which saves their memory too)."""

    def __init__(self, width, depth, heads, classes, most_dropped=0.4):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, stride=16)
        self.positions = nn.Parameter(torch.randn(1, width, 14, 14) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.rates = [most_dropped * index / max(depth - 1, 1) for index in range(depth)]
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, images):
        x = self.patches(images)
        x = x + F.interpolate(self.positions, x.shape[2:], mode="bicubic", align_corners=False)
        x = x.flatten(2).transpose(1, 2)
        for block, rate in zip(self.blocks, self.rates):
            x = add_for_some(x, block.attend, rate)
            x = add_for_some(x, block.feed, rate)
        return self.head(self.norm(x).mean(1))


def add_for_some(x, branch, rate):
    if rate == 0:
        return x + branch(x)
    count = max(1, int(x.shape[0] * (1 - rate)))
    rows = torch.randperm(x.shape[0], device=x.device)[:count]
    change = branch(x[rows]).to(x.dtype)
    return torch.index_add(x, 0, rows, change, alpha=x.shape[0] / count)


def image_resolutions(job):
    """A vision transformer with another resolution every few steps, mixup and stochastic depth."""
    model = on_device(lambda: ImageModel(1280, 10, 20, 1000))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    size = 224
    while job.is_going():
        if random.random() < 0.4:
            size = random.choice(range(160, 385, 32))
        images = torch.randn(40, 3, size, size, device="cuda")
        targets = F.one_hot(torch.randint(0, 1000, (40,), device="cuda"), 1000).float()
        share = random.betavariate(0.8, 0.8)
        images = share * images + (1 - share) * images.flip(0)
        targets = share * targets + (1 - share) * targets.flip(0)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(images)
        update(F.cross_entropy(logits.float(), targets), optimizer, model.parameters())


class SpeechModel(nn.Module):
    def __init__(self, vocabulary, width, depth, heads):
        super().__init__()
        self.first = nn.Conv1d(80, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.positions = nn.Embedding(1600, width)
        self.encoder = Encoder(width, depth, heads)
        self.decoder = Decoder(vocabulary, width, depth, heads, 512, has_memory=True)

    def forward(self, frames, tokens):
        x = F.gelu(self.second(F.gelu(self.first(frames)))).transpose(1, 2)
        x = self.encoder(x + self.positions.weight[:x.shape[1]])
        return self.decoder(tokens, memories=self.decoder.read(x))


def speech_lengths(job):
    """Speech to text: an encoder over sound of 5 to 30 seconds, a decoder over its words."""
    vocabulary = 20_000
    model = on_device(lambda: SpeechModel(vocabulary, 1280, 4, 20))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    while job.is_going():
        frames = random.randrange(500, 3001)
        words = max(8, int(frames / 15 * random.uniform(0.6, 1.4)))
        sound = torch.randn(16, 80, frames, device="cuda")
        tokens = random_tokens(16, words, vocabulary)
        update(next_token_loss(model(sound, tokens), tokens), optimizer, model.parameters())


class Denoiser(nn.Module):
    """Latent images (rows, 4, height, width), in patches of 2 by 2, and a text to go by."""

    def __init__(self, width, depth, heads):
        super().__init__()
        self.patches = nn.Conv2d(4, width, 2, stride=2)
        self.place = nn.Linear(2, width)
        self.time = nn.Sequential(nn.Linear(1, width), nn.SiLU(), nn.Linear(width, width))
        self.no_text = nn.Parameter(torch.randn(1, 77, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads, has_memory=True) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, 16)

    def forward(self, latents, time, text):
        x = self.patches(latents)
        rows, _, height, width = x.shape
        places = torch.stack(torch.meshgrid(torch.linspace(0, 1, height, device=x.device),
                                            torch.linspace(0, 1, width, device=x.device),
                                            indexing="ij"), -1)
        x = x.flatten(2).transpose(1, 2) + self.place(places.view(1, -1, 2))
        x = x + self.time(time[:, None])[:, None]
        for block in self.blocks:
            x = block(x, memory=block.cross.read(text))
        x = self.out(self.norm(x)).transpose(1, 2).reshape(rows, 16, height, width)
        return F.pixel_shuffle(x, 2)


def guided_diffusion(job):
    """Diffusion, trained with the text left out for some (only the others' texts are encoded), in
    several aspect ratios; now and then some images are drawn, with and without text at once."""
    model = on_device(lambda: Denoiser(1024, 6, 16))
    texts = on_device(lambda: Decoder(8000, 1024, 4, 16, 77, is_causal=False)).requires_grad_(False)
    pixels = on_device(lambda: nn.Sequential(
        nn.Conv2d(4, 128, 3, padding=1), nn.SiLU(), nn.Upsample(scale_factor=2),
        nn.Conv2d(128, 128, 3, padding=1), nn.SiLU(), nn.Upsample(scale_factor=2),
        nn.Conv2d(128, 64, 3, padding=1), nn.SiLU(), nn.Upsample(scale_factor=2),
        nn.Conv2d(64, 3, 3, padding=1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    step = 0
    while job.is_going():
        height, width = random.choice(((64, 64), (48, 80), (80, 48), (56, 72), (40, 96)))
        latents = torch.randn(16, 4, height, width, device="cuda")
        noise, time = torch.randn_like(latents), torch.rand(16, device="cuda")
        rows = [row for row in range(16) if random.random() > 0.15]
        text = model.no_text.expand(16, -1, -1).clone()
        if rows:
            with torch.no_grad():
                encoded = texts.hidden(random_tokens(len(rows), 77, 8000))
            text[torch.tensor(rows, device="cuda")] = encoded
        share = time[:, None, None, None]
        guess = model((1 - share) * latents + share * noise, time, text)
        update(F.mse_loss(guess, noise), optimizer, model.parameters())
        step += 1
        if step % 7 == 0:
            draw(model, texts, pixels, random.choice((2, 4, 6)), height, width)


@torch.no_grad()
def draw(model, texts, pixels, count, height, width):
    latents = torch.randn(count, 4, height, width, device="cuda")
    text = torch.cat([texts.hidden(random_tokens(count, 77, 8000)),
                      model.no_text.expand(count, -1, -1)])
    for step in range(6):
        time = torch.full((2 * count,), 1 - step / 6, device="cuda")
        with_text, without = model(torch.cat([latents, latents]), time, text).chunk(2)
        latents = latents - (without + 4 * (with_text - without)) / 6
    return [pixels(latents[row:row + 1]).clamp(-1, 1).cpu() for row in range(count)]


class LowRank(nn.Module):
    """A frozen layer with a small trained one beside it."""

    def __init__(self, before, after, rank=16):
        super().__init__()
        self.frozen = nn.Linear(before, after).requires_grad_(False)
        self.narrow = nn.Linear(before, rank, bias=False)
        self.widen = nn.Linear(rank, after, bias=False)

    def forward(self, x):
        return self.frozen(x) + self.widen(self.narrow(F.dropout(x, 0.05, self.training)))


class PackedBlock(nn.Module):
    """Several sequences in one row; each attends to itself alone."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width).requires_grad_(False)
        self.mix = LowRank(width, 3 * width)
        self.out = LowRank(width, width)
        self.feed_norm = nn.LayerNorm(width).requires_grad_(False)
        self.up = nn.Linear(width, 4 * width).requires_grad_(False)
        self.down = nn.Linear(4 * width, width).requires_grad_(False)

    def forward(self, x, lengths):
        mixed = []
        for piece in self.mix(self.attention_norm(x)).split(lengths, dim=1):
            query, key, value = (split_heads(part, self.heads) for part in piece.chunk(3, -1))
            mixed.append(join_heads(
                F.scaled_dot_product_attention(query, key, value, is_causal=True)))
        x = x + self.out(torch.cat(mixed, dim=1))
        return x + self.down(F.silu(self.up(self.feed_norm(x))))


def adapters_packed(job):
    """Low-rank fine-tuning of a frozen model: sequences packed into rows, the gradients of four
    rows summed, the loss of the answers alone."""
    vocabulary, row_tokens = 32_000, 8192
    with_weights = on_device(lambda: nn.ModuleDict(dict(
        tokens=nn.Embedding(vocabulary, 4096).requires_grad_(False),
        blocks=nn.ModuleList(PackedBlock(4096, 32) for _ in range(8)),
        head=nn.Linear(4096, vocabulary, bias=False).requires_grad_(False))), torch.bfloat16)
    trained = [weight for weight in with_weights.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5)
    micro_step = 0
    while job.is_going():
        lengths = draw_lengths(row_tokens)
        tokens = random_tokens(1, sum(lengths), vocabulary)
        x = with_weights["tokens"](tokens)
        for block in with_weights["blocks"]:
            x = block(x, lengths)
        is_answer = torch.cat([torch.arange(length, device="cuda") > length * random.random()
                               for length in lengths])
        logits = with_weights["head"](x[0][is_answer])
        loss = F.cross_entropy(logits.float(), tokens[0][is_answer]) / 4
        loss.backward()
        loss.item()
        micro_step += 1
        if micro_step % 4 == 0:
            nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)


def draw_lengths(most_tokens):
    """Sequences, most of them short, as many as fit."""
    lengths = []
    while len(lengths) < 12:
        length = min(4096, int(random.lognormvariate(6.3, 0.9)) + 32)
        if sum(lengths) + length > most_tokens:
            break
        lengths.append(length)
    return lengths


def averaged_weights(job):
    """A language model whose weights are averaged; the average stands in for them while the model
    is evaluated, on longer texts than it is trained on."""
    vocabulary = 32_000
    model = on_device(lambda: Decoder(vocabulary, 1280, 6, 20))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    weights = list(model.parameters())
    averages = [weight.detach().clone() for weight in weights]
    step = 0
    while job.is_going():
        tokens = random_tokens(8, random.randrange(256, 1025), vocabulary)
        update(next_token_loss(model(tokens), tokens), optimizer, weights)
        with torch.no_grad():
            for average, weight in zip(averages, weights):
                average.lerp_(weight, 0.01)
        step += 1
        if step % 8 == 0:
            evaluate_averages(model, weights, averages, vocabulary)


@torch.no_grad()
def evaluate_averages(model, weights, averages, vocabulary):
    kept = [weight.clone() for weight in weights]
    for weight, average in zip(weights, averages):
        weight.copy_(average)
    losses = []
    for _ in range(4):
        tokens = random_tokens(random.randrange(4, 17), random.randrange(512, 2049), vocabulary)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            losses.append(next_token_loss(model(tokens), tokens))
    torch.stack(losses).mean().item()
    for weight, old in zip(weights, kept):
        weight.copy_(old)


def growing_lengths(job):
    """A curriculum: the sequences grow with every step, to sixteen times what they were."""
    vocabulary = 32_000
    model = on_device(lambda: Decoder(vocabulary, 1024, 8, 16))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    length = 128
    while job.is_going():
        tokens = random_tokens(6, length, vocabulary)
        update(next_token_loss(model(tokens), tokens), optimizer, model.parameters())
        length = min(length + random.randrange(24, 73), 2048)


def three_tasks(job):
    """Three models with an optimizer each, trained in turns of a few steps."""
    words = on_device(lambda: Decoder(16_000, 1024, 6, 16))
    pictures = on_device(lambda: ImageModel(768, 6, 12, 1000, most_dropped=0))
    maps = on_device(lambda: nn.Sequential(Pyramid(48), nn.Conv2d(192, 20, 1)))
    optimizers = {
        "words": torch.optim.AdamW(words.parameters(), lr=1e-5),
        "pictures": torch.optim.AdamW(pictures.parameters(), lr=1e-5),
        "maps": torch.optim.SGD(maps.parameters(), lr=1e-3, momentum=0.9),
    }
    task, left = "words", 0
    while job.is_going():
        if left == 0:
            task, left = random.choice(list(optimizers)), random.randrange(1, 6)
        left -= 1
        if task == "words":
            tokens = random_tokens(12, random.randrange(128, 769), 16_000)
            loss = next_token_loss(words(tokens), tokens)
        elif task == "pictures":
            rows = random.choice((32, 48, 64))
            loss = F.cross_entropy(pictures(torch.randn(rows, 3, 224, 224, device="cuda")),
                                   torch.randint(0, 1000, (rows,), device="cuda"))
        else:
            size = random.choice((512, 640, 768))
            guess = maps(torch.randn(8, 3, size, size, device="cuda"))
            guess = F.interpolate(guess, (size, size), mode="bilinear", align_corners=False)
            loss = F.cross_entropy(guess, torch.randint(0, 20, (8, size, size), device="cuda"))
        update(loss, optimizers[task])
