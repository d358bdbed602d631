// A few choices side by side, one of them taken: radio buttons to the keyboard and to screen readers.

import { h } from './h';

export interface Choice<T extends string> {
  readonly value: T;
  readonly title: string;
}

export interface Segmented<T extends string> {
  readonly element: HTMLElement;
  /** Shows it as taken, without telling. */
  set(value: T): void;
}

let groups = 0;

export function makeSegmented<T extends string>(label: string, choices: readonly Choice<T>[], picked: (value: T) => void): Segmented<T> {
  const name = `segmented-${++groups}`;
  const inputs = choices.map(({ value }) => h('input', { type: 'radio', name, value, onchange: () => picked(value) }));
  const parts = choices.map(({ title }, i) => h('label', {}, inputs[i], h('span', {}, title)));
  return {
    element: h('div', { class: 'segmented', role: 'radiogroup', 'aria-label': label }, ...parts),
    set(value) {
      choices.forEach((choice, i) => (inputs[i]!.checked = choice.value === value));
    },
  };
}
