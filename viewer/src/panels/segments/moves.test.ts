import { describe, expect, it } from 'vitest';
import { Highest, lineAt, liveLine } from '../../data/live';
import { sampleDevice } from '../../testing/model';
import { besideStep, failureOf, highestOfLine, instantAtPlace, moveByKey, placeOf, scrubColumns } from './moves';

const device = sampleDevice({
  lastInstant: 1000,
  blocks: [{ begin: 10, end: 11, size: 512 }, { begin: 500, size: 1024 }],
  reserved: [[0, 0], [10, 2048], [12, 1024], [900, 4096]],
  stepEnds: [100, 200, 300],
  marks: [
    { kind: 'retry', instant: 3, bytes: null, text: null },
    { kind: 'oom', instant: 900, bytes: 777, text: null },
  ],
});

describe('a key', () => {
  it('moves by an event, a step or more, and stays inside', () => {
    const move = (key: string, cursor: number, isShift = false) => moveByKey(device, cursor, key, isShift);
    expect([move('ArrowRight', 5), move('ArrowLeft', 5), move('ArrowLeft', 0), move('ArrowRight', 1000)]).toEqual([6, 4, 0, 1000]);
    expect([move('ArrowRight', 100, true), move('ArrowRight', 99, true), move('ArrowLeft', 100, true), move('ArrowLeft', 250, true)]).toEqual([200, 100, 0, 200]);
    expect(move('ArrowRight', 300, true)).toBe(1000);
    expect([move('PageDown', 5), move('PageUp', 5), move('Home', 5), move('End', 5), move('x', 5)]).toEqual([15, 0, 0, 1000, null]);
  });

  it('moves by a part of the run where no steps are known', () => {
    expect(besideStep(sampleDevice({ lastInstant: 5000, blocks: [] }), 100, 1)).toBe(150);
  });
});

describe('the picture of the whole run', () => {
  it('has the highest value of each column', () => {
    const live = liveLine(device.blocks, 1000), width = 37;
    const columns = scrubColumns(device, new Highest(live), width);
    const seen = new Float64Array(width), held = new Float64Array(width);
    for (let instant = 0; instant <= 1000; instant++) {
      const column = Math.floor((instant / 1001) * width);
      seen[column] = Math.max(seen[column]!, live[instant]!);
      held[column] = Math.max(held[column]!, lineAt(device.reserved, instant));
    }
    for (let column = 0; column < width; column++) expect(columns.live[column]).toBeGreaterThanOrEqual(seen[column]!);
    expect(Math.max(...columns.live)).toBe(Math.max(...seen));
    expect(Array.from(columns.reserved)).toEqual(Array.from(held));
    expect(columns.top).toBe(4096);
  });

  it('takes more columns than instants', () => {
    const short = sampleDevice({ lastInstant: 2, blocks: [{ begin: 1, end: 2, size: 512 }] });
    const columns = scrubColumns(short, new Highest(liveLine(short.blocks, 2)), 9);
    expect(Array.from(columns.live)).toEqual([0, 0, 0, 512, 512, 512, 0, 0, 0]);
    expect(highestOfLine({ instant: new Uint32Array(0), bytes: new Float64Array(0) }, 2, 3)).toEqual(new Float64Array(3));
  });

  it('leads back to the instant', () => {
    for (const instant of [0, 1, 499, 1000]) expect(instantAtPlace(device, placeOf(device, instant, 5000), 5000)).toBe(instant);
    expect(instantAtPlace(device, -5, 100)).toBe(0);
    expect(instantAtPlace(device, 500, 100)).toBe(1000);
  });
});

describe('a failure', () => {
  it('is the first one', () => {
    expect(failureOf(device)).toMatchObject({ instant: 900, bytes: 777 });
    expect(failureOf(sampleDevice({ lastInstant: 1, blocks: [] }))).toBeNull();
  });
});
