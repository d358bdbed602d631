// The picture of live memory: for each column of pixels the blocks live at its instant, each on top
// of those that began before. One sweep from left to right: what is live is kept as a list in the
// order of begin, a column takes out what has ended and appends what has begun, and is painted anew
// only from the lowest block that has gone.
//
// Painted are numbers of blocks, not colours: what is under the pointer is then looked up, and a
// change of colours needs no sweep.

import { firstAbove, type Level, type Levels } from './levels';
import { instantsOf, levelFor, type Range } from './columns';

/** What a pixel holds: 0 for the ground, else the block and whether it is the block's upper edge. */
export const GROUND = 0;

export function pixelOf(block: number, isEdge: boolean): number {
  return 2 * block + (isEdge ? 3 : 2);
}

export function blockOf(pixel: number): number | null {
  return pixel === GROUND ? null : (pixel >>> 1) - 1;
}

/** A block of more rows than this has its uppermost one marked as its edge. */
const EDGE_FROM_ROWS = 3;
/** From here on the engine's own fill is faster than a loop. */
const LONG_RUN = 24;
/** So many blocks are passed over at once where together they cover no pixel's centre. */
const CHUNK = 32;
const CHUNK_SHIFT = 5;

export interface Frame extends Range {
  readonly columns: number;
  readonly rows: number;
  readonly bytesPerRow: number;
  readonly lastInstant: number;
}

/** Buffers that are used again from frame to frame. */
export class Sweep {
  /** Column after column, each from the lowest row up. */
  pixels = new Int32Array(0);
  instants = new Int32Array(0);
  frame: Frame = { from: 0, to: 0, columns: 0, rows: 0, bytesPerRow: 1, lastInstant: 0 };

  // What is live, by rising place. What has ended stays with size 0 until the list is tidied. For each
  // CHUNK of the list: its bytes, and how high it begins.
  private live = new Int32Array(1024);
  private liveSize = new Float64Array(1024);
  private slot = new Int32Array(0); // where a place is in the list
  private chunkSize = new Float64Array(1024 / CHUNK);
  private chunkBase = new Float64Array(1024 / CHUNK);
  private listed = 0;
  private gone = 0;

  run(levels: Levels, frame: Frame): void {
    const { columns, rows } = frame;
    if (this.pixels.length < columns * rows) this.pixels = new Int32Array(columns * rows);
    if (this.instants.length < columns) this.instants = new Int32Array(columns);
    this.frame = frame;
    instantsOf(frame, columns, frame.lastInstant, this.instants);
    const level = levels.at(levelFor(frame, columns));
    if (this.slot.length < level.count) this.slot = new Int32Array(level.count);

    let before = -1, begun = 0, ended = 0;
    for (let x = 0; x < columns; x++) {
      const instant = this.instants[x]!, base = x * rows;
      if (instant < 0) {
        this.pixels.fill(GROUND, base, base + rows);
        before = -1;
        continue;
      }
      let changed: number;
      if (before < 0) {
        begun = firstAbove(level.begin, instant, null);
        ended = firstAbove(level.end, instant, level.byEnd);
        this.gather(level, begun, instant);
        changed = 0;
      } else {
        if (instant === before) {
          this.pixels.copyWithin(base, base - rows, base);
          continue;
        }
        changed = this.listed;
        for (; ended < level.count; ended++) {
          const place = level.byEnd[ended]!;
          if (level.end[place]! > instant) break;
          if (level.begin[place]! <= before) changed = Math.min(changed, this.drop(place));
        }
        begun = this.begin(level, begun, instant);
        if (this.gone > 256 && 4 * this.gone > this.listed) {
          this.tidy();
          changed = 0;
        }
      }
      this.paint(level, x, changed);
      before = instant;
    }
  }

  /** Of the last frame: the pixel of a column and a row counted from below; GROUND beside it. */
  at(column: number, row: number): number {
    const { columns, rows } = this.frame;
    if (column < 0 || row < 0 || column >= columns || row >= rows) return GROUND;
    return this.pixels[column * rows + row]!;
  }

  private gather(level: Level, begun: number, instant: number): void {
    this.listed = this.gone = 0;
    for (let place = 0; place < begun; place++)
      if (level.end[place]! > instant) this.append(place, level.size[place]!);
  }

  private begin(level: Level, from: number, instant: number): number {
    let place = from;
    for (; place < level.count && level.begin[place]! <= instant; place++)
      if (level.end[place]! > instant) this.append(place, level.size[place]!);
    return place;
  }

  private append(place: number, size: number): void {
    const at = this.listed++, chunk = at >>> CHUNK_SHIFT;
    if (at === this.live.length) this.grow();
    this.live[at] = place;
    this.slot[place] = at;
    this.liveSize[at] = size;
    if ((at & (CHUNK - 1)) === 0) this.chunkSize[chunk] = size;
    else this.chunkSize[chunk]! += size;
  }

  private grow(): void {
    const longer = (values: Float64Array): Float64Array => {
      const out = new Float64Array(2 * values.length);
      out.set(values);
      return out;
    };
    const live = new Int32Array(2 * this.live.length);
    live.set(this.live);
    this.live = live;
    this.liveSize = longer(this.liveSize);
    this.chunkSize = longer(this.chunkSize);
    this.chunkBase = longer(this.chunkBase);
  }

  /** Returns where it was in the list. */
  private drop(place: number): number {
    const at = this.slot[place]!;
    this.chunkSize[at >>> CHUNK_SHIFT]! -= this.liveSize[at]!;
    this.liveSize[at] = 0;
    this.gone++;
    return at;
  }

  private tidy(): void {
    const listed = this.listed;
    this.listed = this.gone = 0;
    for (let i = 0; i < listed; i++) if (this.liveSize[i]! > 0) this.append(this.live[i]!, this.liveSize[i]!);
  }

  /** Paints column x from the changed block's chunk up; below, it is the column before. */
  private paint(level: Level, x: number, changed: number): void {
    const { live, liveSize, chunkSize, chunkBase, pixels, listed } = this;
    const { rows, bytesPerRow } = this.frame;
    const scale = 1 / bytesPerRow, base = x * rows, block = level.block;
    let chunk = changed >>> CHUNK_SHIFT;
    let height = chunk === 0 ? 0 : chunkBase[chunk - 1]! + chunkSize[chunk - 1]!;
    let row = Math.min(rows, Math.floor(height * scale + 0.5));
    if (row > 0) pixels.copyWithin(base, base - rows, base - rows + row);
    for (; chunk << CHUNK_SHIFT < listed; chunk++) {
      chunkBase[chunk] = height;
      const above = height + chunkSize[chunk]!;
      if (row >= rows || above * scale + 0.5 < row + 1) {
        height = above;
        continue;
      }
      const last = Math.min(listed, (chunk + 1) << CHUNK_SHIFT);
      for (let i = chunk << CHUNK_SHIFT; i < last; i++) {
        height += liveSize[i]!;
        const top = height * scale + 0.5;
        if (top < row + 1) continue;
        const next = top >= rows ? rows : top | 0, place = live[i]!;
        const pixel = 2 * (block === null ? place : block[place]!) + 2;
        pixels[base + row] = pixel;
        if (next - row > 1) {
          if (next - row > LONG_RUN) pixels.fill(pixel, base + row, base + next);
          else for (let at = base + row + 1; at < base + next; at++) pixels[at] = pixel;
          if (next - row > EDGE_FROM_ROWS) pixels[base + next - 1] = pixel + 1;
        }
        row = next;
      }
    }
    pixels.fill(GROUND, base + row, base + rows);
  }
}

/** Turns the painted columns into an image whose rows go down. colours[pixel] is as ImageData has it.
 * Eight rows at a time: what is read of a column and written of eight rows stays in the cache. All three are
 * signed, since the engine keeps unsigned numbers as doubles. */
export function colourImage(sweep: Sweep, colours: Int32Array, image: Int32Array): void {
  const { columns, rows } = sweep.frame, pixels = sweep.pixels;
  let low = 0;
  for (; low + 8 <= rows; low += 8) {
    const lowest = (rows - 1 - low) * columns;
    for (let x = 0, at = low; x < columns; x++, at += rows) {
      const out = lowest + x;
      image[out] = colours[pixels[at]!]!;
      image[out - columns] = colours[pixels[at + 1]!]!;
      image[out - 2 * columns] = colours[pixels[at + 2]!]!;
      image[out - 3 * columns] = colours[pixels[at + 3]!]!;
      image[out - 4 * columns] = colours[pixels[at + 4]!]!;
      image[out - 5 * columns] = colours[pixels[at + 5]!]!;
      image[out - 6 * columns] = colours[pixels[at + 6]!]!;
      image[out - 7 * columns] = colours[pixels[at + 7]!]!;
    }
  }
  for (; low < rows; low++)
    for (let x = 0; x < columns; x++) image[(rows - 1 - low) * columns + x] = colours[pixels[x * rows + low]!]!;
}
