// Lines with far more points than there are pixels, thinned to one value per column. A column keeps
// its highest value: a peak of one instant is what memory runs out at, and must not fall between two
// pixels.

import type { Highest } from '../data/live';
import type { Line } from '../data/model';

/** Where columns begin, from `from` to `to`, both included; at whole numbers where `isWhole`. At most
 * `width` columns and one more for the end. */
export function columnStarts(from: number, to: number, width: number, isWhole = true): number[] {
  const columns = Math.max(1, Math.floor(width)), span = to - from;
  if (span <= 0) return [from];
  const count = isWhole ? Math.min(columns, Math.ceil(span)) : columns;
  const starts: number[] = [];
  for (let i = 0; i <= count; i++) {
    const at = from + (span * i) / count;
    starts.push(isWhole ? Math.floor(at) : at);
  }
  return starts;
}

/** The instants [first, last] of column i: up to where the next begins. null: beyond the end. */
type Span = readonly [first: number, last: number] | null;

function spanOf(starts: readonly (number | null)[], i: number): Span {
  const start = starts[i];
  if (start === undefined || start === null) return null;
  const first = Math.floor(start), next = starts[i + 1];
  return [first, next === undefined || next === null ? first : Math.max(first, Math.ceil(next) - 1)];
}

/** Of a value for each instant. */
export function highestOfValues(highest: Highest, starts: readonly (number | null)[]): (number | null)[] {
  return starts.map((_, i) => {
    const span = spanOf(starts, i);
    return span === null ? null : highest.over(span[0], span[1]);
  });
}

/** Of a step function; null after `end`, 0 before its first point. `starts` rise. */
export function highestOfLine(line: Line, starts: readonly (number | null)[], end = Infinity): (number | null)[] {
  const { instant, bytes } = line;
  let next = 0, present = 0;
  return starts.map((_, i) => {
    const span = spanOf(starts, i);
    if (span === null || span[0] > end || instant.length === 0) return null;
    while (next < instant.length && instant[next]! <= span[0]) present = bytes[next++]!;
    let most = present;
    while (next < instant.length && instant[next]! <= span[1]) {
      present = bytes[next++]!;
      most = Math.max(most, present);
    }
    return most;
  });
}

/** The last place in rising `starts` that is not after `at`; 0 where all are. */
export function columnAt(starts: readonly number[], at: number): number {
  let low = 0, high = starts.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (starts[middle]! <= at) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}
