// Beside the map: what pins the range that was clicked, the pinned block, and the segments with most
// idle bytes.

import type { App } from '../../app/panel';
import type { State } from '../../app/state';
import { NONE } from '../../data/model';
import { fill, h, type Child } from '../../look/h';
import { bytes, count } from '../../look/units';
import { frameLines } from '../table/detail';
import { groupName } from './draw';
import { byIdle, pinning, rangeOfBlock, type Layout } from './layout';
import { addressText, blockCount, blockWords, pinnerWords, pinningWords } from './words';

const MOST_SEGMENTS = 60, MOST_PINNERS = 200;

export interface SideActions {
  chooseRange(range: number | null): void;
  showSegment(segment: number): void;
  pin(block: number): void;
}

export interface Side {
  readonly element: HTMLElement;
  update(layout: Layout, state: State, chosen: number | null): void;
}

/** Up and down move between the buttons of a list; one of them is in the order of Tab. */
function roving(list: HTMLElement): void {
  const buttons = (): HTMLButtonElement[] => [...list.querySelectorAll('button')];
  list.addEventListener('keydown', (event) => {
    const all = buttons(), at = all.indexOf(document.activeElement as HTMLButtonElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (at < 0 || to === undefined || all[to] === undefined) return;
    event.preventDefault();
    all[at]!.tabIndex = -1;
    all[to].tabIndex = 0;
    all[to].focus();
  });
}

/** New entries in a list; the focus stays at its place in it. */
function refill(list: HTMLElement, entries: readonly HTMLElement[], ...after: Child[]): void {
  const before = [...list.querySelectorAll('button')].indexOf(document.activeElement as HTMLButtonElement);
  fill(list, ...entries.map((entry) => h('li', {}, entry)), ...after);
  const buttons = list.querySelectorAll('button');
  buttons.forEach((button, i) => (button.tabIndex = i === Math.max(0, before) ? 0 : -1));
  if (before >= 0) buttons[Math.min(before, buttons.length - 1)]?.focus({ preventScroll: true });
}

export function makeSide(app: App, actions: SideActions): Side {
  const range = h('section', { hidden: true }), block = h('section', { hidden: true });
  const pinners = h('ul', { class: 'side-list', 'aria-label': 'Blocks that hold it' });
  const segments = h('ul', { class: 'side-list', 'aria-label': 'Segments by idle bytes' });
  roving(pinners);
  roving(segments);
  const element = h('aside', { class: 'segments-side' }, range, block, h('section', {}, h('h3', {}, 'Segments by idle bytes'), segments));

  const closing = (label: string, close: () => void): HTMLElement =>
    h('button', { type: 'button', class: 'close', 'aria-label': label, title: label, onclick: close }, '\u00d7');

  const showRange = (layout: Layout, chosen: number | null): void => {
    range.hidden = chosen === null;
    if (chosen === null) return;
    const device = app.device(), { stacks } = app.run(), found = pinning(device, layout, chosen);
    const segment = layout.segments[found.segment]!, { size, address } = layout.ranges;
    fill(
      range,
      h('h3', {}, `${bytes(size[chosen]!)} idle`, closing('Close', () => actions.chooseRange(null))),
      h('p', { class: 'muted' }, `at ${addressText(address[chosen]!)}, in a segment of ${bytes(segment.reserved)} of the ${groupName(device, segment)}`),
      h('p', {}, pinningWords(found)),
      pinners,
    );
    const entries = found.blocks.slice(0, MOST_PINNERS).map((one) =>
      h('button', { type: 'button', onclick: () => actions.pin(one) }, pinnerWords(device, stacks, one)),
    );
    const more = found.blocks.length - entries.length;
    refill(pinners, entries, more > 0 && h('li', { class: 'muted' }, `and ${count(more)} more`));
  };

  const showBlock = (layout: Layout, pinned: number | null): void => {
    block.hidden = pinned === null;
    if (pinned === null) return;
    const device = app.device(), stacks = app.stacks(), isHere = rangeOfBlock(layout, pinned) >= 0;
    const lines = frameLines(stacks, device.blocks.stack[pinned] ?? NONE).map((line) =>
      h('li', { class: line.kind === 'frame' && line.isWhere ? 'is-where' : null }, line.text),
    );
    fill(
      block,
      h('h3', {}, 'Pinned block', closing('Unpin', () => app.store.set({ pinned: null, stack: null }))),
      ...blockWords(device, stacks, pinned, layout.instant).map((text) => h('p', {}, text)),
      isHere ? null : h('p', { class: 'muted' }, 'It is not live at this instant.'),
      h('ul', { class: 'stack-lines' }, ...lines),
    );
  };

  const showSegments = (layout: Layout): void => {
    const sorted = byIdle(layout), most = layout.segments[sorted[0] ?? -1]?.idle ?? 1;
    const entries = sorted.slice(0, MOST_SEGMENTS).map((number) => {
      const segment = layout.segments[number]!, bar = h('i', { 'aria-hidden': 'true' });
      bar.style.width = `${(100 * segment.idle) / most}%`;
      const held = segment.blocks === 0 ? 'no block in it' : `${blockCount(segment.blocks)} with ${bytes(segment.live)}`;
      return h(
        'button',
        { type: 'button', onclick: () => actions.showSegment(number), title: `at ${addressText(segment.address)}` },
        bar,
        h('b', {}, `${bytes(segment.idle)} idle`),
        ` of ${bytes(segment.reserved)}: ${held}${segment.isExpandable ? ', expandable' : ''}`,
      );
    });
    const more = sorted.length - entries.length;
    refill(segments, entries, more > 0 && h('li', { class: 'muted' }, `and ${count(more)} more`), sorted.length === 0 && h('li', { class: 'muted' }, 'Nothing is idle.'));
  };

  return {
    element,
    update(layout, state, chosen) {
      showRange(layout, chosen);
      showBlock(layout, state.pinned);
      showSegments(layout);
    },
  };
}
