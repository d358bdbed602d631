// A block, a range and a stack, in words.

import { timeAt, type Highest } from '../../data/live';
import { frameLabel } from '../../data/stacks';
import { NONE, type Device, type Stacks } from '../../data/model';
import { bytes, count, duration } from '../../look/units';
import type { Range } from '../../picture/columns';
import { stepOf } from '../../picture/ticks';
import { eventNumber, eventText } from '../../data/events';

export function exactBytes(size: number): string {
  return size < 1024 ? bytes(size) : `${bytes(size)} (${count(size)} bytes)`;
}

export function lifeOf(device: Device, block: number): string {
  const { begin, end } = device.blocks, first = begin[block]!, isToTheEnd = end[block]! === NONE;
  const last = isToTheEnd ? device.lastInstant : end[block]!;
  const events = count(last - first);
  const parts = [
    first === 0 ? 'there at the beginning' : `from ${eventText(first)}`,
    isToTheEnd ? 'lives to the end' : `freed at ${eventText(last)} (after ${events})`,
  ];
  const began = timeAt(device, first), ended = timeAt(device, last);
  if (began !== null && ended !== null && device.header.has_trace) parts.push(`${isToTheEnd ? 'at least ' : ''}${duration(ended - began)}`);
  if (device.stepEnds.length > 0) {
    const from = stepOf(device.stepEnds, first), to = stepOf(device.stepEnds, last);
    parts.push(from === to ? `within step ${from}` : `steps ${from} to ${to}`);
  }
  return parts.join(', ');
}

/** A free that is done in the event after its request waited for nothing. */
export function waitOf(device: Device, block: number): string | null {
  const { freed, end } = device.blocks;
  if (freed[block]! === NONE || end[block]! - freed[block]! <= 1) return null;
  return `its free was requested at ${eventText(freed[block]!)}, and waited for other streams`;
}

export function addressOf(device: Device, block: number): string | null {
  return device.header.has_addresses ? `0x${device.blocks.address[block]!.toString(16)}` : null;
}

export function categoryOf(stacks: Stacks, stack: number): string {
  return stacks.categories[stacks.categoryOf(stack)] ?? 'unknown';
}

/** Innermost first. */
export function innermost(stacks: Stacks, stack: number, most: number): string[] {
  return stacks.framesOf(stack).slice(0, most).map(frameLabel);
}

export function rangeWords(device: Device, range: Range): string {
  const from = Math.max(0, Math.round(range.from)), to = Math.min(device.lastInstant, Math.round(range.to));
  const began = timeAt(device, from), ended = timeAt(device, to);
  const time = began !== null && ended !== null ? `, ${duration(ended - began)}` : '';
  return from === 0 && to === device.lastInstant ? `all ${count(to)} events${time}` : `events ${eventNumber(from)} to ${eventNumber(to)}${time}`;
}

/** What is seen, for who does not see it. */
export function pictureWords(device: Device, highest: Highest, range: Range): string {
  const { header } = device;
  const peak = highest.over(Math.floor(range.from), Math.ceil(range.to));
  const isPeakSeen = header.peak_instant >= range.from && header.peak_instant <= range.to;
  const where = isPeakSeen ? `, at ${eventText(header.peak_instant)}` : '';
  const limit = header.limit_bytes === null ? '' : ` The limit is ${bytes(header.limit_bytes)}.`;
  const marks = device.marks.filter((mark) => mark.instant >= range.from && mark.instant <= range.to + 1);
  const oom = marks.filter((mark) => mark.kind === 'oom').length;
  return (
    `Live memory of ${device.name}, ${rangeWords(device, range)}. The most that is live is ${bytes(peak)}${where}.${limit}` +
    (marks.length > 0 ? ` ${marks.length} marks${oom > 0 ? `, ${oom} of them out of memory` : ''}.` : '') +
    ' Arrow keys move and zoom, 0 shows the whole run, P the peak; comma and full stop move the cursor, Enter pins the largest block there.'
  );
}
