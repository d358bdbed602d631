// The whole run in a strip, with the part that is shown as a window that can be dragged and widened.

import type { Device } from '../../data/model';
import type { Highest } from '../../data/live';
import { makeSurface } from '../../look/canvas';
import { themeColours, type ThemeColours } from '../../look/colours';
import type { Range } from '../../picture/columns';
import { centred, fitted, panned } from '../../picture/view';
import { cornersOf, highestLive, highestOfLine } from './lines';
import { canvasPen } from './pen';
import { instantAt, LEFT, RIGHT, xOf, type Plot } from './plot';

export interface Overview {
  readonly element: HTMLElement;
  draw(device: Device, highest: Highest, range: Range): void;
}

const GRIP = 7; // CSS pixels at an edge of the window

export function makeOverview(range: () => Range, move: (range: Range) => void): Overview {
  let shown: { device: Device; highest: Highest } | null = null;
  let below: { device: Device; colours: ThemeColours } | null = null;
  const whole = document.createElement('canvas'); // the run, without the window
  const surface = makeSurface(() => {
    below = null;
    if (shown !== null) draw(shown.device, shown.highest, range());
  });
  surface.element.classList.add('timeline-overview');
  surface.canvas.setAttribute('aria-hidden', 'true'); // the picture's own keys do the same

  const plotOf = (device: Device, highest: Highest): Plot => ({
    left: LEFT,
    top: 2,
    width: Math.max(1, surface.width - LEFT - RIGHT),
    height: Math.max(1, surface.height - 4),
    from: 0,
    to: device.lastInstant,
    highest: Math.max(512, highest.over(0, device.lastInstant), device.header.peak_reserved_bytes ?? 0) * 1.05,
  });

  const drawRun = (device: Device, highest: Highest, plot: Plot, colours: ThemeColours): void => {
    const pen = canvasPen(surface.context), floor = plot.top + plot.height;
    surface.context.clearRect(0, 0, surface.width, surface.height);
    pen.rect(plot.left, plot.top, plot.width, plot.height, colours.surface);
    for (const line of cornersOf(highestLive(highest, plot, plot.width, device.lastInstant), plot))
      pen.area([[line[0]![0], floor], ...line, [line[line.length - 1]![0], floor]], colours.muted);
    for (const line of cornersOf(highestOfLine(device.reserved, plot, plot.width, device.lastInstant), plot)) pen.line(line, { colour: colours.accent });
    pen.text(plot.left - 8, plot.top + plot.height / 2, 'whole run', { colour: colours.muted, align: 'right' });
  };

  const draw = (device: Device, highest: Highest, seen: Range): void => {
    shown = { device, highest };
    if (surface.measure()) below = null;
    const { context, canvas } = surface, plot = plotOf(device, highest), colours = themeColours();
    if (below === null || below.device !== device || below.colours !== colours) {
      drawRun(device, highest, plot, colours);
      whole.width = canvas.width;
      whole.height = canvas.height;
      whole.getContext('2d')?.drawImage(canvas, 0, 0);
      below = { device, colours };
    } else {
      context.clearRect(0, 0, surface.width, surface.height);
      context.drawImage(whole, 0, 0, surface.width, surface.height);
    }
    const pen = canvasPen(context), left = xOf(plot, seen.from), right = Math.max(left + 2, xOf(plot, seen.to + 1));
    pen.rect(plot.left, plot.top, left - plot.left, plot.height, colours.ground, 0.65);
    pen.rect(right, plot.top, plot.left + plot.width - right, plot.height, colours.ground, 0.65);
    pen.frame(left, plot.top + 0.5, right - left, plot.height - 1, { colour: colours.accent, width: 1.5 });
  };

  const { canvas } = surface;
  let drag: { kind: 'move' | 'from' | 'to'; at: number; range: Range } | null = null;
  const kindAt = (x: number, plot: Plot): 'move' | 'from' | 'to' | null => {
    const { from, to } = range(), left = xOf(plot, from), right = xOf(plot, to + 1);
    if (Math.abs(x - left) <= GRIP && x < (left + right) / 2) return 'from';
    if (Math.abs(x - right) <= GRIP) return 'to';
    return x > left && x < right ? 'move' : null;
  };
  const xIn = (event: PointerEvent): number => event.clientX - canvas.getBoundingClientRect().left;
  canvas.addEventListener('pointerdown', (event) => {
    if (shown === null || event.button !== 0) return;
    const plot = plotOf(shown.device, shown.highest), x = xIn(event), at = instantAt(plot, x);
    if (event.isTrusted) canvas.setPointerCapture(event.pointerId);
    const kind = kindAt(x, plot);
    if (kind === null) move(centred(range(), Math.floor(at), shown.device.lastInstant));
    drag = { kind: kind ?? 'move', at, range: kind === null ? centred(range(), Math.floor(at), shown.device.lastInstant) : range() };
  });
  canvas.addEventListener('pointermove', (event) => {
    if (shown === null) return;
    const plot = plotOf(shown.device, shown.highest), last = shown.device.lastInstant;
    if (drag === null) {
      const kind = kindAt(xIn(event), plot);
      canvas.style.cursor = kind === 'move' ? 'grab' : kind === null ? 'pointer' : 'ew-resize';
      return;
    }
    const by = instantAt(plot, xIn(event)) - drag.at, { from, to } = drag.range;
    if (drag.kind === 'move') move(panned(drag.range, by, last));
    else if (drag.kind === 'from') move(fitted({ from: Math.max(0, Math.min(from + by, to - 7)), to }, last));
    else move(fitted({ from, to: Math.min(last, Math.max(to + by, from + 7)) }, last));
  });
  const end = (): void => void (drag = null);
  canvas.addEventListener('pointerup', end);
  canvas.addEventListener('pointercancel', end);
  return { element: surface.element, draw };
}
