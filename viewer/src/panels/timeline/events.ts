// What single events did, for a picture of a few of them.

import { begunBy } from '../../data/live';
import { NONE, type Device, type Stacks } from '../../data/model';
import { bytes } from '../../look/units';
import { markName } from './marks';

export interface EventText {
  readonly instant: number; // the one after it
  readonly what: string; // "alloc"
  readonly size: string; // "512 KiB", or ''
  readonly where: string; // its stack, or ''
}

/** Events whose instants are in [first, last], one line each. */
export function eventsIn(device: Device, stacks: Stacks, first: number, last: number): EventText[] {
  const { blocks, pieces, marks } = device, found = new Map<number, EventText>();
  const tell = (instant: number, what: string, size: string, where: string): void => {
    if (instant < Math.max(1, first) || instant > last || instant === NONE) return;
    const known = found.get(instant);
    if (known === undefined) found.set(instant, { instant, what, size, where });
    else found.set(instant, { instant, what: `${known.what}, ${what}`, size: known.size || size, where: known.where || where });
  };
  const begun = begunBy(blocks, last);
  for (let i = 0; i < begun; i++) {
    const begin = blocks.begin[i]!, freed = blocks.freed[i]!, end = blocks.end[i]!;
    if (end < first) continue;
    const tells = (begin >= first && begin > 0) || (freed >= first && freed <= last) || end <= last;
    if (!tells) continue;
    const size = bytes(blocks.size[i]!), where = stacks.labelOf(blocks.stack[i]!);
    if (begin >= first) tell(begin, 'alloc', size, where);
    if (freed !== end) tell(freed, 'free requested', size, where);
    tell(end, 'free', size, where);
  }
  for (let i = 0; i < pieces.count; i++) {
    tell(pieces.begin[i]!, 'reserve', bytes(pieces.size[i]!), '');
    tell(pieces.end[i]!, 'give back', bytes(pieces.size[i]!), '');
  }
  for (const mark of marks) tell(mark.instant, markName(mark), '', mark.text ?? '');
  return [...found.values()].sort((a, b) => a.instant - b.instant);
}
