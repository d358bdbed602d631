// A column of the container: an array of numbers, compressed by itself (docs/design/008).

export type ColumnType = 'u8' | 'u16' | 'u32' | 'u64';
export type Column = Uint8Array | Uint16Array | Uint32Array | Float64Array;

/** No stack, no end: what 0xFFFFFFFF in a column of u32 stands for. */
export const NONE = 0xffffffff;

export const BYTES_OF: Readonly<Record<ColumnType, number>> = { u8: 1, u16: 2, u32: 4, u64: 8 };

/** Undoes planes, zigzag and differences. `bytes` is what zlib gave back. */
export function decodeColumn(type: ColumnType, count: number, bytes: Uint8Array): Column {
  if (bytes.length !== count * BYTES_OF[type])
    throw new Error(`a column of ${count} ${type} has ${bytes.length} bytes`);
  switch (type) {
    case 'u8':
      return bytes;
    case 'u16':
      return decode16(count, bytes);
    case 'u32':
      return decode32(count, bytes);
    case 'u64':
      return decode64(count, bytes);
  }
}

function decode16(count: number, bytes: Uint8Array): Uint16Array {
  const out = new Uint16Array(count);
  for (let i = 0, value = 0; i < count; i++) {
    const code = bytes[i]! | (bytes[count + i]! << 8);
    value = (value + ((code >>> 1) ^ -(code & 1))) & 0xffff;
    out[i] = value;
  }
  return out;
}

function decode32(count: number, bytes: Uint8Array): Uint32Array {
  const out = new Uint32Array(count);
  const second = count, third = 2 * count, fourth = 3 * count;
  for (let i = 0, value = 0; i < count; i++) {
    const code = bytes[i]! | (bytes[second + i]! << 8) | (bytes[third + i]! << 16) | (bytes[fourth + i]! << 24);
    value = (value + ((code >>> 1) ^ -(code & 1))) | 0;
    out[i] = value;
  }
  return out;
}

// In two halves of 32 bits, since a number holds 53 exactly.
function decode64(count: number, bytes: Uint8Array): Float64Array {
  const out = new Float64Array(count);
  let low = 0, high = 0;
  for (let i = 0; i < count; i++) {
    let codeLow = 0, codeHigh = 0;
    for (let plane = 0; plane < 4; plane++) {
      codeLow |= bytes[plane * count + i]! << (8 * plane);
      codeHigh |= bytes[(plane + 4) * count + i]! << (8 * plane);
    }
    const sign = -(codeLow & 1);
    const differenceLow = (((codeLow >>> 1) | (codeHigh << 31)) ^ sign) >>> 0;
    const differenceHigh = ((codeHigh >>> 1) ^ sign) >>> 0;
    const sum = low + differenceLow;
    high = (high + differenceHigh + (sum > 0xffffffff ? 1 : 0)) >>> 0;
    low = sum >>> 0;
    out[i] = high * 4294967296 + low;
  }
  return out;
}
