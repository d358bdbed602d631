// The rows of the ranks' table: sorting, the words for a figure, and which rank is shown first.

import type { RankReport, RanksReport } from '../data/header';
import { tableText } from '../data/csv';
import { bytes, duration } from '../look/units';

export type RankKey = 'rank' | 'live' | 'reserved' | 'events' | 'steps' | 'growth' | 'oom' | 'verdict';

export interface Sorting {
  readonly key: RankKey;
  readonly isFalling: boolean;
}

/** When a rank ran out, in the kind of time that the first rank has too; null: not known, or it did not. */
export function oomTime(rank: RankReport, like: RankReport | null): number | null {
  if (rank.oom === null) return null;
  const hasTime = rank.oom.time_us !== null && (like?.oom?.time_us ?? null) !== null;
  return hasTime ? rank.oom.time_us : rank.oom.local_time_us;
}

export function firstRank(report: RanksReport): RankReport | null {
  return report.ranks.find((rank) => rank.rank !== null && rank.rank === report.first_oom.rank) ?? null;
}

/** "first", "1.20 s later", "ran out"; '' for a rank that did not. */
export function oomText(rank: RankReport, first: RankReport | null): string {
  if (rank.oom === null) return '';
  if (rank === first) return 'first';
  const here = oomTime(rank, first), there = first === null ? null : oomTime(first, rank);
  return here === null || there === null || here < there ? 'ran out' : `${duration(here - there)} later`;
}

function keyOf(rank: RankReport, key: RankKey, first: RankReport | null): number | string | null {
  switch (key) {
    case 'rank':
      return rank.rank;
    case 'live':
      return rank.peak_live_bytes;
    case 'reserved':
      return rank.peak_reserved_bytes;
    case 'events':
      return rank.events;
    case 'steps':
      return rank.steps;
    case 'growth':
      return rank.growth_bytes_per_step;
    case 'oom':
      return rank.oom === null ? null : (oomTime(rank, first) ?? Infinity);
    case 'verdict':
      return rank.verdict;
  }
}

function compare(one: number | string, other: number | string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}

/** What is not known comes last, whichever way it is sorted; equal ones stay by number. */
export function sortRanks(ranks: readonly RankReport[], { key, isFalling }: Sorting, first: RankReport | null): RankReport[] {
  const known = ranks.filter((rank) => keyOf(rank, key, first) !== null), unknown = ranks.filter((rank) => keyOf(rank, key, first) === null);
  const order = (one: RankReport, other: RankReport): number => compare(keyOf(one, key, first)!, keyOf(other, key, first)!) * (isFalling ? -1 : 1);
  return [...known.sort(order), ...unknown];
}

/** The one to look at: the first that ran out, else one that did, else one with a problem, else any. */
export function tellingRank(report: RanksReport): RankReport | null {
  const { ranks } = report;
  return firstRank(report) ?? ranks.find((rank) => rank.oom !== null) ?? ranks.find((rank) => rank.problem) ?? ranks[0] ?? report.unassigned[0] ?? null;
}

export function nameOf(rank: RankReport): string {
  return rank.rank === null ? (rank.recording ?? rank.text ?? '?') : `rank ${rank.rank}`;
}

/** What the job came to, in one sentence. */
export function answerOf(report: RanksReport): string {
  const count = report.ranks.length, ranks = `${count} ${count === 1 ? 'rank' : 'ranks'}`;
  const { rank, lead_us: lead, reason } = report.first_oom;
  if (report.oom_count === 0) return `${ranks}, none ran out of memory`;
  if (report.oom_count === 1) return `Rank ${rank ?? '?'} ran out of memory, alone of ${ranks}`;
  if (rank === null) return `${report.oom_count} of ${ranks} ran out of memory; which was first is not known: ${reason ?? '?'}`;
  return `Rank ${rank} ran out of memory first, ${lead === null ? '?' : duration(lead)} before the next; ${report.oom_count} of ${ranks} ran out`;
}

export const bytesOr = (size: number | null): string => (size === null ? '' : bytes(size));

const MEASURES: Readonly<Record<string, string>> = { peak_live_bytes: 'live peak', peak_reserved_bytes: 'reserved peak', events: 'events' };

export function measureName(measure: string): string {
  return MEASURES[measure] ?? measure;
}

/** The tables for a spreadsheet. */
export function ranksText(ranks: readonly RankReport[], first: RankReport | null): string {
  const head = ['rank', 'peak_live_bytes', 'peak_reserved_bytes', 'events', 'steps', 'growth_bytes_per_step', 'ran_out', 'verdict'];
  return tableText(
    head,
    ranks.map((rank) => [rank.rank, rank.peak_live_bytes, rank.peak_reserved_bytes, rank.events, rank.steps, rank.growth_bytes_per_step, oomText(rank, first), rank.verdict]),
  );
}

export function sitesText(report: RanksReport): string {
  const head = ['rank', 'bytes', 'median_bytes', 'category', 'where'];
  return tableText(head, report.sites.map((site) => [site.rank, site.bytes, site.median_bytes, site.category, site.where]));
}
