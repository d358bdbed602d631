"""vramwise.torch.fit_batch(): the gradients of the whole batch, whatever fits."""
import collections
import gc
import logging
import sys
import threading
import traceback
import unittest
import weakref
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
from world import FAKE, ROOT  # noqa: E402

sys.path[0:0] = [str(ROOT / "python"), str(FAKE)]
import torch  # noqa: E402
from torch import tiny  # noqa: E402

import vramwise.torch  # noqa: E402
from vramwise.torch import _split  # noqa: E402


class Fitting(unittest.TestCase):
    """A line through 12 points."""

    def setUp(self):
        self.weight, self.bias = torch.parameter(0.5), torch.parameter(-1.0)
        self.batch = {"x": torch.Tensor([float(i) for i in range(12)]),
                      "y": torch.Tensor([float(i % 5) for i in range(12)])}
        self.sizes = []
        self.fitter = vramwise.torch.Fitter()
        torch.cuda.state.update(initialized=False, emptied=0, live=0, peak=0)
        self.limit(forward=None, backward=None)
        logging.getLogger("vramwise.torch").setLevel(logging.CRITICAL)

    def limit(self, **limits):
        """The largest batches that fit."""
        tiny.limit.update(limits)

    def step(self, part):
        """The training step; holds something as long as it runs."""
        scratch = tiny.Scratch()
        self.held = weakref.ref(scratch)
        self.sizes.append(len(part["x"].values))
        return torch.squared_error(self.weight, self.bias, part["x"], part["y"])

    def gradients(self):
        """Of both parameters."""
        return [None if p.grad is None else p.grad.values for p in (self.weight, self.bias)]

    def expected(self, before=(0.0, 0.0)):
        """The gradients of the whole batch, and its loss."""
        self.limit(forward=None, backward=None)
        weight, bias = torch.parameter(0.5), torch.parameter(-1.0)
        loss = torch.squared_error(weight, bias, self.batch["x"], self.batch["y"])
        loss.backward()
        return [weight.grad.values + before[0], bias.grad.values + before[1]], loss.values

    def check(self, fitted, before=(0.0, 0.0)):
        """The gradients and the loss are those of the whole batch."""
        gradients, loss = self.expected(before)
        for got, wanted in zip(self.gradients(), gradients):
            self.assertAlmostEqual(got, wanted)
        self.assertAlmostEqual(fitted.loss.values, loss)

    def test_a_batch_that_fits_runs_whole(self):
        fitted = self.fitter.fit_batch(self.step, self.batch)
        self.check(fitted)
        self.assertEqual((fitted.micro_batch, fitted.micro_batches, fitted.retries), (12, 1, 0))
        self.assertEqual(self.sizes, [12])

    def test_out_of_memory_forward_splits_and_gives_the_same_gradients(self):
        self.limit(forward=5)
        fitted = self.fitter.fit_batch(self.step, self.batch)
        self.check(fitted)
        self.assertEqual(self.sizes, [12, 6, 3, 3, 3, 3])
        self.assertEqual((fitted.micro_batch, fitted.micro_batches, fitted.retries), (3, 4, 2))

    def test_out_of_memory_backward_leaves_nothing_half_accumulated(self):
        self.limit(backward=3)
        self.check(self.fitter.fit_batch(self.step, self.batch))

    def test_gradients_from_before_the_call_are_kept_and_added_to(self):
        self.weight.grad, self.bias.grad = torch.Tensor(10.0), torch.Tensor(20.0)
        mine = self.weight.grad
        self.limit(backward=3)
        self.check(self.fitter.fit_batch(self.step, self.batch), before=(10.0, 20.0))
        self.assertIs(self.weight.grad, mine)

    def test_parts_of_unequal_size_weigh_what_they_are(self):
        for values in self.batch.values():
            values.values.append(7.0)
        self.limit(forward=5)
        fitted = self.fitter.fit_batch(self.step, self.batch)
        self.assertEqual(sorted(set(self.sizes[-4:])), [3, 4])
        self.check(fitted)

    def test_what_fits_is_remembered_for_the_shape_of_a_sample(self):
        self.limit(forward=5)
        self.fitter.fit_batch(self.step, self.batch)
        self.sizes.clear()
        self.assertEqual(self.fitter.fit_batch(self.step, self.batch).retries, 0)
        self.assertEqual(self.sizes, [3, 3, 3, 3])
        self.fitter.forget()
        self.assertEqual(self.fitter.fit_batch(self.step, self.batch).retries, 2)

    def test_a_small_batch_does_not_lower_what_is_remembered(self):
        small = {name: values[:2] for name, values in self.batch.items()}
        self.fitter.fit_batch(self.step, small)
        self.assertEqual(self.fitter.fit_batch(self.step, self.batch).micro_batch, 12)
        self.limit(forward=6)
        self.assertEqual(self.fitter.fit_batch(self.step, self.batch).micro_batch, 6)
        self.fitter.fit_batch(self.step, small)
        self.assertEqual(self.fitter.fit_batch(self.step, self.batch).micro_batch, 6)

    def test_a_step_made_anew_is_the_same_step(self):
        self.limit(forward=5)
        retries = [self.fitter.fit_batch(lambda part: self.step(part), self.batch).retries
                   for _ in range(2)]
        self.assertEqual(retries, [2, 0])

    def test_the_error_at_one_sample_is_new_and_holds_nothing(self):
        self.limit(forward=0)
        caught = None
        try:
            self.fitter.fit_batch(self.step, self.batch)
        except torch.OutOfMemoryError as error:
            caught = error
        self.assertIn("CUDA out of memory. Tried to allocate 2.00 GiB.", str(caught))
        self.assertIn("even one of the batch's 12 samples", str(caught))
        self.assertIsNone(caught.__context__)
        self.assertIsNone(self.held())
        self.assertEqual(self.gradients(), [None, None])

    def test_gradients_are_put_back_when_it_gives_up(self):
        self.weight.grad = torch.Tensor(10.0)
        self.limit(backward=0)
        with self.assertRaises(torch.OutOfMemoryError):
            self.fitter.fit_batch(self.step, self.batch)
        self.assertEqual(self.gradients(), [10.0, None])

    def test_nothing_is_held_and_the_cache_is_emptied_before_the_next_attempt(self):
        torch.cuda.state["initialized"] = True
        held, kept, seen = [], [], []

        def fail():
            mine, ring = tiny.Scratch(), [tiny.Scratch()]
            ring.append(ring)  # only the collector can free this
            held.extend([weakref.ref(mine), weakref.ref(ring[0])])
            try:
                raise KeyError("something on the way")
            except KeyError:
                raise torch.OutOfMemoryError("CUDA out of memory.")

        def step(part):
            if len(part["x"].values) < 12:
                seen.append(([each() for each in held], torch.cuda.state["emptied"]))
                return torch.squared_error(self.weight, self.bias, part["x"], part["y"])
            try:
                return fail()
            except torch.OutOfMemoryError as error:
                kept.append((error, error.__traceback__))  # as loggers do
                raise

        gc.disable()
        try:
            self.fitter.fit_batch(step, self.batch)
        finally:
            gc.enable()
        self.assertEqual(seen, [([None, None], 1)] * 2)
        self.assertEqual(len(kept), 1)

    def test_an_error_that_the_program_is_handling_stays_whole(self):
        self.limit(forward=4)

        def load():
            try:
                raise FileNotFoundError("no such file")
            except FileNotFoundError as cause:
                raise ValueError("the checkpoint is bad") from cause

        try:
            load()
        except ValueError as error:
            fitted = self.fitter.fit_batch(self.step, self.batch)
            self.assertEqual(len(traceback.extract_tb(error.__traceback__)), 2)
            self.assertIsInstance(error.__cause__, FileNotFoundError)
        self.check(fitted)

    def test_another_thread_may_learn_a_size_meanwhile(self):
        self.limit(forward=4)
        self.fitter.fit_batch(self.step, self.batch)
        elements_of, others = _split.elements_of, iter(range(1000))

        def and_the_other_thread(shape):
            """What it does between two lines of this one."""
            thread = threading.Thread(target=self.fitter._remember, args=("step", ("other", next(others)), mock.Mock()))
            thread.start()
            thread.join()
            return elements_of(shape)

        larger = {"x": self.batch["x"], "y": self.batch["y"], "z": self.batch["x"]}
        with mock.patch.object(_split, "elements_of", and_the_other_thread):
            fitted = self.fitter.fit_batch(self.step, larger)
        self.assertEqual(fitted.retries, 0)
        self.assertGreater(next(others), 0)

    def test_errors_of_another_type_that_say_out_of_memory_count_as_such(self):
        for text in ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublas`",
                     "The following operation failed in the TorchScript interpreter.\n"
                     "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB."):
            def step(part, text=text):
                if len(part["x"].values) > 6:
                    raise RuntimeError(text)
                return self.step(part)

            self.fitter.forget()
            self.assertEqual(self.fitter.fit_batch(step, self.batch).micro_batch, 6)

    def test_any_other_error_is_the_callers(self):
        def step(part):
            raise RuntimeError("shapes do not match")

        with self.assertRaisesRegex(RuntimeError, "shapes do not match"):
            self.fitter.fit_batch(step, self.batch)

    def test_a_size_that_leaves_no_margin_is_lowered_next_time(self):
        torch.cuda.state["initialized"] = True

        def step(part):  # 100 bytes, and 75 for each sample, of 1000
            torch.cuda.state["peak"] = 100 + 75 * len(part["x"].values)
            return self.step(part)

        torch.cuda.state["live"] = 100
        self.assertEqual(self.fitter.fit_batch(step, self.batch).micro_batch, 12)
        fitted = [self.fitter.fit_batch(step, self.batch).micro_batch for _ in range(5)]
        self.assertEqual(fitted, [6] * 5)  # 11 would fit: two equal parts are 6
        self.assertEqual(vramwise.torch.Fitter(margin=0.0).fit_batch(step, self.batch).micro_batch,
                         12)

    def test_the_first_steps_are_measured_and_later_ones_left_alone(self):
        torch.cuda.state.update(initialized=True, live=100)
        resets = torch.cuda.state.get("resets", 0)

        def step(part):
            torch.cuda.state["peak"] = torch.cuda.state["live"] + 50 * len(part["x"].values)
            return self.step(part)

        self.assertEqual(self.fitter.fit_batch(step, self.batch).micro_batch, 12)
        torch.cuda.state["live"] = 400  # the optimizer has made its state
        self.assertEqual(self.fitter.fit_batch(step, self.batch).micro_batch, 12)
        fitted = [self.fitter.fit_batch(step, self.batch).micro_batch for _ in range(6)]
        self.assertEqual(fitted, [6] * 6)
        self.assertEqual(torch.cuda.state["resets"] - resets, 2 + 3)

    def test_a_larger_sample_begins_where_a_smaller_one_ended(self):
        seen = []

        def step(part):
            seen.append(part[0].shape[0])
            if part[0].shape[0] > 4:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return torch.squared_error(self.weight, self.bias, torch.Tensor([1.0]),
                                       torch.Tensor([1.0]))

        class Wide(torch.Tensor):
            """Samples of some length."""
            def __init__(self, count, length):
                super().__init__([0.0] * count)
                self.length = length

            @property
            def shape(self):
                return (len(self.values), self.length)

            def __getitem__(self, index):
                return Wide(len(self.values[index]), self.length)

        self.fitter.fit_batch(step, [Wide(8, 10)])
        seen.clear()
        self.fitter.fit_batch(step, [Wide(8, 20)])
        self.assertEqual(seen, [4, 4])
        seen.clear()
        self.fitter.fit_batch(step, [Wide(8, 5)])
        self.assertEqual(seen[0], 8)

    def test_weights_other_than_samples_and_a_backward_of_ones_own(self):
        self.limit(forward=6)
        scaled = []

        def backward(loss):
            scaled.append(loss.values)
            loss.backward()

        fitted = self.fitter.fit_batch(self.step, self.batch, backward=backward,
                                       weight=lambda part: 10 * len(part["x"].values),
                                       parameters=[self.weight, self.bias])
        self.check(fitted)
        self.assertAlmostEqual(sum(scaled), fitted.loss.values)

    def test_a_batch_of_ones_own_kind_needs_size_and_split(self):
        self.limit(forward=6)

        def split(batch, start, stop):
            return {name: values[start:stop] for name, values in batch.parts.items()}

        class Odd:
            parts = self.batch

        fitted = self.fitter.fit_batch(
            lambda part: self.step(part.parts if isinstance(part, Odd) else part), Odd(), size=12,
            split=split)
        self.check(fitted)
        with self.assertRaisesRegex(TypeError, "size= and split="):
            self.fitter.fit_batch(self.step, Odd())
        with self.assertRaisesRegex(ValueError, "come together"):
            self.fitter.fit_batch(self.step, Odd(), size=12)

    def test_a_step_that_returns_no_loss_is_told(self):
        with self.assertRaisesRegex(TypeError, "a step returns its loss"):
            self.fitter.fit_batch(lambda part: None, self.batch)

    def test_reentrant_checkpointing_needs_the_parameters(self):
        class CheckpointFunctionBackward(tiny.ErrorBackward):
            """Hides what is behind it."""
            def __init__(self, of):
                self.next_functions = ()
                self.of = of

            def run(self, gradient):
                self.of.run(gradient)

        def step(part):
            loss = self.step(part)
            loss.grad_fn = CheckpointFunctionBackward(loss.grad_fn)
            return loss

        with self.assertRaisesRegex(ValueError, "give parameters="):
            self.fitter.fit_batch(step, self.batch)
        self.limit(backward=6)
        self.check(self.fitter.fit_batch(step, self.batch, parameters=[self.weight, self.bias]))

    def test_the_function_of_the_module_remembers_too(self):
        self.limit(forward=6)
        retries = [vramwise.torch.fit_batch(self.step, self.batch).retries for _ in range(2)]
        self.assertEqual(retries, [1, 0])

    def test_what_it_did_is_logged(self):
        self.limit(forward=6)
        logging.getLogger("vramwise.torch").setLevel(logging.INFO)
        with self.assertLogs("vramwise.torch", "INFO") as logged:
            self.fitter.fit_batch(self.step, self.batch)
        self.assertEqual([record.getMessage() for record in logged.records], [
            "out of memory with 12 of 12 samples at a time (tried to allocate 2.00 GiB): trying 6",
            "6 samples at a time fit, and leave 5 % free"])


class Splitting(unittest.TestCase):
    """Batches in parts."""

    def test_tensors_in_any_container_are_cut_and_the_rest_is_passed(self):
        pair = collections.namedtuple("pair", "left right")
        batch = {"a": torch.Tensor([1, 2, 3]), "b": pair([torch.Tensor([4, 5, 6])], None),
                 "names": ["x", "y", "z"], "mode": "train", "scale": 0.5, "zero": torch.Tensor(1.0)}
        self.assertEqual(_split.count_samples(batch), 3)
        part = _split.part_of(batch, 1, 3, 3)
        self.assertEqual(part["a"].values, [2, 3])
        self.assertEqual(part["b"].left[0].values, [5, 6])
        self.assertEqual((part["names"], part["mode"], part["scale"], part["zero"].values),
                         (["y", "z"], "train", 0.5, 1.0))

    def test_what_cannot_be_cut_is_refused(self):
        for batch, words in (([torch.Tensor([1]), torch.Tensor([1, 2])], r"these have \[1, 2\]"),
                             ({"mode": "train"}, "not dict")):
            with self.assertRaisesRegex((TypeError, ValueError), words):
                _split.count_samples(batch)
        for batch, words in (([torch.Tensor([1, 2]), object()], "object in it"),
                             ([torch.Tensor([1, 2]), ["a"]], "a list of 1 numbers or strings")):
            with self.assertRaisesRegex((TypeError, ValueError), words):
                _split.part_of(batch, 0, 1, 2)

    def test_parts_are_few_and_equal(self):
        self.assertEqual(_split.ranges(10, 4), [(0, 3), (3, 6), (6, 10)])
        self.assertEqual(_split.ranges(8, 4), [(0, 4), (4, 8)])
        for size in range(1, 40):
            for most in range(1, size + 1):
                parts = _split.ranges(size, most)
                lengths = [stop - start for start, stop in parts]
                self.assertEqual(sum(lengths), size)
                self.assertLessEqual(max(lengths), most)
                self.assertLessEqual(max(lengths) - min(lengths), 1)


if __name__ == "__main__":
    unittest.main()
