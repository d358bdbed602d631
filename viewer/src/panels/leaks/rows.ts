// What grows from step to step, by stack.

import type { Device, Stacks } from '../../data/model';
import { baseName } from '../../data/stacks';

export interface LeakRow {
  readonly stack: number;
  readonly label: string;
  readonly category: string;
  readonly values: Float64Array; // live bytes at the end of each sampled step
  readonly perStep: number; // by the doctor; 0 where it does not grow
  readonly doesGrow: boolean;
  readonly first: number;
  readonly last: number;
}

/** "train.py:152 main > linear.py:134": one line of the program asks for memory in several ways. */
export function stackName(stacks: Stacks, stack: number): string {
  const innermost = stacks.framesOf(stack)[0], where = stacks.whereOf(stack), label = stacks.labelOf(stack);
  if (innermost === undefined || innermost === where || innermost.file === '') return label;
  return `${label} > ${baseName(innermost.file)}${innermost.line > 0 ? `:${innermost.line}` : ''}`;
}

/** Those that grow first, the fastest first. */
export function leakRows(device: Device, stacks: Stacks): LeakRow[] {
  const { step, stack, bytesPerStep, bytes } = device.growth, samples = step.length;
  const rows = Array.from(stack, (id, i): LeakRow => {
    const values = bytes.subarray(i * samples, (i + 1) * samples), perStep = bytesPerStep[i] ?? 0;
    return {
      stack: id,
      label: stackName(stacks, id),
      category: stacks.categories[stacks.categoryOf(id)] ?? 'unknown',
      values,
      perStep,
      doesGrow: perStep > 0,
      first: values[0] ?? 0,
      last: values[samples - 1] ?? 0,
    };
  });
  return rows.sort((a, b) => b.perStep - a.perStep || b.last - a.last);
}

export function growthPerStep(rows: readonly LeakRow[]): number {
  return rows.reduce((sum, row) => sum + row.perStep, 0);
}

export const LEAK_KEYS = ['where', 'perStep', 'first', 'last', 'full'] as const;
export type LeakKey = (typeof LEAK_KEYS)[number];

export function sortLeaks(rows: readonly LeakRow[], key: LeakKey, isFalling: boolean): LeakRow[] {
  const sign = isFalling ? -1 : 1;
  const compare = (a: LeakRow, b: LeakRow): number => {
    switch (key) {
      case 'where':
        return a.label.localeCompare(b.label, 'en');
      case 'full':
        return b.perStep - a.perStep; // the faster, the sooner
      default:
        return a[key] - b[key];
    }
  };
  return [...rows].sort((a, b) => sign * compare(a, b));
}

/** How many more steps fit into `card` when each adds `perStep` to what the last had at most; null: it
 * does not grow. */
export function stepsUntilFull(card: number, highest: number, perStep: number): number | null {
  if (!(perStep > 0)) return null;
  return Math.max(0, Math.floor((card - highest) / perStep));
}

/** "in 1,200 steps"; "" where it does not grow; `card` null: not known. */
export function fullText(card: number | null, highest: number, perStep: number, text: (value: number) => string): string {
  const steps = card === null ? null : stepsUntilFull(card, highest, perStep);
  if (steps === null) return '';
  return steps === 0 ? 'now' : `in ${text(steps)} ${steps === 1 ? 'step' : 'steps'}`;
}
