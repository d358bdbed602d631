// A word at the edge of the page, for a moment. Read aloud where the page is.

import { h } from '../look/h';

const SHOWN_MS = 4000;

export interface Toast {
  readonly element: HTMLElement;
  say(text: string): void;
}

export function makeToast(): Toast {
  const element = h('div', { class: 'toast', role: 'status', 'aria-live': 'polite' });
  let timer = 0;
  return {
    element,
    say(text) {
      window.clearTimeout(timer);
      element.textContent = text;
      element.classList.add('said');
      timer = window.setTimeout(() => element.classList.remove('said'), SHOWN_MS);
    },
  };
}
