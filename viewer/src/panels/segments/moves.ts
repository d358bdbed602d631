// Through the instants of a run: with keys, to marks, and by a place in a small picture of all of it.

import type { Highest } from '../../data/live';
import type { Device, Line } from '../../data/model';

function within(device: Device, instant: number): number {
  return Math.max(0, Math.min(device.lastInstant, Math.round(instant)));
}

/** The step end before or after an instant; without any, a hundredth of the run. */
export function besideStep(device: Device, cursor: number, direction: 1 | -1): number {
  const { stepEnds } = device;
  if (stepEnds.length === 0) return within(device, cursor + direction * largeStep(device));
  let next = direction > 0 ? device.lastInstant : 0;
  for (const end of stepEnds) {
    if (direction > 0 && end > cursor && end < next) next = end;
    if (direction < 0 && end < cursor && end > next) next = end;
  }
  return within(device, next);
}

export function largeStep(device: Device): number {
  return Math.max(10, Math.round(device.lastInstant / 100));
}

/** Where a key leads, or null if it is none of these. */
export function moveByKey(device: Device, cursor: number, key: string, isShift: boolean): number | null {
  switch (key) {
    case 'ArrowLeft':
      return isShift ? besideStep(device, cursor, -1) : within(device, cursor - 1);
    case 'ArrowRight':
      return isShift ? besideStep(device, cursor, 1) : within(device, cursor + 1);
    case 'PageUp':
      return within(device, cursor - largeStep(device));
    case 'PageDown':
      return within(device, cursor + largeStep(device));
    case 'Home':
      return 0;
    case 'End':
      return device.lastInstant;
    default:
      return null;
  }
}

/** The first failure, or null. */
export function failureOf(device: Device): { instant: number; bytes: number | null } | null {
  return device.marks.find((mark) => mark.kind === 'oom') ?? null;
}

export interface ScrubColumns {
  readonly live: Float64Array; // the highest of each column
  readonly reserved: Float64Array;
  readonly top: number; // the highest of all
}

/** The highest of a step function in each of `width` parts of [0, last]. */
export function highestOfLine(line: Line, last: number, width: number): Float64Array {
  const out = new Float64Array(width), points = line.instant.length;
  for (let i = 0; i < points; i++) {
    const from = line.instant[i]!, to = i + 1 < points ? Math.max(from, line.instant[i + 1]! - 1) : last;
    const end = Math.min(width - 1, columnOf(to, last, width));
    for (let column = columnOf(from, last, width); column <= end; column++)
      if (line.bytes[i]! > out[column]!) out[column] = line.bytes[i]!;
  }
  return out;
}

function columnOf(instant: number, last: number, width: number): number {
  return Math.min(width - 1, Math.floor((instant / (last + 1)) * width));
}

export function scrubColumns(device: Device, highest: Highest, width: number): ScrubColumns {
  const last = device.lastInstant, live = new Float64Array(width);
  for (let column = 0; column < width; column++) {
    const from = Math.floor((column / width) * (last + 1)), to = Math.max(from, Math.ceil(((column + 1) / width) * (last + 1)) - 1);
    live[column] = highest.over(from, to);
  }
  const reserved = highestOfLine(device.reserved, last, width);
  let top = 1;
  for (let column = 0; column < width; column++) top = Math.max(top, live[column]!, reserved[column]!);
  return { live, reserved, top };
}

/** The middle of an instant's part of the width, and back. */
export function placeOf(device: Device, instant: number, width: number): number {
  return ((instant + 0.5) / (device.lastInstant + 1)) * width;
}

export function instantAtPlace(device: Device, x: number, width: number): number {
  return within(device, Math.floor((x / Math.max(1, width)) * (device.lastInstant + 1)));
}
