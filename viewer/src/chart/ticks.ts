// Where the axes have their marks, and what is written there.

/** From 0 to `top`, in powers of two: at most `most` besides 0. */
export function byteTicks(top: number, most: number): number[] {
  if (!(top > 0)) return [0];
  let step = 1;
  while (top / step > Math.max(1, most)) step *= 2;
  const ticks: number[] = [];
  for (let at = 0; at <= top; at += step) ticks.push(at);
  return ticks;
}

/** Of [from, to], at 1, 2 or 5 times a power of ten: at most about `most`. */
export function countTicks(from: number, to: number, most: number, smallest = 1): number[] {
  const span = to - from;
  if (!(span > 0)) return [from];
  let step = smallest;
  for (let turn = 0; span / step > Math.max(1, most); turn++) step *= turn % 3 === 1 ? 2.5 : 2;
  const ticks: number[] = [];
  for (let i = Math.ceil(from / step); i * step <= to; i++) ticks.push(i * step);
  return ticks;
}

/** Instants behind round numbers of events, which are counted from 0. */
export function eventTicks(from: number, to: number, most: number): number[] {
  return countTicks(Math.max(0, from - 1), Math.max(0, to - 1), most).map((event) => event + 1);
}
