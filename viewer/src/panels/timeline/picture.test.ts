import { describe, expect, it } from 'vitest';
import { Highest, liveLine } from '../../data/live';
import type { Mark } from '../../data/header';
import { sampleDevice, sampleRun } from '../../testing/model';
import { coveredBy } from '../../picture/columns';
import { eventsIn } from './events';
import { cornersOf, highestLive, highestOfLine } from './lines';
import { groupAt, groupsOf, markText } from './marks';
import { shortened } from './pen';
import { instantAt, plotIn, xOf, yOf } from './plot';
import { exactBytes, lifeOf, pictureWords, rangeWords, waitOf } from './words';

const LANES = { hasTime: false, hasSteps: false };

describe('the plot', () => {
  it('has every place where it came from', () => {
    const plot = plotIn(900, 500, LANES, { from: 120.5, to: 480 }, 4096);
    for (const instant of [120.5, 121, 300.25, 481]) expect(instantAt(plot, xOf(plot, instant))).toBeCloseTo(instant, 9);
    expect(xOf(plot, plot.to + 1)).toBe(plot.left + plot.width);
    expect(yOf(plot, 0)).toBe(plot.top + plot.height);
    expect(yOf(plot, 4096)).toBe(plot.top);
  });

  it('is never without a size', () => {
    const plot = plotIn(10, 10, LANES, { from: 0, to: 0 }, 512);
    expect(Math.min(plot.width, plot.height)).toBe(1);
  });
});

describe('lines', () => {
  const lastInstant = 500;
  const blocks = Array.from({ length: 120 }, (_, i) => ({ begin: 4 * i, end: 4 * i + 1 + ((i * 37) % 90), size: 512 * (1 + ((i * 13) % 50)) }));
  const device = sampleDevice({ lastInstant, blocks: blocks.map((block) => (block.end > lastInstant ? { begin: block.begin, size: block.size } : block)), reserved: [[0, 100], [7, 900], [8, 300], [250, 700], [499, 50]] });
  const live = liveLine(device.blocks, lastInstant);

  it('show the highest of each column, however short it was', () => {
    const range = { from: -20.5, to: 510 }, values = highestLive(new Highest(live), range, 60, lastInstant);
    values.forEach((value, x) => {
      const [first, last] = coveredBy(range, 60, x);
      const there = Array.from(live.subarray(Math.max(0, first), Math.max(0, last + 1)));
      if (there.length === 0) expect(value).toBeNaN();
      else expect(value).toBe(Math.max(...there));
    });
  });

  it('of steps do so too', () => {
    const at = (instant: number): number => (instant < 7 ? 100 : instant < 8 ? 900 : instant < 250 ? 300 : instant < 499 ? 700 : 50);
    for (const range of [{ from: 0, to: 500 }, { from: -30, to: 40 }, { from: 5.25, to: 12 }, { from: 240, to: 700 }])
      highestOfLine(device.reserved, range, 25, lastInstant).forEach((value, x) => {
        const [first, last] = coveredBy(range, 25, x), there: number[] = [];
        for (let k = Math.max(0, first); k <= Math.min(lastInstant, last); k++) there.push(at(k));
        if (there.length === 0) expect(value).toBeNaN();
        else expect(value).toBe(Math.max(...there));
      });
  });

  it('are corners, and break where there is nothing', () => {
    const plot = { ...plotIn(900, 500, LANES, { from: 0, to: 3 }, 100), left: 0, top: 0, width: 6, height: 100 };
    expect(cornersOf(Float64Array.of(10, 10, 40, NaN, 20, 20), plot)).toEqual([
      [[0, 90], [2, 90], [2, 60], [3, 60]],
      [[4, 80], [6, 80]],
    ]);
  });
});

describe('marks', () => {
  const mark = (kind: Mark['kind'], instant: number, text: string | null = null): Mark => ({ kind, instant, text, bytes: null });
  const marks = [mark('annotation', 100, 'one'), mark('oom', 101), mark('retry', 102), mark('empty-cache', 900)];

  it('near to each other are one, that shows the worst', () => {
    const plot = plotIn(680, 400, LANES, { from: 0, to: 999 }, 512), groups = groupsOf(marks, plot);
    expect(groups.map((group) => [group.shown.kind, group.marks.length])).toEqual([['oom', 3], ['empty-cache', 1]]);
    expect(groupAt(groups, plot, xOf(plot, 101) + 3, plot.top - 10)).toBe(groups[0]);
    expect(groupAt(groups, plot, xOf(plot, 500), plot.top - 10)).toBeNull();
    expect(groupAt(groups, plot, xOf(plot, 101), plot.top + 10)).toBeNull();
  });

  it('come apart when zoomed in, and those outside are left out', () => {
    const plot = plotIn(680, 400, LANES, { from: 98, to: 107 }, 512);
    expect(groupsOf(marks, plot).map((group) => group.shown.kind)).toEqual(['annotation', 'oom', 'retry']);
  });

  it('stay grouped as they are while one moves', () => {
    const many = Array.from({ length: 300 }, (_, i) => mark('annotation', 7 * i));
    const inside = (from: number): string[] =>
      groupsOf(many, plotIn(680, 400, LANES, { from, to: from + 999 }, 512)).slice(2, -2).map((group) => group.marks.map(({ instant }) => instant).join());
    const before = inside(200), after = new Set(inside(203.5));
    expect(before.filter((group) => after.has(group)).length).toBeGreaterThan(before.length - 3);
  });

  it('say what they are', () => {
    expect(markText({ kind: 'oom', instant: 1200, text: null, bytes: 2 * 1024 ** 2 })).toBe('out of memory: 2.00 MiB (event 1,199)');
    expect(markText(mark('annotation', 3, '<b>step</b>'))).toBe('annotation: <b>step</b> (event 2)');
  });
});

describe('single events', () => {
  it('are named', () => {
    const run = sampleRun({
      lastInstant: 6,
      blocks: [
        { begin: 0, end: 5, freed: 4, size: 1024 ** 2 },
        { begin: 2, end: 3, size: 512, stack: 0 },
      ],
      pieces: [{ begin: 1, address: 0, size: 2 * 1024 ** 2 }],
      stacks: [{ frames: [{ functionName: 'f', file: 'm.py', line: 3 }] }],
      marks: [{ kind: 'snapshot', instant: 6, bytes: null, text: null }],
    });
    const told = eventsIn(run.devices[0]!, run.stacks, 0, 6).map(({ instant, what, size, where }) => [instant, what, size, where].join('|'));
    expect(told).toEqual([
      '1|reserve|2.00 MiB|',
      '2|alloc|512 B|m.py:3 f',
      '3|free|512 B|m.py:3 f',
      '4|free requested|1.00 MiB|no stack was recorded',
      '5|free|1.00 MiB|no stack was recorded',
      '6|snapshot||',
    ]);
    expect(eventsIn(run.devices[0]!, run.stacks, 3, 4).map(({ instant }) => instant)).toEqual([3, 4]);
  });
});

describe('words', () => {
  const device = sampleDevice({
    lastInstant: 2000,
    blocks: [{ begin: 0, size: 512 }, { begin: 10, end: 25, freed: 20, size: 3 * 1024 ** 2 }, { begin: 30, end: 32, freed: 31, size: 512 }],
    stepEnds: [20, 40],
    limitBytes: 1024 ** 3,
  });

  it('tell a life', () => {
    expect(lifeOf(device, 0)).toBe('there at the beginning, lives to the end, steps 1 to 3');
    expect(lifeOf(device, 1)).toBe('from event 9, freed at event 24 (after 15), steps 1 to 2');
    expect(lifeOf(device, 2)).toBe('from event 29, freed at event 31 (after 2), within step 2');
    expect([0, 1, 2].map((block) => waitOf(device, block) !== null)).toEqual([false, true, false]);
    expect(exactBytes(3 * 1024 ** 2)).toBe('3.00 MiB (3,145,728 bytes)');
    expect(exactBytes(512)).toBe('512 B');
  });

  it('tell what is seen', () => {
    expect(rangeWords(device, { from: 0, to: 2000 })).toBe('all 2,000 events');
    expect(rangeWords(device, { from: 3.2, to: 99.9 })).toBe('events 2 to 99');
    const words = pictureWords(device, new Highest(liveLine(device.blocks, 2000)), { from: 0, to: 2000 });
    expect(words).toContain('GPU 0, all 2,000 events. The most that is live is 3.00 MiB, at event 9. The limit is');
  });

  it('are shortened in the middle', () => {
    const pen = { widthOf: (text: string): number => text.length };
    expect(shortened(pen, 'train.py:50 lm_step', 40)).toBe('train.py:50 lm_step');
    expect(shortened(pen, 'train.py:50 lm_step', 9)).toBe('trai…step');
    expect(shortened(pen, 'train.py:50 lm_step', 1)).toBe('');
  });
});
