// What a block's colour says. A scheme gives each block a key, and each key a colour and a name.

import type { Colour } from '../app/state';
import { NONE, type Device, type Run, type Stacks } from '../data/model';
import { liveAt } from '../data/live';
import { frameLabel } from '../data/stacks';
import { categoryColour, DISTINCT, NEUTRAL, ramp } from '../look/palette';
import { count, roundBytes } from '../look/units';
import { failureInstant } from '../data/events';

export interface Scheme {
  readonly title: string;
  keyOf(block: number): number;
  colourOf(key: number): string;
  nameOf(key: number): string;
  /** Keys worth a line in the legend, in its order. */
  readonly keys: readonly number[];
}

function mixed(colour: string, other: string, share: number): string {
  const one = parseInt(colour.slice(1), 16), two = parseInt(other.slice(1), 16);
  let out = 0;
  for (const shift of [16, 8, 0]) {
    const value = ((one >> shift) & 255) * (1 - share) + ((two >> shift) & 255) * share;
    out = (out << 8) | Math.round(value);
  }
  return `#${out.toString(16).padStart(6, '0')}`;
}

export { mixed };

function hashOfText(text: string, start: number): number {
  let hash = start;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
  return hash >>> 0;
}

/** By what the frames are called, so that a stack has one colour in every recording of a program. */
function stackHasher(stacks: Stacks): (stack: number) => number {
  const ofFrame = new Map<number, number>();
  return (stack) => {
    let hash = 2166136261;
    for (const id of stacks.frameIdsOf(stack)) {
      let known = ofFrame.get(id);
      if (known === undefined) {
        const frame = stacks.frame(id);
        known = hashOfText(frame.functionName, hashOfText(frame.file, frame.line + 1));
        ofFrame.set(id, known);
      }
      hash = Math.imul(hash ^ known, 16777619);
      hash ^= hash >>> 15;
    }
    return hash >>> 0;
  };
}

/** Stacks by their live bytes at an instant, the most first. */
export function largestStacks(device: Device, instant: number): number[] {
  const { blocks } = device, sums = new Map<number, number>();
  for (const block of liveAt(blocks, instant)) {
    const stack = blocks.stack[block]!;
    sums.set(stack, (sums.get(stack) ?? 0) + blocks.size[block]!);
  }
  return [...sums].sort((a, b) => b[1] - a[1] || a[0] - b[0]).map(([stack]) => stack);
}

function innermostPlace(stacks: Stacks, stack: number): string {
  const frame = stacks.framesOf(stack)[0];
  return frame === undefined ? '' : frameLabel({ ...frame, functionName: frame.file === '' ? frame.functionName : '' });
}

/** Labels that tell these stacks apart: the innermost frame too where the place alone does not. */
export function namesOf(stacks: Stacks, some: readonly number[]): Map<number, string> {
  const names = new Map(some.map((stack) => [stack, stacks.labelOf(stack)]));
  const sharing = (name: string): number[] => some.filter((stack) => names.get(stack) === name);
  const more: ((stack: number) => string)[] = [
    (stack) => ` < ${innermostPlace(stacks, stack)}`,
    (stack) => ` (stack ${stack})`,
  ];
  for (const add of more)
    for (const name of new Set(names.values())) {
      const alike = sharing(name);
      if (alike.length > 1) for (const stack of alike) names.set(stack, name + add(stack));
    }
  return names;
}

/** Those of the peak and of the first failure, which may be others, in turn. */
function largestInTurn(device: Device): number[] {
  const peak = largestStacks(device, device.header.peak_instant), failure = failureInstant(device);
  if (failure === null) return peak;
  const others = largestStacks(device, failure);
  const inTurn = Array.from({ length: Math.max(peak.length, others.length) }, (_, i) => [peak[i], others[i]]).flat();
  return [...new Set(inTurn.filter((stack) => stack !== undefined))];
}

function byStack(run: Run, device: Device): Scheme {
  const hasFrames = (stack: number): boolean => run.stacks.frameIdsOf(stack).length > 0;
  const largest = largestInTurn(device).filter(hasFrames);
  const first = new Map(largest.slice(0, DISTINCT.length).map((stack, i) => [stack, DISTINCT[i]!]));
  const names = namesOf(run.stacks, [...first.keys()]);
  const hash = stackHasher(run.stacks), made = new Map<number, string>();
  const shades = ['#ffffff', '#000000', NEUTRAL];
  return {
    title: 'stack',
    keyOf: (block) => device.blocks.stack[block]!,
    colourOf(stack) {
      if (!hasFrames(stack)) return NEUTRAL;
      let colour = first.get(stack) ?? made.get(stack);
      if (colour === undefined) {
        const value = hash(stack);
        colour = mixed(DISTINCT[value % DISTINCT.length]!, shades[(value >>> 8) % shades.length]!, 0.3);
        made.set(stack, colour);
      }
      return colour;
    },
    nameOf: (stack) => names.get(stack) ?? run.stacks.labelOf(stack),
    keys: [...first.keys()],
  };
}

function byCategory(run: Run, device: Device): Scheme {
  const { stacks } = run, { blocks } = device;
  const isThere = new Set<number>();
  for (let i = 0; i < blocks.count; i++) isThere.add(stacks.categoryOf(blocks.stack[i]!));
  return {
    title: 'category',
    keyOf: (block) => stacks.categoryOf(blocks.stack[block]!),
    colourOf: (key) => categoryColour(stacks.categories[key] ?? 'unknown'),
    nameOf: (key) => stacks.categories[key] ?? 'unknown',
    keys: [...isThere].sort((a, b) => a - b),
  };
}

const SIZE_LIMITS = [64 * 1024, 1024 ** 2, 16 * 1024 ** 2, 128 * 1024 ** 2, 1024 ** 3];
const AGE_LIMITS = [10, 100, 1000, 10_000, 100_000];

function classOf(limits: readonly number[], value: number): number {
  let place = 0;
  while (place < limits.length && value > limits[place]!) place++;
  return place;
}

function bySize(device: Device): Scheme {
  const { size } = device.blocks, last = SIZE_LIMITS.length;
  return {
    title: 'size',
    keyOf: (block) => classOf(SIZE_LIMITS, size[block]!),
    colourOf: (key) => ramp(0.1 + (0.9 * key) / last),
    nameOf: (key) => (key < last ? `up to ${roundBytes(SIZE_LIMITS[key]!)}` : `more than ${roundBytes(SIZE_LIMITS[last - 1]!)}`),
    keys: Array.from({ length: last + 1 }, (_, i) => i),
  };
}

function byAge(device: Device): Scheme {
  const { begin, end } = device.blocks, toTheEnd = AGE_LIMITS.length + 1;
  return {
    title: 'age',
    keyOf: (block) => (end[block]! === NONE ? toTheEnd : classOf(AGE_LIMITS, end[block]! - begin[block]!)),
    colourOf: (key) => ramp(0.1 + (0.9 * key) / toTheEnd),
    nameOf(key) {
      if (key === toTheEnd) return 'lives to the end';
      return key < AGE_LIMITS.length ? `lives ${count(AGE_LIMITS[key]!)} events or less` : `lives longer, and ends`;
    },
    keys: Array.from({ length: toTheEnd + 1 }, (_, i) => i),
  };
}

function byStream(device: Device): Scheme {
  const { streams } = device.header;
  return {
    title: 'stream',
    keyOf: (block) => device.blocks.stream[block]!,
    colourOf: (key) => DISTINCT[key % DISTINCT.length]!,
    nameOf: (key) => `stream ${streams[key] ?? '?'}`,
    keys: streams.map((_, i) => i),
  };
}

export function makeScheme(colour: Colour, run: Run, device: Device): Scheme {
  switch (colour) {
    case 'stack':
      return byStack(run, device);
    case 'category':
      return byCategory(run, device);
    case 'size':
      return bySize(device);
    case 'stream':
      return byStream(device);
    case 'age':
      return byAge(device);
  }
}
