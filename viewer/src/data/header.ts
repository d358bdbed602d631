// The container's header as C writes it (docs/design/008), before it becomes a model. Only what the
// page reads of the reports is named here.

import type { ColumnType } from './columns';

export interface ColumnPlace {
  name: string;
  type: ColumnType;
  count: number;
  offset: number;
  bytes: number;
}

export type MarkKind = 'oom' | 'retry' | 'empty-cache' | 'snapshot' | 'annotation' | 'user';

export interface Mark {
  kind: MarkKind;
  instant: number;
  bytes: number | null;
  text: string | null;
}

export interface WhatIfHeader {
  policy: string;
  conf: string | null;
  is_complete: boolean;
  peak_reserved_bytes: number;
  peak_live_bytes: number;
  ratio: number | null;
  retries: number;
  device_ns: number;
  oom_instant: number | null;
  points: number;
}

export interface DeviceHeader {
  device: number;
  has_trace: boolean;
  event_count: number;
  block_count: number;
  piece_count: number;
  first_time_us: number | null;
  time_every: number | null;
  is_reserved_known: boolean;
  is_truncated: boolean;
  has_addresses: boolean;
  peak_live_bytes: number;
  peak_instant: number;
  peak_reserved_bytes: number | null;
  peak_reserved_instant: number | null;
  limit_bytes: number | null;
  limit_text: string | null;
  streams: string[];
  pools: string[];
  steps_basis: string | null;
  marks: Mark[];
  mark_count: number;
  what_if: WhatIfHeader[];
  what_if_left_out: { policy: string; reason: string }[];
  what_if_reason: string | null;
  growth_samples: number;
  growth_stacks: number;
  growth_reason: string | null;
}

export interface RunHeader {
  file: string | null;
  stats: StatsReport;
  doctor: DoctorReport | null;
  doctor_reason: string | null;
  categories: string[];
  stack_count: number;
  frame_count: number;
  devices: DeviceHeader[];
}

export interface Header {
  format: number;
  vramwise: string;
  columns: ColumnPlace[];
  runs: RunHeader[];
  diff: DiffReport | null;
  diff_reason?: string | null; // why two runs were not compared
  ranks?: RanksReport; // a page of ranks: then there are no runs
}

// ---- reports: `vramwise stats --json`, `doctor --json`, `diff --json` --------------------------
// Their fields are documented in the manual pages vramwise-stats(1), vramwise-doctor(1) and
// vramwise-diff(1). Named here is what the page shows, as it is spelled there.

export interface StatsMoment {
  event: number | null;
  time_us: number | null;
  live_bytes: number;
  reserved_bytes: number | null;
  blocks: number;
}

export interface StatsDevice {
  device: number;
  events: number;
  steps: number | null;
  truncated: boolean;
  initial_live_bytes: number | null;
  stackless_allocs: number;
  segments: number;
  reserved_bytes: number | null;
  allocated_bytes: number | null;
  active_bytes: number | null;
  requested_bytes: number | null;
  largest_free_block_bytes: number | null;
  peak_reserved_bytes: number | null;
  peak_reserved_event: number | null;
  oom: { event: number; tried_bytes: number | null; free_bytes: number | null } | null;
  peak: StatsMoment | null;
  end: StatsMoment | null;
  summary: string | null;
  summary_reason: string | null;
}

export interface StatsReport {
  conf: string | null;
  oldest_version: string | null;
  newest_version: string | null;
  settings: Readonly<Record<string, string>>;
  devices: StatsDevice[];
  warnings: string[];
}

export interface Remedy {
  action: string;
  saves_bytes: number | null;
  saves_at_most_bytes: number | null;
  basis: string; // replayed, measured, computed, rule
  cost: string | null;
  how: string | null;
}

export interface Finding {
  kind: string; // a verdict that names a cause, or gradients-held, held-over, peak, near-limit, warning
  title: string;
  bytes: number | null;
  where: string[]; // "train.py:152 main"
  evidence: string[];
  parts: { name: string; bytes: number }[];
  remedies: Remedy[];
}

export interface DoctorNumbers {
  tried_bytes: number | null;
  total_bytes: number | null;
  free_bytes: number | null;
  allocated_bytes: number | null;
  reserved_bytes: number | null;
  process_bytes: number | null;
  allowed_bytes: number | null;
  device: number | null;
}

export interface DoctorReport {
  verdict: string;
  confidence: string; // high, medium, low
  sentence: string;
  reasoning: string[];
  numbers: DoctorNumbers;
  findings: Finding[];
}

export interface DiffSide {
  file: string | null;
  device: number | null;
  conf: string | null;
  events: number;
  peak_event: number | null;
  peak_live_bytes: number;
  peak_blocks: number;
  peak_reserved_bytes: number | null;
}

export interface DiffCategory {
  category: string;
  before_bytes: number;
  after_bytes: number;
  before_blocks: number;
  after_blocks: number;
}

/** One line of the program. */
export interface DiffChange extends DiffCategory {
  where: string | null;
  frames: string[]; // innermost first, MOST_FRAMES at most; of its stacks the one that changed most
  frames_left_out?: number; // where frames is not all of the stack
  before_where: string | null;
  after_where: string | null;
  stacks: number;
}

export interface DiffRename {
  kind: string; // file, function
  before: string; // "train.py", or "train.py step"
  after: string;
}

export interface DiffReport {
  same: boolean;
  before: DiffSide;
  after: DiffSide;
  categories: DiffCategory[];
  change_count: number;
  changes: DiffChange[];
  renames: DiffRename[];
  notes: string[];
}

// ---- `vramwise report --json`: vramwise-report(1) ------------------------------------------------

export interface RankReport {
  rank: number | null; // null: a file that says none
  recording: string | null;
  text: string | null;
  peak_live_bytes: number | null;
  peak_reserved_bytes: number | null;
  events: number | null;
  out_of_line: string[];
  steps: number | null;
  growth_bytes_per_step: number | null;
  oom: { time_us: number | null; local_time_us: number | null; tried_bytes: number | null } | null;
  verdict: string | null;
  sentence: string | null;
  problem: boolean;
  view: string | null; // commands
  doctor: string | null;
}

export interface RanksReport {
  folder: string | null;
  oom_count: number;
  first_oom: { rank: number | null; lead_us: number | null; reason: string | null };
  ranks: RankReport[];
  unassigned: RankReport[];
  missing: number[];
  outliers: { rank: number; measure: string; value: number; median: number }[];
  sites: { rank: number; where: string | null; category: string; bytes: number; median_bytes: number }[];
  settings: { key: string; rank: number; value: string; usual: string }[];
  files: { path: string; kind: string; reason: string | null }[];
  notes: string[];
}
