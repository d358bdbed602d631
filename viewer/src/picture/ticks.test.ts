import { describe, expect, it } from 'vitest';
import { byteTicks, instantTicks, roundStep, stepOf, stepTicks, timeText } from './ticks';

const texts = (ticks: { text: string }[]): string[] => ticks.map((tick) => tick.text);

describe('ticks of bytes', () => {
  it('are powers of two apart', () => {
    expect(texts(byteTicks(7.5 * 1024 ** 3, 8))).toEqual(['0', '1 GiB', '2 GiB', '3 GiB', '4 GiB', '5 GiB', '6 GiB', '7 GiB']);
    expect(texts(byteTicks(1.8 * 1024 ** 3, 4))).toEqual(['0', '512 MiB', '1 GiB', '1.5 GiB']);
    expect(texts(byteTicks(1000, 4))).toEqual(['0', '256 B', '512 B', '768 B']);
  });

  it('are never more than asked for, but for 0', () => {
    for (const highest of [1, 511, 513, 1e6, 3e9, 8e10, 1e15])
      for (const most of [1, 2, 5, 9]) expect(byteTicks(highest, most).length).toBeLessThanOrEqual(most + 1);
    expect(texts(byteTicks(0, 5))).toEqual(['0']);
  });
});

describe('ticks of instants', () => {
  it('are round numbers in the range', () => {
    expect(texts(instantTicks({ from: 0, to: 440_000 }, 6))).toEqual(['0', '100,000', '200,000', '300,000', '400,000']);
    expect(texts(instantTicks({ from: 12.4, to: 19.4 }, 9))).toEqual(['13', '14', '15', '16', '17', '18', '19', '20']);
  });

  it('have steps of 1, 2 or 5', () => {
    expect([0.2, 1, 1.5, 3, 6, 11, 49, 51, 1000].map(roundStep)).toEqual([1, 1, 2, 5, 10, 20, 50, 100, 1000]);
  });
});

describe('times', () => {
  it('have the digits that tell ticks apart', () => {
    expect(timeText(586_901, 1)).toBe('586.901 ms');
    expect(timeText(586_940, 40)).toBe('586.94 ms');
    expect(timeText(586_940, 5000)).toBe('587 ms');
    expect(timeText(12_345_678, 100)).toBe('12.3457 s');
    expect(timeText(640, 0.5)).toBe('640 us');
    expect(timeText(0, 1)).toBe('0 s');
    expect(timeText(90_000_000, 1)).toBe('1 min 30 s');
    expect(timeText(1_230_000_000, 1_000_000)).toBe('20 min 30 s');
    expect(timeText(1_230_000_000, 60_000_000)).toBe('20 min');
  });
});

describe('ends of steps', () => {
  const ends = Uint32Array.from({ length: 100 }, (_, i) => 10 * (i + 1));

  it('are all there where there is room, with their numbers', () => {
    expect(stepTicks(ends, { from: 15, to: 45 }, 10)).toEqual([
      { value: 20, text: '2' }, { value: 30, text: '3' }, { value: 40, text: '4' },
    ]);
  });

  it('are thinned where they are dense, and stay the same ones when moved', () => {
    const one = texts(stepTicks(ends, { from: 0, to: 999 }, 10)), other = texts(stepTicks(ends, { from: 7, to: 1006 }, 10));
    expect(one).toEqual(['10', '20', '30', '40', '50', '60', '70', '80', '90', '100']);
    expect(other).toEqual(one);
  });

  it('say which step an instant is in', () => {
    expect([stepOf(ends, 0), stepOf(ends, 10), stepOf(ends, 11), stepOf(ends, 5000)]).toEqual([1, 1, 2, 101]);
  });
});
