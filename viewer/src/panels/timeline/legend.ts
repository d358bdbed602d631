// What the colours stand for. A line can be pressed: what is of that kind stands out.

import type { Device } from '../../data/model';
import { liveAt } from '../../data/live';
import { fill, h } from '../../look/h';
import { bytes } from '../../look/units';
import type { Scheme } from '../../picture/schemes';
import { eventText } from '../../data/events';

export interface Legend {
  readonly element: HTMLElement;
  update(scheme: Scheme, device: Device, cursor: number, lit: number | null): void;
}

export function makeLegend(pressed: (key: number) => void): Legend {
  const element = h('div', { class: 'timeline-legend' });
  let shown: readonly unknown[] = [];
  return {
    element,
    update(scheme, device, cursor, lit) {
      const now = [scheme, device, cursor, lit];
      if (now.every((value, i) => value === shown[i])) return;
      shown = now;
      const sums = new Map<number, number>();
      let total = 0;
      for (const block of liveAt(device.blocks, cursor)) {
        const key = scheme.keyOf(block), size = device.blocks.size[block]!;
        sums.set(key, (sums.get(key) ?? 0) + size);
        total += size;
      }
      const listed = scheme.keys.reduce((sum, key) => sum + (sums.get(key) ?? 0), 0);
      fill(
        element,
        h('span', { class: 'muted' }, device.header.has_trace ? `Live at ${eventText(cursor)}: ${bytes(total)}` : `Live at the end: ${bytes(total)}`),
        ...scheme.keys.map((key) =>
          h(
            'button',
            { type: 'button', 'aria-pressed': String(lit === key), title: scheme.nameOf(key), onclick: () => pressed(key) },
            swatch(scheme.colourOf(key)),
            h('span', { class: 'name' }, scheme.nameOf(key)),
            h('span', { class: 'muted' }, sums.has(key) ? bytes(sums.get(key)!) : '-'),
          ),
        ),
        total - listed > 0 ? h('span', { class: 'muted rest' }, `${scheme.keys.length > 0 ? 'others ' : ''}${bytes(total - listed)}`) : null,
      );
    },
  };
}

function swatch(colour: string): HTMLElement {
  const element = h('i', { class: 'swatch', 'aria-hidden': 'true' });
  element.style.background = colour;
  return element;
}
