// The rows of the comparison: what each line, or each category, held at the peaks of both runs. Which
// lines are the same in both is for the library to say: here its rows are only written out.

import { framesKey, MOST_FRAMES, stacksByFrames } from '../../app/places';
import { matches, type Search } from '../../data/search';
import { NONE, type Model } from '../../data/model';
import { count } from '../../look/units';
import type { DiffCategory, DiffChange, DiffReport } from '../../data/header';

export interface DiffRow {
  readonly label: string;
  readonly detail: string; // the category, the innermost function, how many stacks, where it was
  readonly category: string;
  readonly before: number;
  readonly after: number;
  readonly blocksBefore: number;
  readonly blocksAfter: number;
  readonly place: { readonly run: number; readonly stack: number } | null; // where it is more
}

/** Finds the stack of a change: in the run that has more of it first. */
export function makeLocator(model: Model): (frames: readonly string[], category: string, runs: readonly number[]) => DiffRow['place'] {
  const known = model.runs.map((run) => stacksByFrames(run.stacks));
  return (frames, category, runs) => {
    for (const run of runs) {
      const stacks = model.runs[run]!.stacks, found = known[run]!.get(framesKey(frames)) ?? [];
      const same = found.find((stack) => stacks.categories[stacks.categoryOf(stack)] === category);
      if (same !== undefined || found.length > 0) return { run, stack: same ?? found[0]! };
      if (frames.length === 0) return { run, stack: NONE };
    }
    return null;
  };
}

function rowOf(change: DiffCategory, label: string, detail: string, place: DiffRow['place']): DiffRow {
  return {
    label,
    detail,
    category: change.category,
    before: change.before_bytes,
    after: change.after_bytes,
    blocksBefore: change.before_blocks,
    blocksAfter: change.after_blocks,
    place,
  };
}

function labelOf(change: DiffChange): string {
  return change.after_where ?? change.before_where ?? change.frames[0] ?? 'no Python frame';
}

function detailOf(change: DiffChange): string {
  const { before_where: before, after_where: after, frames, stacks } = change, inner = frames[0];
  return [
    change.category,
    inner !== undefined && inner !== change.where && inner !== labelOf(change) && inner,
    stacks > 1 && `and ${count(stacks - 1)} more ${stacks === 2 ? 'stack' : 'stacks'}`,
    before !== null && after !== null && before !== after && `was ${before}`,
  ]
    .filter((part) => part !== false)
    .join(', ');
}

/** A report has room for so many frames: the last of its changes may lack theirs. */
function isCut(change: DiffChange): boolean {
  return (change.frames_left_out ?? 0) > 0 && change.frames.length < MOST_FRAMES;
}

export function lineRows(report: DiffReport, model: Model): DiffRow[] {
  const locate = makeLocator(model);
  return report.changes.map((change) => {
    const runs = change.after_bytes >= change.before_bytes ? [1, 0] : [0, 1];
    const place = isCut(change) ? null : locate(change.frames, change.category, runs);
    return rowOf(change, labelOf(change), detailOf(change), place);
  });
}

export function categoryRows(report: DiffReport): DiffRow[] {
  return report.categories.map((category) => rowOf(category, category.category, '', null));
}

export const DIFF_KEYS = ['where', 'difference', 'before', 'after'] as const;
export type DiffKey = (typeof DIFF_KEYS)[number];

/** By difference: the largest first, whichever way it went; turned round: what shrank most first, then
 * what grew. */
export function sortRows(rows: readonly DiffRow[], key: DiffKey, isFalling: boolean): DiffRow[] {
  const sign = isFalling ? -1 : 1;
  const compare = (a: DiffRow, b: DiffRow): number => {
    if (key === 'where') return sign * a.label.localeCompare(b.label, 'en');
    if (key !== 'difference') return sign * (a[key] - b[key]);
    const one = a.after - a.before, other = b.after - b.before;
    return isFalling ? Math.abs(other) - Math.abs(one) : one - other;
  };
  return [...rows].sort(compare);
}

export const SIDES = ['all', 'grew', 'shrank'] as const;
export type Side = (typeof SIDES)[number];

export function isOnSide(row: DiffRow, side: Side): boolean {
  return side === 'all' || (side === 'grew' ? row.after > row.before : row.after < row.before);
}

/** By what the row says, and lines by the frames of their stack too. */
export function isFound(row: DiffRow, search: Search | null, text: string, model: Model): boolean {
  if (search === null || `${row.label} ${row.detail}`.toLowerCase().includes(text.trim().toLowerCase())) return true;
  if (row.place === null) return false;
  return matches(search, model.runs[row.place.run]!.stacks, row.place.stack, Math.max(row.before, row.after));
}

/** "+1.12 GiB", "-34.0 MiB", "0". */
export function differenceText(difference: number, bytes: (size: number) => string): string {
  if (difference === 0) return '0';
  return (difference > 0 ? '+' : '-') + bytes(Math.abs(difference));
}
