"""_results.py - what the commands find, as objects.

Each class lists the fields of the JSON that a command prints; the command's manual page says what they
mean. _fields.py says how they behave.
"""
from __future__ import annotations

from typing import Dict, Optional, Tuple

from . import _pictures
from ._fields import Fields, Result

Texts = Tuple[str, ...]


class Category(Fields):
    """Live bytes of one kind."""
    category: str
    bytes: int
    blocks: int
    largest_bytes: int


class Usage(Category):
    """Live bytes that one line of the program asked for. `where` is the innermost frame outside
    torch, `frames` are all of them."""
    has_stack: bool
    where: Optional[str]
    frames: Texts


class Moment(Fields):
    """What was live at one event."""
    event: Optional[int]
    time_us: Optional[int]
    live_bytes: int
    reserved_bytes: Optional[int]
    blocks: int
    categories: Tuple[Category, ...]
    usages: Tuple[Usage, ...]


class Failure(Fields):
    """Where memory ran out: `tried_bytes` were asked for."""
    event: int
    tried_bytes: int


class RecordedFailure(Failure):
    """In a recording."""
    free_bytes: Optional[int]


class ReplayedFailure(Failure):
    """In a replay."""
    reserved_bytes: int
    allocated_bytes: int


class Spilled(Fields):
    """Live data that went to host memory and came back."""
    spills: int
    all_spilled_bytes: int
    peak_spilled_bytes: int
    end_spilled_bytes: int
    returns: int
    returned_bytes: int
    wait_us: float


class DeviceStats(Fields):
    """One device of a recording; -1 is pinned host memory."""
    device: int
    events: int
    actions: Dict[str, int]
    first_time_us: Optional[int]
    last_time_us: Optional[int]
    streams: int
    private_pools: int
    steps: int
    truncated: bool
    initial_live_bytes: Optional[int]
    initial_blocks: Optional[int]
    stackless_allocs: int
    segments: Optional[int]
    expandable_segments: Optional[int]
    blocks: Optional[int]
    reserved_bytes: Optional[int]
    allocated_bytes: Optional[int]
    active_bytes: Optional[int]
    requested_bytes: Optional[int]
    largest_free_block_bytes: Optional[int]
    peak_reserved_bytes: Optional[int]
    peak_reserved_event: Optional[int]
    oom: Optional[RecordedFailure]
    spill: Optional[Spilled]
    peak: Optional[Moment]
    end: Optional[Moment]
    summary: Optional[str]
    summary_reason: Optional[str]


class Stats(Result):
    """What is in a recording: vramwise-stats(1)."""
    schema: int
    file: Optional[str]
    encoding: str
    compression: str
    file_bytes: int
    uncompressed_bytes: int
    model_bytes: int
    oldest_version: Optional[str]
    newest_version: Optional[str]
    conf: Optional[str]
    settings: Optional[Dict[str, str]]
    stacks: int
    frames: int
    annotations: int
    unknown_fields: int
    first_unknown_field: Optional[str]
    devices: Tuple[DeviceStats, ...]
    warnings: Texts

    def _picture(self) -> str:
        return _pictures.of_stats(self)


class Matched(Fields):
    """How many there are, and how many came out again."""
    recorded: int
    matched: int


class Difference(Fields):
    """Where a replay first differs from its recording."""
    device: int
    event: Optional[int]
    expected: Optional[str]
    got: Optional[str]
    explanation: Optional[str]


class Verified(Result):
    """Whether replay reproduces a recording: vramwise-verify(1)."""
    schema: int
    file: Optional[str]
    exact: bool
    torch: Optional[str]
    events: int
    segment_events: Matched
    placements: Matched
    end_segments: Matched
    statistics: Optional[Matched]
    first_difference: Optional[Difference]
    unverifiable: Texts
    limit_at_least_bytes: Optional[int]
    limit_below_bytes: Optional[int]

    def _picture(self) -> str:
        return _pictures.of_verified(self)


class ReplayRun(Fields):
    """The requests of a recording under one setting."""
    policy: str
    conf: str
    card_bytes: Optional[int]
    completed: bool
    events_done: int
    peak_reserved_bytes: int
    peak_live_bytes: int
    peak_allocated_bytes: int
    ratio: Optional[float]
    retries: int
    trims: int
    oom: Optional[ReplayedFailure]
    past_recorded_oom: bool
    device_calls: Dict[str, int]
    device_us: float
    longest_stall_us: float
    smallest_card_bytes: Optional[int]
    settled_device_us: Optional[float]
    settled_share: Optional[float]
    moved_bytes: int
    copied_bytes: int
    spilled_bytes: int
    spills: int
    all_spilled_bytes: int
    returns: int
    returned_bytes: int
    host_bytes: int
    spill_wait_us: float
    step_cost_us: Optional[float]
    step_cost_settled: bool
    first_card_bytes: Optional[int]
    step_us: Optional[float]
    stream_state_bytes: int
    stream_saved_bytes: int
    stream_stayed_bytes: int
    stream_wait_us: float


class Replayed(Result):
    """The same requests under other settings: vramwise-replay(1)."""
    schema: int
    file: Optional[str]
    device: int
    events: int
    peak_live_bytes: int
    peak_live_event: Optional[int]
    recorded_oom_event: Optional[int]
    steps: int
    spill_bytes: Optional[int]
    results: Tuple[ReplayRun, ...]
    notes: Texts
    stream: bool

    def _picture(self) -> str:
        return _pictures.of_replayed(self)


class Tuned(Result):
    """The setting that makes it fit: vramwise-tune(1)."""
    schema: int
    file: Optional[str]
    device: int
    events: int
    card_bytes: int
    peak_live_bytes: int
    possible: bool
    fits: bool
    best: Optional[ReplayRun]
    recorded: Optional[ReplayRun]
    tried: Tuple[ReplayRun, ...]
    warnings: Texts
    notes: Texts

    def _picture(self) -> str:
        return _pictures.of_tuned(self)


class DiffSide(Fields):
    """One of two recordings."""
    file: Optional[str]
    device: int
    conf: Optional[str]
    events: int
    peak_event: Optional[int]
    peak_live_bytes: int
    peak_blocks: int
    peak_reserved_bytes: Optional[int]


class CategoryChange(Fields):
    """What one kind held, before and after."""
    category: str
    before_bytes: int
    after_bytes: int
    before_blocks: int
    after_blocks: int


class Change(CategoryChange):
    """What one line held, before and after."""
    where: Optional[str]
    frames: Texts
    before_where: Optional[str]
    after_where: Optional[str]
    stacks: int


class Rename(Fields):
    """A file or a function with another name in the second recording."""
    kind: str
    before: str
    after: str


class Diff(Result):
    """What grew between two recordings: vramwise-diff(1)."""
    schema: int
    same: bool
    before: DiffSide
    after: DiffSide
    categories: Tuple[CategoryChange, ...]
    change_count: int
    changes: Tuple[Change, ...]
    grown_bytes: int
    shrunk_bytes: int
    renames: Tuple[Rename, ...]
    notes: Texts

    def _picture(self) -> str:
        return _pictures.of_diff(self)


class Metric(Fields):
    """One figure against its baseline; a growth of 0.02 is 2 %."""
    metric: str
    baseline: Optional[float]
    now: Optional[float]
    growth: Optional[float]
    max_growth: Optional[float]
    worse: bool


class Site(Fields):
    """A function whose memory grew."""
    site: str
    line: Optional[int]
    baseline_peak_bytes: int
    peak_bytes: int
    baseline_leak_bytes_per_step: float
    leak_bytes_per_step: float
    baseline_allocations: int
    allocations: int


class Checked(Result):
    """Whether memory has grown since a baseline: vramwise-check(1)."""
    schema: int
    worse: bool
    file: Optional[str]
    baseline: str
    policy: str
    torch: Optional[str]
    metrics: Tuple[Metric, ...]
    site_count: int
    sites: Tuple[Site, ...]
    notes: Texts

    def _picture(self) -> str:
        return _pictures.of_checked(self)


class PlanSettings(Fields):
    """How a planned run is set up."""
    mode: str
    head: str
    batch: int
    sequence: Optional[int]
    image: Optional[int]
    accumulation: int
    generate: int
    loss: bool
    precision: str
    master_weights: bool
    optimizer: str
    offload: str
    checkpointing: str
    checkpoint_every: Optional[int]
    attention: str
    loss_chunks: int
    fused_loss: bool
    padding: int
    lora_rank: int
    lora_targets: Optional[str]
    quantized: bool
    kv_dtype: str
    static_cache: bool
    gpus: int
    sharding: str
    card: Optional[str]
    card_bytes: Optional[int]


class PlanOption(Fields):
    """Changes that make a run fit. `slowdown` is a multiple of the step's time."""
    changes: Texts
    peak_allocated_bytes: int
    peak_device_bytes: int
    slowdown: float
    fits: Optional[bool]
    costs: Texts
    code: Texts
    sources: Texts
    settings: PlanSettings


class Plan(Result):
    """What a run of a model will take: vramwise-plan(1)."""
    schema: int
    model: str
    family: str
    caution: Optional[str]
    parameters: int
    trained_parameters: int
    settings: PlanSettings
    precision_basis: str
    quantization: Optional[str]
    lora_modules: Optional[str]
    peak_allocated_bytes: int
    peak_device_bytes: int
    pageable_bytes: int
    resident_bytes: int
    peak_phase: str
    peak_place: str
    parts: Dict[str, int]
    activations_by_layer: Dict[str, int]
    phase_peaks: Dict[str, int]
    first_step_peak_bytes: int
    after_forward_bytes: int
    after_backward_bytes: int
    after_step_bytes: int
    reserved_bytes: Dict[str, Optional[int]]
    error_band: Optional[Tuple[float, ...]]
    error_basis: Optional[str]
    fits: Optional[bool]
    verdict: Optional[str]
    fitting_policy: Optional[str]
    margin_bytes: Optional[int]
    largest_batch: Optional[int]
    options: Tuple[PlanOption, ...]
    notes: Texts

    def _picture(self) -> str:
        return _pictures.of_plan(self)


class Growth(Fields):
    """Bytes now, and as planned."""
    now_bytes: int
    bytes: int


class ScaledOption(Fields):
    """A change that may make a recorded step fit."""
    change: str
    least_peak_bytes: int
    most_peak_bytes: int
    fits: bool
    may_fit: bool
    cost: str
    code: str


class Measured(Fields):
    """A real step beside its plan; `error` is planned / measured - 1."""
    peak_bytes: int
    error: Optional[float]


class ScaledPlan(Result):
    """A recorded or traced step at another size: vramwise-plan(1), --from and --traced. `measured` is
    there with vramwise.torch.plan(measure=True)."""
    schema: int
    file: Optional[str]
    traced: bool
    batch_now: Optional[int]
    batch: Optional[int]
    sequence_now: Optional[int]
    sequence: Optional[int]
    step: int
    steps: int
    step_basis: str
    evidence_steps: int
    now_peak_bytes: int
    peak_allocated_bytes: int
    peak_device_bytes: int
    context_bytes: int
    peak_phase: str
    reserved_bytes: Dict[str, Optional[int]]
    parts: Dict[str, int]
    now_parts: Dict[str, int]
    grows_with: Dict[str, Growth]
    perhaps_square_bytes: int
    peak_if_square_bytes: Optional[int]
    irregular_bytes: int
    checked_steps: int
    error_band: Optional[Tuple[float, ...]]
    card_bytes: Optional[int]
    fits: Optional[bool]
    margin_bytes: Optional[int]
    largest_batch: Optional[int]
    options: Tuple[ScaledOption, ...]
    notes: Texts
    measured: Optional[Measured]

    def _picture(self) -> str:
        return _pictures.of_scaled_plan(self)


class Model(Fields):
    """A built-in model of the planner."""
    name: str
    family: str
    parameters: int


__all__ = [name for name, kind in dict(globals()).items()
           if isinstance(kind, type) and issubclass(kind, Fields) and kind not in (Fields, Result)]
