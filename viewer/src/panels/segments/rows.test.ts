import { describe, expect, it } from 'vitest';
import { sampleDevice } from '../../testing/model';
import { GAP, layoutAt } from './layout';
import { fittingBytesPerRow, hitAt, MEASURES, placeRows, rangesOf, spanIn, visibleStrips } from './rows';

const MIB = 1024 ** 2, GIB = 1024 ** 3;

const device = sampleDevice({
  lastInstant: 1,
  blocks: [
    { begin: 0, size: MIB, address: 0 },
    { begin: 0, size: 512, address: 100 * MIB },
    { begin: 0, size: GIB, address: 21 * GIB },
  ],
  pieces: [
    { address: 0, size: 2 * MIB },
    { address: 100 * MIB, size: 20 * MIB },
    { address: 20 * GIB, size: 20 * GIB },
    { address: 50 * GIB, size: 2 * MIB, stream: 1 },
  ],
});
const layout = layoutAt(device, 0);
const measures = { ...MEASURES, width: 1000, bytesPerRow: GIB };

describe('rows', () => {
  const rows = placeRows(layout, measures);

  it('show a segment of 2 MiB and one of 20 GiB', () => {
    const strips = (segment: number) => rows.strips.filter((strip) => strip.segment === segment);
    expect(strips(0)).toHaveLength(1);
    expect(strips(0)[0]!.width).toBe(MEASURES.narrowest);
    expect(strips(1)[0]!.width).toBeCloseTo(1000 * (20 / 1024));
    expect(strips(1)[0]!.y).toBe(strips(0)[0]!.y);
    expect(strips(2)).toHaveLength(20);
    expect(strips(2).every((strip) => strip.x === 0 && strip.width === 1000)).toBe(true);
    expect(strips(2).map((strip) => [strip.isFirst, strip.isLast]).filter(([first, last]) => first || last)).toEqual([[true, false], [false, true]]);
  });

  it('begin anew for every pool and stream', () => {
    expect(rows.heads.map((head) => head.group)).toEqual([0, 1]);
    expect(rows.heads[1]!.y).toBe(MEASURES.headHeight + 21 * MEASURES.rowHeight);
    expect(rows.height).toBe(2 * MEASURES.headHeight + 22 * MEASURES.rowHeight);
  });

  it('never overlap', () => {
    rows.strips.forEach((strip, i) => {
      const next = rows.strips[i + 1];
      expect(strip.x + strip.width).toBeLessThanOrEqual(1000 + 1e-6);
      if (next !== undefined && next.y === strip.y) expect(next.x).toBeGreaterThanOrEqual(strip.x + strip.width);
    });
  });

  it('are found by what can be seen', () => {
    const all = rows.strips.map((strip) => strip.y);
    expect(visibleStrips(rows, 0, rows.height)).toHaveLength(all.length);
    const seen = visibleStrips(rows, 100, 160).map((strip) => strip.y);
    expect(seen).toEqual(all.filter((y) => y + MEASURES.rowHeight > 100 && y <= 160));
  });

  it('say what is at a place', () => {
    const second = rows.strips.find((strip) => strip.segment === 2 && strip.from === 1000)!;
    const hit = hitAt(layout, rows, 500, second.y + 3, 20)!;
    expect(layout.ranges.block[hit.range]).toBe(2);
    expect(hitAt(layout, rows, 500, second.y + 22, 20)).toBeNull();
    expect(hitAt(layout, rows, 500, 3, 20)).toBeNull();
    // A block of half a kilobyte is a pixel, and is hit beside it.
    const small = rows.strips.find((strip) => strip.segment === 1)!;
    expect(layout.ranges.block[hitAt(layout, rows, small.x + 0.7, small.y + 3, 20)!.range]).toBe(1);
  });

  it('give each strip its ranges, and all of them', () => {
    const seen = new Set<number>();
    for (const strip of rows.strips) {
      const [first, end] = rangesOf(layout, rows, strip);
      for (let range = first; range < end; range++) {
        seen.add(range);
        const [x, width] = spanIn(layout, rows, strip, range);
        expect(x).toBeLessThan(strip.x + strip.width);
        expect(x + width).toBeGreaterThan(strip.x);
      }
    }
    expect(seen.size).toBe(layout.ranges.count);
  });
});

describe('a gap of an expandable segment', () => {
  it('is shortened', () => {
    const gapped = layoutAt(
      sampleDevice({
        lastInstant: 1,
        blocks: [],
        pieces: [
          { address: 0, size: GIB, segment: 1, isExpandable: true },
          { address: 2 ** 45, size: GIB, segment: 1, isExpandable: true },
        ],
      }),
      0,
    );
    const rows = placeRows(gapped, measures);
    expect(rows.strips).toHaveLength(3);
    expect(gapped.ranges.kind[1]).toBe(GAP);
    expect(spanIn(gapped, rows, rows.strips[1]!, 1)[1]).toBeCloseTo(1000 / 24);
  });
});

describe('the scale', () => {
  it('is the largest at which everything fits', () => {
    const bytes = fittingBytesPerRow(layout, 1000, 600);
    expect(placeRows(layout, { ...measures, bytesPerRow: bytes }).height).toBeLessThanOrEqual(600);
    expect(placeRows(layout, { ...measures, bytesPerRow: bytes / 2 }).height).toBeGreaterThan(600);
  });

  it('is at most one row for the longest segment', () => {
    expect(fittingBytesPerRow(layout, 1000, 10)).toBe(32 * GIB);
    const empty = layoutAt(sampleDevice({ lastInstant: 1, blocks: [] }), 0);
    expect(fittingBytesPerRow(empty, 1000, 10)).toBe(2 * MIB);
  });
});
