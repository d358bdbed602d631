// The box beside the pointer. It takes elements and texts, no markup, and stays inside the window.

import { fill, h, type Child } from './h';

const AWAY = 14; // from the pointer
const EDGE = 6; // from the window's

export interface Size {
  readonly width: number;
  readonly height: number;
}

/** Right below the pointer; on its other side where there is no room; never outside. */
export function placeTooltip(x: number, y: number, box: Size, room: Size): { left: number; top: number } {
  const along = (at: number, length: number, end: number): number => {
    const after = at + AWAY;
    const place = after + length <= end - EDGE ? after : at - AWAY - length;
    return Math.max(EDGE, Math.min(place, end - EDGE - length));
  };
  return { left: along(x, box.width, room.width), top: along(y, box.height, room.height) };
}

export interface Tooltip {
  readonly element: HTMLElement;
  /** At a place of the window (MouseEvent.clientX, clientY). */
  show(x: number, y: number, ...content: Child[]): void;
  hide(): void;
}

export function makeTooltip(parent: HTMLElement = document.body): Tooltip {
  const element = h('div', { class: 'tooltip', role: 'tooltip', hidden: true });
  parent.appendChild(element);
  return {
    element,
    show(x, y, ...content) {
      fill(element, ...content);
      element.hidden = false;
      element.style.left = element.style.top = '0';
      const box = element.getBoundingClientRect();
      const place = placeTooltip(x, y, box, { width: window.innerWidth, height: window.innerHeight });
      element.style.left = `${place.left}px`;
      element.style.top = `${place.top}px`;
    },
    hide() {
      element.hidden = true;
    },
  };
}
