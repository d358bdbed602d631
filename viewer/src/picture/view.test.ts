import { describe, expect, it } from 'vitest';
import { coveredBy, levelFor, spanOf } from './columns';
import { between, centred, fitted, heightFor, heightOfRun, keyMove, LEAST_SPAN, neighbour, panned, pinched, wheelMove, zoomed } from './view';

const LAST = 999; // 1000 instants
const WHOLE = { from: 0, to: LAST };

describe('a range', () => {
  it('stays within the run and keeps its span', () => {
    expect(panned({ from: 100, to: 199 }, -500, LAST)).toEqual({ from: 0, to: 99 });
    expect(panned({ from: 100, to: 199 }, 5000, LAST)).toEqual({ from: 900, to: 999 });
    expect(panned({ from: 100, to: 199 }, 0.25, LAST)).toEqual({ from: 100.25, to: 199.25 });
    expect(fitted({ from: -50, to: 5000 }, LAST)).toEqual(WHOLE);
    expect(fitted({ from: 5, to: 5 }, 2)).toEqual({ from: 0, to: 2 });
    expect(fitted({ from: 0, to: 0 }, 0)).toEqual({ from: 0, to: 0 });
  });

  it('is zoomed around what is under the pointer', () => {
    for (const share of [0, 0.25, 0.9, 1]) {
      const before = { from: 200, to: 599 }, after = zoomed(before, 0.5, share, LAST);
      expect(spanOf(after)).toBe(200);
      expect(after.from + share * spanOf(after)).toBeCloseTo(before.from + share * spanOf(before), 9);
    }
    expect(zoomed(WHOLE, 3, 0.5, LAST)).toEqual(WHOLE);
    expect(spanOf(zoomed({ from: 10, to: 19 }, 0.01, 0.5, LAST))).toBe(LEAST_SPAN);
  });

  it('goes out to the whole run and in to a few events', () => {
    let range = WHOLE;
    for (let i = 0; i < 50; i++) range = zoomed(range, 0.7, 0.3, LAST);
    expect(spanOf(range)).toBe(LEAST_SPAN);
    for (let i = 0; i < 50; i++) range = zoomed(range, 1.5, 0.9, LAST);
    expect(range).toEqual(WHOLE);
  });

  it('is taken between two places, whichever came first', () => {
    expect(between(WHOLE, 0.6, 0.2, LAST)).toEqual({ from: 200, to: 599 });
    expect(between(WHOLE, -3, 0.1, LAST)).toEqual({ from: 0, to: 99 });
  });

  it('has an instant in its middle', () => {
    const range = centred({ from: 0, to: 99 }, 500, LAST);
    expect([range.from, range.to]).toEqual([450.5, 549.5]);
    expect(centred({ from: 0, to: 99 }, 3, LAST)).toEqual({ from: 0, to: 99 });
  });

  it('keeps what is under two fingers', () => {
    const before = { from: 100, to: 499 }, after = pinched(before, [0.25, 0.5], [0.25, 0.75], LAST);
    expect(spanOf(after)).toBe(200);
    expect(after.from + 0.25 * 200).toBe(before.from + 0.25 * 400);
    expect(pinched(before, [0.3, 0.3], [0.3, 0.9], LAST).to - 499).toBeLessThan(0);
  });
});

describe('columns', () => {
  it('cover every instant that is seen', () => {
    const range = { from: 3.5, to: 102.5 };
    let next = 3;
    for (let x = 0; x < 40; x++) {
      const [first, last] = coveredBy(range, 40, x);
      expect(first).toBeLessThanOrEqual(next);
      next = last + 1;
    }
    expect(next).toBeGreaterThanOrEqual(103);
  });

  it('are at most their width apart', () => {
    for (const span of [1, 99, 100, 150, 200, 399, 400, 12_345]) {
      const step = 2 ** levelFor({ from: 0, to: span - 1 }, 100);
      expect(step).toBeLessThanOrEqual(Math.max(1, span / 100));
      expect(2 * step).toBeGreaterThan(span / 100);
    }
  });
});

describe('wheel and keys', () => {
  const wheel = { deltaX: 0, deltaY: 0, deltaMode: 0, ctrlKey: false, shiftKey: false };
  it('zooms with the wheel, pans sideways and with shift', () => {
    const out = wheelMove({ ...wheel, deltaY: 100 }), into = wheelMove({ ...wheel, deltaY: -100 });
    if (out.kind !== 'zoom' || into.kind !== 'zoom') throw new Error('it did not zoom');
    expect(out.factor).toBeGreaterThan(1);
    expect(out.factor * into.factor).toBeCloseTo(1, 9);
    expect(wheelMove({ ...wheel, deltaX: 30, deltaY: 10 })).toEqual({ kind: 'pan', pixels: 30 });
    expect(wheelMove({ ...wheel, deltaY: 30, shiftKey: true })).toEqual({ kind: 'pan', pixels: 30 });
    expect(wheelMove({ ...wheel, deltaX: 3, deltaMode: 1 })).toEqual({ kind: 'pan', pixels: 48 });
    expect(wheelMove({ ...wheel, deltaX: 9, deltaY: 4, ctrlKey: true }).kind).toBe('zoom');
  });

  it('never leaps', () => {
    const move = wheelMove({ ...wheel, deltaY: -1e6, deltaMode: 2 });
    expect(move.kind === 'zoom' && move.factor > 0.5).toBe(true);
  });

  it('knows its keys, in either case', () => {
    expect(keyMove('A')).toEqual(keyMove('ArrowLeft'));
    expect(keyMove('w')).toEqual(keyMove('+'));
    expect(keyMove('0')).toEqual({ kind: 'whole' });
    expect(keyMove('P')).toEqual({ kind: 'peak' });
    expect(keyMove('Enter')).toEqual({ kind: 'pin', way: 'largest' });
    expect(keyMove('.')).toEqual({ kind: 'cursor', direction: 1 });
    expect(keyMove('x')).toBeNull();
  });

  it('goes from mark to mark', () => {
    expect(neighbour([3, 8, 8, 20], 8, 1)).toBe(20);
    expect(neighbour([3, 8, 8, 20], 8, -1)).toBe(3);
    expect(neighbour([3], 3, 1)).toBeNull();
  });
});

describe('the height', () => {
  it('takes in what is reserved and the limit when they are near', () => {
    expect(heightFor(1000, 0, null)).toBe(1040);
    expect(heightFor(1000, 1500, null)).toBe(1560);
    expect(heightFor(1000, 5000, null)).toBe(1040);
    expect(heightFor(1000, 1500, 2000)).toBe(2080);
    expect(heightFor(1000, 1100, 2000)).toBe(1144);
    expect(heightFor(0, 0, null)).toBeGreaterThan(0);
  });

  it('of a whole run has all that was reserved', () => {
    expect(heightOfRun(1000, 5000, null)).toBe(5200);
    expect(heightOfRun(1000, 5000, 10_000)).toBe(10_400);
    expect(heightOfRun(1000, 5000, 100_000)).toBe(5200);
  });
});
