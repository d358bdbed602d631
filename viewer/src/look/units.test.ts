import { describe, expect, it } from 'vitest';
import { bytes, count, duration } from './units';

describe('bytes', () => {
  it('are written as the command line writes them: a limit belongs to the smaller unit', () => {
    expect(bytes(0)).toBe('0 bytes');
    expect(bytes(1)).toBe('1 bytes');
    expect(bytes(1024)).toBe('1024 bytes');
    expect(bytes(1025)).toBe('1.00 KiB');
    expect(bytes(1024 ** 2)).toBe('1024.00 KiB');
    expect(bytes(1024 ** 2 + 1)).toBe('1.00 MiB');
    expect(bytes(1024 ** 3)).toBe('1024.00 MiB');
    expect(bytes(1024 ** 3 + 1)).toBe('1.00 GiB');
    expect(bytes(1.5 * 1024 ** 3)).toBe('1.50 GiB');
    expect(bytes(2 ** 50)).toBe('1048576.00 GiB');
  });

  it('are rounded half to even', () => {
    expect(bytes(1024 + 128)).toBe('1.12 KiB');
    expect(bytes(1024 + 384)).toBe('1.38 KiB');
    expect(bytes(1024 + 640)).toBe('1.62 KiB');
    expect(bytes(1024 + 896)).toBe('1.88 KiB');
    expect(bytes(2 * 1024 ** 2 - 1)).toBe('2.00 MiB');
  });

  it('may be a difference', () => {
    expect(bytes(-1536)).toBe('-1.50 KiB');
  });
});

describe('other numbers', () => {
  it('are grouped by thousands', () => {
    expect([0, 999, 1000, 662000, 1234567890].map(count)).toEqual(['0', '999', '1,000', '662,000', '1,234,567,890']);
  });

  it('of microseconds are durations', () => {
    expect([0, 999, 1000, 12345, 1.5e6, 4.5e7, 6e7, 3.7e9].map(duration)).toEqual(['0 us', '999 us', '1.00 ms', '12.3 ms', '1.50 s', '45.0 s', '1 min 0 s', '61 min 40 s']);
  });
});
