"""How much history a program can afford: made-up programs whose steps take the time that they take.

A world knows what a step costs the host and the GPU, and how that varies; the budget sees only the
seconds. What counts is what the world has lost to it once it has measured, and what it got for that.
"""
import importlib.util
import math
import random
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("_budget", ROOT / "python/vramwise/_budget.py")
budget = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(budget)

SEEDS = range(12)
HOST_SECONDS = 0.032
ALLOCATIONS = 3300


class World:
    """A training run. `events` and `stacks`: what history adds to the host's time."""

    def __init__(self, seed, gpu_seconds=0.02, events=0.05, stacks=0.26, noise=0.01, lengths=None,
                 knows_bytes=True, checkpoint_steps=0, switch_seconds=0.0002, edge=0.0,
                 allocations=ALLOCATIONS):
        self.random = random.Random(seed)
        self.gpu_seconds, self.noise, self.lengths = gpu_seconds, noise, lengths
        self.costs = (0.0, events, stacks)
        self.knows_bytes, self.checkpoint_steps = knows_bytes, checkpoint_steps
        self.switch_seconds, self.edge = switch_seconds, edge
        self.allocations = allocations
        self.budget = budget.Budget()
        self.is_tight = False
        self.step = self.measured_at = 0
        self.forget()

    def forget(self):
        """What follows is counted from here."""
        self.seconds = self.free_seconds = 0.0
        self.levels = []

    def run(self, steps):
        for _ in range(steps):
            level = self.budget.level
            length = self.random.choice(self.lengths) if self.lengths else 1.0
            noise = math.exp(self.random.gauss(0.0, self.noise))
            free = max(HOST_SECONDS, length * self.gpu_seconds) * noise
            took = max(HOST_SECONDS * (1.0 + self.costs[level]), length * self.gpu_seconds) * noise
            if self.checkpoint_steps and self.step % self.checkpoint_steps == 0:
                free, took = free + 1.0, took + 1.0
            if self.levels and level > self.levels[-1]:
                took += self.edge * HOST_SECONDS
            size = (1 + 3 * length) * 2**30 if self.knows_bytes else 0
            next_level = self.budget.next_level(took, self.is_tight, self.allocations, size)
            if next_level != level:
                self.budget.spent(self.switch_seconds)
                took += self.switch_seconds
            self.seconds, self.free_seconds = self.seconds + took, self.free_seconds + free
            self.levels.append(level)
            self.step += 1
        return self

    def calibrate(self, most_steps=400):
        """Until it has measured. After that, the cost is counted."""
        self.run(budget.WARMING_STEPS + 2)
        while self.budget.is_measuring and self.step < most_steps:
            self.run(1)
        self.measured_at = self.step
        self.forget()
        return self

    def cost(self):
        return self.seconds / self.free_seconds - 1.0

    def share(self, level):
        return self.levels.count(level) / len(self.levels)


def after_calibration(steps=1500, **world):
    return [World(seed, **world).calibrate().run(steps) for seed in SEEDS]


class BudgetTest(unittest.TestCase):
    # What is measured with a confidence of 99 % is wrong now and then: of SEEDS, one may be.

    def assert_cheap(self, worlds):
        costs = sorted(world.cost() for world in worlds)
        self.assertLessEqual(sum(costs) / len(costs), 0.015, costs)
        self.assertLessEqual(costs[-2], 0.022, costs)

    def assert_kept(self, worlds):
        self.assert_cheap(worlds)
        shares = sorted(world.share(2) for world in worlds)
        self.assertEqual(shares[1:], [1.0] * (len(worlds) - 1), shares)

    def test_the_first_steps_have_all_of_the_history_whatever_it_costs(self):
        for is_tight in (False, True):
            world = World(0, stacks=9.0, events=4.0)
            world.is_tight = is_tight
            world.run(budget.WARMING_STEPS)
            self.assertEqual((world.step, world.share(2)), (32, 1.0))
            self.assertIsNone(world.budget.words())  # nothing was left out
            world.run(12)
            self.assertLess(world.share(2), 1.0)

    def test_steps_that_wait_for_the_host_keep_two_in_64(self):
        worlds = after_calibration()
        self.assert_cheap(worlds)
        for world in worlds:
            self.assertLess(world.measured_at, budget.WARMING_STEPS + 96)
            self.assertAlmostEqual(world.share(2), 2 / 64, delta=0.01)
            self.assertEqual(world.budget.words(),
                             f"history cost {100 * world.budget.event_cost:.0f} % of a step here, with "
                             f"stacks {100 * world.budget.stack_cost:.0f} %, and was kept for 2 steps "
                             "in 64; --history 100000 keeps it for all")
            self.assertAlmostEqual(world.budget.stack_cost, 0.26, delta=0.03)

    def test_steps_that_wait_for_the_gpu_keep_everything(self):
        worlds = after_calibration(gpu_seconds=0.1)
        self.assert_kept(worlds)
        self.assertEqual({world.budget.words() for world in worlds}, {None})

    def test_events_that_cost_next_to_nothing_are_kept_for_all_steps(self):
        worlds = after_calibration(stacks=0.10, events=0.002, noise=0.003)
        self.assert_cheap(worlds)
        self.assertEqual({world.share(0) for world in worlds}, {0.0})
        self.assertGreater(min(world.share(2) for world in worlds), 0.04)

    def test_noise_on_the_host(self):
        for noise in (0.03, 0.1):
            self.assert_cheap(after_calibration(noise=noise))

    def test_noise_on_the_gpu(self):
        self.assert_kept(after_calibration(gpu_seconds=0.1, noise=0.03))
        self.assert_cheap(after_calibration(gpu_seconds=0.1, noise=0.1))

    def test_batches_of_two_lengths(self):
        self.assert_kept(after_calibration(gpu_seconds=0.1, lengths=(1, 2)))
        self.assert_cheap(after_calibration(gpu_seconds=0.1, lengths=(1, 2), knows_bytes=False))
        self.assert_cheap(after_calibration(gpu_seconds=0.02, lengths=(1, 3)))

    def test_batches_of_many_lengths(self):
        lengths = [0.5 + 0.01 * number for number in range(100)]
        self.assert_kept(after_calibration(gpu_seconds=0.1, lengths=lengths))
        self.assert_cheap(after_calibration(gpu_seconds=0.1, lengths=lengths, knows_bytes=False))
        self.assert_cheap(after_calibration(gpu_seconds=0.03, lengths=lengths))

    def test_checkpoints_do_not_count(self):
        self.assert_kept(after_calibration(gpu_seconds=0.1, checkpoint_steps=10))
        worlds = after_calibration(checkpoint_steps=10)
        self.assert_cheap(worlds)
        self.assertEqual({world.budget.base_level for world in worlds}, {0})

    def test_what_lies_at_the_border_costs_no_more_than_was_promised(self):
        self.assert_cheap(after_calibration(stacks=0.02, events=0.005))
        self.assert_cheap(after_calibration(stacks=0.06, events=0.03, noise=0.02))

    def test_switching_and_edges_are_part_of_the_cost(self):
        self.assert_cheap(after_calibration(switch_seconds=0.01, steps=6000))
        self.assert_cheap(after_calibration(edge=0.5, steps=6000))

    def test_what_cannot_be_had_for_the_price_is_not_had(self):
        world = World(0, stacks=9.0, events=4.0).calibrate().run(600)
        self.assertEqual((world.share(0), world.budget.steps_between), (1.0, 0))
        self.assertIn("was kept for none", world.budget.words())

    def test_a_new_phase_is_measured(self):
        for before, after in ((0.1, 0.02), (0.02, 0.1)):
            for seed in SEEDS:
                world = World(seed, gpu_seconds=before).calibrate().run(700)
                world.gpu_seconds = after
                world.run(400).forget()
                world.run(1000)
                self.assertLess(world.cost(), 0.02)
                self.assertEqual(world.share(2) == 1.0, after == 0.1, (before, after, seed))

    def test_a_long_run_costs_little_in_all(self):
        world = World(1).run(30_000)
        self.assertLess(world.cost(), 0.015)
        world = World(1, gpu_seconds=0.1).run(30_000)
        self.assertGreater(world.share(2), 0.97)

    def test_where_memory_is_tight_no_event_is_given_up(self):
        for seed in SEEDS:
            world = World(seed, events=0.04, allocations=2800)  # by which 4.2 %: it is not measured
            world.is_tight = True
            world.run(500)
            self.assertEqual(world.share(0), 0.0)
            world = World(seed, events=0.035, noise=0.005).calibrate().run(300)
            self.assertGreater(world.share(0), 0.9)
            world.is_tight = True
            world.run(1)
            world.forget()
            world.run(300)
            self.assertEqual(world.share(0), 0.0)
            self.assertLess(world.cost(), 0.065)

    def test_ranks_that_measure_the_same_have_their_bursts_at_the_same_steps(self):
        worlds = [World(seed).run(400) for seed in SEEDS]
        self.assertEqual(len({tuple(world.levels[-256:]) for world in worlds}), 1)

    def test_few_allocations_are_not_measured(self):
        asked = budget.Budget()
        self.assertEqual({asked.next_level(0.5, False, 100, 2**30) for _ in range(200)}, {2})

    def test_without_numbers_the_clock_alone_decides(self):
        asked, levels = budget.Budget(), []
        for _ in range(300):
            levels.append(asked.next_level(1.0 + (0.0, 0.05, 0.26)[asked.level]))
        self.assertEqual((levels[-64:].count(0), levels[-64:].count(2)), (62, 2))

    def test_a_clock_that_stands_still_is_survived(self):
        asked = budget.Budget()
        for _ in range(2000):
            self.assertIn(asked.next_level(0.0, False, None, 0), (0, 1, 2))


if __name__ == "__main__":
    unittest.main(verbosity=2)
