// Moving and zooming, as numbers: nothing here knows of a window.

import { spanOf, type Range } from './columns';

/** The fewest instants that are shown, where the run has so many. */
export const LEAST_SPAN = 8;

/** Keeps the span if it can, and stays within the run. */
export function fitted(range: Range, lastInstant: number): Range {
  const whole = lastInstant + 1;
  const span = Math.min(whole, Math.max(Math.min(LEAST_SPAN, whole), spanOf(range)));
  const middle = (range.from + range.to + 1) / 2;
  const from = Math.max(0, Math.min(whole - span, spanOf(range) === span ? range.from : middle - span / 2));
  return { from, to: from + span - 1 };
}

export function panned(range: Range, by: number, lastInstant: number): Range {
  return fitted({ from: range.from + by, to: range.to + by }, lastInstant);
}

/** `share`: what stays in its place, 0 at the left edge and 1 at the right. factor < 1 shows less. */
export function zoomed(range: Range, factor: number, share: number, lastInstant: number): Range {
  const whole = lastInstant + 1;
  const span = Math.min(whole, Math.max(Math.min(LEAST_SPAN, whole), spanOf(range) * factor));
  const from = range.from + share * (spanOf(range) - span);
  return fitted({ from, to: from + span - 1 }, lastInstant);
}

/** The instant in the middle, the span kept where the run has room. */
export function centred(range: Range, instant: number, lastInstant: number): Range {
  return panned(range, instant + 0.5 - (range.from + range.to + 1) / 2, lastInstant);
}

/** Between two places of the picture, in any order. */
export function between(range: Range, oneShare: number, otherShare: number, lastInstant: number): Range {
  const at = (share: number): number => range.from + Math.max(0, Math.min(1, share)) * spanOf(range);
  const from = at(Math.min(oneShare, otherShare)), to = at(Math.max(oneShare, otherShare));
  return fitted({ from, to: to - 1 }, lastInstant);
}

/** Two fingers: what was under each stays under it. */
export function pinched(range: Range, before: [number, number], after: [number, number], lastInstant: number): Range {
  const apart = Math.abs(before[1] - before[0]), nowApart = Math.abs(after[1] - after[0]);
  const factor = apart < 0.01 || nowApart < 0.01 ? 1 : apart / nowApart;
  const span = spanOf(range) * factor;
  const held = range.from + ((before[0] + before[1]) / 2) * spanOf(range);
  const from = held - ((after[0] + after[1]) / 2) * span;
  return fitted({ from, to: from + span - 1 }, lastInstant);
}

export interface Wheel {
  readonly deltaX: number;
  readonly deltaY: number;
  readonly deltaMode: number; // 0 pixels, 1 lines, 2 pages
  readonly ctrlKey: boolean;
  readonly shiftKey: boolean;
}

export type WheelMove = { readonly kind: 'zoom'; readonly factor: number } | { readonly kind: 'pan'; readonly pixels: number };

/** A wheel zooms; sideways, or with shift, it pans. A pinch on a touchpad comes as a wheel with ctrl
 * and in small numbers. */
export function wheelMove(wheel: Wheel): WheelMove {
  const unit = wheel.deltaMode === 1 ? 16 : wheel.deltaMode === 2 ? 400 : 1;
  const across = wheel.deltaX * unit, down = wheel.deltaY * unit;
  if (!wheel.ctrlKey && (wheel.shiftKey || Math.abs(across) > Math.abs(down)))
    return { kind: 'pan', pixels: Math.abs(across) > Math.abs(down) ? across : down };
  const strength = wheel.ctrlKey && Math.abs(down) < 50 ? 0.01 : 0.002;
  return { kind: 'zoom', factor: Math.exp(Math.max(-0.6, Math.min(0.6, down * strength))) };
}

export type KeyMove =
  | { readonly kind: 'pan'; readonly share: number }
  | { readonly kind: 'zoom'; readonly factor: number }
  | { readonly kind: 'cursor'; readonly direction: 1 | -1 }
  | { readonly kind: 'pin'; readonly way: PinWay }
  | { readonly kind: 'whole' | 'peak' | 'next-mark' | 'mark-before' };

/** Of the blocks that are live at the cursor: the largest, or the one above or below what is pinned. */
export type PinWay = 'largest' | 'above' | 'below';

export function keyMove(key: string): KeyMove | null {
  switch (key.length === 1 ? key.toLowerCase() : key) {
    case 'ArrowLeft':
    case 'a':
      return { kind: 'pan', share: -0.15 };
    case 'ArrowRight':
    case 'd':
      return { kind: 'pan', share: 0.15 };
    case 'ArrowUp':
    case '+':
    case '=':
    case 'w':
      return { kind: 'zoom', factor: 1 / 1.4 };
    case 'ArrowDown':
    case '-':
    case 's':
      return { kind: 'zoom', factor: 1.4 };
    case '0':
    case 'Home':
      return { kind: 'whole' };
    case 'p':
      return { kind: 'peak' };
    case ',':
      return { kind: 'cursor', direction: -1 };
    case '.':
      return { kind: 'cursor', direction: 1 };
    case 'Enter':
      return { kind: 'pin', way: 'largest' };
    case 'k':
      return { kind: 'pin', way: 'above' };
    case 'j':
      return { kind: 'pin', way: 'below' };
    case 'n':
      return { kind: 'next-mark' };
    case 'b':
      return { kind: 'mark-before' };
    default:
      return null;
  }
}

/** Of rising instants, the next after (or the last before) one; null: none. */
export function neighbour(instants: readonly number[], instant: number, direction: 1 | -1): number | null {
  const beyond = instants.filter((at) => (direction > 0 ? at > instant : at < instant));
  if (beyond.length === 0) return null;
  return direction > 0 ? Math.min(...beyond) : Math.max(...beyond);
}

/** How high the picture reaches: the highest live bytes that are seen; what is reserved and the
 * card's limit too where they are not far above, so that one sees how much is left. */
export function heightFor(live: number, reserved: number, limit: number | null): number {
  let height = Math.max(live, 512);
  if (reserved > height && reserved <= 1.6 * height) height = reserved;
  if (limit !== null && limit > height && limit <= 1.35 * height) height = limit;
  return height * 1.04;
}

/** Of a whole run: with all that was reserved, and the limit unless that makes the rest too small to see. */
export function heightOfRun(live: number, reserved: number, limit: number | null): number {
  const height = Math.max(live, reserved, 512);
  return (limit !== null && limit > height && limit <= 3 * height ? limit : height) * 1.04;
}
