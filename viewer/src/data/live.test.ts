import { describe, expect, it } from 'vitest';
import { Highest } from './live';

describe('the highest of a range', () => {
  it('is that of looking at each', () => {
    const values = Float64Array.from({ length: 37 }, (_, i) => (i * 7919) % 101);
    const highest = new Highest(values);
    for (let from = 0; from < 37; from++)
      for (let to = from; to < 37; to++)
        expect(highest.over(from, to)).toBe(Math.max(...values.subarray(from, to + 1)));
  });

  it('is kept to what there is', () => {
    const highest = new Highest(Float64Array.of(3, 1));
    expect(highest.over(-5, 90)).toBe(3);
    expect(highest.over(1, 90)).toBe(1);
  });
});
