"""paged_irregular.py - programs whose sizes come from the data: graphs, boxes, patches, bags.

Workloads of record_paged.py; `job` is its Job.
"""
import collections
import random

import torch
import torch.nn.functional as F
from torch import nn

from paged_models import Pyramid, convolve, on_device, update

# ---- a graph -------------------------------------------------------------------------------------


class EdgeLayer(nn.Module):
    """Every node gathers from its neighbours what a small network says of each pair."""

    def __init__(self, before, after):
        super().__init__()
        self.pair = nn.Linear(2 * before, after)
        self.own = nn.Linear(before, after)

    def forward(self, x, sources, targets, count):
        """The first `count` nodes are those that gather."""
        messages = F.relu(self.pair(torch.cat([x[sources], x[targets]], dim=1)))
        gathered = torch.zeros(count, messages.shape[1], device=x.device)
        gathered = gathered.index_add(0, targets, messages)
        degrees = torch.bincount(targets, minlength=count).clamp(min=1)
        return F.relu(self.own(x[:count]) + gathered / degrees[:, None])


def sample_neighbours(nodes, node_count):
    """Returns all nodes of the next layer, `nodes` first, and the edges as places among them."""
    degrees = (4 * torch.rand(len(nodes), device="cuda").clamp(min=1e-4).pow(-0.6)).clamp(max=80)
    targets = torch.repeat_interleave(torch.arange(len(nodes), device="cuda"), degrees.long())
    drawn = (torch.rand(len(targets), device="cuda").square() * node_count).long()
    drawn = drawn.clamp(max=node_count - 1)
    found, places = torch.unique(drawn, return_inverse=True)
    return torch.cat([nodes, found]), len(nodes) + places, targets


def graph_neighbours(job):
    """A graph network over sampled neighbourhoods, whose sizes differ widely."""
    node_count = 2_000_000
    features = torch.randn(node_count, 256, device="cuda")
    labels = torch.randint(0, 50, (node_count,), device="cuda")
    layers = on_device(lambda: nn.ModuleList([EdgeLayer(256, 512), EdgeLayer(512, 512)]))
    head = on_device(lambda: nn.Linear(512, 50))
    optimizer = torch.optim.Adam([*layers.parameters(), *head.parameters()], lr=1e-4)
    while job.is_going():
        seeds = torch.randint(0, node_count, (random.randrange(2048, 12_289),), device="cuda")
        near, near_sources, near_targets = sample_neighbours(seeds, node_count)
        far, far_sources, far_targets = sample_neighbours(near, node_count)
        x = layers[0](features[far], far_sources, far_targets, len(near))
        x = layers[1](F.dropout(x, 0.2), near_sources, near_targets, len(seeds))
        update(F.cross_entropy(head(x), labels[seeds]), optimizer)


# ---- boxes ---------------------------------------------------------------------------------------


def random_boxes(count, height, width):
    corners = torch.rand(count, 2, device="cuda") * torch.tensor([width, height], device="cuda")
    sizes = 16 + 300 * torch.rand(count, 2, device="cuda").square()
    return torch.cat([corners, corners + sizes], dim=1)


def make_anchors(rows, columns):
    """Nine boxes at each place of a map, an eighth of the image in size."""
    ys, xs = torch.meshgrid(torch.arange(rows, device="cuda") * 8.0,
                            torch.arange(columns, device="cuda") * 8.0, indexing="ij")
    sizes = torch.tensor([[w, h] for w in (32.0, 96.0, 256.0) for h in (32.0, 96.0, 256.0)],
                         device="cuda")
    centres = torch.stack([xs, ys], -1).view(-1, 1, 2)
    return torch.cat([centres - sizes / 2, centres + sizes / 2], -1).view(-1, 4)


def overlaps(anchors, boxes):
    """Intersection over union, (anchors, boxes)."""
    low = torch.maximum(anchors[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(anchors[:, None, 2:], boxes[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    areas = [(each[:, 2:] - each[:, :2]).prod(-1) for each in (anchors, boxes)]
    return shared / (areas[0][:, None] + areas[1][None, :] - shared)


def cut_out(map_, boxes, height, width, side):
    """What each box covers of `map_` (channels, rows, columns): (boxes, channels, side, side)."""
    count, channels = len(boxes), map_.shape[0]
    steps = torch.linspace(0, 1, side, device="cuda")
    xs = boxes[:, 0:1] + (boxes[:, 2:3] - boxes[:, 0:1]) * steps
    ys = boxes[:, 1:2] + (boxes[:, 3:4] - boxes[:, 1:2]) * steps
    grid = torch.stack([(2 * xs / width - 1)[:, None, :].expand(count, side, side),
                        (2 * ys / height - 1)[:, :, None].expand(count, side, side)], -1)
    cut = F.grid_sample(map_[None], grid.reshape(1, count * side, side, 2), align_corners=False)
    return cut[0].reshape(channels, count, side, side).transpose(0, 1)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.pyramid = Pyramid(64)
        self.scores = nn.Conv2d(256, 9, 1)
        self.classes = nn.Sequential(nn.Flatten(), nn.Linear(256 * 49, 1024), nn.ReLU(),
                                     nn.Linear(1024, 81))
        self.masks = nn.Sequential(convolve(256, 256), convolve(256, 256),
                                   nn.ConvTranspose2d(256, 256, 2, stride=2), nn.ReLU(),
                                   nn.Conv2d(256, 1, 1))


def detect_step(model, height, width):
    """The loss of one batch: a random number of boxes in each image."""
    maps = model.pyramid(torch.randn(6, 3, height, width, device="cuda"))
    scores = model.scores(maps).permute(0, 2, 3, 1).flatten(1)
    anchors = make_anchors(*maps.shape[2:])
    losses, crops, mask_crops = [], [], []
    for image in range(len(maps)):
        boxes = random_boxes(random.randrange(1, 90), height, width)
        best, owner = overlaps(anchors, boxes).max(1)
        hits = (best > 0.3).nonzero()[:, 0][:256]
        chosen = torch.cat([hits, torch.randint(0, len(anchors), (256,), device="cuda")])
        losses.append(F.binary_cross_entropy_with_logits(scores[image][chosen],
                                                         (best[chosen] > 0.3).float()))
        likely = scores[image].detach().topk(random.randrange(64, 513)).indices
        crops.append(cut_out(maps[image], torch.cat([anchors[likely], boxes]), height, width, 7))
        matched = boxes[owner[hits]]
        mask_crops.append(cut_out(maps[image], torch.cat([matched, boxes]), height, width, 14))
    logits = model.classes(torch.cat(crops))
    losses.append(F.cross_entropy(logits, torch.randint(0, 81, (len(logits),), device="cuda")))
    masks = model.masks(torch.cat(mask_crops))
    losses.append(F.binary_cross_entropy_with_logits(masks, (torch.rand_like(masks) > 0.5).float()))
    return torch.stack(losses).sum()


def detection_boxes(job):
    """A detector of two stages: images of several sizes, a random number of boxes in each."""
    model = on_device(Detector)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    while job.is_going():
        height, width = random.randrange(512, 897, 32), random.randrange(640, 1089, 32)
        update(detect_step(model, height, width), optimizer, model.parameters())


# ---- volumes -------------------------------------------------------------------------------------


def convolve_volume(before, after):
    return nn.Sequential(
        nn.Conv3d(before, after, 3, padding=1), nn.InstanceNorm3d(after, affine=True),
        nn.LeakyReLU(0.01), nn.Conv3d(after, after, 3, padding=1),
        nn.InstanceNorm3d(after, affine=True), nn.LeakyReLU(0.01))


class VolumeModel(nn.Module):
    """Down three times by two, and up again with what was there on the way down."""

    def __init__(self, channels=24, classes=4):
        super().__init__()
        widths = [channels, 2 * channels, 4 * channels, 8 * channels]
        self.down = nn.ModuleList(
            convolve_volume(before, after) for before, after in zip([1] + widths, widths))
        self.raise_ = nn.ModuleList(
            nn.ConvTranspose3d(2 * width, width, 2, stride=2) for width in reversed(widths[:-1]))
        self.up = nn.ModuleList(
            convolve_volume(2 * width, width) for width in reversed(widths[:-1]))
        self.head = nn.Conv3d(channels, classes, 1)

    def forward(self, x):
        kept = []
        for index, layer in enumerate(self.down):
            x = layer(x)
            if index < len(self.down) - 1:
                kept.append(x)
                x = F.max_pool3d(x, 2)
        for raise_, layer in zip(self.raise_, self.up):
            x = layer(torch.cat([raise_(x), kept.pop()], dim=1))
        return self.head(x)


def volume_patches(job):
    """Segmentation of volumes: patches of changing size, and now and then a whole volume, a window
    at a time."""
    model = on_device(VolumeModel)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.99, nesterov=True)
    step = 0
    while job.is_going():
        sides = [random.randrange(48, 121, 8) for _ in range(3)]
        guess = model(torch.randn(2, 1, *sides, device="cuda"))
        labels = torch.randint(0, 4, (2, *sides), device="cuda")
        probabilities = guess.softmax(1)
        truth = F.one_hot(labels, 4).movedim(-1, 1).float()
        shared = (probabilities * truth).sum((2, 3, 4))
        dice = 2 * shared / (probabilities.sum((2, 3, 4)) + truth.sum((2, 3, 4)) + 1)
        update(F.cross_entropy(guess, labels) - dice.mean(), optimizer, model.parameters())
        step += 1
        if step % 12 == 0:
            segment(model, [random.randrange(96, 225, 16) for _ in range(3)])


@torch.no_grad()
def segment(model, sides, window=96):
    volume = torch.randn(1, 1, *sides, device="cuda")
    votes = torch.zeros(1, 4, *sides, device="cuda")
    starts = [sorted({min(at, side - window) for at in range(0, side, window // 2)})
              for side in sides]
    for a in starts[0]:
        for b in starts[1]:
            for c in starts[2]:
                place = (..., slice(a, a + window), slice(b, b + window), slice(c, c + window))
                votes[place] += model(volume[place]).softmax(1)
    return votes.argmax(1).cpu()


# ---- side streams --------------------------------------------------------------------------------


class Prefetcher:
    """Batches on their way: one stream copies them to the GPU, another prepares them there."""

    def __init__(self, ahead):
        self.copies, self.preparations = torch.cuda.Stream(), torch.cuda.Stream()
        self.pinned = torch.randint(0, 256, (64 * 3 * 640 * 640,), dtype=torch.uint8).pin_memory()
        self.ready = collections.deque()
        for _ in range(ahead):
            self.start()

    def start(self):
        rows, side = random.choice((24, 32, 48, 64)), random.randrange(256, 577, 32)
        source = self.pinned[:rows * 3 * side * side].view(rows, 3, side, side)
        with torch.cuda.stream(self.copies):
            raw = source.to("cuda", non_blocking=True)
        self.preparations.wait_stream(self.copies)
        with torch.cuda.stream(self.preparations):
            raw.record_stream(self.preparations)
            images = raw.float().div_(255)
            if random.random() < 0.5:
                images = images.flip(-1)
            scale = random.uniform(0.6, 0.9)
            images = F.interpolate(images, scale_factor=scale, mode="bilinear",
                                   align_corners=False, recompute_scale_factor=True)
            images = images - images.mean((2, 3), keepdim=True)
            labels = torch.randint(0, 1000, (rows,), device="cuda")
        event = torch.cuda.Event()
        event.record(self.preparations)
        self.ready.append((images, labels, event))

    def take(self):
        images, labels, event = self.ready.popleft()
        current = torch.cuda.current_stream()
        current.wait_event(event)
        images.record_stream(current)
        labels.record_stream(current)
        self.start()
        return images, labels


def prefetch_streams(job):
    """Training fed by two side streams, which run ahead; the host waits every eighth step alone."""
    model = on_device(lambda: nn.Sequential(
        Pyramid(64, more=3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 1000)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    prefetcher = Prefetcher(ahead=3)
    step, total = 0, torch.zeros((), device="cuda")
    while job.is_going():
        images, labels = prefetcher.take()
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.detach()
        del images, labels, loss
        step += 1
        if step % 8 == 0:
            total.item()


# ---- tables --------------------------------------------------------------------------------------


class Recommender(nn.Module):
    """Bags of entries of large tables, which meet pairwise before a plain network judges them."""

    def __init__(self, tables, entries, width):
        super().__init__()
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(entries, width, mode="sum", sparse=True) for _ in range(tables))
        self.numbers = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, width))
        pairs = (tables + 1) * (tables + 1)
        self.judge = nn.Sequential(nn.Linear(pairs + width, 2048), nn.ReLU(),
                                   nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 1))

    def dense_parameters(self):
        return [*self.numbers.parameters(), *self.judge.parameters()]

    def forward(self, numbers, bags):
        own = self.numbers(numbers)
        parts = torch.stack([own] + [table(entries, starts)
                                     for table, (entries, starts) in zip(self.tables, bags)], 1)
        pairs = torch.bmm(parts, parts.transpose(1, 2)).flatten(1)
        return self.judge(torch.cat([own, pairs], 1))[:, 0]


def random_bag(rows, entries, mean_length):
    """Popular entries are drawn far oftener than others; some bags are empty."""
    lengths = torch.randint(0, 2 * mean_length + 1, (rows,), device="cuda")
    starts = lengths.cumsum(0) - lengths
    drawn = torch.rand(int(lengths.sum()), device="cuda").pow(3) * entries
    return drawn.long().clamp(max=entries - 1), starts


def recommender_tables(job):
    """Large tables with sparse gradients, an optimizer for them and another for the rest."""
    entries, tables = 1_000_000, 6
    model = on_device(lambda: Recommender(tables, entries, 128))
    sparse = torch.optim.SparseAdam(model.tables.parameters(), lr=1e-4)
    dense = torch.optim.Adam(model.dense_parameters(), lr=1e-4)
    while job.is_going():
        rows = random.choice((8192, 16_384, 24_576, 32_768))
        bags = [random_bag(rows, entries, 1 + 5 * table) for table in range(tables)]
        guess = model(torch.randn(rows, 13, device="cuda"), bags)
        truth = torch.randint(0, 2, (rows,), device="cuda").float()
        loss = F.binary_cross_entropy_with_logits(guess, truth)
        sparse.zero_grad(set_to_none=True)
        update(loss, dense)
        sparse.step()
