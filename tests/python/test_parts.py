"""test_parts.py - lists of an optimizer's tensors that become shorter, those that must stay as they are, and state
that is lent blocks of the GPU part by part; with an adapter that notes what it is asked."""
import os
import sys
import types
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
from vramwise.torch._parts import Staging, StepInParts  # noqa: E402

MIB = 1 << 20


GPUS = [types.SimpleNamespace(index=index) for index in range(2)]


class Tensor:
    """Of so many MiB, or a number of steps."""

    def __init__(self, size, dtype="float32", is_cuda=True, is_contiguous=True, device=GPUS[0]):
        self.size, self.dtype, self.is_cuda, self.device = size, dtype, is_cuda, device
        self.contiguous = is_contiguous

    def numel(self):
        return self.size * MIB or 1

    def element_size(self):
        return 1

    def is_contiguous(self):
        return self.contiguous

    shape, _cdata = property(lambda self: (self.size,)), property(id)

    def stride(self):
        return (1,)

    def untyped_storage(self):
        return self

    def set_(self, storage, *layout):
        self.storage, self.layout = storage, layout


class Parameter(Tensor):
    pass


class Optimizer:
    @staticmethod
    def _group_tensors_by_device_and_dtype(lists, with_indices=False):
        groups = {}
        for index, weight in enumerate(lists[0]):
            groups.setdefault((0, weight.dtype), []).append(index)
        return {key: ([[tensors[index] for index in indices] if tensors else [] for tensors in lists],
                      indices if with_indices else []) for key, indices in groups.items()}


class Adapter:
    """Has blocks for the tensors whose sizes are in `away`."""

    def __init__(self):
        self.away, self.asked, self.sizes, self.fails = (), [], {}, False

    def vramwise_torch_stream_away(self, device):
        return sum(self.away)

    def vramwise_torch_stream_stage(self, asked, count, kept, answers):
        sizes = [self.sizes[number] for number in list(asked)]
        answers[:] = [size * MIB if size in self.away else 0 for size in sizes]
        self.asked.append(f"stage {sizes} beside {kept // MIB}")

    def vramwise_torch_stream_use_staged(self, tensor, shell):
        self.asked.append(f"use {self.sizes[tensor]}")
        return 1

    def vramwise_torch_stream_unstage(self, tensor, shell):
        self.asked.append(f"end {self.sizes[tensor]}")
        return int(not self.fails)


class Parts(unittest.TestCase):
    def setUp(self):
        class Fresh(Optimizer):
            pass
        torch = types.SimpleNamespace(Tensor=Tensor, nn=types.SimpleNamespace(Parameter=Parameter), uint8="uint8",
                                      optim=types.SimpleNamespace(Optimizer=Fresh),
                                      empty=lambda size, dtype, device: Tensor(size, dtype, device=device))
        self.adapter = Adapter()
        self.parts = StepInParts(torch, Staging(torch, self.adapter))
        self.parts.begin()
        self.group = Fresh._group_tensors_by_device_and_dtype

    @staticmethod
    def lists(*sizes, **options):
        """Weights, gradients and numbers of steps; and a list that this optimizer does not use."""
        return [[Parameter(size) for size in sizes], [Tensor(size, **options) for size in sizes], [],
                [Tensor(0, is_cuda=False) for _ in sizes]]

    def with_state(self, *sizes):
        """The same, with a state, for an optimizer whose state may be lent blocks."""
        self.parts.may_stage = True
        lists = self.lists(*sizes)
        lists[2] = [Tensor(size) for size in sizes]
        self.adapter.sizes = {id(tensor): tensor.size for tensor in lists[2]}
        return lists

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
        for odd in (dict(is_contiguous=False), dict(dtype="bfloat16"), dict(is_cuda=False), dict(device=GPUS[1])):
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

    def test_state_on_the_host_is_lent_blocks_of_the_gpu_a_part_ahead(self):
        self.parts.is_wanted = True
        self.adapter.away = (40, 41)
        lists = self.with_state(40, 30, 41, 64)
        worked = []
        for (device, _), (tensors, _indices) in self.group(lists).items():
            self.adapter.asked.append(f"work {[weight.size for weight in tensors[0]]}")
            worked += tensors[2]
            self.assertIs(device, 0)
        self.assertEqual(self.adapter.asked, [
            "stage [40] beside 160", "use 40", "stage [30] beside 160", "work [40]", "end 40",
            "stage [41] beside 164", "work [30]", "use 41", "stage [64] beside 256", "work [41]", "end 41", "work [64]"])
        lent, state = [worked[0], worked[2]], lists[2]
        self.assertEqual([worked[1], worked[3]], [state[1], state[3]])
        self.assertEqual([(made.dtype, made.device, made.layout) for made in lent],
                         [("float32", state[0].device, (0, (size,), (1,))) for size in (40, 41)])
        self.assertEqual([made.storage.dtype for made in lent], ["uint8", "uint8"])

    def test_values_are_those_of_the_items(self):
        self.parts.is_wanted = True
        self.adapter.away = (40,)
        lists = self.with_state(40, 30)
        seen = [tensors[2][0] for tensors, _ in self.group(lists).values()]
        self.assertIsNot(seen[0], lists[2][0])
        self.assertIs(seen[1], lists[2][1])

    def test_a_part_that_fails_gives_its_blocks_back(self):
        self.parts.is_wanted = True
        self.adapter.away = (40,)
        with self.assertRaises(ZeroDivisionError):
            for _ in self.group(self.with_state(40, 30)).values():
                raise ZeroDivisionError
        self.assertEqual(self.adapter.asked[-1], "end 40")

    def test_what_cannot_be_copied_back_is_an_error(self):
        self.parts.is_wanted = self.adapter.fails = True
        self.adapter.away = (40,)
        with self.assertRaisesRegex(RuntimeError, "could not be copied back to host memory"):
            list(self.group(self.with_state(40, 30)).items())

    def test_all_of_a_part_is_copied_back_that_can_be(self):
        self.parts.is_wanted = self.adapter.fails = True
        self.adapter.away = (20, 21)
        with self.assertRaises(RuntimeError):
            list(self.group(self.with_state(20, 21, 64)).items())
        self.assertEqual([line for line in self.adapter.asked if line.startswith("end")], ["end 20", "end 21"])

    def test_other_steps_use_what_is_on_the_host_there(self):
        self.parts.is_wanted = True
        self.adapter.away = (40,)
        lists = self.with_state(40, 30)
        self.parts.may_stage = False
        self.assertEqual(self.sizes(lists), [[40, 30]])
        self.assertEqual(self.adapter.asked, [])

    def test_a_state_that_is_in_the_lists_twice_is_used_on_the_host(self):
        self.parts.is_wanted = True
        self.adapter.away = (40, 41, 20, 21)
        for sizes in ((40, 41), (20, 21)):  # in two parts, and in one part
            with self.subTest(sizes):
                lists = self.with_state(*sizes)
                for tensors in lists:
                    tensors.append(tensors[0])
                (tensors, _indices), = self.group(lists).values()
                self.assertEqual(tensors[2], lists[2])
        self.assertEqual(self.adapter.asked, [])

    def test_other_types_of_weights_are_lent_blocks_beside_a_state_that_is_there_twice(self):
        self.parts.is_wanted = True
        self.adapter.away = (20, 40)
        lists = self.with_state(40, 20, 40)
        for tensors in lists[:3]:
            tensors[1].dtype = "bfloat16"
            tensors[2] = tensors[0]
        self.assertEqual(self.sizes(lists), [[40, 40], [20]])
        self.assertEqual(self.adapter.asked, ["stage [20] beside 320", "use 20", "end 20"])

    def test_numbers_of_steps_that_are_shared_keep_no_state_away(self):
        self.parts.is_wanted = True
        self.adapter.away = (40,)
        lists = self.with_state(40, 30)
        lists[3] = [lists[3][0]] * 2
        list(self.group(lists).values())
        self.assertIn("use 40", self.adapter.asked)

    def test_a_pytorch_without_the_function_is_left_alone(self):
        torch = types.SimpleNamespace(optim=types.SimpleNamespace(Optimizer=type("Old", (), {})))
        StepInParts(torch, None).begin()
        StepInParts(types.SimpleNamespace(), None).begin()


if __name__ == "__main__":
    unittest.main()
