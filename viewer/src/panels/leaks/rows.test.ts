import { describe, expect, it } from 'vitest';
import type { Device } from '../../data/model';
import { count } from '../../look/units';
import { sampleRun } from '../../testing/model';
import { fullText, growthPerStep, leakRows, sortLeaks, stepsUntilFull } from './rows';

const run = sampleRun({
  lastInstant: 9,
  blocks: [],
  stacks: [
    { frames: [{ file: '/lib/linear.py', line: 134, functionName: 'forward' }, { file: 'train.py', line: 5, functionName: 'main' }], where: 1, category: 'activations' },
    { frames: [{ file: 'a.py', line: 1, functionName: 'f' }], where: 0 },
    { frames: [{ file: 'b.py', line: 2, functionName: 'g' }], where: 0 },
  ],
});
const device: Device = {
  ...run.devices[0]!,
  growth: {
    step: Uint32Array.of(0, 1, 2),
    instant: Uint32Array.of(2, 4, 6),
    stack: Uint32Array.of(2, 0, 1),
    bytesPerStep: Float64Array.of(0, 10, 200),
    bytes: Float64Array.of(90, 10, 50, 10, 20, 30, 100, 300, 500),
    reason: null,
  },
};
const rows = leakRows(device, run.stacks);

describe('the rows of leaks', () => {
  it('have those that grow first, the fastest first', () => {
    expect(rows.map((row) => [row.stack, row.doesGrow, row.perStep])).toEqual([[1, true, 200], [0, true, 10], [2, false, 0]]);
    expect(rows[1]).toMatchObject({ label: 'train.py:5 main > linear.py:134', category: 'activations', first: 10, last: 30 });
    expect(rows[0]!.label).toBe('a.py:1 f');
    expect(growthPerStep(rows)).toBe(210);
  });

  it('sort by every column, both ways', () => {
    const order = (...by: [Parameters<typeof sortLeaks>[1], boolean]): number[] => sortLeaks(rows, ...by).map((row) => row.stack);
    expect(order('last', true)).toEqual([1, 2, 0]);
    expect(order('last', false)).toEqual([0, 2, 1]);
    expect(order('where', false)).toEqual([1, 2, 0]);
    expect(order('full', false)).toEqual([1, 0, 2]);
  });

  it('show the answer they are given, whatever the bytes look like', () => {
    const given = { ...device, growth: { ...device.growth, bytesPerStep: Float64Array.of(7, 0, 0) } };
    expect(leakRows(given, run.stacks).map((row) => [row.stack, row.doesGrow])).toEqual([[2, true], [1, false], [0, false]]);
  });

  it('say when a card is full', () => {
    expect(stepsUntilFull(1000, 400, 100)).toBe(6);
    expect(stepsUntilFull(1000, 400, 0)).toBeNull();
    expect(fullText(5000, 1000, 2, count)).toBe('in 2,000 steps');
    expect(fullText(1003, 1000, 2, count)).toBe('in 1 step');
    expect(fullText(900, 1000, 2, count)).toBe('now');
    expect(fullText(null, 1000, 2, count)).toBe('');
  });
});
