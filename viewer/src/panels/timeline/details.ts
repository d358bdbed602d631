// What is pinned, beside the picture: the block, and the whole of its stack.

import { liveAt } from '../../data/live';
import { frameLabel } from '../../data/stacks';
import type { Device, Run, Stacks } from '../../data/model';
import type { App } from '../../app/panel';
import type { State } from '../../app/state';
import { fill, h, type Child } from '../../look/h';
import { eventText } from '../../data/events';
import { bytes, count } from '../../look/units';
import { fitted } from '../../picture/view';
import { addressOf, categoryOf, exactBytes, lifeOf, waitOf } from './words';

export interface Details {
  readonly element: HTMLElement;
  update(state: State): void;
}

function facts(...rows: (readonly [string, Child] | null)[]): HTMLElement {
  const list = h('dl', { class: 'timeline-facts' });
  for (const row of rows) if (row !== null) list.append(h('dt', {}, row[0]), h('dd', {}, row[1]));
  return list;
}

function stackList(stacks: Stacks, stack: number): HTMLElement {
  const frames = stacks.framesOf(stack), where = stacks.whereOf(stack);
  if (frames.length === 0) return h('p', { class: 'muted' }, 'No stack was recorded.');
  return h(
    'ol',
    { class: 'timeline-stack' },
    ...frames.map((frame) => h('li', { class: frame === where ? 'where' : null, title: `${frame.file}${frame.line > 0 ? `:${frame.line}` : ''}` }, frameLabel(frame))),
  );
}

/** Of all blocks of a stack: how many there are, and what is live at the cursor. */
function sumOf(device: Device, stack: number, cursor: number): { all: number; live: number; bytes: number } {
  const { blocks } = device;
  let all = 0, live = 0, sum = 0;
  for (let i = 0; i < blocks.count; i++) if (blocks.stack[i] === stack) all++;
  for (const block of liveAt(blocks, cursor)) {
    if (blocks.stack[block] !== stack) continue;
    live++;
    sum += blocks.size[block]!;
  }
  return { all, live, bytes: sum };
}

export function makeDetails(app: App): Details {
  const element = h('aside', { class: 'timeline-details', 'aria-label': 'What is pinned', hidden: true });
  let shown: readonly unknown[] = [];

  const blockPart = (run: Run, device: Device, block: number): HTMLElement => {
    const wait = waitOf(device, block), address = addressOf(device, block);
    return facts(
      ['Size', exactBytes(device.blocks.size[block]!)],
      ['Life', lifeOf(device, block)],
      wait === null ? null : ['Waits', wait],
      ['Category', categoryOf(run.stacks, device.blocks.stack[block]!)],
      ['Stream', device.header.streams[device.blocks.stream[block]!] ?? '?'],
      address === null ? null : ['Address', h('code', {}, address)],
    );
  };

  const zoomTo = (device: Device, block: number): void => {
    const { begin, end } = device.blocks, first = begin[block]!, last = Math.min(end[block]!, device.lastInstant);
    const beside = Math.max(4, (last - first) * 0.1);
    app.store.set(fitted({ from: Math.max(0, first - beside), to: Math.min(device.lastInstant, last + beside) }, device.lastInstant));
  };

  return {
    element,
    update(state) {
      const run = app.run(), device = app.device();
      const pinned = state.pinned !== null && state.pinned < device.blocks.count ? state.pinned : null;
      const stack = pinned !== null ? device.blocks.stack[pinned]! : state.stack;
      const now = [device, pinned, stack, state.cursor, state.frames];
      if (now.every((value, i) => value === shown[i])) return;
      shown = now;
      element.hidden = stack === null;
      if (stack === null) {
        fill(element);
        return;
      }
      const sum = sumOf(device, stack, state.cursor);
      fill(
        element,
        h(
          'header',
          {},
          h('h3', {}, pinned === null ? 'Stack' : `Block ${count(pinned)}`),
          h('button', { type: 'button', class: 'plain', title: 'Unpin (Esc)', 'aria-label': 'Unpin', onclick: () => app.store.set({ pinned: null, stack: null }) }, '×'),
        ),
        h('p', { class: 'timeline-where' }, run.stacks.labelOf(stack)),
        pinned === null ? null : blockPart(run, device, pinned),
        facts(
          ['Of this stack', `${count(sum.all)} block${sum.all === 1 ? '' : 's'}`],
          [`Live at ${eventText(state.cursor)}`, sum.live === 0 ? 'none' : `${count(sum.live)}, ${bytes(sum.bytes)}`],
        ),
        h(
          'p',
          { class: 'timeline-do' },
          pinned === null ? null : h('button', { type: 'button', class: 'plain', onclick: () => zoomTo(device, pinned) }, 'Show its whole life'),
          h('button', { type: 'button', class: 'plain', onclick: () => app.store.set({ tab: 'segments' }) }, 'Address map here'),
        ),
        h('h4', {}, 'Stack, innermost first'),
        stackList(app.stacks(), stack),
      );
    },
  };
}
