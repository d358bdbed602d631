import { describe, expect, it } from 'vitest';
import { Highest } from '../data/live';
import { columnAt, columnStarts, highestOfLine, highestOfValues } from './thin';

const line = (points: [number, number][]) => ({
  instant: Uint32Array.from(points.map(([at]) => at)),
  bytes: Float64Array.from(points.map(([, value]) => value)),
});

describe('columns', () => {
  it('are the instants themselves where there is room', () => {
    expect(columnStarts(3, 6, 100)).toEqual([3, 4, 5, 6]);
    expect(columnStarts(5, 5, 100)).toEqual([5]);
  });

  it('are no more than there are pixels, and rise', () => {
    const starts = columnStarts(0, 1_000_003, 700);
    expect(starts).toHaveLength(701);
    expect(starts[700]).toBe(1_000_003);
    expect(starts.every((at, i) => Number.isInteger(at) && (i === 0 || at > starts[i - 1]!))).toBe(true);
  });

  it('may lie between whole numbers', () => {
    expect(columnStarts(0, 1, 4, false)).toEqual([0, 0.25, 0.5, 0.75, 1]);
  });

  it('are found by a place', () => {
    expect([-1, 0, 4, 5, 9, 50].map((at) => columnAt([0, 5, 10], at))).toEqual([0, 0, 0, 1, 1, 2]);
  });
});

describe('thinning', () => {
  const values = Float64Array.from({ length: 10_001 }, (_, i) => (i === 7_777 ? 900 : i % 10));

  it('keeps a peak of one instant', () => {
    const thin = highestOfValues(new Highest(values), columnStarts(0, 10_000, 37));
    expect(Math.max(...thin.map((value) => value ?? 0))).toBe(900);
    expect(thin.filter((value) => value === 900)).toHaveLength(1);
  });

  it('of a step function keeps what lies between two columns, and no instant counts twice', () => {
    const steps = line([[0, 1], [4, 50], [5, 2], [9, 3]]);
    expect(highestOfLine(steps, [0, 3, 6, 9])).toEqual([1, 50, 2, 3]);
    expect(highestOfLine(steps, [5, 6])).toEqual([2, 2]);
  });

  it('is the same for a line of points and for all its values', () => {
    const points: [number, number][] = [];
    const all = Float64Array.from({ length: 501 }, () => 0);
    let value = 0;
    for (let i = 0; i <= 500; i++) {
      if (i % 7 === 0 || i % 11 === 0) points.push([i, (value = (i * 7919) % 101)]);
      all[i] = value;
    }
    for (const [from, to, width] of [[0, 500, 40], [13, 333, 17], [100, 104, 40]] as const) {
      const starts = columnStarts(from, to, width);
      expect(highestOfLine(line(points), starts)).toEqual(highestOfValues(new Highest(all), starts));
    }
  });

  it('ends where the line ends, and where a run is over', () => {
    expect(highestOfLine(line([[0, 1], [4, 5]]), [0, 2, 4, 6], 4)).toEqual([1, 1, 5, null]);
    expect(highestOfLine(line([[0, 1], [4, 5]]), [0, 4, null, null])).toEqual([1, 5, null, null]);
    expect(highestOfLine(line([]), [0, 1])).toEqual([null, null]);
    expect(highestOfValues(new Highest(values), [0, null])).toEqual([0, null]);
  });
});
