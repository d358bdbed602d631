// What the address map says in words: of a block, of an idle range, of what pins it.

import { NONE, type Device, type Stacks } from '../../data/model';
import { bytes, count } from '../../look/units';
import { instantText } from '../shared/moment';
import { GAP, pinning, WAITING, type Layout, type Pinning } from './layout';

export function addressText(address: number): string {
  return `0x${address.toString(16)}`;
}

export function blockCount(blocks: number): string {
  return blocks === 1 ? '1 block' : `${count(blocks)} blocks`;
}

export function blockWords(device: Device, stacks: Stacks, block: number, instant: number): string[] {
  const { blocks } = device, freed = blocks.freed[block]!, end = blocks.end[block]!;
  const lives = end === NONE ? 'lives to the end' : `until ${instantText(device, end)}`;
  return [
    `${bytes(blocks.size[block]!)} at ${addressText(blocks.address[block]!)}`,
    stacks.labelOf(blocks.stack[block]!),
    `${stacks.categories[stacks.categoryOf(blocks.stack[block]!)] ?? 'unknown'}, stream ${device.header.streams[blocks.stream[block]!] ?? '?'}`,
    device.header.has_trace ? `from ${instantText(device, blocks.begin[block]!)}, ${lives}` : '',
    freed <= instant && freed !== NONE ? `freed at ${instantText(device, freed)}: waits for other streams` : '',
  ].filter((text) => text !== '');
}

/** Who holds an idle range, in one sentence. */
export function pinningWords(found: Pinning): string {
  if (found.isByNeighbours) {
    if (found.blocks.length === 0) return 'No block is beside it: the allocator can give its pages back.';
    return 'The segment is expandable: whole pages of this range can be given back, only those shared with the blocks beside it cannot.';
  }
  if (found.blocks.length === 0) return 'No block is in its segment: the allocator can give it back.';
  const keep = found.blocks.length === 1 ? 'keeps' : 'keep';
  return `${blockCount(found.blocks.length)} with ${bytes(found.liveBytes)} ${keep} ${bytes(found.idleBytes)} idle: a segment is given back only as a whole.`;
}

const MOST_NAMED = 5;

export function pinnerWords(device: Device, stacks: Stacks, block: number): string {
  return `${bytes(device.blocks.size[block]!)}  ${stacks.labelOf(device.blocks.stack[block]!)}`;
}

export function rangeWords(device: Device, stacks: Stacks, layout: Layout, range: number): string[] {
  const { kind, block, address, size } = layout.ranges;
  if (block[range] !== NONE) return blockWords(device, stacks, block[range]!, layout.instant);
  const place = `${bytes(size[range]!)} at ${addressText(address[range]!)}`;
  if (kind[range] === GAP) return [`${place}: not mapped`, 'addresses of an expandable segment without memory behind them'];
  const found = pinning(device, layout, range), named = found.blocks.slice(0, MOST_NAMED);
  const more = found.blocks.length - named.length;
  return [
    `${place}: idle`,
    pinningWords(found),
    ...named.map((one) => pinnerWords(device, stacks, one)),
    more > 0 ? `and ${count(more)} more; a click lists them` : '',
  ].filter((text) => text !== '');
}

export function isBlock(layout: Layout, range: number): boolean {
  return layout.ranges.kind[range]! <= WAITING;
}
