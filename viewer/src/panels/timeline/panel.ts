// The timeline: live memory over a run's events.

import './timeline.css';
import type { App, Panel, Picture } from '../../app/panel';
import { COLOURS, type Colour, type State } from '../../app/state';
import { lineAt } from '../../data/live';
import type { Device } from '../../data/model';
import { makeSurface } from '../../look/canvas';
import { themeColours, type ThemeColours } from '../../look/colours';
import { h, type Child } from '../../look/h';
import { makeSegmented } from '../../look/segmented';
import { makeTooltip } from '../../look/tooltip';
import { bytes, count } from '../../look/units';
import { spanOf, type Range } from '../../picture/columns';
import { colourTable } from '../../picture/paint';
import { makeScheme, type Scheme } from '../../picture/schemes';
import { blockMatcher } from '../../data/search';
import { centred, fitted, heightFor, heightOfRun, keyMove, neighbour, panned, zoomed, type PinWay } from '../../picture/view';
import { drawAxes, lanesOf, type Scene } from './axes';
import { BlockPicture } from './blocks';
import { makeDetails } from './details';
import { makePicture } from './export';
import { makeLegend } from './legend';
import { highestOfLine } from './lines';
import { groupAt, groupsOf, lookOfKinds, markText, type MarkGroup } from './marks';
import { makeMarkLegend } from './mark_legend';
import { makeOverview } from './overview';
import { canvasPen } from './pen';
import { isInside, plotIn, xOf, type Plot } from './plot';
import { blockByKey } from './pinning';
import { listenToPointer } from './pointer';
import { addressOf, categoryOf, exactBytes, innermost, lifeOf, pictureWords, rangeWords, waitOf } from './words';

type Height = 'seen' | 'run';

const STILL_MS = 140;
const MOST_MARKS_TOLD = 8;
const FRAMES_TOLD = 4;
const MOST_PREPARED = 1_000_000; // blocks: beyond, levels are made when they are drawn, to save memory

function whenIdle(run: () => void): void {
  if (typeof window.requestIdleCallback === 'function') window.requestIdleCallback(run);
  else window.setTimeout(run, 60);
}

/** What colours follow from; made again when one of it changes. */
interface Colouring {
  readonly device: Device;
  readonly colour: Colour;
  readonly theme: ThemeColours;
  readonly stack: number | null;
  readonly search: string;
  readonly key: number | null;
  readonly table: Int32Array;
  readonly found: number | null; // blocks that stand out; null: all are alike
}

class Timeline implements Panel {
  readonly element: HTMLElement;
  private readonly blocks = new BlockPicture();
  private readonly tooltip = makeTooltip();
  private readonly main = makeSurface(() => this.ask(), '');
  private readonly over = makeSurface(() => this.askOver());
  private readonly overview = makeOverview(() => this.range(), (range) => this.move(range));
  private readonly legend = makeLegend((key) => this.press(key));
  private readonly markLegend = makeMarkLegend();
  private readonly details;
  private readonly colourPicker;
  private readonly heightPicker;
  private readonly rangeText = h('span', { class: 'timeline-range', role: 'status' });
  private readonly foundText = h('span', { class: 'timeline-range', role: 'status' });
  private readonly sentence = h('p', { class: 'timeline-sentence muted', hidden: true });

  private schemes = new Map<Device, Map<Colour, Scheme>>();
  private colouring: Colouring | null = null;
  private litKey: number | null = null; // of the legend, where it is no stack
  private height: Height = 'seen';
  private shownHeight = 0;
  private plot: Plot = plotIn(1, 1, { hasTime: false, hasSteps: false }, { from: 0, to: 0 }, 1);
  private groups: readonly MarkGroup[] = [];
  private shownDevice: Device | null = null;
  private shownRange: Range = { from: -1, to: -1 };
  private prepared: Device | null = null;
  private drawnCount = 0;
  private isAsked = false;
  private isOverAsked = false;
  private movedAt = -Infinity;
  private stillTimer = 0;
  private hovered: number | null = null;
  private pointer: { x: number; y: number; clientX: number; clientY: number } | null = null;
  private selection: readonly [number, number] | null = null;

  constructor(private readonly app: App) {
    const { store } = app;
    this.details = makeDetails(app);
    this.colourPicker = makeSegmented<Colour>('Colour by', COLOURS.map((value) => ({ value, title: value })), (colour) => {
      this.litKey = null;
      store.set({ colour });
    });
    this.heightPicker = makeSegmented<Height>(
      'Height',
      [
        { value: 'seen', title: 'fit' },
        { value: 'run', title: 'all reserved' },
      ],
      (height) => {
        this.height = height;
        this.ask();
      },
    );
    this.heightPicker.set('seen');
    this.main.element.classList.add('timeline-main');
    this.over.element.classList.add('timeline-over');
    this.main.canvas.tabIndex = 0;
    this.main.canvas.setAttribute('role', 'application');
    this.main.element.appendChild(this.over.element);
    const button = (title: string, label: string, run: () => void): HTMLElement =>
      h('button', { type: 'button', class: 'plain', title: label, 'aria-label': label, onclick: run }, title);
    this.element = h(
      'section',
      { class: 'timeline' },
      h(
        'div',
        { class: 'timeline-bar' },
        h('span', { class: 'muted' }, 'Colour by'),
        this.colourPicker.element,
        h('span', { class: 'muted' }, 'Height'),
        this.heightPicker.element,
        h('span', { class: 'spring' }),
        this.foundText,
        this.rangeText,
        h(
          'span',
          { class: 'timeline-zoom' },
          button('−', 'Zoom out (S)', () => this.zoom(1.6)),
          button('+', 'Zoom in (W)', () => this.zoom(1 / 1.6)),
          button('Peak', 'To the peak (P)', () => this.toPeak()),
          button('All', 'The whole run (0)', () => this.toWhole()),
        ),
      ),
      this.sentence,
      h('div', { class: 'timeline-body' }, h('div', { class: 'timeline-picture' }, this.main.element, this.overview.element), this.details.element),
      this.markLegend.element,
      this.legend.element,
    );
    store.subscribe((state) => {
      if (state.tab !== 'timeline') this.tooltip.hide(); // the tab was left by a key, with the pointer over it
    });
    listenToPointer(this.main.canvas, {
      plot: () => this.plot,
      range: () => this.range(),
      lastInstant: () => app.device().lastInstant,
      move: (range) => this.move(range),
      hover: (x, y, event) => {
        this.pointer = { x, y, clientX: event.clientX, clientY: event.clientY };
        this.askOver();
      },
      leave: () => {
        this.pointer = null;
        this.askOver();
      },
      click: (x, y) => this.click(x, y),
      select: (edges) => {
        this.selection = edges;
        this.askOver();
      },
    });
  }

  // ---- what the shell asks -----------------------------------------------------------------------

  update(state: State): void {
    const device = this.app.device(), range = this.range();
    if (device !== this.shownDevice) {
      this.shownDevice = device;
      this.litKey = null;
      this.hovered = null;
      this.shownHeight = 0;
      this.tellTrace(device);
    } else if (range.from !== this.shownRange.from || range.to !== this.shownRange.to) {
      this.movedAt = performance.now();
    }
    this.shownRange = range;
    this.colourPicker.set(state.colour);
    this.rangeText.textContent = device.header.has_trace ? rangeWords(device, range) : '';
    this.foundText.textContent = this.foundWords(state);
    this.details.update(state);
    this.markLegend.update(device);
    this.legend.update(this.schemeOf(state.colour), device, Math.round(state.cursor), state.colour === 'stack' ? state.stack : this.litKey);
    this.ask();
  }

  picture(): Picture | null {
    const device = this.app.device(), state = this.app.store.state;
    if (device.blocks.count === 0) return null;
    return makePicture({
      title: `${this.app.run().file}: live memory of ${device.name}, ${rangeWords(device, this.range())}, by ${state.colour}`,
      width: Math.max(640, this.main.width),
      height: Math.max(360, this.main.height) + 50,
      scene: { device, stacks: this.app.run().stacks, highest: this.app.highestLiveOf(device) },
      ...this.range(),
      highest: this.wantedHeight(device, this.range()),
      colours: this.coloursOf(state).table,
      scheme: this.schemeOf(state.colour),
      theme: themeColours(),
    });
  }

  key(event: KeyboardEvent): boolean {
    if (event.key === 'Escape' && this.litKey !== null) {
      this.press(this.litKey);
      return true;
    }
    const move = keyMove(event.key);
    if (move === null || !this.app.device().header.has_trace) return false;
    switch (move.kind) {
      case 'pan':
        this.move(panned(this.range(), move.share * spanOf(this.range()), this.app.device().lastInstant));
        break;
      case 'zoom':
        this.zoom(move.factor);
        break;
      case 'whole':
        this.toWhole();
        break;
      case 'peak':
        this.toPeak();
        break;
      case 'cursor':
        this.moveCursor(move.direction);
        break;
      case 'pin':
        this.pinByKey(move.way);
        break;
      default:
        this.toMark(move.kind === 'next-mark' ? 1 : -1);
    }
    return true;
  }

  // ---- moving ------------------------------------------------------------------------------------

  private range(): Range {
    const { from, to } = this.app.store.state;
    return fitted({ from, to }, this.app.device().lastInstant);
  }

  private move(range: Range): void {
    this.app.store.set({ from: range.from, to: range.to });
  }

  private zoom(factor: number): void {
    const { pointer, plot } = this, { cursor } = this.app.store.state, range = this.range();
    const atCursor = (cursor + 0.5 - range.from) / spanOf(range);
    const share = pointer !== null ? (pointer.x - plot.left) / plot.width : atCursor > 0 && atCursor < 1 ? atCursor : 0.5;
    this.move(zoomed(range, factor, Math.max(0, Math.min(1, share)), this.app.device().lastInstant));
  }

  private toWhole(): void {
    this.move({ from: 0, to: this.app.device().lastInstant });
  }

  private toPeak(): void {
    const device = this.app.device(), { peak_instant } = device.header, range = this.range();
    const isWide = spanOf(range) > (device.lastInstant + 1) / 4;
    const narrow = isWide ? zoomed(range, 0.1, 0.5, device.lastInstant) : range;
    this.app.store.set({ ...centred(narrow, peak_instant, device.lastInstant), cursor: peak_instant });
  }

  private toMark(direction: 1 | -1): void {
    const device = this.app.device(), marks = device.marks;
    const to = neighbour(marks.map((mark) => mark.instant), this.app.store.state.cursor, direction);
    if (to === null) {
      this.app.say(marks.length === 0 ? 'There are no marks' : direction > 0 ? 'There is no later mark' : 'There is no earlier mark');
      return;
    }
    const range = this.range(), isSeen = to >= range.from && to <= range.to;
    this.app.store.set({ cursor: to, ...(isSeen ? {} : centred(range, to, device.lastInstant)) });
    this.app.say(markText(marks.find((mark) => mark.instant === to)!));
  }

  /** By what a pixel of the picture stands for, at least an event. */
  private moveCursor(direction: 1 | -1): void {
    const device = this.app.device(), range = this.range(), { cursor } = this.app.store.state;
    const step = Math.max(1, Math.round(spanOf(range) / Math.max(1, this.plot.width)));
    const to = Math.max(0, Math.min(device.lastInstant, Math.round(cursor) + direction * step));
    this.app.store.set({ cursor: to, ...(to >= range.from && to <= range.to ? {} : centred(range, to, device.lastInstant)) });
  }

  private pinByKey(way: PinWay): void {
    const device = this.app.device(), { cursor, pinned } = this.app.store.state;
    const block = blockByKey(device, Math.round(cursor), pinned, way);
    if (block === null) this.app.say('No block is live at the cursor');
    else {
      this.app.store.set({ pinned: block, stack: device.blocks.stack[block]! });
      this.app.say(`${bytes(device.blocks.size[block]!)}: ${this.app.run().stacks.labelOf(device.blocks.stack[block]!)}`);
    }
  }

  private press(key: number): void {
    const { store } = this.app;
    if (store.state.colour === 'stack') {
      store.set({ stack: store.state.stack === key ? null : key, pinned: null });
      return;
    }
    this.litKey = this.litKey === key ? null : key;
    this.update(store.state);
  }

  private click(x: number, y: number): void {
    const group = groupAt(this.groups, this.plot, x, y);
    if (group !== null) {
      this.app.store.set({ cursor: group.shown.instant });
      return;
    }
    if (!isInside(this.plot, x, y)) return;
    const block = this.blocks.blockAt(x, y), instant = this.blocks.instantAt(x);
    this.app.store.set({
      pinned: block,
      stack: block === null ? null : this.app.device().blocks.stack[block]!,
      ...(instant === null ? {} : { cursor: instant }),
    });
  }

  // ---- colours -----------------------------------------------------------------------------------

  private schemeOf(colour: Colour): Scheme {
    const device = this.app.device();
    let ofDevice = this.schemes.get(device);
    if (ofDevice === undefined) this.schemes.set(device, (ofDevice = new Map<Colour, Scheme>()));
    let scheme = ofDevice.get(colour);
    if (scheme === undefined) ofDevice.set(colour, (scheme = makeScheme(colour, this.app.run(), device)));
    return scheme;
  }

  private isLit(state: State, scheme: Scheme): ((block: number) => boolean) | null {
    const { blocks } = this.app.device(), { stack } = state, key = this.litKey;
    if (stack !== null) return (block) => blocks.stack[block] === stack;
    const matches = blockMatcher(this.app.run().stacks, blocks, state.search);
    if (key === null) return matches;
    return (block) => scheme.keyOf(block) === key && (matches === null || matches(block));
  }

  private coloursOf(state: State): Colouring {
    const device = this.app.device(), theme = themeColours(), { colour, stack, search } = state, key = this.litKey;
    const made = this.colouring;
    if (made !== null && made.device === device && made.colour === colour && made.theme === theme && made.stack === stack && made.search === search && made.key === key)
      return made;
    const scheme = this.schemeOf(colour);
    const isLit = this.isLit(state, scheme);
    let found = 0;
    const counted = isLit === null ? null : (block: number): boolean => isLit(block) && ++found > 0;
    const table = colourTable(device.blocks.count, scheme, counted, theme.ground);
    return (this.colouring = { device, colour, theme, stack, search, key, table, found: isLit === null ? null : found });
  }

  // ---- drawing -----------------------------------------------------------------------------------

  private ask(): void {
    if (this.isAsked) return;
    this.isAsked = true;
    requestAnimationFrame(() => {
      this.isAsked = false;
      if (this.main.element.clientWidth > 0) this.draw();
    });
  }

  private askOver(): void {
    if (this.isOverAsked || this.isAsked) return;
    this.isOverAsked = true;
    requestAnimationFrame(() => {
      this.isOverAsked = false;
      if (!this.isAsked) this.drawOver();
    });
  }

  private wantedHeight(device: Device, range: Range): number {
    const seen = this.height === 'run' ? { from: 0, to: device.lastInstant } : range;
    const live = this.app.highestLiveOf(device).over(Math.floor(seen.from), Math.ceil(seen.to));
    const reserved = highestOfLine(device.reserved, seen, 1, device.lastInstant)[0]!;
    return (this.height === 'run' ? heightOfRun : heightFor)(live, Number.isNaN(reserved) ? 0 : reserved, device.header.limit_bytes);
  }

  /** Goes to the wanted height in a few frames while one moves. */
  private nextHeight(wanted: number): number {
    const isAtOnce = this.shownHeight === 0 || window.matchMedia('(prefers-reduced-motion: reduce)').matches;
    const away = wanted - this.shownHeight;
    this.shownHeight = isAtOnce || Math.abs(away) < 0.003 * wanted ? wanted : this.shownHeight + 0.35 * away;
    return this.shownHeight;
  }

  private draw(): void {
    const state = this.app.store.state, device = this.app.device(), range = this.range();
    this.main.measure();
    const wanted = this.wantedHeight(device, range), height = this.nextHeight(wanted);
    const lanes = lanesOf(device), theme = themeColours(), { context, ratio, width } = this.main;
    const isMoving = height !== wanted || performance.now() - this.movedAt < STILL_MS;
    this.plot = plotIn(width, this.main.height, lanes, range, height);
    this.groups = groupsOf(device.marks, this.plot);
    context.clearRect(0, 0, width, this.main.height);
    this.blocks.draw(context, ratio, device, this.plot, this.coloursOf(state).table, isMoving);
    const scene: Scene = { device, stacks: this.app.run().stacks, highest: this.app.highestLiveOf(device), plot: this.plot, lanes, groups: this.groups };
    drawAxes(canvasPen(context), scene, theme);
    this.overview.draw(device, scene.highest, range);
    this.drawOver();
    this.element.dataset['drawn'] = String(++this.drawnCount); // for tests and measurements
    if (height !== wanted) this.ask();
    window.clearTimeout(this.stillTimer);
    if (isMoving) this.stillTimer = window.setTimeout(() => this.settle(), STILL_MS + 20);
    else this.describe();
  }

  private settle(): void {
    if (this.blocks.isCoarse) this.ask();
    else this.describe();
  }

  /** Makes the levels that zooming will need, one at a time. */
  private prepare(device: Device): void {
    if (device.blocks.count > MOST_PREPARED || this.prepared === device) return;
    this.prepared = device;
    const next = (): void => {
      if (this.prepared === device && this.blocks.levelsOf(device).prepare()) whenIdle(next);
    };
    whenIdle(next);
  }

  private describe(): void {
    this.prepare(this.app.device());
    const device = this.app.device(), words = pictureWords(device, this.app.highestLiveOf(device), this.range());
    if (this.main.canvas.getAttribute('aria-label') !== words) this.main.canvas.setAttribute('aria-label', words);
  }

  /** The cursor, what is under the pointer, what is pinned and the selection. */
  private drawOver(): void {
    const { plot, over } = this, theme = themeColours(), state = this.app.store.state;
    over.measure();
    over.context.clearRect(0, 0, over.width, over.height);
    const pen = canvasPen(over.context), bottom = plot.top + plot.height;
    if (this.app.device().header.has_trace) {
      const x = Math.round(xOf(plot, state.cursor + 0.5)) + 0.5;
      if (x >= plot.left && x <= plot.left + plot.width) {
        pen.line([[x, plot.top], [x, bottom]], { colour: theme.ground, width: 3, alpha: 0.6 });
        pen.line([[x, plot.top], [x, bottom]], { colour: theme.text, width: 1.2 });
        pen.area([[x - 5, bottom + 7], [x + 5, bottom + 7], [x, bottom]], theme.text);
      }
    }
    this.hovered = this.pointer === null ? null : this.blocks.blockAt(this.pointer.x, this.pointer.y);
    if (state.pinned !== null) this.outline(state.pinned, theme.pinned, theme.ground, 2);
    if (this.hovered !== null && this.hovered !== state.pinned) this.outline(this.hovered, theme.text, theme.ground, 1.2);
    if (this.selection !== null) {
      const left = Math.max(plot.left, Math.min(...this.selection)), right = Math.min(plot.left + plot.width, Math.max(...this.selection));
      pen.rect(left, plot.top, Math.max(0, right - left), plot.height, theme.accent, 0.2);
      pen.frame(left, plot.top, Math.max(0, right - left), plot.height, { colour: theme.accent });
    }
    this.tell();
  }

  private outline(block: number, colour: string, ground: string, width: number): void {
    const boxes = this.blocks.boxesOf(block);
    if (boxes.length === 0) return;
    const { context } = this.over;
    context.save();
    context.beginPath();
    context.rect(this.plot.left, this.plot.top, this.plot.width, this.plot.height);
    context.clip();
    context.beginPath();
    const first = boxes[0]!;
    context.moveTo(first.x, first.y + first.height);
    for (const box of boxes) {
      context.lineTo(box.x, box.y);
      context.lineTo(box.x + box.width, box.y);
    }
    for (let i = boxes.length - 1; i >= 0; i--) {
      const box = boxes[i]!;
      context.lineTo(box.x + box.width, box.y + box.height);
      context.lineTo(box.x, box.y + box.height);
    }
    context.closePath();
    context.lineJoin = 'round';
    context.strokeStyle = ground;
    context.lineWidth = width + 2;
    context.globalAlpha = 0.7;
    context.stroke();
    context.globalAlpha = 1;
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.stroke();
    context.restore();
  }

  // ---- words -------------------------------------------------------------------------------------

  private tell(): void {
    const { pointer } = this;
    if (pointer === null || this.selection !== null) {
      this.tooltip.hide();
      return;
    }
    const group = groupAt(this.groups, this.plot, pointer.x, pointer.y);
    if (group !== null) {
      const told = group.marks.slice(0, MOST_MARKS_TOLD).map((mark) => h('div', {}, markText(mark)));
      const meanings = lookOfKinds(group.marks).map(({ name, what }) => h('div', { class: 'muted' }, `${name}: ${what}`));
      const more = group.marks.length - told.length;
      this.tooltip.show(pointer.clientX, pointer.clientY, ...told, more > 0 ? h('div', { class: 'muted' }, `and ${count(more)} more: zoom in`) : null, ...meanings);
      return;
    }
    if (this.hovered !== null) this.tooltip.show(pointer.clientX, pointer.clientY, ...this.blockWords(this.hovered));
    else if (isInside(this.plot, pointer.x, pointer.y)) this.tooltip.show(pointer.clientX, pointer.clientY, ...this.groundWords(pointer.x));
    else this.tooltip.hide();
  }

  private blockWords(block: number): Child[] {
    const run = this.app.run(), device = this.app.device(), stack = device.blocks.stack[block]!;
    const address = addressOf(device, block), wait = waitOf(device, block);
    const rest = [categoryOf(run.stacks, stack), `stream ${device.header.streams[device.blocks.stream[block]!] ?? '?'}`, address];
    const shown = this.app.stacks(), frames = innermost(shown, stack, FRAMES_TOLD), all = shown.frameIdsOf(stack).length;
    return [
      h('div', { class: 'timeline-size' }, exactBytes(device.blocks.size[block]!)),
      h('div', { class: 'timeline-where' }, run.stacks.labelOf(stack)),
      device.header.has_trace ? h('div', {}, lifeOf(device, block)) : null,
      wait === null ? null : h('div', {}, wait),
      h('div', {}, rest.filter((part) => part !== null).join(', ')),
      frames.length === 0 ? null : h('ol', { class: 'timeline-stack' }, ...frames.map((frame) => h('li', {}, frame))),
      all > frames.length ? h('div', { class: 'muted' }, `${count(all - frames.length)} more frames: click`) : null,
    ];
  }

  private groundWords(x: number): Child[] {
    const device = this.app.device(), instant = this.blocks.instantAt(x);
    if (instant === null) return [];
    const live = this.app.liveOf(device)[instant]!;
    const reserved = device.reserved.instant.length > 0 ? lineAt(device.reserved, instant) : null;
    return [
      h('div', {}, device.header.has_trace ? `Event ${count(instant)}: ${bytes(live)} live` : `${bytes(live)} live`),
      reserved === null ? null : h('div', { class: 'muted' }, `${bytes(reserved)} reserved, ${bytes(Math.max(0, reserved - live))} of it unused`),
    ];
  }

  private foundWords(state: State): string {
    if (state.search.trim() === '' || state.stack !== null) return '';
    const { found } = this.coloursOf(state);
    return found === null ? '' : found === 0 ? 'the search finds no block' : `the search finds ${count(found)} block${found === 1 ? '' : 's'}`;
  }

  private tellTrace(device: Device): void {
    const { header } = device, words: string[] = [];
    if (!header.has_trace) words.push('The recording has no trace of events: this is what was live when it was taken.');
    if (header.is_truncated) words.push('The trace is cut short: events before it are missing.');
    if (header.mark_count > device.marks.length) words.push(`${count(device.marks.length)} of ${count(header.mark_count)} marks are shown.`);
    this.sentence.textContent = words.join(' ');
    this.sentence.hidden = words.length === 0;
  }
}

export function makeTimeline(app: App): Panel {
  return new Timeline(app);
}
