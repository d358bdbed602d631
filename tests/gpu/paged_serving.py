"""paged_serving.py - programs that generate: servers, searches, and learning from what was said.

Workloads of record_paged.py; `job` is its Job.
"""
import copy
import random

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from paged_models import Cache, Decoder, Encoder, on_device, random_tokens, sample, update

# ---- a server ------------------------------------------------------------------------------------


class Request:
    """One request: its keys and values are one tensor, (layers, 2, heads, length, width)."""

    def __init__(self, model, vocabulary):
        length = min(3000, int(random.lognormvariate(6.5, 0.8)) + 32)
        self.left = random.randrange(20, 300)
        caches = [Cache() for _ in model.blocks]
        hidden = model.hidden(random_tokens(1, length, vocabulary), caches)
        self.token = sample(model.head(hidden[:, -1])).item()
        self.cache = torch.stack([torch.stack([cache.key[0], cache.value[0]]) for cache in caches])

    def grow(self):
        """Room for one more."""
        layers, both, heads, _, width = self.cache.shape
        room = self.cache.new_zeros(layers, both, heads, 1, width)
        self.cache = torch.cat([self.cache, room], dim=3)

    def length(self):
        return self.cache.shape[3]


class RequestsCache:
    """One layer of all requests' keys and values, as attention wants them: padded to one length."""

    def __init__(self, requests, layer):
        self.requests, self.layer = requests, layer

    def is_empty(self):
        return False

    def extend(self, key, value):
        padded = []
        for part, new in enumerate((key, value)):
            rows = []
            for index, request in enumerate(self.requests):
                own = request.cache[self.layer, part]
                own[:, -1] = new[index, :, 0]
                rows.append(own.transpose(0, 1))
            padded.append(pad_sequence(rows, batch_first=True).transpose(1, 2))
        return padded


def decode(model, requests):
    """One token for each request."""
    for request in requests:
        request.grow()
    lengths = torch.tensor([request.length() for request in requests], device="cuda")
    tokens = torch.tensor([request.token for request in requests], device="cuda")
    longest = max(request.length() for request in requests)
    mask = (torch.arange(longest, device="cuda")[None, :] < lengths[:, None])[:, None, None, :]
    x = (model.tokens(tokens) + model.positions(lengths - 1))[:, None]
    for layer, block in enumerate(model.blocks):
        x = block(x, RequestsCache(requests, layer), mask)
    drawn = sample(model.head(model.norm(x[:, 0]))).tolist()
    for request, token in zip(requests, drawn):
        request.token = token
        request.left -= 1


@torch.inference_mode()
def continuous_batching(job):
    """A server: requests come when they like, join the batch, grow by a token a step, and go."""
    vocabulary = 32_000
    model = on_device(lambda: Decoder(vocabulary, 4096, 8, 32), torch.float16).eval()
    requests = [Request(model, vocabulary) for _ in range(6)]
    while job.is_going():
        if len(requests) < 24 and (not requests or random.random() < 0.2):
            requests.append(Request(model, vocabulary))
        decode(model, requests)
        requests = [request for request in requests if request.left > 0]


# ---- a search ------------------------------------------------------------------------------------


@torch.inference_mode()
def beam_search(job):
    """Translation with beams: after each token the caches of all layers are put into the beams' new
    order, and sentences that are done leave the batch."""
    vocabulary = 32_000
    source = on_device(lambda: nn.Embedding(vocabulary, 1024))
    encoder = on_device(lambda: Encoder(1024, 6, 16)).eval()
    decoder = on_device(lambda: Decoder(vocabulary, 1024, 6, 16, 512, has_memory=True)).eval()
    while job.is_going():
        sentences, beams = random.randrange(12, 41), random.choice((4, 5, 6))
        encoded = encoder(source(random_tokens(sentences, random.randrange(96, 641), vocabulary)))
        search(job, decoder, encoded, beams, vocabulary)


def search(job, decoder, encoded, beams, vocabulary):
    count = len(encoded)
    lengths = [random.randrange(10, 65) for _ in range(count)]
    memories = decoder.read(encoded.repeat_interleave(beams, 0))
    caches = [Cache() for _ in decoder.blocks]
    tokens = torch.zeros(count * beams, 1, dtype=torch.long, device="cuda")
    sentences, scores = tokens, torch.zeros(count, beams, device="cuda")
    for position in range(max(lengths)):
        if not job.is_going():
            return
        logits = decoder(tokens, caches, memories=memories, first=position)[:, -1]
        likely = logits.log_softmax(-1).view(count, beams, vocabulary) + scores[:, :, None]
        scores, best = likely.view(count, -1).topk(beams)
        alive = [index for index in range(count) if lengths[index] > position + 1]
        if not alive:
            return
        kept = torch.tensor(alive, device="cuda")
        rows = (kept[:, None] * beams + (best // vocabulary)[kept]).view(-1)
        for cache in caches:
            cache.take(rows)
        memories = [tuple(part.index_select(0, rows) for part in memory) for memory in memories]
        tokens = (best % vocabulary)[kept].view(-1, 1)
        sentences = torch.cat([sentences.index_select(0, rows), tokens], dim=1)
        scores = scores[kept]
        lengths, count = [lengths[index] for index in alive], len(alive)
        sentences[0, -1].item()  # a search looks at what it found


# ---- learning from what was said -----------------------------------------------------------------


@torch.no_grad()
def roll_out(model, prompts, count):
    """`prompts` with `count` tokens more."""
    caches = [Cache() for _ in model.blocks]
    tokens, drawn = prompts, prompts
    for _ in range(count):
        first = tokens.shape[1] - drawn.shape[1]
        hidden = model.hidden(drawn, caches, first=first)
        drawn = sample(model.head(hidden[:, -1]))[:, None]
        tokens = torch.cat([tokens, drawn], dim=1)
    return tokens


def log_likelihood(model, hidden, tokens, prompt_length):
    """Of each token after the prompt."""
    logits = model.head(hidden[:, prompt_length - 1:-1])
    return logits.log_softmax(-1).gather(2, tokens[:, prompt_length:, None])[:, :, 0]


@torch.no_grad()
def judge(model, reference, value, tokens, prompt_length, rows_at_a_time):
    """What the policy thought and what it was worth, a few rows at a time."""
    old, values, rewards = [], [], []
    for part in tokens.split(rows_at_a_time):
        hidden = model.hidden(part)
        old.append(log_likelihood(model, hidden, part, prompt_length))
        values.append(value(hidden[:, prompt_length - 1:-1])[:, :, 0])
        like = log_likelihood(reference, reference.hidden(part), part, prompt_length)
        rewards.append(torch.randn(len(part), 1, device="cuda") - 0.1 * (old[-1] - like))
    old, values, rewards = torch.cat(old), torch.cat(values), torch.cat(rewards)
    returns = rewards.flip(1).cumsum(1).flip(1)
    return old, returns, returns - values


def policy_rounds(job):
    """Rounds of learning from rewards: texts are generated without gradients, judged, and then
    trained on for two epochs; each round's texts have another length."""
    vocabulary, rows, rows_at_a_time = 16_000, 96, 24
    model = on_device(lambda: Decoder(vocabulary, 1536, 4, 24))
    reference = copy.deepcopy(model).requires_grad_(False)
    value = on_device(lambda: nn.Linear(1536, 1))
    parameters = [*model.parameters(), *value.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-6)
    while job.is_going():
        prompt_length, count = random.randrange(64, 257), random.randrange(16, 65)
        prompts = random_tokens(rows, prompt_length, vocabulary)
        tokens = roll_out(model, prompts, count)
        old, returns, advantages = judge(model, reference, value, tokens, prompt_length,
                                         rows_at_a_time)
        for _ in range(2):
            for part in torch.randperm(rows, device="cuda").split(rows_at_a_time):
                hidden = model.hidden(tokens[part])
                new = log_likelihood(model, hidden, tokens[part], prompt_length)
                ratio = (new - old[part]).exp()
                gain = torch.minimum(ratio * advantages[part],
                                     ratio.clamp(0.8, 1.2) * advantages[part])
                error = value(hidden[:, prompt_length - 1:-1])[:, :, 0] - returns[part]
                update(error.square().mean() * 0.1 - gain.mean(), optimizer, parameters)
