import { describe, expect, it } from 'vitest';
import { decodeColumn } from './columns';

/** As src/view writes it, in the plainest way. */
function encode(values: bigint[], width: number): Uint8Array {
  const bits = BigInt(8 * width), mask = (1n << bits) - 1n;
  const out = new Uint8Array(values.length * width);
  let before = 0n;
  values.forEach((value, i) => {
    const difference = BigInt.asIntN(Number(bits), value - before);
    const code = ((difference << 1n) ^ (difference >> (bits - 1n))) & mask;
    for (let plane = 0; plane < width; plane++)
      out[plane * values.length + i] = Number((code >> BigInt(8 * plane)) & 255n);
    before = value;
  });
  return out;
}

describe('a column', () => {
  it('of u16 and u32 comes back, over the whole range', () => {
    const small = [0n, 1n, 65535n, 0n, 32768n, 32767n];
    expect(Array.from(decodeColumn('u16', 6, encode(small, 2)))).toEqual(small.map(Number));
    const large = [0n, 0xffffffffn, 0n, 0x80000000n, 5n, 4n, 0xfffffffen];
    expect(Array.from(decodeColumn('u32', 7, encode(large, 4)))).toEqual(large.map(Number));
  });

  it('of u64 comes back as doubles', () => {
    const values = [0n, 0x7f1234567890n, 512n, 1n << 52n, 0n, 0xffffffffn, 0x100000000n, (1n << 53n) - 1n];
    expect(Array.from(decodeColumn('u64', values.length, encode(values, 8)))).toEqual(values.map(Number));
  });

  it('with bytes missing is refused', () => {
    expect(() => decodeColumn('u32', 2, new Uint8Array(7))).toThrow('2 u32 has 7 bytes');
  });
});
