// What the doctor's fields are called for people.

import type { DoctorNumbers, Remedy } from '../../data/header';
import { bytes } from '../../look/units';

const BASES: Readonly<Record<string, string>> = {
  replayed: 'replayed: the recording was run again with the change',
  measured: 'measured: counted in the recording',
  computed: 'computed by a formula',
  rule: 'a rule of thumb',
};

export function basisText(basis: string): string {
  return BASES[basis] ?? basis;
}

/** "gives back 1.16 GiB to 1.53 GiB"; null: not known. */
export function savesText(remedy: Remedy): string | null {
  const { saves_bytes: least, saves_at_most_bytes: most } = remedy;
  if (least === null && most === null) return null;
  if (most === 0) return 'gives nothing back at the peak';
  if (most === null) return `gives back at least ${bytes(least!)}`;
  if (least === null || least === 0) return `gives back at most ${bytes(most)}`;
  return least === most ? `gives back ${bytes(least)}` : `gives back ${bytes(least)} to ${bytes(most)}`;
}

const NUMBERS: readonly (readonly [keyof DoctorNumbers, string])[] = [
  ['tried_bytes', 'asked for, and refused'],
  ['allocated_bytes', 'live'],
  ['reserved_bytes', 'reserved by PyTorch'],
  ['process_bytes', 'held by the process'],
  ['allowed_bytes', 'limit that was set (estimated)'],
  ['free_bytes', 'free on the device'],
  ['total_bytes', 'of the whole card'],
];

/** The numbers that are known. */
export function numberRows(numbers: DoctorNumbers): [name: string, value: string][] {
  return NUMBERS.flatMap(([key, name]): [string, string][] => {
    const value = numbers[key];
    return value === null || value === undefined ? [] : [[name, bytes(value)]];
  });
}
