import { describe, expect, it } from 'vitest';
import { sampleDevice, type SampleBlock } from '../testing/model';
import type { Blocks } from '../data/model';
import { instantsOf, levelFor } from './columns';
import { firstAbove, Levels } from './levels';
import { blockOf, colourImage, GROUND, pixelOf, Sweep, type Frame } from './sweep';

/** Numbers that look random and are the same each time. */
function dice(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 4294967296) * below);
  };
}

function someBlocks(roll: (below: number) => number, count: number, lastInstant: number): SampleBlock[] {
  const blocks: SampleBlock[] = [];
  for (let i = 0; i < count; i++) {
    const begin = roll(4) === 0 ? 0 : roll(lastInstant + 1);
    const length = roll(3) === 0 ? roll(lastInstant) : roll(6);
    const block: SampleBlock = { begin, size: 512 * (1 + roll(roll(3) === 0 ? 200 : 4)) };
    if (roll(5) > 0 && begin + length <= lastInstant) block.end = begin + length;
    blocks.push(block);
  }
  return blocks.sort((a, b) => a.begin - b.begin);
}

/** What every pixel must hold, one by one, with no level, list or earlier column. */
function paintPlainly(blocks: Blocks, frame: Frame): Int32Array {
  const { columns, rows, bytesPerRow } = frame;
  const out = new Int32Array(columns * rows), instants = new Int32Array(columns);
  instantsOf(frame, columns, frame.lastInstant, instants);
  instants.forEach((instant, x) => {
    let height = 0;
    for (let i = 0; i < blocks.count; i++) {
      if (instant < 0 || blocks.begin[i]! > instant || blocks.end[i]! <= instant) continue;
      const covered: number[] = [];
      for (let row = 0; row < rows; row++) {
        const centre = (row + 0.5) * bytesPerRow;
        if (height < centre && centre <= height + blocks.size[i]!) covered.push(row);
      }
      for (const row of covered) out[x * rows + row] = pixelOf(i, covered.length > 3 && row === covered[covered.length - 1]);
      height += blocks.size[i]!;
    }
  });
  return out;
}

describe('the sweep', () => {
  it('paints what painting pixel by pixel does', () => {
    const sweep = new Sweep();
    for (let seed = 1; seed <= 60; seed++) {
      const roll = dice(seed), lastInstant = 1 + roll(300);
      const { blocks } = sampleDevice({ lastInstant, blocks: someBlocks(roll, 1 + roll(120), lastInstant) });
      const levels = new Levels(blocks);
      for (let view = 0; view < 8; view++) {
        const from = roll(lastInstant) - roll(4) + roll(4) / 4;
        const frame: Frame = {
          from,
          to: view === 0 ? lastInstant : from + roll(lastInstant + 5),
          columns: 1 + roll(40),
          rows: 1 + roll(50),
          bytesPerRow: 128 * 2 ** roll(8), // powers of two: the plain painter rounds nothing
          lastInstant,
        };
        sweep.run(levels, frame);
        const painted = sweep.pixels.subarray(0, frame.columns * frame.rows);
        expect(Array.from(painted), `seed ${seed}, view ${view}`).toEqual(Array.from(paintPlainly(blocks, frame)));
      }
    }
  });

  it('shows the same instants when moved by a part of a column', () => {
    const before = new Int32Array(100), after = new Int32Array(100);
    const range = { from: 1000, to: 1000 + 100 * 7 - 1 };
    instantsOf(range, 100, 1e6, before);
    instantsOf({ from: range.from + 3, to: range.to + 3 }, 100, 1e6, after);
    const step = 2 ** levelFor(range, 100);
    expect(step).toBe(4);
    expect([...before, ...after].every((instant) => instant % step === 0)).toBe(true);
    expect(after.every((instant, i) => instant === before[i]! || instant === before[i]! + step)).toBe(true);
  });

  it('leaves the ground beside the run', () => {
    const device = sampleDevice({ lastInstant: 9, blocks: [{ begin: 0, size: 512 }] });
    const sweep = new Sweep();
    sweep.run(new Levels(device.blocks), { from: -10, to: 19, columns: 30, rows: 1, bytesPerRow: 512, lastInstant: 9 });
    const shown = Array.from(sweep.pixels.subarray(0, 30), (pixel) => (pixel === GROUND ? '.' : '#')).join('');
    expect(shown).toBe('..........##########..........');
  });

  it('keeps the same blocks from frame to frame, with buffers used again', () => {
    const roll = dice(7), lastInstant = 5000;
    const { blocks } = sampleDevice({ lastInstant, blocks: someBlocks(roll, 4000, lastInstant) });
    const levels = new Levels(blocks), used = new Sweep();
    for (let i = 0; i < 40; i++) {
      const from = roll(lastInstant), frame = {
        from, to: from + roll(lastInstant), columns: 64 + roll(64), rows: 48 + roll(32), bytesPerRow: 8192, lastInstant,
      };
      const fresh = new Sweep();
      used.run(levels, frame);
      fresh.run(levels, frame);
      expect(used.pixels.subarray(0, frame.columns * frame.rows)).toEqual(fresh.pixels);
    }
  });

  it('draws a long run whole and zoomed', () => {
    // 100,000 blocks over 200,000 events: some stay, most go at once.
    const roll = dice(3), count = 100_000, lastInstant = 2 * count, blocks: SampleBlock[] = [];
    for (let i = 0; i < count; i++) {
      const end = 2 * i + 1 + (i % 50 === 0 ? roll(40_000) : roll(30));
      blocks.push({ begin: 2 * i, size: 512 * (1 + roll(64)), ...(end <= lastInstant ? { end } : {}) });
    }
    const device = sampleDevice({ lastInstant, blocks }), levels = new Levels(device.blocks), sweep = new Sweep();
    const colours = new Int32Array(2 * count + 2).fill(1);
    colours[GROUND] = 0;
    for (const width of [lastInstant, 20_000, 1000, 40]) {
      const columns = 400, rows = 200, from = 100_000 - width / 2;
      const frame = { from, to: from + width, columns, rows, bytesPerRow: device.header.peak_live_bytes / rows, lastInstant };
      sweep.run(levels, frame);
      const image = new Int32Array(columns * rows);
      colourImage(sweep, colours, image);
      const instant = sweep.instants[columns / 2]!;
      let height = 0;
      for (let i = 0; i < count; i++)
        if (device.blocks.begin[i]! <= instant && device.blocks.end[i]! > instant) height += device.blocks.size[i]!;
      let filled = 0;
      for (let y = 0; y < rows; y++) filled += image[y * columns + columns / 2]!;
      expect(filled).toBe(Math.floor(height / frame.bytesPerRow + 0.5));
    }
  });
});

describe('what is under a pixel', () => {
  it('is the block painted there', () => {
    const device = sampleDevice({ lastInstant: 3, blocks: [{ begin: 0, size: 1024 }, { begin: 1, end: 3, size: 2048 }] });
    const sweep = new Sweep();
    sweep.run(new Levels(device.blocks), { from: 0, to: 3, columns: 4, rows: 8, bytesPerRow: 512, lastInstant: 3 });
    const under = (x: number, row: number): number | null => blockOf(sweep.at(x, row));
    expect([under(0, 0), under(0, 2), under(1, 2), under(2, 5), under(2, 6), under(3, 2)]).toEqual([0, null, 1, 1, null, null]);
    expect([under(-1, 0), under(4, 0), under(0, -1), under(0, 8)]).toEqual([null, null, null, null]);
    expect(sweep.at(2, 5)).toBe(pixelOf(1, true));
  });
});

describe('the levels', () => {
  it('hold in both orders just the blocks that are live at a multiple', () => {
    const roll = dice(11), lastInstant = 400;
    const { blocks } = sampleDevice({ lastInstant, blocks: someBlocks(roll, 300, lastInstant) });
    const levels = new Levels(blocks);
    for (const wanted of [3, 1, 0, 7, 5, 30]) {
      const level = levels.at(wanted);
      const ids = Array.from({ length: level.count }, (_, place) => level.block?.[place] ?? place);
      if (wanted < 8)
        expect(ids).toEqual(Array.from({ length: blocks.count }, (_, i) => i).filter((i) => blocks.level[i]! >= wanted));
      const ends = Array.from(level.byEnd, (place) => level.end[place]!);
      expect(ends).toEqual(Array.from(level.end).sort((a, b) => a - b));
      expect(new Set(level.byEnd).size).toBe(level.count);
      expect(firstAbove(level.end, 200, level.byEnd)).toBe(ends.filter((end) => end <= 200).length);
    }
  });
});
