import { describe, expect, it } from 'vitest';
import { sampleRun } from '../testing/model';
import { groupRows, GROUPINGS, rowsAsText, sortRows, totalOf, usageByStack, type Row } from './groups';
import { liveLine } from './live';
import { NONE } from './model';
import { parseSearch } from './search';

const linear = { functionName: '__init__', file: '/lib/torch/linear.py', line: 96 };
const build = { functionName: 'build', file: '/me/model.py', line: 10 };
const step = { functionName: 'step', file: '/me/train.py', line: 20 };
const loss = { functionName: 'step', file: '/me/train.py', line: 31 };

const run = sampleRun({
  lastInstant: 10,
  blocks: [
    { begin: 0, size: 1024, stack: 0 },
    { begin: 1, size: 2048, stack: 1 },
    { begin: 2, end: 6, size: 4096, stack: 2 },
    { begin: 2, end: 5, size: 512, stack: 2 },
    { begin: 3, end: 4, size: 512 },
    { begin: 7, size: 100 * 512, end: 8, stack: 3 },
    { begin: 7, size: 512, end: 9, stack: 77 }, // a stack that is not there
  ],
  stacks: [
    { category: 'weights', frames: [linear, build], where: 1 },
    { category: 'weights', frames: [linear, build, step], where: 1 },
    { category: 'activations', frames: [step], where: 0 },
    { category: 'backward', frames: [loss, step], where: 0 },
  ],
});
const { stacks } = run, device = run.devices[0]!;

describe('usage by stack', () => {
  it('adds up to what is live, at every instant', () => {
    const live = liveLine(device.blocks, device.lastInstant);
    for (let instant = 0; instant <= 10; instant++)
      expect(totalOf(usageByStack(device, stacks, 'cursor', instant)).bytes).toBe(live[instant]);
  });

  it('at the peak is the peak of the statistics', () => {
    expect(totalOf(usageByStack(device, stacks, 'peak', 0)).bytes).toBe(device.header.peak_live_bytes);
  });

  it('of the whole run is everything that was allocated', () => {
    const usages = usageByStack(device, stacks, 'run', 0);
    expect(totalOf(usages)).toEqual({ bytes: 1024 + 2048 + 4096 + 512 + 512 + 51200 + 512, blocks: 7 });
    expect(usages[0]).toEqual({ stack: 3, bytes: 51200, blocks: 1, largest: 51200 });
    expect(usages.find((usage) => usage.stack === NONE)).toEqual({ stack: NONE, bytes: 1024, blocks: 2, largest: 512 });
  });

  it('is by falling bytes, and a cursor outside is brought inside', () => {
    const usages = usageByStack(device, stacks, 'cursor', 3);
    expect(usages.map((usage) => usage.stack)).toEqual([2, 1, 0, NONE]);
    expect(usages[0]).toEqual({ stack: 2, bytes: 4608, blocks: 2, largest: 4096 });
    expect(usageByStack(device, stacks, 'cursor', 99)).toEqual(usageByStack(device, stacks, 'cursor', 10));
  });

  it('counts only the blocks that are searched for', () => {
    const only = (text: string): number => totalOf(usageByStack(device, stacks, 'cursor', 3, parseSearch(text))).bytes;
    expect(only('>1k')).toBe(2048 + 4096);
    expect(only('build')).toBe(1024 + 2048);
    expect(only('train.py:20 <1k')).toBe(512);
    expect(only('nothing')).toBe(0);
  });
});

describe('rows', () => {
  const usages = usageByStack(device, stacks, 'run', 0);
  const rows = (grouping: (typeof GROUPINGS)[number]): Row[] => groupRows(usages, stacks, grouping);

  it('have the same total, however they are grouped', () => {
    for (const grouping of GROUPINGS) expect(totalOf(rows(grouping))).toEqual(totalOf(usages));
  });

  it('join what is the same line, function, file or category', () => {
    expect(rows('stack')).toHaveLength(5);
    expect(rows('where').map((row) => row.where)).toEqual([
      'train.py:31 step',
      'train.py:20 step',
      'model.py:10 build',
      'no stack was recorded',
    ]);
    expect(rows('function').map((row) => [row.where, row.bytes])).toEqual([
      ['step', 51200 + 4608],
      ['build', 3072],
      ['no stack was recorded', 1024],
    ]);
    expect(rows('file').map((row) => [row.file, row.where])).toEqual([
      ['/me/train.py', '2 places'],
      ['/me/model.py', 'model.py:10 build'],
      ['', 'no stack was recorded'],
    ]);
    expect(rows('category').map((row) => [row.category, row.bytes])).toEqual([
      ['backward', 51200],
      ['activations', 4608],
      ['weights', 3072],
      ['unknown', 1024],
    ]);
  });

  it('have the category of most of their bytes, and the largest block', () => {
    const step = rows('function')[0]!;
    expect([step.category, step.largest, step.blocks]).toEqual(['backward', 51200, 3]);
  });

  it('sort by every column, both ways', () => {
    const sorted = (column: Parameters<typeof sortRows>[1], isFalling: boolean): string[] =>
      sortRows(rows('where'), column, isFalling).map((row) => row.where.split(' ')[0]!);
    expect(sorted('bytes', true)).toEqual(['train.py:31', 'train.py:20', 'model.py:10', 'no']);
    expect(sorted('share', false)).toEqual(['no', 'model.py:10', 'train.py:20', 'train.py:31']);
    expect(sorted('blocks', true)[3]).toBe('train.py:31');
    expect(sorted('largest', false)[0]).toBe('no');
    expect(sorted('category', false)).toEqual(['train.py:20', 'train.py:31', 'no', 'model.py:10']);
    expect(sorted('where', false)).toEqual(['model.py:10', 'no', 'train.py:20', 'train.py:31']);
    expect(sorted('file', true)).toEqual(['train.py:31', 'train.py:20', 'model.py:10', 'no']);
  });
});

describe('rows with frames hidden', () => {
  const lib = (line: number) => ({ functionName: 'forward', file: '/lib/torch/x.py', line });
  const mine = { functionName: 'step', file: '/me/train.py', line: 20 };
  const run = sampleRun({
    lastInstant: 1,
    blocks: [{ begin: 0, size: 2048, stack: 0 }, { begin: 0, size: 512, stack: 1 }, { begin: 0, size: 256, stack: 2 }, { begin: 0, size: 128 }],
    stacks: [
      { frames: [lib(1), mine], where: 1, library: [0], category: 'activations' },
      { frames: [lib(2), mine], where: 1, library: [0], category: 'activations' },
      { frames: [lib(3), mine], where: 1, library: [0], category: 'optimizer' },
    ],
  });
  // Frames are numbered where they stand in the sample: the last of each stack is the same one.
  const shown = { ...run.stacks.usersOnly(), frameIdsOf: (stack: number) => (stack < 3 ? Uint32Array.of(1) : new Uint32Array(0)) };
  const usages = usageByStack(run.devices[0]!, run.stacks, 'cursor', 0);

  it('are one where what is left is the same, and the category too', () => {
    expect(groupRows(usages, run.stacks, 'stack').map((row) => row.bytes)).toEqual([2048, 512, 256, 128]);
    const rows = groupRows(usages, run.stacks, 'stack', shown);
    expect(rows.map((row) => [row.key, row.bytes])).toEqual([['0', 2560], ['2', 256], [String(NONE), 128]]);
  });
});

describe('rows as text', () => {
  const row = (where: string): Row => ({ key: '', bytes: 1536, blocks: 1, largest: 1536, category: 'other', where, file: '/a b.py', usages: [] });

  it('are quoted for a comma, and kept on their line for a tabulator', () => {
    expect(rowsAsText([row('f<a, "b">')], 3072, ',', new Map()).split('\n')[1]).toBe('1536,50.000,1,1536,other,"f<a, ""b"">",,/a b.py');
    expect(rowsAsText([row('f\n\tg')], 3072, '\t', new Map()).split('\n')[1]).toBe('1536\t50.000\t1\t1536\tother\tf  g\t\t/a b.py');
  });

  it('cannot become a formula', () => {
    expect(rowsAsText([row('=cmd()')], 0, ',', new Map())).toContain(",'=cmd(),");
    expect(rowsAsText([row('-1+2')], 0, '\t', new Map())).toContain("\t'-1+2\t");
  });
});
