// What an opened row shows: its stacks, and the frames of one of them.

import type { Row } from '../../data/groups';
import type { Frame, Stacks } from '../../data/model';
import { bytes, count } from '../../look/units';

export type Line =
  | { readonly kind: 'stack'; readonly stack: number; readonly text: string; readonly isChosen: boolean }
  | { readonly kind: 'frame'; readonly text: string; readonly isWhere: boolean }
  | { readonly kind: 'note'; readonly text: string };

const MOST_STACKS = 50;

/** All of a frame: "/home/me/train.py:152 main". */
export function frameText(frame: Frame): string {
  const place = frame.file === '' ? '' : frame.file + (frame.line > 0 ? `:${frame.line}` : '');
  return [place, frame.functionName].filter((part) => part !== '').join(' ') || 'unknown';
}

export function frameLines(stacks: Stacks, stack: number): Line[] {
  const where = stacks.whereOf(stack), frames = stacks.framesOf(stack);
  if (frames.length === 0) return [{ kind: 'note', text: stacks.labelOf(stack) }];
  const place = where === null ? -1 : frames.indexOf(where);
  return frames.map((frame, i) => ({ kind: 'frame', text: frameText(frame), isWhere: i === place }));
}

/** `highlighted`: the stack of the state, if it is one of the row's it is the one that is opened. */
export function detailLines(row: Row, stacks: Stacks, highlighted: number | null): Line[] {
  if (row.usages.length === 1) return frameLines(stacks, row.usages[0]!.stack);
  const chosen = row.usages.find((usage) => usage.stack === highlighted)?.stack ?? row.usages[0]!.stack;
  const lines: Line[] = [{ kind: 'note', text: `${count(row.usages.length)} stacks, largest first` }];
  row.usages.slice(0, MOST_STACKS).forEach((usage) => {
    const blocks = usage.blocks === 1 ? '1 block' : `${count(usage.blocks)} blocks`;
    const isChosen = usage.stack === chosen;
    lines.push({ kind: 'stack', stack: usage.stack, isChosen, text: `${bytes(usage.bytes)} in ${blocks}: ${stacks.labelOf(usage.stack)}` });
    if (isChosen) lines.push(...frameLines(stacks, usage.stack));
  });
  if (row.usages.length > MOST_STACKS) lines.push({ kind: 'note', text: `and ${count(row.usages.length - MOST_STACKS)} more` });
  return lines;
}
