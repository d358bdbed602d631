// What the marks above the picture mean: those that the recording has.

import { themeColours, type ThemeColours } from '../../look/colours';
import { fill, h, svg } from '../../look/h';
import type { Device } from '../../data/model';
import { drawMark, lookOfKinds } from './marks';
import { svgPen } from './pen';

export interface MarkLegend {
  readonly element: HTMLElement;
  update(device: Device): void;
}

export function makeMarkLegend(): MarkLegend {
  const element = h('ul', { class: 'timeline-marks', 'aria-label': 'Marks', hidden: true });
  let shown: { device: Device; theme: ThemeColours } | null = null;
  return {
    element,
    update(device) {
      const theme = themeColours();
      if (shown?.device === device && shown.theme === theme) return;
      shown = { device, theme };
      const looks = lookOfKinds(device.marks);
      element.hidden = looks.length === 0;
      fill(
        element,
        ...looks.map(({ kind, name, what }) => {
          const picture = svg('svg', { width: 16, height: 16, viewBox: '0 0 16 16', 'aria-hidden': 'true' });
          drawMark(svgPen(picture), 8, 8, kind, theme);
          return h('li', {}, picture, h('b', {}, name), ` ${what}`);
        }),
      );
    },
  };
}
