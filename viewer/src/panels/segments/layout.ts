// The address map of one instant: what is held from the device, and what lies where in it.
//
// A recording may contradict itself (a trace that was cut, frees that are missing). Where two pieces
// or two blocks claim the same addresses, those of the lower start keep them; what then has no place
// is counted apart, so that the sums always say where every byte went.

import { liveAt } from '../../data/live';
import { NONE, type Device } from '../../data/model';

export const LIVE = 0; // a block
export const WAITING = 1; // a block that was freed, and waits for other streams
export const IDLE = 2; // held, and no block
export const GAP = 3; // between the pieces of an expandable segment: not held

export type RangeKind = typeof LIVE | typeof WAITING | typeof IDLE | typeof GAP;

/** Side by side in each segment, by rising address. */
export interface Ranges {
  readonly count: number;
  readonly kind: Uint8Array;
  readonly address: Float64Array;
  readonly size: Float64Array;
  readonly block: Uint32Array; // NONE: no block
}

/** Live bytes are what was asked for, to the next 512: where the allocator handed out more and did not
 * split it, the rest is idle here. So the largest request is at most that. */
export interface Sums {
  readonly reserved: number;
  readonly live: number; // with those that wait
  readonly waiting: number;
  readonly idle: number; // reserved - live
  readonly largestIdle: number; // side by side
  readonly largestRequest: number; // that would fit without growing
}

export interface Segment extends Sums {
  readonly number: number; // of piece.segment
  readonly address: number;
  readonly span: number; // addresses from its first to its last byte, with gaps
  readonly blocks: number;
  readonly stream: number;
  readonly pool: number;
  readonly isExpandable: boolean;
  readonly first: number; // of its ranges
  readonly end: number;
}

/** The segments of one pool and stream. */
export interface Group extends Sums {
  readonly pool: number;
  readonly stream: number;
  readonly segments: readonly number[]; // in Layout.segments, by address
}

export interface Layout extends Sums {
  readonly instant: number;
  readonly segments: readonly Segment[]; // by address
  readonly groups: readonly Group[]; // most reserved first
  readonly ranges: Ranges;
  readonly segmentOfRange: Uint32Array;
  /** Bytes of live blocks that lie in no piece, or where another block lies. */
  readonly displaced: number;
}

export const UNKNOWN_POOL = 0xffff;

// PyTorch's small requests have segments of their own: of 2 MiB, for requests of at most 1 MiB.
const SMALL_SEGMENT = 2 * 1024 ** 2;
const SMALL_REQUEST = 1024 ** 2;

interface Span {
  readonly start: number;
  readonly end: number;
}
interface PieceSpan extends Span {
  readonly piece: number;
}

class RangeList {
  kind: number[] = [];
  address: number[] = [];
  size: number[] = [];
  block: number[] = [];
  segment: number[] = [];
  constructor(private firstOfSegment = 0) {}

  get count(): number {
    return this.kind.length;
  }

  beginSegment(): void {
    this.firstOfSegment = this.count;
  }

  /** A block over two pieces side by side is one range, and so is what is idle. */
  add(kind: RangeKind, block: number, start: number, end: number, segment: number): void {
    if (end <= start) return;
    const last = this.count - 1;
    const isMore =
      last >= this.firstOfSegment &&
      this.kind[last] === kind &&
      this.block[last] === block &&
      this.address[last]! + this.size[last]! === start;
    if (isMore) {
      this.size[last]! += end - start;
      return;
    }
    this.kind.push(kind);
    this.block.push(block);
    this.address.push(start);
    this.size.push(end - start);
    this.segment.push(segment);
  }

  made(): Ranges {
    return {
      count: this.count,
      kind: Uint8Array.from(this.kind),
      address: Float64Array.from(this.address),
      size: Float64Array.from(this.size),
      block: Uint32Array.from(this.block),
    };
  }
}

/** Sorted by address, of the same address the longest first. Without a comparison that is called for
 * every pair: at tens of thousands that is what a frame has time for. */
function byAddress(indices: Uint32Array, address: Float64Array, size: Float64Array): Uint32Array {
  const keys = new Float64Array(indices.length), owners = new Map<number, number>();
  let isSorted = true;
  for (let i = 0; i < indices.length; i++) {
    const key = address[indices[i]!]!;
    keys[i] = key;
    owners.set(key, indices[i]!);
    if (i > 0 && keys[i - 1]! >= key) isSorted = false;
  }
  if (isSorted) return indices;
  if (owners.size < indices.length) return indices.sort((a, b) => address[a]! - address[b]! || size[b]! - size[a]!);
  keys.sort();
  for (let i = 0; i < keys.length; i++) indices[i] = owners.get(keys[i]!)!;
  return indices;
}

/** What is held at an instant, by address, each address once. */
function piecesAt(device: Device, instant: number): PieceSpan[] {
  const { begin, end, address, size, count } = device.pieces;
  const found = new Uint32Array(count);
  let held = 0;
  for (let i = 0; i < count; i++) if (begin[i]! <= instant && end[i]! > instant) found[held++] = i;
  const spans: PieceSpan[] = [];
  let last = -Infinity;
  for (const piece of byAddress(found.subarray(0, held), address, size)) {
    const start = Math.max(last, address[piece]!), stop = address[piece]! + size[piece]!;
    if (stop <= start) continue;
    spans.push({ piece, start, end: (last = stop) });
  }
  return spans;
}

/** Live blocks by address, and where each starts and ends without what another has. */
interface PlacedBlocks {
  readonly block: Uint32Array;
  readonly start: Float64Array;
  readonly end: Float64Array;
  readonly count: number;
  readonly liveBytes: number;
}

function blocksAt(device: Device, instant: number): PlacedBlocks {
  const { address, size } = device.blocks;
  const order = byAddress(liveAt(device.blocks, instant), address, size);
  const block = new Uint32Array(order.length), start = new Float64Array(order.length), end = new Float64Array(order.length);
  let count = 0, last = -Infinity, liveBytes = 0;
  for (const i of order) {
    const from = Math.max(address[i]!, last), to = address[i]! + size[i]!;
    liveBytes += size[i]!;
    if (to <= from) continue;
    block[count] = i;
    start[count] = from;
    end[count++] = last = to;
  }
  return { block, start, end, count, liveBytes };
}

/** The first of rising `values` that is above `value`. */
function firstAbove(values: Float64Array, count: number, value: number): number {
  let low = 0, high = count;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle]! <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function addPiece(ranges: RangeList, device: Device, blocks: PlacedBlocks, span: Span, instant: number, segment: number): void {
  let at = span.start;
  for (let i = firstAbove(blocks.end, blocks.count, span.start); i < blocks.count && blocks.start[i]! < span.end; i++) {
    const block = blocks.block[i]!;
    const from = Math.max(at, blocks.start[i]!), to = Math.min(span.end, blocks.end[i]!);
    ranges.add(IDLE, NONE, at, from, segment);
    ranges.add(device.blocks.freed[block]! <= instant ? WAITING : LIVE, block, from, to, segment);
    at = Math.max(at, to);
  }
  ranges.add(IDLE, NONE, at, span.end, segment);
}

function makeSegment(device: Device, ranges: RangeList, first: number, pieces: readonly PieceSpan[]): Segment {
  const piece = pieces[0]!.piece;
  let reserved = 0, live = 0, waiting = 0, largestIdle = 0, blocks = 0, before = NONE;
  for (let i = first; i < ranges.count; i++) {
    const kind = ranges.kind[i]!, size = ranges.size[i]!, block = ranges.block[i]!;
    if (kind !== GAP) reserved += size;
    if (kind === IDLE) largestIdle = Math.max(largestIdle, size);
    if (kind === WAITING) waiting += size;
    if (block === NONE) continue;
    live += size;
    if (block !== before) blocks++;
    before = block;
  }
  const isExpandable = device.pieces.expandable[piece] === 1;
  const isSmall = !isExpandable && reserved === SMALL_SEGMENT;
  const last = pieces[pieces.length - 1]!;
  return {
    number: device.pieces.segment[piece]!,
    address: pieces[0]!.start,
    span: last.end - pieces[0]!.start,
    reserved,
    live,
    waiting,
    idle: reserved - live,
    largestIdle,
    largestRequest: isSmall ? Math.min(largestIdle, SMALL_REQUEST) : largestIdle,
    blocks,
    stream: device.pieces.stream[piece]!,
    pool: device.pieces.pool[piece]!,
    isExpandable,
    first,
    end: ranges.count,
  };
}

function sumOf(segments: readonly Segment[]): Sums {
  const sums = { reserved: 0, live: 0, waiting: 0, idle: 0, largestIdle: 0, largestRequest: 0 };
  for (const segment of segments) {
    sums.reserved += segment.reserved;
    sums.live += segment.live;
    sums.waiting += segment.waiting;
    sums.idle += segment.idle;
    sums.largestIdle = Math.max(sums.largestIdle, segment.largestIdle);
    sums.largestRequest = Math.max(sums.largestRequest, segment.largestRequest);
  }
  return sums;
}

function groupsOf(segments: readonly Segment[]): Group[] {
  const members = new Map<number, number[]>();
  segments.forEach((segment, i) => {
    const key = segment.pool * 65536 + segment.stream, known = members.get(key);
    if (known === undefined) members.set(key, [i]);
    else known.push(i);
  });
  const groups = Array.from(members.values(), (indices): Group => {
    const { pool, stream } = segments[indices[0]!]!;
    return { ...sumOf(indices.map((i) => segments[i]!)), pool, stream, segments: indices };
  });
  return groups.sort((a, b) => b.reserved - a.reserved || a.pool - b.pool || a.stream - b.stream);
}

export function layoutAt(device: Device, instant: number): Layout {
  const bySegment = new Map<number, PieceSpan[]>(); // in the order of their lowest addresses
  for (const span of piecesAt(device, instant)) {
    const number = device.pieces.segment[span.piece]!, known = bySegment.get(number);
    if (known === undefined) bySegment.set(number, [span]);
    else known.push(span);
  }
  const blocks = blocksAt(device, instant), ranges = new RangeList(), segments: Segment[] = [];
  for (const pieces of bySegment.values()) {
    const first = ranges.count;
    ranges.beginSegment();
    pieces.forEach((span, i) => {
      if (i > 0) ranges.add(GAP, NONE, pieces[i - 1]!.end, span.start, segments.length);
      addPiece(ranges, device, blocks, span, instant, segments.length);
    });
    segments.push(makeSegment(device, ranges, first, pieces));
  }
  const sums = sumOf(segments);
  return {
    ...sums,
    instant,
    segments,
    groups: groupsOf(segments),
    ranges: ranges.made(),
    segmentOfRange: Uint32Array.from(ranges.segment),
    displaced: blocks.liveBytes - sums.live,
  };
}

/** Why there is no map, or null. */
export function noLayoutReason(device: Device): string | null {
  if (!device.header.has_addresses) return 'The recording does not say at which addresses its blocks lie, so there is no map of them.';
  if (device.pieces.count === 0 && device.reserved.bytes.some((bytes) => bytes > 0))
    return 'What the recording says of segments contradicts itself, or there are more of them at once than any program has: there is no map of addresses.';
  if (device.pieces.count === 0) return 'The recording names no segment that was held from the device, so there is no map of addresses.';
  return null;
}

/** What keeps an idle range from being given back. */
export interface Pinning {
  readonly segment: number;
  readonly blocks: readonly number[]; // largest first, each once
  readonly liveBytes: number;
  readonly idleBytes: number; // that they hold together
  /** Of an expandable segment only the neighbours count: pages between them can be given back. */
  readonly isByNeighbours: boolean;
}

function blocksOfRanges(layout: Layout, from: number, to: number): number[] {
  const found: number[] = [];
  for (let i = from; i < to; i++) {
    const block = layout.ranges.block[i]!;
    if (block !== NONE && found[found.length - 1] !== block) found.push(block);
  }
  return found;
}

export function pinning(device: Device, layout: Layout, range: number): Pinning {
  const number = layout.segmentOfRange[range]!, segment = layout.segments[number]!;
  const from = segment.isExpandable ? Math.max(segment.first, range - 1) : segment.first;
  const to = segment.isExpandable ? Math.min(segment.end, range + 2) : segment.end;
  const { size, address } = device.blocks;
  const blocks = blocksOfRanges(layout, from, to).sort((a, b) => size[b]! - size[a]! || address[a]! - address[b]!);
  return {
    segment: number,
    blocks,
    liveBytes: blocks.reduce((sum, block) => sum + size[block]!, 0),
    idleBytes: segment.isExpandable ? layout.ranges.size[range]! : segment.idle,
    isByNeighbours: segment.isExpandable,
  };
}

/** The range at an address of a segment, or -1. */
export function rangeAt(layout: Layout, segment: Segment, address: number): number {
  const { address: starts, size } = layout.ranges;
  let low = segment.first, high = segment.end;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (starts[middle]! + size[middle]! <= address) low = middle + 1;
    else high = middle;
  }
  return low < segment.end && starts[low]! <= address ? low : -1;
}

/** Where a block lies, or -1. */
export function rangeOfBlock(layout: Layout, block: number): number {
  return layout.ranges.block.indexOf(block);
}

/** Segments, those with most idle bytes first. */
export function byIdle(layout: Layout): number[] {
  const { segments } = layout;
  return segments
    .map((_, i) => i)
    .filter((i) => segments[i]!.idle > 0)
    .sort((a, b) => segments[b]!.idle - segments[a]!.idle || segments[a]!.address - segments[b]!.address);
}
