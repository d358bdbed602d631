// A painted picture as rectangles, for SVG: neighbouring pixels of one value, first in a column, then
// from column to column as long as they stay where they are.

export interface Rect {
  readonly key: number;
  readonly x: number;
  readonly y: number; // rows from below
  width: number;
  readonly height: number;
}

/** `keyOf` a pixel: those of one key are one; null: not drawn. Stops and says null beyond `most`. */
export function mergedRects(
  pixels: Int32Array, columns: number, rows: number, keyOf: (pixel: number) => number | null, most: number,
): Rect[] | null {
  const done: Rect[] = [];
  let open: Rect[] = [];
  for (let x = 0; x < columns; x++) {
    const now: Rect[] = [];
    let place = 0;
    for (let row = 0; row < rows; ) {
      const key = keyOf(pixels[x * rows + row]!);
      let above = row + 1;
      while (above < rows && keyOf(pixels[x * rows + above]!) === key) above++;
      if (key !== null) {
        while (place < open.length && open[place]!.y < row) place++;
        const before = open[place];
        if (before !== undefined && before.y === row && before.key === key && before.height === above - row) {
          before.width++;
          now.push(before);
        } else {
          const rect = { key, x, y: row, width: 1, height: above - row };
          done.push(rect);
          now.push(rect);
          if (done.length > most) return null;
        }
      }
      row = above;
    }
    open = now;
  }
  return done;
}
