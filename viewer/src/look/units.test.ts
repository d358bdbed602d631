import { describe, expect, it } from 'vitest';
import table from '../../../tests/data/numbers/cases.tsv?raw';
import { bytes, count, duration, roundBytes, shareText } from './units';

const CASES = table
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'))
  .map((line) => line.split('\t') as [what: string, number: string, text: string]);

const WRITTEN: Readonly<Record<string, (value: number) => string>> = {
  size: bytes,
  duration: (ns) => duration(ns / 1000),
  share: shareText,
};

describe('numbers', () => {
  it('are written as the command line writes them', () => {
    expect(CASES.length).toBeGreaterThan(50);
    for (const [what, number, text] of CASES) expect([what, number, WRITTEN[what]!(Number(number))]).toEqual([what, number, text]);
  });

  it('may be a difference of bytes', () => {
    expect(bytes(-1536)).toBe('-1.50 KiB');
  });

  it('at an axis are round', () => {
    expect([0, 512, 1536, 1.125 * 1024 ** 3, 24 * 1024 ** 3, -(1024 ** 2)].map(roundBytes)).toEqual([
      '0', '512 B', '1.5 KiB', '1.125 GiB', '24 GiB', '-1 MiB',
    ]);
  });

  it('are grouped by thousands', () => {
    expect([0, 999, 1000, 662000, 1234567890].map(count)).toEqual(['0', '999', '1,000', '662,000', '1,234,567,890']);
  });
});
