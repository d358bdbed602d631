// Where the segments of an address map stand in a picture. A row is so many bytes wide; a segment that
// is longer goes on in the next one, shorter ones share a row. So a segment of 2 MiB and one of 20 GiB
// are both seen, in one scale. Only two things leave it: a segment is never narrower than a few pixels,
// and a gap without memory is shortened.

import { GAP, type Layout } from './layout';

export interface Measures {
  readonly width: number; // of a row
  readonly bytesPerRow: number;
  readonly rowHeight: number; // with the space below it
  readonly headHeight: number; // of a group
  readonly space: number; // between segments in a row
  readonly narrowest: number; // segment
}

export const MEASURES = { rowHeight: 24, headHeight: 34, space: 4, narrowest: 6 };

/** A part of a segment in one row. */
export interface Strip {
  readonly segment: number;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly from: number; // pixels of the segment's own length
  readonly isFirst: boolean;
  readonly isLast: boolean;
}

export interface Head {
  readonly group: number;
  readonly y: number;
}

export interface Rows {
  readonly measures: Measures;
  readonly strips: readonly Strip[]; // by rising y, then x
  readonly heads: readonly Head[];
  readonly height: number;
  /** Of each range: where it starts in its segment, in drawn bytes; one more than there are ranges. */
  readonly drawnAt: Float64Array;
  /** Of each segment: pixels of a drawn byte. */
  readonly scale: Float64Array;
}

/** A gap is drawn as at most this part of a row. */
const LONGEST_GAP = 1 / 24;

function drawnRanges(layout: Layout, bytesPerRow: number): Float64Array {
  const { kind, size, count } = layout.ranges, drawnAt = new Float64Array(count + 1);
  let at = 0;
  for (let i = 0; i < count; i++) {
    drawnAt[i] = at;
    at += kind[i] === GAP ? Math.min(size[i]!, bytesPerRow * LONGEST_GAP) : size[i]!;
  }
  drawnAt[count] = at;
  return drawnAt;
}

export function placeRows(layout: Layout, measures: Measures): Rows {
  const { width, bytesPerRow, rowHeight, headHeight, space, narrowest } = measures;
  const drawnAt = drawnRanges(layout, bytesPerRow), scale = new Float64Array(layout.segments.length);
  const strips: Strip[] = [], heads: Head[] = [];
  let y = 0;
  layout.groups.forEach((group, number) => {
    heads.push({ group: number, y });
    y += headHeight;
    let x = 0;
    for (const index of group.segments) {
      const segment = layout.segments[index]!, drawn = drawnAt[segment.end]! - drawnAt[segment.first]!;
      const length = Math.max(narrowest, (drawn * width) / bytesPerRow);
      scale[index] = drawn > 0 ? length / drawn : 0;
      if (x > 0 && x + length > width) {
        x = 0;
        y += rowHeight;
      }
      for (let from = 0; from < length - 1e-6; from += width) {
        if (from > 0) {
          x = 0;
          y += rowHeight;
        }
        const part = Math.min(width, length - from);
        strips.push({ segment: index, x, y, width: part, from, isFirst: from === 0, isLast: from + part >= length - 1e-6 });
        x += part;
      }
      x += space;
      if (x >= width) {
        x = 0;
        y += rowHeight;
      }
    }
    if (x > 0) y += rowHeight;
  });
  return { measures, strips, heads, height: y, drawnAt, scale };
}

/** The strips from the first whose row ends below `top`, to the last whose row begins above `bottom`. */
export function visibleStrips(rows: Rows, top: number, bottom: number): readonly Strip[] {
  const first = firstBelow(rows, top - rows.measures.rowHeight), end = firstBelow(rows, bottom);
  return rows.strips.slice(first, end);
}

function firstBelow(rows: Rows, y: number): number {
  let low = 0, high = rows.strips.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (rows.strips[middle]!.y <= y) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The ranges that a strip shows, [first, end). */
export function rangesOf(layout: Layout, rows: Rows, strip: Strip): [first: number, end: number] {
  const segment = layout.segments[strip.segment]!, scale = rows.scale[strip.segment]!;
  const base = rows.drawnAt[segment.first]!;
  const from = base + strip.from / scale, to = base + (strip.from + strip.width) / scale;
  let low = segment.first, high = segment.end;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (rows.drawnAt[middle + 1]! <= from) low = middle + 1;
    else high = middle;
  }
  let end = low;
  while (end < segment.end && rows.drawnAt[end]! < to) end++;
  return [low, end];
}

/** Where a range lies in a strip; it may reach beyond it on both sides. */
export function spanIn(layout: Layout, rows: Rows, strip: Strip, range: number): [x: number, width: number] {
  const segment = layout.segments[strip.segment]!, scale = rows.scale[strip.segment]!;
  const base = rows.drawnAt[segment.first]!;
  const start = (rows.drawnAt[range]! - base) * scale - strip.from, end = (rows.drawnAt[range + 1]! - base) * scale - strip.from;
  return [strip.x + start, end - start];
}

export interface Hit {
  readonly strip: Strip;
  readonly range: number;
}

/** What is at a place: a block near by is easier to hit than it is wide. */
export function hitAt(layout: Layout, rows: Rows, x: number, y: number, barHeight: number): Hit | null {
  for (const strip of visibleStrips(rows, y, y + 1)) {
    if (y < strip.y || y >= strip.y + barHeight || x < strip.x - 1 || x >= strip.x + strip.width + 1) continue;
    const [first, end] = rangesOf(layout, rows, strip);
    let best = -1, nearest = Infinity;
    for (let range = first; range < end; range++) {
      const [left, width] = spanIn(layout, rows, strip, range);
      const away = x < left ? left - x : x > left + width ? x - left - width : 0;
      const isSlim = width < 2 && away < 1.5;
      const distance = isSlim ? -1 / (1 + away) : away;
      if (distance < nearest) [best, nearest] = [range, distance];
    }
    return best < 0 ? null : { strip, range: best };
  }
  return null;
}

/** A row's bytes so that everything fits a height, as a power of two; the largest scale that does. */
export function fittingBytesPerRow(layout: Layout, width: number, height: number): number {
  let longest = 2 * 1024 ** 2;
  for (const segment of layout.segments) longest = Math.max(longest, segment.reserved);
  for (let bytes = 2 * 1024 ** 2; bytes < longest; bytes *= 2) {
    if (layout.reserved / bytes > 400) continue; // it cannot fit
    if (placeRows(layout, { ...MEASURES, width, bytesPerRow: bytes }).height <= height) return bytes;
  }
  return 2 ** Math.ceil(Math.log2(longest));
}
