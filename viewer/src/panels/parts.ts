// Small things that several panels show.

import './parts.css';
import { svg, h, type Child } from '../look/h';

/** A piece of a line as it is drawn in the chart. */
export function swatch(colour: string, width: number, dash: readonly number[], isFilled = false): SVGSVGElement {
  const picture = svg('svg', { class: 'swatch', width: 28, height: 12, 'aria-hidden': 'true' });
  if (isFilled) picture.append(svg('rect', { x: 0, y: 6, width: 28, height: 6, fill: colour, 'fill-opacity': 0.2 }));
  picture.append(svg('line', { x1: 0, y1: 6, x2: 28, y2: 6, stroke: colour, 'stroke-width': width, 'stroke-dasharray': dash.join(' ') || null }));
  return picture;
}

/** A bar of `share` of its box. */
export function bar(share: number, colour: string): SVGSVGElement {
  const width = Math.max(0, Math.min(1, share)) * 100;
  return svg(
    'svg',
    { class: 'bar', viewBox: '0 0 100 10', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    svg('rect', { x: 0, y: 0, width: width.toFixed(2), height: 10, fill: colour }),
  );
}

/** A bar to the left of the middle (less) or to the right of it (more): `share` is -1 to 1. */
export function barOfBothSides(share: number, less: string, more: string): SVGSVGElement {
  const length = Math.min(1, Math.abs(share)) * 50;
  return svg(
    'svg',
    { class: 'bar both', viewBox: '0 0 100 10', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    svg('rect', { x: (share < 0 ? 50 - length : 50).toFixed(2), y: 1, width: length.toFixed(2), height: 8, fill: share < 0 ? less : more }),
    svg('rect', { x: 49.8, y: 0, width: 0.4, height: 10, fill: 'currentColor', 'fill-opacity': 0.5 }),
  );
}

/** "x,y x,y": values over their whole range of 0 to the highest, in a box of that size. */
export function sparkPoints(values: ArrayLike<number>, width: number, height: number): string {
  let most = 0;
  for (let i = 0; i < values.length; i++) most = Math.max(most, values[i]!);
  const last = Math.max(1, values.length - 1);
  const out: string[] = [];
  for (let i = 0; i < values.length; i++) {
    const y = most > 0 ? height - (values[i]! / most) * height : height;
    out.push(`${((i / last) * width).toFixed(1)},${y.toFixed(1)}`);
  }
  return out.join(' ');
}

export function spark(values: ArrayLike<number>, colour: string): SVGSVGElement {
  const width = 120, height = 22;
  return svg(
    'svg',
    { class: 'spark', viewBox: `0 -1 ${width} ${height + 2}`, width, height: height + 2, 'aria-hidden': 'true' },
    svg('polyline', { points: sparkPoints(values, width, height), fill: 'none', stroke: colour, 'stroke-width': 1.5 }),
  );
}

/** Why there is nothing to see. */
export function nothing(...why: Child[]): HTMLElement {
  return h('p', { class: 'nothing' }, ...why);
}

/** Draws again what is inside, with the focus on the same button or field. */
export function keepFocus(inside: HTMLElement, draw: () => void): void {
  const fields = (): HTMLElement[] => [...inside.querySelectorAll<HTMLElement>('button, input')];
  const place = fields().indexOf(document.activeElement as HTMLElement);
  draw();
  if (place >= 0) fields()[place]?.focus();
}

export interface Heading<Key extends string> {
  readonly key: Key | null; // null: not to be sorted by
  readonly title: string;
  readonly isNumber: boolean;
}

/** The head of a table, with buttons that sort. */
export function tableHead<Key extends string>(
  headings: readonly Heading<Key>[],
  sorted: { readonly key: Key; readonly isFalling: boolean },
  sort: (key: Key) => void,
): HTMLTableSectionElement {
  const cells = headings.map(({ key, title, isNumber }) => {
    const attributes = { scope: 'col', class: isNumber ? 'number' : null };
    if (key === null) return h('th', attributes, title);
    const direction = key !== sorted.key ? 'none' : sorted.isFalling ? 'descending' : 'ascending';
    const arrow = direction === 'none' ? '' : direction === 'descending' ? ' ▾' : ' ▴';
    return h('th', { ...attributes, 'aria-sort': direction }, h('button', { type: 'button', class: 'sort', onclick: () => sort(key) }, title + arrow));
  });
  return h('thead', {}, h('tr', {}, ...cells));
}
