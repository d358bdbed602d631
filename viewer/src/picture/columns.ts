// Which instant a column of pixels shows. An instant k is drawn from k to k + 1, so that the axis of
// a run goes from 0 to its last instant + 1.

/** What is seen: the instants `from` to `to` whole, as in the state; either may lie between two. */
export interface Range {
  readonly from: number;
  readonly to: number;
}

/** Its width on the axis. */
export function spanOf(range: Range): number {
  return range.to + 1 - range.from;
}

/** L such that 2^L is the most that fits into one column. */
export function levelFor(range: Range, columns: number): number {
  const perColumn = spanOf(range) / columns;
  return perColumn < 2 ? 0 : Math.min(31, Math.floor(Math.log2(perColumn)));
}

/** The instant of each column; -1 beside the run. Those of a wide range are multiples of 2^L, the
 * first in the column, so that a moved picture shows the same instants again. */
export function instantsOf(range: Range, columns: number, lastInstant: number, out: Int32Array): void {
  const perColumn = spanOf(range) / columns, step = 2 ** levelFor(range, columns);
  const lastStep = Math.floor(lastInstant / step) * step;
  for (let x = 0; x < columns; x++) {
    const left = range.from + x * perColumn, right = left + perColumn;
    const instant =
      perColumn < 1 ? Math.floor(left + perColumn / 2) : Math.min(Math.ceil(left / step) * step, lastStep);
    out[x] = right <= 0 || left >= lastInstant + 1 || instant > lastInstant ? -1 : Math.max(0, instant);
  }
}

/** Instants [first, last] that a column covers, for what must not be lost: peaks, marks. */
export function coveredBy(range: Range, columns: number, x: number): [first: number, last: number] {
  const perColumn = spanOf(range) / columns;
  const first = Math.floor(range.from + x * perColumn);
  return [first, Math.max(first, Math.ceil(range.from + (x + 1) * perColumn) - 1)];
}
