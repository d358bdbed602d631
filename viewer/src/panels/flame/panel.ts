// The flame graph: which ways through the program lead to the memory.

import './flame.css';
import '../shared/toolbar.css';
import type { App, Panel, Picture } from '../../app/panel';
import type { State } from '../../app/state';
import { usageByStack } from '../../data/groups';
import { parseSearch, type Search } from '../../data/search';
import { themeColours } from '../../look/colours';
import { fill, h, type Child } from '../../look/h';
import { CanvasPen } from '../../look/pen';
import { makeSegmented } from '../../look/segmented';
import { makeTooltip } from '../../look/tooltip';
import { bytes, count, shareText } from '../../look/units';
import { Kept, makeMomentSwitch, momentKey, momentOf, momentText } from '../shared/moment';
import { titledPicture } from '../shared/picture';
import { makeScrolled } from '../shared/scrolled';
import { frameText } from '../table/detail';
import { boxAt, boxBeside, boxesOf, type Box, type Way } from './boxes';
import { drawFlame, nodeLabel, ROW, type FlameColour, type FlameView } from './draw';
import { fileColours } from './files';
import { ALL_STACKS, makeTree, NO_STACK, pathTo, ROOT, sameNode, type Tree } from './tree';

const WAYS: Readonly<Record<string, Way>> = {
  ArrowUp: 'outward', ArrowDown: 'inward', ArrowLeft: 'left', ArrowRight: 'right', Home: 'first', End: 'last',
};
const MOST_CRUMBS = 6;

class FlamePanel implements Panel {
  readonly element: HTMLElement;
  private readonly moments;
  private readonly colours;
  private readonly said = h('span', { class: 'said', role: 'status' });
  private readonly crumbs = h('nav', { class: 'crumbs', 'aria-label': 'Zoomed into' });
  private readonly spoken = h('p', { class: 'visually-hidden', 'aria-live': 'polite' });
  private readonly empty = h('p', { class: 'reason', hidden: true }, 'No block is live at this moment.');
  private readonly scrolled = makeScrolled('Flame graph: arrows move between boxes, Enter zooms, Escape goes back', () => this.draw());
  private readonly tooltip = makeTooltip();

  private colour: FlameColour = 'file';
  private isInverted = false;
  private readonly keptTree = new Kept<Tree>();
  private readonly keptFiles = new Kept<ReadonlyMap<string, string>>();
  private tree: Tree | null = null;
  private search: Search | null = null;
  private zoomed = ROOT;
  private history: number[] = [];
  private focused: number | null = null;
  private hovered: Box | null = null;
  private boxes: readonly Box[] = [];
  private made: { tree: Tree; zoomed: number; width: number; boxes: readonly Box[] } | null = null;

  constructor(private readonly app: App) {
    const again = (): void => this.update(app.store.state);
    this.moments = makeMomentSwitch(app, again);
    this.colours = makeSegmented<FlameColour>(
      'Colours',
      [{ value: 'file', title: 'Colour by file' }, { value: 'category', title: 'by category' }],
      (colour) => {
        this.colour = colour;
        again();
      },
    );
    const inverted = h('input', {
      type: 'checkbox',
      onchange: () => {
        this.isInverted = inverted.checked;
        again();
      },
    });
    const invert = h('label', { class: 'check', title: 'The innermost frames stand at the root' }, inverted, 'Invert');
    const tools = h('div', { class: 'toolbar' }, this.moments.element, this.colours.element, invert, this.said);
    this.element = h('section', { class: 'flame-panel' }, tools, this.crumbs, this.scrolled.element, this.empty, this.spoken);
    this.listen();
  }

  private listen(): void {
    const { element } = this.scrolled;
    element.addEventListener('pointermove', (event) => this.hover(this.boxUnder(event), event));
    element.addEventListener('pointerleave', () => this.hover(null, null));
    element.addEventListener('click', (event) => {
      const box = this.boxUnder(event);
      if (box !== null) this.zoom(box.node);
    });
    element.addEventListener('keydown', (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey && this.key(event)) event.preventDefault();
    });
  }

  update(state: State): void {
    const { app } = this, device = app.device(), { stacks } = app.run(), moment = momentOf(app), before = this.tree;
    this.moments.set(moment);
    this.colours.set(this.colour);
    const key = `${momentKey(app, state)} ${this.isInverted} ${state.frames} ${state.search}`;
    this.tree = this.keptTree.get(key, () => {
      this.search = parseSearch(state.search);
      const found = this.search === null ? null : usageByStack(device, stacks, moment, state.cursor, this.search);
      const matched = found === null ? null : new Map(found.map((usage) => [usage.stack, usage.bytes]));
      return makeTree(usageByStack(device, stacks, moment, state.cursor), app.stacks(), this.isInverted, matched);
    });
    if (before !== null && before !== this.tree) {
      this.zoomed = sameNode(before, this.zoomed, this.tree);
      this.focused = this.focused === null ? null : sameNode(before, this.focused, this.tree);
      this.history = [];
      this.hovered = null;
      this.tooltip.hide();
    }
    const isEmpty = this.tree.bytes[ROOT] === 0;
    this.empty.hidden = !isEmpty;
    this.scrolled.element.hidden = isEmpty;
    fill(this.said, this.words(this.tree, state));
    this.drawCrumbs(this.tree);
    this.scrolled.setHeight((this.tree.deepest + 1) * ROW);
    this.scrolled.ask();
  }

  private words(tree: Tree, state: State): string {
    const total = tree.bytes[ROOT]!, all = `${bytes(total)} ${momentText(this.app.device(), momentOf(this.app), state)}`;
    if (this.search === null || total === 0) return all;
    const matched = tree.matched[ROOT]!;
    return `The search finds ${bytes(matched)}, ${shareText(matched / total)} of ${all}`;
  }

  private drawCrumbs(tree: Tree): void {
    const path = pathTo(tree, this.zoomed), { stacks } = this.app.run();
    const shown = path.length <= MOST_CRUMBS ? path : [path[0]!, ...path.slice(1 - MOST_CRUMBS)];
    const parts: Child[] = shown.flatMap((node, i): Child[] => {
      const isHere = node === this.zoomed;
      const link = h(
        'button',
        { type: 'button', class: 'plain', 'aria-current': isHere ? 'true' : null, title: nodeLabel(tree, stacks, node), onclick: () => this.zoom(node) },
        nodeLabel(tree, stacks, node),
      );
      return [i > 0 ? h('span', { class: 'muted', 'aria-hidden': 'true' }, i === 1 && shown.length < path.length ? ' \u2026 ' : ' \u203a ') : null, link];
    });
    fill(this.crumbs, ...parts);
    this.crumbs.hidden = path.length < 2;
  }

  private view(width: number): FlameView {
    const tree = this.tree!, { stacks } = this.app.run(), { stack } = this.app.store.state;
    const end = stack === null ? undefined : tree.endOf(stack);
    const path = new Set(end === undefined ? [] : pathTo(tree, end).slice(1));
    const boxes = this.boxesAt(tree, width);
    return { tree, stacks, boxes, colour: this.colour, files: this.files(), search: this.search, path, focused: this.focused, hovered: this.hovered };
  }

  private boxesAt(tree: Tree, width: number): readonly Box[] {
    const { made, zoomed } = this;
    if (made?.tree === tree && made.zoomed === zoomed && made.width === width) return made.boxes;
    const boxes = boxesOf(tree, zoomed, width);
    this.made = { tree, zoomed, width, boxes };
    return boxes;
  }

  /** By the peak, so that they stay while the moment changes. */
  private files(): ReadonlyMap<string, string> {
    const { run, device } = this.app.store.state, { stacks } = this.app.run();
    return this.keptFiles.get(`${run} ${device}`, () => fileColours(stacks, usageByStack(this.app.device(), stacks, 'peak', 0)));
  }

  private draw(): void {
    if (this.tree === null) return;
    const { surface, top } = this.scrolled, view = this.view(surface.width);
    this.boxes = view.boxes;
    surface.context.fillStyle = themeColours().ground;
    surface.context.fillRect(0, 0, surface.width, surface.height);
    drawFlame(new CanvasPen(surface.context, surface.ratio), view, top, surface.height);
  }

  private boxUnder(event: MouseEvent): Box | null {
    const place = this.scrolled.surface.canvas.getBoundingClientRect();
    return boxAt(this.boxes, event.clientX - place.left, Math.floor((event.clientY - place.top + this.scrolled.top) / ROW));
  }

  private describe(box: Box): string[] {
    const tree = this.tree!, { stacks } = this.app.run(), { node } = box;
    if (box.merged > 0) return [`${count(box.merged)} boxes too narrow to be drawn`, 'a click zooms in'];
    const frame = tree.frame[node]!, shareOf = (whole: number): string => shareText(tree.bytes[node]! / whole);
    const of = this.zoomed === ROOT ? '' : `, ${shareOf(tree.bytes[this.zoomed]!)} of what is zoomed into`;
    const category = stacks.categories[tree.category[node]!] ?? 'unknown';
    return [
      frame === ALL_STACKS ? 'everything' : frame === NO_STACK ? 'no stack was recorded' : frameText(stacks.frame(frame)),
      `${bytes(tree.bytes[node]!)} in ${count(tree.blocks[node]!)} ${tree.blocks[node] === 1 ? 'block' : 'blocks'}`,
      `${shareOf(tree.bytes[ROOT]!)} of all${of}`,
      frame === ALL_STACKS ? '' : `${tree.hasOneStack[node] === 1 ? '' : 'mostly '}${category}`,
    ].filter((text) => text !== '');
  }

  private hover(box: Box | null, event: MouseEvent | null): void {
    if (box === null || event === null) this.tooltip.hide();
    else this.tooltip.show(event.clientX, event.clientY, ...this.describe(box).map((text, i) => h('div', { class: i === 0 ? 'mono' : 'muted' }, text)));
    const isSame = box?.node === this.hovered?.node && box?.merged === this.hovered?.merged;
    this.hovered = box;
    if (!isSame) this.scrolled.ask();
  }

  private zoom(node: number): void {
    const tree = this.tree!;
    if (node !== this.zoomed) {
      this.history.push(this.zoomed);
      this.zoomed = node;
    }
    this.focused = node;
    if (tree.hasOneStack[node] === 1) this.app.store.set({ stack: tree.stack[node]! });
    this.tooltip.hide();
    this.drawCrumbs(tree);
    this.scrolled.ask();
  }

  private back(): boolean {
    if (this.zoomed === ROOT) return false;
    this.zoomed = this.history.pop() ?? ROOT;
    this.focused = this.zoomed;
    this.drawCrumbs(this.tree!);
    this.scrolled.ask();
    return true;
  }

  private walk(way: Way): void {
    // Those of now: what is drawn may still be what was there before a zoom.
    const boxes = this.boxesAt(this.tree!, this.scrolled.surface.width);
    const at = this.focused === null ? null : (boxes.find((box) => box.merged === 0 && box.node === this.focused) ?? null);
    const box = boxBeside(boxes, at, way);
    if (box === null) return;
    this.focused = box.node;
    const { top, surface } = this.scrolled, y = box.depth * ROW;
    if (y < top) this.scrolled.scrollTo(y);
    else if (y + ROW > top + surface.height) this.scrolled.scrollTo(y + ROW - surface.height);
    fill(this.spoken, this.describe(box).join(', '));
    this.scrolled.ask();
  }

  key(event: KeyboardEvent): boolean {
    const way = WAYS[event.key];
    if (this.tree === null || this.tree.bytes[ROOT] === 0) return false;
    if (event.key === 'Escape' || event.key === 'Backspace') return this.back();
    if (way !== undefined) this.walk(way);
    else if (event.key === 'Enter' && this.focused !== null) this.zoom(this.focused);
    else return false;
    return true;
  }

  picture(): Picture | null {
    const tree = this.tree;
    if (tree === null || tree.bytes[ROOT] === 0) return null;
    const width = Math.max(800, this.scrolled.surface.width);
    const view = { ...this.view(width), focused: null, hovered: null };
    const height = ROW * (view.boxes.reduce((deepest, box) => Math.max(deepest, box.depth), 0) + 1);
    const title = `${this.app.run().file}, ${this.app.device().name}: ${this.words(tree, this.app.store.state)}`;
    return titledPicture('flame', title, width, height, (pen) => drawFlame(pen, view, 0, height));
  }
}

export function makeFlamePanel(app: App): Panel {
  return new FlamePanel(app);
}
