// The address map with a pen. What is idle, waits or is not there has a pattern, not only a colour.

import { NONE, type Device, type Stacks } from '../../data/model';
import { matches, type Search } from '../../data/search';
import type { ThemeColours } from '../../look/colours';
import { inkOn, mixed } from '../../look/ink';
import { fitted, type Pen } from '../../look/pen';
import { bytes, count } from '../../look/units';
import type { Scheme } from '../../picture/schemes';
import { GAP, IDLE, UNKNOWN_POOL, WAITING, type Group, type Layout } from './layout';
import { rangesOf, spanIn, visibleStrips, type Rows, type Strip } from './rows';

export const BAR = 19; // of a row

export interface MapView {
  readonly device: Device;
  readonly stacks: Stacks;
  readonly layout: Layout;
  readonly rows: Rows;
  readonly scheme: Scheme;
  readonly search: Search | null;
  readonly stack: number | null;
  readonly pinned: number | null;
  readonly chosen: number | null; // idle range
  readonly hovered: number | null; // range
}

export function groupName(device: Device, group: { readonly pool: number; readonly stream: number }): string {
  const pool = group.pool === UNKNOWN_POOL ? 'pool not known' : `${device.header.pools[group.pool] ?? '?'} pool`;
  return `${pool}, stream ${device.header.streams[group.stream] ?? '?'}`;
}

export function groupWords(group: Group): string {
  const waiting = group.waiting > 0 ? ` (${bytes(group.waiting)} waiting)` : '', largest = group.idle > 0 ? ` (largest ${bytes(group.largestIdle)})` : '';
  const segments = group.segments.length === 1 ? '1 segment' : `${count(group.segments.length)} segments`;
  return `${bytes(group.reserved)} reserved in ${segments}, ${bytes(group.live)} live${waiting}, ${bytes(group.idle)} idle${largest}`;
}

/** Mixing is the same for thousands of blocks. */
class Tints {
  private readonly made = new Map<string, string>();
  constructor(private readonly ground: string) {}
  paler(colour: string, share: number): string {
    const key = `${colour}${share}`;
    let known = this.made.get(key);
    if (known === undefined) {
      known = mixed(colour, this.ground, share);
      this.made.set(key, known);
    }
    return known;
  }
}

interface Brush {
  readonly pen: Pen;
  readonly theme: ThemeColours;
  readonly tints: Tints;
}

function drawHeads({ pen, theme }: Brush, view: MapView, top: number, height: number): void {
  const { width, headHeight } = view.rows.measures;
  for (const head of view.rows.heads) {
    const y = head.y - top, group = view.layout.groups[head.group]!;
    if (y + headHeight < 0 || y > height) continue;
    const name = groupName(view.device, group), middle = y + headHeight - 14, from = name.length * 7.6 + 14;
    pen.text(0, middle, name, { colour: theme.text, size: 12.5, weight: 'bold', room: width });
    pen.text(from, middle, groupWords(group), { colour: theme.muted, size: 12.5, room: width - from });
  }
}

interface Place {
  readonly x: number;
  readonly y: number;
  readonly width: number;
}

function drawGround({ pen, theme, tints }: Brush, kind: number, place: Place, size: number): void {
  const { x, y, width } = place;
  if (kind === GAP) {
    pen.rect(x, y, width, BAR, theme.ground);
    pen.line([x, y + BAR / 2, x + width, y + BAR / 2], theme.muted, 1, [2, 3]);
    const words = bytes(size);
    if (words.length * 5.2 < width) pen.text(x + width / 2, y + BAR / 2 - 5, words, { colour: theme.muted, size: 9, align: 'center' });
    return;
  }
  pen.rect(x, y, width, BAR, theme.surface);
  if (width >= 3) pen.hatch(x, y, width, BAR, 'rising', tints.paler(theme.muted, 0.55));
  if (width < 76) return;
  const text = `${bytes(size)} idle`, room = text.length * 6.4 + 8;
  if (room > width) return;
  pen.rect(x + 4, y + 3, room - 4, BAR - 6, theme.surface);
  pen.text(x + 8, y + BAR / 2, text, { colour: theme.text, size: 11 });
}

function drawBlock(brush: Brush, view: MapView, block: number, isWaiting: boolean, place: Place): void {
  const { pen, theme, tints } = brush, { y } = place, { device } = view;
  const stack = device.blocks.stack[block]!, size = device.blocks.size[block]!;
  const isFound = view.search === null || matches(view.search, view.stacks, stack, size);
  const isOfStack = view.stack !== null && stack === view.stack;
  const isDim = !isFound || (view.stack !== null && !isOfStack);
  // Never less than a pixel: the smallest block may hold the largest segment.
  const left = Math.floor(place.x), width = Math.max(1, Math.round(place.x + place.width) - left);
  const plain = view.scheme.colourOf(view.scheme.keyOf(block)), fill = isDim ? tints.paler(plain, 0.7) : isWaiting ? tints.paler(plain, 0.45) : plain;
  const isSlim = width < 4;
  pen.rect(left, y, width, BAR, isSlim && isOfStack ? theme.pinned : fill);
  if (isWaiting && width >= 3) pen.hatch(left, y, width, BAR, 'falling', tints.paler(theme.text, 0.15));
  if (width >= 3) pen.rect(left + width - 1, y, 1, BAR, theme.ground, 0.8);
  if (isOfStack && !isSlim) pen.frame(left, y, width - 1, BAR, theme.pinned, 2);
  if (view.pinned === block) pen.frame(left - 2, y - 2, width + 4, BAR + 4, theme.danger, 2);
  if (width < 60) return;
  const label = fitted(`${bytes(size)}${isWaiting ? ' waits' : ''}  ${view.stacks.labelOf(stack)}`, width - 10, 11, 'font');
  if (isWaiting) pen.rect(left + 2, y + 3, Math.min(width - 5, label.length * 6.2 + 6), BAR - 6, fill);
  pen.text(left + 5, y + BAR / 2, label, { colour: inkOn(fill), size: 11 });
}

function drawStrip(brush: Brush, view: MapView, strip: Strip, top: number): void {
  const { layout, rows } = view, { kind, block, size } = layout.ranges, y = strip.y - top, right = strip.x + strip.width;
  const [first, end] = rangesOf(layout, rows, strip);
  const place = (range: number): Place => {
    const [start, length] = spanIn(layout, rows, strip, range), x = Math.max(strip.x, start);
    return { x, y, width: Math.min(right, start + length) - x };
  };
  for (let range = first; range < end; range++)
    if (kind[range] === IDLE || kind[range] === GAP) drawGround(brush, kind[range]!, place(range), size[range]!);
  for (let range = first; range < end; range++)
    if (block[range] !== NONE) drawBlock(brush, view, block[range]!, kind[range] === WAITING, place(range));
  const { pen, theme } = brush;
  pen.rect(strip.x, y, strip.width, 1, theme.muted);
  pen.rect(strip.x, y + BAR - 1, strip.width, 1, theme.muted);
  if (strip.isFirst) pen.rect(strip.x, y, 1, BAR, theme.muted);
  if (strip.isLast) pen.rect(right - 1, y, 1, BAR, theme.muted);
  for (const [range, colour] of [[view.hovered, theme.pinned], [view.chosen, theme.accent]] as const) {
    if (range === null || range < first || range >= end) continue;
    const { x, width } = place(range);
    pen.frame(x - 1, y - 1, Math.max(4, width + 2), BAR + 2, colour, 2);
  }
}

/** What lies between two heights; the picture is moved up by `top`. */
export function drawMap(pen: Pen, theme: ThemeColours, view: MapView, top: number, height: number): void {
  const brush: Brush = { pen, theme, tints: new Tints(theme.ground) };
  drawHeads(brush, view, top, height);
  for (const strip of visibleStrips(view.rows, top, top + height)) drawStrip(brush, view, strip, top);
}
