import { describe, expect, it } from 'vitest';
import { sampleDevice } from '../../testing/model';
import { align, alignmentsOf, instantOfStep, type AlignBy } from './align';

const before = sampleDevice({ lastInstant: 100, blocks: [], stepEnds: [10, 50, 90] });
const after = sampleDevice({ lastInstant: 40, blocks: [], stepEnds: [20, 30] });
const bare = sampleDevice({ lastInstant: 40, blocks: [] });

describe('two runs over one axis', () => {
  it('by share both have the whole of it', () => {
    const share = align('share', [before, after]);
    expect([0, 50, 100].map((at) => [share.instantAt(0, at), share.instantAt(1, at)])).toEqual([[0, 0], [50, 20], [100, 40]]);
  });

  it('by events the shorter one is over earlier', () => {
    const events = align('events', [before, after]);
    expect(events.end).toBe(100);
    expect([40, 41].map((at) => events.instantAt(1, at))).toEqual([40, null]);
    expect(events.instantAt(0, 41)).toBe(41);
  });

  it('by steps the ends of steps lie over each other', () => {
    const steps = align('steps', [before, after]);
    expect(steps.end).toBe(3);
    expect([0, 1, 2, 3].map((at) => steps.instantAt(0, at))).toEqual([0, 10, 50, 90]);
    expect([0, 1, 2, 2.5].map((at) => steps.instantAt(1, at))).toEqual([0, 20, 30, null]);
    expect(instantOfStep(before.stepEnds, 1.5)).toBe(30);
  });

  it('leads back from an instant', () => {
    const places = (by: AlignBy, ...instants: number[]) => instants.map((instant) => align(by, [before, after]).placeOf(0, instant));
    expect(places('share', 0, 50, 100)).toEqual([0, 50, 100]);
    expect(places('events', 7)).toEqual([7]);
    expect(places('steps', 0, 10, 30, 90, 91)).toEqual([0, 1, 1.5, 3, null]);
  });

  it('has steps only where both have them', () => {
    expect(alignmentsOf([before, after])).toContain('steps');
    expect(alignmentsOf([before, bare])).toEqual(['share', 'events']);
  });
});
