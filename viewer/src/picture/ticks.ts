// Where an axis has its ticks, and what they say.

import { count, duration, roundBytes } from '../look/units';
import { spanOf, type Range } from './columns';

export interface Tick {
  readonly value: number;
  readonly text: string;
}

/** From 0 to `highest`, a power of two of bytes apart. */
export function byteTicks(highest: number, most: number): Tick[] {
  if (!(highest > 0) || most < 1) return [{ value: 0, text: '0' }];
  const step = 2 ** Math.ceil(Math.log2(highest / most));
  const ticks: Tick[] = [];
  for (let value = 0; value <= highest; value += step) ticks.push({ value, text: roundBytes(value) });
  return ticks;
}

/** 1, 2 or 5 times a power of ten, at least `least`. */
export function roundStep(least: number): number {
  if (!(least > 1)) return 1;
  const power = 10 ** Math.floor(Math.log10(least));
  for (const times of [1, 2, 5]) if (times * power >= least * (1 - 1e-9)) return times * power;
  return 10 * power;
}

/** Numbers of instants, at most `most` of them. */
export function instantTicks(range: Range, most: number): Tick[] {
  const step = roundStep(spanOf(range) / Math.max(1, most)), ticks: Tick[] = [];
  for (let value = Math.ceil(range.from / step) * step; value <= range.to + 1; value += step)
    ticks.push({ value, text: count(value) });
  return ticks;
}

/** A time as `duration` has it, with as many digits as tell apart what is `step` away. Microseconds. */
export function timeText(us: number, step: number): string {
  const [unit, name] = us < 1000 ? [1, 'us'] : us < 1e6 ? [1e3, 'ms'] : us < 6e7 ? [1e6, 's'] : [0, ''];
  if (unit === 0 && step < 6e7 && us < 3.6e9) return `${Math.floor(us / 6e7)} min ${Math.floor((us / 1e6) % 60)} s`;
  if (unit === 0 || us === 0) return duration(us);
  const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(Math.max(step, 1e-6) / unit) - 1e-9)));
  const usual = duration(us);
  const usualDigits = /\.(\d+)/.exec(usual)?.[1]?.length ?? 0;
  return digits <= usualDigits ? usual : `${(us / unit).toFixed(unit === 1 ? 0 : digits)} ${name}`;
}

function firstFrom(values: Uint32Array, least: number): number {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle]! < least) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Ends of steps that are seen, with their numbers from 1: so many that they are not nearer to each other
 * than 1 in `most`. Which ones they are depends on the numbers alone, so that they do not jump when moved. */
export function stepTicks(ends: Uint32Array, range: Range, most: number): Tick[] {
  const first = firstFrom(ends, range.from), last = firstFrom(ends, range.to + 2);
  const every = roundStep((last - first) / Math.max(1, most)), ticks: Tick[] = [];
  for (let i = first; i < last; i++) if ((i + 1) % every === 0) ticks.push({ value: ends[i]!, text: String(i + 1) });
  return ticks;
}

/** The number of the step an instant is in, from 1. An end is the first event after its step. */
export function stepOf(ends: Uint32Array, instant: number): number {
  return firstFrom(ends, instant) + 1;
}
