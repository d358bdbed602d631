"""offloaded_adamw.py - an optimizer in host memory, as a program can have without anybody's help."""
import torch


class OffloadedAdamW:
    """AdamW whose weights and moments are in host memory; gradients go there, weights come back."""

    def __init__(self, parameters) -> None:
        self.here = [p for p in parameters if p.requires_grad]
        self.there = [torch.empty(p.shape, dtype=torch.float32, pin_memory=True).copy_(p.detach())
                      for p in self.here]
        self.inner = torch.optim.AdamW(self.there, lr=1e-5)

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self.here:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        for here, there in zip(self.here, self.there):
            if there.grad is None:
                there.grad = torch.empty(there.shape, dtype=there.dtype, pin_memory=True)
            there.grad.copy_(here.grad, non_blocking=here.grad.dtype == there.dtype)
        torch.cuda.synchronize()
        self.inner.step()
        for here, there in zip(self.here, self.there):
            here.copy_(there, non_blocking=here.dtype == there.dtype)
