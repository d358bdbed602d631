// Pointer and wheel on the picture. What they mean is told to `acts`; where things are is asked of it.

import { between, panned, pinched, wheelMove, zoomed } from '../../picture/view';
import { spanOf, type Range } from '../../picture/columns';
import type { Plot } from './plot';

export interface PointerActs {
  plot(): Plot;
  range(): Range;
  lastInstant(): number;
  move(range: Range): void;
  hover(x: number, y: number, event: MouseEvent): void;
  leave(): void;
  click(x: number, y: number): void;
  /** While a range is selected: its edges in CSS pixels; null: it is done. */
  select(edges: readonly [number, number] | null): void;
}

const FAR_ENOUGH = 4; // CSS pixels: a drag, not a click

export function listenToPointer(canvas: HTMLElement, acts: PointerActs): void {
  const held = new Map<number, number>(); // pointers: their x
  let start: { x: number; y: number; range: Range; isSelecting: boolean } | null = null;
  let pinch: { at: [number, number]; range: Range } | null = null;
  let isDragging = false;

  const placeOf = (event: MouseEvent): [number, number] => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const shareOf = (x: number): number => (x - acts.plot().left) / acts.plot().width;
  const twoShares = (): [number, number] => {
    const [one, other] = [...held.values()];
    return [shareOf(one!), shareOf(other!)];
  };

  canvas.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    const [x, y] = placeOf(event);
    held.set(event.pointerId, x);
    if (event.isTrusted) canvas.setPointerCapture(event.pointerId);
    if (held.size === 2) {
      pinch = { at: twoShares(), range: acts.range() };
      start = null;
      acts.select(null);
    } else if (held.size === 1) {
      start = { x, y, range: acts.range(), isSelecting: event.shiftKey };
      isDragging = false;
    }
  });

  canvas.addEventListener('pointermove', (event) => {
    const [x, y] = placeOf(event);
    if (held.has(event.pointerId)) held.set(event.pointerId, x);
    if (pinch !== null && held.size === 2) {
      acts.move(pinched(pinch.range, pinch.at, twoShares(), acts.lastInstant()));
      return;
    }
    if (start === null || !held.has(event.pointerId)) {
      if (held.size === 0) acts.hover(x, y, event);
      return;
    }
    if (!isDragging && Math.hypot(x - start.x, y - start.y) < FAR_ENOUGH) return;
    isDragging = true;
    canvas.classList.toggle('dragged', !start.isSelecting);
    acts.leave();
    if (start.isSelecting) acts.select([start.x, x]);
    else acts.move(panned(start.range, ((start.x - x) / acts.plot().width) * spanOf(start.range), acts.lastInstant()));
  });

  const release = (event: PointerEvent, isDone: boolean): void => {
    if (!held.delete(event.pointerId)) return;
    canvas.classList.remove('dragged');
    if (pinch !== null) {
      pinch = null;
      start = null;
      return;
    }
    if (start === null) return;
    const [x, y] = placeOf(event), begun = start;
    start = null;
    if (begun.isSelecting) acts.select(null);
    if (!isDone) return;
    if (!isDragging) acts.click(x, y);
    else if (begun.isSelecting) acts.move(between(begun.range, shareOf(begun.x), shareOf(x), acts.lastInstant()));
  };
  canvas.addEventListener('pointerup', (event) => release(event, true));
  canvas.addEventListener('pointercancel', (event) => release(event, false));
  canvas.addEventListener('pointerleave', () => acts.leave());

  canvas.addEventListener('dblclick', (event) => {
    acts.move(zoomed(acts.range(), event.shiftKey ? 2.5 : 0.4, shareOf(placeOf(event)[0]), acts.lastInstant()));
    event.preventDefault();
  });
  canvas.addEventListener(
    'wheel',
    (event) => {
      event.preventDefault();
      const move = wheelMove(event), range = acts.range();
      if (move.kind === 'pan') acts.move(panned(range, (move.pixels / acts.plot().width) * spanOf(range), acts.lastInstant()));
      else acts.move(zoomed(range, move.factor, Math.max(0, Math.min(1, shareOf(placeOf(event)[0]))), acts.lastInstant()));
    },
    { passive: false },
  );
}
