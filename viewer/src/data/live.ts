// What is live at an instant, and how much at every one.

import type { Blocks, Device, Line } from './model';

/** The number of blocks that have begun at `instant` or before: blocks are ordered by begin. */
export function begunBy(blocks: Blocks, instant: number): number {
  let low = 0, high = blocks.count;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (blocks.begin[middle]! <= instant) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The blocks that are live at `instant`, in the order in which they began. */
export function liveAt(blocks: Blocks, instant: number): Uint32Array {
  const begun = begunBy(blocks, instant), end = blocks.end;
  let count = 0;
  for (let i = 0; i < begun; i++) if (end[i]! > instant) count++;
  const out = new Uint32Array(count);
  for (let i = 0, at = 0; at < count; i++) if (end[i]! > instant) out[at++] = i;
  return out;
}

/** Live bytes at every instant, 0 to lastInstant. */
export function liveLine(blocks: Blocks, lastInstant: number): Float64Array {
  const line = new Float64Array(lastInstant + 1);
  for (let i = 0; i < blocks.count; i++) {
    const size = blocks.size[i]!, end = blocks.end[i]!;
    line[blocks.begin[i]!]! += size;
    if (end <= lastInstant) line[end]! -= size;
  }
  for (let i = 1; i <= lastInstant; i++) line[i]! += line[i - 1]!;
  return line;
}

/** The value of a step function at an instant: 0 before its first point. */
export function lineAt(line: Line, instant: number): number {
  let low = 0, high = line.instant.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (line.instant[middle]! <= instant) low = middle + 1;
    else high = middle;
  }
  return low === 0 ? 0 : line.bytes[low - 1]!;
}

/** Highest values of ever larger spans, so that the highest of any range is found at once. */
export class Highest {
  private readonly levels: Float64Array[];

  constructor(values: Float64Array) {
    this.levels = [values];
    for (let below = values; below.length > 1; ) {
      const above = new Float64Array((below.length + 1) >>> 1);
      for (let i = 0; i < above.length; i++)
        above[i] = Math.max(below[2 * i]!, 2 * i + 1 < below.length ? below[2 * i + 1]! : -Infinity);
      this.levels.push(above);
      below = above;
    }
  }

  /** Of the values [from, to]; both are brought into range. */
  over(from: number, to: number): number {
    const last = this.levels[0]!.length - 1;
    let left = Math.max(0, Math.min(from, last)), right = Math.max(left, Math.min(to, last));
    let highest = -Infinity;
    for (let level = 0; left <= right; level++) {
      const values = this.levels[level]!;
      if (left & 1) highest = Math.max(highest, values[left++]!);
      if (!(right & 1)) highest = Math.max(highest, values[right--]!);
      left >>>= 1;
      if (right < 0) break;
      right >>>= 1;
    }
    return highest;
  }
}

/** The time of an instant in microseconds since the first event, or null. Between samples it is
 * taken for even. */
export function timeAt(device: Device, instant: number): number | null {
  const every = device.header.time_every, times = device.timeUs;
  if (every === null || times.length === 0) return null;
  const place = instant / every, before = Math.min(Math.floor(place), times.length - 1);
  const after = Math.min(before + 1, times.length - 1);
  return times[before]! + (times[after]! - times[before]!) * Math.min(1, place - before);
}
