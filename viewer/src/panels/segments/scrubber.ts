// A small picture of the whole run, over which the cursor is dragged.

import type { App } from '../../app/panel';
import type { State } from '../../app/state';
import type { Device } from '../../data/model';
import { makeSurface } from '../../look/canvas';
import { themeColours } from '../../look/colours';
import { h } from '../../look/h';
import { CanvasPen } from '../../look/pen';
import { bytes } from '../../look/units';
import { instantText, Kept } from '../shared/moment';
import { instantAtPlace, placeOf, scrubColumns, type ScrubColumns } from './moves';

export interface Scrubber {
  readonly element: HTMLElement;
  update(state: State): void;
}

export function makeScrubber(app: App): Scrubber {
  const surface = makeSurface(() => draw());
  const kept = new Kept<ScrubColumns>();
  const { element } = surface;
  element.classList.add('scrubber');
  element.tabIndex = 0;
  element.setAttribute('role', 'slider');
  element.setAttribute('aria-label', 'Instant');
  const words = h('span', { class: 'scrub-words', 'aria-hidden': 'true' });
  element.appendChild(words);

  const take = (event: PointerEvent): void => {
    const place = element.getBoundingClientRect();
    app.store.set({ cursor: instantAtPlace(app.device(), event.clientX - place.left, place.width) });
  };
  element.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    element.setPointerCapture(event.pointerId);
    take(event);
  });
  element.addEventListener('pointermove', (event) => {
    if (element.hasPointerCapture(event.pointerId)) take(event);
  });

  const drawLine = (pen: CanvasPen, values: Float64Array, y: (value: number) => number, colour: string, isFilled: boolean): void => {
    const points: number[] = [];
    values.forEach((value, x) => points.push(x, y(value), x + 1, y(value)));
    if (isFilled) pen.area([0, y(0), ...points, values.length, y(0)], colour, 0.35);
    pen.line(points, colour, 1.25);
  };

  const drawMarks = (pen: CanvasPen, device: Device): void => {
    const { danger } = themeColours();
    for (const mark of device.marks) {
      if (mark.kind !== 'oom') continue;
      const x = placeOf(device, mark.instant, surface.width);
      pen.line([x, 0, x, surface.height], danger, 1.5, [3, 2]);
    }
  };

  const draw = (): void => {
    surface.measure();
    if (surface.width < 2) return;
    const device = app.device(), { state } = app.store, theme = themeColours(), { width, height } = surface;
    const columns = kept.get(`${state.run} ${state.device} ${width}`, () => scrubColumns(device, app.highestLiveOf(device), width));
    const pen = new CanvasPen(surface.context, surface.ratio), y = (value: number): number => height - 2 - (value / columns.top) * (height - 6);
    pen.rect(0, 0, width, height, theme.surface);
    drawLine(pen, columns.live, y, theme.accent, true);
    if (device.reserved.instant.length > 0) drawLine(pen, columns.reserved, y, theme.muted, false);
    drawMarks(pen, device);
    const x = placeOf(device, state.cursor, width);
    pen.line([x, 0, x, height], theme.pinned, 2);
    pen.rect(x - 4, 0, 8, 5, theme.pinned);
  };

  return {
    element,
    update(state) {
      const device = app.device(), live = app.liveOf(device)[state.cursor] ?? 0;
      element.hidden = !device.header.has_trace;
      element.setAttribute('aria-valuemin', '0');
      element.setAttribute('aria-valuemax', String(device.lastInstant));
      element.setAttribute('aria-valuenow', String(state.cursor));
      words.textContent = `${instantText(device, state.cursor)}, ${bytes(live)} live`;
      element.setAttribute('aria-valuetext', words.textContent);
      if (!element.hidden) draw();
    },
  };
}
