import { expect, it } from 'vitest';
import type { Remedy } from '../../data/header';
import { basisText, numberRows, savesText } from './words';

const remedy = (least: number | null, most: number | null): Remedy => ({
  action: '', saves_bytes: least, saves_at_most_bytes: most, basis: 'rule', cost: null, how: null,
});

it('bytes given back are one number or a range', () => {
  expect(savesText(remedy(2048, 2048))).toBe('gives back 2.00 KiB');
  expect(savesText(remedy(2048, 4096))).toBe('gives back 2.00 KiB to 4.00 KiB');
  expect(savesText(remedy(0, 0))).toBe('gives nothing back at the peak');
  expect(savesText(remedy(null, 4096))).toBe('gives back at most 4.00 KiB');
  expect(savesText(remedy(0, 4096))).toBe('gives back at most 4.00 KiB');
  expect(savesText(remedy(2048, null))).toBe('gives back at least 2.00 KiB');
  expect(savesText(remedy(null, null))).toBeNull();
});

it('a basis that is not known keeps its word', () => {
  expect(basisText('rule')).toBe('a rule of thumb');
  expect(basisText('guessed')).toBe('guessed');
});

it('numbers that are not known are left out', () => {
  const numbers = { tried_bytes: null, total_bytes: null, free_bytes: 0, allocated_bytes: 2048, reserved_bytes: null, process_bytes: null, allowed_bytes: null, device: 0 };
  expect(numberRows(numbers)).toEqual([['live', '2.00 KiB'], ['free on the device', '0 B']]);
});
