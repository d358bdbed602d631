import { describe, expect, it } from 'vitest';
import { growing, grows, median, stepsUntilFull } from './slope';

const steps = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

describe('the slope of growth', () => {
  it('is exact on a straight line, whatever the distance of samples', () => {
    expect(growing([0, 10, 30, 31], [5, 105, 305, 315])).toEqual({ perStep: 10, rising: 1 });
  });

  it('is not moved by a few odd steps', () => {
    const bytes = steps(60).map((i) => 100 * i);
    bytes[7] = 1e9;
    bytes[40] = 0;
    expect(growing(steps(60), bytes).perStep).toBeCloseTo(100, 6);
  });

  it('is 0 of what came once and stayed', () => {
    const one = growing(steps(20), steps(20).map((i) => (i === 0 ? 0 : 5000)));
    expect(one.perStep).toBe(0);
    expect(grows(one)).toBe(false);
  });

  it('does not call ups and downs growth', () => {
    expect(grows(growing(steps(40), steps(40).map((i) => 1000 + 500 * (i % 2) + ((i * 37) % 11))))).toBe(false);
    expect(grows(growing(steps(40), steps(40).map((i) => 4000 - i)))).toBe(false);
  });

  it('calls growth with noise growth', () => {
    const one = growing(steps(300), steps(300).map((i) => 1000 * i + ((i * 7919) % 5000)));
    expect(grows(one)).toBe(true);
    expect(one.perStep).toBeGreaterThan(950);
    expect(one.perStep).toBeLessThan(1050);
  });

  it('of too few samples is none', () => {
    expect(growing([], [])).toEqual({ perStep: 0, rising: 0 });
    expect(growing([3], [7])).toEqual({ perStep: 0, rising: 0 });
    expect(growing([3, 3], [7, 9])).toEqual({ perStep: 0, rising: 0 });
  });
});

it('the median of an even number lies between the two in the middle', () => {
  expect(median(Float64Array.of(4, 1, 3, 2))).toBe(2.5);
  expect(median(Float64Array.of(10, -1, 3))).toBe(3);
});

it('a card is full when the room is used up', () => {
  expect(stepsUntilFull(1000, 400, 100)).toBe(6);
  expect(stepsUntilFull(1000, 1200, 100)).toBe(0);
  expect(stepsUntilFull(1000, 400, 0)).toBeNull();
});
