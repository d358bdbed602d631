// The colour of every pixel value that a sweep may paint.

import { packed } from '../look/palette';
import { GROUND, pixelOf } from './sweep';
import { mixed, type Scheme } from './schemes';

const EDGE_SHARE = 0.3;
const DIM_SHARE = 0.8;

/** [pixel]: as an ImageData has it. `isLit`: null where none is to stand out; others are dimmed. */
export function colourTable(blockCount: number, scheme: Scheme, isLit: ((block: number) => boolean) | null, ground: string): Int32Array {
  const table = new Int32Array(2 * blockCount + 2);
  table[GROUND] = packed(ground);
  const ofKey = new Map<number, readonly [number, number, number, number]>();
  const coloursOf = (key: number): readonly [number, number, number, number] => {
    let known = ofKey.get(key);
    if (known === undefined) {
      const colour = scheme.colourOf(key), dim = mixed(colour, ground, DIM_SHARE);
      known = [packed(colour), packed(mixed(colour, '#000000', EDGE_SHARE)), packed(dim), packed(mixed(dim, ground, 0.5))];
      ofKey.set(key, known);
    }
    return known;
  };
  let key = -1, colours = coloursOf(blockCount > 0 ? (key = scheme.keyOf(0)) : 0);
  for (let block = 0; block < blockCount; block++) {
    const next = scheme.keyOf(block);
    if (next !== key) colours = coloursOf((key = next));
    const at = isLit === null || isLit(block) ? 0 : 2;
    table[pixelOf(block, false)] = colours[at]!;
    table[pixelOf(block, true)] = colours[at + 1]!;
  }
  return table;
}

/** Back from a pixel's colour to text, for SVG. */
export function cssOf(colour: number): string {
  const red = colour & 255, green = (colour >>> 8) & 255, blue = (colour >>> 16) & 255;
  return `#${((red << 16) | (green << 8) | blue).toString(16).padStart(6, '0')}`;
}
