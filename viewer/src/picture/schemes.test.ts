import { describe, expect, it } from 'vitest';
import { COLOURS } from '../app/state';
import { NONE } from '../data/model';
import { DISTINCT, NEUTRAL, packed } from '../look/palette';
import { sampleRun, type SampleStack } from '../testing/model';
import { colourTable, cssOf } from './paint';
import { largestStacks, makeScheme, namesOf } from './schemes';
import { GROUND, pixelOf } from './sweep';

const stacks: SampleStack[] = Array.from({ length: 40 }, (_, i) => ({
  category: i % 2 === 0 ? 'weights' : 'activations',
  frames: [{ functionName: `f${i}`, file: 'model.py', line: i + 1 }],
}));
const run = sampleRun({
  lastInstant: 1000,
  blocks: [
    { begin: 0, size: 512, stack: 3 },
    { begin: 0, end: 700, size: 4 * 1024 ** 2, stack: 5, stream: 1 },
    { begin: 1, end: 9, size: 1024, stack: 7 },
    { begin: 2, size: 2 * 1024 ** 3 },
  ],
  stacks,
});
const device = run.devices[0]!;

describe('colours by stack', () => {
  it('give the largest at the peak the first ones', () => {
    const scheme = makeScheme('stack', run, device);
    expect(largestStacks(device, device.header.peak_instant)).toEqual([NONE, 5, 7, 3]);
    expect([5, 7, 3].map((stack) => scheme.colourOf(stack))).toEqual(DISTINCT.slice(0, 3));
    expect(scheme.colourOf(NONE)).toBe(NEUTRAL);
  });

  it('name those of the failure too, where the peak was another', () => {
    const dead = sampleRun({
      lastInstant: 20,
      blocks: [
        { begin: 1, end: 5, size: 4096, stack: 3 },
        { begin: 8, end: 15, size: 2048, stack: 9 },
      ],
      stacks,
      marks: [{ kind: 'oom', instant: 10, text: null, bytes: 512 }],
    });
    expect(makeScheme('stack', dead, dead.devices[0]!).keys).toEqual([3, 9]);
  });

  it('are the same each time, and differ for the others too', () => {
    const all = (): string[] => stacks.map((_, i) => makeScheme('stack', run, device).colourOf(i));
    expect(all()).toEqual(all());
    expect(new Set(all()).size).toBeGreaterThan(15);
    expect(all().every((colour) => /^#[0-9a-f]{6}$/.test(colour))).toBe(true);
  });

  it('follow what the frames are called, not their number', () => {
    const turned = sampleRun({ lastInstant: 10, blocks: [], stacks: [...stacks].reverse() });
    const one = makeScheme('stack', sampleRun({ lastInstant: 10, blocks: [], stacks }), device);
    const other = makeScheme('stack', turned, turned.devices[0]!);
    expect(other.colourOf(stacks.length - 1 - 20)).toBe(one.colourOf(20));
  });
});

describe('names of stacks', () => {
  it('tell those apart that share a place', () => {
    const place = { functionName: 'train', file: 'train.py', line: 5 };
    const inner = (line: number): SampleStack => ({ frames: [{ functionName: 'activations', file: 'lib.py', line }, place], where: 1 });
    const { stacks } = sampleRun({ lastInstant: 1, blocks: [], stacks: [inner(7), inner(8), inner(8), { frames: [place] }] });
    expect([...namesOf(stacks, [0, 1]).values()]).toEqual(['train.py:5 train < lib.py:7', 'train.py:5 train < lib.py:8']);
    expect([...namesOf(stacks, [1, 2]).values()]).toEqual(['train.py:5 train < lib.py:8 (stack 1)', 'train.py:5 train < lib.py:8 (stack 2)']);
    expect([...namesOf(stacks, [3]).values()]).toEqual(['train.py:5 train']);
  });
});

describe('colours by other things', () => {
  it('name what they stand for', () => {
    const named = (colour: (typeof COLOURS)[number]): string[] => {
      const scheme = makeScheme(colour, run, device);
      return [0, 1, 2, 3].map((block) => scheme.nameOf(scheme.keyOf(block)));
    };
    expect(named('category')).toEqual(['activations', 'activations', 'activations', 'unknown']);
    expect(named('stream')).toEqual(['stream 0x0', 'stream 0x10', 'stream 0x0', 'stream 0x0']);
    expect(named('size')).toEqual(['up to 64 KiB', 'up to 16 MiB', 'up to 64 KiB', 'more than 1 GiB']);
    expect(named('age')).toEqual(['lives to the end', 'lives 1,000 events or less', 'lives 10 events or less', 'lives to the end']);
  });

  it('have each key of a block in the legend, but for small stacks', () => {
    for (const colour of COLOURS) {
      const scheme = makeScheme(colour, run, device);
      for (let block = 0; block < 3; block++) expect(scheme.keys).toContain(scheme.keyOf(block));
      expect(new Set(scheme.keys.map((key) => scheme.nameOf(key))).size).toBe(scheme.keys.length);
    }
  });
});

describe('the table of colours', () => {
  it('has each block, its edge darker, and the ground', () => {
    const scheme = makeScheme('stack', run, device);
    const table = colourTable(4, scheme, null, '#ffffff');
    expect(table[GROUND]).toBe(-1);
    expect(table[pixelOf(1, false)]).toBe(packed(DISTINCT[0]!) | 0);
    expect(table[pixelOf(1, true)]! & 255).toBeLessThanOrEqual(table[pixelOf(1, false)]! & 255);
    expect(table[pixelOf(1, true)]).not.toBe(table[pixelOf(1, false)]);
    expect(cssOf(table[pixelOf(1, false)]!)).toBe(DISTINCT[0]);
  });

  it('dims what is not lit', () => {
    const scheme = makeScheme('stack', run, device);
    const plain = colourTable(4, scheme, null, '#000000'), lit = colourTable(4, scheme, (block) => block === 1, '#000000');
    expect(lit[pixelOf(1, false)]).toBe(plain[pixelOf(1, false)]);
    for (const block of [0, 2, 3]) expect(lit[pixelOf(block, false)]).not.toBe(plain[pixelOf(block, false)]);
  });

  it('of no block is the ground alone', () => {
    expect(colourTable(0, makeScheme('size', run, device), null, '#000000').length).toBe(2);
  });
});
