// A report on ranks for tests.

import type { RankReport, RanksReport } from '../data/header';

const GIB = 1024 ** 3;

export function sampleRank(rank: number | null, change: Partial<RankReport> = {}): RankReport {
  return {
    rank,
    recording: `run.rank${rank}.pickle`,
    text: null,
    peak_live_bytes: 4 * GIB,
    peak_reserved_bytes: 5 * GIB,
    events: 1000,
    out_of_line: [],
    steps: 10,
    growth_bytes_per_step: 0,
    oom: null,
    verdict: 'healthy',
    sentence: `Healthy: rank ${rank}.`,
    problem: false,
    view: `vramwise view job/run.rank${rank}.pickle`,
    doctor: `vramwise doctor job/run.rank${rank}.pickle`,
    ...change,
  };
}

export function sampleRanks(ranks: RankReport[], change: Partial<RanksReport> = {}): RanksReport {
  return {
    folder: 'job',
    oom_count: ranks.filter((rank) => rank.oom !== null).length,
    first_oom: { rank: null, lead_us: null, reason: null },
    ranks,
    unassigned: [],
    missing: [],
    outliers: [],
    sites: [],
    settings: [],
    files: [],
    notes: [],
    ...change,
  };
}

export const ranOut = (time_us: number | null, local_time_us: number | null = null): RankReport['oom'] => ({ time_us, local_time_us, tried_bytes: 4096 });
