// Who holds the memory, as a table.

import './table.css';
import '../shared/toolbar.css';
import { copyText } from '../../app/clipboard';
import type { App, Panel, Table } from '../../app/panel';
import type { State } from '../../app/state';
import {
  COLUMNS, GROUPINGS, groupRows, rowsAsText, sortRows, totalOf, usageByStack,
  type ColumnName, type Grouping, type Row, type Total,
} from '../../data/groups';
import { insideOf } from '../../data/inside';
import { parseSearch } from '../../data/search';
import { append, fill, h } from '../../look/h';
import { makeSegmented } from '../../look/segmented';
import { bytes, count } from '../../look/units';
import { Kept, makeMomentSwitch, momentKey, momentOf, momentText } from '../shared/moment';
import { rowElement, rowHeight } from './row';
import { tablePicture } from './picture';
import { Offsets } from './window';

const TITLES: Readonly<Record<ColumnName, string>> = {
  bytes: 'Bytes', share: 'Share', blocks: 'Blocks', largest: 'Largest', category: 'Category', where: 'Where', file: 'File',
};
const GROUP_TITLES: Readonly<Record<Grouping, string>> = {
  stack: 'Stack', where: 'Line', function: 'Function', file: 'File', category: 'Category',
};
const NUMBERS: readonly ColumnName[] = ['bytes', 'share', 'blocks', 'largest'];

interface Found {
  readonly rows: readonly Row[];
  readonly found: Total; // of what is searched for
  readonly total: Total; // of the moment
}

class TablePanel implements Panel {
  readonly element: HTMLElement;
  private readonly head: HTMLElement;
  private readonly body = h('div', { class: 'table-body', role: 'rowgroup' });
  private readonly scroll = h('div', { class: 'table-scroll', role: 'table', 'aria-label': 'Memory by stack', onscroll: () => this.drawRows() });
  private readonly said = h('span', { class: 'said', role: 'status' });
  private readonly moments;
  private readonly groupings;

  private grouping: Grouping = 'stack';
  private column: ColumnName = 'bytes';
  private isFalling = true;
  private readonly open = new Set<string>();
  private focused = 0;
  private isFocusWanted = false;
  private offsets = new Offsets([]);

  private readonly keptFound = new Kept<Found>();
  private readonly keptRows = new Kept<readonly Row[]>();
  private readonly keptInside = new Kept<ReadonlyMap<string, string>>();
  private rows: readonly Row[] = [];
  private inside: ReadonlyMap<string, string> = new Map();
  private found: Found = { rows: [], found: { bytes: 0, blocks: 0 }, total: { bytes: 0, blocks: 0 } };

  constructor(private readonly app: App) {
    this.moments = makeMomentSwitch(app, () => this.update(app.store.state));
    this.groupings = makeSegmented<Grouping>(
      'Group by',
      GROUPINGS.map((value) => ({ value, title: GROUP_TITLES[value] })),
      (grouping) => this.group(grouping),
    );
    this.head = h('div', { class: 'table-head', role: 'row' });
    append(this.scroll, [this.head, this.body]);
    this.body.addEventListener('keydown', (event) => this.rowKey(event));
    const copies = ([',', '\t'] as const).map((separator) =>
      h('button', { type: 'button', class: 'plain', onclick: () => void this.copy(separator) }, separator === ',' ? 'Copy as CSV' : 'Copy as TSV'),
    );
    const tools = h('div', { class: 'toolbar' }, this.moments.element, this.groupings.element, this.said, ...copies);
    this.element = h('section', { class: 'table-panel' }, tools, this.scroll);
    if (typeof ResizeObserver !== 'undefined') new ResizeObserver(() => this.drawRows()).observe(this.scroll);
  }

  update(state: State): void {
    const { app } = this, device = app.device(), { stacks } = app.run(), moment = momentOf(app);
    this.moments.set(moment);
    this.groupings.set(this.grouping);
    const key = `${momentKey(app, state)} ${this.grouping} ${state.search} ${state.frames}`, shown = app.stacks();
    this.found = this.keptFound.get(key, () => {
      const search = parseSearch(state.search), all = usageByStack(device, stacks, moment, state.cursor);
      const usages = search === null ? all : usageByStack(device, stacks, moment, state.cursor, search);
      return { rows: groupRows(usages, stacks, this.grouping, shown), found: totalOf(usages), total: totalOf(all) };
    });
    this.rows = this.keptRows.get(`${key} ${this.column} ${this.isFalling}`, () => sortRows(this.found.rows, this.column, this.isFalling));
    this.focused = Math.max(0, Math.min(this.focused, this.rows.length - 1));
    this.inside = this.keptInside.get(key, () => insideOf(this.found.rows, shown, this.grouping));
    this.offsets = new Offsets(this.rows.map((row) => (this.open.has(row.key) ? rowHeight(row, shown, state.stack) : rowHeight(null, shown, null))));
    fill(this.said, this.words(state));
    this.drawHead();
    this.drawRows();
  }

  private words(state: State): string {
    const { found, total } = this.found, of = momentText(this.app.device(), momentOf(this.app), state);
    const amount = ({ bytes: size, blocks }: Total): string => `${bytes(size)} in ${count(blocks)} ${blocks === 1 ? 'block' : 'blocks'}`;
    if (state.search === '') return `${amount(total)} ${of}`;
    return `${amount(found)} found, of ${amount(total)} ${of}`;
  }

  private group(grouping: Grouping): void {
    this.grouping = grouping;
    this.open.clear();
    this.focused = 0;
    this.scroll.scrollTop = 0;
    this.update(this.app.store.state);
  }

  private sort(column: ColumnName): void {
    this.isFalling = this.column === column ? !this.isFalling : NUMBERS.includes(column);
    this.column = column;
    this.scroll.scrollTop = 0;
    this.update(this.app.store.state);
  }

  private drawHead(): void {
    if (this.head.childElementCount === 0) {
      append(this.head, [h('span', { role: 'columnheader' }, h('span', { class: 'visually-hidden' }, 'Open'))]);
      for (const name of COLUMNS) {
        const button = h('button', { type: 'button', onclick: () => this.sort(name) }, TITLES[name], h('span', { class: 'mark', 'aria-hidden': 'true' }));
        append(this.head, [h('span', { role: 'columnheader', class: NUMBERS.includes(name) && name !== 'share' ? 'number' : null }, button)]);
      }
    }
    COLUMNS.forEach((name, i) => {
      const cell = this.head.children[i + 1]!, isSorted = name === this.column;
      cell.setAttribute('aria-sort', isSorted ? (this.isFalling ? 'descending' : 'ascending') : 'none');
      cell.querySelector('.mark')!.textContent = isSorted ? (this.isFalling ? ' \u25be' : ' \u25b4') : '';
    });
  }

  private drawRows(): void {
    const stacks = this.app.stacks(), { stack: highlighted } = this.app.store.state;
    this.scroll.setAttribute('aria-rowcount', String(this.rows.length + 1));
    this.body.style.height = `${Math.max(this.offsets.total, this.rows.length === 0 ? 80 : 0)}px`;
    if (this.rows.length === 0) {
      const isSearched = this.app.store.state.search !== '' && this.found.total.blocks > 0;
      fill(this.body, h('p', { class: 'reason' }, isSearched ? 'No block of this moment is what you search for.' : 'No block is live at this moment.'));
      return;
    }
    const isFocusHere = this.isFocusWanted || this.body.contains(document.activeElement);
    const [first, end] = this.offsets.seen(this.scroll.scrollTop, this.scroll.clientHeight);
    const made = this.rows.slice(first, end).map((row, i) =>
      rowElement({
        row,
        inside: this.inside.get(row.key) ?? '',
        stacks,
        highlighted,
        totalBytes: this.found.total.bytes,
        index: first + i,
        top: this.offsets.top(first + i),
        isOpen: this.open.has(row.key),
        isFocusable: first + i === this.focused || (i === 0 && (this.focused < first || this.focused >= end)),
        toggle: () => this.toggle(first + i),
        choose: (stack) => this.choose(first + i, stack),
      }),
    );
    fill(this.body, ...made);
    if (isFocusHere && this.focused >= first && this.focused < end)
      made[this.focused - first]!.querySelector<HTMLElement>('[role=row]')!.focus({ preventScroll: true });
    this.isFocusWanted = false;
  }

  private toggle(index: number): void {
    const { key } = this.rows[index]!;
    if (!this.open.delete(key)) this.open.add(key);
    this.focused = index;
    this.isFocusWanted = true;
    this.update(this.app.store.state);
  }

  private choose(index: number, stack: number): void {
    this.focused = index;
    const { state } = this.app.store;
    this.app.store.set({ stack: state.stack === stack ? null : stack });
  }

  private rowKey(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const row = this.rows[this.focused];
    if (row === undefined || !(event.target instanceof Element) || event.target.getAttribute('role') !== 'row') return;
    const page = Math.max(1, Math.floor(this.scroll.clientHeight / rowHeight(null, this.app.run().stacks, null)) - 1);
    const moves: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const by = moves[event.key], isOpen = this.open.has(row.key);
    if (by !== undefined) this.moveTo(Math.max(0, Math.min(this.rows.length - 1, this.focused + by)));
    else if (event.key === 'Enter' || event.key === ' ') this.choose(this.focused, row.usages[0]!.stack);
    else if ((event.key === 'ArrowRight' && !isOpen) || (event.key === 'ArrowLeft' && isOpen)) this.toggle(this.focused);
    else return;
    event.preventDefault();
  }

  private moveTo(index: number): void {
    this.focused = index;
    this.isFocusWanted = true;
    const headHeight = this.head.offsetHeight;
    this.scroll.scrollTop = this.offsets.scrollTo(index, this.scroll.scrollTop, this.scroll.clientHeight - headHeight);
    this.drawRows();
  }

  private async copy(separator: ',' | '\t'): Promise<void> {
    const isCopied = await copyText(rowsAsText(this.rows, this.found.total.bytes, separator, this.inside));
    this.app.say(isCopied ? `${count(this.rows.length)} rows are copied` : 'The browser did not allow to copy');
  }

  table(): Table | null {
    return this.rows.length === 0 ? null : { name: 'table', csv: rowsAsText(this.rows, this.found.total.bytes, ',', this.inside) };
  }

  picture(): ReturnType<Panel['picture']> {
    if (this.rows.length === 0) return null;
    const state = this.app.store.state;
    return tablePicture(this.rows, this.inside, this.found.total.bytes, `${this.app.run().file}, ${this.app.device().name}: ${this.words(state)}`);
  }

  key(event: KeyboardEvent): boolean {
    if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return false;
    if (this.rows.length === 0) return false;
    this.moveTo(this.focused);
    return true;
  }
}

export function makeTablePanel(app: App): Panel {
  return new TablePanel(app);
}
