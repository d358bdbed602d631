"""test_parts.py - lists of an optimizer's tensors that become shorter, and those that must stay as they are."""
import os
import sys
import types
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
from vramwise.torch._parts import StepInParts  # noqa: E402

MIB = 1 << 20


class Tensor:
    """Of so many MiB, or a number of steps."""

    def __init__(self, size, dtype="float32", is_cuda=True, is_contiguous=True, device=0):
        self.size, self.dtype, self.is_cuda, self.device = size, dtype, is_cuda, device
        self.contiguous = is_contiguous

    def numel(self):
        return self.size * MIB or 1

    def element_size(self):
        return 1

    def is_contiguous(self):
        return self.contiguous


class Parameter(Tensor):
    pass


class Optimizer:
    @staticmethod
    def _group_tensors_by_device_and_dtype(lists, with_indices=False):
        return {(0, "float32"): (lists, list(range(len(lists[0]))) if with_indices else [])}


class Parts(unittest.TestCase):
    def setUp(self):
        class Fresh(Optimizer):
            pass
        torch = types.SimpleNamespace(Tensor=Tensor, nn=types.SimpleNamespace(Parameter=Parameter),
                                      optim=types.SimpleNamespace(Optimizer=Fresh))
        self.parts = StepInParts(torch)
        self.parts.begin()
        self.group = Fresh._group_tensors_by_device_and_dtype

    @staticmethod
    def lists(*sizes, **options):
        """Weights, a state and numbers of steps; and a list that this optimizer does not use."""
        return [[Parameter(size) for size in sizes], [Tensor(size, **options) for size in sizes], [],
                [Tensor(0, is_cuda=False) for _ in sizes]]

    def sizes(self, lists, **options):
        return [[weight.size for weight in parts[0]] for parts, _ in self.group(lists, **options).values()]

    def test_lists_are_as_they_were_until_parts_are_wanted(self):
        self.assertEqual(self.sizes(self.lists(200, 200)), [[200, 200]])

    def test_parts_have_as_much_as_a_part_may_have_in_the_order_of_the_list(self):
        self.parts.is_wanted = True
        self.assertEqual(self.sizes(self.lists(100, 156, 1, 200, 300, 1, 2)), [[100, 156], [1, 200], [300], [1, 2]])
        self.assertEqual(self.sizes(self.lists(5, 6)), [[5, 6]])

    def test_all_lists_are_cut_alike_and_tell_where_they_were(self):
        self.parts.is_wanted = True
        lists = self.lists(200, 100, 100)
        groups = self.group(lists, with_indices=True)
        (first, first_indices), (second, second_indices) = groups.values()
        self.assertEqual((first_indices, second_indices), ([0], [1, 2]))
        self.assertEqual(first, [one[:1] for one in lists])
        self.assertEqual(second, [one[1:] for one in lists])
        self.assertEqual([device for device, _ in groups], [0, 0])

    def test_tensors_of_which_some_may_go_another_way_stay_together(self):
        self.parts.is_wanted = True
        for odd in (dict(is_contiguous=False), dict(dtype="bfloat16"), dict(is_cuda=False), dict(device=1)):
            with self.subTest(odd):
                lists = self.lists(200, 200)
                lists[1][1] = Tensor(200, **odd)
                self.assertEqual(self.sizes(lists), [[200, 200]])
        lists = self.lists(200, 200)
        lists[1] = [None, None]  # a momentum that is not there yet
        self.assertEqual(self.sizes(lists), [[200, 200]])

        class Sharded(Tensor):
            pass
        lists[1] = [Sharded(200), Sharded(200)]
        self.assertEqual(self.sizes(lists), [[200, 200]])

    def test_a_pytorch_without_the_function_is_left_alone(self):
        torch = types.SimpleNamespace(optim=types.SimpleNamespace(Optimizer=type("Old", (), {})))
        StepInParts(torch).begin()
        StepInParts(types.SimpleNamespace()).begin()


if __name__ == "__main__":
    unittest.main()
