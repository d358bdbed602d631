// How fast a stack grows, from its live bytes at the ends of steps. A robust slope: the median of the
// slopes between all pairs of samples (Theil and Sen), which a few odd steps do not move. And whether it
// grows at all: most pairs must rise, so that what only goes up and down is not called a leak.

export interface Growing {
  readonly perStep: number; // bytes; negative: it shrinks
  readonly rising: number; // share of the pairs that rise
}

const MOST_SAMPLES = 96; // pairs grow with the square
const MOST_RISING = 2 / 3; // at least this share must

function evenly(count: number): number[] {
  if (count <= MOST_SAMPLES) return Array.from({ length: count }, (_, i) => i);
  return Array.from({ length: MOST_SAMPLES }, (_, i) => Math.round((i * (count - 1)) / (MOST_SAMPLES - 1)));
}

export function median(values: Float64Array): number {
  if (values.length === 0) return 0;
  values.sort();
  const middle = values.length >>> 1;
  return values.length % 2 === 1 ? values[middle]! : (values[middle - 1]! + values[middle]!) / 2;
}

export function growing(steps: ArrayLike<number>, bytes: ArrayLike<number>): Growing {
  const chosen = evenly(Math.min(steps.length, bytes.length));
  const slopes = new Float64Array((chosen.length * (chosen.length - 1)) / 2);
  let count = 0, rises = 0;
  for (let i = 0; i < chosen.length; i++)
    for (let j = i + 1; j < chosen.length; j++) {
      const width = steps[chosen[j]!]! - steps[chosen[i]!]!;
      if (width <= 0) continue;
      const rise = bytes[chosen[j]!]! - bytes[chosen[i]!]!;
      if (rise > 0) rises++;
      slopes[count++] = rise / width;
    }
  return { perStep: median(slopes.subarray(0, count)), rising: count === 0 ? 0 : rises / count };
}

export function grows(of: Growing): boolean {
  return of.perStep > 0 && of.rising >= MOST_RISING;
}

/** How many more steps fit into `card` when each adds `perStep` to what the last had at most; null: it
 * does not grow. */
export function stepsUntilFull(card: number, highest: number, perStep: number): number | null {
  if (!(perStep > 0)) return null;
  return Math.max(0, Math.floor((card - highest) / perStep));
}
