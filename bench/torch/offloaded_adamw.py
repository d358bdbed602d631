"""offloaded_adamw.py - an optimizer in host memory, as a program can have without anybody's help.

The GPU keeps the weights and their gradients, and nothing else: no copy is made there, not even for a
moment, so types are converted on the host. Copies run on a stream of their own, between page-locked
memory and the GPU. Parameters go in groups: while one is updated, by PyTorch's fused AdamW with all
cores, the gradients of the next are on their way, and the weights of the last are going back.
"""
import torch

GROUP_BYTES = 256 << 20  # of float32 weights, at least


class Group:
    """Some parameters: `here` on the GPU; on the host their weights and moments in float32, and a
    page-locked place for what travels, in the GPU's type. Where that is float32, too, gradients and
    weights travel from and to where they are."""

    def __init__(self, here) -> None:
        self.here = here
        self.there, self.travelling = [], []
        for parameter in here:
            is_float32 = parameter.dtype == torch.float32
            weights = torch.empty(parameter.shape, dtype=torch.float32, pin_memory=is_float32)
            weights.copy_(parameter.detach())
            weights.grad = torch.empty(parameter.shape, dtype=torch.float32, pin_memory=is_float32)
            self.there.append(weights)
            self.travelling.append(None if is_float32 else torch.empty(
                parameter.shape, dtype=parameter.dtype, pin_memory=True))
        self.inner = torch.optim.AdamW(self.there, lr=1e-5, fused=True)
        self.have_come = torch.cuda.Event()

    def fetch_gradients(self) -> None:
        """On the current stream."""
        for here, there, travelling in zip(self.here, self.there, self.travelling):
            (there.grad if travelling is None else travelling).copy_(here.grad, non_blocking=True)
        self.have_come.record()

    def update(self) -> None:
        self.have_come.synchronize()
        for there, travelling in zip(self.there, self.travelling):
            if travelling is not None:
                there.grad.copy_(travelling)
        self.inner.step()

    def send_weights(self) -> None:
        """On the current stream."""
        for here, there, travelling in zip(self.here, self.there, self.travelling):
            if travelling is not None:
                travelling.copy_(there)
            here.copy_(there if travelling is None else travelling, non_blocking=True)


class OffloadedAdamW:
    """AdamW whose moments, and weights in float32, are in host memory."""

    def __init__(self, parameters) -> None:
        self.here = [p for p in parameters if p.requires_grad]
        self.groups, gathered, size_bytes = [], [], 0
        for parameter in self.here:
            gathered.append(parameter)
            size_bytes += 4 * parameter.numel()
            if size_bytes >= GROUP_BYTES:
                self.groups.append(Group(gathered))
                gathered, size_bytes = [], 0
        if gathered:
            self.groups.append(Group(gathered))
        self.stream = torch.cuda.Stream()

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self.here:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Returns when every gradient has arrived, so that its memory can be used again."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for group in self.groups:
                group.fetch_gradients()
            for group in self.groups:
                group.update()
                group.send_weights()
        torch.cuda.current_stream().wait_stream(self.stream)
