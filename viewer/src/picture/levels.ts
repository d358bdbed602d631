// The blocks that matter to a picture whose columns are multiples of 2^L apart: those of level L or
// more, in the order in which they begin and in the order in which they end. Made when a level is
// first drawn, and kept.

import type { Blocks } from '../data/model';

/** Blocks of one level and above. A place is an index in these arrays; a higher one began later. */
export interface Level {
  readonly count: number;
  readonly block: Uint32Array | null; // of a place; null: they are the same
  readonly begin: Uint32Array;
  readonly end: Uint32Array;
  readonly size: Float64Array;
  readonly byEnd: Uint32Array; // places, by rising end
}

/** Places by rising end; those with one end by rising place. Counts 16 bits at a time. */
function orderByEnd(end: Uint32Array): Uint32Array {
  const count = end.length;
  let from: Uint32Array = new Uint32Array(count), to: Uint32Array = new Uint32Array(count);
  for (let i = 0; i < count; i++) from[i] = i;
  const starts = new Uint32Array(65537);
  for (const shift of [0, 16]) {
    starts.fill(0);
    for (let i = 0; i < count; i++) starts[((end[i]! >>> shift) & 0xffff) + 1]!++;
    for (let i = 1; i < starts.length; i++) starts[i]! += starts[i - 1]!;
    for (let i = 0; i < count; i++) {
      const place = from[i]!, digit = (end[place]! >>> shift) & 0xffff;
      to[starts[digit]!++] = place;
    }
    [from, to] = [to, from];
  }
  return from;
}

function levelAbove(below: Level, levels: Uint8Array, level: number): Level {
  const blockOf = (place: number): number => (below.block === null ? place : below.block[place]!);
  let count = 0;
  for (let i = 0; i < below.count; i++) if (levels[blockOf(i)]! >= level) count++;
  const block = new Uint32Array(count), begin = new Uint32Array(count), end = new Uint32Array(count);
  const size = new Float64Array(count), placeOf = new Int32Array(below.count).fill(-1);
  for (let i = 0, at = 0; i < below.count; i++) {
    const id = blockOf(i);
    if (levels[id]! < level) continue;
    block[at] = id;
    begin[at] = below.begin[i]!;
    end[at] = below.end[i]!;
    size[at] = below.size[i]!;
    placeOf[i] = at++;
  }
  const byEnd = new Uint32Array(count);
  for (let i = 0, at = 0; i < below.count; i++) {
    const place = placeOf[below.byEnd[i]!]!;
    if (place >= 0) byEnd[at++] = place;
  }
  return { count, block, begin, end, size, byEnd };
}

export class Levels {
  private readonly made: (Level | undefined)[] = [];
  private readonly highest: number;

  constructor(readonly blocks: Blocks) {
    let highest = 0;
    for (let i = 0; i < blocks.count; i++) highest = Math.max(highest, blocks.level[i]!);
    this.highest = highest;
  }

  /** Makes one level that is not there yet; false: all are. For the times when nothing else is to be done. */
  prepare(): boolean {
    for (let level = 0; level <= this.highest; level++)
      if (this.made[level] === undefined) {
        this.at(level);
        return true;
      }
    return false;
  }

  /** Of a level above all that there are it is that of the highest: more than is needed, but right. */
  at(wanted: number): Level {
    const level = Math.max(0, Math.min(wanted, this.highest));
    const known = this.made[level];
    if (known !== undefined) return known;
    const { count, begin, end, size } = this.blocks;
    let made: Level;
    if (level === 0) {
      made = { count, block: null, begin, end, size, byEnd: orderByEnd(end) };
    } else {
      let below = level - 1;
      while (below > 0 && this.made[below] === undefined) below--;
      made = levelAbove(this.made[below] ?? this.at(0), this.blocks.level, level);
    }
    this.made[level] = made;
    return made;
  }
}

/** The number of the first of `order` (or of `values` itself) whose value is above `limit`. */
export function firstAbove(values: Uint32Array, limit: number, order: Uint32Array | null): number {
  let low = 0, high = order === null ? values.length : order.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const value = values[order === null ? middle : order[middle]!]!;
    if (value <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}
