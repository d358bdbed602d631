// The stacks that grow, as a table that can be sorted and searched, each with a small picture.

import type { App } from '../../app/panel';
import type { State } from '../../app/state';
import { tableText } from '../../data/csv';
import { matches, parseSearch } from '../../data/search';
import { fill, h } from '../../look/h';
import { NEUTRAL } from '../../look/palette';
import { bytes, count } from '../../look/units';
import { keepFocus, nothing, spark, swatch, tableHead, type Heading } from '../parts';
import { fullText, sortLeaks, type LeakKey, type LeakRow } from './rows';

export interface LineStyle {
  readonly colour: string;
  readonly dash: readonly number[];
}

export interface LeakContent {
  readonly rows: readonly LeakRow[];
  readonly chosen: ReadonlySet<number>; // stacks that are drawn in the chart
  styleOf(row: LeakRow): LineStyle;
  readonly card: number | null; // bytes
  readonly highest: number; // live in the last step
}

export interface LeakTable {
  readonly element: HTMLElement;
  update(state: State, content: LeakContent): void;
  /** null: no row is found. */
  csv(): string | null;
}

const headings = (hasCard: boolean): Heading<LeakKey>[] => [
  { key: null, title: 'chart', isNumber: false },
  { key: 'where', title: 'stack', isNumber: false },
  { key: null, title: 'over the steps', isNumber: false },
  { key: 'perStep', title: 'growth per step', isNumber: true },
  { key: 'first', title: 'first', isNumber: true },
  { key: 'last', title: 'last', isNumber: true },
  ...(hasCard ? [{ key: 'full', title: 'alone fills the card', isNumber: true } as const] : []),
];

/** `choose`: a stack is to be drawn, or not any more. */
export function makeLeakTable(app: App, choose: (stack: number) => void): LeakTable {
  const table = h('table'), none = h('div');
  let sorted: { key: LeakKey; isFalling: boolean } = { key: 'perStep', isFalling: true };
  let shown: LeakContent | null = null, found: readonly LeakRow[] = [];

  const rowOf = (row: LeakRow, state: State, { chosen, styleOf, card, highest }: LeakContent): HTMLElement => {
    const innermost = app.stacks().framesOf(row.stack)[0], { colour, dash } = styleOf(row);
    const isTaken = state.stack === row.stack;
    const tick = h('input', { type: 'checkbox', checked: chosen.has(row.stack), 'aria-label': `draw ${row.label}`, onchange: () => choose(row.stack) });
    return h(
      'tr',
      { class: isTaken ? 'pickable taken' : 'pickable', onclick: () => app.store.set({ stack: isTaken ? null : row.stack }) },
      h('td', { onclick: (event: Event) => event.stopPropagation() }, h('label', { class: 'charted' }, tick, swatch(colour, 2, dash))),
      h(
        'td',
        { class: 'where' },
        h('button', { type: 'button', class: 'link', title: 'highlight it in all tabs', 'aria-pressed': String(isTaken) }, row.label),
        h('small', {}, innermost === undefined ? row.category : `${row.category}, in ${innermost.functionName}`),
      ),
      h('td', {}, spark(row.values, row.doesGrow ? colour : NEUTRAL)),
      h('td', { class: row.doesGrow ? 'number' : 'number note' }, row.doesGrow ? bytes(Math.round(row.perStep)) : 'does not grow'),
      h('td', { class: 'number' }, bytes(row.first)),
      h('td', { class: 'number' }, bytes(row.last)),
      card === null ? null : h('td', { class: 'number' }, row.doesGrow ? fullText(card, highest, row.perStep, count) : ''),
    );
  };

  const sort = (key: LeakKey): void => {
    sorted = { key, isFalling: sorted.key === key ? !sorted.isFalling : key !== 'where' && key !== 'full' };
    if (shown !== null) draw(app.store.state, shown);
  };

  const draw = (state: State, content: LeakContent): void => {
    shown = content;
    const search = parseSearch(state.search), { stacks } = app.run();
    found = sortLeaks(content.rows, sorted.key, sorted.isFalling).filter((row) => search === null || matches(search, stacks, row.stack, row.last));
    keepFocus(table, () =>
      fill(table, tableHead(headings(content.card !== null), sorted, sort), h('tbody', {}, ...found.map((row) => rowOf(row, state, content)))),
    );
    fill(none, found.length === 0 && nothing('No stack is found by the search.'));
  };

  const csv = (): string | null => {
    const head = ['where', 'category', 'growth_bytes_per_step', 'first_bytes', 'last_bytes'];
    return found.length === 0 ? null : tableText(head, found.map((row) => [row.label, row.category, Math.round(row.perStep), row.first, row.last]));
  };
  return { element: h('div', { class: 'wide' }, table, none), update: draw, csv };
}
