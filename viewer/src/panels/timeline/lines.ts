// Step functions as lines of the picture: of each column the highest, so that a short peak is seen.

import type { Highest } from '../../data/live';
import { lineAt } from '../../data/live';
import type { Line } from '../../data/model';
import { coveredBy, type Range } from '../../picture/columns';
import { yOf, type Plot } from './plot';
import type { Points } from './pen';

export function highestLive(highest: Highest, range: Range, columns: number, lastInstant: number): Float64Array {
  const out = new Float64Array(columns).fill(NaN);
  for (let x = 0; x < columns; x++) {
    const [first, last] = coveredBy(range, columns, x);
    if (last >= 0 && first <= lastInstant) out[x] = highest.over(first, last);
  }
  return out;
}

export function highestOfLine(line: Line, range: Range, columns: number, lastInstant: number): Float64Array {
  const out = new Float64Array(columns).fill(NaN), { instant, bytes } = line;
  if (instant.length === 0) return out;
  let next = 0;
  for (let x = 0; x < columns; x++) {
    const [first, last] = coveredBy(range, columns, x);
    if (last < 0 || first > lastInstant) continue;
    if (x === 0 || next === 0) {
      while (next < instant.length && instant[next]! <= first) next++;
      out[x] = lineAt(line, first);
    } else {
      out[x] = next > 0 ? bytes[next - 1]! : 0;
    }
    for (; next < instant.length && instant[next]! <= last; next++) out[x] = Math.max(out[x]!, bytes[next]!);
  }
  return out;
}

/** As corners, one column to the next; where there is nothing, a new line begins. */
export function cornersOf(values: Float64Array, plot: Plot): Points[] {
  const lines: [number, number][][] = [], width = plot.width / values.length;
  let line: [number, number][] | null = null, before = NaN;
  for (let x = 0; x <= values.length; x++) {
    const value = x < values.length ? values[x]! : NaN, at = plot.left + x * width;
    if (value === before) continue;
    if (!Number.isNaN(before)) line?.push([at, yOf(plot, before)]);
    if (Number.isNaN(value)) line = null;
    else if (line === null) lines.push((line = [[at, yOf(plot, value)]]));
    else line.push([at, yOf(plot, value)]);
    before = value;
  }
  return lines;
}
