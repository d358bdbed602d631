// The field for the size of a card, which What-if and Leaks share: what is typed in one is in the other.

import type { App } from '../app/panel';
import { parseSize } from '../data/search';
import { h } from '../look/h';

const TYPED = new WeakMap<App, string>();

export interface CardField {
  readonly element: HTMLElement;
  /** Bytes; null: nothing was typed, or no size. */
  bytes(): number | null;
  /** Takes over what was typed elsewhere. */
  update(): void;
}

export function makeCardField(app: App, changed: () => void): CardField {
  const sizeOf = (text: string): number | null => {
    const size = parseSize(text.trim());
    return size !== null && size > 0 ? size : null;
  };
  const check = (): void => {
    const isWrong = input.value.trim() !== '' && sizeOf(input.value) === null;
    if (isWrong) input.setAttribute('aria-invalid', 'true');
    else input.removeAttribute('aria-invalid');
  };
  const input = h('input', {
    type: 'text',
    placeholder: '24GiB',
    size: 9,
    spellcheck: 'false',
    autocomplete: 'off',
    title: 'the memory of a card, such as 24GiB or 80G',
    oninput: () => {
      TYPED.set(app, input.value);
      check();
      changed();
    },
  });
  return {
    element: h('label', {}, 'Card size', input),
    bytes: () => sizeOf(input.value),
    update() {
      const typed = TYPED.get(app) ?? '';
      if (input.value !== typed) input.value = typed;
      check();
    },
  };
}
