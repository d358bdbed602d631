"""paged_models.py - the parts of which the workloads of record_paged.py make their models.

Plain modules of PyTorch with random weights: what is recorded is when memory is taken and given
back, and weights have no part in that.
"""
import torch
import torch.nn.functional as F
from torch import nn


def on_device(make_model, dtype=torch.float32):
    """What make_model() returns, its weights made on the GPU in `dtype`."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("cuda"):
            return make_model()
    finally:
        torch.set_default_dtype(before)


def random_tokens(rows, length, vocabulary):
    return torch.randint(0, vocabulary, (rows, length), device="cuda")


def next_token_loss(logits, tokens):
    """Each position is to say the token after it."""
    return F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]).float(),
                           tokens[:, 1:].reshape(-1))


def sample(logits):
    """One token a row, drawn with the probabilities that `logits` (rows, vocabulary) give."""
    probabilities = logits.float().softmax(-1)
    return (probabilities / torch.empty_like(probabilities).exponential_()).argmax(-1)


def update(loss, optimizer, parameters=None):
    """The backward pass and the optimizer's step; returns the loss, so it waits for the GPU."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    if parameters is not None:
        nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    return loss.item()


# ---- attention -----------------------------------------------------------------------------------


def split_heads(x, heads):
    """(rows, length, width) to (rows, heads, length, width / heads)."""
    rows, length, width = x.shape
    return x.view(rows, length, heads, width // heads).transpose(1, 2)


def join_heads(x):
    rows, heads, length, width = x.shape
    return x.transpose(1, 2).reshape(rows, length, heads * width)


class Cache:
    """The keys and values of one layer so far, one tensor each that is made anew as it grows."""

    def __init__(self):
        self.key = self.value = None

    def is_empty(self):
        return self.key is None

    def extend(self, key, value):
        if self.key is not None:
            key = torch.cat([self.key, key], dim=2)
            value = torch.cat([self.value, value], dim=2)
        self.key, self.value = key, value
        return key, value

    def take(self, rows):
        self.key, self.value = self.key.index_select(0, rows), self.value.index_select(0, rows)


class Attention(nn.Module):
    def __init__(self, width, heads, is_causal):
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.mix = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, cache=None, mask=None):
        query, key, value = (split_heads(part, self.heads) for part in self.mix(x).chunk(3, -1))
        is_causal = self.is_causal and mask is None and (cache is None or cache.is_empty())
        if cache is not None:
            key, value = cache.extend(key, value)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask,
                                               is_causal=is_causal)
        return self.out(join_heads(mixed))


class CrossAttention(nn.Module):
    """Reads another sequence, the memory: read() once, forward() as often as needed."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.mix = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def read(self, memory):
        key, value = self.mix(memory).chunk(2, -1)
        return split_heads(key, self.heads), split_heads(value, self.heads)

    def forward(self, x, key, value):
        query = split_heads(self.query(x), self.heads)
        return self.out(join_heads(F.scaled_dot_product_attention(query, key, value)))


class Block(nn.Module):
    def __init__(self, width, heads, is_causal=False, has_memory=False):
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads, is_causal)
        self.cross_norm = nn.LayerNorm(width) if has_memory else None
        self.cross = CrossAttention(width, heads) if has_memory else None
        self.feed_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def attend(self, x, cache=None, mask=None):
        return self.attention(self.attention_norm(x), cache, mask)

    def feed(self, x):
        return self.down(F.gelu(self.up(self.feed_norm(x))))

    def forward(self, x, cache=None, mask=None, memory=None):
        """`memory`: what cross.read() returned, for a block that has one."""
        x = x + self.attend(x, cache, mask)
        if self.cross is not None:
            x = x + self.cross(self.cross_norm(x), *memory)
        return x + self.feed(x)


class Encoder(nn.Module):
    """Blocks over vectors."""

    def __init__(self, width, depth, heads):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x, mask=mask)
        return self.norm(x)


class Decoder(nn.Module):
    """A language model; with is_causal=False every position sees every other."""

    def __init__(self, vocabulary, width, depth, heads, most_positions=4096, is_causal=True,
                 has_memory=False):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(most_positions, width)
        self.blocks = nn.ModuleList(
            Block(width, heads, is_causal, has_memory) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def read(self, memory):
        return [block.cross.read(memory) for block in self.blocks]

    def hidden(self, tokens, caches=None, mask=None, memories=None, first=0):
        """`first`: the position of the first of `tokens`. One cache, one memory a block."""
        positions = torch.arange(first, first + tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(positions)
        for index, block in enumerate(self.blocks):
            x = block(x, None if caches is None else caches[index], mask,
                      None if memories is None else memories[index])
        return self.norm(x)

    def forward(self, tokens, caches=None, mask=None, memories=None, first=0):
        return self.head(self.hidden(tokens, caches, mask, memories, first))


# ---- convolutions --------------------------------------------------------------------------------


def convolve(before, after, stride=1):
    return nn.Sequential(nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False),
                         nn.BatchNorm2d(after), nn.ReLU(inplace=True))


class Pyramid(nn.Module):
    """Images to maps of an eighth of their height and width, of `channels` * 4 channels."""

    def __init__(self, channels=64, more=2):
        super().__init__()
        layers = [convolve(3, channels, 2)]
        for factor in (1, 2):
            layers += [convolve(factor * channels, factor * channels) for _ in range(more)]
            layers.append(convolve(factor * channels, 2 * factor * channels, 2))
        layers += [convolve(4 * channels, 4 * channels) for _ in range(more)]
        self.layers = nn.Sequential(*layers)

    def forward(self, images):
        return self.layers(images)
