// What grew and what shrank, as a table that can be sorted and searched.

import { toDevice } from '../../app/defaults';
import type { App } from '../../app/panel';
import type { State } from '../../app/state';
import type { DiffReport } from '../../data/header';
import type { Device } from '../../data/model';
import { tableText, type Cell } from '../../data/csv';
import { parseSearch } from '../../data/search';
import { fill, h } from '../../look/h';
import { DISTINCT } from '../../look/palette';
import { makeSegmented } from '../../look/segmented';
import { bytes, count } from '../../look/units';
import { barOfBothSides, keepFocus, nothing, tableHead, type Heading } from '../parts';
import { categoryRows, differenceText, isFound, isOnSide, sortRows, lineRows, type DiffKey, type DiffRow, type Side } from './changes';

export const COLOURS = [DISTINCT[0]!, DISTINCT[5]!] as const; // before, after
export const NAMES = ['before (A)', 'after (B)'] as const;

const FEW_ROWS = 200;

type Kind = 'line' | 'category';

const headings = (kind: Kind): Heading<DiffKey>[] => [
  { key: 'where', title: kind, isNumber: false },
  { key: null, title: 'less | more', isNumber: false },
  { key: 'difference', title: 'difference', isNumber: true },
  { key: 'before', title: 'before', isNumber: true },
  { key: 'after', title: 'after', isNumber: true },
  { key: null, title: 'blocks', isNumber: true },
];

export interface Changes {
  readonly element: HTMLElement;
  update(state: State): void;
  /** null: no row is found. */
  csv(): string | null;
}

/** `devices`: those that were compared, of both runs. */
export function makeChanges(app: App, report: DiffReport, devices: readonly Device[]): Changes {
  const rowsBy: Readonly<Record<Kind, DiffRow[]>> = { line: lineRows(report, app.model), category: categoryRows(report) };
  let kind: Kind = 'line', side: Side = 'all', isAllShown = false;
  let sorted: { key: DiffKey; isFalling: boolean } = { key: 'difference', isFalling: true };
  let found: readonly DiffRow[] = [];
  const table = h('table'), more = h('div');

  const redraw = (): void => draw(app.store.state);
  const kinds = makeSegmented<Kind>('what is compared', [{ value: 'line', title: 'by line' }, { value: 'category', title: 'by category' }], (value) => {
    kind = value;
    redraw();
  });
  const sides = makeSegmented<Side>(
    'which changes',
    [{ value: 'all', title: 'all' }, { value: 'grew', title: 'grew' }, { value: 'shrank', title: 'shrank' }],
    (value) => {
      side = value;
      redraw();
    },
  );
  kinds.set(kind);
  sides.set(side);

  const highlight = (row: DiffRow): void => {
    if (row.place === null) return;
    const { run, stack } = row.place, { state } = app.store;
    const isTaken = state.run === run && state.stack === stack;
    const device = app.model.runs[run]!.devices.indexOf(devices[run]!);
    const move = state.run === run ? {} : toDevice(app.model, state, run, device);
    app.store.set({ ...move, stack: isTaken ? null : stack });
  };

  const nameOf = (row: DiffRow, isTaken: boolean): HTMLElement | string => {
    if (row.place === null) return row.label;
    const title = `highlight it in the recording ${NAMES[row.place.run]}`;
    return h('button', { type: 'button', class: 'link', title, 'aria-pressed': String(isTaken) }, row.label);
  };

  const rowElement = (row: DiffRow, most: number, state: State): HTMLElement => {
    const difference = row.after - row.before, { place } = row;
    const isTaken = place !== null && place.run === state.run && place.stack === state.stack;
    return h(
      'tr',
      place === null ? {} : { class: isTaken ? 'pickable taken' : 'pickable', onclick: () => highlight(row) },
      h('td', { class: 'where' }, nameOf(row, isTaken), row.detail === '' ? null : h('small', {}, row.detail)),
      h('td', { class: 'picture' }, barOfBothSides(difference / most, COLOURS[0], COLOURS[1])),
      h('td', { class: 'number' }, differenceText(difference, bytes)),
      h('td', { class: 'number' }, bytes(row.before)),
      h('td', { class: 'number' }, bytes(row.after)),
      h('td', { class: 'number' }, `${count(row.blocksBefore)} → ${count(row.blocksAfter)}`),
    );
  };

  const sort = (key: DiffKey): void => {
    sorted = { key, isFalling: sorted.key === key ? !sorted.isFalling : key !== 'where' };
    redraw();
  };
  const showMore = (): void => {
    isAllShown = true;
    redraw();
  };

  const draw = (state: State): void => {
    const rows = rowsBy[kind], search = parseSearch(state.search);
    found = sortRows(rows, sorted.key, sorted.isFalling).filter((row) => isOnSide(row, side) && isFound(row, search, state.search, app.model));
    const shown = isAllShown ? found : found.slice(0, FEW_ROWS);
    const most = rows.reduce((so, row) => Math.max(so, Math.abs(row.after - row.before)), 1);
    keepFocus(table, () => fill(table, tableHead(headings(kind), sorted, sort), h('tbody', {}, ...shown.map((row) => rowElement(row, most, state)))));
    fill(
      more,
      found.length === 0 && nothing(rows.length === 0 ? 'Nothing changed.' : 'Nothing of that kind is found.'),
      shown.length < found.length && h('button', { type: 'button', class: 'plain', onclick: showMore }, `show all ${count(found.length)}`),
    );
  };

  const title = h('h2', {}, 'What grew and what shrank between the peaks');
  return {
    element: h('div', {}, h('div', { class: 'controls' }, title, kinds.element, sides.element), h('div', { class: 'wide' }, table), more),
    update: draw,
    csv() {
      const head = [kind, 'category', 'detail', 'before_bytes', 'after_bytes', 'difference_bytes', 'before_blocks', 'after_blocks'];
      const cells = (row: DiffRow): Cell[] => [row.label, row.category, row.detail, row.before, row.after, row.after - row.before, row.blocksBefore, row.blocksAfter];
      return found.length === 0 ? null : tableText(head, found.map(cells));
    },
  };
}
