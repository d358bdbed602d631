"""doctor_models.py - the models that the labelled workloads of record_doctor.py train and run.

They have a file of their own so that the innermost line of a stack is a model's while the loop that
keeps its tensors is elsewhere, as in most people's code. What a model keeps for its backward pass
is made on one line wherever that is possible: then there is one line to name. Marks:
doctor_catalogue.py.
"""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    """For each row, its backward pass needs about nine times `width` numbers."""

    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))  # <- block


class Mlp(nn.Module):
    def __init__(self, width=1024, depth=4, classes=1000, is_checkpointed=False):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, classes)
        self.is_checkpointed = is_checkpointed

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.is_checkpointed else block(x)
        return self.head(x)  # <- mlp_head


class TwoHeads(nn.Module):
    """A second head, for an auxiliary loss."""

    def __init__(self, width=1024, depth=3, classes=1000):
        super().__init__()
        self.trunk = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, classes)
        self.widen = nn.Linear(width, 4 * width)
        self.judge = nn.Linear(4 * width, 1)

    def forward(self, x):
        for block in self.trunk:
            x = block(x)
        return self.head(x), self.auxiliary(x)

    def auxiliary(self, x):
        return self.judge(F.gelu(self.widen(x)))  # <- auxiliary_head


class Cnn(nn.Module):
    def __init__(self, channels=32, depth=4, classes=100):
        super().__init__()
        widths = [3] + [channels] * depth
        self.convolutions = nn.ModuleList(
            nn.Conv2d(a, b, 3, padding=1) for a, b in zip(widths, widths[1:]))
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(depth))
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        for convolution, norm in zip(self.convolutions, self.norms):
            x = F.relu(norm(convolution(x)))  # <- cnn
        return self.head(x.mean((2, 3)))  # <- cnn_head


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.mix = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, past=None):
        """`past`: a list that holds the keys and values so far, and is given those to come."""
        batch, length, width = x.shape
        parts = self.mix(x).chunk(3, dim=-1)  # <- attention_mix
        query, key, value = (
            part.reshape(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        if past is not None:
            if past:
                key = torch.cat([past[0], key], dim=2)  # <- past_keys
                value = torch.cat([past[1], value], dim=2)
            past[:] = [key, value]
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=past is None)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class LanguageModel(nn.Module):
    def __init__(self, vocabulary=8000, width=512, depth=4, heads=8):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.attentions = nn.ModuleList(Attention(width, heads) for _ in range(depth))
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens, pasts=None):
        x = self.embedding(tokens)
        for index, (attention, block) in enumerate(zip(self.attentions, self.blocks)):
            past = None if pasts is None else pasts[index]
            x = x + attention(self.norms[index](x), past)
            x = block(x)
        return self.head(x)  # <- logits


class Cell(nn.Module):
    """A recurrent cell: what goes from one call to the next is the caller's."""

    def __init__(self, width=1024):
        super().__init__()
        self.read = nn.Linear(width, width)
        self.carry = nn.Linear(width, width)

    def forward(self, x, hidden):
        return torch.tanh(self.read(x) + self.carry(hidden))  # <- cell


class LowRank(nn.Module):
    """A frozen layer with a small trained one beside it."""

    def __init__(self, width, rank=8):
        super().__init__()
        self.frozen = nn.Linear(width, width).requires_grad_(False)
        self.narrow = nn.Linear(width, rank, bias=False)
        self.widen = nn.Linear(rank, width, bias=False)

    def forward(self, x):
        return F.relu(self.frozen(x) + self.widen(self.narrow(x)))


class KeepsItsOutput(torch.autograd.Function):
    """Puts its output on its context instead of save_for_backward(): each then holds the other."""

    @staticmethod
    def forward(context, x):
        output = x.exp()  # <- context_cycle
        context.result = output
        return output

    @staticmethod
    def backward(context, gradient):
        return gradient * context.result


def labelled_rows(rows, width=1024, classes=1000):
    inputs = torch.randn(rows, width, device="cuda")  # <- labelled_rows
    return inputs, torch.randint(0, classes, (rows,), device="cuda")


def labelled_images(count, side, classes=100):
    images = torch.randn(count, 3, side, side, device="cuda")
    return images, torch.randint(0, classes, (count,), device="cuda")


def random_tokens(batch, length, vocabulary=8000):
    return torch.randint(0, vocabulary, (batch, length), device="cuda")


def language_loss(logits, tokens):
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def train_step(model, optimizer, inputs, targets):
    """An ordinary step that leaves nothing behind; returns a number of the host's."""
    optimizer.zero_grad(set_to_none=True)
    loss = F.cross_entropy(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()
