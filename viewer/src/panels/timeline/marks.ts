// Marks above the picture: each kind has a shape and a letter, and those too near to each other are one.

import type { Mark, MarkKind } from '../../data/header';
import { bytes } from '../../look/units';
import { spanOf } from '../../picture/columns';
import type { ThemeColours } from '../../look/colours';
import type { Pen } from './pen';
import { xOf, type Plot } from './plot';
import { eventText } from '../../data/events';

interface Look {
  readonly letter: string;
  readonly shape: 'triangle' | 'circle' | 'square' | 'diamond';
  readonly colour: keyof ThemeColours;
  readonly name: string;
  readonly what: string; // it means
}

/** The most serious first. */
const LOOKS: Readonly<Record<MarkKind, Look>> = {
  oom: { letter: '!', shape: 'triangle', colour: 'danger', name: 'out of memory', what: 'a request failed' },
  retry: { letter: 'R', shape: 'circle', colour: 'warn', name: 'retry', what: 'cached memory was given back before the request was served' },
  'empty-cache': { letter: 'E', shape: 'square', colour: 'accent', name: 'empty_cache', what: 'the program gave cached memory back' },
  user: { letter: 'U', shape: 'diamond', colour: 'good', name: 'note', what: 'the program wrote it' },
  annotation: { letter: 'A', shape: 'diamond', colour: 'muted', name: 'annotation', what: 'PyTorch or the program named this moment' },
  snapshot: { letter: 'S', shape: 'square', colour: 'muted', name: 'snapshot', what: 'the recording was taken' },
};
const ORDER = Object.keys(LOOKS) as MarkKind[];
const NEAREST = 16; // CSS pixels

export interface MarkGroup {
  readonly x: number;
  readonly shown: Mark;
  readonly marks: readonly Mark[];
}

export function markName(mark: Mark): string {
  return LOOKS[mark.kind]?.name ?? mark.kind;
}

/** Of the kinds that marks are of, the most serious first. */
export function lookOfKinds(marks: readonly Mark[]): { readonly kind: MarkKind; readonly name: string; readonly what: string }[] {
  const kinds = new Set(marks.map((mark) => mark.kind));
  return ORDER.filter((kind) => kinds.has(kind)).map((kind) => ({ kind, name: LOOKS[kind].name, what: LOOKS[kind].what }));
}

export function markText(mark: Mark): string {
  const parts = [markName(mark)];
  if (mark.text !== null && mark.text !== '' && mark.text !== parts[0]) parts.push(mark.text);
  if (mark.bytes !== null && mark.bytes > 0 && !/\d (B|KiB|MiB|GiB|TiB)\b/.test(mark.text ?? '')) parts.push(bytes(mark.bytes));
  return `${parts.join(': ')} (${eventText(mark.instant)})`;
}

/** Those in one span of a fixed grid are one, so that they do not regroup while one moves. */
export function groupsOf(marks: readonly Mark[], plot: Plot): MarkGroup[] {
  const span = 2 ** Math.ceil(Math.log2(Math.max(1e-6, (spanOf(plot) / plot.width) * NEAREST)));
  const groups = new Map<number, Mark[]>();
  for (const mark of marks) {
    if (mark.instant < plot.from || mark.instant > plot.to + 1) continue;
    const place = Math.floor(mark.instant / span), group = groups.get(place);
    if (group === undefined) groups.set(place, [mark]);
    else group.push(mark);
  }
  return [...groups.values()].map((group) => {
    const shown = group.reduce((worst, mark) => (ORDER.indexOf(mark.kind) < ORDER.indexOf(worst.kind) ? mark : worst));
    return { x: xOf(plot, shown.instant), shown, marks: group };
  });
}

export function drawMark(pen: Pen, x: number, y: number, kind: MarkKind, colours: ThemeColours): void {
  const look = LOOKS[kind] ?? LOOKS.annotation, colour = colours[look.colour], r = 6.5;
  if (look.shape === 'circle') pen.circle(x, y, r, colour);
  else if (look.shape === 'square') pen.rect(x - r + 0.5, y - r + 0.5, 2 * r - 1, 2 * r - 1, colour);
  else if (look.shape === 'triangle') pen.area([[x, y - r - 1], [x + r + 1, y + r - 1], [x - r - 1, y + r - 1]], colour);
  else pen.area([[x, y - r - 0.5], [x + r + 0.5, y], [x, y + r + 0.5], [x - r - 0.5, y]], colour);
  pen.text(x, y + (look.shape === 'triangle' ? 1 : 0.5), look.letter, { colour: colours.ground, size: 9, align: 'center', weight: 'bold' });
}

export function drawMarks(pen: Pen, groups: readonly MarkGroup[], plot: Plot, colours: ThemeColours): void {
  const y = plot.top - 11;
  for (const { x, shown, marks } of groups) {
    const isGrave = shown.kind === 'oom' || shown.kind === 'retry';
    const look = LOOKS[shown.kind] ?? LOOKS.annotation;
    pen.line([[x, plot.top - 4], [x, isGrave ? plot.top + plot.height : plot.top + 4]], { colour: colours[look.colour], dash: isGrave ? [2, 3] : [] });
    drawMark(pen, x, y, shown.kind, colours);
    if (marks.length > 1) pen.text(x + 8, y - 4, marks.length > 99 ? '99+' : String(marks.length), { colour: colours.muted, size: 8.5 });
  }
}

export function groupAt(groups: readonly MarkGroup[], plot: Plot, x: number, y: number): MarkGroup | null {
  if (y < plot.top - 20 || y > plot.top - 1) return null;
  let best: MarkGroup | null = null;
  for (const group of groups)
    if (Math.abs(group.x - x) <= 9 && (best === null || Math.abs(group.x - x) < Math.abs(best.x - x))) best = group;
  return best;
}
