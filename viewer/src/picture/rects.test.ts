import { describe, expect, it } from 'vitest';
import { mergedRects } from './rects';

/** Rows from above, as one sees it; '.' is the ground. */
function pixelsOf(...lines: string[]): [Int32Array, number, number] {
  const columns = lines[0]!.length, rows = lines.length, pixels = new Int32Array(columns * rows);
  lines.forEach((line, i) =>
    [...line].forEach((letter, x) => (pixels[x * rows + rows - 1 - i] = letter === '.' ? 0 : letter.charCodeAt(0))),
  );
  return [pixels, columns, rows];
}

const key = (pixel: number): number | null => (pixel === 0 ? null : pixel);

describe('rectangles of a picture', () => {
  it('cover it exactly, and few of them', () => {
    const picture = pixelsOf('..bb.', 'aaabb', 'aaabb', 'cccc.');
    const [pixels, columns, rows] = picture;
    const rects = mergedRects(pixels, columns, rows, key, 100)!;
    const again = new Int32Array(columns * rows);
    for (const rect of rects)
      for (let x = rect.x; x < rect.x + rect.width; x++)
        for (let y = rect.y; y < rect.y + rect.height; y++) {
          expect(again[x * rows + y]).toBe(0);
          again[x * rows + y] = rect.key;
        }
    expect(again).toEqual(pixels);
    expect(rects.length).toBe(5);
  });

  it('give up beyond a number', () => {
    const [pixels, columns, rows] = pixelsOf('abab', 'baba');
    expect(mergedRects(pixels, columns, rows, key, 7)).toBeNull();
    expect(mergedRects(pixels, columns, rows, key, 8)?.length).toBe(8);
    expect(mergedRects(pixels, columns, rows, () => 1, 1)).toEqual([{ key: 1, x: 0, y: 0, width: 4, height: 2 }]);
  });
});
