"""An autograd for one formula: the mean of (weight * x + bias - y) squared over a batch.

Gradients are added to one parameter after the other, so that a failure in between leaves them half
accumulated, as in the real one. limit["forward"] and limit["backward"] are the largest batches for
which there is memory.
"""
import contextlib
from collections import namedtuple

from . import OutOfMemoryError

Device = namedtuple("Device", "type index")
limit = {"forward": None, "backward": None}


class Scratch:
    """Memory that a step uses."""


class Tensor:
    """A list of numbers, or one number."""
    dtype = "float"

    def __init__(self, values, requires_grad=False, grad_fn=None):
        self.values = values
        self.requires_grad = requires_grad or grad_fn is not None
        self.grad_fn = grad_fn
        self.grad = None
        self.device = Device("cuda", 0)

    @property
    def shape(self):
        return (len(self.values),) if isinstance(self.values, list) else ()

    def numel(self):
        return len(self.values) if isinstance(self.values, list) else 1

    def __getitem__(self, index):
        return Tensor(self.values[index])

    def __mul__(self, factor):
        return Tensor(self.values * factor, grad_fn=MulBackward0(self.grad_fn, factor))

    def __add__(self, other):
        return Tensor(self.values + other.values)

    def detach(self):
        return Tensor(self.values)

    def to(self, device, copy):
        return Tensor(self.values)

    def copy_(self, other):
        self.values = other.values

    def backward(self):
        self.grad_fn.run(1.0)


class AccumulateGrad:
    """Where a gradient arrives."""
    next_functions = ()

    def __init__(self, variable):
        self.variable = variable

    def run(self, gradient):
        if self.variable.grad is None:
            self.variable.grad = Tensor(0.0)
        self.variable.grad.values += gradient


class MulBackward0:
    """Of a loss that was scaled."""

    def __init__(self, of, factor):
        self.next_functions = ((of, 0),)
        self.factor = factor

    def run(self, gradient):
        self.next_functions[0][0].run(gradient * self.factor)


class ErrorBackward:
    """Of the formula."""

    def __init__(self, weight, bias, x, differences):
        self.next_functions = ((AccumulateGrad(weight), 0), (AccumulateGrad(bias), 0), (None, 0))
        self.x, self.differences = x, differences

    def run(self, gradient):
        count = len(self.x)
        self.next_functions[0][0].run(
            gradient * sum(2 * d * x for d, x in zip(self.differences, self.x)) / count)
        refuse(count, "backward")
        self.next_functions[1][0].run(gradient * sum(2 * d for d in self.differences) / count)


def refuse(count, where):
    """Runs out of memory for a batch beyond the limit."""
    if limit[where] is not None and count > limit[where]:
        raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total")


def parameter(value):
    """A leaf."""
    return Tensor(value, requires_grad=True)


def squared_error(weight, bias, x, y):
    """The formula."""
    refuse(len(x.values), "forward")
    differences = [weight.values * a + bias.values - b for a, b in zip(x.values, y.values)]
    mean = sum(d * d for d in differences) / len(differences)
    return Tensor(mean, grad_fn=ErrorBackward(weight, bias, x.values, differences))


@contextlib.contextmanager
def no_grad():
    """Nothing is recorded here anyway."""
    yield
