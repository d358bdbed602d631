// One row of the table as elements, with what it shows when it is open.

import type { Row } from '../../data/groups';
import type { Stacks } from '../../data/model';
import { h } from '../../look/h';
import { categoryColour } from '../../look/palette';
import { bytes, count, shareText } from '../../look/units';
import { detailLines, type Line } from './detail';

const CLOSED = 29; // with its border
const LINE = 20;
const AROUND = 10;

/** null: of any row that is closed. */
export function rowHeight(open: Row | null, stacks: Stacks, highlighted: number | null): number {
  return open === null ? CLOSED : CLOSED + AROUND + LINE * detailLines(open, stacks, highlighted).length;
}

export interface RowParts {
  readonly row: Row;
  readonly inside: string; // what tells it from other rows of its line
  readonly stacks: Stacks;
  readonly highlighted: number | null;
  readonly totalBytes: number;
  readonly index: number;
  readonly top: number;
  readonly isOpen: boolean;
  readonly isFocusable: boolean;
  toggle(): void;
  choose(stack: number): void;
}

function shareCell(share: number): HTMLElement {
  const bar = h('i', { 'aria-hidden': 'true' });
  bar.style.width = `${Math.min(100, 100 * share)}%`;
  return h('span', { role: 'cell', class: 'share' }, bar, h('span', { class: 'number' }, shareText(share)));
}

function categoryCell(category: string): HTMLElement {
  const swatch = h('span', { class: 'swatch', 'aria-hidden': 'true' });
  swatch.style.background = categoryColour(category);
  return h('span', { role: 'cell' }, swatch, category);
}

function whereCell({ row, inside }: RowParts): HTMLElement {
  if (inside === '') return h('span', { role: 'cell', title: row.where }, row.where);
  return h('span', { role: 'cell', class: 'where', title: `${row.where}, ${inside}` }, h('span', {}, row.where), h('span', { class: 'muted' }, h('bdi', {}, `, ${inside}`)));
}

function lineElement(line: Line, choose: (stack: number) => void): HTMLElement {
  if (line.kind === 'stack')
    return h('li', { class: line.isChosen ? 'is-chosen' : null }, h('button', { type: 'button', onclick: () => choose(line.stack) }, line.text));
  if (line.kind === 'note') return h('li', { class: 'muted' }, line.text);
  return h('li', { class: line.isWhere ? 'is-where' : null, title: line.text }, h('bdi', {}, line.text));
}

export function rowElement(parts: RowParts): HTMLElement {
  const { row, totalBytes, isOpen } = parts;
  const isChosen = row.usages.some((usage) => usage.stack === parts.highlighted);
  const twist = h(
    'button',
    {
      type: 'button',
      class: 'twist',
      tabindex: -1,
      'aria-expanded': String(isOpen),
      'aria-label': isOpen ? 'Close' : 'Show the stack',
      onclick: (event: MouseEvent) => {
        event.stopPropagation();
        parts.toggle();
      },
    },
    isOpen ? '\u25be' : '\u25b8',
  );
  const cells = h(
    'div',
    {
      role: 'row',
      tabindex: parts.isFocusable ? 0 : -1,
      'aria-rowindex': parts.index + 2,
      'aria-selected': String(isChosen),
      onclick: () => parts.choose(row.usages[0]!.stack),
      ondblclick: () => parts.toggle(),
    },
    h('span', { role: 'cell' }, twist),
    h('span', { role: 'cell', class: 'number', title: `${count(row.bytes)} bytes` }, bytes(row.bytes)),
    shareCell(totalBytes > 0 ? row.bytes / totalBytes : 0),
    h('span', { role: 'cell', class: 'number' }, count(row.blocks)),
    h('span', { role: 'cell', class: 'number' }, bytes(row.largest)),
    categoryCell(row.category),
    whereCell(parts),
    h('span', { role: 'cell', class: 'file', title: row.file }, h('bdi', {}, row.file)),
  );
  const lines = isOpen ? detailLines(row, parts.stacks, parts.highlighted).map((line) => lineElement(line, parts.choose)) : [];
  const detail = isOpen ? h('div', { class: 'detail' }, h('ul', { class: 'stack-lines' }, ...lines)) : null;
  const element = h('div', { class: isChosen ? 'table-row is-chosen' : 'table-row', role: 'presentation' }, cells, detail);
  element.style.top = `${parts.top}px`;
  return element;
}
