"""torch.optim."""
from . import optimizer
from .optimizer import Optimizer  # noqa: F401
