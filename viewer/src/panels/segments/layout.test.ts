import { describe, expect, it } from 'vitest';
import { lineAt, liveLine } from '../../data/live';
import { NONE } from '../../data/model';
import { sampleDevice, type SampleBlock } from '../../testing/model';
import { byIdle, GAP, IDLE, layoutAt, LIVE, noLayoutReason, pinning, rangeAt, rangeOfBlock, WAITING, type Layout } from './layout';

const MIB = 1024 ** 2;

function ranges(layout: Layout): [kind: number, address: number, size: number, block: number][] {
  return Array.from({ length: layout.ranges.count }, (_, i) => [
    layout.ranges.kind[i]!,
    layout.ranges.address[i]!,
    layout.ranges.size[i]!,
    layout.ranges.block[i]!,
  ]);
}

/** Sums of ranges, whatever the layout says of itself. */
function total(layout: Layout, ...kinds: number[]): number {
  return ranges(layout).reduce((sum, [kind, , size]) => sum + (kinds.includes(kind) ? size : 0), 0);
}

describe('the address map', () => {
  const device = sampleDevice({
    lastInstant: 10,
    blocks: [
      { begin: 1, size: 512, address: 1000 },
      { begin: 2, freed: 4, end: 6, size: 1024, address: 2000 },
      { begin: 3, end: 5, size: 100, address: 9000 },
    ],
    pieces: [
      { begin: 0, address: 1000, size: 4000, segment: 7 },
      { begin: 3, end: 8, address: 8000, size: 2000, segment: 8, stream: 1 },
    ],
    reserved: [[0, 4000], [3, 6000], [8, 4000]],
  });

  it('has blocks, those that wait, and what is idle between them', () => {
    expect(ranges(layoutAt(device, 4))).toEqual([
      [LIVE, 1000, 512, 0],
      [IDLE, 1512, 488, NONE],
      [WAITING, 2000, 1024, 1],
      [IDLE, 3024, 1976, NONE],
      [IDLE, 8000, 1000, NONE],
      [LIVE, 9000, 100, 2],
      [IDLE, 9100, 900, NONE],
    ]);
  });

  it('adds up to reserved and live bytes at every instant', () => {
    const live = liveLine(device.blocks, device.lastInstant);
    for (let instant = 0; instant <= 10; instant++) {
      const layout = layoutAt(device, instant);
      expect(layout.reserved).toBe(lineAt(device.reserved, instant));
      expect(layout.live).toBe(live[instant]);
      expect(layout.displaced).toBe(0);
      expect(layout.idle).toBe(layout.reserved - layout.live);
      expect(total(layout, LIVE, WAITING)).toBe(layout.live);
      expect(total(layout, WAITING)).toBe(layout.waiting);
      expect(total(layout, IDLE)).toBe(layout.idle);
      expect(layout.groups.reduce((sum, group) => sum + group.idle, 0)).toBe(layout.idle);
      expect(layout.segments.reduce((sum, segment) => sum + segment.blocks, 0)).toBe(
        [0, 1, 2].filter((b) => device.blocks.begin[b]! <= instant && device.blocks.end[b]! > instant).length,
      );
    }
  });

  it('groups by pool and stream', () => {
    const { groups } = layoutAt(device, 4);
    expect(groups.map((group) => [group.stream, group.reserved, group.live, group.waiting, group.largestIdle])).toEqual([
      [0, 4000, 1536, 1024, 1976],
      [1, 2000, 100, 0, 1000],
    ]);
  });

  it('finds ranges by address and by block', () => {
    const layout = layoutAt(device, 4), [first, second] = layout.segments;
    expect(rangeAt(layout, first!, 1000)).toBe(0);
    expect(rangeAt(layout, first!, 1512)).toBe(1);
    expect(rangeAt(layout, first!, 4999)).toBe(3);
    expect(rangeAt(layout, first!, 5000)).toBe(-1);
    expect(rangeAt(layout, first!, 999)).toBe(-1);
    expect(rangeAt(layout, second!, 8000)).toBe(4);
    expect(rangeOfBlock(layout, 2)).toBe(5);
    expect(rangeOfBlock(layoutAt(device, 5), 2)).toBe(-1);
  });

  it('sorts segments by what is idle in them', () => {
    expect(byIdle(layoutAt(device, 4))).toEqual([0, 1]);
    expect(byIdle(layoutAt(device, 9))).toEqual([0]);
  });
});

describe('an expandable segment', () => {
  const device = sampleDevice({
    lastInstant: 4,
    blocks: [
      { begin: 1, size: 300, address: 1900 },
      { begin: 1, size: 100, address: 5000 },
    ],
    pieces: [
      { address: 5000, size: 1000, segment: 3, isExpandable: true },
      { address: 1000, size: 1000, segment: 3, isExpandable: true },
      { address: 2000, size: 1000, segment: 3, isExpandable: true },
    ],
  });

  it('joins pieces side by side and shows what is not mapped between others', () => {
    const layout = layoutAt(device, 2);
    expect(layout.segments).toHaveLength(1);
    expect(layout.segments[0]).toMatchObject({ address: 1000, span: 5000, reserved: 3000, live: 400, idle: 2600, blocks: 2 });
    expect(ranges(layout)).toEqual([
      [IDLE, 1000, 900, NONE],
      [LIVE, 1900, 300, 0],
      [IDLE, 2200, 800, NONE],
      [GAP, 3000, 2000, NONE],
      [LIVE, 5000, 100, 1],
      [IDLE, 5100, 900, NONE],
    ]);
    expect(layout.largestIdle).toBe(900);
  });

  it('is held by the neighbours of an idle range only', () => {
    const layout = layoutAt(device, 2);
    expect(pinning(device, layout, 2)).toEqual({ segment: 0, blocks: [0], liveBytes: 300, idleBytes: 800, isByNeighbours: true });
    expect(pinning(device, layout, 0).blocks).toEqual([0]);
    expect(pinning(device, layout, 5).blocks).toEqual([1]);
  });
});

describe('what pins an idle range', () => {
  it('is every block of its segment, largest first', () => {
    const device = sampleDevice({
      lastInstant: 1,
      blocks: [
        { begin: 0, size: 512, address: 0 },
        { begin: 0, freed: 1, size: 2048, address: 10000 },
        { begin: 0, size: 1024, address: 20000 },
        { begin: 0, size: 4096, address: 100000 },
      ],
      pieces: [{ address: 0, size: 50000 }, { address: 100000, size: 5000 }],
    });
    const layout = layoutAt(device, 1);
    expect(pinning(device, layout, 1)).toEqual({
      segment: 0,
      blocks: [1, 2, 0],
      liveBytes: 3584,
      idleBytes: 50000 - 3584,
      isByNeighbours: false,
    });
  });

  it('is nothing where the segment is empty', () => {
    const device = sampleDevice({ lastInstant: 1, blocks: [], pieces: [{ address: 0, size: 5000 }] });
    expect(pinning(device, layoutAt(device, 1), 0)).toMatchObject({ blocks: [], liveBytes: 0, idleBytes: 5000 });
  });
});

describe('the largest request that fits', () => {
  it('is not one of the small pool, whose requests are small', () => {
    const device = sampleDevice({
      lastInstant: 1,
      blocks: [],
      pieces: [{ address: 0, size: 2 * MIB }],
    });
    expect(layoutAt(device, 0)).toMatchObject({ largestIdle: 2 * MIB, largestRequest: MIB });
    const large = sampleDevice({ lastInstant: 1, blocks: [], pieces: [{ address: 0, size: 2 * MIB }, { address: 9 * MIB, size: 20 * MIB }] });
    expect(layoutAt(large, 0)).toMatchObject({ largestIdle: 20 * MIB, largestRequest: 20 * MIB });
  });
});

describe('data that contradicts itself', () => {
  it('keeps every address once and counts the rest', () => {
    const device = sampleDevice({
      lastInstant: 3,
      blocks: [
        { begin: 0, size: 1000, address: 500 }, // over the start of the piece
        { begin: 0, size: 1000, address: 1200 }, // over the one before
        { begin: 0, size: 100, address: 1300 }, // inside of it
        { begin: 0, size: 700, address: 99000 }, // in no piece
        { begin: 0, size: 0, address: 2500 },
      ],
      pieces: [
        { address: 1000, size: 2000, segment: 1 },
        { address: 1500, size: 2000, segment: 2 }, // overlaps
        { address: 1600, size: 10, segment: 3 }, // inside
        { address: 4000, size: 0, segment: 4 },
      ],
    });
    const layout = layoutAt(device, 1);
    expect(layout.segments.map((segment) => segment.reserved)).toEqual([2000, 500]);
    expect(total(layout, LIVE, IDLE, WAITING)).toBe(2500);
    expect(layout.live + layout.displaced).toBe(2800);
    expect(layout.live).toBe(1200);
    let end = -1;
    for (const [, address, size] of ranges(layout)) {
      expect(address).toBeGreaterThanOrEqual(end);
      expect(size).toBeGreaterThan(0);
      end = address + size;
    }
  });

  it('survives segments that are woven into each other', () => {
    const device = sampleDevice({
      lastInstant: 1,
      blocks: [{ begin: 0, size: 3000, address: 0 }],
      pieces: [0, 1, 2].map((i) => ({ address: i * 1000, size: 1000, segment: i % 2 })),
    });
    const layout = layoutAt(device, 0);
    expect(layout.reserved).toBe(3000);
    expect(layout.live).toBe(3000);
    expect(layout.segments.map((segment) => [segment.reserved, segment.span])).toEqual([[2000, 3000], [1000, 1000]]);
  });

  it('is nothing before anything is held', () => {
    const layout = layoutAt(sampleDevice({ lastInstant: 2, blocks: [], pieces: [{ begin: 2, address: 5, size: 5 }] }), 1);
    expect(layout).toMatchObject({ reserved: 0, live: 0, idle: 0, largestIdle: 0, segments: [], groups: [] });
  });
});

describe('a device without a map', () => {
  it('says why', () => {
    const device = sampleDevice({ lastInstant: 1, blocks: [{ begin: 0, size: 512 }] });
    expect(noLayoutReason(device)).toContain('names no segment');
    expect(noLayoutReason({ ...device, reserved: { instant: Uint32Array.of(0), bytes: Float64Array.of(512) } })).toContain('contradicts itself');
    expect(noLayoutReason({ ...device, header: { ...device.header, has_addresses: false } })).toContain('at which addresses');
    expect(noLayoutReason(sampleDevice({ lastInstant: 1, blocks: [], pieces: [{ address: 0, size: 1 }] }))).toBeNull();
  });
});

describe('a large map', () => {
  it('of 10,000 segments and 20,000 blocks keeps its sums', () => {
    const blocks: SampleBlock[] = [], pieces = [];
    for (let i = 0; i < 10000; i++) {
      const address = 2 ** 40 + ((i * 7919) % 10000) * 4 * MIB;
      pieces.push({ address, size: 2 * MIB, stream: i % 2, pool: i % 3 === 0 ? 1 : 0 });
      blocks.push({ begin: 0, size: 512, address: address + 1024 }, { begin: 0, size: MIB, address: address + MIB });
    }
    const layout = layoutAt(sampleDevice({ lastInstant: 1, blocks, pieces }), 1);
    expect(layout.segments).toHaveLength(10000);
    expect(layout.live).toBe(10000 * (MIB + 512));
    expect(layout.reserved).toBe(20000 * MIB);
    expect(layout.groups).toHaveLength(4);
    expect(layout.ranges.count).toBe(40000);
  });
});
