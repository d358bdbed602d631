"""_budget.py - how much history a program can afford, by the time its steps take.

PyTorch's history costs time on the host: with stacks, microseconds for each allocation. A step that
waits for the GPU hides that; a step that waits for the host pays all of it. Nobody can tell which it
is but the clock, so the clock decides. Levels, dearest first:

  2  events, and the line of the program for each allocation
  1  events
  0  nothing

Everything is at level 2 for the first WARMING_STEPS: weights and the optimizer's state have their
lines, and a run that dies of its settings, which is mostly early, has its whole history. Then come
rounds. In a round each level has two steps, of which the second is timed: by then the host is as far
ahead of the GPU, or behind it, as it is at that level. The order changes from round to round, so
that no level always follows the same one. A round gives one ratio of times, which cancels what
changes slowly, and is corrected for the bytes that the steps allocated, since a longer batch takes
longer; of the ratios the median counts, so that a checkpoint does not; and rounds go on until an
interval around the median (by ranks, so of any distribution) lies on one side of what is allowed.
That is quick where history is dear, and slow where it costs next to nothing. Where steps vary too
much for any answer, the number of allocations is multiplied by what one usually costs.

What follows from it is level 2 for good, or a cheaper level with a burst at level 2 now and then, so
far apart that all of it stays below BUDGET. Bursts begin at multiples of a power of two, counted from
the first step: the ranks of one job, which wait for each other, then have them together. Everything
is measured anew after many steps, or when steps take another time than they did.

With level 0 the events are lost. So where memory is tight, level 1 may cost TIGHT_BUDGET.

Plain arithmetic: this file knows neither torch nor the clock, and is loaded by _watch.py.
"""
from collections import deque
from math import comb, exp, log
from typing import Deque, Dict, Generator, List, Optional, Tuple

BUDGET = 0.015  # of the step time; people are promised 2 %
TIGHT_BUDGET = 0.05  # what events may cost where memory is tight
EVENT_BUDGET = 0.01  # what events may cost, so that something is left for stacks
WARMING_STEPS = 32
FEWEST_ROUNDS = 8
MOST_ROUNDS = 60
WIDEST_INTERVAL = 0.06  # with a wider one, a median is no answer
MOST_BETWEEN = 256  # steps from burst to burst
STEPS_TO_REMEASURE = 8192
CALM_STEPS = 512  # at least, between two measurements; twice as many each time
PHASE_FACTOR = 1.25  # slower, or faster, than anything that was measured

# Seconds for an allocation and its free, as measured on a server of 2024.
STACK_SECONDS = 2.5e-6
MOST_STACK_SECONDS = 8e-6  # of a deep program on a slow host
EVENT_SECONDS = 0.5e-6

_ORDERS = ((2, 1, 0), (0, 1, 2), (1, 0, 2), (2, 0, 1), (0, 2, 1), (1, 2, 0))

_Sample = Tuple[float, float]  # seconds, and bytes allocated: 0 where that is not known
_Course = Generator[int, _Sample, None]


def _median(values: List[float]) -> float:
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else 0.5 * (values[middle - 1] + values[middle])


def _interval(values: List[float]) -> Tuple[float, float]:
    """Holds the median with a confidence of 99 %, whatever the distribution: by ranks."""
    count, rank, chance = len(values), 0, 1.0
    while rank < count // 2 and chance <= 0.005 * 2.0 ** count:
        rank += 1
        chance += comb(count, rank)
    values = sorted(values)
    rank = max(rank - 1, 0)
    return values[rank], values[count - 1 - rank]


def _slope(samples: List[_Sample]) -> float:
    """How the logarithm of a step's time goes with that of the bytes it allocates: the median of
    what any two steps say. Long batches take longer, and this is how it is known which are long."""
    slopes = []
    for index, (seconds, size) in enumerate(samples):
        for other_seconds, other_size in samples[:index]:
            if size > 0.0 and other_size > 0.0 and not 0.98 < size / other_size < 1.02:
                slopes.append(log(seconds / other_seconds) / log(size / other_size))
    return _median(slopes) if len(slopes) >= 3 * len(samples) else 0.0


class _Rounds:
    """The times of some rounds, at two levels each."""

    def __init__(self) -> None:
        self._pairs: List[Tuple[_Sample, _Sample]] = []
        self._slope = 0.0
        self.ratios: List[float] = []  # logarithms, the second by the first, for batches alike

    def add(self, cheap: _Sample, dear: _Sample) -> None:
        self._pairs.append((cheap, dear))
        if len(self._pairs) % 8 == 0:
            self._slope = _slope([pair[0] for pair in self._pairs])
            self.ratios = [self._ratio(*pair) for pair in self._pairs]
        else:
            self.ratios.append(self._ratio(cheap, dear))

    def _ratio(self, cheap: _Sample, dear: _Sample) -> float:
        ratio = log(dear[0] / cheap[0])
        if self._slope and cheap[1] > 0.0 and dear[1] > 0.0:
            ratio -= self._slope * log(dear[1] / cheap[1])
        return ratio

    def is_more_than(self, allowed: float) -> Optional[bool]:
        """None: that cannot be said yet."""
        if len(self.ratios) < FEWEST_ROUNDS:
            return None
        lowest, highest = _interval(self.ratios)
        middle = _median(self.ratios)
        if middle <= allowed and highest <= allowed + 0.005:
            return False
        if middle > allowed and lowest >= allowed - 0.005:
            return True
        return None

    def cost(self) -> float:
        return max(exp(_median(self.ratios)) - 1.0, 0.0)

    def width(self) -> float:
        lowest, highest = _interval(self.ratios)
        return highest - lowest

    def nearest(self, cost: float) -> float:
        """What the times do not contradict, and comes nearest to a cost that is usual."""
        lowest, highest = _interval(self.ratios)
        return max(min(max(cost, exp(lowest) - 1.0), exp(highest) - 1.0), 0.0)


class Budget:
    """Asked after each step; answers with the level of the next."""

    def __init__(self) -> None:
        self.level = 2  # of the step that is under way
        self.base_level = 2
        self.steps_between = 0  # from burst to burst; 0: no bursts
        self.burst_steps = 0
        self.is_measuring = False
        self.is_estimated = False  # by the number of allocations: the clock gave no answer
        self.event_cost = 0.0  # of level 1, as a part of the step
        self.stack_cost = 0.0  # of level 2
        self.step_seconds = 0.0  # at the cheapest level measured
        self._step = 0
        self.is_tight = False
        self._allocations = 0.0
        self._switch_seconds: Deque[float] = deque(maxlen=15)
        self._usual: Tuple[float, float] = (0.0, 0.0)  # the shortest and longest usual step
        self._course = self._run()
        next(self._course)

    def next_level(self, seconds: float, is_tight: bool = False,
                   allocations: Optional[float] = None, allocated_bytes: float = 0.0) -> int:
        """A step has ended. `seconds`: what it took, without the time spent here. `allocations`: how
        many, and `allocated_bytes`: of how much in all, if that is known."""
        self._step += 1
        self.is_tight = is_tight
        if allocations is not None:
            self._allocations = allocations
        self.level = self._course.send((max(seconds, 1e-9), allocated_bytes))
        return self.level

    def spent(self, seconds: float) -> None:
        """Going from one level to another took that long."""
        self._switch_seconds.append(seconds)

    def words(self) -> Optional[str]:
        """What was not kept, and why; None where all of it was. For a report."""
        remedy = "--history 100000 keeps them for all"
        if self.is_measuring:
            missing = {0: "history", 1: "stacks"}.get(self.level)
            return missing and (f"memory ran out while the cost of watching was being measured, in a "
                                f"step without {missing}; {remedy.replace('them', missing)}")
        if self.base_level == 2:
            return None
        verb = "would cost about" if self.is_estimated else "cost"
        dear, cheap = f"{100 * self.stack_cost:.0f} %", f"{100 * self.event_cost:.0f} %"
        kept = "none"
        if self.steps_between:
            count = "one step" if self.burst_steps == 1 else f"{self.burst_steps} steps"
            kept = f"{count} in {self.steps_between}"
        if self.base_level == 1:
            return f"stacks {verb} {dear} of a step here, and were kept for {kept}; {remedy}"
        return (f"history {verb} {cheap} of a step here, with stacks {dear}, and was kept for {kept}; "
                f"{remedy.replace('them', 'it')}")

    # ---- the course of things --------------------------------------------------------------------

    def _run(self) -> _Course:
        for _ in range(WARMING_STEPS):
            seconds, _ = yield 2
        calm_steps = CALM_STEPS
        while True:
            if self._cannot_be_dear(seconds):
                self.event_cost, self.stack_cost = 0.0, 0.0
                self.step_seconds, self._usual = seconds, (seconds, seconds)
            else:
                yield from self._measure()
            self._plan()
            yield from self._keep(calm_steps)
            calm_steps = min(2 * calm_steps, STEPS_TO_REMEASURE)
            seconds = self.step_seconds

    def _cannot_be_dear(self, seconds: float) -> bool:
        """Too few allocations to matter."""
        return 0.0 < self._allocations * MOST_STACK_SECONDS <= BUDGET * seconds

    def _measure(self) -> _Course:
        self.is_measuring, self.is_estimated = True, False
        stacks, events = _Rounds(), _Rounds()
        cheapest: List[float] = []  # seconds
        are_stacks_dear: Optional[bool] = None
        for number in range(MOST_ROUNDS):
            floor = 1 if self.is_tight else 0  # no event is given up there
            top = 1 if are_stacks_dear else 2
            if top == floor:
                break
            taken: Dict[int, _Sample] = {}
            for level in _ORDERS[number % len(_ORDERS)]:
                if floor <= level <= top:
                    yield level
                    taken[level] = yield level
            cheapest.append(taken[floor][0])
            if top == 2:
                stacks.add(taken[floor], taken[2])
                are_stacks_dear = stacks.is_more_than(BUDGET)
            if floor == 0:
                events.add(taken[0], taken[1])
            if are_stacks_dear is False or (
                    are_stacks_dear and events.is_more_than(EVENT_BUDGET) is not None):
                break
        self._conclude(stacks, events, sorted(cheapest))
        self.is_measuring = False

    def _conclude(self, stacks: _Rounds, events: _Rounds, cheapest: List[float]) -> None:
        tenth = len(cheapest) // 10
        self.step_seconds = _median(cheapest)
        self._usual = (cheapest[tenth], cheapest[-1 - tenth])
        rate = self._allocations / self.step_seconds  # 0 where it is not known
        self.stack_cost = stacks.cost()
        if stacks.is_more_than(BUDGET) is None and stacks.width() > WIDEST_INTERVAL and rate > 0.0:
            self.is_estimated = True
            self.stack_cost = stacks.nearest(rate * STACK_SECONDS)
        if len(events.ratios) < FEWEST_ROUNDS:  # memory is tight: stacks were compared with events
            self.event_cost = rate * EVENT_SECONDS
            self.stack_cost += self.event_cost
        elif events.is_more_than(EVENT_BUDGET) is None and rate > 0.0:
            self.event_cost = events.nearest(rate * EVENT_SECONDS)
        else:
            self.event_cost = events.cost()
        self.event_cost = min(self.event_cost, self.stack_cost)

    def _plan(self) -> None:
        """From costs to levels."""
        switches = 0.0
        if self._switch_seconds:
            mean = sum(self._switch_seconds) / len(self._switch_seconds)
            switches = 2.0 * mean / self.step_seconds
        self.base_level, self.burst_steps, self.steps_between = 2, 0, 0
        if self.stack_cost <= BUDGET:
            return
        extra = self.stack_cost - self.event_cost + switches
        self.base_level, self.burst_steps = 1, 1
        self.steps_between = self._apart(extra, BUDGET - self.event_cost)
        if self.steps_between == 0 and self.is_tight and self.event_cost <= TIGHT_BUDGET:
            self.steps_between = self._apart(extra, BUDGET)
        elif self.steps_between == 0:
            self.base_level, self.burst_steps = 0, 2
            self.steps_between = self._apart(2.0 * self.stack_cost + switches, BUDGET)

    def _apart(self, burst_cost: float, allowed: float) -> int:
        """How many steps from burst to burst. 0: that would be too many."""
        steps = 2 * max(self.burst_steps, 1)
        while burst_cost > allowed * steps:
            steps *= 2
            if steps > MOST_BETWEEN:
                return 0
        return steps

    def _keep(self, calm_steps: int) -> _Course:
        """As planned, until it is time to measure again."""
        begun = self._step
        was_tight = self.is_tight
        recent: Deque[float] = deque(maxlen=31)
        bursts: Deque[float] = deque(maxlen=15)
        burst_seconds = 0.0
        while True:
            place = self._step % self.steps_between if self.steps_between else self.burst_steps
            if place < self.burst_steps:
                seconds, _ = yield 2
                burst_seconds = seconds + (burst_seconds if place else 0.0)
                if place == self.burst_steps - 1 and len(recent) == recent.maxlen:
                    bursts.append(burst_seconds / (self.burst_steps * _median(list(recent))) - 1.0)
                    self._learn(bursts)
                continue
            recent.append((yield self.base_level)[0])
            if self.is_tight != was_tight:
                was_tight = self.is_tight
                self._plan()
                bursts.clear()
            since = self._step - begun
            if self._step % 64 != 0 or since < calm_steps:  # the ranks of a job: at the same step
                continue
            if self._step % STEPS_TO_REMEASURE == 0 or self._is_new_phase(list(recent)):
                self.step_seconds = _median(list(recent))
                return

    def _learn(self, bursts: Deque[float]) -> None:
        """A burst has effects at its edges that two steps of a round do not show. What it really
        costs may put bursts further apart; never closer, for this is noisier than the rounds."""
        if len(bursts) == bursts.maxlen and not self.is_estimated:
            base_cost = self.event_cost if self.base_level == 1 else 0.0
            seen = base_cost + _median(list(bursts))
            bursts.clear()
            if seen > 1.25 * self.stack_cost:
                self.stack_cost = seen
                self._plan()

    def _is_new_phase(self, recent: List[float]) -> bool:
        if not recent:
            return False
        now = _median(recent)
        return now * PHASE_FACTOR < self._usual[0] or now > self._usual[1] * PHASE_FACTOR
