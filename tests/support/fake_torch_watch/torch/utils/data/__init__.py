"""torch.utils.data."""
from .dataloader import DataLoader  # noqa: F401
