// Instants in the words of vramwise's commands: those number events from 0, and instant k is the
// moment after the first k of them.

import { count } from '../look/units';
import type { Device } from './model';

/** "event 1,233", the one that instant 1234 comes after. */
export function eventText(instant: number): string {
  return instant <= 0 ? 'the beginning' : `event ${eventNumber(instant)}`;
}

export function eventNumber(instant: number): string {
  return count(Math.max(0, instant - 1));
}

/** Where a request failed first, or null. */
export function failureInstant(device: Device): number | null {
  return device.marks.find((mark) => mark.kind === 'oom')?.instant ?? null;
}
