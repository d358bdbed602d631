// Which rows of a long list can be seen, so that only those are made into elements.

export class Offsets {
  private readonly starts: Float64Array;

  constructor(heights: readonly number[]) {
    this.starts = new Float64Array(heights.length + 1);
    heights.forEach((height, i) => (this.starts[i + 1] = this.starts[i]! + height));
  }

  get count(): number {
    return this.starts.length - 1;
  }

  get total(): number {
    return this.starts[this.count]!;
  }

  top(row: number): number {
    return this.starts[row]!;
  }

  /** The row at a height; 0 where there is none. */
  at(y: number): number {
    let low = 0, high = this.count;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.starts[middle + 1]! <= y) low = middle + 1;
      else high = middle;
    }
    return Math.max(0, Math.min(low, this.count - 1));
  }

  /** [first, end) of what is seen, with a few more on both sides. */
  seen(scrollTop: number, height: number, more = 4): [first: number, end: number] {
    if (this.count === 0) return [0, 0];
    return [Math.max(0, this.at(scrollTop) - more), Math.min(this.count, this.at(scrollTop + height) + 1 + more)];
  }

  /** How far to scroll so that a row is seen whole, or its top where it is too high. */
  scrollTo(row: number, scrollTop: number, height: number): number {
    const top = this.starts[row]!, bottom = this.starts[row + 1]!;
    if (top < scrollTop || bottom - top > height) return top;
    return bottom > scrollTop + height ? bottom - height : scrollTop;
  }
}
