// The address map at the cursor.

import './segments.css';
import '../shared/toolbar.css';
import type { App, Panel, Picture, Table } from '../../app/panel';
import { tableText } from '../../data/csv';
import type { State } from '../../app/state';
import { parseSearch, type Search } from '../../data/search';
import { themeColours } from '../../look/colours';
import { fill, h } from '../../look/h';
import { CanvasPen } from '../../look/pen';
import { makeTooltip } from '../../look/tooltip';
import { bytes, count, shareText } from '../../look/units';
import { makeScheme, type Scheme } from '../../picture/schemes';
import { instantText, Kept } from '../shared/moment';
import { titledPicture } from '../shared/picture';
import { makeScrolled } from '../shared/scrolled';
import { BAR, drawMap, type MapView } from './draw';
import { IDLE, layoutAt, rangeOfBlock, type Layout } from './layout';
import { failureOf, moveByKey } from './moves';
import { fittingBytesPerRow, hitAt, MEASURES, placeRows, type Rows } from './rows';
import { makeScrubber } from './scrubber';
import { makeSide } from './side';
import { addressText, isBlock, rangeWords } from './words';

const LEAST_PER_ROW = 1024 ** 2, MOST_PER_ROW = 2 ** 42;
const HIGHEST_PICTURE = 8000;

class SegmentsPanel implements Panel {
  readonly element: HTMLElement;
  private readonly numbers = h('dl', { class: 'segments-numbers' });
  private readonly reason = h('p', { class: 'reason', hidden: true });
  private readonly where = h('span', { class: 'said', role: 'status' });
  private readonly scaleText = h('span', { class: 'muted' });
  private readonly toFailure: HTMLButtonElement;
  private readonly moves: HTMLElement;
  private readonly scrolled = makeScrolled('Address map: left and right move by an event', () => this.draw());
  private readonly tooltip = makeTooltip();
  private readonly scrubber;
  private readonly side;
  private readonly content: HTMLElement;

  private readonly keptLayout = new Kept<Layout>();
  private readonly keptRows = new Kept<Rows>();
  private readonly keptFit = new Kept<number>();
  private readonly keptScheme = new Kept<Scheme>();
  private readonly keptSearch = new Kept<Search | null>();
  private layout: Layout | null = null;
  private rows: Rows | null = null;
  private bytesPerRow: number | null = null; // null: so that all fits
  private chosen: { address: number; range: number } | null = null;
  private hovered: number | null = null;
  private shownPin: number | null = null;

  constructor(private readonly app: App) {
    this.scrubber = makeScrubber(app);
    this.side = makeSide(app, {
      chooseRange: (range) => this.choose(range),
      showSegment: (segment) => this.showSegment(segment),
      pin: (block) => this.pin(block),
    });
    const to = (title: string, instant: () => number): HTMLButtonElement =>
      h('button', { type: 'button', class: 'plain', onclick: () => app.store.set({ cursor: instant() }) }, title);
    this.toFailure = to('Failure', () => failureOf(app.device())?.instant ?? app.store.state.cursor);
    this.moves = h('span', { class: 'segments-moves' }, to('Peak', () => app.device().header.peak_instant), this.toFailure, to('End', () => app.device().lastInstant));
    const scale = (title: string, label: string, change: () => void): HTMLElement =>
      h('button', { type: 'button', class: 'plain', 'aria-label': label, title: label, onclick: change }, title);
    const scales = [
      scale('\u2212', 'More bytes in a row', () => this.rescale(2)),
      scale('+', 'Fewer bytes in a row', () => this.rescale(0.5)),
      scale('Fit', 'So that all can be seen', () => this.rescale(null)),
    ];
    const tools = h('div', { class: 'toolbar' }, this.moves, this.where, this.scaleText, h('span', { class: 'segments-moves' }, ...scales), legend());
    const map = h('div', { class: 'segments-map' }, this.scrolled.element);
    this.content = h('div', { class: 'segments-content' }, map, this.side.element);
    this.element = h('section', { class: 'segments-panel' }, this.numbers, tools, this.content, this.reason, this.scrubber.element);
    this.listen();
  }

  private listen(): void {
    const { element } = this.scrolled;
    element.addEventListener('pointermove', (event) => this.hover(event));
    element.addEventListener('pointerleave', () => this.leave());
    element.addEventListener('scroll', () => this.leave());
    element.addEventListener('click', (event) => {
      const range = this.rangeUnder(event);
      if (range === null || this.layout === null) return;
      if (isBlock(this.layout, range)) this.pin(this.layout.ranges.block[range]!);
      else if (this.layout.ranges.kind[range] === IDLE) this.choose(range);
    });
  }

  update(state: State): void {
    const device = this.app.device();
    this.layout = this.keptLayout.get(`${state.run} ${state.device} ${state.cursor}`, () => layoutAt(device, state.cursor));
    this.keepChosen(this.layout);
    const isEmpty = this.layout.segments.length === 0;
    this.reason.hidden = !isEmpty;
    this.content.hidden = isEmpty;
    fill(this.reason, 'Nothing is held from the device at this instant.');
    this.moves.hidden = !device.header.has_trace;
    this.toFailure.hidden = failureOf(device) === null;
    fill(this.where, `at ${instantText(device, state.cursor)}`);
    this.showNumbers(this.layout, state);
    this.side.update(this.layout, state, this.chosen?.range ?? null);
    this.scrubber.update(state);
    this.leave();
    if (!isEmpty) this.place(this.layout, state);
    if (state.pinned !== this.shownPin) {
      this.shownPin = state.pinned;
      if (state.pinned !== null) this.scrollToRange(rangeOfBlock(this.layout, state.pinned));
    }
  }

  /** An idle range is the same while it covers the address that was clicked. */
  private keepChosen(layout: Layout): void {
    if (this.chosen === null) return;
    const { address } = this.chosen, { kind, address: starts, size, count: ranges } = layout.ranges;
    let range = -1;
    for (let i = 0; i < ranges && range < 0; i++)
      if (kind[i] === IDLE && starts[i]! <= address && address < starts[i]! + size[i]!) range = i;
    this.chosen = range < 0 ? null : { address, range };
  }

  private showNumbers(layout: Layout, state: State): void {
    const failure = failureOf(this.app.device()), isHere = failure !== null && failure.instant === state.cursor && failure.bytes !== null;
    const waiting = layout.waiting > 0 ? `${bytes(layout.waiting)} of it wait for other streams` : '';
    const idleShare = layout.reserved > 0 ? `${shareText(layout.idle / layout.reserved)} of reserved` : '';
    const numbers: [name: string, value: string, note: string][] = [
      ['Reserved', bytes(layout.reserved), layout.segments.length === 1 ? '1 segment' : `${count(layout.segments.length)} segments`],
      ['Live', bytes(layout.live + layout.displaced), layout.displaced > 0 ? `${bytes(layout.displaced)} have no place in the map` : waiting],
      ['Idle', bytes(layout.idle), idleShare],
      ['Largest idle range', bytes(layout.largestIdle), 'side by side'],
      ['Largest request that fits', bytes(layout.largestRequest), 'at most, without growing'],
    ];
    if (isHere) numbers.push(['The request that failed', bytes(failure.bytes!), failure.bytes! <= layout.idle ? 'less than is idle' : 'more than is idle']);
    fill(this.numbers, ...numbers.map(([name, value, note]) => h('div', {}, h('dt', {}, name), h('dd', {}, value), h('dd', { class: 'muted' }, note))));
  }

  private place(layout: Layout, state: State): void {
    const device = this.app.device(), { surface, element } = this.scrolled;
    surface.measure();
    const { width } = surface, height = element.clientHeight;
    // By the fullest instant, so that the scale stays while the cursor moves.
    const fullest = device.header.peak_reserved_instant ?? device.header.peak_instant;
    const fitting = this.keptFit.get(`${state.run} ${state.device} ${width} ${height}`, () => fittingBytesPerRow(layoutAt(device, fullest), width, height));
    const bytesPerRow = this.bytesPerRow ?? fitting;
    this.rows = this.keptRows.get(`${state.run} ${state.device} ${state.cursor} ${width} ${bytesPerRow}`, () => placeRows(layout, { ...MEASURES, width, bytesPerRow }));
    fill(this.scaleText, `a row is ${bytes(bytesPerRow)}`);
    this.scrolled.setHeight(this.rows.height);
    this.scrolled.ask();
  }

  private rescale(by: number | null): void {
    const present = this.rows?.measures.bytesPerRow;
    if (present === undefined) return;
    this.bytesPerRow = by === null ? null : Math.max(LEAST_PER_ROW, Math.min(MOST_PER_ROW, present * by));
    this.update(this.app.store.state);
  }

  private view(layout: Layout, rows: Rows): MapView {
    const { app } = this, { state } = app.store, run = app.run(), device = app.device();
    const scheme = this.keptScheme.get(`${state.run} ${state.device} ${state.colour}`, () => makeScheme(state.colour, run, device));
    const search = this.keptSearch.get(state.search, () => parseSearch(state.search));
    const { stack, pinned } = state;
    return { device, stacks: run.stacks, layout, rows, scheme, search, stack, pinned, chosen: this.chosen?.range ?? null, hovered: this.hovered };
  }

  private draw(): void {
    const { layout, rows } = this, { surface, top } = this.scrolled;
    if (layout === null || rows === null) return;
    if (rows.measures.width !== surface.width) {
      this.place(layout, this.app.store.state); // the box has another size now
      return;
    }
    const theme = themeColours();
    surface.context.fillStyle = theme.ground;
    surface.context.fillRect(0, 0, surface.width, surface.height);
    drawMap(new CanvasPen(surface.context, surface.ratio), theme, this.view(layout, rows), top, surface.height);
  }

  private rangeUnder(event: MouseEvent): number | null {
    if (this.layout === null || this.rows === null) return null;
    const place = this.scrolled.surface.canvas.getBoundingClientRect();
    return hitAt(this.layout, this.rows, event.clientX - place.left, event.clientY - place.top + this.scrolled.top, BAR)?.range ?? null;
  }

  private hover(event: PointerEvent): void {
    const range = this.rangeUnder(event), before = this.hovered;
    this.hovered = range;
    if (range === null || this.layout === null) this.tooltip.hide();
    else {
      const words = rangeWords(this.app.device(), this.app.run().stacks, this.layout, range);
      this.tooltip.show(event.clientX, event.clientY, ...words.map((text, i) => h('div', { class: i < 2 ? null : 'muted' }, text)));
    }
    this.scrolled.element.style.cursor = range === null ? '' : 'pointer';
    if (range !== before) this.scrolled.ask();
  }

  private leave(): void {
    this.tooltip.hide();
    if (this.hovered === null) return;
    this.hovered = null;
    this.scrolled.ask();
  }

  private pin(block: number): void {
    const { blocks } = this.app.device(), isPinned = this.app.store.state.pinned === block;
    this.app.store.set(isPinned ? { pinned: null, stack: null } : { pinned: block, stack: blocks.stack[block]! });
  }

  private choose(range: number | null): void {
    const starts = this.layout?.ranges.address;
    this.chosen = range === null || starts === undefined ? null : { address: starts[range]!, range };
    this.update(this.app.store.state);
  }

  /** Its largest idle range, where it can be seen. */
  private showSegment(number: number): void {
    const layout = this.layout;
    if (layout === null) return;
    const segment = layout.segments[number]!;
    let best = -1;
    for (let i = segment.first; i < segment.end; i++)
      if (layout.ranges.kind[i] === IDLE && (best < 0 || layout.ranges.size[i]! > layout.ranges.size[best]!)) best = i;
    if (best < 0) return;
    this.choose(best);
    this.scrollToRange(best);
  }

  private scrollToRange(range: number): void {
    const { layout, rows } = this;
    if (layout === null || rows === null || range < 0) return;
    const number = layout.segmentOfRange[range]!, segment = layout.segments[number]!;
    const at = (rows.drawnAt[range]! - rows.drawnAt[segment.first]!) * rows.scale[number]!;
    const strip = rows.strips.find((one) => one.segment === number && at < one.from + one.width);
    const { top, element } = this.scrolled;
    if (strip === undefined || (strip.y >= top && strip.y + BAR <= top + element.clientHeight)) return;
    this.scrolled.scrollTo(Math.max(0, strip.y - element.clientHeight / 3));
  }

  key(event: KeyboardEvent): boolean {
    if (event.key === 'Escape' && this.chosen !== null) {
      this.choose(null);
      return true;
    }
    const { store } = this.app, to = moveByKey(this.app.device(), store.state.cursor, event.key, event.shiftKey);
    if (to === null) return false;
    store.set({ cursor: to });
    return true;
  }

  table(): Table | null {
    const { layout } = this, { streams, pools } = this.app.device().header;
    if (layout === null || layout.segments.length === 0) return null;
    const head = ['address', 'reserved_bytes', 'live_bytes', 'idle_bytes', 'blocks', 'stream', 'pool', 'expandable'];
    const rows = layout.segments.map((one) => [
      addressText(one.address), one.reserved, one.live, one.idle, one.blocks, streams[one.stream] ?? null, pools[one.pool] ?? null, one.isExpandable ? 'yes' : 'no',
    ]);
    return { name: 'segments', csv: tableText(head, rows) };
  }

  picture(): Picture | null {
    const { layout, rows, app } = this;
    if (layout === null || rows === null || layout.segments.length === 0) return null;
    const { width } = rows.measures, height = Math.min(HIGHEST_PICTURE, rows.height);
    const view = { ...this.view(layout, rows), hovered: null, chosen: null };
    const title = `${app.run().file}, ${app.device().name} at ${instantText(app.device(), layout.instant)}: ${bytes(layout.reserved)} reserved, ${bytes(layout.live)} live, ${bytes(layout.idle)} idle`;
    return titledPicture('segments', title, width, height, (pen) => drawMap(pen, themeColours(), view, 0, height));
  }
}

function legend(): HTMLElement {
  const entry = (kind: string, title: string): HTMLElement => h('li', {}, h('i', { class: kind, 'aria-hidden': 'true' }), title);
  return h(
    'ul',
    { class: 'segments-legend', 'aria-label': 'Patterns' },
    entry('is-live', 'live'),
    entry('is-waiting', 'waits for other streams'),
    entry('is-idle', 'idle'),
    entry('is-gap', 'not mapped'),
  );
}

export function makeSegmentsPanel(app: App): Panel {
  return new SegmentsPanel(app);
}

