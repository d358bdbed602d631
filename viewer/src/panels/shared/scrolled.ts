// A picture that is higher than its box: the canvas stays as large as the box, and only what can be
// seen is drawn.

import './scrolled.css';
import { makeSurface, type Surface } from '../../look/canvas';
import { h } from '../../look/h';

export interface Scrolled {
  readonly element: HTMLElement; // scrolls, and takes the focus
  readonly surface: Surface;
  /** Of the whole picture. */
  setHeight(height: number): void;
  readonly top: number;
  scrollTo(top: number): void;
  /** Draws soon, once. */
  ask(): void;
}

export function makeScrolled(label: string, draw: () => void): Scrolled {
  let isAsked = false, height = 0;
  const ask = (): void => {
    if (isAsked) return;
    isAsked = true;
    requestAnimationFrame(() => {
      isAsked = false;
      fitSpacer();
      if (element.clientWidth > 0) draw();
    });
  };
  const surface = makeSurface(ask);
  const spacer = h('div', { 'aria-hidden': 'true' });
  const element = h('div', { class: 'scrolled', tabindex: 0, role: 'group', 'aria-label': label, onscroll: ask }, surface.element, spacer);
  const fitSpacer = (): void => {
    surface.measure();
    spacer.style.height = `${Math.max(0, Math.ceil(height) - element.clientHeight)}px`;
  };
  return {
    element,
    surface,
    setHeight(now) {
      height = now;
      fitSpacer();
    },
    get top() {
      return element.scrollTop;
    },
    scrollTo(top) {
      element.scrollTop = top;
    },
    ask,
  };
}
